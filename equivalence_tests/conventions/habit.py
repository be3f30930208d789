"""A convention that a candidate follows and the table does not, as data: how its calls and answers are translated.

Four steps take a case of the table to a judged answer. `case` makes the table's case say what the candidate does anyway
(a causal mask, an epsilon); the exact answer is that of this case. `sent` turns it into what the candidate is given (the
option left out, an axis moved). `back` turns the answer into the table's terms. `row` changes the formula itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, round_to
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, Tensor, run
from equivalence_tests.ops import OPS, Op


def _same_case(case: Case) -> Case:
    return case


def _same_op(op: Op) -> Op:
    return op


def _same_answer(answer: Answer, case: Case, dtype: str) -> Answer:
    return answer


@dataclass(frozen=True)
class Habit:
    """`name` is what `--accept` calls it, `code` and `numbers` what its sentence says.

    `asked` is the op as the candidate answers it. `arrays` marks those that change how arrays lie: a candidate that no
    longer raises under one of them follows it. `measured` marks those that an answer shows by itself, right or wrong.
    """

    name: str
    code: str
    numbers: dict[str, Any] = field(default_factory=dict)
    case: Callable[[Case], Case] = _same_case
    sent: Callable[[Case], Case] = _same_case
    back: Callable[[Answer, Case, str], Answer] = _same_answer
    row: Callable[[Op], Op] = _same_op
    asked: Callable[[Op], Op] = _same_op
    arrays: bool = False
    measured: bool = False
    drops: bool = False  # cases that show it are not asked under it

    @property
    def moves_values(self) -> bool:
        """Whether the exact answer to a case of the table is another under this convention."""
        return self.case is not _same_case or self.row is not _same_op

    def finding(self) -> Finding:
        return Finding(self.code, numbers={"accept": self.name, **self.numbers})


def under(candidate: Candidate, habits: Sequence[Habit]) -> Candidate:
    """The candidate, judged under these conventions instead of the table's."""
    raw = candidate.raw or candidate.implementation
    if not habits:
        return replace(candidate, implementation=raw, raw=None, op=_rowed(candidate.op, ()), habits=())

    def answers(op: Op, case: Case, dtype: str) -> Answer:
        given = sent(habits, case)
        asked = op
        for habit in habits:
            asked = habit.asked(asked)
        answer = run(raw, asked, given, dtype)
        for habit in reversed(habits):
            answer = habit.back(answer, case, dtype)
        return answer

    op, implementation = _rowed(candidate.op, habits), replace(raw, answers=answers)
    return replace(candidate, op=op, implementation=implementation, raw=raw, habits=tuple(habits))


def sent(habits: Sequence[Habit], case: Case) -> Case:
    """A case as the candidate is given it."""
    for habit in habits:
        case = habit.sent(case)
    return case


def _rowed(op: Op, habits: Sequence[Habit]) -> Op:
    """The op with the formula that its answers are held to."""
    op = replace(op, formula=OPS[op.name].formula)
    for habit in habits:
        op = habit.row(op)
    return op


def exact_under(candidate: Candidate) -> Implementation:
    """What is right under the candidate's conventions: the exact answers, each number rounded once.

    A law that this does not keep holds for the table's conventions alone.
    """

    def answers(op: Op, case: Case, dtype: str) -> Answer:
        for habit in candidate.habits:
            case = habit.case(case)
        exact = candidate.op.exact(case, PRECISIONS[dtype])
        names = exact if candidate.op.differentiable else op.outputs
        precision = PRECISIONS[dtype]
        return {name: Tensor(round_to(exact[name].value.astype(np.float64), precision), dtype) for name in names}

    return replace(candidate.implementation, answers=answers)
