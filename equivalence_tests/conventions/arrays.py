"""Conventions of how arrays lie: their axes, their dtype, one-hot targets, a mask's meaning."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.candidate import Candidate, with_leading
from equivalence_tests.cases import Case
from equivalence_tests.conventions.habit import Habit
from equivalence_tests.implementations import Answer, NotOffered, Tensor
from equivalence_tests.laws.patterns import PATTERNS, Pattern
from equivalence_tests.observe import Observation
from equivalence_tests.ops import OPS, Op

WIDER = {"float32": ("float64",), "float16": ("float32", "float64"), "bfloat16": ("float32", "float64")}


def dtype(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Results in a wider format than the operands': judged as if they were of the operands' format."""

    def back(answer: Answer, _: Case, wanted: str) -> Answer:
        return {name: _narrowed(tensor, wanted) for name, tensor in answer.items()}

    return Habit("dtype", "convention_dtype", numbers, back=back, measured=True)


def _narrowed(tensor: Tensor, wanted: str) -> Tensor:
    return replace(tensor, dtype=wanted) if tensor.dtype in WIDER.get(wanted, ()) else tensor


def axes(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """A fixed number of leading axes."""

    def case(given: Case) -> Case:
        return with_leading(given, candidate.op.name, numbers["lead"])

    return Habit("axes", "convention_axes", numbers, case=case, arrays=True)


def columns(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Vectors in columns: (d, n) instead of (n, d); vectors of parameters as (d, 1), or as they are."""
    op = candidate.op.name
    pattern = PATTERNS[op]

    def case(given: Case) -> Case:
        found = with_leading(given, op, _lead_of_a_matrix(pattern))
        if any(np.ndim(each) > 2 for each in found.operands.values()):
            raise NotOffered("axes")
        return found

    def turned(name: str, X: Array) -> Array:
        keep = op == "linear" and name in ("weight", "dweight")  # W X: the matrix stands as it is
        return X.T if X.ndim == 2 and not keep else X

    def given_as(name: str, X: Array, letters: str) -> Array:
        vector = X.ndim == 1 and not letters.startswith("...")
        return X[:, None] if vector and numbers["vectors"] == "columns" else turned(name, X)

    def sent(given: Case) -> Case:
        operands = {name: given_as(name, X, pattern.operands[name]) for name, X in given.operands.items()}
        upstream = {name: turned(name, X) for name, X in given.upstream.items()}
        return Case(operands, given.options, upstream, given.hard, {})

    def back(answer: Answer, given: Case, _: str) -> Answer:
        vectors = {f"d{name}" for name, X in given.operands.items() if np.ndim(X) == 1}
        return {name: replace(t, value=_back(name, t.value, name in vectors)) for name, t in answer.items()}

    def _back(name: str, X: Array, vector: bool) -> Array:
        return X[:, 0] if vector and X.ndim == 2 and X.shape[1] == 1 else X if vector else turned(name, X)

    return Habit("columns", "convention_columns", numbers, case=case, sent=sent, back=back, arrays=True)


def _lead_of_a_matrix(pattern: Pattern) -> int:
    letters = next(iter(pattern.operands.values())).replace("...", "").split()
    return 2 - len(letters)


def middle(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """The batch in the second axis: (n, B, d) instead of (B, n, d)."""
    op = candidate.op.name
    pattern = PATTERNS[op]
    tokens = {name for name, letters in {**pattern.operands, **pattern.upstream}.items() if _of_tokens(letters)}

    def case(given: Case) -> Case:
        return with_leading(given, op, 1)

    def turned(name: str, X: Any) -> Any:
        return X.swapaxes(0, 1) if name in tokens and X.ndim == 3 else X

    def sent(given: Case) -> Case:
        operands = {name: turned(name, X) for name, X in given.operands.items()}
        upstream = {name: turned(name, X) for name, X in given.upstream.items()}
        return Case(operands, given.options, upstream, given.hard, {})

    def back(answer: Answer, _: Case, __: str) -> Answer:
        places = {name: name.removeprefix("d") for name in answer}
        places |= {name: f"d{name}" for name in OPS[op].outputs}
        return {name: replace(t, value=turned(places[name], t.value)) for name, t in answer.items()}

    return Habit("middle", "convention_middle", numbers, case=case, sent=sent, back=back, arrays=True)


def _of_tokens(letters: str) -> bool:
    return letters.startswith(("... n", "... m")) and len(letters.split()) == 3


def heads_third(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """(B, n, H, c) instead of (B, H, n, c)."""

    def case(given: Case) -> Case:
        return with_leading(given, candidate.op.name, 2)

    def turned(values: dict[str, Any]) -> dict[str, Any]:
        return {name: X.swapaxes(-2, -3) if np.ndim(X) == 4 else X for name, X in values.items()}

    def sent(given: Case) -> Case:
        return Case(turned(given.operands), given.options, turned(given.upstream), given.hard, {})

    def back(answer: Answer, _: Case, __: str) -> Answer:
        return {
            n: replace(t, value=t.value.swapaxes(-2, -3) if t.value.ndim == 4 else t.value) for n, t in answer.items()
        }

    return Habit("layout", "convention_layout", numbers, case=case, sent=sent, back=back, arrays=True)


def mask_true(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """True in a mask hides a key."""

    def sent(given: Case) -> Case:
        mask = given.options.get("mask")
        return given if mask is None else replace(given, options={**given.options, "mask": ~mask})

    return Habit("mask-true", "convention_mask_true", numbers, sent=sent)


def one_hot(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """Targets as one-hot rows."""

    def sent(given: Case) -> Case:
        logits, targets = given.operands["logits"], given.operands["targets"]
        rows = (np.arange(logits.shape[-1]) == targets[..., None]).astype(np.float64)
        return replace(given, operands={**given.operands, "targets": rows}, layouts={})

    return Habit("one-hot", "convention_one_hot", numbers, sent=sent, arrays=True)


def in_place(candidate: Candidate, numbers: dict[str, Any]) -> Habit:
    """It writes into what it is given: each call gets arrays of its own."""

    def sent(given: Case) -> Case:
        layouts = {name: "strided" if layout == "broadcast" else layout for name, layout in given.layouts.items()}
        return replace(given, layouts=layouts, writeable=True)

    return Habit("in-place", "convention_in_place", numbers, sent=sent)


def guesses(candidate: Candidate, seen: Sequence[Observation]) -> Iterator[Habit]:
    """Those that may explain what was seen."""
    op, convention = candidate.op.name, candidate.convention
    for wanted in WIDER:
        got = {
            name: tensor.dtype
            for each in seen
            if each.dtype == wanted and each.answer
            for name, tensor in each.answer.items()
            if tensor.dtype in WIDER[wanted]
        }
        if got:
            said = {"got": next(iter(got.values())), "expected": wanted, "tensors": ", ".join(got)}
            yield dtype(candidate, said)
    if op not in PATTERNS:
        return
    free = convention.lead is None and convention.layout == "any"
    own_axis = "axis" in candidate.plan.names.values()  # it says itself over which axis it goes
    if free and not own_axis and op not in ("relu", "tanh", "gelu", "dropout", "embedding", "multi_head_attention"):
        yield from (columns(candidate, {"vectors": way}) for way in ("columns", "rows"))
    if free and any(_of_tokens(letters) for letters in PATTERNS[op].operands.values()):
        yield middle(candidate, {})
    if op == "attention" and free:
        yield heads_third(candidate, {"layout": "(B, n, H, c)"})
    if free and _has_leading(op):
        yield from (axes(candidate, {"lead": lead}) for lead in (0, 1, 2) if _refuses_others(candidate.op, lead, seen))
    if op == "cross_entropy":
        yield one_hot(candidate, {})
    if "mask" in candidate.plan.names.values() and convention.mask_true == "keeps":
        yield mask_true(candidate, {})


def _refuses_others(op: Op, lead: int, seen: Sequence[Observation]) -> bool:
    """Whether it shows that it is made for so many leading axes: with others it raises, or its output has another shape.

    Code of (N, d), one leading axis, may take a third axis in silence. A gradient of another shape beside a right output is
    a missing sum, and a maximum over the whole array does not show where there are no leading axes: these are mistakes.
    """
    refused = [each.raised or not fits(each, op.outputs) for each in seen if each.wrong]
    return any(refused) if lead == 1 else all(refused)


def fits(each: Observation, names: Collection[str] = ()) -> bool:
    """Whether it answered, every tensor (or each of these) in its shape."""
    answer = each.answer
    wanted = {name: truth for name, truth in each.exact.items() if not names or name in names}
    return answer is not None and all(
        name in answer and answer[name].value.shape == truth.value.shape for name, truth in wanted.items()
    )


def _has_leading(op: str) -> bool:
    """An elementwise op has no other axes."""
    return op not in ("relu", "tanh", "gelu", "dropout")
