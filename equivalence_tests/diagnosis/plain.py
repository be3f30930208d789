"""Numbers without a bound: what a formula is evaluated over when one of its lines has been edited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array, Precision, erf
from equivalence_tests.cases import Case, is_floating
from equivalence_tests.ops import Op
from equivalence_tests.stages import Stages

HALF = ("bfloat16", "float16")  # what NumPy has no fast arithmetic for is evaluated in float32


class Plain:
    """A value in float64, with the methods of `Bounded`. Its error is always 0."""

    __array_ufunc__ = None
    __slots__ = ("precision", "value")

    def __init__(self, value: Any, precision: Precision, error: Any = 0.0) -> None:
        self.value: Array = np.asarray(value, self._dtype(precision))
        self.precision = precision

    @staticmethod
    def _dtype(precision: Precision) -> str:
        return "float64"

    @property
    def error(self) -> float:
        return 0.0

    @error.setter
    def error(self, error: Any) -> None:
        """What the formula adds to a bound has no place here."""

    def _new(self, value: Any) -> Any:
        return type(self)(value, self.precision)

    def _lift(self, other: Any) -> Array:
        return other.value if isinstance(other, Plain) else np.asarray(other, self._dtype(self.precision))

    def __add__(self, other: Any) -> Any:
        return self._new(self.value + self._lift(other))

    def __sub__(self, other: Any) -> Any:
        return self._new(self.value - self._lift(other))

    def __rsub__(self, other: Any) -> Any:
        return self._new(self._lift(other) - self.value)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float) and other == 0.0:  # left out: nothing remains, be it NaN
            return self._new(np.zeros_like(self.value))
        return self._new(self.value * self._lift(other))

    def __truediv__(self, other: Any) -> Any:
        return self._new(self.value / self._lift(other))

    def __rtruediv__(self, other: Any) -> Any:
        return self._new(self._lift(other) / self.value)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self._new(-self.value)

    def __matmul__(self, other: Any) -> Any:
        return self._new(self.value @ other.value)

    def plus(self, bias: Any, k: int) -> Any:
        return self + bias

    def sum(self, axis: Any, keepdims: bool = False) -> Any:
        return self._new(self.value.sum(axis, keepdims=keepdims))

    def mean(self, axis: Any, keepdims: bool = True) -> Any:
        return self._new(self.value.mean(axis, keepdims=keepdims))

    def sqrt(self) -> Any:
        return self._new(np.sqrt(self.value))

    def exp(self) -> Any:
        return self._new(np.exp(self.value))

    def log(self) -> Any:
        return self._new(np.log(self.value))

    def tanh(self) -> Any:
        return self._new(np.tanh(self.value))

    def erf(self) -> Any:
        return self._new(erf(self.value))

    def moved(self, move: Callable[[Array], Array]) -> Any:
        return self._new(move(self.value))

    @property
    def mT(self) -> Any:
        return self._new(np.swapaxes(self.value, -1, -2))

    def rows(self) -> Any:
        return self._new(self.value.reshape(-1, self.value.shape[-1]))

    def where(self, condition: Array) -> Any:
        return self._new(np.where(condition, self.value, 0))

    def __getitem__(self, index: Any) -> Any:
        return self._new(self.value[index])

    @classmethod
    def stack(cls, parts: Sequence[Any], axis: int) -> Any:
        return parts[0]._new(np.stack([part.value for part in parts], axis))


class Native(Plain):
    """A value in the dtype of the case, where an edited line may overflow as the candidate's does."""

    __slots__ = ()

    @staticmethod
    def _dtype(precision: Precision) -> str:
        return "float32" if precision.name in HALF else precision.name


class Wide(Plain):
    """A value in extended precision: what float64 loses is the difference."""

    __slots__ = ()

    @staticmethod
    def _dtype(precision: Precision) -> str:
        return "longdouble"


class Finished(Exception):
    """The outputs are there, and nobody asks for gradients."""

    def __init__(self, outputs: dict[str, Any]) -> None:
        super().__init__()
        self.outputs = outputs


def evaluate(op: Op, case: Case, precision: Precision, stage: Stages, kind: type[Plain] = Plain) -> dict[str, Array]:
    """Every output and gradient of a rounded case, by the op's formula as the stages have it."""
    arrays = {**case.operands, **case.upstream, **case.options}
    numbers: dict[str, Any] = {name: kind(v, precision) if is_floating(v) else v for name, v in arrays.items()}
    if op.model:
        numbers["params"] = {name: numbers.pop(name) for name in op.gradient_names(case)}
    stage.given(numbers)
    with np.errstate(all="ignore"):
        try:
            answered = op.formula(**numbers, stage=stage)
        except Finished as finished:
            answered = finished.outputs
    return {name: number.value for name, number in answered.items()}
