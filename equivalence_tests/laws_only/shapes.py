"""Operands from a line such as `X: ... n d; W: k d; ids: ... < v`: their shapes by letter, drawn for every case.

A letter is one size throughout; sizes above 1 are pairwise different, and 1 is drawn often. A number is that size, `...`
the same leading axes wherever it is written, nothing a scalar. `< v` makes an operand of integers from 0 to v - 1, which
has no gradient; `v` is a letter or a number.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Draws, leading, sizes_of, values_of


@dataclass(frozen=True)
class Shapes:
    """What the line says: the axes of every operand, and for integers the letter below which they stay. `fixed` are sizes
    that are not drawn."""

    axes: dict[str, tuple[str, ...]]
    below: dict[str, str]
    fixed: dict[str, int] = field(default_factory=dict)

    @property
    def letters(self) -> list[str]:
        """Every letter once, in the order in which they come."""
        written = [axis for axes in self.axes.values() for axis in axes] + list(self.below.values())
        return list(dict.fromkeys(axis for axis in written if axis.isidentifier()))

    @property
    def batched(self) -> bool:
        return any("..." in axes for axes in self.axes.values())

    def draw(self, draws: Draws, varied: bool, lead: tuple[int, ...] | None = None) -> tuple[dict[str, Array], Sizes]:
        """Operands and the sizes they were drawn with; `varied` gives rows of very different magnitude."""
        names = ["B", "A"] if self.batched else []
        names = [name + "_" * (name in self.letters) for name in names]  # a letter of the user's own stays his
        sizes = self._sizes(draws, [*self.letters, *names])
        if lead is None:
            lead = leading(draws, sizes, " ".join(names))
        operands: dict[str, Array] = {}
        for name, axes in self.axes.items():
            shape: tuple[int, ...] = ()
            for axis in axes:
                shape += lead if axis == "..." else (size_of(axis, sizes),)
            if name not in self.below:
                operands[name] = np.asarray(values_of(draws, shape, False))
                if varied and shape:
                    operands[name] = operands[name] * np.exp(draws.rng.uniform(-4.0, 1.5, (*shape[:-1], 1)))
                continue
            most = size_of(self.below[name], sizes)
            ids = draws.rng.integers(0, most, shape)
            if ids.size > 1:
                ids.flat[1] = ids.flat[0]  # some id comes twice
            operands[name] = np.asarray(ids)
        return operands, {letter: size for letter, size in sizes.items() if letter in self.letters} | (
            {"leading": int(np.prod(lead))} if self.batched else {}
        )

    def _sizes(self, draws: Draws, names: list[str]) -> Sizes:
        """A size for every name. One that is drawn is none of those that are fixed: equal sizes hide a swapped axis."""
        if not names:
            return {}
        numbers = {int(axis) for axes in self.axes.values() for axis in axes if axis.isdecimal()}
        taken = {size for size in {*self.fixed.values(), *numbers} if size > 1}
        sizes = sizes_of(draws, " ".join(names))
        square = len(set(sizes.values())) == 1
        for name, size in sizes.items():
            if size in taken and not square:
                sizes[name] = draws.choice([n for n in range(2, 24) if n not in taken and n not in sizes.values()])
        return sizes | self.fixed


Sizes = dict[str, int]


def size_of(axis: str, sizes: Sizes) -> int:
    return int(axis) if axis.isdecimal() else sizes[axis]


def read(line: str, fixed: Sizes | None = None) -> Shapes:
    """The line, read, with sizes that are not drawn. ValueError, one line: what is wrong with it and what is expected."""
    axes: dict[str, tuple[str, ...]] = {}
    below: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in line.split(";"))):
        name, colon, rest = (piece.strip() for piece in part.partition(":"))
        if not colon or not name.isidentifier():
            raise ValueError(f"shapes: {part!r} came, expected NAME: AXES, as in 'X: ... n d; W: k d; ids: ... < v'")
        if name in axes:
            raise ValueError(f"shapes: {name} came twice, expected each operand once")
        written, less, most = (piece.strip() for piece in rest.partition("<"))
        if less and (not most.isidentifier() and not most.isdecimal()):
            raise ValueError(f"shapes: {name}: '< {most}' came, expected a letter or a number, as in 'ids: ... < v'")
        axes[name] = tuple(re.sub(r"[(),]", " ", written).split())
        for axis in axes[name]:
            if axis != "..." and not axis.isidentifier() and not (axis.isdecimal() and int(axis) > 0):
                raise ValueError(f"shapes: {name}: axis {axis!r} came, expected a letter, a number above 0, or ...")
        if axes[name].count("...") > 1 or "..." in axes[name][1:]:
            raise ValueError(f"shapes: {name}: '{written}' came, expected ... once, and first")
        if less:
            below[name] = most
    if not axes:
        raise ValueError("shapes: nothing came, expected 'X: ... n d; W: k d'")
    if axes.keys() == below.keys():
        raise ValueError("shapes: only integers came, expected an operand that has a gradient")
    shapes = Shapes(axes, below, fixed or {})
    for letter in shapes.fixed:
        if letter not in shapes.letters:
            raise ValueError(f"sizes: {letter!r} is no letter of the shapes, {nearest_letter(letter, shapes)}")
    return shapes


def letter_of(name: str, shapes: Shapes) -> str:
    """A letter of the line. ValueError with the nearest one if it is not there."""
    if name in shapes.letters:
        return name
    raise ValueError(f"laws: {name!r} is no letter of the shapes, {nearest_letter(name, shapes)}")


def nearest_letter(name: str, shapes: Shapes) -> str:
    close = difflib.get_close_matches(name, shapes.letters, n=1, cutoff=0.0)
    return f"did you mean {close[0]!r}?" if close else "there is no letter in it"
