"""A candidate in a process of its own, as the judge sees it: an implementation whose calls are answered over there.

The judge never imports the candidate's code, and what comes back is plain bytes: nothing that the candidate does to NumPy
or to Python changes how its answers are judged.
"""

from __future__ import annotations

import inspect
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

from equivalence_tests import wire
from equivalence_tests.arithmetic import Bounded
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Answer, Implementation, NotOffered, Raised, printable
from equivalence_tests.misconduct import SENTENCES as RULES
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.observe import Observation
from equivalence_tests.ops import OPS, Op
from equivalence_tests.process import TICK, Ended, Stillness, how_it_ended, started
from equivalence_tests.request import Request

WORKER = "equivalence_tests.candidate_worker"
SLOW = ("describe", "own_line")
TRACED = 12  # wrong cases among which the smallest are traced
SLOWER = 6  # an import, and a library's first compilation in it, may take so many times the limit of one call


class Refused(Exception):
    """The candidate cannot be judged: one line that says why."""


@dataclass
class Remote:
    """The other end. `limit` is the number of seconds that one request may take; `at` says what it is asked for."""

    process: subprocess.Popen[bytes]
    requests: int
    answers: int
    output: Any
    limit: float
    at: str = "import"

    def run(self, op: Op, case: Case, dtype: str) -> Answer:
        answer: Answer = self.ask("run", _told(op), case, dtype)
        return answer

    def conduct(self, _: Implementation, op: Op, case: Case, exact: dict[str, Bounded], dtype: str) -> Any:
        """As checks.conduct, over there: memory and what is written into it cannot be seen from here."""
        budgets = {name: truth.budget() for name, truth in exact.items()}
        told = self.ask("conduct", _told(op), case, budgets, dtype)
        if told is None:
            return None
        if not isinstance(told, list) or len(told) != 3 or told[0] not in RULES:
            raise Ended(Finding("writes_rubbish", numbers={"at": self.at}))
        return Misconduct(*(printable(str(each)) for each in told))

    def own_line(self, candidate: Candidate, wrong: Sequence[Observation]) -> list[Finding]:
        """The line of the user's file in which the mistake is, from a few wrong cases: traced over there."""
        habits = [[habit.name, habit.numbers] for habit in candidate.habits]
        cases = [[each.case, each.dtype] for each in wrong[:TRACED]]
        return _findings(self.ask("own_line", habits, cases))

    def notes(self) -> list[Finding]:
        """How the candidate was called."""
        return _findings(self.ask("notes"))

    def forward_raises(self, case: Case) -> bool:
        return bool(self.ask("forward_raises", case))

    def law(self, op: str, name: str, dtype: str) -> Any:
        return self.ask("law", op, name, dtype)

    @property
    def printed(self) -> int:
        """The bytes that went past Python's own standard output."""
        size: int = self.output.seek(0, os.SEEK_END)
        return size

    def ask(self, name: str, *values: Any) -> Any:
        """The answer. NotOffered and Raised as over there; Ended if the process is gone, silent, or writes rubbish."""
        last = time.monotonic() + self.limit * (SLOWER if name in SLOW else 1)
        still = Stillness(self.process.pid) if name == "describe" else None
        self._send(wire.pack((name, *values)), last)
        try:
            told, arrays = wire.lengths(self._receive(wire.HEAD.size, last, still))
            answer = wire.unpack(self._receive(told, last, None), self._receive(arrays, last, None))
            if not isinstance(answer, dict):
                raise wire.Junk("this is no answer")
        except wire.Junk:
            raise Ended(Finding("writes_rubbish", numbers={"at": self.at})) from None
        if "value" in answer:
            return answer["value"]
        if "not_offered" in answer:
            raise NotOffered(str(answer["not_offered"]))
        if answer.get("defect"):
            raise Refused(f"this is a defect of gemelos, not of the candidate\n{answer['defect']}")
        raise Raised(str(answer.get("raised")))

    def _send(self, message: bytes, last: float) -> None:
        at = memoryview(message)
        while at:
            self._wait(self.requests, selectors.EVENT_WRITE, last, None)
            try:
                at = at[os.write(self.requests, at) :]  # as many bytes as the pipe takes at once
            except BrokenPipeError:
                raise self._gone() from None

    def _receive(self, count: int, last: float, still: Stillness | None) -> bytes:
        found = bytearray()
        while len(found) < count:
            self._wait(self.answers, selectors.EVENT_READ, last, still)
            chunk = os.read(self.answers, min(count - len(found), 1 << 20))
            if not chunk:
                raise self._gone()
            found += chunk
        return bytes(found)

    def _wait(self, descriptor: int, event: int, last: float, still: Stillness | None) -> None:
        """Until the pipe is ready. It may stay open although the process is gone: what that started may hold it."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(descriptor, event)
            while not waiting.select(min(TICK, max(0.0, last - time.monotonic()))):
                if self.process.poll() is not None and not waiting.select(0):
                    raise self._gone()
                if time.monotonic() >= last or (still is not None and still.seconds() >= self.limit):
                    allowed = self.limit if still is None or time.monotonic() < last else self.limit * SLOWER
                    raise Ended(Finding("hangs", numbers={"seconds": allowed, "at": self.at}))

    def _gone(self) -> Ended:
        return Ended(Finding("ends_process", numbers={"how": how_it_ended(self.process), "at": self.at}))


@contextmanager
def candidate_there(asked: Request, limit: float, watch: Callable[[str], None]) -> Iterator[tuple[Candidate, Remote]]:
    """The candidate that a request names, in a new process. Refused if there is no such candidate."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    os.set_blocking(ours_out, False)
    with tempfile.TemporaryFile() as out:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
        try:
            with started(("-m", WORKER), (theirs_in, theirs_out), **streams) as process:
                os.close(theirs_in)
                os.close(theirs_out)
                there = Remote(process, ours_out, ours_in, out, limit)
                watch(there.at)
                yield _candidate(there, there.ask("describe", asdict(asked))), there
        finally:
            os.close(ours_out)
            os.close(ours_in)


def _told(op: Op) -> list[Any]:
    return [op.name, list(op.differentiable), op.scalar]


def _findings(told: Any) -> list[Finding]:
    """What came as plain values: what can be said, in words that a terminal can show."""
    found = []
    with suppress(ValueError, TypeError, AttributeError, KeyError, IndexError):  # it may have sent anything
        for code, tensor, numbers, sure in told:
            shown = {name: printable(each) if isinstance(each, str) else each for name, each in numbers.items()}
            finding = Finding(str(code), printable(str(tensor)), "", shown, bool(sure))
            finding.say()
            found.append(finding)
    return found


def _candidate(there: Remote, told: dict[str, Any]) -> Candidate:
    if "refused" in told:
        raise Refused(str(told["refused"]))
    name, differentiable, _ = told["op"]
    op = replace(OPS[name], differentiable=tuple(differentiable))
    stub = _stub(told["signature"])
    implementation = Implementation(
        told["fields"]["label"],
        SimpleNamespace(**{name: stub}),
        told["pairs"],
        told["dtypes"],
        told["device"],
        there=there,
    )
    backward = None if told["backward"] is None else _stub(told["backward"])
    return Candidate(op=op, implementation=implementation, backward=backward, **told["fields"])


def _stub(parameters: list[list[Any]]) -> Callable[..., Any]:
    """A function that has the signature of one over there, and cannot be called."""

    def stub(*_: Any, **__: Any) -> Any:
        raise TypeError("this function is in another process")

    made = [
        inspect.Parameter(
            name,
            list(inspect._ParameterKind)[kind],
            default=inspect.Parameter.empty if needed or kind in (2, 4) else None,
        )
        for name, kind, needed in parameters
    ]
    stub.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    return stub
