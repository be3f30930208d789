"""How many known mistakes, written as plain functions of several lines, are placed at the line that was changed."""

from __future__ import annotations

import argparse
import linecache
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.candidate import adapt
from equivalence_tests.own_line import OwnLine, place
from equivalence_tests.own_line.samples import Sample, attentions, others, rows

SAMPLES: tuple[Sample, ...] = (*rows.SAMPLES, *attentions.SAMPLES, *others.SAMPLES)


@dataclass(frozen=True)
class Placed:
    sample: Sample
    number: int
    line: int
    found: OwnLine | None
    seconds: float

    @property
    def right(self) -> bool:
        return self.found is not None and self.found.line == self.line


def functions_of(source: str, file: str) -> dict[str, Any]:
    """What a source defines; its lines can be looked up by the name of the file, though there is none."""
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"__name__": "sample"}
    exec(compile(source, file, "exec"), space)
    return space


def one(sample: Sample, number: int, told: Any = None, seconds: float | None = None) -> Placed:
    source, line = sample.changed(number)
    space = functions_of(source, f"<{sample.name} {number}>")
    functions = [space[sample.like], space.get(f"{sample.like}_backward")]
    candidate = adapt(functions[0], sample.like, backward=functions[1], without=sample.without)
    began = time.process_time()
    with np.errstate(all="ignore"):
        found = place(candidate, told=told)
    return Placed(sample, number, line, found, time.process_time() - began)


def every(samples: Sequence[Sample] = SAMPLES) -> Iterator[Placed]:
    for sample in samples:
        for number in range(len(sample.changes)):
            yield one(sample, number)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m equivalence_tests.own_line.measure", description=__doc__)
    parser.add_argument("words", nargs="*", help="only samples whose name holds one of these")
    given = parser.parse_args(argv)
    chosen = [s for s in SAMPLES if not given.words or any(word in s.name for word in given.words)]
    right = count = accused = 0
    slowest = 0.0
    for placed in every(chosen):
        count += 1
        right += placed.right
        accused += not placed.right and placed.found is not None and placed.found.sure
        slowest = max(slowest, placed.seconds)
        if not placed.right:
            _, new = placed.sample.changes[placed.number]
            where = (
                f"line {placed.found.line}: {placed.found.text} [{placed.found.belongs}]" if placed.found else "nothing"
            )
            print(
                f"{placed.sample.name} {placed.number}: line {placed.line}: {new}\n    {where} ({placed.seconds:.1f} s)",
                flush=True,
            )
    print(f"{right} of {count} placed at the line that was changed, {accused} at another line without a doubt")
    print(f"the slowest took {slowest:.1f} s")
    return 0 if right >= 0.9 * count else 1


if __name__ == "__main__":
    sys.exit(main())
