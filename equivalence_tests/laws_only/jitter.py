"""Arrays whose every computed result is off by about a unit of roundoff, each element at random.

A function that is run on them rounds every one of its lines in another way, so its answers spread as far as its rounding
can move them. What only moves, selects or compares numbers stays exact, and 0 stays 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# fmt: off
EXACT = frozenset((  # ufuncs that only move, select or compare
    "maximum", "minimum", "fmax", "fmin", "negative", "positive", "absolute", "fabs", "sign", "conjugate", "floor",
    "ceil", "rint", "trunc", "copysign", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "isfinite", "isnan", "isinf", "signbit", "logical_and", "logical_or", "logical_not",
))
# fmt: on
PRODUCTS = frozenset(("dot", "einsum", "inner", "tensordot", "vdot", "outer"))  # that are no ufuncs


def jittering(rng: np.random.Generator) -> type[np.ndarray[Any, Any]]:
    """A class of arrays that jitter by this generator: give a function `X.view(jittering(rng))`."""

    def jittered(value: Any) -> Any:
        dtype = getattr(value, "dtype", None)
        if dtype is None or dtype.kind not in "fc":
            return value
        unit = float(np.finfo(dtype).eps) / 2.0
        factor = 1.0 + unit * rng.uniform(-2.0, 2.0, np.shape(value))
        return np.asarray(value * factor).astype(dtype)[()] if np.ndim(value) == 0 else (value * factor).astype(dtype)

    class Jittering(np.ndarray[Any, Any]):
        def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
            out = keywords.pop("out", None)
            if out is not None:
                keywords["out"] = tuple(_plain(each) for each in out)
            keywords = {name: _plain(each) if name == "where" else each for name, each in keywords.items()}
            result = getattr(ufunc, method)(*map(_plain, inputs), **keywords)
            if result is None:  # ufunc.at works in place
                return None
            exact = ufunc.__name__ in EXACT
            if out is None:
                return viewed(result if exact else each_of(result, jittered))
            for each in out:
                if not exact and each is not None:
                    base = _plain(each)
                    base[...] = jittered(base)
            return out[0] if len(out) == 1 else out

        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            result = super().__array_function__(func, types, args, kwargs)
            return viewed(each_of(result, jittered) if func.__name__ in PRODUCTS else result)

    def each_of(value: Any, change: Any) -> Any:
        return tuple(change(each) for each in value) if isinstance(value, tuple) else change(_plain(value))

    def viewed(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(viewed(each) for each in value)
        return value.view(Jittering) if isinstance(value, np.ndarray) else value

    return Jittering


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value


def jitters(value: Any, cls: type[np.ndarray[Any, Any]]) -> Any:
    """A floating-point array over the same memory that jitters; anything else as it is."""
    return value.view(cls) if isinstance(value, np.ndarray) and value.dtype.kind in "fc" else value
