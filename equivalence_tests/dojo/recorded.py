"""Every call that the laws of a part make of a function: what it was given, what it answered, what it left behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.checks import attempt
from equivalence_tests.dojo.by_check import close
from equivalence_tests.dojo.measured import is_floating, leaves

ANSWER = "return"  # no argument can have the name
Law = Callable[[Any], str]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Heard:
    """One call: the arguments by name as they came in; after it the answer, or the exception's name, and the arguments."""

    given: dict[str, Any]
    after: dict[str, Any]

    @property
    def unit(self) -> float:
        """The roundoff of the coarsest dtype that came in: what is computed of float32 is no better for being float64."""
        dtypes = [
            each.dtype for _, each in leaves(self.given, "") if isinstance(each, np.ndarray) and is_floating(each)
        ]
        return max((float(np.finfo(dtype).eps) / 2.0 for dtype in dtypes), default=0.0)

    def answered_as(self, other: Heard) -> bool:
        return same(self.after, other.after, self.unit)


def same(one: Any, other: Any, unit: float) -> bool:
    """Whether two nests are one, but for rounding, to the types of what they hold."""
    types = ([kind_of(value) for _, value in leaves(each, "")] for each in (one, other))
    return close(one, other, unit) and next(types) == next(types)


def copied(value: Any) -> Any:
    """A nest with arrays of its own."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def kind_of(value: Any) -> str:
    """The dtype of an array, the type of anything else."""
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__


@dataclass(frozen=True)
class Asked:
    """One law, put to a function: whether it is broken, and the calls that it made."""

    broken: bool
    calls: list[Heard] = field(default_factory=list)


class _Otherwise(Exception):
    """A call was answered otherwise: no more needs to be asked."""


def asked(law: Law, function: Function, signature: inspect.Signature) -> Asked:
    """What becomes of a law. The arguments have the names that they have in `signature`."""
    calls: list[Heard] = []
    return Asked(_broken(law, function, signature, calls.append), calls)


def answers_alike(law: Law, function: Function, signature: inspect.Signature, mine: Asked) -> bool:
    """Whether a function answers all calls of a law as another did, to a few units of the largest entry.

    A law stops at what is wrong: where rounding decides when, the calls of the shorter are compared.
    """
    count, alike = 0, True

    def compared(call: Heard) -> None:
        nonlocal count, alike
        alike = alike and (count >= len(mine.calls) or mine.calls[count].answered_as(call))
        count += 1
        if not alike:
            raise _Otherwise

    broken = _broken(law, function, signature, compared)
    return alike and broken == mine.broken and bool(count) == bool(mine.calls)


def _broken(law: Law, function: Function, signature: inspect.Signature, hear: Callable[[Heard], None]) -> bool:
    def recording(*arguments: Any, **keywords: Any) -> Any:
        bound = signature.bind(*arguments, **keywords).arguments
        given = copied(bound)
        try:
            answer = function(*arguments, **keywords)
        except Exception as error:
            hear(Heard(given, {ANSWER: type(error).__name__}))
            raise
        hear(Heard(given, copied({ANSWER: answer, **bound})))
        return answer

    return bool(attempt(partial(law, recording)))
