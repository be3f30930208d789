"""Which known mistake a part has: the one that gives its answers, to the last digits, where they are not the right ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from equivalence_tests.findings import Finding
from equivalence_tests.mistakes import Mistake, quiet
from equivalence_tests.parts.outside.answers import CLEAR, Answer, answers_apart
from equivalence_tests.part_words import MISTAKES_ES

Answers = Mapping[int, Answer | None]


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
    answers: Callable[[Mistake], Sequence[Answer | None]],
    hidden: tuple[str, ...] = (),
) -> list[Match]:
    """The mistakes that reproduce every answer, the nearest first, and among equals the one that shows most often."""
    kept = [_without(each, hidden) for each in got]
    rights = [_without(each, hidden) for each in right]
    found = []
    for mistake in library:
        match = _match(mistake, kept, rights, [_without(each, hidden) for each in answers(mistake)])
        if match is not None:
            found.append(match)
    return sorted(found, key=lambda match: (match.distance > 1e-3, -match.shown, match.distance))


def _without(answer: Answer | None, hidden: tuple[str, ...]) -> Answer | None:
    if answer is None:
        return None
    return {name: value for name, value in answer.items() if not name.startswith(hidden)} if hidden else answer


def _match(
    mistake: Mistake,
    got: Sequence[Answer | None],
    right: Sequence[Answer | None],
    wrong: Sequence[Answer | None],
) -> Match | None:
    distance, shown, of = 0.0, 0, 0
    for mine, exact, his in zip(got, right, wrong, strict=True):
        if mine is None or his is None:
            continue
        of += 1
        apart = answers_apart(mine, his, only=frozenset(mine))
        if apart > 1.0:
            return None
        distance = max(distance, apart)
        shown += int(exact is not None and answers_apart(his, exact, only=frozenset(mine)) > CLEAR)
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


class Library:
    """Answers of the known mistakes of one part, each computed once."""

    def __init__(self, answers: Callable[[Mistake], Sequence[Answer | None]]) -> None:
        self._answers = answers
        self._known: dict[str, Sequence[Answer | None]] = {}

    def answers(self, mistake: Mistake) -> Sequence[Answer | None]:
        if mistake.id not in self._known:
            with quiet():
                self._known[mistake.id] = self._answers(mistake)
        return self._known[mistake.id]
