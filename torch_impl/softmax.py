"""Softmax and its logarithm along one axis."""

from __future__ import annotations

import torch
from torch import Tensor

from reference_numpy._check import axis as check_axis
from torch_impl import _check


def softmax(X: Tensor, axis: int = -1) -> Tensor:
    """A_i = exp(X_i) / sum_j exp(X_j)

    X, A: (...), the sums along `axis`. A row that is -inf throughout gives NaN.

    Source 1: A = softmax(Omega / sqrt(c), axis=1).
    Raises TypeError for anything but a floating tensor, ValueError for a missing or empty axis.
    """
    _check_axis("softmax", X, axis)
    return torch.softmax(X, axis)


def log_softmax(X: Tensor, axis: int = -1) -> Tensor:
    """Y_i = X_i - log sum_j exp(X_j)

    X, Y: (...), the sum along `axis`. A row that is -inf throughout gives NaN.

    Source 2: the loss in one call.
    Raises as softmax does.
    """
    _check_axis("log_softmax", X, axis)
    return torch.log_softmax(X, axis)


def _check_axis(op: str, X: Tensor, axis: int) -> None:
    _check.floats(op, X=X)
    check_axis(op, axis, X.shape)
