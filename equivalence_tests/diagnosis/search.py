"""The search for a formula that answers as the candidate does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.diagnosis.close import Seen, fits
from equivalence_tests.diagnosis.combined import REMEMBERED
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis
from equivalence_tests.diagnosis.edits import Key, hypotheses
from equivalence_tests.diagnosis.fitting import fitted
from equivalence_tests.diagnosis.match import Match, confirmed
from equivalence_tests.diagnosis.options import readings
from equivalence_tests.diagnosis.plain import evaluate
from equivalence_tests.diagnosis.regression import linear, measured, pairs, straight
from equivalence_tests.diagnosis.two import nearness, two
from equivalence_tests.ops import Op

MARGIN = 0.7  # how much dearer than what explains everything a hypothesis may be to stand beside it
MOST = 4000  # hypotheses, the cheapest first; half as many for a model
FILTERS = 3  # cases on which every hypothesis is tried, before what is left is tried on all


def search(op: Op, seen: Sequence[Seen], forward: bool, alone: bool = False) -> list[Match]:
    """What fits, the best first: what explains most cases and tensors, and of these the simplest.

    Where nothing explains everything two mistakes are looked for, unless one `alone` is asked for.
    """
    names = names_of_tensors(op, seen, forward)
    filters = chosen(seen, names)
    if not filters:
        return []
    traces = [trace_of(op, each) for each in filters]
    keys = straight(op, filters[0], traces[0], forward)
    steps = measured(op, seen, filters, keys, names, forward)
    matches = linear(op, seen, steps, names, forward)
    everything = {name for each in seen for name in each.wrong(names)}
    # Whatever is done to a line that moves a tensor which is right, that tensor would be wrong.
    innocent = {key for _, step in steps for key in step if step[key].names and not step[key].wrong}
    innocent = set() if forward else innocent
    enough = _enough(matches, everything)
    ordered = sorted(_all(op, seen, filters, traces, forward, keys), key=lambda each: each.cost)
    near: list[tuple[float, Hypothesis]] = []
    for hypothesis in ordered[: MOST // 4 if alone else MOST // 2 if op.model else MOST]:
        if hypothesis.cost > enough:
            break
        if any((edit.of, edit.slot) in innocent for edit in hypothesis.edits):
            continue
        if _passes(hypothesis, op, filters, names, near):
            match = confirmed(hypothesis, op, seen, names)
            matches += [match] if match else []
            enough = _enough(matches, everything)
    if enough == np.inf and not forward and not _covered(matches, everything):
        matches += pairs(op, seen, steps, names)
    elif enough == np.inf and forward and not op.model:
        matches += fitted(op, seen, filters, traces[0], keys, names)
    if not alone and not op.model and not _covered(matches, everything):
        matches += two(op, seen, forward, near, _one)
    return sorted(matches, key=lambda match: match.rank)


def _one(op: Op, seen: Sequence[Seen], forward: bool) -> list[Match]:
    return search(op, seen, forward, alone=True)


def _enough(matches: Sequence[Match], everything: set[str]) -> float:
    """The cost beyond which nothing simpler is to be found than what explains everything."""
    whole = [match.hypothesis.cost for match in matches if match.cases == match.of and match.tensors >= everything]
    return min(whole, default=np.inf) + MARGIN


def _covered(matches: Sequence[Match], everything: set[str]) -> bool:
    """Whether every wrong tensor is explained in all of its wrong cases, be it by several."""
    return everything <= {name for match in matches if match.cases == match.of for name in match.tensors}


def names_of_tensors(op: Op, seen: Sequence[Seen], forward: bool) -> tuple[str, ...]:
    """All outputs, or all gradients."""
    every = dict.fromkeys(name for each in seen for name in each.observation.exact)
    return tuple(name for name in every if (name in op.outputs) == forward)


def chosen(seen: Sequence[Seen], names: Sequence[str]) -> list[Seen]:
    """Failing cases on which to try everything: of different sizes, small, not extreme; one that is square, if there is."""

    def worth(each: Seen) -> tuple[Any, ...]:
        sizes = [size for x in each.case.operands.values() for size in x.shape]
        lonely = sum(size == 1 for size in sizes)
        count = sum(x.size for x in each.case.operands.values())
        finite = all(np.isfinite(t.got).all() for t in each.tensors.values() if t.got is not None)
        empty = sum(not t.exact.any() for t in each.tensors.values())  # nothing passes, and anything fits
        return (not finite, empty, each.case.hard, each.observation.dtype != "float64", lonely, count)

    failing = sorted((each for each in seen if each.wrong(names)), key=worth)
    square = [each for each in failing if len({s for x in each.case.operands.values() for s in x.shape}) == 1]
    return list(dict.fromkeys([*failing[:1], *square[:1], *failing[1:]]))[:FILTERS]


def trace_of(op: Op, seen: Seen) -> Editing:
    """The right formula on a case, with everything that it met."""
    stage = Editing(op, seen.case)
    evaluate(op, seen.case, seen.precision, stage)
    return stage


def _all(
    op: Op,
    seen: Sequence[Seen],
    filters: Sequence[Seen],
    traces: Sequence[Editing],
    forward: bool,
    keys: Sequence[Key],
) -> Iterator[Hypothesis]:
    said: set[str] = set()
    for observation, trace in zip(filters, traces, strict=True):
        for each in hypotheses(op, observation.case, trace, forward, keys):
            places = [(edit.of, edit.slot) for edit in each.edits]
            key = f"{each.code} {each.stage} {places} {each.numbers} {each.cost}"
            if key not in said:
                said.add(key)
                yield each
    others = readings(op, [each.case for each in seen])
    yield from others if forward else _remembered(op, others, traces[0])


def _remembered(op: Op, others: Iterator[Hypothesis], trace: Editing) -> Iterator[Hypothesis]:
    """The backward as if what it remembers of the forward came from options read otherwise."""
    kept = dict.fromkeys((slot.of, slot.slot) for slot in trace.slots if slot.of.endswith(REMEMBERED))
    for other in others:
        for of, line in kept:
            edit = Edit(of, line, _recomputed(op, other, line))
            yield replace(other, edits=(edit,), case=None, forward=False, cost=other.cost + 1.0)


def _recomputed(op: Op, other: Hypothesis, line: str) -> Any:
    def change(value: Any, stage: Editing) -> Any:
        recorder = Editing(op, stage.case)
        assert other.case is not None
        evaluate(op, other.case(stage.case), value.precision, recorder, type(value))
        return recorder.lines[line]

    return change


def _passes(
    hypothesis: Hypothesis, op: Op, filters: Sequence[Seen], names: Sequence[str], near: list[tuple[float, Hypothesis]]
) -> bool:
    """It explains something in the first of the cases, and no other speaks against it. How near it comes is noted."""
    said = hypothesis.answer(op, filters[0].case, filters[0].observation.dtype)
    explained = fits(said, filters[0], names)
    near.append((nearness(said, filters[0], names), hypothesis))
    if not explained:
        return False
    return all(hypothesis.explains(op, each, names, careful=False) is not None for each in filters[1:])
