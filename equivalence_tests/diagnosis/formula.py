"""Findings from edits of the formula: what fits, in the order in which it is to be believed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from equivalence_tests.diagnosis.based import based
from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.consistency import consistency
from equivalence_tests.diagnosis.match import Match
from equivalence_tests.diagnosis.search import search
from equivalence_tests.diagnosis.sizes import sizes
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op

ENOUGH = 2  # cases in which gradients are wrong besides
MOST = 5  # findings that are worth reading
INSIDE = {"X - max": "A", "max": "A", "exp": "A", "sum(exp)": "A"}  # the softmax's own lines, in an attention
LINES = {"dC V^T": "dA", "dh, all": "dh", "da, all": "da", "db": "db_ih", "h before": "h"}


def formula(op: Op, seen: Sequence[Seen], forward: bool, alone: bool = False) -> list[Finding]:
    """What explains most first, then what explains the rest of the wrong tensors, then alternatives.

    Of a wrong forward also what is wrong with the gradients besides, and whose gradient it is that comes back. Two mistakes
    are not looked for where one `alone` is known to be there.
    """
    matches = search(op, seen, forward, alone)
    findings = _findings(op, seen, matches)
    if not forward or not matches or alone:
        return findings
    beside = _beside(op, seen, matches[0])
    gradient = consistency(op, seen, matches[0].hypothesis) if not matches[0].also else None
    return [findings[0], *beside, *findings[1:], *([gradient] if gradient else [])]


def _beside(op: Op, seen: Sequence[Seen], match: Match) -> list[Finding]:
    """What is wrong with the gradients, where they are neither those of the wrong forward nor the right ones."""
    changed = based(op, seen, *(each.hypothesis for each in (match, *match.also)))
    if changed is None:
        return []
    edited, left = changed
    unlike = [
        each
        for each in left
        if not each.case.hard
        and any(
            n not in op.outputs and Seen(each.observation).tensors[n].wrong for n in each.wrong(tuple(each.tensors))
        )
    ]
    if len(unlike) < ENOUGH:
        return []
    for formula_of, judged in ((edited, left), (op, seen)):  # a backward of its own, or of the right forward
        matches = [each for each in search(formula_of, judged, forward=False, alone=True) if each.cases == each.of]
        if matches:
            return _findings(formula_of, judged, matches[:1])
    return []


def _findings(op: Op, seen: Sequence[Seen], matches: Sequence[Match]) -> list[Finding]:
    first: list[Match] = []
    covered: set[str] = set()
    for match in matches:
        if not match.tensors <= covered:
            first.append(match)
            covered |= match.tensors
    others = [match for match in matches if match not in first]
    found = []
    for match in [*first, *others][:MOST]:
        found.append(finding_of(op, match, match in first, seen))
        found += [finding_of(op, other, match in first, seen) for other in match.also]
    return found


def _missing_scale(op: Op, seen: Sequence[Seen]) -> dict[str, Any]:
    """The factor by which gradients are too large without the scale, in the first wrong case that has the default one."""
    wrong = [each for each in seen if each.wrong(tuple(each.tensors))]
    default = [each for each in wrong if each.case.options.get("scale") is None]
    if not default:
        scale = next((float(each.case.options["scale"]) for each in wrong if each.case.options["scale"]), 1.0)
        return {"factor": 1.0 / scale, "named": "1/scale", "missing": "scale"}
    return {"factor": math.sqrt(sizes(op, default[0].case).get("c", 1)), "named": "sqrt(c)", "missing": "1/sqrt(c)"}


def finding_of(op: Op, match: Match, sure: bool, seen: Sequence[Seen] = ()) -> Finding:
    hypothesis = match.hypothesis
    if hypothesis.code == "memory_order":
        hypothesis = replace(hypothesis, stage=_reader(op, hypothesis.stage))
    numbers = {
        **hypothesis.numbers,
        "cases": match.cases,
        "of": match.of,
        "side": "forward" if hypothesis.forward else "backward",
    }
    tensor = ", ".join(sorted(match.tensors))
    code = hypothesis.code
    if code == "missing_constant" and numbers["operand"] == "scale" and not op.model:
        code, numbers = "missing_factor", {**numbers, **_missing_scale(op, seen)}
    return Finding(
        code, tensor, stage_of(op, hypothesis.stage, hypothesis.forward), numbers, sure and match.cases == match.of
    )


READERS = {"attention": {"Q": "Omega", "K": "Omega", "V": "C"}, "rnn": {"h0": "h"}}
PROJECTED = {"Wq": "Q", "Wk": "K", "Wv": "V", "Wo": "Y"}


def _reader(op: Op, operand: str) -> str:
    """The first line that reads an operand."""
    return READERS.get(op.name, {}).get(operand) or PROJECTED.get(operand) or op.outputs[0]


MODEL_LINES = {
    "embedding, dropped": "embedding",
    "log P": "loss",
    "loss, count": "loss",
    "dlogits head": "dlast norm",
    "dtoken_embedding, tied": "dtoken_embedding",
    "mask": "causal",
}


def tensor_stage(op: Op, tensor: str) -> str:
    """The line of the formula that answers a tensor."""
    if not op.model or tensor in op.outputs:
        return tensor
    name = re.sub(r"^blocks\.\d+\.", "", tensor.removeprefix("d"))
    first = name.split(".")[0]
    named = {"norm": "dlast norm", "norm_1": "dnorm", "norm_2": "dnorm", "rnn": "drnn", "embedding": "dembedding"}
    return named.get(first, f"d{first}")


def _stage_of_a_model(line: str, forward: bool) -> str:
    part, colon, inner = line.partition(": ")
    if colon:
        if inner == "causal":
            return inner
        return part if forward else f"d{part}"
    return MODEL_LINES.get(line, line)


def stage_of(op: Op, line: str, forward: bool = True) -> str:
    """A line by the name that the op's vocabulary has for it."""
    line = line.removesuffix(", remembered")
    if op.model:
        return _stage_of_a_model(line, forward)
    if op.name in ("self_attention", "multi_head_attention"):
        line = PROJECTED.get(line, line)
    if "attention" in op.name:
        line = INSIDE.get(line, line)
    if op.name == "cross_entropy" and line in ("X - max", "sum(exp)", "log(sum(exp))", "Y"):
        return "log P"
    return LINES.get(line, line)
