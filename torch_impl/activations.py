"""Elementwise functions: relu, tanh, gelu."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_impl import _check


def relu(X: Tensor) -> Tensor:
    """Y = max(X, 0)

    X, Y: any shape. The gradient at 0 is 0. NaN propagates.
    Raises TypeError for anything but a floating tensor.
    """
    _check.floats("relu", X=X)
    return torch.relu(X)


def tanh(X: Tensor) -> Tensor:
    """Y = tanh(X)

    X, Y: any shape. Source 2: the activation of the Elman RNN.
    Raises TypeError for anything but a floating tensor.
    """
    _check.floats("tanh", X=X)
    return torch.tanh(X)


def gelu(X: Tensor) -> Tensor:
    """Y = X (1 + tanh(sqrt(2 / pi) (X + 0.044715 X^3))) / 2

    X, Y: any shape. The tanh form (GPT-2's), not the erf form: they differ by up to 4.7e-4, at |x| = 2.7.

    torch is no witness far out: where X^3 overflows (|x| > 7e12 in float32) its gradient is NaN; 1 and 0 are right.
    Raises TypeError for anything but a floating tensor.
    """
    _check.floats("gelu", X=X)
    return F.gelu(X, approximate="tanh")
