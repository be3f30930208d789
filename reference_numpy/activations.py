"""Elementwise functions: relu, tanh, gelu."""

from __future__ import annotations

import math

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

GELU_SLOPE = math.sqrt(2.0 / math.pi)
GELU_CUBE = 0.044715


def relu(X: Array) -> tuple[Array, Array]:
    """Y = max(X, 0)

    X, Y: any shape. The gradient at 0 is 0. NaN propagates.
    Raises TypeError for anything but float32 or float64.
    """
    _check.floats("relu", X=X)
    Y = np.where(X.real <= 0.0, X.dtype.type(0), X)
    return Y, Y


def relu_backward(dY: Array, cache: Array) -> Array:
    """dX = dY where X > 0, else 0

    A selection, not a product: 0 times an infinite dY would be NaN.
    """
    Y = cache
    _check.upstream("relu_backward", "dY", dY, Y)
    return np.where(Y > 0.0, dY, dY.dtype.type(0))


def tanh(X: Array) -> tuple[Array, Array]:
    """Y = tanh(X)

    X, Y: any shape.
    Source 2: the activation of the Elman RNN.
    Raises TypeError for anything but float32 or float64.
    """
    _check.floats("tanh", X=X)
    Y = np.asarray(np.tanh(X))
    return Y, Y


def tanh_backward(dY: Array, cache: Array) -> Array:
    """dX = dY (1 - Y^2)

    d tanh(x)/dx = 1 - tanh(x)^2, and the output is at hand.
    """
    Y = cache
    _check.upstream("tanh_backward", "dY", dY, Y)
    return np.asarray(dY * (1.0 - Y * Y))


def gelu(X: Array) -> tuple[Array, tuple[Array, Array]]:
    """Y = X (1 + t) / 2,  t = tanh(u),  u = sqrt(2 / pi) (X + 0.044715 X^3)

    X, Y: any shape. The tanh form (GPT-2's), not the erf form: they differ by up to 4.7e-4, at |x| = 2.7.

    Beyond |x| = 30 the cube is taken of 30: t is +-1 there to the last bit in any dtype, and x^3 must not overflow.
    Raises TypeError for anything but float32 or float64.
    """
    _check.floats("gelu", X=X)
    x = np.clip(X, -30.0, 30.0)
    t = np.tanh(GELU_SLOPE * (x + GELU_CUBE * x * x * x))
    Y = np.asarray(X * (0.5 * (1.0 + t)))
    return Y, (X, t)


def gelu_backward(dY: Array, cache: tuple[Array, Array]) -> Array:
    """dX = dY ((1 + t) / 2 + X (1 - t^2) / 2 * du/dX),  du/dX = sqrt(2 / pi) (1 + 3 * 0.044715 X^2)

    The product rule; d tanh(u)/du = 1 - t^2. Far out 1 - t^2 is 0 and the second term with it, so X may be clipped there
    as in the forward: 0 times an overflown X^3 would be NaN.
    """
    X, t = cache
    _check.upstream("gelu_backward", "dY", dY, X)
    x = np.clip(X, -30.0, 30.0)
    du = GELU_SLOPE * (1.0 + 3.0 * GELU_CUBE * x * x)
    return np.asarray(dY * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du))
