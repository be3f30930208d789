"""The loss of a language model."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.softmax import log_softmax

CrossEntropyCache = tuple[Array, Array, Array, int]


def cross_entropy(logits: Array, targets: Array, ignore_index: int | None = None) -> tuple[Any, CrossEntropyCache]:
    """loss = -(1/M) sum over the M counted targets of log softmax(logits)[target]

    logits: (..., v), targets: (...) of integers in [0, v) or equal to ignore_index; loss: a NumPy scalar of logits' dtype.

    The mean is over counted targets, whatever sequence they are in. ignore_index leaves out rows, never a class. Uniform
    logits give log v. Log-sum-exp throughout: log(softmax) is -inf where softmax underflows.

    Source 2: step by step (softmax, gather, log, mean) equals one call.
    Raises TypeError for targets that are no integers, ValueError for a target out of range or if all are ignored.
    """
    rows, counted, M = check_cross_entropy("cross_entropy", logits, targets, ignore_index)
    rows = rows[..., None]
    log_P, _ = log_softmax(logits)
    losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], logits.dtype.type(0))
    loss = losses.sum() / M
    return loss, (log_P, rows, counted, M)


def cross_entropy_backward(dloss: float, cache: CrossEntropyCache) -> Array:
    """dlogits = (P - onehot(targets)) * counted * dloss / M,  P = softmax(logits)

    d(-log P_t)/dlogits_j = P_j - 1[j = t]: each counted row sums to 0, an ignored one is 0. dloss is any real number.
    """
    log_P, rows, counted, M = cache
    if log_P.dtype.name not in _check.NUMPY.floats:
        raise TypeError(f"cross_entropy_backward: the forward ran in {log_P.dtype}, expected float32 or float64")
    share = _check.number("cross_entropy_backward", "dloss", dloss) / M
    dlogits = np.exp(log_P)
    np.put_along_axis(dlogits, rows, np.take_along_axis(dlogits, rows, -1) - 1.0, -1)
    return np.where(counted[..., None], dlogits * share, log_P.dtype.type(0))


def check_cross_entropy(op: str, logits: Array, targets: Array, ignore_index: int | None) -> tuple[Array, Array, int]:
    """What `counted_targets` says of these."""
    _check.floats(op, logits=logits)
    _check.member(op, "targets", targets)
    classes = _check.shapes(op, logits=(logits, "... v"))["v"]
    return counted_targets(op, targets, logits.shape[:-1], "logits without its last axis", classes, ignore_index)


def counted_targets(
    op: str, targets: Array, shape: tuple[int, ...], like: str, classes: int, ignore_index: int | None
) -> tuple[Array, Array, int]:
    """The targets (an ignored one points anywhere inside), which of them count, and how many do."""
    _check.member(op, "targets", targets)
    _check.same_shape(op, "targets", targets, shape, like)
    _check.integers(op, "targets", targets, classes, besides=ignore_index)
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    M = int(counted.sum())
    if M == 0:
        raise ValueError(f"{op}: targets counts 0 of its elements, expected at least 1 not ignored")
    return np.where(counted, targets, 0), counted, M
