"""The report of a part: its verdict, a row for each property, and the findings, the name first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from equivalence_tests.findings import Finding
from equivalence_tests.part_words import LAWS_ES
from equivalence_tests.parts.outside.naming import Match, finding_of
from equivalence_tests.report import Property, Report


@dataclass
class Judged:
    """What was seen: how many questions each property had and how many were wrong, and what was assumed.

    `faults` are findings that make it wrong, `edges` names of laws at whose edge it differs.
    """

    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    faults: list[Finding] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    not_asked: tuple[str, ...] = ()
    cases: int = 0

    def count(self, law: str, wrong: bool) -> None:
        cases, before = self.rows.get(law, (0, 0))
        self.rows[law] = (cases + 1, before + wrong)


def law_finding(code: str, law: str) -> Finding:
    words = law.replace("_", " ")
    return Finding(code, numbers={"law": words, "law_es": LAWS_ES.get(law, words)})


def report_of(
    label: str,
    like: str,
    judged: Judged,
    found: Sequence[Match],
    conventions: Sequence[Match],
    seconds: float,
    framework: str = "numpy",
) -> Report:
    """Wrong with the name first; or it agrees, and what is only another convention stands among the notes."""
    findings: list[Finding] = []
    notes = list(judged.notes)
    if judged.faults and not conventions:
        findings = [*([finding_of(found)] if found else []), *judged.faults]
    elif conventions:
        notes.insert(0, finding_of(conventions, "part_convention"))
    elif judged.edges:
        notes += [law_finding("part_edge", law) for law in judged.edges]
    return Report(
        candidate=label,
        like=like,
        kind="part",
        framework=framework,
        verdict="wrong" if findings else "agrees",
        cases=judged.cases,
        rows=tuple(_rows(judged.rows)),
        findings=tuple(findings),
        notes=tuple(notes),
        not_checked=judged.not_asked,
        seconds=seconds,
    )


def _rows(rows: Mapping[str, tuple[int, int]]) -> list[Property]:
    return [Property(law.replace("_", " "), cases, wrong) for law, (cases, wrong) in rows.items()]


def noted(codes: Mapping[str, dict[str, Any]]) -> list[Finding]:
    return [Finding(code, numbers=dict(numbers)) for code, numbers in codes.items()]
