"""Dropout with a given mask."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

DropoutCache = tuple[Array, Array | None, float]


def dropout(X: Array, keep: Array | None, p: float) -> tuple[Array, DropoutCache]:
    """Y = X / (1 - p) where keep, else 0

    X, Y: any shape; keep: boolean, of X's shape; p: the probability of being dropped (0.2 makes the kept ones 1.25 times
    as large), so that the mean of Y is X. The mask comes from outside, so that both twins drop the same units.

    keep = None means no dropout, and then p must be 0. p = 1 gives zeros. Source 2: dropout on A.
    Raises TypeError for a mask that is not boolean, ValueError for p outside [0, 1] or a mask of another shape.
    """
    p = check_dropout("dropout", X, keep, p)
    return _drop(X, keep, p), (X, keep, p)


def dropout_backward(dY: Array, cache: DropoutCache) -> Array:
    """dX = dY / (1 - p) where keep, else 0

    Y is linear in X, with the same mask: never one recovered from Y != 0, since a kept X may be 0.
    """
    X, keep, p = cache
    _check.upstream("dropout_backward", "dY", dY, X)
    return _drop(dY, keep, p)


def _drop(X: Array, keep: Array | None, p: float) -> Array:
    if keep is None:
        return X.copy()
    if p == 1.0:
        return np.zeros_like(X, subok=False)
    return np.where(keep, X * (1.0 / (1.0 - p)), X.dtype.type(0))


def check_dropout(op: str, X: Array, keep: Array | None, p: float) -> float:
    _check.floats(op, X=X)
    p = _check.probability(op, p, keep)
    if keep is not None:
        _check.boolean(op, "keep", keep)
        _check.same_shape(op, "keep", keep, X.shape, "X")
    return p
