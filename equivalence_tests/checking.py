"""Hold somebody's implementation of an op against the table, and say what is wrong with it.

A short smoke stage first, which stops early on a hopeless candidate; then the table's cases, how it behaves, the op's laws,
and some of the cases once more in another order. What fails is shrunk and explained.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

import reference_numpy
from equivalence_tests.candidate import Candidate, Convention, adapt, op_named
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checks import attempt, conduct
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, NotOffered
from equivalence_tests.laws import LAWS, strength
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.observe import Observation, observe
from equivalence_tests.proof import WELL_CONDITIONED, cases_of
from equivalence_tests.report import Property, Report
from equivalence_tests.shrink import RecordedDraws, shrink

if TYPE_CHECKING:  # every known mistake is loaded only where something is wrong
    from equivalence_tests.mistakes import Mistake

CASES = 400
SMOKE = 8  # cases of the first stage, in each dtype
ENOUGH = 40  # failing cases after which no more are drawn, once RICH of any kind are seen
RICH = 120
CONDUCT_EVERY, CONDUCT_MOST = 4, 40
REPLAYED = 60
BY_ROUNDING = 100.0  # budgets: a law that is broken by less may be so by rounding, where something else is wrong
FEW = 2  # of those that raise, where enough answer
SEEN = 14  # failing and passing observations, each, that a diagnosis is given

# What the contract asks of the reference, and of nobody else.
STRICT = frozenset(
    {
        "refuses_bad_input",
        "backward_refuses_a_wrong_upstream",
        "a_leading_axis_may_be_0",
        "all_ignored_is_an_error",
        "without_dC_there_is_no_backward",
        "no_id_counts_from_the_end",
    }
)
# What torch's own kernels break: told of a torch candidate, but no verdict hangs on it.
EDGES = frozenset({"nan_in_a_query_stays_in_its_row", "one_feature_is_all_shift", "gelu_far_out_is_relu"})

APART = frozenset({"batches_are_independent", "sequences_do_not_meet", "heads_do_not_meet", "nan_stays_in_its_sample"})


@dataclass(frozen=True)
class Settings:
    """How much is checked: cases of the table, their seed, dtypes (None: those that the candidate takes), sizes that are
    not drawn, and the seconds after which no more cases are drawn."""

    cases: int = CASES
    seed: int = 0
    dtypes: tuple[str, ...] | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    seconds: float = 40.0
    strict: bool = False  # hold it to what the contract asks of the reference alone, too


Watch = Callable[[str], None]


def no_watch(_: str) -> None:
    """Nobody is told how far the check is."""


def examine(
    candidate: Candidate, settings: Settings, watch: Watch = no_watch, library: Collection[Mistake] | None = None
) -> Report:
    """The whole check, in this process. `library` is that of the diagnosis: every known mistake of the op if it is None."""
    began = time.monotonic()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # its values are judged, not its warnings
        return _Examination(candidate, settings, watch, began, library).report()


def draw(candidate: Candidate, settings: Settings, index: int) -> tuple[Case, list[int]]:
    """Case number `index` as the candidate takes it, and the choices that made it. NotOffered if it takes no such case."""
    draws = RecordedDraws(np.random.default_rng([settings.seed, index]), candidate.sizes | settings.sizes)
    return candidate.taken(candidate.row.draw(draws, index % 2 == 1)), draws.chosen


def digest(answer: Answer | None) -> str:
    """The answer to the last bit."""
    if answer is None:
        return ""
    parts = (f"{name} {t.dtype} {t.value.shape}".encode() + t.value.tobytes() for name, t in sorted(answer.items()))
    return sha256(b"".join(parts)).hexdigest()


class _Examination:
    def __init__(
        self,
        candidate: Candidate,
        settings: Settings,
        watch: Watch,
        began: float,
        library: Collection[Mistake] | None,
    ) -> None:
        self.library = library
        self.candidate, self.settings, self.watch, self.began = candidate, settings, watch, began
        self.op, self.implementation = candidate.op, candidate.implementation
        self.seen: list[Observation] = []
        self.chosen: dict[int, list[int]] = {}
        self.notes: list[Finding] = []

    def report(self) -> Report:
        if self.candidate.kind == "forward" and self.candidate.row.differentiable:
            self.notes.append(Finding("forward_alone"))
        dtypes = self._smoke()
        if not self.seen:
            return self._not_judged(Finding("no_case", numbers={"op": self.op.name}))
        hopeless = all(each.wrong for each in self.seen)
        if not hopeless:
            self._table(dtypes)
        behaviour = self._behaviour(dtypes)
        broken = [] if hopeless or self._restricted() else self._laws(dtypes)
        again = None if hopeless else self._again()
        rows = [*self._agreement(), *self._features(), *behaviour.rows, *self._law_rows(broken, hopeless)]
        said = again.say() if again else ""
        rows.append(Property("answers the same in another order", self._replayed, int(bool(again)), said))
        wrong = [each for each in self.seen if each.wrong]
        failed = bool(wrong or behaviour.what or [law for law in broken if law[0] not in self._edges()] or again)
        findings = self._explained(wrong, behaviour.what, broken, again) if failed else []
        counterexample = self._shrunk(wrong[0]) if wrong else None
        return Report(
            candidate=self.candidate.label,
            like=self.op.name,
            kind=self.candidate.kind,
            framework=self.candidate.framework,
            verdict="wrong" if failed else "agrees",
            dtypes=tuple(dtypes),
            cases=len(self.seen),
            rows=tuple(rows),
            findings=tuple(findings),
            notes=tuple(self.notes),
            not_checked=self.candidate.not_checked,
            counterexample=counterexample,
            digests={f"{each.index} {each.dtype}": digest(each.answer) for each in self.seen[:REPLAYED]},
            seconds=time.monotonic() - self.began,
        )

    # The stages

    def _smoke(self) -> list[str]:
        """The dtypes that are judged. A candidate that computes in one dtype only is judged in that one."""
        asked = self.settings.dtypes or self.implementation.dtypes[:2]
        seen = {dtype: [o for i in range(SMOKE) if (o := self._observe(i, dtype))] for dtype in asked}
        dtypes = list(asked)
        if self.settings.dtypes is None and len(dtypes) == 2:
            wide, narrow = (seen[dtype] for dtype in dtypes)
            if _fits(narrow) and (_all_in(wide, "float32") or _all_raise(wide)):
                dtypes = dtypes[1:]
                self.notes.append(Finding("one_dtype_only", numbers={"dtype": "float32", "other": "float64"}))
            elif _fits(wide) and _all_raise(narrow):
                dtypes = dtypes[:1]
                self.notes.append(Finding("one_dtype_only", numbers={"dtype": "float64", "other": "float32"}))
        self.seen = [each for dtype in dtypes for each in seen[dtype]]
        return dtypes

    def _table(self, dtypes: Sequence[str]) -> None:
        """The table's cases, until there are enough, or enough that fail, or the time is up."""
        last = time.monotonic() + self.settings.seconds
        failing = sum(bool(each.wrong) for each in self.seen)
        for index in range(SMOKE, cases_of(self.candidate.row, self.settings.cases)):
            for dtype in dtypes:
                seen = self._observe(index, dtype)
                if seen is not None:
                    self.seen.append(seen)
                    failing += bool(seen.wrong)
            if (failing >= ENOUGH and len(self.seen) >= RICH) or time.monotonic() > last:
                break

    def _observe(self, index: int, dtype: str) -> Observation | None:
        self.watch(f"case {index} in {dtype}")
        try:
            case, self.chosen[index] = draw(self.candidate, self.settings, index)
            with redirect_stdout(_NOWHERE):
                return observe(self.implementation, self.op, case, dtype, index)
        except NotOffered:
            return None

    def _behaviour(self, dtypes: Sequence[str]) -> _Behaviour:
        """Purity, repeatability, aliasing and linearity, in some of the cases."""
        rule = self._rule()
        if rule is None:
            return _Behaviour((), "")
        chosen = [each for each in self.seen if not each.raised][:: CONDUCT_EVERY if len(self.seen) > 60 else 1]
        raised = [each for each in self.seen if "read-only" in each.raised][:2]
        count, what = 0, ""
        for each in [*chosen[:CONDUCT_MOST], *raised]:
            self.watch(f"conduct in case {each.index}")
            count += 1
            what = attempt(partial(rule, self.implementation, self.op, each.case, each.exact, each.dtype))
            if what and not (what.startswith("-2 times") and each.wrong):
                break
            what = ""
        names = ("changes nothing it was given", "answers the same when called again", "shares no memory")
        hit = 0 if "change" in what and "later" not in what else 1 if "again" in what or "later" in what else 2
        rows = [
            Property(name, count, int(bool(what) and i == hit), what if i == hit else "")
            for i, name in enumerate(names)
        ]
        return _Behaviour(tuple(rows), what)

    def _rule(self) -> Any:
        if self.implementation.answers is not None:
            return None
        if self.implementation.pairs:
            return conduct
        from equivalence_tests import candidate_torch

        return candidate_torch.conduct

    def _restricted(self) -> bool:
        """Laws draw sizes and axes of their own."""
        convention = self.candidate.convention
        own = self.implementation.answers is not None
        return bool(
            own
            or self.candidate.sizes
            or self.settings.sizes
            or convention.layout != "any"
            or convention.lead is not None
        )

    def _edges(self) -> frozenset[str]:
        return EDGES if self.candidate.framework == "torch" else frozenset()

    def _laws(self, dtypes: Sequence[str]) -> list[tuple[str, str]]:
        """The laws that are broken, each with what broke, the one that is broken furthest first.

        One that rounding alone breaks is not told beside one that is broken further.
        """
        if not self.op.differentiable and self.candidate.row.differentiable:
            return []
        broken = []
        for law in LAWS.get(self.op.name, ()):
            if law.__name__ in STRICT and not self.settings.strict:
                continue
            for dtype in dtypes:
                self.watch(f"law {law.__name__} in {dtype}")
                draws = SeededDraws(np.random.default_rng([self.settings.seed, 0]))
                what = attempt(partial(law, self.implementation, dtype, draws))
                if what:
                    broken.append((strength(what, dtype), law.__name__, what))
                    break
        broken.sort(key=lambda each: -each[0])
        furthest = max((far for far, law, _ in broken if law not in self._edges()), default=0.0)
        least = BY_ROUNDING if furthest > BY_ROUNDING else 0.0
        return [(law, what) for far, law, what in broken if far >= least or law in self._edges()]

    def _again(self) -> Finding | None:
        """Some cases once more, in another order: the same answers, to the last bit."""
        first = [each for each in self.seen if each.answer is not None][:REPLAYED]
        order = list(range(len(first)))
        random.Random(self.settings.seed).shuffle(order)
        self._replayed = len(order)
        for i in order:
            before = first[i]
            after = self._observe(before.index, before.dtype)
            if after is None or digest(after.answer) != digest(before.answer):
                return Finding("other_answer", numbers={"case": before.index, "dtype": before.dtype})
        return None

    _replayed = 0

    # What they said

    def _agreement(self) -> list[Property]:
        found = []
        for dtype in dict.fromkeys(each.dtype for each in self.seen):
            seen = [each for each in self.seen if each.dtype == dtype]
            wrong = [each for each in seen if each.wrong]
            right = [v for each in seen if not each.wrong and not each.ill for v in each.verdicts.values()]
            share = max((verdict.share for verdict in right), default=0.0)
            units = max((v.units for v in right if v.condition < WELL_CONDITIONED), default=0.0)
            found.append(
                Property(f"agrees in {dtype}", len(seen), len(wrong), wrong[0].wrong if wrong else "", share, units)
            )
        return found

    def _features(self) -> list[Property]:
        counted: dict[str, list[Observation]] = {}
        for each in self.seen:
            for name in features(self.op.name, each):
                counted.setdefault(name, []).append(each)
        rows = []
        for name, cases in counted.items():
            rows.append(Property(name, len(cases), sum(bool(each.wrong) for each in cases)))
        return rows

    def _law_rows(self, broken: list[tuple[str, str]], skipped: bool) -> list[Property]:
        if skipped or self._restricted() or (not self.op.differentiable and self.candidate.row.differentiable):
            return []
        self.notes += [
            Finding("edge", numbers={"law": law.replace("_", " "), "what": what})
            for law, what in broken
            if law in self._edges()
        ]
        names = [
            law.__name__
            for law in LAWS.get(self.op.name, ())
            if law.__name__ not in self._edges() and (self.settings.strict or law.__name__ not in STRICT)
        ]
        rows = []
        for row, chosen in (
            ("batches and heads do not meet", [name for name in names if name in APART]),
            ("laws", [name for name in names if name not in APART]),
        ):
            told = [f"{law.replace('_', ' ')}: {what}" for law, what in broken if law in chosen]
            rows.append(Property(row, len(chosen), len(told), told[0] if told else ""))
        return rows

    def _explained(
        self, wrong: list[Observation], behaviour: str, broken: list[tuple[str, str]], again: Finding | None
    ) -> list[Finding]:
        from equivalence_tests import diagnosis  # and with it every known mistake: only where something is wrong

        self.watch("diagnosis")
        if again and not wrong and not behaviour:
            return [again]
        right = [each for each in self.seen if not each.wrong]
        answered = [each for each in wrong if not each.raised]  # to raise tells nothing of a formula
        raised = [each for each in wrong if each.raised]
        sample = [
            *_spread(answered, SEEN),
            *_spread(raised, SEEN - min(len(answered), SEEN - FEW)),
            *_spread(right, SEEN),
        ]
        with redirect_stdout(_NOWHERE):
            return diagnosis.explain(
                self.candidate.row,
                sample,
                conduct=behaviour,
                broken_laws=[law for law, _ in broken if law not in self._edges()],
                library=self.library,
                implementation=self.implementation,
            )

    def _shrunk(self, wrong: Observation) -> Observation:
        self.watch("shrinking")
        raised = bool(wrong.raised)

        def seen(case: Case) -> Observation | None:
            try:
                with redirect_stdout(_NOWHERE):
                    return observe(self.implementation, self.op, self.candidate.taken(case), wrong.dtype, wrong.index)
            except NotOffered:
                return None

        def fails(case: Case) -> bool:
            self.watch("shrinking")
            found = seen(case)
            return found is not None and bool(found.wrong) and bool(found.raised) == raised

        smallest = shrink(
            self.candidate.row.draw,
            self.chosen[wrong.index],
            wrong.case,
            fails,
            self.candidate.sizes | self.settings.sizes,
        )
        return seen(smallest) or wrong

    def _not_judged(self, why: Finding) -> Report:
        return Report(
            candidate=self.candidate.label,
            like=self.op.name,
            kind=self.candidate.kind,
            framework=self.candidate.framework,
            verdict="not judged",
            findings=(why,),
            not_checked=self.candidate.not_checked,
            seconds=time.monotonic() - self.began,
        )


@dataclass(frozen=True)
class _Behaviour:
    rows: tuple[Property, ...]
    what: str


class _Nowhere:
    """Where a candidate's prints go."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


_NOWHERE: Any = _Nowhere()


def _fits(seen: Sequence[Observation]) -> bool:
    return any(each.answer is not None for each in seen)


def _all_raise(seen: Sequence[Observation]) -> bool:
    return bool(seen) and all(each.raised for each in seen)


def _all_in(seen: Sequence[Observation], dtype: str) -> bool:
    """Whether every tensor of every answer is of this dtype."""
    answers = [each.answer for each in seen if each.answer]
    return bool(answers) and all(t.dtype == dtype for answer in answers for t in answer.values())


def _spread(seen: Sequence[Observation], count: int) -> list[Observation]:
    """So many of them, evenly."""
    step = max(1, len(seen) / count)
    return [seen[int(i * step)] for i in range(min(count, len(seen)))]


def features(op: str, seen: Observation) -> list[str]:
    """What is special about a case, as a row of the report."""
    case, found = seen.case, []
    if op in PATTERNS:
        name, letters = next(iter(PATTERNS[op].operands.items()))
        if " n " in f" {letters} " and case.operands[name].shape[-2] == 1:
            found.append("one token")
        if op == "attention" and case.operands["K"].shape[-2] == 1:
            found.append("one key")
    if "C" in seen.exact and case.options and not np.asarray(seen.exact["C"].value).any(-1).all():
        found.append("rows with nothing to attend to")
    if case.hard:
        found.append("huge, tiny and far-off numbers")
    if any(layout != "contiguous" for layout in case.layouts.values()):
        found.append("views that are not contiguous")
    found += [f"with {option}" for option in case.options if option not in ("p", "config", "num_heads")]
    return found


def check(
    function: Any,
    like: str,
    *,
    backward: Any = None,
    cases: int = CASES,
    seed: int = 0,
    dtype: str | None = None,
    device: str = "cpu",
    sizes: dict[str, int] | None = None,
    layout: str = "any",
    mask_true: str = "keeps",
    lead: int | None = None,
    without: Sequence[str] = (),
    strict: bool = False,
) -> Report:
    """Hold a function against the op `like` of the table: `report.passed`, `report.findings`, `str(report)`.

    `function` is a forward, NumPy's or torch's, a module or an autograd.Function; `backward` a function of (dY, cache) or
    of (dY, *inputs); `strict` asks for what only the reference promises too: that bad input is refused. ValueError, one
    line, if its signature fits no call of the op. It runs in this process: a candidate that may hang or end it is better
    checked by `gemelos check`.
    """
    convention = Convention(layout, mask_true, lead)
    candidate = adapt(function, like, backward=backward, device=device, convention=convention, without=tuple(without))
    settings = Settings(cases, seed, (dtype,) if dtype else None, dict(sizes or {}), strict=strict)
    return examine(candidate, settings)


def check_backward(backward: Any, like: str, **settings: Any) -> Report:
    """Hold a backward alone against the op: the forward is the reference's. `backward` and `settings` as in `check`."""
    return check(_reference_forward(like), like, backward=backward, **settings)


def _reference_forward(like: str) -> Any:
    op_named(like)
    return getattr(reference_numpy, like)
