"""Two result files beside each other: what became slower, what faster, beyond what the machine does by itself.

A change counts only if no run of one file overlaps the other's: the fastest new one is slower than the slowest old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from benchmarks.ratios import asked_of, is_timed
from benchmarks.rows import Results, Row, read
from benchmarks.units import digits, duration, part_in_words, shown_sizes
from equivalence_tests.flags import Parser

NO_REGRESSION, REGRESSION, CANNOT = 0, 1, 2
BROKEN = ("wrong", "out of memory", "failed")
HARDWARE = ("cpu", "core", "gpu name", "memory", "processor")  # a machine's other facts are of its software


@dataclass(frozen=True)
class Change:
    old: Row
    new: Row
    kind: str  # slower, faster, broken, repaired, gone


@dataclass(frozen=True)
class Comparison:
    """The changes among the rows that both files have; how many of those are timed in both; how many only one has."""

    changes: list[Change]
    both_timed: int
    only_old: int
    only_new: int
    machine: dict[str, tuple[str, str]]  # the facts that differ

    @property
    def regressions(self) -> list[Change]:
        return [change for change in self.changes if change.kind in ("slower", "broken")]


def compare(old: Results, new: Results) -> Comparison:
    before, after = ({_key(row): row for row in results.rows} for results in (old, new))
    changes = []
    for key in before.keys() & after.keys():
        kind = _kind(before[key], after[key])
        if kind:
            changes.append(Change(before[key], after[key], kind))
    place = {key: i for i, key in enumerate(after)}
    changes.sort(key=lambda change: place[_key(change.new)])
    both = sum(is_timed(before[key]) and is_timed(after[key]) for key in before.keys() & after.keys())
    differing = _differing(_flat(old.machine), _flat(new.machine))
    return Comparison(changes, both, len(before.keys() - after.keys()), len(after.keys() - before.keys()), differing)


def _key(row: Row) -> tuple[Any, ...]:
    return (*row.key, *asked_of(row).items())


def _kind(old: Row, new: Row) -> str:
    if is_timed(old) and is_timed(new):
        if min(new.seconds) > max(old.seconds):
            return "slower"
        return "faster" if max(new.seconds) < min(old.seconds) else ""
    if is_timed(old):
        return "broken" if new.status in BROKEN else "gone"
    return "repaired" if old.status in BROKEN and is_timed(new) else ""


def _flat(facts: Any, name: str = "") -> dict[str, str]:
    """{"cpu": {"name": ...}} as {"cpu name": ...}"""
    if not isinstance(facts, dict):
        return {name: str(facts)}
    return {key: value for each in facts for key, value in _flat(facts[each], f"{name} {each}".strip()).items()}


def _differing(old: dict[str, str], new: dict[str, str]) -> dict[str, tuple[str, str]]:
    names = [*old, *(name for name in new if name not in old)]
    pairs = {name: (old.get(name, "-"), new.get(name, "-")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def main(argv: Sequence[str] | None = None) -> int:
    parse = Parser(
        prog="gemelos bench compare",
        description="What became slower or faster from one result file to another: only where no run of one is among those "
        "of the other. Exit status: 0 nothing slower or broken, 1 something, 2 if they cannot be compared.",
    )
    parse.add_argument("old", type=Path, metavar="A.json")
    parse.add_argument("new", type=Path, metavar="B.json")
    given = parse.parse_args(argv)
    return run(given.old, given.new, Console(highlight=False))


def run(old: Path, new: Path, say: Console) -> int:
    """Reads both, says what changed, and answers the exit status: 0 no regression, 1 regression, 2 cannot compare."""
    try:
        before, after = read(old), read(new)
    except (OSError, ValueError) as error:
        say.print(Text(f"cannot compare: {error}"))
        return CANNOT
    found = compare(before, after)
    _say_machines(found, say)
    if not found.both_timed and not found.regressions:
        say.print(Text("cannot compare: no row is timed in both files"))
        return CANNOT
    for kind, style in (
        ("broken", "bold red"),
        ("slower", "red"),
        ("gone", "yellow"),
        ("repaired", "green"),
        ("faster", "green"),
    ):
        for change in found.changes:
            if change.kind == kind:
                _say_change(change, style, say)
    say.print(Text(_counts(found)))
    return REGRESSION if found.regressions else NO_REGRESSION


def _say_machines(found: Comparison, say: Console) -> None:
    hardware = {name: pair for name, pair in found.machine.items() if any(word in name.lower() for word in HARDWARE)}
    if hardware:
        say.print(Text("DIFFERENT MACHINES: times say nothing about the code", "bold red"))
    software = {name: pair for name, pair in found.machine.items() if name not in hardware}
    for name, (old, new) in {**hardware, **software}.items():
        say.print(Padding(Text(f"{name}: {old} -> {new}", "" if name in software else "red"), (0, 0, 0, 2)))


def _say_change(change: Change, style: str, say: Console) -> None:
    """Two lines: the verdict and whose it is, then the work; each wraps where it must."""
    old, new = change.old, change.new
    if is_timed(old) and is_timed(new):
        ratio = (new.median or 0.0) / (old.median or 1.0)
        times = digits(ratio if change.kind == "slower" else 1.0 / ratio)
        said = f"{times} x {change.kind}: {duration(old.median)} -> {duration(new.median)}"
    else:
        said = f"{_state(old)} -> {_state(new)}"
    device = "" if new.device == "cpu" else f", {new.device}"
    part = "" if new.part in (new.work, "step") else f" {part_in_words(new.part)}"
    say.print(Text.assemble((said, style), f"  {new.contestant}{device}"))
    work = f"{new.suite}: {new.work}{part}, {new.dtype}, {shown_sizes(new.sizes)}"
    say.print(Padding(Text(work), (0, 0, 0, 4)))


def _state(row: Row) -> str:
    return duration(row.median) if is_timed(row) else row.status


def _counts(found: Comparison) -> str:
    count = {kind: sum(change.kind == kind for change in found.changes) for kind in ("slower", "faster", "broken")}
    said = f"{found.both_timed} timed in both: {count['slower']} slower, {count['faster']} faster"
    said += f", {count['broken']} broken" if count["broken"] else ""
    for number, name in ((found.only_old, "old"), (found.only_new, "new")):
        said += f"; {number} in the {name} file only" if number else ""
    return f"{said}."
