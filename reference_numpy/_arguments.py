"""Plain arguments of the text part, and the one line said when one is not what it should be: name, what came, expected."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def integer(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: a {type(value).__name__} came, expected an integer")
    if value < least:
        raise ValueError(f"{name}: {value} came, expected at least {least}")
    return int(value)


def flag(name: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}: a {type(value).__name__} came, expected True or False")
    return value


def strings(name: str, values: Iterable[str]) -> list[str]:
    """The strings as a list; one string alone would silently be taken for its characters."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name}: a {type(values).__name__} came, expected a sequence of strings")
    found = list(values)
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"{name}: a {type(value).__name__} came among the strings, expected strings alone")
    return found


def generator(name: str, value: np.random.Generator) -> None:
    if not isinstance(value, np.random.Generator):
        raise TypeError(f"{name}: a {type(value).__name__} came, expected a numpy.random.Generator")
