"""What needs no formula: exceptions, what is missing, dtypes and shapes, conduct and laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.formula import tensor_stage
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op

READ_ONLY = "read-only"  # in what NumPy raises where code writes into what was given
CONDUCT_ES = {
    "it prints": "imprime",
    "it touches NumPy's global random state": "toca el estado aleatorio global de NumPy",
    "it changes the filters of warnings": "cambia los filtros de avisos",
    "the forward changes its operands": "el paso hacia adelante cambia sus operandos",
    "an output shares memory with an operand": "una salida comparte memoria con un operando",
    "a later call changes what an earlier one answered or remembers": "una llamada posterior cambia lo que respondió o "
    "recuerda una anterior",
    "the forward answers differently when called again": "el paso hacia adelante responde otra cosa al llamarlo de nuevo",
    "the backward changes an operand, an output or its upstream gradient": "el paso hacia atrás cambia un operando, una "
    "salida o el gradiente que recibe",
    "the backward changes its cache": "el paso hacia atrás cambia su caché",
    "a gradient shares memory with an operand, an output, the upstream gradient or the cache": "un gradiente comparte "
    "memoria con un operando, una salida, el gradiente que recibe o la caché",
    "two gradients share memory": "dos gradientes comparten memoria",
    "a later call of the backward changes the gradients of an earlier one": "una llamada posterior del paso hacia atrás "
    "cambia los gradientes de una anterior",
    "the backward answers differently when called again": "el paso hacia atrás responde otra cosa al llamarlo de nuevo",
}


def contract(op: Op, seen: Sequence[Seen], conduct: str, broken_laws: Sequence[str]) -> list[Finding]:
    findings = _dtypes(op, seen) + _raised(seen, conduct)
    if conduct:
        findings.append(_conduct(conduct))
    findings += [_law(op, law) for law in broken_laws]
    return findings


def side(conduct: str) -> str:
    """The pass that misbehaves."""
    backward = ("backward" in conduct or "gradient" in conduct) and not conduct.startswith("the forward")
    return "backward" if backward else "forward"


def _conduct(conduct: str) -> Finding:
    return Finding("conduct", "", side(conduct), {"what": conduct, "what_es": CONDUCT_ES.get(conduct, conduct)})


def _law(op: Op, law: str) -> Finding:
    name, _, what = law.partition(": ")
    said = name.replace("_", " ")
    return Finding("law_broken", op.outputs[0], op.outputs[0], {"law": said, "what": what or "broken"})


def _raised(seen: Sequence[Seen], conduct: str) -> list[Finding]:
    raised = [each for each in seen if each.raised]
    if not raised:
        return []
    said = raised[0].observation.raised
    if all(READ_ONLY in each.observation.raised for each in raised):
        return [Finding("writes_into_input", "", side(conduct), {"error": said})]
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
