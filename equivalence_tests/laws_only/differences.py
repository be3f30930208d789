"""Slopes without a formula: of L(t), a number that a function makes of its operands moved by t along some direction.

A complex step, where the function lets complex numbers through, is exact to rounding. Otherwise central differences are
extrapolated (Richardson) with an error bound that is computed: what halving the step changes, and the noise of L itself.
Where L has a kink or a jump there is no slope, and both say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import ORACLE

STEP = 2.0**-66  # its square is far below one unit of roundoff, and products with it are exact
LEVELS = 28  # halvings: from a quarter of the operand's scale down to 1e-9 of it
FIRST = 3  # levels before a bound is believed: two equal quotients may be chance, three are not
POINTS = 9  # at which the noise of L is listened to

Along = Callable[[float], Any]  # L(t), in extended precision: the sum must add no noise of its own


class Slope(NamedTuple):
    """dL/dt at 0, and a bound of its error: infinite where there is no slope, or none that can be told."""

    value: float
    bound: float


NONE = Slope(math.nan, math.inf)


def noise(along: Along, step: float, unit: float, lowest: int = 3) -> float:
    """The size of the rounding noise in L: what is left of its values at close points when what is smooth is taken off.

    `step` moves every operand by some units of roundoff, in a random direction. Differences of order k take off a
    polynomial of that degree and leave noise sqrt((2k)!) / k! times as large; the largest estimate of orders `lowest` to
    6 counts. At least one unit of roundoff of L, since a function that happens to be exact there is not so elsewhere.
    """
    values = np.array([along((k - POINTS // 2) * step) for k in range(POINTS)], ORACLE)
    if not np.isfinite(values).all():
        return math.inf
    found = unit * float(np.abs(values).max())
    for order in range(1, 7):
        values = np.diff(values)
        if order >= lowest:
            gain = math.factorial(2 * order) / math.factorial(order) ** 2
            found = max(found, math.sqrt(float((values * values).mean()) / gain))
    return found


class Entry(NamedTuple):
    """One entry of the scheme: a slope, and the level whose quotient is its latest."""

    slope: Slope
    level: int


def central(along: Along, start: float, noise: float, patience: int = LEVELS) -> Slope:
    """The slope by central differences at start, start/2, start/4, ..., extrapolated; the best of all entries.

    The bound of an entry is what the last extrapolation changed, against both entries that it is made of, and eight times
    the noise over the step (all extrapolations together multiply noise by less than 2). An entry must also stand against
    all smaller steps: their quotients are no further from it than its own is, but for noise, since a function may look
    flat to steps that are too long for it. And the quotients from the left and from the right must come together as the
    step is halved: at a kink they do not, and there is no slope. `patience` is for how many levels behind the best one the
    steps go on.
    """
    at = along(0.0)
    entries: list[Entry] = []
    quotients: list[float] = []
    gaps: list[float] = []
    blurs: list[float] = []
    older: list[float] = []
    h = start
    for level in range(LEVELS):
        up, down = along(h), along(-h)
        quotients.append(float((up - down) / (2.0 * h)))
        gaps.append(float(abs(up - 2.0 * at + down)) / h)
        blurs.append(8.0 * noise / h)
        row = quotients[-1:]
        for j, previous in enumerate(older, 1):
            row.append(row[-1] + (row[-1] - previous) / (4.0**j - 1.0))
            changed = max(abs(row[j] - row[j - 1]), abs(row[j] - previous))
            if level >= FIRST and math.isfinite(row[j]):
                entries.append(Entry(Slope(row[j], changed + blurs[-1]), level))
        if entries and level - min(entries, key=_bound).level >= patience:
            break
        older, h = row, h / 2.0
    for slope, level in sorted(entries, key=_bound):
        if _stands(slope, level, quotients, blurs):
            smooth = all(gaps[k] <= 0.75 * gaps[k - 1] + 2.0 * blurs[k] for k in range(level + 1, len(gaps)))
            return slope if smooth else NONE
    return NONE


def _bound(entry: Entry) -> float:
    return entry.slope.bound


def _stands(slope: Slope, level: int, quotients: list[float], blurs: list[float]) -> bool:
    """Whether no quotient of a smaller step contradicts."""
    own = abs(quotients[level] - slope.value) + slope.bound
    return all(abs(quotients[k] - slope.value) <= own + blurs[k] for k in range(level + 1, len(quotients)))
