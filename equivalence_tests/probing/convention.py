"""A convention that an implementation follows, and the input that decided it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.sentences import COMMON, LANGUAGES, QUESTIONS
from equivalence_tests.probing.subject import Refused

UNTOLD = ("no_option", "unmatched", "ambiguous", "out_of_reach", "no_boolean")


@dataclass(frozen=True)
class Convention:
    """`name` is the question, `answer` a code. `given` is the input that decided it, `got` what came out.

    `numbers` are those that the sentence speaks of. What could not be told has an answer of UNTOLD, which says why.
    """

    name: str
    answer: str
    given: dict[str, Any] = field(default_factory=dict)
    got: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def told(self) -> bool:
        return self.answer not in UNTOLD

    def title(self, language: str = "en") -> str:
        """The question in words. KeyError for a language that is not in LANGUAGES."""
        return dict(zip(LANGUAGES, QUESTIONS[self.name][0], strict=True))[language]

    def say(self, language: str = "en") -> str:
        """The answer in words. KeyError for a language that is not in LANGUAGES."""
        sentences = QUESTIONS[self.name][1].get(self.answer) or COMMON[self.answer]
        sentence = dict(zip(LANGUAGES, sentences, strict=True))[language]
        return sentence.format(**{name: shown(value) for name, value in self.numbers.items()})

    @property
    def evidence(self) -> str:
        """`what went in -> what came out`, in one line, or nothing."""
        came = ", ".join(f"{name} = {shown(value)}" for name, value in self.got.items())
        return (
            f"{', '.join(f'{name} = {shown(value)}' for name, value in self.given.items())} -> {came}" if came else ""
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "answer": self.answer,
            "told": self.told,
            "given": {name: _plain(value) for name, value in self.given.items()},
            "got": {name: _plain(value) for name, value in self.got.items()},
            "numbers": {name: _plain(value) for name, value in self.numbers.items()},
            "says": {language: self.say(language) for language in LANGUAGES},
            "evidence": self.evidence,
        }


def shown(value: Any) -> str:
    """Four digits of a number, T and F for booleans, lists in brackets, anything else as it is."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"
    if isinstance(value, list | tuple):
        return f"[{' '.join(shown(each) for each in value)}]"
    return str(value)


def _plain(value: Any) -> Any:
    """What JSON can hold: a number that is not finite becomes a word."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def choose(
    name: str,
    got: Any,
    alternatives: dict[str, Any],
    given: dict[str, Any],
    label: str = "Y",
    numbers: dict[str, Any] | None = None,
    *,
    roundoff: float,
) -> Convention:
    """The alternative that gives what came out.

    It must be right to half of the digits (the root of the roundoff, of the largest number), which no alternative is by
    chance and every right one is with room to spare; and the next one must be 16 times as far: four bits better.
    """
    got = np.asarray(got)
    distances = {answer: _distance(got, np.asarray(expected)) for answer, expected in alternatives.items()}
    reached = min(distances.values(), default=np.inf)
    near = [answer for answer, distance in distances.items() if distance <= 16 * max(reached, roundoff)]
    facts = (given, {label: got}, numbers or {})
    if not close_enough(reached, roundoff):
        return Convention(name, "unmatched", *facts)
    if len(near) > 1:
        return Convention(name, "ambiguous", facts[0], facts[1], {**facts[2], "choices": ", ".join(near)})
    return Convention(name, near[0], *facts)


def close(got: Array, expected: Array, roundoff: float) -> bool:
    """Whether they agree to half of the digits."""
    return close_enough(_distance(got, expected), roundoff)


def close_enough(distance: float, roundoff: float) -> bool:
    return distance <= float(np.sqrt(roundoff))


def _distance(got: Array, expected: Array) -> float:
    """The largest difference, in units of the largest number; infinite where shape, NaN or infinity differ."""
    if got.shape != expected.shape:
        return np.inf
    finite = np.isfinite(expected)
    if (np.isfinite(got) != finite).any() or not np.array_equal(got[~finite], expected[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - expected[finite]).max() / (np.abs(expected[finite]).max() or 1.0))


def asked(name: str, given: dict[str, Any], decide: Callable[[], Convention]) -> Convention:
    """What `decide` finds; that the candidate refuses is an answer as well."""
    try:
        return decide()
    except Refused as refused:
        return Convention(name, "refused", given, {}, {"error": str(refused)})
