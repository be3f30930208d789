"""Softmax and its logarithm, in place on rows that lie in cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.fast import _threads
from reference_numpy.fast._check import only_real
from reference_numpy.softmax import SoftmaxCache, softmax_axis


def softmax(X: Array, axis: int = -1) -> tuple[Array, SoftmaxCache]:
    """A_i = exp(X_i - max X) / sum_j exp(X_j - max X)

    X, A: (...), the sums along `axis`. As `reference_numpy.softmax`, in three passes over each row.
    Raises as the reference does, and TypeError for complex numbers.
    """
    axis = softmax_axis("softmax", X, axis)
    only_real("softmax", X=X)

    def rows(X: Array, A: Array) -> None:
        np.subtract(X, X.max(1, keepdims=True), out=A)
        np.exp(A, out=A)
        A /= _sums(A)

    A = _along(axis, rows, X)
    return A, (A, axis)


def softmax_backward(dA: Array, cache: SoftmaxCache) -> Array:
    """dX_i = A_i (dA_i - sum_j A_j dA_j)"""
    A, axis = cache
    _check.upstream("softmax_backward", "dA", dA, A)

    def rows(dA: Array, A: Array, dX: Array) -> None:
        np.subtract(dA, np.vecdot(A, dA)[:, None], out=dX)
        dX *= A

    return _along(axis, rows, dA, A)


def log_softmax(X: Array, axis: int = -1) -> tuple[Array, SoftmaxCache]:
    """Y_i = X_i - max X - log sum_j exp(X_j - max X)

    X, Y: (...), the sum along `axis`. As `reference_numpy.log_softmax`.
    Raises as the reference does, and TypeError for complex numbers.
    """
    axis = softmax_axis("log_softmax", X, axis)
    only_real("log_softmax", X=X)

    def rows(X: Array, Y: Array) -> None:
        np.subtract(X, X.max(1, keepdims=True), out=Y)
        E = _threads.scratch("exp", Y.size, Y.dtype).reshape(Y.shape)
        np.exp(Y, out=E)
        Y -= np.log(_sums(E))

    Y = _along(axis, rows, X)
    return Y, (Y, axis)


def log_softmax_backward(dY: Array, cache: SoftmaxCache) -> Array:
    """dX_i = dY_i - softmax(X)_i sum_j dY_j"""
    Y, axis = cache
    _check.upstream("log_softmax_backward", "dY", dY, Y)

    def rows(dY: Array, Y: Array, dX: Array) -> None:
        np.exp(Y, out=dX)
        dX *= -_sums(dY)
        dX += dY

    return _along(axis, rows, dY, Y)


def _sums(X: Array) -> Array:
    """(rows, m) -> (rows, 1), as a product with ones: a third of the time of a sum."""
    return (X @ np.ones(X.shape[1], X.dtype))[:, None]


def _along(axis: int, work: Callable[..., None], *operands: Array) -> Array:
    """work(operands..., out) on chunks of rows, a row running along `axis`; a new array of the operands' shape."""
    moved = [np.moveaxis(each, axis, -1) for each in operands]
    m = operands[0].shape[axis]
    out = np.empty(moved[0].shape, operands[0].dtype)
    flat = [each.reshape(out.size // m, m) for each in (*moved, out)]
    _threads.over_rows(flat[0], lambda rows: work(*(each[rows] for each in flat)))
    return np.moveaxis(out, -1, axis)
