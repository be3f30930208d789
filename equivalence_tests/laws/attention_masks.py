"""Laws of who may attend to whom: masks, the causal order, rows with nothing to attend to; and of the stages."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array
from equivalence_tests.cases import Case, Draws
from equivalence_tests.implementations import Implementation, check_offer, prepared
from equivalence_tests.laws.attention import ALL, attend, changed, drawn
from equivalence_tests.laws.common import (
    Answered,
    Law,
    answer,
    differ,
    differs,
    first,
    grid,
    product,
    sizes,
    summed,
    unequal,
    values_of,
)
from equivalence_tests.ops import ATTENTION_STAGES


def _hidden(draws: Draws, case: Case) -> tuple[int, Array]:
    """A key, and a mask in which nobody may look at it but everybody at another."""
    (B, n, _), m = case.operands["Q"].shape, case.operands["K"].shape[1]
    key = draws.choice(range(m))
    mask = draws.rng.random((B, n, m)) < 0.7
    mask[..., (key + 1) % m] = True
    mask[..., key] = False
    return key, mask


def a_future_token_changes_nothing_before_it(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """C_i with i + offset < j is the same to the last bit whatever K_j, V_j and the later queries are."""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    n, m = case.operands["Q"].shape[1], case.operands["K"].shape[1]
    offset = draws.choice((0, m - n, 1, -1))
    j = draws.choice(range(1, m))
    past = np.arange(n) + offset < j
    causal = changed(case, causal=True, query_offset=offset)
    later = {
        "Q": np.where(past[:, None], case.operands["Q"], grid(draws, case.operands["Q"].shape)),
        **{
            name: np.where(np.arange(m)[:, None] < j, case.operands[name], 2.0 * grid(draws, case.operands[name].shape))
            for name in ("K", "V")
        },
    }
    before, after = (
        values_of(implementation, "attention", each, dtype)["C"] for each in (causal, changed(causal, **later))
    )
    return unequal("C before a token that changed", after[:, past], before[:, past])


def a_future_token_gets_no_gradient_from_the_past(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With an upstream gradient only in rows i + offset < j: dK_j = dV_j = 0, exactly, and later."""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    n, m = case.operands["Q"].shape[1], case.operands["K"].shape[1]
    offset = draws.choice((0, m - n, 1, -1))
    j = draws.choice(range(1, m))
    past = np.arange(n) + offset < j
    dC = np.where(past[:, None], case.upstream["dC"], 0.0)
    got = values_of(implementation, "attention", changed(case, causal=True, query_offset=offset, dC=dC), dtype)
    future = {"dK": got["dK"][:, j:], "dV": got["dV"][:, j:], "dQ": got["dQ"][:, ~past]}
    return first(unequal(f"{name} of the future", gradient, 0.0) for name, gradient in future.items())


def causal_is_a_mask(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """causal with an offset is the mask j <= i + offset, together with the mask given."""
    case = drawn(implementation, draws, dtype, "mask", "bias")
    n, m = case.operands["Q"].shape[1], case.operands["K"].shape[1]
    offset = draws.choice((0, m - n, 1, -1, 2))
    seen = np.arange(m) <= np.arange(n)[:, None] + offset
    masked = changed(case, mask=seen & case.options.get("mask", True))
    return differ(
        ALL,
        attend(implementation, changed(case, causal=True, query_offset=offset), dtype),
        attend(implementation, masked, dtype),
    )


def prefill_is_step_by_step_decoding(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """C of all tokens at once = C of one query after the other, each with the keys so far and its position."""
    B, n, c, e = sizes(draws, "B n c e")
    whole = Case(
        {"Q": grid(draws, (B, n, c)), "K": grid(draws, (B, n, c)), "V": grid(draws, (B, n, e))},
        {"causal": True},
        {"dC": draws.normal((B, n, e))},
    )
    prefill = attend(implementation, whole, dtype)
    for t in range(n):
        keys = {name: whole.operands[name][:, : t + 1] for name in ("K", "V")}
        query = {"Q": whole.operands["Q"][:, t : t + 1], "dC": whole.upstream["dC"][:, t : t + 1]}
        step = attend(implementation, changed(whole, query_offset=t, **keys, **query), dtype)
        budget = prefill.budget["C"][:, t : t + 1] + step.budget["C"]
        if text := differs(f"C of step {t}", step.values["C"], prefill.values["C"][:, t : t + 1], budget):
            return text
    return ""


def a_masked_key_has_no_gradient(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """dK = dV = 0, exactly, where nobody may look."""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    key, mask = _hidden(draws, case)
    got = values_of(implementation, "attention", changed(case, mask=mask), dtype)
    return first(unequal(f"{name} of a masked key", got[name][:, key], 0.0) for name in ("dK", "dV"))


def changing_a_masked_key_changes_nothing(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """To the last bit: C and every gradient."""
    case = drawn(implementation, draws, dtype, "bias", "scale")
    key, mask = _hidden(draws, case)
    masked = changed(case, mask=mask)
    other = {name: case.operands[name].copy() for name in ("K", "V")}
    for array in other.values():
        array[:, key] = 3.0 * grid(draws, array[:, key].shape)
    before, after = (values_of(implementation, "attention", x, dtype) for x in (masked, changed(masked, **other)))
    return first(unequal(f"{name} with another masked key", after[name], before[name]) for name in ALL)


def a_masked_key_far_above_gets_nothing(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A score 12 to 1000 above the others: the answer is that without the key, and a fill of -100 is none."""
    case = drawn(implementation, draws, dtype)
    far = draws.choice((12.0, 100.0, 1000.0))
    Q, K = case.operands["Q"].copy(), case.operands["K"].copy()
    key, mask = _hidden(draws, case)
    Q[..., 0], K[..., 0], K[:, key] = 1.0, 0.0, 0.0
    K[:, key, 0] = far
    whole = changed(case, Q=Q, K=K, mask=mask, scale=1.0)
    rest = np.arange(K.shape[1]) != key
    fewer = changed(whole, K=K[:, rest], V=case.operands["V"][:, rest], mask=mask[..., rest])
    with_it, without = (attend(implementation, each, dtype) for each in (whole, fewer))
    left = Answered(
        *(
            tables | {name: tables[name][:, rest] for name in ("dK", "dV")}
            for tables in (with_it.values, with_it.budget)
        )
    )
    return differ(ALL, left, without)


def an_empty_row_is_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A query that may attend to nothing: C = 0 and dQ = 0, exactly; with dC there alone every gradient is 0."""
    case = drawn(implementation, draws, dtype, "scale")
    n, m = case.operands["Q"].shape[1], case.operands["K"].shape[1]
    row = 0
    how = draws.choice(("mask", "bias", "causal", "mask and bias"))
    if how == "causal":
        options: dict[str, object] = {"causal": True, "query_offset": -1}
    elif how == "mask and bias":  # each leaves something, both together nothing
        columns = np.arange(m) < max(m // 2, 1)
        mask, bias = np.ones((n, m), bool), grid(draws, (n, m))
        mask[row], bias[row] = columns, np.where(columns, -np.inf, bias[row])
        options = {"mask": mask, "bias": bias}
    else:
        row = draws.choice(range(n))
        alone = np.arange(n)[:, None] == row
        options = {"mask": ~alone & np.ones(m, bool)}
        if how == "bias":
            options = {"bias": np.where(alone, -np.inf, grid(draws, (n, m)))}
    emptied = changed(case, **options)
    got = values_of(implementation, "attention", emptied, dtype)
    for name, value in got.items():
        if not np.isfinite(value).all():
            return f"{name} holds {value[~np.isfinite(value)][0]} where a row is empty by {how}"
    rows = {"C": got["C"][:, row], "dQ": got["dQ"][:, row]}
    there_alone = np.where(np.arange(n)[:, None] == row, case.upstream["dC"], 0.0)
    through = values_of(implementation, "attention", changed(emptied, dC=there_alone), dtype)
    return first(
        unequal(f"{name} of a row that is empty by {how}", value, 0.0) for name, value in rows.items()
    ) or first(
        unequal(f"{name} through a row that is empty by {how}", through[name], 0.0) for name in ("dQ", "dK", "dV")
    )


def a_bias_of_minus_infinity_is_a_mask(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """bias = -inf where the mask would be False, else the same bias."""
    case = drawn(implementation, draws, dtype, "scale")
    _, mask = _hidden(draws, case)
    bias = grid(draws, mask.shape)
    by_mask = attend(implementation, changed(case, mask=mask, bias=bias), dtype)
    return differ(ALL, by_mask, attend(implementation, changed(case, bias=np.where(mask, bias, -np.inf)), dtype))


def _staged(implementation: Implementation, draws: Draws, dtype: str) -> tuple[Case, Case]:
    """A case of attention, and the same as one of attention_stages."""
    case = drawn(implementation, draws, dtype, "mask", "bias", "scale", "keep", op="attention_stages")
    return case, Case({**case.operands, **case.upstream}, case.options, {})


def rows_of_dS_sum_to_0(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """sum_j dS_ij = 0: a number added to all scores of a row changes nothing."""
    values, budget = answer(implementation, "attention_stages", _staged(implementation, draws, dtype)[1], dtype)
    total, tolerance = summed(values["dS"], budget["dS"])
    return differs("sum(dS)", total, 0.0, tolerance)


def the_stages_are_those_of_attention(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """C, dQ, dK and dV are what attention itself gives."""
    if not implementation.offers("attention"):
        return ""
    case, staged = _staged(implementation, draws, dtype)
    return differ(ALL, attend(implementation, case, dtype), answer(implementation, "attention_stages", staged, dtype))


def delta_is_the_sum_of_dC_and_C(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """delta = sum(A * dA) = sum(dC * C), with dropout too."""
    case, staged = _staged(implementation, draws, dtype)
    values, budget = answer(implementation, "attention_stages", staged, dtype)
    total, tolerance = summed(*product(values["C"], budget["C"], case.upstream["dC"]))
    return differs("delta", values["delta"][..., 0], total, budget["delta"][..., 0] + tolerance)


def masked_scores_are_minus_infinity(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """masked = scaled where a query may attend, -inf and A = 0 elsewhere."""
    case, _ = _staged(implementation, draws, dtype)
    _, mask = _hidden(draws, case)
    staged = Case({**case.operands, **case.upstream}, {"mask": mask}, {})
    got = values_of(implementation, "attention_stages", staged, dtype)
    return unequal("masked", got["masked"], np.where(mask, got["scaled"], -np.inf)) or unequal(
        "A of a masked key", got["A"][~mask], 0.0
    )


def without_dC_there_is_no_backward(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """The stages are a NamedTuple with the names of the table; without dC the forward ones are the same to the last bit,
    and the backward ones None."""
    if implementation.there is not None:  # a NamedTuple is not sent
        return str(implementation.there.law("attention_stages", "without_dC_there_is_no_backward", dtype))
    _, staged = _staged(implementation, draws, dtype)
    with_dC = _stages(implementation, staged, dtype)
    staged.operands.pop("dC")
    without = _stages(implementation, staged, dtype)
    for stages in (with_dC, without):
        if not isinstance(stages, tuple) or getattr(stages, "_fields", ()) != ATTENTION_STAGES:
            return f"the stages are a {type(stages).__name__}, expected a NamedTuple of {', '.join(ATTENTION_STAGES)}"
    backward = ATTENTION_STAGES[ATTENTION_STAGES.index("dA") :]
    for name, one, other in zip(ATTENTION_STAGES, with_dC, without, strict=True):
        if name in backward:
            if other is not None:
                return f"{name} is a {type(other).__name__} without dC, expected None"
        elif text := unequal(f"{name} without dC", _numbers(other), _numbers(one)):
            return text
    return ""


def _stages(implementation: Implementation, case: Case, dtype: str) -> Any:
    """What the function itself returns."""
    rounded, function = case.rounded(PRECISIONS[dtype]), implementation.forward("attention_stages")
    check_offer(function, rounded)
    if implementation.pairs:
        operands, options, _ = prepared(rounded, dtype)
        return function(*operands.values(), **options)
    from equivalence_tests.run_torch import to_torch

    def tensor(value: Any) -> Any:
        return to_torch(value, dtype, implementation.device) if isinstance(value, np.ndarray) else value

    given = {name: tensor(value) for name, value in rounded.options.items()}
    return function(*(tensor(value) for value in rounded.operands.values()), **given)


def _numbers(stage: Any) -> Array:
    """A stage in extended precision, whosever array it is."""
    if isinstance(stage, np.ndarray):
        return stage.astype(ORACLE)
    from equivalence_tests.run_torch import from_torch

    return from_torch(stage).value.astype(ORACLE)


LAWS: tuple[Law, ...] = (
    a_future_token_changes_nothing_before_it,
    a_future_token_gets_no_gradient_from_the_past,
    causal_is_a_mask,
    prefill_is_step_by_step_decoding,
    a_masked_key_has_no_gradient,
    changing_a_masked_key_changes_nothing,
    a_masked_key_far_above_gets_nothing,
    an_empty_row_is_0,
    a_bias_of_minus_infinity_is_a_mask,
)
STAGES: tuple[Law, ...] = (
    rows_of_dS_sum_to_0,
    the_stages_are_those_of_attention,
    delta_is_the_sum_of_dC_and_C,
    masked_scores_are_minus_infinity,
    without_dC_there_is_no_backward,
)
