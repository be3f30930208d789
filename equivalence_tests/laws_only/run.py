"""Every law on every case, and what they have said so far."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import one_line
from equivalence_tests.laws_only.drawn import Drawn
from equivalence_tests.laws_only.gradient_law import GradientLaw
from equivalence_tests.laws_only.pair_laws import UNJUDGED, Verdict, adjoint
from equivalence_tests.laws_only.pairs import Pair
from equivalence_tests.laws_only.report import GRADIENT, LawsReport, Row
from equivalence_tests.laws_only.slopes import Slopes
from equivalence_tests.laws_only.survey import survey
from equivalence_tests.laws_only.trials import Trial

DTYPE = "dtype out = dtype in"
FIRST = ("shape of every gradient", "finite answers")  # without these there is nothing to compare
Law = Callable[[Trial], Verdict]


class Plan(NamedTuple):
    """How many cases, in which dtypes, under which laws."""

    cases: int
    seed: int
    dtypes: tuple[str, ...]
    laws: dict[str, Law]
    asked: list[tuple[str, Law]] = []  # noqa: RUF012 (never changed)


def run(pair: Pair, draw: Callable[[int], Drawn], plan: Plan, of_the_op: Callable[[], list[Row]]) -> LawsReport:
    """Every law on every case. A law that is broken is not asked again, but for the gradients, whose factor may need it."""
    ledger, trials = Ledger(), []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        seen = survey(pair, draw, plan.dtypes)
        if seen.any_dtype:
            plan = plan._replace(laws={name: law for name, law in plan.laws.items() if name != DTYPE})
        steepest: dict[str, float] = {}
        for index in range(plan.cases):
            drawn, rng = draw(index), np.random.default_rng([plan.seed, index, 1])
            dtype = seen.dtypes[index // 2 % len(seen.dtypes)]
            trial = Trial(seen.pair, dtype, drawn.operands, drawn.options, rng, sizes=drawn.sizes, steepest=steepest)
            ledger.ask("runs", partial(_begin, trial, drawn.upstream))
            if ledger.broken("runs"):
                break
            for name, slope in trial.slopes_shown().items():
                steepest[name] = max(steepest.get(name, 0.0), slope)
            trials.append(trial)
        for trial in trials:
            _hear(trial, ledger, plan)
    rows = (*seen.rows, *ledger.rows(), *([] if seen.pair.absent else of_the_op()))
    return LawsReport(rows, seen.not_checked, ledger.witness, seen.notes)


def _begin(trial: Trial, upstream: tuple[Array, ...]) -> Verdict:
    trial.begin(upstream)
    trial.right  # noqa: B018 (computed here, so that what it raises is told here)
    return None


def _hear(trial: Trial, ledger: Ledger, plan: Plan) -> None:
    """One trial. Where a shape is wrong nothing can be compared, and where there is a NaN neither."""
    for name, law in plan.laws.items():
        ledger.ask(name, partial(law, trial))
        if name in FIRST and ledger.broken(name):
            return
    slopes = Slopes(trial)
    ledger.witnesses[slopes.how] += 1
    ledger.ask("adjoint identity", partial(adjoint, trial, slopes))
    for name in trial.names:
        ledger.hear_gradient(name, trial, slopes)
    for name, law in plan.asked:
        ledger.ask(name, partial(law, trial))


@dataclass
class Ledger:
    """What each law has said so far."""

    asked: dict[str, int] = field(default_factory=dict)
    judged: dict[str, int] = field(default_factory=dict)
    found: dict[str, Finding] = field(default_factory=dict)
    gradients: dict[str, GradientLaw] = field(default_factory=dict)
    witnesses: Counter[str] = field(default_factory=Counter)

    @property
    def witness(self) -> str:
        return ", ".join(f"{how} ({count} cases)" for how, count in self.witnesses.most_common())

    def ask(self, name: str, law: Callable[[], Verdict]) -> None:
        """Ask a law, unless it is broken already. What it raises is a finding."""
        self.asked[name] = self.asked.get(name, 0) + 1
        if name in self.found:
            return
        try:
            verdict = law()
        except BaseException as error:  # a candidate may raise anything
            reraise_interrupt(error)
            verdict = Finding("raises", numbers={"error": one_line(error), "cases": 1, "of": self.asked[name]})
        self.judged[name] = self.judged.get(name, 0) + (verdict != UNJUDGED)
        if isinstance(verdict, Finding):
            self.found[name] = verdict

    def hear_gradient(self, name: str, trial: Trial, slopes: Slopes) -> None:
        row = f"{GRADIENT}{name}"
        self.asked[row] = self.asked.get(row, 0) + 1
        self.gradients.setdefault(name, GradientLaw(name)).hear(trial, slopes)

    def broken(self, name: str) -> bool:
        return name in self.found

    def rows(self) -> list[Row]:
        made = [
            Row(name, self.judged.get(name, 0), of, self.found.get(name))
            for name, of in self.asked.items()
            if not name.startswith(GRADIENT)
        ]
        for name, law in self.gradients.items():
            row = f"{GRADIENT}{name}"
            made.append(Row(row, law.judged, self.asked[row], law.finding()))
        return made
