"""What may stand in the place of a reduction: a sum, a mean, a maximum, over rows, over time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.other import Other, instead


def _first_axis(X: Any) -> Any:
    return X.sum(0) if X.value.ndim > 1 else X


def _sequences(X: Any) -> int:
    shape = X.value.shape
    return int(np.prod(shape[:-2])) if len(shape) > 1 else 1


def _of_sequence(X: Any, which: int) -> Any:
    n = X.value.shape[-2] if X.value.ndim > 1 else 1
    rows = X.rows()
    return rows[:n] if which == 0 else rows[rows.value.shape[0] - n :]


def _at_time(X: Any, t: Any) -> Any:
    return X[..., t, :].rows() if X.value.ndim > 1 else X.rows()


def _outer_of(choose: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda X, Y: choose(X).mT @ choose(Y)


OVER_ROWS = (
    instead("summed_over", _first_axis, over="the first axis alone", right="all leading axes"),
    instead("mean_for_sum", lambda X: X.rows().mean(0, keepdims=False), 2.0),
    instead("not_summed", lambda X: X, right="all leading axes"),
    instead(
        "summed_over",
        lambda X: _of_sequence(X, -1).sum(0),
        over="the last sequence alone",
        right="all",
    ),
    instead("summed_over", lambda X: _of_sequence(X, 0).sum(0), over="the first sequence alone", right="all"),
    instead("summed_over", lambda X: _at_time(X, 0).sum(0), over="the first row of each sequence alone", right="all"),
    instead("summed_over", lambda X: _at_time(X, -1).sum(0), over="the last row of each sequence alone", right="all"),
    instead(
        "summed_over",
        lambda X: X.sum(-2) if X.value.ndim > 1 else X,
        over="the rows of each sample",
        right="all leading axes",
    ),
    instead("summed_over", lambda X: X.rows().sum(-1), over="the last axis", right="all leading axes"),
    instead("mean_for_sum", lambda X: X.rows().sum(0) / float(max(_sequences(X), 1)), 2.5),
)
OUTER = (
    instead("transposed", lambda X, Y: (X.rows().mT @ Y.rows()).mT, 1.5, term="the result"),
    instead("mean_for_sum", lambda X, Y: (X.rows().mT @ Y.rows()) / float(max(X.rows().value.shape[0], 1))),
    instead("mean_for_sum", lambda X, Y: (X.rows().mT @ Y.rows()) / float(max(_sequences(X), 1)), 2.5),
    instead("not_summed", lambda X, Y: X.mT @ Y, right="all leading axes"),
    instead("summed_over", _outer_of(lambda X: _of_sequence(X, -1)), over="the last sequence alone", right="all"),
    instead("summed_over", _outer_of(lambda X: _of_sequence(X, 0)), over="the first sequence alone", right="all"),
    instead(
        "summed_over", _outer_of(lambda X: _at_time(X, 0)), over="the first row of each sequence alone", right="all"
    ),
    instead(
        "summed_over", _outer_of(lambda X: _at_time(X, -1)), over="the last row of each sequence alone", right="all"
    ),
    instead("summed_over", _outer_of(lambda X: X.rows()[-1:]), over="the last row alone", right="all"),
    instead("summed_over", _outer_of(lambda X: X.rows()[:1]), over="the first row alone", right="all"),
    instead(
        "summed_over",
        _outer_of(lambda X: X[..., 1:, :].rows() if X.value.ndim > 1 else X.rows()),
        over="all rows but the first of each sequence",
        right="all",
    ),
    instead(
        "summed_over",
        _outer_of(lambda X: X[..., :-1, :].rows() if X.value.ndim > 1 else X.rows()),
        over="all rows but the last of each sequence",
        right="all",
    ),
)


def _sum_of(axis: Any) -> Callable[[Any], Any]:
    return lambda X: X.sum(axis, keepdims=True)


def _mean_of(axis: Any) -> Callable[[Any], Any]:
    return lambda X: X.mean(axis, keepdims=True)


def _unbiased(X: Any) -> Any:
    return X.sum(-1, keepdims=True) / float(max(X.value.shape[-1] - 1, 1))


def _weighted(stage: Any, X: Any) -> Any:
    """The sum weighted by the probabilities."""
    P = stage.line("Y").exp()
    return (P * X).sum(-1, keepdims=True)


SUMMED = (
    Other("wrong_operand", lambda _, stage: partial(_weighted, stage), {"term": "dY", "got": "exp(Y) dY"}, 2.4),
    instead("mean_for_sum", _mean_of(-1)),
    instead("wrong_axis", _sum_of(-2), axis="the axis before the last"),
    instead("wrong_axis", _sum_of(None), axis="the whole array"),
    instead("wrong_axis", _sum_of(0), 2.5, axis="the first axis"),
    instead("other_form", lambda X: X[..., :1] * 0.0 + 1.0, 3.0, term="the sum", form="1"),
    instead("other_form", lambda X: X, 2.2, term="the sum", form="each entry alone"),
)
AVERAGED = (
    instead("sum_for_mean", _sum_of(-1)),
    instead("wrong_axis", _mean_of(-2), axis="the axis before the last"),
    instead("wrong_axis", _mean_of(None), axis="the whole array"),
    instead("wrong_axis", _mean_of(0), 2.5, axis="the first axis"),
    instead("unbiased", _unbiased),
    instead("wrong_axis", lambda X: X.sum(-1, keepdims=True) / float(X.value.shape[0]), 3.0, axis="the number of rows"),
)
TOTAL_OVER = (
    instead("wrong_axis", lambda E, axis: E.sum(None, keepdims=True), axis="the whole array"),
    *(
        instead("added_constant", lambda E, axis, c=c: E.sum(axis, keepdims=True) + c, 2.5, number=c)
        for c in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1.0)
    ),
    instead("missing_term", lambda E, axis: E.sum(axis, keepdims=True) * 0.0 + 1.0, term="the denominator"),
    Other("ignored_class", lambda _, stage: partial(_without_class, stage.case.options.get("ignore_index"))),
)


def _without_class(ignored: Any, E: Any, axis: Any) -> Any:
    if ignored is None or not 0 <= int(ignored) < E.value.shape[-1]:
        return E.sum(axis, keepdims=True)
    return E.where(np.arange(E.value.shape[-1]) != int(ignored)).sum(axis, keepdims=True)


def _shift(over: Callable[[Array, Array, Any], Array]) -> Callable[..., Any]:
    return lambda S, allowed, axis: S.moved(lambda x: over(x, allowed, axis))


def _whole(x: Array, allowed: Array, axis: Any) -> Array:
    top = np.max(np.where(allowed, x, -np.inf), None, keepdims=True, initial=-np.inf)
    return np.where(np.isneginf(top), 0, top)


GREATEST = (
    instead("no_maximum", _shift(lambda x, allowed, axis: np.zeros_like(x[..., :1])), native=True),
    instead("maximum_of", _shift(_whole), native=True, of_what="the whole array"),
    instead(
        "maximum_of",
        _shift(lambda x, allowed, axis: x.max(-1, keepdims=True)),
        2.5,
        True,
        of_what="all scores, the masked too",
    ),
    instead(
        "maximum_of", _shift(lambda x, allowed, axis: x.max(0, keepdims=True)), 2.5, True, of_what="the first axis"
    ),
)


ROOT = (
    instead("epsilon_place", lambda var, eps: var.sqrt() + eps, stage="r", where="outside the root"),
    *(
        instead(
            "epsilon_place",
            lambda var, eps, c=c: var.sqrt() + c,
            2.3,
            stage="r",
            where=f"outside the root, and is {c:g}",
        )
        for c in (1e-6, 1e-8, 1e-12)
    ),
    instead(
        "epsilon_place",
        lambda var, eps: (var.sqrt() + eps).sqrt(),
        2.2,
        stage="r",
        where="beside the deviation, inside the root",
    ),
    instead(
        "epsilon_place",
        lambda var, eps: var.moved(lambda v: np.maximum(v, eps)).sqrt(),
        2.2,
        stage="r",
        where="as a floor under the variance",
    ),
    instead(
        "epsilon_place",
        lambda var, eps: var.sqrt().moved(lambda v: np.maximum(v, eps)),
        2.4,
        stage="r",
        where="as a floor under the deviation",
    ),
    instead("other_form", lambda var, eps: var + eps, 2.2, stage="r", term="root", form="nothing"),
)


def _sequence_means(of_rows: Any, counted: Array, M: float, shape: tuple[int, ...]) -> Any:
    if len(shape) < 2:
        return of_rows.sum(0) / M
    sums = of_rows.moved(lambda x: x.reshape(-1, shape[-1]).sum(-1))
    counts = counted.reshape(-1, shape[-1]).sum(-1)
    return (sums / np.maximum(counts, 1)).mean(0, keepdims=False)


MEAN_OF_COUNTED = (
    instead("sum_for_mean", lambda r, counted, M, shape: r.sum(0), stage="loss"),
    instead(
        "wrong_count",
        lambda r, counted, M, shape: r.sum(0) / float(counted.size),
        stage="count",
        got="all rows",
        right="the counted ones",
    ),
    instead("mean_of_means", _sequence_means, stage="loss"),
    instead(
        "summed_over",
        lambda r, counted, M, shape: _sequence_means(r, counted, M, shape) * float(np.prod(shape[:-1])),
        2.2,
        stage="loss",
        over="the sequences, after a mean over each",
        right="a mean of all",
    ),
    *(
        instead(
            "summed_over",
            lambda r, counted, M, shape, at=at: r[at].sum(0),
            2.3,
            stage="loss",
            over=f"the {which} row alone",
            right="all that count",
        )
        for which, at in (("last", slice(-1, None)), ("first", slice(0, 1)))
    ),
    instead(
        "wrong_count",
        lambda r, counted, M, shape: r.sum(0) / float(shape[0] if shape else 1),
        2.5,
        stage="count",
        got="the first axis",
        right="the counted ones",
    ),
)
TIME = (instead("wrong_order", lambda n: list(range(n)), stage="dh"),)
