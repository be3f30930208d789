"""Head and loss at once, in pieces: the (N, vocabulary) logits never exist as a whole."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from reference_numpy._check import Array
from reference_numpy.fast import _threads
from reference_numpy.fast._memory import Memory

LOGITS = 1 << 26  # elements of the logits that exist at a time
ROWS, CLASSES = 512, 2048  # of a job, and of a tile of its logits


class Targets(NamedTuple):
    """The target of each row, and whether it counts (an ignored one points anywhere inside)."""

    ids: Array
    counted: Array
    total: int


def loss(Y: Array, weight: Array, bias: Array, targets: Targets, memory: Memory) -> float:
    """-(1/M) sum over counted rows of log softmax(Y weight^T + bias)[target]

    Y: (N, d), weight: (v, d), bias: (v,).
    """
    losses = np.empty(Y.shape[0], Y.dtype)
    for rows in _pieces(Y.shape[0], weight.shape[0]):
        logits = memory("logits", (rows.stop - rows.start, weight.shape[0]), Y.dtype)
        jobs = [
            partial(_row_losses, Y, weight, bias, targets, job, logits[job.start - rows.start :], losses)
            for job in _jobs(rows, logits.size)
        ]
        _threads.run(jobs, logits.size)
    return _mean(losses, targets)


def loss_gradients(
    dloss: float, Y: Array, weight: Array, bias: Array, targets: Targets, dY: Array, memory: Memory
) -> tuple[float, Array, Array]:
    """The loss, dweight and dbias; dY is written

    dlogits = (softmax(logits) - onehot(target)) dloss / M for counted rows;  dY = dlogits weight;  dweight = dlogits^T Y.
    A piece of the logits becomes its own gradient while it is there; nothing is computed twice.
    """
    losses = np.empty(Y.shape[0], Y.dtype)
    dweight, dbias = np.empty(weight.shape, Y.dtype), np.empty(bias.shape, Y.dtype)
    classes = [slice(start, min(start + CLASSES, weight.shape[0])) for start in range(0, weight.shape[0], CLASSES)]
    for rows in _pieces(Y.shape[0], weight.shape[0]):
        logits = memory("logits", (rows.stop - rows.start, weight.shape[0]), Y.dtype)
        jobs = [
            partial(_gradients, dloss, Y, weight, bias, targets, job, logits[job.start - rows.start :], losses, dY)
            for job in _jobs(rows, logits.size)
        ]
        _threads.run(jobs, logits.size)
        first = rows.start == 0
        _threads.run(
            [partial(_weights, logits, Y[rows], dweight, dbias, these, first) for these in classes], logits.size
        )
    return _mean(losses, targets), dweight, dbias


def _pieces(N: int, classes: int) -> list[slice]:
    """Rows whose logits exist at the same time."""
    step = max(1, LOGITS // classes // ROWS) * ROWS
    return [slice(start, min(start + step, N)) for start in range(0, N, step)]


def _jobs(rows: slice, worth: int) -> list[slice]:
    """As many rows as a job handles; fewer if there would be fewer jobs than threads."""
    step = min(ROWS, -(-(rows.stop - rows.start) // _threads.count(worth)))
    return [slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step)]


def _mean(losses: Array, targets: Targets) -> float:
    mean: float = losses.sum(where=targets.counted) / targets.total
    return mean


def _row_losses(
    Y: Array, weight: Array, bias: Array, targets: Targets, rows: slice, logits: Array, losses: Array
) -> Array:
    """losses[rows] = log sum exp(logits) - logit of the target, by tiles; `logits` becomes exp(logits - its tile's top)

    Returns the factors (tiles, rows) that make the softmax of that: exp is taken once, and
    softmax = exp(logits - its tile's top) exp(its tile's top - top) / sum exp(logits - top).
    """
    y, ids = Y[rows], targets.ids[rows]
    tops, sums, of_target = [], [], np.empty(len(ids), Y.dtype)
    for start in range(0, weight.shape[0], CLASSES):
        stop = min(start + CLASSES, weight.shape[0])
        Z = logits[: len(ids), start:stop]
        np.matmul(y, weight[start:stop].T, out=Z)
        Z += bias[start:stop]
        here = np.flatnonzero((ids >= start) & (ids < stop))
        of_target[here] = Z[here, ids[here] - start]
        top = Z.max(1)
        Z -= top[:, None]
        np.exp(Z, out=Z)
        tops.append(top)
        sums.append(Z @ np.ones(stop - start, Z.dtype))
    T = np.array(tops)
    top = T.max(0)
    factors: Array = np.exp(T - top)
    total = (factors * np.array(sums)).sum(0)
    losses[rows] = np.log(total) - (of_target - top)
    factors /= total
    return factors


def _gradients(
    dloss: float,
    Y: Array,
    weight: Array,
    bias: Array,
    targets: Targets,
    rows: slice,
    logits: Array,
    losses: Array,
    dY: Array,
) -> None:
    factors = _row_losses(Y, weight, bias, targets, rows, logits, losses)
    share = np.where(targets.counted[rows], dloss / targets.total, 0.0).astype(Y.dtype)
    factors *= share
    ids = targets.ids[rows]
    for tile, start in enumerate(range(0, weight.shape[0], CLASSES)):
        stop = min(start + CLASSES, weight.shape[0])
        Z = logits[: len(ids), start:stop]
        Z *= factors[tile][:, None]
        here = np.flatnonzero((ids >= start) & (ids < stop))
        Z[here, ids[here] - start] -= share[here]
        if start == 0:
            np.matmul(Z, weight[start:stop], out=dY[rows])
        else:
            dY[rows] += Z @ weight[start:stop]


def _weights(dlogits: Array, Y: Array, dweight: Array, dbias: Array, classes: slice, first: bool) -> None:
    Z = dlogits[:, classes]
    if first:
        np.matmul(Z.T, Y, out=dweight[classes])
        np.matmul(np.ones(len(Z), Z.dtype), Z, out=dbias[classes])
    else:
        dweight[classes] += Z.T @ Y
        dbias[classes] += np.ones(len(Z), Z.dtype) @ Z
