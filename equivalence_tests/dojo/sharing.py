"""Many candidates of one op on the same cases: what is exact, and what the known mistakes answer, is computed once."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Bounded, Precision
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.known import Library
from equivalence_tests.mistakes import MISTAKES
from equivalence_tests.ops import Op
from equivalence_tests.stages import AS_IT_IS, Stages


class Kept(Case):
    """A case of float64 that is the same object wherever it comes again."""

    def rounded(self, precision: Precision) -> Case:
        return self if precision.name == "float64" else super().rounded(precision)


class Remembering(Op):
    """An op that computes what is exact of a kept case once."""

    def exact(self, case: Case, precision: Precision, stage: Stages = AS_IT_IS) -> dict[str, Bounded]:
        if not isinstance(case, Kept):
            return super().exact(case, precision, stage)
        key = (self.name, id(case), precision.name, stage.stored)
        if key not in _EXACT:
            _EXACT[key] = super().exact(case, precision, stage)
        return _EXACT[key]


class Sharing(Candidate):
    """A candidate whose cases are kept."""

    def taken(self, case: Case) -> Case:
        found = super().taken(case)
        return _KEPT.setdefault(_digest(found), Kept(**_fields(found)))


_KEPT: dict[bytes, Kept] = {}
_EXACT: dict[tuple[str, int, str, bool], dict[str, Bounded]] = {}  # the cases are kept, and so is the id of each


def sharing(candidate: Candidate) -> Candidate:
    """The same candidate, on kept cases."""
    shared = Sharing(**_fields(candidate))
    return replace(shared, op=Remembering(**_fields(candidate.op)))


@cache
def library_of(op: str) -> Library:
    """The known mistakes of an op, and their answers."""
    return Library([mistake for mistake in MISTAKES.values() if mistake.op == op])


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _digest(case: Case) -> bytes:
    """Everything in a case, to the last bit."""
    parts = [repr((case.hard, sorted(case.layouts.items())))]
    for name, value in {**case.operands, **case.options, **case.upstream}.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for key, each in inner:
            is_array = isinstance(each, np.ndarray)
            parts.append(
                f"{name} {key} {each.shape} {each.dtype} {each.tobytes()!r}" if is_array else f"{name} {each!r}"
            )
    return sha256("\n".join(parts).encode()).digest()
