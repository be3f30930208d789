"""Gelu, tanh form. Far out t is +-1 and the cube must not overflow: it is taken of 30 there."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.sums import Binary, Pair, Unary, wide

SLOPE, CUBE = math.sqrt(2.0 / math.pi), 0.044715
Inner = Callable[[Array], Array]


def _inner(x: Array) -> Array:
    return SLOPE * (x + CUBE * x * x * x)


def _inner_factored(x: Array) -> Array:
    """x factored out."""
    return np.asarray(SLOPE * x * (1.0 + CUBE * (x * x)))


def _inner_horner(x: Array) -> Array:
    """Both constants multiplied into one."""
    return np.asarray(x * (SLOPE + (SLOPE * CUBE) * (x * x)))


def _inner_by_power(x: Array) -> Array:
    """The cube as a power."""
    return np.asarray(SLOPE * x + (SLOPE * CUBE) * x**3)


def tanh_by_expm1(u: Array) -> Array:
    """-expm1(-2|u|) / (expm1(-2|u|) + 2), with u's sign."""
    e = np.expm1(-2.0 * np.abs(u))
    return np.copysign(e / (e + 2.0), u)


def _sigmoid(u: Array) -> Array:
    """1 / (1 + exp(-2u)) = (1 + tanh u) / 2"""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-2.0 * u)))


def _sigmoid_by_logaddexp(u: Array) -> Array:
    """exp(-log(1 + exp(-2u)))"""
    with np.errstate(invalid="ignore"):  # np.logaddexp warns of a NaN that it is given
        return np.asarray(np.exp(-np.logaddexp(u.dtype.type(0), -2.0 * u)))


def _sigmoid_by_ratio(u: Array) -> Array:
    """e^u / (e^u + e^-u), scaled so that nothing overflows."""
    rising, falling = np.exp(u - np.abs(u)), np.exp(-u - np.abs(u))
    return np.asarray(rising / (rising + falling))


def _sigmoid_of_tanh(tanh: Unary, u: Array) -> Array:
    """Half of tanh, and a half."""
    return np.asarray(0.5 + 0.5 * tanh(u))


def _steep(s: Array, x: Array) -> Array:
    """2 s (1 - s) du/dx, the slope's own product first."""
    return np.asarray(s * (1.0 - s) * (2.0 * SLOPE * (1.0 + 3.0 * CUBE * x * x)))


def _steep_squares(s: Array, x: Array) -> Array:
    """2 (s - s^2) du/dx, with one constant for the square."""
    return np.asarray((s - s * s) * (2.0 * SLOPE + (6.0 * SLOPE * CUBE) * (x * x)))


def _steep_by_tanh(s: Array, x: Array) -> Array:
    """(1 - t) (1 + t) / 2 du/dx with t = 2 s - 1."""
    t = 2.0 * s - 1.0
    return np.asarray(0.5 * (1.0 - t) * (1.0 + t) * (SLOPE + (3.0 * SLOPE * CUBE) * x * x))


def _gelu(inner: Inner, sigmoid: Unary, steep: Binary, product: Callable[..., Array] | None = None) -> Pair:
    """Y = X s, dX = dY (s + X ds/dX); `product` joins X to u otherwise."""

    def gelu(X: Array) -> tuple[Array, Any]:
        u = inner(np.clip(X, -30.0, 30.0))
        s = sigmoid(u)
        return X * s if product is None else product(X, u), (X, s)

    def gelu_backward(dY: Array, cache: Any) -> Array:
        X, s = cache
        x = np.clip(X, -30.0, 30.0)
        return np.asarray(dY * s + dY * (x * steep(s, x)))

    return gelu, gelu_backward


def _divided(X: Array, u: Array) -> Array:
    """X / (1 + exp(-2u))"""
    with np.errstate(over="ignore"):
        return np.asarray(X / (1.0 + np.exp(-2.0 * u)))


def _half_and_half(X: Array, u: Array) -> Array:
    """X/2 + X/2 tanh u"""
    half = 0.5 * X
    return np.asarray(half + half * np.tanh(u))


def _complement(X: Array, u: Array) -> Array:
    """X - X sigmoid(-2u)"""
    return np.asarray(X - X * _sigmoid(-u))


def _gelu_wider() -> Pair:
    """Every line in the next larger format."""
    forward, backward = _gelu(_inner, _sigmoid, _steep)

    def gelu(X: Array) -> tuple[Array, Any]:
        Y, cache = forward(wide(X))
        return Y.astype(X.dtype), cache

    def gelu_backward(dY: Array, cache: Any) -> Array:
        return np.asarray(backward(wide(dY), cache)).astype(dY.dtype)

    return gelu, gelu_backward


_numpy_tanh = partial(_sigmoid_of_tanh, np.tanh)
GELU: dict[str, Pair] = {
    "sigmoid": _gelu(_inner, _sigmoid, _steep),
    "divided": _gelu(_inner_factored, _sigmoid, _steep_squares, _divided),
    "half and half": _gelu(_inner_horner, _numpy_tanh, _steep_by_tanh, _half_and_half),
    "complement": _gelu(_inner_by_power, _sigmoid_by_ratio, _steep, _complement),
    "x factored out": _gelu(_inner_factored, _numpy_tanh, _steep),
    "Horner": _gelu(_inner_horner, _sigmoid, _steep_by_tanh),
    "power": _gelu(_inner_by_power, _numpy_tanh, _steep_squares),
    "expm1": _gelu(_inner, partial(_sigmoid_of_tanh, tanh_by_expm1), _steep_by_tanh),
    "logaddexp": _gelu(_inner, _sigmoid_by_logaddexp, _steep),
    "ratio": _gelu(_inner_factored, _sigmoid_by_ratio, _steep_squares),
    "wider": _gelu_wider(),
}
