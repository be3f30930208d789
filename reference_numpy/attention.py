"""Scaled dot-product attention, and every intermediate of it by name."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.dropout import dropout, dropout_backward
from reference_numpy.softmax import softmax_backward


class AttentionCache(NamedTuple):
    """What the backward needs; `A` is the attention map, before dropout."""

    Q: Array
    K: Array
    V: Array
    A: Array
    scale: float
    keep: Array | None
    p: float


class AttentionStages(NamedTuple):
    """Every named intermediate, in the order in which it arises; the last seven are None without dC."""

    Omega: Array
    scaled: Array
    masked: Array
    A: Array
    C: Array
    dA: Array | None
    delta: Array | None
    dS: Array | None
    dOmega: Array | None
    dQ: Array | None
    dK: Array | None
    dV: Array | None


def attention(
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
) -> tuple[Array, AttentionCache]:
    """C = dropout(A) V,  A = softmax(Q K^T * scale + bias) over the allowed keys

    Q: (..., n, c), K: (..., m, c), V: (..., m, e), A: (..., n, m), C: (..., n, e); leading axes equal.

    mask: boolean, True = may attend; bias: added to the scaled scores, -inf counts as "may not attend"; both broadcast to
    (..., n, m), their last axis being m itself. causal: query i sits at position i + query_offset and sees the keys
    j <= i + query_offset (0 is "top-left", m - n "bottom-right"). scale: 1/sqrt(c) if left out. keep, p: the dropout of A,
    not renormalised; keep is exactly (..., n, m).

    A row with nothing to attend to has A = 0, C = 0 and no gradient through it. NaN and +inf propagate; what K and V hold
    where nobody may look is not specified unless finite.

    Source 1: A = softmax(Omega / sqrt(c), axis=1), C = A V. Source 2: -inf before the softmax, dropout after it.
    Raises TypeError for dtypes, ValueError for shapes, p outside [0, 1] or p > 0 without keep.
    """
    scale = attention_scale("attention", Q, K, V, mask, bias, query_offset, scale, keep, p)
    S = (Q @ K.mT) * scale
    if bias is not None:
        S = S + bias
    A = _softmax_over(S, _allowed(S, mask, causal, query_offset))
    C = dropout(A, keep, p)[0] @ V
    return C, AttentionCache(Q, K, V, A, scale, keep, p)


def attention_backward(dC: Array, cache: AttentionCache) -> tuple[Array, Array, Array]:
    """dV = dropout(A)^T dC;  dA = dropout'(dC V^T);  dS = A (dA - sum A dA);  dQ = scale dS K;  dK = scale dS^T Q

    Each product hands its gradient to both factors; softmax does the rest. A is 0 where nobody may look, and so is dS:
    masks need no second thought here, and an empty row gives nothing to anyone. The gradient of a bias would be dS.
    """
    Q, K, V, A, scale, keep, p = cache
    _check.floats("attention_backward", Q=Q, dC=dC)
    _check.same_shape("attention_backward", "dC", dC, (*Q.shape[:-1], V.shape[-1]), "C")
    dropped, dropout_cache = dropout(A, keep, p)
    dV = dropped.mT @ dC
    dA = dropout_backward(dC @ V.mT, dropout_cache)
    dS = softmax_backward(dA, (A, -1))
    dOmega = dS * scale
    dQ = dOmega @ K
    dK = dOmega.mT @ Q
    return dQ, dK, dV


def attention_stages(
    Q: Array,
    K: Array,
    V: Array,
    dC: Array | None = None,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Array | None = None,
    p: float = 0.0,
) -> AttentionStages:
    """Omega = Q K^T;  scaled = Omega * scale;  masked = scaled + bias, or -inf;  A = softmax(masked);  C = dropout(A) V;
    dA = dropout'(dC V^T);  delta = sum A dA;  dS = A (dA - delta);  dOmega = dS * scale;  dQ, dK, dV

    Omega, scaled, masked, A, dA, dS, dOmega: (..., n, m); delta: (..., n, 1); the others as in `attention`.

    For people who want to look, and for finding the first wrong stage of another implementation. dS is the gradient with
    respect to `masked`, and so to a bias (summed over the axes that it was broadcast over).
    Raises as attention does.
    """
    scale = attention_scale("attention_stages", Q, K, V, mask, bias, query_offset, scale, keep, p)
    Omega = Q @ K.mT
    scaled = Omega * scale
    S = scaled if bias is None else scaled + bias
    allowed = _allowed(S, mask, causal, query_offset)
    masked = np.where(allowed, S, S.dtype.type(-np.inf))
    A = _softmax_over(S, allowed)
    dropped, dropout_cache = dropout(A, keep, p)
    C = dropped @ V
    if dC is None:
        return AttentionStages(Omega, scaled, masked, A, C, None, None, None, None, None, None, None)
    _check.upstream("attention_stages", "dC", dC, C)
    dV = dropped.mT @ dC
    dA = dropout_backward(dC @ V.mT, dropout_cache)
    delta = (A * dA).sum(-1, keepdims=True)
    dS = A * (dA - delta)
    dOmega = dS * scale
    dQ = dOmega @ K
    dK = dOmega.mT @ Q
    return AttentionStages(Omega, scaled, masked, A, C, dA, delta, dS, dOmega, dQ, dK, dV)


def _allowed(S: Array, mask: Array | None, causal: bool, query_offset: int) -> Array:
    """True where a query may attend: all conditions at once, so that no two finite fills ever add up."""
    n, m = S.shape[-2:]
    allowed: Array = S.real != -np.inf
    if mask is not None:
        allowed = allowed & mask
    if causal:
        allowed = allowed & (np.arange(m) <= np.arange(n)[:, None] + query_offset)
    return allowed


def _softmax_over(S: Array, allowed: Array) -> Array:
    """Softmax over the allowed keys of each row; 0 elsewhere, and throughout a row that has none."""
    top = np.max(S.real, -1, keepdims=True, where=allowed, initial=-np.inf)
    top = np.where(np.isneginf(top), S.real.dtype.type(0), top)
    with np.errstate(over="ignore", invalid="ignore"):  # -huge - huge is -inf, inf - inf is NaN: both as they should be
        E = np.exp(np.where(allowed, S - top, S.dtype.type(-np.inf)))
    total = E.sum(-1, keepdims=True)
    A: Array = E / np.where(total == 0.0, S.dtype.type(1), total)
    return A


def attention_scale(
    op: str,
    Q: Array,
    K: Array,
    V: Array,
    mask: Array | None,
    bias: Array | None,
    query_offset: int,
    scale: float | None,
    keep: Array | None,
    p: float,
) -> float:
    """Check the operands of an attention and return its scale."""
    _check.floats(op, Q=Q, K=K, V=V, bias=bias)
    c = _check.shapes(op, Q=(Q, "... n c"), K=(K, "... m c"), V=(V, "... m e"))["c"]
    weights = (*Q.shape[:-1], K.shape[-2])
    check_attention_options(op, weights, mask, bias, query_offset, keep, p)
    return 1.0 / math.sqrt(c) if scale is None else _check.number(op, "scale", scale)


def check_attention_options(
    op: str,
    weights: tuple[int, ...],
    mask: Any,
    bias: Any,
    query_offset: int,
    keep: Any,
    p: float,
    family: _check.Family = _check.NUMPY,
) -> None:
    """The keyword arguments of an attention whose weights A have the shape `weights`; both twins and all heads use it."""
    if mask is not None:
        _check.boolean(op, "mask", mask, family)
        _check.broadcasts(op, "mask", mask, weights)
    if bias is not None:
        _check.broadcasts(op, "bias", bias, weights)
    if keep is not None:
        _check.boolean(op, "keep", keep, family)
        _check.same_shape(op, "keep", keep, weights, "A")
    if isinstance(query_offset, bool) or not hasattr(query_offset, "__index__"):
        raise TypeError(f"{op}: query_offset is a {type(query_offset).__name__}, expected an integer")
    _check.probability(op, p, keep)
