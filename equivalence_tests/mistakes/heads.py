"""Mistakes in attention of a sequence to itself: untrained, with three projections, with several heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from equivalence_tests.mistakes.attention_backward import not_transposed, scale_missing_in_both
from reference_numpy import AttentionCache

Project = Callable[[Array, Array, Array, Array], tuple[Array, Array, Array]]
Attend = Callable[..., Any]


def _rows(X: Array) -> Array:
    return X.reshape(-1, X.shape[-1])


def _weight_gradients(X: Array, dQ: Array, dK: Array, dV: Array) -> tuple[Array, Array, Array]:
    """dWq, dWk, dWv: right."""
    return _rows(X).T @ _rows(dQ), _rows(X).T @ _rows(dK), _rows(X).T @ _rows(dV)


# The untrained one


def simple_scaled(X: Array) -> Any:
    C, cache = reference.attention(X, X, X)  # wrong: the toy has no 1/sqrt(d)
    return C, (X, cache)


def simple_over_columns(X: Array) -> Any:
    A, _ = reference.softmax(X @ X.mT, -2)  # wrong: the scores are symmetric, the weights are not
    return A @ X, (X, AttentionCache(X, X, X, A, 1.0, None, 0.0))


def simple_transposed_map(X: Array) -> Any:
    A, _ = reference.softmax(X @ X.mT)
    return A.mT @ X, (X, AttentionCache(X, X, X, A, 1.0, None, 0.0))  # wrong: the map the other way round


def simple_values_only(dC: Array, cache: Any) -> Any:
    _, inner = cache
    return reference.attention_backward(dC, inner)[2]  # wrong: the map depends on X too


def simple_keys_forgotten(dC: Array, cache: Any) -> Any:
    dQ, _, dV = reference.attention_backward(dC, cache[1])
    return dQ + dV  # wrong: X is key as well


def simple_twice_queries(dC: Array, cache: Any) -> Any:
    dQ, _, dV = reference.attention_backward(dC, cache[1])
    return 2.0 * dQ + dV  # wrong: symmetric scores do not make dK = dQ


# Three projections


def _project(X: Array, Wq: Array, Wk: Array, Wv: Array) -> tuple[Array, Array, Array]:
    return X @ Wq, X @ Wk, X @ Wv


def self_attention_with(project: Project = _project, change: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A self-attention that projects with `project`; `change(X, options)` may spoil the options."""

    def self_attention(
        X: Array,
        Wq: Array,
        Wk: Array,
        Wv: Array,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        query_offset: int = 0,
        scale: float | None = None,
        keep: Array | None = None,
        p: float = 0.0,
    ) -> Any:
        options: dict[str, Any] = {
            "mask": mask,
            "bias": bias,
            "causal": causal,
            "query_offset": query_offset,
            "scale": scale,
            "keep": keep,
            "p": p,
        }
        options |= {} if change is None else change(X, options)
        C, cache = reference.attention(*project(X, Wq, Wk, Wv), **options)
        return C, (X, Wq, Wk, Wv, cache)

    return self_attention


def scale_from_embedding(X: Array, options: dict[str, Any]) -> Any:
    return {"scale": 1.0 / math.sqrt(X.shape[-1])} if options["scale"] is None else {}  # wrong: sqrt(d) for sqrt(c)


def mask_transposed(X: Array, options: dict[str, Any]) -> Any:
    mask, n = options["mask"], X.shape[-2]
    if mask is None or mask.shape[-2:] != (n, n):
        return {}
    return {"mask": mask.mT}  # wrong: keys by queries


def causal_not_passed_on(X: Array, options: dict[str, Any]) -> Any:
    return {"causal": False}  # wrong: the argument ends here


def dropout_not_passed_on(X: Array, options: dict[str, Any]) -> Any:
    return {"keep": None, "p": 0.0}  # wrong: the arguments end here


def key_from_query_matrix(X: Array, Wq: Array, Wk: Array, Wv: Array) -> tuple[Array, Array, Array]:
    return X @ Wq, X @ Wq, X @ Wv  # wrong: copied, and Wq left in


def roles_swapped(X: Array, Wq: Array, Wk: Array, Wv: Array) -> tuple[Array, Array, Array]:
    return X @ Wk, X @ Wq, X @ Wv  # wrong: the query asks with the key's matrix


def _dX(dQ: Array, dK: Array, dV: Array, Wq: Array, Wk: Array, Wv: Array) -> Array:
    dX: Array = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX


def dX_overwritten(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    dX = dQ @ Wq.T
    dX = dK @ Wk.T
    dX = dV @ Wv.T  # wrong: = for +=, three times
    return dX, *_weight_gradients(X, dQ, dK, dV)


def dX_without_values(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, _, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    dX = dQ @ Wq.T + dK @ Wk.T  # wrong: the third path
    return dX, *_weight_gradients(X, dQ, dK, dV)


def dX_matrices_swapped(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    dX = dQ @ Wk.T + dK @ Wq.T + dV @ Wv.T  # wrong: each gradient returns through its own matrix
    return dX, *_weight_gradients(X, dQ, dK, dV)


def weight_gradients_per_sequence(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    return _dX(dQ, dK, dV, Wq, Wk, Wv), X.mT @ dQ, X.mT @ dK, X.mT @ dV  # wrong: not summed over sequences


def weight_gradients_of_last_sequence(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    n = X.shape[-2]
    last = (_rows(Z)[-n:] for Z in (X, dQ, dK, dV))  # wrong: overwritten in the loop over sequences
    return _dX(dQ, dK, dV, Wq, Wk, Wv), *_weight_gradients(*last)


def weight_gradients_mean(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    count = X.size // (X.shape[-1] * X.shape[-2])
    gradients = _weight_gradients(X, dQ, dK, dV)
    return _dX(dQ, dK, dV, Wq, Wk, Wv), *(g / count for g in gradients)  # wrong: the loss takes means, not we


def weight_gradients_transposed(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    dWq, dWk, dWv = _weight_gradients(X, dQ, dK, dV)
    return _dX(dQ, dK, dV, Wq, Wk, Wv), dWq.T.copy(), dWk.T.copy(), dWv.T.copy()  # wrong: dQ^T X


def key_gradient_copied(dC: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    dWq, _, dWv = _weight_gradients(X, dQ, dK, dV)
    return _dX(dQ, dK, dV, Wq, Wk, Wv), dWq, _rows(X).T @ _rows(dQ), dWv  # wrong: dQ for dK


def through(attention_backward: Attend) -> Attend:
    """The reference's backward of self-attention around a wrong one of attention."""

    def self_attention_backward(dC: Array, cache: Any) -> Any:
        X, Wq, Wk, Wv, inner = cache
        dQ, dK, dV = attention_backward(dC, inner)
        return _dX(dQ, dK, dV, Wq, Wk, Wv), *_weight_gradients(X, dQ, dK, dV)

    return self_attention_backward


def values_not_transposed(dC: Array, cache: AttentionCache) -> Any:
    dQ, dK, _ = reference.attention_backward(dC, cache)
    return dQ, dK, reference.dropout(cache.A, cache.keep, cache.p)[0] @ dC  # wrong: A^T dC


# Several heads


def _split(X: Array, num_heads: int) -> Array:
    """(..., n, H c) -> (..., H, n, c)"""
    return np.swapaxes(X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads), -3, -2)


def _merge(C: Array) -> Array:
    """(..., H, n, c) -> (..., n, H c)"""
    *lead, H, n, c = C.shape
    return np.swapaxes(C, -3, -2).reshape(*lead, n, H * c)


def _attend(Q: Array, K: Array, V: Array, options: dict[str, Any], X: Array) -> Any:
    return reference.attention(Q, K, V, **options)


def multi_head_attention_with(
    project: Project = _project,
    split: Callable[[Array, int], Array] = _split,
    attend: Attend = _attend,
    merge: Callable[[Array], Array] = _merge,
) -> Callable[..., Any]:
    """A multi-head attention with one part of it put otherwise."""

    def multi_head_attention(
        X: Array,
        Wq: Array,
        Wk: Array,
        Wv: Array,
        Wo: Array,
        num_heads: int,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        query_offset: int = 0,
        scale: float | None = None,
        keep: Array | None = None,
        p: float = 0.0,
    ) -> Any:
        options: dict[str, Any] = {
            "mask": mask,
            "bias": bias,
            "causal": causal,
            "query_offset": query_offset,
            "scale": scale,
            "keep": keep,
            "p": p,
        }
        Q, K, V = (split(Z, num_heads) for Z in project(X, Wq, Wk, Wv))
        C, cache = attend(Q, K, V, options, X)
        merged = merge(C)
        return merged @ Wo, (X, Wq, Wk, Wv, Wo, merged, cache)

    return multi_head_attention


def split_without_transposition(X: Array, num_heads: int) -> Array:
    *lead, n, width = X.shape
    return X.reshape(*lead, num_heads, n, width // num_heads)  # wrong: a head is a block of tokens


def split_interleaved(X: Array, num_heads: int) -> Array:
    """Head h owns every H-th column."""
    return np.moveaxis(
        X.reshape(*X.shape[:-1], X.shape[-1] // num_heads, num_heads), -1, -3
    )  # wrong: (c, H) for (H, c)


def merge_without_transposition(C: Array) -> Array:
    *lead, H, n, c = C.shape
    return C.reshape(*lead, n, H * c)  # wrong: tokens are mixed


def merge_interleaved(C: Array) -> Array:
    *lead, H, n, c = C.shape
    return np.moveaxis(C, -3, -1).reshape(*lead, n, c * H)  # wrong: (c, H) for (H, c)


def merge_heads_first(C: Array) -> Array:
    *lead, H, n, c = C.shape
    batch = math.prod(lead)
    flat = C.reshape(batch * H, n, c)
    return _merge(np.swapaxes(flat.reshape(H, batch, n, c), 0, 1).copy()).reshape(*lead, n, H * c)  # wrong: (H, batch)


def fused_otherwise(X: Array, Wq: Array, Wk: Array, Wv: Array) -> tuple[Array, Array, Array]:
    K, Q, V = np.split(X @ np.concatenate([Wq, Wk, Wv], 1), 3, -1)  # wrong: packed as Q, K, V
    return Q, K, V


def fused_values_first(X: Array, Wq: Array, Wk: Array, Wv: Array) -> tuple[Array, Array, Array]:
    V, Q, K = np.split(X @ np.concatenate([Wq, Wk, Wv], 1), 3, -1)  # wrong: packed as Q, K, V
    return Q, K, V


def scale_from_all_heads(Q: Array, K: Array, V: Array, options: dict[str, Any], X: Array) -> Any:
    if options["scale"] is None:
        options = options | {"scale": 1.0 / math.sqrt(Q.shape[-1] * Q.shape[-3])}  # wrong: H c for c
    return reference.attention(Q, K, V, **options)


def scale_from_tokens(Q: Array, K: Array, V: Array, options: dict[str, Any], X: Array) -> Any:
    if options["scale"] is None:
        options = options | {"scale": 1.0 / math.sqrt(X.shape[-1])}  # wrong: d for c
    return reference.attention(Q, K, V, **options)


def mask_tiled_over_heads(Q: Array, K: Array, V: Array, options: dict[str, Any], X: Array) -> Any:
    """Batch and heads are one axis, batch first, so each mask must be repeated H times in a row."""
    *lead, H, n, _ = Q.shape
    mask = options["mask"]
    if mask is not None and mask.ndim == len(lead) + 3 and mask.shape[-3] == 1:
        samples = np.broadcast_to(mask, (*lead, 1, n, n)).reshape(math.prod(lead), n, n)
        tiled = np.tile(samples, (H, 1, 1))  # wrong: np.repeat
        options = options | {"mask": tiled.reshape(*lead, H, n, n)}
    return reference.attention(Q, K, V, **options)


def mask_for_first_sample(Q: Array, K: Array, V: Array, options: dict[str, Any], X: Array) -> Any:
    mask = options["mask"]
    if mask is not None and mask.ndim > 3 and mask.size:
        options = options | {"mask": mask.reshape(-1, *mask.shape[-3:])[0]}  # wrong: everybody gets sample 0's
    return reference.attention(Q, K, V, **options)


def first_head_for_all(Q: Array, K: Array, V: Array, options: dict[str, Any], X: Array) -> Any:
    shared = np.broadcast_to(K[..., :1, :, :], K.shape).copy()  # wrong: keys of head 0, as in multi-query attention
    return reference.attention(Q, shared, V, **options)


def _heads_backward(dC: Array, cache: Any) -> Any:
    """dX, dWq, dWk, dWv from the gradient of every head's context vectors."""
    X, Wq, Wk, Wv, _, _, inner = cache
    dQ, dK, dV = (_merge(gradient) for gradient in reference.attention_backward(dC, inner))
    return _dX(dQ, dK, dV, Wq, Wk, Wv), *_weight_gradients(X, dQ, dK, dV)


def dC_not_split(dY: Array, cache: Any) -> Any:
    Wo, merged, inner = cache[4:]
    dC = split_without_transposition(dY @ Wo.T, inner.Q.shape[-3])  # wrong: a reshape is not the way back
    return *_heads_backward(dC, cache), _rows(merged).T @ _rows(dY)


def gradients_not_merged(dY: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, Wo, merged, inner = cache
    gradients = reference.attention_backward(_split(dY @ Wo.T, inner.Q.shape[-3]), inner)
    dQ, dK, dV = (merge_without_transposition(g) for g in gradients)  # wrong: a reshape is not the way back
    return _dX(dQ, dK, dV, Wq, Wk, Wv), *_weight_gradients(X, dQ, dK, dV), _rows(merged).T @ _rows(dY)


def dWo_from_output(dY: Array, cache: Any) -> Any:
    Wo, _, inner = cache[4:]
    dC = _split(dY @ Wo.T, inner.Q.shape[-3])
    heads = merge_without_transposition(inner.A @ inner.V)  # wrong: not as the forward merged, nor dropped
    return *_heads_backward(dC, cache), _rows(heads).T @ _rows(dY)


def dWo_transposed(dY: Array, cache: Any) -> Any:
    Wo, merged, inner = cache[4:]
    dC = _split(dY @ Wo.T, inner.Q.shape[-3])
    return *_heads_backward(dC, cache), _rows(dY).T @ _rows(merged)  # wrong: torch's layout, not this op's


def _of(id: str, op: str, sentence: str, hidden_on: str, shown_by: str, **functions: Any) -> Mistake:
    return Mistake(id, op, sentence, hidden_on, shown_by, **functions)


SIMPLE, SELF, MULTI = "simple_attention", "self_attention", "multi_head_attention"

MISTAKES = (
    _of("H01", SIMPLE, "The scores are scaled by 1/sqrt(d).", "width 1", "any other width", forward=simple_scaled),
    _of("H02", SIMPLE, "The softmax runs down the columns.", "one token", "two tokens", forward=simple_over_columns),
    _of("H03", SIMPLE, "The map is transposed.", "one token", "two tokens", forward=simple_transposed_map),
    _of("H04", SIMPLE, "dX is dV alone.", "one token", "two tokens", backward=simple_values_only),
    _of("H05", SIMPLE, "dX forgets the keys.", "one token", "two tokens", backward=simple_keys_forgotten),
    _of("H06", SIMPLE, "dX takes dQ twice.", "one token", "two tokens", backward=simple_twice_queries),
    _of(
        "H07",
        SELF,
        "The scale is made from the embedding's width.",
        "d = c",
        "d other than c",
        forward=self_attention_with(change=scale_from_embedding),
    ),
    _of(
        "H08",
        SELF,
        "The mask is transposed.",
        "symmetric masks; masks of keys",
        "a mask of shape (n, n)",
        forward=self_attention_with(change=mask_transposed),
    ),
    _of(
        "H09",
        SELF,
        "causal is not handed on.",
        "not causal",
        "causal",
        forward=self_attention_with(change=causal_not_passed_on),
        source="CAU-04",
    ),
    _of(
        "H10",
        SELF,
        "keep and p are not handed on.",
        "no dropout",
        "any dropped link",
        forward=self_attention_with(change=dropout_not_passed_on),
    ),
    _of(
        "H11",
        SELF,
        "The keys are made with Wq.",
        "Wk = Wq",
        "any other Wk",
        forward=self_attention_with(key_from_query_matrix),
    ),
    _of(
        "H12",
        SELF,
        "Wq and Wk have changed roles.",
        "symmetric scores",
        "any other scores",
        forward=self_attention_with(roles_swapped),
    ),
    _of("H13", SELF, "dX is overwritten, not summed.", "never right", "any dense dC", backward=dX_overwritten),
    _of("H14", SELF, "dX lacks the path through V.", "never right", "any dense dC", backward=dX_without_values),
    _of(
        "H15",
        SELF,
        "dQ returns through Wk, and dK through Wq.",
        "Wk = Wq",
        "any other Wk",
        backward=dX_matrices_swapped,
    ),
    _of(
        "H16",
        SELF,
        "The matrices' gradients are not summed over sequences.",
        "one sequence without batch axis",
        "a batch axis: the shape",
        backward=weight_gradients_per_sequence,
    ),
    _of(
        "H17",
        SELF,
        "The matrices' gradients come from the last sequence only.",
        "one sequence",
        "two sequences",
        backward=weight_gradients_of_last_sequence,
    ),
    _of(
        "H18",
        SELF,
        "The matrices' gradients are means over sequences.",
        "one sequence",
        "two sequences",
        backward=weight_gradients_mean,
        source="GCK-04",
    ),
    _of(
        "H19",
        SELF,
        "The matrices' gradients are transposed.",
        "the shape of square matrices",
        "d other than c",
        backward=weight_gradients_transposed,
    ),
    _of("H20", SELF, "dWk is a copy of dWq.", "never right", "any dense dC", backward=key_gradient_copied),
    _of(
        "M033b",
        SELF,
        "dK is made without transposing dS: the shape is right here.",
        "one token; a symmetric dS",
        "two tokens",
        backward=through(not_transposed),
        source="HED-06",
    ),
    _of(
        "H21",
        SELF,
        "dV is made without transposing A.",
        "one token; a symmetric A",
        "two tokens",
        backward=through(values_not_transposed),
    ),
    _of(
        "H22",
        SELF,
        "The scale is missing in the backward.",
        "head width 1",
        "any other width",
        backward=through(scale_missing_in_both),
    ),
    _of(
        "M030",
        MULTI,
        "Masks are tiled over the heads where they must be repeated.",
        "one sample, one head, equal lengths",
        "two samples of different length and two heads",
        forward=multi_head_attention_with(attend=mask_tiled_over_heads),
        source="MSK-12",
    ),
    _of(
        "MSK-12b",
        MULTI,
        "Every sample gets the first sample's mask.",
        "one sample, equal lengths",
        "two samples of different length",
        forward=multi_head_attention_with(attend=mask_for_first_sample),
    ),
    _of(
        "M042",
        MULTI,
        "Heads are split by a reshape alone.",
        "one head or one token",
        "two heads, two tokens",
        forward=multi_head_attention_with(split=split_without_transposition),
        source="HED-02",
    ),
    _of(
        "H23",
        MULTI,
        "Heads take every H-th column.",
        "one head or head width 1",
        "two heads of width 2",
        forward=multi_head_attention_with(split=split_interleaved, merge=_merge),
    ),
    _of(
        "M044",
        MULTI,
        "Heads are merged by a reshape alone.",
        "one head or one token",
        "two heads, two tokens",
        forward=multi_head_attention_with(merge=merge_without_transposition),
        source="HED-01",
    ),
    _of(
        "M045",
        MULTI,
        "Heads are merged in the order (c, H).",
        "one head or head width 1",
        "two heads of width 2",
        forward=multi_head_attention_with(merge=merge_interleaved),
    ),
    _of(
        "M047",
        MULTI,
        "The one axis of batch and heads is unfolded heads first.",
        "one sample or one head",
        "two samples, two heads",
        forward=multi_head_attention_with(merge=merge_heads_first),
        source="HED-04",
    ),
    _of(
        "M048",
        MULTI,
        "A fused projection is unpacked as K, Q, V.",
        "random weights and a loss curve",
        "given weights",
        forward=multi_head_attention_with(fused_otherwise),
    ),
    _of(
        "M048b",
        MULTI,
        "A fused projection is unpacked as V, Q, K.",
        "random weights and a loss curve",
        "given weights",
        forward=multi_head_attention_with(fused_values_first),
    ),
    _of(
        "H24",
        MULTI,
        "The scale is made from the width of all heads.",
        "one head",
        "two heads",
        forward=multi_head_attention_with(attend=scale_from_all_heads),
    ),
    _of(
        "H25",
        MULTI,
        "The scale is made from the embedding's width.",
        "d = c",
        "d other than c",
        forward=multi_head_attention_with(attend=scale_from_tokens),
    ),
    _of(
        "H26",
        MULTI,
        "All heads share the first head's keys.",
        "one head",
        "two heads",
        forward=multi_head_attention_with(attend=first_head_for_all),
    ),
    _of(
        "H27",
        MULTI,
        "dC is split by a reshape alone.",
        "one head or one token",
        "two heads, two tokens",
        backward=dC_not_split,
        source="HED-02",
    ),
    _of(
        "H28",
        MULTI,
        "The heads' gradients are merged by a reshape alone.",
        "one head or one token",
        "two heads, two tokens",
        backward=gradients_not_merged,
        source="HED-01",
    ),
    _of(
        "H29",
        MULTI,
        "dWo reads heads that are merged otherwise, before dropout.",
        "one head or one token, no dropout",
        "two heads, two tokens",
        backward=dWo_from_output,
    ),
    _of("H30", MULTI, "dWo is transposed.", "the shape of a square Wo", "k other than H c", backward=dWo_transposed),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "H01": "scaled, Omega: factor",
    "H02": "A: axis",
    "H03": "C, A: axis",
    "H04": "dX: term",
    "H05": "dX: term",
    "H06": "dX: operand, factor",
    "H07": "scaled, scale: factor",
    "H08": "mask, masked: axis, option",
    "H09": "causal, masked: option",
    "H10": "keep, p, A * Z: option",
    "H11": "K: operand",
    "H12": "Q, K: operand",
    "H13": "dX: accumulation, term",
    "H14": "dX: term",
    "H15": "dX: operand",
    "H16": "dWq, dWk, dWv: accumulation, shape",
    "H17": "dWq, dWk, dWv: accumulation",
    "H18": "dWq, dWk, dWv: factor, accumulation",
    "H19": "dWq, dWk, dWv: axis, shape",
    "H20": "dWk: operand",
    "M033b": "dK: axis",
    "H21": "dV: axis",
    "H22": "dOmega, dQ, dK: factor",
    "M030": "mask, masked: axis, option",
    "MSK-12b": "mask, masked: operand, option",
    "M042": "split: axis",
    "H23": "split: axis",
    "M044": "merged, split: axis",
    "M045": "merged, split: axis",
    "M047": "merged, split: axis",
    "M048": "Q, K: operand",
    "M048b": "Q, K, V: operand",
    "H24": "scaled, scale: factor",
    "H25": "scaled, scale: factor",
    "H26": "K, Omega: operand",
    "H27": "dC, split: axis",
    "H28": "split, dQ, dK, dV: axis",
    "H29": "dWo, merged: operand, axis",
    "H30": "dWo: axis, shape",
}
