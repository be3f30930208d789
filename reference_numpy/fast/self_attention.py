"""Attention of a sequence to itself: the projections are one product, the attention is tiled."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.fast._check import only_real
from reference_numpy.fast.attention import TiledCache, attention, attention_backward
from reference_numpy.self_attention import check_multi_head, check_self_attention, merge_heads, split_heads

SelfAttentionCache = tuple[Array, Array, Array, Array, TiledCache]
MultiHeadCache = tuple[Array, Array, Array, int, Array, TiledCache]


def simple_attention(X: Array) -> tuple[Array, tuple[Array, TiledCache]]:
    """C = A X,  A = softmax(X X^T); X, C: (..., n, d). As `reference_numpy.simple_attention`."""
    _check.floats("simple_attention", X=X)
    _check.shapes("simple_attention", X=(X, "... n d"))
    only_real("simple_attention", X=X)
    C, cache = attention(X, X, X, scale=1.0)
    return C, (X, cache)


def simple_attention_backward(dC: Array, cache: tuple[Array, TiledCache]) -> Array:
    """dX = dQ + dK + dV"""
    X, attention_cache = cache
    _check.upstream("simple_attention_backward", "dC", dC, X)
    dX, dK, dV = attention_backward(dC, attention_cache)
    dX += dK
    dX += dV
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

    X: (..., n, d), Wq, Wk: (d, c), Wv: (d, e), C: (..., n, e). As `reference_numpy.self_attention`, with one product
    X [Wq, Wk, Wv].
    Raises as the reference does, and TypeError for complex numbers.
    """
    check_self_attention("self_attention", X, Wq, Wk, Wv, bias)
    only_real("self_attention", X=X)
    W = np.concatenate([Wq, Wk, Wv], 1)
    Q, K, V = _columns(_product(X, W), (Wq, Wk, Wv))
    C, cache = attention(
        Q, K, V, mask=mask, bias=bias, causal=causal, query_offset=query_offset, scale=scale, keep=keep, p=p
    )
    return C, (X, Wq, Wk, Wv, cache)


def self_attention_backward(dC: Array, cache: SelfAttentionCache) -> tuple[Array, Array, Array, Array]:
    """dX = [dQ, dK, dV] [Wq, Wk, Wv]^T;  [dWq, dWk, dWv] = X^T [dQ, dK, dV]"""
    X, Wq, Wk, Wv, attention_cache = cache
    dQKV = np.concatenate(attention_backward(dC, attention_cache), -1)
    dX = _product(dQKV, np.concatenate([Wq, Wk, Wv], 1).T)
    dWq, dWk, dWv = _columns(_weight_gradient(X, dQKV), (Wq, Wk, Wv))
    return dX, dWq.copy(), dWk.copy(), dWv.copy()


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

    X: (..., n, d), Wq, Wk, Wv: (d, H c), Wo: (H c, k), Y: (..., n, k). As `reference_numpy.multi_head_attention`, with one
    product X [Wq, Wk, Wv].
    Raises as the reference does, and TypeError for complex numbers.
    """
    check_multi_head("multi_head_attention", X, Wq, Wk, Wv, Wo, num_heads, mask, bias, query_offset, keep, p)
    only_real("multi_head_attention", X=X)
    W = np.concatenate([Wq, Wk, Wv], 1)
    Q, K, V = (split_heads(each, num_heads) for each in _columns(_product(X, W), (Wq, Wk, Wv)))
    C, cache = attention(
        Q, K, V, mask=mask, bias=bias, causal=causal, query_offset=query_offset, scale=scale, keep=keep, p=p
    )
    merged = merge_heads(C)
    return _product(merged, Wo), (X, W, Wo, num_heads, merged, cache)


def multi_head_attention_backward(dY: Array, cache: MultiHeadCache) -> tuple[Array, Array, Array, Array, Array]:
    """dWo = merged^T dY;  dC_h = (dY Wo^T)_h;  then dX, dWq, dWk, dWv as in self_attention, heads merged"""
    X, W, Wo, num_heads, merged, attention_cache = cache
    _check.floats("multi_head_attention_backward", X=X, dY=dY)
    _check.same_shape("multi_head_attention_backward", "dY", dY, (*X.shape[:-1], Wo.shape[1]), "the output")
    dC = split_heads(_product(dY, Wo.T), num_heads)
    dQKV = np.concatenate([merge_heads(each) for each in attention_backward(dC, attention_cache)], -1)
    dWq, dWk, dWv = np.split(_weight_gradient(X, dQKV), 3, 1)
    return _product(dQKV, W.T), dWq.copy(), dWk.copy(), dWv.copy(), _weight_gradient(merged, dY)


def _product(X: Array, W: Array) -> Array:
    """X W as one product of all rows."""
    return (X.reshape(-1, W.shape[0]) @ W).reshape(*X.shape[:-1], W.shape[1])


def _columns(X: Array, like: tuple[Array, ...]) -> list[Array]:
    """X cut into pieces as wide as these, views."""
    edges = np.cumsum([each.shape[1] for each in like])[:-1]
    return np.split(X, edges, -1)


def _weight_gradient(X: Array, dY: Array) -> Array:
    """X^T dY, summed over every leading axis."""
    gradient: Array = X.reshape(-1, X.shape[-1]).T @ dY.reshape(-1, dY.shape[-1])
    return gradient
