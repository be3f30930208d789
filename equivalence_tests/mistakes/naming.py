"""How the known mistakes are named: each is observed as `check` would and diagnosed, with the library and without it.

With the library the first finding should be the mistake itself, or one that 200 cases do not tell from it. Without it (and
without those) the first finding should place it: the stage and the kind are among those that the entry is labelled with.
The candidate rounds otherwise than the library's entry: every second floating number that it is given is moved to a
neighbour, so that no bit is compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from rich.console import Console

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.cases import Case
from equivalence_tests.checks import attempt, conduct, draw_case, misconduct
from equivalence_tests.diagnosis import Library, explain
from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.known import answered_alike, known, shake
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, run
from equivalence_tests.judge import judge
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.mistakes import MISTAKES, Mistake, as_implementation, quiet
from equivalence_tests.mistakes.held_out import HELD_OUT
from equivalence_tests.mistakes.matrix import REFERENCE, row_of
from equivalence_tests.observe import Observation
from equivalence_tests.ops import OPS, Op

DTYPES = ("float64", "float32")
CASES, CONDUCT_CASES = 200, 12
FAILING, PASSING = 16, 8  # observations that are enough
BARS = {"named": 0.95, "placed": 0.80}
SHAKEN = 7  # the seed of the candidate's rounding; the library's is another


@dataclass(frozen=True)
class Naming:
    """What the diagnosis said of one mistake, with the library and without it."""

    mistake: Mistake
    named: str
    findings: tuple[Finding, ...]
    equal: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        return self.named == self.mistake.id or self.named in self.equal

    @property
    def placed(self) -> bool:
        first = self.findings[0] if self.findings else None
        return first is not None and first.stage in self.mistake.stages and first.kind in self.mistake.kinds


@cache
def _case(op: str, seed: int, index: int, dtype: str) -> tuple[Case, Any]:
    rounded = draw_case(OPS[op], seed, index).rounded(PRECISIONS[dtype])
    return rounded, OPS[op].exact(rounded, PRECISIONS[dtype])


def candidate(mistake: Mistake) -> Implementation:
    """The mistake on operands off by a unit."""
    implementation = as_implementation(mistake)

    def answers(op: Op, case: Case, dtype: str) -> Answer:
        return run(implementation, op, _shaken(op, case, dtype), dtype)

    return replace(implementation, answers=answers)


_SHAKEN: dict[int, tuple[Case, Case]] = {}


def _shaken(op: Op, case: Case, dtype: str) -> Case:
    """The shaken case, or the case itself where a unit in its operands is more than the budget lets a right answer err."""
    if id(case) not in _SHAKEN:
        shaken = shake(case, dtype, SHAKEN)
        verdicts = judge(run(REFERENCE, op, shaken, dtype), op.exact(case, PRECISIONS[dtype]), PRECISIONS[dtype])
        _SHAKEN[id(case)] = (case, case if any(v.wrong for v in verdicts.values()) else shaken)
    return _SHAKEN[id(case)][1]


def observed(mistake: Mistake, seed: int = 0) -> list[Observation]:
    """Failing and passing cases in both dtypes, until there are enough of either."""
    op, implementation = OPS[mistake.op], candidate(mistake)
    failing: list[Observation] = []
    passing: list[Observation] = []
    enough_passing = PASSING
    for index in range(CASES // (4 if op.model else 1)):
        for dtype in DTYPES:
            observation = _observe(implementation, op, seed, index, dtype)
            (failing if observation.wrong else passing).append(observation)
        if len(failing) >= FAILING and (len(passing) >= enough_passing or index >= 40):
            break
    return failing[: FAILING + 2] + passing[: PASSING if failing else 6 * PASSING]


def _observe(implementation: Implementation, op: Op, seed: int, index: int, dtype: str) -> Observation:
    rounded, exact = _case(op.name, seed, index, dtype)
    found: dict[str, Any] = {}

    def ask() -> None:
        found["answer"] = run(implementation, op, rounded, dtype)

    raised = attempt(ask).removeprefix("raised ")
    if raised:
        return Observation(index, dtype, rounded, exact, None, {}, raised)
    answer = found["answer"]
    return Observation(index, dtype, rounded, exact, answer, judge(answer, exact, PRECISIONS[dtype]))


def conduct_of(mistake: Mistake, seed: int = 0) -> Misconduct | None:
    op, implementation = OPS[mistake.op], as_implementation(mistake)
    for index in range(CONDUCT_CASES):
        for dtype in DTYPES:
            rounded, exact = _case(op.name, seed, index, dtype)
            said = misconduct(partial(conduct, implementation, op, rounded, exact, dtype))
            if said:
                return said
    return None


def naming_of(mistake: Mistake, library: Library) -> Naming:
    op = OPS[mistake.op]
    with quiet():
        seen = observed(mistake)
        said = conduct_of(mistake)
        laws = () if said or any(each.wrong for each in seen) else _broken(mistake)
        implementation = candidate(mistake)
        first = known(op, [Seen(each) for each in seen], said, laws, library, implementation)
        named: dict[str, Any] = first[0].numbers if first else {"id": "", "others": []}
        equal = tuple(
            other
            for other in dict.fromkeys((named["id"], *named["others"]))
            if other and other != mistake.id and answered_alike(library, mistake, MISTAKES[other], _cases(op))
        )
        rest = library.without({mistake.id, *equal})
        start = time.perf_counter()
        findings = explain(op, seen, said, laws, rest, implementation)
    return Naming(mistake, named["id"], tuple(findings), equal, time.perf_counter() - start)


def _cases(op: Op) -> list[tuple[Case, str]]:
    count = CASES // (4 if op.model else 1)
    return [(_case(op.name, 0, index, dtype)[0], dtype) for index in range(count) for dtype in DTYPES]


def _broken(mistake: Mistake) -> tuple[str, ...]:
    return tuple(catch.check for catch in row_of(mistake, 1, 0).laws)


def namings(op: str = "", ids: Sequence[str] = ()) -> list[Naming]:
    found = []
    for name in OPS:
        own = [mistake for mistake in MISTAKES.values() if mistake.op == name]
        library = Library(own)
        found += [
            naming_of(mistake, library) for mistake in own if (not op or op == name) and (not ids or mistake.id in ids)
        ]
        _case.cache_clear()
        _SHAKEN.clear()
    return found


def held_out() -> list[Naming]:
    """Mistakes that the library does not hold: they can be placed, and not be named."""
    libraries = {op: Library([mistake for mistake in MISTAKES.values() if mistake.op == op]) for op in OPS}
    return [naming_of(mistake, libraries[mistake.op]) for mistake in HELD_OUT]


def report(rows: Sequence[Naming], console: Console, everything: bool) -> None:
    for row in rows:
        if everything or not (row.right and row.placed):
            mistake = row.mistake
            console.print(f"{mistake.op} {mistake.id}: {mistake.sentence} ({row.seconds:.1f} s)")
            console.print(f"    named {row.named or 'nothing'}{'' if row.right else ' (WRONG)'} equal {row.equal}")
            first = row.findings[0] if row.findings else None
            said = f"{first.code} at {first.stage!r} ({first.kind}): {first.say()}" if first else "nothing"
            console.print(f"    without it {'' if row.placed else 'WRONG '}{said}")
            console.print(f"    labelled {', '.join(mistake.stages)}: {', '.join(mistake.kinds)}")
    for op in dict.fromkeys(row.mistake.op for row in rows):
        own = [row for row in rows if row.mistake.op == op]
        console.print(f"{op}: named {sum(r.right for r in own)}, placed {sum(r.placed for r in own)} of {len(own)}")
    console.print(f"named {sum(r.right for r in rows)}, placed {sum(r.placed for r in rows)} of {len(rows)}")


def as_json(rows: Sequence[Naming]) -> str:
    entries = [
        {
            "id": row.mistake.id,
            "op": row.mistake.op,
            "named": row.named,
            "equal": row.equal,
            "right": row.right,
            "placed": row.placed,
            "without": [finding.as_json() for finding in row.findings],
            "seconds": round(row.seconds, 2),
        }
        for row in rows
    ]
    summary = {
        "mistakes": len(rows),
        "named": sum(row.right for row in rows),
        "placed": sum(row.placed for row in rows),
    }
    return json.dumps({**summary, "rows": entries}, indent=1, default=str)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if both bars are reached, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m equivalence_tests.mistakes.naming", description=__doc__)
    parser.add_argument("--op", default="", choices=["", *OPS], help="one op's mistakes alone", metavar="OP")
    parser.add_argument("--id", action="append", default=[], help="one mistake alone; may be repeated")
    parser.add_argument("--held-out", action="store_true", help="mistakes that the library does not hold")
    parser.add_argument("--all", action="store_true", help="print what is named rightly too")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    arguments = parser.parse_args(argv)
    rows = held_out() if arguments.held_out else namings(arguments.op, arguments.id)
    if arguments.json:
        print(as_json(rows))
    else:
        report(rows, Console(highlight=False, markup=False, soft_wrap=True), arguments.all)
    total = max(len(rows), 1)
    named, placed = sum(row.right for row in rows) / total, sum(row.placed for row in rows) / total
    if arguments.held_out:
        return 0
    return 0 if named >= BARS["named"] and placed >= BARS["placed"] else 1


if __name__ == "__main__":
    sys.exit(main())
