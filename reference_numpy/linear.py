"""A linear layer, in torch's layout."""

from __future__ import annotations

from reference_numpy import _check
from reference_numpy._check import Array

LinearCache = tuple[Array, Array, Array | None]


def linear(X: Array, weight: Array, bias: Array | None = None) -> tuple[Array, LinearCache]:
    """Y = X weight^T + bias

    X: (..., d), weight: (k, d), bias: (k,), Y: (..., k).

    Sources 1 (version 2) and 2: `nn.Linear`, whose weight is the transpose of source 1's (d, c) matrices.
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match.
    """
    check_linear("linear", X, weight, bias)
    Y = X @ weight.T
    if bias is not None:
        Y = Y + bias
    return Y, (X, weight, bias)


def linear_backward(dY: Array, cache: LinearCache) -> tuple[Array, ...]:
    """dX = dY weight;  dweight = dY^T X;  dbias = sum dY   (the last only if there is a bias)

    weight and bias serve every row of X, so their gradients are sums over every leading axis.
    """
    X, weight, bias = cache
    k, d = weight.shape
    _check.floats("linear_backward", X=X, dY=dY)
    _check.same_shape("linear_backward", "dY", dY, (*X.shape[:-1], k), "the output")
    dY_rows = dY.reshape(-1, k)  # (N, k), N the product of the leading axes
    dX = dY @ weight
    dweight = dY_rows.T @ X.reshape(-1, d)
    if bias is None:
        return dX, dweight
    return dX, dweight, dY_rows.sum(0)


def check_linear(op: str, X: Array, weight: Array, bias: Array | None) -> None:
    _check.floats(op, X=X, weight=weight, bias=bias)
    _check.shapes(op, X=(X, "... d"), weight=(weight, "k d"), bias=(bias, "k"))
