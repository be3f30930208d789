"""What the optimizer and the checkpoints ask of arrays by name, whatever the model: no names or shapes are known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reference_numpy._check import Array, member

MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's m and v, by the names that torch gives them


def check_arrays(op: str, what: str, arrays: Any) -> None:
    """A dict from strings to arrays of float32 or float64, in the byte order of the machine."""
    if not isinstance(arrays, Mapping):
        raise TypeError(f"{op}: {what} is a {type(arrays).__name__}, expected a dict of arrays by name")
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"{op}: {what} has a key of type {type(name).__name__}, expected strings")
        member(op, f"{what}[{name!r}]", array)
        if array.dtype not in (np.float32, np.float64):
            raise TypeError(f"{op}: {what}[{name!r}] has dtype {array.dtype}, expected float32 or float64")


def check_params(op: str, params: Any) -> None:
    """At least one array, all of one dtype."""
    check_arrays(op, "params", params)
    if not params:
        raise ValueError(f"{op}: params is empty, expected at least one array")
    first, one = next(iter(params.items()))
    for name, p in params.items():
        if p.dtype != one.dtype:
            expected = f"{one.dtype} like params[{first!r}]"
            raise TypeError(f"{op}: params[{name!r}] has dtype {p.dtype}, expected {expected}")


def check_alike(op: str, what: str, arrays: Any, params: Mapping[str, Array]) -> None:
    """The names, shapes and dtype of params."""
    check_arrays(op, what, arrays)
    for name in params:
        if name not in arrays:
            raise ValueError(f"{op}: {what} has no {name!r}, expected the names of params")
    for name, array in arrays.items():
        if name not in params:
            raise ValueError(f"{op}: {what} has {name!r}, expected the names of params")
        p = params[name]
        if array.shape != p.shape:
            expected = f"{p.shape} like params[{name!r}]"
            raise ValueError(f"{op}: {what}[{name!r}] has shape {array.shape}, expected {expected}")
        if array.dtype != p.dtype:
            expected = f"{p.dtype} like params[{name!r}]"
            raise TypeError(f"{op}: {what}[{name!r}] has dtype {array.dtype}, expected {expected}")


def check_state(op: str, params: Mapping[str, Array], state: Any) -> None:
    """{} or {"step": at least 1, "exp_avg": ..., "exp_avg_sq": ...} with arrays like those of params."""
    if not isinstance(state, dict):
        raise TypeError(f"{op}: state is a {type(state).__name__}, expected a dict")
    if not state:
        return
    for key in ("step", *MOMENTS):
        if key not in state:
            raise ValueError(f"{op}: state has no {key!r}, expected step, exp_avg and exp_avg_sq, or nothing")
    for key in state:
        if key not in ("step", *MOMENTS):
            raise ValueError(f"{op}: state has {key!r}, expected step, exp_avg and exp_avg_sq alone")
    step = state["step"]
    if not isinstance(step, int) or isinstance(step, bool):
        raise TypeError(f"{op}: state['step'] is a {type(step).__name__}, expected an int")
    if step < 1:
        raise ValueError(f"{op}: state['step'] is {step}, expected at least 1")
    for moment in MOMENTS:
        check_alike(op, f"state[{moment!r}]", state[moment], params)


def check_memory(op: str, written: Mapping[str, Array], read: Mapping[str, Array]) -> None:
    """What is written shares no memory with anything: it would be changed twice, or read when half changed."""
    arrays = {**read, **written}
    spans = sorted((*np.lib.array_utils.byte_bounds(array), label) for label, array in arrays.items() if array.size)
    reaching: list[tuple[int, str]] = []  # the spans that reach beyond the start of the present one
    for start, end, label in spans:
        reaching = [(until, other) for until, other in reaching if until > start]
        for _, other in reaching:
            if (label in written or other in written) and np.shares_memory(arrays[label], arrays[other]):
                raise ValueError(f"{op}: {label} shares memory with {other}, expected an array of its own")
        reaching.append((end, label))
