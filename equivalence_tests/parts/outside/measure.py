"""How the known mistakes of the parts are caught and named by a check: each is handed in as a candidate.

First as an outsider's, with answers that are rounded otherwise (each floating number is moved to a neighbour now and
then); then, if it agrees, with `strict`, as the entries are that accept bad input or that are another library's rule.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from typing import Any

import numpy as np

from equivalence_tests.mistakes import PART_MISTAKES, Mistake
from equivalence_tests.parts.outside import check_part

BAR = 0.95
ROUNDED = ("learning_rate", "perplexity", "top_k", "top_p", "min_p", "apply_temperature")


@dataclass(frozen=True)
class Row:
    """`named` are the ids that are told, the first of them first; `how` is "wrong", "convention", "strict" or "missed"."""

    id: str
    part: str
    how: str
    named: tuple[str, ...]

    @property
    def right(self) -> bool:
        return self.named[:1] == (self.id,)


def rounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its answers' last bits changed."""
    rng = np.random.default_rng(1)

    def shaken(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            moved = np.where(rng.random(value.shape) < 0.5, value, np.nextafter(value, value.dtype.type(0)))
            return np.asarray(np.where(np.isfinite(value), moved, value), value.dtype)
        if isinstance(value, tuple):
            return tuple(shaken(each) for each in value)
        if isinstance(value, dict):
            return {name: shaken(each) for name, each in value.items()}
        return value * (1.0 - 2.0**-53) if type(value) is float and rng.random() < 0.5 else value

    @wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        with np.errstate(all="ignore"):
            return shaken(function(*args, **named))

    return called


def row_of(mistake: Mistake) -> Row:
    candidate: Any = rounded(mistake.forward) if mistake.op in ROUNDED and mistake.forward else mistake.forward
    for strict in (False, True):
        report = check_part(candidate if not strict else mistake.forward, mistake.op, strict=strict, label=mistake.id)
        told = [f for f in (*report.findings, *report.notes) if f.code in ("known_mistake", "part_convention")][:1]
        ids = tuple(i for finding in told for i in (finding.numbers["id"], *finding.numbers["others"]))
        if not report.passed:
            return Row(mistake.id, mistake.op, "strict" if strict else "wrong", ids)
        if told and told[0].code == "part_convention":
            return Row(mistake.id, mistake.op, "convention", ids)
    return Row(mistake.id, mistake.op, "missed", ())


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every mistake is caught and the share that is named reaches the bar."""
    parser = argparse.ArgumentParser(prog="python -m equivalence_tests.parts.outside.measure", description=__doc__)
    parser.add_argument("--part", default="", metavar="PART", help="one part's mistakes alone")
    parser.add_argument("--json", action="store_true", help="print every row as JSON")
    given = parser.parse_args(argv)
    rows = [row_of(mistake) for mistake in PART_MISTAKES.values() if given.part in ("", mistake.op)]
    if not rows:
        parser.error(f"--part: {given.part!r} has no known mistake")
    caught, named = sum(row.how != "missed" for row in rows), sum(row.right for row in rows)
    if given.json:
        told = {"mistakes": len(rows), "caught": caught, "named": named, "rows": [asdict(row) for row in rows]}
        print(json.dumps(told, indent=1))
    else:
        for row in rows:
            if not row.right or row.how == "missed":
                print(f"{row.part} {row.id}: {row.how}, named {', '.join(row.named) or 'nothing'}")
        how = {kind: sum(row.how == kind for row in rows) for kind in ("wrong", "convention", "strict")}
        print(f"caught {caught} of {len(rows)} ({', '.join(f'{kind} {count}' for kind, count in how.items())})")
        print(f"named {named} of {len(rows)}")
    return 0 if caught == len(rows) and named >= BAR * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
