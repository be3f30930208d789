"""Whether a value is one of the right ones: also transposed, reshaped, negated, reversed in time, or times a constant."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.own_line.right import BLEND, Right, narrowed

CLOSE = {"float64": 1e-8, "float32": 2e-4}  # of a value's size: whether it is this one, not whether it is exact
LOOSE = 2e-2  # half precision
MASKED = -1e3  # where right code has -inf, others have a large finite number


@dataclass(frozen=True)
class Match:
    """What a value is: `factor` times `right`."""

    right: Right
    factor: float = 1.0

    @property
    def name(self) -> str:
        return self.right.name if self.factor == 1.0 else f"{self.factor:.6g} {self.right.name}"


class Matcher:
    """The right values, by their number of elements, in every order in which their axes may lie."""

    def __init__(self, values: Sequence[Right], dtype: str) -> None:
        self.values = values
        self.close = CLOSE.get(dtype, LOOSE)
        self.by_size: dict[int, tuple[list[tuple[Right, tuple[int, ...]]], Array]] = {}
        grouped: dict[int, list[tuple[Right, Array]]] = {}
        for right in values:
            for turned in (
                turns(right.value) if right.rank < BLEND else (right.value.squeeze(), right.value.T.squeeze())
            ):
                grouped.setdefault(right.value.size, []).append((right, turned))
        for size, found in grouped.items():
            self.by_size[size] = [(r, t.shape) for r, t in found], np.stack([t.ravel() for _, t in found])

    def match(self, value: Array, factors: bool = True) -> Match | None:
        """The best of those that it is: a line before a style before a blend, itself before a multiple."""
        value = narrowed(value)
        entry = self.by_size.get(value.size)
        if entry is None or not np.isfinite(value).any():
            return None
        rights, rows = entry
        fits = np.array([compatible(value.shape, shape) for _, shape in rights])
        best: tuple[tuple[int, int, int], Match] | None = None
        orders = [value] if value.ndim < 2 else [value, value[::-1]]
        for order, each in enumerate(orders):
            flat = each.ravel().astype(np.float64)
            equal = fits & self._equal(flat, rows)
            for i in np.flatnonzero(equal).tolist():
                key = (rights[i][0].rank, 0, order)
                if best is None or key < best[0]:
                    best = key, Match(rights[i][0])
            if factors and best is None and value.size > 2:
                for i, factor in self._multiples(flat, rows, fits):
                    key = (rights[i][0].rank, 1, order)
                    if rights[i][0].rank < BLEND and (best is None or key < best[0]):
                        best = key, Match(rights[i][0], factor)
        return best[1] if best else None

    def _equal(self, flat: Array, rows: Array) -> Array:
        hidden = np.isneginf(rows)
        plain = np.where(hidden, 0.0, rows)
        with np.errstate(all="ignore"):
            scale = np.abs(plain).max(1, keepdims=True)
            near = np.abs(plain - np.where(np.isneginf(flat), MASKED * 2, flat)) <= self.close * scale + 1e-300
        return np.asarray(np.where(hidden, flat <= MASKED, near).all(1))

    def _multiples(self, flat: Array, rows: Array, fits: Array) -> Iterator[tuple[int, float]]:
        if not np.isfinite(flat).all() or not flat.any() or np.ptp(flat) == 0:
            return
        with np.errstate(all="ignore"):
            sizes = (rows * rows).sum(1)
            factor = rows @ flat / sizes
            off = np.abs(rows * factor[:, None] - flat).max(1)
            good = fits & (off <= self.close * np.abs(flat).max()) & (np.ptp(rows, 1) > 0)
        for i in np.flatnonzero(good):
            yield int(i), float(factor[i])


def turns(value: Array) -> Iterator[Array]:
    """The value with its axes in every order that makes a difference."""
    narrow = np.asarray(value, np.float64).squeeze()
    if narrow.ndim > 4:
        yield narrow
        return
    for order in itertools.permutations(range(narrow.ndim)):
        yield narrow.transpose(order)


@functools.cache
def compatible(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one shape becomes the other by merging or splitting neighbouring axes."""
    a, b = (set(itertools.accumulate((n for n in shape if n > 1), int.__mul__)) for shape in (one, other))
    return a <= b or b <= a
