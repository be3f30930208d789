"""Right, but with the last two axes of every operand exchanged: (c, n) where (n, c) is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.checks import attempt
from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, Tensor, run
from equivalence_tests.judge import judge
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.ops import Op

TRIED, ENOUGH = 4, 2  # cases


def exchanged_axes(op: Op, seen: Sequence[Seen], implementation: Implementation) -> Finding | None:
    """Some wrong cases once more with their axes exchanged: all are right then, or nothing is said."""
    pattern = PATTERNS.get(op.name)
    if pattern is None or implementation.answers is not None:
        return None
    rows = {
        name
        for group in (pattern.operands, pattern.upstream)
        for name, x in group.items()
        if x.startswith(("... n ", "... m ")) and len(x.split()) == 3
    }
    wrong = [each for each in seen if not each.case.hard and (each.raised or each.wrong(tuple(each.tensors)))]
    plain = [each for each in wrong if not any(value is not None for value in _arrays(each))][:TRIED]
    if (
        not rows
        or len(plain) < ENOUGH
        or not all(_right_when_exchanged(op, each, implementation, rows) for each in plain)
    ):
        return None
    names = ", ".join(sorted(rows & set(plain[0].case.operands)))
    return Finding("exchanged_axes", op.outputs[0], op.outputs[0], {"operands": names, "cases": len(plain)})


def _arrays(seen: Seen) -> list[Any]:
    """Options that have axes of their own."""
    return [value for value in seen.case.options.values() if isinstance(value, np.ndarray)]


def _right_when_exchanged(op: Op, seen: Seen, implementation: Implementation, rows: set[str]) -> bool:
    def turned(values: dict[str, Any]) -> dict[str, Any]:
        return {n: np.swapaxes(x, -1, -2) if n in rows and x.ndim > 1 else x for n, x in values.items()}

    case = replace(seen.case, operands=turned(seen.case.operands), upstream=turned(seen.case.upstream), layouts={})
    found: list[Answer] = []
    attempt(lambda: found.append(run(implementation, op, case, seen.observation.dtype)))
    if not found:
        return False
    moved = rows | {f"d{name}" for name in rows} | set(op.outputs)
    answer = {
        name: Tensor(np.swapaxes(x.value, -1, -2), x.dtype) if name in moved and x.value.ndim > 1 else x
        for name, x in found[0].items()
    }
    return not any(verdict.wrong for verdict in judge(answer, seen.observation.exact, seen.precision).values())
