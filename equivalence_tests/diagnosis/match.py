"""A hypothesis held against every case that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.editing import Hypothesis
from equivalence_tests.ops import Op

# A hypothesis that explains less than half of the cases in which its tensors are wrong explains nothing.
ODD = 0.2  # the share of the wrong cases, all of them extreme, in which a hypothesis may not fit


@dataclass(frozen=True)
class Match:
    """A hypothesis that fits every case seen, the tensors that it explains, and in how many cases."""

    hypothesis: Hypothesis
    tensors: frozenset[str]
    cases: int
    of: int  # cases in which something is wrong
    also: tuple[Match, ...] = ()  # a second mistake, without which this one explains nothing

    @property
    def rank(self) -> tuple[Any, ...]:
        return (-self.cases, -len(self.tensors), self.hypothesis.cost, -self.hypothesis.order)


def confirmed(hypothesis: Hypothesis, op: Op, seen: Sequence[Seen], names: Sequence[str]) -> Match | None:
    """Whether a hypothesis fits: all cases, but for a few extreme ones, where the two may have rounded otherwise."""
    tensors: set[str] = set()
    cases = odd = 0
    wrong = sum(bool(each.wrong(names)) for each in seen)
    for each in seen:
        explained = hypothesis.explains(op, each, names)
        if explained is None:
            odd += 1
            if not each.case.hard or odd > ODD * wrong:
                return None
            continue
        tensors |= explained
        cases += bool(each.wrong(tuple(explained)))
    tensors.discard("raised")
    of = sum(bool(each.wrong(tuple(tensors))) for each in seen)
    return Match(hypothesis, frozenset(tensors), cases, of) if 2 * cases >= of > 0 else None
