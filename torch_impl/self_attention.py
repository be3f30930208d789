"""Attention of a sequence to itself: untrained, with three projections, with several heads; functions and modules."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from reference_numpy import _check as rules
from reference_numpy.self_attention import check_heads
from torch_impl import _check
from torch_impl.attention import attention, attention_scale, compose
from torch_impl.dropout import draw_keep


def simple_attention(X: Tensor) -> Tensor:
    """C = A X,  A = softmax(X X^T)

    X, C: (..., n, d), A: (..., n, n). No weights and no scale: the scores are dot products of the inputs themselves.

    Source 1: the toy before the trainable one.
    Raises TypeError for anything but a floating tensor, ValueError for an empty axis.
    """
    _check.floats("simple_attention", X=X)
    rules.shapes("simple_attention", X=(X, "... n d"))
    return attention(X, X, X, scale=1.0)


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
    keep: Tensor | None = None,
    p: float = 0.0,
    fused: bool = False,
) -> Tensor:
    """C = attention(X Wq, X Wk, X Wv)

    X: (..., n, d), Wq, Wk: (d, c), Wv: (d, e), C: (..., n, e). Keywords as in `attention`, against (..., n, n).

    Five matrix products and one transposition for all tokens. Source 1: trainable self-attention.
    Raises as attention does.
    """
    op = "self_attention"
    _check.floats(op, X=X, Wq=Wq, Wk=Wk, Wv=Wv, bias=bias)
    n = rules.shapes(op, X=(X, "... n d"), Wq=(Wq, "d c"), Wk=(Wk, "d c"), Wv=(Wv, "d e"))["n"]
    _check.attention_options(op, ("X", X), (*X.shape[:-1], n), mask, bias, query_offset, keep, p)
    return attention(
        X @ Wq,
        X @ Wk,
        X @ Wv,
        mask=mask,
        bias=bias,
        causal=causal,
        query_offset=query_offset,
        scale=scale,
        keep=keep,
        p=p,
        fused=fused,
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
    keep: Tensor | None = None,
    p: float = 0.0,
    fused: bool = False,
) -> Tensor:
    """Y = concat_h(C_h) Wo,  C_h = attention(X Wq_h, X Wk_h, X Wv_h)

    X: (..., n, d), Wq, Wk, Wv: (d, H c), Wo: (H c, k), Y: (..., n, k); head h owns the columns h c ... (h + 1) c - 1 of
    Wq, Wk, Wv and those rows of Wo. Keywords as in `attention`, against (..., H, n, n); the scale is 1/sqrt(c).

    Source 2: heads concatenated, then a projection without bias (its W_0 is the transpose of Wo).
    Raises as attention does; ValueError if num_heads does not divide the width.
    """
    op = "multi_head_attention"
    _check.floats(op, X=X, Wq=Wq, Wk=Wk, Wv=Wv, Wo=Wo, bias=bias)
    sizes = rules.shapes(op, X=(X, "... n d"), Wq=(Wq, "d Hc"), Wk=(Wk, "d Hc"), Wv=(Wv, "d Hc"), Wo=(Wo, "Hc k"))
    check_heads(op, num_heads, sizes["Hc"])
    weights = (*X.shape[:-2], num_heads, sizes["n"], sizes["n"])
    _check.attention_options(op, ("X", X), weights, mask, bias, query_offset, keep, p)
    C = attention(
        split_heads(X @ Wq, num_heads),  # (..., H, n, c)
        split_heads(X @ Wk, num_heads),
        split_heads(X @ Wv, num_heads),
        mask=mask,
        bias=bias,
        causal=causal,
        query_offset=query_offset,
        scale=scale,
        keep=keep,
        p=p,
        fused=fused,
    )
    return merge_heads(C) @ Wo


def split_heads(X: Tensor, num_heads: int) -> Tensor:
    """(..., n, H c) -> (..., H, n, c)"""
    return X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads).transpose(-3, -2)


def merge_heads(X: Tensor) -> Tensor:
    """(..., H, n, c) -> (..., n, H c)"""
    swapped = X.transpose(-3, -2)
    return swapped.reshape(*swapped.shape[:-2], X.shape[-3] * X.shape[-1])


class SimpleSelfAttention(nn.Module):
    """C = softmax(X X^T) X

    X, C: (..., n, d). Nothing to train. Source 1: the toy.
    """

    def forward(self, X: Tensor) -> Tensor:
        return simple_attention(X)


class SelfAttentionV1(nn.Module):
    """C = softmax(X Wq (X Wk)^T / sqrt(c)) X Wv

    X: (..., n, d), Wq, Wk, Wv: (d, c), C: (..., n, c). Source 1, version 1: three plain parameters.

    They start as N(0, 1) / sqrt(d): inputs of variance 1 then give queries, keys and values of variance 1.
    """

    def __init__(self, d: int, c: int) -> None:
        super().__init__()
        self.Wq = nn.Parameter(torch.randn(d, c) / math.sqrt(d))
        self.Wk = nn.Parameter(torch.randn(d, c) / math.sqrt(d))
        self.Wv = nn.Parameter(torch.randn(d, c) / math.sqrt(d))

    def forward(self, X: Tensor) -> Tensor:
        return self_attention(X, self.Wq, self.Wk, self.Wv)


class SelfAttentionV2(nn.Module):
    """C = attention(query(X), key(X), value(X))

    X: (..., n, d), the weights: (c, d), the transposes of version 1's, C: (..., n, c). Source 1, version 2: `nn.Linear`.

    It starts from `nn.Linear`'s own uniform draw in +-1/sqrt(d), three times less variance than version 1's.
    """

    def __init__(self, d: int, c: int, bias: bool = False) -> None:
        super().__init__()
        self.query = nn.Linear(d, c, bias=bias)
        self.key = nn.Linear(d, c, bias=bias)
        self.value = nn.Linear(d, c, bias=bias)

    def forward(self, X: Tensor) -> Tensor:
        return attention(self.query(X), self.key(X), self.value(X))


class AttentionConfig(Protocol):
    """The fields of a configuration that attention reads."""

    @property
    def embedding_dim(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def dropout(self) -> float: ...


class _CausalSelfAttention(nn.Module):
    """What one head and many have in common: three projections of one width, and causal attention with dropout."""

    attn_matrix: Tensor | None

    def __init__(self, config: AttentionConfig, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(config.embedding_dim, width, bias=False)
        self.key = nn.Linear(config.embedding_dim, width, bias=False)
        self.value = nn.Linear(config.embedding_dim, width, bias=False)
        self.dropout = config.dropout
        self.attn_matrix = None

    def _attend(self, Q: Tensor, K: Tensor, V: Tensor, keep: Tensor | None) -> Tensor:
        """Causal attention: in training with dropout, in evaluation without and with A kept for looking at."""
        if self.training:
            if keep is None and self.dropout > 0.0:
                keep = draw_keep((*Q.shape[:-1], K.shape[-2]), self.dropout, Q.device)
            return attention(Q, K, V, causal=True, keep=keep, p=self.dropout)
        scale = attention_scale(type(self).__name__, Q, K, V, None, None, 0, None, None, 0.0)
        stages = compose(Q, K, V, None, None, True, 0, scale, None, 0.0)
        self.attn_matrix = stages.A.detach()
        return stages.C


class SelfAttentionHead(_CausalSelfAttention):
    """C = dropout(A) V,  A = softmax(Q K^T / sqrt(c)) over the keys j <= i

    X: (..., n, d), A: (..., n, n), C: (..., n, c); d and c are embedding_dim and head_dim.

    keep, boolean of A's shape, replaces the mask that is drawn in training. In evaluation nothing is dropped and A stays
    in `attn_matrix`, detached. Source 2: one masked head, without biases.
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config, config.head_dim)

    def forward(self, X: Tensor, keep: Tensor | None = None) -> Tensor:
        return self._attend(self.query(X), self.key(X), self.value(X), keep)


class MultiHeadSelfAttention(_CausalSelfAttention):
    """Y = projection(concat_h(C_h)),  C_h the output of head h

    X, Y: (..., n, d), A: (..., H, n, n); query, key, value: (H c, d), projection: (d, H c).

    Head h owns the rows h c ... (h + 1) c - 1 of query, key and value: the source's list of heads in three products.
    keep and `attn_matrix` as in SelfAttentionHead. Source 2: several heads, concatenated and projected, without biases.
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config, config.num_heads * config.head_dim)
        self.num_heads = config.num_heads
        self.projection = nn.Linear(config.num_heads * config.head_dim, config.embedding_dim, bias=False)

    def forward(self, X: Tensor, keep: Tensor | None = None) -> Tensor:
        Q = split_heads(self.query(X), self.num_heads)  # (..., H, n, c)
        K = split_heads(self.key(X), self.num_heads)
        V = split_heads(self.value(X), self.num_heads)
        Y: Tensor = self.projection(merge_heads(self._attend(Q, K, V, keep)))
        return Y
