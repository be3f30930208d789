"""How often does the check call a right implementation wrong? Never, it should be.

    python -m equivalence_tests.false_alarms --cases 10000

Every right variant that rounds in its own way, the reference and the torch twins are checked as a user's own code would be:
cases, conduct, laws, repeats. The cases of an op and dtype are shared out among them; they all see the same inputs, whose
exact values are computed once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from multiprocessing import get_context

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from equivalence_tests.arithmetic import Bounded, Precision
from equivalence_tests.candidate import Candidate, adapt
from equivalence_tests.cases import Case
from equivalence_tests.checking import Settings, examine
from equivalence_tests.flags import Parser
from equivalence_tests.implementations import has_torch
from equivalence_tests.loading import load_function
from equivalence_tests.ops import OPS, Op
from equivalence_tests.proof import cases_of
from equivalence_tests.stages import AS_IT_IS, Stages
from equivalence_tests.variants import VARIANTS, implementation

DTYPES = ("float64", "float32", "bfloat16")
SLICE = 250  # cases that one job puts to everybody: their exact values are held together


@dataclass(frozen=True)
class Job:
    op: str
    dtype: str
    everybody: tuple[str, ...]  # right variants by their names, and modules
    cases: int  # for each of them
    seed: int


@dataclass(frozen=True)
class Outcome:
    """How many right cases of one of them a job judged, and what was called wrong, if anything."""

    job: Job
    who: str
    cases: int
    alarm: str = ""


def jobs(op: Op, dtype: str, cases: int, seed: int) -> Iterator[Job]:
    """So many cases of one op in one dtype (of a model a part of them), shared out among all who are right."""
    modules = ["torch_impl", "torch_impl.fused"] if has_torch() else []
    modules = [each for each in modules if hasattr(__import__(each, fromlist=["x"]), op.name)]
    everybody = modules if dtype == "bfloat16" else ["reference_numpy", *modules, *VARIANTS.get(op.name, {})]
    share = -(-cases_of(op, cases) // max(len(everybody), 1))
    for number, start in enumerate(range(0, share, SLICE)):
        yield Job(op.name, dtype, tuple(everybody), min(SLICE, share - start), seed + number)


@dataclass(frozen=True)
class Remembering(Op):
    """An op that knows the exact values of the cases that it has seen."""

    def exact(self, case: Case, precision: Precision, stage: Stages = AS_IT_IS) -> dict[str, Bounded]:
        key = _digest(case), stage.stored
        if key not in _EXACT:
            _EXACT[key] = super().exact(case, precision, stage)
        return _EXACT[key]


_EXACT: dict[tuple[bytes, bool], dict[str, Bounded]] = {}  # of one job


def _digest(case: Case) -> bytes:
    found = sha256()
    given = {**case.operands, **case.upstream, **case.options}
    for name, value in sorted(given.items()):
        for key, each in sorted(value.items()) if isinstance(value, dict) else [("", value)]:
            array = each if isinstance(each, np.ndarray) else None
            found.update(f"{name} {key} {each if array is None else (array.dtype, array.shape)}".encode())
            found.update(b"" if array is None else array.tobytes())
    return found.digest()


def candidate(job: Job, who: str) -> Candidate:
    if who not in VARIANTS.get(job.op, {}):
        found = adapt(load_function(f"{who}:{job.op}"), job.op, label=who)
    else:
        module = implementation(job.op, who, checked=False).module
        found = adapt(getattr(module, job.op), job.op, backward=getattr(module, f"{job.op}_backward"), label=who)
    return replace(found, op=Remembering(**{each.name: getattr(found.op, each.name) for each in fields(Op)}))


def run(job: Job) -> list[Outcome]:
    # a model's share has been thinned out once already
    settings = Settings(job.cases * OPS[job.op].every, job.seed, (job.dtype,), seconds=float("inf"))
    outcomes = []
    for who in job.everybody:
        report = examine(candidate(job, who), settings)
        first = next((f"{row.name}: {row.what}" for row in report.rows if row.wrong), "")
        outcomes.append(Outcome(job, who, report.cases, "" if report.passed else first or report.verdict))
    _EXACT.clear()
    return outcomes


def main(argv: Sequence[str] | None = None) -> int:
    """0 if nobody right is called wrong, else 1."""
    parser = Parser(prog="python -m equivalence_tests.false_alarms", description="Right implementations, checked.")
    parser.add_argument(
        "--cases", type=int, default=400, help="of every op and dtype, of a model 1 in 8 (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1000, help="of the cases (default: %(default)s)")
    parser.add_argument("--op", nargs="+", choices=tuple(OPS), default=tuple(OPS), metavar="OP", help="(default: all)")
    given = parser.parse_args(argv)
    if given.cases < 1:
        parser.error(f"--cases: {given.cases} came, expected at least 1")
    todo = [job for name in given.op for dtype in DTYPES for job in jobs(OPS[name], dtype, given.cases, given.seed)]
    errors = Console(file=sys.stderr)
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn"), _one_thread) as pool:
        done = track(pool.map(run, todo), "right cases", len(todo), console=errors, disable=not errors.is_terminal)
        outcomes = [outcome for each in done for outcome in each]
    table = Table("op", *DTYPES, box=None, title="right cases, alarms", title_justify="left")
    for name in given.op:
        cells = []
        for dtype in DTYPES:
            own = [each for each in outcomes if (each.job.op, each.job.dtype) == (name, dtype)]
            cells.append(f"{sum(each.cases for each in own):,}, {sum(bool(each.alarm) for each in own)}")
        table.add_row(name, *cells)
    console = Console(highlight=False)
    console.print(table)
    alarms = [each for each in outcomes if each.alarm]
    for each in alarms:
        job = each.job
        console.print(f"{job.op} in {job.dtype}, {each.who} (seed {job.seed}): {each.alarm}", markup=False)
    implementations = len({(job.op, who) for job in todo for who in job.everybody})
    right = f"{sum(each.cases for each in outcomes):,} right cases of {implementations} implementations"
    console.print(f"{len(alarms)} false alarms in {right}")
    return int(bool(alarms))


def _one_thread() -> None:
    """A worker for each core is enough."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


if __name__ == "__main__":
    sys.exit(main())
