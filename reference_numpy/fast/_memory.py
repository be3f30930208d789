"""Memory for the intermediates of a training step: the next step of the same sizes uses it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from reference_numpy._check import Array


class Memory:
    """Arrays by name. A name that is asked for again with the same shape and dtype gets the same array, unwritten."""

    def __init__(self) -> None:
        self._arrays: dict[Any, Array] = {}
        self._parts: dict[int | str, Memory] = {}

    def __call__(self, name: Any, shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> Array:
        kept = self._arrays.get(name)
        if kept is None or kept.shape != shape or kept.dtype != dtype:
            kept = self._arrays[name] = np.empty(shape, dtype)
        return kept

    def of(self, part: int | str) -> Memory:
        """Memory for one of several who use the same names."""
        return self._parts.setdefault(part, Memory())


_idle: list[tuple[Any, Memory]] = []


@contextmanager
def kept_for(sizes: Any) -> Iterator[Memory]:
    """Memory that nobody else uses meanwhile; what was kept for other sizes is let go."""
    try:
        owner, memory = _idle.pop()
    except IndexError:
        owner, memory = sizes, Memory()
    if owner != sizes:
        memory = Memory()
    try:
        yield memory
    finally:
        _idle[:] = [(sizes, memory)]
