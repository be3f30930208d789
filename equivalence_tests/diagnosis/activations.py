"""What may stand in the place of a function: activations, exponentials, logarithms of probabilities, one-hot matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import erf
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.editing import Editing
from equivalence_tests.diagnosis.other import Change, Other, instead

EXP = (
    instead("other_form", lambda D: D._new(np.exp2(D.value)), term="exp", form="a power of 2"),
    instead("other_form", lambda D: D, 3.0, term="exp", form="it alone"),
)
LOG = (
    instead("other_form", lambda x: x._new(np.log2(x.value)), term="log", form="the logarithm to base 2"),
    instead("other_form", lambda x: x._new(np.log10(x.value)), term="log", form="the logarithm to base 10"),
    instead("other_form", lambda x: x._new(np.log1p(x.value)), term="log", form="log(1 + x)"),
)


def _over_a_part(outside: Callable[[Editing], Any], stage: Editing, a: Any) -> Any:
    """tanh of the sum without a part, which is added afterwards."""
    rest = outside(stage)
    return (a - rest).tanh() + rest


def _outside_tanh(part: Callable[[Editing], Any]) -> Change:
    return lambda _, stage: partial(_over_a_part, part, stage)


def _from_state(stage: Editing) -> Any:
    before = stage.lines["h"] if "h" in stage.lines else stage.lines["h0"]
    return (before[..., None, :] @ stage.lines["W_hh"].mT)[..., 0, :] + stage.lines["b_hh"]


PARTS: dict[str, Callable[[Editing], Any]] = {
    "tanh of the input's part alone": _from_state,
    "tanh, and b_hh is added after it": lambda stage: stage.lines["b_hh"],
    "tanh, and b_ih is added after it": lambda stage: stage.lines["b_ih"],
}
TANH = (
    *(Other("other_form", _outside_tanh(part), {"term": "tanh", "form": form}) for form, part in PARTS.items()),
    instead("other_form", lambda x: x.where(x.value > 0), term="tanh", form="relu"),
    instead("other_form", lambda x: x, term="tanh", form="nothing"),
    instead("other_form", lambda x: 1.0 / (1.0 + (-x).exp()), term="tanh", form="the sigmoid"),
    instead("other_form", lambda x: x._new(np.sin(x.value)), 4.0, term="tanh", form="the sine"),
    instead("other_form", lambda x: x.moved(lambda v: np.clip(v, -1, 1)), term="tanh", form="a clip to [-1, 1]"),
    instead(
        "overflows",
        lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
        native=True,
        term="tanh from exponentials",
    ),
    instead(
        "overflows",
        lambda x: ((x * 2.0).exp() - 1.0) / ((x * 2.0).exp() + 1.0),
        2.1,
        native=True,
        term="tanh from exp(2x)",
    ),
)


def _by_entry(function: Callable[[Array], Array]) -> Callable[..., Any]:
    return lambda X, *_: X.moved(function)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _leaky(slope: float, x: Array) -> Array:
    return np.where(x > 0, x, slope * x)


RELU_FORMS: dict[str, Callable[[Array], Array]] = {
    **{f"leaky, {c} below 0": partial(_leaky, c) for c in (0.01, 0.1, 0.2, 0.05, 0.3)},
    "it up to 6": lambda x: np.clip(x, 0, 6),
    "it up to 1": lambda x: np.clip(x, 0, 1),
    "the absolute value": np.abs,
    "nothing": lambda x: x,
    "softplus": lambda x: np.logaddexp(0, x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "silu": lambda x: x * _sigmoid(x),
}
RELU = tuple(instead("other_form", _by_entry(f), term="relu", form=form) for form, f in RELU_FORMS.items())
ERF = np.vectorize(erf, otypes=[float])
GELU = tuple(
    instead("other_form", _by_entry(function), term="gelu", form=form)
    for form, function in {
        "the erf form": lambda x: x * (1 + ERF(x / np.sqrt(2.0))) / 2,
        "X sigmoid(1.702 X)": lambda x: x * _sigmoid(1.702 * x),
        "silu": lambda x: x * _sigmoid(x),
        "relu": lambda x: np.maximum(x, 0),
        "nothing": lambda x: x,
    }.items()
)


def _log_of(change: Callable[[Array], Array]) -> Change:
    return lambda x, _: x.moved(lambda y: np.log(change(np.exp(y))))


def _again(x: Any, _: Editing) -> Any:
    P = x.exp()
    top = P.moved(lambda v: v.max(-1, keepdims=True))
    return P - top - (P - top).exp().sum(-1, keepdims=True).log()


def _raw_probability(x: Any, _: Editing) -> Any:
    return x.exp()


SMALL = (1e-15, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
OF_LOG_P: tuple[Other, ...] = (
    *(
        Other("rounded_logarithm", _log_of(partial(lambda c, p: p + c, c)), {"how": f"{c} is added before it"})
        for c in SMALL
    ),
    *(
        Other(
            "rounded_logarithm",
            _log_of(partial(lambda c, p: np.clip(p, c, 1 - c), c)),
            {"how": f"P is clipped to [{c}, 1 - {c}]"},
            2.1,
        )
        for c in SMALL
    ),
    *(
        Other(
            "rounded_logarithm", _log_of(partial(lambda c, p: np.maximum(p, c), c)), {"how": f"P is at least {c}"}, 2.2
        )
        for c in SMALL
    ),
    Other(
        "rounded_logarithm",
        _log_of(lambda p: p),
        {"how": "it is taken of a softmax that has underflown"},
        2.3,
        native=True,
    ),
    Other("other_form", _again, {"term": "log P", "form": "a softmax of the softmax"}, 2.4),
    Other("other_form", _raw_probability, {"term": "log P", "form": "P"}, 2.5),
)


def _one_of(repeats: Callable[[Array], Array]) -> Change:
    return lambda x, _: x.moved(repeats)


def _last_named(x: Array) -> Array:
    later = np.cumsum(x[::-1], 0)[::-1]
    return np.where(later == 1, x, 0)


def _first_named(x: Array) -> Array:
    return np.where(np.cumsum(x, 0) == 1, x, 0)


def _by_sequence(x: Any, stage: Editing) -> Any:
    n = stage.case.operands["ids"].shape[-1]
    rows = x.value.reshape(-1, n, x.value.shape[-1])
    return x._new(np.stack([_last_named(row) for row in rows]).reshape(x.value.shape)) if len(rows) else x


def _by_place(x: Any, stage: Editing) -> Any:
    n = stage.case.operands["ids"].shape[-1] if stage.case.operands["ids"].ndim else 1
    rows = x.value.reshape(-1, n, x.value.shape[-1])
    return x._new(np.stack([_last_named(rows[:, t]) for t in range(n)], 1).reshape(x.value.shape))


def _averaged_repeats(x: Array) -> Array:
    averaged: Array = x / np.maximum(x.sum(0), 1)
    return averaged


OF_ONEHOT: dict[str, Change] = {
    "of repeated ids the last alone counts": _one_of(_last_named),
    "of repeated ids the first alone counts": _one_of(_first_named),
    "within a sequence repeated ids count once": _by_sequence,
    "at one place of the sequences repeated ids count once": _by_place,
    "repeated ids are averaged": _one_of(_averaged_repeats),
}
