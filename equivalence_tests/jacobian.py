"""The Jacobian of a backward, row by row, beside the true one and what rounding allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.checks import draw_case, reraise_interrupt
from equivalence_tests.implementations import NotOffered, one_line, run
from equivalence_tests.observe import observe
from equivalence_tests.ops import Op

MOST_ENTRIES = 4096  # of a Jacobian that somebody is to look at
LEAST_SIDE, MOST_ROWS, MOST_COLUMNS = 3, 12, 16  # of a small one, whose numbers can be read
DRAWS, SEED = 300, 0
Labels = tuple[Sequence[str], Sequence[str]]


class Jacobians(NamedTuple):
    """found[i, j], true[i, j]: the derivative of the i-th number of the output by the j-th of the operands; allowed: by how
    much rounding may part the two; labels: the names of rows and columns."""

    found: Array
    true: Array
    allowed: Array
    labels: Labels

    @property
    def wrong(self) -> Array:
        return outside(self.found, self.true, self.allowed)


def outside(found: Array, true: Array, allowed: Array) -> Array:
    """Where found is further from true than allowed, or no number."""
    with np.errstate(invalid="ignore"):
        wrong: Array = ~(np.abs(found - true) <= allowed)
    return wrong


def jacobians(candidate: Candidate, case: Case, dtype: str = "float64", operands: Sequence[str] = ()) -> Jacobians:
    """Row i: what the candidate's backward answers to the i-th unit upstream, and what the table's formula does.

    operands: by which it is differentiated; none named: by all that the case has. The candidate runs in this process.
    Raises ValueError, one line, where there is no Jacobian: no backward, an exception, a gradient that is missing or has
    another shape; and for one of more than MOST_ENTRIES numbers.
    """
    op, precision = candidate.op, PRECISIONS[dtype]
    rounded = case.rounded(precision)
    names = list(operands) or op.gradient_names(rounded)
    if not names or not op.differentiable:
        raise ValueError(f"{candidate.label}: there is no backward to differentiate by")
    for name in candidate.row.differentiable:
        if name in case.operands and name not in candidate.op.differentiable:
            raise ValueError(f"{candidate.label}: d{name} is missing")
    size = _rows(case) * _columns(case, names)
    if size > MOST_ENTRIES:
        raise ValueError(f"{candidate.label}: the Jacobian has {size} numbers, expected at most {MOST_ENTRIES}")
    rows, parts = [], []
    for label, unit in _units(rounded):
        exact = op.exact(unit, precision)
        truths = [exact[f"d{name}"] for name in names]
        rows.append(label)
        parts.append(
            (
                _answer(candidate, op, unit, dtype, names),
                np.concatenate([truth.value.astype(np.float64).reshape(-1) for truth in truths]),
                np.concatenate([truth.budget().reshape(-1) for truth in truths]),
            )
        )
    found, true, allowed = (np.array(each) for each in zip(*parts, strict=True))
    columns = [label for name in names for label in _entries(name, rounded.operands[name].shape)]
    return Jacobians(found, true, allowed, (rows, columns))


def small_failing_case(candidate: Candidate, dtype: str = "float64") -> Case | None:
    """The smallest of the table's first cases that can be read and on which the backward's Jacobian is wrong.

    Those with at least LEAST_SIDE rows and columns come first, and of them those that are not hard. None: there is none
    among DRAWS, or nothing to differentiate.
    """
    if candidate.op.model or not candidate.op.differentiable:
        return None
    waiting = []
    for index in range(DRAWS):
        try:
            case = candidate.taken(draw_case(candidate.row, SEED, index))
        except NotOffered:
            continue
        rows, columns = _rows(case), _columns(case, candidate.op.gradient_names(case))
        few = columns < LEAST_SIDE or (rows < LEAST_SIDE and not candidate.op.scalar)
        if 0 < rows <= MOST_ROWS and 0 < columns <= MOST_COLUMNS:
            waiting.append((few, case.hard, rows * columns, index, case))
    ordered = (case for *_, case in sorted(waiting, key=lambda each: each[:4]))
    return next((case for case in ordered if _fails(candidate, case, dtype)), None)


def _fails(candidate: Candidate, case: Case, dtype: str) -> bool:
    """The backward answers, and its Jacobian is wrong."""
    try:
        seen = observe(candidate.implementation, candidate.op, case, dtype)
    except NotOffered:
        return False
    if not any(verdict.share > 1.0 for name, verdict in seen.verdicts.items() if name not in candidate.op.outputs):
        return False
    try:
        return bool(jacobians(candidate, case, dtype).wrong.any())
    except ValueError:  # another gradient has no numbers to be drawn
        return False


def _answer(candidate: Candidate, op: Op, unit: Case, dtype: str, names: Sequence[str]) -> Array:
    """The gradients that the candidate answers, one after another."""
    try:
        answer = run(candidate.implementation, op, unit, dtype)
    except NotOffered:
        raise
    except BaseException as error:  # a candidate may raise anything
        reraise_interrupt(error)
        raise ValueError(f"{candidate.label} raised {one_line(error)}") from None
    parts = []
    for name in names:
        shape = unit.operands[name].shape
        if f"d{name}" not in answer:
            raise ValueError(f"{candidate.label}: d{name} is missing")
        value, kind = answer[f"d{name}"].value, answer[f"d{name}"].dtype
        if value.dtype.kind not in "fiu" or kind.startswith("of "):  # no array: see `as_tensor`
            raise ValueError(f"{candidate.label}: d{name} is {kind.removeprefix('of ')}, expected an array of {dtype}")
        if value.shape != shape:
            raise ValueError(f"{candidate.label}: d{name} has shape {value.shape}, expected {shape}")
        parts.append(value.astype(np.float64).reshape(-1))
    return np.concatenate(parts)


def _units(case: Case) -> Iterator[tuple[str, Case]]:
    """The case with each unit upstream, 1 at one place and 0 elsewhere, and the name of the place."""
    zeros = {name: np.zeros_like(upstream) for name, upstream in case.upstream.items()}
    for name, upstream in case.upstream.items():
        for index, label in zip(np.ndindex(upstream.shape), _entries(name[1:], upstream.shape), strict=True):
            unit = zeros[name].copy()
            unit[index] = 1.0
            yield label, replace(case, upstream={**zeros, name: unit}, layouts={})


def _entries(name: str, shape: tuple[int, ...]) -> list[str]:
    """X[0, 0], X[0, 1], ...; a number without axes is X alone."""
    return [f"{name}[{', '.join(map(str, index))}]" if index else name for index in np.ndindex(shape)]


def _rows(case: Case) -> int:
    return sum(upstream.size for upstream in case.upstream.values())


def _columns(case: Case, names: Sequence[str]) -> int:
    return sum(case.operands[name].size for name in names)
