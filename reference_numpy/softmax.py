"""Softmax and its logarithm along one axis."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

SoftmaxCache = tuple[Array, int]


def softmax(X: Array, axis: int = -1) -> tuple[Array, SoftmaxCache]:
    """A_i = exp(X_i - max X) / sum_j exp(X_j - max X)

    X, A: (...), the sums along `axis`.

    Subtracting the maximum changes nothing (softmax is invariant to a shift) and keeps exp from overflowing. A row that
    is -inf throughout gives NaN, as in torch: what such a row should mean is for attention to say. NaN propagates.

    Source 1: A = softmax(Omega / sqrt(c), axis=1).
    Raises TypeError for anything but float32 or float64, ValueError for a missing or empty axis.
    """
    axis = softmax_axis("softmax", X, axis)
    with np.errstate(over="ignore", invalid="ignore"):  # -inf - -inf is NaN, as documented; -huge - huge is -inf
        E = np.exp(X - X.real.max(axis, keepdims=True))
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def softmax_backward(dA: Array, cache: SoftmaxCache) -> Array:
    """dX_i = A_i (dA_i - sum_j A_j dA_j)

    The Jacobian is dA_i/dX_j = A_i (1[i = j] - A_j): every input moves every output, through the common denominator.
    """
    A, axis = cache
    _check.upstream("softmax_backward", "dA", dA, A)
    dX: Array = A * (dA - (A * dA).sum(axis, keepdims=True))
    return dX


def log_softmax(X: Array, axis: int = -1) -> tuple[Array, SoftmaxCache]:
    """Y_i = X_i - max X - log sum_j exp(X_j - max X)

    X, Y: (...), the sum along `axis`. Never the logarithm of softmax, which is -inf where softmax underflows.

    Source 2: the loss in one call. A row that is -inf throughout gives NaN, as in torch.
    Raises as softmax does.
    """
    axis = softmax_axis("log_softmax", X, axis)
    with np.errstate(over="ignore", invalid="ignore"):
        D = X - X.real.max(axis, keepdims=True)
        Y = D - np.log(np.exp(D).sum(axis, keepdims=True))
    return Y, (Y, axis)


def log_softmax_backward(dY: Array, cache: SoftmaxCache) -> Array:
    """dX_i = dY_i - softmax(X)_i sum_j dY_j

    dY_i/dX_j = 1[i = j] - softmax(X)_j, and softmax(X) = exp(Y) is at hand.
    """
    Y, axis = cache
    _check.upstream("log_softmax_backward", "dY", dY, Y)
    dX: Array = dY - np.exp(Y) * dY.sum(axis, keepdims=True)
    return dX


def softmax_axis(op: str, X: Array, axis: int) -> int:
    _check.floats(op, X=X)
    return _check.axis(op, axis, X.shape)
