"""Hypotheses about a formula: each line, and each thing that a line uses, put otherwise.

They come from the trace of one case, so that whatever formula passes its lines through `Stages` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.diagnosis import lines
from equivalence_tests.diagnosis.activations import OF_LOG_P, OF_ONEHOT
from equivalence_tests.diagnosis.combined import REMEMBERED, combined
from equivalence_tests.diagnosis.editing import Edit, Editing, Hypothesis, Slot
from equivalence_tests.diagnosis.functions import ALTERNATIVES, CONSTANTS
from equivalence_tests.diagnosis.numbers import (
    OF_A_NUMBER,
    OF_AN_ARRAY,
    OF_ANOTHER_LINE,
    OF_LEADING_AXES,
    OF_LINES,
    OF_ROWS,
    OF_THE_ORDER,
)
from equivalence_tests.diagnosis.other import Change, Other
from equivalence_tests.diagnosis.plain import Plain
from equivalence_tests.diagnosis.sizes import factors
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.mistakes.vocabulary import STAGES
from equivalence_tests.ops import Op

Key = tuple[str, str]  # a line, and what it uses or nothing
# A model takes its time: of the factors and forms only these are tried on it.
FEW = ("2", "1/2", "3", "sqrt(d)", "1/sqrt(d)", "sqrt(c)", "1/sequences", "1/n", "1/ln 2", "ln 2")
FEW_FORMS = ("it twice", "half of it", "its positive part")


def hypotheses(
    op: Op, case: Case, trace: Editing, forward: bool, straight: Collection[Key] = ()
) -> Iterator[Hypothesis]:
    """Every edit of the forward's lines, or of the backward's; a factor on what is `straight` the regression finds."""
    met: set[Key] = set()
    for order, slot in enumerate(trace.slots):
        key = (slot.of, slot.slot)
        if slot.backward == forward or key in met:
            continue
        met.add(key)
        dearer = 0.5 if slot.of.endswith(REMEMBERED) else 0.0  # it says that several lines are wrong
        for each in _of(op, case, slot, trace):
            if each.code == "wrong_factor" and key in straight:
                continue
            stage = each.stage
            if stage == slot.of and dearer:
                stage = _first_use(trace, slot, order)
            elif stage == slot.of and forward and slot.slot in _optional(op):
                stage = slot.slot  # an operand that may be left out is as an option
            yield replace(each, order=order, cost=each.cost + dearer, stage=stage)
    yield from combined(op, trace, forward)


def _optional(op: Op) -> tuple[str, ...]:
    pattern = PATTERNS.get(op.name)
    return tuple(name for name in (pattern.optional if pattern else ()) if name in STAGES[op.name])


def _first_use(trace: Editing, slot: Slot, order: int) -> str:
    """The first line of the backward that reads what is remembered."""
    return next((later.of for later in trace.slots[order + 1 :] if later.slot == slot.slot), slot.of)


def _of(op: Op, case: Case, slot: Slot, trace: Editing) -> Iterator[Hypothesis]:
    if isinstance(slot.value, Plain):
        yield from _of_special_numbers(op, slot)
        yield from _of_a_number(op, case, slot)
        yield from _of_other_lines(op, slot, trace)
    elif callable(slot.value):
        yield from _of_others(slot, ALTERNATIVES.get(getattr(slot.value, "__name__", ""), ()))
        if slot.slot == "max":
            yield from _of_a_maximum(slot)
    elif isinstance(slot.value, np.ndarray):
        yield from _of_an_array(slot, trace)
    else:
        yield from _of_a_constant(op, case, slot)


def _said(slot: Slot, code: str, change: Change, cost: float, **numbers: Any) -> Hypothesis:
    return Hypothesis(code, slot.of, numbers, (Edit(slot.of, slot.slot, change),), forward=not slot.backward, cost=cost)


def _of_others(slot: Slot, others: Collection[Other]) -> Iterator[Hypothesis]:
    for other in others:
        said = _said(slot, other.code, other.of, other.cost, **other.numbers)
        yield replace(said, stage=other.stage or slot.of, native=other.native)


def _of_special_numbers(op: Op, slot: Slot) -> Iterator[Hypothesis]:
    """Logarithms of probabilities, one-hot matrices, embeddings."""
    if not slot.slot and (slot.of == "log P" or (slot.of == "Y" and op.name == "log_softmax")):
        yield from _of_others(slot, OF_LOG_P)
    if slot.slot == "onehot":
        for how, change in OF_ONEHOT.items():
            yield _said(slot, "repeats", change, 2.0, how=how)
    if slot.slot == "weight" or slot.of in ("dweight", "dtoken_embedding", "dembedding"):
        yield _said(slot, "row_0", _without_row_0, 2.0)


def _without_row_0(x: Any, _: Editing) -> Any:
    return x.where(np.arange(x.value.shape[-2])[:, None] != 0)


def _of_a_number(op: Op, case: Case, slot: Slot) -> Iterator[Hypothesis]:
    """It alone: left out, times a factor, transposed, of another form, one sample's for all."""
    what = slot.slot or slot.of
    if slot.slot and slot.value.value.ndim == 0:
        yield _said(slot, "missing_constant", lambda x, _: x._new(np.ones_like(x.value)), 2.0, operand=what)
    elif slot.slot:
        yield _said(slot, "missing_operand", lambda x, _: x._new(np.ones_like(x.value)), 2.0, operand=what)
    yield _said(slot, "missing_term", lambda x, _: x * 0.0, 2.0, term=what)
    yield _said(slot, "wrong_sign", lambda x, _: -x, 2.5, term=what)
    if not slot.slot:
        for name, factor in factors(op, case, simple=True).items():
            if factor not in (-1.0, 0.0, 1.0) and (not op.model or name in FEW):
                yield _said(slot, "wrong_factor", _times(op, name), 3.0, factor=factor, named=name, term=what)
    if slot.value.value.ndim > 1:
        yield _said(slot, "transposed", lambda x, _: x.mT, 2.0, term=what)
        yield _said(slot, "transposed", _turned_if_square, 2.3, term=what)
    for form, change in OF_A_NUMBER.items():
        if not op.model or form in FEW_FORMS:
            yield _said(slot, "other_form", change, 4.0, term=what, form=form)
    for form, change in OF_ROWS.items():
        if not op.model:
            yield _said(slot, "other_form", change, 3.5, term=what, form=form, kind="axis")
    for form, change in OF_LINES.get(slot.of, {}).items() if not slot.slot else ():
        yield _said(slot, "other_form", change, 1.8, term=what, form=form)
    for which, change in OF_LEADING_AXES.items():
        kind = "operand" if "head" in which else "axis" if "reshaped" in which else "accumulation"
        yield _said(slot, "some_for_all", change, 4.0, term=what, which=which, kind=kind)


def _turned_if_square(x: Any, _: Editing) -> Any:
    return x.mT if x.value.ndim > 1 and x.value.shape[-1] == x.value.shape[-2] else x


def _times(op: Op, name: str) -> Change:
    return lambda value, stage: value * factors(op, stage.case, simple=True)[name]


def _of_other_lines(op: Op, slot: Slot, trace: Editing) -> Iterator[Hypothesis]:
    """Another line in its place, or beside it."""
    what = slot.slot or slot.of
    for name in lines.of_the_same_shape(slot, trace):
        if lines.constant_ratio(slot.value, trace.lines[name]) is not None:
            if slot.slot:
                operand = f"factor that takes {name} to {what}"
                yield _said(slot, "missing_constant", lines.line(name), 1.9, operand=operand)
            continue
        if not slot.slot and lines.uses(slot.of, name, trace):
            yield _said(slot, "overwritten", lines.line(name), 0.95, term=what, got=name)
        if not slot.slot and lines.is_earlier(name, slot, trace) and name.removeprefix("d") not in op.differentiable:
            yield _said(slot, "skipped", lines.line(name), 2.5, got=name)
        yield _said(slot, "wrong_operand", lines.line(name), 2.0 if slot.slot else 2.6, term=what, got=name)
        if op.model:
            continue
        for form, function in OF_ANOTHER_LINE.items():
            got, cost = form.replace("{}", name), 3.4 if lines.uses(slot.of, name, trace) else 4.5
            yield _said(slot, "other_form", lines.function_of(name, function), cost, term=what, form=got)
    for name in lines.turned(slot, trace) if slot.slot and not op.model else ():
        there = lines.line(name, turned=True)
        if lines.constant_ratio(slot.value, trace.lines[name].mT) is not None:
            yield _said(slot, "missing_constant", there, 1.9, operand=f"factor that takes {name} to {what}")
        else:
            yield _said(slot, "wrong_operand", there, 4.0, term=what, got=f"{name}^T")
    for name in lines.with_rows(slot, trace):
        for which, row in (("first", 0), ("last", -1)):
            got = f"the {which} row of {name}"
            yield _said(slot, "wrong_operand", lines.row_of(name, row), 3.0, term=what, got=got)
    if op.model:
        return
    for name in lines.that_broadcast(slot, trace):
        yield _said(slot, "extra_operand", lines.beside(name, lambda x, y: x * y), 3.5, term=what, by=name)
        yield _said(slot, "extra_operand", lines.beside(name, lambda x, y: x / y), 3.8, term=what, by=f"1/{name}")
        yield _said(slot, "extra_term", lines.beside(name, lambda x, y: x + y), 3.8, term=what, by=name)
        yield _said(slot, "extra_term", lines.beside(name, lambda x, y: x - y), 3.9, term=what, by=f"-{name}")


def _of_a_maximum(slot: Slot) -> Iterator[Hypothesis]:
    """Another maximum may make a sum 0, for whoever guards against that; who takes none may clip."""
    for each in _of_others(slot, ALTERNATIVES.get(getattr(slot.value, "__name__", ""), ())):
        guarded = Edit("A", "guard", lambda _, __: "total")
        yield replace(each, edits=(*each.edits, guarded), cost=each.cost + 0.1)
        if each.code == "no_maximum":
            for most in (20.0, 50.0, 80.0, 88.0, 100.0, 500.0, 700.0):
                numbers = {"term": "exp", "form": f"that of its input clipped to [-{most:g}, {most:g}]"}
                edits = (*each.edits, Edit("exp", "exp", _clipped(most)))
                yield replace(each, code="other_form", stage="exp", numbers=numbers, edits=edits, cost=2.5)


def _clipped(most: float) -> Change:
    def exp_of_clipped(D: Any) -> Any:
        return D.moved(lambda x: np.exp(np.clip(x, -most, most)))

    return lambda _, __: exp_of_clipped


def _of_an_array(slot: Slot, trace: Editing) -> Iterator[Hypothesis]:
    """A mask, a one-hot matrix, ids."""
    what = slot.slot
    for form, change in OF_THE_ORDER.items():
        yield _said(slot, "other_form", change, 3.0, term=what, form=form, kind="axis")
    for form, change in OF_AN_ARRAY.items():
        if slot.of.endswith("causal") and form == "all of it":
            yield _said(slot, "option_ignored", change, 1.5, option="causal")
        elif slot.of.endswith("causal") and form == "not it":
            yield _said(slot, "option_inverted", change, 1.5, option="causal")
        elif form == "nothing":
            yield _said(slot, "missing_term", change, 2.0, term=what)
        else:
            yield _said(slot, "other_form", change, 3.0, term=what, form=form)
    if slot.slot == "allowed" and slot.of == "A":
        numbers = {"term": "mask", "form": "zeros after the softmax"}
        yield Hypothesis("other_form", slot.of, numbers, MASKED_LATER, forward=True, cost=2.2)
    if slot.value.dtype != bool:
        return
    for name, line in trace.lines.items():
        if line.value.shape == slot.value.shape:
            for sign, test in SIGNS.items():
                yield _said(slot, "wrong_operand", lines.test_of(name, test), 3.0, term=what, got=f"{name} {sign} 0")


SIGNS: dict[str, Callable[[Any], Any]] = {
    ">": lambda x: x > 0,
    ">=": lambda x: x >= 0,
    "<": lambda x: x < 0,
    "!=": lambda x: x != 0,
}


def _forget_allowed(allowed: Any, stage: Editing) -> Any:
    """The softmax sees all scores but those that a bias forbids; what was allowed is kept for afterwards."""
    stage.lines["allowed"] = allowed
    bias = stage.case.options.get("bias")
    return np.ones_like(allowed) if bias is None else np.broadcast_to(~np.isneginf(bias), allowed.shape)


MASKED_LATER = (
    Edit("A", "allowed", _forget_allowed),
    Edit("A", "", lambda A, stage: A.where(stage.lines["allowed"])),
)


def _of_a_constant(op: Op, case: Case, slot: Slot) -> Iterator[Hypothesis]:
    what = slot.slot or slot.of
    yield from _of_others(slot, CONSTANTS.get(what, ()))
    if slot.slot == "axis" or isinstance(slot.value, bool) or not isinstance(slot.value, float | int | np.floating):
        return
    if slot.slot:
        yield _said(slot, "missing_constant", lambda _, __: 1.0, 1.5, operand=what)
    if slot.slot in ("scale", "count", ""):
        for name, factor in factors(op, case, simple=True).items():
            if not op.model or name in FEW:
                cost = 2.5 if slot.slot == "scale" else 3.1
                yield _said(slot, "wrong_factor", _times(op, name), cost, factor=factor, named=name, term=what)
