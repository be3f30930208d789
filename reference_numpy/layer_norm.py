"""Layer normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

LayerNormCache = tuple[Array, Array, Array]


def layer_norm(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> tuple[Array, LayerNormCache]:
    """Y = scale * N + shift,  N = (X - mu) r,  r = (var + epsilon)^(-1/2)

    X, N, Y: (..., d), scale, shift: (d,), mu, r: (..., 1); mu and var are the mean and the biased variance of a row.

    The variance takes two passes: mean(X^2) - mu^2 would cancel for rows with a large mean (40000 ... 40003 in float32).
    Range: the squared deviations must not overflow, so about 1e19 in float32 and 1e154 in float64.

    Source 2: LayerNorm(emb_dim, epsilon = 1e-5).
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match or a negative epsilon.
    """
    epsilon = check_layer_norm("layer_norm", X, scale, shift, epsilon)
    mu = X.mean(-1, keepdims=True)
    D = X - mu
    var = (D * D).mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    Y = scale * N + shift
    return Y, (N, r, scale)


def layer_norm_backward(dY: Array, cache: LayerNormCache) -> tuple[Array, Array, Array]:
    """dX = r (dN - mean(dN) - N mean(dN * N)),  dN = dY * scale;  dscale = sum dY * N;  dshift = sum dY

    X reaches N directly, through mu (the first mean) and through r (the second). The scale stands inside both means; the
    sums run over every leading axis.
    """
    N, r, scale = cache
    _check.upstream("layer_norm_backward", "dY", dY, N)
    leading = tuple(range(dY.ndim - 1))
    dN = dY * scale
    dX = r * (dN - dN.mean(-1, keepdims=True) - N * (dN * N).mean(-1, keepdims=True))
    dscale = (dY * N).sum(leading)
    dshift = dY.sum(leading)
    return dX, dscale, dshift


def check_layer_norm(op: str, X: Array, scale: Array, shift: Array, epsilon: float) -> float:
    _check.floats(op, X=X, scale=scale, shift=shift)
    _check.shapes(op, X=(X, "... d"), scale=(scale, "d"), shift=(shift, "d"))
    epsilon = _check.number(op, "epsilon", epsilon)
    if epsilon < 0.0:
        raise ValueError(f"{op}: epsilon is {epsilon}, expected a number of at least 0")
    return epsilon
