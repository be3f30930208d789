"""Mistakes in embedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake


def _checked(ids: Any, weight: Any) -> None:
    """Everything about the operands but the range of the ids."""
    reference.embedding(np.zeros_like(ids) if isinstance(ids, np.ndarray) else ids, weight)


def negative_accepted(ids: Array, weight: Array) -> Any:
    _checked(ids, weight)
    if bool((ids >= weight.shape[0]).any()):
        raise ValueError(f"embedding: ids holds {ids.max()}, expected less than {weight.shape[0]}")
    return weight[ids], (ids, weight)  # wrong: -1 reads the last row


def wrapped(ids: Array, weight: Array) -> Any:
    _checked(ids, weight)
    inside = ids % weight.shape[0]  # wrong: hides every wrong id
    return weight[inside], (inside, weight)


def clipped(ids: Array, weight: Array) -> Any:
    _checked(ids, weight)
    inside = np.clip(ids, 0, weight.shape[0] - 1)  # wrong: hides every wrong id
    return weight[inside], (inside, weight)


def scaled(ids: Array, weight: Array) -> Any:
    return weight[ids] * math.sqrt(weight.shape[1]), (ids, weight)  # wrong: that is another model's embedding


def first_row_zero(ids: Array, weight: Array) -> Any:
    return np.where((ids == 0)[..., None], weight.dtype.type(0), weight[ids]), (ids, weight)  # wrong: id 0 is a token


def repeats_lost(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    dweight[ids] += dY  # wrong: of repeated ids one stays
    return dweight


def per_sequence_lost(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    rows = ids.reshape(-1, ids.shape[-1])
    for sequence, g in zip(rows, dY.reshape(*rows.shape, -1), strict=True):
        dweight[sequence] += g  # wrong: adds up over sequences, but not within one
    return dweight


def padding_assumed(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dY)
    dweight[0] = 0.0  # wrong: there is no padding id
    return dweight


def mean_of_repeats(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dY)
    counts = np.bincount(ids.reshape(-1), minlength=weight.shape[0])
    return dweight / np.maximum(counts, 1)[:, None].astype(weight.dtype)  # wrong: a sum is meant


def mean_of_tokens(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dY)
    return dweight / ids.size  # wrong: the loss takes means, not we


def as_many_rows_as_seen(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    onehot = np.eye(int(ids.max()) + 1, dtype=weight.dtype)[ids.reshape(-1)]  # wrong: the vocabulary may be larger
    return onehot.T @ dY.reshape(-1, weight.shape[1])


def axes_mixed(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids.reshape(-1), dY.reshape(weight.shape[1], -1).T)  # wrong: reshape does not transpose
    return dweight


def as_float64(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros(weight.shape)  # wrong: the default dtype
    np.add.at(dweight, ids, dY)
    return dweight


def _of(
    id: str,
    sentence: str,
    hidden_on: str,
    shown_by: str,
    forward: Any = None,
    backward: Any = None,
    source: str = "",
    accepts: bool = False,
) -> Mistake:
    return Mistake(id, "embedding", sentence, hidden_on, shown_by, forward, backward, source, accepts)


MISTAKES = (
    _of("M081", "dweight[ids] += dY: of repeated ids one stays.", "distinct ids", "an id twice", backward=repeats_lost),
    _of(
        "E02",
        "Repeats add up over sequences, not within one.",
        "ids distinct within each sequence",
        "an id twice in one sequence",
        backward=per_sequence_lost,
    ),
    _of("M083", "Row 0 gets no gradient.", "id 0 absent", "id 0", backward=padding_assumed, source="EMB-05"),
    _of("E03", "Row 0 is looked up as zeros.", "id 0 absent", "id 0", first_row_zero),
    _of("M084", "A negative id is accepted.", "valid ids", "id -1 must raise", negative_accepted, accepts=True),
    _of("E04", "Ids wrap around.", "valid ids", "an id beyond the vocabulary must raise", wrapped, accepts=True),
    _of("E05", "Ids are clipped.", "valid ids", "an id beyond the vocabulary must raise", clipped, accepts=True),
    _of("E06", "Rows are multiplied by sqrt(d).", "width 1", "any other width", scaled),
    _of("E07", "Repeats are averaged.", "distinct ids", "an id twice", backward=mean_of_repeats),
    _of("E08", "The gradient is divided by the number of tokens.", "one token", "two tokens", backward=mean_of_tokens),
    _of(
        "E09",
        "dweight ends at the largest id seen.",
        "the last id present",
        "the last id absent: the shape",
        backward=as_many_rows_as_seen,
    ),
    _of("E10", "A reshape stands for a transposition.", "width 1 or one token", "two tokens", backward=axes_mixed),
    _of("E11", "dweight is float64.", "float64", "float32: the dtype", backward=as_float64, source="DTY-01"),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M081": "dweight: accumulation",
    "E02": "dweight: accumulation",
    "M083": "dweight: special, term",
    "E03": "Y: special, term",
    "M084": "Y: special",
    "E04": "Y: special",
    "E05": "Y: special",
    "E06": "Y: factor",
    "E07": "dweight: accumulation, factor",
    "E08": "dweight: factor, accumulation",
    "E09": "dweight: shape",
    "E10": "dweight: axis",
    "E11": "dweight: dtype",
}
