"""Conventions that change values: an epsilon, the form of gelu, how a loss is reduced, what a query sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Bounded
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.conventions.habit import Habit
from equivalence_tests.implementations import Answer, NotOffered
from equivalence_tests.judge import Judgement
from equivalence_tests.observe import Observation
from equivalence_tests.ops import Op
from equivalence_tests.stages import AS_IT_IS, Stages

EPSILONS = (1e-6, 1e-8, 1e-12, 1e-3, 1e-4, 1e-7, 1e-9, 1e-10, 1e-15, 1e-16, 2.0**-23, 2.0**-52, 0.0)
ATTENDING = ("attention", "self_attention", "multi_head_attention")
WINDOWS = range(1, 9)


def _with(case: Case, **options: Any) -> Case:
    return replace(case, options={**case.options, **options})


def _without(case: Case, *names: str) -> Case:
    return replace(case, options={name: value for name, value in case.options.items() if name not in names})


# Layer norm


def epsilon(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Another epsilon where none is given."""
    taken = "epsilon" in candidate.plan.names.values()
    own = numbers["got"]

    def case(given: Case) -> Case:
        return given if "epsilon" in given.options else _with(given, epsilon=own)

    def sent(given: Case) -> Case:
        return given if taken and given.options.get("epsilon") != own else _without(given, "epsilon")

    measured = bool(numbers.get("measured"))
    return Habit("epsilon", "convention_epsilon", numbers, case=case, sent=sent, measured=measured)


def measured_epsilon(seen: Sequence[Observation]) -> float | None:
    """The epsilon that three cases show, whatever multiplies the variance; None if it is the table's, or is none.

    In each row N / (X - mean(X)) is r, and 1/r^2 = k var + epsilon: two rows give k and epsilon.
    """
    found: dict[float, int] = {}
    for each in seen:
        X, scale, shift = (each.case.operands[name] for name in ("X", "scale", "shift"))
        if each.dtype != "float64" or not each.answer or "epsilon" in each.case.options or X.ndim < 2:
            continue
        Y = each.answer["Y"].value
        if Y.shape != X.shape:
            continue
        D = X - X.mean(-1, keepdims=True)
        with np.errstate(all="ignore"):
            rows = np.nanmedian((scale * D / (Y - shift)) ** 2, axis=-1).ravel()  # 1/r^2
        var = (D * D).mean(-1).ravel()
        usable = np.isfinite(rows) & (var > 0)
        if usable.sum() < 2:
            continue
        low, high = (pick(np.where(usable, var, np.nan)) for pick in (np.nanargmin, np.nanargmax))
        if var[high] < 2 * var[low]:
            continue
        k = (rows[high] - rows[low]) / (var[high] - var[low])
        own = rows[low] - k * var[low]
        for value in (*EPSILONS, 1e-5):  # a factor beside the variance alone, or before the root
            if value and min(abs(own - value), abs(own / k - value)) < 0.02 * value:
                found[value] = found.get(value, 0) + 1
    best = max(found, key=lambda value: found[value], default=1e-5)
    return None if best == 1e-5 or found[best] < 3 else best


# Gelu


def gelu_erf(X: Bounded, dY: Bounded, stage: Stages = AS_IT_IS) -> dict[str, Bounded]:
    """Y = X Phi(X), dX = dY (Phi + X phi), with Phi(x) = (1 + erf(x / sqrt(2))) / 2 and phi its derivative."""
    pi = 4 * np.arctan(ORACLE(1))
    Z = X * (1 / np.sqrt(ORACLE(2)))
    E = stage("erf", Z.erf())
    Phi = stage("Phi", (1.0 + E) * 0.5)
    Y = stage("Y", X * stage.use("Y", "Phi", Phi))
    stage.backward()
    phi = stage("phi", (X * X * -0.5).exp() * (1 / np.sqrt(2 * pi)))
    second = stage.use("dX", "X phi", X * phi)
    return {"Y": Y, "dX": stage("dX", stage.use("dX", "dY", dY) * (stage.use("dX", "Phi", Phi) + second))}


def gelu_form(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """The erf form instead of the tanh form."""

    def row(op: Op) -> Op:
        return replace(op, formula=gelu_erf)

    return Habit("gelu-form", "convention_gelu_form", numbers, row=row)


# Losses


def _counts(case: Case) -> tuple[int, int, int]:
    """Targets that count, all targets, sequences."""
    targets = case.operands["targets"]
    ignored = case.options.get("ignore_index")
    counted = targets.size if ignored is None else int((targets != ignored).sum())
    return counted, targets.size, targets.shape[0] if targets.ndim else 1


def _by(factor: Callable[[Case], float]) -> Callable[[Answer, Case, str], Answer]:
    def back(answer: Answer, case: Case, _: str) -> Answer:
        return {
            name: replace(tensor, value=np.asarray(tensor.value, ORACLE).sum() * factor(case))
            if name == "loss"
            else replace(tensor, value=np.asarray(tensor.value, ORACLE) * factor(case))
            for name, tensor in answer.items()
        }

    return back


REDUCTIONS: dict[str, Callable[[Case], float]] = {
    "sum": lambda case: 1.0 / _counts(case)[0],
    "mean_all": lambda case: _counts(case)[1] / _counts(case)[0],
    "mean_batch": lambda case: _counts(case)[2] / _counts(case)[0],
    "none": lambda case: 1.0 / _counts(case)[0],
}


def reduction(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """A sum, a mean over all targets, a sum over the batch's size, or a loss for each target."""
    which = numbers["reduction"]
    code = f"convention_{which}"
    if which != "none":
        return Habit("reduction", code, numbers, back=_by(REDUCTIONS[which]))

    def sent(given: Case) -> Case:
        each = np.broadcast_to(given.upstream["dloss"], given.operands["targets"].shape).copy()
        return replace(given, upstream={"dloss": each}, layouts={})

    def asked(op: Op) -> Op:
        return replace(op, scalar=False)

    return Habit("reduction", "convention_no_reduction", numbers, sent=sent, asked=asked, back=_by(REDUCTIONS[which]))


# Attention


def _sizes(case: Case) -> tuple[int, int]:
    if "Q" in case.operands:
        return case.operands["Q"].shape[-2], case.operands["K"].shape[-2]
    n = case.operands["X"].shape[-2]
    return n, n


def causal(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Always causal; with `bottom_right` the last query sees the last key where n != m."""

    def case(given: Case) -> Case:
        n, m = _sizes(given)
        return _with(given, causal=True, query_offset=m - n if numbers.get("bottom_right") else 0)

    def sent(given: Case) -> Case:
        return _without(given, "causal", "query_offset")

    return Habit("causal", "convention_causal", numbers, case=case, sent=sent)


def window(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Each query i sees always just the keys j with `behind >= i - j >= -ahead`. Cases with a mask are not asked."""
    behind, ahead = numbers["behind"], numbers["ahead"]

    def case(given: Case) -> Case:
        if given.options.get("mask") is not None:
            raise NotOffered("mask")
        n, m = _sizes(given)
        apart = np.arange(n)[:, None] - np.arange(m)
        return _with(given, mask=(apart <= behind) & (apart >= -ahead))

    def sent(given: Case) -> Case:
        return _without(given, "mask")  # the candidate has it of itself

    return Habit("window", "convention_window", numbers, case=case, sent=sent)


def alignment(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """With n != m the last query sees the last key: query_offset is m - n."""

    def case(given: Case) -> Case:
        n, m = _sizes(given)
        return _with(given, query_offset=m - n) if given.options.get("causal") else given

    def sent(given: Case) -> Case:
        return _without(given, "query_offset")

    return Habit("alignment", "convention_alignment", numbers, case=case, sent=sent)


RIGHT = Judgement("")
FAR = -1e3  # a score further down than that may lie below a fill


def fill(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Masked scores are filled with a finite number. Rows with nothing to attend to are not asked about."""

    def case(given: Case) -> Case:
        if _empty_rows(given):
            raise NotOffered("mask")
        return given

    return Habit("fill", "convention_fill", numbers, case=case, drops=True)


def _empty_rows(case: Case) -> bool:
    """Whether a query sees no key, or none whose score is above what a fill may be."""
    n, m = _sizes(case)
    visible = np.ones((n, m), bool)
    if case.options.get("causal"):
        visible = np.arange(m) <= np.arange(n)[:, None] + int(case.options.get("query_offset", 0))
    mask, bias = case.options.get("mask"), case.options.get("bias")
    visible = visible if mask is None else visible & mask
    if bias is not None:
        visible = visible & (bias > FAR)
    return not bool(visible.any(-1).all())


def fills(seen: Sequence[Observation]) -> bool:
    """Whether all that is wrong of the output lies in rows of queries that see no key, and is finite: an average of V."""
    found = False
    for each in seen:
        name = next(iter(each.exact))
        if not each.verdicts.get(name, RIGHT).wrong or each.answer is None:
            continue
        got, truth = each.answer[name].value, each.exact[name]
        if got.shape != truth.value.shape:
            return False
        empty = ~truth.value.any(-1)
        right = np.abs(got - truth.value) <= truth.budget()
        if not right[~empty].all() or not np.isfinite(got).all():
            return False
        found = True
    return found


def guesses(candidate: Candidate, seen: Sequence[Observation]) -> Iterator[Habit]:
    """Those that may explain what was seen."""
    op, taken = candidate.op.name, frozenset(candidate.plan.names.values())
    if op == "layer_norm":
        own = measured_epsilon(seen)
        if own is not None:
            yield epsilon(candidate, {"got": own, "expected": 1e-5, "measured": True})
        yield from (epsilon(candidate, {"got": value, "expected": 1e-5}) for value in EPSILONS)
    if op == "gelu":
        yield gelu_form(candidate, {})
    if op == "cross_entropy":
        yield from (reduction(candidate, {"reduction": which}) for which in REDUCTIONS)
    if op not in ATTENDING:
        return
    if "causal" not in taken:
        for bottom_right in (False, True) if op == "attention" else (False,):
            more = {"bottom_right": True} if bottom_right else {}
            yield causal(candidate, more)
        for width in WINDOWS:
            yield window(candidate, {"behind": width, "ahead": 0})
            yield window(candidate, {"behind": width, "ahead": width})
    elif op == "attention" and "query_offset" not in taken:
        yield alignment(candidate, {})
    if {"mask", "causal"} & taken and fills(seen):
        yield fill(candidate, {})
