"""Hypotheses about the operands of the forward: one in the place of another, one sample's for all, read as they lie."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.editing import Hypothesis
from equivalence_tests.implementations import lay_out
from equivalence_tests.ops import Op


def of_operands(op: Op, cases: list[Case]) -> Iterator[Hypothesis]:
    """The forward as if its operands were others."""
    yield from _parameters(cases) if op.model else _exchanged(cases)
    if op.model:
        yield from _parameters_of_one(cases)
    else:
        yield from _in_memory(cases)
    if any("targets" in case.operands for case in cases):
        numbers = {"term": "targets", "got": "targets shifted once more"}
        yield Hypothesis("wrong_operand", "loss", numbers, case=_shifted, forward=True, cost=2.0)


def _shifted(case: Case) -> Case:
    """Every target is that of the next place; the last one counts no more."""
    targets = case.operands["targets"]
    if targets.ndim == 0 or targets.shape[-1] < 2:
        return case
    ignored = case.options.get("ignore_index")
    ignored = np.iinfo(targets.dtype).min if ignored is None else ignored
    moved = np.roll(targets, -1, -1)
    moved[..., -1] = ignored
    if bool((moved == ignored).all()):
        return case
    return replace(_with(case, targets=moved), options={**case.options, "ignore_index": ignored})


def _in_memory(cases: list[Case]) -> Iterator[Hypothesis]:
    """An operand read as it lies in memory, not by its indices."""
    scattered = {
        name for case in cases for name in case.operands if case.layouts.get(name, "contiguous") != "contiguous"
    }
    for name in sorted(scattered):
        for order in ("K", "F"):
            change = partial(_as_it_lies, name=name, order=order)
            yield Hypothesis("memory_order", name, {"operand": name}, case=change, forward=True, cost=3.0)


def _as_it_lies(case: Case, name: str, order: Any) -> Case:
    value = case.operands.get(name)
    if value is None:
        return case
    lying = lay_out(value, case.layouts.get(name, "contiguous"))
    return _with(case, **{name: lying.ravel(order=order).reshape(value.shape)})


def _exchanged(cases: list[Case]) -> Iterator[Hypothesis]:
    """Two in each other's place, one for another, three in turn; one sample's for all; none at all."""

    def said(code: str, name: str, change: Callable[[Case], Case], cost: float, **numbers: Any) -> Hypothesis:
        return Hypothesis(code, name, numbers, case=change, forward=True, cost=cost)

    every = {name: value for case in cases for name, value in case.operands.items()}
    names = [name for name, value in every.items() if value.dtype.kind == "f"]
    for one, other in permutations(names, 2):
        yield said("wrong_operand", one, partial(_moved, places={one: other}), 2.3, term=one, got=other)
        if names.index(one) < names.index(other):
            change = partial(_moved, places={one: other, other: one})
            yield said("operands_exchanged", one, change, 1.9, term=one, got=other)
    for three in TRIPLES:
        if set(three) <= set(names):
            for turned in ((*three[1:], *three[:1]), (*three[2:], *three[:2])):
                change = partial(_moved, places=dict(zip(three, turned, strict=True)))
                yield said("wrong_operand", three[0], change, 2.4, term=", ".join(three), got=", ".join(turned))
    for name in names:
        yield said("some_for_all", name, partial(_first_for_all, name=name), 3.5, term=name, which="the first")
        yield said("some_for_all", name, partial(_mean_for_all, name=name), 3.5, term=name, which="the mean")
        if name in MAY_BE_LEFT_OUT:
            yield said("option_ignored", name, partial(_zeros, name=name), 1.5, option=name)


TRIPLES = (("Q", "K", "V"), ("Wq", "Wk", "Wv"))
MAY_BE_LEFT_OUT = ("h0", "bias", "shift")


def _with(case: Case, **operands: Any) -> Case:
    return replace(case, operands={**case.operands, **operands})


def _moved(case: Case, places: dict[str, str]) -> Case:
    """Each operand as the other that is named; unchanged where one of them is not there."""
    if not {*places, *places.values()} <= set(case.operands):
        return case
    return _with(case, **{name: case.operands[other] for name, other in places.items()})


def _zeros(case: Case, name: str) -> Case:
    return _with(case, **{name: np.zeros_like(case.operands[name])}) if name in case.operands else case


def _first_for_all(case: Case, name: str) -> Case:
    value = case.operands.get(name, np.zeros(0))
    return case if value.ndim < 2 else _with(case, **{name: np.broadcast_to(value[:1], value.shape)})


def _mean_for_all(case: Case, name: str) -> Case:
    value = case.operands.get(name, np.zeros(0))
    if value.ndim < 2:
        return case
    mean = value.mean(tuple(range(value.ndim - 1)), keepdims=True)
    return _with(case, **{name: np.broadcast_to(mean, value.shape)})


def _parameters(cases: list[Case]) -> Iterator[Hypothesis]:
    """One parameter in the place of another, in every block; one block's for all of them."""
    kinds = {re.sub(r"blocks\.\d+\.", "", name): None for case in cases for name in case.operands if "." in name}
    shapes = {
        kind: {x.shape for case in cases for name, x in case.operands.items() if f".{name}".endswith(f".{kind}")}
        for kind in kinds
    }
    for one, other in combinations(kinds, 2):
        if not shapes[one] & shapes[other]:
            continue
        numbers = {"term": one, "got": other}
        stage = part_of(one)
        exchanged = partial(_rewired, one=one, other=other, both=True)
        yield Hypothesis("operands_exchanged", stage, numbers, case=exchanged, forward=True, cost=1.9)
        for source, target in ((one, other), (other, one)):
            numbers = {"term": target, "got": source}
            copied = partial(_rewired, one=target, other=source, both=False)
            yield Hypothesis("wrong_operand", part_of(target), numbers, case=copied, forward=True, cost=2.3)


def _parameters_of_one(cases: list[Case]) -> Iterator[Hypothesis]:
    """One block's parameters, or masks, for all blocks; one norm's for both."""
    for numbered in ("parameters", "keep"):
        numbers = {"term": f"the blocks' {numbered}", "which": "block 0's", "kind": "operand"}
        change = partial(_block_0, what=numbered)
        stage = "attention" if numbered == "parameters" else "keep"
        yield Hypothesis("some_for_all", stage, numbers, case=change, forward=True, cost=2.0)
    for several in (("norm_1", "norm_2"), ("norm_2", "norm_1")):
        change = partial(_copied_part, target=several[0], source=several[1])
        numbers = {"term": several[0], "got": several[1]}
        yield Hypothesis("wrong_operand", "norm", numbers, case=change, forward=True, cost=2.0)


def part_of(parameter: str) -> str:
    """The line of a model's forward in which a parameter is used."""
    first = re.sub(r"blocks\.\d+\.", "", parameter).split(".")[0]
    line = {"token_embedding": "embedding", "position_embedding": "position", "lm_head": "logits", "norm": "last norm"}
    return line.get(first, "norm" if first.startswith("norm_") else first)


def _rewired(case: Case, one: str, other: str, both: bool) -> Case:
    operands = dict(case.operands)
    for name in case.operands:
        if name == one or name.endswith(f".{one}"):
            theirs = name.removesuffix(one) + other
            if theirs in operands and operands[theirs].shape == operands[name].shape:
                operands[name] = case.operands[theirs]
                if both:
                    operands[theirs] = case.operands[name]
    return replace(case, operands=operands)


def _copied_part(case: Case, target: str, source: str) -> Case:
    operands = {
        name: case.operands.get(name.replace(f".{target}.", f".{source}."), x) for name, x in case.operands.items()
    }
    return replace(case, operands=operands)


def _block_0(case: Case, what: str) -> Case:
    def first(values: dict[str, Any]) -> dict[str, Any]:
        return {name: values.get(re.sub(r"blocks\.\d+\.", "blocks.0.", name), x) for name, x in values.items()}

    if what == "parameters":
        return replace(case, operands=first(case.operands))
    keep = case.options.get("keep")
    return case if keep is None else replace(case, options={**case.options, "keep": first(keep)})
