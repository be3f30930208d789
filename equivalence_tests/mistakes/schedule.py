"""Mistakes in the learning rate's schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import optimizer


def rate_with(
    warm: Callable[[int, int], float] = lambda step, warmup: (step + 1) / warmup,
    place: Callable[[int, int, int], float] = lambda step, top, total: (step - top) / max(total - 1 - top, 1),
    between: Callable[[float, float, float], float] = lambda share, peak, floor: peak * share + floor * (1.0 - share),
    beyond: float = 1.0,
) -> Callable[..., Any]:
    def learning_rate(
        step: int, *, peak: float, warmup_steps: int = 0, total_steps: int | None = None, floor: float = 0.0
    ) -> float:
        plan = {"peak": peak, "warmup_steps": warmup_steps, "total_steps": total_steps, "floor": floor}
        right = optimizer.learning_rate(step, **plan)  # type: ignore[arg-type]
        top = max(warmup_steps - 1, 0)
        if step < warmup_steps:
            return peak * warm(step, warmup_steps)
        if total_steps is None or step == top:
            return right
        x = min(place(step, top, total_steps), beyond)
        return between((1.0 + math.cos(math.pi * x)) / 2.0, peak, floor)

    return learning_rate


def _right_before_top(step: int, warmup: int) -> float:
    return step / warmup  # wrong: the first update does nothing, and peak comes a step late


def _cosine_from_the_first_step(step: int, top: int, total: int) -> float:
    return step / max(total - 1, 1)  # wrong: a jump down where the warm-up ends


def _cosine_one_step_short(step: int, top: int, total: int) -> float:
    return (step - top) / (total - top)  # wrong: floor is never reached


def _whole_cosine(step: int, top: int, total: int) -> float:
    return 2.0 * (step - top) / max(total - 1 - top, 1)  # wrong: down, and up again


def _floor_cut_off(share: float, peak: float, floor: float) -> float:
    return max(peak * share, floor)  # wrong: cuts the curve off instead of ending it there


def _floor_on_top(share: float, peak: float, floor: float) -> float:
    return floor + peak * share  # wrong: peak is passed


def _straight(share: float, peak: float, floor: float) -> float:
    return floor + (peak - floor) * (1.0 - math.acos(2.0 * share - 1.0) / math.pi)  # wrong: a line, no cosine


def _of(id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any) -> Mistake:
    return Mistake(id, "learning_rate", sentence, hidden_on, shown_by, forward)


MISTAKES = (
    _of("O29", "The warm-up begins at 0.", "no warm-up", "the first step", rate_with(_right_before_top)),
    _of(
        "O30",
        "The cosine counts from the first step.",
        "no warm-up",
        "the first step after the warm-up",
        rate_with(place=_cosine_from_the_first_step),
    ),
    _of(
        "O31", "The last step is not at floor.", "many steps", "the last step", rate_with(place=_cosine_one_step_short)
    ),
    _of("O32", "A whole cosine.", "the first quarter", "the last step", rate_with(place=_whole_cosine)),
    _of("O33", "floor cuts the cosine off.", "floor = 0", "any other floor", rate_with(between=_floor_cut_off)),
    _of("O34", "floor is added.", "floor = 0", "any other floor", rate_with(between=_floor_on_top)),
    _of("O35", "A line for the cosine.", "the ends and the middle", "a quarter", rate_with(between=_straight)),
    _of("O36", "The rate rises after the last step.", "steps of the plan", "one more", rate_with(beyond=math.inf)),
)
