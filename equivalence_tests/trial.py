"""What a candidate takes, found by calling it on small cases."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.implementations import Answer, NotOffered, prepared, run

if TYPE_CHECKING:
    from equivalence_tests.candidate import Candidate

TRIED, DRAWN = 4, 16  # cases that are tried, out of so many
NARROW = {"embedding": ("int32", "uint8"), "cross_entropy": ("int32",)}


def answers(candidate: Candidate) -> bool:
    """Whether it answers a small case with arrays of its framework, in one dtype or another."""
    for case in _cases(candidate):
        for dtype in ("float32", "float64"):
            answer = _answer(candidate, case, dtype)
            if answer is not None and not any(tensor.dtype.startswith("of a") for tensor in answer.values()):
                return True
    return False


def not_taken(candidate: Candidate) -> frozenset[str]:
    """The integer types that it refuses, or reads as something else, on cases that it answers with int64. Something else
    is for torch alone, where ids in uint8 may be a mask: in NumPy such an answer is a mistake."""
    found = set()
    narrow = NARROW.get(candidate.op.name, ("int32",) if candidate.op.model else ())
    if not narrow:
        return frozenset()
    for case in _cases(candidate):
        wide = _answer(candidate, _cast(case, "int64"), "float32")
        for name in narrow if wide is not None else ():
            other = _answer(candidate, _cast(case, name), "float32")
            if other is None or (candidate.framework == "torch" and not _same(wide or {}, other)):
                found.add(name)
    return frozenset(found)


def remembers(candidate: Candidate) -> bool:
    """Whether the forward of a pair gives (Y, cache)."""
    for case in _cases(candidate):
        with _quiet():
            given = _forward(candidate, case)
            if given is not None:
                return given[1][2] is not None
    return True


def gradients_missing(candidate: Candidate) -> tuple[str, ...]:
    """The operands whose gradient a backward does not return, if it returns another's."""
    missing: set[str] = set()
    for case in _cases(candidate):
        names = candidate.op.gradient_names(case)
        if candidate.op.model or len(names) < 2:
            continue
        answer = _answer(candidate, case, "float32")
        came = [name for name in names if answer is not None and answer[f"d{name}"].dtype != "of a NoneType"]
        if came:
            missing |= {*names} - {*came}
    return tuple(name for name in candidate.op.differentiable if name in missing)


def forward_raises(candidate: Candidate, case: Case) -> bool:
    """Whether it is the forward that raises on a case: of a torch function, whose gradient is autograd's, it is."""
    implementation = candidate.raw or candidate.implementation
    if implementation.there is not None:
        return bool(implementation.there.forward_raises(case))
    if implementation.answers is not None:
        return False
    with _quiet():
        return not implementation.pairs or _forward(candidate, case) is None


def _cases(candidate: Candidate) -> Iterator[Case]:
    """A few easy cases that it takes, in contiguous arrays: of none, one and two leading axes, with and without options."""
    count = 0
    for index in range(DRAWN):
        draws = SeededDraws(np.random.default_rng([17, index]), candidate.sizes_at(0))
        try:
            case = candidate.taken(candidate.row.draw(draws, False))
        except NotOffered:
            continue
        count += 1
        yield replace(case, layouts={})
        if count == TRIED:
            return


def _cast(case: Case, integers: str) -> Case:
    cast = {n: X.astype(integers) if X.dtype.kind in "iu" else X for n, X in case.operands.items()}
    return replace(case, operands=cast)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _answer(candidate: Candidate, case: Case, dtype: str) -> Answer | None:
    """What it answers, or None if it raises."""
    try:
        with _quiet():
            return run(candidate.implementation, candidate.op, case.rounded(PRECISIONS[dtype]), dtype)
    except (Exception, SystemExit):
        return None


def _forward(candidate: Candidate, case: Case) -> Any:
    """What the forward returns, or None if it raises. It may write into its operands: that is no refusal of them."""
    operands, options, _ = prepared(case.rounded(PRECISIONS["float32"]), "float32", writeable=True)
    try:
        return candidate.implementation.forward(candidate.op.name)(*candidate.op.arguments(operands), **options)
    except (Exception, SystemExit):
        return None


def _same(one: Answer, other: Answer) -> bool:
    return all(np.array_equal(one[name].value, other[name].value, equal_nan=True) for name in one)
