"""What is known of bad input, and how its arrays are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import Implementation


class Maker:
    """Makes the arrays that an implementation takes, and arrays that it does not."""

    def __init__(self, implementation: Implementation, dtype: str) -> None:
        self.implementation, self.dtype = implementation, dtype
        self.other_dtype = "float32" if dtype == "float64" else "float64"

    def __call__(self, array: Array, dtype: str | None = None) -> Any:
        """The implementation's own array; floating ones in the dtype given, or in the one under test."""
        wanted = (dtype or self.dtype) if array.dtype == np.float64 else str(array.dtype)
        return array.astype(wanted) if self.implementation.pairs else self._tensor(array, wanted)

    def foreign(self, array: Array) -> Any:
        """The array of the other framework: a tensor for NumPy pairs (a memoryview without torch), an array for torch."""
        if not self.implementation.pairs:
            return array
        try:
            return self._tensor(array, str(array.dtype))
        except ModuleNotFoundError:
            return memoryview(array.tobytes())

    def _tensor(self, array: Array, dtype: str) -> Any:
        import torch

        device = "cpu" if self.implementation.pairs else self.implementation.device
        return torch.from_numpy(np.array(array)).to(device, getattr(torch, dtype))


Arguments = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """What is wrong, the argument at fault, the error, and the call's arguments by name, operands first."""

    name: str
    argument: str
    error: type[Exception]
    build: Callable[[Maker], Arguments]
    pairs_only: bool = False  # torch takes it


def made(make: Maker, arguments: dict[str, Any]) -> Arguments:
    """The arguments of a call, every array the implementation's own, in dicts too."""
    result: Arguments = {}
    for name, value in arguments.items():
        if isinstance(value, dict):
            result[name] = made(make, value)
        else:
            result[name] = make(value) if isinstance(value, np.ndarray) else value
    return result
