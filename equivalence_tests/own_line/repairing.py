"""Which statement, given another value, makes the whole answer right: a proof that what it binds is what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.own_line.matching import Match, Matcher, compatible, turns
from equivalence_tests.own_line.recording import Key, Runs, Trail, as_array, is_tensor, like
from equivalence_tests.own_line.right import BLEND, LINE, Right

NEAR = 1e-7


@dataclass(frozen=True)
class Repair:
    """A statement's value that would have to be another: `right` stands for what belongs there."""

    key: Key
    name: str
    rank: int
    was: Match | None


def of_trail(
    runs: Runs, key: Key, trail: Trail, rights: Sequence[Right], numbers: dict[str, float], reshaping: bool
) -> Iterator[tuple[str, int]]:
    """Names of right values that, in the place of what the statement bound, make every tensor right."""
    value = trail.stacked()
    last = trail.values[-1] if trail.values else None
    for whole in ([value] if value is not None else []) + ([last] if last is not None and len(trail.values) > 1 else []):
        only_last = whole is last and len(trail.values) > 1
        if whole.size == 1 and len(trail.values) == 1:
            for name, number in numbers.items():
                if not runs.left():
                    return
                if not _close(float(whole.reshape(())), number) and _repairs(runs, key, constant(number)):
                    yield name, LINE
        for right in rights:
            for other in placed(whole, right.value, len(trail.values) if not only_last else 1, reshaping):
                if not runs.left():
                    return
                put = _in_turn(other, len(trail.values), only_last)
                if _repairs(runs, key, put):
                    yield right.name, right.rank
                    break


def constant(number: float) -> Callable[[Any, int], Any]:
    def put(value: Any, _: int) -> Any:
        size = np.size(value) if not is_tensor(value) else value.numel()
        return like(value, np.asarray(number)) if size == 1 else value

    return put


def placed(value: Array, right: Array, count: int, reshaping: bool) -> Iterator[Array]:
    """A right value laid out as the statement's own is; with `reshaping`, one of another size as it is."""
    if value.dtype.kind not in "fiu":
        return
    if right.size == value.size:
        flat: list[Array] = []
        for turned in turns(right):
            if compatible(turned.shape, value.squeeze().shape):
                flat.append(turned.reshape(value.shape))
        for each in _different(flat):
            yield each
            if count > 1:
                yield each[::-1]
    elif reshaping and count == 1 and value.ndim:
        yield right
        narrow = right.squeeze()
        if narrow.ndim != right.ndim:
            yield narrow


def _different(values: list[Array]) -> Iterator[Array]:
    seen: list[Array] = []
    for value in values:
        if not any(np.array_equal(value, other, equal_nan=True) for other in seen):
            seen.append(value)
            yield value


def _in_turn(other: Array, count: int, only_last: bool) -> Callable[[Any, int], Any]:
    """Each value of a statement that is run several times: the slices of the right one in turn."""

    def put(value: Any, turn: int) -> Any:
        if only_last:
            return _fitted(value, other) if turn == count - 1 else value
        return _fitted(value, other[turn] if count > 1 else other) if turn < count else value

    return put


def _fitted(value: Any, numbers: Array) -> Any:
    own = as_array(value)
    if isinstance(value, tuple | list):
        return type(value)(_fitted(v, n) for v, n in zip(value, numbers, strict=True))
    return like(value, numbers, reshaped=own is not None and own.size == numbers.size)


def _repairs(runs: Runs, key: Key, put: Callable[[Any, int], Any]) -> bool:
    return not runs.wrong(runs.answer({key: put}))


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= NEAR * max(abs(one), abs(other))


def rank_of(match: Match | None) -> int:
    return BLEND + 1 if match is None else match.right.rank if match.factor == 1.0 else BLEND


__all__ = ["Matcher", "Repair", "of_trail", "rank_of"]
