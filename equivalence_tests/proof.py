"""The proof: cases by the hundred of every op, for every implementation, and what they said, a row for each dtype."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context

from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import Case
from equivalence_tests.checks import agreement, attempt, conduct, draw_case, law_fault, reraise_interrupt
from equivalence_tests.implementations import Implementation, NotOffered, load, one_line
from equivalence_tests.ops import OPS, Op
from equivalence_tests.witnesses import Testimony, hear_witnesses

CHUNK = 20  # cases of one op that a worker takes at a time
WITNESSES = ("complex steps", "adjoint identity")
WITNESS_EVERY = 20  # the first two of every twenty cases are put to complex steps and the adjoint identity
MOST_STEPS = 400  # complex steps that a case may take; the few long cases would take thousands
CONDUCT_EVERY = 4  # purity, repeatability, aliasing and linearity are looked at in every fourth case
WELL_CONDITIONED = 1000.0  # units of roundoff that the budget leaves: of such tensors errors are worth telling in units
FLOOR, FLOOR_CASES = 0.01, 10_000  # a budget of which so little is ever used, in so many cases, is too loose

Exact = dict[str, Bounded]
Job = tuple[str, list[tuple[str, str]], int, int, int]  # what check_chunk takes


@dataclass
class Row:
    """What the cases of one op said about one implementation in one dtype.

    `judged` cases were judged in full; in `ill` ones some tensor's budget was above sqrt(u) of its scale: it was held to
    the budget, but that is no agreement. `skipped` ones need an option that is not on offer. `tolerated` ones agree as a
    recomputation from a stored log-sum-exp, within its wider budget. Errors are in units of
    roundoff of the tensor's scale, over well-conditioned tensors; shares of the budget are over all.
    """

    op: str
    implementation: str
    dtype: str
    drawn: int = 0
    judged: int = 0
    ill: int = 0
    skipped: int = 0
    tolerated: int = 0
    tensors: int = 0
    wrong: int = 0
    forward_units: float = 0.0
    gradient_units: float = 0.0
    forward_share: float = 0.0
    gradient_share: float = 0.0
    faults: list[str] = field(default_factory=list)

    def add(self, other: Row) -> None:
        for name in ("drawn", "judged", "ill", "skipped", "tolerated", "tensors", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("forward_units", "gradient_units", "forward_share", "gradient_share"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.faults = (self.faults + other.faults)[:3]

    @property
    def share(self) -> float:
        return max(self.forward_share, self.gradient_share)

    def fault(self, what: str) -> None:
        self.wrong += 1
        self.faults = [*self.faults, what][:3]


def check_chunk(op_name: str, names: list[tuple[str, str]], seed: int, start: int, stop: int) -> list[Row]:
    """Cases start ... stop - 1 of one op, for every implementation that offers it. The exact values are shared."""
    op = OPS[op_name]
    found = [each for each in (load(*name) for name in names) if each.offers(op_name)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # finite input gives none: one is a fault
        rows = _check_cases(op, found, seed, start, stop)
    if start == 0:
        _check_laws(op, found, seed, rows)
    return list(rows.values())


def _check_cases(op: Op, found: list[Implementation], seed: int, start: int, stop: int) -> dict[tuple[str, str], Row]:
    rows = {(each.label, dtype): Row(op.name, each.label, dtype) for each in found for dtype in each.dtypes}
    for index in range(start, stop):
        case = draw_case(op, seed, index)
        for dtype, precision in PRECISIONS.items():
            if not any(dtype in each.dtypes for each in found):
                continue
            rounded = case.rounded(precision)
            exact = op.exact(rounded, precision)
            if (
                dtype == "float64"
                and index % WITNESS_EVERY < 2
                and 0 < differentiable_elements(op, rounded) <= MOST_STEPS
            ):
                for each in (each for each in found if each.name == "reference_numpy"):
                    _call_witnesses(rows, each, op, rounded, exact, index)
            for each in found:
                if dtype not in each.dtypes:
                    continue
                row = rows[each.label, dtype]
                row.drawn += 1
                _judge_case(row, each, op, rounded, exact, dtype, index)
    return rows


def _check_laws(op: Op, found: list[Implementation], seed: int, rows: dict[tuple[str, str], Row]) -> None:
    """The op's own laws, once, in float64 and float32 (the tests hold them in half precision too)."""
    for each in found:
        for dtype in each.dtypes[:2]:
            broken = law_fault(each, op, dtype, seed, times=1)
            if broken:
                rows[each.label, dtype].fault(f"law {broken}")


def _judge_case(
    row: Row, implementation: Implementation, op: Op, rounded: Case, exact: Exact, dtype: str, index: int
) -> None:
    try:
        verdicts = agreement(implementation, op, rounded, exact, dtype)
    except NotOffered:
        row.skipped += 1
        return
    except BaseException as error:
        reraise_interrupt(error)
        row.fault(f"case {index} raised {one_line(error)}")
        return
    wrong = next((verdict.wrong for verdict in verdicts.values() if verdict.wrong), "")
    if not wrong and implementation.pairs and index % CONDUCT_EVERY == 0:
        wrong = attempt(lambda: conduct(implementation, op, rounded, exact, dtype))
    if wrong:
        row.fault(f"case {index}: {wrong}")
    elif any(verdict.ill for verdict in verdicts.values()):
        row.ill += 1
    else:
        row.judged += 1
    row.tolerated += not wrong and any(verdict.tolerated for verdict in verdicts.values())
    for name, verdict in verdicts.items():
        if verdict.wrong or verdict.ill:
            continue
        kind = "gradient" if name.startswith("d") else "forward"  # the later stages of an attention are gradients too
        row.tensors += 1
        setattr(row, f"{kind}_share", max(getattr(row, f"{kind}_share"), verdict.share))
        if verdict.condition < WELL_CONDITIONED:
            setattr(row, f"{kind}_units", max(getattr(row, f"{kind}_units"), verdict.units))


def differentiable_elements(op: Op, case: Case) -> int:
    """How many complex steps the gradient takes: one for every element."""
    return sum(case.operands[name].size for name in op.gradient_names(case))


def _call_witnesses(
    rows: dict[tuple[str, str], Row], implementation: Implementation, op: Op, rounded: Case, exact: Exact, index: int
) -> None:
    """Complex steps and the adjoint identity, each a row of its own."""
    try:
        heard = hear_witnesses(implementation, op, rounded, exact, index)
    except BaseException as error:
        reraise_interrupt(error)
        wrong = f"raised {one_line(error)}"
        heard = {name: Testimony(wrong=wrong) for name in WITNESSES}
    for name, said in heard.items():
        row = rows.setdefault((name, "float64"), Row(op.name, name, "float64"))
        row.drawn += 1
        row.gradient_share = max(row.gradient_share, said.share)
        row.gradient_units = max(row.gradient_units, said.relative / PRECISIONS["float64"].unit)
        if said.wrong:
            row.fault(f"case {index}: {said.wrong}")
        else:
            row.judged += 1


def cases_of(op: Op, cases: int) -> int:
    """How many cases an op is put to, where most are put to `cases`."""
    return -(-cases // op.every)


def check_all(
    found: list[Implementation], ops: list[Op], cases: int, seed: int, pool: Executor | None
) -> Iterator[list[Row]]:
    """Every op of every implementation, a chunk of cases at a time, in order. A worker that dies is its op's fault.

    A pool does not say at which job a worker died: from there on they are done one at a time, until one ends its worker.
    """
    names = [(each.name, each.device) for each in found]
    jobs = [
        (op.name, names, seed, start, min(start + CHUNK, cases_of(op, cases)))
        for op in ops
        for start in range(0, cases_of(op, cases), CHUNK)
    ]
    if pool is None:
        yield from (check_chunk(*job) for job in jobs)
        return
    futures = [pool.submit(check_chunk, *job) for job in jobs]
    for done, future in enumerate(futures):
        try:
            yield future.result()
        except BrokenProcessPool:
            yield from _one_by_one(jobs[done:])
            return


def _one_by_one(jobs: list[Job]) -> Iterator[list[Row]]:
    with workers(1) as pool:
        for job in jobs:
            try:
                yield pool.submit(check_chunk, *job).result()
            except BrokenProcessPool:
                raise WorkerDied(job[0]) from None


def workers(count: int | None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(count, get_context("spawn"), start_worker)


def start_worker() -> None:
    """A worker keeps to one core (the arrays are tiny, and there is one for every core) and leaves Ctrl-C to its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for good: a candidate that prints is told, not shown)
    os.environ["OMP_NUM_THREADS"] = "1"  # what torch reads when it is imported, if it is


class WorkerDied(Exception):
    """The process that checked an op is gone: the candidate ended it."""


def verdict(row: Row, op: Op) -> str:
    if row.wrong:
        return "BROKEN"
    if row.judged >= FLOOR_CASES and row.share < FLOOR and not op.moves_only:
        return "BUDGET TOO LOOSE"
    return "agrees" if row.judged else "not judged"
