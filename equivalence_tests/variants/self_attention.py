"""Attention of a sequence to itself, through the variants of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.attention import ATTENTION
from equivalence_tests.variants.softmax import centred
from equivalence_tests.variants.sums import Binary, Pair, as_rows, einsum, matmul, reverse_product


def _simple_attention(inner: Pair, joined: bool) -> Pair:
    """`joined` adds two of the three paths after one product."""
    forward, backward = inner

    def simple_attention(X: Array) -> tuple[Array, Any]:
        C, cache = forward(X, X, X, scale=1.0)
        return C, (X, cache)

    def simple_attention_backward(dC: Array, cache: Any) -> Array:
        X, inner_cache = cache
        if not joined:
            dQ, dK, dV = backward(dC, inner_cache)
            return np.asarray(dV + dK + dQ)
        A = inner_cache[3]
        dOmega = centred(A, dC @ X.mT)
        return np.asarray(np.concatenate([A.mT, dOmega + dOmega.mT], -1) @ np.concatenate([dC, X], -2))

    return simple_attention, simple_attention_backward


def _self_attention(inner: Pair, product: Binary) -> Pair:
    forward, backward = inner

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
    ) -> tuple[Array, Any]:
        options = {"mask": mask, "bias": bias, "causal": causal, "query_offset": query_offset}
        projected = [product(X, W) for W in (Wq, Wk, Wv)]
        C, cache = forward(*projected, **options, scale=scale, keep=keep, p=p)
        return C, (X, Wq, Wk, Wv, cache)

    def self_attention_backward(dC: Array, cache: Any) -> tuple[Array, ...]:
        X, Wq, Wk, Wv, inner_cache = cache
        return _through_projections(product, X, (Wq, Wk, Wv), backward(dC, inner_cache))

    return self_attention, self_attention_backward


def _through_projections(
    product: Binary, X: Array, weights: tuple[Array, ...], gradients: tuple[Array, ...]
) -> tuple[Array, ...]:
    """dX as one product with all projections side by side, and each weight's own gradient."""
    dX = product(np.concatenate(gradients, -1), np.concatenate(weights, -1).T)
    return (dX, *(product(as_rows(X).T, as_rows(gradient)) for gradient in gradients))


def _multi_head_attention(inner: Pair, product: Binary) -> Pair:
    """One head after the other; Y as a sum over the heads."""
    forward, backward = inner

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
    ) -> tuple[Array, Any]:
        n = X.shape[-2]
        shape = (*X.shape[:-2], num_heads, n, n)

        def of(head: int, option: Array | None) -> Array | None:
            return None if option is None else np.broadcast_to(option, shape)[..., head, :, :]

        heads, Y = [], np.zeros((*X.shape[:-1], Wo.shape[-1]), X.dtype)
        for head, columns in enumerate(np.split(np.arange(Wo.shape[0]), num_heads)):
            C, cache = forward(
                *(product(X, W[:, columns]) for W in (Wq, Wk, Wv)),
                mask=of(head, mask),
                bias=of(head, bias),
                causal=causal,
                query_offset=query_offset,
                scale=scale,
                keep=of(head, keep),
                p=p,
            )
            Y = Y + product(C, Wo[columns])
            heads.append((columns, C, cache))
        return Y, (X, Wq, Wk, Wv, Wo, tuple(heads))

    def multi_head_attention_backward(dY: Array, cache: Any) -> tuple[Array, ...]:
        X, Wq, Wk, Wv, Wo, heads = cache
        dWo = np.concatenate([product(as_rows(C).T, as_rows(dY)) for _, C, _ in heads], 0)
        parts = [backward(product(dY, Wo[columns].T), inner_cache) for columns, _, inner_cache in heads]
        gradients = tuple(np.concatenate(part, -1) for part in zip(*parts, strict=True))
        return (*_through_projections(product, X, (Wq, Wk, Wv), gradients), dWo)

    return multi_head_attention, multi_head_attention_backward


SIMPLE_ATTENTION: dict[str, Pair] = {
    "two paths joined": _simple_attention(ATTENTION["scale on K"], joined=True),
    "online": _simple_attention(ATTENTION["online, tiles of 2"], joined=False),
    "einsum": _simple_attention(ATTENTION["einsum"], joined=False),
}

SELF_ATTENTION: dict[str, Pair] = {
    "scale split": _self_attention(ATTENTION["scale split over Q and K"], matmul),
    "online": _self_attention(ATTENTION["online, tiles of 3"], reverse_product),
    "einsum": _self_attention(ATTENTION["einsum"], einsum),
}

MULTI_HEAD_ATTENTION: dict[str, Pair] = {
    "head by head": _multi_head_attention(ATTENTION["division after the product"], matmul),
    "head by head, online": _multi_head_attention(ATTENTION["online, key by key"], reverse_product),
    "head by head, einsum": _multi_head_attention(ATTENTION["einsum"], einsum),
}
