"""Embedding: only sums to round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.sums import Pair, as_rows


def _embedding(gather: Callable[..., Array], scatter: Callable[..., Array]) -> Pair:
    def embedding(ids: Array, weight: Array) -> tuple[Array, Any]:
        return gather(ids.reshape(-1), weight).reshape(*ids.shape, weight.shape[1]), (ids, weight)

    def embedding_backward(dY: Array, cache: Any) -> Array:
        ids, weight = cache
        return scatter(ids.reshape(-1), as_rows(dY), weight)

    return embedding, embedding_backward


def _gather(ids: Array, weight: Array) -> Array:
    return np.take(weight, ids, 0)


def _onehot(ids: Array, weight: Array) -> Array:
    return np.asarray((ids[:, None] == np.arange(weight.shape[0])).astype(weight.dtype))


def _gather_by_onehot(ids: Array, weight: Array) -> Array:
    """A product with the one-hot matrix."""
    return np.asarray(_onehot(ids, weight) @ weight)


def _scatter_by_onehot(ids: Array, dY: Array, weight: Array) -> Array:
    """A product with the one-hot matrix, transposed."""
    return np.asarray(_onehot(ids, weight).T @ dY)


def _scatter_by_sorting(ids: Array, dY: Array, weight: Array) -> Array:
    """Equal ids are neighbours, and neighbours are reduced."""
    dweight = np.zeros_like(weight, subok=False)
    if ids.size:
        order = np.argsort(ids, kind="stable")
        named, starts = np.unique(ids[order], return_index=True)
        dweight[named] = np.add.reduceat(dY[order], starts, 0)
    return dweight


def _scatter_in_reverse(ids: Array, dY: Array, weight: Array) -> Array:
    """One id after the other, from the last on."""
    dweight = np.zeros_like(weight, subok=False)
    for t in reversed(range(ids.size)):
        dweight[ids[t]] += dY[t]
    return dweight


def _scatter_by_counting(ids: Array, dY: Array, weight: Array) -> Array:
    """A weighted count of each column, in float64."""
    columns = [np.bincount(ids, column, weight.shape[0]) for column in dY.T]
    return np.stack(columns, 1).astype(weight.dtype)


EMBEDDING: dict[str, Pair] = {
    "one-hot product": _embedding(_gather_by_onehot, _scatter_by_onehot),
    "sorted": _embedding(_gather, _scatter_by_sorting),
    "in reverse": _embedding(_gather, _scatter_in_reverse),
    "counted": _embedding(_gather, _scatter_by_counting),
}
