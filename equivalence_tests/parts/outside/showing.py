"""The first leaf in which an answer is wrong, as a finding: what was called, where in the answer, both values."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.findings import Finding
from equivalence_tests.parts.outside.answers import Answer, first_apart
from equivalence_tests.parts.outside.words import short, told_apart

WHOLE = 8  # elements of an array that is shown as it is


def differs(call: str, mine: Answer, exact: Answer, cases: int, of: int) -> Finding:
    if mine.get("raises"):
        return Finding("part_differs", numbers=_numbers(call, "", "an exception", _value(exact), cases, of))
    name = first_apart(
        {n: x for n, x in mine.items() if n.startswith("answer")},
        {n: x for n, x in exact.items() if n.startswith("answer")},
    )
    place, got, right = _told(mine.get(name), exact.get(name))
    return Finding("part_differs", numbers=_numbers(call, name.removeprefix("answer") + place, got, right, cases, of))


def _numbers(call: str, place: str, got: str, right: str, cases: int, of: int) -> dict[str, Any]:
    return {"call": call, "where": place, "got": got, "right": right, "cases": cases, "of": of}


def _value(answer: Answer) -> str:
    return short(next((x for name, x in answer.items() if name.startswith("answer") and " " not in name), None))


def _told(got: Any, right: Any) -> tuple[str, str, str]:
    """Place, what came, what was expected; of a large array the element that is farthest off."""
    if isinstance(got, float | np.floating) and isinstance(right, float | np.floating):
        return "", *told_apart(float(got), float(right))
    if isinstance(got, np.ndarray) and isinstance(right, np.ndarray) and got.shape == right.shape and got.ndim:
        if got.size > WHOLE or (got.dtype.kind == "f" and _close(got, right)):
            where = _farthest(got, right)
            a, b = got[where], right[where]
            place = str([int(i) for i in where])
            return (place, *told_apart(float(a), float(b))) if got.dtype.kind == "f" else (place, str(a), str(b))
        return "", _listed(got), _listed(right)
    return "", short(got), short(right)


def _listed(x: Any) -> str:
    """A small array with as many digits as it takes."""
    if x.dtype.kind != "f":
        return short(x)
    return "[" + ", ".join(f"{value:.6g}" for value in x.reshape(-1)) + "]"


def _close(got: Any, right: Any) -> bool:
    """Whether six digits would not show the difference."""
    return _listed(got) == _listed(right)


def _farthest(got: Any, right: Any) -> tuple[Any, ...]:
    if got.dtype.kind not in "fc":
        return tuple(np.argwhere(got != right)[0])
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(float) - right.astype(float))
    error = np.where(got == right, 0.0, np.where(np.isnan(error), np.inf, error))
    return tuple(np.unravel_index(int(np.argmax(error)), error.shape))
