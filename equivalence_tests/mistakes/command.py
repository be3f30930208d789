"""`gemelos mistakes`: the matrix of known mistakes against the checks, how they are named, and the league."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from equivalence_tests import league
from equivalence_tests.mistakes import MISTAKES
from equivalence_tests.mistakes.matrix import Row, as_json, matrix, report
from equivalence_tests.mistakes.naming import namings

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Named:
    """What the diagnosis said of one mistake: `named` with its entry in the library, `says` without; and what was right."""

    id: str
    named: str
    says: str
    right: bool
    placed: bool


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every mistake is caught, 1 if one escapes."""
    parser = argparse.ArgumentParser(
        prog="gemelos mistakes",
        description="Every known mistake against every check; how the diagnosis names it, with its own entry in the "
        "library and without; and what other policies of equality say of the same mistakes.",
    )
    parser.add_argument("--cases", type=int, default=200, help="cases of each op, at most (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="what catches them, and no more: two minutes, not ten")
    parser.add_argument("--json", action="store_true", help="print the matrix as JSON, with every law by name")
    arguments = parser.parse_args(argv)
    if arguments.cases < 1:
        parser.error(f"--cases: {arguments.cases} came, expected at least 1")
    if arguments.seed < 0:
        parser.error(f"--seed: {arguments.seed} came, expected at least 0")
    errors, console = Console(file=sys.stderr), Console(highlight=False)
    with _progress(errors, "tried") as progress:
        rows = matrix(arguments.cases, arguments.seed, progress)
    told: list[Named] = []
    if not arguments.quick:
        with _progress(errors, "named") as progress:
            told = named(progress)
        rows = with_names(rows, told)
    if arguments.json:
        print(as_json(rows))
    else:
        report(rows, console)
    if told and not arguments.json:
        right, placed = sum(each.right for each in told), sum(each.placed for each in told)
        console.print(
            f"{right} of {len(told)} named rightly; {placed} put at the right line, of the right kind, without"
        )
        with _progress(errors, "judged by other policies") as progress:
            league.report(league.run(progress=progress), console)
    return 0 if all(row.caught for row in rows) else 1


def named(progress: Told) -> list[Named]:
    """The diagnosis of every mistake of an op, on every core, op by op."""
    found: dict[str, list[Named]] = {}
    ops = sorted(
        {mistake.op for mistake in MISTAKES.values()}, key=lambda op: op.startswith(("gpt", "gen")), reverse=True
    )
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        waiting = {pool.submit(names_of, op): op for op in ops}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            progress(sum(map(len, found.values())), len(MISTAKES))
    return [each for op in ops for each in found[op]]


def names_of(op: str) -> list[Named]:
    """In a process of its own: only what can be sent back."""
    return [
        Named(
            each.mistake.id,
            each.named or "nothing",
            each.findings[0].say() if each.findings else "nothing",
            each.right,
            each.placed,
        )
        for each in namings(op)
    ]


def with_names(rows: Sequence[Row], told: Sequence[Named]) -> list[Row]:
    """Each row with what the diagnosis said."""
    by_id = {each.id: each for each in told}
    found = ((row, by_id.get(row.mistake.id)) for row in rows)
    return [row if said is None else replace(row, named=said.named, placed=said.says) for row, said in found]


@contextmanager
def _progress(console: Console, what: str) -> Iterator[Told]:
    """A bar on a terminal; elsewhere a line now and then."""
    if not console.is_terminal:

        def line(done: int, total: int) -> None:
            if done % 50 == 0 or done == total:
                console.print(f"{done} of {total} mistakes {what}", highlight=False)

        yield line
        return
    columns = (TextColumn(f"mistakes {what}"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("mistakes", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
