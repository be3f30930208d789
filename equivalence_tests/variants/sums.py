"""Sums, products and precision, in other orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array

Pair = tuple[Callable[..., Any], Callable[..., Any]]
Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]


def numpy_sum(X: Array) -> Array:
    """Over the last axis, as NumPy sums; the axis stays."""
    return np.asarray(X.sum(-1, keepdims=True))


def reverse_sum(X: Array) -> Array:
    """From the last element to the first, one by one."""
    return X[..., ::-1].cumsum(-1)[..., -1:]


def pairwise_sum(X: Array) -> Array:
    """Halves of halves."""
    half = X.shape[-1] // 2
    return numpy_sum(X) if half == 0 else pairwise_sum(X[..., :half]) + pairwise_sum(X[..., half:])


def product_sum(X: Array) -> Array:
    """A matrix product with ones."""
    return np.asarray(X @ np.ones((X.shape[-1], 1), X.dtype))


def exact_sum(X: Array) -> Array:
    """Rounded once."""
    rows = X.reshape(math.prod(X.shape[:-1]), X.shape[-1]).tolist()
    return np.asarray([math.fsum(row) for row in rows], X.dtype).reshape(*X.shape[:-1], 1)


def wide(X: Array) -> Array:
    """In the next larger format."""
    return X.astype(np.float64 if X.dtype == np.float32 else np.longdouble)


def widely(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function in the next larger format; only its result is rounded."""

    def wider(*arrays: Array) -> Array:
        return np.asarray(function(*map(wide, arrays))).astype(arrays[0].dtype)

    return wider


def outer_products(X: Array, Y: Array) -> Array:
    """X Y as a sum of outer products, one by one."""
    total = np.zeros((*X.shape[:-1], Y.shape[-1]), X.dtype)
    for i in range(X.shape[-1]):
        total = total + X[..., :, i, None] * Y[..., i, None, :]
    return total


def einsum(X: Array, Y: Array) -> Array:
    """X Y by einsum, which does not call the matrix product here."""
    return np.asarray(np.einsum("...ij,...jk->...ik", X, Y))


def reverse_product(X: Array, Y: Array) -> Array:
    """X Y with the inner axis reversed."""
    return np.asarray(X[..., ::-1] @ Y[..., ::-1, :])


def turned_product(X: Array, Y: Array) -> Array:
    """(Y^T X^T)^T"""
    return np.swapaxes(np.swapaxes(Y, -1, -2) @ np.swapaxes(X, -1, -2), -1, -2)


def split_product(X: Array, Y: Array) -> Array:
    """X Y as two partial products over halves of the inner axis."""
    half = X.shape[-1] // 2
    return np.asarray(X[..., :half] @ Y[..., :half, :] + X[..., half:] @ Y[..., half:, :])


def summed_product(X: Array, Y: Array, total: Unary = numpy_sum) -> Array:
    """X Y as elementwise products and a sum."""
    return total(X[..., :, None, :] * np.swapaxes(Y, -1, -2)[..., None, :, :])[..., 0]


def matmul(X: Array, Y: Array) -> Array:
    return np.asarray(X @ Y)


def as_rows(X: Array) -> Array:
    """(..., d) -> (N, d)"""
    return X.reshape(-1, X.shape[-1])


def column_sum(X: Array) -> Array:
    """(N, d) -> (d,): a product with a row of ones."""
    return np.asarray(np.ones(X.shape[0], X.dtype) @ X)
