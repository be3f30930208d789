"""The library: which of the known mistakes answer as the candidate does, on every case seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case, SeededDraws, is_floating
from equivalence_tests.checks import attempt, conduct, draw_case, misconduct
from equivalence_tests.diagnosis.close import Seen, Tensor
from equivalence_tests.diagnosis.match import ODD
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, run
from equivalence_tests.laws import LAWS
from equivalence_tests.misconduct import READ_ONLY, Misconduct
from equivalence_tests.mistakes import MISTAKES, Mistake, as_implementation, quiet
from equivalence_tests.mistakes.spanish import SPANISH
from equivalence_tests.observe import observe
from equivalence_tests.ops import OPS, Op

FAR = 8.0  # budgets: what rounds otherwise than the right formula may be off by a few
NEARER = 0.1  # of its distance from the right answer
MATCHED, MISSED = "matched", "missed"
UNLIKE = 3.0  # what an extreme case counts in which the answers differ
SIMILAR = 30.0  # times: errors that come of rounding are of one size, and no more can be asked of them
AT_RANDOM = frozenset({"answers_differently", "backward_answers_differently"})
MORE_CASES = 60  # drawn to tell those apart that are equal on what was seen
EXTREME = 20  # more extreme cases, for one that is known by the size of its errors alone
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

    def writes(self, mistake: Mistake, case: Case, dtype: str) -> bool:
        """Whether it raises because it writes into what it was given."""
        self.answer(mistake, case, dtype)
        return READ_ONLY in str(self._answers[(mistake.id, id(case), dtype, False)][2])

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
    own = library_of(op, library)
    values_wrong = any(each.raised or any(t.wrong for t in each.tensors.values()) for each in seen)
    graded = [
        (grade, mistake)
        for mistake in own
        if mistake.op == op.name and (grade := _grade(own, mistake, seen, values_wrong)) is not None
    ]
    if (
        said is not None and said.code in AT_RANDOM
    ):  # it answers at random: what can be told is where it is wrong, and that it does so
        graded += [(UNLIKE, m) for m in own if m.op == op.name and _as_random(own, m, seen, said)]
    if not values_wrong:
        graded = _by_conduct(op, own, graded, seen, said, broken_laws)
    else:  # who answers at random answers as anybody, and is told by that
        graded = [(g, m) for g, m in graded if g == 0.0 or bool(own.conduct(m, seen)) == bool(said)]
    if values_wrong and implementation is not None and not op.model:
        graded = [(g, m) for g, m in graded if g == 0.0 or _holds_elsewhere(op, own, m, implementation)]
    if not graded:
        return []
    least = min(grade for grade, _ in graded)
    same = [mistake for grade, mistake in graded if grade == least]
    if len(same) > 1 and values_wrong:
        conducts = [mistake for mistake in same if bool(own.conduct(mistake, seen)) == bool(said)]
        same = conducts or same
        if implementation is not None and len(same) > 1:
            same = _told_apart(op, own, same, implementation)
    return [_finding(own, same, sure=least == 0.0, seen=seen)]


def library_of(op: Op, library: Collection[Mistake] | None) -> Library:
    """The known mistakes of an op, with what they answered if that is kept already."""
    everything = MISTAKES.values() if library is None else library
    return everything if isinstance(everything, Library) else Library([m for m in everything if m.op == op.name])


def _finding(library: Library, same: Sequence[Mistake], sure: bool, seen: Sequence[Seen]) -> Finding:
    mistake, others = same[0], [other.id for other in same[1:]]
    answered = [each for each in seen if not each.raised and each.wrong(tuple(each.tensors))]
    numbers = {
        "id": mistake.id,
        "op": mistake.op,
        "sentence": mistake.sentence.rstrip("."),
        "sentence_es": SPANISH.get(mistake.id, mistake.sentence).rstrip("."),
        "kind": mistake.kinds[0] if mistake.kinds else "value",
        "cases": sum(owned(library, mistake, each) == MATCHED for each in answered or seen),
        "of": len(answered) or sum(each.raised for each in seen),
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


def _grade(library: Library, mistake: Mistake, seen: Sequence[Seen], values_wrong: bool) -> float | None:
    """0 if its answers are the candidate's on every case; more where only their errors are of one size; None otherwise.

    Where values are wrong it needs cases of its own: those in which it is far from the right answer. To raise is no answer,
    and a few digits less are anybody's.
    """
    grade, odd, matched, missed = 0.0, 0, 0, 0
    wrong = sum(each.raised or any(t.wrong for t in each.tensors.values()) for each in seen)
    for each in seen:
        apart = _apart(library, mistake, each)
        if apart is None:
            odd += 1
            if not each.case.hard or odd > ODD * wrong:
                return None
            apart = UNLIKE
        grade += apart
        if values_wrong:
            whose = owned(library, mistake, each)
            matched, missed = matched + (whose == MATCHED), missed + (whose == MISSED)
    if values_wrong and (not matched or missed > ODD * matched):
        return None
    return grade


def owned(library: Library, mistake: Mistake, seen: Seen, where: Callable[[Tensor, Array], Array] | None = None) -> str:
    """Whether a case is one of a mistake's own (far off, or as `where` has it), and the candidate answers there as it does
    (MATCHED) or is right (MISSED); nothing where the mistake itself is right but for rounding, or raises, or the candidate
    raises. But to raise because of writing into what was given is how that mistake shows.
    """
    answer = library.answer(mistake, seen.case, seen.observation.dtype)
    if answer is None or seen.raised:
        both = seen.raised and library.writes(mistake, seen.case, seen.observation.dtype)
        return MATCHED if both and READ_ONLY in seen.observation.raised else ""
    found = ""
    for name, tensor in seen.tensors.items():
        theirs = answer.get(name)
        if tensor.got is None or theirs is None:
            found = MATCHED if tensor.got is None and theirs is None else found
            continue
        value = np.asarray(theirs.value, np.float64)
        if value.shape != tensor.exact.shape or str(theirs.dtype) != seen.observation.dtype:
            if tensor.wrong:  # of a wrong shape or dtype both, or the two were not alike
                return MATCHED
            continue
        far = (where or _far)(tensor, value)
        if not far.any():
            continue
        if tensor.wrong and tensor.got.shape == value.shape and _nearer(tensor, value, far):
            return MATCHED
        if not tensor.wrong:
            found = MISSED
    return found


def _far(tensor: Tensor, value: Array) -> Array:
    """Where a mistake's answer is far from the right one: by FAR budgets, or one of the two is no number."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(value - tensor.exact)
        same = (value == tensor.exact) | (np.isnan(value) & np.isnan(tensor.exact))
        return np.asarray(tensor.counted & ~same & ~(apart <= FAR * tensor.budget))


def _nearer(tensor: Tensor, value: Array, far: Array) -> bool:
    """Whether the candidate is as wrong there: nearer to the mistake's answer than to the right one, or as far off."""
    assert tensor.got is not None
    got, exact, theirs = tensor.got[far], tensor.exact[far], value[far]
    finite = np.isfinite(got) & np.isfinite(theirs) & np.isfinite(exact)
    if not finite.any():
        return np.array_equal(got, theirs, equal_nan=True)
    off = np.abs(got - exact)[finite]
    apart = float(np.abs(got - theirs)[finite].max())
    return apart <= NEARER * float(off.max()) or bool((off > FAR * tensor.budget[far][finite]).any())


def _apart(library: Library, mistake: Mistake, seen: Seen) -> float | None:
    dtype, answer = seen.observation.dtype, seen.observation.answer
    theirs = library.answer(mistake, seen.case, dtype)
    if answer is None or theirs is None:
        return 0.0 if answer is None else None  # to raise speaks against none, and is no answer either
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


def _holds_elsewhere(op: Op, library: Library, mistake: Mistake, implementation: Implementation) -> bool:
    """Whether the candidate answers no number where the mistake does, in more extreme cases: errors of one size are
    anybody's.
    """
    more = _more(op, implementation, range(1, 2 * EXTREME, 2))
    whose = [owned(library, mistake, each, _no_number) for each in more if _steady(library, mistake, each)]
    return whose.count(MISSED) <= ODD * whose.count(MATCHED)


def _steady(library: Library, mistake: Mistake, seen: Seen) -> bool:
    """Whether a mistake answers no number in the same places when it rounds otherwise."""
    dtype = seen.observation.dtype
    one, other = (library.answer(mistake, seen.case, dtype, shaken) or {} for shaken in (False, True))
    return all(
        name in other and np.array_equal(np.isfinite(tensor.value), np.isfinite(other[name].value))
        for name, tensor in one.items()
    )


def _no_number(tensor: Tensor, value: Array) -> Array:
    """Where a mistake answers NaN or infinity for a number."""
    return np.asarray(tensor.counted & np.isfinite(tensor.exact) & ~np.isfinite(value))


def _more(op: Op, implementation: Implementation, indices: range) -> Iterator[Seen]:
    """More cases, other than those seen, as far as the candidate takes them."""
    for index in indices:
        case = draw_case(op, MORE_SEED, index)
        for dtype in (dtype for dtype in ("float64", "float32") if dtype in implementation.dtypes):
            observed: list[Seen] = []

            def ask(case: Case = case, dtype: str = dtype, observed: list[Seen] = observed, index: int = index) -> None:
                observed.append(Seen(observe(implementation, op, case, dtype, index)))

            with quiet():
                attempt(ask)
            yield from observed


def _told_apart(op: Op, library: Library, same: list[Mistake], implementation: Implementation) -> list[Mistake]:
    """More cases, until one is left or the cases are spent."""
    # None is extreme: there the mistake may differ from itself.
    for each in _more(op, implementation, range(0, 2 * (MORE_CASES // (4 if op.model else 1)), 2)):
        left = [m for m in same if _apart(library, m, each) is not None]
        same = left or same
        if len(same) == 1:
            break
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
