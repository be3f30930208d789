"""The parent's side of a worker: start it, ask it, wait no longer than is sensible, end it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import memory
from benchmarks.work import Work

PINNED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # to an older kernel: half the speed of a matrix product
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
ROOT = Path(__file__).parents[1]


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def environment(threads: int) -> dict[str, str]:
    """Of a worker: every library may use all threads, and chooses its own kernel."""
    found = {name: value for name, value in os.environ.items() if name not in PINNED}
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    compiling = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # in the worker itself, which its limit ends
    return found | dict.fromkeys(THREADS, str(threads)) | compiling | {"PYTHONPATH": os.pathsep.join(path)}


class Process:
    """A worker. Once it has died it answers every question with the way it died."""

    def __init__(self, threads: int, limited: bool = True) -> None:
        ours, theirs = os.pipe()
        self.messages = os.fdopen(ours, "rb", buffering=0)
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (until `end`)
        free = memory.free()
        most = [str(free)] if limited and free else []
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", str(theirs), *most],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.said,
            pass_fds=[theirs],
            start_new_session=True,  # Ctrl-C in the terminal is the parent's alone
            env=environment(threads),
        )
        os.close(theirs)
        self.gone: dict[str, Any] | None = None
        self.owed = 0  # answers that nobody has read yet

    def ask(self, command: str, limit: float, **arguments: Any) -> dict[str, Any]:
        """The answer, within so many seconds. A `work` goes as plain data."""
        while self.owed:
            early = self.receive(limit)
            if "status" in early:
                return early
        self.send(command, **arguments)
        return self.receive(limit)

    def send(self, command: str, **arguments: Any) -> None:
        """Ask, and do something else meanwhile."""
        if self.gone is not None:
            return
        self.owed += 1
        sent = {name: asdict(value) if isinstance(value, Work) else value for name, value in arguments.items()}
        line = (json.dumps({"do": command, **sent}) + "\n").encode()
        assert self.worker.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer either
            self.worker.stdin.write(line)
            self.worker.stdin.flush()

    def receive(self, limit: float) -> dict[str, Any]:
        if self.gone is not None:
            return self.gone
        self.owed -= 1
        deadline, read = time.monotonic() + limit, b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.messages, selectors.EVENT_READ)
            while not read.endswith(b"\n"):
                if not waiting.select(max(0.0, deadline - time.monotonic())):
                    self.end()
                    self.gone = {"status": "too slow", "why": f"no answer within {limit:.0f} s"}
                    return self.gone
                chunk = self.messages.read(1 << 16)
                if not chunk:
                    self.gone = self._death()
                    return self.gone
                read += chunk
        answer: dict[str, Any] = json.loads(read)
        return answer

    def _death(self) -> dict[str, Any]:
        code = self.worker.wait()
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").strip().splitlines()
        last = lines[-1][:200] if lines else ""
        if code == -signal.SIGKILL:
            return {"status": "out of memory", "why": "the system killed its process"}
        if "MemoryError" in last or "bad_alloc" in last or "annot allocate memory" in last:
            return {"status": "out of memory", "why": last}
        how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        return {"status": "failed", "why": f"its process ended, {how}" + (f": {last}" if last else "")}

    def end(self) -> None:
        """It and whatever it started."""
        if self.messages.closed:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.worker.pid, signal.SIGKILL)
        self.worker.wait()
        if self.worker.stdin is not None:
            with suppress(BrokenPipeError):
                self.worker.stdin.close()
        self.messages.close()
        self.said.close()
        self.gone = self.gone or {"status": "failed", "why": "its process was ended"}
