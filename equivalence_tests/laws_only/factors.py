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


def name_of_factor(factors: list[float], letters: list[dict[str, float]]) -> str:
    """One number for all cases; or a number times powers of one letter, or of two; or nothing.

    The factors are those of the wrong cases, one for each; the letters are their sizes, integers, and their options that
    are numbers. Cases with an option may have another factor than those without it: then there is a name for each.
    """
    whole = _of_group(factors, letters)
    if whole:
        return whole
    for option in sorted({name for each in letters for name, value in each.items() if isinstance(value, float)}):
        parts = [[i for i, each in enumerate(letters) if (option in each) == given] for given in (False, True)]
        names = [_of_group([factors[i] for i in part], [letters[i] for i in part]) for part in parts if part]
        if all(names):
            return ", ".join(dict.fromkeys(names))
    return ""


def _of_group(factors: list[float], letters: list[dict[str, float]]) -> str:
    constant = _constant(factors)
    if constant is not None:
        return _number(constant)
    columns = _columns(letters)
    for count, powers in ((1, POWERS), (2, POWERS_OF_TWO_SIZES)):
        found = list(_fitting(factors, columns, count, powers))
        plain = [each for each in found if abs(abs(each[0]) - 1.0) <= SAME] if len(found) > 1 else found
        if len(plain) == 1:
            return _text(*plain[0])
        if found:
            return ""  # the sizes do not tell which
    return ""


def _columns(letters: list[dict[str, float]]) -> dict[str, tuple[float, ...]]:
    """The letters over all cases, each size less 1, and 1 less each share; those that vary, each once."""
    names = sorted(set.intersection(*(set(each) for each in letters))) if letters else []
    columns: dict[str, tuple[float, ...]] = {}

    def add(said: str, column: tuple[float, ...]) -> None:
        if len(set(column)) > 1 and column not in columns.values():
            columns[said] = column

    for name in names:
        add("rows" if name == "leading" else name, tuple(each[name] for each in letters))
    for name in names:
        column, said = tuple(each[name] for each in letters), "rows" if name == "leading" else name
        if all(isinstance(n, float) for n in column) and all(0.0 < n < 1.0 for n in column):
            add(f"(1 - {said})", tuple(1.0 - n for n in column))
        elif min(column) > 1.0:
            add(f"({said} - 1)", tuple(n - 1.0 for n in column))
    return columns


def _fitting(
    factors: list[float], columns: dict[str, tuple[float, ...]], count: int, powers: tuple[float, ...]
) -> Iterator[tuple[float, Exponents]]:
    for letters in combinations(columns, count):
        different = len(set(zip(*(columns[letter] for letter in letters), strict=True)))
        for chosen in product(powers, repeat=count):
            terms = [_powers(columns[letter], power) for letter, power in zip(letters, chosen, strict=True)]
            if not all(terms):
                continue
            constant = _constant_over(factors, [math.prod(term) for term in zip(*terms, strict=True)])
            free = count + (abs(abs(constant) - 1.0) > SAME) if constant else 0  # numbers that were chosen to fit
            if constant and different > free:
                yield constant, tuple(zip(letters, chosen, strict=True))


def _powers(column: tuple[float, ...], power: float) -> list[float]:
    """Nothing where a number has no such power."""
    if min(column) <= 0.0 and (power % 1.0 or (power < 0.0 and 0.0 in column)):
        return []
    return [float(n) ** power for n in column]


def _constant_over(factors: list[float], terms: list[float]) -> float | None:
    """The number by which all the terms have to be multiplied to give the factors; 0 times anything is 0."""
    if any(term == 0.0 and f != 0.0 for f, term in zip(factors, terms, strict=True)):
        return None
    ratios = [f / term for f, term in zip(factors, terms, strict=True) if term != 0.0]
    return _constant(ratios) if ratios else None


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
