"""Run a check in a process of its own and watch over it: who hangs, exits or crashes is judged all the same."""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from equivalence_tests.findings import Finding
from equivalence_tests.report import Property, Report

WORKER = "equivalence_tests.check_worker"
FRESH = "answers the same in a fresh process"
SLOW_STAGES = ("import", "diagnosis")  # what may take so many times the limit of one call
SLOWER = 6


class Refused(Exception):
    """The candidate cannot be judged: one line that says why."""


class Ended(Exception):
    """The worker is gone, or was stopped, at some stage."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.code)
        self.finding = finding


def check_in_process(request: dict[str, Any], limit: float, watch: Callable[[str], None]) -> Report:
    """The report of a check in a fresh process, and of some of its cases in another one, in another order.

    `limit` is the number of seconds that a single call may take. Refused if there is no such candidate.
    """
    began = time.monotonic()
    try:
        message, printed = run_worker(request, limit, watch)
    except Ended as ended:
        return _broken(request, ended.finding, time.monotonic() - began)
    if "error" in message:
        raise Refused(message["error"])
    report = Report.from_json(message["report"])
    if report.files and not _fails(report.files[-1], limit):
        report = replace(report, files=(), notes=(*report.notes, Finding("not_replayed")))
    if printed:
        report = replace(report, notes=(*report.notes, Finding("prints", numbers={"bytes": printed})))
    digests = message["digests"]
    if report.verdict in ("agrees", "another convention") and digests:
        report = _replayed(report, request, digests, limit, watch)
    return replace(report, seconds=time.monotonic() - began)


def _replayed(
    report: Report, request: dict[str, Any], digests: dict[str, str], limit: float, watch: Callable[[str], None]
) -> Report:
    order = list(digests)
    random.Random(1).shuffle(order)
    try:
        message, _ = run_worker({**request, "order": order, "report": report.as_json()}, limit, watch)
    except Ended as ended:
        row = Property(FRESH, len(order), 1, ended.finding.say())
        return replace(report, verdict="wrong", rows=(*report.rows, row), findings=(ended.finding,))
    other = [key for key in order if message["digests"][key] != digests[key]]
    what = f"case {other[0].replace(' ', ' in ')} has another answer" if other else ""
    rows = (*report.rows, Property(FRESH, len(order), len(other), what))
    if not other:
        return replace(report, rows=rows)
    case, dtype = other[0].split()
    finding = Finding("other_answer_in_fresh_process", numbers={"case": case, "dtype": dtype})
    return replace(report, verdict="wrong", rows=rows, findings=(finding,))


def _fails(script: str, limit: float) -> bool:
    """Whether a counterexample fails in a process of its own too."""
    command = [sys.executable, script]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SLOWER * limit, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def _broken(request: dict[str, Any], finding: Finding, seconds: float) -> Report:
    spec, like = request["candidate"]["spec"], request["candidate"]["like"]
    return Report(spec, like, "", "", "wrong", findings=(finding,), seconds=seconds)


def run_worker(
    request: dict[str, Any], limit: float, watch: Callable[[str], None], worker_module: str = WORKER
) -> tuple[dict[str, Any], int]:
    """The worker's last message, and how many bytes the candidate printed. Ended if the worker dies or is silent."""
    ours, theirs = os.pipe()
    with tempfile.TemporaryFile() as out, os.fdopen(ours, "rb", buffering=0) as messages:
        command = [sys.executable, "-m", worker_module, str(theirs)]
        worker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        try:
            assert worker.stdin is not None
            worker.stdin.write((json.dumps(request) + "\n").encode())
            worker.stdin.close()
            message = _listen(worker, messages, limit, watch)
        finally:
            _stop(worker)
        return message, out.seek(0, os.SEEK_END)


def _listen(
    worker: subprocess.Popen[bytes], messages: Any, limit: float, watch: Callable[[str], None]
) -> dict[str, Any]:
    """The message that ends it. Ended if the worker dies, or says nothing for too long."""
    at, rest = "import", b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(messages, selectors.EVENT_READ)
        while True:
            allowed = limit * (SLOWER if at.startswith(SLOW_STAGES) else 1)
            if not waiting.select(allowed):
                raise Ended(Finding("hangs", numbers={"seconds": allowed, "at": at}))
            chunk = messages.read(1 << 16)
            if not chunk:
                raise Ended(Finding("ends_process", numbers={"how": _how(worker), "at": at}))
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                if "at" not in message:
                    return message
                at = message["at"]
                watch(at)


def _how(worker: subprocess.Popen[bytes]) -> str:
    code = worker.wait()
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """The worker and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
