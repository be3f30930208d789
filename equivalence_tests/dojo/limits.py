"""What a right answer must keep to besides: few statements, no Python loop over the sizes, no n x n array."""

from __future__ import annotations

import ast
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import SeededDraws
from equivalence_tests.dojo import scan
from equivalence_tests.dojo.verdict import Verdict
from equivalence_tests.implementations import NotOffered, run

SMALL, LARGE = 3, 9  # sizes between which Python's steps are compared
ROWS = 512  # of the case whose memory is measured
NARROW = 8  # its other sizes
LETTERS = "n m d c e v k h B H l"
SEEDS = 8  # structures of a case that are compared


def exceeded(limit: str, tree: ast.Module, function: str, path: str, candidate: Candidate | None) -> Verdict | None:
    """What an answer exceeds, or None."""
    if limit.startswith("statements="):
        return _statements(int(limit.removeprefix("statements=")), tree, function)
    if limit == "steps" and candidate is not None:
        return _steps(candidate, path)
    if limit == "memory" and candidate is not None:
        return _memory(candidate)
    return None


def _statements(most: int, tree: ast.Module, function: str) -> Verdict | None:
    found = scan.function_named(tree, f"{function}_backward") or scan.function_named(tree, function)
    count = scan.statements(found) if found is not None else 0
    return Verdict("statements", {"name": found.name, "got": count, "limit": most}) if found and count > most else None


def _steps(candidate: Candidate, path: str) -> Verdict | None:
    """Line events in the learner's file: for right vector code they do not depend on the sizes."""
    for seed in range(SEEDS):
        small, large = (lines_of(path, partial(_answer, candidate, seed, size)) for size in (SMALL, LARGE))
        if large > small:
            return Verdict("steps", {"small": small, "large": large})
    return None


def _answer(candidate: Candidate, seed: int, size: int, others: int = 0) -> None:
    """One call on a case of these sizes; nothing where the candidate takes no such case."""
    fixed = dict.fromkeys(LETTERS.split(), others or size) | {"n": size, "m": size}
    draws = SeededDraws(np.random.default_rng([1, seed]), fixed)
    try:
        run(candidate.implementation, candidate.op, candidate.taken(candidate.row.draw(draws, False)), "float64")
    except NotOffered:
        return


def lines_of(path: str, call: Callable[[], Any]) -> int:
    """How many lines of a file a call runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != path:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _memory(candidate: Candidate) -> Verdict | None:
    """The most that is held at once, beyond what was given, against one array of n x n."""
    draws = SeededDraws(np.random.default_rng(1), dict.fromkeys(LETTERS.split(), NARROW) | {"n": ROWS, "m": ROWS})
    case = candidate.row.draw(draws, False)
    leading = next(iter(case.operands.values())).ndim - 2
    first = (0,) * leading
    operands = {name: np.ascontiguousarray(X[first] if X.ndim > 2 else X) for name, X in case.operands.items()}
    forward = candidate.implementation.forward(candidate.op.name)
    tracemalloc.start()
    try:
        answer = forward(*operands.values())
        if candidate.op.differentiable:
            Y, cache = answer
            candidate.implementation.backward(candidate.op.name)(np.ones_like(Y), cache)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    limit = ROWS * ROWS * 8
    return Verdict("holds", {"n": ROWS, "peak": peak / 2**20, "limit": limit / 2**20}) if peak >= limit else None
