"""The loss of a language model, from logits that are there: in cache-sized chunks of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.cross_entropy import check_cross_entropy, counted_targets
from reference_numpy.fast import _threads
from reference_numpy.fast._check import only_real
from reference_numpy.fast._head import Targets


class CrossEntropyCache(NamedTuple):
    """softmax = exp(logits - top) / sums is computed again, so nothing of the logits' size is kept beside them.

    Two numbers a row: in one, top + log sums, the logarithm is lost beside a large top.
    """

    logits: Array
    top: Array
    sums: Array
    targets: Array
    counted: Array
    total: int


def cross_entropy(logits: Array, targets: Array, ignore_index: int | None = None) -> tuple[Any, CrossEntropyCache]:
    """loss = -(1/M) sum over the M counted targets of log softmax(logits)[target]

    logits: (..., v), targets: (...). As `reference_numpy.cross_entropy`. With a head before it, `gpt_loss_gradients` never
    holds the logits at all.
    Raises as the reference does, and TypeError for complex numbers.
    """
    rows, counted, M = check_cross_entropy("cross_entropy", logits, targets, ignore_index)
    only_real("cross_entropy", logits=logits)
    v = logits.shape[-1]
    Z, t = logits.reshape(-1, v), rows.reshape(-1)
    top, sums, losses = np.empty((3, len(t)), Z.dtype)

    def some(rows: slice) -> None:
        z, here = Z[rows], t[rows]
        E = _threads.scratch("exp", z.size, z.dtype).reshape(z.shape)
        np.max(z, 1, out=top[rows])
        np.subtract(z, top[rows][:, None], out=E)
        of_target = E[np.arange(len(here)), here]
        np.exp(E, out=E)
        np.matmul(E, np.ones(v, E.dtype), out=sums[rows])
        losses[rows] = np.log(sums[rows]) - of_target

    _threads.over_rows(Z, some)
    loss = losses.sum(where=counted.reshape(-1)) / M
    return loss, CrossEntropyCache(logits, top, sums, t, counted.reshape(-1), M)


def cross_entropy_backward(dloss: float, cache: CrossEntropyCache) -> Array:
    """dlogits = (exp(logits - top) / sums - onehot(targets)) * counted * dloss / M"""
    logits, top, sums, targets, counted, M = cache
    share = np.where(counted, _check.number("cross_entropy_backward", "dloss", dloss) / M, 0.0).astype(logits.dtype)
    dlogits = np.empty(logits.shape, logits.dtype)
    v = logits.shape[-1]
    Z, D = logits.reshape(-1, v), dlogits.reshape(-1, v)

    def some(rows: slice) -> None:
        d, here = D[rows], targets[rows]
        np.subtract(Z[rows], top[rows][:, None], out=d)
        np.exp(d, out=d)
        d *= (share[rows] / sums[rows])[:, None]
        d[np.arange(len(here)), here] -= share[rows]
        d[~counted[rows]] = 0.0

    _threads.over_rows(Z, some)
    return dlogits


def check_targets(
    op: str, targets: Array, shape: tuple[int, ...], like: str, classes: int, ignore_index: int | None
) -> Targets:
    """The targets of a loss whose logits are not there to be looked at, flat."""
    rows, counted, total = counted_targets(op, targets, shape, like, classes, ignore_index)
    return Targets(rows.reshape(-1), counted.reshape(-1), total)
