"""What the gradients of a pair should be, from its forward alone: complex steps where it lets them through, else
central differences in the highest precision that it takes.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array
from equivalence_tests.laws_only.differences import LEVELS, NONE, STEP, Slope, central, noise
from equivalence_tests.laws_only.jitter import jittering, jitters
from equivalence_tests.laws_only.trials import SAMPLES, TIMES, Trial, cast

START = 0.25  # of an operand's scale
PATIENCE = 10  # levels beyond the best one, where nothing is suspected: steps a thousand times as short
Direction = dict[str, Array]


@dataclass
class Slopes:
    """Slopes of <u, f> along directions, for one trial. `how` says which witness speaks."""

    trial: Trial
    how: str = field(init=False)
    dtype: str = field(init=False)  # of central differences

    def __post_init__(self) -> None:
        self.dtype = "float64" if self._runs("float64") else self.trial.dtype
        self.how = "central differences"
        if not self._lets_complex():
            return
        direction = self.random_direction()
        self.how = "complex steps"
        if not self._agree(self._complex(direction), self._central(direction, PATIENCE)):
            self.how = "central differences"

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
        return self._complex(direction) if self.how == "complex steps" else self._central(direction, PATIENCE)

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

    def _runs(self, dtype: str) -> bool:
        try:
            self._outputs(cast(self.trial.operands, dtype), dtype)
        except Exception:
            return False
        return True

    def _lets_complex(self) -> bool:
        """Whether complex operands come out as complex outputs of the same real parts, and nothing is cast away."""
        try:
            outputs = self._outputs(cast(self.trial.operands, np.complex128), np.complex128)
            real = self._outputs(cast(self.trial.operands, self.dtype), self.dtype)
        except Exception:
            return False
        return all(np.iscomplexobj(y) and np.shape(y) == np.shape(x) for y, x in zip(outputs, real, strict=True))

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
        unit = PRECISIONS[self.dtype].unit
        direction = self.random_direction()
        powers = (
            2.0 / 3.0,
            1.0 / 2.0,
        )  # some hundred units of roundoff; and wider, where a function is made of small steps
        heard = max(noise(lambda t: self._against_upstream(direction, t), unit**p, unit) for p in powers)
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
