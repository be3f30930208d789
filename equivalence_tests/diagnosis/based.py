"""A second mistake beside one that is found: the candidate held against the formula that has the first one already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.close import BUDGETS, OWN, STRETCH, Seen, Tensor
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis
from equivalence_tests.diagnosis.plain import Native, Plain, evaluate
from equivalence_tests.ops import Op
from equivalence_tests.stages import Stages

CaseChange = Callable[[Case], Case] | None


class _Beneath(Editing):
    """What the edits of the first mistake see: the lines so far, and the right formula without them."""

    def __init__(self, op: Op, inside: Editing) -> None:
        super().__init__(op, inside.case)
        self.lines = inside.lines


class _Through(Stages):
    """The edits of the first mistake, and then whatever the stages inside do."""

    edited = True

    def __init__(self, op: Op, inside: Editing, edits: Sequence[Edit]) -> None:
        self.inside, self.beneath = inside, _Beneath(op, inside)
        self.edits: dict[tuple[str, str], list[Edit]] = {}
        for edit in edits:
            self.edits.setdefault((edit.of, edit.slot), []).append(edit)

    def given(self, numbers: dict[str, Any]) -> None:
        self.inside.given(numbers)

    def forward(self) -> None:
        self.inside.forward()

    def backward(self) -> None:
        self.inside.backward()

    def __call__(self, of: str, value: Any) -> Any:
        return self.inside(of, self._changed(of, "", value))

    def use(self, of: str, slot: str, value: Any) -> Any:
        return self.inside.use(of, slot, self._changed(of, slot, value))

    def _changed(self, of: str, slot: str, value: Any) -> Any:
        for edit in self.edits.get((of, slot), ()):
            value = edit.change(value, self.beneath)
        return value


def with_edits(op: Op, first: Hypothesis) -> Op:
    """The op whose formula has the edits of a hypothesis."""

    def formula(*, stage: Editing, **numbers: Any) -> Any:
        return op.formula(**numbers, stage=_Through(op, stage, first.edits))

    return replace(op, formula=formula)


@dataclass(frozen=True, eq=False)
class Based(Seen):
    """An observation judged by a formula that has a first mistake: what is wrong is what that one does not explain."""

    op: Op
    change: CaseChange
    native: bool = False

    @cached_property
    def case(self) -> Case:
        case = self.observation.case
        return self.change(case) if self.change else case

    @cached_property
    def said(self) -> dict[str, Array] | None:
        """What the formula with the first mistake answers; None where it raises."""
        try:
            kind = Native if self.native else Plain
            return evaluate(self.op, self.case, self.precision, Editing(self.op, self.case), kind)
        except (ValueError, IndexError, TypeError, KeyError, AttributeError, ZeroDivisionError):
            return None

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        seen, said = Seen(self.observation), self.said or {}
        return {name: self._judged(seen, name, said.get(name)) for name in seen.tensors}

    def _judged(self, seen: Seen, name: str, said: Array | None) -> Tensor:
        tensor = seen.tensors[name]
        if said is None or said.shape != tensor.exact.shape:
            return tensor
        said = np.asarray(said, np.float64)
        sizes, right = (float(np.abs(x[np.isfinite(x)]).max(initial=0.0)) for x in (said, tensor.exact))
        stretch = BUDGETS * min(max(1.0, sizes / max(right, self.precision.tiny)), STRETCH)
        budget = stretch * tensor.budget + OWN * self.precision.unit * sizes
        return Tensor(tensor.got, said, budget, tensor.counted, not seen.is_as(name, said))


def based(op: Op, seen: Sequence[Seen], *found: Hypothesis) -> tuple[Op, list[Seen]] | None:
    """The op and the observations, with mistakes that are found in the formula and in what it reads; None if it raises."""
    left = list(seen)
    for first in found:
        op = with_edits(op, first)
        change = _after(left[0].change if isinstance(left[0], Based) else None, first.case)
        native = first.native or (isinstance(left[0], Based) and left[0].native)
        left = [Based(each.observation, op, change, native) for each in left]
    if any(isinstance(each, Based) and not each.raised and each.said is None for each in left):
        return None
    return op, left


def _after(one: CaseChange, other: CaseChange) -> CaseChange:
    if one is None or other is None:
        return one or other
    return lambda case: other(one(case))
