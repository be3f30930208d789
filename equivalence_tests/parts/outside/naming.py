"""Which known mistake a part has: the one that gives its answers, to the last digits, where they are not the right ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from equivalence_tests.findings import Finding
from equivalence_tests.mistakes import Mistake, quiet
from equivalence_tests.part_words import MISTAKES_ES
from equivalence_tests.parts.outside.answers import CLEAR, Answer, answers_apart


@dataclass(frozen=True)
class Match:
    """`distance` is at most 1 within the rounding of one formula; `shown` in how many answers the mistake shows."""

    mistake: Mistake
    distance: float
    shown: int
    of: int


def matches(
    got: Sequence[Answer | None],
    right: Sequence[Answer | None],
    library: Sequence[Mistake],
    answer: Callable[[Mistake, int], Answer | None],
    hidden: tuple[str, ...] = (),
) -> list[Match]:
    """The mistakes that reproduce every answer, the nearest first, and among equals the one that shows most often.

    `answer` gives a mistake's answer to one question. Where the candidate is wrong is asked first: most end there.
    """
    kept = [_without(each, hidden) for each in got]
    rights = [_without(each, hidden) for each in right]
    order = sorted(range(len(kept)), key=lambda i: not _differ(kept[i], rights[i]))
    found = []
    for mistake in library:
        match = _match(mistake, kept, rights, order, answer, hidden)
        if match is not None:
            found.append(match)
    return sorted(found, key=lambda match: (match.distance > 1e-3, -match.shown, match.distance))


def _differ(mine: Answer | None, exact: Answer | None) -> bool:
    return mine is not None and exact is not None and answers_apart(mine, exact, frozenset(mine)) > 1.0


def _without(answer: Answer | None, hidden: tuple[str, ...]) -> Answer | None:
    if answer is None:
        return None
    return {name: value for name, value in answer.items() if not name.startswith(hidden)} if hidden else answer


def _match(
    mistake: Mistake,
    got: Sequence[Answer | None],
    right: Sequence[Answer | None],
    order: Sequence[int],
    answer: Callable[[Mistake, int], Answer | None],
    hidden: tuple[str, ...],
) -> Match | None:
    distance, shown, of = 0.0, 0, 0
    for i in order:
        mine, exact = got[i], right[i]
        if mine is None:
            continue
        with quiet():
            wrong = _without(answer(mistake, i), hidden)
        if wrong is None:
            continue
        if not mine:
            continue
        of += 1
        apart = answers_apart(mine, wrong, only=frozenset(mine))
        if apart > 1.0:
            return None
        distance = max(distance, apart)
        shown += int(exact is not None and answers_apart(wrong, exact, only=frozenset(mine)) > CLEAR)
    return Match(mistake, distance, shown, of) if shown else None


def finding_of(found: Sequence[Match], code: str = "known_mistake") -> Finding:
    """The best of them, and the ids of the others that cannot be told from it."""
    best = found[0]
    numbers = {
        "id": best.mistake.id,
        "sentence": best.mistake.sentence.removesuffix("."),
        "sentence_es": MISTAKES_ES[best.mistake.id].removesuffix("."),
        "cases": best.shown,
        "of": best.of,
        "others": [match.mistake.id for match in found[1:]],
    }
    return Finding(code, numbers=numbers)
