"""A matrix as lines of text that fit the terminal, its rows and columns labelled with words of any script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from unicodedata import category

import numpy as np
from rich.cells import cell_len, set_cell_size

from equivalence_tests.arithmetic import Array

CORNER = 8  # rows and columns of a matrix that are printed


def printable(word: str) -> str:
    """The word without what a terminal obeys instead of showing: joiners and marks of direction go, the rest is U+FFFD."""
    shown = "".join(ch if ch.isprintable() else "" if category(ch) == "Cf" else "\ufffd" for ch in word)
    return shown or "\ufffd"


def fit(word: str, width: int) -> str:
    """The word in exactly `width` cells, cut with an ellipsis where it is longer."""
    if cell_len(word) <= width:
        return set_cell_size(word, width)
    return set_cell_size(set_cell_size(word, width - 1).rstrip() + "…", width)


def matrix_lines(
    M: Array,
    labels: Sequence[str],
    width: int,
    other: Array | None = None,
    headings: Sequence[str] | None = None,
    sums: bool = False,
) -> list[str]:
    """The corner of M as lines of at most `width` cells, with `other` beside it where both fit.

    Small numbers are shown in units of a power of ten, said in the first line; the last line says how much is not shown.
    """
    rows = min(len(M), CORNER)
    largest = float(np.abs(M[:rows, :CORNER]).max())
    power = 0 if largest >= 0.1 or largest == 0.0 else max(math.floor(math.log10(largest)), -300)
    unit = 10.0**power
    cells = [[_decimal(value / unit) for value in row] for row in M[:rows, :CORNER]]
    theirs = [] if other is None else [[_decimal(value / unit) for value in row] for row in other[:rows, :CORNER]]
    cell = max(6, *(len(text) + 1 for row in cells + theirs for text in row))
    label = max(4, min(12, max(cell_len(text) for text in labels[:rows])))
    total = 9 if sums else 0
    columns = max(1, min(M.shape[1], CORNER, (width - label - total) // cell))
    block = columns * cell + total
    beside = other is not None and columns == min(M.shape[1], CORNER) and label + 2 * block + 3 <= width

    lines = [f"(entries in units of 1e{power})"] if power else []
    if beside:
        lines.append(" " * label + "NumPy".rjust(cell).ljust(block) + "   " + "torch".rjust(cell))
    if headings is not None:
        heading = "".join(" " + fit(_right(text, cell - 1), cell - 1) for text in headings[:columns])
        heading += "row sum".rjust(total) if sums else ""
        lines.append(" " * label + heading + ("   " + heading if beside else ""))
    for i in range(rows):
        line = fit(labels[i], label) + _row(cells[i][:columns], cell, M[i], sums)
        if beside and other is not None:
            line += "   " + _row(theirs[i][:columns], cell, other[i], sums)
        lines.append(line)
    shown = [f"rows 1-{rows} of {len(M)}"] if rows < len(M) else []
    shown += [f"columns 1-{columns} of {M.shape[1]}"] if columns < M.shape[1] else []
    if shown:
        lines.append(f"({', '.join(shown)})")
    return [line.rstrip() for line in lines]


def _row(cells: Sequence[str], cell: int, row: Array, sums: bool) -> str:
    line = "".join(text.rjust(cell) for text in cells)
    if sums:
        total = float(row.sum())
        line += (f"{total:.3f}" if abs(total) > 0.5 else f"{total:.0e}" if total else "0").rjust(9)
    return line


def _right(word: str, width: int) -> str:
    return " " * (width - cell_len(word)) + word


def _decimal(value: float) -> str:
    text = f"{value:.3f}"
    return text.removeprefix("-") if float(text) == 0.0 else text
