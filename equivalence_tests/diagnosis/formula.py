"""Findings from edits of the formula: what fits, in the order in which it is to be believed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.consistency import consistency
from equivalence_tests.diagnosis.match import Match
from equivalence_tests.diagnosis.search import search
from equivalence_tests.diagnosis.sizes import sizes
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op

MOST = 5  # findings that are worth reading
INSIDE = {"X - max": "A", "max": "A", "exp": "A", "sum(exp)": "A"}  # the softmax's own lines, in an attention
LINES = {"dC V^T": "dA", "dh, all": "dh", "da, all": "da", "db": "db_ih", "h before": "h"}


def formula(op: Op, seen: Sequence[Seen], forward: bool) -> list[Finding]:
    """What explains most first, then what explains the rest of the wrong tensors, then alternatives.

    Of a wrong forward also whose gradient it is that comes back.
    """
    matches = search(op, seen, forward)
    first: list[Match] = []
    covered: set[str] = set()
    for match in matches:
        if not match.tensors <= covered:
            first.append(match)
            covered |= match.tensors
    others = [match for match in matches if match not in first]
    findings = [finding_of(op, match, match in first, seen) for match in [*first, *others][:MOST]]
    gradient = consistency(op, seen, matches[0].hypothesis) if forward and matches else None
    return [*findings, gradient] if gradient else findings


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
