"""What AdamW must refuse, and that a refused call has changed nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.refusals import _refused

Arrays = dict[str, Array]


def _example() -> tuple[Arrays, Arrays, dict[str, Any]]:
    """Arguments of a call that is right, after two steps."""
    params = {"W": np.array([[1.0, -2.0], [0.5, 3.0]]), "b": np.array([1.0, 2.0])}
    grads = {"W": np.array([[0.5, 1.0], [-2.0, 0.25]]), "b": np.array([-1.0, 0.5])}
    moments = {"exp_avg": {name: 0.1 * g for name, g in grads.items()}}
    return params, grads, {"step": 2, **moments, "exp_avg_sq": {name: 0.01 * g * g for name, g in grads.items()}}


# What is wrong, the argument at fault, the error, and the call's arguments and keywords.
Wrong = tuple[str, str, type[Exception], tuple[Any, Any, Any], dict[str, Any]]


def _wrong_keywords() -> Iterator[Wrong]:
    keywords: list[tuple[str, Any, type[Exception]]] = [
        *(("lr", x, ValueError) for x in (-1e-3, math.nan, math.inf)),
        *(("epsilon", x, ValueError) for x in (0.0, -1e-8, 1e-320, math.nan)),
        *(("weight_decay", x, ValueError) for x in (-0.1, math.inf)),
        *(("betas", x, ValueError) for x in ((1.0, 0.999), (0.9, 1.0), (-0.1, 0.9), (0.9, math.nan))),
        *(("betas", x, TypeError) for x in (0.9, (0.9,), (0.9, 0.99, 0.999), ("0.9", 0.999), None)),
        *((name, x, TypeError) for name in ("lr", "epsilon", "weight_decay") for x in ("1", None, 1j)),
    ]
    for name, value, error in keywords:
        yield f"{name} = {value!r}", name, error, _example(), {name: value}


def _wrong_entries() -> Iterator[Wrong]:
    """One array of params, of grads or of a moment is not what it should be, is missing, or is one too many."""
    entries: list[tuple[str, Any, type[Exception]]] = [
        ("of another shape", np.ones(3), ValueError),
        ("of another rank", np.ones((2, 1)), ValueError),
        ("of float32", np.ones(2, np.float32), TypeError),
        ("of float16", np.ones(2, np.float16), TypeError),
        ("of integers", np.ones(2, np.int64), TypeError),
        ("of complex numbers", np.ones(2, complex), TypeError),
        ("of the other byte order", np.ones(2, np.dtype(float).newbyteorder()), TypeError),
        ("as a list", [1.0, 2.0], TypeError),
        ("None", None, TypeError),
    ]

    def arrays(arguments: tuple[Any, Any, Any]) -> dict[str, dict[str, Any]]:
        params, grads, state = arguments
        return {"params": params, "grads": grads, **state}

    for where in ("params", "grads", "exp_avg", "exp_avg_sq"):
        for what, value, error in entries:
            arguments = _example()
            arrays(arguments)[where]["b"] = value
            yield f"{where} {what}", "(params|grads|state)", error, arguments, {}
    for where, name in (("grads", "grads"), ("exp_avg", "state"), ("exp_avg_sq", "state")):
        missing, added, none = _example(), _example(), _example()
        del arrays(missing)[where]["W"]
        yield f"{where} without W", name, ValueError, missing, {}
        arrays(added)[where]["c"] = np.ones(3)
        yield f"{where} with c", name, ValueError, added, {}
        arrays(none)[where].clear()
        yield f"nothing in {where}", name, ValueError, none, {}


def _wrong_gradients() -> Iterator[Wrong]:
    for x in (math.nan, math.inf, -math.inf, 1e200):
        arguments = _example()
        arguments[1]["b"][1] = x  # the last element of the last tensor
        yield f"a gradient of {x}", "grads", ValueError, arguments, {}


def _wrong_containers() -> Iterator[Wrong]:
    params, grads, state = _example()
    yield "params as a list", "params", TypeError, ([np.ones(2)], grads, {}), {}
    yield "grads as a list", "grads", TypeError, (params, [np.ones(2)], {}), {}
    yield "state as a list", "state", TypeError, (params, grads, []), {}
    yield "no parameters", "params", ValueError, ({}, {}, {}), {}
    mixed: dict[str, Any] = {"a": np.ones(2), "b": np.ones(2, np.float32)}
    yield "params of two dtypes", "params", TypeError, (mixed, {name: 2 * p for name, p in mixed.items()}, {}), {}
    swapped = np.ones(2, np.dtype(float).newbyteorder())
    yield "the other byte order throughout", "params", TypeError, ({"a": swapped}, {"a": swapped.copy()}, {}), {}
    yield "a number for a name", "params", TypeError, ({1: np.ones(2)}, {1: np.ones(2)}, {}), {}
    for key, value, error in (
        ("step", 2.0, TypeError),
        ("step", True, TypeError),
        ("step", 0, ValueError),
        ("t", 1, ValueError),
    ):
        yield f"{key} = {value!r} in the state", "state", error, (*_example()[:2], state | {key: value}), {}
    yield "state without step", "state", ValueError, (*_example()[:2], {"exp_avg": {}, "exp_avg_sq": {}}), {}


def _wrong_memory() -> Iterator[Wrong]:
    W = np.ones((4, 2))
    two = {"a": np.full((2, 2), 0.5), "b": np.full((2, 2), 0.25)}
    yield "one array under two names", "params", ValueError, ({"a": W[:2], "b": W[:2]}, two, {}), {}
    yield "an array and its transpose", "params", ValueError, ({"a": W[:2], "b": W[:2].T}, two, {}), {}
    yield "arrays with a row in common", "params", ValueError, ({"a": W[:2], "b": W[1:3]}, two, {}), {}
    yield "a gradient that is the parameter", "grads", ValueError, ({"a": W}, {"a": W}, {}), {}
    moments = {"step": 1, "exp_avg": two, "exp_avg_sq": two}
    yield "one array for both moments", "state", ValueError, ({"a": W[:2], "b": W[2:]}, dict(two), moments), {}
    frozen = np.ones((2, 2))
    frozen.setflags(write=False)
    yield "a read-only parameter", "params", ValueError, ({"a": np.ones((2, 2)), "b": frozen}, two, {}), {}


def refuses_bad_input_and_then_changes_nothing(adamw_step: Any) -> str:
    wrong_calls = (_wrong_keywords, _wrong_entries, _wrong_gradients, _wrong_containers, _wrong_memory)
    for what, argument, error, arguments, keywords in chain.from_iterable(calls() for calls in wrong_calls):
        before = _to_the_last_bit(arguments)
        wrong = _refused(what, argument, error, partial(adamw_step, *arguments, **keywords))
        if wrong:
            return wrong
        if _to_the_last_bit(arguments) != before:
            return f"{what}: refused, but something has changed"
    return ""


def _to_the_last_bit(arguments: Any) -> str:
    with np.printoptions(floatmode="unique"):
        return repr(arguments)
