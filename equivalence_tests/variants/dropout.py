"""Dropout: one factor to round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.sums import Pair


def _dropout(drop: Callable[[Array, Array, float], Array]) -> Pair:
    def apply(X: Array, keep: Array | None, p: float) -> Array:
        if keep is None:
            return X.copy()
        return np.zeros(X.shape, X.dtype) if p == 1.0 else drop(X, keep, p)

    def dropout(X: Array, keep: Array | None, p: float) -> tuple[Array, Any]:
        return apply(X, keep, p), (keep, p)

    def dropout_backward(dY: Array, cache: Any) -> Array:
        keep, p = cache
        return apply(dY, keep, p)

    return dropout, dropout_backward


def _drop_by_factor(X: Array, keep: Array, p: float) -> Array:
    """A factor keep / (1 - p), rounded to the dtype."""
    return np.asarray(X * (keep / (1.0 - p)).astype(X.dtype))


def _drop_by_division(X: Array, keep: Array, p: float) -> Array:
    """Divided by 1 - p."""
    return np.where(keep, X / (1.0 - p), X.dtype.type(0))


def _drop_afterwards(X: Array, keep: Array, p: float) -> Array:
    """X and p X / (1 - p) added: another algebra for the same factor."""
    return np.asarray((X + X * (p / (1.0 - p))) * keep)


DROPOUT: dict[str, Pair] = {
    "a factor": _dropout(_drop_by_factor),
    "a division": _dropout(_drop_by_division),
    "a sum": _dropout(_drop_afterwards),
}
