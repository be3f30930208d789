"""Decoding: one token after the other, with the keys and values kept and without."""

from __future__ import annotations

from benchmarks.rows import Sizes
from benchmarks.suites import Scale
from benchmarks.work import Work

TINY: Sizes = {"B": 1, "H": 2, "n": 4, "c": 8, "d": 16, "L": 1, "v": 64}
SMALL: Sizes = {"B": 1, "H": 6, "n": 32, "c": 64, "d": 384, "L": 6, "v": 8000}
GPT2: Sizes = {"B": 1, "H": 12, "n": 32, "c": 64, "d": 768, "L": 12, "v": 50_257}  # 124 million parameters


def works(scale: Scale) -> list[Work]:
    if scale.quick:
        return [_work(TINY, 4, cache) for cache in (True, False)]
    if scale.asked:
        return [_work(SMALL | each | {"d": each["H"] * each["c"]}, 16, True) for each in scale.asked]
    found = [_work(SMALL, 16, cache) for cache in (True, False)]
    found.append(_work(GPT2, 64 if scale.full else 8, True, tied=True))
    return [*found, _work(GPT2, 64, False, tied=True)] if scale.full else found


def _work(sizes: Sizes, tokens: int, cache: bool, tied: bool = False) -> Work:
    extra = {"tokens": tokens, "cache": cache} | ({"tied": True} if tied else {})
    return Work("generate", "generate", "generate", sizes, "float32", extra=extra)
