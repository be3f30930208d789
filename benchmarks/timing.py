"""One work, all of its contestants: check, then time in interleaved rounds, then check again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import memory
from benchmarks.counting import bytes_of, flops_of, tokens_of
from benchmarks.process import Process
from benchmarks.rows import Row
from benchmarks.work import Work

ANOTHER_PROGRAM = ("compile", "graph")  # for other sizes these make another one: they are judged at their own alone
APART = "in rounds of its own: beside the others there was no room for it"
MOST_REPEATS = 2000
MOST_HELD = 20e9  # bytes, of all workers together


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
    compiling: float = 120.0  # s: who takes longer from a program to its second run is not timed
    judge: float = 1800.0  # s that the judge may take

    @property
    def limit(self) -> float:
        """Seconds that a worker has for an answer."""
        return 120.0 + 10.0 * self.slow

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
    held: int = 0  # bytes, while it waits
    peak: int = 0  # bytes, while it runs


Watch = Callable[[str], None]


class Race:
    """Rows are filled in as it goes: whoever stops it finds in them what has been measured.

    While one runs the others hold what they have. Who does not fit beside them is timed after them, alone. No round
    but the least begins after `until`.
    """

    def __init__(
        self,
        work: Work,
        contestants: list[Contestant],
        truth: Path,
        start: Callable[[Contestant], Process],
        plan: Plan,
        until: float = math.inf,
    ) -> None:
        self.work, self.truth, self.start, self.plan, self.until = work, truth, start, plan, until
        self.contestants = contestants
        self.rows: list[Row] = []
        self.runners: list[Runner] = []
        self.apart: list[Contestant] = []
        self.room = math.inf

    def run(self, watch: Watch) -> None:
        processes = self._together(self.contestants, watch)
        for contestant in self.apart:
            for process in processes.values():
                process.end()
            processes = self._together([contestant], watch)

    def _together(self, contestants: list[Contestant], watch: Watch) -> dict[Contestant, Process]:
        self.room = min(MOST_HELD, memory.free() or math.inf)
        processes = {each: self.start(each) for each in contestants}  # they import side by side
        for contestant, process in processes.items():
            watch(f"{contestant.name}: checking")
            self._enter(contestant, process)
        total = sum(runner.seconds + self.plan.pause for runner in self.runners)
        rounds = self.plan.rounds_of(total)
        for done in range(rounds):
            if done >= self.plan.least and time.monotonic() > self.until:
                break
            for runner in list(self.runners):
                watch(f"{runner.row.contestant}: round {done + 1} of {rounds}")
                self._sample(runner)
        for runner in list(self.runners):
            watch(f"{runner.row.contestant}: checking again")
            self._finish(runner)
        return processes

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
        own_program = _has_own_program(contestant)
        limit = self.plan.compiling if own_program else self.plan.limit
        room = (
            memory.free() if contestant.device == "cpu" else None
        )  # CUDA reserves more addresses than there is memory
        asked = {"contestant": contestant.name, "work": self.work, "truth": str(self.truth)}
        answer = process.ask("prepare", limit, **asked, slice=not own_program, room=room)
        if answer["status"] == "not offered" and ":" not in contestant.name:
            return
        if answer["status"] == "not offered":  # the user's own: it is told why
            answer["status"] = "failed"
        if answer["status"] == "too slow" and own_program:
            answer["why"] = f"it was not compiled and run twice within {limit:.0f} s"
        if self.runners and (answer["status"] == "out of memory" or not self._fits(answer)):
            self.apart.append(contestant)
            process.end()
            return
        row = row_of(self.work, contestant, answer["status"], answer["why"])
        self.rows.append(row)
        for name in ("share", "error", "checked"):
            setattr(row, name, answer.get(name, getattr(row, name)))
        row.settings |= answer.get("settings", {})
        if row.status != "ok":
            return
        if contestant in self.apart:
            row.why = APART
        if answer["seconds"] > self.plan.slow:
            row.status, row.why = "too slow", f"one run took {answer['seconds']:.0f} s"
            return
        repeats = max(1, min(MOST_REPEATS, math.ceil(self.plan.sample / max(answer["seconds"], 1e-7))))
        held, peak = (answer.get(name) or 0 for name in ("held", "peak"))
        self.runners.append(Runner(row, process, repeats, repeats * answer["seconds"], [], held, peak))

    def _fits(self, answer: dict[str, Any]) -> bool:
        """Whether all who are in it, and this one, can wait while any of them runs."""
        both = [(runner.held, runner.peak) for runner in self.runners]
        both.append((answer.get("held") or 0, answer.get("peak") or 0))
        return sum(held for held, _ in both) + max(peak - held for held, peak in both) <= self.room

    def _sample(self, runner: Runner) -> None:
        time.sleep(self.plan.pause)
        answer = runner.process.ask("run", 2.0 * self.plan.limit, repeats=runner.repeats)
        if "seconds" in answer:
            runner.samples.append(answer["seconds"])
        else:
            self._out(runner, answer)

    def _finish(self, runner: Runner) -> None:
        answer = runner.process.ask("finish", self.plan.limit)
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


def _has_own_program(contestant: Contestant) -> bool:
    """Whether it is compiled for every size anew."""
    return contestant.name.startswith("torch") and any(word in contestant.name for word in ANOTHER_PROGRAM)


def row_of(work: Work, contestant: Contestant, status: str = "ok", why: str = "") -> Row:
    return Row(
        suite=work.suite,
        work=work.work,
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
