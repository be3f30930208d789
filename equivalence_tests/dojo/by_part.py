"""An answer that is a part: judged by the part's laws, and named by the known mistake that gives its answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from equivalence_tests.checks import attempt
from equivalence_tests.dojo.verdict import Verdict
from equivalence_tests.mistakes import PART_MISTAKES, Mistake, quiet
from equivalence_tests.part_words import MISTAKES_ES
from equivalence_tests.parts import PARTS
from equivalence_tests.parts.outside import explained
from equivalence_tests.parts.outside.report import law_finding

Broken = tuple[tuple[str, str], ...]


def judged(function: Callable[..., Any], part: str) -> Verdict:
    """Passed, or the first law that is broken."""
    with quiet():
        broken = broken_laws(function, part)
        if not broken:
            return Verdict("passed", {"cases": len(laws_of(part))}, cases=len(laws_of(part)))
        own = {mistake.id for mistake in mistakes_of(part)}
        known, shortest = explained(function, part)
        same = [mistake for mistake in known if mistake.id in own]
    law, what = broken[0]
    said = {"en": f"{same[0].sentence}", "es": MISTAKES_ES[same[0].id]} if same else {}
    told = shortest or law_finding("part_law", law)
    sentence = said or {language: f"{told.say(language)}." for language in ("en", "es")}
    return Verdict("law", {"law": law, "what": what, "named": [m.id for m in same]}, sentence=sentence)


def laws_of(part: str) -> list[Any]:
    """The laws that a learner's answer is held to: that bad input is refused is asked of the reference alone."""
    return [law for law in PARTS[part] if not law.__name__.startswith("refuses")]


def broken_laws(function: Callable[..., Any], part: str) -> Broken:
    said = ((law.__name__, attempt(partial(law, function))) for law in laws_of(part))
    return tuple((name, what) for name, what in said if what)


def mistakes_of(part: str) -> list[Mistake]:
    """Those that a learner could hand in: not those that lie in accepting bad input."""
    return [mistake for mistake in PART_MISTAKES.values() if mistake.op == part and not mistake.accepts]
