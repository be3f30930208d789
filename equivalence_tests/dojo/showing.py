"""Verdicts, hints and progress as they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equivalence_tests.digits import apart, side_by_side
from equivalence_tests.dojo import words
from equivalence_tests.dojo.katas import KATAS, Kata
from equivalence_tests.dojo.progress import Progress
from equivalence_tests.dojo.sources import HINTS, source_of
from equivalence_tests.dojo.verdict import Example, Verdict, said
from equivalence_tests.dojo.words import word
from equivalence_tests.findings import LANGUAGES

BAR = 24
DIGITS = 4  # that an entry is shown with, and more where two beside each other would look equal
SUPPORT = 2  # findings beside the first
INDENT = "    "


def show_verdict(kata: Kata, file: str, verdict: Verdict, console: Console, language: str) -> None:
    """One clear sentence first; then where, the smallest case, what the learner printed, what to do next."""
    style = "bold green" if verdict.passed else "bold yellow" if verdict.code in RIGHT_BUT else "bold red"
    mark = "✓" if verdict.passed else "✗"
    console.print(Text(f"{mark} {file}", style))
    say(verdict.say(language), console, 2)
    for line in verdict.excerpt:
        console.print(Text(f"{INDENT}{line}", "cyan"), soft_wrap=True)
    _show_where(verdict, console, language)
    if verdict.example is not None:
        show_example(verdict.example, console, language)
    if verdict.picture:
        say(word("picture", language, path=verdict.picture), console, 2)
    _show_prints(verdict.printed, console, language)
    if not verdict.passed:
        say(word("next_hint", language, number=kata.number, lesson=kata.lesson), console, 2, "dim")


def say(text: str, console: Console, indent: int = 0, style: str = "") -> None:
    """A sentence, every line of it indented."""
    for line in Text(text, style).wrap(console, max(console.width - indent, 20)):
        console.print(Text(" " * indent) + line)


SILENT = ("worst_element", "known_mistake", "law_broken", "conduct")  # not said beside another
RIGHT_BUT = ("steps", "holds", "statements", "unwritten", "unchanged")


def _show_where(verdict: Verdict, console: Console, language: str) -> None:
    if verdict.formula:
        say(f"{word('formula', language)}: {verdict.formula[language]}", console, 2, "cyan")
    kinds = {(each.code, each.tensor, each.stage): each for each in reversed(verdict.findings)}.values()
    own = [each for each in verdict.findings[1:] if each.code.startswith("own_line")]
    others = [each for each in reversed(kinds) if each not in own and each is not verdict.findings[0]]
    rest = [each for each in others if each.code not in SILENT][:SUPPORT]
    worst = [each for each in verdict.findings if each.code == "worst_element"][-1:]
    if verdict.findings and verdict.findings[0].code == "known_mistake":
        first = verdict.findings[0]
        places = [each for each in dict.fromkeys((first.tensor, first.stage)) if each]
        if places:
            console.print(
                Text(f"  {word('where', language)}: {' '.join([places[0], *(f'({p})' for p in places[1:])])}")
            )
        rest = []
    told = {said(each, language) for each in verdict.findings[:1]}
    for each in (*own, *rest, *worst):
        sentence = said(each, language)
        if sentence not in told:
            say(sentence, console, 2)
        told.add(sentence)


def _show_prints(printed: dict[str, Any], console: Console, language: str) -> None:
    if not printed.get("bytes"):
        return
    say(word("printed", language, bytes=printed["bytes"]), console, 2)
    lines = printed["lines"]
    for line in lines:
        console.print(Text(f"{INDENT}{line}", "dim"), soft_wrap=True)
    if printed["more"]:
        console.print(Text(f"{INDENT}{word('and more', language)}", "dim"))


def show_example(example: Example, console: Console, language: str) -> None:
    """What went in, then the learner's numbers beside the right ones."""
    console.print(Text(f"  {word('smallest', language)}"))
    for name, value in example.given.items():
        _show_named(name, grid(value), console)
    if example.got is None or example.expected is None:
        return
    got, right = both_grids(example)
    titles = (f"{example.tensor}, {word('yours', language)}", word("correct", language))
    width = max(len(titles[0]), *(line.cell_len for line in got)) + 4
    beside = width + max(line.cell_len for line in right) + len(INDENT) <= console.width
    if not beside or len(got) != len(right):
        for title, lines in zip(titles, (got, right), strict=True):
            console.print(Text(f"{INDENT}{title}"))
            for line in lines:
                console.print(Text(INDENT) + line, soft_wrap=True)
        return
    console.print(Text(f"{INDENT}{titles[0].ljust(width)}{titles[1]}"))
    for mine, theirs in zip(got, right, strict=True):
        console.print(Text(INDENT) + mine + Text(" " * (width - mine.cell_len)) + theirs, soft_wrap=True)


def _show_named(name: str, lines: Sequence[Text], console: Console) -> None:
    head = f"{name} = "
    for number, line in enumerate(lines):
        console.print(Text(INDENT + (head if not number else " " * len(head))) + line, soft_wrap=True)


def both_grids(example: Example) -> tuple[list[Text], list[Text]]:
    """The learner's numbers and the right ones; a wrong one with as many digits as tell it from the right one.

    Where only rounding tells them apart, both are shown as the right one.
    """
    got, right = np.asarray(example.got), np.asarray(example.expected)
    if got.shape != right.shape or got.dtype.kind not in "fiu" or right.dtype.kind not in "fiu":
        return grid(example.got, example.wrong), grid(example.expected)
    wrong = np.ones(got.shape) if example.wrong is None else np.asarray(example.wrong)
    pairs = [
        side_by_side(float(x), float(y), digits=DIGITS) if star else (apart(float(y), digits=DIGITS),) * 2
        for x, y, star in zip(got.flat, right.flat, wrong.flat, strict=True)
    ]
    mine, theirs = (_laid_out(texts, got.shape) for texts in ([x for x, _ in pairs], [y for _, y in pairs]))
    return grid(mine, example.wrong), grid(theirs)


def _laid_out(texts: Sequence[str], shape: tuple[int, ...]) -> Any:
    return np.array(texts, object).reshape(shape) if shape else texts[0]


def grid(value: Any, wrong: Any = None) -> list[Text]:
    """Numbers as rows, wrong ones marked with a star (and in red, where there are colours). Text stands as it is."""
    array = np.asarray(value)
    if array.ndim == 0 or not array.size:
        return [Text(_alone(value)) if array.ndim == 0 else Text(f"[] {array.shape}")]
    marks = np.zeros(array.shape, int) if wrong is None else np.asarray(wrong)
    rows, stars = array.reshape(-1, array.shape[-1]), marks.reshape(-1, array.shape[-1])
    entries = [
        [_entry(each) + ("*" if star else " ") for each, star in zip(*row, strict=True)] for row in _pairs(rows, stars)
    ]
    width = max(len(entry) for row in entries for entry in row)
    lines = []
    for index, (row, marked) in enumerate(zip(entries, stars, strict=True)):
        line = Text("[ ")
        for entry, star in zip(row, marked, strict=True):
            line.append(entry.rjust(width) + " ", "bold red" if star else "")
        line.append("]")
        lines.append(line)
        if array.ndim > 2 and (index + 1) % array.shape[-2] == 0 and index + 1 < len(entries):
            lines.append(Text(""))
    return lines


def _pairs(rows: Any, stars: Any) -> list[tuple[Any, Any]]:
    return list(zip(rows.tolist(), stars.tolist(), strict=True))


def _entry(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    return apart(float(value), digits=DIGITS) if isinstance(value, float | np.floating) else str(value)


def _alone(value: Any) -> str:
    """A number that is no array: True is an option, 1 would be a number."""
    return str(bool(value)) if isinstance(value, bool | np.bool_) else _entry(value)


def show_hint(kata: Kata, step: int, console: Console, language: str) -> None:
    what = words.HINTS[step - 1][LANGUAGES.index(language)]
    console.print(Text(f"{kata.file}: {word('hint', language, step=step, what=what)}", "bold"))
    code = HINTS[step - 1] in ("shape", "solution")
    for line in source_of(kata).hint(step, language).splitlines():
        console.print(Text(f"{INDENT}{line}", "cyan" if code else ""), soft_wrap=True)


def show_list(progress: Progress, console: Console, language: str) -> None:
    """Every kata: number, name, what is to be done, state, attempts, hints."""
    heads = ("", word("kata", language), word("task", language), word("state", language))
    table = Table(*heads, word("attempts", language), word("hints", language), box=None, pad_edge=False)
    for column in (0, 4, 5):
        table.columns[column].justify = "right"
    for kata in KATAS:
        state = progress.of(kata.name)
        kind = words.KINDS[kata.kind][LANGUAGES.index(language)]
        style = "green" if state.passed else "yellow" if state.attempts else ""
        counts = (str(state.attempts or ""), str(state.hints or ""))
        table.add_row(f"{kata.number:02}", kata.name, kind, Text(state_word(progress, kata, language), style), *counts)
    console.print(table)
    show_bar(progress, console, language)


def state_word(progress: Progress, kata: Kata, language: str) -> str:
    state = progress.of(kata.name)
    return word("passed" if state.passed else "tried" if state.attempts else "open", language)


def show_bar(progress: Progress, console: Console, language: str) -> None:
    passed = sum(progress.of(kata.name).passed for kata in KATAS)
    full = round(BAR * passed / len(KATAS))
    bar = "█" * full + "░" * (BAR - full)
    console.print(Text(f"{bar} {word('progress', language, passed=passed, count=len(KATAS))}"))


def show_progress(progress: Progress, console: Console, language: str) -> None:
    """The bar, then every kata that was touched, with the last thing that was wrong in it."""
    show_bar(progress, console, language)
    for kata in KATAS:
        state = progress.of(kata.name)
        if not (state.attempts or state.hints):
            continue
        counts = f"{word('attempts', language)} {state.attempts}, {word('hints', language)} {state.hints}"
        style = "green" if state.passed else "yellow"
        console.print(Text(f"{kata.file}: {state_word(progress, kata, language)}, {counts}", style))
        if not state.passed and state.last:
            say(state.last.get(language, ""), console, 4)
