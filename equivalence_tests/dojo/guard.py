"""The learner's code, run under watch: how long it takes, what it prints, what it raises and in which line of the file."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import wraps
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

from equivalence_tests.implementations import one_line

SHOWN = 20  # lines of what the learner prints
LONGEST = 160  # signs of such a line
ALTOGETHER = 4  # times the limit of one call: what all calls together may take


class Printed:
    """Where prints go: counted, and the first lines of the last call kept: that call is the example that is shown."""

    def __init__(self) -> None:
        self.bytes, self._kept = 0, ""

    def write(self, text: str) -> int:
        self.bytes += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        if len(self._kept) < SHOWN * LONGEST:
            self._kept += text[: SHOWN * LONGEST]
        return len(text)

    def start_again(self) -> None:
        """Another call begins."""
        self._kept = ""

    def flush(self) -> None:
        """Nothing waits."""

    @property
    def lines(self) -> list[str]:
        return [line[:LONGEST] for line in self._kept.splitlines()[:SHOWN]]

    def as_json(self) -> dict[str, Any]:
        more = len(self._kept.splitlines()) > SHOWN or len(self._kept) >= SHOWN * LONGEST
        return {"bytes": self.bytes, "lines": self.lines, "more": more}


class Guard:
    """Around every call of the learner's code. `too_long` is told the line that it was at, and does not come back."""

    def __init__(self, path: Path, limit: float, too_long: Callable[[int, float], Any]) -> None:
        self.path, self.limit, self.too_long = path, limit, too_long
        self.printed = Printed()
        self.errors: dict[str, tuple[BaseException, int]] = {}  # by what they say
        self.answers: dict[str, Any] = {}  # the last ones, as they came, by function
        self._spent = 0.0

    def load(self, code: Any) -> ModuleType:
        """The learner's file as a module. Whatever it raises comes through."""
        module = ModuleType(self.path.stem)
        module.__file__ = str(self.path)
        sys.modules[module.__name__] = module
        folder = str(self.path.resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)  # what stands beside it can be imported
        with self._watched():
            exec(code, module.__dict__)
        return module

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, watched. A backward goes on where its forward stopped."""
        begins = not function.__name__.endswith("_backward")

        @wraps(function)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            if begins:
                self.printed.start_again()
            with self._watched():
                answer = function(*arguments, **keywords)
            self.answers[function.__name__] = answer
            return answer

        return watched

    def line_of(self, error: BaseException) -> int:
        """Where in the learner's file an exception came from; 0 if it was not there."""
        return _line(error.__traceback__, str(self.path))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        began = time.monotonic()
        left = max(min(self.limit, ALTOGETHER * self.limit - self._spent), 0.01)
        before = signal.signal(signal.SIGALRM, self._alarm)
        signal.setitimer(signal.ITIMER_REAL, left)
        stream: Any = self.printed
        try:
            with redirect_stdout(stream), redirect_stderr(stream):
                yield
        except BaseException as error:  # kept for its line; who called sees it too
            self.errors.setdefault(one_line(error), (error, self.line_of(error)))
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
            self._spent += time.monotonic() - began

    def _alarm(self, number: int, frame: FrameType | None) -> None:
        line = 0
        while frame is not None and not line:
            line = frame.f_lineno if frame.f_code.co_filename == str(self.path) else 0
            frame = frame.f_back
        self.too_long(line, self.limit)


def _line(trace: TracebackType | None, path: str) -> int:
    found = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
