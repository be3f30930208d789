"""One trial of a pair that no formula describes: its operands and upstream in one dtype, what it answers, and how far
rounding may have moved that answer.

Without a formula there is no budget, so the rounding is measured: the pair runs again on operands and upstream that are
moved by a unit of roundoff or two, each element at random. That rounds every line of it anew and moves the answer by its
condition as well; no right implementation is much further from the exact answer than its own answers are from each other.
Eight times the largest move, in the tensor, is allowed, as in the budgets that are measured for models.

Moved operands alone do not show it all: where a function saturates they move nothing, yet 1 - tanh(X)^2 has lost all but
a few digits. So the runs are on arrays that jitter (see jitter.py). Where a function does not let those through, or takes
tensors, the steepest slope that any trial has shown for an operand, times the trial's upstream, may be wrong by a unit of
roundoff, which is what a saturated slope has lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array, Precision, round_to
from equivalence_tests.laws_only.jitter import jittering, jitters
from equivalence_tests.laws_only.pairs import Pair, as_tuple, found_in

SAMPLES = 6  # runs on moved operands
TIMES = 8.0  # the largest of so few moves may be small by chance


class Answer(NamedTuple):
    """Outputs, and gradients in the order of their operands."""

    outputs: tuple[Any, ...]
    gradients: tuple[Any, ...]


def arrays_of(value: Any) -> Iterator[Array]:
    """Every array in a nest of tuples, lists and dicts, or in the attributes of what is remembered."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from arrays_of(item)
    elif isinstance(value, dict):
        yield from arrays_of(tuple(value.values()))


def kept(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the arrays: the pair may write into its answers later."""
    return tuple(value.copy() if isinstance(value, np.ndarray) else value for value in values)


def cast(values: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Fresh copies, floating-point arrays in the dtype."""

    def one(value: Any) -> Any:
        if isinstance(value, dict):
            return cast(value, dtype)
        if not isinstance(value, np.ndarray):
            return value
        return np.array(value, dtype if value.dtype.kind == "f" else value.dtype)

    return {name: one(value) for name, value in values.items()}


@dataclass
class Trial:
    """Operands and options hold float64 arrays, rounded to the dtype. `sizes` are the sizes by letter, where known."""

    pair: Pair
    dtype: str
    operands: dict[str, Any]
    options: dict[str, Any]
    rng: np.random.Generator
    upstream: tuple[Array, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    steepest: dict[str, float] = field(
        default_factory=dict
    )  # by operand, the largest |gradient| / |upstream| of any trial
    many: bool = False  # Y is a tuple
    scalar: bool = False  # Y is a number, and so is its upstream gradient

    @property
    def precision(self) -> Precision:
        return PRECISIONS[self.dtype]

    @property
    def letters(self) -> dict[str, float]:
        """The sizes, integers, and the options that are numbers, as floats."""
        numbers = {name: float(v) for name, v in self.options.items() if isinstance(v, float | np.floating)}
        return {**self.sizes, **numbers}

    @cached_property
    def names(self) -> list[str]:
        return [name for name in self.pair.differentiable(self.operands) if name not in self.pair.absent]

    def begin(self, upstream: tuple[Array, ...] = ()) -> None:
        """Round the operands, run the forward once, and draw a dense upstream gradient of its shape where none is given."""
        self.operands = self._rounded(self.operands)
        self.options = self._rounded(self.options)
        Y = self.outputs(cast(self.operands, self.dtype))
        self.many = isinstance(Y, tuple)
        Ys = Y if isinstance(Y, tuple) else (Y,)
        self.scalar = not self.many and isinstance(Y, np.generic | float)
        drawn = upstream or tuple(np.asarray(self.rng.standard_normal(np.shape(y))) for y in Ys)
        self.upstream = tuple(round_to(u, self.precision) for u in drawn)

    def _rounded(self, values: dict[str, Any]) -> dict[str, Any]:
        floats = cast(values, np.float64)
        return {n: round_to(v, self.precision) if _floating(v) else v for n, v in floats.items()}

    def outputs(self, operands: dict[str, Any], options: dict[str, Any] | None = None) -> Any:
        """Y, as the forward returns it."""
        return self.pair.run(operands, self.options_in(self.dtype) if options is None else options)[0]

    def options_in(self, dtype: Any) -> dict[str, Any]:
        return cast(self.options, dtype)

    def as_upstream(self, upstream: tuple[Array, ...]) -> Any:
        """What the backward takes: one gradient, a tuple of several, or a number."""
        dYs = tuple(np.array(u, self.dtype) for u in upstream)
        if self.scalar:
            return dYs[0][()]
        return dYs if self.many else dYs[0]

    def answer(self, operands: dict[str, Any] | None = None, upstream: tuple[Array, ...] | None = None) -> Answer:
        """Forward and backward, on other operands or another upstream if those are given (of any layout)."""
        given = cast(self.operands, self.dtype) if operands is None else operands
        Y, remembered = self.pair.run(given, self.options_in(self.dtype))
        gradients = self.pair.pull(self.as_upstream(self.upstream if upstream is None else upstream), remembered)
        return Answer(kept(Y if isinstance(Y, tuple) else (Y,)), kept(self.aligned(gradients)))

    def aligned(self, gradients: Any) -> tuple[Any, ...]:
        """The gradients that came, in the order of their operands, without those that are known to be absent."""
        if isinstance(gradients, dict):
            found = [found_in(gradients, name) for name in self.names]
            others = len(gradients) - sum(each is not None for each in found)
            return (*found, *[None] * others)
        came = as_tuple(gradients)
        names = self.pair.differentiable(self.operands)
        if self.pair.absent and len(came) == len(names):
            return tuple(each for name, each in zip(names, came, strict=True) if name not in self.pair.absent)
        return came

    def moved(self, times: float = 2.0) -> dict[str, Any]:
        """Operands of the dtype, each element up or down by up to `times` units of roundoff."""
        return {n: self._moved(v, times).astype(self.dtype) if _floating(v) else v for n, v in self.operands.items()}

    def _moved(self, X: Array, times: float = 2.0) -> Array:
        return X * (1.0 + self.precision.unit * self.rng.uniform(-times, times, X.shape))

    @cached_property
    def right(self) -> Answer:
        """The answer that is judged."""
        return self.answer()

    @cached_property
    def allowed(self) -> tuple[list[float], list[float]]:
        """What rounding explains of the outputs and of the gradients, a number for each tensor; infinite if unknown."""
        again = [self._again() for _ in range(SAMPLES)]
        outputs = [self._spread(y, [a.outputs[i] for a in again], 0.0) for i, y in enumerate(self.right.outputs)]
        slopes = [self.steepest.get(name, 0.0) * self.upstream_size for name in self.names]
        gradients = zip(self.right.gradients, slopes, strict=True)
        return outputs, [self._spread(g, [a.gradients[i] for a in again], s) for i, (g, s) in enumerate(gradients)]

    def _again(self) -> Answer:
        """The answer for moved operands and upstream, computed with jitter where the function lets it through."""
        operands, upstream = self.moved(), tuple(map(self._moved, self.upstream))
        if self.pair.framework != "numpy":
            return self.answer(operands, upstream)
        cls = jittering(self.rng)
        try:
            return self.answer({n: jitters(X, cls) for n, X in operands.items()}, upstream)
        except Exception:
            return self.answer(operands, upstream)

    @property
    def upstream_size(self) -> float:
        return max(largest(u) for u in self.upstream)

    def slopes_shown(self) -> dict[str, float]:
        """By operand, the largest |gradient| / |upstream| of this trial."""
        pairs = zip(self.names, map(largest, self.right.gradients), strict=False)
        size = self.upstream_size
        return {name: g / size for name, g in pairs if size > 0.0 and np.isfinite(g)}

    def _spread(self, value: Any, others: list[Any], slope: float) -> float:
        """The largest move, or one rounding of the largest element or slope; and what is lost to underflow."""
        X = np.asarray(value, ORACLE)
        if not X.size:
            return 0.0
        with np.errstate(invalid="ignore"):
            moves = [largest(np.asarray(other, ORACLE) - X) for other in others]
        most = max(*moves, self.precision.unit * max(largest(X), slope))
        lost = self.precision.tiny * (1.0 + self.upstream_size) * (1.0 + X.size)
        return TIMES * (most + lost) if np.isfinite(most) else np.inf


def largest(X: Any) -> float:
    """max |X|, 0 of nothing."""
    return float(np.abs(np.asarray(X, ORACLE)).max(initial=0.0))


def _floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
