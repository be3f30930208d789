"""Hypotheses of two edits that are one mistake: the same slip in two lines, two operands exchanged, a factor moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from equivalence_tests.diagnosis import lines
from equivalence_tests.diagnosis.attending import MERGE, SPLIT
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis, Slot
from equivalence_tests.diagnosis.functions import ALTERNATIVES
from equivalence_tests.diagnosis.other import Change
from equivalence_tests.diagnosis.plain import Plain
from equivalence_tests.ops import Op

REMEMBERED = ", remembered"  # how the lines end that a backward reads from its cache


def combined(op: Op, trace: Editing, forward: bool) -> Iterator[Hypothesis]:
    yield from _same_function(trace, forward)
    yield from _heads(trace, forward)
    yield from _same_operand(trace, forward)
    yield from _moved_factors(trace, forward)
    yield from _exchanged(trace, forward)
    if not forward:
        yield from _answers_exchanged(op)


def _answers_exchanged(op: Op) -> Iterator[Hypothesis]:
    """Two gradients in each other's place."""
    for one, other in combinations((f"d{name}" for name in op.differentiable), 2):
        edits = (Edit(one, "", lines.line(other)), Edit(other, "", _as_it_should_be(one)))
        numbers = {"term": one, "got": other}
        yield Hypothesis("operands_exchanged", one, numbers, edits, cost=1.5)


def _as_it_should_be(name: str) -> Change:
    return lambda _, stage: stage.right_line(name)


def _same_function(trace: Editing, forward: bool) -> Iterator[Hypothesis]:
    """The same mistake wherever the same reduction stands: both means over another axis."""
    slots: dict[str, dict[tuple[str, str], Slot]] = {}
    for slot in trace.slots:
        if slot.backward != forward and hasattr(slot.value, "__name__"):
            slots.setdefault(slot.value.__name__, {})[slot.of, slot.slot] = slot
    for name, same in slots.items():
        if len(same) < 2:
            continue
        for other in ALTERNATIVES.get(name, ()):
            edits = tuple(Edit(of, slot, other.of) for of, slot in same)
            stage, cost = other.stage or next(iter(same))[0], other.cost + 0.5
            yield Hypothesis(other.code, stage, other.numbers, edits, forward=forward, native=other.native, cost=cost)


def _heads(trace: Editing, forward: bool) -> Iterator[Hypothesis]:
    """Heads cut out and put back by the same wrong order, forward or backward."""
    slots = {
        (slot.of, slot.slot): slot.value.__name__
        for slot in trace.slots
        if slot.backward != forward and getattr(slot.value, "__name__", "") in ("split_heads", "merge_heads")
    }
    for other in SPLIT:
        merge = next((each for each in MERGE if each.numbers == other.numbers), None)
        if merge is not None and len(set(slots.values())) > 1:
            same = {"split_heads": other, "merge_heads": merge}
            edits = tuple(Edit(of, slot, same[name].of) for (of, slot), name in slots.items())
            yield Hypothesis(other.code, "split", other.numbers, edits, forward=forward, cost=2.2)


def _operands(trace: Editing, forward: bool) -> list[Slot]:
    slots = {
        (slot.of, slot.slot): slot
        for slot in trace.slots
        if slot.backward != forward and slot.slot and isinstance(slot.value, Plain) and not slot.of.endswith(REMEMBERED)
    }
    return list(slots.values())


def _same_operand(trace: Editing, forward: bool) -> Iterator[Hypothesis]:
    """One operand replaced, or left out, in two of the lines that use it."""
    uses: dict[str, dict[str, Slot]] = {}
    for slot in _operands(trace, forward):
        uses.setdefault(slot.slot, {})[slot.of] = slot
    for operand, several in uses.items():
        for one, other in combinations(several, 2):
            edits = tuple(Edit(of, operand, lambda x, _: x * 0.0) for of in (one, other))
            yield Hypothesis("missing_term", one, {"term": operand}, edits, forward=forward, cost=4.0)
            for name in lines.of_the_same_shape(several[one], trace):
                edits = tuple(Edit(of, operand, lines.line(name)) for of in (one, other))
                numbers = {"term": operand, "got": name}
                yield Hypothesis("wrong_operand", one, numbers, edits, forward=forward, cost=4.0)


def _moved_factors(trace: Editing, forward: bool) -> Iterator[Hypothesis]:
    """An operand that is multiplied in later than it should be."""
    results = dict.fromkeys(slot.of for slot in trace.slots if slot.backward != forward and not slot.slot)
    for slot in _operands(trace, forward):
        for later in results:
            if later != slot.of:
                left_out = Edit(slot.of, slot.slot, lambda x, _: x._new(np.ones_like(x.value)))
                made_up = Edit(later, "", lines.beside(slot.slot, lambda x, y: x * y))
                numbers = {"operand": slot.slot, "later": later}
                yield Hypothesis("factor_moved", slot.of, numbers, (left_out, made_up), forward=forward, cost=4.0)


def _exchanged(trace: Editing, forward: bool) -> Iterator[Hypothesis]:
    """Two operands of one line in each other's place."""
    for one, other in combinations(_operands(trace, forward), 2):
        if one.of == other.of and one.value.value.shape == other.value.value.shape:
            edits = (
                Edit(one.of, one.slot, lines.like(one.slot, other.slot)),
                Edit(one.of, other.slot, lines.like(other.slot, one.slot)),
            )
            numbers = {"term": one.slot, "got": other.slot}
            yield Hypothesis("operands_exchanged", one.of, numbers, edits, forward=forward, cost=2.2)
