"""What sequential means: one step after the other, where attention takes all at once but pays for every pair."""

from __future__ import annotations

from benchmarks.rows import Sizes
from benchmarks.suites import Scale
from benchmarks.work import Work

MODEL: Sizes = {"B": 4, "H": 4, "c": 32, "d": 128, "L": 1, "v": 256, "dropout": 0.0}


def works(scale: Scale) -> list[Work]:
    B, n, d = (2, 8, 8) if scale.quick else (32, 256, 384)
    if scale.asked:
        return []
    found = [Work("recurrence", "rnn", "forward+backward", {"B": B, "n": n, "d": d, "k": d}, "float32")]
    lengths = (8, 16) if scale.quick else (16, 64, 256, 1024) if scale.full else (16, 64, 256)
    small: Sizes = {"B": 1, "H": 2, "c": 4, "d": 8, "L": 1, "v": 32, "dropout": 0.0} if scale.quick else MODEL
    for each in lengths:
        plain = {name: small[name] for name in ("B", "d", "v")}
        found.append(Work("recurrence", "rnn_step", "step", plain | {"n": each}, "float32"))
        found.append(Work("recurrence", "gpt_step", "step", small | {"n": each}, "float32"))
    return found
