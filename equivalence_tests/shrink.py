"""The smallest case on which an implementation still fails.

A case is what a list of choices makes of it: which sizes, which options, which layout. Whoever draws offers the simplest
choice first, so the list is made smaller, one choice at a time, as long as the case that it makes still fails. Then the
numbers are rounded, as far as that goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case, SeededDraws, is_floating

T = TypeVar("T")
Fails = Callable[[Case], bool]
MOST_TRIALS = 400
NUMBERS = 3  # sets of random numbers that each list of choices is tried with: a mistake may hide from some


class RecordedDraws(SeededDraws):
    """Seeded draws that remember each choice, as its index among the options."""

    def __init__(self, rng: np.random.Generator, fixed: dict[str, int] | None = None) -> None:
        super().__init__(rng, fixed)
        self.chosen: list[int] = []

    def choice(self, options: Sequence[T]) -> T:
        index = int(self.rng.integers(len(options)))  # as SeededDraws does: the same case
        self.chosen.append(index)
        return options[index]


class ReplayedDraws(SeededDraws):
    """The choices of a list; beyond its end, and where there are fewer options, the simplest."""

    def __init__(self, chosen: Sequence[int], rng: np.random.Generator, fixed: dict[str, int] | None = None) -> None:
        super().__init__(rng, fixed)
        self.chosen, self.used = chosen, 0

    def choice(self, options: Sequence[T]) -> T:
        index = self.chosen[self.used] if self.used < len(self.chosen) else 0
        self.used += 1
        return options[index if index < len(options) else 0]


def shrink(
    draw: Callable[[Any, bool], Case],
    chosen: Sequence[int],
    case: Case,
    fails: Fails,
    fixed: dict[str, int] | None = None,
) -> Case:
    """The smallest failing case found in MOST_TRIALS trials, `case` itself at the worst."""
    trials = 0

    def failing(choices: Sequence[int], hard: bool) -> Case | None:
        nonlocal trials
        for seed in range(NUMBERS):
            trials += 1
            found = draw(ReplayedDraws(choices, np.random.default_rng(seed), fixed), hard)
            if fails(found):
                return found
        return None

    best, hard = list(chosen), case.hard
    for easier in (False, True):
        start = None if easier and not hard else failing(best, easier)
        if start is not None:
            case, hard = start, easier
            break
    else:
        return rounded_numbers(case, fails)
    smaller = True
    while smaller and trials < MOST_TRIALS:
        smaller = False
        for at in range(len(best)):
            for value in sorted({0, best[at] // 2, best[at] - 1}):
                if not 0 <= value < best[at] or trials >= MOST_TRIALS:
                    continue
                found = failing([*best[:at], value, *best[at + 1 :]], hard)
                if found is not None:
                    case, best[at], smaller = found, value, True
                    break
    return rounded_numbers(case, fails)


def rounded_numbers(case: Case, fails: Fails) -> Case:
    """The same case with numbers of as few digits as still fail, one array at a time."""
    for name, array in [*case.operands.items(), *case.options.items(), *case.upstream.items()]:
        for digits in (0, 1, 2) if is_floating(array) else ():
            simpler = _with(case, name, _rounded(array, digits))
            if fails(simpler):
                case = simpler
                break
    return case


def _with(case: Case, name: str, array: Array) -> Case:
    groups = (case.operands, case.options, case.upstream)
    operands, options, upstream = (group | {name: array} if name in group else group for group in groups)
    return Case(operands, options, upstream, case.hard, case.layouts)


def _rounded(X: Array, digits: int) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.round(X, digits) + 0.0)
