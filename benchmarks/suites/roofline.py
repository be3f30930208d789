"""The ceilings: a product of 2048 x 2048, a matrix-vector product and a copy that no cache holds."""

from __future__ import annotations

from benchmarks.suites import Scale
from benchmarks.work import Work


def works(scale: Scale) -> list[Work]:
    n, wide, long = (64, 64, 4096) if scale.quick else (2048, 8192, 2**26)
    dtypes = ("float32", "float64") if scale.quick else ("float32", "float64", "tf32", "bfloat16")
    found = [Work("roofline", "gemm", "forward", {"n": n}, dtype) for dtype in dtypes]
    found += [
        Work("roofline", "gemv", "forward", {"n": wide, "d": wide // 2}, dtype) for dtype in ("float32", "float64")
    ]
    return [*found, Work("roofline", "copy", "forward", {"n": long}, "float32")]
