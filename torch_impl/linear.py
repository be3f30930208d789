"""A linear layer."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from reference_numpy import _check as rules
from torch_impl import _check


def linear(X: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Y = X weight^T + bias

    X: (..., d), weight: (k, d), bias: (k,), Y: (..., k).

    Sources 1 (version 2) and 2: `nn.Linear`, whose weight is the transpose of source 1's (d, c) matrices.
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match.
    """
    _check.floats("linear", X=X, weight=weight, bias=bias)
    rules.shapes("linear", X=(X, "... d"), weight=(weight, "k d"), bias=(bias, "k"))
    return F.linear(X, weight, bias)
