"""A linear layer: the product is BLAS's own, so the bias and its gradient are all there is to gain."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.linear import LinearCache, check_linear


def linear(X: Array, weight: Array, bias: Array | None = None) -> tuple[Array, LinearCache]:
    """Y = X weight^T + bias

    X: (..., d), weight: (k, d), bias: (k,), Y: (..., k). As `reference_numpy.linear`: one product of all rows, the bias
    added in place.
    Raises as the reference does.
    """
    check_linear("linear", X, weight, bias)
    Y = (X.reshape(-1, weight.shape[1]) @ weight.T).reshape(*X.shape[:-1], weight.shape[0])
    if bias is not None:
        Y += bias
    return Y, (X, weight, bias)


def linear_backward(dY: Array, cache: LinearCache) -> tuple[Array, ...]:
    """dX = dY weight;  dweight = dY^T X;  dbias = sum dY, as a product with ones   (the last only if there is a bias)"""
    X, weight, bias = cache
    k, d = weight.shape
    _check.floats("linear_backward", X=X, dY=dY)
    _check.same_shape("linear_backward", "dY", dY, (*X.shape[:-1], k), "the output")
    rows = dY.reshape(-1, k)
    dX, dweight = (rows @ weight).reshape(X.shape), rows.T @ X.reshape(-1, d)
    return (dX, dweight) if bias is None else (dX, dweight, np.ones(len(rows), rows.dtype) @ rows)
