"""Mistakes in the backward of attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from equivalence_tests.mistakes.attention import Options, _allowed, _filled, _guarded, _mix, _scores
from reference_numpy import AttentionCache


def _dropped(A: Array, cache: AttentionCache) -> Any:
    """Dropout, forward and backward: it is the same product."""
    return reference.dropout(A, cache.keep, cache.p)[0]


def _dV(dC: Array, cache: AttentionCache) -> Any:
    return _dropped(cache.A, cache).mT @ dC


def _dA(dC: Array, cache: AttentionCache) -> Any:
    return _dropped(dC @ cache.V.mT, cache)


def _dS(dC: Array, cache: AttentionCache) -> Any:
    dA = _dA(dC, cache)
    return cache.A * (dA - (cache.A * dA).sum(-1, keepdims=True))


def _from_dS(dS: Array, dC: Array, cache: AttentionCache) -> Any:
    """Everything after dS."""
    dOmega = dS * cache.scale
    return dOmega @ cache.K, dOmega.mT @ cache.Q, _dV(dC, cache)


def not_transposed(dC: Array, cache: AttentionCache) -> Any:
    dOmega = _dS(dC, cache) * cache.scale
    return dOmega @ cache.K, dOmega @ cache.Q, _dV(dC, cache)  # wrong: dOmega^T Q


def scale_missing_in_dQ(dC: Array, cache: AttentionCache) -> Any:
    dS = _dS(dC, cache)
    return dS @ cache.K, dS.mT @ cache.Q * cache.scale, _dV(dC, cache)  # wrong: dQ is not scaled


def scale_missing_in_dK(dC: Array, cache: AttentionCache) -> Any:
    dS = _dS(dC, cache)
    return dS @ cache.K * cache.scale, dS.mT @ cache.Q, _dV(dC, cache)  # wrong: dK is not scaled


def scale_missing_in_both(dC: Array, cache: AttentionCache) -> Any:
    dS = _dS(dC, cache)
    return dS @ cache.K, dS.mT @ cache.Q, _dV(dC, cache)  # wrong: neither is scaled


def scale_twice(dC: Array, cache: AttentionCache) -> Any:
    dOmega = _dS(dC, cache) * cache.scale
    return dOmega @ cache.K * cache.scale, dOmega.mT @ cache.Q * cache.scale, _dV(dC, cache)  # wrong: scaled already


def default_scale(dC: Array, cache: AttentionCache) -> Any:
    dOmega = _dS(dC, cache) / math.sqrt(cache.Q.shape[-1])  # wrong: the forward may have had another scale
    return dOmega @ cache.K, dOmega.mT @ cache.Q, _dV(dC, cache)


def scale_on_dV(dC: Array, cache: AttentionCache) -> Any:
    dQ, dK, dV = _from_dS(_dS(dC, cache), dC, cache)
    return dQ, dK, dV * cache.scale  # wrong: V never met the scale


def swapped(dC: Array, cache: AttentionCache) -> Any:
    dQ, dK, dV = _from_dS(_dS(dC, cache), dC, cache)
    return dK, dQ, dV  # wrong: the order


def always_causal(dC: Array, cache: AttentionCache) -> Any:
    A = np.tril(cache.A)  # wrong: whether or not the forward was causal
    total = A.sum(-1, keepdims=True)
    A = A / np.where(total == 0, A.dtype.type(1), total)
    right = cache._replace(A=A)
    return _from_dS(_dS(dC, right), dC, right)


def recomputed_without_mask(dC: Array, cache: AttentionCache) -> Any:
    A, _ = reference.softmax(cache.Q @ cache.K.mT * cache.scale)  # wrong: neither mask nor bias
    other = cache._replace(A=A)
    return _from_dS(_dS(dC, other), dC, other)


def delta_missing(dC: Array, cache: AttentionCache) -> Any:
    dS = cache.A * _dA(dC, cache)  # wrong: the softmax's denominator has a gradient too
    return _from_dS(dS, dC, cache)


def delta_as_mean(dC: Array, cache: AttentionCache) -> Any:
    dA = _dA(dC, cache)
    dS = cache.A * (dA - dA.mean(-1, keepdims=True))  # wrong: A is the weight
    return _from_dS(dS, dC, cache)


def delta_over_queries(dC: Array, cache: AttentionCache) -> Any:
    dA = _dA(dC, cache)
    dS = cache.A * (dA - (cache.A * dA).sum(-2, keepdims=True))  # wrong: down the columns
    return _from_dS(dS, dC, cache)


def delta_over_everything(dC: Array, cache: AttentionCache) -> Any:
    dA = _dA(dC, cache)
    dS = cache.A * (dA - (cache.A * dA).sum())  # wrong: axis lost
    return _from_dS(dS, dC, cache)


def diagonal_only(dC: Array, cache: AttentionCache) -> Any:
    dS = _dA(dC, cache) * cache.A * (1.0 - cache.A)  # wrong: as if each weight stood alone
    return _from_dS(dS, dC, cache)


def factor_missing(dC: Array, cache: AttentionCache) -> Any:
    dA = _dA(dC, cache)
    dS = dA - (cache.A * dA).sum(-1, keepdims=True)  # wrong: not multiplied by A
    return _from_dS(dS, dC, cache)


def delta_without_dropout(dC: Array, cache: AttentionCache) -> Any:
    delta = (dC * (cache.A @ cache.V)).sum(-1, keepdims=True)  # wrong: this C was never dropped
    dS = cache.A * (_dA(dC, cache) - delta)
    return _from_dS(dS, dC, cache)


def dV_without_dropout(dC: Array, cache: AttentionCache) -> Any:
    dQ, dK, _ = _from_dS(_dS(dC, cache), dC, cache)
    return dQ, dK, cache.A.mT @ dC  # wrong: A before dropout


def dA_without_dropout(dC: Array, cache: AttentionCache) -> Any:
    dA = dC @ cache.V.mT  # wrong: dropped links pass gradient
    dS = cache.A * (dA - (cache.A * dA).sum(-1, keepdims=True))
    return _from_dS(dS, dC, cache)


def dA_dropped_twice(dC: Array, cache: AttentionCache) -> Any:
    dA = _dropped(_dA(dC, cache), cache)  # wrong: divided by 1 - p twice
    dS = cache.A * (dA - (cache.A * dA).sum(-1, keepdims=True))
    return _from_dS(dS, dC, cache)


def dropped_map_in_softmax(dC: Array, cache: AttentionCache) -> Any:
    A, dA = _dropped(cache.A, cache), _dA(dC, cache)
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))  # wrong: the softmax gave A before dropout
    return _from_dS(dS, dC, cache)


def written_into_cache(dC: Array, cache: AttentionCache) -> Any:
    dA, dV = _dA(dC, cache), _dV(dC, cache)
    delta = (cache.A * dA).sum(-1, keepdims=True)
    dS = np.multiply(cache.A, dA - delta, out=cache.A)  # wrong: saves an array, and loses the map
    return dS @ cache.K * cache.scale, dS.mT @ cache.Q * cache.scale, dV


def gradient_of_values_shared(dC: Array, cache: AttentionCache) -> Any:
    dQ, dK, dV = _from_dS(_dS(dC, cache), dC, cache)
    dV = dV.sum(tuple(range(dV.ndim - 2)), keepdims=True) + np.zeros_like(dV)  # wrong: summed over batch and heads
    return dQ, dK, dV


def remembers_logarithm(
    Q: Array,
    K: Array,
    V: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Array | None = None,
    p: float = 0.0,
) -> Any:
    """Right, and remembers S and the log-sum-exp L of each row instead of A, as a tiled attention does."""
    factor = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
    o = Options(mask, bias, causal, query_offset, factor, keep, p, scale)
    S = _scores(Q, K, o)
    S = _filled(S, _allowed(S, o))
    top = S.max(-1, keepdims=True)
    L = top + np.log(np.exp(S - top).sum(-1, keepdims=True))
    L = np.where(np.isneginf(top), top, L)
    return _mix(_guarded(S), V, o), (S, L, AttentionCache(Q, K, V, S, factor, keep, p))


def empty_row_recomputed(dC: Array, cache: Any) -> Any:
    S, L, rest = cache
    right = rest._replace(A=np.exp(S - L))  # wrong: -inf + inf where a row is empty
    return _from_dS(_dS(dC, right), dC, right)


def remembers_unmasked(
    Q: Array,
    K: Array,
    V: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Array | None = None,
    p: float = 0.0,
) -> Any:
    """Right, and remembers the scores before the mask, what the mask allows, and each row's maximum and sum."""
    factor = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
    o = Options(mask, bias, causal, query_offset, factor, keep, p, scale)
    scores = _scores(Q, K, o)
    allowed = _allowed(scores, o)
    S = _filled(scores, allowed)
    top = np.where(allowed.any(-1, keepdims=True), S.max(-1, keepdims=True), S.dtype.type(0))
    total = np.maximum(np.exp(S - top).sum(-1, keepdims=True), np.finfo(S.dtype).tiny)
    rest = AttentionCache(Q, K, V, S, factor, keep, p)
    return _mix(_guarded(S), V, o), (scores, allowed, top, total, rest)


def masked_by_a_product(dC: Array, cache: Any) -> Any:
    scores, allowed, top, total, rest = cache
    A = np.exp(scores - top) * allowed / total  # wrong: infinity times 0 where a masked score is far above its row's
    right = rest._replace(A=A)
    return _from_dS(_dS(dC, right), dC, right)


def recomputed_without_maximum(dC: Array, cache: Any) -> Any:
    S, _, rest = cache
    E = np.exp(S)  # wrong: overflows, though the forward did not
    total = E.sum(-1, keepdims=True)
    right = rest._replace(A=E / np.where(total == 0, E.dtype.type(1), total))
    return _from_dS(_dS(dC, right), dC, right)


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, backward: Any, forward: Any = None, source: str = ""
) -> Mistake:
    return Mistake(id, "attention", sentence, hidden_on, shown_by, forward, backward, source)


MISTAKES = (
    _of(
        "M033",
        "dK is made without transposing dS.",
        "one query and one key; a symmetric dS",
        "n other than m",
        not_transposed,
        source="HED-06",
    ),
    _of("M035", "The scale is missing in dQ.", "head width 1", "any other width", scale_missing_in_dQ, source="HED-06"),
    _of("M036", "The scale is missing in dK.", "head width 1", "any other width", scale_missing_in_dK),
    _of("B01", "The scale is missing in dQ and dK.", "head width 1", "any other width", scale_missing_in_both),
    _of("B02", "dQ and dK are scaled twice.", "head width 1", "any other width", scale_twice),
    _of("B03", "The backward assumes the default scale.", "the default", "any other scale", default_scale),
    _of("B04", "dV is scaled.", "head width 1", "any other width", scale_on_dV),
    _of("HED-06c", "dQ and dK come in the wrong order.", "Q = K", "n other than m", swapped),
    _of(
        "M038",
        "The backward is always causal.",
        "a causal forward",
        "a forward that is not",
        always_causal,
        source="HED-05",
    ),
    _of(
        "M039",
        "The backward recomputes A without mask and bias.",
        "no mask, no bias",
        "any mask",
        recomputed_without_mask,
    ),
    _of("B05", "delta is missing.", "A one-hot or delta 0", "rows of dS that do not sum to 0", delta_missing),
    _of("B06", "delta is the plain mean of dA.", "uniform A", "any other A", delta_as_mean),
    _of("B07", "delta is summed over the queries.", "one query and one key", "any other size", delta_over_queries),
    _of("B08", "delta is summed over the whole array.", "one row", "two rows", delta_over_everything),
    _of("B09", "Only the diagonal of the softmax's Jacobian.", "one key", "two keys", diagonal_only),
    _of("B10", "dS lacks the factor A.", "never right", "two keys", factor_missing),
    _of(
        "B11",
        "delta is made from C before dropout.",
        "no dropout",
        "any dropped link",
        delta_without_dropout,
    ),
    _of("B12", "dV is made from A before dropout.", "no dropout", "any dropped link", dV_without_dropout),
    _of("B13", "dA passes dropped links.", "no dropout", "any dropped link", dA_without_dropout),
    _of("B14", "dA is divided by 1 - p twice.", "no dropout", "p other than 0", dA_dropped_twice),
    _of(
        "B15",
        "The softmax's backward reads A after dropout.",
        "no dropout",
        "any dropped link",
        dropped_map_in_softmax,
    ),
    _of("B16", "dS is written into the saved A.", "the first call", "the second call", written_into_cache),
    _of(
        "B17",
        "dV is summed over batch and heads.",
        "one sequence",
        "two sequences",
        gradient_of_values_shared,
    ),
    _of(
        "B18",
        "A is recomputed as exp(S - L), and L of an empty row is -inf.",
        "no empty row",
        "an empty row: NaN",
        empty_row_recomputed,
        remembers_logarithm,
    ),
    _of(
        "B19",
        "A is recomputed without a maximum.",
        "scores below 88",
        "scores in the hundreds",
        recomputed_without_maximum,
        remembers_logarithm,
    ),
    _of(
        "B20",
        "A is recomputed and masked by a product.",
        "masked scores near those that may be seen",
        "a masked score 709 above its row's log-sum-exp (88 in float32): NaN",
        masked_by_a_product,
        remembers_unmasked,
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M033": "dK: axis",
    "M035": "dQ: factor",
    "M036": "dK: factor",
    "B01": "dOmega, dQ, dK: factor",
    "B02": "dOmega, dQ, dK: factor",
    "B03": "dOmega, scale: option, factor",
    "B04": "dV: factor",
    "HED-06c": "dQ, dK: operand",
    "M038": "A, causal: option, operand",
    "M039": "A, masked, mask, bias: option, operand",
    "B05": "delta, dS: term",
    "B06": "delta: term, operand",
    "B07": "delta: axis",
    "B08": "delta: axis, accumulation",
    "B09": "delta, dS: term",
    "B10": "dS: term",
    "B11": "delta: operand",
    "B12": "dV, keep: operand, option",
    "B13": "dA, keep: term, option",
    "B14": "dA, p: factor, term",
    "B15": "dS, delta: operand",
    "B16": "backward: conduct",
    "B17": "dV: accumulation, axis",
    "B18": "A: special",
    "B19": "A: precision, term",
    "B20": "A, masked, mask: special, precision",
}
