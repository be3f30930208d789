"""One work, all of its contestants: check, then time in interleaved rounds, then check again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.counting import bytes_of, flops_of, tokens_of
from benchmarks.process import Process
from benchmarks.rows import Row
from benchmarks.work import Work

ANOTHER_PROGRAM = ("compile", "graph")  # for other sizes these make another one: they are judged at their own alone
LABELS = {("recurrence", "rnn"): "recurrence"}
MOST_REPEATS = 2000


@dataclass(frozen=True)
class Plan:
    """How long to measure. A round is one sample of every contestant, one after the other: A B C A B C ..."""

    rounds: int = 10  # at least, where a round takes no longer than `long`
    most: int = 30  # rounds, while they fit into `seconds`
    seconds: float = 2.0
    long: float = 10.0  # s: longer rounds are fewer, as many as fit into ten of these, and no fewer than `least`
    least: int = 3
    sample: float = 0.02  # s: a faster run is repeated within its sample
    pause: float = 0.03  # s before each sample: OpenBLAS's threads spin for 26 ms after their last product
    slow: float = 30.0  # s: who takes longer for one run is not timed
    judge: float = 1800.0  # s that the judge may take

    def rounds_of(self, round_seconds: float) -> int:
        if round_seconds > self.long:
            return max(self.least, min(self.rounds, int(10.0 * self.long / round_seconds)))
        return max(self.rounds, min(self.most, int(self.seconds / max(round_seconds, 1e-9))))


@dataclass(frozen=True)
class Contestant:
    name: str
    device: str = "cpu"


@dataclass
class Runner:
    """A contestant in the race."""

    row: Row
    process: Process
    repeats: int = 1
    seconds: float = 0.0  # of one sample
    samples: list[float] = field(default_factory=list)


Watch = Callable[[str], None]


class Race:
    """Rows are filled in as it goes: whoever stops it finds in them what has been measured."""

    def __init__(
        self, work: Work, contestants: list[Contestant], truth: Path, start: Callable[[Contestant], Process], plan: Plan
    ) -> None:
        self.work, self.truth, self.start, self.plan = work, truth, start, plan
        self.contestants = contestants
        self.rows: list[Row] = []
        self.runners: list[Runner] = []

    def run(self, watch: Watch) -> None:
        processes = {each: self.start(each) for each in self.contestants}  # they import side by side
        for contestant, process in processes.items():
            watch(f"{contestant.name}: checking")
            self._enter(contestant, process)
        total = sum(runner.seconds + self.plan.pause for runner in self.runners)
        rounds = self.plan.rounds_of(total)
        for done in range(rounds):
            for runner in list(self.runners):
                watch(f"{runner.row.contestant}: round {done + 1} of {rounds}")
                self._sample(runner)
        for runner in list(self.runners):
            watch(f"{runner.row.contestant}: checking again")
            self._finish(runner)

    def stop(self) -> None:
        """What has been timed stays, and says that it was not checked again."""
        for runner in self.runners:
            runner.row.timed(runner.samples)
            runner.row.status = "interrupted"
            count = len(runner.samples)
            runner.row.why = f"stopped after {count} round{'s' * (count != 1)}, before the second check"
        entered = {(row.contestant, row.device) for row in self.rows}
        for each in self.contestants:
            if (each.name, each.device) not in entered:
                self.rows.append(row_of(self.work, each, "interrupted", "stopped before it was checked"))

    def _enter(self, contestant: Contestant, process: Process) -> None:
        slice = not any(word in contestant.name for word in ANOTHER_PROGRAM)
        limit = 120.0 + 10.0 * self.plan.slow
        answer = process.ask(
            "prepare", limit, contestant=contestant.name, work=self.work, truth=str(self.truth), slice=slice
        )
        if answer["status"] == "not offered" and ":" not in contestant.name:
            return
        if answer["status"] == "not offered":  # the user's own: it is told why
            answer["status"] = "failed"
        row = row_of(self.work, contestant, answer["status"], answer["why"])
        self.rows.append(row)
        for name in ("share", "error", "checked"):
            setattr(row, name, answer.get(name, getattr(row, name)))
        row.settings |= answer.get("settings", {})
        if row.status != "ok":
            return
        if answer["seconds"] > self.plan.slow:
            row.status, row.why = "too slow", f"one run took {answer['seconds']:.0f} s"
            return
        repeats = max(1, min(MOST_REPEATS, math.ceil(self.plan.sample / max(answer["seconds"], 1e-7))))
        self.runners.append(Runner(row, process, repeats, repeats * answer["seconds"]))

    def _sample(self, runner: Runner) -> None:
        time.sleep(self.plan.pause)
        answer = runner.process.ask("run", 60.0 + 20.0 * self.plan.slow, repeats=runner.repeats)
        if "seconds" in answer:
            runner.samples.append(answer["seconds"])
        else:
            self._out(runner, answer)

    def _finish(self, runner: Runner) -> None:
        answer = runner.process.ask("finish", 60.0 + 10.0 * self.plan.slow)
        if "status" in answer:
            self._out(runner, answer)
            return
        row = runner.row
        row.peak_bytes, row.share_after = answer["peak_bytes"], answer["share"]
        if answer["why"]:
            self._out(runner, {"status": "wrong", "why": f"after timing, {answer['why']}"})
            return
        row.timed(runner.samples)
        self.runners.remove(runner)

    def _out(self, runner: Runner, answer: dict[str, Any]) -> None:
        """Its times are worth nothing: it died, or was right by chance."""
        runner.row.status, runner.row.why = answer["status"], answer["why"]
        self.runners.remove(runner)


def row_of(work: Work, contestant: Contestant, status: str = "ok", why: str = "") -> Row:
    return Row(
        suite=work.suite,
        work=LABELS.get((work.suite, work.work), work.work),
        part=work.part,
        sizes=dict(work.sizes),
        dtype=work.dtype,
        contestant=contestant.name,
        device=contestant.device,
        status=status,
        why=why,
        flops=flops_of(work),
        bytes=bytes_of(work),
        tokens=tokens_of(work),
        settings=dict(work.extra),
    )
