"""An answer beside what is right: the share of its budget that the worst of its tensors takes."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.work import Inputs, Work
from equivalence_tests.arithmetic import Array
from equivalence_tests.ops import OPS

LOSSES = {"gpt_step": "gpt_loss", "rnn_step": "generative_rnn_loss"}


@dataclass(frozen=True)
class Held:
    """One tensor, or those elements of it at `at`: what is right, and how far off it may be: each element by `budget`, the
    root mean square of all of them by `rms`."""

    exact: Array
    budget: Array | None = None
    rms: float | None = None
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
        found = worse(found, _compared(name, outputs[name], held[name], work.dtype, truth.unit))
    for name in outputs.keys() - names:
        return Verdict(math.inf, math.inf, f"{name} is there, but nobody asked for it")
    return found


def _names_of(work: Work, names: set[str]) -> set[str]:
    op = OPS.get(LOSSES.get(work.work, work.work))
    if op is None or work.part in ("step", "forward+backward") or work.part.startswith("copy"):
        return names
    outputs = set(op.outputs)
    return names - outputs if work.part == "backward" else names & outputs


def worse(one: Verdict, other: Verdict) -> Verdict:
    """The larger share (what is no number is larger than all), with the larger error of the two."""
    error = max(one.error, other.error)
    first = (one.wrong and not other.wrong) or one.share >= other.share
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
    promised = np.isfinite(held.exact)
    exact = np.where(promised, held.exact, 0.0)
    difference = np.where(promised, np.abs(np.where(promised, part, 0).astype(exact.dtype) - exact), 0.0)
    scale = float(np.abs(exact).max(initial=0.0))
    error = float(difference.max(initial=0.0)) / (unit * scale) if scale else 0.0
    share = 0.0 if held.rms is None else rms_of(difference) / held.rms
    if held.budget is not None:
        budget = np.where(promised, held.budget, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):  # where nothing is allowed, nothing must be there
            shares = np.where(difference == 0.0, 0.0, difference / budget)
        share = float(np.maximum(share, shares.max(initial=0.0)))  # unlike max, it lets NaN through
    return Verdict(share, error, name)


def _compare_generation(outputs: dict[str, Array], truth: Truth) -> Verdict:
    """Another token is right only where its logit is as near the largest as two errors may bring it; what follows it is
    another text, and is not compared."""
    ids, exact = np.asarray(outputs["ids"]), truth.whole["ids"].exact
    if ids.shape != exact.shape:
        return Verdict(math.inf, math.inf, f"ids has shape {ids.shape}, expected {exact.shape}")
    logits = truth.whole["logits"]
    assert logits.rms is not None
    assert truth.gaps is not None
    found = Verdict(0.0, 0.0, "")
    for b in range(len(ids)):
        different = np.flatnonzero(ids[b] != exact[b])
        if different.size:
            gap = float(truth.gaps[b, different[0], ids[b, different[0]]])
            found = worse(found, Verdict(gap / (2.0 * logits.rms), 0.0, f"token {different[0]} of sequence {b}"))
        elif "logits" in outputs:
            one = Held(logits.exact[b], rms=logits.rms)
            dtype = str(outputs["logits"].dtype)
            found = worse(found, _compared("logits", outputs["logits"][b], one, dtype, truth.unit))
    return found


def rms_of(X: Array) -> float:
    flat = np.asarray(X, np.float64).reshape(-1)
    return math.sqrt(float(flat @ flat) / max(flat.size, 1))
