"""Small changes of a statement, tried on a candidate: which of them gives what belongs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.own_line.edits import NUMPY, Changed, changes
from equivalence_tests.own_line.places import Place
from equivalence_tests.own_line.recording import Key, Trail, as_array
from equivalence_tests.own_line.repair import Repair
from equivalence_tests.own_line.runs import Runs

NEAR = 1e-7
NEAR_COST = 1.5  # the dearest change that is run without a value to compare it with


def unused_names(places: Sequence[Place]) -> frozenset[str]:
    """Names that are bound and never read."""
    bound = {each for place in places for each in place.name.split(", ")}
    return frozenset(bound - {each for place in places for each in place.reads})


def edited(
    runs: Runs, places: Sequence[Place], trails: dict[Key, Trail], repair: Repair, unused: frozenset[str]
) -> Repair:
    """The repair with the smallest change of its statement that gives the value which belongs there."""
    number, path = repair.key
    added = place_added(places, number)
    if added is not None:
        tried = tried_edits(runs, places, trails, added, unused, NEAR_COST, f"{places[number].text}: ")
        return replace(repair, edit=tried[0], cost=tried[1]) if tried else repair
    expression = places[number].expression
    if path or expression is None or not runs.left():
        return repair
    near = changes(expression, trails[repair.key].scope, unused, 9.0)
    hits: list[Changed] = []
    turn = -1

    def seen(value: Any, space: dict[str, Any], names: dict[str, Any]) -> Any:
        nonlocal turn
        turn += 1
        right = repair.put(value, turn)
        wanted = as_array(right)
        if turn == 0 and wanted is not None:
            for each in near:
                if len(hits) >= 3 or not runs.left():
                    break
                got = _evaluated(each.code, space, names)
                if got is not None and got.shape == wanted.shape and _same(got, wanted):
                    hits.append(each)
        return right

    runs.watch(number, seen)
    for each in hits:
        if _mends(runs, number, each.code):
            return replace(repair, edit=each.said(), cost=each.cost)
    return repair


def tried_edits(
    runs: Runs,
    places: Sequence[Place],
    trails: dict[Key, Trail],
    number: int,
    unused: frozenset[str],
    most: float,
    before: str = "",
) -> tuple[str, float] | None:
    """The smallest change of a statement that makes every tensor right, found by running each."""
    expression, trail = places[number].expression, trails.get((number, ()))
    if expression is None or trail is None:
        return None
    for each in changes(expression, trail.scope, unused, most):
        if not runs.left():
            return None
        if _mends(runs, number, each.code):
            return before + each.said(), each.cost
    return None


def place_added(places: Sequence[Place], number: int) -> int | None:
    """Of an augmented assignment, the place of what is added."""
    place = places[number]
    before = places[number - 1] if number else place
    return number - 1 if before.added and (before.file, before.line) == (place.file, place.line) else None


def _mends(runs: Runs, number: int, code: Any) -> bool:
    return runs.right(runs.watch(number, lambda _, space, names: eval(code, {**space, NUMPY: np}, names)))


def _evaluated(code: Any, space: dict[str, Any], names: dict[str, Any]) -> Array | None:
    try:
        return as_array(eval(code, {**space, NUMPY: np}, names))
    except Exception:
        return None


def _same(got: Array, wanted: Array) -> bool:
    with np.errstate(all="ignore"):
        finite = np.isfinite(wanted)
        scale = float(np.abs(wanted[finite]).max(initial=0.0)) if wanted.dtype.kind == "f" else 1.0
        near = np.abs(np.where(finite, got, 0.0) - np.where(finite, wanted, 0.0)) <= NEAR * scale
        return bool((near & (finite | (got == wanted))).all())
