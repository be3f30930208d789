"""Attention: a way to the scores, to the weights and the context, through the softmax, and a place for the scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.softmax import (
    by_ceiling,
    by_complement,
    by_differences,
    by_exp2,
    by_jacobian,
    by_log_sum_exp,
    by_sum,
    centred,
    expanded,
    finite,
    plain,
)
from equivalence_tests.variants.sums import (
    Binary,
    Pair,
    Unary,
    einsum,
    matmul,
    numpy_sum,
    outer_products,
    reverse_product,
    reverse_sum,
    widely,
)

Scores = Callable[[Array, Array, float, Array | None, Array], Array]
Core = Callable[[Array, Array, Array | None], tuple[Array, Array]]


def _masked(S: Array, bias: Array | None, allowed: Array) -> Array:
    return np.where(allowed, S if bias is None else S + bias, S.dtype.type(-np.inf))


def _scale_on_scores(product: Binary, Q: Array, K: Array, scale: float, bias: Array | None, allowed: Array) -> Array:
    """Another order of summation."""
    return _masked(product(Q, K.mT) * scale, bias, allowed)


def _scale_on_Q(Q: Array, K: Array, scale: float, bias: Array | None, allowed: Array) -> Array:
    """(scale Q) K^T"""
    return _masked((Q * scale) @ K.mT, bias, allowed)


def _scale_on_K(Q: Array, K: Array, scale: float, bias: Array | None, allowed: Array) -> Array:
    """Q (scale K)^T"""
    return _masked(Q @ (K * scale).mT, bias, allowed)


def _scale_split(Q: Array, K: Array, scale: float, bias: Array | None, allowed: Array) -> Array:
    """The root of the scale on Q, and on K; its sign on Q."""
    root = math.sqrt(abs(scale))
    return _masked((Q * math.copysign(root, scale)) @ (K * root).mT, bias, allowed)


def _scale_folded(Q: Array, K: Array, scale: float, bias: Array | None, allowed: Array) -> Array:
    """The difference to the best score comes first, and only differences are scaled."""
    Omega = Q @ K.mT
    best = _masked(Omega * scale, bias, allowed).argmax(-1, keepdims=True)
    D = (Omega - np.take_along_axis(Omega, best, -1)) * scale
    if bias is not None:
        full = np.broadcast_to(bias, D.shape)
        D = D + (full - np.take_along_axis(full, best, -1))
    return np.asarray(np.where(allowed, D, D.dtype.type(-np.inf)))


def _guarded(weights: Unary, S: Array) -> Array:
    """Softmax, and 0 in rows with nothing to attend to."""
    empty = np.isneginf(S).all(-1, keepdims=True)
    zero = S.dtype.type(0)
    return np.where(empty, zero, weights(np.where(empty, zero, S)))


def _weigh(A: Array, Z: Array | None) -> Array:
    return A if Z is None else A * Z


def _core(weights: Unary, product: Binary, S: Array, V: Array, Z: Array | None) -> tuple[Array, Array]:
    A = _guarded(weights, S)
    return product(_weigh(A, Z), V), A


def _divide_last(S: Array, V: Array, Z: Array | None) -> tuple[Array, Array]:
    """The product with V first, then the division by the sum."""
    E = np.exp(S - finite(S.max(-1, keepdims=True)))
    total = numpy_sum(E)
    total = np.where(total == 0.0, S.dtype.type(1), total)
    return (_weigh(E, Z) @ V) / total, E / total


def _online(tile: int, S: Array, V: Array, Z: Array | None) -> tuple[Array, Array]:
    """Tile after tile of keys; the weights once more from the logarithm of the sum."""
    top = np.full((*S.shape[:-1], 1), -np.inf, S.dtype)
    total = np.zeros_like(top)
    C = np.zeros((*S.shape[:-1], V.shape[-1]), S.dtype)
    for j in range(0, S.shape[-1], tile):
        part = S[..., j : j + tile]
        larger = np.maximum(top, part.max(-1, keepdims=True))
        E = np.exp(part - finite(larger))
        shrink = np.exp(top - finite(larger))
        total = shrink * total + numpy_sum(E)
        C = shrink * C + _weigh(E, None if Z is None else Z[..., j : j + tile]) @ V[..., j : j + tile, :]
        top = larger
    divisor = np.where(total == 0.0, S.dtype.type(1), total)
    A = np.exp(S - (finite(top) + np.log(divisor)))
    return C / divisor, A


def _attention(
    scores: Scores,
    core: Core,
    through: Binary = centred,
    *,
    product: Binary = matmul,
    scale_late: bool = False,
    delta_from_C: bool = False,
) -> Pair:
    """`through` is the softmax's way back; `delta_from_C` takes its sum from dC C; `scale_late` scales dQ and dK."""

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
    ) -> tuple[Array, Any]:
        n, m = Q.shape[-2], K.shape[-2]
        factor = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else float(scale)
        allowed = np.ones((*Q.shape[:-1], m), bool)
        if mask is not None:
            allowed &= mask
        if causal:
            allowed &= np.arange(m) <= np.arange(n)[:, None] + query_offset
        if bias is not None:
            allowed &= bias != -np.inf
        Z = None if keep is None else keep.astype(Q.dtype) * (0.0 if p == 1.0 else 1.0 / (1.0 - p))
        with np.errstate(over="ignore", invalid="ignore"):
            C, A = core(scores(Q, K, factor, bias, allowed), V, Z)
        return C, (Q, K, V, A, C, Z, factor)

    def attention_backward(dC: Array, cache: Any) -> tuple[Array, Array, Array]:
        Q, K, V, A, C, Z, scale = cache
        dA = _weigh(product(dC, V.mT), Z)
        dS = A * (dA - numpy_sum(dC * C)) if delta_from_C else through(A, dA)
        dV = product(_weigh(A, Z).mT, dC)
        if scale_late:
            return product(dS, K) * scale, product(dS.mT, Q) * scale, dV
        dOmega = dS * scale
        return product(dOmega, K), product(dOmega.mT, Q), dV

    return attention, attention_backward


_numpy_core = partial(_core, plain, matmul)
_numpy_scores = partial(_scale_on_scores, matmul)
ATTENTION: dict[str, Pair] = {
    "scale on Q": _attention(_scale_on_Q, _numpy_core),
    "scale on K": _attention(_scale_on_K, _numpy_core, scale_late=True),
    "scale split over Q and K": _attention(_scale_split, _numpy_core, expanded),
    "scale folded into the softmax": _attention(_scale_folded, _numpy_core, by_complement),
    "delta from dC C": _attention(_numpy_scores, _numpy_core, delta_from_C=True),
    "exp2": _attention(_numpy_scores, partial(_core, by_exp2, matmul), scale_late=True),
    "log-sum-exp and Jacobian": _attention(_scale_on_Q, partial(_core, by_log_sum_exp, matmul), by_jacobian),
    "division after the product": _attention(_numpy_scores, _divide_last, by_differences),
    "online, key by key": _attention(_scale_on_Q, partial(_online, 1), delta_from_C=True),
    "online, tiles of 2": _attention(_numpy_scores, partial(_online, 2), delta_from_C=True, scale_late=True),
    "online, tiles of 3": _attention(_scale_split, partial(_online, 3)),
    "einsum": _attention(
        partial(_scale_on_scores, einsum), partial(_core, by_ceiling, einsum), by_jacobian, product=einsum
    ),
    "outer products": _attention(
        partial(_scale_on_scores, outer_products), partial(_core, plain, outer_products), product=outer_products
    ),
    "reverse": _attention(
        partial(_scale_on_scores, reverse_product),
        partial(_core, partial(by_sum, reverse_sum), reverse_product),
        expanded,
        product=reverse_product,
    ),
    "wider": _attention(
        partial(_scale_on_scores, widely(matmul)),
        partial(_core, widely(plain), widely(matmul)),
        widely(centred),
        product=widely(matmul),
    ),
}
