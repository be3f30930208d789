"""What was seen of an implementation: its answers on cases, each judged, and how it behaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import Case
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.implementations import Answer, Implementation, NotOffered, one_line, run
from equivalence_tests.judge import Judgement, judge
from equivalence_tests.ops import OPS, Op
from equivalence_tests.stages import AS_IT_IS, STORED, Stages


@dataclass(frozen=True)
class Observation:
    """One case, rounded to the dtype; the exact values with their budgets; what the implementation answered, judged.

    `answer` is None and `raised` says what was raised where there is no answer.
    """

    index: int
    dtype: str
    case: Case
    exact: dict[str, Bounded]
    answer: Answer | None
    verdicts: dict[str, Judgement]
    raised: str = ""

    @property
    def wrong(self) -> str:
        """The first thing that is wrong, or nothing."""
        if self.raised:
            return f"raised {self.raised}"
        return next((verdict.wrong for verdict in self.verdicts.values() if verdict.wrong), "")

    @property
    def tolerated(self) -> str:
        """The code of what was tolerated of an answer that is not wrong, or nothing: see `Judgement`."""
        return "" if self.wrong else next((each.tolerated for each in self.verdicts.values() if each.tolerated), "")

    @property
    def ill(self) -> bool:
        return any(verdict.ill for verdict in self.verdicts.values())


def observe(implementation: Implementation, op: Op, case: Case, dtype: str, index: int = 0) -> Observation:
    """Run and judge one case. NotOffered if the case asks for an option that the implementation does not take."""
    precision = PRECISIONS[dtype]
    rounded = case.rounded(precision)

    def truth(stage: Stages = AS_IT_IS) -> dict[str, Bounded]:
        found = op.exact(rounded, precision, stage)
        if op.differentiable == OPS[op.name].differentiable:
            return found
        names = (
            *op.outputs,
            *(f"d{name}" for name in op.gradient_names(case)),
        )  # a forward alone, or not all gradients
        return {name: found[name] for name in names}

    exact = truth()
    try:
        answer = run(implementation, op, rounded, dtype)
    except NotOffered:
        raise
    except BaseException as error:  # a candidate may raise anything
        reraise_interrupt(error)
        return Observation(index, dtype, rounded, exact, None, {}, one_line(error))
    return Observation(index, dtype, rounded, exact, answer, judge(answer, exact, precision, partial(truth, STORED)))
