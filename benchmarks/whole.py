"""The textbook implementation on a whole work: in float64, and how far it is from that in the work's own dtype."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import reference_numpy
from benchmarks.contestants import prepare
from benchmarks.inputs import MODELS, STEPS
from benchmarks.verdict import rms_of
from benchmarks.work import Inputs, Work
from equivalence_tests.arithmetic import Array
from equivalence_tests.ops import OPS

ELEMENTS = 2**26  # of the logits that are held at once: a loss's gradients are summed over some sequences after others


@dataclass(frozen=True)
class Runs:
    exact: dict[str, Array] = field(default_factory=dict)
    rms: dict[str, float] = field(default_factory=dict)  # of the textbook's error, by tensor


def whole_runs(work: Work, inputs: Inputs, options: dict[str, Any]) -> Runs:
    if work.work == "generate":
        return _generated(inputs, _as(inputs, "float64"), options)
    exact = _run(work, _as(inputs, "float64"), options)
    if work.dtype != "float64":
        return Runs(exact, _rms(_run(work, inputs, options), exact))
    # Nothing finer is at hand: float64 errs as float32 does, as many times less as its unit is smaller.
    narrow = _as(inputs, "float32")
    rms = _rms(_run(work, narrow, options), _run(work, _as(narrow, "float64"), options))
    return Runs(exact, {name: 2.0**-29 * value for name, value in rms.items()})


def textbook_rms(work: Work, inputs: Inputs, options: dict[str, Any], exact: dict[str, Array]) -> dict[str, float]:
    """Of each tensor, where what is exact is known."""
    return _rms(_run(work, inputs, options), exact)


def _as(inputs: Inputs, dtype: str) -> Inputs:
    return {name: X.astype(dtype) if X.dtype.kind == "f" else X for name, X in inputs.items()}


def _run(work: Work, inputs: Inputs, options: dict[str, Any]) -> dict[str, Array]:
    return (_summed if work.work in STEPS else _once)(work, inputs, options)


def _rms(textbook: dict[str, Array], exact: dict[str, Array]) -> dict[str, float]:
    found = {}
    for name, X in exact.items():
        there = np.isfinite(X)
        difference = (textbook.pop(name)[there] - X[there]).astype(np.float64)
        found[name] = rms_of(difference)
    return found


def _once(work: Work, inputs: Inputs, options: dict[str, Any]) -> dict[str, Array]:
    part = "forward+backward" if OPS[work.work].differentiable or work.work in MODELS else "forward"
    dtype = str(next(X for X in inputs.values() if X.dtype.kind == "f").dtype)
    whole = Work(work.suite, work.work, part, work.sizes, dtype, work.seed, work.extra)
    prepared = prepare("numpy reference", whole, inputs, options)
    prepared.run()
    return prepared.outputs()


def _summed(work: Work, inputs: Inputs, options: dict[str, Any]) -> dict[str, Array]:
    """The mean over all targets is that over some sequences and then over these: so are its gradients."""
    B, n, v = (int(work.sizes[name]) for name in "Bnv")
    some = max(1, min(B, ELEMENTS // (n * v)))
    total: dict[str, Array] = {}
    for first in range(0, B, some):
        rows = slice(first, min(first + some, B))
        part = {name: X[rows] if name in ("ids", "targets") else X for name, X in inputs.items()}
        own = dict(options)
        if own.get("keep") is not None:
            own["keep"] = {name: keep[rows] for name, keep in own["keep"].items()}
        dtype = str(next(X for X in part.values() if X.dtype.kind == "f").dtype)
        prepared = prepare("numpy reference", Work(work.suite, work.work, "step", work.sizes, dtype), part, own)
        prepared.run()
        weight = (rows.stop - rows.start) / B
        for name, X in prepared.outputs().items():
            share = X * X.dtype.type(weight)
            total[name] = total[name] + share if name in total else share
    return total


def _generated(inputs: Inputs, wide: Inputs, options: dict[str, Any]) -> Runs:
    """In float64; and in float32 the same tokens, so that the logits are of the same text."""
    exact, ids = _decoded(wide, options, None)
    textbook, _ = _decoded(inputs, options, ids)
    return Runs({"ids": ids, "every logits": exact}, {"every logits": rms_of(textbook - exact)})


def _decoded(inputs: Inputs, options: dict[str, Any], forced: Array | None) -> tuple[Array, Array]:
    params = {name: X for name, X in inputs.items() if "." in name}
    ids, past, logits, added = inputs["ids"], None, [], []
    for t in range(options["tokens"]):
        answer, past = reference_numpy.gpt_step(params, ids, options["config"], past)
        logits.append(answer[:, -1].astype(np.float64))
        added.append(logits[-1].argmax(-1) if forced is None else forced[:, t])
        ids = added[-1][:, None]
    return np.stack(logits, 1), np.stack(added, 1)
