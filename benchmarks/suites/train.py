"""Training steps, the loss and all gradients: from a model that a loop's overhead rules to the source's own."""

from __future__ import annotations

from benchmarks.rows import Sizes
from benchmarks.suites import Scale
from benchmarks.work import Work

TINY: Sizes = {"B": 1, "H": 2, "n": 16, "c": 8, "d": 16, "L": 1, "v": 64, "dropout": 0.0}
SMALL: Sizes = {"B": 4, "H": 4, "n": 64, "c": 32, "d": 128, "L": 2, "v": 1000, "dropout": 0.0}
BAR: Sizes = {"B": 8, "H": 6, "n": 256, "c": 64, "d": 384, "L": 6, "v": 8000, "dropout": 0.0}
SOURCE: Sizes = BAR | {"B": 32, "v": 60_198}
DROPOUT = 0.1


def works(scale: Scale) -> list[Work]:
    if scale.quick:
        return [_gpt(TINY), _rnn(1, 16, 16, 64)]
    if scale.asked:
        return [_gpt(BAR | each | {"d": each["H"] * each["c"]}) for each in scale.asked]
    found = [
        _gpt(TINY),
        _gpt(BAR),
        _gpt(SMALL),
        _gpt(SMALL | {"dropout": DROPOUT}),
        _rnn(4, 64, 128, 1000),
        _rnn(8, 128, 384, 8000),
    ]
    if scale.full:
        found += [_gpt(BAR | {"dropout": DROPOUT}), _gpt(BAR, "bfloat16"), _gpt(BAR, "tf32")]
        found += [_gpt(SOURCE), _rnn(32, 256, 384, 60_198)]
    return found


def _gpt(sizes: Sizes, dtype: str = "float32") -> Work:
    return Work("train", "gpt_step", "step", sizes, dtype)


def _rnn(B: int, n: int, d: int, v: int) -> Work:
    return Work("train", "rnn_step", "step", {"B": B, "n": n, "d": d, "v": v}, "float32")
