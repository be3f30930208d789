"""Agreement: element by element, |got - exact| <= E. No tolerance is ever picked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Bounded, Precision
from equivalence_tests.digits import side_by_side
from equivalence_tests.implementations import Answer, Tensor


@dataclass(frozen=True)
class Judgement:
    """One tensor of one case.

    `wrong` is empty, or says what is wrong. `share` is the largest |got - exact| / E. `units` is the largest error, and
    `condition` the largest budget, in units of roundoff of the tensor's scale, u max|exact|. `ill` marks a budget above
    sqrt(u) of that scale: too loose to speak of agreement. `tolerated` is empty, or the code of a finding: the ordinary
    budget is exceeded, and a wider one kept, of implementations that lose digits in a known way.
    """

    wrong: str
    share: float = 0.0
    units: float = 0.0
    condition: float = 0.0
    ill: bool = False
    tolerated: str = ""


STORED_LOG_SUM_EXP = "stored_log_sum_exp"  # the code of what `wider` tolerates


def judge(
    answer: Answer,
    exact: dict[str, Bounded],
    precision: Precision,
    wider: Callable[[], dict[str, Bounded]] | None = None,
) -> dict[str, Judgement]:
    """Each tensor that should be there, and each that should not.

    `wider` makes the same values with the wider budget. It is asked for only where the ordinary one is exceeded, and tells
    what is said of a tensor that keeps it.
    """
    verdicts = _judge(answer, exact, precision)
    if wider is None or not any(verdict.wrong for verdict in verdicts.values()):
        return verdicts
    again = _judge(answer, wider(), precision)
    return {
        name: replace(again[name], tolerated="" if again[name].wrong else STORED_LOG_SUM_EXP)
        if verdict.wrong
        else verdict
        for name, verdict in verdicts.items()
    }


def _judge(answer: Answer, exact: dict[str, Bounded], precision: Precision) -> dict[str, Judgement]:
    verdicts = {}
    for name, truth in exact.items():
        got = answer.get(name)
        verdicts[name] = Judgement(f"{name} is missing") if got is None else judge_tensor(name, got, truth, precision)
    for name in answer.keys() - exact.keys():
        verdicts[name] = Judgement(f"{name} is there, but nobody asked for it")
    return verdicts


def judge_tensor(name: str, got: Tensor, truth: Bounded, precision: Precision) -> Judgement:
    """dtype first, then shape, then the pattern of what is not finite, and only then the values."""
    if got.dtype != precision.name:
        return Judgement(f"{name} has dtype {got.dtype}, expected {precision.name}")
    if got.value.shape != truth.value.shape:
        return Judgement(f"{name} has shape {got.value.shape}, expected {truth.value.shape}")
    if truth.value.size == 0:
        return Judgement("")
    exact, budget = truth.value, truth.budget()
    finite = np.isfinite(exact)
    value = got.value.astype(ORACLE)
    masked = np.isneginf(exact) & (budget == 0)  # exactly -inf, where nobody may look
    if not np.isneginf(value[masked]).all():
        return Judgement(f"{name} is not -inf where it should be")
    promised = finite & np.isfinite(budget)
    if not np.isfinite(value[promised]).all():
        return Judgement(f"{name} holds {got.value[promised & ~np.isfinite(value)].flat[0]} where a number should be")
    distance = np.where(promised, np.abs(np.where(promised, value - np.where(finite, exact, 0), 0)), 0).astype(
        np.float64
    )
    share = np.where(promised, distance / np.where(promised & (budget > 0), budget, 1.0), 0.0)
    share = np.where(promised & (budget == 0) & (distance > 0), np.inf, share)
    scale = float(np.abs(exact[finite]).max(initial=0.0))
    loose = float(np.where(masked, 0.0, budget).max())
    units, condition = (
        x / scale / precision.unit if scale > precision.tiny else 0.0 for x in (float(distance.max()), loose)
    )
    ill = loose > math.sqrt(precision.unit) * scale and (scale > 0 or not finite.all())
    worst = float(share.max())
    if worst > 1.0:
        at = np.unravel_index(int(share.argmax()), share.shape)
        where = f"[{', '.join(str(int(i)) for i in at)}]" if at else ""
        came, expected = side_by_side(float(value[at]), float(exact[at]), digits=9)
        text = f"{name}{where} is {came}, expected {expected} within {float(budget[at]):.2g}"
        return Judgement(f"{text} ({worst:.3g} times the budget)", worst, units, condition, ill)
    return Judgement("", worst, units, condition, ill)
