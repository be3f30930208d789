"""Mistakes in clipping by the global norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import optimizer

Arrays = dict[str, Array]


def _times(g: Array, factor: float, max_norm: float = 0.0) -> Array:
    return np.asarray(g * factor)


def _scaled(grads: Arrays, scale: Callable[[Array], Array]) -> Arrays:
    """Each array once, whatever its names."""
    found = {id(g): scale(g) for g in grads.values()}
    return {name: found[id(g)] for name, g in grads.items()}


def clip_with(norm_of: Callable[[Arrays], float], scale: Callable[..., Array] = _times) -> Callable[..., Any]:
    def clip_gradients(grads: Arrays, max_norm: float) -> tuple[Arrays, float]:
        optimizer.clip_gradients(grads, max_norm)  # refuses what it refuses
        norm = norm_of(grads)
        factor = min(1.0, max_norm / (norm + 1e-6))
        return _scaled(grads, lambda g: scale(g, factor, max_norm)), norm

    return clip_gradients


def _norm(grads: Arrays) -> float:
    """Of the arrays, each counted once."""
    return optimizer.clip_gradients(grads, 1.0)[1]


def always_scaled(grads: Arrays, max_norm: float) -> Any:
    norm = _norm(grads)
    factor = max_norm / (norm + 1e-6)  # wrong: above 1 for small gradients
    return _scaled(grads, lambda g: _times(g, factor)), norm


def norm_without_scale(grads: Arrays) -> float:
    squares = [float((g * g).sum()) for g in {id(g): g for g in grads.values()}.values()]  # wrong: overflows
    return math.sqrt(sum(squares))


def tied_twice(grads: Arrays) -> float:
    return math.hypot(*(_norm({name: g}) for name, g in grads.items()))  # wrong: by name, not by array


def squares_added(grads: Arrays) -> float:
    return sum(_norm({"": g}) for g in {id(g): g for g in grads.values()}.values())  # wrong: not their squares


def largest_entry(grads: Arrays) -> float:
    return max(float(np.abs(g).max(initial=0.0)) for g in grads.values())  # wrong: another norm


def mean_square(grads: Arrays) -> float:
    return _norm(grads) / math.sqrt(max(sum(g.size for g in grads.values()), 1))  # wrong: the mean, not the sum


def clipped_by_value(g: Array, factor: float, max_norm: float) -> Array:
    return np.asarray(np.clip(g, -max_norm, max_norm))  # wrong: bends the direction


def clipped_in_place(g: Array, factor: float, max_norm: float) -> Array:
    g *= factor  # wrong: the caller's
    return g.copy()


def in_float64(g: Array, factor: float, max_norm: float) -> Array:
    return np.asarray(g * np.float64(factor))  # wrong: a NumPy scalar makes float32 float64


def untouched_if_small(g: Array, factor: float, max_norm: float) -> Array:
    return g if factor == 1.0 else np.asarray(g * factor)  # wrong: the caller's own array comes back


def per_tensor(grads: Arrays, max_norm: float) -> Any:
    optimizer.clip_gradients(grads, max_norm)
    return _scaled(grads, lambda g: optimizer.clip_gradients({"": g}, max_norm)[0][""]), _norm(
        grads
    )  # wrong: one by one


def without_epsilon(grads: Arrays, max_norm: float) -> Any:
    norm = _norm(grads)
    factor = min(1.0, max_norm / norm) if norm else 1.0  # wrong: torch adds 1e-6
    return _scaled(grads, lambda g: _times(g, factor)), norm


def norm_after(grads: Arrays, max_norm: float) -> Any:
    clipped, _ = optimizer.clip_gradients(grads, max_norm)
    return clipped, _norm(clipped)  # wrong: what was clipped is to be reported


def silent(grads: Arrays, max_norm: float) -> Any:
    optimizer.clip_gradients({}, max_norm)
    try:
        norm = _norm(grads)
    except ValueError:
        norm = math.inf  # wrong: goes on, and every finite gradient becomes 0
    factor = min(1.0, max_norm / (norm + 1e-6))
    return _scaled(grads, lambda g: _times(g, factor)), norm


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any, source: str = "", accepts: bool = False
) -> Mistake:
    return Mistake(id, "clip_gradients", sentence, hidden_on, shown_by, forward, source=source, accepts=accepts)


MISTAKES = (
    _of("M128", "Small gradients are scaled up.", "a norm above the limit", "a norm below it", always_scaled),
    _of(
        "M129",
        "Entries are clipped, not the norm.",
        "entries below the limit",
        "a norm above it",
        clip_with(_norm, clipped_by_value),
    ),
    _of("M131", "The squares overflow.", "gradients below 1e19", "1e25 in float32", clip_with(norm_without_scale)),
    _of("M132", "A tied array counts twice.", "no tied array", "one gradient under two names", clip_with(tied_twice)),
    _of("CLP-01", "Every tensor has a norm of its own.", "one tensor", "two tensors", per_tensor),
    _of("O20", "The norms are added.", "one tensor", "two tensors", clip_with(squares_added)),
    _of("O21", "The largest entry for the norm.", "one element", "two", clip_with(largest_entry)),
    _of("O22", "The root of the mean square.", "one element", "two", clip_with(mean_square)),
    _of("O23", "max_norm / norm, without 1e-6.", "large norms", "a norm near the limit", without_epsilon),
    _of("O24", "The norm after clipping is returned.", "norms below the limit", "a norm above it", norm_after),
    _of("O25", "grads are clipped in place.", "what comes back", "what came", clip_with(_norm, clipped_in_place)),
    _of("O26", "Small gradients come back themselves.", "values", "memory", clip_with(_norm, untouched_if_small)),
    _of("O27", "What is clipped is float64.", "float64", "float32: the dtype", clip_with(_norm, in_float64)),
    _of(
        "O28",
        "A norm that is not finite goes by.",
        "finite norms",
        "infinity: every finite gradient is 0",
        silent,
        source="CLP-02",
        accepts=True,
    ),
)
