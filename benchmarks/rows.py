"""What a benchmark leaves: one row for every work and contestant, and the file that holds them."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = 1
Sizes = dict[str, int | float]
STATUSES = ("ok", "wrong", "out of memory", "no GPU", "not installed", "failed", "interrupted", "too slow")


@dataclass
class Row:
    """One contestant at one work. What was not measured is None, and `status` and `why` say for what reason."""

    suite: str
    work: str  # an op of the table; gpt_step, rnn_step, generate, copy, gemm, ...
    part: str  # forward, backward, forward+backward, step, generate, copy to device, copy to host
    sizes: Sizes
    dtype: str  # float32, float64, bfloat16, tf32
    contestant: str
    device: str = "cpu"
    status: str = "ok"
    why: str = ""  # one sentence, where the status is not ok, or the time was taken otherwise than the others'
    seconds: list[float] = field(default_factory=list)  # sample i of all contestants of a work is of the same round
    median: float | None = None
    minimum: float | None = None
    iqr: float | None = None
    share: float | None = None  # the largest error against float64, in units of the budget, before timing
    share_after: float | None = None  # the same after it
    error: float | None = None  # the largest of max|got - exact| / (u max|exact|) over the tensors
    checked: str = ""  # how it was checked, in words
    peak_bytes: int | None = None  # resident memory of its own process, less what it had before the work was prepared
    flops: float | None = None  # of one run, counted
    bytes: float | None = None
    tokens: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def timed(self, seconds: list[float]) -> None:
        """Take these samples: median, minimum and interquartile range go with them."""
        self.seconds = seconds
        if seconds:
            low, middle, high = np.percentile(seconds, (25, 50, 75))
            self.median, self.minimum, self.iqr = float(middle), min(seconds), float(high - low)

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two rows of two files the same measurement."""
        sizes = tuple(sorted(self.sizes.items()))
        return (self.suite, self.work, self.part, sizes, self.dtype, self.contestant, self.device)


@dataclass
class Results:
    """Everything that one run of the benchmark found, and on what machine. Ceilings are what this machine can do: FLOP/s
    of a large product ("gemm float32 numpy"), bytes/s of a large matrix-vector product ("gemv ...") and copy ("copy ...");
    without a library's name ("gemm float32") they are the best of all."""

    machine: dict[str, Any]
    command: str
    commit: str
    started: str  # ISO 8601
    seconds: float = 0.0
    interrupted: bool = False
    ceilings: dict[str, float] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    schema: int = SCHEMA

    def write(self, path: Path) -> None:
        """Into a file beside it and then over it: whoever reads finds the old one or the new one, whole."""
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(self), file, indent=1, ensure_ascii=False, allow_nan=False)
                file.write("\n")
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def read(path: Path) -> Results:
    """ValueError, in one line, for what is no result file of this schema."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: no JSON file, {error}") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        came = found.get("schema") if isinstance(found, dict) else None
        raise ValueError(f"{path}: no benchmark results, schema {came} came, expected {SCHEMA}")
    rows = [_made(Row, row, path) for row in found.pop("rows", [])]
    results: Results = _made(Results, found, path)
    results.rows = rows
    return results


def _made(kind: type, values: Any, path: Path) -> Any:
    names = {each.name for each in fields(kind)}
    if not isinstance(values, dict) or not set(values) <= names:
        strange = sorted(set(values) - names) if isinstance(values, dict) else type(values).__name__
        raise ValueError(f"{path}: a {kind.__name__} holds {strange}, expected the fields {', '.join(sorted(names))}")
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{path}: a {kind.__name__} is not whole, {error}") from None
