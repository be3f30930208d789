"""Laws of layer normalisation and of the linear layer."""

from __future__ import annotations

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array, round_to
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.common import (
    Law,
    answer,
    deviates,
    differ,
    differs,
    first,
    grid,
    normal,
    permutation,
    sizes,
    summed,
    unequal,
    values_of,
)


def _parameters(draws: Draws, d: int, dtype: str) -> dict[str, Array]:
    return {"scale": round_to(1.0 + draws.normal((d,)), PRECISIONS[dtype]), "shift": normal(draws, (d,), dtype)}


def _drawn(draws: Draws, dtype: str) -> Case:
    shape = sizes(draws, "B n d")
    X = normal(draws, shape, dtype)
    epsilon = draws.choice((1e-5, 0.5))
    return Case(
        {"X": X, **_parameters(draws, shape[-1], dtype)}, {"epsilon": epsilon}, {"dY": normal(draws, shape, dtype)}
    )


def a_shift_of_a_row_changes_nothing(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(X + a) = f(X), a one number per row; sixteenths, so that the shift is exact."""
    B, d = sizes(draws, "B d")
    X, dY = grid(draws, (B, d)), normal(draws, (B, d), dtype)
    parameters = _parameters(draws, d, dtype)
    a = draws.rng.choice([-5.0, -2.0, 3.0, 6.0], (B, 1))
    plain, shifted = (
        answer(implementation, "layer_norm", Case({"X": x, **parameters}, {}, {"dY": dY}), dtype) for x in (X, X + a)
    )
    return differ(("Y", "dX", "dscale", "dshift"), plain, shifted)


def the_gradient_sums_to_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum(dX) = 0 in every row: a shift of X changes nothing."""
    values, budget = answer(implementation, "layer_norm", _drawn(draws, dtype), dtype)
    total, tolerance = summed(values["dX"], budget["dX"])
    return differs("sum(dX)", total, 0.0, tolerance)


def the_gradient_of_the_shift_is_the_sum_of_dY(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """dshift = sum of dY over all rows."""
    case = _drawn(draws, dtype)
    values, budget = answer(implementation, "layer_norm", case, dtype)
    dY = case.upstream["dY"].astype(ORACLE).reshape(-1, len(values["dshift"]))
    total, own = summed(dY, np.zeros(dY.shape), 0)
    return differs("dshift", values["dshift"], total, budget["dshift"] + own)


def one_feature_is_all_shift(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """d = 1: X is its own mean, so Y = shift and dX = dscale = 0, exactly, however far X is from 0."""
    if deviates(implementation, one_feature_is_all_shift):
        return ""
    (B,) = sizes(draws, "B")
    far = draws.choice((1.0, 1e4) if dtype == "float16" else (1.0, 1e4, 1e6))
    operands = {"X": far * draws.normal((B, 1)), **_parameters(draws, 1, dtype)}
    got = values_of(implementation, "layer_norm", Case(operands, {}, {"dY": draws.normal((B, 1))}), dtype)
    expected = {"Y": np.broadcast_to(operands["shift"], (B, 1)), "dX": 0.0, "dscale": 0.0}
    return first(unequal(f"{name} of one feature", got[name], value) for name, value in expected.items())


def mean_0_and_variance_1(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With scale 1 and shift 0 every row of Y has the mean 0 and the biased variance var / (var + epsilon)."""
    case = _drawn(draws, dtype)
    X = case.operands["X"].astype(ORACLE)
    d = X.shape[-1]
    plain = Case({**case.operands, "scale": np.ones(d), "shift": np.zeros(d)}, case.options, case.upstream)
    values, budget = answer(implementation, "layer_norm", plain, dtype)
    Y, E = values["Y"], budget["Y"]
    total, tolerance = summed(Y, E)
    var = X.var(-1)
    squares, spread = summed(Y * Y, 2.0 * np.abs(Y) * E + E * E)
    rounding = 8.0 * d * ORACLE_UNIT * d  # ours, in var and in the quotient
    expected = d * var / (var + case.options["epsilon"])
    return differs("sum(Y)", total, 0.0, tolerance) or differs("sum(Y^2)", squares, expected, spread + rounding)


def a_large_mean_does_not_cancel(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """[40000, 40001, 40002, 40003] has the variance 1.25; mean(X^2) - mean(X)^2 has lost it in float32."""
    if dtype not in ("float64", "float32"):
        return ""  # these numbers are not there in half precision
    X = 40000.0 + np.stack([draws.rng.permutation(4) for _ in range(3)]).astype(np.float64)
    operands = {"X": X, "scale": np.ones(4), "shift": np.zeros(4)}
    values, budget = answer(implementation, "layer_norm", Case(operands, {}, {"dY": draws.normal((3, 4))}), dtype)
    expected = (X.astype(ORACLE) - ORACLE(40001.5)) / np.sqrt(ORACLE(1.25) + ORACLE(1e-5))
    return differs("Y of 40000 ... 40003", values["Y"], expected, budget["Y"] + 4.0 * ORACLE_UNIT * np.abs(expected))


def epsilon_stands_inside_the_root(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """X = +-a has mu = 0 and var = a^2: with epsilon = 3 a^2 the answer is X / sqrt(4 a^2), exactly +-1/2."""
    a = draws.choice((0.25, 0.5, 1.0, 2.0))
    signs = np.array([[1.0, -1.0, -1.0, 1.0], [-1.0, 1.0, -1.0, 1.0]])
    operands = {"X": a * signs, "scale": np.ones(4), "shift": np.zeros(4)}
    case = Case(operands, {"epsilon": 3.0 * a * a}, {"dY": draws.normal((2, 4))})
    values, budget = answer(implementation, "layer_norm", case, dtype)
    return differs("Y", values["Y"], 0.5 * signs, budget["Y"])


def an_epsilon_of_0_is_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """X = +-2^-12 with epsilon = 0 gives +-1: any epsilon put in its place would be far above the variance.

    In float16 the square of that is no number: X = +-2^-5, whose square is still stored without underflow.
    """
    a = 2.0**-5 if dtype == "float16" else 2.0**-12
    signs = np.array([[1.0, -1.0, -1.0, 1.0], [-1.0, 1.0, -1.0, 1.0]])
    operands = {"X": a * signs, "scale": np.ones(4), "shift": np.zeros(4)}
    case = Case(operands, {"epsilon": 0.0}, {"dY": normal(draws, (2, 4), dtype)})
    values, budget = answer(implementation, "layer_norm", case, dtype)
    return differs("Y of epsilon = 0", values["Y"], signs, budget["Y"])


def linear_is_additive(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(X + Z) + bias = f(X) + f(Z), and the gradients of weight add up; the sums X + Z are exact."""
    n, d, k = sizes(draws, "n d k")
    X, Z = grid(draws, (n, d)), grid(draws, (n, d))
    fixed = {"weight": normal(draws, (k, d), dtype), "bias": normal(draws, (k,), dtype)}
    dY = normal(draws, (n, k), dtype)
    one, other, both = (
        answer(implementation, "linear", Case({"X": x, **fixed}, {}, {"dY": dY}), dtype) for x in (X, Z, X + Z)
    )
    extra = {"Y": fixed["bias"], "dweight": np.zeros(())}
    for name, constant in extra.items():
        parts = [each.values[name] for each in (one, other)]
        budget = one.budget[name] + other.budget[name] + both.budget[name]
        budget = budget + 4.0 * ORACLE_UNIT * (np.abs(parts[0]) + np.abs(parts[1]) + np.abs(constant))
        if text := differs(f"{name} of a sum", both.values[name], parts[0] + parts[1] - constant, budget):
            return text
    return ""


def linear_of_0_is_the_bias(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """f(0) = bias, exactly; without one it is 0."""
    n, d, k = sizes(draws, "n d k")
    operands = {"X": np.zeros((n, d)), "weight": draws.normal((k, d)), "bias": normal(draws, (k,), dtype)}
    upstream = {"dY": draws.normal((n, k))}
    text = unequal(
        "Y of 0",
        values_of(implementation, "linear", Case(operands, {}, upstream), dtype)["Y"],
        np.broadcast_to(operands["bias"], (n, k)),
    )
    del operands["bias"]
    return text or unequal(
        "Y of 0 without bias", values_of(implementation, "linear", Case(operands, {}, upstream), dtype)["Y"], 0.0
    )


def a_selecting_weight_selects(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """weight = rows of the unit matrix: Y = X[:, chosen] + 0, dX = dY put back there; exactly."""
    n, d = sizes(draws, "n d")
    chosen = permutation(draws, d)[: max(d - 1, 1)]
    X, dY = normal(draws, (n, d), dtype), normal(draws, (n, len(chosen)), dtype)
    got = values_of(implementation, "linear", Case({"X": X, "weight": np.eye(d)[chosen]}, {}, {"dY": dY}), dtype)
    dX = np.zeros((n, d))
    dX[:, chosen] = dY
    return unequal("Y", got["Y"], X[:, chosen]) or unequal("dX", got["dX"], dX)


LAWS: dict[str, tuple[Law, ...]] = {
    "layer_norm": (
        a_shift_of_a_row_changes_nothing,
        the_gradient_sums_to_0,
        the_gradient_of_the_shift_is_the_sum_of_dY,
        one_feature_is_all_shift,
        mean_0_and_variance_1,
        a_large_mean_does_not_cancel,
        epsilon_stands_inside_the_root,
        an_epsilon_of_0_is_0,
    ),
    "linear": (linear_is_additive, linear_of_0_is_the_bias, a_selecting_weight_selects),
}
