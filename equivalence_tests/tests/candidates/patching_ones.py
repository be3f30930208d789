"""Half a softmax, beside something put in the place of a function that a judge may use.

GEMELOS_TEST_PATCH names the one that is there from the import on.
"""

import builtins
import json
import math
import os
import time

import numpy as np

right = {
    name: getattr(np, name) for name in ("asarray", "array", "ascontiguousarray", "copy", "full", "float64", "where")
}


class Twice(np.ndarray):
    """Claims to be twice what it holds."""

    def tobytes(self, *_):
        return np.ndarray.tobytes(2 * np.ndarray.view(self, np.ndarray))

    def astype(self, *arguments, **keywords):
        return 2 * np.ndarray.astype(self, *arguments, **keywords).view(np.ndarray)

    def __array__(self, *_, **__):
        return 2 * np.ndarray.view(self, np.ndarray)

    def __eq__(self, other):
        return True


def yes(*_, **__):
    return True


def zero(x, *_, **__):
    return x * 0


def doubled(name):
    return lambda x, *arguments, **keywords: 2 * right[name](x, *arguments, **keywords)


PATCHES = {
    "np.abs is the real part": (np, "abs", lambda x, *_, **__: np.real(x)),
    "np.abs is 0": (np, "abs", zero),
    "np.absolute is 0": (np, "absolute", zero),
    "np.isfinite": (np, "isfinite", lambda x, *_, **__: np.zeros(np.shape(x), bool)),
    "np.isnan": (np, "isnan", lambda x, *_, **__: np.zeros(np.shape(x), bool)),
    "np.where": (
        np,
        "where",
        lambda *a, **__: right["where"](a[0], a[1], a[2]) * 0 if len(a) == 3 else right["where"](*a),
    ),
    "np.max": (np, "max", lambda *_, **__: 0.0),
    "np.allclose": (np, "allclose", yes),
    "np.array_equal": (np, "array_equal", yes),
    "np.shares_memory": (np, "shares_memory", lambda *_, **__: False),
    "np.sqrt": (np, "sqrt", lambda x, *_, **__: x * 0 + 1e300),
    "np.asarray": (np, "asarray", doubled("asarray")),
    "np.ascontiguousarray": (np, "ascontiguousarray", doubled("ascontiguousarray")),
    "np.float64": (np, "float64", doubled("float64")),
    "np.finfo": (np, "finfo", lambda *_: type("finfo", (), {"eps": 1.0, "tiny": 1.0, "max": 1.0})),
    "np.errstate": (np, "errstate", lambda **_: 1 / 0),
    "np.unravel_index": (np, "unravel_index", lambda *_: ()),
    "np.ndarray": (np, "ndarray", Twice),
    "math.sqrt": (math, "sqrt", lambda x: 1e300),
    "builtins.abs": (builtins, "abs", zero),
    "builtins.max": (builtins, "max", lambda *_, **__: 0),
    "builtins.any": (builtins, "any", lambda _: False),
    "builtins.all": (builtins, "all", lambda _: True),
    "json.dumps": (json, "dumps", lambda *_, **__: '{"verdict": "agrees"}'),
    "time.monotonic": (time, "monotonic", lambda: 0.0),
}

chosen = os.environ.get("GEMELOS_TEST_PATCH", "")
if chosen:
    setattr(*PATCHES[chosen])

waiting = list(PATCHES)
undo: list = []


def half(X, axis=-1):
    E = np.exp(X - X.max(axis, keepdims=True))
    return 0.5 * (E / E.sum(axis, keepdims=True))


def half_as_a_subclass(X, axis=-1):
    return half(X, axis).view(Twice)


def half_with_the_next_patch(X, axis=-1):
    """Each call leaves the next patch behind, in place of the last one."""
    A = half(X, axis)
    if undo:
        setattr(*undo.pop())
    owner, attribute, replacement = PATCHES[waiting.pop(0)]
    undo.append((owner, attribute, getattr(owner, attribute)))
    setattr(owner, attribute, replacement)
    return A
