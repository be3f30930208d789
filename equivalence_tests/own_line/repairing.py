"""Which statement, given another value, makes the whole answer right: a proof that what it binds is what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.own_line.edits import NUMPY, SIMPLE, Changed, changes
from equivalence_tests.own_line.matching import Match, Matcher, compatible, turns
from equivalence_tests.own_line.places import Place
from equivalence_tests.own_line.recording import Key, Runs, Trail, as_array, is_tensor, like
from equivalence_tests.own_line.right import BLEND, LINE, STYLE, Right

NEAR = 1e-7
Put = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Repair:
    """A statement's value that would have to be another: `name` is what belongs there, `was` what stands there.

    `edit` is a small change of the statement that gives it, `cost` how small.
    """

    key: Key
    name: str
    rank: int
    was: Match | None
    put: Put
    edit: str = ""
    cost: float = 2.0

    @property
    def belongs(self) -> str:
        """What is told: the changed statement where there is one, else the line of the formula."""
        return self.edit or self.name

    def score(self, place: Place, judged: Sequence[str]) -> float:
        """The lower, the likelier it is that the mistake is here and not in a line before or behind it."""
        as_good = rank_of(self.was) <= self.rank
        named = _letters(place.name)
        stands = rank_of(self.was) == LINE and self.was is not None
        called = 0.5 * (stands and self.rank == LINE and named == _letters(self.name))  # it is called dOmega, and holds dS
        already = 1.0 * (self.was is not None and stands and named == _letters(self.was.name))
        answer = 0.3 * (self.name in judged and not self.edit)  # that an answer would be right if it were right tells nothing
        return self.cost + (0.25 if self.edit else 1.5) * as_good - called + already + answer


def _letters(name: str) -> str:
    return "".join(x for x in name.rpartition(".")[2].lower() if x.isalnum())


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
    for values, reshaping, blended in ((rights.known, False, False), (lines, True, False), (rights.blends, False, True)):
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
    unused = _unused(places)
    for key in keys:  # of a style that is not foreseen, no value is known that belongs there
        earlier = first is None or trails[key].order < first
        if key[1] or not earlier or rank_of(was[key]) <= STYLE or key in found or places[key[0]].stored:
            continue
        number = key[0] if _added(places, key[0]) is None else key[0] - 1
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
                if _close(float(whole.reshape(())), number) or (trail.dtypes[0] == "python int" and (number % 1 or number < 1)):
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


def rank_of(match: Match | None) -> int:
    return BLEND + 1 if match is None else match.right.rank if match.factor == 1.0 else BLEND


def _unused(places: Sequence[Place]) -> frozenset[str]:
    """Names that are bound and never read."""
    bound = {each for place in places for each in place.name.split(", ")}
    return frozenset(bound - {each for place in places for each in place.reads})


def edited(runs: Runs, places: Sequence[Place], trails: dict[Key, Trail], repair: Repair, unused: frozenset[str]) -> Repair:
    """The repair with the smallest change of its statement that gives the value which belongs there."""
    number, path = repair.key
    added = _added(places, number)
    if added is not None:
        tried = tried_edits(runs, places, trails, added, unused, NEAR_COST, f"{places[number].text}: ")
        return replace(repair, edit=tried[0], cost=tried[1]) if tried else repair
    expression = places[number].expression
    if path or expression is None or not runs.left():
        return repair
    tried = changes(expression, trails[repair.key].scope, unused, 9.0)
    hits: list[Changed] = []
    turn = -1

    def seen(value: Any, space: dict[str, Any], names: dict[str, Any]) -> Any:
        nonlocal turn
        turn += 1
        right = repair.put(value, turn)
        wanted = as_array(right)
        if turn == 0 and wanted is not None:
            for each in tried:
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


NEAR_COST = 1.5


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


def _added(places: Sequence[Place], number: int) -> int | None:
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


__all__ = ["Matcher", "Repair", "Rights", "rank_of", "search"]
