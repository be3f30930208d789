"""Rows put beside each other: which they are, and how many times one takes the other's time, round by round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.rows import Row, Sizes

ASKED = ("causal", "cache", "tokens", "tied")  # settings that the work has, and not the contestant


@dataclass(frozen=True)
class Spread:
    """The median of some samples, their quartiles, and how many they are."""

    median: float
    low: float
    high: float
    count: int


def spread(samples: Iterable[float]) -> Spread:
    values = list(samples)
    low, median, high = (float(value) for value in np.percentile(values, (25, 50, 75)))
    return Spread(median, low, high, len(values))


def times(slower: Row, faster: Row) -> Spread:
    """slower / faster. Sample i of both was taken in round i, so what slows the machine for a while slows both."""
    # Not strict: an interrupted round has reached the first contestants only.
    return spread(one / other for one, other in zip(slower.seconds, faster.seconds, strict=False))


def asked_of(row: Row) -> dict[str, Any]:
    """What a work says besides its sizes: two rows that differ in it are not of one work."""
    return {name: row.settings[name] for name in ASKED if name in row.settings}


def same_work(row: Row, other: Row) -> bool:
    """Of one suite, work and part."""
    return (row.sizes, row.dtype, asked_of(row)) == (other.sizes, other.dtype, asked_of(other))


def is_timed(row: Row) -> bool:
    return row.status == "ok" and bool(row.seconds)


def has_sizes(row: Row, sizes: Sizes) -> bool:
    """Whether the row's sizes are these; it may have more. No dropout is meant where none is named."""
    wanted = {"dropout": 0.0, **sizes}
    return all(row.sizes.get(name, 0.0 if name == "dropout" else None) == value for name, value in wanted.items())


def select(rows: Iterable[Row], suite: str, work: str, part: str, sizes: Sizes, settings: dict[str, Any]) -> list[Row]:
    """The rows of one work in float32 on the CPU, whatever became of them; a setting left unnamed by a row agrees."""
    return [
        row
        for row in rows
        if (row.suite, row.work, row.part, row.dtype, row.device) == (suite, work, part, "float32", "cpu")
        and has_sizes(row, sizes)
        and all({**row.settings, **row.sizes}.get(name, value) == value for name, value in settings.items())
    ]
