"""An array that counts the matrix products and transpositions it goes through: so that they are counted, not asserted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import Array


class Tally(NamedTuple):
    products: int
    transpositions: int


class Counted(np.ndarray[Any, np.dtype[Any]]):
    """An array that counts its matrix products and transpositions, and those of all that is computed from it."""

    counts: dict[str, int] | None

    def __array_finalize__(self, source: Any) -> None:
        self.counts = getattr(source, "counts", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc.signature is not None:  # matmul and its kin (vecdot, matvec, vecmat); sums and exponentials have none
            self._count("products")
        plain = {key: _plain(value) for key, value in kwargs.items()}
        return self._wrap(getattr(ufunc, method)(*map(_plain, inputs), **plain))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in (np.dot, np.inner, np.einsum):
            self._count("products")
        return self._wrap(super().__array_function__(func, types, args, kwargs))

    def dot(self, *args: Any, **kwargs: Any) -> Any:
        return np.dot(self, *args, **kwargs)

    @property
    def T(self) -> Any:
        self._count("transpositions")
        return super().T

    @property
    def mT(self) -> Any:
        self._count("transpositions")
        return super().mT

    def swapaxes(self, *args: Any) -> Any:
        self._count("transpositions")
        return super().swapaxes(*args)

    def transpose(self, *args: Any) -> Any:
        self._count("transpositions")
        return super().transpose(*args)

    def _count(self, what: str) -> None:
        if self.counts is not None:
            self.counts[what] += 1

    def _wrap(self, result: Any) -> Any:
        if not isinstance(result, np.ndarray):
            return result
        wrapped = result.view(Counted)
        wrapped.counts = self.counts
        return wrapped


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):  # out=(array,)
        return tuple(map(_plain, value))
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def count_products(function: Callable[..., Any], *arrays: Array) -> Tally:
    """How many matrix products and transpositions `function(*arrays)` really does."""
    counts = {"products": 0, "transpositions": 0}
    watched = [array.view(Counted) for array in arrays]
    for array in watched:
        array.counts = counts
    function(*watched)
    return Tally(**counts)
