"""Numbers that stand beside each other, printed so that unequal ones look unequal."""

from __future__ import annotations

from collections.abc import Iterable

EXACT = 17  # significant digits that tell any two numbers of float64 apart

WHOLE = 1e6  # numbers below it may be mistaken for whole ones
ROUNDED = 1e-9  # what is nearer to a whole number is that number, rounded


def apart(value: float, *others: float, digits: int = 5) -> str:
    """`value` with `digits` significant digits, or with as many more as tell it from each of `others` that is not equal.

    -0.0 is printed as 0: the two are equal.
    """
    return f"{value + 0.0:.{_enough(value, others, digits)}g}"


def side_by_side(wrong: float, right: float, digits: int = 5) -> tuple[str, str]:
    """Both numbers, with as many digits as tell them apart; a wrong 0.9999999 is not printed as 1 either."""
    whole = float(round(wrong)) if abs(wrong) < WHOLE else wrong
    whole = wrong if abs(wrong - whole) < ROUNDED else whole
    return apart(wrong, right, whole, digits=digits), apart(right, wrong, digits=digits)


def _enough(value: float, others: Iterable[float], digits: int) -> int:
    unequal = [other for other in others if other != value and not (other != other and value != value)]
    for count in range(digits, EXACT):
        if all(f"{other + 0.0:.{count}g}" != f"{value + 0.0:.{count}g}" for other in unequal):
            return count
    return EXACT
