"""Whether what an implementation answered is what a hypothesis says, rounding apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array, Precision
from equivalence_tests.cases import Case
from equivalence_tests.observe import Observation

BUDGETS = 4.0  # the candidate's rounding and the hypothesis' own, each twice, since a wrong formula has no budget
STRETCH = 64.0  # how much wider the budget of a tensor may become because it is wrongly larger
OWN = 32.0  # units of the largest entry of a row
SPREADS = 8.0  # what two precisions differ by is one draw of the rounding; DESIGN's measured budget has the same 8
Answered = Mapping[str, Array] | None  # by a hypothesis; None where it raises


@dataclass(frozen=True)
class Tensor:
    """One tensor of one case in float64: what was answered, the exact values with their budget, where it counts."""

    got: Array | None
    exact: Array
    budget: Array
    counted: Array  # where something is promised
    wrong: bool


@dataclass(frozen=True, eq=False)
class Seen:
    """An observation, made ready to be compared with hundreds of hypotheses."""

    observation: Observation

    @property
    def case(self) -> Case:
        return self.observation.case

    @property
    def precision(self) -> Precision:
        return PRECISIONS[self.observation.dtype]

    @property
    def raised(self) -> bool:
        return self.observation.answer is None

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        found = {}
        for name, truth in self.observation.exact.items():
            answered = (self.observation.answer or {}).get(name)
            exact = np.asarray(truth.value, np.float64)
            budget = np.asarray(truth.budget(), np.float64)
            counted = ~np.isfinite(exact) | np.isfinite(budget)
            got = None if answered is None else np.asarray(answered.value, np.float64)
            verdict = self.observation.verdicts.get(name)
            found[name] = Tensor(got, exact, budget, counted, bool(verdict and verdict.wrong))
        return found

    def wrong(self, names: Sequence[str]) -> set[str]:
        return {name for name in names if name in self.tensors and self.tensors[name].wrong}

    def is_as(self, name: str, said: Array, spread: Array | None = None) -> bool:
        """Whether the candidate's tensor is what a hypothesis says, which errs by `spread` where it was measured."""
        tensor = self.tensors[name]
        return tensor.got is not None and self._same(tensor, tensor.got, said, spread, STRETCH)

    def leaves(self, name: str, said: Array, spread: Array | None = None) -> bool:
        """Whether a hypothesis leaves a tensor as it should be."""
        tensor = self.tensors[name]
        return self._same(tensor, tensor.exact, said, spread, 1.0)

    def _same(self, tensor: Tensor, got: Array, said: Array, spread: Array | None, most: float) -> bool:
        """Equal in shape and in what is not finite; the values within a few budgets, or to half of the digits of the error.

        A wrong formula has no budget of its own: the right one's is stretched by as much as its values are larger, and
        where it was measured the spread counts too. Where nothing is promised, nothing is compared.
        """
        if got.shape != said.shape:
            return False
        largest, unit = self.precision.largest, self.precision.unit
        said = np.where(np.abs(said) > largest, np.copysign(np.inf, said), said)
        finite = np.isfinite(said)
        both = np.isfinite(got) & finite
        scale = float(np.abs(said[finite]).max(initial=0.0))
        error = 0.0
        if tensor.exact.shape == got.shape:
            counted = tensor.counted
            exact = float(np.abs(tensor.exact[finite & np.isfinite(tensor.exact)]).max(initial=0.0))
            budget = BUDGETS * min(max(1.0, scale / max(exact, self.precision.tiny)), most) * tensor.budget
            apart = np.abs(got - tensor.exact)[both & counted & np.isfinite(tensor.exact)]
            error = float(apart.max(initial=0.0))
        else:
            counted, budget = np.ones(got.shape, bool), np.full(got.shape, BUDGETS * said.size * unit * scale)
        odd = ~both & counted
        if odd.any() and not np.array_equal(got[odd], said[odd], equal_nan=True):
            return False
        if said.ndim and most > 1.0:  # what is wrong rounds at its own size, whatever the right value beside it
            sizes = np.abs(np.where(finite, said, 0.0)).max(-1, keepdims=True, initial=0.0)
            budget = budget + OWN * unit * sizes
        if spread is not None:
            budget = budget + SPREADS * spread
        compared = both & counted
        distance = np.abs(got - said)[compared]
        if bool((distance <= budget[compared]).all()):
            return True
        return float(distance.max(initial=0.0)) <= math.sqrt(unit) * error


def spread_of(one: Answered, other: Answered) -> dict[str, Array]:
    """What two precisions of one formula differ by, the largest of each row: one draw of how it rounds."""
    if one is None or other is None:
        return {}
    found = {}
    for name, x in one.items():
        y = other.get(name)
        if y is None or y.shape != x.shape:
            continue
        apart = np.abs(np.asarray(x, np.longdouble) - np.asarray(y, np.longdouble)).astype(np.float64)
        apart = np.where(np.isfinite(apart), apart, 0.0)
        found[name] = np.broadcast_to(apart.max(-1, keepdims=True), apart.shape) if apart.ndim else apart
    return found


def fits(said: Answered, seen: Seen, names: Sequence[str], spread: Mapping[str, Array] | None = None) -> Any:
    """Which tensors of a case a hypothesis explains, or None if the case speaks against it.

    What the hypothesis changes must be as the candidate has it; what it leaves alone may be wrong for another reason.
    """
    if seen.raised:  # for whatever reason: it speaks for a hypothesis that raises, and against none
        return {"raised"} if said is None else set()
    if said is None:
        return None
    explained = set()
    for name in names:
        if name not in seen.tensors or name not in said:
            continue
        width = (spread or {}).get(name)
        if seen.leaves(name, said[name], width):
            if seen.tensors[name].wrong or seen.is_as(name, said[name], width):
                continue
            return None
        if not seen.is_as(name, said[name], width):
            return None
        explained.add(name)
    return explained
