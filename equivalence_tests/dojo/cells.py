"""Percent-format sources of lessons and katas: code once, prose in every language.

A source is a Python script in cells. A line `# %%` begins a code cell and `# %% [markdown]` a cell of prose, whose lines
are comments; after it stand the cell's properties, as jupytext reads them: `# %% [markdown] lang="es"` or
`# %% part="start"`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MARK = re.compile(r"# %%(?P<prose> \[markdown\])?(?P<properties>( +\w+=\"[^\"]*\")*) *")
PROPERTY = re.compile(r"(\w+)=\"([^\"]*)\"")


@dataclass(frozen=True)
class Cell:
    """`text` is the code, or the prose without its comment marks; `properties` are those of its first line."""

    prose: bool
    properties: dict[str, str]
    text: str

    @property
    def language(self) -> str:
        """Of the prose; "" where it is the same in all."""
        return self.properties.get("lang", "")

    @property
    def part(self) -> str:
        """What a kata uses the cell for; "" in a lesson."""
        return self.properties.get("part", "")


def read_cells(source: str) -> list[Cell]:
    """The cells of a source in order. ValueError, with the line, for what is no cell."""
    cells: list[tuple[re.Match[str], list[str]]] = []
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("# %%"):
            mark = MARK.fullmatch(line)
            if mark is None:
                raise ValueError(f'line {number}: {line!r} came, expected a cell such as # %% [markdown] lang="es"')
            cells.append((mark, []))
        elif cells:
            cells[-1][1].append(line)
        elif line.strip():
            raise ValueError(f"line {number}: {line!r} stands before the first cell")
    return [_cell(mark, lines) for mark, lines in cells]


def _cell(mark: re.Match[str], lines: Sequence[str]) -> Cell:
    prose = mark["prose"] is not None
    text = "\n".join(_uncommented(line) if prose else line for line in lines).strip("\n")
    return Cell(prose, dict(PROPERTY.findall(mark["properties"])), text)


def _uncommented(line: str) -> str:
    return line.removeprefix("#").removeprefix(" ")


def in_language(cells: Sequence[Cell], language: str) -> list[Cell]:
    """All code, and the prose of one language."""
    return [cell for cell in cells if cell.language in ("", language)]


def as_script(cells: Sequence[Cell]) -> str:
    """The cells as a percent-format script again, which jupytext opens as a notebook."""
    return "\n\n".join(f"# %%{' [markdown]' * cell.prose}\n{_written(cell)}" for cell in cells) + "\n"


def _written(cell: Cell) -> str:
    if not cell.prose:
        return cell.text
    return "\n".join(f"# {line}".rstrip() for line in cell.text.split("\n"))
