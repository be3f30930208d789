"""What the laws say, row by row."""

from __future__ import annotations

from dataclasses import dataclass

from equivalence_tests.findings import Finding
from equivalence_tests.report import Property, Report

# The weakest evidence of a wrong gradient comes last: the adjoint identity says that one is wrong, not which.
ORDER = (
    "gradient_factor",
    "gradient_of_another",
    "gradient_transposed",
    "gradient_not_summed",
    "gradient_of_a_part",
    "gradient_plus_term",
    "gradient_differs",
    "not_linear",
    "not_adjoint",
    "wrong_dtype",
)
GRADIENT = "gradient of "  # begins the name of a gradient's row


@dataclass(frozen=True)
class Row:
    """A law, in how many of how many cases it could be judged, and what broke it first."""

    name: str
    judged: int
    of: int
    finding: Finding | None = None

    @property
    def enough(self) -> bool:
        """Whether at least half of the cases were judged."""
        return self.judged > 0 and 2 * self.judged >= self.of

    def say(self, language: str = "en") -> str:
        if self.finding is not None:
            said = self.finding.say(language)
            return f"WRONG  {said}" if said.startswith(self.name) else f"WRONG  {self.name}: {said}"
        return f"{'ok' if self.judged else '-':<6} {self.name}: {self.judged} of {self.of} cases"


@dataclass(frozen=True)
class LawsReport:
    """Every law as a row, what could not be checked, and notes. Passed: nothing broke, and each gradient was judged in at
    least half of the cases."""

    rows: tuple[Row, ...]
    not_checked: tuple[str, ...] = ()
    witness: str = ""
    notes: tuple[Finding, ...] = ()
    reason: Finding | None = None  # why nothing could be judged

    @property
    def findings(self) -> list[Finding]:
        return [row.finding for row in self.rows if row.finding is not None]

    @property
    def gradients(self) -> dict[str, Row]:
        """The rows of the gradients, by tensor."""
        return {f"d{row.name.removeprefix(GRADIENT)}": row for row in self.rows if row.name.startswith(GRADIENT)}

    @property
    def judged(self) -> bool:
        """Whether every gradient could be held against its forward in at least half of the cases."""
        return bool(self.gradients) and all(row.enough for row in self.gradients.values())

    @property
    def passed(self) -> bool:
        return self.judged and not self.findings

    def as_report(self, candidate: str) -> Report:
        """The same as the report of a check against the table, where there is no table to be like."""
        verdict = "wrong" if self.findings else "agrees" if self.judged else "not judged"
        rows = tuple(
            Property(row.name, row.judged, int(row.finding is not None), row.finding.say() if row.finding else "")
            for row in self.rows
        )
        first = sorted(self.findings, key=lambda finding: ORDER.index(finding.code) if finding.code in ORDER else -1)
        if verdict == "not judged":
            first = [
                Finding("few_slopes", tensor, numbers={"judged": row.judged, "of": row.of})
                for tensor, row in self.gradients.items()
                if not row.enough
            ]
            first = [self.reason] if self.reason is not None else first
        return Report(
            candidate=candidate,
            like="",
            kind="",
            framework=self.witness,
            verdict=verdict,
            cases=max((row.of for row in self.rows), default=0),
            rows=rows,
            findings=tuple(first),
            notes=self.notes,
            not_checked=self.not_checked,
            judged={tensor: (row.judged, row.of) for tensor, row in self.gradients.items()},
        )

    def say(self, language: str = "en") -> str:
        lines = [row.say(language) for row in self.rows]
        lines += [f"-      not checked: {what}" for what in self.not_checked]
        lines += [f"-      {self.reason.say(language)}"] if self.reason is not None else []
        return "\n".join(lines + ([f"       gradients against {self.witness}"] if self.witness else []))

    def __str__(self) -> str:
        return self.say()
