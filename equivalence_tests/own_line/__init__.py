"""The line of the user's own file in which the mistake is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.findings import Finding
from equivalence_tests.own_line.matching import Match, Matcher
from equivalence_tests.own_line.places import Place, files_of, instrumented
from equivalence_tests.own_line.recording import Hook, Key, Runs, TooMuch, Trail
from equivalence_tests.own_line.repairing import Rights, search
from equivalence_tests.own_line.right import blends, constants, lines, styles

SECONDS = 3.0


@dataclass(frozen=True)
class OwnLine:
    file: str
    line: int
    text: str
    code: str
    explained: tuple[tuple[str, int], ...] = ()
    belongs: str = ""
    stands: str = ""
    sure: bool = True

    def finding(self) -> Finding:
        agree = ", ".join(f"{name} ({line})" for name, line in self.explained)
        numbers = {"file": self.file, "line": self.line, "text": self.text, "agree": agree, "belongs": self.belongs, "stands": self.stands}
        return Finding(self.code, numbers=numbers, sure=self.sure)


def place(functions: Sequence[Any], candidate: Candidate, cases: Sequence[tuple[Case, str]], seconds: float = SECONDS, told: Any = None) -> OwnLine | None:
    files = files_of(functions)
    if not files or not cases:
        return None
    hook = Hook()
    with instrumented(files, hook) as places:
        hook.places = places
        for case, dtype in cases:
            runs = Runs(candidate, case, dtype, hook, time.monotonic() + seconds)
            found = _searched(runs, places, told)
            if found:
                return found
    return None


def _searched(runs: Runs, places: list[Place], told: Any) -> OwnLine | None:
    op, case = runs.candidate.row, runs.case
    try:
        answer, trails = runs.record()
    except TooMuch:
        return None
    if answer is None or not runs.wrong(answer) or not trails:
        return None
    known = lines(op, case)
    known += styles(op, case, known)
    mixed = list(blends(known))
    matcher = Matcher([*known, *mixed], runs.dtype)
    was: dict[Key, Match | None] = {}
    for key, trail in trails.items():
        value = trail.stacked()
        was[key] = matcher.match(value) if value is not None else None
        if was[key] is None and len(trail.values) > 1:
            was[key] = matcher.match(trail.values[-1])
    repairs = search(runs, places, trails, was, Rights(known, mixed, constants(op, case)))
    if told is not None:
        told(runs, places, trails, was, repairs)
    if not repairs:
        return None
    best = min(repairs, key=lambda r: (round(r.score(places[r.key[0]], runs.judged), 3), trails[r.key].order))
    at = places[best.key[0]]
    return OwnLine(Path(at.file).name, at.line, at.text, "own_line", (), best.name, best.was.name if best.was else "")


def failing_cases(candidate: Candidate, seed: int = 0) -> list[tuple[Case, str]]:
    """Cases with telling sizes that the candidate answers wrongly: small, of pairwise different sizes, with no hard numbers."""
    from equivalence_tests.cases import SeededDraws
    from equivalence_tests.implementations import NotOffered
    from equivalence_tests.laws.patterns import PATTERNS, case_of
    from equivalence_tests.observe import observe

    op = candidate.row
    found = []
    for options in ((), ("mask",), ("bias",), ("keep",)):
        for lead in ((2,), ()):
            if op.name not in PATTERNS:
                continue
            try:
                case = candidate.taken(case_of(op.name, SeededDraws(np.random.default_rng(seed)), "float64", lead, options))
                for extra in ({}, {"causal": True}):
                    tried = Case(case.operands, {**case.options, **extra}, case.upstream)
                    if candidate.taken(tried).options.keys() != tried.options.keys():
                        continue
                    seen = observe(candidate.implementation, candidate.op, tried, "float64")
                    if seen.wrong:
                        found.append((tried, "float64"))
            except NotOffered:
                continue
    if not found:
        for index in range(60):
            try:
                case = candidate.taken(op.draw(SeededDraws(np.random.default_rng([seed, index])), index % 2 == 1))
                seen = observe(candidate.implementation, candidate.op, case, "float64")
            except NotOffered:
                continue
            if seen.wrong and not seen.raised:
                found.append((case, "float64"))
    return found[:3]
