"""The library: which of the known mistakes answer as the candidate does, on every case seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case, SeededDraws, is_floating
from equivalence_tests.checks import attempt, conduct, draw_case, misconduct
from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.match import ODD
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, run
from equivalence_tests.laws import LAWS
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.mistakes import MISTAKES, Mistake, as_implementation, quiet
from equivalence_tests.mistakes.spanish import SPANISH
from equivalence_tests.observe import observe
from equivalence_tests.ops import OPS, Op

UNLIKE = 3.0  # what an extreme case counts in which the answers differ
SIMILAR = 30.0  # times: errors that come of rounding are of one size, and no more can be asked of them
AT_RANDOM = frozenset({"answers_differently", "backward_answers_differently"})
MORE_CASES = 60  # drawn to tell those apart that are equal on what was seen
MORE_SEED = 1_000_003  # cases that nobody has seen


class Library(Collection[Mistake]):
    """Known mistakes, and what they answered: each is run once on a case, whoever asks."""

    def __init__(self, mistakes: Collection[Mistake], answers: dict[Any, Any] | None = None) -> None:
        self.mistakes = list(mistakes)
        self._answers: dict[Any, Any] = {} if answers is None else answers

    def __iter__(self) -> Iterator[Mistake]:
        return iter(self.mistakes)

    def __len__(self) -> int:
        return len(self.mistakes)

    def __contains__(self, mistake: object) -> bool:
        return mistake in self.mistakes

    def without(self, ids: Collection[str]) -> Library:
        """The same library with some left out."""
        return Library([mistake for mistake in self.mistakes if mistake.id not in ids], self._answers)

    def answer(self, mistake: Mistake, case: Case, dtype: str, shaken: bool = False) -> Answer | None:
        """What it answers on a rounded case, or on the same with operands off by a unit; None where it raises."""
        key = (mistake.id, id(case), dtype, shaken)
        if key not in self._answers:
            asked = shake(case, dtype) if shaken else case
            answered: Answer | None = None
            with quiet():

                def ask() -> None:
                    nonlocal answered
                    answered = run(as_implementation(mistake), OPS[mistake.op], asked, dtype)

                raised = attempt(ask)
            self._answers[key] = (case, answered, raised)  # the case is kept, or another might take its id
        found: Answer | None = self._answers[key][1]
        return found

    def raises(self, mistake: Mistake, case: Case, dtype: str) -> str:
        """The exception that it raises on a rounded case, by its name, or nothing."""
        self.answer(mistake, case, dtype)
        return _exception(self._answers[(mistake.id, id(case), dtype, False)][2])

    def conduct(self, mistake: Mistake, seen: Sequence[Seen]) -> Misconduct | None:
        """The first rule of conduct that it breaks on these cases."""
        for each in seen:
            key = (mistake.id, id(each.case), each.observation.dtype, "conduct")
            if key not in self._answers:
                o = each.observation
                check = partial(conduct, as_implementation(mistake), OPS[mistake.op], o.case, o.exact, o.dtype)
                with quiet():
                    self._answers[key] = (each.case, misconduct(check))
            found: Misconduct | None = self._answers[key][1]
            if found is not None:
                return found
        return None


def shake(case: Case, dtype: str, seed: int = 0) -> Case:
    """The case with every second floating number moved to a neighbour: a run on it rounds otherwise."""
    rng = np.random.default_rng(seed)

    def moved(values: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in values.items():
            if is_floating(value) and value.size and name != "dloss":
                unit = PRECISIONS[dtype].unit * 2.0
                sign = rng.choice([-1.0, 0.0, 1.0], value.shape)
                with np.errstate(invalid="ignore"):
                    value = np.where(np.isfinite(value), value * (1.0 + unit * sign), value)
                value = value.astype(np.float32).astype(np.float64) if dtype == "float32" else value
            found[name] = value
        return found

    return Case(moved(case.operands), dict(case.options), moved(case.upstream), case.hard, case.layouts)


def known(
    op: Op,
    seen: Sequence[Seen],
    said: Misconduct | None,
    broken_laws: Sequence[str],
    library: Collection[Mistake] | None,
    implementation: Implementation | None,
) -> list[Finding]:
    """One finding for the mistake that fits best, which names the others that cannot be told from it."""
    everything = MISTAKES.values() if library is None else library
    own = everything if isinstance(everything, Library) else Library([m for m in everything if m.op == op.name])
    graded = [
        (grade, mistake)
        for mistake in own
        if mistake.op == op.name and (grade := _grade(own, mistake, seen)) is not None
    ]
    if (
        said is not None and said.code in AT_RANDOM
    ):  # it answers at random: what can be told is where it is wrong, and that it does so
        graded += [(UNLIKE, m) for m in own if m.op == op.name and _as_random(own, m, seen, said)]
    values_wrong = any(each.raised or any(t.wrong for t in each.tensors.values()) for each in seen)
    if not values_wrong:
        graded = _by_conduct(op, own, graded, seen, said, broken_laws)
    else:  # who answers at random answers as anybody, and is told by that
        graded = [(g, m) for g, m in graded if g == 0.0 or bool(own.conduct(m, seen)) == bool(said)]
    if not graded:
        return []
    least = min(grade for grade, _ in graded)
    same = [mistake for grade, mistake in graded if grade == least]
    if len(same) > 1 and values_wrong:
        conducts = [mistake for mistake in same if bool(own.conduct(mistake, seen)) == bool(said)]
        same = conducts or same
        if implementation is not None and len(same) > 1:
            same = _told_apart(op, own, same, implementation)
    return [_finding(same, sure=least == 0.0, seen=seen)]


def _finding(same: Sequence[Mistake], sure: bool, seen: Sequence[Seen]) -> Finding:
    mistake, others = same[0], [other.id for other in same[1:]]
    numbers = {
        "id": mistake.id,
        "op": mistake.op,
        "sentence": mistake.sentence.rstrip("."),
        "sentence_es": SPANISH.get(mistake.id, mistake.sentence).rstrip("."),
        "kind": mistake.kinds[0] if mistake.kinds else "value",
        "cases": sum(each.raised or any(t.wrong for t in each.tensors.values()) for each in seen),
        "of": len(seen),
        "others": others,
    }
    stage = mistake.stages[0] if mistake.stages else ""
    return Finding("known_mistake", _first_wrong(seen), stage, numbers, sure and not others)


def _first_wrong(seen: Sequence[Seen]) -> str:
    return next((name for each in seen for name, tensor in each.tensors.items() if tensor.wrong), "")


def _as_random(library: Library, mistake: Mistake, seen: Sequence[Seen], said: Misconduct) -> bool:
    """Whether a mistake behaves so too, and is wrong in the same tensors of (nearly) the same cases."""
    own = library.conduct(mistake, seen)
    if own is None or own.side != said.side:
        return False
    alike = 0
    for each in seen:
        answer = library.answer(mistake, each.case, each.observation.dtype) or {}
        theirs = {
            name
            for name, tensor in each.tensors.items()
            if name in answer and not each.leaves(name, np.asarray(answer[name].value, np.float64))
        }
        alike += theirs == each.wrong(tuple(each.tensors))
    return alike >= (1.0 - ODD) * len(seen)


def _grade(library: Library, mistake: Mistake, seen: Sequence[Seen]) -> float | None:
    """0 if its answers are the candidate's on every case; more where only their errors are of one size; None otherwise."""
    grade, odd = 0.0, 0
    wrong = sum(each.raised or any(t.wrong for t in each.tensors.values()) for each in seen)
    for each in seen:
        apart = _apart(library, mistake, each)
        if apart is None:
            odd += 1
            if not each.case.hard or odd > ODD * wrong:
                return None
            apart = UNLIKE
        grade += apart
    return grade


def _exception(said: str) -> str:
    """ValueError of "raised ValueError: ..."."""
    return said.removeprefix("raised ").partition(":")[0]


def _apart(library: Library, mistake: Mistake, seen: Seen) -> float | None:
    dtype, answer = seen.observation.dtype, seen.observation.answer
    theirs = library.answer(mistake, seen.case, dtype)
    if answer is None or theirs is None:
        both = answer is None and theirs is None
        alike = _exception(seen.observation.raised) == library.raises(mistake, seen.case, dtype)
        return 0.0 if both and alike else None
    if not any(name.startswith("d") for name in seen.observation.exact):  # of a forward alone nothing else is known
        theirs = {name: tensor for name, tensor in theirs.items() if name in seen.observation.exact}
    if answer.keys() != theirs.keys():
        return None
    grade, shaken = 0.0, None
    for name, got in answer.items():
        if got.dtype != theirs[name].dtype or got.value.shape != theirs[name].value.shape:
            return None
        if name not in seen.tensors:
            continue
        value = np.asarray(theirs[name].value, np.float64)
        if seen.is_as(name, value):
            continue
        if shaken is None:
            shaken = library.answer(mistake, seen.case, dtype, shaken=True) or {}
        if name in shaken and shaken[name].value.shape == value.shape:
            with np.errstate(invalid="ignore"):
                spread = np.abs(shaken[name].value.astype(np.float64) - value)
            spread = np.where(np.isfinite(spread), spread, 0.0)
            row = np.broadcast_to(spread.max(-1, keepdims=True), spread.shape) if spread.ndim else spread
            if seen.is_as(name, value, row):
                continue
        if not _of_one_size(seen, name, value, shaken.get(name)):
            return None
        grade += 1.0
    return grade


def _of_one_size(seen: Seen, name: str, theirs: Any, shaken: Any) -> bool:
    """Both wrong by errors of one size, which rounding alone decides: on shaken operands the mistake errs otherwise."""
    tensor = seen.tensors[name]
    if (
        tensor.got is None
        or tensor.got.shape != tensor.exact.shape
        or theirs.shape != tensor.exact.shape
        or shaken is None
    ):
        return False
    counted = tensor.counted & np.isfinite(tensor.exact)
    got, theirs, again = tensor.got[counted], theirs[counted], np.asarray(shaken.value, np.float64)[counted]
    with np.errstate(invalid="ignore"):
        one, other, moved = (
            float(np.abs(x)[np.isfinite(x)].max(initial=0.0))
            for x in (got - tensor.exact[counted], theirs - tensor.exact[counted], again - theirs)
        )
    odd = [(~np.isfinite(x)).sum() for x in (got, theirs, again)]
    if odd[0] != odd[1] and odd[1] == odd[2]:
        return False
    least, most = sorted((one, other))
    budget = float(tensor.budget[counted].max(initial=0.0))
    return most <= SIMILAR * max(least, budget) and max(one, other) <= SIMILAR * max(moved, budget)


def _by_conduct(
    op: Op, library: Library, graded: Any, seen: Sequence[Seen], said: Misconduct | None, broken_laws: Sequence[str]
) -> list[tuple[float, Mistake]]:
    """All values are right: those that behave so, or break the same laws."""
    if said:
        told = [(grade, mistake, library.conduct(mistake, seen)) for grade, mistake in graded]
        equal = [(grade, mistake) for grade, mistake, text in told if text == said]
        return equal
    found = []
    for grade, mistake in graded:
        if broken_laws and _breaks(op, mistake, broken_laws):
            found.append((grade, mistake))
    return found


def _breaks(op: Op, mistake: Mistake, names: Sequence[str]) -> bool:
    """Whether a mistake breaks all of these laws."""
    implementation = as_implementation(mistake)
    laws = [law for law in LAWS.get(op.name, ()) if law.__name__ in names]
    with quiet():
        return bool(laws) and all(
            any(
                attempt(partial(law, implementation, dtype, SeededDraws(np.random.default_rng([0, draw]))))
                for dtype in ("float64", "float32")
                for draw in range(3)
            )
            for law in laws
        )


def _told_apart(op: Op, library: Library, same: list[Mistake], implementation: Implementation) -> list[Mistake]:
    """More cases, until one is left or the cases are spent."""
    dtypes = [dtype for dtype in ("float64", "float32") if dtype in implementation.dtypes]
    for index in range(MORE_CASES // (4 if op.model else 1)):
        case = draw_case(op, MORE_SEED, 2 * index)  # none is extreme: there the mistake may differ from itself
        for dtype in dtypes:
            with quiet():
                observed: list[Seen] = []

                def ask(
                    case: Case = case, dtype: str = dtype, observed: list[Seen] = observed, index: int = index
                ) -> None:
                    observed.append(Seen(observe(implementation, op, case, dtype, index)))

                attempt(ask)
            left = [m for m in same if not observed or _apart(library, m, observed[0]) is not None]
            same = left or same
            if len(same) == 1:
                return same
    return same


def answered_alike(library: Library, one: Mistake, other: Mistake, cases: Sequence[tuple[Case, str]]) -> bool:
    """Whether two mistakes answer the same, to a few units of the largest entry, on all these cases."""
    for case, dtype in cases:
        mine, theirs = library.answer(one, case, dtype), library.answer(other, case, dtype)
        if mine is None or theirs is None:
            if mine is not theirs:
                return False
            continue
        if mine.keys() != theirs.keys():
            return False
        for name, tensor in mine.items():
            x, y = tensor.value, theirs[name].value
            if x.shape != y.shape or tensor.dtype != theirs[name].dtype:
                return False
            scale = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
            close = np.isclose(x, y, rtol=0.0, atol=PRECISIONS[dtype].unit * 2**12 * scale, equal_nan=True)
            if not close.all():
                return False
    return True
