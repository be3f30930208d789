"""Elementwise functions, in cache-sized chunks over threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.fast import _rows, _threads
from reference_numpy.fast._check import only_real


def relu(X: Array) -> tuple[Array, Array]:
    """Y = max(X, 0); X, Y: any shape. As `reference_numpy.relu`."""
    _checked("relu", X)
    Y = each(lambda x, y: np.clip(x, 0.0, np.inf, out=y), X)  # np.maximum with a number takes three times as long
    return Y, Y


def relu_backward(dY: Array, cache: Array) -> Array:
    """dX = dY where Y > 0, else 0: a selection, as 0 times an infinite dY would be NaN"""
    Y = cache
    _check.upstream("relu_backward", "dY", dY, Y)

    def select(dy: Array, y: Array, dx: Array) -> None:
        np.copyto(dx, dy)
        _rows.select(dx, y > 0.0)

    return each(select, dY, Y)


def tanh(X: Array) -> tuple[Array, Array]:
    """Y = tanh(X); X, Y: any shape. As `reference_numpy.tanh`."""
    _checked("tanh", X)
    Y = each(lambda x, y: np.tanh(x, out=y), X)
    return Y, Y


def tanh_backward(dY: Array, cache: Array) -> Array:
    """dX = dY (1 - Y^2)"""
    Y = cache
    _check.upstream("tanh_backward", "dY", dY, Y)

    def chain(dy: Array, y: Array, dx: Array) -> None:
        np.multiply(y, y, out=dx)
        np.subtract(1.0, dx, out=dx)
        dx *= dy

    return each(chain, dY, Y)


def gelu(X: Array) -> tuple[Array, Array]:
    """Y = X (1 + tanh u) / 2,  u = sqrt(2 / pi) (X + 0.044715 X^3); X, Y: any shape. As `reference_numpy.gelu`

    The cache is the slope dY/dX: it shares the gate (1 + tanh u) / 2 with Y, and leaves one product to the backward.
    """
    _checked("gelu", X)
    slope = np.empty(X.shape, X.dtype)
    return each(_rows.gelu, X, more=slope), slope


def gelu_backward(dY: Array, cache: Array) -> Array:
    """dX = dY slope"""
    slope = cache
    _check.upstream("gelu_backward", "dY", dY, slope)
    return each(lambda dy, s, dx: np.multiply(dy, s, out=dx), dY, slope)


def _checked(op: str, X: Array) -> None:
    _check.floats(op, X=X)
    only_real(op, X=X)


def each(work: Callable[..., object], *operands: Array, more: Array | None = None) -> Array:
    """work(operands..., out[, more]) on chunks of what lies flat in memory; out is a new array of their shape."""
    out = np.empty(operands[0].shape, operands[0].dtype)
    flat = [array.reshape(-1) for array in (*operands, out, *([] if more is None else [more]))]
    _threads.over_rows(out.reshape(-1, 1), lambda piece: work(*(array[piece] for array in flat)))
    return out
