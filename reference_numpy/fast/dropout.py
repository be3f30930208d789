"""Dropout with a given mask, in cache-sized chunks."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.dropout import DropoutCache, check_dropout
from reference_numpy.fast import _rows
from reference_numpy.fast._check import only_real
from reference_numpy.fast.activations import each


def dropout(X: Array, keep: Array | None, p: float) -> tuple[Array, DropoutCache]:
    """Y = X / (1 - p) where keep, else 0; X, Y: any shape. As `reference_numpy.dropout`."""
    p = check_dropout("dropout", X, keep, p)
    only_real("dropout", X=X)
    return _drop(X, keep, p), (X, keep, p)


def dropout_backward(dY: Array, cache: DropoutCache) -> Array:
    """dX = dY / (1 - p) where keep, else 0"""
    X, keep, p = cache
    _check.upstream("dropout_backward", "dY", dY, X)
    return _drop(dY, keep, p)


def _drop(X: Array, keep: Array | None, p: float) -> Array:
    if keep is None:
        return X.copy()
    grown = 0.0 if p == 1.0 else 1.0 / (1.0 - p)

    def select(x: Array, kept: Array, y: Array) -> None:
        np.multiply(x, grown, out=y)
        _rows.select(y, kept)

    return np.zeros(X.shape, X.dtype) if p == 1.0 else each(select, X, keep)
