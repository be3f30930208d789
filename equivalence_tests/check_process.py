"""Judge a candidate that runs in a process of its own: what hangs, exits or crashes is judged all the same."""

from __future__ import annotations

import json
import os
import random
import selectors
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from equivalence_tests import failing_case
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.candidate import Candidate
from equivalence_tests.checking import Settings, digest, draw, examine
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import NotOffered, run
from equivalence_tests.part_names import PART_NAMES
from equivalence_tests.process import TICK, Ended, Stillness, how_it_ended, started
from equivalence_tests.remote import SLOWER, Refused, Remote, candidate_there
from equivalence_tests.report import Property, Report
from equivalence_tests.request import Request

WORKER = "equivalence_tests.check_worker"
FRESH = "answers the same in a fresh process"

__all__ = ["Ended", "Refused", "check_in_process", "run_worker"]


def check_in_process(request: dict[str, Any], limit: float, watch: Callable[[str], None]) -> Report:
    """The report of a check whose candidate runs in a fresh process, and of some of its cases in another, in another order.

    `limit` is the number of seconds that a single call may take. Refused if there is no such candidate.
    """
    began = time.monotonic()
    try:
        apart = request["laws_only"] or request["candidate"]["like"] in PART_NAMES
        report = _laws(request, limit, watch) if apart else _examined(request, limit, watch)
    except Ended as ended:
        report = _broken(request, ended.finding)
    return replace(report, seconds=time.monotonic() - began)


def _examined(request: dict[str, Any], limit: float, watch: Callable[[str], None]) -> Report:
    asked, settings = wanted(request), settings_of(request)
    with _running(asked, limit, watch) as (candidate, at, there):
        try:
            report = examine(candidate, settings, at)
        except (Ended, Refused):
            raise
        except ValueError as error:  # what is asked cannot be: a candidate's own errors are caught where it is called
            raise Refused(str(error)) from None
        except Exception:  # ours: what a candidate raises is caught where it is called
            defect = traceback.format_exc()
            raise Refused(f"this is a defect of gemelos, not of {asked.spec}\n{defect}") from None
        printed = there.printed if there is not None else 0
        if there is not None:  # how it was called is known over there
            report = replace(report, notes=(*report.notes, *there.notes()))
        if report.counterexample is not None:
            report = replace(report, files=_written(request, candidate, report))
    if report.files and not _fails(report.files[-1], limit):
        report = replace(report, files=(), notes=(*report.notes, Finding("not_replayed")))
    if printed:
        report = replace(report, notes=(*report.notes, Finding("prints", numbers={"bytes": printed})))
    if report.verdict in ("agrees", "another convention") and report.digests:
        report = _replayed(report, asked, settings, limit, watch)
    return report


@contextmanager
def _running(
    asked: Request, limit: float, watch: Callable[[str], None]
) -> Iterator[tuple[Candidate, Callable[[str], None], Remote | None]]:
    """The candidate, what is to be told how far the check is, and the other end. A program is a process of its own."""
    if asked.command:
        try:
            candidate = asked.candidate()
        except ValueError as error:
            raise Refused(str(error)) from None
        yield candidate, watch, None
        return
    with candidate_there(asked, limit, watch) as (candidate, there):

        def at(what: str) -> None:
            there.at = what
            watch(what)

        yield candidate, at, there


def _written(request: dict[str, Any], candidate: Candidate, report: Report) -> tuple[str, ...]:
    assert report.counterexample is not None
    try:
        followed = wanted(request).following(report.conventions)
        return failing_case.write(Path(request["out"]), candidate, report.counterexample, followed)
    except OSError as error:
        raise Refused(f"--out: {request['out']} cannot be written, {error.strerror}") from None


def _replayed(report: Report, asked: Request, settings: Settings, limit: float, watch: Callable[[str], None]) -> Report:
    order, other = list(report.digests), []
    random.Random(1).shuffle(order)
    try:
        with _running(asked, limit, watch) as (found, at, _):
            candidate = asked.following(report.conventions).applied(found)
            for key in order:
                index, dtype = key.split()
                at(f"case {index} in {dtype}, in a fresh process")
                if _digest(candidate, settings, int(index), dtype) != report.digests[key]:
                    other.append(key)
    except Ended as ended:
        row = Property(FRESH, len(order), 1, ended.finding.say())
        return replace(report, verdict="wrong", rows=(*report.rows, row), findings=(ended.finding,))
    what = f"case {other[0].replace(' ', ' in ')} has another answer" if other else ""
    rows = (*report.rows, Property(FRESH, len(order), len(other), what))
    if not other:
        return replace(report, rows=rows)
    case, dtype = other[0].split()
    finding = Finding("other_answer_in_fresh_process", numbers={"case": case, "dtype": dtype})
    return replace(report, verdict="wrong", rows=rows, findings=(finding,))


def _digest(candidate: Candidate, settings: Settings, index: int, dtype: str) -> str:
    """Of one case's answer; nothing where there is none."""
    try:
        case, _ = draw(candidate, settings, index)
        return digest(run(candidate.implementation, candidate.op, case.rounded(PRECISIONS[dtype]), dtype))
    except NotOffered:
        return ""
    except BaseException as error:  # a candidate may raise anything
        reraise_interrupt(error)
        return ""


def _fails(script: str, limit: float) -> bool:
    """Whether a counterexample fails in a process of its own too."""
    with started((script,), (), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(SLOWER * limit) != 0
        except subprocess.TimeoutExpired:
            return True


def _broken(request: dict[str, Any], finding: Finding) -> Report:
    spec, like = request["candidate"]["spec"], request["candidate"]["like"]
    return Report(spec, like, "", "", "wrong", findings=(finding,))


def wanted(request: dict[str, Any]) -> Request:
    told = request["candidate"]
    return Request(**told | {name: tuple(told[name]) for name in ("options", "without")})


def settings_of(request: dict[str, Any]) -> Settings:
    told = request["settings"]
    dtypes = tuple(told["dtypes"]) if told["dtypes"] else None
    return Settings(**told | {"dtypes": dtypes, "accept": tuple(told["accept"])})


# What is judged where it runs: laws without a reference, the dojo's katas


def _laws(request: dict[str, Any], limit: float, watch: Callable[[str], None]) -> Report:
    message, _ = run_worker(request, limit, watch)
    if "error" in message:
        raise Refused(message["error"])
    return Report.from_json(message["report"])


def run_worker(
    request: dict[str, Any], limit: float, watch: Callable[[str], None], worker_module: str = WORKER
) -> tuple[dict[str, Any], int]:
    """The worker's last message, and how many bytes the candidate printed. Ended if the worker dies or is silent."""
    ours, theirs = os.pipe()
    with tempfile.TemporaryFile() as out, os.fdopen(ours, "rb", buffering=0) as messages:
        streams = {"stdin": subprocess.PIPE, "stdout": out, "stderr": subprocess.STDOUT}
        with started(("-m", worker_module), (theirs,), **streams) as worker:
            os.close(theirs)
            assert worker.stdin is not None
            worker.stdin.write((json.dumps(request) + "\n").encode())
            worker.stdin.close()
            message = _listen(worker, messages, limit, watch)
        return message, out.seek(0, os.SEEK_END)


def _listen(
    worker: subprocess.Popen[bytes], messages: Any, limit: float, watch: Callable[[str], None]
) -> dict[str, Any]:
    """The message that ends it. Ended if the worker dies, writes rubbish, or says nothing for too long."""
    at, rest = "import", b""
    while True:
        _wait(worker, messages, limit, at)
        chunk = messages.read(1 << 16)
        if not chunk:
            raise Ended(Finding("ends_process", numbers={"how": how_it_ended(worker), "at": at}))
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            try:
                message: dict[str, Any] = dict(json.loads(line))
            except (ValueError, TypeError):
                raise Ended(Finding("writes_rubbish", numbers={"at": at})) from None
            if "at" not in message:
                return message
            at = str(message["at"])
            watch(at)


def _wait(worker: subprocess.Popen[bytes], messages: Any, limit: float, at: str) -> None:
    """Until there is something to read. The pipe may stay open although the worker is gone: its children hold it."""
    allowed = limit * (SLOWER if at.startswith(("import", "diagnosis")) else 1)
    last, still = time.monotonic() + allowed, Stillness(worker.pid)
    with selectors.DefaultSelector() as waiting:
        waiting.register(messages, selectors.EVENT_READ)
        while not waiting.select(min(TICK, max(0.0, last - time.monotonic()))):
            if worker.poll() is not None and not waiting.select(0):
                raise Ended(Finding("ends_process", numbers={"how": how_it_ended(worker), "at": at}))
            if time.monotonic() >= last:
                raise Ended(Finding("hangs", numbers={"seconds": allowed, "at": at}))
            if at == "import" and still.seconds() >= limit:
                raise Ended(Finding("hangs", numbers={"seconds": limit, "at": at}))
