"""What may stand in a formula in the place of a number, of another line, or of an array of ids or of truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.editing import Editing
from equivalence_tests.diagnosis.other import Change


def _leading(x: Any, index: Any) -> Any:
    """One sample (or sequence) for all of them."""
    return x.moved(lambda v: np.broadcast_to(v[index], v.shape) if v.ndim > 2 else v)


def _mean_of_samples(x: Any) -> Any:
    def mean(v: Array) -> Array:
        axes = tuple(range(v.ndim - 1))
        return np.broadcast_to(v.mean(axes, keepdims=True), v.shape)

    return x.moved(mean)


def _through_softmax(x: Any, stage: Editing) -> Any:
    """A gradient that goes through the softmax's backward once more."""
    P = stage.lines[next((name for name in ("P", "A", "exp(Y)") if name in stage.lines), "A")]
    P = P.moved(lambda v: v.reshape(x.value.shape))
    return P * (x - (P * x).sum(-1, keepdims=True))


OF_A_NUMBER: dict[str, Change] = {
    "its square": lambda x, _: x * x,
    "its inverse": lambda x, _: 1.0 / x,
    "its root": lambda x, _: x.sqrt(),
    "tanh of it": lambda x, _: x.tanh(),
    "exp of it": lambda x, _: x.exp(),
    "its logarithm": lambda x, _: x.log(),
    "1 + it": lambda x, _: 1.0 + x,
    "1 - it": lambda x, _: 1.0 - x,
    "1 - its square": lambda x, _: 1.0 - x * x,
    "it (1 - it)": lambda x, _: x * (1.0 - x),
    "1 over the size of its last axis": lambda x, _: x._new(np.full(x.value.shape, 1.0 / max(x.value.shape[-1], 1))),
    "its positive part": lambda x, _: x.where(x.value > 0),
    "its sign": lambda x, _: x._new(np.sign(x.value)),
    "it, clipped to [-1, 1]": lambda x, _: x.moved(lambda v: np.clip(v, -1.0, 1.0)),
    "it twice": lambda x, _: x * 2.0,
    "half of it": lambda x, _: x * 0.5,
    "it, through the softmax's backward": _through_softmax,
}


def _one_sample(x: Any, which: int) -> Any:
    """One sample alone; of the others nothing is left."""

    def alone(v: Array) -> Array:
        if v.ndim < 3:
            return v
        flat = v.reshape(-1, *v.shape[-2:])
        kept = np.zeros_like(flat)
        kept[which] = flat[which]
        return kept.reshape(v.shape)

    return x.moved(alone)


OF_ANOTHER_LINE: dict[str, Callable[[Any], Any]] = {
    "1 - {}": lambda x: 1.0 - x,
    "1 + {}": lambda x: 1.0 + x,
    "{}^2": lambda x: x * x,
    "1 - {}^2": lambda x: 1.0 - x * x,
    "1 - tanh({})^2": lambda x: 1.0 - x.tanh() * x.tanh(),
    "{} (1 - {})": lambda x: x * (1.0 - x),
    "tanh({})": lambda x: x.tanh(),
    "exp({})": lambda x: x.exp(),
    "1/{}": lambda x: 1.0 / x,
}
# Rows in another order: said as an axis or operand that is mixed up.
OF_ROWS: dict[str, Change] = {
    "its rows in reverse order": lambda x, _: x.moved(lambda v: v[..., ::-1, :] if v.ndim > 1 else v),
    "its rows moved on by one": lambda x, _: x.moved(lambda v: np.roll(v, 1, -2) if v.ndim > 1 else v),
    "its rows moved back by one": lambda x, _: x.moved(lambda v: np.roll(v, -1, -2) if v.ndim > 1 else v),
}
OF_LEADING_AXES: dict[str, Change] = {
    "the first": lambda x, _: _leading(x, np.s_[:1]),
    "the last": lambda x, _: _leading(x, np.s_[-1:]),
    "the mean": lambda x, _: _mean_of_samples(x),
    "the first head": lambda x, _: x.moved(lambda v: np.broadcast_to(v[..., :1, :, :], v.shape) if v.ndim > 2 else v),
    "the sum over them": lambda x, _: x.moved(
        lambda v: np.broadcast_to(v.sum(tuple(range(v.ndim - 2)), keepdims=True), v.shape) if v.ndim > 2 else v
    ),
    "the last row": lambda x, _: x.moved(
        lambda v: np.where(np.arange(v.shape[-2])[:, None] == v.shape[-2] - 1, v, 0) if v.ndim > 1 else v
    ),
    "the first row": lambda x, _: x.moved(
        lambda v: np.where(np.arange(v.shape[-2])[:, None] == 0, v, 0) if v.ndim > 1 else v
    ),
    "the first sample": lambda x, _: _one_sample(x, 0),
    "the last sample": lambda x, _: _one_sample(x, -1),
    "the reshaped": lambda x, _: x.moved(lambda v: np.swapaxes(v, -1, -2).reshape(v.shape) if v.ndim > 1 else v),
}
OF_AN_ARRAY: dict[str, Change] = {
    "not it": lambda x, _: ~x,
    "all of it": lambda x, _: np.ones_like(x),
    "its transpose": lambda x, _: np.swapaxes(x, -1, -2),
    "it, moved on by one": lambda x, _: np.roll(x, -1, -1),
    "nothing": lambda x, _: np.zeros_like(x),
    "that of all rows in each": lambda x, _: np.broadcast_to(x.max(0, keepdims=True), x.shape),
}
OF_THE_ORDER: dict[str, Change] = {
    "it, read by columns": lambda x, _: x.ravel(order="F").reshape(x.shape),
}


def _outside(map_: str, upstream: str, total: str) -> Change:
    """A dA - sum(A dA), where A (dA - sum(A dA)) is meant."""
    return lambda _, stage: stage.line(map_) * stage.line(upstream) - stage.line(total)


def _square_for_cube(u: Any, stage: Editing) -> Any:
    X = stage.line("X")
    return u - (X * X * (X - 1.0)) * (0.044715 * np.sqrt(2 / np.pi))


# Whole lines as they are often written wrongly.
OF_LINES: dict[str, dict[str, Change]] = {
    "dS": {"A dA - delta, with the factor A inside": _outside("A", "dA", "delta")},
    "u": {"a square in place of the cube": _square_for_cube},
}
