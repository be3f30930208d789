"""The source of a kata: its task, start, hints, solution and judge; and the learner's file that is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import reference_numpy
from equivalence_tests.dojo.cells import Cell, read_cells
from equivalence_tests.dojo.katas import Kata
from equivalence_tests.findings import LANGUAGES

FOLDER = Path(reference_numpy.__file__).parent / "lessons" / "katas"
HINTS = ("nudge", "formula", "shape", "solution")
PARTS = ("task", "start", *HINTS, "check", "mistake")
CODE = ("start", "shape", "solution", "check")

Text = dict[str, str]  # by language


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that the source foresees: a complete file, and the sentence that names it."""

    sentence: Text
    code: str


@dataclass(frozen=True)
class Source:
    """`check` is "" where the kit judges. Every text is there in every language."""

    task: Text
    start: str
    nudge: Text
    formula: Text
    shape: str
    solution: str
    check: str = ""
    mistakes: tuple[Wrong, ...] = ()

    def hint(self, step: int, language: str) -> str:
        """Hint number `step`, from 1: prose, or code."""
        found: dict[str, str | Text] = {
            "nudge": self.nudge,
            "formula": self.formula,
            "shape": self.shape,
            "solution": self.solution,
        }
        told = found[HINTS[step - 1]]
        return told if isinstance(told, str) else told[language]

    def title(self, language: str) -> str:
        return self.task[language].splitlines()[0].removeprefix("#").strip()

    def file(self, language: str) -> str:
        """What the learner is given: the task as the file's docstring, then the start."""
        first, *rest = self.task[language].splitlines()
        task = "\n".join([first.removeprefix("#").strip(), *rest]).strip()
        end = "\n" if "\n" in task else ""
        return f'"""{task}{end}"""\n\n{self.start.strip()}\n'


@cache
def source_of(kata: Kata) -> Source:
    """ValueError, which names the file, if it is not as a source must be."""
    path = FOLDER / f"{kata.name}.py"
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.name}: there is no such source in {FOLDER}") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def parse(text: str) -> Source:
    """The source in a text. ValueError for a cell that is no part of a kata, is missing, twice, or in one language only."""
    found: dict[str, list[Cell]] = {part: [] for part in PARTS}
    for cell in read_cells(text):
        if cell.part not in found:
            raise ValueError(f"a cell's part is {cell.part!r}, expected one of {', '.join(PARTS)}")
        found[cell.part].append(cell)
    code = {part: _code(part, found[part]) for part in CODE}
    for part in ("start", "shape", "solution"):
        if not code[part]:
            raise ValueError(f"there is no cell of part {part!r}")
    return Source(
        task=_prose("task", found["task"]),
        start=code["start"],
        nudge=_prose("nudge", found["nudge"]),
        formula=_prose("formula", found["formula"]),
        shape=code["shape"],
        solution=code["solution"],
        check=code["check"],
        mistakes=_mistakes(found["mistake"]),
    )


def _code(part: str, cells: Sequence[Cell]) -> str:
    if len(cells) > 1 or any(cell.prose for cell in cells):
        raise ValueError(f"part {part!r}: {len(cells)} cells came, expected one of code")
    return cells[0].text if cells else ""


def _prose(part: str, cells: Sequence[Cell]) -> Text:
    """One cell a language, or one for all."""
    by_language = {cell.language: cell.text for cell in cells if cell.prose}
    if set(by_language) == {""}:
        by_language = dict.fromkeys(LANGUAGES, by_language[""])
    if len(by_language) != len(LANGUAGES) or set(by_language) != set(LANGUAGES):
        raise ValueError(f"part {part!r}: prose in {sorted(by_language)} came, expected {', '.join(LANGUAGES)}")
    return by_language


def _mistakes(cells: Sequence[Cell]) -> tuple[Wrong, ...]:
    """Prose in each language, then the code that it speaks of."""
    found: list[Wrong] = []
    said: list[Cell] = []
    for cell in cells:
        if cell.prose:
            said.append(cell)
            continue
        sentence = {language: " ".join(text.split()) for language, text in _prose("mistake", said).items()}
        found.append(Wrong(sentence, cell.text))
        said = []
    if said:
        raise ValueError("part 'mistake': a sentence came without the code that it speaks of")
    return tuple(found)
