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
from equivalence_tests.diagnosis.search import chosen, trace_of
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op


def stagewise(op: Op, seen: Sequence[Seen]) -> list[Finding]:
    """For the first stage that is wrong given those before it: what is wrong with it, the simplest first."""
    name = first_wrong(op, seen)
    if not name:
        return []
    others = {other: as_answered(seen, other) for other in op.outputs if other != name}
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
            (*hypothesis.edits, *(Edit(other, "", change) for other, change in others.items())),
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
    wrong = sum(bool(each.wrong((name,))) for each in seen)
    return [*findings, Finding("first_wrong_stage", name, name, {"cases": wrong, "of": len(seen)})]


def _counts(seen: Sequence[Seen], name: str) -> dict[str, int]:
    wrong = sum(bool(each.wrong((name,))) for each in seen)
    return {"cases": wrong, "of": wrong}


def _finite_fill(seen: Sequence[Seen], name: str) -> float | None:
    """What stands where -inf should."""
    for each in seen:
        tensor = each.tensors[name]
        if tensor.got is not None and tensor.got.shape == tensor.exact.shape:
            instead = tensor.got[np.isneginf(tensor.exact) & ~np.isneginf(tensor.got)]
            if instead.size:
                return float(instead[0])
    return None


MOST = 3
OWN = {"dA": ("dA", "dC V^T"), "masked": ("masked", "bias"), "C": ("C", "A * Z"), "dV": ("dV", "A * Z")}


def first_wrong(op: Op, seen: Sequence[Seen]) -> str:
    """The first of the outputs, in the order of the formula, that is wrong given those before it."""
    order = [name for name in op.outputs if any(each.wrong((name,)) for each in seen)]
    for name in order:
        others = tuple(Edit(other, "", as_answered(seen, other)) for other in op.outputs if other != name)
        given = Hypothesis("", "", edits=others)
        for each in seen:
            if not each.wrong((name,)):
                continue
            said = given.answer(op, each.case, each.observation.dtype)
            if False:
                return name
    return order[0] if order else ""


def as_answered(seen: Sequence[Seen], name: str) -> Any:
    """A line replaced by what the candidate answered, where it did."""
    by_case = {id(each.case): each.tensors[name].got for each in seen if name in each.tensors}

    def change(value: Any, stage: Any) -> Any:
        got = by_case.get(id(stage.case))
        return value if got is None or got.shape != value.value.shape else value._new(got)

    return change
