"""Causal attention over the number of tokens, until the memory ends."""

from __future__ import annotations

from benchmarks.rows import Sizes
from benchmarks.suites import Scale
from benchmarks.work import Work

PARTS = ("forward", "forward+backward")
LONG = 65_536


def works(scale: Scale) -> list[Work]:
    sizes: list[Sizes]
    if scale.asked:
        sizes = list(scale.asked)
    elif scale.quick:
        sizes = [_sizes(2, n, 4) for n in (8, 16)]
    else:
        top = 15 if scale.full else 12
        sizes = [_sizes(8, 2**k, 64) for k in range(6, top) if scale.full or k not in (7, 9)]
        sizes += [_sizes(1, n, 64) for n in (LONG // 2, LONG) if scale.full]
    return [
        Work("attention", "attention", part, each, "float32", extra={"causal": scale.causal})
        for each in sizes
        for part in PARTS
    ]


def _sizes(H: int, n: int, c: int) -> Sizes:
    return {"B": 1, "H": H, "n": n, "c": c}
