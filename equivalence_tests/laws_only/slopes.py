"""What the gradients of a pair should be, from its forward alone: complex steps where it lets them through, else
central differences in the highest precision that it keeps.

A complex step is used only where it can be trusted: the outputs are complex and finite, their real parts are those of the
forward, and along a dense random direction the step and the differences agree. A forward may raise for complex numbers,
drop imaginary parts, take another branch, or multiply -inf by a complex zero, which is NaN.
"""

from __future__ import annotations

import math
import warnings
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS, Array
from equivalence_tests.laws_only.differences import LEVELS, NONE, STEP, Slope, central, noise
from equivalence_tests.laws_only.jitter import jittering, jitters
from equivalence_tests.laws_only.trials import SAMPLES, TIMES, Trial, cast, largest

START = 0.25  # of an operand's scale
PATIENCE = 10  # levels beyond the best one, where nothing is suspected: steps a thousand times as short
UNITS = {"longdouble": ORACLE_UNIT} | {name: PRECISIONS[name].unit for name in ("float64", "float32")}
WIDE = 1e-5  # steps that are longer than the spacing of float32, and short for any function
Direction = dict[str, Array]


@dataclass
class Slopes:
    """Slopes of <u, f> along directions, for one trial. `how` says which witness speaks."""

    trial: Trial
    how: str = field(init=False)
    dtype: str = field(init=False)  # of central differences

    def __post_init__(self) -> None:
        higher = (dtype for dtype in ("longdouble", "float64") if self._keeps(dtype))
        self.dtype = next(higher, self.trial.dtype)
        self.how = "central differences"
        if not self._lets_complex():
            return
        direction = self.random_direction()
        step, quotient = self._complex(direction), self._central(direction, PATIENCE)
        if math.isfinite(step.bound) and self._agree(step, quotient):
            self.how = "complex steps"

    def of_upstream(self, upstream: tuple[Array, ...]) -> Slopes:
        """The slopes of <u, f> for another u, by the same witness."""
        other = copy(self)
        vars(other).pop("_noise", None)
        other.trial = replace(self.trial, upstream=upstream)
        return other

    @cached_property
    def unit(self) -> float:
        """The unit of roundoff of what the forward gives: that of float32 if it rounds to that format inside."""
        moved = {n: X * (1.0 + 1e-9) if n in self.trial.names else X for n, X in self.trial.operands.items()}
        found = [np.asarray(y) for y in self._outputs(cast(moved, self.dtype), self.dtype)]
        with np.errstate(all="ignore"):
            single = all(np.array_equal(y, y.astype(np.float32), equal_nan=True) for y in found)
        return UNITS["float32"] if single else UNITS[self.dtype]

    @cached_property
    def scales(self) -> dict[str, float]:
        """How far an operand's elements spread: the length in which its steps are measured."""
        found = {}
        for name in self.trial.names:
            X = self.trial.operands[name]
            spread = float(X.std()) if X.size > 1 else 0.0
            found[name] = spread or float(np.abs(X).max(initial=0.0)) or 1.0
        return found

    def random_direction(self) -> Direction:
        """Dense, each operand in its own scale."""
        rng = self.trial.rng
        return {n: scale * rng.standard_normal(self.trial.operands[n].shape) for n, scale in self.scales.items()}

    def along(self, direction: Direction) -> Slope:
        """The slope and the rounding of this one sum; the forward's own rounding is as that of the backward."""
        if self.how == "complex steps":
            step = self._complex(direction)
            if math.isfinite(step.bound):
                return step
        return self._central(direction, PATIENCE)

    def closer(self, direction: Direction) -> Slope:
        """The same with all that is known about its error, for a direction in which the backward seems to be wrong.

        A complex step is repeated on operands moved by roundoff, and it must not contradict the central differences, or
        it is trusted no more (a forward may drop imaginary parts). Where those find no slope, at a kink, there is none.
        """
        quotient = self._central(direction)
        if self.how == "central differences" or not math.isfinite(quotient.bound):
            return quotient
        step = self._complex(direction)
        moved = [self._complex(direction, again=True).value for _ in range(SAMPLES)]
        spread = max((abs(value - step.value) for value in moved if math.isfinite(value)), default=0.0)
        step = Slope(step.value, step.bound + TIMES * spread)
        if not self._agree(step, quotient):
            self.how = "central differences"
            return quotient
        return step

    def element(self, name: str, index: tuple[int, ...], close: bool = False) -> Slope:
        """dL/dX[index]."""
        scale = self.scales[name]
        direction = {n: np.zeros(self.trial.operands[n].shape) for n in self.trial.names if n == name}
        direction[name][index] = scale
        slope = self.closer(direction) if close else self.along(direction)
        return Slope(slope.value / scale, slope.bound / scale)

    def _moved(self) -> dict[str, Any]:
        """Moved by roundoff of float64, whatever the trial's dtype: that is where the complex step computes."""
        unit, rng = PRECISIONS["float64"].unit, self.trial.rng
        operands = cast(self.trial.operands, np.float64)
        for name in self.trial.names:
            operands[name] *= 1.0 + unit * rng.uniform(-2.0, 2.0, operands[name].shape)
        return operands

    @staticmethod
    def _agree(one: Slope, other: Slope) -> bool:
        """No contradiction; where there is no slope nothing is contradicted."""
        return not abs(one.value - other.value) > 2.0 * (one.bound + other.bound)

    def _keeps(self, dtype: str) -> bool:
        """Whether the forward computes in the dtype and gives the same numbers in it, but for rounding."""
        try:
            outputs = self._outputs(cast(self.trial.operands, dtype), dtype)
        except Exception:
            return False
        if dtype == "longdouble" and any(getattr(y, "dtype", None) != ORACLE for y in outputs):
            return False
        return self._same(outputs)

    def _same(self, outputs: tuple[Any, ...]) -> bool:
        """Whether these are the outputs that are judged, but for rounding."""
        right, room = self.trial.right.outputs, self.trial.allowed[0]
        for y, x, most in zip(outputs, right, room, strict=True):
            if np.shape(y) != np.shape(x):
                return False
            with np.errstate(all="ignore"):
                gap = np.abs(np.asarray(np.real(y), ORACLE) - np.asarray(x, ORACLE))
            if largest(gap[np.isfinite(np.asarray(x))]) > TIMES * most:
                return False
        return True

    def _lets_complex(self) -> bool:
        """Whether complex operands come out as complex outputs of the same real parts, and nothing is cast away."""
        try:
            outputs = self._outputs(cast(self.trial.operands, np.complex128), np.complex128)
        except Exception:
            return False
        return all(map(np.iscomplexobj, outputs)) and self._same(outputs)

    def _outputs(self, operands: dict[str, Any], dtype: Any) -> tuple[Any, ...]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            Y = self.trial.outputs(operands, self.trial.options_in(dtype))
        return Y if isinstance(Y, tuple) else (Y,)

    def _complex(self, direction: Direction, again: bool = False) -> Slope:
        """One complex step; `again` on operands that are moved by roundoff, and with jitter."""
        moved = cast(self._moved() if again else self.trial.operands, np.complex128)
        for name, v in direction.items():
            moved[name] = moved[name] + 1j * STEP * v
        kind = jittering(self.trial.rng) if again and self.trial.pair.framework == "numpy" else np.ndarray
        try:
            outputs = self._outputs({n: jitters(X, kind) for n, X in moved.items()}, np.complex128)
        except Exception:
            return NONE
        pairs = zip(self.trial.upstream, outputs, strict=True)
        terms = np.concatenate([(u * np.imag(y)).ravel() / STEP for u, y in pairs]).astype(ORACLE)
        unit, tiny = PRECISIONS["float64"].unit, PRECISIONS["float64"].tiny
        size = 1.0 + sum(float(np.abs(u).sum()) for u in self.trial.upstream)
        bound = (terms.size + 1) * unit * float(np.abs(terms).sum()) + tiny / STEP * size
        value = float(terms.sum())
        return Slope(value, bound) if math.isfinite(value) else NONE

    def _against_upstream(self, direction: Direction, t: float, kind: type[Array] = np.ndarray) -> Any:
        """L(t) = <u, f(x + t v)>, added in extended precision. `kind` is of the arrays that the function is given."""
        moved = cast(self.trial.operands, self.dtype)
        for name, v in direction.items():
            moved[name] = (moved[name] + t * v).astype(self.dtype)
        try:
            outputs = self._outputs({n: jitters(X, kind) for n, X in moved.items()}, self.dtype)
        except Exception:
            return ORACLE(np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            pairs = zip(self.trial.upstream, outputs, strict=True)
            return sum((np.sum(u.astype(ORACLE) * np.asarray(y, ORACLE)) for u, y in pairs), ORACLE(0))

    @cached_property
    def _noise(self) -> float:
        """Of L near the operands: as its values show it, or as jitter does (where L is flat its values show none)."""
        unit = UNITS[self.dtype]
        direction = self.random_direction()

        def along(t: float) -> Any:
            return self._against_upstream(direction, t)

        # Some hundred units of roundoff; and wider, where a function is made of small steps.
        heard = max(noise(along, unit**power, unit) for power in (2.0 / 3.0, 1.0 / 2.0))
        if self.unit > unit:
            heard = max(heard, noise(along, WIDE, self.unit, lowest=5))
        if self.trial.pair.framework != "numpy":
            return heard
        at = self._against_upstream(direction, 0.0)
        jittered = [self._against_upstream(direction, 0.0, jittering(self.trial.rng)) for _ in range(SAMPLES)]
        return max(heard, *(float(abs(L - at)) for L in jittered if np.isfinite(L)), 0.0)

    def _central(self, direction: Direction, patience: int = LEVELS) -> Slope:
        if not math.isfinite(self._noise):
            return NONE
        with np.errstate(all="ignore"):
            return central(lambda t: self._against_upstream(direction, t), START, self._noise, patience)
