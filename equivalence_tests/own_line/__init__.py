"""The line of the user's own file in which the mistake is."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import NotOffered
from equivalence_tests.laws.patterns import PATTERNS, shape_of
from equivalence_tests.observe import observe
from equivalence_tests.own_line.matching import Match, Matcher
from equivalence_tests.own_line.places import Place, files_of, instrumented
from equivalence_tests.own_line.recording import Hook, Key, Runs, TooMuch, Trail
from equivalence_tests.own_line.repairing import Rights, search
from equivalence_tests.own_line.right import blends, constants, lines, styles

SECONDS = 5.0


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
        until = time.monotonic() + seconds
        for number, (case, dtype) in enumerate(cases):
            share = (until - time.monotonic()) / (len(cases) - number)
            runs = Runs(candidate, case, dtype, hook, time.monotonic() + share)
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


LETTERS = {"n": 3, "m": 5, "d": 4, "c": 6, "e": 7, "k": 8, "v": 9, "H": 5, "Hc": 30}  # pairwise different
P = 0.3


def failing_cases(candidate: Candidate, seed: int = 0) -> list[tuple[Case, str]]:
    """Small cases of pairwise different sizes, without hard numbers, that the candidate answers wrongly."""
    found = []
    for options in (set[str](), {"causal"}, {"mask"}, {"bias"}, {"keep"}, {"ignore_index"}):
        for lead in _leads(candidate.row.name):
            try:
                case = candidate.taken(telling_case(candidate.row.name, lead, options, seed))
                if not options <= case.options.keys():
                    continue
                seen = observe(candidate.implementation, candidate.op, case, "float64")
            except (NotOffered, KeyError):
                continue
            if seen.wrong and not seen.raised:
                found.append((case, "float64"))
    return found[:2]


def _leads(op: str) -> tuple[tuple[int, ...], ...]:
    """Leading axes: more where they are all there is."""
    wide = op in PATTERNS and any(" n " in f" {letters} " for letters in PATTERNS[op].operands.values())
    return ((2,), ()) if wide else ((2, 7), (13,))


def telling_case(op: str, lead: tuple[int, ...], options: Collection[str], seed: int) -> Case:
    """KeyError for a model: its cases are its own."""
    rng, pattern = np.random.default_rng(seed), PATTERNS[op]

    def drawn(name: str, letters: str) -> Array:
        shape = shape_of(letters, lead, LETTERS)
        if name in pattern.integers:
            return np.asarray(rng.integers(0, LETTERS[pattern.integers[name]], shape))
        return rng.random(shape) >= P if name in ("mask", "keep") else rng.standard_normal(shape)

    operands = {name: drawn(name, letters) for name, letters in pattern.operands.items()}
    chosen: dict[str, Any] = {n: drawn(n, x) for n, x in pattern.options.items() if n in options or op == "dropout"}
    if "keep" in chosen:
        chosen["p"] = P
    if op == "multi_head_attention":
        chosen["num_heads"] = LETTERS["H"]
    if "causal" in options:
        chosen["causal"] = True
    if "ignore_index" in options:
        chosen["ignore_index"] = int(operands["targets"].reshape(-1)[0])
    upstream = {n: np.asarray(-1.7) if n == "dloss" else drawn(n, x) for n, x in pattern.upstream.items()}
    return Case(operands, chosen, upstream)
