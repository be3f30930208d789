"""Each gradient, element by element, against what the forward alone says; and what a wrong one has wrong, as far as the
numbers tell: it is a multiple of the right one, its transpose, or another operand's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.findings import Finding
from equivalence_tests.laws_only.factors import SAME, name_of_factor
from equivalence_tests.laws_only.slopes import Slopes
from equivalence_tests.laws_only.terms import PLACES, of_a_part, plus_a_term
from equivalence_tests.laws_only.trials import Trial

# Of one tensor in one trial; drawn at random where it has more, and the adjoint identity sees them all.
ELEMENTS = {"complex steps": 24, "central differences": 12}
LOOKED_AT = 4  # wrong trials in which the upstream is taken apart


@dataclass(frozen=True)
class Wrong:
    """A wrong gradient in one trial: its elements at `at`, what they should be, and what rounding explains of each."""

    trial: Trial
    name: str
    at: list[tuple[int, ...]]
    got: Array
    expected: Array
    allowed: Array
    worst: int
    witness: str
    slopes: Slopes


@dataclass
class GradientLaw:
    """One operand's gradient over all trials."""

    name: str
    judged: int = 0
    wrong: list[Wrong] = field(default_factory=list)

    def hear(self, trial: Trial, slopes: Slopes) -> None:
        """Compare one trial's gradient. Not judged where most of its elements have no slope, or none that can be told."""
        position = trial.names.index(self.name)
        gradient, room = np.asarray(trial.right.gradients[position]), trial.allowed[1][position]
        at = list(_elements(gradient.shape, trial.rng, ELEMENTS[slopes.how]))
        found = [slopes.element(self.name, index) for index in at]
        got = np.array([gradient[index] for index in at], np.float64)
        expected, allowed = np.array([s.value for s in found]), np.array([s.bound + room for s in found])
        for worst in sorted(range(len(at)), key=lambda i: -_excess(got[i], expected[i], allowed[i])):
            if not _excess(got[worst], expected[worst], allowed[worst]) > 1.0:
                break
            closer = slopes.element(self.name, at[worst], close=True)
            expected[worst], allowed[worst] = closer.value, closer.bound + room
            if _excess(got[worst], expected[worst], allowed[worst]) > 1.0:
                told = Wrong(trial, self.name, at, got, expected, allowed, worst, slopes.how, slopes)
                self.wrong.append(told)
                self.judged += 1
                return
        scale = float(np.abs(expected[np.isfinite(allowed)]).max(initial=0.0))
        enough = allowed <= math.sqrt(max(trial.precision.unit, slopes.unit)) * scale if scale else allowed < math.inf
        self.judged += bool(2 * np.count_nonzero(enough) >= len(at)) if at else 0

    def finding(self) -> Finding | None:
        """What is wrong, by the strongest evidence: an exact factor in every wrong trial, else the worst element."""
        if not self.wrong:
            return None
        tensor, first = f"d{self.name}", max(self.wrong, key=_share)
        witness = {"witness": first.witness}
        errors = [_relative(wrong) for wrong in self.wrong]
        if max(errors) <= SAME:
            return Finding(
                "gradient_imprecise",
                tensor,
                numbers={"error": max(errors), "unit": first.trial.precision.unit, **witness},
            )
        judged = [wrong for wrong in self.wrong if not _divided_by_zero(wrong)]
        factors = [_factor(wrong) for wrong in judged]
        known = [f for f in factors if f is not None]
        if known and len(known) == len(factors):
            said = name_of_factor(known, [wrong.trial.letters for wrong in judged])
            if said:
                return Finding("gradient_factor", tensor, numbers={"factor": said, **witness, "cases": len(known)})
        other = self._whose()
        if other:
            return Finding("gradient_of_another", tensor, numbers={"other": other, **witness})
        if all(_is(wrong, _transposed(wrong)) for wrong in self.wrong):
            return Finding("gradient_transposed", tensor, numbers=witness)
        part = self._part()
        if part is not None:
            axis, place = part
            return Finding(
                "gradient_of_a_part", tensor, numbers={"axis": axis, "place": place, "at": PLACES[place], **witness}
            )
        off = [(w.at, w.got - w.expected, w.allowed) for w in self.wrong]
        term = plus_a_term([w.trial for w in self.wrong], self.name, off)
        if term:
            return Finding("gradient_plus_term", tensor, numbers={"term_said": term, **witness, "cases": len(off)})
        i = first.worst
        return Finding(
            "gradient_differs",
            tensor,
            numbers={
                "index": ", ".join(map(str, first.at[i])),
                "got": float(first.got[i]),
                "expected": float(first.expected[i]),
                "allowed": float(first.allowed[i]),
                **witness,
                "wrong": int(np.count_nonzero(np.abs(first.got - first.expected) > first.allowed)),
                "of": len(first.at),
                "cases": len(self.wrong),
            },
        )

    def _part(self) -> tuple[int, str] | None:
        """The axis of Y and the place on it that alone count, in the first wrong trials."""
        found: set[tuple[int, str]] | None = None
        for w in self.wrong[:LOOKED_AT]:
            here = of_a_part(w.slopes, self.name, w.at, w.got)
            found = here if found is None else found & here
            if not found:
                return None
        return sorted(found)[-1] if found else None

    def _whose(self) -> str:
        """The operand whose gradient stands here in every wrong trial: the numbers here are this one's right ones."""
        names = set.intersection(*({n for n in w.trial.names if n != self.name} for w in self.wrong))
        for name in sorted(names):
            if all(_is(wrong, _of_operand(wrong, name)) for wrong in self.wrong):
                return f"d{name}"
        return ""


def _elements(shape: tuple[int, ...], rng: np.random.Generator, most: int) -> Iterator[tuple[int, ...]]:
    size = math.prod(shape)
    flat = np.sort(rng.permutation(size)[:most])
    for i in flat:
        yield tuple(int(k) for k in np.unravel_index(int(i), shape))


def _excess(got: Any, expected: Any, allowed: Any) -> float:
    """The error over what is allowed; 0 where nothing is known."""
    if not math.isfinite(allowed):
        return 0.0
    error = float(abs(got - expected))
    if allowed == 0.0:
        return math.inf if error else 0.0
    return error / float(allowed) if math.isfinite(error) else math.inf


def _share(wrong: Wrong) -> float:
    return _excess(wrong.got[wrong.worst], wrong.expected[wrong.worst], wrong.allowed[wrong.worst])


def _relative(wrong: Wrong) -> float:
    """The largest error that rounding does not explain, relative to the largest element."""
    known = np.isfinite(wrong.allowed) & (np.abs(wrong.got - wrong.expected) > wrong.allowed)
    size = float(np.abs(wrong.expected[np.isfinite(wrong.allowed)]).max())
    return float(np.abs(wrong.got - wrong.expected)[known].max(initial=0.0)) / size if size else math.inf


def _factor(wrong: Wrong) -> float | None:
    """f, if every element is f times what it should be, within rounding."""
    known = np.isfinite(wrong.allowed) & np.isfinite(wrong.got)
    got, expected, allowed = wrong.got[known], wrong.expected[known], wrong.allowed[known]
    if not known.all() or not float(np.abs(expected).max(initial=0.0)):
        return None
    f = float((got * expected).sum() / (expected * expected).sum())
    room = allowed * (1.0 + abs(f)) + SAME * abs(f) * np.abs(expected)
    return f if bool((np.abs(got - f * expected) <= room).all()) else None


def _divided_by_zero(wrong: Wrong) -> bool:
    """Whether an option is 0 and all of the gradient is to be: a factor of one over the option is infinite there."""
    return 0.0 in wrong.trial.letters.values() and bool((np.abs(wrong.expected) <= wrong.allowed).all())


def _is(wrong: Wrong, other: Any) -> bool:
    """Whether the wrong gradient's numbers are those of the other array, which is not itself right here."""
    if other is None:
        return False
    known = np.isfinite(wrong.allowed)
    return bool((np.abs(other - wrong.expected)[known] <= 2.0 * wrong.allowed[known]).all()) and bool(known.any())


def _transposed(wrong: Wrong) -> Array | None:
    """The gradient with its last two axes swapped, at the elements looked at, where that has the same shape."""
    gradient = np.asarray(wrong.trial.right.gradients[wrong.trial.names.index(wrong.name)], np.float64)
    if gradient.ndim < 2 or gradient.shape[-1] != gradient.shape[-2]:
        return None
    swapped = gradient.swapaxes(-1, -2)
    return np.array([swapped[index] for index in wrong.at])


def _of_operand(wrong: Wrong, name: str) -> Array | None:
    """What the backward gives for another operand, at the elements looked at: is that the gradient meant for this one?"""
    trial = wrong.trial
    other = np.asarray(trial.right.gradients[trial.names.index(name)], np.float64)
    if other.shape != trial.operands[wrong.name].shape:
        return None
    return np.array([other[index] for index in wrong.at])
