"""An answer that the table does not know: compared with the source's solution on inputs that the source draws."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.digits import side_by_side
from equivalence_tests.dojo.by_op import READABLE, described, readable
from equivalence_tests.dojo.measured import (
    budgets,
    in_extended,
    is_floating,
    leaves,
    namespace_of,
)
from equivalence_tests.dojo.sources import Source
from equivalence_tests.dojo.verdict import Example, Verdict

DRAWS = 24
CLOSE = 2.0**12  # units of the largest entry: two wrong answers that are one


@dataclass(frozen=True)
class Call:
    """One call: what is given, what is right, how far from it a right answer may be."""

    keywords: dict[str, Any]
    truth: Any
    budget: dict[str, Array]

    def size(self) -> int:
        return sum(np.size(value) for _, value in leaves(self.keywords, "") if isinstance(value, np.ndarray))


def calls_of(source: Source, function: str) -> list[Call]:
    """The calls that an answer is put to, the same every time; those that are too ill-conditioned to tell are left out.

    ValueError if none is left.
    """
    return _calls(source.check, source.solution, function)


@cache
def _calls(check: str, solution_code: str, function: str) -> list[Call]:
    draw = namespace_of(check)["draw"]
    solution = namespace_of(solution_code)[function]
    found = []
    with np.errstate(all="ignore"):
        for index in range(DRAWS):
            keywords = draw(np.random.default_rng([3, index]))
            truth = _truth(solution, keywords)
            call = Call(keywords, truth, budgets(solution_code, function, keywords, truth))
            if not _ill(call):
                found.append(call)
    if not found:
        raise ValueError("every call that is drawn is ill-conditioned")
    return found


def _truth(solution: Callable[..., Any], keywords: dict[str, Any]) -> Any:
    """In extended precision; in float64 where a building block of the solution refuses any other, and then the budget,
    eight times what rounding does to a run, holds for the truth as well as for the answer."""
    try:
        return solution(**in_extended(copy.deepcopy(keywords)))
    except TypeError:
        return solution(**copy.deepcopy(keywords))


def _ill(call: Call) -> bool:
    """A budget above sqrt(u) of its tensor's scale speaks of no agreement."""
    for place, value in leaves(call.truth, ""):
        if is_floating(value):
            array = np.asarray(value, np.float64)
            scale = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
            loose = float(np.max(call.budget[place], initial=0.0))
            tiny = PRECISIONS["float64"].tiny
            if loose > 2 * tiny and loose > math.sqrt(PRECISIONS["float64"].unit) * scale:
                return True
    return False


def judged(function: Callable[..., Any], name: str, source: Source) -> Verdict:
    """Passed, or the smallest of the wrong calls, named by a mistake of the source where one answers alike."""
    calls = calls_of(source, name)
    wrong: list[tuple[Call, Verdict]] = []
    answers: list[Any] = []
    with np.errstate(all="ignore"):
        for call in calls:
            keywords = copy.deepcopy(call.keywords)
            answers.append(function(**keywords))
            changed = next((key for key, value in keywords.items() if not _equal(value, call.keywords[key])), None)
            if changed is not None:
                return Verdict("changes_arguments", {"name": name, "argument": changed})
            verdict = difference(name, answers[-1], call)
            if verdict is not None:
                wrong.append((call, verdict))
        if not wrong:
            return Verdict("passed", {"cases": len(calls)}, cases=len(calls))
        call, verdict = min(wrong, key=lambda each: each[0].size())
        sentence = next((m.sentence for m in source.mistakes if _alike(m.code, name, calls, answers)), {})
    return Verdict(verdict.code, verdict.numbers, sentence=sentence, example=verdict.example, cases=len(calls))


def difference(name: str, answer: Any, call: Call) -> Verdict | None:
    """The first place where an answer is not what it should be."""
    mine, theirs = leaves(answer, name), leaves(call.truth, name)
    if [place for place, _ in mine] != [place for place, _ in theirs]:
        return Verdict("returns", {"name": name, "got": described(answer), "expected": described(_plain(call.truth))})
    for (place, got), (_, right) in zip(mine, theirs, strict=True):
        if is_floating(right):
            number = is_floating(got) or isinstance(got, int | np.integer)
            if not number or np.shape(got) != np.shape(right):
                expected = described(_plain(right)) if np.ndim(right) else "float"
                return Verdict("returns", {"name": place, "got": described(got), "expected": expected})
            wrong = _apart(got, right, call.budget[place.removeprefix(name)])
            if wrong.any():
                return told(place, np.asarray(got, np.float64), np.asarray(right, np.float64), wrong, call)
        elif not _equal(got, right):
            numbers = {"place": place, "got": described(got), "expected": described(right)}
            return Verdict("differs", numbers, example=_example(place, got, right, None, call))
    return None


def _apart(got: Any, right: Any, budget: Array) -> Array:
    got, right = np.asarray(got, np.longdouble), np.asarray(right, np.longdouble)
    same = (got == right) | (np.isnan(got) & np.isnan(right))
    wrong: Array = ~(same | (np.abs(got - right) <= budget))
    return wrong


def told(place: str, got: Array, right: Array, wrong: Array, call: Call) -> Verdict:
    """The entry that is furthest off."""
    error = np.where(wrong, np.nan_to_num(np.abs(got - right), nan=np.inf), -1.0)
    at = np.unravel_index(int(error.argmax()), error.shape)
    index = f"[{', '.join(str(int(i)) for i in at)}]" if at else ""
    mine, theirs = side_by_side(float(got[at]), float(right[at]), digits=6)
    numbers = {"place": place + index, "got": mine, "expected": theirs}
    return Verdict("differs", numbers, example=_example(place, got, right, wrong, call))


def _example(place: str, got: Any, right: Any, wrong: Array | None, call: Call) -> Example:
    given = {name: shown for name, value in call.keywords.items() if (shown := readable(value)) is not None}
    marks = wrong.astype(int).tolist() if wrong is not None and wrong.size <= READABLE else None
    return Example(given, place, readable(got), readable(right), marks)


def _plain(value: Any) -> Any:
    """The truth without its extended precision, to be described."""
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    return float(value) if isinstance(value, np.floating) else value


def _equal(one: Any, other: Any) -> bool:
    """Equal to the last bit; an int, a bool and a string are compared as they are."""
    mine, theirs = leaves(one, ""), leaves(other, "")
    if [place for place, _ in mine] != [place for place, _ in theirs]:
        return False
    for (_, x), (_, y) in zip(mine, theirs, strict=True):
        if isinstance(x, np.ndarray | np.generic) or isinstance(y, np.ndarray | np.generic):
            a, b = np.asarray(x), np.asarray(y)
            if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
                return False
            if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
                return False
        elif callable(x) and callable(y):
            continue
        elif type(x) is not type(y) or x != y:
            return False
    return True


def _alike(code: str, name: str, calls: list[Call], answers: list[Any]) -> bool:
    """Whether a foreseen mistake answers all calls as the learner did."""
    function = namespace_of(code)[name]
    return all(close(answered(function, call), answer) for call, answer in zip(calls, answers, strict=True))


def answered(function: Callable[..., Any], call: Call) -> Any:
    """What a function answers, or the exception that it raises, by its name."""
    try:
        return function(**copy.deepcopy(call.keywords))
    except Exception as error:
        return type(error).__name__


def close(one: Any, other: Any, unit: float = 0.0) -> bool:
    """Whether two answers are one, but for rounding: floating numbers to a few units of their array's largest entry.

    `unit` is the roundoff of what they were computed from, where that is coarser than their own.
    """
    mine, theirs = leaves(one, ""), leaves(other, "")
    if [place for place, _ in mine] != [place for place, _ in theirs]:
        return False
    for (_, x), (_, y) in zip(mine, theirs, strict=True):
        if is_floating(x) and is_floating(y) and np.shape(x) == np.shape(y):
            if not near(x, y, unit).all():
                return False
        elif not _equal(x, y):
            return False
    return True


def near(x: Any, y: Any, unit: float = 0.0) -> Array:
    """Where two floating arrays are one, but for rounding."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    equal: Array = np.asarray(a == b)
    if equal.all():  # as most are, and isclose is slow
        return equal
    own = max(float(np.finfo(getattr(each, "dtype", np.float64)).eps) / 2.0 for each in (x, y))
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    found: Array = np.isclose(a, b, rtol=0.0, atol=max(own, unit) * CLOSE * scale, equal_nan=True)
    return found
