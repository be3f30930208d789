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
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import ORACLE, Array
from equivalence_tests.candidate import Candidate, Convention, adapt, op_named
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checks import attempt, conduct, misconduct
from equivalence_tests.conventions import NAMES, establish, exact_under, in_place_by_design, sent, under
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, NotOffered
from equivalence_tests.judge import STORED_LOG_SUM_EXP
from equivalence_tests.laws import LAWS, strength
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.loading import nearest
from equivalence_tests.misconduct import BY_DESIGN, CHANGES, READ_ONLY, SHARES, Misconduct
from equivalence_tests.observe import Observation, observe
from equivalence_tests.ops import Op
from equivalence_tests.part_names import PART_NAMES
from equivalence_tests.proof import WELL_CONDITIONED, cases_of
from equivalence_tests.report import Property, Report
from equivalence_tests.restrictions import Restriction, refuses, restrictions, unusable
from equivalence_tests.shrink import RecordedDraws, shrink
from equivalence_tests.signatures import OPTIONAL
from equivalence_tests.trial import forward_raises

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
ASKED = 10  # failing and passing observations, each, that conventions are established by

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
# What the kernels of torch and of JAX break, and formulas written out: it is told, but no verdict hangs on it.
EDGES = frozenset(
    {
        "nan_in_a_query_stays_in_its_row",
        "nan_in_a_key_reaches_who_may_look",
        "one_feature_is_all_shift",
        "gelu_far_out_is_relu",
    }
)

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
    accept: tuple[str, ...] = ()  # other conventions that are as good as the table's; "all" is every one
    conventions: bool = True  # whether other conventions, and what it refuses, are looked for
    trace: bool = True  # say in which line of the user's own file the mistake is


Watch = Callable[[str], None]


def no_watch(_: str) -> None:
    """Nobody is told how far the check is."""


def examine(
    candidate: Candidate, settings: Settings, watch: Watch = no_watch, library: Collection[Mistake] | None = None
) -> Report:
    """The whole check, in this process. `library` is that of the diagnosis: every known mistake of the op if it is None."""
    began = time.monotonic()
    unknown = [name for name in settings.accept if name not in (*NAMES, "all")]
    if unknown:
        raise ValueError(f"--accept: {unknown[0]!r} is no convention, {nearest(unknown[0], NAMES)}")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # its values are judged, not its warnings
        return _Examination(candidate, settings, watch, began, library).report()


def draw(candidate: Candidate, settings: Settings, index: int) -> tuple[Case, list[int]]:
    """Case number `index` as the candidate takes it, and the choices that made it. NotOffered if it takes no such case."""
    draws = RecordedDraws(np.random.default_rng([settings.seed, index]), candidate.sizes_at(index) | settings.sizes)
    return candidate.taken(candidate.row.draw(draws, index % 2 == 1)), draws.chosen


def digest(answer: Answer | None) -> str:
    """The answer to the last bit."""
    if answer is None:
        return ""
    parts = (f"{name} {t.dtype} {t.value.shape}".encode() + _bytes(t.value) for name, t in sorted(answer.items()))
    return sha256(b"".join(parts)).hexdigest()


def _bytes(value: Array) -> bytes:
    """A long double has bytes that hold nothing."""
    return (value.astype(np.float64) if value.dtype == ORACLE else value).tobytes()


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
        self.seen: list[Observation] = []
        self.chosen: dict[int, list[int]] = {}
        self.notes: list[Finding] = []
        self.drawn: set[tuple[int, str]] = set()
        self.left_out: set[str] = set()  # laws that do not hold under the candidate's conventions

    @property
    def op(self) -> Op:
        return self.candidate.op

    @property
    def implementation(self) -> Implementation:
        return self.candidate.implementation

    @property
    def raw(self) -> Implementation:
        """The candidate's own calls, in its own conventions."""
        return self.candidate.raw or self.candidate.implementation

    def report(self) -> Report:
        if self.candidate.kind == "forward" and self.candidate.row.differentiable:
            self.notes.append(Finding("forward_alone"))
        dtypes = self._judged()
        if not self.seen:
            return self._told("not judged", dtypes, findings=(Finding("no_case", numbers={"op": self.op.name}),))
        why = unusable(self.op.name, self.seen, partial(forward_raises, self.candidate))
        if why is not None and self.settings.conventions:
            return self._told("not judged", dtypes, findings=(why,))
        hopeless = self._hopeless()
        behaviour = self._behaviour(dtypes)
        broken = [] if hopeless or self._restricted() else self._laws(dtypes)
        again = None if hopeless else self._again()
        rows = [*self._agreement(), *self._features(), *behaviour.rows, *self._law_rows(broken, hopeless)]
        said = again.say() if again else ""
        rows.append(Property("answers the same in another order", self._replayed, int(bool(again)), said))
        wrong = [each for each in self.seen if each.wrong]
        tolerated = sum(bool(each.tolerated) for each in self.seen)
        if tolerated:
            self.notes.append(Finding(STORED_LOG_SUM_EXP, numbers={"cases": tolerated, "of": len(self.seen)}))
        failed = bool(wrong or behaviour.what or [law for law in broken if law[0] not in EDGES] or again)
        conventions = [habit.finding() for habit in self.candidate.habits] + behaviour.by_design
        if failed:
            findings = self._explained(wrong, behaviour.what, broken, again)
            counterexample = self._shrunk(min(wrong, key=lambda each: each.case.hard)) if wrong else None
            if wrong and self.settings.trace:
                self.watch("diagnosis: the user's own line")
                findings[1:1] = self._own_line([*([counterexample] if counterexample else []), *wrong])
            return self._told("wrong", dtypes, rows, findings, conventions, counterexample)
        unjudged = self._unjudged()
        if unjudged:
            return self._told("not judged", dtypes, rows, unjudged, conventions)
        open_ones = [each for each in conventions if not {each.numbers["accept"], "all"} & set(self.settings.accept)]
        return self._told("another convention" if open_ones else "agrees", dtypes, rows, (), conventions)

    def _own_line(self, wrong: Sequence[Observation]) -> list[Finding]:
        """The line of the user's file in which the mistake is: found where the candidate runs."""
        if self.raw.there is not None:
            found: list[Finding] = self.raw.there.own_line(self.candidate, wrong)
            return found
        from equivalence_tests import own_line  # and with it the diagnosis

        return own_line.finding_of(self.candidate, wrong, self.watch)

    def _told(
        self,
        verdict: str,
        dtypes: Sequence[str],
        rows: Sequence[Property] = (),
        findings: Sequence[Finding] = (),
        conventions: Sequence[Finding] = (),
        counterexample: Observation | None = None,
    ) -> Report:
        return Report(
            candidate=self.candidate.label,
            like=self.op.name,
            kind=self.candidate.kind,
            framework=self.candidate.framework,
            verdict=verdict,
            dtypes=tuple(dtypes),
            cases=len(self.seen),
            rows=tuple(rows),
            findings=tuple(findings),
            conventions=tuple(conventions),
            judged=self._counts(),
            notes=(*self.notes, *self.candidate.notes.values()),
            not_checked=self.candidate.not_checked,
            counterexample=counterexample,
            digests=self._digests(),
            seconds=time.monotonic() - self.began,
        )

    def _counts(self) -> dict[str, tuple[int, int]]:
        """In how many cases each tensor was judged, and how many were drawn. An ill-conditioned one is not judged."""
        names = dict.fromkeys(name for each in self.seen for name in each.exact)
        return {name: (sum(_is_judged(each, name) for each in self.seen), self._drawn_with(name)) for name in names}

    def _drawn_with(self, name: str) -> int:
        """Cases in which a tensor is asked for; of one that was not put to the candidate nothing is known."""
        absent = sum(name not in each.exact for each in self.seen)
        return len(self.drawn) - absent

    def _unjudged(self) -> list[Finding]:
        """The tensor that was judged in fewer than half of the cases drawn, if there is one."""
        found = []
        for name, (judged, drawn) in self._counts().items():
            if 2 * judged < drawn:
                ill = sum(name in each.verdicts and each.verdicts[name].ill for each in self.seen)
                code = "too_few_judged_ill" if 2 * ill >= drawn - judged else "too_few_judged"
                found.append(Finding(code, name, numbers={"judged": judged, "drawn": drawn}))
        return found[:1]

    def _digests(self) -> dict[str, str]:
        """The first answers, for a fresh process to give again: none where the layouts are not those that were drawn."""
        if self.candidate.contiguous:
            return {}
        return {f"{each.index} {each.dtype}": digest(each.answer) for each in self.seen[:REPLAYED]}

    # The stages

    def _judged(self) -> list[str]:
        """The smoke stage and the table's cases, under the conventions that explain most; the dtypes that are judged."""
        dtypes = self._smoke()
        if self.settings.conventions:
            dtypes = self._as_it_wants(dtypes)
        if self._hopeless():
            return dtypes
        self._table(dtypes)
        if self.settings.conventions and (self._adopts() or self._leaves_out()):
            dtypes = self._smoke()
            self._table(dtypes)
        return dtypes

    def _as_it_wants(self, dtypes: list[str]) -> list[str]:
        """The dtypes, once it is known in which layouts, with which options and by which conventions it is to be called."""
        if self._wants_contiguous():
            dtypes = self._smoke()
        if any(each.raised for each in self.seen) and any(each.answer for each in self.seen):
            self._table(dtypes)  # to tell what is refused from what is wrong takes more cases
            if self._leaves_out(options_alone=True):
                dtypes = self._smoke()
        return self._smoke() if self._adopts() else dtypes

    def _sample(self) -> list[Observation]:
        """Wrong and right cases, as many as conventions are established by."""
        wrong = [each for each in self.seen if each.wrong]
        right = [each for each in self.seen if not each.wrong]
        return [*_spread(wrong, ASKED), *_spread(right, ASKED)]

    def _wants_contiguous(self) -> bool:
        """Whether what it refuses are views alone: then it is given contiguous arrays, and that is said."""
        refused = [each for each in self.seen if refuses(each.raised)]
        if not refused or not any(each.answer for each in self.seen):
            return False
        trial = replace(self.candidate, contiguous=True)
        again = [self._seen_by(trial, each.index, each.dtype) for each in refused]
        if any(each is None or each.raised for each in again):
            return False
        self.candidate = trial
        self.notes.append(Restriction("takes_contiguous").finding(len(refused)))
        return True

    def _leaves_out(self, options_alone: bool = False) -> bool:
        """Whether what was raised is explained by something that the candidate does not take: it is not asked for it.

        A number of axes, or equal sizes, may be what a convention explains: with `options_alone` they are not looked for.
        """
        seen = [each for each in self.seen if not each.raised or refuses(each.raised)]
        raised = [each for each in seen if each.raised][:FEW]
        if not all(forward_raises(self.candidate, each.case) for each in raised):
            return False  # a backward that raises where its forward answered refuses nothing
        found = restrictions(self.op.name, seen)
        if options_alone:
            found = [each for each in found if each.code in ("refuses_option", "refuses_together")]
        if not found:
            return False
        for each in found:
            self.notes.append(
                each.finding(sum(bool(one.raised) and each.excludes(self.op.name, one.case) for one in seen))
            )
        habits, bare = self.candidate.habits, under(self.candidate, ())
        self.candidate = under(bare.refusing(found), habits)
        return True

    def _hopeless(self) -> bool:
        """Whether every case is answered and wrong: no more are asked."""
        return all(each.wrong and not each.raised for each in self.seen)

    def _adopts(self) -> bool:
        """Whether the candidate follows other conventions, which explain what is wrong."""
        seen = self._sample()
        if not any(each.wrong for each in seen):
            return False
        self.watch("diagnosis: conventions")
        pool = [(each.index, each.dtype) for each in seen]
        start = in_place_by_design(self.candidate, self._rule(), seen)

        def look(candidate: Candidate, some: Sequence[tuple[int, str]]) -> list[Observation]:
            self.watch("diagnosis: conventions")
            return [found for at in some if (found := self._seen_by(candidate, *at))]

        found = establish(start, pool, look)
        if found.habits == self.candidate.habits:
            return False
        self.candidate = found
        return True

    def _smoke(self) -> list[str]:
        """The dtypes that are judged. A candidate that computes in one dtype only is judged in that one."""
        self.drawn = set()
        self.notes = [note for note in self.notes if note.code != "one_dtype_only"]
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
        self.drawn = {(index, dtype) for index, dtype in self.drawn if dtype in dtypes}
        return dtypes

    def _table(self, dtypes: Sequence[str]) -> None:
        """The table's cases, until there are enough, or enough that fail, or the time is up."""
        if any(each.index >= SMOKE for each in self.seen):
            return  # they are drawn already
        last = time.monotonic() + self.settings.seconds
        failing = sum(bool(each.wrong) for each in self.seen)
        for index in range(SMOKE, self.candidate.cases_of(cases_of(self.candidate.row, self.settings.cases))):
            for dtype in dtypes:
                seen = self._observe(index, dtype)
                if seen is not None:
                    self.seen.append(seen)
                    failing += bool(seen.wrong)
            if (failing >= ENOUGH and len(self.seen) >= RICH) or time.monotonic() > last:
                break

    def _observe(self, index: int, dtype: str) -> Observation | None:
        self.watch(f"case {index} in {dtype}")
        self.drawn.add((index, dtype))
        return self._seen_by(self.candidate, index, dtype)

    def _seen_by(self, candidate: Candidate, index: int, dtype: str) -> Observation | None:
        try:
            case, self.chosen[index] = draw(candidate, self.settings, index)
            with redirect_stdout(_NOWHERE):
                return observe(candidate.implementation, candidate.op, case, dtype, index)
        except NotOffered:
            return None

    def _behaviour(self, dtypes: Sequence[str]) -> _Behaviour:
        """Purity, repeatability, aliasing and linearity, in some of the cases."""
        rule = self._rule()
        if rule is None:
            return _Behaviour((), None, [])
        chosen = [each for each in self.seen if not each.raised][:: CONDUCT_EVERY if len(self.seen) > 60 else 1]
        raised = [each for each in self.seen if READ_ONLY in each.raised][:2]
        count, what, by_design = 0, None, None
        for each in [*chosen[:CONDUCT_MOST], *raised]:
            self.watch(f"conduct in case {each.index}")
            count += 1
            what = rule(each)
            if what is not None and not each.wrong and self._is_by_design(what):
                by_design, what = what, None
            if what is not None and not (what.code == "not_linear" and each.wrong):
                break
            what = None
        names = ("changes nothing it was given", "answers the same when called again", "shares no memory")
        hit = 0 if what and what.code in CHANGES else 2 if what and what.code in SHARES else 1
        rows = [
            Property(name, count, int(bool(what) and i == hit), str(what) if what and i == hit else "")
            for i, name in enumerate(names)
        ]
        return _Behaviour(tuple(rows), what, self._by_design(by_design))

    def _is_by_design(self, what: Misconduct) -> bool:
        """What shares memory with an operand that it was written into is no other rule broken."""
        in_place = any(habit.name == "in-place" for habit in self.candidate.habits)
        return what.code in BY_DESIGN or (in_place and what.code in SHARES)

    def _by_design(self, what: Misconduct | None) -> list[Finding]:
        """What it does on purpose, beside the conventions that are known already."""
        if what is None:
            return []
        accept = "accumulates" if what.code == "accumulates" else "in-place"
        if any(habit.name == accept for habit in self.candidate.habits):
            return []
        return [Finding(f"convention_{what.code}", what.tensor, numbers={"accept": accept})]

    def _rule(self) -> Callable[[Observation], Misconduct | None] | None:
        """How the candidate is seen to behave in a case, or None for what cannot be called."""
        if self.raw.answers is not None:
            return None
        rule: Any = conduct if self.raw.there is None else self.raw.there.conduct
        if not self.raw.pairs and self.raw.there is None:
            from equivalence_tests import candidate_torch

            rule = candidate_torch.conduct
        habits, op = self.candidate.habits, self.op
        for habit in habits:
            op = habit.asked(op)
        moved = any(habit.arrays for habit in habits)

        def seen(each: Observation) -> Misconduct | None:
            exact = {} if moved else each.exact  # budgets have the shapes of the table's arrays
            return misconduct(partial(rule, self.raw, op, sent(habits, each.case), exact, each.dtype))

        return seen

    def _restricted(self) -> bool:
        """Laws draw sizes and axes of their own."""
        convention = self.candidate.convention
        return bool(
            self.raw.answers is not None
            or any(habit.arrays for habit in self.candidate.habits)
            or self.candidate.sizes
            or any(name in self.candidate.not_checked for name in OPTIONAL.get(self.op.name, ()))
            or self.candidate.restricted
            or self.settings.sizes
            or convention.layout != "any"
            or convention.lead is not None
        )

    def _laws(self, dtypes: Sequence[str]) -> list[tuple[str, str]]:
        """The laws that are broken, each with what broke, the one that is broken furthest first.

        One that rounding alone breaks is not told beside one that is broken further.
        """
        if not self.candidate.whole:
            return []
        broken = []
        moves = any(habit.moves_values for habit in self.candidate.habits)
        right = exact_under(self.candidate) if moves else None
        for law in LAWS.get(self.op.name, ()):
            if law.__name__ in STRICT and not self.settings.strict:
                continue
            if right is not None and self._breaks(law, right, dtypes[0]):
                self.left_out.add(law.__name__)
                continue
            for dtype in dtypes:
                self.watch(f"law {law.__name__} in {dtype}")
                what = self._breaks(law, self.implementation, dtype)
                if what:
                    broken.append((strength(what, dtype), law.__name__, what))
                    break
        broken.sort(key=lambda each: -each[0])
        furthest = max((far for far, law, _ in broken if law not in EDGES), default=0.0)
        least = BY_ROUNDING if furthest > BY_ROUNDING else 0.0
        return [(law, what) for far, law, what in broken if far >= least or law in EDGES]

    def _breaks(self, law: Any, implementation: Implementation, dtype: str) -> str:
        draws = SeededDraws(np.random.default_rng([self.settings.seed, 0]))
        return attempt(partial(law, implementation, dtype, draws))

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
        if skipped or self._restricted() or not self.candidate.whole:
            return []
        self.notes += [
            Finding("edge", numbers={"law": law.replace("_", " "), "what": what})
            for law, what in broken
            if law in EDGES
        ]
        names = [
            law.__name__
            for law in LAWS.get(self.op.name, ())
            if law.__name__ not in EDGES | self.left_out and (self.settings.strict or law.__name__ not in STRICT)
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
        self,
        wrong: list[Observation],
        behaviour: Misconduct | None,
        broken: list[tuple[str, str]],
        again: Finding | None,
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
                broken_laws=[law for law, _ in broken if law not in EDGES],
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
            self.candidate.sizes_at(wrong.index) | self.settings.sizes,
        )
        return seen(smallest) or wrong


@dataclass(frozen=True)
class _Behaviour:
    """What was seen of how it behaves: the rule that it breaks, and what it does by design."""

    rows: tuple[Property, ...]
    what: Misconduct | None
    by_design: list[Finding]


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


def _is_judged(seen: Observation, name: str) -> bool:
    return bool(seen.raised) or (name in seen.verdicts and not seen.verdicts[name].ill)


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
    accept: Sequence[str] = (),
    trace: bool = True,
) -> Report:
    """Hold a function against the op `like` of the table, or against a part such as adamw_step (with its own signature, and
    of the settings `strict` alone): `report.passed`, `report.findings`, `str(report)`.

    `function` is a forward, NumPy's or torch's, a module or an autograd.Function; `backward` a function of (dY, cache) or
    of (dY, *inputs); `strict` asks for what only the reference promises too: that bad input is refused. `accept` names
    conventions that are as good as the table's ("epsilon", "dtype", ...; "all" is every one): without it a right function
    of another convention has the verdict "another convention", and has not passed. Without `trace` no line of the user's
    own file is looked for. ValueError, one line, if its signature fits no call of the op. It runs in
    this process: a candidate that may hang or end it is better checked by `gemelos check`.
    """
    if like in PART_NAMES:
        from equivalence_tests.parts.outside import check_part

        return check_part(function, like, strict=strict)
    convention = Convention(layout, mask_true, lead)
    candidate = adapt(function, like, backward=backward, device=device, convention=convention, without=tuple(without))
    settings = Settings(
        cases, seed, (dtype,) if dtype else None, dict(sizes or {}), strict=strict, trace=trace, accept=tuple(accept)
    )
    return examine(candidate, settings)


def check_backward(backward: Any, like: str, **settings: Any) -> Report:
    """Hold a backward alone against the op: the forward is the reference's. `backward` and `settings` as in `check`."""
    return check(_reference_forward(like), like, backward=backward, **settings)


def _reference_forward(like: str) -> Any:
    op_named(like)
    return getattr(reference_numpy, like)
