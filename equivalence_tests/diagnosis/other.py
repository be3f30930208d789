"""Something that may stand in a formula in the place of something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from equivalence_tests.diagnosis.editing import Editing

Change = Callable[[Any, Editing], Any]  # what stands there, the stages -> what stands there instead


@dataclass(frozen=True)
class Other:
    """Something else in its place: `of(what stands there, stages)` gives it."""

    code: str
    of: Change
    numbers: dict[str, Any] = field(default_factory=dict)
    cost: float = 2.0
    native: bool = False
    stage: str = ""


def instead(
    code: str, function: Any, cost: float = 2.0, native: bool = False, stage: str = "", **numbers: Any
) -> Other:
    return Other(code, lambda _, __: function, numbers, cost, native, stage)
