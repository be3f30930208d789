"""Softmax and log-softmax. A shift is a constant of the row and cancels, whatever it is; a score of -inf is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.sums import (
    Binary,
    Pair,
    Unary,
    exact_sum,
    numpy_sum,
    pairwise_sum,
    product_sum,
    reverse_sum,
    widely,
)


def _normalised(E: Array, total: Unary = numpy_sum) -> Array:
    return E / total(E)


def shifted(X: Array) -> Array:
    """Differences to the largest element of the row."""
    return np.asarray(X - X.max(-1, keepdims=True))


def _by_max_plus_one(X: Array) -> Array:
    """The shift is max + 1."""
    return _normalised(np.exp(X - (X.max(-1, keepdims=True) + 1.0)))


def by_ceiling(X: Array) -> Array:
    """The shift is an integer."""
    return _normalised(np.exp(X - np.ceil(X.max(-1, keepdims=True))))


def by_exp2(X: Array) -> Array:
    """Powers of two; the differences are multiplied by log2(e)."""
    return _normalised(np.exp2(shifted(X) * math.log2(math.e)))


def by_log_sum_exp(X: Array) -> Array:
    """No division: the logarithm of the sum is subtracted."""
    D = shifted(X)
    return np.asarray(np.exp(D - np.log(numpy_sum(np.exp(D)))))


def _by_reciprocal(X: Array) -> Array:
    """Multiplied by one over the sum."""
    E = np.exp(shifted(X))
    return E * (1.0 / numpy_sum(E))


def _by_squares(X: Array) -> Array:
    """exp(D) as the square of exp(D / 2)."""
    root = np.exp(0.5 * shifted(X))
    return _normalised(root * root)


def by_sum(total: Unary, X: Array) -> Array:
    """Another order of summation."""
    return _normalised(np.exp(shifted(X)), total)


def _by_stored_log_sum_exp(X: Array) -> Array:
    """The maximum is added to the logarithm of the sum: one number a row, rounded at its own size."""
    top = X.max(-1, keepdims=True)
    return np.asarray(np.exp(X - (top + np.log(numpy_sum(np.exp(X - top))))))


def log_add_exp(X: Array) -> Array:
    """The log-sum-exp of each row, one element after the other."""
    return np.asarray(np.logaddexp.reduce(X, -1, keepdims=True))


def log_by_log_add_exp(X: Array) -> Array:
    return X - log_add_exp(X)


def _by_running_max(X: Array) -> Array:
    """One pass: the sum is rescaled whenever a larger element comes."""
    top = X[..., :1]
    total = np.ones_like(top)
    for j in range(1, X.shape[-1]):
        larger = np.maximum(top, X[..., j, None])
        shift = finite(larger)
        total = total * np.exp(top - shift) + np.exp(X[..., j, None] - shift)
        top = larger
    return np.asarray(np.exp(X - top) / total)


def finite(top: Array) -> Array:
    """0 in place of -inf, so that -inf - -inf never arises."""
    return np.where(np.isneginf(top), top.dtype.type(0), top)


def plain(X: Array) -> Array:
    return _normalised(np.exp(shifted(X)))


def centred(A: Array, dA: Array) -> Array:
    return np.asarray(A * (dA - numpy_sum(A * dA)))


def expanded(A: Array, dA: Array) -> Array:
    """The difference of two products."""
    G = A * dA
    return np.asarray(G - A * reverse_sum(G))


def by_jacobian(A: Array, dA: Array) -> Array:
    """The full Jacobian diag(A) - A A^T."""
    J = A[..., :, None] * np.eye(A.shape[-1], dtype=A.dtype) - A[..., :, None] * A[..., None, :]
    return np.asarray((J @ dA[..., None])[..., 0])


def by_differences(A: Array, dA: Array) -> Array:
    """sum_j A_j (dA_i - dA_j): every difference by itself."""
    return np.asarray(A * ((dA[..., :, None] - dA[..., None, :]) * A[..., None, :]).sum(-1))


def by_complement(A: Array, dA: Array) -> Array:
    """The element's own part with 1 - A, the others' without it."""
    others = (A * dA)[..., None, :] * (1.0 - np.eye(A.shape[-1], dtype=A.dtype))
    return np.asarray(A * (dA * (1.0 - A) - others.sum(-1)))


def _along(function: Callable[..., Array], axis: int, *arrays: Array) -> Array:
    """A function over the last axis, over any axis."""
    with np.errstate(over="ignore", invalid="ignore"):  # a row of -inf is NaN, as documented
        return np.moveaxis(function(*(np.moveaxis(X, axis, -1) for X in arrays)), -1, axis)


def _along_axis(forward: Unary, backward: Binary) -> Pair:
    """A pair whose backward needs only the output."""

    def op(X: Array, axis: int = -1) -> tuple[Array, Any]:
        Y = _along(forward, axis, X)
        return Y, (Y, axis)

    def op_backward(dY: Array, cache: Any) -> Array:
        Y, axis = cache
        return _along(backward, axis, Y, dY)

    return op, op_backward


SOFTMAX: dict[str, Pair] = {
    "max plus one": _along_axis(_by_max_plus_one, expanded),
    "ceiling of the max": _along_axis(by_ceiling, by_jacobian),
    "exp2": _along_axis(by_exp2, centred),
    "log-sum-exp": _along_axis(by_log_sum_exp, by_differences),
    "stored log-sum-exp": _along_axis(_by_stored_log_sum_exp, by_complement),
    "reciprocal": _along_axis(_by_reciprocal, by_complement),
    "squares of roots": _along_axis(_by_squares, centred),
    "running max": _along_axis(_by_running_max, expanded),
    "sums in reverse": _along_axis(partial(by_sum, reverse_sum), expanded),
    "sums by halves": _along_axis(partial(by_sum, pairwise_sum), by_jacobian),
    "sums as products": _along_axis(partial(by_sum, product_sum), centred),
    "exact sums": _along_axis(partial(by_sum, exact_sum), by_complement),
    "wider": _along_axis(widely(plain), widely(centred)),
}


def log_by_sum(total: Unary, X: Array) -> Array:
    """Another order of summation."""
    D = shifted(X)
    return np.asarray(D - np.log(total(np.exp(D))))


def log_by_log1p(X: Array) -> Array:
    """The largest term, which is 1, stays out of the sum."""
    D = shifted(X)
    return np.asarray(D - np.log1p(numpy_sum(np.exp(np.sort(D, -1)[..., :-1]))))


def log_by_log2(X: Array) -> Array:
    """Powers and logarithms of base two."""
    D = shifted(X)
    return np.asarray(D - math.log(2.0) * np.log2(numpy_sum(np.exp2(D * math.log2(math.e)))))


def log_by_ceiling(X: Array) -> Array:
    """The shift is an integer."""
    D = X - np.ceil(X.max(-1, keepdims=True))
    return np.asarray(D - np.log(numpy_sum(np.exp(D))))


def _log_centred(Y: Array, dY: Array) -> Array:
    return np.asarray(dY - np.exp(Y) * numpy_sum(dY))


def _log_reverse(Y: Array, dY: Array) -> Array:
    """The upstream sum in reverse, the other sign first."""
    return np.asarray(-(np.exp(Y) * reverse_sum(dY) - dY))


def _log_by_jacobian(Y: Array, dY: Array) -> Array:
    """The full Jacobian 1 - exp(Y)."""
    J = np.eye(Y.shape[-1], dtype=Y.dtype) - np.exp(Y)[..., :, None]
    return np.asarray((J @ dY[..., None])[..., 0])


LOG_SOFTMAX: dict[str, Pair] = {
    "sums in reverse": _along_axis(partial(log_by_sum, reverse_sum), _log_reverse),
    "sums by halves": _along_axis(partial(log_by_sum, pairwise_sum), _log_by_jacobian),
    "exact sums": _along_axis(partial(log_by_sum, exact_sum), _log_centred),
    "log1p": _along_axis(log_by_log1p, _log_centred),
    "log2": _along_axis(log_by_log2, _log_reverse),
    "ceiling of the max": _along_axis(log_by_ceiling, _log_centred),
    "log-add-exp one by one": _along_axis(log_by_log_add_exp, _log_reverse),
    "wider": _along_axis(widely(partial(log_by_sum, numpy_sum)), widely(_log_centred)),
}
