"""Embedding: rows of a table, by id."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from reference_numpy import _check as rules
from torch_impl import _check


def embedding(ids: Tensor, weight: Tensor) -> Tensor:
    """Y = onehot(ids) weight, that is Y_t = weight[ids_t]

    ids: (...) of any integer dtype, weight: (vocab_size, d), Y: (..., d).

    There is no padding id, no id counts from the end, and the gradients of a repeated id add up. Source 2: the embedding
    is a product with a one-hot vector.
    Raises TypeError for ids that are no integers, ValueError for an id outside [0, vocab_size).
    """
    _check.floats("embedding", weight=weight)
    rules.shapes("embedding", weight=(weight, "v d"))
    wide = _check.integers("embedding", "ids", ids, weight.shape[0])
    _check.same_device("embedding", weight=weight, ids=ids)
    if _check.sums_in_half(weight):  # a frequent id adds up many rows
        return F.embedding(wide, weight.float()).to(weight.dtype)
    return F.embedding(wide, weight)
