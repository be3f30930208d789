"""Every row of the table: the forward, and forward and backward."""

from __future__ import annotations

from benchmarks.inputs import sizes_of
from benchmarks.suites import Scale
from benchmarks.work import Work
from equivalence_tests.ops import OPS

TINY, SMALL, MEDIUM, LARGE = (  # B, H, n, c, v
    (1, 2, 8, 4, 11),
    (1, 2, 32, 16, 500),
    (2, 6, 128, 64, 2000),
    (16, 6, 256, 64, 8000),
)


def works(scale: Scale) -> list[Work]:
    if scale.asked:
        models = [(*(int(sizes[name]) for name in "BHnc"), 2000) for sizes in scale.asked]
    else:
        models = [TINY] if scale.quick else [SMALL, MEDIUM, *([LARGE] if scale.full else [])]
    found = []
    for op in OPS.values():
        for B, H, n, c, v in models:
            sizes = sizes_of(op.name, B, H, n, c, v)
            extra = {"causal": scale.causal} if "attention" in op.name and op.name != "simple_attention" else {}
            whole = "forward+backward" if op.differentiable else "forward"
            parts = ["forward"] if scale.full and whole != "forward" else []
            found += [Work("ops", op.name, part, sizes, "float32", extra=extra) for part in (*parts, whole)]
    if not scale.quick and not scale.asked:
        found += coarse(scale)
    return found


def coarse(scale: Scale) -> list[Work]:
    """What precision costs and saves: the same product and the same attention in every format."""
    B, H, n, c, v = MEDIUM
    dtypes = ("float64", "tf32", "bfloat16")
    return [
        Work("ops", op, "forward+backward", sizes_of(op, B, H, n, c, v), dtype, extra=extra)
        for op, extra in (("linear", {}), ("attention", {"causal": scale.causal}))
        for dtype in dtypes
    ]
