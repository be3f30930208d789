"""Where the first NaN, the first infinity, another dtype or a loss of digits arises in the user's file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import Answer, NotOffered
from equivalence_tests.own_line.places import Place
from equivalence_tests.own_line.recording import Key, TooMuch, Trail, as_array, is_tensor, like
from equivalence_tests.own_line.runs import Runs

HIGHER = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "float64": "longdouble"}


@dataclass(frozen=True)
class Arising:
    """A place, and what arises there: "nan", "inf", a dtype, or "digits"; `then` is the line of the first NaN behind it."""

    key: Key
    what: str
    then: int = 0


def not_finite(runs: Runs, places: list[Place], trails: dict[Key, Trail], answer: Answer) -> Arising | None:
    """The first NaN or infinity without which every tensor would be finite where it has to be."""
    events = sorted((order, key, i) for key, trail in trails.items() for i, order in enumerate(trail.orders))
    lost = _lost(runs, answer)
    tried: set[Key] = set()
    for kinds in ((np.isnan, np.isposinf), (np.isneginf,)):
        for _, key, i in events:
            value = trails[key].values[i]
            if key in tried or value.dtype.kind != "f" or not any(kind(value).any() for kind in kinds):
                continue
            tried.add(key)
            after = runs.answer({key: _finite})
            if after is not None and not lost & _lost(runs, after):
                what = "nan" if np.isnan(value).any() else "inf"
                return Arising(key, what, _first_nan(places, trails, key) if what == "inf" else 0)
    return None


def _first_nan(places: list[Place], trails: dict[Key, Trail], behind: Key) -> int:
    """The line of the first NaN behind an infinity; 0 where there is none."""
    found = [
        (order, places[key[0]].line)
        for key, trail in trails.items()
        for value, order in zip(trail.values, trail.orders, strict=True)
        if order > trails[behind].order and np.isnan(value).any()
    ]
    return min(found)[1] if found else 0


def _finite(value: Any, _: int) -> Any:
    numbers = as_array(value)
    if numbers is None:
        return value
    return like(value, np.where(np.isfinite(numbers), numbers, np.isposinf(numbers)))  # 1 for an infinity, 0 for NaN


def _lost(runs: Runs, answer: Answer) -> set[str]:
    """The tensors that hold a NaN or an infinity where a number belongs."""
    found = set()
    for name in runs.judged:
        exact = runs.exact[name].value
        if name in answer and answer[name].value.shape == exact.shape:
            promised = np.isfinite(exact) & np.isfinite(runs.exact[name].budget())
            if not np.isfinite(answer[name].value[promised]).all():
                found.add(name)
    return found


def is_not_finite(runs: Runs, answer: Answer) -> bool:
    return bool(_lost(runs, answer))


def other_dtype(runs: Runs, trails: dict[Key, Trail], answer: Answer) -> Arising | None:
    """The first value of another dtype without which every tensor would have that of the operands."""
    if _as_asked(runs, answer):
        return None
    for key, trail in sorted(trails.items(), key=lambda each: each[1].order):
        if trail.dtypes and trail.dtypes[0] != runs.dtype and trail.dtypes[0].startswith(("float", "bfloat", "int")):
            after = runs.answer({key: lambda value, _: _cast(value, runs.dtype)})
            if after is not None and _as_asked(runs, after):
                return Arising(key, trail.dtypes[0])
    return None


def _as_asked(runs: Runs, answer: Answer) -> bool:
    return all(name in answer and answer[name].dtype == runs.dtype for name in runs.judged)


def _cast(value: Any, dtype: str) -> Any:
    if is_tensor(value):
        import torch

        return value.to(getattr(torch, dtype))
    if isinstance(value, np.generic):
        return float(value)
    return value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind in "fi" else value


def lost_digits(runs: Runs, trails: dict[Key, Trail]) -> Arising | None:
    """The first value whose digits, as more precise arithmetic has them, make every tensor right. None where the code is
    not right in more precise arithmetic either."""
    higher = HIGHER[runs.dtype]
    try:
        answer, precise = runs.record(higher)
    except (NotOffered, TooMuch):
        return None
    if answer is None or any(name not in answer for name in runs.judged) or not _right_but_for_dtype(runs, answer):
        return None
    for key, trail in sorted(trails.items(), key=lambda each: each[1].order):
        other = precise.get(key)
        if other is None or [v.shape for v in other.values] != [v.shape for v in trail.values] or trail.broken:
            continue
        values = other.values
        if values[0].dtype.kind == "f" and runs.right(runs.answer({key: partial(_in_turn, values)})):
            return Arising(key, "digits")
    return None


def _in_turn(values: list[Array], value: Any, turn: int) -> Any:
    return like(value, values[turn])


def _right_but_for_dtype(runs: Runs, answer: Answer) -> bool:
    with np.errstate(all="ignore"):
        for name in runs.judged:
            exact, allowed = runs.exact[name].value, runs.exact[name].budget()
            got = answer[name].value
            if got.shape != exact.shape:
                return False
            promised = np.isfinite(exact) & np.isfinite(allowed)
            if not bool((np.abs(got - np.where(promised, exact, 0.0)) <= allowed)[promised].all()):
                return False
    return True
