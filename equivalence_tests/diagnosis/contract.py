"""What needs no formula: exceptions, what is missing, dtypes and shapes, conduct and laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.formula import tensor_stage
from equivalence_tests.findings import Finding
from equivalence_tests.misconduct import READ_ONLY, Misconduct
from equivalence_tests.ops import Op


def contract(op: Op, seen: Sequence[Seen], conduct: Misconduct | None, broken_laws: Sequence[str]) -> list[Finding]:
    findings = _dtypes(op, seen) + _raised(seen, conduct)
    if conduct:
        findings.append(_conduct(conduct))
    findings += [_law(op, law) for law in broken_laws]
    return findings


def _conduct(conduct: Misconduct) -> Finding:
    said = {"what": conduct.say(), "what_es": conduct.say("es"), "rule": conduct.code}
    return Finding("conduct", conduct.tensor, conduct.side, said)


def _law(op: Op, law: str) -> Finding:
    name, _, what = law.partition(": ")
    said = name.replace("_", " ")
    return Finding("law_broken", op.outputs[0], op.outputs[0], {"law": said, "what": what or "broken"})


def _raised(seen: Sequence[Seen], conduct: Misconduct | None) -> list[Finding]:
    raised = [each for each in seen if each.raised]
    if not raised:
        return []
    said = raised[0].observation.raised
    if all(READ_ONLY in each.observation.raised for each in raised):
        return [Finding("writes_into_input", "", conduct.side if conduct else "forward", {"error": said})]
    return [Finding("raises", "", "", {"error": said, "cases": len(raised), "of": len(seen)})]


def _dtypes(op: Op, seen: Sequence[Seen]) -> list[Finding]:
    findings: dict[str, Finding] = {}
    for each in seen:
        observation = each.observation
        if observation.answer is None:
            continue
        for name, truth in observation.exact.items():
            got = observation.answer.get(name)
            if got is None:
                findings.setdefault(name, Finding("missing", name, tensor_stage(op, name)))
            elif got.dtype != observation.dtype:
                numbers: dict[str, Any] = {"got": got.dtype, "expected": observation.dtype}
                findings.setdefault(name, Finding("wrong_dtype", name, tensor_stage(op, name), numbers))
            elif got.value.shape != truth.value.shape:
                numbers = {"got": got.value.shape, "expected": truth.value.shape}
                findings.setdefault(name, Finding("wrong_shape", name, tensor_stage(op, name), numbers))
        for name in observation.answer.keys() - observation.exact.keys():
            left_out = next((f"d{o}" for o in op.differentiable if o not in observation.case.operands), name)
            findings.setdefault(name, Finding("extra_output", left_out, left_out))
    return sorted(findings.values(), key=lambda finding: finding.code != "wrong_dtype")
