"""Where and when the wrong elements lie, for a formula that nobody guessed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.close import Seen, Tensor
from equivalence_tests.diagnosis.formula import tensor_stage
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op

ENOUGH = 2  # cases of either kind, before a pattern is called one


def worst_element(seen: Sequence[Seen], names: Sequence[str]) -> Finding | None:
    """The element that is furthest off, in budgets, of all cases."""
    best: tuple[float, Seen, str, Tensor] | None = None
    for each in seen:
        for name in names:
            tensor = each.tensors.get(name)
            if tensor is None or not tensor.wrong or tensor.got is None or tensor.got.shape != tensor.exact.shape:
                continue
            share = _shares(tensor)
            top = float(share.max(initial=0.0))
            top = min(top, 1e300)
            if best is None or (not each.case.hard, top) > (not best[1].case.hard, best[0]):
                best = (top, each, name, tensor)
    if best is None:
        return None
    top, each, name, tensor = best
    at = np.unravel_index(int(_shares(tensor).argmax()), tensor.exact.shape)
    assert tensor.got is not None
    numbers = {
        "index": ", ".join(str(int(i)) for i in at),
        "got": float(tensor.got[at]),
        "expected": float(tensor.exact[at]),
        "share": top,
        "axis": affected(each, tensor),
    }
    return Finding("worst_element", name, "", numbers)


def _shares(tensor: Tensor) -> Array:
    assert tensor.got is not None
    with np.errstate(all="ignore"):
        apart = np.abs(tensor.got - tensor.exact)
        share = apart / np.where(tensor.budget > 0, tensor.budget, np.finfo(float).tiny)
    share = np.where(np.isnan(apart), np.inf, share)
    return np.where(tensor.counted & np.isfinite(tensor.exact), share, 0.0)


def wrong_elements(tensor: Tensor) -> Array:
    return _shares(tensor) > 1.0


def affected(seen: Seen, tensor: Tensor) -> str:
    """The axes along which some places are right and others wrong, or "every element"."""
    wrong = wrong_elements(tensor)
    if wrong.all() or wrong.ndim == 0:
        return "every element"
    partly = []
    for axis in range(wrong.ndim):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        along = wrong.any(others)
        if not along.all():
            partly.append(f"axis {axis - wrong.ndim}: {_places(np.flatnonzero(along), along.size)}")
    return "; ".join(partly) or f"{int(wrong.sum())} of {wrong.size} elements"


def _places(at: Array, size: int) -> str:
    if len(at) == 1:
        return "the first" if at[0] == 0 else "the last" if at[0] == size - 1 else f"{int(at[0])} alone"
    if np.array_equal(at, np.arange(1, size)):
        return "all but the first"
    if np.array_equal(at, np.arange(size - 1)):
        return "all but the last"
    return f"{len(at)} of {size} places"


def only_with(op: Op, seen: Sequence[Seen]) -> list[Finding]:
    """What all failing cases have and no passing one (or hardly one): the option is misread, or what is special there."""
    failing = [each for each in seen if each.raised or any(t.wrong for t in each.tensors.values())]
    passing = [each for each in seen if each not in failing]
    if len(failing) < ENOUGH or len(passing) < ENOUGH:
        return []
    name = next((name for each in failing for name, t in each.tensors.items() if t.wrong), op.outputs[0])
    findings = []
    for feature in dict.fromkeys(f for each in failing for f in features(each)):
        without = sum(feature in features(each) for each in passing)
        if all(feature in features(each) for each in failing) and without * 4 <= len(passing):
            option = feature in failing[0].case.options
            numbers = {"feature": feature, "cases": len(failing), "right": len(passing) - without}
            numbers["kind"] = "option" if option else KINDS.get(feature, "operand")
            stage = feature if option or feature == "h0" else tensor_stage(op, name)
            findings.append((without, Finding("only_with", name, stage, numbers, sure=without == 0)))
    return [finding for _, finding in sorted(findings, key=lambda pair: pair[0])]


KINDS = {"repeated ids": "accumulation", "id 0": "special", "several samples": "accumulation", "h0": "option"}


def features(seen: Seen) -> list[str]:
    """What a case has that others have not, and that does something in it."""
    case = seen.case
    found = [name for name, value in case.options.items() if _matters(case, name, value)]
    if "h0" in case.operands:
        found.append("h0")
    for name, layout in case.layouts.items():
        if layout != "contiguous" and case.operands.get(name, np.zeros(0)).size > 1:
            found.append(f"an operand that is not contiguous, {name}")
    if "ids" in case.operands:
        ids = case.operands["ids"]
        if len(np.unique(ids)) < ids.size:
            found.append("repeated ids")
        if (ids == 0).any():
            found.append("id 0")
    lead = max((x.ndim for x in case.operands.values()), default=0)
    if lead > 2 and any(x.ndim > 2 and x.shape[0] > 1 for x in case.operands.values()):
        found.append("several samples")
    return found


def _matters(case: Any, name: str, value: Any) -> bool:
    if value is None or name in ("num_heads", "config", "p"):
        return False
    if name in ("mask", "keep") and isinstance(value, np.ndarray):
        return not bool(value.all())
    if name == "ignore_index":
        return bool((case.operands["targets"] == value).any())
    return bool(np.any(value)) if name in ("causal", "query_offset", "bias") else True


def accuracy(op: Op, seen: Sequence[Seen], names: Sequence[str]) -> Finding | None:
    """Right, but not to the digits of its dtype: a small error everywhere, or an error where numbers cancel."""
    worst, wide, cases = 0.0, 0, 0
    name_of = ""
    for each in seen:
        for name in names:
            tensor = each.tensors.get(name)
            if tensor is None or not tensor.wrong or tensor.got is None or tensor.got.shape != tensor.exact.shape:
                continue
            counted = tensor.counted & np.isfinite(tensor.exact)
            if not np.isfinite(tensor.got[counted]).all():
                return None
            scale = float(np.abs(tensor.exact[counted]).max(initial=0.0))
            error = float(np.abs(tensor.got - tensor.exact)[counted].max(initial=0.0))
            if scale == 0.0:
                return None
            worst = max(worst, error / scale)
            wide += each.observation.dtype == "float64"
            cases += 1
            name_of = name_of or name
    if not cases:
        return None
    digits = -math.log10(worst) if worst else 16.0
    if worst < 1e-3:
        return Finding("accuracy", name_of, tensor_stage(op, name_of), {"digits": digits, "cases": cases}, sure=True)
    hard = [each.case.hard for each in seen if each.wrong(names)]
    if all(hard):
        return Finding(
            "hard_only", name_of, tensor_stage(op, name_of), {"cases": len(hard), "relative": worst}, sure=False
        )
    return None
