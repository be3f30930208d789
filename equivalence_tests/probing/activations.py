"""Softmax and gelu: which axis, what becomes of a row of minus infinities, and which gelu it is."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.subject import Subject

SOFTMAX = {"X": ("input", "scores", "logits", "z"), "axis": ("dim", "axes")}
GELU = {"X": ("input", "z"), "approximate": ("approx", "tanh_approx", "exact")}
AXES: dict[str, int | tuple[int, ...]] = {"last": -1, "first": 0, "middle": 1, "all": (0, 1, 2), "last_two": (1, 2)}


def probe_softmax(function: Any) -> list[Convention]:
    """What it is, its axis by default and on demand, rows of -inf, large scores. Refused if no call is answered."""
    subject = Subject(function, SOFTMAX, ("X",))
    X = np.random.default_rng(0).standard_normal((2, 3, 4))
    calls: list[dict[str, Any]] = (
        [{"X": X, "axis": -1}] if subject.requires("axis") else [{"X": X}, {"X": X, "axis": -1}]
    )
    axis_given = "axis" in calls[subject.settle(*calls)[0]]
    options: dict[str, Any] = {"axis": -1} if axis_given else {}
    alternatives: dict[str, Array] = {}
    for code, axis in AXES.items():
        E = np.exp(X)
        A = E / E.sum(axis, keepdims=True)
        alternatives |= {f"plain {code}": A, f"log {code}": np.log(A), f"base_2 {code}": np.exp2(X)}
        alternatives[f"base_2 {code}"] /= np.exp2(X).sum(axis, keepdims=True)
    given = {"X": "random(2, 3, 4)", **options}
    A = subject(X=X, **options)[0]
    found = choose("softmax_axis", A, alternatives, given, "A", roundoff=subject.roundoff)
    kind, _, axis_code = found.answer.partition(" ")
    got = {"sum of A over the last axis": A[0].sum(-1)} if A.ndim == 3 else {"A": f"shape {A.shape}"}
    if not found.told:
        return [replace(found, got=got)]
    default = (
        Convention("softmax_axis", axis_code, given, got) if not axis_given else Convention("softmax_axis", "asked")
    )
    options = {"axis": -1} if subject.takes("axis") else {}
    rest = [_empty(subject, options, kind), _large(subject, options, kind)]
    return [Convention("softmax_kind", kind, given, got), default, _axis_option(subject, X, kind), *rest]


def _axis_option(subject: Subject, X: Array, kind: str) -> Convention:
    if not subject.takes("axis"):
        return Convention("softmax_axis_option", "no_option")
    given = {"X": "random(2, 3, 4)", "axis": -2}

    def decide() -> Convention:
        base = 2.0 if kind == "base_2" else math.e
        E = base**X
        kinds = {"taken": E / E.sum(-2, keepdims=True), "ignored": E / E.sum(-1, keepdims=True)}
        alternatives = {code: np.log(A) if kind == "log" else A for code, A in kinds.items()}
        A = subject(X=X, axis=-2)[0]
        found = choose("softmax_axis_option", A, alternatives, given, "A", roundoff=subject.roundoff)
        return replace(found, got={"A[0, :, 0]": A[0, :, 0]} if A.ndim == 3 else found.got)

    return asked("softmax_axis_option", given, decide)


def _row(subject: Subject, row: list[float], options: dict[str, Any]) -> Array:
    """The answer to one row, given as (1, 1, m): whichever of the axes is the row's."""
    return subject(X=np.array([[row]]), **options)[0].reshape(-1)


def _empty(subject: Subject, options: dict[str, Any], kind: str) -> Convention:
    given = {"X": [-math.inf, -math.inf], **options}

    def decide() -> Convention:
        A = _row(subject, [-math.inf, -math.inf], options)
        alternatives = {"nan": [np.nan, np.nan], "zero": [0.0, 0.0], "uniform": [0.5, 0.5]}
        if kind == "log":
            alternatives = {"nan": [np.nan, np.nan], "zero": [-np.inf, -np.inf], "uniform": [math.log(0.5)] * 2}
        return choose("softmax_empty", A, alternatives, given, "A", roundoff=subject.roundoff)

    return asked("softmax_empty", given, decide)


def _large(subject: Subject, options: dict[str, Any], kind: str) -> Convention:
    x = 1e4
    given = {"X": [x, 0.0], **options}

    def decide() -> Convention:
        A = _row(subject, [x, 0.0], options)
        right = [0.0, -x] if kind == "log" else [1.0, 0.0]
        answer = "right" if np.array_equal(A, right) else "overflows"
        return Convention("softmax_large", answer, given, {"A": A})

    return asked("softmax_large", given, decide)


def gelu_forms(X: Array) -> dict[str, Array]:
    """What goes by the name of gelu, and what is taken for it."""
    erf = np.array([math.erf(x / math.sqrt(2)) for x in X.ravel()]).reshape(X.shape)
    return {
        "tanh": X * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3))) / 2,
        "erf": X * (1 + erf) / 2,
        "quick": X / (1 + np.exp(-1.702 * X)),
        "silu": X / (1 + np.exp(-X)),
        "relu": np.maximum(X, 0.0),
        "tanh_alone": np.tanh(X),
    }


X_GELU = np.array([-2.7, -1.0, 0.5, 1.5, 2.7])


def probe_gelu(function: Any) -> list[Convention]:
    """The form, by default and as `approximate` says. Refused if no call is answered."""
    subject = Subject(function, GELU, ("X",))
    subject.settle({"X": X_GELU})
    found = [asked("gelu_form", {}, lambda: _form("gelu_form", subject, {}))]
    if "approximate" not in subject.names:
        return [*found, Convention("gelu_option", "no_option")]
    for name, value in (("gelu_tanh", "tanh"), ("gelu_none", "none")):
        options = {"approximate": value}
        found.append(asked(name, options, partial(_form, name, subject, options)))
    return found


def _form(name: str, subject: Subject, options: dict[str, Any]) -> Convention:
    Y = subject(X=X_GELU, **options)[0]
    return choose(name, Y, gelu_forms(X_GELU), {"X": X_GELU, **options}, roundoff=subject.roundoff)
