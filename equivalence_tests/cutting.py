"""A failing case made smaller: entries of an axis are left out of all arrays that have it, as long as it still fails.

Choices alone do not lead there: a row that is ignored beside one that counts may need luck with few rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.shrink import Fails

MOST_TRIALS = 250
TOGETHER = ("H", "Hc")  # sizes that hang on num_heads
Axis = str | int  # a letter of the op's pattern, or a leading axis, counted from the last


def cut(op: str, case: Case, fails: Fails) -> Case:
    """The smallest case found in MOST_TRIALS trials; `case` itself at the worst, and for an op without a pattern."""
    trials = 0
    for axis in _axes(op, case) if op in PATTERNS else ():
        for keep in _attempts(op, case, axis):
            size = _size(op, case, axis)
            kept = [index for index in keep if index < size]
            if not 0 < len(kept) < size or trials >= MOST_TRIALS:
                continue
            trials += 1
            smaller = _with(op, case, axis, kept)
            if fails(smaller):
                case = smaller
    return case


def _attempts(op: str, case: Case, axis: Axis) -> Iterator[Sequence[int]]:
    """The entries to be kept, attempt by attempt: one half or the other, again and again; then all but one."""
    size = _size(op, case, axis)
    while size > 1:
        yield range(size // 2)
        yield range(size // 2, size)
        size //= 2
    for left_out in reversed(range(_size(op, case, axis))):
        yield [index for index in range(_size(op, case, axis)) if index != left_out]


def _axes(op: str, case: Case) -> list[Axis]:
    pattern = PATTERNS[op]
    letters = [letter for axes in pattern.operands.values() for letter in axes.split() if letter != "..."]
    own = [letter for letter in dict.fromkeys(letters) if letter not in (*TOGETHER, *pattern.integers.values())]
    first = next(iter(pattern.operands))
    leading = case.operands[first].ndim - len(pattern.operands[first].replace("...", "").split())
    return [*range(leading), *own]


def _size(op: str, case: Case, axis: Axis) -> int:
    """The size of an axis, that of the operands: a mask may be broadcast along it."""
    sizes = (each.shape[at] for name, each in case.operands.items() for at in _places(op, name, each, axis))
    return max(sizes, default=1)


def _places(op: str, name: str, array: Array, axis: Axis) -> list[int]:
    """Where an array has an axis: not at all, once, or twice (W_hh)."""
    pattern = PATTERNS[op]
    axes = {**pattern.operands, **pattern.upstream, **pattern.options}.get(name, "").split()
    letters = [letter for letter in axes if letter != "..."]
    if isinstance(axis, int):
        found = [array.ndim - len(letters) - 1 - axis] if "..." in axes else []
    else:
        found = [array.ndim - len(letters) + at for at, letter in enumerate(letters) if letter == axis]
    return [at for at in found if at >= 0]


def _with(op: str, case: Case, axis: Axis, kept: Sequence[int]) -> Case:
    size = _size(op, case, axis)

    def shorter(arrays: dict[str, Array]) -> dict[str, Array]:
        return {name: _shorter(op, name, each, axis, kept, size) for name, each in arrays.items()}

    return replace(
        case,
        operands=shorter(case.operands),
        options=shorter(case.options),
        upstream=shorter(case.upstream),
    )


def _shorter(op: str, name: str, value: Array, axis: Axis, kept: Sequence[int], size: int) -> Array:
    if not isinstance(value, np.ndarray):
        return value
    for at in _places(op, name, value, axis):
        if value.shape[at] == size:
            value = np.take(value, kept, axis=at)
    return value
