"""Laws of the learning rate's schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE
from equivalence_tests.laws.common import differs, first
from equivalence_tests.parts._guard import told
from equivalence_tests.parts._part import Law
from equivalence_tests.refusals import _refused

PLANS = ((0, 10), (1, 10), (4, 12), (5, 6), (3, 100), (0, 2), (7, 200))  # warm-up, total
PEAK, FLOOR = 3e-3, 1e-4


def _rates(learning_rate: Any, warmup: int, total: int, steps: int | None = None) -> list[float]:
    plan = {"peak": PEAK, "warmup_steps": warmup, "total_steps": total, "floor": FLOOR}
    return [learning_rate(step, **plan) for step in range(total if steps is None else steps)]


def warms_up_in_equal_steps(learning_rate: Any) -> str:
    """peak (step + 1) / warmup_steps: not 0 at the first step, exactly peak at the last, and then peak for good."""
    for w in (1, 2, 3, 7, 49):
        rates = [learning_rate(step, peak=PEAK, warmup_steps=w) for step in range(w + 20)]
        exact = np.minimum((np.arange(w + 20, dtype=ORACLE) + 1) / w, 1) * ORACLE(PEAK)
        wrong = differs(f"warm-up of {w}", np.array(rates), exact, 2 * 2.0**-53 * exact)
        if wrong or rates[w - 1 :] != [PEAK] * 21:
            return wrong or f"a warm-up of {w} does not end at exactly peak"
    return "" if learning_rate(0, peak=PEAK) == PEAK else "without a warm-up the first rate is not peak"


def falls_from_exactly_peak_to_exactly_floor(learning_rate: Any) -> str:
    """peak at the last step of the warm-up, floor at the last of all and ever after, and never up in between."""
    for w, total in PLANS:
        rates = _rates(learning_rate, w, total, total + 30)
        top = max(w - 1, 0)
        if rates[top] != PEAK or set(rates[total - 1 :]) != {FLOOR}:
            return f"{w} of {total}: {rates[top]} at the top, up to {max(rates[total - 1 :])} at the end"
        if any(later > earlier for earlier, later in zip(rates[top:], rates[top + 1 :], strict=False)):
            return f"{w} of {total}: the rate rises again"
    return ""


def falls_along_half_a_cosine(learning_rate: Any) -> str:
    """floor + (peak - floor) cos^2(pi x / 2): the other form of the equation."""
    pi = 4 * np.arctan(ORACLE(1))
    for w, total in PLANS:
        top = max(w - 1, 0)
        x = np.arange(total - top, dtype=ORACLE) / (total - 1 - top)
        exact = FLOOR + (ORACLE(PEAK) - ORACLE(FLOOR)) * np.cos(pi * x / 2) ** 2
        # The angle, at most pi, is rounded three times and the cosine's slope is at most 1; five more roundings.
        wrong = differs(f"{w} of {total}", np.array(_rates(learning_rate, w, total)[top:]), exact, 15 * 2.0**-53 * PEAK)
        if wrong:
            return wrong
    return ""


def is_peak_when_the_warm_up_is_all_there_is(learning_rate: Any) -> str:
    for w, total in ((0, 1), (1, 1), (6, 6)):
        rates = _rates(learning_rate, w, total)
        if rates[-1] != PEAK:
            return f"{w} of {total}: the last rate is {rates[-1]}"
    return ""


def _wrong_plans() -> Iterator[tuple[str, type[Exception], dict[str, Any]]]:
    numbers: list[tuple[str, Any, type[Exception]]] = [
        *((name, -1, ValueError) for name in ("step", "warmup_steps", "total_steps")),
        *((name, x, TypeError) for name in ("step", "warmup_steps", "total_steps") for x in (1.0, "1", True)),
        *((name, x, ValueError) for name in ("peak", "floor") for x in (-1e-3, math.nan, math.inf)),
        *((name, "1", TypeError) for name in ("peak", "floor")),
        ("step", None, TypeError),
        ("warmup_steps", None, TypeError),
        ("total_steps", 0, ValueError),
        ("total_steps", 3, ValueError),
        ("floor", 2.0, ValueError),
    ]
    for name, value, error in numbers:
        yield name, error, {"step": 2, "peak": 1.0, "warmup_steps": 4, "total_steps": 9, "floor": 0.1, name: value}


def refuses_what_is_no_plan(learning_rate: Any) -> str:
    return first(
        _refused(f"{name} = {plan[name]!r}", name, error, partial(learning_rate, **plan))
        for name, error, plan in _wrong_plans()
    )


PARTS: dict[str, tuple[Law, ...]] = {
    "learning_rate": told(
        warms_up_in_equal_steps,
        falls_from_exactly_peak_to_exactly_floor,
        falls_along_half_a_cosine,
        is_peak_when_the_warm_up_is_all_there_is,
        refuses_what_is_no_plan,
    ),
}
