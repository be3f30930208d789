"""Values that a learner predicts: shapes, counts, numbers to so many decimals."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from equivalence_tests.dojo import scan
from equivalence_tests.dojo.sources import Source
from equivalence_tests.dojo.verdict import Verdict

DECIMALS = 3  # that are asked for at least, of what is not written with more


def judged(module: Any, source: Source, file: str) -> Verdict:
    """The first value that is not that of the solution, named by a mistake of the source where one has the same."""
    names = scan.waiting_names(ast.parse(source.start))
    right = values_of(source.solution)
    found = vars(module)
    for name in names:
        if name not in found:
            return Verdict("no_value", {"file": file, "name": name})
    for name in names:
        wrong = next(disagreements(name, found[name], right[name]), None)
        if wrong is not None:
            return _named(wrong, names, found, source)
    return Verdict("passed", {"cases": len(names)}, cases=len(names))


def _named(wrong: Verdict, names: list[str], found: dict[str, Any], source: Source) -> Verdict:
    """With the sentence of the first foreseen mistake that has the same wrong value, if there is one."""
    right = values_of(source.solution)
    mine = {name for name in names if next(disagreements(name, found[name], right[name]), None)}
    for mistake in source.mistakes:
        theirs = values_of(mistake.code)
        off = {name for name in names if next(disagreements(name, theirs[name], right[name]), None)}
        if off <= mine and all(next(disagreements(name, found[name], theirs[name]), None) is None for name in off):
            return Verdict(wrong.code, wrong.numbers, sentence=mistake.sentence)
    return wrong


def values_of(code: str) -> dict[str, Any]:
    """What a file's names hold when it has run."""
    module = ModuleType("values")
    exec(compile(code, "values", "exec"), module.__dict__)
    return vars(module)


def disagreements(place: str, got: Any, right: Any) -> Iterator[Verdict]:
    """What is not as it should be, entry by entry. A list will do for a tuple, 4 for 4.0, an array for both."""
    got, right = (each.tolist() if isinstance(each, np.ndarray | np.generic) else each for each in (got, right))
    numbers = {"place": place, "got": repr(got)}
    if isinstance(right, tuple | list):
        if not isinstance(got, tuple | list) or len(got) != len(right):
            yield Verdict("predicted", numbers)
            return
        for index, (mine, theirs) in enumerate(zip(got, right, strict=True)):
            if next(disagreements(f"{place}[{index}]", mine, theirs), None) is not None:
                yield Verdict("predicted", numbers)
                return
    elif _is_number(right) and _is_number(got):
        decimals = max(_decimals(right), DECIMALS)
        asked = min(decimals, max(_decimals(got), DECIMALS)) if decimals > 9 else decimals
        if round(float(got), asked) == round(float(right), asked):
            return
        few = _decimals(got)
        if 0 < few < asked and round(float(right), few) == float(got):
            yield Verdict("more_digits", {"place": place, "got": repr(got), "digits": min(asked, 4)})
        else:
            yield Verdict("predicted", numbers)
    elif type(got) is not type(right) or got != right:
        yield Verdict("predicted", numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decimals(value: float) -> int:
    """How many decimals a number is written with."""
    text = repr(value)
    return len(text.partition(".")[2]) if "e" not in text else 17
