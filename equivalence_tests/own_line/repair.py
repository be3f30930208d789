"""A statement that another value would mend, and how likely the mistake is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from equivalence_tests.own_line.matching import Match
from equivalence_tests.own_line.places import Place
from equivalence_tests.own_line.recording import Key
from equivalence_tests.own_line.right import BLEND, LINE

Put = Callable[[Any, int], Any]  # what stands in the place of a value, and how often there was one before


@dataclass(frozen=True)
class Repair:
    """A statement's value that would have to be another: `name` is what belongs there, `was` what stands there.

    `edit` is a small change of the statement that gives it, `cost` how small.
    """

    key: Key
    name: str
    rank: int
    was: Match | None
    put: Put
    edit: str = ""
    cost: float = 2.0

    @property
    def belongs(self) -> str:
        """What is told: the changed statement where there is one, else the line of the formula."""
        return self.edit or self.name

    def score(self, place: Place, judged: Sequence[str]) -> float:
        """The lower, the likelier it is that the mistake is here and not in a line before or behind it.

        What stands there may be as good a line as what belongs there: then a line behind it may have left something out.
        A line that is called dOmega and holds dS is a likely one, and one that holds what it is called is not. That an
        answer would be right if it were right tells nothing.
        """
        found = self.cost
        if rank_of(self.was) <= self.rank:
            found += 0.25 if self.edit else 1.5
        if self.was is not None and rank_of(self.was) == LINE:
            called = _letters(place.name)
            found -= 0.5 * (self.rank == LINE and called == _letters(self.name))
            found += 1.0 * (called == _letters(self.was.name))
        if self.name in judged and not self.edit:
            found += 0.3
        return found


def _letters(name: str) -> str:
    return "".join(x for x in name.rpartition(".")[2].lower() if x.isalnum())


def rank_of(match: Match | None) -> int:
    return BLEND + 1 if match is None else match.right.rank if match.factor == 1.0 else BLEND
