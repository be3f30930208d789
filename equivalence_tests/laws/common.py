"""What the laws are written with: an implementation's answer with its budget, and comparisons that say what broke.

A tolerance is the sum of the budgets of what is compared; a law that holds to the last bit is compared to the last bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array, round_to
from equivalence_tests.cases import Case, Draws
from equivalence_tests.digits import side_by_side
from equivalence_tests.implementations import Implementation, run
from equivalence_tests.ops import OPS
from equivalence_tests.stages import AS_IT_IS, STORED

Law = Callable[[Implementation, str, Draws], str]
Values = dict[str, Array]

# Laws of which an implementation is known to break a part, and why that is not ours to mend.
DEVIATIONS: dict[tuple[str, str], str] = {
    ("torch_impl.fused", "nan_in_a_query_stays_in_its_row"): "torch's kernel for a V as wide as K gives zeros",
    ("torch_impl", "one_feature_is_all_shift"): "torch's layer norm of one element far from 0 is not exactly shift",
    ("torch_impl", "gelu_far_out_is_relu"): "torch's gradient is NaN where X^3 overflows in float32",
}


class Answered(NamedTuple):
    """Every output and gradient by name, in extended precision, and what each element of it may be wrong by."""

    values: Values
    budget: Values


class Broken(str):
    """What broke, and by how much: in budgets of what was compared, and relative to what was expected."""

    budgets: float
    relative: float

    def __new__(cls, text: str, budgets: float, relative: float) -> Broken:
        broken = super().__new__(cls, text)
        broken.budgets, broken.relative = budgets, relative
        return broken


def strength(what: str, dtype: str) -> float:
    """How far a law is broken, in budgets; in units of roundoff where it holds to the last bit. What is no number, has
    another shape or raises is infinitely far.
    """
    if not isinstance(what, Broken):
        return np.inf
    return what.budgets if np.isfinite(what.budgets) else what.relative / PRECISIONS[dtype].unit


def deviates(implementation: Implementation, law: Callable[..., str]) -> bool:
    return (implementation.name, law.__name__) in DEVIATIONS


def takes(implementation: Implementation, op: str, option: str) -> bool:
    """Whether the function has such an argument: what is not on offer is better not drawn."""
    return option in inspect.signature(implementation.forward(op)).parameters


def answer(implementation: Implementation, op: str, case: Case, dtype: str) -> Answered:
    """Run one case, forward and backward. A tensor that is missing is a KeyError, one of another shape a ValueError."""
    rounded = case.rounded(PRECISIONS[dtype])
    got = run(implementation, OPS[op], rounded, dtype)
    exact = OPS[op].exact(rounded, PRECISIONS[dtype], AS_IT_IS if implementation.ordinary else STORED)
    for name, truth in exact.items():
        if got[name].value.shape != truth.value.shape:
            raise ValueError(f"{name} has shape {got[name].value.shape}, expected {truth.value.shape}")
    values = {name: got[name].value.astype(ORACLE) for name in exact}
    return Answered(values, {name: truth.budget() for name, truth in exact.items()})


def values_of(implementation: Implementation, op: str, case: Case, dtype: str) -> Values:
    """The answer alone, where no budget is needed: for equality to the last bit, or where no number is finite."""
    got = run(implementation, OPS[op], case.rounded(PRECISIONS[dtype]), dtype)
    return {name: tensor.value.astype(ORACLE) for name, tensor in got.items()}


def differs(what: str, got: Array, expected: Any, budget: Any) -> str:
    """Nothing, or the element that is furthest beyond |got - expected| <= budget. NaN is never within."""
    got, expected = np.asarray(got), np.asarray(expected, ORACLE)
    if expected.ndim and expected.shape != got.shape:
        return f"{what} has shape {got.shape}, expected {expected.shape}"
    expected, allowed = np.broadcast_to(expected, got.shape), np.broadcast_to(budget, got.shape)
    with np.errstate(invalid="ignore"):  # inf - inf
        excess = np.where(np.isposinf(allowed), 0, np.abs(got - expected) - allowed)
    wrong = np.where(np.isfinite(expected), ~(excess <= 0), got != expected)
    if not wrong.any():
        return ""
    at = np.unravel_index(int(np.where(wrong, np.nan_to_num(excess, nan=np.inf), -np.inf).argmax()), got.shape)
    where = f"[{', '.join(str(int(i)) for i in at)}]" if at else ""
    mine, right = side_by_side(float(got[at]), float(expected[at]), digits=9)
    text = f"{what}{where} is {mine}, expected {right} within {float(allowed[at]):.2g}"
    with np.errstate(all="ignore"):
        apart = np.abs(got - expected)[wrong]
        budgets = float((apart / allowed[wrong]).max())
        scale = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (got, expected))
        relative = float(apart.max() / scale) if scale else np.inf
    return Broken(text, *(np.inf if np.isnan(x) else x for x in (budgets, relative)))


def unequal(what: str, got: Array, expected: Any) -> str:
    """Nothing, or the first element that is not the same number to the last bit (0 and -0 are the same number)."""
    return differs(what, got, expected, 0.0)


def differ(names: Sequence[str], one: Answered, other: Answered, move: Callable[[Array], Array] | None = None) -> str:
    """Compare two answers that should be equal, after `move` has reordered the tensors of the first."""
    moved = move or (lambda array: array)
    return first(
        differs(name, moved(one.values[name]), other.values[name], moved(one.budget[name]) + other.budget[name])
        for name in names
    )


def summed(values: Array, budget: Array, axis: int | tuple[int, ...] | None = -1) -> tuple[Array, Array]:
    """A sum, and the sum of its terms' budgets with what our own additions may lose."""
    own = np.abs(values).sum(axis) * (values.size * ORACLE_UNIT)
    return np.asarray(values.sum(axis)), np.asarray(budget.sum(axis) + own)


def product(values: Array, budget: Array, constant: Array) -> tuple[Array, Array]:
    """An elementwise product with a constant, and its budget."""
    return values * constant, budget * np.abs(constant)


def first(texts: Any) -> str:
    """The first text that is not empty. Give it a generator, and what comes after is not computed."""
    return next((text for text in texts if text), "")


def sizes(draws: Draws, names: str) -> tuple[int, ...]:
    """One size for each name, from 2 to 8 and pairwise different."""
    chosen: list[int] = []
    for _ in names.split():
        chosen.append(draws.choice([size for size in range(2, 9) if size not in chosen]))
    return tuple(chosen)


def normal(draws: Draws, shape: tuple[int, ...], dtype: str) -> Array:
    """Normal numbers of the format."""
    return round_to(draws.normal(shape), PRECISIONS[dtype])


def grid(draws: Draws, shape: tuple[int, ...]) -> Array:
    """Sixteenths between -6 and 6, about normal: sums of two, and products with powers of two, are exact in any format."""
    return np.clip(np.round(16.0 * draws.normal(shape)), -96, 96) / 16.0


def permutation(draws: Draws, size: int) -> Array:
    """A permutation that moves everything."""
    order = draws.rng.permutation(size)
    moved = np.empty(size, np.int64)
    moved[order] = np.roll(order, 1)
    return moved
