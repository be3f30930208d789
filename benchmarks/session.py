"""A whole run: every work of the suites in turn, its processes, its truth, its rows."""

from __future__ import annotations

import math
import shlex
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import contestants, machine, torch_contestants
from benchmarks.ceilings import WORKS, ceilings_of
from benchmarks.counting import flops_of
from benchmarks.process import Process
from benchmarks.rows import Results, Row
from benchmarks.timing import Contestant, Plan, Race, row_of
from benchmarks.work import Work

FRESH = 3e9  # FLOP from which on every work gets processes of its own: what others left there would hide its memory
COARSE = ("tf32", "bfloat16")
Show = Callable[[Row], None]


class Session:
    """`only` names the contestants; `own` is the user's function and the op that it is like; `takes_part` leaves some out
    of some works. Ends its processes."""

    def __init__(
        self,
        plan: Plan,
        threads: int,
        command: list[str],
        only: tuple[str, ...] = (),
        own: tuple[str, str] | None = None,
        takes_part: Callable[[str, Work], bool] = lambda name, work: True,
    ) -> None:
        self.plan, self.threads, self.only, self.own, self.takes_part = plan, threads, only, own, takes_part
        self.began = time.monotonic()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.results = Results(machine.facts(threads), shlex.join(command), machine.commit(), started)
        self.folder = tempfile.TemporaryDirectory(prefix="bench-")
        self.processes: dict[Contestant, Process] = {}
        self.judge: Process | None = None
        self.truths: dict[str, Path | dict[str, Any]] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self.judge is not None:
            self.judge.end()
        self.folder.cleanup()

    def contestants(self, work: Work) -> list[Contestant]:
        """Who takes part in a work: NumPy, the user's own, torch on the CPU and on CUDA."""
        if work.work in WORKS:
            libraries = [Contestant("torch cuda", "cuda")]
            if work.dtype not in COARSE:
                libraries = [Contestant("numpy"), Contestant("torch"), *libraries]
            return [each for each in libraries if not self.only or each.name in self.only]
        found = [Contestant(name) for name in contestants.names("cpu")]
        if self.own is not None and self.own[1] == work.work:
            found.append(Contestant(self.own[0]))
        found += torch_ones(work)
        if work.part.startswith("copy") or work.dtype == "tf32":
            found = [each for each in found if each.device == "cuda"]
        if work.dtype == "bfloat16":
            found = [each for each in found if each.name.startswith("torch")]
        mine = [self.own[0]] if self.own else []
        found = [each for each in found if each.name in mine or self.takes_part(each.name, work)]
        kept = {*self.only, *mine}
        return [each for each in found if not self.only or each.name in kept]

    def measure(self, work: Work, watch: Callable[[str], None], show: Show, until: float = math.inf) -> None:
        """Its rows are in the results afterwards, whatever stops it. From `until` on, as few rounds as may be."""
        able, rows = self._able(work)
        is_large = (flops_of(work) or 0.0) >= FRESH
        if is_large:
            self._end()
        race: Race | None = None
        try:
            watch("computing what is right")
            truth = self.truth(work) if able else {}
            if is_large and self.judge is not None:  # what it holds the contestants may need
                self.judge.end()
                self.judge = None
            if isinstance(truth, dict):
                why = f"it cannot be judged: {truth.get('why', '')}"
                rows += [row_of(work, each, truth["status"], why) for each in able]
            else:
                race = Race(work, able, truth, self.process_of, self.plan, until)
                race.run(watch)
        except KeyboardInterrupt:
            self.results.interrupted = True
            if race is None:
                rows += [row_of(work, each, "interrupted", "stopped before it was checked") for each in able]
            else:
                race.stop()
            raise
        finally:
            found = [*(race.rows if race else []), *rows]
            self.results.rows += found
            self.results.ceilings = ceilings_of(self.results.rows)
            self.results.seconds = time.monotonic() - self.began
            for row in found:
                show(row)

    def _able(self, work: Work) -> tuple[list[Contestant], list[Row]]:
        """Those who can run here, and rows for those who cannot."""
        able, rows = [], []
        for each in self.contestants(work):
            if each.name.startswith("torch") and self.results.machine["torch"] is None:
                rows.append(row_of(work, each, "not installed", "torch is not installed"))
            elif each.device == "cuda" and self.results.machine["gpu"] is None:
                rows.append(row_of(work, each, "no GPU", "this machine has no GPU that torch can use"))
            else:
                able.append(each)
        return able, rows

    def truth(self, work: Work) -> Path | dict[str, Any]:
        """The file, made once for all parts of a work; or why there is none."""
        copied = work.part.startswith("copy")
        key = repr((work.work, work.sizes, work.dtype, work.seed, work.extra, copied))
        if key in self.truths:
            return self.truths[key]
        for path in self.truths.values():  # works come in order: what was right of the last one is done with
            if isinstance(path, Path):
                path.unlink(missing_ok=True)
        self.truths.clear()
        if self.judge is None or self.judge.gone is not None:
            self.judge = Process(self.threads)
        path = Path(self.folder.name) / "truth"
        answer = self.judge.ask("decide", self.plan.judge, work=work, truth=str(path))
        self.truths[key] = answer if "status" in answer else path
        return self.truths[key]

    def process_of(self, contestant: Contestant) -> Process:
        """CUDA reserves more addresses than there is memory: there no limit is set."""
        known = self.processes.get(contestant)
        if known is None or known.gone is not None:
            self.processes[contestant] = Process(self.threads, limited=contestant.device == "cpu")
            self.processes[contestant].send("load", contestant=contestant.name)
        return self.processes[contestant]

    def _end(self) -> None:
        for process in self.processes.values():
            process.end()
        self.processes.clear()


def torch_ones(work: Work | None = None) -> list[Contestant]:
    """Those that compute in torch; those of them that take this work."""
    found = [Contestant(name, device) for device in ("cpu", "cuda") for name in torch_contestants.names(device)]
    return [each for each in found if work is None or torch_contestants.offers(each.name, work)]


def names() -> list[str]:
    """Every contestant that --only can name."""
    return list(
        dict.fromkeys([*contestants.MODULES, *(each.name for each in torch_ones()), "numpy", "torch", "torch cuda"])
    )
