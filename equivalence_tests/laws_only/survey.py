"""How a pair answers, before its answers are judged: in which dtypes, with which gradients, and whether a call of its
backward disturbs the next one. What is only another habit is a note; the answers are judged all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import one_line
from equivalence_tests.laws_only.drawn import Drawn
from equivalence_tests.laws_only.pairs import Pair, as_tuple, found_in
from equivalence_tests.laws_only.report import Row
from equivalence_tests.laws_only.state import State, accumulating_line
from equivalence_tests.laws_only.trials import Answer, Trial, cast, largest

Draw = Callable[[int], Drawn]
LOOKS = 6  # draws that tell which gradients come back
SINGLE = ("float32",)
CLOSE = 1e-3  # two answers are one, but for rounding


class Survey(NamedTuple):
    """The pair as it is to be called, the dtypes in which it is judged, whether another dtype may come out of it, rows for
    gradients that are missing, notes, and what is not checked."""

    pair: Pair
    dtypes: tuple[str, ...]
    any_dtype: bool
    rows: list[Row]
    notes: tuple[Finding, ...]
    not_checked: tuple[str, ...]


def survey(pair: Pair, draw: Draw, dtypes: tuple[str, ...]) -> Survey:
    """What a few calls tell. A pair that raises in every one of them is left as it is: the laws will tell."""
    takes, not_checked = _taken(pair, draw, dtypes)
    try:
        pair, notes = _steadied(pair, draw, takes[0])
        pair, rows, unreturned = _returned(pair, draw, takes[0])
        judged, any_dtype, told = _answered(pair, draw, takes)
    except BaseException as error:  # a candidate may raise anything
        reraise_interrupt(error)
        return Survey(pair, takes, False, [], (), not_checked)
    return Survey(pair, judged, any_dtype, rows, (*notes, *unreturned, *told), not_checked)


def _trial(pair: Pair, draw: Draw, index: int, dtype: str) -> Trial:
    drawn = draw(index)
    trial = Trial(pair, dtype, drawn.operands, drawn.options, np.random.default_rng([index, 2]))
    trial.begin(drawn.upstream)
    return trial


def _taken(pair: Pair, draw: Draw, dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The dtypes that the pair takes, and a line for each that it does not. All if it takes none: it will be told."""
    takes, refused = [], []
    for dtype in dtypes:
        drawn = draw(0)
        try:
            pair.run(cast(drawn.operands, dtype), cast(drawn.options, dtype))
            takes.append(dtype)
        except BaseException as error:  # a candidate may raise anything
            reraise_interrupt(error)
            refused.append(f"{dtype}: it raises {one_line(error)}")
    return (tuple(takes), tuple(refused)) if takes else (dtypes, ())


def _steadied(pair: Pair, draw: Draw, dtype: str) -> tuple[Pair, list[Finding]]:
    """A pair whose backward can be called again: with its forward before it, and with what it has kept put back."""
    state = State(*pair.functions)
    trial = _trial(pair, draw, 0, dtype)
    _, remembered = pair.run(cast(trial.operands, dtype), trial.options_in(dtype))
    dY = trial.as_upstream(trial.upstream)
    first = trial.aligned(pair.pull(dY, remembered))
    first = tuple(np.array(g) for g in first)
    try:
        second = tuple(np.array(g) for g in trial.aligned(pair.pull(dY, remembered)))
    except Exception as error:
        note = Finding("backward_once", numbers={"error": one_line(error)})
        accumulated = []
    else:
        names = [f"d{name}" for name, g, again in zip(trial.names, first, second, strict=False) if _doubled(g, again)]
        if not names:
            return pair, []
        line = accumulating_line(pair.functions[-1]) if pair.functions else None
        where = f" ({line[0]}: {line[1]})" if line else ""
        note = Finding("accumulates", ", ".join(names), numbers={"at_line": where})
        accumulated = names
    state.keep_changed()

    def run(operands: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
        Y, _ = pair.run(operands, options)
        return Y, (operands, options)

    def pull(dY: Any, remembered: Any) -> Any:
        state.restore()
        _, cache = pair.run(*remembered)
        return pair.pull(dY, cache)

    afresh = replace(pair, run=run, pull=pull)
    return (afresh, [note]) if _repeats(afresh, draw, dtype) or not accumulated else (pair, [])


def _doubled(one: Any, other: Any) -> bool:
    if np.shape(one) != np.shape(other) or one.dtype.kind != "f":
        return False
    size = largest(one)
    return 0.0 < size < np.inf and largest(other - 2.0 * one) <= CLOSE * size


def _repeats(pair: Pair, draw: Draw, dtype: str) -> bool:
    trial = _trial(pair, draw, 0, dtype)
    pairs = zip(trial.answer().gradients, trial.answer().gradients, strict=True)
    return all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)


def _answered(pair: Pair, draw: Draw, dtypes: tuple[str, ...]) -> tuple[tuple[str, ...], bool, list[Finding]]:
    """The dtypes in which the answers are judged, whether another dtype may come out of them, and what is said of it.

    A pair whose outputs have one dtype whatever comes in is judged in that one. Where only float32 is asked for and
    float64 comes out, it is judged in float32.
    """
    other = {came: got for came in dtypes if (got := _other_dtype(_trial(pair, draw, 0, came).answer(), came))}
    judged = tuple(dtype for dtype in dtypes if dtype not in other)
    if not other or (judged and not set(other.values()) <= set(judged)):
        return dtypes, False, []
    if not judged:
        judged = SINGLE if set(other.values()) == set(SINGLE) and _taken(pair, draw, SINGLE)[1] == () else dtypes
    said = ", ".join(judged)
    notes = [Finding("answers_in", numbers={"came": c, "got": got, "judged": said}) for c, got in other.items()]
    return judged, bool(other.keys() & set(judged)), notes


def _other_dtype(answer: Answer, came: str) -> str:
    """The one dtype of all outputs, if it is not the one that came in, and no gradient has a third one."""
    arrays = [np.asarray(each) for each in answer.outputs if type(each) is not float]  # a Python float has no dtype
    got = {_digits_of(X) if came == "float64" else str(X.dtype) for X in arrays}
    gradients = {str(getattr(each, "dtype", "")) for each in answer.gradients}
    return next(iter(got)) if len(got) == 1 and got != {came} and gradients <= {came, *got} else ""


def _digits_of(X: Any) -> str:
    """The dtype of an output, or float32 where all its numbers are of that format, and not of a shorter one."""
    if X.dtype != np.float64:
        return str(X.dtype)
    with np.errstate(all="ignore"):
        single, half = X.astype(np.float32), X.astype(np.float16)
    is_single = np.array_equal(X, single, equal_nan=True) and not np.array_equal(X, half, equal_nan=True)
    return SINGLE[0] if is_single else str(X.dtype)


def _returned(pair: Pair, draw: Draw, dtype: str) -> tuple[Pair, list[Row], list[Finding]]:
    """The pair, told which gradients it never returns. Those of its first operands are often left out, as nothing comes
    before them: a note. That of any other operand is missing."""
    looks: list[tuple[list[str], Any, dict[str, Any]]] = []
    for index in range(LOOKS):
        trial = _trial(pair, draw, index, dtype)
        _, remembered = pair.run(cast(trial.operands, dtype), trial.options_in(dtype))
        looks.append((trial.names, pair.pull(trial.as_upstream(trial.upstream), remembered), trial.operands))
    absent = _absent(looks)
    if not absent:
        return pair, [], []
    names = looks[0][0]
    first = len(absent) < len(names) and set(names[: len(absent)]) == absent
    told = [Finding("not_returned" if first else "missing", f"d{name}") for name in names if name in absent]
    rows = [] if first else [Row("a gradient for every operand", LOOKS, LOOKS, finding) for finding in told]
    return replace(pair, absent=frozenset(absent)), rows, told if first else []


def _absent(looks: list[tuple[list[str], Any, dict[str, Any]]]) -> set[str]:
    """The operands whose gradient is not among those that came, if their names, their places or their shapes tell."""
    names = looks[0][0]
    if any(each != names for each, _, _ in looks):
        return set()
    if all(isinstance(came, dict) for _, came, _ in looks):
        return {name for name in names if all(found_in(came, name) is None for _, came, _ in looks)}
    several = [as_tuple(came) for _, came, _ in looks]
    if all(len(came) == len(names) for came in several):
        return {name for i, name in enumerate(names) if all(came[i] is None for came in several)}
    count = len(several[0])
    if count > len(names) or any(len(came) != count for came in several):
        return set()
    fitting = [
        chosen
        for chosen in combinations(names, count)
        if all(
            [np.shape(g) for g in came] == [operands[name].shape for name in chosen]
            for came, (_, _, operands) in zip(several, looks, strict=True)
        )
    ]
    return set(names) - set(fitting[-1]) if fitting else set()  # where several fit, the last operands: the weights
