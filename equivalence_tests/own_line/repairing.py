"""Which statement, given another value, makes the whole answer right: a proof that what it binds is what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.own_line.edits import SIMPLE
from equivalence_tests.own_line.matching import Match, compatible, turns
from equivalence_tests.own_line.places import Place
from equivalence_tests.own_line.recording import Key, Trail, as_array, is_tensor, like
from equivalence_tests.own_line.repair import Put, Repair, rank_of
from equivalence_tests.own_line.rewording import edited, place_added, tried_edits, unused_names
from equivalence_tests.own_line.right import BLEND, LINE, STYLE, Right
from equivalence_tests.own_line.runs import Runs

NEAR = 1e-7


@dataclass(frozen=True)
class Rights:
    """Lines of the formula and what other styles bind; blends of two of them; numbers by name."""

    known: Sequence[Right]
    blends: Sequence[Right]
    numbers: dict[str, float]


def search(
    runs: Runs, places: Sequence[Place], trails: dict[Key, Trail], was: dict[Key, Match | None], rights: Rights
) -> list[Repair]:
    """Every statement that another value would mend, those of the formula tried first."""
    found: dict[Key, Repair] = {}
    lines = [each for each in rights.known if each.rank == LINE]
    keys = [key for key, trail in trails.items() if not trail.broken and not places[key[0]].added]
    keys = sorted(_within(runs, trails, keys), key=lambda key: (rank_of(was[key]) <= STYLE, trails[key].order))
    for values, reshaping, blended in (
        (rights.known, False, False),
        (lines, True, False),
        (rights.blends, False, True),
    ):
        first = min((trails[key].order for key in found), default=None)
        for key in keys:
            later = first is not None and trails[key].order > first
            if key in found or ((reshaping or blended) and (later or rank_of(was[key]) <= STYLE) and found):
                continue
            numbers = {} if reshaping or blended else rights.numbers
            for name, rank, put in of_trail(runs, key, trails[key], values, numbers, reshaping):
                found[key] = Repair(key, name, rank, was[key], put)
                break
    repairs = list(found.values())
    first = min((trails[key].order for key in found), default=None)
    unused = unused_names(places)
    for key in keys:  # of a style that is not foreseen, no value is known that belongs there
        earlier = first is None or trails[key].order < first
        if key[1] or not earlier or rank_of(was[key]) <= STYLE or key in found or places[key[0]].stored:
            continue
        number = key[0] if place_added(places, key[0]) is None else key[0] - 1
        tried = tried_edits(runs, places, trails, number, unused, SIMPLE)
        if tried:
            repairs.append(Repair(key, tried[0], BLEND, was[key], constant(0.0), *tried))
            break
    if len({(places[r.key[0]].file, places[r.key[0]].line) for r in repairs}) > 1:
        repairs = [repair if repair.edit else edited(runs, places, trails, repair, unused) for repair in repairs]
    return repairs


def _within(runs: Runs, trails: dict[Key, Trail], keys: list[Key]) -> list[Key]:
    """Those that every wrong tensor follows from, and no right one: what a right tensor follows from is right."""
    before = runs.answer()
    if before is None:
        return keys
    wrong = runs.wrong(before)
    found = []
    for key in keys:
        kinds = {value.dtype.kind for value in trails[key].values}
        moved = runs.moved(before, runs.answer({key: _shaken})) if kinds == {"f"} else None
        if moved is None or moved & set(runs.judged) == wrong:
            found.append(key)
    return found


def _shaken(value: Any, turn: int) -> Any:
    numbers = as_array(value)
    if numbers is None or (not np.shape(numbers) and not isinstance(value, float | np.floating)):
        return value
    scale = np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0) if numbers.ndim else abs(float(numbers))
    steps = np.cos(np.arange(numbers.size) + turn).reshape(numbers.shape)
    return like(value, numbers + 0.1 * (scale or 1.0) * steps)


def of_trail(
    runs: Runs, key: Key, trail: Trail, rights: Sequence[Right], numbers: dict[str, float], reshaping: bool
) -> Iterator[tuple[str, int, Put]]:
    """Names of right values that, in the place of what the statement bound, make every tensor right."""
    count = len(trail.values)
    value = trail.stacked()
    wholes = [(value, False)] if value is not None else []
    wholes += [(trail.values[-1], True)] if count > 1 else []
    for whole, only_last in wholes:
        if whole.size == 1 and count == 1:
            for name, number in numbers.items():
                if not runs.left():
                    return
                if _close(float(whole.reshape(())), number) or (
                    trail.dtypes[0] == "python int" and (number % 1 or number < 1)
                ):
                    continue
                if runs.right(runs.answer({key: constant(number)})):
                    yield name, LINE, constant(number)
        for right in rights:
            for other in placed(whole, right, 1 if only_last else count, reshaping):
                if not runs.left():
                    return
                put = _in_turn(other, count, only_last)
                if runs.right(runs.answer({key: put})):
                    yield right.name, right.rank, put
                    break


def constant(number: float) -> Put:
    def put(value: Any, _: int) -> Any:
        size = np.size(value) if not is_tensor(value) else value.numel()
        return like(value, np.asarray(number)) if size == 1 else value

    return put


def placed(value: Array, known: Right, count: int, reshaping: bool) -> Iterator[Array]:
    """A right value laid out as the statement's own is; with `reshaping`, one of another size as it is."""
    right = known.value
    if right.size != value.size and not reshaping:
        right = known.narrow
    if value.dtype.kind == "b" and not np.isin(right, (0.0, 1.0)).all():
        return
    if right.size == value.size:
        shape = value.squeeze().shape
        for each in _different([t.reshape(value.shape) for t in turns(right) if compatible(t.shape, shape)]):
            yield each
            if count > 1:
                yield each[::-1]
    elif reshaping and count == 1 and value.dtype.kind == "f":
        yield right
        narrow = right.squeeze()
        if narrow.ndim != right.ndim:
            yield narrow
    elif reshaping and count > 1 and value.dtype.kind == "f":
        for axes in range(1, right.ndim):
            if int(np.prod(right.shape[:axes])) == count:
                yield right.reshape(count, *right.shape[axes:])
                yield right.reshape(count, *(n for n in right.shape[axes:] if n > 1))


def _different(values: list[Array]) -> Iterator[Array]:
    seen: list[Array] = []
    for value in values:
        if not any(np.array_equal(value, other, equal_nan=True) for other in seen):
            seen.append(value)
            yield value


def _in_turn(other: Array, count: int, only_last: bool) -> Put:
    """Each value of a statement that is run several times: the slices of the right one in turn."""

    def put(value: Any, turn: int) -> Any:
        if only_last:
            return _fitted(value, other) if turn == count - 1 else value
        return _fitted(value, other[turn] if count > 1 else other) if turn < count else value

    return put


def _fitted(value: Any, numbers: Array) -> Any:
    own = as_array(value)
    return like(value, numbers, reshaped=own is not None and own.size == numbers.size)


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= NEAR * max(abs(one), abs(other))
