"""Numbers that know how wrong they may be.

A formula written once over these numbers gives the exact value and the error budget of every right implementation of it:

* `Bounded`: the value in extended precision beside a first-order bound of the rounding error, line by line;
* `Perturbed`: the value with every line's result multiplied by 1 +- u, for compositions through time, where worst-case
  bounds explode and the spread of a few runs is the honest measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ORACLE = np.longdouble
ORACLE_UNIT = float(np.finfo(ORACLE).eps) / 2.0  # 5.4e-20 on x86; where long double is double, the budget doubles


@dataclass(frozen=True)
class Precision:
    """A floating format: unit roundoff, the unit in which sums accumulate, smallest normal and largest number."""

    name: str
    unit: float
    sums: float
    tiny: float
    largest: float


PRECISIONS = {
    "float64": Precision("float64", 2.0**-53, 2.0**-53, 2.0**-1022, float(np.finfo(np.float64).max)),
    "float32": Precision("float32", 2.0**-24, 2.0**-24, 2.0**-126, float(np.finfo(np.float32).max)),
    # Every back end accumulates half precision in float32 and rounds what it stores.
    "bfloat16": Precision("bfloat16", 2.0**-8, 2.0**-24, 2.0**-126, 3.3895e38),
    "float16": Precision("float16", 2.0**-11, 2.0**-24, 2.0**-14, 65504.0),
}


def round_to(X: Array, precision: Precision) -> Array:
    """The nearest number of the format, as float64. What is too large stays infinite."""
    with np.errstate(over="ignore", under="ignore"):
        if precision.name != "bfloat16":
            return np.asarray(X.astype(precision.name).astype(np.float64))
        bits = np.asarray(X.astype(np.float32)).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = np.where(np.isnan(X), bits, rounded) & np.uint32(0xFFFF0000)
    return np.asarray(rounded.view(np.float32).astype(np.float64))


def _size(X: Any) -> Array:
    """|X| in float64, what bounds are made of."""
    return np.abs(np.asarray(X, ORACLE)).astype(np.float64)


def erf(X: Array) -> Array:
    """erf(x) = 2 x exp(-x^2) / sqrt(pi) sum_k (2 x^2)^k / (1 3 5 ... (2 k + 1)), all terms of one sign; 1 beyond 7."""
    near = np.minimum(np.abs(X.astype(ORACLE)), ORACLE(7))
    term, total = np.ones_like(near), np.ones_like(near)
    for k in range(1, 260):
        term = term * 2 * near * near / (2 * k + 1)
        total = total + term
    value = 2 * near * np.exp(-near * near) / np.sqrt(4 * np.arctan(ORACLE(1))) * total
    return np.asarray(np.copysign(np.where(near >= 7, ORACLE(1), value), X))


class Bounded:
    """A value in extended precision and the bound E of the error that any right implementation may have made so far."""

    __array_ufunc__ = None  # let `array * bounded` come to us
    __slots__ = ("error", "precision", "value")

    def __init__(self, value: Any, precision: Precision, error: Any = 0.0) -> None:
        self.value: Array = np.asarray(value, ORACLE)
        self.precision = precision
        size = _size(self.value)
        bound = np.broadcast_to(np.asarray(error, np.float64), size.shape)
        # Beyond the largest number of the format nothing is promised; a bound that is no number promises nothing.
        self.error: Array = np.where(size + bound <= precision.largest, bound, np.inf)

    @property
    def half(self) -> bool:
        """Whether what is stored is rounded more coarsely than sums are."""
        return self.precision.unit != self.precision.sums

    def _stored(self, value: Array, error: Any, cost: float = 1.0) -> Bounded:
        """A new line: the error carried into it, the rounding of what is computed there, and underflow."""
        rounding = cost * self.precision.unit * (_size(value) + error)
        return Bounded(value, self.precision, error + rounding + self.precision.tiny)

    def _lift(self, other: Any) -> Bounded:
        """A constant is rounded to the format when it is used."""
        if isinstance(other, Bounded):
            return other
        return Bounded(other, self.precision, self.precision.unit * _size(other))

    def __add__(self, other: Any) -> Bounded:
        other = self._lift(other)
        return self._stored(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Any) -> Bounded:
        other = self._lift(other)
        return self._stored(self.value - other.value, self.error + other.error)

    def __rsub__(self, other: Any) -> Bounded:
        return self._lift(other) - self

    def __mul__(self, other: Any) -> Bounded:
        other = self._lift(other)
        carried = _product(np.multiply, self, other)
        return self._stored(self.value * other.value, carried)

    def __truediv__(self, other: Any) -> Bounded:
        other = self._lift(other)
        quotient = self.value / other.value
        carried = (self.error + _size(quotient) * other.error) / _size(other.value)
        return self._stored(quotient, carried)

    def __rtruediv__(self, other: Any) -> Bounded:
        return self._lift(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.precision, self.error)

    def __matmul__(self, other: Bounded) -> Bounded:
        """E(X Y) = |X| E(Y) + E(X) |Y| + E(X) E(Y) + (k + 1) u |X| |Y|, sums of length k."""
        k = self.value.shape[-1]
        terms = _size(self.value) @ _size(other.value)
        carried = _product(np.matmul, self, other) + k * self.precision.sums * terms
        if self.precision.unit == self.precision.sums:
            return self._stored(self.value @ other.value, carried + self.precision.unit * terms, cost=0.0)
        return self._stored(self.value @ other.value, carried)

    def plus(self, bias: Bounded, k: int) -> Bounded:
        """Add a bias to a product with sums of length k: where it is the first term, all k additions may round it."""
        total = self + bias
        return Bounded(total.value, self.precision, total.error + k * self.precision.sums * _size(bias.value))

    def sum(self, axis: int | tuple[int, ...], keepdims: bool = False) -> Bounded:
        value = self.value.sum(axis, keepdims=keepdims)
        length = self.value.size / max(value.size, 1)
        terms = _size(self.value).sum(axis, keepdims=keepdims)
        return self._stored(value, self.error.sum(axis, keepdims=keepdims) + length * self.precision.sums * terms)

    def mean(self, axis: int, keepdims: bool = True) -> Bounded:
        return self.sum(axis, keepdims) / float(self.value.shape[axis])

    def _function(self, value: Array, slope: Array, cost: float = 4.0) -> Bounded:
        """E(f(X)) = |f'(X)| E(X) + c_f u |f(X)|"""
        return self._stored(value, _size(slope) * self.error, cost)

    def sqrt(self) -> Bounded:
        root = np.sqrt(self.value)
        return self._function(root, 0.5 / root, cost=2.0)

    def exp(self) -> Bounded:
        value = np.exp(self.value)
        return self._stored(value, _size(value) * np.expm1(np.minimum(self.error, 700.0)), 4.0)

    def log(self) -> Bounded:
        return self._function(np.log(self.value), 1.0 / self.value)

    def tanh(self) -> Bounded:
        value = np.tanh(self.value)
        return self._function(value, 1.0 - value * value)

    def erf(self) -> Bounded:
        """erf' = 2 exp(-x^2) / sqrt(pi)"""
        slope = 2 / np.sqrt(4 * np.arctan(ORACLE(1))) * np.exp(-self.value * self.value)
        return self._function(erf(self.value), slope)

    def moved(self, move: Callable[[Array], Array]) -> Bounded:
        """Numbers that only change place: transposed, reshaped, selected."""
        return Bounded(move(self.value), self.precision, move(self.error))

    @property
    def mT(self) -> Bounded:
        return self.moved(lambda x: np.swapaxes(x, -1, -2))

    def rows(self) -> Bounded:
        """(..., d) -> (N, d), N the product of the leading axes."""
        return self.moved(lambda x: x.reshape(-1, x.shape[-1]))

    def where(self, condition: Array) -> Bounded:
        """0 where the condition does not hold."""
        return self.moved(lambda x: np.where(condition, x, x.dtype.type(0)))

    def __getitem__(self, index: Any) -> Bounded:
        return self.moved(lambda x: x[index])

    @staticmethod
    def stack(parts: Sequence[Bounded], axis: int) -> Bounded:
        value = np.stack([part.value for part in parts], axis)
        return Bounded(value, parts[0].precision, np.stack([part.error for part in parts], axis))

    def budget(self) -> Array:
        """The bound, plus the share that the oracle's own rounding could have."""
        return self.error * (1.0 + ORACLE_UNIT / self.precision.unit)


def _product(product: Callable[[Array, Array], Array], X: Bounded, Y: Bounded) -> Array:
    """|X| E(Y) + E(X) |Y| + E(X) E(Y)

    The last term is of second order, but where both factors are 0 (a constant row of a layer norm, far from 0) it is all
    there is: without it torch's right float32 gradient was rejected by a factor of 450.
    """
    return product(_size(X.value), Y.error) + product(X.error, _size(Y.value) + Y.error)


RUNS = 16


class Perturbed:
    """Sixteen runs in float64, side by side along the first axis, in which every line's result is multiplied by 1 +- u.

    A sum of k terms is shaken besides by u sqrt(k (sum^2 + sum of squares)), what rounding its partial sums costs: where a
    sum cancels, or is long, shaking its result alone would not show what its terms lost.
    """

    __array_ufunc__ = None
    __slots__ = ("rng", "sums", "unit", "value")

    def __init__(self, value: Array, rng: np.random.Generator, unit: float, sums: float) -> None:
        self.value, self.rng, self.unit, self.sums = value, rng, unit, sums

    @classmethod
    def start(cls, value: Array, rng: np.random.Generator, unit: float, sums: float) -> Perturbed:
        """The same numbers in every run."""
        return cls(np.broadcast_to(np.asarray(value, np.float64), (RUNS, *value.shape)), rng, unit, sums)

    @property
    def half(self) -> bool:
        return self.unit != self.sums

    def _signs(self, value: Array) -> Array:
        """+-1, drawn anew for every line and run, and the same for equal numbers: rounding knows no chance.

        Equal rows of a batch err alike, and then a sum over them errs by as many times as much as one.
        """
        bits = np.ascontiguousarray(value).view(np.uint64)
        factor, shift = self.rng.integers(0, 2**63, (2, RUNS, *(1,) * (value.ndim - 1)), dtype=np.uint64)
        top = (bits * (2 * factor + np.uint64(1)) + shift) >> np.uint64(63)
        signs: Array = 2.0 * top.astype(np.float64) - 1.0
        return signs

    def _shaken(self, value: Array, unit: float) -> Array:
        shaken: Array = value * (1.0 + unit * self._signs(value))
        return shaken

    def _new(self, value: Array, cost: float = 1.0) -> Perturbed:
        return self._moved(self._shaken(value, cost * self.unit))

    def _moved(self, value: Array) -> Perturbed:
        return Perturbed(value, self.rng, self.unit, self.sums)

    def _accumulated(self, total: Array, squares: Array, k: int) -> Perturbed:
        """A sum of k terms, given beside the sum of their squares."""
        lost = self.sums * np.sqrt(k * (total * total + squares))
        return self._new(total + lost * self._signs(total))

    def _with(self, other: Any) -> tuple[Any, Any]:
        """Both values, the one with fewer axes filled up behind the axis of runs. A constant is one of float64."""
        if not isinstance(other, Perturbed):
            return self.value, np.asarray(other, np.float64)
        axes = max(self.value.ndim, other.value.ndim)
        mine, yours = (x.reshape(RUNS, *(1,) * (axes - x.ndim), *x.shape[1:]) for x in (self.value, other.value))
        return mine, yours

    def __add__(self, other: Any) -> Perturbed:
        mine, yours = self._with(other)
        return self._new(mine + yours)

    def plus(self, bias: Perturbed, k: int) -> Perturbed:
        """Add a bias to a product: to the rounded one, or as one more term of its sum."""
        mine, yours = self._with(bias)
        return self._new(mine + self._shaken(yours, self.sums * math.sqrt(k)))

    def __sub__(self, other: Any) -> Perturbed:
        mine, yours = self._with(other)
        return self._new(mine - yours)

    def __rsub__(self, other: float) -> Perturbed:
        return self._new(other - self.value)

    def __mul__(self, other: Any) -> Perturbed:
        mine, yours = self._with(other)
        return self._new(mine * yours)

    def __truediv__(self, other: Any) -> Perturbed:
        mine, yours = self._with(other)
        return self._new(mine / yours)

    def __rtruediv__(self, other: float) -> Perturbed:
        return self._new(other / self.value)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Perturbed:
        return self._moved(-self.value)

    def __matmul__(self, other: Perturbed) -> Perturbed:
        mine, yours = self._with(other)
        return self._accumulated(mine @ yours, (mine * mine) @ (yours * yours), mine.shape[-1])

    def sum(self, axis: int, keepdims: bool = False) -> Perturbed:
        axis = axis + 1 if axis >= 0 else axis
        total, squares = (x.sum(axis, keepdims=keepdims) for x in (self.value, self.value**2))
        return self._accumulated(total, squares, self.value.shape[axis])

    def mean(self, axis: int, keepdims: bool = True) -> Perturbed:
        return self.sum(axis, keepdims) / float(self.value.shape[axis])

    def sqrt(self) -> Perturbed:
        return self._new(np.sqrt(self.value), 2.0)  # the costs are those of `Bounded`

    def exp(self) -> Perturbed:
        return self._new(np.exp(self.value), 4.0)

    def log(self) -> Perturbed:
        return self._new(np.log(self.value), 4.0)

    def tanh(self) -> Perturbed:
        return self._new(np.tanh(self.value), 4.0)

    def moved(self, move: Callable[[Array], Array]) -> Perturbed:
        """Numbers that only change place: transposed, reshaped, selected."""
        return self._moved(np.stack([move(run) for run in self.value]))

    def where(self, condition: Array) -> Perturbed:
        """0 where the condition does not hold."""
        return self._moved(np.where(condition, self.value, 0.0))

    @property
    def mT(self) -> Perturbed:
        return self._moved(np.swapaxes(self.value, -1, -2))

    def rows(self) -> Perturbed:
        return self._moved(self.value.reshape(RUNS, -1, self.value.shape[-1]))

    def __getitem__(self, index: Any) -> Perturbed:
        return self._moved(self.value[index])

    @staticmethod
    def stack(parts: Sequence[Perturbed], axis: int) -> Perturbed:
        return parts[0]._moved(np.stack([part.value for part in parts], axis))


Number = TypeVar("Number", Bounded, Perturbed)
