"""Right or wrong, before and after timing: errors against float64, in units of the budget of the table.

The truth of a work is made once and held in a file; every contestant's process compares its own answers with it.

* What is small is judged element by element, by the table's own budget (`OPS[op].exact`).
* A long attention: at its own size, some rows of every head and some keys of one (benchmarks.judge_attention).
* Everything else twice: a slice of it (fewer and shorter sequences, fewer words, the same parameters) element by element,
  and the whole of it by each tensor's root-mean-square error against a float64 run, held against 8 times the textbook
  implementation's in the same dtype: the factor that the table's measured budgets have. One rounding of what is stored is
  granted in any case: by chance the textbook's loss may be nearer.
"""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ceilings, judge_attention, slices
from benchmarks.counting import flops_of
from benchmarks.inputs import MODELS, STEPS, case_of
from benchmarks.whole import Runs, whole_runs
from benchmarks.work import Inputs, Work
from equivalence_tests import arithmetic
from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded, Precision
from equivalence_tests.cases import Case
from equivalence_tests.ops import OPS

TF32 = Precision("tf32", 2.0**-11, 2.0**-24, 2.0**-126, PRECISIONS["float32"].largest)
FACTOR = 8.0
FLOPS = {"float64": 3e8}  # what is judged whole, element by element: extended precision is slow
MANY_FLOPS, MANY = 2e10, 2**22  # of the others, in float64; and the most elements of one array
LOSSES = {"gpt_step": "gpt_loss", "rnn_step": "generative_rnn_loss"}


@dataclass(frozen=True)
class Held:
    """One tensor, or those elements of it at `at`: what is right, and how far off it may be: each element, or, where
    `budget` is a number, the root mean square of all of them."""

    exact: Array
    budget: Array | float
    at: Any = None


@dataclass
class Truth:
    """Of one work, all of its parts. The slice comes with its inputs."""

    checked: str
    unit: float
    whole: dict[str, Held] = field(default_factory=dict)
    sliced: dict[str, Held] = field(default_factory=dict)
    slice: tuple[Work, Inputs, dict[str, Any]] | None = None
    gaps: Array | None = None  # of a generation: by how much less each other token's logit is, (B, tokens, v)

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            pickle.dump(self, file, protocol=5)


@dataclass(frozen=True)
class Verdict:
    """The largest share of a budget, the tensor that it is of, and the largest error in units of u max|exact|."""

    share: float
    error: float
    worst: str

    @property
    def wrong(self) -> bool:
        return not self.share <= 1.0

    @property
    def why(self) -> str:
        return f"{self.worst}: {self.share:.3g} times its error budget" if self.wrong else ""


def read(path: Path) -> Truth:
    with path.open("rb") as file:
        found: Truth = pickle.load(file)
    return found


def precision_of(dtype: str) -> Precision:
    return TF32 if dtype == "tf32" else PRECISIONS[dtype]


def truth_of(work: Work, inputs: Inputs, options: dict[str, Any]) -> Truth:
    """What is right. It may take as long as a few runs of the textbook implementation in float64."""
    # What judges float32 counts in float64, 5e8 times as fine and 100 times as fast as extended precision.
    arithmetic.ORACLE = np.longdouble if work.dtype == "float64" else np.float64  # type: ignore[misc]
    unit = precision_of(work.dtype).unit
    if work.work in ceilings.WORKS:
        return Truth("sampled rows", unit, _ceiling(work, inputs))
    if work.work == "generate":
        return _generated(work, inputs, options)
    if _is_small(work, inputs):
        return Truth("whole", unit, _exact(work, inputs, options))
    if work.work == "attention":
        rows, keys = judge_attention.sampled(work, inputs, options, precision_of(work.dtype))
        held = {name: Held(exact, budget, at) for name, (exact, budget, at) in (rows | keys).items()}
        return Truth("sampled rows of every head, sampled keys of one, at this size", unit, held)
    truth = Truth("whole: rms against float64 and the textbook's", unit, _by_rms(work, whole_runs(work, inputs, options)))
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
    with np.errstate(all="ignore"):
        found: dict[str, Bounded] = op.formula(**numbers)
    return found


def _by_rms(work: Work, runs: Runs) -> dict[str, Held]:
    """Half precision, where NumPy has none: the textbook's error in float32, as many times as its unit is larger."""
    coarser = precision_of(work.dtype).unit / PRECISIONS["float64" if work.dtype == "float64" else "float32"].unit
    unit, held = precision_of(work.dtype).unit, {}
    for name, exact in runs.exact.items():
        allowed = max(coarser * runs.rms[name], unit * _rms(exact))
        held[name] = Held(exact, FACTOR * allowed + precision_of(work.dtype).tiny)
    return held


def _rms(X: Array) -> float:
    flat = np.asarray(X, np.float64).reshape(-1)
    return math.sqrt(float(flat @ flat) / max(flat.size, 1))


def _ceiling(work: Work, inputs: Inputs) -> dict[str, Held]:
    X = inputs["X"].astype(np.float64)
    if work.work == "copy":
        return {"Z": Held(X[:1000], np.zeros(1000), slice(0, 1000))}
    rows = np.random.default_rng(1).choice(len(X), min(len(X), 8), replace=False)
    precision = precision_of(work.dtype)
    left, right = X[rows], inputs["Y"].astype(np.float64)
    rounded = precision.unit if work.dtype in ("tf32", "bfloat16") else 0.0
    product = Bounded(left, precision, rounded * np.abs(left)) @ Bounded(right[:, None] if right.ndim == 1 else right,
        precision, rounded * (np.abs(right[:, None] if right.ndim == 1 else right)))
    shape = (len(rows), *right.shape[1:])
    return {"Z": Held(product.value.reshape(shape), product.budget().reshape(shape), rows)}


def _generated(work: Work, inputs: Inputs, options: dict[str, Any]) -> Truth:
    """The tokens of a float64 run, and its logits of the last; with them how near every other token came."""
    runs = whole_runs(work, inputs, options)
    logits = runs.exact.pop("every logits")  # (B, tokens, v)
    held = _by_rms(work, Runs({"logits": logits[:, -1]}, {"logits": runs.rms["every logits"]}))
    held["ids"] = Held(runs.exact["ids"], 0.0)
    gaps = logits.max(-1, keepdims=True) - logits
    return Truth("the tokens and the last logits: rms against float64 and the textbook's",
        precision_of(work.dtype).unit, held, gaps=gaps)


def compare(outputs: dict[str, Array], held: dict[str, Held], truth: Truth, work: Work) -> Verdict:
    """The worst tensor of all. One that is missing, or of another dtype or shape, is wrong without measure."""
    if truth.gaps is not None:
        return _compare_generation(outputs, truth)
    names = set(held) & _names_of(work, set(held))
    found = Verdict(0.0, 0.0, "")
    for name in held:
        if name not in names:
            continue
        if name not in outputs:
            return Verdict(math.inf, math.inf, f"{name} is missing")
        found = _worse(found, _compared(name, outputs[name], held[name], work.dtype, truth.unit))
    for name in outputs.keys() - names:
        return Verdict(math.inf, math.inf, f"{name} is there, but nobody asked for it")
    return found


def _names_of(work: Work, names: set[str]) -> set[str]:
    op = OPS.get(LOSSES.get(work.work, work.work))
    if op is None or work.part in ("step", "forward+backward"):
        return names
    outputs = set(op.outputs)
    return names - outputs if work.part == "backward" else names & outputs


def _worse(one: Verdict, other: Verdict) -> Verdict:
    """The larger share (what is no number is larger than all), with the larger error of the two."""
    error = max(one.error, other.error)
    first = one.wrong and not other.wrong or one.share >= other.share
    worst = one if first and not (math.isnan(other.share) and not math.isnan(one.share)) else other
    return Verdict(worst.share, error, worst.worst)


def _compared(name: str, got: Array, held: Held, dtype: str, unit: float) -> Verdict:
    if dtype in ("float32", "float64") and str(got.dtype) != dtype:
        return Verdict(math.inf, math.inf, f"{name} has dtype {got.dtype}, expected {dtype}")
    try:
        part = got if held.at is None else got[held.at]
    except IndexError:
        part = got
    if part.shape != held.exact.shape:
        return Verdict(math.inf, math.inf, f"{name} has shape {got.shape}")
    difference = np.abs(part.astype(held.exact.dtype) - held.exact)
    scale = float(np.abs(held.exact).max(initial=0.0))
    error = float(difference.max(initial=0.0)) / (unit * scale) if scale else 0.0
    if isinstance(held.budget, float):
        return Verdict(_rms(difference) / held.budget, error, name)
    budget = held.budget
    promised = np.isfinite(held.exact) & np.isfinite(budget)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(difference == 0.0, 0.0, difference / budget)
    share = np.where(promised, share, 0.0)
    error = float(np.where(promised, difference, 0.0).max(initial=0.0)) / (unit * scale) if scale and np.isfinite(scale) else 0.0
    return Verdict(float(share.max(initial=0.0)), error, name)


def _compare_generation(outputs: dict[str, Array], truth: Truth) -> Verdict:
    """Another token is right only where its logit is as near the largest as two errors may bring it; what follows it is
    another text, and is not compared."""
    ids, exact = np.asarray(outputs["ids"]), truth.whole["ids"].exact
    if ids.shape != exact.shape:
        return Verdict(math.inf, math.inf, f"ids has shape {ids.shape}, expected {exact.shape}")
    logits = truth.whole["logits"]
    assert isinstance(logits.budget, float) and truth.gaps is not None
    found = Verdict(0.0, 0.0, "")
    for b in range(len(ids)):
        different = np.flatnonzero(ids[b] != exact[b])
        if different.size:
            gap = float(truth.gaps[b, different[0], ids[b, different[0]]])
            found = _worse(found, Verdict(gap / (2.0 * logits.budget), 0.0, f"token {different[0]} of sequence {b}"))
        elif "logits" in outputs:
            one = Held(logits.exact[b], logits.budget)
            dtype = str(outputs["logits"].dtype)
            found = _worse(found, _compared("logits", outputs["logits"][b], one, dtype, truth.unit))
    return found
