"""What a bar is about: the number that a result file gives for a contest, or why it gives none.

A contest one of whose opponents is missing has no number: a weaker field would make it easier. Who ran out of memory is
beaten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.ratios import Spread, is_timed, select, spread, times
from benchmarks.rows import Results, Row, Sizes
from benchmarks.units import memory

SDPA = "torch sdpa"
LONG = 2_048  # from this n on attention is to be level with torch's fused kernel


@dataclass(frozen=True)
class Contest:
    """A work, whose time or memory it is about, and whom that is held against."""

    suite: str
    work: str
    part: str
    sizes: Sizes
    ours: str
    others: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measured:
    """The number, the rows that it is of, and what has to be said beside it."""

    value: Spread
    ours: Row
    other: Row | None = None
    note: str = ""


class Absent(Exception):
    """What a contest needs and the result file does not hold."""


class Refused(Exception):
    """The contestant that it is about gave no right answer, or none at all."""


def speedup(contest: Contest, results: Results) -> Measured:
    """How many times faster ours is than the fastest of the others."""
    rows = _rows(contest, results)
    ours = _ours(contest.ours, rows)
    return _against_the_best(ours, _others(contest.others, rows))


def slowdown(contest: Contest, results: Results) -> Measured:
    """How many times as long ours takes as the other."""
    rows = _rows(contest, results)
    ours = _ours(contest.ours, rows)
    [other] = _others(contest.others, rows)
    return Measured(times(ours, other), ours, other)


def least_speedup(contest: Contest, results: Results) -> Measured:
    """The speedup at that n from LONG on where it is least, against torch's fused kernels, the fastest of all back ends."""
    rows = [row for row in _rows(contest, results) if row.sizes["n"] >= LONG]
    found = []
    for n in sorted({row.sizes["n"] for row in rows}):
        there = [row for row in rows if row.sizes["n"] == n]
        back_ends = {row.contestant for row in there if row.contestant.startswith(SDPA)}
        ours = _ours(contest.ours, there)
        if back_ends and all(row.status == "out of memory" for row in there if row.contestant in back_ends):
            continue
        # A single back end that takes too long is no opponent; torch's own choice among them must be timed.
        slow = {row.contestant for row in there if row.status == "too slow"} - {SDPA}
        found.append((n, _against_the_best(ours, _others({*contest.others, *back_ends} - slow, there))))
    if not found:
        raise Absent(f"no row of n >= {LONG:,}")
    n, least = min(found, key=lambda pair: pair[1].value.median)
    sizes = ", ".join(f"{size:,}" for size, _ in found)
    return Measured(least.value, least.ours, least.other, f"the least of n = {sizes}: at {n:,}")


def memory_ratio(contest: Contest, results: Results) -> Measured:
    rows = _rows(contest, results)
    ours = _ours(contest.ours, rows)
    [other] = _others(contest.others, rows)
    return Measured(spread([_peak(ours) / _peak(other)]), ours, other, f"{memory(_peak(ours))}, {memory(_peak(other))}")


def peak_memory(contest: Contest, results: Results) -> Measured:
    ours = _ours(contest.ours, _rows(contest, results))
    return Measured(spread([_peak(ours)]), ours)


def share_of_product(contest: Contest, results: Results) -> Measured:
    """Counted FLOP/s over those of the best large matrix product."""
    return _share_of_ceiling(contest, results, "flops", "gemm float32")


def share_of_bandwidth(contest: Contest, results: Results) -> Measured:
    """Counted bytes/s over those of the best large matrix-vector product."""
    return _share_of_ceiling(contest, results, "bytes", "gemv float32")


def _share_of_ceiling(contest: Contest, results: Results, what: str, ceiling: str) -> Measured:
    ours = _ours(contest.ours, _rows(contest, results))
    counted = getattr(ours, what)
    if counted is None or ceiling not in results.ceilings:
        raise Absent(f"no {what} of {contest.ours}" if counted is None else f"no ceiling {ceiling!r}")
    return Measured(spread(counted / seconds / results.ceilings[ceiling] for seconds in ours.seconds), ours)


def _against_the_best(ours: Row, others: list[Row]) -> Measured:
    ratio, best = min(((times(row, ours), row) for row in others), key=lambda pair: pair[0].median)
    return Measured(ratio, ours, best)


# The rows that they need


def _rows(contest: Contest, results: Results) -> list[Row]:
    return select(results.rows, contest.suite, contest.work, contest.part, contest.sizes, contest.settings)


def _named(name: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.contestant == name]


def _ours(name: str, rows: Iterable[Row]) -> Row:
    found = _named(name, rows)
    if len(found) != 1:
        raise Absent(f"{len(found) or 'no'} {'rows' if found else 'row'} of {name}")
    [row] = found
    if row.status in ("wrong", "out of memory", "failed"):
        raise Refused(f"{name}: {row.status}. {row.why}".strip())
    if not is_timed(row):
        raise Absent(f"{name}: {row.status}")
    return row


def _others(names: Iterable[str], rows: Iterable[Row]) -> list[Row]:
    """Every one of these that is timed; who ran out of memory is beaten, and who is missing leaves the bar unmeasured."""
    timed, missing = [], []
    for name in sorted(names):
        found = _named(name, rows)
        timed += [row for row in found if is_timed(row)]
        if not any(is_timed(row) or row.status == "out of memory" for row in found):
            missing.append(f"{name} ({found[0].status})" if found else name)
    if missing:
        raise Absent(f"without {', '.join(missing)}")
    if not timed:
        raise Absent("everybody else is out of memory")
    return timed


def _peak(row: Row) -> float:
    if row.peak_bytes is None:
        raise Absent(f"no peak memory of {row.contestant}")
    return float(row.peak_bytes)
