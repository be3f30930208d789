"""Which conventions a candidate follows that are not the table's, found before anything is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from equivalence_tests.candidate import Candidate
from equivalence_tests.conventions import arrays, values
from equivalence_tests.conventions.habit import Habit, exact_under, sent, under
from equivalence_tests.misconduct import READ_ONLY, Misconduct
from equivalence_tests.observe import Observation

__all__ = ["NAMES", "Habit", "establish", "exact_under", "in_place_by_design", "of_codes", "sent", "under"]

MOST = 4  # conventions that one candidate departs from
FEW = 3  # wrong cases that a convention must explain before it is asked about the others
Look = Callable[[Candidate, Sequence[tuple[int, str]]], list[Observation]]
Rule = Callable[[Observation], Misconduct | None]
MAKERS: dict[str, Callable[[Candidate, dict[str, Any]], Habit]] = {
    "dtype": arrays.dtype,
    "axes": arrays.axes,
    "layout": arrays.heads_third,
    "columns": arrays.columns,
    "middle": arrays.middle,
    "one-hot": arrays.one_hot,
    "mask-true": arrays.mask_true,
    "epsilon": values.epsilon,
    "gelu-form": values.gelu_form,
    "reduction": values.reduction,
    "causal": values.causal,
    "window": values.window,
    "alignment": values.alignment,
    "fill": values.fill,
    "in-place": arrays.in_place,
}

NAMES = (*MAKERS, "accumulates")  # what `--accept` takes


def of_codes(candidate: Candidate, told: Sequence[tuple[str, dict[str, Any]]]) -> list[Habit]:
    """The conventions of these names and numbers: as a counterexample and another process are told them."""
    return [MAKERS[name](candidate, numbers) for name, numbers in told]


def in_place_by_design(candidate: Candidate, rule: Rule | None, seen: Sequence[Observation]) -> Candidate:
    """The candidate given arrays that it may write into, if what it writes there is its answer."""
    raised = [each for each in seen if READ_ONLY in each.raised]
    if rule is None or not raised or candidate.habits:
        return candidate
    what = rule(raised[0])
    if what is None or what.code not in ("in_place", "backward_in_place"):
        return candidate
    return under(candidate, [arrays.in_place(candidate, {"pass": what.side})])


def establish(candidate: Candidate, pool: Sequence[tuple[int, str]], look: Look) -> Candidate:
    """The candidate under the conventions that explain what is wrong, as far as conventions do.

    `look` observes a candidate on some cases of the pool. A convention is taken where it makes some tensor right in every
    case of a dtype, or, if it says how arrays lie, where nothing raises any more; the one that mends most is taken first.
    What an answer shows by itself (its dtype) is taken whatever else is wrong.
    """
    seen = look(candidate, pool)
    while any(each.wrong for each in seen) and len(candidate.habits) < MOST:
        best: tuple[int, Candidate, list[Observation]] | None = None
        few = [(each.index, each.dtype) for each in seen if each.wrong][:FEW]
        some = [each for each in seen if (each.index, each.dtype) in few]
        for habit in _guesses(candidate, seen):
            trial = under(candidate, (*candidate.habits, habit))
            if not (habit.measured or habit.drops) and not _gain(habit, some, look(trial, few)):
                continue
            after = look(trial, pool)
            gain = _gain(habit, seen, after)
            if gain > (best[0] if best else 0):
                best = gain, trial, after
            if habit.measured and gain:
                break
        if best is None:
            break
        _, candidate, seen = best
    return _needed(candidate, seen, pool, look)


def _needed(candidate: Candidate, seen: list[Observation], pool: Sequence[tuple[int, str]], look: Look) -> Candidate:
    """The candidate without the conventions that a later one made needless."""
    for habit in candidate.habits[:-1]:
        fewer = under(candidate, [each for each in candidate.habits if each is not habit])
        after = look(fewer, pool)
        shown = habit.measured and any(each.name == habit.name and each.measured for each in _guesses(fewer, after))
        if not shown and _wrong(after) <= _wrong(seen):
            candidate = fewer
    return candidate


def _guesses(candidate: Candidate, seen: Sequence[Observation]) -> Iterator[Habit]:
    taken = {habit.name for habit in candidate.habits}
    for habit in (*arrays.guesses(candidate, seen), *values.guesses(candidate, seen)):
        if habit.name not in taken:
            yield habit


def _gain(habit: Habit, before: Sequence[Observation], after: Sequence[Observation]) -> int:
    """How many tensors become right, 0 if the convention explains nothing."""
    if not after:
        return 0
    right = {(each.dtype, name) for each in before for name in each.exact} - _wrong(before)
    still = _wrong(after)
    if right & still:
        return 0
    mended = _wrong(before) - still
    if habit.measured:
        return 1_000_000
    count = sum(not v.wrong for each in after for v in each.verdicts.values())
    if mended:
        return 10_000 * len(mended) + count + 1
    fit = habit.arrays and not all(arrays.fits(each) for each in before) and all(arrays.fits(each) for each in after)
    return count + 1 if fit else 0


def _wrong(seen: Sequence[Observation]) -> set[tuple[str, str]]:
    """Tensors that are wrong in some case, by dtype; all of them where one raises."""
    found = set()
    for each in seen:
        names = each.exact if each.answer is None else [n for n, v in each.verdicts.items() if v.wrong]
        found |= {(each.dtype, name) for name in names}
    return found
