"""From which size on a GPU wins: the same work at growing sizes, and the copies there and back, timed apart."""

from __future__ import annotations

from benchmarks.rows import Sizes
from benchmarks.suites import Scale
from benchmarks.suites.train import BAR, SMALL, TINY
from benchmarks.work import Work

COPIES = ("copy to device", "copy to host")


def works(scale: Scale) -> list[Work]:
    lengths = (8, 16) if scale.quick else (16, 64, 256, 1024)
    sizes: list[Sizes] = [{"B": 1, "H": 8, "n": n, "c": 4 if scale.quick else 64} for n in lengths]
    if scale.asked:
        sizes = list(scale.asked)
    extra = {"causal": scale.causal}
    found = [
        Work("crossover", "attention", part, each, "float32", extra=extra)
        for each in sizes
        for part in ("forward+backward", *COPIES)
    ]
    if scale.quick or scale.asked:
        return found
    steps = [TINY, SMALL, *([BAR] if scale.full else [])]
    return found + [
        Work("crossover", "gpt_step", part, each, "float32") for each in steps for part in ("step", *COPIES)
    ]
