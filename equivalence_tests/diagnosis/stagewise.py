"""The first wrong stage, where the intermediates are at hand: each is judged given the others as the candidate has them,
so that one wrong line is named and its consequences are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.editing import Edit, Hypothesis
from equivalence_tests.diagnosis.edits import hypotheses
from equivalence_tests.diagnosis.match import confirmed
from equivalence_tests.diagnosis.options import readings
from equivalence_tests.diagnosis.other import Change
from equivalence_tests.diagnosis.search import chosen, trace_of
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op


def stagewise(op: Op, seen: Sequence[Seen]) -> list[Finding]:
    """For the first stage that is wrong given those before it: what is wrong with it, the simplest first. The other stages
    that are wrong given those before them are named too.
    """
    stages = wrong_stages(op, seen) or [name for name in op.outputs if any(each.wrong((name,)) for each in seen)][:1]
    if not stages:
        return []
    name, *later = stages
    filters = chosen(seen, (name,))
    found = []
    for each in filters[:2]:
        trace = trace_of(op, each)
        for hypothesis in [*hypotheses(op, each.case, trace, True), *hypotheses(op, each.case, trace, False)]:
            if hypothesis.edits and all(edit.of in OWN.get(name, (name,)) for edit in hypothesis.edits):
                found.append(hypothesis)
    found += list(readings(op, [each.case for each in seen]))
    findings = []
    for hypothesis in sorted(found, key=lambda hypothesis: hypothesis.cost):
        whole = Hypothesis(
            hypothesis.code,
            hypothesis.stage,
            hypothesis.numbers,
            (*given_others(op, seen, name), *hypothesis.edits),
            hypothesis.case,
            cost=hypothesis.cost,
        )
        if filters and whole.explains(op, filters[0], (name,), careful=False):
            match = confirmed(whole, op, seen, (name,))
            if match:
                numbers = {**whole.numbers, "cases": match.cases, "of": match.of, "side": "formula"}
                findings.append(Finding(whole.code, name, name, numbers, match.cases == match.of))
        if len(findings) == MOST:
            break
    fill = _finite_fill(seen, name)
    if fill is not None:
        findings.insert(0, Finding("finite_fill", name, name, {"fill": fill} | _counts(seen, name)))
    placed = [Finding("first_wrong_stage", name, name, _counts(seen, name) | {"of": len(seen)})]
    placed += [Finding("wrong_stage", other, other, _counts(seen, other) | {"of": len(seen)}) for other in later]
    return [*findings, *placed]


def _counts(seen: Sequence[Seen], name: str) -> dict[str, int]:
    wrong = sum(bool(each.wrong((name,))) for each in seen)
    return {"cases": wrong, "of": wrong}


def _finite_fill(seen: Sequence[Seen], name: str) -> float | None:
    """The one number that stands wherever -inf should, in every case: in one alone all scores may be equal."""
    numbers: set[float] = set()
    for each in seen:
        tensor = each.tensors[name]
        if tensor.got is not None and tensor.got.shape == tensor.exact.shape:
            numbers |= {float(x) for x in tensor.got[np.isneginf(tensor.exact) & ~np.isneginf(tensor.got)]}
    return numbers.pop() if len(numbers) == 1 else None


MOST = 3
OWN = {"dA": ("dA", "dC V^T"), "masked": ("masked", "bias"), "C": ("C", "A * Z"), "dV": ("dV", "A * Z")}


def wrong_stages(op: Op, seen: Sequence[Seen]) -> list[str]:
    """The outputs that are wrong given the others as the candidate has them, in the order of the formula."""
    return [name for name in op.outputs if any(_wrong_given_others(op, each, name) for each in seen)]


def _wrong_given_others(op: Op, seen: Seen, name: str) -> bool:
    if not seen.wrong((name,)):
        return False
    given = Hypothesis("", "", edits=tuple(given_others(op, [seen], name)))
    said = given.answer(op, seen.case, seen.observation.dtype)
    return said is None or not seen.is_as(name, said[name])


def given_others(op: Op, seen: Sequence[Seen], name: str) -> list[Edit]:
    """Every other output as it was answered; the map is made from the masked scores."""
    edits = [Edit(other, "", as_answered(seen, other)) for other in op.outputs if other != name]
    if name == "A" and "masked" in op.outputs:
        edits += [Edit("A", "scores", _scores(seen)), Edit("A", "allowed", _allowed(seen))]
    return edits


def _masked(seen: Sequence[Seen]) -> dict[int, Any]:
    return {id(each.case): each.tensors["masked"].got for each in seen}


def _scores(seen: Sequence[Seen]) -> Change:
    by_case = _masked(seen)

    def change(value: Any, stage: Any) -> Any:
        got = by_case.get(id(stage.case))
        return (
            value if got is None or got.shape != value.value.shape else value._new(np.where(np.isneginf(got), 0, got))
        )

    return change


def _allowed(seen: Sequence[Seen]) -> Change:
    by_case = _masked(seen)

    def change(value: Any, stage: Any) -> Any:
        got = by_case.get(id(stage.case))
        return value if got is None or got.shape != value.shape else ~np.isneginf(got)

    return change


def as_answered(seen: Sequence[Seen], name: str) -> Change:
    """A line replaced by what the candidate answered, where it did."""
    by_case = {id(each.case): each.tensors[name].got for each in seen if name in each.tensors}

    def change(value: Any, stage: Any) -> Any:
        got = by_case.get(id(stage.case))
        return value if got is None or got.shape != value.value.shape else value._new(got)

    return change
