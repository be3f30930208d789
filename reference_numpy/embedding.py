"""Embedding: rows of a table, by id."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

EmbeddingCache = tuple[Array, Array]


def embedding(ids: Array, weight: Array) -> tuple[Array, EmbeddingCache]:
    """Y = onehot(ids) weight, that is Y_t = weight[ids_t]

    ids: (...) of any integer dtype, weight: (vocab_size, d), Y: (..., d).

    There is no padding id, and no id counts from the end. Source 2: the embedding is a product with a one-hot vector.
    Raises TypeError for ids that are no integers, ValueError for an id outside [0, vocab_size).
    """
    _check.floats("embedding", weight=weight)
    _check.shapes("embedding", weight=(weight, "v d"))
    _check.integers("embedding", "ids", ids, weight.shape[0])
    Y = np.take(weight, ids, axis=0)  # a copy always: weight[ids] is a view for a single id
    return Y, (ids, weight)


def embedding_backward(dY: Array, cache: EmbeddingCache) -> Array:
    """dweight = onehot(ids)^T dY, that is dweight_v = sum of dY_t over all t with ids_t = v

    A repeated id adds up: `dweight[ids] += dY` would keep one of the repeats only. Rows not named are exactly 0.
    """
    ids, weight = cache
    _check.floats("embedding_backward", weight=weight, dY=dY)
    _check.same_shape("embedding_backward", "dY", dY, (*ids.shape, weight.shape[1]), "the output")
    dweight = np.zeros(weight.shape, weight.dtype)
    np.add.at(dweight, ids, dY)
    return dweight
