"""Cross-entropy: a way to each row's loss, a way to the mean, a way back."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.softmax import (
    by_ceiling,
    by_exp2,
    by_log_sum_exp,
    by_sum,
    log_add_exp,
    log_by_ceiling,
    log_by_log1p,
    log_by_log2,
    log_by_log_add_exp,
    log_by_sum,
    plain,
    shifted,
)
from equivalence_tests.variants.sums import (
    Binary,
    Pair,
    Unary,
    as_rows,
    exact_sum,
    numpy_sum,
    pairwise_sum,
    reverse_sum,
    widely,
)


def _loss_from_target(rows: Array, targets: Array) -> Array:
    """The log-sum-exp of the differences to the target's logit."""
    D = rows - np.take_along_axis(rows, targets[:, None], -1)
    top = D.max(-1, keepdims=True)
    return np.asarray((top + np.log(numpy_sum(np.exp(D - top))))[:, 0])


def _loss_from_log_softmax(log_softmax: Unary, rows: Array, targets: Array) -> Array:
    """The target's entry of another log-softmax."""
    return -np.take_along_axis(log_softmax(rows), targets[:, None], -1)[:, 0]


def _loss_from_onehot(rows: Array, targets: Array) -> Array:
    """A product with the one-hot vector, from finite numbers alone: 0 times -inf is NaN."""
    onehot = (targets[:, None] == np.arange(rows.shape[-1])).astype(rows.dtype)
    log_P = np.where(np.isneginf(rows), rows.dtype.type(0), log_by_sum(numpy_sum, rows))
    return np.asarray(-np.einsum("ij,ij->i", log_P, onehot))


def _loss_apart(rows: Array, targets: Array) -> Array:
    """The distance to the largest logit, and the logarithm added to it."""
    top = rows.max(-1, keepdims=True)
    distance = top - np.take_along_axis(rows, targets[:, None], -1)
    return np.asarray((np.log(reverse_sum(np.exp(rows - top))) + distance)[:, 0])


def _loss_row_by_row(rows: Array, targets: Array) -> Array:
    """Python floats, one row at a time."""
    losses = []
    for row, target in zip(rows.tolist(), targets.tolist(), strict=True):
        top = max(row)
        losses.append((top - row[target]) + math.log(math.fsum(math.exp(x - top) for x in row)))
    return np.asarray(losses, rows.dtype)


def _log_sum_exp(rows: Array) -> Array:
    """One number per row, stored as such."""
    top = rows.max(-1, keepdims=True)
    return np.asarray(top + np.log(numpy_sum(np.exp(rows - top))))


def _loss_from_log_sum_exp(rows: Array, targets: Array) -> Array:
    """The log-sum-exp minus the target's logit."""
    return np.asarray((_log_sum_exp(rows) - np.take_along_axis(rows, targets[:, None], -1))[:, 0])


def _log_sum_exp_and_logit(rows: Array, targets: Array) -> Array:
    """(2, M): both terms of each row's loss."""
    return np.stack([_log_sum_exp(rows)[:, 0], np.take_along_axis(rows, targets[:, None], -1)[:, 0]])


def _mean_of_sums(terms: Array) -> Any:
    """(sum of the log-sum-exps - sum of the targets' logits) / M"""
    return (terms[0].sum() - terms[1].sum()) / terms.shape[1]


def _mean_in_reverse(losses: Array) -> Any:
    """From the last loss to the first."""
    return reverse_sum(losses)[0] / losses.shape[0]


def _mean_of_shares(losses: Array) -> Any:
    """Every loss divided before it is added."""
    return (losses / losses.shape[0]).sum()


def _mean_by_product(losses: Array) -> Any:
    """A product with a row of 1/M."""
    return losses @ np.full(losses.shape, 1.0 / losses.shape[0], losses.dtype)


def _push_from_softmax(softmax: Unary, rows: Array, onehot: Array, share: float) -> Array:
    """(P - onehot) share"""
    return (softmax(rows) - onehot) * share


def _push_expanded(rows: Array, onehot: Array, share: float) -> Array:
    """Shares of P and of the one-hot vector, subtracted at the end."""
    return np.exp(log_by_sum(pairwise_sum, rows)) * share - onehot * share


def _push_by_others(rows: Array, onehot: Array, share: float) -> Array:
    """At the target minus the sum of the others, which does not cancel."""
    P = plain(rows)
    return np.asarray(np.where(onehot > 0.0, -numpy_sum(P * (1.0 - onehot)), P) * share)


def _push_by_expm1(rows: Array, onehot: Array, share: float) -> Array:
    """At the target expm1 of the logarithm."""
    log_P = log_by_sum(numpy_sum, rows)
    return np.asarray(np.where(onehot > 0.0, np.expm1(log_P), np.exp(log_P)) * share)


def _push_from_log_sum_exp(rows: Array, onehot: Array, share: float) -> Array:
    """P = exp(x - log-sum-exp), without a division."""
    return np.asarray((np.exp(rows - _log_sum_exp(rows)) - onehot) * share)


def _push_from_log_add_exp(rows: Array, onehot: Array, share: float) -> Array:
    """P = exp(x - log-sum-exp), which was added up one by one."""
    return np.asarray(np.exp(rows - log_add_exp(rows)) * share - onehot * share)


def _push_divided(rows: Array, onehot: Array, share: float) -> Array:
    """(E - onehot sum(E)) / sum(E): one division."""
    E = np.exp(shifted(rows))
    total = numpy_sum(E)
    return np.asarray(((E - onehot * total) / total) * share)


def _cross_entropy(losses: Binary, mean: Callable[[Array], Any], push: Callable[[Array, Array, float], Array]) -> Pair:
    """Only the counted rows are looked at."""

    def cross_entropy(logits: Array, targets: Array, ignore_index: int | None = None) -> tuple[Any, Any]:
        flat = targets.reshape(-1)
        counted = np.flatnonzero(flat != ignore_index) if ignore_index is not None else np.arange(flat.size)
        rows, kept = as_rows(logits)[counted], flat[counted]
        return logits.dtype.type(mean(losses(rows, kept))), (rows, kept, counted, logits.shape)

    def cross_entropy_backward(dloss: float, cache: Any) -> Array:
        rows, kept, counted, shape = cache
        onehot = (kept[:, None] == np.arange(rows.shape[-1])).astype(rows.dtype)
        dlogits = np.zeros((math.prod(shape[:-1]), shape[-1]), rows.dtype)
        dlogits[counted] = push(rows, onehot, float(dloss) / len(kept))
        return dlogits.reshape(shape)

    return cross_entropy, cross_entropy_backward


def _of(log_softmax: Unary) -> Binary:
    return partial(_loss_from_log_softmax, log_softmax)


def _push(softmax: Unary) -> Callable[[Array, Array, float], Array]:
    return partial(_push_from_softmax, softmax)


CROSS_ENTROPY: dict[str, Pair] = {
    "log-sum-exp about the target": _cross_entropy(_loss_from_target, np.mean, _push(plain)),
    "log-sum-exp minus the target's logit": _cross_entropy(_loss_from_log_sum_exp, np.mean, _push_from_log_sum_exp),
    "log-sum-exps and logits added up apart": _cross_entropy(
        _log_sum_exp_and_logit, _mean_of_sums, _push_from_log_sum_exp
    ),
    "log-add-exp one by one": _cross_entropy(_of(log_by_log_add_exp), np.mean, _push_from_log_add_exp),
    "distance to the max apart": _cross_entropy(_loss_apart, _mean_in_reverse, _push_expanded),
    "product with one-hot": _cross_entropy(_loss_from_onehot, _mean_by_product, _push_by_others),
    "row by row": _cross_entropy(_loss_row_by_row, np.mean, _push_by_expm1),
    "log1p": _cross_entropy(_of(log_by_log1p), _mean_of_shares, _push_divided),
    "log2": _cross_entropy(_of(log_by_log2), _mean_in_reverse, _push(by_exp2)),
    "ceiling of the max": _cross_entropy(_of(log_by_ceiling), np.mean, _push(by_ceiling)),
    "sums in reverse": _cross_entropy(
        _of(partial(log_by_sum, reverse_sum)), _mean_in_reverse, _push(partial(by_sum, reverse_sum))
    ),
    "sums by halves": _cross_entropy(_of(partial(log_by_sum, pairwise_sum)), _mean_of_shares, _push(by_log_sum_exp)),
    "exact sums": _cross_entropy(
        _of(partial(log_by_sum, exact_sum)), _mean_by_product, _push(partial(by_sum, exact_sum))
    ),
    "wider": _cross_entropy(_of(widely(partial(log_by_sum, numpy_sum))), _mean_of_shares, _push(widely(plain))),
}
