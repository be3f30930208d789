"""Right or wrong, before and after timing: errors against float64, in units of the budget of the table.

The truth of a work is made once and held in a file; every contestant's process compares its own answers with it.

* What is small is judged element by element, by the table's own budget (`OPS[op].exact`).
* A long attention: at its own size, some rows of every head and some keys of one (benchmarks.judge_attention).
* Of everything else a slice is: fewer and shorter sequences, fewer words, the same parameters.

A worst-case budget grows with the length of sums, and right answers come to use little of it. So each tensor, or what is
sampled of it, is held besides to its root-mean-square error: no more than 8 times that of the textbook implementation in
the same dtype, the factor of the table's measured budgets. One rounding of what is stored is granted in any case: by chance
the textbook's loss may be nearer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import ceilings, judge_attention, slices
from benchmarks.counting import flops_of
from benchmarks.inputs import MODELS, STEPS, case_of
from benchmarks.verdict import LOSSES, Held, Truth, rms_of
from benchmarks.whole import Runs, textbook_rms, whole_runs
from benchmarks.work import Inputs, Work
from equivalence_tests import arithmetic
from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded, Precision
from equivalence_tests.cases import Case
from equivalence_tests.ops import OPS

TF32 = Precision("tf32", 2.0**-11, 2.0**-24, 2.0**-126, PRECISIONS["float32"].largest)
FACTOR = 8.0
FLOPS = {"float64": 3e8}  # what is judged whole, element by element: extended precision is slow
MANY_FLOPS, MANY = 2e10, 2**22  # of the others, in float64; and the most elements of one array


def precision_of(dtype: str) -> Precision:
    return TF32 if dtype == "tf32" else PRECISIONS[dtype]


def truth_of(work: Work, inputs: Inputs, options: dict[str, Any]) -> Truth:
    """What is right. It may take as long as a few runs of the textbook implementation in float64.

    What judges float32 counts in float64, 5e8 times as fine and 100 times as fast as extended precision.
    """
    before = arithmetic.ORACLE
    oracle: Any = np.longdouble if work.dtype == "float64" else np.float64
    arithmetic.ORACLE = oracle
    try:
        return _truth_of(work, inputs, options)
    finally:
        arithmetic.ORACLE = before


def _truth_of(work: Work, inputs: Inputs, options: dict[str, Any]) -> Truth:
    unit = precision_of(work.dtype).unit
    if work.part.startswith("copy"):
        return Truth("whole", unit, {name: Held(X, np.zeros(X.shape)) for name, X in inputs.items()})
    if work.work in ceilings.WORKS:
        return Truth("sampled rows", unit, _ceiling(work, inputs))
    if work.work == "generate":
        return _generated(work, inputs, options)
    if _is_small(work, inputs):
        held = _exact(work, inputs, options)
        rms = textbook_rms(work, inputs, options, {name: each.exact for name, each in held.items()})
        return Truth(
            "whole", unit, {name: replace(held[name], rms=_allowed(work, held[name].exact, rms[name])) for name in held}
        )
    if work.work == "attention":
        found = judge_attention.sampled(work, inputs, options, precision_of(work.dtype))
        held = {
            name: Held(each.exact, each.budget, _allowed(work, each.exact, each.rms), each.at)
            for name, each in found.items()
        }
        return Truth("sampled rows of every head, sampled keys of one, at this size", unit, held)
    truth = Truth(
        "whole: rms against float64 and the textbook's", unit, _by_rms(work, whole_runs(work, inputs, options))
    )
    if not (work.dtype in ("tf32", "bfloat16") and work.work in (*STEPS, *MODELS)):
        truth.slice = slices.slice_of(work, inputs, options)
        truth.sliced = _exact(*truth.slice)
        truth.checked = f"{slices.said(truth.slice[0])}; {truth.checked}"
    return truth


def _is_small(work: Work, inputs: Inputs) -> bool:
    runs = 16 if work.work in (*STEPS, *MODELS, "rnn") else 1  # a measured budget runs so often
    largest = max(X.size for X in inputs.values())
    if "attention" in work.work:
        sizes = work.sizes
        largest = max(largest, int(sizes["B"] * sizes.get("H", 1) * sizes["n"] ** 2))
    flops = 3.0 * (flops_of(Work(work.suite, work.work, "forward", work.sizes, work.dtype, 0, work.extra)) or 0.0)
    return runs * largest <= MANY and runs * flops <= FLOPS.get(work.dtype, MANY_FLOPS)


def _exact(work: Work, inputs: Inputs, options: dict[str, Any]) -> dict[str, Held]:
    """By the table's formula and budget, on the very numbers that the contestants get."""
    op, precision = OPS[LOSSES.get(work.work, work.work)], precision_of(work.dtype)
    arrays = dict(inputs)
    if work.work in STEPS:
        arrays["dloss"] = np.asarray(1.0)
    wide = {name: X.astype(np.float64) if X.dtype.kind == "f" else X for name, X in arrays.items()}
    operands, upstream = case_of(op, wide)
    with threadpool_limits(1):  # sixteen small products side by side: threads would only wait for each other
        if work.dtype in ("tf32", "bfloat16") and not op.model:
            found = _rounded_first(op, Case(operands, options, upstream), precision)
        else:
            found = op.exact(Case(operands, options, upstream), precision)
    return {name: Held(each.value, each.budget()) for name, each in found.items()}


def _rounded_first(op: Any, case: Case, precision: Precision) -> dict[str, Bounded]:
    """The inputs come in float32, and the contestant's own first step is to round them."""
    numbers: dict[str, Any] = {**case.options, **case.operands, **case.upstream}
    for name, X in numbers.items():
        if isinstance(X, np.ndarray) and X.dtype == np.float64:
            numbers[name] = Bounded(X, precision, precision.unit * np.abs(X))
    with np.errstate(all="ignore"):  # a bound that overflows promises nothing, and says so
        found: dict[str, Bounded] = op.formula(**numbers)
    return found


def _by_rms(work: Work, runs: Runs) -> dict[str, Held]:
    return {name: Held(exact, rms=_allowed(work, exact, runs.rms[name])) for name, exact in runs.exact.items()}


def _allowed(work: Work, exact: Array, rms: float) -> float:
    """Of the textbook's error in float32: in a coarser format, that NumPy has not, as many times as its unit is larger."""
    precision = precision_of(work.dtype)
    same_as_textbook = work.dtype in ("float32", "float64")
    rms *= 1.0 if same_as_textbook else precision.unit / PRECISIONS["float32"].unit
    finite = exact[np.isfinite(exact)]
    return FACTOR * max(rms, precision.unit * rms_of(finite)) + precision.tiny


def _ceiling(work: Work, inputs: Inputs) -> dict[str, Held]:
    X = inputs["X"].astype(np.float64)
    if work.work == "copy":
        return {"Z": Held(X[:1000], np.zeros(1000), at=slice(0, 1000))}
    rows = np.random.default_rng(1).choice(len(X), min(len(X), 8), replace=False)
    precision = precision_of(work.dtype)
    left, right = X[rows], inputs["Y"].astype(np.float64)
    rounded = precision.unit if work.dtype in ("tf32", "bfloat16") else 0.0
    product = Bounded(left, precision, rounded * np.abs(left)) @ Bounded(
        right[:, None] if right.ndim == 1 else right,
        precision,
        rounded * (np.abs(right[:, None] if right.ndim == 1 else right)),
    )
    shape = (len(rows), *right.shape[1:])
    return {"Z": Held(product.value.reshape(shape), product.budget().reshape(shape), at=rows)}


def _generated(work: Work, inputs: Inputs, options: dict[str, Any]) -> Truth:
    """The tokens of a float64 run, and its logits of the last; with them how near every other token came."""
    runs = whole_runs(work, inputs, options)
    logits = runs.exact.pop("every logits")  # (B, tokens, v)
    held = _by_rms(work, Runs({"logits": logits[:, -1]}, {"logits": runs.rms["every logits"]}))
    held["ids"] = Held(runs.exact["ids"])
    gaps = logits.max(-1, keepdims=True) - logits
    return Truth(
        "the tokens and the last logits: rms against float64 and the textbook's",
        precision_of(work.dtype).unit,
        held,
        gaps=gaps,
    )
