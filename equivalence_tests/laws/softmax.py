"""Laws of softmax and its logarithm."""

from __future__ import annotations

import numpy as np

from equivalence_tests.arithmetic import ORACLE_UNIT, Array
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.axes import of
from equivalence_tests.laws.common import (
    Law,
    answer,
    differ,
    differs,
    first,
    normal,
    permutation,
    sizes,
    summed,
    values_of,
)
from equivalence_tests.ops import OPS


def _case(op: str, X: Array, dY: Array, axis: int = -1) -> Case:
    options = {} if axis == -1 else {"axis": axis}
    return Case({"X": X}, options, {f"d{OPS[op].outputs[0]}": dY})


def _drawn(op: str, draws: Draws, dtype: str) -> Case:
    shape = sizes(draws, "B m")
    return _case(op, 3.0 * normal(draws, shape, dtype), normal(draws, shape, dtype))


def _names(op: str) -> tuple[str, str]:
    return OPS[op].outputs[0], "dX"


def a_shift_of_a_row_changes_nothing(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(X + a) = f(X), a one number per row; integers, so that the shift is exact."""
    B, m = sizes(draws, "B m")
    X = np.round(3.0 * draws.normal((B, m)))
    shift = draws.rng.choice([-100.0, -7.0, 5.0, 90.0], (B, 1))
    dY = normal(draws, (B, m), dtype)
    plain, shifted = (answer(implementation, op, _case(op, x, dY), dtype) for x in (X, X + shift))
    return differ(_names(op), plain, shifted)


def permuting_the_entries_permutes_the_answer(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(X P) = f(X) P, P a permutation."""
    case = _drawn(op, draws, dtype)
    X, dY = case.operands["X"], next(iter(case.upstream.values()))
    order = permutation(draws, X.shape[-1])
    plain = answer(implementation, op, case, dtype)
    permuted = answer(implementation, op, _case(op, X[:, order], dY[:, order]), dtype)
    return differ(_names(op), plain, permuted, lambda array: array[:, order])


def any_axis_is_as_good(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f along an axis is f along the last, that axis moved there."""
    shape = sizes(draws, draws.choice(("B H n m", "B H m")))
    X, dY = normal(draws, shape, dtype), normal(draws, shape, dtype)
    axis = draws.choice((-2, 0, 1, -3))
    last = answer(implementation, op, _case(op, X, dY), dtype)
    moved = answer(implementation, op, _case(op, np.moveaxis(X, -1, axis), np.moveaxis(dY, -1, axis), axis), dtype)
    return differ(_names(op), last, moved, lambda array: np.moveaxis(array, -1, axis))


def the_gradient_sums_to_0(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum(dX) = 0 in every row: a shift of X changes nothing, so the gradient has no part along it."""
    values, budget = answer(implementation, op, _drawn(op, draws, dtype), dtype)
    total, tolerance = summed(values["dX"], budget["dX"])
    return differs("sum(dX)", total, 0.0, tolerance)


def a_row_of_minus_infinity_is_nan(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """exp(-inf) / sum(exp(-inf)) = 0 / 0; the other rows know nothing of it."""
    case = _drawn(op, draws, dtype)
    X = case.operands["X"].copy()
    row = draws.choice(range(len(X)))
    X[row] = -np.inf
    Y, dX = _names(op)
    plain = answer(implementation, op, case, dtype)
    got = values_of(implementation, op, _case(op, X, next(iter(case.upstream.values()))), dtype)
    if not np.isnan(got[Y][row]).all():
        return f"{Y} of a row of -inf is {got[Y][row][0]}, expected nan"
    others = np.arange(len(X)) != row
    return first(
        differs(
            f"{name} beside a row of -inf",
            got[name][others],
            plain.values[name][others],
            2 * plain.budget[name][others],
        )
        for name in (Y, dX)
    )


def rows_sum_to_1(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum(A) = 1 in every row."""
    values, budget = answer(implementation, "softmax", _drawn("softmax", draws, dtype), dtype)
    total, tolerance = summed(values["A"], budget["A"])
    return differs("sum(A)", total, 1.0, tolerance)


def a_constant_upstream_gives_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """dA = a throughout a row gives dX = 0: the row's sum is 1, whatever X is."""
    case = _drawn("softmax", draws, dtype)
    X = case.operands["X"]
    dA = np.broadcast_to(1.0 + np.abs(normal(draws, (len(X), 1), dtype)), X.shape).copy()
    values, budget = answer(implementation, "softmax", _case("softmax", X, dA), dtype)
    return differs("dX of a constant dA", values["dX"], 0.0, budget["dX"])


def its_exponential_sums_to_1(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum(exp Y) = 1 in every row; an error E of Y moves exp Y by exp(Y) (exp(E) - 1)."""
    values, budget = answer(implementation, "log_softmax", _drawn("log_softmax", draws, dtype), dtype)
    A = np.exp(values["Y"])
    total, tolerance = summed(A, A * (np.expm1(budget["Y"]) + 4.0 * ORACLE_UNIT))
    return differs("sum(exp(Y))", total, 1.0, tolerance)


def a_named_entry_pulls_its_own_row(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """dY = onehot gives dX = onehot - exp(Y): the gradient of the cross-entropy, with its sign turned."""
    case = _drawn("log_softmax", draws, dtype)
    X = case.operands["X"]
    onehot = np.eye(X.shape[1])[draws.rng.integers(0, X.shape[1], len(X))]
    values, budget = answer(implementation, "log_softmax", _case("log_softmax", X, onehot), dtype)
    A = np.exp(values["Y"])
    return differs("dX", values["dX"], onehot - A, budget["dX"] + A * (np.expm1(budget["Y"]) + 4.0 * ORACLE_UNIT))


_BOTH = (
    a_shift_of_a_row_changes_nothing,
    permuting_the_entries_permutes_the_answer,
    any_axis_is_as_good,
    the_gradient_sums_to_0,
    a_row_of_minus_infinity_is_nan,
)
LAWS: dict[str, tuple[Law, ...]] = {
    "softmax": (*(of("softmax", law) for law in _BOTH), rows_sum_to_1, a_constant_upstream_gives_0),
    "log_softmax": (
        *(of("log_softmax", law) for law in _BOTH),
        its_exponential_sums_to_1,
        a_named_entry_pulls_its_own_row,
    ),
}
