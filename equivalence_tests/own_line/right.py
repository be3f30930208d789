"""The values that right code may bind: lines of the formula, blends of two of them, and numbers by name."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case, is_floating
from equivalence_tests.diagnosis.editing import Editing
from equivalence_tests.diagnosis.plain import evaluate
from equivalence_tests.diagnosis.sizes import factors
from equivalence_tests.ops import Op

LINE, STYLE, BLEND = (
    0,
    1,
    2,
)  # a line or an operand of the formula; what other styles bind; one operation on two of these
LARGEST = 20_000  # elements of a value; a blend of larger ones is not made
BLENDS = 1_500


@dataclass(frozen=True)
class Right:
    """A value with the name that it is told by."""

    name: str
    value: Array
    rank: int

    @functools.cached_property
    def narrow(self) -> Array:
        return narrowed(self.value)


def narrowed(value: Array) -> Array:
    """Without axes of length 1, and without those along which it only repeats itself."""
    narrow = np.asarray(value).squeeze()
    for axis in reversed(range(narrow.ndim)):
        if (
            narrow.shape[axis] > 1
            and narrow.size > narrow.shape[axis]
            and bool((narrow == narrow.take([0], axis)).all())
        ):
            narrow = narrow.take(0, axis)
    return narrow


def lines(op: Op, case: Case) -> list[Right]:
    """Operands, upstream gradients and every named line, in the order of the formula."""
    given = {**case.operands, **case.upstream, **{n: v for n, v in case.options.items() if is_floating(v)}}
    recorder = Editing(op, case)
    with np.errstate(all="ignore"):
        answered = evaluate(op, case, PRECISIONS["float64"], recorder)
    found: dict[str, Array] = {n: np.asarray(v, np.float64) for n, v in given.items() if isinstance(v, np.ndarray)}
    for name, number in {**recorder.lines}.items():
        found.setdefault(name, np.asarray(number.value, np.float64))
    found |= {name: np.asarray(value, np.float64) for name, value in answered.items()}
    return [Right(name, value, LINE) for name, value in found.items() if 0 < value.size <= LARGEST]


def blends(known: list[Right]) -> Iterator[Right]:
    """One operation on one or two of the lines: what a wrong line may hold, and right code of a style not foreseen."""
    small = [each for each in known if each.value.dtype.kind == "f" and each.value.size <= 700]
    count = 0
    for each in small:
        for axis in range(-each.value.ndim, 0):
            with np.errstate(all="ignore"):
                last = "" if axis == -1 else f", axis {axis}"
                yield Right(f"sum({each.name}{last})", each.value.sum(axis, keepdims=True), BLEND)
                yield Right(f"mean({each.name}{last})", each.value.mean(axis, keepdims=True), BLEND)
                yield Right(f"max({each.name}{last})", each.value.max(axis, keepdims=True), BLEND)
        with np.errstate(all="ignore"):
            yield Right(f"exp({each.name})", np.exp(each.value), BLEND)
            yield Right(f"{each.name}^2", each.value**2, BLEND)
            yield Right(f"1 - {each.name}^2", 1 - each.value**2, BLEND)
            yield Right(f"sum({each.name})", np.asarray(each.value.sum()), BLEND)
            yield Right(f"mean({each.name})", np.asarray(each.value.mean()), BLEND)
    main = [each for each in small if each.rank == LINE]
    for one, other in itertools.combinations(main, 2):
        if count > BLENDS:
            return
        a, b = one.value, other.value
        if _broadcasts(a, b):
            count += 4
            with np.errstate(all="ignore"):
                yield Right(f"{one.name} * {other.name}", a * b, BLEND)
                yield Right(f"{one.name} + {other.name}", a + b, BLEND)
                yield Right(f"{one.name} - {other.name}", a - b, BLEND)
                yield Right(f"{other.name} - {one.name}", b - a, BLEND)
        for (n, s), (m, t) in (((one.name, a), (other.name, b)), ((other.name, b), (one.name, a))):
            yield from _products(n, s, m, t)


def _products(n: str, s: Array, m: str, t: Array) -> Iterator[Right]:
    if (
        s.ndim < 2
        or t.ndim < 2
        or (s.ndim != t.ndim and t.ndim != 2)
        or (s.ndim == t.ndim and s.shape[:-2] != t.shape[:-2])
    ):
        return
    turned, back = t.swapaxes(-1, -2), s.swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        if s.shape[-1] == t.shape[-2]:
            yield Right(f"{n} {m}", s @ t, BLEND)
        if s.shape[-1] == t.shape[-1]:
            yield Right(f"{n} {m}^T", s @ turned, BLEND)
        if s.shape[-2] == t.shape[-2] and s.ndim == t.ndim:
            yield Right(f"{n}^T {m}", back @ t, BLEND)


def _broadcasts(a: Array, b: Array) -> bool:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return shape in (a.shape, b.shape)


def constants(op: Op, case: Case) -> dict[str, float]:
    """Numbers by name: sizes, roots, options."""
    found = factors(op, case, simple=True)
    for name in ("epsilon", "p", "scale"):
        if isinstance(case.options.get(name), float):
            found[name] = float(case.options[name])
    if op.name == "layer_norm":
        found.setdefault("epsilon", 1e-5)
    if op.name == "gelu":
        found |= {"0.044715": 0.044715, "sqrt(2/pi)": float(np.sqrt(2 / np.pi)), "3 0.044715": 3 * 0.044715}
    found |= {"1": 1.0, "0": 0.0}
    return found
