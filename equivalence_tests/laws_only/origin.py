"""The line of a user's code in which the first NaN arises, and the first infinity: the code runs again, line by line."""

from __future__ import annotations

import inspect
import linecache
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

DEPTH = 3  # of nests that are looked into


@dataclass(frozen=True)
class Line:
    number: int
    text: str


@dataclass
class Origin:
    """Watches the functions of some files. `nan` and `infinite` are the first lines that made such a number."""

    files: set[str]
    nan: Line | None = None
    infinite: Line | None = None
    at: dict[int, int] = field(default_factory=dict)  # by frame, the line that runs
    known: dict[int, set[tuple[str, int]]] = field(default_factory=dict)  # by frame, what is not finite already

    def trace(self, frame: FrameType, event: str, value: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        key = id(frame)
        if event == "call":
            self.known[key] = {(name, id(each)) for name, each in frame.f_locals.items() if any(_bad(each))}
        elif key in self.at:
            self._look(frame, value if event == "return" else None)
        self.at[key] = frame.f_lineno
        return self.trace

    def _look(self, frame: FrameType, returned: Any) -> None:
        """What the line that ran has made."""
        values = {**frame.f_locals, "return": returned}
        for name, value in values.items():
            nan, infinite = _bad(value)
            if not (nan or infinite) or (name, id(value)) in self.known[id(frame)]:
                continue
            self.known[id(frame)].add((name, id(value)))
            number = self.at[id(frame)]
            line = Line(number, linecache.getline(frame.f_code.co_filename, number).strip())
            self.nan = self.nan or (line if nan else None)
            self.infinite = self.infinite or (line if infinite else None)


def origin_of(call: Callable[[], Any], functions: Iterable[Any]) -> Origin:
    """Run a call of these functions, and see where in their files the first numbers arise that are not finite."""
    codes = (getattr(inspect.unwrap(function), "__code__", None) for function in functions)
    origin = Origin({code.co_filename for code in codes if code is not None})
    before = sys.gettrace()
    sys.settrace(origin.trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return origin


def _bad(value: Any, depth: int = DEPTH) -> tuple[bool, bool]:
    """Whether a value holds NaN, and whether it holds an infinity."""
    if isinstance(value, float):
        return math.isnan(value), math.isinf(value)
    if isinstance(value, tuple | list | dict) and depth:
        each = value.values() if isinstance(value, dict) else value
        found = [_bad(one, depth - 1) for one in each]
        return any(nan for nan, _ in found), any(infinite for _, infinite in found)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fc":
        return bool(np.isnan(value).any()), bool(np.isinf(value).any())
    return False, False
