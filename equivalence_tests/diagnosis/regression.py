"""The backward is linear in each of its lines: one evaluation with a line doubled tells which factor on it would answer as
the candidate does, and two lines together are a regression with two coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis
from equivalence_tests.diagnosis.edits import Key
from equivalence_tests.diagnosis.match import Match, confirmed
from equivalence_tests.diagnosis.plain import Plain
from equivalence_tests.diagnosis.sizes import all_names_of, factors, inverse, names_of, value_of
from equivalence_tests.ops import Op

NAMES = 6  # of one factor that are tried on all cases
FITTED = 4  # cases on which a factor is fitted, before it is tried on all
SAME = 1e-6  # a factor so near to 1 is none
LOOSE = 1e-3  # a residual of a regression that is worth an evaluation of both edits together


@dataclass(frozen=True)
class Step:
    """What doubling one thing in the backward adds to all gradients, and what the candidate's differ from the right by."""

    step: Array
    apart: Array
    budget: Array
    names: tuple[str, ...]  # the tensors that it moves
    wrong: bool  # only tensors that are wrong


def keys_of(trace: Editing, forward: bool) -> list[Key]:
    slots = (slot for slot in trace.slots if slot.backward != forward and isinstance(slot.value, Plain))
    return list(dict.fromkeys((slot.of, slot.slot) for slot in slots))


def straight(op: Op, seen: Seen, trace: Editing, forward: bool) -> list[Key]:
    """Those in which the answers are linear: all of the backward's, and what the forward does not curve afterwards."""
    keys = keys_of(trace, forward)
    return [key for key in keys if _is_straight(op, seen, key)] if forward else keys


def _is_straight(op: Op, seen: Seen, key: Key) -> bool:
    answers = [_times_answer(op, seen, key, times, True) for times in (1.0, 2.0, 3.0)]
    if any(answer is None for answer in answers):
        return False
    first, second, third = (answer or {} for answer in answers)
    return all(
        np.allclose(third[name] - second[name], second[name] - first[name], rtol=1e-7, atol=1e-12, equal_nan=True)
        for name in first
    )


def _times_answer(op: Op, seen: Seen, key: Key, times: float, forward: bool) -> dict[str, Array] | None:
    edit = Edit(*key, lambda x, _: x * times)
    return Hypothesis("", "", edits=(edit,), forward=forward).answer(op, seen.case, seen.observation.dtype)


def steps(op: Op, seen: Seen, keys: Sequence[Key], names: Sequence[str], forward: bool) -> dict[Key, Step]:
    dtype = seen.observation.dtype
    once = Hypothesis("", "", forward=forward).answer(op, seen.case, dtype)
    found = {}
    for key in keys:
        twice = _times_answer(op, seen, key, 2.0, forward)
        if once is not None and twice is not None:
            found[key] = _step(seen, once, twice, names)
    return found


def _step(seen: Seen, once: dict[str, Array], twice: dict[str, Array], names: Sequence[str]) -> Step:
    parts: list[tuple[Array, Array, Array]] = []
    moved, wrong = [], True
    for name in names:
        tensor = seen.tensors.get(name)
        if tensor is None or name not in once or tensor.got is None or tensor.got.shape != once[name].shape:
            continue
        step, apart = twice[name] - once[name], tensor.got - tensor.exact
        counted = np.isfinite(step) & np.isfinite(apart) & np.isfinite(tensor.budget)
        weight = 1.0 / max(float(np.abs(tensor.exact[counted]).max(initial=0.0)), 1e-30)
        parts.append(tuple(weight * x[counted].ravel() for x in (step, apart, tensor.budget)))
        if bool((np.abs(step[counted]) > tensor.budget[counted]).any()):
            moved.append(name)
            wrong &= tensor.wrong
        else:
            parts[-1] = (parts[-1][0] * 0.0, parts[-1][1], parts[-1][2])
    joined = [np.concatenate(part) if parts else np.zeros(0) for part in zip(*parts, strict=True)] or [np.zeros(0)] * 3
    return Step(joined[0], joined[1], joined[2], tuple(moved), wrong)


Measured = Sequence[tuple[Seen, dict[Key, Step]]]


def measured(
    op: Op, seen: Sequence[Seen], filters: Sequence[Seen], keys: Sequence[Key], names: Sequence[str], forward: bool
) -> Measured:
    """The steps on a few wrong cases, the filters first."""
    soft = [each for each in seen if each.wrong(names) and not each.case.hard and each not in filters]
    fitted = [*filters, *soft][: FITTED // 2 if op.model else FITTED]
    return [(each, steps(op, each, keys, names, forward)) for each in fitted]


def linear(op: Op, seen: Sequence[Seen], measured: Measured, names: Sequence[str], forward: bool) -> list[Match]:
    """Every line in which the answers are linear, and what it uses, with the factor that fits."""
    matches = []
    for order, key in enumerate(measured[0][1]):
        told = [
            (factors(op, each.case), *_fit(step[key])) for each, step in measured if key in step and step[key].names
        ]
        if not told or any(np.isnan(factor) for _, factor, _ in told):
            continue
        for name in all_names_of(told)[:NAMES]:  # sizes may coincide in the few cases, and differ in the others
            if abs(name[1] - 1.0) < SAME:
                continue
            hypothesis = replace(_hypothesis(op, (key,), (name,)), order=order, forward=forward)
            if name[0] == "2" and _is_a_term(op, key, measured[0][0], forward):
                hypothesis = replace(hypothesis, code="term_twice")
            match = confirmed(hypothesis, op, seen, names)
            if match:
                matches.append(match)
                break
    return matches


def _is_a_term(op: Op, key: Key, seen: Seen, forward: bool) -> bool:
    """Whether something of what it moves remains without it."""
    rest, whole = (_times_answer(op, seen, key, times, forward) for times in (0.0, 1.0))
    if rest is None or whole is None:
        return False
    return any(rest[name].any() and not np.allclose(rest[name], whole[name], equal_nan=True) for name in rest)


def _fit(step: Step) -> tuple[float, float]:
    """The factor on the line, by least squares, and how far off rounding may have moved it; NaN if it does not fit."""
    moved = step.step != 0.0
    x, y, budget = step.step[moved], step.apart[moved], step.budget[moved]
    square = float(x @ x)
    if not square:
        return np.nan, 0.0
    coefficient = float(x @ y) / square
    off = np.abs(y - coefficient * x)
    allowed = 4.0 * budget * max(1.0, abs(coefficient)) + 1e-6 * float(np.abs(y).max(initial=0.0))
    if bool((off > allowed).mean() > 0.1) and float(off.max()) > LOOSE * float(np.abs(y).max(initial=0.0)):
        return np.nan, 0.0
    return 1.0 + coefficient, 4.0 * float(budget @ np.abs(x)) / square + 1e-6 * abs(coefficient)


def pairs(op: Op, seen: Sequence[Seen], measured: Measured, names: Sequence[str]) -> list[Match]:
    """Two lines with a factor each, where no single edit explains everything: the regression on two terms."""
    first = measured[0][1]
    usable = [key for key, step in first.items() if step.names and step.wrong]
    matches = []
    for one, other in combinations(usable, 2):
        if not _worth(first[one], first[other]):
            continue
        named = _named_pair(op, one, other, measured)
        match = confirmed(_hypothesis(op, (one, other), named), op, seen, names) if named else None
        matches += [match] if match else []
    return matches


def _worth(one: Step, other: Step) -> bool:
    solved = _solve(one, other)
    return solved is not None and solved[2] < LOOSE


def _solve(one: Step, other: Step) -> tuple[float, float, float] | None:
    """Two coefficients and the residual, relative to what is to be explained; None where the two are one direction."""
    terms = np.stack([one.step, other.step], 1)
    gram = terms.T @ terms
    if gram[0, 0] * gram[1, 1] <= 0 or np.linalg.det(gram) < 1e-9 * gram[0, 0] * gram[1, 1]:
        return None
    found = np.linalg.solve(gram, terms.T @ one.apart)
    size = float(np.linalg.norm(one.apart))
    residual = float(np.linalg.norm(one.apart - terms @ found)) / max(size, 1e-300)
    return float(found[0]), float(found[1]), residual


def _named_pair(op: Op, one: Key, other: Key, measured: Measured) -> tuple[tuple[str, float], tuple[str, float]] | None:
    told: tuple[list[Any], list[Any]] = ([], [])
    for each, step in measured:
        if one not in step or other not in step:
            continue
        solved = _solve(step[one], step[other])
        if solved is None:
            continue
        if solved[2] > LOOSE:
            return None
        known = factors(op, each.case, simple=True)
        for side, coefficient in enumerate(solved[:2]):
            told[side].append((known, 1.0 + coefficient, 10 * LOOSE * max(1.0, abs(coefficient))))
    if not told[0]:
        return None
    names = names_of(told[0]), names_of(told[1])
    if names[0] is None or names[1] is None or any(abs(name[1] - 1.0) < SAME for name in names if name):
        return None
    return names[0], names[1]


def _hypothesis(op: Op, keys: Sequence[Key], names: Sequence[tuple[str, float]]) -> Hypothesis:
    edits = tuple(Edit(of, slot, _times(op, *name)) for (of, slot), name in zip(keys, names, strict=True))
    of, slot = keys[0]
    name, factor = names[0]
    what = slot or of
    cost = 1.5 if of.endswith(", remembered") else 1.0
    if "- 1" in name:
        cost += 1.5  # a reduction that divides by another number says it better
    if len(keys) > 1:
        cost += 3.0
        if all(each[0] == "0" for each in names):
            what = " and ".join(key[1] or key[0] for key in keys)
    if name == "0":
        return Hypothesis("missing_term", of, {"term": what}, edits, cost=cost)
    if name == "-1":
        return Hypothesis("wrong_sign", of, {"term": what}, edits, cost=cost)
    numbers = {"factor": factor, "named": name, "term": what}
    if abs(factor) > 1.0 and not name[0].isdigit() and len(keys) == 1 and not slot:
        return Hypothesis("missing_factor", of, {**numbers, "missing": inverse(name)}, edits, cost=cost)
    if name == "1/scale" and len(keys) == 1 and not slot:
        return Hypothesis("missing_factor", of, {**numbers, "missing": "scale"}, edits, cost=cost)
    return Hypothesis("wrong_factor", of, numbers, edits, cost=cost)


def _times(op: Op, name: str, factor: float) -> Any:
    def change(value: Any, stage: Editing) -> Any:
        return value * value_of(name, factor, factors(op, stage.case))

    return change
