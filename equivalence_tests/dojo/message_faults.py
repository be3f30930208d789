"""What no message may hold: an internal name, English where Spanish is asked for, two unequal numbers that look equal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from rich.console import Console

from equivalence_tests.dojo.katas import Kata
from equivalence_tests.dojo.showing import both_grids, show_verdict
from equivalence_tests.dojo.verdict import SAID, Verdict
from equivalence_tests.findings import LANGUAGES, SENTENCES

WIDE = 10_000  # columns: no sentence is broken
# Words of English that are none of Spanish, and no name of an operand, an option or a function either.
ENGLISH = (
    "the is are was were of and not with which that this expected wrong right should instead from into where when than "
    "for by its it been have does only each too many times cases law holds hold changes gives returned missing "
    "nothing stands taken made comes added divided multiplied summed read other between within broken answers"
)
CODE = re.compile(r"^ *\d+ \| .*$", re.MULTILINE)  # a line of the learner's file
RAISED = re.compile(r"\b\w+(?:Error|Exception|Interrupt|Exit)\b:.*?(?= en un caso| on a case|$)", re.MULTILINE)
PAIRS = (
    re.compile(r"\b(?:is|es) (\S+?)(?:, expected|; se esperaba) (\S+?)[:.](?:\s|$)"),
    re.compile(r"\b(?:is|es) (\S+?), (?:but (\S+?) is right|pero lo correcto es (\S+?)\.$)", re.MULTILINE),
)
FLAG = re.compile(r"--[\w-]+")
LITERAL = 14  # signs of a sentence that make it known


def printed(kata: Kata, verdict: Verdict, language: str) -> str:
    """The whole of what is shown of a verdict."""
    console = Console(width=WIDE, color_system=None, file=None)
    with console.capture() as capture:
        show_verdict(kata, kata.file, verdict, console, language)
    return capture.get()


def message_faults(kata: Kata, verdict: Verdict) -> list[str]:
    """What is wrong with the words of a verdict, in either language."""
    texts = {language: printed(kata, verdict, language) for language in LANGUAGES}
    found = [f"{language}: {fault}" for language, text in texts.items() for fault in text_faults(text, language)]
    return found + list(_alike(verdict))


def text_faults(text: str, language: str) -> Iterator[str]:
    """What is wrong with a text that is printed; lines of the learner's file and Python's own words aside."""
    text = RAISED.sub("", CODE.sub("", text))
    for word in sorted(set(re.findall(r"[\w-]+", text)) & internal_names()):
        yield f"internal name {word!r}"
    if re.search(r"\{\w+\}|\bNone\b", text):
        yield f"a gap: {text!r}"
    for pattern in PAIRS:
        for pair in pattern.findall(text):
            first, second = (each for each in pair if each)
            if first == second:
                yield f"two numbers that look equal: {first}"
    if language == "es":
        for word in sorted(set(re.findall(r"\w+", FLAG.sub("", text.lower()))) & set(ENGLISH.split())):
            yield f"the English word {word!r} in {text!r}"
        for phrase in english_phrases():
            if phrase in text:
                yield f"the English phrase {phrase!r}"


def _alike(verdict: Verdict) -> Iterator[str]:
    """Starred entries of the table that look like the right ones."""
    if verdict.example is None or verdict.example.got is None or verdict.example.expected is None:
        return
    got, right = ("\n".join(line.plain for line in lines).split() for lines in both_grids(verdict.example))
    for one, other in zip(got, right, strict=False):
        if one.endswith("*") and one[:-1] == other:
            yield f"the wrong entry {one} looks like the right one"


@cache
def internal_names() -> frozenset[str]:
    """Ids of mistakes, names of laws, codes of findings."""
    from equivalence_tests.laws import LAWS
    from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES
    from equivalence_tests.parts import PARTS
    from equivalence_tests.parts.optimizer import SMALL

    laws = [law.__name__ for table in (LAWS, PARTS) for laws in table.values() for law in laws]
    codes = [code for code in (*SENTENCES, *SAID) if "_" in code]
    return frozenset([*MISTAKES, *PART_MISTAKES, *laws, *codes, *(report for report, *_ in SMALL), "equivalence_tests"])


@cache
def english_phrases() -> tuple[str, ...]:
    """The fixed parts of every English sentence that no Spanish one has."""
    english = [*(sentence.en for sentence in SENTENCES.values()), *(each[0] for each in SAID.values())]
    spanish = " ".join([*(sentence.es for sentence in SENTENCES.values()), *(each[1] for each in SAID.values())])
    parts = {part for sentence in english for part in re.split(r"\{[^}]*\}", sentence) if len(part) >= LITERAL}
    return tuple(sorted(part for part in parts if part not in spanish))
