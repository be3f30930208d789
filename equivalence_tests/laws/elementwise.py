"""Laws of relu, tanh, gelu and dropout."""

from __future__ import annotations

import math

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array, round_to
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.axes import of
from equivalence_tests.laws.common import (
    Law,
    answer,
    deviates,
    differ,
    differs,
    first,
    normal,
    sizes,
    unequal,
    values_of,
)


def _drawn(draws: Draws, dtype: str) -> Case:
    shape = sizes(draws, "n d")
    return Case({"X": 2.0 * normal(draws, shape, dtype)}, {}, {"dY": normal(draws, shape, dtype)})


def entry_by_entry(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Y_ij and dX_ij depend on X_ij alone: each is what it is by itself."""
    case = _drawn(draws, dtype)
    X, dY = case.operands["X"], case.upstream["dY"]
    whole = answer(implementation, op, case, dtype)
    i, j = (draws.choice(range(size)) for size in X.shape)
    alone = answer(implementation, op, Case({"X": X[i, j, ...]}, {}, {"dY": dY[i, j, ...]}), dtype)
    return first(
        differs(name, whole.values[name][i, j], value, whole.budget[name][i, j] + alone.budget[name])
        for name, value in alone.values.items()
    )


def nan_stays_in_its_entry(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """NaN in X_ij is NaN in Y_ij, and nowhere else."""
    case = _drawn(draws, dtype)
    X = case.operands["X"].copy()
    X.flat[draws.choice(range(X.size))] = np.nan
    got = values_of(implementation, op, Case({"X": X}, {}, case.upstream), dtype)
    return "" if np.array_equal(np.isnan(got["Y"]), np.isnan(X)) else "Y is not NaN where X is, and only there"


def positive_passes_and_the_rest_is_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """relu: Y = X and dX = dY where X > 0, else 0, exactly; at 0 too."""
    case = _drawn(draws, dtype)
    X, dY = case.operands["X"].copy(), case.upstream["dY"]
    X.flat[draws.choice(range(X.size))] = 0.0
    got = values_of(implementation, "relu", Case({"X": X}, {}, {"dY": dY}), dtype)
    return unequal("Y", got["Y"], np.where(X > 0, X, 0)) or unequal("dX", got["dX"], np.where(X > 0, dY, 0))


def however_large_it_passes(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """relu: numbers of thousands, and infinity, are what they were, to the last bit; -inf is 0."""
    case = _drawn(draws, dtype)
    X, dY = 2.0**12 * case.operands["X"], case.upstream["dY"]
    X.flat[:2] = np.inf, -np.inf
    X = round_to(X, PRECISIONS[dtype])
    got = values_of(implementation, "relu", Case({"X": X}, {}, {"dY": dY}), dtype)
    return unequal("Y", got["Y"], np.where(X > 0, X, 0)) or unequal("dX", got["dX"], np.where(X > 0, dY, 0))


def tanh_is_odd(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """tanh(-X) = -tanh(X), with the same slope."""
    case = _drawn(draws, dtype)
    plus, minus = (
        answer(implementation, "tanh", Case({"X": sign * case.operands["X"]}, {}, case.upstream), dtype)
        for sign in (1.0, -1.0)
    )
    odd = differs("tanh(-X)", minus.values["Y"], -plus.values["Y"], plus.budget["Y"] + minus.budget["Y"])
    return odd or differ(("dX",), plus, minus)


def tanh_ends_at_1(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """tanh(+-100) = +-1 with slope 0, however far out, and tanh(0) = 0 with slope 1."""
    far = draws.choice((100.0, 1000.0, 60000.0))
    X, dY = np.array([far, -far, 0.0]), normal(draws, (3,), dtype)
    values, budget = answer(implementation, "tanh", Case({"X": X}, {}, {"dY": dY}), dtype)
    value = differs("tanh", values["Y"], np.array([1.0, -1.0, 0.0]), budget["Y"])
    return value or differs("dX", values["dX"], np.array([0.0, 0.0, dY[2]]), budget["dX"])


def gelu_of_both_signs_differs_by_X(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """gelu(X) - gelu(-X) = X, and the slopes at X and -X add up to 1."""
    case = _drawn(draws, dtype)
    X, dY = case.operands["X"].astype(ORACLE), case.upstream["dY"].astype(ORACLE)
    plus, minus = (
        answer(implementation, "gelu", Case({"X": sign * case.operands["X"]}, {}, case.upstream), dtype)
        for sign in (1.0, -1.0)
    )
    budget = {name: plus.budget[name] + minus.budget[name] for name in ("Y", "dX")}
    own = 2.0 * ORACLE_UNIT * (np.abs(X) + np.abs(dY))
    value = differs("gelu(X) - gelu(-X)", plus.values["Y"] - minus.values["Y"], X, budget["Y"] + own)
    return value or differs("dX + dX(-X)", plus.values["dX"] + minus.values["dX"], dY, budget["dX"] + own)


def gelu_has_the_tanh_form(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Y = X (1 + tanh(sqrt(2/pi) (X + 0.044715 X^3))) / 2 at +-2.699, where the erf form is 4.7e-4 away."""
    if dtype not in ("float64", "float32"):
        return ""  # bfloat16 cannot tell the two forms apart
    X = round_to(np.array([2.699, -2.699]), PRECISIONS[dtype])
    values, budget = answer(implementation, "gelu", Case({"X": X}, {}, {"dY": draws.normal((2,))}), dtype)
    x = X.astype(ORACLE)
    inner = np.sqrt(ORACLE(2) / ORACLE(math.pi)) * (x + ORACLE(0.044715) * x**3)
    own = 2.0**-53 * np.abs(x)  # pi and 0.044715 are numbers of float64
    return differs("gelu(2.699)", values["Y"], x * (1 + np.tanh(inner)) / 2, budget["Y"] + own)


def gelu_far_out_is_relu(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """At 50 and beyond Y = X with slope 1, at -50 Y = 0 with slope 0, exactly: at 1e20, where X^3 overflows, too."""
    far = draws.choice((50.0, 400.0) if dtype == "float16" else (50.0, 400.0, 1e20))
    if far == 1e20 and dtype != "float64" and deviates(implementation, gelu_far_out_is_relu):
        return ""
    X = round_to(np.array([far, -far]), PRECISIONS[dtype])
    dY = normal(draws, (2,), dtype)
    got = values_of(implementation, "gelu", Case({"X": X}, {}, {"dY": dY}), dtype)
    return unequal(f"gelu(+-{far:g})", got["Y"], np.array([X[0], 0])) or unequal("dX", got["dX"], np.array([dY[0], 0]))


def _dropped(draws: Draws, dtype: str, p: float, keep: Array | None = None) -> Case:
    case = _drawn(draws, dtype)
    kept = draws.rng.random(case.operands["X"].shape) < 0.6 if keep is None else keep
    kept = kept.copy()
    kept.flat[:2] = True, False
    return Case(case.operands, {"keep": kept, "p": p}, case.upstream)


def kept_are_scaled_and_the_rest_is_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Y = X / (1 - p) and dX = dY / (1 - p) where keep, exactly 0 elsewhere; a kept 0 passes its gradient."""
    p = draws.choice((0.1, 0.3, 0.8))
    case = _dropped(draws, dtype, p)
    keep = case.options["keep"]
    case.operands["X"].flat[0] = 0.0  # kept
    values, budget = answer(implementation, "dropout", case, dtype)
    for name, origin in (("Y", case.operands["X"]), ("dX", case.upstream["dY"])):
        expected = origin.astype(ORACLE) / (1 - ORACLE(p))
        # p = 0.3 is a number of float64: 1 - p in float64 and in more digits differ by u.
        own = 2.0**-52 * np.abs(expected).astype(np.float64)
        text = differs(f"{name} where kept", values[name][keep], expected[keep], (budget[name] + own)[keep])
        if text := text or unequal(f"{name} where dropped", values[name][~keep], 0.0):
            return text
    return ""


def p_of_1_gives_zeros(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """p = 1: Y = dX = 0, exactly, whatever keep says."""
    got = values_of(implementation, "dropout", _dropped(draws, dtype, 1.0), dtype)
    return first(unequal(f"{name} of p = 1", got[name], 0.0) for name in ("Y", "dX"))


def p_of_0_only_selects(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """p = 0: what keep lets through is unchanged, to the last bit; keep = None lets everything through."""
    case = _dropped(draws, dtype, 0.0)
    for keep in (case.options["keep"], None):
        got = values_of(implementation, "dropout", Case(case.operands, {"keep": keep, "p": 0.0}, case.upstream), dtype)
        kept = True if keep is None else keep
        text = unequal("Y of p = 0", got["Y"], np.where(kept, case.operands["X"], 0.0))
        if text := text or unequal("dX of p = 0", got["dX"], np.where(kept, case.upstream["dY"], 0.0)):
            return text
    return ""


LAWS: dict[str, tuple[Law, ...]] = {
    "relu": (
        of("relu", entry_by_entry),
        of("relu", nan_stays_in_its_entry),
        positive_passes_and_the_rest_is_0,
        however_large_it_passes,
    ),
    "tanh": (of("tanh", entry_by_entry), of("tanh", nan_stays_in_its_entry), tanh_is_odd, tanh_ends_at_1),
    "gelu": (
        of("gelu", entry_by_entry),
        of("gelu", nan_stays_in_its_entry),
        gelu_of_both_signs_differs_by_X,
        gelu_has_the_tanh_form,
        gelu_far_out_is_relu,
    ),
    "dropout": (
        kept_are_scaled_and_the_rest_is_0,
        p_of_1_gives_zeros,
        p_of_0_only_selects,
    ),
}
