"""An answer that is a part: judged by the part's laws, and named by the known mistake that answers all its calls alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.dojo.by_check import Call, close, near, told
from equivalence_tests.dojo.by_op import described
from equivalence_tests.dojo.measured import is_floating, leaves
from equivalence_tests.dojo.part_words import LAWS
from equivalence_tests.dojo.recorded import ANSWER, Asked, Heard, answers_alike, asked, kind_of, same
from equivalence_tests.dojo.verdict import SAID, Verdict
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.mistakes import PART_MISTAKES, Mistake, quiet
from equivalence_tests.part_words import MISTAKES_ES
from equivalence_tests.parts import PARTS
from reference_numpy import sampling


def judged(function: Callable[..., Any], part: str) -> Verdict:
    """Passed; or the smallest call that is answered wrongly, with the mistake that answers all calls alike; or a law."""
    signature = inspect.signature(right(part))
    with quiet():
        said = {law.__name__: asked(law, function, signature) for law in laws_of(part)}
        broken = [name for name, each in said.items() if each.broken]
        if not broken:
            return Verdict("passed", {"cases": len(said)}, cases=len(said))
        alike = [mistake for mistake in mistakes_of(part) if _alike(mistake, said)]
        wrong = [found for name in broken for found in _first_wrong(part, name, said[name])]
    verdict = _smallest(part, wrong) or _of_law(broken[0])
    sentence = {"en": alike[0].sentence, "es": MISTAKES_ES[alike[0].id]} if alike else verdict.sentence
    numbers = verdict.numbers | {"law": broken[0], "named": [mistake.id for mistake in alike]}
    return Verdict(verdict.code, numbers, sentence=sentence, example=verdict.example)


def right(part: str) -> Callable[..., Any]:
    """The reference's own."""
    found: Callable[..., Any] = getattr(reference_numpy, part, None) or getattr(sampling, part)
    return found


def laws_of(part: str) -> list[Any]:
    """The laws that a learner's answer is held to: that bad input is refused is asked of the reference alone."""
    return [law for law in PARTS[part] if not law.__name__.startswith("refuses")]


def mistakes_of(part: str) -> list[Mistake]:
    """Those that a learner could hand in: not those that lie in accepting bad input."""
    return [mistake for mistake in PART_MISTAKES.values() if mistake.op == part and not mistake.accepts]


def _alike(mistake: Mistake, said: dict[str, Asked]) -> bool:
    """Whether a known mistake answers every call of every law as the learner's function did; most differ in the first."""
    assert mistake.forward is not None
    signature = inspect.signature(right(mistake.op))
    return all(answers_alike(law, mistake.forward, signature, said[law.__name__]) for law in laws_of(mistake.op))


@cache
def _rightly(part: str, name: str) -> Asked:
    law = next(law for law in laws_of(part) if law.__name__ == name)
    return asked(law, right(part), inspect.signature(right(part)))


@cache
def changed_by(part: str) -> tuple[str, ...]:
    """The arguments that a right implementation changes."""
    calls = [call for law in laws_of(part) for call in _rightly(part, law.__name__).calls]
    changed = {name: None for call in calls for name, value in call.given.items() if not close(value, call.after[name])}
    return tuple(changed)


def _first_wrong(part: str, name: str, mine: Asked) -> list[tuple[Heard, Heard]]:
    """The first call of a law that is not answered as the reference does, with the reference's: none where they agree."""
    pairs = zip(mine.calls, _rightly(part, name).calls, strict=False)
    return [(one, other) for one, other in pairs if not one.answered_as(other)][:1]


def _smallest(part: str, wrong: list[tuple[Heard, Heard]]) -> Verdict | None:
    """What is wrong in the call that is given the fewest numbers."""
    if not wrong:
        return None
    mine, theirs = min(wrong, key=lambda pair: _size(pair[0]))
    given = dict(leaf for name, value in mine.given.items() for leaf in _shown(name, value))
    for name, expected in theirs.after.items():
        got = mine.after.get(name)
        if same(got, expected, mine.unit):
            continue
        if name not in (ANSWER, *changed_by(part)):
            return Verdict("changes_arguments", {"name": part, "argument": name})
        return _difference(part if name == ANSWER else name, got, expected, given, mine.unit)
    return None


def _shown(name: str, value: Any) -> list[tuple[str, Any]]:
    """An argument as it is shown: a dict entry by entry, a tuple of numbers as it is written."""
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _shown(f"{name}[{key!r}]", each)]
    return [(name, str(value) if isinstance(value, tuple) else value)]


def _size(call: Heard) -> int:
    return sum(np.size(value) for _, value in leaves(call.given, ""))


def _difference(name: str, got: Any, expected: Any, given: dict[str, Any], unit: float) -> Verdict:
    """The first place of an answer, or of an argument that is to be changed, where it is not what it should be."""
    call = Call(given, expected, {})
    mine, theirs = leaves(got, name), leaves(expected, name)
    if [place for place, _ in mine] != [place for place, _ in theirs]:
        return Verdict("returns" if name not in given else "differs", _described(name, got, expected))
    for (place, one), (_, other) in zip(mine, theirs, strict=True):
        if same(one, other, unit):
            continue
        if np.shape(one) == np.shape(other) and kind_of(one) != kind_of(other):
            place = f"{place}.dtype" if isinstance(other, np.ndarray) else f"type({place})"
            return Verdict("differs", {"place": place, "got": kind_of(one), "expected": kind_of(other)})
        if is_floating(one) and is_floating(other) and np.shape(one) == np.shape(other):
            x, y = np.asarray(one, np.float64), np.asarray(other, np.float64)
            return told(place, x, y, ~near(one, other, unit), call)
        return Verdict("differs", _described(place, one, other))
    raise AssertionError(f"{name}: nothing differs")


def _described(place: str, got: Any, expected: Any) -> dict[str, Any]:
    return {"name": place, "place": place, "got": described(got), "expected": described(expected)}


def _of_law(law: str) -> Verdict:
    """All values are right, and a law does not hold: one about memory, or about the last digits."""
    said = {language: SAID["law"][at].format(law=LAWS[law][at]) for at, language in enumerate(LANGUAGES)}
    return Verdict("law", sentence=said)
