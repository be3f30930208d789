"""A candidate asked for in plain data: what the worker of a check and the script of a counterexample are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from equivalence_tests.candidate import Candidate, Convention, adapt
from equivalence_tests.conventions import MAKERS, of_codes, under
from equivalence_tests.findings import Finding
from equivalence_tests.loading import load_function


@dataclass(frozen=True)
class Request:
    """`spec` is FILE.py:NAME or package.module:NAME, or, with `command`, the words of a program of any language."""

    spec: str
    like: str
    backward: str | None = None
    command: bool = False
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    device: str = "cpu"
    layout: str = "any"
    mask_true: str = "keeps"
    lead: int | None = None
    limit: float = 10.0
    conventions: tuple[
        tuple[str, dict[str, Any]], ...
    ] = ()  # other ones that it was seen to follow, by name and numbers

    def candidate(self) -> Candidate:
        """ValueError, one line, if there is no such candidate."""
        return self.applied(self._found())

    def applied(self, found: Candidate) -> Candidate:
        """A candidate, judged under the conventions of this request."""
        return under(found, of_codes(found, self.conventions)) if self.conventions else found

    def following(self, conventions: Sequence[Finding]) -> Request:
        """The same candidate, judged under the conventions of a report."""
        told = [(each.numbers["accept"], each.numbers) for each in conventions]
        return replace(self, conventions=tuple(each for each in told if each[0] in MAKERS))

    def _found(self) -> Candidate:
        if self.command:
            from equivalence_tests.files import command_candidate

            return command_candidate(self.spec, self.like, self.options, self.limit)
        return adapt(
            load_function(self.spec),
            self.like,
            backward=load_function(self.backward) if self.backward else None,
            label=self.spec,
            device=self.device,
            convention=Convention(self.layout, self.mask_true, self.lead),
            without=self.without,
        )

    def from_anywhere(self) -> dict[str, Any]:
        """What differs from the defaults, with files by their absolute paths."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told |= {name: absolute(told[name]) for name in ("spec", "backward") if told[name] and not self.command}
        defaults = asdict(Request("", ""))
        return {name: value for name, value in told.items() if value != defaults[name]}


def absolute(spec: str) -> str:
    where, _, name = spec.rpartition(":")
    return f"{Path(where).resolve()}:{name}" if where.endswith(".py") else spec
