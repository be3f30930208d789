"""Laws of attention within one sequence: untrained, with three projections, with several heads."""

from __future__ import annotations

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array, round_to
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
    unequal,
    values_of,
)
from equivalence_tests.ops import OPS


def selecting(draws: Draws, d: int, c: int) -> Array:
    """(d, c) with one power of two, or its negative, in every column: a product with it is exact."""
    W = np.zeros((d, c))
    W[draws.rng.integers(0, d, c), np.arange(c)] = draws.rng.choice([-2.0, -0.5, 0.5, 1.0], c)
    return W


def _drawn(op: str, draws: Draws, dtype: str) -> Case:
    """A case without mask or bias, of numbers of the format."""
    return _unrounded(op, draws, dtype).rounded(PRECISIONS[dtype])


def _unrounded(op: str, draws: Draws, dtype: str) -> Case:
    B, n, d, c, e, k = sizes(draws, "B n d c e k")
    e = draws.choice((e, c))  # some kernels want V as wide as K
    X = normal(draws, (B, n, d), dtype)
    if op == "simple_attention":
        return Case({"X": 0.7 * X}, {}, {"dC": normal(draws, (B, n, d), dtype)})
    W = {name: normal(draws, (d, c), dtype) / np.sqrt(d) for name in ("Wq", "Wk")}
    if op == "self_attention":
        return Case({"X": X, **W, "Wv": normal(draws, (d, e), dtype)}, {}, {"dC": normal(draws, (B, n, e), dtype)})
    W = {name: normal(draws, (d, 3 * c), dtype) / np.sqrt(d) for name in ("Wq", "Wk", "Wv")}
    W["Wo"] = normal(draws, (3 * c, k), dtype) / np.sqrt(3 * c)
    return Case({"X": X, **W}, {"num_heads": 3}, {"dY": normal(draws, (B, n, k), dtype)})


def permuting_the_tokens_permutes_the_answer(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Without a mask attention knows no order: Y and dX go with their tokens, the weights' gradients stay."""
    case = _drawn(op, draws, dtype)
    X, (name, dY), (Y,) = case.operands["X"], *case.upstream.items(), OPS[op].outputs
    order = permutation(draws, X.shape[1])
    moved = Case({**case.operands, "X": X[:, order]}, case.options, {name: dY[:, order]})
    plain, permuted = (answer(implementation, op, each, dtype) for each in (case, moved))
    weights = [f"d{each}" for each in case.operands if each != "X"]
    return differ((Y, "dX"), plain, permuted, lambda array: array[:, order]) or differ(weights, plain, permuted)


def a_future_token_changes_nothing_before_it(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Causal: Y before token j is the same to the last bit whatever X_j is, and gives it no gradient."""
    case = _drawn(op, draws, dtype)
    X, (name, dY), (Y,) = case.operands["X"], *case.upstream.items(), OPS[op].outputs
    j = draws.choice(range(1, X.shape[1]))
    past = np.arange(X.shape[1])[:, None] < j
    options, upstream = {**case.options, "causal": True}, {name: np.where(past, dY, 0.0)}
    other = {**case.operands, "X": np.where(past, X, 2.0 * normal(draws, X.shape, dtype))}
    before, after = (
        values_of(implementation, op, Case(operands, options, upstream), dtype) for operands in (case.operands, other)
    )
    changed = unequal(f"{Y} before a token that changed", after[Y][:, :j], before[Y][:, :j])
    return changed or unequal("dX of the future", before["dX"][:, j:], 0.0)


def an_empty_row_is_0(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """A token that may attend to nothing: Y = 0, exactly; with an upstream gradient there alone every gradient is 0."""
    case = _drawn(op, draws, dtype)
    (name, dY), (Y,) = next(iter(case.upstream.items())), OPS[op].outputs
    n = dY.shape[1]
    row = draws.choice(range(n))
    alone = np.arange(n)[:, None] == row
    options = {**case.options, "mask": ~alone & np.ones(n, bool)}
    got = values_of(implementation, op, Case(case.operands, options, {name: np.where(alone, dY, 0.0)}), dtype)
    empty = unequal(f"{Y} of an empty row", got.pop(Y)[:, row], 0.0)
    return empty or first(unequal(f"{each} through an empty row", value, 0.0) for each, value in got.items())


def simple_attention_is_attention_of_X(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """C = attention(X, X, X) with scale 1, and dX = dQ + dK + dV."""
    if not implementation.offers("attention"):
        return ""
    case = _drawn("simple_attention", draws, dtype)
    X = case.operands["X"]
    values, budget = answer(implementation, "simple_attention", case, dtype)
    threefold = Case({"Q": X, "K": X, "V": X}, {"scale": 1.0}, case.upstream)
    parts, errors = answer(implementation, "attention", threefold, dtype)
    names = ("dQ", "dK", "dV")
    total, tolerance = summed(np.stack([parts[x] for x in names]), np.stack([errors[x] for x in names]), 0)
    context = differs("C", values["C"], parts["C"], budget["C"] + errors["C"])
    return context or differs("dX", values["dX"], total, budget["dX"] + tolerance)


def context_lies_between_the_tokens(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """min_j X <= C <= max_j X, column by column; far from 0, so that weights which miss 1 fall outside."""
    case = _drawn("simple_attention", draws, dtype)
    X = round_to(
        case.operands["X"] + np.where(np.arange(case.operands["X"].shape[-1]) == 0, 4.0, 0.0), PRECISIONS[dtype]
    )
    values, budget = answer(implementation, "simple_attention", Case({"X": X}, {}, case.upstream), dtype)
    low, high = X.min(1, keepdims=True), X.max(1, keepdims=True)
    return differs("C", values["C"], np.clip(values["C"], low, high), budget["C"])


def projections_come_before_attention(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """C = attention(X Wq, X Wk, X Wv), dX = dQ Wq^T + dK Wk^T + dV Wv^T, dW = X^T dQ; weights that make all of it exact."""
    if not implementation.offers("attention"):
        return ""
    B, n, d, c, e = sizes(draws, "B n d c e")
    X = normal(draws, (B, n, d), dtype)
    W = {"Wq": selecting(draws, d, c), "Wk": selecting(draws, d, c), "Wv": selecting(draws, d, e)}
    upstream = {"dC": normal(draws, (B, n, e), dtype)}
    values, budget = answer(implementation, "self_attention", Case({"X": X, **W}, {}, upstream), dtype)
    projected = dict(zip("QKV", (X @ w for w in W.values()), strict=True))
    parts, errors = answer(implementation, "attention", Case(projected, {}, upstream), dtype)
    if text := differs("C", values["C"], parts["C"], budget["C"] + errors["C"]):
        return text
    dX, dX_error = np.zeros(X.shape, ORACLE), budget["dX"]
    rows = X.reshape(-1, d).astype(ORACLE).T
    for name, w in zip("QKV", W.values(), strict=True):
        gradient, error = parts[f"d{name}"], errors[f"d{name}"] + 16.0 * ORACLE_UNIT * np.abs(parts[f"d{name}"])
        dX, dX_error = dX + gradient @ w.T, dX_error + error @ np.abs(w).T
        dW, own = rows @ gradient.reshape(-1, w.shape[1]), np.abs(rows) @ error.reshape(-1, w.shape[1])
        own = own + B * n * ORACLE_UNIT * (np.abs(rows) @ np.abs(gradient.reshape(-1, w.shape[1])))
        weight = f"dW{name.lower()}"
        if text := differs(weight, values[weight], dW, budget[weight] + own):
            return text
    return differs("dX", values["dX"], dX, dX_error)


def heads_do_not_meet(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """With Wo = 1 head h is the columns h c ... (h + 1) c - 1 of Y: other Wq columns there change it and no other head."""
    H = 3
    B, n, d, c = sizes(draws, "B n d c")
    W = {name: normal(draws, (d, H * c), dtype) for name in ("Wq", "Wk", "Wv")}
    operands = {"X": normal(draws, (B, n, d), dtype), **W, "Wo": np.eye(H * c)}
    h = draws.choice(range(H))
    own = np.arange(H * c) // c == h
    upstream = {"dY": normal(draws, (B, n, H * c), dtype)}
    turned = {**operands, "Wq": np.where(own, normal(draws, (d, H * c), dtype), W["Wq"])}
    plain, changed = (
        answer(implementation, "multi_head_attention", Case(each, {"num_heads": H}, upstream), dtype)
        for each in (operands, turned)
    )
    names = ("Y", "dWq", "dWk", "dWv")
    for name in names:
        budget = plain.budget[name] + changed.budget[name]
        one, other = changed.values[name][..., ~own], plain.values[name][..., ~own]
        if text := differs(f"{name} of the other heads", one, other, budget[..., ~own]):
            return text
    alone = {"dY": np.where(own, upstream["dY"], 0.0)}
    got = values_of(implementation, "multi_head_attention", Case(operands, {"num_heads": H}, alone), dtype)
    return first(unequal(f"{name} of a head without upstream", got[name][:, ~own], 0.0) for name in names[1:])


def one_head_is_self_attention(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """num_heads = 1: Y = self_attention(X) Wo, with a Wo that only moves and halves or doubles."""
    if not implementation.offers("self_attention"):
        return ""
    B, n, d, c, k = sizes(draws, "B n d c k")
    operands = {"X": normal(draws, (B, n, d), dtype)}
    operands |= {name: normal(draws, (d, c), dtype) / np.sqrt(d) for name in ("Wq", "Wk", "Wv")}
    Wo, dY = selecting(draws, k, c).T, normal(draws, (B, n, k), dtype)
    options = draws.choice(({}, {"causal": True}))
    many = Case({**operands, "Wo": Wo}, {"num_heads": 1, **options}, {"dY": dY})
    one = Case(operands, options, {"dC": dY @ Wo.T})
    values, budget = answer(implementation, "multi_head_attention", many, dtype)
    parts, errors = answer(implementation, "self_attention", one, dtype)
    rows, terms = parts["C"].reshape(-1, c).T, dY.reshape(-1, k).astype(ORACLE)
    own = errors["C"].reshape(-1, c).T + B * n * ORACLE_UNIT * np.abs(rows)
    return first(
        (
            differs(
                "Y",
                values["Y"],
                parts["C"] @ Wo,
                budget["Y"] + (errors["C"] + c * ORACLE_UNIT * np.abs(parts["C"])) @ np.abs(Wo),
            ),
            *(differs(x, values[x], parts[x], budget[x] + errors[x]) for x in ("dX", "dWq", "dWk", "dWv")),
            differs("dWo", values["dWo"], rows @ terms, budget["dWo"] + own @ np.abs(terms)),
        )
    )


def the_scale_is_that_of_a_head(implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Left out, the scale is 1 / sqrt(c), c the width of a head: not that of all heads, nor of X."""
    case = _drawn("multi_head_attention", draws, dtype)
    c = case.operands["Wq"].shape[1] // case.options["num_heads"]
    told = Case(case.operands, {**case.options, "scale": c**-0.5}, case.upstream)
    left_out, given = (answer(implementation, "multi_head_attention", each, dtype) for each in (case, told))
    return differ(tuple(left_out.values), left_out, given)


LAWS: dict[str, tuple[Law, ...]] = {
    "simple_attention": (
        of("simple_attention", permuting_the_tokens_permutes_the_answer),
        simple_attention_is_attention_of_X,
        context_lies_between_the_tokens,
    ),
    "self_attention": (
        of("self_attention", permuting_the_tokens_permutes_the_answer),
        of("self_attention", a_future_token_changes_nothing_before_it),
        of("self_attention", an_empty_row_is_0),
        projections_come_before_attention,
    ),
    "multi_head_attention": (
        of("multi_head_attention", permuting_the_tokens_permutes_the_answer),
        of("multi_head_attention", a_future_token_changes_nothing_before_it),
        of("multi_head_attention", an_empty_row_is_0),
        heads_do_not_meet,
        one_head_is_self_attention,
        the_scale_is_that_of_a_head,
    ),
}
