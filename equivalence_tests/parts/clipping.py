"""Laws of clipping by the global norm."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array
from equivalence_tests.laws.common import differs, first
from equivalence_tests.parts._guard import told
from equivalence_tests.parts._part import Law
from equivalence_tests.refusals import _refused

Arrays = dict[str, Array]
SHAPES = {"embedding.weight": (5, 3), "head.bias": (4,), "kernel": (2, 3, 4), "scalar": (), "none": (0, 3)}


def _gradients(dtype: str, size: float = 1.0, seed: int = 7) -> Arrays:
    rng = np.random.default_rng(seed)
    grads = {name: np.asarray(size * rng.standard_normal(shape), dtype) for name, shape in SHAPES.items()}
    grads["head.bias"] *= 1e-3  # one tensor far below the others
    return grads


def _exact_norm(grads: Arrays) -> Any:
    scale = max(np.abs(g).max(initial=0.0) for g in grads.values()).astype(ORACLE)
    return scale * np.sqrt(sum(((g.astype(ORACLE) / scale) ** 2).sum() for g in grads.values()))


def clips_by_one_norm_over_all(clip_gradients: Any) -> str:
    """norm, and grads * min(1, max_norm / (norm + 1e-6)), from norms far below the limit to far above."""
    for dtype in ("float64", "float32"):
        u, tiny = PRECISIONS[dtype].unit, PRECISIONS[dtype].tiny
        for size in (1e-30, 1e-3, 0.3, 1.0, 30.0, 1e25):
            for max_norm in (0.5, 1.0, 7.0):
                grads = _gradients(dtype, size)
                exact = _exact_norm(grads)
                clipped, norm = clip_gradients(copy.deepcopy(grads), max_norm)
                terms = sum(g.size for g in grads.values())
                share = (terms + 8) * u  # a sum of so many squares, its root, one division, at most so many roundings
                what = f"norm of {size:g} ({dtype})"
                if type(norm) is not float or clipped.keys() != grads.keys():
                    return f"{what} came as a {type(norm).__name__} beside {sorted(clipped)}"
                factor = min(ORACLE(1), max_norm / (exact + ORACLE(1e-6)))
                wrong = differs(what, np.asarray(norm), exact, share * exact) or first(
                    differs(
                        f"{name} of {what}", clipped[name].astype(ORACLE), g * factor, share * abs(g * factor) + tiny
                    )
                    for name, g in grads.items()
                )
                if wrong:
                    return wrong
                if any(type(g) is not np.ndarray or g.dtype != dtype for g in clipped.values()):
                    return f"{what} is clipped into something else than arrays of {dtype}"
    return ""


def gives_the_right_values_of_a_report(clip_gradients: Any) -> str:
    """CLP-01, with torch's factor: 1 / (5 + 1e-6)."""
    clipped, norm = clip_gradients({"a": np.array([3.0, 0.0]), "b": np.array([4.0])}, 1.0)
    right = {"a": np.array([0.59999988, 0.0]), "b": np.array([0.79999984])}
    return differs("norm", np.asarray(norm), 5.0, 0.0) or first(
        differs(name, clipped[name], x, 5e-9) for name, x in right.items()
    )


def leaves_small_gradients_as_they_are(clip_gradients: Any) -> str:
    """Below the limit nothing changes, not a bit; 0 has the norm 0."""
    for size in (0.0, 5e-324, 1e-200, 1e-3):
        grads = _gradients("float64", size)
        clipped, norm = clip_gradients(copy.deepcopy(grads), 1.0)
        if any(clipped[name].tobytes() != g.tobytes() for name, g in grads.items()):
            return f"gradients of {size:g} have changed"
        if (norm == 0.0) != all((g == 0).all() for g in grads.values()):
            return f"the norm of gradients of {size:g} is {norm}"
    return ""


def never_overflows(clip_gradients: Any) -> str:
    """Squares beyond the format, in float32 and in float64, and squares below it."""
    for dtype, size in (("float32", 1e38), ("float32", 1e-38), ("float64", 1e300), ("float64", 1e-300)):
        grads = {"a": np.full((3, 4), size, dtype), "b": np.full(4, -size, dtype)}
        exact = float(grads["a"][0, 0]) * 4.0
        _, norm = clip_gradients(grads, 1.0)
        wrong = differs(f"norm of 16 times {size:g}", np.asarray(norm), exact, 20 * PRECISIONS[dtype].unit * exact)
        if wrong:
            return wrong
    return ""


def returns_new_arrays(clip_gradients: Any) -> str:
    """grads do not change, above the limit or below; what comes back shares no memory with them."""
    for size in (1e-3, 1e3):
        grads = _gradients("float64", size)
        before = copy.deepcopy(grads)
        clipped, _ = clip_gradients(grads, 1.0)
        if clipped is grads or any(grads[name].tobytes() != g.tobytes() for name, g in before.items()):
            return "the gradients that came have changed"
        if any(np.shares_memory(clipped[name], g) for name, g in grads.items()):
            return "what comes back shares memory with what came"
    return ""


def counts_a_tied_array_once(clip_gradients: Any) -> str:
    """One gradient under two names is one array, before and after; two that are merely equal are two."""
    g = np.array([3.0, 4.0])
    tied, equal = clip_gradients({"a": g, "b": g}, 1.0), clip_gradients({"a": g, "b": g.copy()}, 1.0)
    if tied[0]["a"] is not tied[0]["b"]:
        return "the tied array has come apart"
    exact = math.sqrt(50.0)
    return differs("norm of a tied array", np.asarray(tied[1]), 5.0, 0.0) or differs(
        "norm of two equal arrays", np.asarray(equal[1]), exact, 4 * 2.0**-53 * exact
    )


def _wrong_clips() -> Iterator[tuple[str, str, type[Exception], Any, Any]]:
    good = {"a": np.array([3.0, 0.0]), "b": np.array([4.0])}
    for x, error in (
        (0.0, ValueError),
        (-1.0, ValueError),
        (math.nan, ValueError),
        ("1", TypeError),
        (None, TypeError),
    ):
        yield f"max_norm = {x!r}", "max_norm", error, good, x
    for number in (math.nan, math.inf, -math.inf):
        yield f"a gradient of {number}", "grads", ValueError, {**good, "b": np.array([1.0, number])}, 1.0
        yield f"a first gradient of {number}", "grads", ValueError, {"0": np.array([number, 1.0]), **good}, 1.0
    yield "a norm beyond float64", "grads", ValueError, {"a": np.full(4, 1.7e308)}, 1.0
    for what, value in (
        ("a list", [1.0]),
        ("integers", np.ones(2, int)),
        ("float16", np.ones(2, np.float16)),
        ("None", None),
    ):
        yield f"{what} for an array", "grads", TypeError, {**good, "b": value}, 1.0
    yield "a list for a dict", "grads", TypeError, [np.ones(2)], 1.0


def refuses_what_has_no_norm(clip_gradients: Any) -> str:
    """CLP-02: a norm that is not finite is never clipped in silence."""
    return first(
        _refused(what, argument, error, partial(clip_gradients, grads, max_norm))
        for what, argument, error, grads, max_norm in _wrong_clips()
    )


PARTS: dict[str, tuple[Law, ...]] = {
    "clip_gradients": told(
        clips_by_one_norm_over_all,
        gives_the_right_values_of_a_report,
        leaves_small_gradients_as_they_are,
        never_overflows,
        returns_new_arrays,
        counts_a_tied_array_once,
        refuses_what_has_no_norm,
    ),
}
