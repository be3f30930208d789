"""What is running, how much is left, and every result as it comes."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.rows import Row
from benchmarks.shares import NAME as SHARES
from benchmarks.work import Work


class Shown:
    """Results go to the standard output, a line each; the bar lives on a terminal alone."""

    def __init__(self, total: int) -> None:
        self.say = Console(highlight=False, soft_wrap=True)
        columns = (
            BarColumn(16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self.bar = Progress(*columns, TextColumn("{task.description}"), console=self.say, transient=True)
        self.task = self.bar.add_task("starting", total=total)
        self.on = self.say.is_terminal
        self.current = ""

    def __enter__(self) -> Shown:
        if self.on:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.on:
            self.bar.stop()

    def begin(self, work: Work) -> None:
        self.current = heading(work)
        self.say.print(self.current, style="bold", markup=False)

    def watch(self, at: str) -> None:
        self.bar.update(self.task, description=f"{self.current.split(':')[0]}: {at}"[:60])

    def row(self, row: Row) -> None:
        self.say.print(line(row), markup=False, style="red" if row.status == "wrong" else None)

    def done(self) -> None:
        self.bar.advance(self.task)


def heading(work: Work) -> str:
    sizes = ", ".join(f"{name} {value:g}" if value < 1 else f"{name} {value:,}" for name, value in work.sizes.items())
    extra = "".join(f", {name} {value}" for name, value in work.extra.items())
    return f"{work.suite}, {work.work} {work.part}, {work.dtype}: {sizes}{extra}"


def line(row: Row) -> str:
    """For a human: 60 columns, unless the sentence is long."""
    name = f"{row.contestant}: {row.part}" if row.work == SHARES else row.contestant
    if row.median is None:
        return f"  {name:<26} {row.status}" + (f": {row.why}" if row.why else "")
    spread = f"+-{100.0 * (row.iqr or 0.0) / row.median:3.0f} %"
    share = max(row.share or 0.0, row.share_after or 0.0)
    peak = f"  {row.peak_bytes / 1e6:7,.0f} MB" if row.peak_bytes is not None else ""
    status = "" if row.status == "ok" else f"  {row.status}"
    return f"  {name:<26} {seconds(row.median):>9} {spread}  {100.0 * share:3.0f} % of budget{peak}{status}"


def seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 else f"{value:.0f} s"
    return f"{value * 1e9:.3g} ns"
