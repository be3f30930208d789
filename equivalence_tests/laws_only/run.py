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
from equivalence_tests.laws_only.pair_laws import UNJUDGED, Verdict, adjoint, arises, reshaped
from equivalence_tests.laws_only.pairs import Pair, one_thread
from equivalence_tests.laws_only.report import GRADIENT, LawsReport, Row
from equivalence_tests.laws_only.slopes import Slopes
from equivalence_tests.laws_only.survey import survey
from equivalence_tests.laws_only.trials import Trial

DTYPE = "dtype out = dtype in"
FINITE, ORIGIN = "finite answers", "where the first NaN or infinity arises"
FIRST = ("shape of every gradient", FINITE)  # without these there is nothing to compare
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
    with one_thread(pair), warnings.catch_warnings(), np.errstate(all="ignore"):
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
    """One trial. A gradient of a wrong shape, or with a NaN in it, cannot be compared; the others can."""
    ledger.expect(trial.names)
    whole = True
    for name, law in plan.laws.items():
        if name not in FIRST:
            if whole:
                ledger.ask(name, partial(law, trial))
        elif not ledger.holds(name, law, trial):
            whole = False
    if len(trial.right.gradients) != len(trial.names) or not all(np.isfinite(y).all() for y in trial.right.outputs):
        return
    slopes = Slopes(trial)
    ledger.witnesses[slopes.how] += 1
    if whole:
        ledger.ask("adjoint identity", partial(adjoint, trial, slopes))
    for name, gradient in zip(trial.names, trial.right.gradients, strict=True):
        if np.shape(gradient) == trial.operands[name].shape and gradient is not None and np.isfinite(gradient).all():
            ledger.hear_gradient(name, trial, slopes)
        elif hasattr(gradient, "dtype") and gradient.dtype.kind == "f":
            ledger.support(f"shape of d{name}", partial(reshaped, trial, name, gradient))
    if whole:
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

    def expect(self, names: list[str]) -> None:
        """A trial with these gradients is to be judged."""
        for name in names:
            row = f"{GRADIENT}{name}"
            self.asked[row] = self.asked.get(row, 0) + 1
            self.gradients.setdefault(name, GradientLaw(name))

    def holds(self, name: str, law: Callable[[Trial], Verdict], trial: Trial) -> bool:
        """Ask a law in this trial, whether it is broken already or not; where it is broken first, say in which line."""
        known = self.found.pop(name, None)
        self.ask(name, partial(law, trial))
        kept = name not in self.found
        if name == FINITE and not kept:
            self.support(ORIGIN, partial(arises, trial))
        if known is not None:
            self.found[name] = known
        return kept

    def support(self, name: str, law: Callable[[], Finding | None]) -> None:
        """Ask for more about what is broken already: a row only if something is found, once."""
        if name in self.found:
            return
        try:
            finding = law()
        except Exception:  # it was told where it was asked first
            return
        if finding is not None:
            self.asked[name], self.judged[name], self.found[name] = 1, 1, finding

    def hear_gradient(self, name: str, trial: Trial, slopes: Slopes) -> None:
        self.gradients[name].hear(trial, slopes)

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
