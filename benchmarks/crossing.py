"""The size at which a GPU begins to win, with the copies there and back and without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.ratios import is_timed
from benchmarks.rows import Results, Row
from benchmarks.units import part_in_words, short

COPIES = ("copy to device", "copy to host")
Curve = list[tuple[float, float]]  # size and seconds, in the order of the sizes


@dataclass(frozen=True)
class Race:
    """One work over its sizes: the rows that compute, those that copy, and what is drawn along the axis."""

    name: str
    part: str
    rows: list[Row]
    copies: list[Row]
    axis: str
    x: Callable[[Row], float]

    @property
    def has_gpu(self) -> bool:
        return any(row.device == "cuda" for row in self.rows if is_timed(row))

    def best(self, device: str) -> Curve:
        """The fastest contestant's time at each size; which one that is may change."""
        return _least((self.x(row), row.median or 0.0) for row in self.rows if is_timed(row) and row.device == device)

    def with_copies(self) -> dict[str, Curve]:
        """By contestant on the GPU: its time and both copies, at the sizes where all three were measured."""
        curves: dict[str, Curve] = {}
        for row in self.rows:
            taken = [self._copy(row, part) for part in COPIES]
            if row.device == "cuda" and is_timed(row) and None not in taken:
                total = (row.median or 0.0) + sum(seconds or 0.0 for seconds in taken)
                curves.setdefault(row.contestant, []).append((self.x(row), total))
        return {name: sorted(points) for name, points in curves.items()}

    def _copy(self, row: Row, part: str) -> float | None:
        own = [copy for copy in self.copies if copy.part == part and copy.sizes == row.sizes and is_timed(copy)]
        named = [copy for copy in own if copy.contestant == row.contestant]
        medians = [copy.median for copy in named or own if copy.median is not None]
        return min(medians, default=None)


def races(results: Results) -> list[Race]:
    """Those works of the suite that were timed at two sizes or more."""
    rows = [row for row in results.rows if row.suite == "crossover" and row.dtype == "float32"]
    found = []
    for work, part in dict.fromkeys((row.work, row.part) for row in rows if row.part not in COPIES):
        own = [row for row in rows if (row.work, row.part) == (work, part)]
        timed = [row for row in own if is_timed(row)]
        if not timed:
            continue
        axis, x = axis_of(timed)
        copies = [row for row in rows if row.part in COPIES and row.work in (work, "copy")]
        if len({x(row) for row in timed}) > 1:
            shown = [row for row in own if is_timed(row) or row.status == "out of memory"]
            found.append(Race(work, part, shown, copies, axis, x))
    return found


def axis_of(rows: list[Row]) -> tuple[str, Callable[[Row], float]]:
    """The size that varies, or the counted FLOP where several vary together."""
    names = [name for name in rows[0].sizes if len({row.sizes.get(name) for row in rows}) > 1]
    if len(names) > 1 and all(row.flops for row in rows):
        return "FLOP of one run", lambda row: float(row.flops or 0.0)
    name = max(names, key=lambda name: len({row.sizes.get(name) for row in rows}), default="n")
    return name, lambda row: float(row.sizes.get(name, 0.0))


def sentence(race: Race) -> str:
    """From which size on the GPU wins, both ways of counting."""
    with_copies = _least(point for curve in race.with_copies().values() for point in curve)
    wins = _wins(race, race.best("cuda"))
    work = f"{race.name}, {part_in_words(race.part)}"
    if not with_copies:
        return f"{work}: the GPU {wins}; copies were not timed."
    return f"{work}: the GPU {wins}; with the copies it {_wins(race, with_copies)}."


def _wins(race: Race, curve: Curve) -> str:
    """The first size from which on it is ahead at every size that both were timed at."""
    cpu, gpu = dict(race.best("cpu")), dict(curve)
    both = sorted(set(cpu) & set(gpu))
    if not both:
        return "was timed at no size with the CPU"
    first = None
    for x in reversed(both):
        if gpu[x] >= cpu[x]:
            break
        first = x
    if first is None:
        return f"does not win up to {race.axis} = {short(both[-1])}"
    return "wins at every size" if first == both[0] else f"wins from {race.axis} = {short(first)} on"


def _least(points: Iterable[tuple[float, float]]) -> Curve:
    least: dict[float, float] = {}
    for x, seconds in points:
        least[x] = min(seconds, least.get(x, seconds))
    return sorted(least.items())
