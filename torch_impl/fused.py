"""Attention in torch's fused kernels: the same names, without the dropout mask that the kernels cannot be given."""

from __future__ import annotations

from torch import Tensor

from torch_impl.attention import attention as _attention
from torch_impl.self_attention import multi_head_attention as _multi_head_attention
from torch_impl.self_attention import self_attention as _self_attention

__all__ = ["attention", "multi_head_attention", "self_attention"]


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
) -> Tensor:
    """C = A V,  A = softmax(Q K^T * scale + bias) over the allowed keys

    Q: (..., n, c), K: (..., m, c), V: (..., m, e), C: (..., n, e).
    `torch_impl.attention` with fused=True.
    """
    return _attention(Q, K, V, mask=mask, bias=bias, causal=causal, query_offset=query_offset, scale=scale, fused=True)


def self_attention(
    X: Tensor,
    Wq: Tensor,
    Wk: Tensor,
    Wv: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
) -> Tensor:
    """C = attention(X Wq, X Wk, X Wv)

    X: (..., n, d), Wq, Wk: (d, c), Wv: (d, e), C: (..., n, e).
    `torch_impl.self_attention` with fused=True.
    """
    return _self_attention(
        X, Wq, Wk, Wv, mask=mask, bias=bias, causal=causal, query_offset=query_offset, scale=scale, fused=True
    )


def multi_head_attention(
    X: Tensor,
    Wq: Tensor,
    Wk: Tensor,
    Wv: Tensor,
    Wo: Tensor,
    num_heads: int,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
) -> Tensor:
    """Y = concat_h(C_h) Wo,  C_h = attention(X Wq_h, X Wk_h, X Wv_h)

    X: (..., n, d), Wq, Wk, Wv: (d, H c), Wo: (H c, k), Y: (..., n, k).
    `torch_impl.multi_head_attention` with fused=True.
    """
    return _multi_head_attention(
        X,
        Wq,
        Wk,
        Wv,
        Wo,
        num_heads,
        mask=mask,
        bias=bias,
        causal=causal,
        query_offset=query_offset,
        scale=scale,
        fused=True,
    )
