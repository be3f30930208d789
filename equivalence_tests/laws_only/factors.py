"""The name of a factor that a gradient has too many, or too few: a number, times powers of the sizes.

A name must hold in every wrong case, and the sizes must vary enough to exclude every other name of the same length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

SAME = 1e-5  # two factors are one: told from float32 gradients, whose own rounding is a hundredth of it
POWERS = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
POWERS_OF_TWO_SIZES = (1.0, -1.0, 0.5, -0.5)

Exponents = tuple[tuple[str, float], ...]


def name_of_factor(factors: list[float], sizes: list[dict[str, int]]) -> str:
    """One number for all cases; or a number times powers of one size, or of two; or nothing.

    The factors and the sizes by letter are those of the wrong cases, one for each.
    """
    constant = _constant(factors)
    if constant is not None:
        return _number(constant)
    columns = _columns(sizes)
    for count, powers in ((1, POWERS), (2, POWERS_OF_TWO_SIZES)):
        found = list(_fitting(factors, columns, count, powers))
        plain = [each for each in found if abs(abs(each[0]) - 1.0) <= SAME] if len(found) > 1 else found
        if len(plain) == 1:
            return _text(*plain[0])
        if found:
            return ""  # the sizes do not tell which
    return ""


def _columns(sizes: list[dict[str, int]]) -> dict[str, tuple[int, ...]]:
    """The sizes by letter, and each less 1, over all cases; those that vary, each once."""
    letters = sorted(set.intersection(*(set(each) for each in sizes))) if sizes else []
    columns: dict[str, tuple[int, ...]] = {}
    for less in (0, 1):
        for letter in letters:
            column = tuple(each[letter] - less for each in sizes)
            if len(set(column)) > 1 and min(column) > 0 and column not in columns.values():
                said = "rows" if letter == "leading" else letter
                columns[f"({said} - 1)" if less else said] = column
    return columns


def _fitting(
    factors: list[float], columns: dict[str, tuple[int, ...]], count: int, powers: tuple[float, ...]
) -> Iterator[tuple[float, Exponents]]:
    for letters in combinations(columns, count):
        different = len(set(zip(*(columns[letter] for letter in letters), strict=True)))
        for chosen in product(powers, repeat=count):
            terms = [
                [float(n) ** power for n in columns[letter]] for letter, power in zip(letters, chosen, strict=True)
            ]
            constant = _constant([f / math.prod(term) for f, *term in zip(factors, *terms, strict=True)])
            free = count + (abs(abs(constant) - 1.0) > SAME) if constant else 0  # numbers that were chosen to fit
            if constant and different > free:
                yield constant, tuple(zip(letters, chosen, strict=True))


def _constant(factors: list[float]) -> float | None:
    """The number that all of them are, if they are one."""
    middle = sorted(factors)[len(factors) // 2]
    same = all(abs(f - middle) <= SAME * max(abs(middle), SAME) for f in factors)
    return middle if same else None


def _number(value: float) -> str:
    """As a small fraction's decimals, if it is one but for rounding."""
    near = float(Fraction(value).limit_denominator(12))
    close = abs(near - value) <= 3.0 * SAME * max(abs(value), SAME)
    return f"{round(near if close else value, 6):g}"


def _text(constant: float, exponents: Exponents) -> str:
    """3 sqrt(c), -1/n, sqrt(d)/(rows n)"""
    above = [_power(letter, power) for letter, power in exponents if power > 0]
    below = [_power(letter, -power) for letter, power in exponents if power < 0]
    number = _number(abs(constant))
    above = above if number == "1" and above else [number, *above]
    sign = "-" if constant < 0 else ""
    under = f"({' '.join(below)})" if len(below) > 1 else "".join(below)
    return sign + " ".join(above) + (f"/{under}" if below else "")


def _power(letter: str, power: float) -> str:
    if power == 0.5:
        return f"sqrt{letter}" if letter.startswith("(") else f"sqrt({letter})"
    return letter if power == 1.0 else f"{letter}^2"
