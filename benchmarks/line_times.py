"""Where the time of one call goes, line by line: from each line's beginning to the next line's, in one thread.

A sampler would miss what is short, and wrapped functions what is no function: a product is an operator here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

Line = tuple[str, str, int]  # file, function, number


def line_times(call: Callable[[], object], folder: Path) -> tuple[float, dict[Line, float]]:
    """The seconds of the call, and of every line of the files in the folder; what a line calls elsewhere is its own."""
    inside = str(folder)
    seconds: dict[Line, float] = {}
    elsewhere: Line = ("", "", 0)
    at, since = elsewhere, 0.0

    def goes_to(line: Line) -> None:
        nonlocal at, since
        now = time.perf_counter()
        seconds[at] = seconds.get(at, 0.0) + now - since
        at, since = line, time.perf_counter()  # the time of this function is nobody's

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(inside):
            return None
        if event == "return":
            caller = frame.f_back
            while caller is not None and not caller.f_code.co_filename.startswith(inside):
                caller = caller.f_back
            back = (caller.f_code.co_filename, caller.f_code.co_qualname, caller.f_lineno) if caller else elsewhere
            goes_to(back)
        else:
            goes_to((code.co_filename, code.co_qualname, frame.f_lineno))
        return trace

    before = sys.gettrace()
    since = began = time.perf_counter()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    goes_to(elsewhere)
    return time.perf_counter() - began, seconds
