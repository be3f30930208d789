"""An unknown factor on what the forward curves afterwards: a constant of the formula, a line before a softmax or a tanh.

The answers are no line in the factor, so it is sought by Newton's steps on one case, and believed if it has one name, or is
one number, in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis
from equivalence_tests.diagnosis.edits import Key
from equivalence_tests.diagnosis.match import Match, confirmed
from equivalence_tests.diagnosis.plain import Plain
from equivalence_tests.diagnosis.sizes import factors, names_of
from equivalence_tests.ops import Op

STARTS = (1.3, 0.3, 3.0)
STEPS = 10
NEAR = 1e-9  # a step so small, relative to the factor, is the last


def fitted(
    op: Op, seen: Sequence[Seen], filters: Sequence[Seen], trace: Editing, straight: Sequence[Key], names: Sequence[str]
) -> list[Match]:
    """Every constant and line of the forward that is not straight, with the factor that fits."""
    keys = [
        (slot.of, slot.slot)
        for slot in trace.slots
        if not slot.backward and (isinstance(slot.value, Plain) or _is_a_number(slot.value))
    ]
    matches = []
    for order, key in enumerate(dict.fromkeys(keys)):
        if key in straight:
            continue
        told = []
        for each in filters[:2]:
            factor = _newton(op, each, key, names)
            if factor is None:
                break
            told.append((factors(op, each.case, simple=True), factor, 1e-4 * abs(factor)))
        name = names_of(told) if len(told) == len(filters[:2]) else None
        if name is None or abs(name[1] - 1.0) < NEAR:
            continue
        match = confirmed(_hypothesis(op, key, name, order), op, seen, names)
        matches += [match] if match else []
    return matches


def _is_a_number(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isfinite(value)) and value != 0.0


def _hypothesis(op: Op, key: Key, name: tuple[str, float], order: int) -> Hypothesis:
    named, factor = name

    def change(value: Any, stage: Editing) -> Any:
        return value * factors(op, stage.case, simple=True).get(named, factor)

    numbers = {"factor": factor, "named": named, "term": key[1] or key[0]}
    return Hypothesis("wrong_factor", key[0], numbers, (Edit(*key, change),), forward=True, cost=3.5, order=order)


def _newton(op: Op, seen: Seen, key: Key, names: Sequence[str]) -> float | None:
    """The factor that brings the outputs nearest to the candidate's, if they then agree."""
    for start in STARTS:
        factor = start
        for _ in range(STEPS):
            here, there = (_outputs(op, seen, key, f, names) for f in (factor, factor * (1 + 1e-6)))
            if here is None or there is None:
                break
            slope = (there - here) / (factor * 1e-6)
            square = float(slope @ slope)
            if not square or not np.isfinite(square):
                break
            step = float(slope @ here) / square
            factor -= step
            if abs(step) <= NEAR * abs(factor):
                return factor if _agrees(op, seen, key, factor, names) else None
    return None


def _answer(op: Op, seen: Seen, key: Key, factor: float) -> Any:
    edit = Edit(*key, lambda value, _: value * factor)
    return Hypothesis("", "", edits=(edit,), forward=True).answer(op, seen.case, seen.observation.dtype)


def _outputs(op: Op, seen: Seen, key: Key, factor: float, names: Sequence[str]) -> Any:
    """What the outputs with that factor differ from the candidate's by."""
    answer = _answer(op, seen, key, factor)
    parts = []
    for name in names:
        got = seen.tensors[name].got
        if answer is None or name not in answer or got is None or got.shape != answer[name].shape:
            return None
        apart = (answer[name] - got).ravel()
        parts.append(np.where(np.isfinite(apart), apart, 0.0))
    return np.concatenate(parts) if parts else None


def _agrees(op: Op, seen: Seen, key: Key, factor: float, names: Sequence[str]) -> bool:
    answer = _answer(op, seen, key, factor)
    return answer is not None and all(seen.is_as(name, answer[name]) for name in names if name in answer)
