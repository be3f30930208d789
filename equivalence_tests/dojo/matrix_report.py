"""The dojo's matrix as a command: on every core, as a table with its totals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.matrix import Row, enough, rows_of


def run_all(names: Sequence[str], told: Callable[[Row], None]) -> list[Row]:
    """Every kata on every core, those of one op in one process, the slow ops first; in the order of the course."""
    wanted = [kata for kata in KATAS if not names or kata.name in names]
    groups: dict[str, list[str]] = {}
    for kata in sorted(wanted, key=lambda kata: SLOW.index(kata.like) if kata.like in SLOW else len(SLOW)):
        groups.setdefault(kata.like or kata.name, []).append(kata.name)
    found: dict[str, Row] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        waiting = [pool.submit(rows_of, group) for group in groups.values()]
        for done in as_completed(waiting):
            for row in done.result():
                found[row.kata] = row
                told(row)
    return [found[kata.name] for kata in wanted]


SLOW = ("gpt", "gpt_loss", "generative_rnn_loss", "multi_head_attention", "self_attention", "attention", "rnn")


def run(names: Sequence[str], as_json: bool, everything: bool) -> int:
    """0 if every start fails, every solution passes, every mistake is caught in faultless words and enough are named."""
    errors = Console(file=sys.stderr, highlight=False)
    rows = run_all(names, lambda row: errors.print(f"{row.kata}: {row.seconds:.0f} s"))
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        show(rows, Console(highlight=False), everything)
    return 0 if all(row.sound for row in rows) and enough(rows) else 1


def show(rows: Sequence[Row], console: Console, everything: bool) -> None:
    table = Table("kata", "start", "solution", "mistakes", "caught", "named", "left out", box=None, pad_edge=False)
    for column in range(3, 7):
        table.columns[column].justify = "right"
    for row in rows:
        counted = row.counted
        counts = (len(counted), sum(h.caught for h in counted), sum(h.named for h in counted))
        start = "fails" if row.start != "passed" else "PASSES"
        told = (row.kata, start, row.solution, *map(str, counts), str(len(row.mistakes) - len(counted)))
        bad = not row.sound or counts[0] != counts[1]
        table.add_row(*map(Text, told), style="bold red" if bad else "yellow" if counts[2] < counts[0] else "")
    console.print(table)
    for row in rows:
        for each in row.counted:
            for fault in each.faults:
                console.print(
                    Text(f"{row.kata} {each.id}: a fault of its message, {fault}", "bold red"), soft_wrap=True
                )
            if everything or not (each.caught and each.named):
                how = "named" if each.named else "caught" if each.caught else "NOT CAUGHT"
                console.print(Text(f"{row.kata} {each.id} {how}: {each.sentence}"), soft_wrap=True)
                console.print(Text(f"    {each.said}"), soft_wrap=True)
    _totals(rows, console)


def _totals(rows: Sequence[Row], console: Console) -> None:
    counted = [each for row in rows for each in row.counted]
    reasons = [each.left_out for row in rows for each in row.mistakes if each.left_out]
    caught, named = sum(each.caught for each in counted), sum(each.named for each in counted)
    console.print(
        f"{sum(row.start != 'passed' for row in rows)} of {len(rows)} starts fail, "
        f"{sum(row.solution == 'passed' for row in rows)} of {len(rows)} solutions pass"
    )
    share = 100 * named / max(len(counted), 1)
    console.print(f"{len(counted)} mistakes handed in, {caught} caught, {named} named ({share:.1f} %)")
    console.print(f"{sum(len(each.faults) for each in counted)} faults of messages")
    for why in dict.fromkeys(reasons):
        console.print(f"{reasons.count(why)} left out: {why}")
