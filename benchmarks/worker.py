"""A process of its own for every contestant: it prepares a work, checks it, runs it when asked, and checks again.

`python -m benchmarks.worker FD [BYTES]`: commands come as JSON lines on the standard input, answers go to that file
descriptor; what a contestant prints goes nowhere. It may hold so many bytes, leaves Ctrl-C to its parent, and dies with its
standard input.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from benchmarks import judge, memory, shares, training, verdict
from benchmarks.contestants import module_of
from benchmarks.inputs import inputs_of
from benchmarks.verdict import Verdict
from benchmarks.work import NotHere, OutOfMemory, Prepared, Work
from equivalence_tests.implementations import NotOffered, one_line

BRIEF = 0.1  # s: what is faster is run once more, untimed, before a sample: others have had the cache meanwhile


@dataclass
class State:
    """What is prepared."""

    work: Work
    prepared: Prepared
    truth: Path
    before: int | None  # bytes held before it was prepared
    forgot: bool
    brief: bool


class Worker:
    """One method a command; each answers what goes back."""

    def __init__(self) -> None:
        self.state: State | None = None

    def load(self, contestant: str) -> dict[str, Any]:
        """Import what it needs, so that its memory is not the work's; several processes can do so at once."""
        importlib.import_module(module_of(contestant))
        for framework in ("torch", "transformers"):
            if contestant.startswith(framework) and importlib.util.find_spec(framework) is not None:
                importlib.import_module(framework)
        return {}

    def decide(self, work: dict[str, Any], truth: str) -> dict[str, Any]:
        """Write what is right into a file."""
        asked = Work(**work)
        judge.truth_of(asked, *inputs_of(asked)).write(Path(truth))
        memory.settle()
        return {}

    def prepare(
        self, contestant: str, work: dict[str, Any], truth: str, slice: bool, room: int | None = None
    ) -> dict[str, Any]:
        """Ready to be timed, or the status that says why not. `slice` is False for those to whom it is another program;
        `room`: bytes that it may take."""
        self.state = None
        if room is not None:
            memory.limit_more(room)
        module = importlib.import_module(module_of(contestant))
        found, checked = self._of_slice(module, contestant, Path(truth), slice)
        memory.settle()
        asked, before = Work(**work), memory.resident()
        prepared = module.prepare(contestant, asked, *inputs_of(asked))
        first = _seconds(prepared.run)
        found = verdict.worse(found, self._compared(asked, prepared, truth))
        memory.settle()
        forgot = memory.forget_peak()
        again = _seconds(prepared.run)
        self.state = State(asked, prepared, Path(truth), before, forgot, again < BRIEF)
        told = getattr(prepared, "settings", {})
        answer = {"status": "wrong" if found.wrong else "ok", "why": found.why, "checked": checked}
        return (
            answer
            | {"share": _number(found.share), "error": _number(found.error), "first": first}
            | {"seconds": again, "settings": told, "kernels": kernels()}
            | {"held": memory.resident(), "peak": memory.peak()}
        )

    def train(self, contestant: str, quick: bool) -> dict[str, Any]:
        """The loss after every step of a training, and when it was there."""
        return training.losses(contestant, quick)

    def shares(self) -> dict[str, Any]:
        """Of what is prepared, the seconds that each op takes."""
        assert self.state is not None
        return shares.seconds_of(self.state.prepared)

    def run(self, repeats: int) -> dict[str, Any]:
        """One sample: the mean of so many runs, one after the other."""
        assert self.state is not None
        run = self.state.prepared.run
        if self.state.brief:
            run()
        gc.disable()
        began = time.perf_counter()
        for _ in range(repeats):
            run()
        seconds = (time.perf_counter() - began) / repeats
        gc.enable()
        return {"seconds": seconds}

    def finish(self) -> dict[str, Any]:
        """The peak of memory, and the share after timing."""
        state = self.state
        assert state is not None
        at_most = memory.peak()
        known = state.forgot and at_most is not None and state.before is not None
        held = max(0, at_most - state.before) if known else None  # type: ignore[operator]
        own = getattr(state.prepared, "peak_bytes", None)  # of a GPU's memory its framework knows
        found = self._compared(state.work, state.prepared, str(state.truth))
        self.state = None
        return {"peak_bytes": own() if own else held, "share": _number(found.share), "why": found.why}

    def _of_slice(self, module: Any, contestant: str, truth: Path, slice: bool) -> tuple[Verdict, str]:
        """The verdict on the slice, if there is one, and in words how the work is checked."""
        right = verdict.read(truth)
        if right.slice is None:
            return Verdict(0.0, 0.0, ""), right.checked
        if not slice:
            return Verdict(0.0, 0.0, ""), right.checked.partition("; ")[2]
        prepared: Prepared = module.prepare(contestant, *right.slice)
        prepared.run()
        return verdict.compare(prepared.outputs(), right.sliced, right, right.slice[0]), right.checked

    def _compared(self, work: Work, prepared: Prepared, truth: str) -> Verdict:
        right = verdict.read(Path(truth))
        return verdict.compare(prepared.outputs(), right.whole, right, work)


def kernels() -> list[dict[str, Any]]:
    """The libraries that have threads here: which, which kernel, how many."""
    keys = ("user_api", "internal_api", "version", "architecture", "num_threads")
    return [{key: pool[key] for key in keys if key in pool} for pool in threadpool_info()]


def _seconds(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _number(value: float) -> float | None:
    """JSON has no infinity."""
    return float(value) if abs(value) < float("inf") else None


def answered(worker: Worker, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a command answers, or the status of what stopped it."""
    try:
        answer: dict[str, Any] = getattr(worker, command)(**arguments)
        return answer
    except NotOffered as error:
        return {"status": "not offered", "why": str(error)}
    except NotHere as error:
        return {"status": error.status, "why": error.why}
    except (MemoryError, OutOfMemory) as error:
        worker.state = None
        return {"status": "out of memory", "why": _short(error)}
    except Exception as error:
        worker.state = None
        if _says_no_memory(error):
            return {"status": "out of memory", "why": _short(error)}
        return {"status": "failed", "why": _short(error)}


def _says_no_memory(error: Exception) -> bool:
    """torch has an exception of its own on CUDA alone; on the CPU it says so in words."""
    said = str(error).lower()
    return "outofmemory" in type(error).__name__.lower() or "not enough memory" in said or "out of memory" in said


def _short(error: BaseException) -> str:
    said = one_line(error)
    return said if len(said) <= 200 else f"{said[:197]}..."


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(int(sys.argv[1]), "w")
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for good)
    memory.limit(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    worker = Worker()
    for line in sys.stdin:
        command = json.loads(line)
        answer = answered(worker, command.pop("do"), command)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
