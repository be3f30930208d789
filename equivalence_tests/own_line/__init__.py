"""The line of the user's own file in which the mistake is."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, NotOffered, one_line
from equivalence_tests.laws.patterns import PATTERNS, shape_of
from equivalence_tests.observe import Observation, observe
from equivalence_tests.own_line import arising
from equivalence_tests.own_line.matching import Match, Matcher
from equivalence_tests.own_line.places import Place, instrumented
from equivalence_tests.own_line.recording import Hook, Key, TooMuch, Trail, no_watch
from equivalence_tests.own_line.repair import Repair
from equivalence_tests.own_line.repairing import Rights, search
from equivalence_tests.own_line.right import BLEND, blends, constants, lines
from equivalence_tests.own_line.runs import Runs
from equivalence_tests.own_line.sources import files_of
from equivalence_tests.own_line.styles import styles

SECONDS = 5.0
Watch = Callable[[str], None]
TOLD = 3  # names that are said to agree


@dataclass(frozen=True)
class OwnLine:
    """A line of the user's file: what stands there, what belongs there, and what it reads that agrees, with its lines.

    `code` is "own_line", or that of what arises there: own_line_nan, own_line_inf, own_line_dtype, own_line_digits,
    own_line_raises. `sure` is False where another line could be the wrong one as well.
    """

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
        code = self.code
        if code == "own_line":
            code += ("_stands" if self.stands else "") + ("_agree" if agree else "")
        numbers = {"file": self.file, "line": self.line, "text": self.text, "agree": agree}
        numbers |= {"belongs": self.belongs, "stands": self.stands}
        return Finding(code, numbers=numbers, sure=self.sure)


def place(
    candidate: Candidate,
    seen: Sequence[Observation] = (),
    seconds: float = SECONDS,
    told: Any = None,
    watch: Watch = no_watch,
) -> OwnLine | None:
    """The line in which the mistake of a candidate is, or None: of what is no Python, of what is right, and where no line
    is proved to be the wrong one. `seen` are wrong observations, for a mistake that shows in hard cases alone."""
    files = files_of(candidate.functions)
    if not files or candidate.framework not in ("numpy", "torch"):
        return None
    until = time.thread_time() + seconds
    cases = failing_cases(candidate) or [(each.case, each.dtype) for each in _smallest(seen)]
    hook = Hook()
    hook.watch = watch
    with instrumented(files, hook) as places:
        hook.places = places
        for number, (case, dtype) in enumerate(cases):
            share = (until - time.thread_time()) / (len(cases) - number)
            found = _searched(Runs(candidate, case, dtype, hook, time.thread_time() + share), places, told)
            if found:
                return found
    return None


def _smallest(seen: Sequence[Observation]) -> list[Observation]:
    """A few wrong observations, the smallest first, those of the widest dtype before the others."""
    wrong = [each for each in seen if each.wrong]

    def size(each: Observation) -> tuple[bool, int]:
        return each.dtype != "float64", sum(np.size(x) for x in each.case.operands.values())

    return sorted(wrong, key=size)[:3]


def _searched(runs: Runs, places: list[Place], told: Any) -> OwnLine | None:
    try:
        answer, trails = runs.record()
    except TooMuch:
        return None
    if runs.candidate.kind == "autograd" and not any(
        places[number].function.endswith("backward") for number, _ in trails
    ):
        runs.judged = tuple(name for name in runs.judged if name in runs.candidate.op.outputs)
    if answer is None:
        return _raised(runs, places)
    if not runs.wrong(answer) or not trails:
        return None
    special = _arising(runs, places, trails, answer)
    if special:
        return special
    case, op = runs.case, runs.candidate.row
    known = lines(op, case)
    known += styles(op, case, known)
    mixed = list(blends(known))
    matcher = Matcher([*known, *mixed], runs.dtype)
    was = {key: _match(matcher, trail) for key, trail in trails.items()}
    repairs = search(runs, places, trails, was, Rights(known, mixed, constants(op, case)))
    if told is not None:
        told(runs, places, trails, was, repairs)
    if not repairs or runs.late:  # lines that were not tried may be the wrong ones
        return None
    left_out = _bound_in_vain(places)

    def score(repair: Repair) -> float:
        at = places[repair.key[0]]
        behind = any(each.function == at.function and each.line < at.line for each in left_out)
        return repair.score(at, runs.judged) - (IN_VAIN if behind else 0.0)

    ranked = sorted(repairs, key=lambda r: (round(score(r), 3), trails[r.key].order))
    best, place = ranked[0], places[ranked[0].key[0]]
    others = [r for r in ranked[1:] if places[r.key[0]].line != place.line]
    sure = not others or score(others[0]) > score(best) + DOUBT
    agree = _agreeing(places, trails, matcher, best.key)
    stands = best.was.name if best.was and best.was.name != best.belongs else ""
    return OwnLine(Path(place.file).name, place.line, place.text, "own_line", agree, best.belongs, stands, sure)


def _bound_in_vain(places: Sequence[Place]) -> list[Place]:
    """Statements that bind a name which nothing reads: a line behind them has left it out."""
    read = {name for place in places for name in place.reads}
    bound = [each for each in places if each.name.isidentifier() and each.name != "return"]
    return [each for each in bound if each.name not in read]


IN_VAIN = 0.7
DOUBT = 0.2  # between the scores of two lines: either could be the wrong one


def _match(matcher: Matcher, trail: Trail) -> Match | None:
    value = trail.stacked()
    found = matcher.match(value) if value is not None else None
    return matcher.match(trail.values[-1]) if found is None and len(trail.values) > 1 else found


def _raised(runs: Runs, places: list[Place]) -> OwnLine | None:
    """The line of the user's files that raised, or called what raised."""
    files = {each.file for each in places}
    frames = traceback.extract_tb(runs.raised.__traceback__) if runs.raised is not None else []
    own = [frame for frame in frames if frame.filename in files and frame.lineno]
    if not own or runs.raised is None:
        return None
    line, text = own[-1].lineno or 0, (own[-1].line or "").strip()
    return OwnLine(Path(own[-1].filename).name, line, text, "own_line_raises", stands=one_line(runs.raised)[:120])


def _arising(runs: Runs, places: list[Place], trails: dict[Key, Trail], answer: Answer) -> OwnLine | None:
    found = arising.other_dtype(runs, trails, answer)
    code = "own_line_dtype"
    if found is None and arising.is_not_finite(runs, answer):
        found = arising.not_finite(runs, places, trails, answer)
        code = "own_line_nan" if found is not None and not found.then else "own_line_inf"
    elif found is None:
        found, code = arising.lost_digits(runs, trails), "own_line_digits"
    if found is None:
        return None
    at = places[found.key[0]]
    positive = any(np.isposinf(value).any() for value in trails[found.key].values)
    stands = "-inf" if found.what == "inf" and not positive else found.what
    return OwnLine(Path(at.file).name, at.line, at.text, code, belongs=str(found.then or runs.dtype), stands=stands)


def _agreeing(places: list[Place], trails: dict[Key, Trail], matcher: Matcher, key: Key) -> tuple[tuple[str, int], ...]:
    """What the statement reads that is right, with the line that bound it."""
    trail, found = trails[key], dict[str, int]()
    for name, value in trail.reads.items():
        match = matcher.match(value) if value.ndim and value.dtype.kind == "f" else None
        bound = [places[k[0]].line for k, t in trails.items() if places[k[0]].name == name and t.order < trail.order]
        if bound and match is not None and match.right.rank < BLEND:
            found[name] = bound[-1]
    return tuple(found.items())[:TOLD]


def finding_of(candidate: Candidate, wrong: Sequence[Observation], watch: Watch = no_watch) -> list[Finding]:
    """What is said of the line, if one is found. A defect of the search is no reason to lose a report."""
    try:
        found = place(candidate, wrong, watch=watch)
    except Exception:
        return []
    return [found.finding()] if found else []


def without_answer(finding: Finding) -> Finding:
    """The same line, without what belongs there: a learner is to find that."""
    kept = {name: finding.numbers[name] for name in ("file", "line", "text")}
    proved = finding.code in ("own_line", "own_line_agree", "own_line_stands", "own_line_stands_agree")
    return Finding("own_line_look", numbers=kept, sure=finding.sure) if proved else finding


LETTERS = {"n": 3, "m": 5, "d": 4, "c": 6, "e": 7, "k": 8, "v": 9, "H": 2, "Hc": 10}  # pairwise different
P = 0.3


def failing_cases(candidate: Candidate, seed: int = 0) -> list[tuple[Case, str]]:
    """Small cases of pairwise different sizes, without hard numbers, that the candidate answers wrongly."""
    found = []
    for options in (set[str](), {"causal"}, {"mask"}, {"bias"}, {"keep"}, {"ignore_index"}):
        for lead in _leads(candidate.row.name):
            try:
                case = _taken(candidate, telling_case(candidate.row.name, lead, options, seed))
                if not options <= case.options.keys():
                    continue
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    seen = observe(candidate.implementation, candidate.op, case, "float64")
            except (NotOffered, KeyError):
                continue
            if seen.wrong and not seen.raised:
                found.append((case, "float64"))
    return found[:2]


def _taken(candidate: Candidate, case: Case) -> Case:
    """The case as the candidate takes it, without the operands that it may be called without if it must be."""
    try:
        return candidate.taken(case)
    except NotOffered:
        optional = PATTERNS[candidate.row.name].optional
        needed = {name: value for name, value in case.operands.items() if name not in optional}
        return candidate.taken(replace(case, operands=needed))


def _leads(op: str) -> tuple[tuple[int, ...], ...]:
    """Leading axes: more where they are all there is."""
    if op == "multi_head_attention":
        return ((), (2,))
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
