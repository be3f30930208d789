"""Two independent mistakes at once: a hypothesis that comes near, and another that explains what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.based import based
from equivalence_tests.diagnosis.close import Answered, Seen
from equivalence_tests.diagnosis.editing import Hypothesis
from equivalence_tests.diagnosis.match import Match, confirmed
from equivalence_tests.ops import Op

OFTEN = 0.4  # of the wrong cases, in which the first one must do something
MOSTLY = 0.8  # of the cases that the first one leaves wrong
NEAREST = 2  # hypotheses beside which a second one is sought
READINGS = 60  # options misread, of which any two are tried together
NEAR = -0.4  # of log10 of what a hypothesis leaves of the error, the mean over the wrong tensors
LEAST = -4.0  # what is left is no more than rounding

Search = Callable[[Op, Sequence[Seen], bool], list[Match]]


def nearness(said: Answered, seen: Seen, names: Sequence[str]) -> float:
    """How much of the error a hypothesis leaves, as log10, in the mean over the wrong tensors: 0 is all of it."""
    told = [_left(said, seen, name) for name in names if seen.wrong((name,))]
    return float(np.mean(told)) if told and said is not None else 0.0


def _left(said: Mapping[str, Array] | None, seen: Seen, name: str) -> float:
    tensor = seen.tensors[name]
    if said is None or name not in said or tensor.got is None:
        return 0.0
    if not tensor.got.shape == said[name].shape == tensor.exact.shape:
        return 0.0
    counted = tensor.counted & np.isfinite(tensor.exact)
    if not counted.any() or not np.isfinite(said[name][counted] + tensor.got[counted]).all():
        return 0.0
    before = float(np.linalg.norm((tensor.got - tensor.exact)[counted]))
    after = float(np.linalg.norm((tensor.got - said[name])[counted]))
    if not before:
        return 0.0
    return float(np.clip(np.log10(max(after / before, 1e-300)), LEAST, 1.0))


def two(
    op: Op, seen: Sequence[Seen], forward: bool, near: Sequence[tuple[float, Hypothesis]], search: Search
) -> list[Match]:
    """Pairs that explain everything, found from the nearest hypotheses, or from two options that are misread."""
    tried: set[float] = set()  # two that leave the same are the same
    for closeness, first in sorted(near, key=lambda each: (round(each[0], 2), each[1].cost)):
        if closeness > NEAR or len(tried) == NEAREST:
            break
        if (same := round(closeness, 6)) in tried:
            continue
        tried.add(same)
        pair = _beside(op, seen, forward, first, search)
        if pair is not None:
            return [pair]
    return _misread(op, seen, [each for _, each in near if each.case]) if forward else []


def _misread(op: Op, seen: Sequence[Seen], readings: Sequence[Hypothesis]) -> list[Match]:
    """Two options read otherwise at once, neither of which comes near alone."""
    few = sorted(readings, key=lambda each: each.cost)[:READINGS]
    wrong = next((each for each in seen if each.wrong(op.outputs) and not each.case.hard), None)
    if wrong is None:
        return []
    for first in few:
        changed = based(op, [wrong], first)
        if changed is None or not changed[1][0].wrong(op.outputs):
            continue
        edited, (left,) = changed
        fit = [second for second in few if second.explains(edited, left, op.outputs, careful=False)]
        if fit:
            pair = _beside(op, seen, True, first, partial(_confirmed, fit))
            if pair is not None:
                return [pair]
    return []


def _confirmed(hypotheses: Sequence[Hypothesis], op: Op, seen: Sequence[Seen], forward: bool) -> list[Match]:
    found = (confirmed(each, op, seen, op.outputs) for each in hypotheses)
    return [match for match in found if match]


def _moved(left: Seen) -> bool:
    """Whether the first mistake does anything in a case that is wrong."""
    before = Seen(left.observation)
    return any(t.wrong and not before.leaves(name, left.tensors[name].exact) for name, t in before.tensors.items())


def _beside(op: Op, seen: Sequence[Seen], forward: bool, first: Hypothesis, search: Search) -> Match | None:
    names = [name for each in seen for name in each.tensors if (name in op.outputs) == forward]
    changed = based(op, seen, first)
    if changed is None:
        return None
    edited, left = changed
    wrong = [bool(each.wrong(names)) for each in seen if not each.raised]
    still = [bool(each.wrong(names)) for each in left if not each.raised]
    if not any(still) or sum(map(_moved, left)) < OFTEN * sum(wrong):
        return None
    for second in search(edited, left, forward):
        unexplained = {name for each in left for name in each.wrong(names)} - second.tensors
        if second.cases >= MOSTLY * second.of and not unexplained:
            tensors = frozenset(name for each in seen for name in each.wrong(names))
            whole = Match(first, tensors, sum(wrong), sum(wrong))
            return replace(whole, also=(second,))
    return None
