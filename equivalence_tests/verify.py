"""`gemelos verify`: walk the math on real input, then check every op of every implementation."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from concurrent.futures import Executor
from dataclasses import asdict
from importlib import metadata
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from equivalence_tests.implementations import Implementation, available, load
from equivalence_tests.ops import OPS, Op
from equivalence_tests.pictures import attention_picture, scaling_picture
from equivalence_tests.proof import CHUNK, WITNESSES, Row, WorkerDied, cases_of, check_all, verdict, workers
from equivalence_tests.scaling import ScalingRow, describe, scaling_experiment
from equivalence_tests.walk import WalkResult, read_words, walk

SCHEMA = 1
DEFAULT_CASES = 400
SENTENCE = "the fat cat sat on the mat"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("gemelos", "numpy", "torch"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def machine() -> dict[str, Any]:
    return {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()}


def row_cells(rows: list[Row], op: Op) -> tuple[str, str]:
    """One line of the table: the worst over the dtypes, and the verdict."""
    verdicts = [verdict(row, op) for row in rows]
    worst = next((v for v in ("BROKEN", "BUDGET TOO LOOSE") if v in verdicts), "agrees")
    unjudged = [row.dtype for row, v in zip(rows, verdicts, strict=True) if v == "not judged"]
    if worst == "agrees" and unjudged:
        worst = "not judged" if len(unjudged) == len(rows) else f"agrees ({', '.join(unjudged)} too ill-conditioned)"
    tolerated = sum(row.tolerated for row in rows)
    if tolerated and not worst.isupper():
        worst += f" ({tolerated} cases as a recomputation from a stored log-sum-exp)"
    forward, gradient = (_errors(rows, kind) for kind in ("forward", "gradient"))
    cases = sum(row.judged for row in rows)
    return f"{rows[0].implementation:<20} {cases:>6}  {forward:>12}  {gradient:>12}", worst


def _percent(share: float) -> str:
    """Rounded down: 100 % would be the whole budget."""
    return f"{int(100 * share)}%" if share < 1e6 else "-"


def _errors(rows: list[Row], kind: str) -> str:
    units, share = (max(getattr(row, f"{kind}_{measure}") for row in rows) for measure in ("units", "share"))
    absent = kind == "forward" and rows[0].implementation in WITNESSES
    return f"{'-':>12}" if absent else f"{units:5.1f} u {_percent(share):>4}"


HEADER = f"{'':<20} {'cases':>6}  {'forward':>12}  {'gradient':>12}  verdict"


class Table:
    """The rows so far; each op is printed as soon as all its cases are done."""

    def __init__(self, say: Console, found: list[Implementation], cases: int) -> None:
        self.say, self.cases = say, cases
        self.labels = [*(each.label for each in found), *WITNESSES]
        self.rows: dict[tuple[str, str, str], Row] = {}
        self.done = dict.fromkeys(OPS, 0)

    def add(self, chunk: list[Row]) -> None:
        for row in chunk:
            known = self.rows.setdefault(
                (row.op, row.implementation, row.dtype), Row(row.op, row.implementation, row.dtype)
            )
            known.add(row)
        if not chunk:
            return
        op = OPS[chunk[0].op]
        self.done[op.name] += 1
        if self.done[op.name] == -(-cases_of(op, self.cases) // CHUNK):
            self.show(op)

    def of(self, op: str, label: str) -> list[Row]:
        return [row for (name, implementation, _), row in self.rows.items() if (name, implementation) == (op, label)]

    def show(self, op: Op) -> None:
        self.say.print(op.name, highlight=False)
        for label in self.labels:
            rows = self.of(op.name, label)
            if not rows:
                continue
            line, worst = row_cells(rows, op)
            self.say.print(
                f"{line}  {worst}", highlight=False, markup=False, style="bold red" if worst.isupper() else None
            )
            for row in rows:
                for what in row.faults:
                    self.say.print(f"  {row.dtype}: {what}", highlight=False, markup=False)

    def broken(self) -> list[str]:
        """Each op that some implementation breaks, with who breaks it (the witnesses speak of the reference)."""
        found: dict[str, set[str]] = {}
        for row in self.rows.values():
            if verdict(row, OPS[row.op]).isupper():
                who = "reference_numpy" if row.implementation in WITNESSES else row.implementation
                found.setdefault(row.op, set()).add(who)
        return [f"{op} of {' and '.join(sorted(names))}" for op, names in found.items()]

    def unjudged(self) -> list[str]:
        """Each op of which no case could be judged, in any dtype: it is not broken, and nothing is proved of it."""
        pairs = dict.fromkeys((row.op, row.implementation) for row in self.rows.values())
        return [
            f"{op} of {label}" for op, label in pairs if not any(row.judged or row.wrong for row in self.of(op, label))
        ]


def parser() -> argparse.ArgumentParser:
    parse = argparse.ArgumentParser(
        prog="gemelos verify",
        description="Walk self-attention on real words, forward and backward, both twins side by side; then check every op "
        "of every implementation against exact values, within computed error budgets. "
        "Writes results/verify.json, results/attention.png and results/scaling.png. "
        "Exit status: 0 if all agree, 1 if an op is broken (it is named), 2 for a wrong argument.",
    )
    text = parse.add_mutually_exclusive_group()
    text.add_argument("--text", default=SENTENCE, help=f'the words to walk on, at most 512 (default: "{SENTENCE}")')
    text.add_argument("--file", type=Path, help="a UTF-8 text file to take the words from")
    parse.add_argument(
        "--cases", type=int, default=DEFAULT_CASES, help="cases of every op, a model: an eighth (default: %(default)s)"
    )
    parse.add_argument("--seed", type=int, default=0, help="of all that is drawn (default: %(default)s)")
    parse.add_argument(
        "--implementation", help="check this module alone (default: every one that this machine can run)"
    )
    parse.add_argument("--device", help="cpu or cuda (default: all there are)")
    parse.add_argument("--op", nargs="+", default=[], metavar="OP", help="check these ops alone (default: every one)")
    return parse


def read_file(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--file: {path} is not UTF-8 (byte {error.start} is 0x{error.object[error.start]:02x})"
        ) from None
    except OSError as error:
        raise ValueError(f"--file: {path} cannot be read: {error.strerror}") from None


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        if options.cases < 1:
            raise ValueError(f"--cases: {options.cases} came, expected at least 1")
        if options.seed < 0:
            raise ValueError(f"--seed: {options.seed} came, expected at least 0")
        words = read_words(options.text if options.file is None else read_file(options.file), options.file)
        name = options.implementation
        found = available(options.device) if name is None else [load(name, options.device or "cpu")]
        unknown = [op for op in options.op if op not in OPS]
        if unknown:
            raise ValueError(f"--op: {unknown[0]} came, expected one of {', '.join(OPS)}")
        ops = [op for op in OPS.values() if not options.op or op.name in options.op]
        if not any(each.offers(op.name) for each in found for op in ops):
            raise ValueError(f"--implementation: {name} has none of the ops {', '.join(op.name for op in ops)}")
    except ValueError as error:
        print(f"gemelos verify: {error}", file=sys.stderr)
        return 2
    say = Console(soft_wrap=True)
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # stopped from outside: as by Ctrl-C, no worker stays behind
    try:
        with workers(os.cpu_count()) as pool:
            try:
                return verify(words, found, ops, options.cases, options.seed, say, pool)
            except OSError as error:
                print(f"gemelos verify: results/ cannot be written: {error.strerror}", file=sys.stderr)
                return 2
            except WorkerDied as died:
                say.print(f"BROKEN: {died}: the process that checked it was ended from within", style="bold red")
                return 1
            except KeyboardInterrupt:
                for worker in active_children():  # a chunk of cases may take seconds, and nobody waits for it any more
                    worker.terminate()
                pool.shutdown(cancel_futures=True)
                raise
    except KeyboardInterrupt:
        say.print("\nStopped before the end: nothing is proved, nothing was written.")
        return 130


def verify(
    words: list[str],
    found: list[Implementation],
    ops: list[Op],
    cases: int,
    seed: int,
    say: Console,
    pool: Executor | None,
) -> int:
    chunks = check_all(found, ops, cases, seed, pool)  # the workers begin while the walk is printed
    walked = walk(words, seed, say)
    scaling = scaling_experiment(seed)
    say.print("\nWhy 1/sqrt(c)", style="bold")
    for line in describe(scaling):
        say.print(line, highlight=False)
    which = "Every op" if len(ops) == len(OPS) else ", ".join(op.name for op in ops)
    who = ", ".join(each.label for each in found)
    say.print(f"\n{which} of {who}, {cases} cases each, seed {seed}", style="bold")
    say.print(
        "The largest error, in units of roundoff (of well-conditioned tensors) and as a share of the budget (of all)."
    )
    say.print(HEADER, highlight=False)
    table = Table(say, found, cases)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=say, transient=True, disable=not say.is_terminal) as progress:
        task = progress.add_task("cases", total=sum(cases_of(op, cases) for op in ops))
        for chunk in chunks:
            table.add(chunk)
            progress.advance(task, chunk[0].drawn if chunk else 0)
    write_results(table, words, walked, scaling, cases, seed)
    say.print("\nWrote results/verify.json, results/attention.png, results/scaling.png")
    return conclude(table, found, cases, say)


def write_results(
    table: Table, words: list[str], walked: WalkResult, scaling: list[ScalingRow], cases: int, seed: int
) -> None:
    """results/verify.json with every row, and the two pictures."""
    folder = Path("results")
    folder.mkdir(exist_ok=True)
    A = walked["A"]
    report = {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(),
        "seed": seed,
        "cases": cases,
        "walk": {**walked, "A": A.tolist() if A.size <= 4096 else None},
        "scaling": scaling,
        "rows": [asdict(row) | {"verdict": verdict(row, OPS[row.op])} for row in table.rows.values()],
        "broken": table.broken(),
        "not_judged": table.unjudged(),
    }
    (folder / "verify.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    attention_picture(words, A, folder / "attention.png")
    scaling_picture(scaling, folder / "scaling.png")


def conclude(table: Table, found: list[Implementation], cases: int, say: Console) -> int:
    """The last line: what is broken, what could not be judged, or what was proved; and the exit status."""
    if table.broken():
        say.print(f"BROKEN: {'; '.join(table.broken())}", style="bold red", highlight=False)
        return 1
    if table.unjudged():
        why = f"each of {cases} cases needs an option that it does not take, or is ill-conditioned"
        say.print(f"NOT JUDGED: {'; '.join(table.unjudged())}: {why}", style="bold red", highlight=False)
        return 1
    rows = table.rows.values()
    judged, tensors, largest = (
        sum(row.judged for row in rows),
        sum(row.tensors for row in rows),
        max(row.share for row in rows),
    )
    say.print(
        f"Proved: {len({row.op for row in rows})} ops of {', '.join(each.label for each in found)} give the exact forward "
        f"and gradients within the computed budget: {judged} cases, {tensors} tensors, largest share {_percent(largest)}.",
        style="bold",
        highlight=False,
    )
    return 0
