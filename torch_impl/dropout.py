"""Dropout with a given mask."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reference_numpy import _check as rules
from torch_impl import _check


def dropout(X: Tensor, keep: Tensor | None, p: float) -> Tensor:
    """Y = X / (1 - p) where keep, else 0

    X, Y: any shape; keep: boolean, of X's shape; p: the probability of being dropped.

    Composed, because torch's own dropout draws its mask itself: here the mask comes from outside, so that both twins drop
    the same units. keep = None means no dropout, and then p must be 0. p = 1 gives zeros. Source 2: dropout on A.
    Raises TypeError for a mask that is not boolean, ValueError for p outside [0, 1] or a mask of another shape.
    """
    _check.floats("dropout", X=X)
    p = rules.probability("dropout", p, keep)
    if keep is None:
        return X.clone()
    rules.boolean("dropout", "keep", keep, _check.TORCH)
    rules.same_shape("dropout", "keep", keep, X.shape, "X")
    _check.same_device("dropout", X=X, keep=keep)
    if p == 1.0:
        return X.masked_fill(torch.ones_like(keep), 0.0)  # not zeros_like: the result stays in the graph
    return (X / (1.0 - p)).masked_fill(~keep, 0.0)


def draw_keep(shape: Sequence[int], p: float, device: torch.device) -> Tensor:
    """keep ~ Bernoulli(1 - p), for the modules: the ops themselves never draw."""
    return torch.rand(tuple(shape), device=device) >= p


def drop(module: nn.Module, X: Tensor, keep: Tensor | None, p: float) -> Tensor:
    """Dropout as a module does it: in training with the mask that it is given, or else draws; in evaluation not at all."""
    if not module.training or (keep is None and p == 0.0):
        return X
    return dropout(X, draw_keep(X.shape, p, X.device) if keep is None else keep, p)
