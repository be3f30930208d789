"""An answer that is an op of the table: judged by the kit's cases, laws and diagnosis, in float64."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import Candidate, adapt
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checking import Settings, examine, no_watch
from equivalence_tests.cutting import cut
from equivalence_tests.dojo import more_laws
from equivalence_tests.dojo.guard import Guard
from equivalence_tests.dojo.katas import Kata
from equivalence_tests.dojo.sources import Text
from equivalence_tests.dojo.verdict import Example, Verdict
from equivalence_tests.dojo.wording import in_the_learners_words, line_for, plain_numbers
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Implementation, NotOffered
from equivalence_tests.observe import Observation, observe
from equivalence_tests.shrink import rounded_numbers

if TYPE_CHECKING:
    from equivalence_tests.mistakes import Mistake

CASES, SECONDS = 96, 5.0  # of the table; a model's are one in eight
FIRST = 6  # draws among which the first call is looked for
READABLE = 48  # entries of an array that is shown
SHARE = 1e300


def candidate_of(kata: Kata, functions: dict[str, Callable[..., Any]], without: Sequence[str] = ()) -> Candidate:
    """The kit's view of an answer. ValueError, one line, if its signature fits no call."""
    return adapt(
        functions[kata.function],
        kata.like,
        backward=functions.get(f"{kata.function}_backward"),
        label=kata.name,
        without=(*kata.without, *without),
    )


def returns_wrongly(candidate: Candidate, guard: Guard, function: str) -> Verdict | None:
    """The first call: whether what came back has the right form, in words that need no knowledge of the kit."""
    seen, op = None, candidate.row
    for index in range(FIRST):
        try:
            case = candidate.taken(op.draw(draws(index), False))
            guard.answers.clear()
            seen = observe(candidate.implementation, candidate.op, case, "float64", index)
        except NotOffered:
            continue
        break
    if seen is None:
        return None
    if candidate.kind != "forward" and function in guard.answers:
        answer = guard.answers[function]
        if not (isinstance(answer, tuple) and len(answer) == 2):
            Y = ", ".join(op.outputs)
            expected = f"(({Y}), cache)" if len(op.outputs) > 1 else f"({Y}, cache)"
            return Verdict("returns", {"name": function, "got": described(answer), "expected": expected})
    backward = f"{function}_backward"
    if backward in guard.answers:
        return _gradients(candidate, seen, backward, guard.answers[backward])
    if function in guard.answers and guard.answers[function] is None:
        expected = ", ".join(op.outputs)
        return Verdict("returns", {"name": function, "got": "None", "expected": expected})
    return None


def _gradients(candidate: Candidate, seen: Observation, name: str, answer: Any) -> Verdict | None:
    names = [f"d{each}" for each in candidate.op.gradient_names(seen.case)]
    if candidate.op.model:
        missing = [each[1:] for each in names if not isinstance(answer, dict) or each[1:] not in answer]
        if not isinstance(answer, dict) or missing:
            expected = f"{{{missing[0]!r}: ...}}" if missing else "{...}"
            return Verdict("returns", {"name": name, "got": described(answer), "expected": expected})
        return None
    parts = answer if isinstance(answer, tuple | list) else (answer,)
    arrays = all(isinstance(part, np.ndarray | np.generic | float) for part in parts)
    if len(parts) != len(names) or not arrays or (len(names) == 1 and parts is answer):
        expected = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return Verdict("returns", {"name": name, "got": described(answer), "expected": expected})
    return None


def described(value: Any) -> str:
    """A value in words that are the same in every language."""
    if isinstance(value, np.ndarray):
        return f"ndarray{value.shape}"
    if isinstance(value, tuple | list):
        inside = ", ".join(described(each) for each in value[:6])
        return f"({inside}{', ...' if len(value) > 6 else ''})"
    if isinstance(value, dict):
        keys = ", ".join(repr(key) for key in list(value)[:4])
        return f"{{{keys}{', ...' if len(value) > 4 else ''}}}"
    if value is None or isinstance(value, bool | int | float | np.generic):
        return repr(value)
    return type(value).__name__


def judged(
    candidate: Candidate,
    formula: Text,
    watch: Callable[[str], None] = no_watch,
    library: Collection[Mistake] | None = None,
) -> Verdict:
    """Passed, or wrong with the findings and the smallest counterexample."""
    settings = Settings(CASES, dtypes=("float64",), seconds=SECONDS, conventions=False, trace=False)
    report = examine(candidate, settings, watch, library)
    if report.passed:
        watch("diagnosis: laws")
        found = more_laws.findings(candidate, library)
        if not found:
            return Verdict("passed", {"cases": report.cases}, cases=report.cases, seconds=report.seconds)
        return Verdict("wrong", findings=tuple(plain_numbers(each) for each in found), cases=report.cases)
    findings = [each for each in report.findings if each.code != "worst_element"]
    example, seen = None, smaller(candidate, report.counterexample)
    if seen is not None and seen.answer is not None:
        tensor = _first_wrong(seen)
        worst = _worst(seen, tensor)
        findings += [worst] if worst else []
        example = _example(candidate, seen, tensor) if worst else None
    else:
        findings += [each for each in report.findings if each.code == "worst_element"]
    findings = in_the_learners_words(candidate, findings, formula) or [Finding("wrong_values", candidate.op.outputs[0])]
    return Verdict(
        "wrong",
        {"raised": seen.raised if seen is not None else ""},
        findings=tuple(plain_numbers(each) for each in findings),
        example=example,
        formula=line_for(findings[0], formula),
        cases=report.cases,
        seconds=report.seconds,
    )


REFERENCE = Implementation("reference_numpy", reference_numpy, True, ("float64",))


def with_own_line(verdict: Verdict, kata: Kata, functions: dict[str, Callable[..., Any]]) -> Verdict:
    """The same verdict with the line of the learner's file in which the mistake is, but not what belongs there."""
    from equivalence_tests import own_line

    plain = candidate_of(kata, {name: inspect.unwrap(function) for name, function in functions.items()})
    found = [own_line.without_answer(each) for each in own_line.finding_of(plain, ()) if each.sure]
    return replace(verdict, findings=(*verdict.findings[:1], *found, *verdict.findings[1:]))


def smaller(candidate: Candidate, seen: Observation | None) -> Observation | None:
    """The counterexample with fewer rows and columns, where the same tensor is still wrong, and the reference right."""
    if seen is None or seen.answer is None or candidate.op.model:
        return seen
    least, wrong = seen, _first_wrong(seen)

    def fails(case: Case) -> bool:
        nonlocal least
        try:
            right = observe(REFERENCE, candidate.row, case, seen.dtype, seen.index)
            found = observe(candidate.implementation, candidate.op, case, seen.dtype, seen.index)
        except Exception:  # what is left is no case of the op
            return False
        if right.wrong or found.raised or _first_wrong(found) != wrong or _wrong(found, wrong) is None:
            return False
        least = found
        return True

    rounded_numbers(cut(candidate.op.name, seen.case, fails), fails)
    return least


def _first_wrong(seen: Observation) -> str:
    return next((name for name, verdict in seen.verdicts.items() if verdict.wrong), "")


def _wrong(seen: Observation, tensor: str) -> tuple[Array, Array, Array] | None:
    """What came, what is right, and how far each entry is beyond what rounding explains; None where shapes differ."""
    answer, truth = (seen.answer or {}).get(tensor), seen.exact.get(tensor)
    if (
        answer is None
        or truth is None
        or answer.value.shape != truth.value.shape
        or answer.value.dtype.kind not in "fc"
    ):
        return None
    got, exact, budget = answer.value, np.asarray(truth.value, np.float64), truth.budget()
    with np.errstate(all="ignore"):
        apart = np.abs(got - exact)
        share = np.where(np.isnan(apart), SHARE, apart / np.where(budget > 0, budget, np.finfo(float).tiny))
    same = (got == exact) | (np.isnan(got) & np.isnan(exact)) | ~np.isfinite(budget)
    return got, exact, np.where(same, 0.0, np.minimum(share, SHARE))


def _worst(seen: Observation, tensor: str) -> Finding | None:
    found = _wrong(seen, tensor)
    if found is None or not found[2].size:
        return None
    got, exact, share = found
    at = np.unravel_index(int(share.argmax()), share.shape)
    numbers: dict[str, Any] = {"index": ", ".join(str(int(i)) for i in at), "share": float(share[at])}
    numbers |= {"got": float(got[at]), "expected": float(exact[at]), "axis": ""}
    return Finding("worst_element", tensor, "", numbers)


def _example(candidate: Candidate, seen: Observation, tensor: str) -> Example | None:
    found = _wrong(seen, tensor)
    if found is None:
        return None
    got, exact, share = found
    zero = np.abs(exact) <= seen.exact[tensor].budget()  # 3e-20 is the truth's own rounding
    got, exact = np.where(zero & (share <= 1.0), 0.0, got), np.where(zero, 0.0, exact)
    upstream = {} if candidate.kind == "forward" else seen.case.upstream  # a forward alone is given none
    values = {**seen.case.operands, **seen.case.options, **upstream}
    given = {name: shown for name, value in values.items() if (shown := readable(value)) is not None}
    given = {name: value for name, value in given.items() if "." not in name}  # a model's parameters are too many
    marks = (share > 1.0).astype(int).tolist()
    return Example(given, tensor, readable(got), readable(exact), marks if got.size <= READABLE else None)


def readable(value: Any) -> Any:
    """A value as JSON knows it, or None where nobody would read it."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return array.tolist() if array.size <= READABLE and array.dtype.kind in "fiub" else None
    return value if isinstance(value, bool | int | float | str) else None


def draws(index: int) -> SeededDraws:
    """Choices and numbers, the same for the same index."""
    return SeededDraws(np.random.default_rng([2, index]))


def picture(candidate: Candidate, path: Path) -> int:
    """The Jacobian of a small case as a PNG, wrong entries in red: how many they are; 0 where there is nothing to draw."""
    from equivalence_tests.gradient_pictures import jacobian_picture
    from equivalence_tests.jacobian import jacobians, small_failing_case

    case = small_failing_case(candidate)
    if case is None:
        return 0
    J = jacobians(candidate, case)
    wrong: int = jacobian_picture(J.found, J.true, J.allowed, path, J.labels)
    return wrong
