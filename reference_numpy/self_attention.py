"""Attention of a sequence to itself: untrained, with three projections, with several heads."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.attention import AttentionCache, attention, attention_backward, check_attention_options

SelfAttentionCache = tuple[Array, Array, Array, Array, AttentionCache]
MultiHeadCache = tuple[Array, Array, Array, Array, Array, Array, AttentionCache]


def simple_attention(X: Array) -> tuple[Array, tuple[Array, AttentionCache]]:
    """C = A X,  A = softmax(X X^T)

    X, C: (..., n, d), A: (..., n, n). No weights and no scale: the scores are dot products of the inputs themselves.

    Source 1: the toy before the trainable one.
    Raises TypeError for anything but float32 or float64, ValueError for an empty axis.
    """
    _check.floats("simple_attention", X=X)
    _check.shapes("simple_attention", X=(X, "... n d"))
    C, cache = attention(X, X, X, scale=1.0)
    return C, (X, cache)


def simple_attention_backward(dC: Array, cache: tuple[Array, AttentionCache]) -> Array:
    """dX = dQ + dK + dV

    X is query, key and value at once: three paths, and a sum.
    """
    X, attention_cache = cache
    _check.upstream("simple_attention_backward", "dC", dC, X)
    dQ, dK, dV = attention_backward(dC, attention_cache)
    dX: Array = dQ + dK + dV
    return dX


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
) -> tuple[Array, SelfAttentionCache]:
    """C = attention(X Wq, X Wk, X Wv)

    X: (..., n, d), Wq, Wk: (d, c), Wv: (d, e), C: (..., n, e). Keywords as in `attention`, against (..., n, n).

    Five matrix products and one transposition for all tokens. Source 1: trainable self-attention.
    Raises as attention does.
    """
    check_self_attention("self_attention", X, Wq, Wk, Wv, bias)
    Q = X @ Wq
    K = X @ Wk
    V = X @ Wv
    C, cache = attention(
        Q, K, V, mask=mask, bias=bias, causal=causal, query_offset=query_offset, scale=scale, keep=keep, p=p
    )
    return C, (X, Wq, Wk, Wv, cache)


def self_attention_backward(dC: Array, cache: SelfAttentionCache) -> tuple[Array, Array, Array, Array]:
    """dX = dQ Wq^T + dK Wk^T + dV Wv^T;  dWq = X^T dQ;  dWk = X^T dK;  dWv = X^T dV

    X feeds three projections, so its gradient is a sum; each matrix serves every token of every sequence, so X^T dQ sums
    over all leading axes.
    """
    X, Wq, Wk, Wv, attention_cache = cache
    dQ, dK, dV = attention_backward(dC, attention_cache)
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, _weight_gradient(X, dQ), _weight_gradient(X, dK), _weight_gradient(X, dV)


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
) -> tuple[Array, MultiHeadCache]:
    """Y = concat_h(C_h) Wo,  C_h = attention(X Wq_h, X Wk_h, X Wv_h)

    X: (..., n, d), Wq, Wk, Wv: (d, H c), Wo: (H c, k), Y: (..., n, k); head h owns the columns h c ... (h + 1) c - 1 of
    Wq, Wk, Wv and those rows of Wo. Keywords as in `attention`, against (..., H, n, n); the scale is 1/sqrt(c).

    Source 2: heads concatenated, then a projection without bias (its W_0 is the transpose of Wo).
    Raises as attention does; ValueError if num_heads does not divide the width.
    """
    check_multi_head("multi_head_attention", X, Wq, Wk, Wv, Wo, num_heads, mask, bias, query_offset, keep, p)
    Q = split_heads(X @ Wq, num_heads)  # (..., H, n, c)
    K = split_heads(X @ Wk, num_heads)
    V = split_heads(X @ Wv, num_heads)
    C, cache = attention(
        Q, K, V, mask=mask, bias=bias, causal=causal, query_offset=query_offset, scale=scale, keep=keep, p=p
    )
    merged = merge_heads(C)  # (..., n, H c)
    return merged @ Wo, (X, Wq, Wk, Wv, Wo, merged, cache)


def multi_head_attention_backward(dY: Array, cache: MultiHeadCache) -> tuple[Array, Array, Array, Array, Array]:
    """dWo = merged^T dY;  dC_h = (dY Wo^T)_h;  then dX, dWq, dWk, dWv as in self_attention, heads merged

    Splitting and merging only move numbers, so each one's backward is the other.
    """
    X, Wq, Wk, Wv, Wo, merged, attention_cache = cache
    _check.floats("multi_head_attention_backward", X=X, dY=dY)
    _check.same_shape("multi_head_attention_backward", "dY", dY, (*X.shape[:-1], Wo.shape[1]), "the output")
    num_heads = attention_cache.Q.shape[-3]
    dWo = _weight_gradient(merged, dY)
    dC = split_heads(dY @ Wo.T, num_heads)
    dQ, dK, dV = (merge_heads(gradient) for gradient in attention_backward(dC, attention_cache))
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, _weight_gradient(X, dQ), _weight_gradient(X, dK), _weight_gradient(X, dV), dWo


def check_self_attention(op: str, X: Array, Wq: Array, Wk: Array, Wv: Array, bias: Array | None) -> None:
    _check.floats(op, X=X, Wq=Wq, Wk=Wk, Wv=Wv, bias=bias)
    _check.shapes(op, X=(X, "... n d"), Wq=(Wq, "d c"), Wk=(Wk, "d c"), Wv=(Wv, "d e"))


def check_multi_head(
    op: str,
    X: Array,
    Wq: Array,
    Wk: Array,
    Wv: Array,
    Wo: Array,
    num_heads: int,
    mask: Array | None,
    bias: Array | None,
    query_offset: int,
    keep: Array | None,
    p: float,
) -> None:
    _check.floats(op, X=X, Wq=Wq, Wk=Wk, Wv=Wv, Wo=Wo, bias=bias)
    sizes = _check.shapes(op, X=(X, "... n d"), Wq=(Wq, "d Hc"), Wk=(Wk, "d Hc"), Wv=(Wv, "d Hc"), Wo=(Wo, "Hc k"))
    check_heads(op, num_heads, sizes["Hc"])
    weights = (*X.shape[:-2], num_heads, sizes["n"], sizes["n"])
    check_attention_options(op, weights, mask, bias, query_offset, keep, p)


def check_heads(op: str, num_heads: int, width: int) -> None:
    if isinstance(num_heads, bool) or not hasattr(num_heads, "__index__"):
        raise TypeError(f"{op}: num_heads is a {type(num_heads).__name__}, expected an integer")
    if num_heads < 1 or width % num_heads:
        raise ValueError(f"{op}: num_heads is {num_heads}, expected a divisor of the width {width} of Wq")


def split_heads(X: Array, num_heads: int) -> Array:
    """(..., n, H c) -> (..., H, n, c)"""
    return np.swapaxes(X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads), -3, -2)


def merge_heads(X: Array) -> Array:
    """(..., H, n, c) -> (..., n, H c)"""
    swapped = np.swapaxes(X, -3, -2)
    return swapped.reshape(*swapped.shape[:-2], X.shape[-3] * X.shape[-1])


def _weight_gradient(X: Array, dY: Array) -> Array:
    """X^T dY, summed over every leading axis: (..., n, d), (..., n, c) -> (d, c)"""
    gradient: Array = X.reshape(-1, X.shape[-1]).T @ dY.reshape(-1, dY.shape[-1])
    return gradient
