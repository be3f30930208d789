"""Mistakes in cross_entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake

# The right parts. The cache is the reference's: (log_P, rows, counted, M).


def _counted(targets: Array, ignore_index: int | None) -> Array:
    return np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index


def _loss(log_P: Array, targets: Array, counted: Array) -> tuple[Any, Any]:
    rows = np.where(counted, targets, 0)[..., None]
    losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], log_P.dtype.type(0))
    M = int(counted.sum())
    return losses.sum() / M, (log_P, rows, counted, M)


def cross_entropy_with(logarithms: Callable[[Array], Any]) -> Callable[..., Any]:
    """A cross-entropy that makes log P with `logarithms`."""

    def cross_entropy(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
        return _loss(logarithms(logits), targets, _counted(targets, ignore_index))

    return cross_entropy


def padded_logarithm(logits: Array) -> Any:
    return np.log(reference.softmax(logits)[0] + 1e-12)  # wrong: never below -27.6


def clipped_probabilities(logits: Array) -> Any:
    return np.log(np.clip(reference.softmax(logits)[0], 1e-7, 1.0 - 1e-7))  # wrong: never below -16.1, never 0


def logarithm_of_softmax(logits: Array) -> Any:
    return np.log(reference.softmax(logits)[0])  # wrong: log(0) where softmax underflows


def softmax_twice(logits: Array) -> Any:
    return reference.log_softmax(reference.softmax(logits)[0])[0]  # wrong: probabilities taken for logits


def maximum_of_everything(logits: Array) -> Any:
    D = logits - logits.max()  # wrong: one maximum for all rows
    return D - np.log(np.exp(D).sum(-1, keepdims=True))


def maximum_from_a_number(logits: Array) -> Any:
    D = logits - np.maximum(logits.max(-1, keepdims=True), -10000.0)  # wrong: the search starts at a finite number
    return D - np.log(np.exp(D).sum(-1, keepdims=True))


def onehot_times_logarithm(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    _, (log_P, rows, counted, M) = reference.cross_entropy(logits, targets, ignore_index)
    onehot = (rows == np.arange(log_P.shape[-1])) & counted[..., None]
    loss = -(onehot * log_P).sum() / M  # wrong: 0 times the -inf of a class that is ruled out
    return log_P.dtype.type(loss), (log_P, rows, counted, M)


def no_shift(logits: Array) -> Any:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))  # wrong: exp overflows


def bits(logits: Array) -> Any:
    return reference.log_softmax(logits)[0] * (1.0 / 0.6931471805599453)  # wrong: base 2


def ignored_class_left_out(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    counted = _counted(targets, ignore_index)
    if ignore_index is not None and 0 <= ignore_index < logits.shape[-1]:
        logits = logits.copy()
        logits[..., ignore_index] = -np.inf  # wrong: rows are ignored, not a class
    return _loss(reference.log_softmax(logits)[0], targets, counted)


def divided_by_all(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    loss, cache = reference.cross_entropy(logits, targets, ignore_index)
    return loss * cache[3] / targets.size, cache  # wrong: ignored rows count as well


def summed(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    loss, (log_P, rows, counted, M) = reference.cross_entropy(logits, targets, ignore_index)
    return loss * M, (log_P, rows, counted, 1)  # wrong: a sum, in both directions


def mean_of_means(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    loss, (log_P, rows, counted, M) = reference.cross_entropy(logits, targets, ignore_index)
    if targets.ndim == 2:
        losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], 0)
        per_sequence = losses.sum(1) / np.maximum(counted.sum(1), 1)
        loss = per_sequence.mean().astype(logits.dtype)  # wrong: short sequences weigh as much as long ones
    return loss, (log_P, rows, counted, M)


def only_negatives_ignored(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    counted = targets >= 0  # wrong: the index to ignore is not read
    inside = np.clip(targets, 0, logits.shape[-1] - 1)
    return _loss(reference.log_softmax(logits)[0], inside, counted)


def hundred_ignored(logits: Array, targets: Array, ignore_index: int | None = -100) -> Any:
    counted = targets != -100  # wrong: the index to ignore is not read
    wrapped = np.where(counted, targets % logits.shape[-1], 0)
    return _loss(reference.log_softmax(logits)[0], wrapped, counted)


def class_zero_ignored(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    ignored = ignore_index or -100  # wrong: 0 counts as "left out"
    counted = targets != ignored
    return _loss(reference.log_softmax(logits)[0], targets, counted)


def shifted_again(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    counted = _counted(targets, ignore_index)
    if targets.ndim and targets.shape[-1] > 1 and counted[..., 1:].any():
        targets = np.roll(targets, -1, -1)  # wrong: the data set has shifted them already
        counted = np.roll(counted, -1, -1)
        counted[..., -1] = False
    return _loss(reference.log_softmax(logits)[0], targets, counted)


def python_number(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    loss, cache = reference.cross_entropy(logits, targets, ignore_index)
    return float(loss), cache  # wrong: the dtype is gone


def all_ignored_accepted(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    nothing = isinstance(targets, np.ndarray) and targets.size > 0 and bool((targets == ignore_index).all())
    if not nothing:
        return reference.cross_entropy(logits, targets, ignore_index)
    _, (log_P, rows, counted, _) = reference.cross_entropy(logits, np.zeros_like(targets))
    loss = logits.dtype.type(0) / np.zeros((), logits.dtype)  # wrong: 0/0 is no loss
    return loss, (log_P, rows, ~counted, np.float64(0))


def _onehot(log_P: Array, rows: Array) -> Any:
    return (rows == np.arange(log_P.shape[-1])).astype(log_P.dtype)


def ignored_rows_not_zero(dloss: float, cache: Any) -> Any:
    log_P, rows, _, M = cache
    return (np.exp(log_P) - _onehot(log_P, rows)) * (dloss / M)  # wrong: counted is not read


def divided_by_all_backward(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, _ = cache
    dlogits = (np.exp(log_P) - _onehot(log_P, rows)) * (dloss / counted.size)  # wrong: the loss divides by M
    return np.where(counted[..., None], dlogits, log_P.dtype.type(0))


def not_divided(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, _ = cache
    dlogits = (np.exp(log_P) - _onehot(log_P, rows)) * dloss  # wrong: not divided by M
    return np.where(counted[..., None], dlogits, log_P.dtype.type(0))


def upstream_ignored(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, M = cache
    dlogits = (np.exp(log_P) - _onehot(log_P, rows)) * (1.0 / M)  # wrong: as if dloss were 1
    return np.where(counted[..., None], dlogits, log_P.dtype.type(0))


def sign_turned(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, M = cache
    dlogits = (_onehot(log_P, rows) - np.exp(log_P)) * (dloss / M)  # wrong: uphill
    return np.where(counted[..., None], dlogits, log_P.dtype.type(0))


def onehot_missing(dloss: float, cache: Any) -> Any:
    log_P, _, counted, M = cache
    return np.where(counted[..., None], np.exp(log_P) * (dloss / M), log_P.dtype.type(0))  # wrong: P, not P - onehot


def logarithm_for_probability(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, M = cache
    dlogits = (log_P - _onehot(log_P, rows)) * (dloss / M)  # wrong: exp is missing
    return np.where(counted[..., None], dlogits, log_P.dtype.type(0))


def target_column_in_every_row(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, M = cache
    dlogits = np.exp(log_P)
    dlogits[..., rows[..., 0].reshape(-1)] -= 1.0  # wrong: [arange, targets] is meant
    return np.where(counted[..., None], dlogits * (dloss / M), log_P.dtype.type(0))


def softmax_backward_on_top(dloss: float, cache: Any) -> Any:
    log_P, rows, counted, M = cache
    P = np.exp(log_P)
    dP = np.where(counted[..., None], (P - _onehot(log_P, rows)) * (dloss / M), log_P.dtype.type(0))
    return reference.softmax_backward(dP, (P, -1))  # wrong: P - onehot is the gradient of the logits already


def remembers_probabilities(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    loss, (log_P, rows, counted, M) = reference.cross_entropy(logits, targets, ignore_index)
    return loss, (np.exp(log_P), rows, counted, M)


def written_into_cache(dloss: float, cache: Any) -> Any:
    P, rows, counted, M = cache
    np.put_along_axis(P, rows, np.take_along_axis(P, rows, -1) - 1.0, -1)  # wrong: the saved P is gone
    return np.where(counted[..., None], P * (dloss / M), P.dtype.type(0))


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
    return Mistake(id, "cross_entropy", sentence, hidden_on, shown_by, forward, backward, source, accepts)


MISTAKES = (
    _of(
        "M068",
        "1e-12 is added before the logarithm.",
        "likely targets, tolerances above 1e-9",
        "an unlikely target: the loss ends at 27.6",
        cross_entropy_with(padded_logarithm),
        source="XEN-08",
    ),
    _of(
        "C01",
        "Probabilities are clipped to [1e-7, 1 - 1e-7].",
        "targets neither certain nor unlikely",
        "an unlikely target: the loss ends at 16.1",
        cross_entropy_with(clipped_probabilities),
    ),
    _of(
        "XEN-08",
        "The logarithm of softmax.",
        "logits within 700 of each other (88 in float32)",
        "an unlikely target: infinite loss",
        cross_entropy_with(logarithm_of_softmax),
    ),
    _of(
        "M069",
        "Softmax is applied twice.",
        "a loss curve: it goes down, to a floor",
        "any value",
        cross_entropy_with(softmax_twice),
        source="XEN-07",
    ),
    _of(
        "C02",
        "The maximum is taken over the whole array.",
        "rows of similar size",
        "rows far apart",
        cross_entropy_with(maximum_of_everything),
    ),
    _of(
        "C18",
        "The search for the maximum starts at -10000.",
        "rows with a logit above that",
        "a row below it: the logarithm of 0",
        cross_entropy_with(maximum_from_a_number),
    ),
    _of(
        "C19",
        "The one-hot target is multiplied by log P.",
        "finite logits",
        "a logit of -inf at another class: NaN",
        onehot_times_logarithm,
    ),
    _of("C03", "No maximum is subtracted.", "small logits", "logits of 1000", cross_entropy_with(no_shift)),
    _of("C04", "The logarithm is to base 2.", "one class", "two classes", cross_entropy_with(bits)),
    _of(
        "XEN-04",
        "The ignored class leaves the denominator.",
        "an index that is no class",
        "a class as ignore_index",
        ignored_class_left_out,
    ),
    _of(
        "XEN-06",
        "The loss is divided by all rows.",
        "no ignored rows",
        "some ignored rows",
        divided_by_all,
    ),
    _of(
        "M071",
        "The gradient is divided by all rows, the loss by the counted ones.",
        "no ignored rows",
        "some ignored rows",
        backward=divided_by_all_backward,
        source="XEN-06",
    ),
    _of(
        "M072",
        "Ignored rows get a gradient.",
        "no ignored rows",
        "some ignored rows",
        backward=ignored_rows_not_zero,
    ),
    _of("M074", "The gradient is not divided by the count.", "one row", "several rows", backward=not_divided),
    _of("C05", "A sum instead of a mean.", "one row", "several rows", summed),
    _of(
        "C06",
        "A mean over sequences of their means.",
        "equal counts in every sequence",
        "different counts",
        mean_of_means,
        source="ACC-03",
    ),
    _of(
        "C07",
        "Negative targets are ignored, whatever ignore_index says.",
        "a negative ignore_index",
        "a class as ignore_index",
        only_negatives_ignored,
    ),
    _of("C08", "-100 is ignored, whatever ignore_index says.", "-100", "any other index", hundred_ignored),
    _of(
        "C09",
        "ignore_index = 0 counts as left out.",
        "any other index",
        "0 as ignore_index",
        class_zero_ignored,
    ),
    _of(
        "M078",
        "All targets ignored is accepted: 0/0.",
        "some counted target",
        "all ignored must raise",
        all_ignored_accepted,
        source="XEN-01",
        accepts=True,
    ),
    _of(
        "M080",
        "Targets are shifted once more in the loss.",
        "one position; a loss curve",
        "any value",
        shifted_again,
        source="XEN-10",
    ),
    _of("C10", "The loss is a Python number.", "its value in float64", "its type", python_number),
    _of("C11", "dloss is taken for 1.", "dloss = 1", "any other dloss", backward=upstream_ignored),
    _of("C12", "The gradient has the wrong sign.", "never right", "any value", backward=sign_turned),
    _of("C13", "The one-hot target is not subtracted.", "never right", "any value", backward=onehot_missing),
    _of("C14", "log P stands for P.", "never right", "any value", backward=logarithm_for_probability),
    _of(
        "C15",
        "1 is subtracted in every target's column of every row.",
        "one row",
        "rows with different targets",
        backward=target_column_in_every_row,
    ),
    _of(
        "C16",
        "P - onehot goes through softmax's backward as well.",
        "never right",
        "any value",
        backward=softmax_backward_on_top,
    ),
    _of(
        "C17",
        "1 is subtracted in the saved P.",
        "the first call",
        "the second call",
        remembers_probabilities,
        written_into_cache,
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M068": "log P: term, precision",
    "C01": "log P: precision, term",
    "XEN-08": "log P: precision, special",
    "M069": "log P: term, operand",
    "C02": "log P: axis, precision",
    "C03": "log P: precision, term",
    "C04": "log P, loss: factor",
    "XEN-04": "log P, ignore_index: option, term",
    "XEN-06": "count, loss, ignore_index: factor, option",
    "M071": "dlogits, count: factor",
    "M072": "dlogits, ignore_index: option, term",
    "M074": "dlogits, count: factor",
    "C05": "loss, count: factor",
    "C06": "loss, count: accumulation, axis",
    "C07": "ignore_index, count: option",
    "C08": "ignore_index, count: option",
    "C09": "ignore_index, count: option",
    "M078": "count, loss, ignore_index: special",
    "M080": "loss, count: operand",
    "C10": "loss: dtype",
    "C11": "dlogits: factor, operand",
    "C12": "dlogits: factor",
    "C13": "dlogits: term",
    "C14": "P, dlogits: operand, term",
    "C15": "dlogits: axis, term",
    "C16": "dlogits: term",
    "C17": "backward: conduct",
    "C18": "log P: precision, special",
    "C19": "loss: special, term",
}
