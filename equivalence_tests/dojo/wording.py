"""What the kit found, in names that a learner has read: those of the kata's formula and of the answer's arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.candidate import Candidate
from equivalence_tests.dojo.sources import Text
from equivalence_tests.findings import Finding

UNUSED = " * Z"  # how the formula writes dropout, in lines of ops whose kata has none


def in_the_learners_words(candidate: Candidate, findings: Sequence[Finding], formula: Text) -> list[Finding]:
    """The findings without names that stand in nothing that the learner has read."""
    found = []
    for each in findings:
        if each.code == "known_mistake" and not _read(candidate, each.stage, formula):
            each = replace(each, stage="")
        if "keep" in candidate.not_checked:
            numbers = {k: v.replace(UNUSED, "") if isinstance(v, str) else v for k, v in each.numbers.items()}
            each = replace(each, stage=each.stage.replace(UNUSED, ""), numbers=numbers)
            if each.code == "wrong_operand" and numbers["got"] == numbers["term"]:
                continue
        found.append(_with_others(each))
    return found


def _read(candidate: Candidate, name: str, formula: Text) -> bool:
    """Whether a name is an argument of the learner's function, or stands in an equation of the kata's formula."""
    lines = [line for text in formula.values() for line in text.splitlines() if "=" in line]
    return name in candidate.plan.names.values() or any(_stands(name, line) for line in lines)


def _stands(name: str, text: str) -> bool:
    """Whether a name, or an expression, stands in a text, whatever blanks are in it."""
    pattern = r"\s*".join(re.escape(part) for part in name.split())
    return bool(name) and re.search(rf"(?<!\w){pattern}(?!\w)", text) is not None


def _with_others(finding: Finding) -> Finding:
    """A known mistake beside those that answer every case as it does: it may be any of them."""
    if not finding.numbers.get("others"):
        return finding
    from equivalence_tests.mistakes import MISTAKES
    from equivalence_tests.mistakes.spanish import SPANISH

    others = finding.numbers["others"]
    also = {"en": [MISTAKES[each].sentence.rstrip(".") for each in others]}
    also["es"] = [SPANISH[each].rstrip(".") for each in others]
    return replace(finding, numbers=finding.numbers | {"also": also})


def plain_numbers(finding: Finding) -> Finding:
    """The same finding with numbers that JSON knows."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, tuple | list):
            return [plain(each) for each in value]
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        return value if value is None or isinstance(value, bool | int | float | str) else str(value)

    numbers = {name: str(v) if isinstance(v, tuple) else plain(v) for name, v in finding.numbers.items()}
    return Finding(finding.code, finding.tensor, finding.stage, numbers, finding.sure)


# Codes that say in which tensor it shows, and not in which line it happens; a known mistake has a sentence of its own.
UNPLACED = ("known_mistake", "worst_element", "wrong_values", "accuracy", "hard_only", "only_with", "nonfinite")


def line_for(finding: Finding, formula: Text) -> Text:
    """The line of the formula that speaks of the finding's stage, else of its tensor.

    The line that computes the stage comes first; mean(X) may stand on the right side of another.
    """
    if finding.code in UNPLACED:
        return {}
    found = {}
    for language, text in formula.items():
        lines = [line.strip() for line in text.splitlines() if "=" in line]
        named = [line for name in (finding.stage, finding.tensor) for line in _lines_with(name, lines)]
        if named:
            found[language] = named[0]
    return found


def _lines_with(name: str, lines: Sequence[str]) -> list[str]:
    left = [line for line in lines if _stands(name, line.split("=")[0])]
    expression = [] if name.isidentifier() else [line for line in lines if _stands(name, line)]
    return left or expression
