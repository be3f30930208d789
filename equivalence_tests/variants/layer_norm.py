"""Layer norm: a way to the mean and the variance, a way to 1/sqrt, a way back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.sums import (
    Pair,
    Unary,
    as_rows,
    column_sum,
    exact_sum,
    numpy_sum,
    pairwise_sum,
    reverse_sum,
    wide,
)

Moments = Callable[[Array], tuple[Array, Array]]


def _mean(X: Array, total: Unary = numpy_sum) -> Array:
    return np.asarray(total(X) / X.shape[-1])


def _two_passes(X: Array, total: Unary = numpy_sum) -> tuple[Array, Array]:
    mu = _mean(X, total)
    D = X - mu
    return mu, _mean(D * D, total)


def _corrected(X: Array) -> tuple[Array, Array]:
    """Two passes, and the square of what the mean of the differences leaves."""
    mu = _mean(X)
    D = X - mu
    rest = _mean(D)
    return mu + rest, _mean(D * D) - rest * rest


def _welford(X: Array) -> tuple[Array, Array]:
    """One pass: mean and squares are updated by every element."""
    mu = X[..., :1]
    squares = np.zeros_like(mu)
    for i in range(1, X.shape[-1]):
        D = X[..., i, None] - mu
        mu = mu + D / (i + 1)
        squares = squares + D * (X[..., i, None] - mu)
    return mu, squares / X.shape[-1]


def _about_the_first(X: Array) -> tuple[Array, Array]:
    """One pass, about the first element."""
    first = X[..., :1]
    D = X - first
    mu = _mean(D)
    return first + mu, _mean(D * D) - mu * mu


def _by_pairs(X: Array) -> tuple[Array, Array]:
    """The variance from the differences of all pairs, without a mean."""
    D = X[..., :, None] - X[..., None, :]
    return _mean(X), (D * D).sum((-1, -2))[..., None] / (2.0 * X.shape[-1] ** 2)


def _by_halves(X: Array) -> tuple[Array, Array]:
    """Moments of two halves, merged; halves of halves."""
    d = X.shape[-1]
    if d == 1:
        return X, np.zeros_like(X)
    left, right = d // 2, d - d // 2
    (mu, variance), (other, other_variance) = _by_halves(X[..., :left]), _by_halves(X[..., left:])
    D = other - mu
    merged = (variance * left + other_variance * right) / d + D * D * (left * right / d**2)
    return mu + D * (right / d), merged


def _by_weights(X: Array) -> tuple[Array, Array]:
    """Means as products with a column of 1/d."""
    column = np.full((X.shape[-1], 1), 1.0 / X.shape[-1], X.dtype)
    mu = X @ column
    D = X - mu
    return mu, (D * D) @ column


def _normal(X: Array, mu: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    r = 1.0 / np.sqrt(variance + epsilon)
    return (X - mu) * r, r


def _normal_by_power(X: Array, mu: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    """The power -1/2."""
    r = (variance + epsilon) ** -0.5
    return (X - mu) * r, r


def _normal_by_division(X: Array, mu: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    """Divided by the root."""
    root = np.sqrt(variance + epsilon)
    return (X - mu) / root, 1.0 / root


def _normal_by_line(X: Array, mu: Array, variance: Array, epsilon: float) -> tuple[Array, Array]:
    """r X - r mu: multiplied before it is subtracted."""
    r = 1.0 / np.sqrt(variance + epsilon)
    return X * r + (-mu * r), r


def _dX_centred(dN: Array, N: Array, r: Array) -> Array:
    return np.asarray(r * (dN - _mean(dN) - N * _mean(dN * N)))


def _dX_by_sums(dN: Array, N: Array, r: Array) -> Array:
    """One division by d, at the end."""
    d = N.shape[-1]
    return np.asarray((r / d) * (d * dN - reverse_sum(dN) - N * reverse_sum(dN * N)))


def _dX_by_jacobian(dN: Array, N: Array, r: Array) -> Array:
    """The full Jacobian r (1 - 1/d - N N^T / d)."""
    d = N.shape[-1]
    J = (np.eye(d, dtype=N.dtype) - (1.0 + N[..., :, None] * N[..., None, :]) / d) * r[..., None]
    return np.asarray((J @ dN[..., None])[..., 0])


def _dX_by_projections(dN: Array, N: Array, r: Array) -> Array:
    """First the mean is taken out, then the part along N."""
    G = dN - _mean(dN)
    return np.asarray(r * G - r * (N * _mean(G * N)))


def _dX_through_the_steps(dN: Array, N: Array, r: Array) -> Array:
    """Through the root, the variance and the mean, one after the other."""
    droot = -numpy_sum(dN * N) * r
    dD = dN * r + droot * N / N.shape[-1]
    return np.asarray(dD - _mean(dD))


def _layer_norm(moments: Moments, normal: Callable[..., tuple[Array, Array]], way_back: Callable[..., Array]) -> Pair:
    def layer_norm(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> tuple[Array, Any]:
        N, r = normal(X, *moments(X), epsilon)
        return N * scale + shift, (N, r, scale)

    def layer_norm_backward(dY: Array, cache: Any) -> tuple[Array, ...]:
        N, r, scale = cache
        dscale = np.einsum("ij,ij->j", as_rows(dY), as_rows(N))
        return way_back(dY * scale, N, r), dscale, column_sum(as_rows(dY))

    return layer_norm, layer_norm_backward


def _layer_norm_as_a_line() -> Pair:
    """Y = a X + b; backward dX = r dN + b X + c, with b and c from sum(dN) and sum(dN X), as torch has it."""

    def layer_norm(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> tuple[Array, Any]:
        mu, variance = _two_passes(X)
        r = 1.0 / np.sqrt(variance + epsilon)
        return (X * r + (-mu * r)) * scale + shift, (X, mu, r, scale)

    def layer_norm_backward(dY: Array, cache: Any) -> tuple[Array, ...]:
        X, mu, r, scale = cache
        dN = dY * scale
        total = numpy_sum(dN)
        b = (total * mu - numpy_sum(dN * X)) * (r * r * r) / X.shape[-1]
        c = -b * mu - total * r / X.shape[-1]
        leading = tuple(range(X.ndim - 1))
        return dN * r + b * X + c, (dY * ((X - mu) * r)).sum(leading), dY.sum(leading)

    return layer_norm, layer_norm_backward


def _layer_norm_wider() -> Pair:
    """Every line in the next larger format; only outputs and gradients are rounded."""
    forward, backward = _layer_norm(_two_passes, _normal, _dX_centred)

    def layer_norm(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> tuple[Array, Any]:
        Y, cache = forward(*map(wide, (X, scale, shift)), epsilon)
        return Y.astype(X.dtype), cache

    def layer_norm_backward(dY: Array, cache: Any) -> tuple[Array, ...]:
        return tuple(gradient.astype(dY.dtype) for gradient in backward(wide(dY), cache))

    return layer_norm, layer_norm_backward


LAYER_NORM: dict[str, Pair] = {
    "two passes with correction": _layer_norm(_corrected, _normal, _dX_by_sums),
    "Welford": _layer_norm(_welford, _normal, _dX_by_projections),
    "one pass about the first": _layer_norm(_about_the_first, _normal, _dX_centred),
    "differences of pairs": _layer_norm(_by_pairs, _normal_by_division, _dX_by_jacobian),
    "moments merged": _layer_norm(_by_halves, _normal, _dX_through_the_steps),
    "means as products": _layer_norm(_by_weights, _normal_by_line, _dX_by_sums),
    "power": _layer_norm(_two_passes, _normal_by_power, _dX_by_jacobian),
    "sums in reverse": _layer_norm(partial(_two_passes, total=reverse_sum), _normal_by_division, _dX_centred),
    "sums by halves": _layer_norm(partial(_two_passes, total=pairwise_sum), _normal, _dX_through_the_steps),
    "exact sums": _layer_norm(partial(_two_passes, total=exact_sum), _normal, _dX_by_projections),
    "a line": _layer_norm_as_a_line(),
    "wider": _layer_norm_wider(),
}
