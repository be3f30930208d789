"""Answers of parts as flat tables of numbers, words and arrays, and how far two of them are apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

Answer = dict[str, Any]
ROOM = 256.0  # units of roundoff of the largest number of an array: two orders of operations of one formula
CLEAR = 16.0  # times that room: two formulas, not two roundings


def flat(value: Any, name: str = "") -> Answer:
    """Every leaf of a nest by its place: arrays, numbers, strings and None; of any other object its type."""
    return dict(_leaves(value, name))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield f"{name} keys", [str(key) for key in value]
        for key, each in value.items():
            yield from _leaves(each, f"{name}[{key!r}]" if name else str(key))
    elif isinstance(value, tuple | list) and any(isinstance(each, tuple | list | dict | np.ndarray) for each in value):
        yield f"{name} length", len(value)
        for i, each in enumerate(value):
            yield from _leaves(each, f"{name}[{i}]")
    elif isinstance(value, tuple | list):
        yield name, list(value)
    elif isinstance(value, np.ndarray):
        yield name, value.copy()
    elif isinstance(value, np.random.Generator):
        yield name, repr(value.bit_generator.state)
    elif value is None or isinstance(value, str | bytes | bool | int | float | np.number | np.bool_):
        yield name, value
    elif hasattr(value, "__dict__"):
        yield from _leaves(vars(value), name or type(value).__name__)
    else:
        yield name, type(value).__name__


def apart(one: Any, other: Any) -> float:
    """How far two leaves are apart: 0 if they are equal, at most 1 within the rounding of one formula, inf if they are
    not of one kind."""
    if isinstance(one, list) and isinstance(other, list) and one and other and _numbers(one) and _numbers(other):
        one, other = np.asarray(one), np.asarray(other)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return _arrays_apart(one, other)
    if (isinstance(one, float) and isinstance(other, float | int)) or (
        isinstance(other, float) and isinstance(one, int)
    ):
        return _arrays_apart(np.asarray(float(one)), np.asarray(float(other)))
    return 0.0 if type(one) is type(other) and one == other else math.inf


def _numbers(values: list[Any]) -> bool:
    return all(isinstance(each, int | float | np.number) and not isinstance(each, bool) for each in values)


def _arrays_apart(one: Any, other: Any) -> float:
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape != other.shape:
        return math.inf
    if one.dtype.kind not in "fc" or other.dtype.kind not in "fc":
        return 0.0 if one.dtype == other.dtype and np.array_equal(one, other) else math.inf
    unit = max(float(np.finfo(dtype).eps) / 2 for dtype in (one.dtype, other.dtype))
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    if same.all():
        return 0.0
    a, b = one[~same].astype(np.longdouble), other[~same].astype(np.longdouble)
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return math.inf
    finite = one[np.isfinite(one)].astype(np.longdouble), other[np.isfinite(other)].astype(np.longdouble)
    size = max(float(np.abs(each).max(initial=0.0)) for each in finite)
    return float(np.abs(a - b).max()) / (ROOM * unit * size + np.finfo(np.float64).tiny)


def answers_apart(one: Answer, other: Answer, only: frozenset[str] | None = None) -> float:
    """The largest distance of two answers, over the leaves in `only`, or over all."""
    worst = 0.0
    for name in only if only is not None else one.keys() | other.keys():
        if name not in one or name not in other:
            return math.inf
        worst = max(worst, apart(one[name], other[name]))
        if math.isinf(worst):
            return worst
    return worst


def first_apart(one: Answer, other: Answer) -> str:
    """The first leaf in which two answers differ by more than rounding."""
    for name in (*other, *(name for name in one if name not in other)):
        if name not in one or name not in other or apart(one[name], other[name]) > 1.0:
            return name
    return ""
