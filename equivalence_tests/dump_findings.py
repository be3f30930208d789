"""What is said of the wrong lines of a dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array, Bounded
from equivalence_tests.dump_arrays import Dump
from equivalence_tests.findings import Finding
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.ops import Op


@dataclass(frozen=True)
class Culprit:
    """A tensor that is wrong although what it follows from is right, or is taken as it stands.

    `given` are the tensors at hand that it was judged from, `between` the lines from there to it that are not at hand;
    `lines` are those of `given` that are lines of the forward; `backward` tells a gradient's line from the forward's.
    """

    name: str
    got: Array
    truth: Bounded
    given: tuple[str, ...]
    between: tuple[str, ...]
    lines: tuple[str, ...]
    backward: bool


def findings_of(culprits: Sequence[Culprit], sizes: dict[str, float]) -> list[Finding]:
    """What is said of the wrong lines, in the order of the formula; in front of them what would explain several at once.

    `sizes` are numbers by the name that a factor may have.
    """
    return [*_together(culprits), *(finding for culprit in culprits for finding in _of_one(culprit, sizes))]


def _together(culprits: Sequence[Culprit]) -> list[Finding]:
    for one in culprits:
        for other in culprits:
            if one is not other and _equal(one.got, other.truth):
                return [Finding("dump_swapped", one.name, stage_of(one.name), {"other": other.name})]
    first = culprits[0] if len(culprits) > 1 else None
    if first is None or any(each.backward != first.backward for each in culprits):
        return []
    names = ", ".join(each.name for each in culprits)
    shared = [line for line in first.between if all(line in each.between for each in culprits)]
    if shared:
        return [Finding("dump_shared", first.name, shared[0], {"names": names, "lines": ", ".join(shared)}, sure=False)]
    seen = [line for line in first.lines if all(line in each.lines for each in culprits)]
    if seen and first.backward:
        return [Finding("dump_other", first.name, seen[0], {"names": names, "lines": ", ".join(seen)}, sure=False)]
    return []


def _equal(got: Array, truth: Bounded) -> bool:
    """Within the budget, everywhere, and not merely because there is nothing but zeros."""
    if got.shape != truth.value.shape:
        return False
    return bool((np.abs(got - truth.value) <= truth.budget()).all() and got.any())


def sizes_of(op: Op, dump: Dump) -> dict[str, float]:
    """The numbers that a factor may be, by the name it then has."""
    shapes = {name: tensor.value.shape for name, tensor in dump.numbers.items()}
    letters: dict[str, float] = {}
    for name, pattern in (PATTERNS[op.name].operands if op.name in PATTERNS else {}).items():
        kept = [letter for letter in pattern.split() if letter != "..."]
        if name in shapes and kept:
            letters |= dict(zip(kept, shapes[name][-len(kept) :], strict=True))
    if op.name == "multi_head_attention" and "Hc" in letters:
        letters |= {"c": letters["Hc"] / dump.options["num_heads"], "H": dump.options["num_heads"]}
    sizes = {"-1": -1.0, "2": 2.0, "1/2": 0.5}
    if dump.options.get("scale"):
        sizes |= {"scale": dump.options["scale"], "1/scale": 1.0 / dump.options["scale"]}
    if 0.0 < dump.options.get("p", 0.0) < 1.0:
        sizes |= {"1 - p": 1.0 - dump.options["p"], "1/(1 - p)": 1.0 / (1.0 - dump.options["p"])}
    for letter in sorted((each for each in letters if letters[each] > 1), key=lambda each: each not in "cd"):
        size = float(letters[letter])
        sizes |= {
            f"sqrt({letter})": size**0.5,
            f"1/sqrt({letter})": size**-0.5,
            letter: size,
            f"1/{letter}": 1.0 / size,
        }
    return sizes


STAGES = {
    "attention": "attention",
    "feed_forward": "feed_forward",
    "norm_1": "norm",
    "norm_2": "norm",
    "norm": "last norm",
}


def stage_of(name: str) -> str:
    """The line of a formula that a tensor belongs to: of a model's parameter, the part that it is a parameter of."""
    parts = name.removeprefix("d").split(".")
    if len(parts) == 1:
        return name
    part = parts[2] if parts[0] == "blocks" else parts[0]
    return f"d{STAGES.get(part, part)}"


def _of_one(culprit: Culprit, sizes: dict[str, float]) -> list[Finding]:
    name, got, truth = culprit.name, culprit.got, culprit.truth
    stage = stage_of(name)
    given = ", ".join(culprit.given)
    if got.shape != truth.value.shape:
        return [Finding("wrong_shape", name, stage, {"got": str(got.shape), "expected": str(truth.value.shape)})]
    where = {"given": given, "lines": ", ".join((*culprit.between, name))}
    found = []
    factor, slack = _factor(got, truth)
    if factor is not None:
        named = next((text for text, size in sizes.items() if abs(factor / size - 1.0) <= slack), f"{factor:.5g}")
        found.append(
            Finding("dump_factor", name, stage, {"factor": factor, "named": named, **where}, not culprit.between)
        )
    if name == "A" and culprit.given != ("X",) and _sums_to_one(got, -2) and not _sums_to_one(got, -1):
        found.append(Finding("dump_columns", name, stage, where))
    return [
        *found,
        Finding("dump_lines" if culprit.between else "dump_line", name, stage, {**where, **_worst(got, truth)}),
    ]


def _factor(got: Array, truth: Bounded) -> tuple[float | None, float]:
    """s if got = s truth within the budget, and the relative error that s may have; None if it is no multiple."""
    budget = truth.budget()
    promised = np.isfinite(truth.value) & np.isfinite(budget) & np.isfinite(got)
    w, g, e = (np.where(promised, x, 0).astype(np.float64) for x in (got, truth.value, budget))
    size = float((g * g).sum())
    if size == 0.0 or not promised.any():
        return None, 0.0
    s = float((w * g).sum()) / size
    slack = float((e * np.abs(g)).sum()) / size
    fits = np.abs(w - s * g) <= (1.0 + abs(s)) * e + abs(s) * slack * np.abs(g)
    told = bool(fits.all()) and s != 0.0 and slack < 0.5 and int((g != 0).sum()) > 1
    return (s if told and abs(s - 1.0) > slack else None), slack


def _sums_to_one(A: Array, axis: int) -> bool:
    """Whether what has any weight at all sums to 1 over the axis: as far as float32 can tell, or the array's own dtype."""
    sums = A.sum(axis)
    sums, slack = sums[sums != 0], 2 * (A.shape[axis] + 4) * float(np.finfo(A.dtype).eps)
    return A.shape[axis] > 1 and sums.size > 0 and bool((np.abs(sums - 1.0) <= slack).all())


def _worst(got: Array, truth: Bounded) -> dict[str, Any]:
    """The element that is furthest beyond its budget; one that is no number is further than any."""
    budget, exact = truth.budget(), truth.value
    promised = np.where(np.isfinite(exact), np.isfinite(budget), np.isneginf(exact) & (budget == 0))
    with np.errstate(all="ignore"):
        share = np.abs(got - exact) / np.where(budget > 0, budget, np.finfo(np.float64).tiny)
    share = np.where(got == exact, 0.0, np.where(np.isfinite(share), share, np.inf))
    share = np.where(promised, share, 0.0).astype(np.float64)
    at = np.unravel_index(int(share.argmax()), share.shape)
    numbers = {"got": got[at], "expected": exact[at], "share": share[at]}
    shown = {name: float(value) if np.isfinite(value) else str(float(value)) for name, value in numbers.items()}
    return {"index": ", ".join(str(int(i)) for i in at), **shown}  # JSON has no NaN and no infinity
