"""Laws of attention without a look at masks: symmetries, averages, scale, and the identities of its gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array, round_to
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.common import (
    Answered,
    Law,
    answer,
    deviates,
    differ,
    differs,
    first,
    grid,
    normal,
    permutation,
    product,
    sizes,
    summed,
    takes,
    unequal,
    values_of,
)

ALL = ("C", "dQ", "dK", "dV")
P = 0.3


def drawn(implementation: Implementation, draws: Draws, dtype: str, *options: str, op: str = "attention") -> Case:
    """Q, K, V in sixteenths, dC normal; of the options named each that is on offer is there or not."""
    options = tuple(option for option in options if takes(implementation, op, option))
    B, n, m, c, e = sizes(draws, "B n m c e")
    e = draws.choice((e, c))  # some kernels want V as wide as K
    operands = {"Q": grid(draws, (B, n, c)), "K": grid(draws, (B, m, c)), "V": grid(draws, (B, m, e))}
    settings: dict[str, Any] = {}
    if "mask" in options and draws.choice((False, True)):
        settings["mask"] = draws.rng.random((B, n, m)) < 0.7
    if "bias" in options and draws.choice((False, True)):
        settings["bias"] = grid(draws, (n, m))
    if "scale" in options and draws.choice((False, True)):
        settings["scale"] = draws.choice((0.5, -0.25))
    if "keep" in options and draws.choice((False, True)):
        settings |= {"keep": draws.rng.random((B, n, m)) >= P, "p": P}
    return Case(operands, settings, {"dC": normal(draws, (B, n, e), dtype)})


def changed(case: Case, **values: Any) -> Case:
    """The same case with other operands, options or upstream gradient, by name."""
    operands = {name: values.pop(name, array) for name, array in case.operands.items()}
    upstream = {name: values.pop(name, array) for name, array in case.upstream.items()}
    return Case(operands, {**case.options, **values}, upstream)


def attend(implementation: Implementation, case: Case, dtype: str) -> Answered:
    return answer(implementation, "attention", case, dtype)


def permuting_keys_and_values_changes_nothing(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With their mask, bias and dropout; dK and dV are permuted with them."""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep")
    order = permutation(draws, case.operands["K"].shape[-2])
    rows = {name: case.operands[name][..., order, :] for name in ("K", "V")}
    columns = {name: v[..., order] for name, v in case.options.items() if isinstance(v, np.ndarray)}
    plain, permuted = (attend(implementation, each, dtype) for each in (case, changed(case, **rows, **columns)))
    return differ(("C", "dQ"), plain, permuted) or differ(("dK", "dV"), plain, permuted, lambda x: x[..., order, :])


def permuting_queries_permutes_the_answer(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A query's row of C and of dQ goes with it; dK and dV do not care for the order."""
    case = drawn(implementation, draws, dtype, "scale")
    order = permutation(draws, case.operands["Q"].shape[-2])
    moved = changed(case, Q=case.operands["Q"][..., order, :], dC=case.upstream["dC"][..., order, :])
    plain, permuted = (attend(implementation, each, dtype) for each in (case, moved))
    return differ(("C", "dQ"), plain, permuted, lambda x: x[..., order, :]) or differ(("dK", "dV"), plain, permuted)


def only_the_product_of_Q_and_K_matters(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """(2 Q, K / 2) gives the same C and dV, dQ / 2 and 2 dK."""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale")
    other = changed(case, Q=2.0 * case.operands["Q"], K=0.5 * case.operands["K"])
    plain, scaled = (attend(implementation, each, dtype) for each in (case, other))
    factors = {"C": 1.0, "dQ": 2.0, "dK": 0.5, "dV": 1.0}
    return first(
        differs(name, x * scaled.values[name], plain.values[name], x * scaled.budget[name] + plain.budget[name])
        for name, x in factors.items()
    )


def linear_in_V(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """C, dQ and dK of V + U are the sums of those of V and U; dV is the same whatever V is."""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep")
    V = case.operands["V"]
    U = grid(draws, V.shape)
    one, other, both = (attend(implementation, changed(case, V=x), dtype) for x in (V, U, V + U))
    for name in ("C", "dQ", "dK"):
        total = one.values[name] + other.values[name]
        budget = one.budget[name] + other.budget[name] + both.budget[name] + ORACLE_UNIT * np.abs(total)
        if text := differs(f"{name} of V + U", both.values[name], total, budget):
            return text
    return differ(("dV",), one, other)


def one_key_is_all_there_is(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """m = 1: A = 1, so C = V in every row, dQ = dK = 0 and dV is the sum of dC."""
    case = drawn(implementation, draws, dtype, "scale")
    n = case.operands["Q"].shape[-2]
    one = changed(case, K=case.operands["K"][:, :1], V=case.operands["V"][:, :1])
    values, budget = attend(implementation, one, dtype)
    dV, own = summed(case.upstream["dC"].astype(ORACLE), np.zeros(case.upstream["dC"].shape), 1)
    expected = {"C": np.repeat(one.operands["V"], n, 1), "dQ": 0.0, "dK": 0.0, "dV": dV[:, None]}
    extra = {"C": 0.0, "dQ": 0.0, "dK": 0.0, "dV": own[:, None]}
    return first(
        differs(f"{name} of one key", values[name], x, budget[name] + extra[name]) for name, x in expected.items()
    )


def context_lies_between_the_values(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """min_j V <= C <= max_j V, column by column, over the keys that a query may attend to."""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    V = case.operands["V"] + draws.choice((4.0, -4.0))  # far from 0: an average whose weights miss 1 falls outside
    B, m, _ = V.shape
    mask = draws.rng.random((B, case.operands["Q"].shape[1], m)) < 0.6
    mask[..., draws.choice(range(m))] = True
    values, budget = attend(implementation, changed(case, V=V, mask=mask), dtype)
    seen = np.broadcast_to(V[:, None], (*mask.shape, V.shape[-1]))  # (B, n, m, e)
    low = np.where(mask[..., None], seen, np.inf).min(-2)
    high = np.where(mask[..., None], seen, -np.inf).max(-2)
    return differs("C", values["C"], np.clip(values["C"], low, high), budget["C"])


def no_scores_no_preference(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Q = 0: C is the mean of V over the keys that the boolean mask lets through (True = may attend)."""
    case = drawn(implementation, draws, dtype)
    (B, n, _), (_, m, e) = case.operands["Q"].shape, case.operands["V"].shape
    mask = draws.rng.random((B, n, m)) < 0.5
    mask[..., draws.choice(range(m))] = True
    values, budget = attend(implementation, changed(case, Q=np.zeros_like(case.operands["Q"]), mask=mask), dtype)
    V = case.operands["V"].astype(ORACLE)
    mean = (mask @ V) / mask.sum(-1, keepdims=True)
    return differs("C of Q = 0", values["C"], mean, budget["C"] + m * ORACLE_UNIT * np.abs(V).max() * np.ones(e))


def one_vector_on_all_keys_changes_nothing(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """It adds one number to every score of a row. (Sixteenths: the sum is exact.)"""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep")
    K = case.operands["K"]
    plain, shifted = (attend(implementation, changed(case, K=x), dtype) for x in (K, K + grid(draws, (K.shape[-1],))))
    return differ(ALL, plain, shifted)


def gradients_of_the_keys_sum_to_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum_j dK_j = 0: one vector on all keys changes nothing."""
    values, budget = attend(implementation, drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep"), dtype)
    total, tolerance = summed(values["dK"], budget["dK"], -2)
    return differs("sum of dK over the keys", total, 0.0, tolerance)


def queries_and_keys_share_one_gradient(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """<dQ, Q> = <dK, K>: both are <dOmega, Omega>."""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep")
    values, budget = attend(implementation, case, dtype)
    (left, first_error), (right, second_error) = (
        summed(*product(values[f"d{name}"], budget[f"d{name}"], case.operands[name]), (-2, -1)) for name in "QK"
    )
    return differs("<dQ, Q>", left, right, first_error + second_error)


def values_and_context_share_one_gradient(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """<dV, V> = <dC, C>: both are <dC, A V>, with dropout too."""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep")
    values, budget = attend(implementation, case, dtype)
    left, first_error = summed(*product(values["dV"], budget["dV"], case.operands["V"]), (-2, -1))
    right, second_error = summed(*product(values["C"], budget["C"], case.upstream["dC"]), (-2, -1))
    return differs("<dV, V>", left, right, first_error + second_error)


def the_scale_is_one_over_root_c(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Left out it is 1 / sqrt(c), c the width of Q and K and of nothing else."""
    case = drawn(implementation, draws, dtype, "mask", "bias")
    told = changed(case, scale=1.0 / math.sqrt(case.operands["Q"].shape[-1]))
    left_out, given = (attend(implementation, each, dtype) for each in (case, told))
    return differ(ALL, left_out, given)


def a_scale_is_honoured(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Scale s, 0 and negative too, is scale 1 with s Q for Q; the factors are powers of two."""
    case = drawn(implementation, draws, dtype, "mask", "bias")
    s = draws.choice((0.0, -0.5, 2.0, -1.0, 0.25))
    scaled = attend(implementation, changed(case, scale=s), dtype)
    product_ = attend(implementation, changed(case, scale=1.0, Q=s * case.operands["Q"]), dtype)
    dQ = differs(
        "dQ", scaled.values["dQ"], s * product_.values["dQ"], scaled.budget["dQ"] + abs(s) * product_.budget["dQ"]
    )
    return differ(("C", "dK", "dV"), scaled, product_) or dQ


def a_bias_is_one_more_feature(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A bias per key is what a further column of K would give, with ones in Q: it is added after scaling."""
    case = drawn(implementation, draws, dtype)
    Q, K = case.operands["Q"], case.operands["K"]
    bias, s = grid(draws, (K.shape[-2],)), draws.choice((0.5, 2.0))
    column = np.broadcast_to(bias[:, None] / s, (*K.shape[:-1], 1))
    wider = {"Q": np.concatenate([Q, np.ones((*Q.shape[:-1], 1))], -1), "K": np.concatenate([K, column], -1)}
    biased = attend(implementation, changed(case, bias=bias, scale=s), dtype)
    values, budget = attend(implementation, changed(case, scale=s, **wider), dtype)
    cut: dict[str, Array] = {"dQ": values["dQ"][..., :-1], "dK": values["dK"][..., :-1]}
    cut_budget: dict[str, Array] = {"dQ": budget["dQ"][..., :-1], "dK": budget["dK"][..., :-1]}
    return differ(ALL, biased, Answered({**values, **cut}, {**budget, **cut_budget}))


def dropout_does_not_renormalise(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """What is kept is divided by 1 - p: on the columns of one unit V this is A itself, entry by entry."""
    case = drawn(implementation, draws, dtype, "mask")
    m = case.operands["K"].shape[-2]
    B, n, _ = case.operands["Q"].shape
    keep = draws.rng.random((B, n, m)) >= P
    unit = changed(case, V=np.broadcast_to(np.eye(m), (B, m, m)).copy(), dC=normal(draws, (B, n, m), dtype))
    A = attend(implementation, unit, dtype)
    values, budget = attend(implementation, changed(unit, keep=keep, p=P), dtype)
    factor = np.where(keep, 1.0 / (1.0 - ORACLE(P)), 0.0)
    expected, error = product(A.values["C"], A.budget["C"] + 2.0 * ORACLE_UNIT * np.abs(A.values["C"]), factor)
    return differs("C of V = 1", values["C"], expected, budget["C"] + error)


def nan_in_a_query_stays_in_its_row(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """It spreads to that row of C, and to no other row, to the last bit."""
    if deviates(implementation, nan_in_a_query_stays_in_its_row):
        return ""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    Q = case.operands["Q"].copy()
    row = draws.choice(range(Q.shape[1]))
    Q[:, row, 0] = np.nan
    plain, got = (values_of(implementation, "attention", each, dtype)["C"] for each in (case, changed(case, Q=Q)))
    if not np.isnan(got[:, row]).all():
        return f"C of a NaN query is {float(got[:, row].flat[0]):.9g}, expected nan"
    others = np.arange(Q.shape[1]) != row
    return unequal("C beside a NaN query", got[:, others], plain[:, others])


def a_finite_bias_is_no_mask(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Q = 0 and one bias of -1e9 on every key (float16: -30000): all scores are equal still, and C is the mean of V.

    0 + bias is exact, and so is each difference of two scores: the budget is that of a bias of 0.
    """
    if not takes(implementation, "attention", "bias"):
        return ""
    case = drawn(implementation, draws, dtype)
    case = changed(case, Q=np.zeros_like(case.operands["Q"]))
    n, m = case.operands["Q"].shape[1], case.operands["K"].shape[1]
    low = round_to(np.full((n, m), -30000.0 if dtype == "float16" else -1e9), PRECISIONS[dtype])
    budget = attend(implementation, case, dtype).budget["C"]
    C = values_of(implementation, "attention", changed(case, bias=low), dtype)["C"]
    V = case.operands["V"].astype(ORACLE)
    own = m * ORACLE_UNIT * np.abs(V).max()
    return differs(
        f"C of a bias of {low[0, 0]:g} on every key",
        C,
        np.broadcast_to(V.mean(1, keepdims=True), C.shape),
        budget + own,
    )


def nan_in_a_bias_stays_in_its_row(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """NaN in the bias where a query may attend makes its row of C NaN; the other rows are the same to the last bit."""
    if deviates(implementation, nan_in_a_bias_stays_in_its_row) or not takes(implementation, "attention", "bias"):
        return ""
    case = drawn(implementation, draws, dtype, "mask", "scale")
    n, m = case.operands["Q"].shape[1], case.operands["K"].shape[1]
    row, key = draws.choice(range(n)), draws.choice(range(m))
    if "mask" in case.options:
        case.options["mask"][:, row, key] = True
    bias = grid(draws, (n, m))
    bad = bias.copy()
    bad[row, key] = np.nan
    plain, got = (values_of(implementation, "attention", changed(case, bias=x), dtype)["C"] for x in (bias, bad))
    if not np.isnan(got[:, row]).all():
        return f"C beside a NaN in the bias is {float(got[:, row][~np.isnan(got[:, row])][0]):.9g}, expected nan"
    others = np.arange(n) != row
    return unequal("C in a row without NaN", got[:, others], plain[:, others])


def nan_in_a_key_reaches_who_may_look(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """NaN in K_j makes every row of C NaN that may attend to j."""
    if deviates(implementation, nan_in_a_key_reaches_who_may_look):
        return ""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale")
    K = case.operands["K"].copy()
    key = draws.choice(range(K.shape[1]))
    K[:, key, draws.choice(range(K.shape[2]))] = np.nan
    C = values_of(implementation, "attention", changed(case, K=K), dtype)["C"]
    looks = np.broadcast_to(case.options.get("mask", np.True_), (*C.shape[:2], K.shape[1]))[..., key]
    seen = C[looks]
    return "" if np.isnan(seen).all() else f"C of a NaN key is {float(seen[~np.isnan(seen)][0]):.9g}, expected nan"


def nan_in_a_value_stays_in_its_column(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """NaN in V_jk, j a key that all may attend to, makes column k of C NaN, and no other."""
    if deviates(implementation, nan_in_a_value_stays_in_its_column):
        return ""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    V = case.operands["V"].copy()
    key, column = (draws.choice(range(size)) for size in V.shape[1:])
    V[:, key, column] = np.nan
    plain = attend(implementation, case, dtype)
    C = values_of(implementation, "attention", changed(case, V=V), dtype)["C"]
    hit = np.arange(V.shape[2]) == column
    if not np.isnan(C[..., hit]).all():
        return f"C of a NaN value is {float(C[..., hit][~np.isnan(C[..., hit])][0]):.9g}, expected nan"
    others, budget = plain.values["C"][..., ~hit], 2.0 * plain.budget["C"][..., ~hit]
    return differs("C in a column without NaN", C[..., ~hit], others, budget)


LAWS: tuple[Law, ...] = (
    permuting_keys_and_values_changes_nothing,
    permuting_queries_permutes_the_answer,
    only_the_product_of_Q_and_K_matters,
    linear_in_V,
    one_key_is_all_there_is,
    context_lies_between_the_values,
    no_scores_no_preference,
    one_vector_on_all_keys_changes_nothing,
    gradients_of_the_keys_sum_to_0,
    queries_and_keys_share_one_gradient,
    values_and_context_share_one_gradient,
    the_scale_is_one_over_root_c,
    a_scale_is_honoured,
    a_bias_is_one_more_feature,
    dropout_does_not_renormalise,
    nan_in_a_query_stays_in_its_row,
    a_finite_bias_is_no_mask,
    nan_in_a_bias_stays_in_its_row,
    nan_in_a_key_reaches_who_may_look,
    nan_in_a_value_stays_in_its_column,
)
