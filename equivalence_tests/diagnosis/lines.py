"""The lines of a trace that may stand in the place of one another, and the changes that put them there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.diagnosis.editing import Editing, Slot
from equivalence_tests.diagnosis.other import Change


def of_the_same_shape(slot: Slot, trace: Editing) -> list[str]:
    shape = slot.value.value.shape
    return [
        name
        for name, line in within_reach(slot, trace)
        if line.value.shape == shape and name not in (slot.slot, slot.of) and line is not slot.value
    ]


def within_reach(slot: Slot, trace: Editing) -> list[tuple[str, Any]]:
    """No line of the backward stands in the forward."""
    return [(name, line) for name, line in trace.lines.items() if slot.backward or name not in trace.behind]


def turned(slot: Slot, trace: Editing) -> list[str]:
    """Lines that fit when they are transposed."""
    shape = slot.value.value.shape
    if len(shape) < 2:
        return []
    other = (*shape[:-2], shape[-1], shape[-2])
    return [name for name, line in within_reach(slot, trace) if line.value.shape == other]


def that_broadcast(slot: Slot, trace: Editing) -> list[str]:
    """Lines that may be multiplied with it, or added, and leave its shape."""
    shape = slot.value.value.shape
    found = []
    for name, line in within_reach(slot, trace):
        try:
            fits = np.broadcast_shapes(line.value.shape, shape) == shape
        except ValueError:
            fits = False
        if fits and name != slot.slot:
            found.append(name)
    return found


def with_rows(slot: Slot, trace: Editing) -> list[str]:
    """Lines with one axis more, the rows."""
    shape = slot.value.value.shape
    shapes = {name: line.value.shape for name, line in within_reach(slot, trace)}
    return [name for name, other in shapes.items() if len(other) > 1 and (*other[:-2], other[-1]) == shape]


def constant_ratio(one: Any, other: Any) -> float | None:
    """The number that takes the other to this one, if there is one besides 1."""
    known = np.isfinite(one.value) & np.isfinite(other.value) & (other.value != 0)
    if known.sum() < 2:
        return None
    ratios = one.value[known] / other.value[known]
    ratio = float(ratios.flat[0])
    return ratio if ratio not in (0.0, 1.0) and bool(np.allclose(ratios, ratio, rtol=1e-6)) else None


def uses(of: str, name: str, trace: Editing) -> bool:
    return any(slot.of == of and slot.slot == name for slot in trace.slots)


def is_earlier(name: str, slot: Slot, trace: Editing) -> bool:
    order = [each.of for each in trace.slots if not each.slot]
    return name in order and order.index(name) < order.index(slot.of)


def line(name: str, turned: bool = False) -> Change:
    return lambda _, stage: stage.line(name).mT if turned else stage.line(name)


def row_of(name: str, row: int) -> Change:
    return lambda _, stage: stage.line(name)[..., row, :]


def function_of(name: str, function: Callable[[Any], Any]) -> Change:
    return lambda _, stage: function(stage.line(name))


def test_of(name: str, test: Callable[[Any], Any]) -> Change:
    return lambda _, stage: test(stage.line(name).value)


def beside(name: str, combine: Callable[[Any, Any], Any]) -> Change:
    return lambda value, stage: combine(value, stage.line(name))


def like(own: str, other: str) -> Change:
    """Another line in the place of one, turned if that one is."""

    def change(value: Any, stage: Editing) -> Any:
        mine, theirs = stage.line(own), stage.line(other)
        as_it_is = mine.value.shape == value.value.shape and bool((mine.value == value.value).all())
        return theirs if as_it_is else theirs.mT

    return change
