"""Processes that run code which is not trusted: how they are started, why they ended, and how nothing of them is left.

On Linux the caller adopts what a process leaves behind (a child in a session of its own, a daemon), so that it can be
ended too; elsewhere the process group is ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from equivalence_tests.findings import Finding

SET_SUBREAPER, GET_SUBREAPER = 36, 37  # of prctl(2)
ROUNDS = 20  # of ending what a process started, which may start more meanwhile
TICK = 0.1  # seconds between two looks at a process that says nothing


class Ended(BaseException):
    """A process is gone, or does not answer: no answer of a candidate, so no `except Exception` may take it for one."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.code)
        self.finding = finding


@contextmanager
def started(words: Sequence[str], descriptors: Sequence[int], **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """`python WORDS DESCRIPTORS` in a session of its own. At the end it and all that it started is ended."""
    with _adopting():
        others = {each.pid for each in _processes() if each.parent == os.getpid()}
        process = subprocess.Popen(
            [sys.executable, *words, *map(str, descriptors)],
            pass_fds=descriptors,
            start_new_session=True,
            **streams,
        )
        try:
            yield process
        finally:
            _end(process, others)


def how_it_ended(process: subprocess.Popen[bytes]) -> str:
    """The exit status or the signal; a process that lives has closed its descriptors."""
    try:
        code = process.wait(1.0)
    except subprocess.TimeoutExpired:
        return "it closes its descriptors"
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class Stillness:
    """How long a process and its descendants have done nothing: neither computed nor waited for a disk."""

    def __init__(self, pid: int) -> None:
        self.pid, self.ticks, self.since = pid, -1, time.monotonic()

    def seconds(self) -> float:
        """Since the last sign of work; 0 where there is no /proc to look into."""
        family = _family(self.pid)
        ticks = sum(each.ticks for each in family)
        if not family or ticks != self.ticks or any(each.state in "RD" for each in family):
            self.ticks, self.since = ticks, time.monotonic()
        return time.monotonic() - self.since


class _Process(NamedTuple):
    pid: int
    state: str
    parent: int
    session: int
    ticks: int  # of the processor


def _processes() -> list[_Process]:
    """Every process of this machine, or none where there is no /proc."""
    found = []
    try:
        names = [name for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # the name in front may hold anything
        except OSError:
            continue
        found.append(
            _Process(int(name), fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[11]) + int(fields[12]))
        )
    return found


def _family(pid: int) -> list[_Process]:
    """A process and its descendants."""
    every = _processes()
    found = [each for each in every if each.pid == pid]
    for each in found:  # which grows
        found += [child for child in every if child.parent == each.pid]
    return found


@contextmanager
def _adopting() -> Iterator[None]:
    """Orphans become children of this process, where the system can do that."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    if prctl is None:
        yield
        return
    before = ctypes.c_int()
    prctl(GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    prctl(SET_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(SET_SUBREAPER, before.value, 0, 0, 0)


def _end(process: subprocess.Popen[bytes], others: set[int]) -> None:
    """The process, its group, its descendants, and those whose parent is gone."""
    for _ in range(ROUNDS):
        own = os.getpid()
        family = {each.pid for each in _family(process.pid)}
        orphans = [each for each in _processes() if each.parent == own and each.session != os.getsid(0)]
        adopted = {each.pid for each in orphans} - others - {process.pid}
        for pid in (*family, *(each for orphan in adopted for each in (p.pid for p in _family(orphan)))):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pid in adopted:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        if not adopted:
            return
