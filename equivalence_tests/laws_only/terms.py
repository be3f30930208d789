"""What a wrong gradient is instead, where it is no multiple of the right one: the gradient of a part of the upstream, not
summed, or the right one plus a term. Each answer is proved on the numbers of every wrong trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.laws_only.factors import name_of_factor
from equivalence_tests.laws_only.slopes import Slopes
from equivalence_tests.laws_only.trials import Trial, largest

PLACES = {"first": 0, "last": -1}
LOOK = 12  # elements of a gradient of another shape


# A part of the upstream


def of_a_part(whole: Slopes, name: str, at: list[tuple[int, ...]], got: Array) -> set[tuple[int, str]]:
    """Axes of Y, counted from the end, and places: the gradient is right for the upstream at this place alone."""
    if whole.trial.many:
        return set()
    u = whole.trial.upstream[0]
    found = set()
    for axis in range(-u.ndim, 0):
        for place, index in PLACES.items():
            if u.shape[axis] < 2:
                continue
            part = np.zeros_like(u)
            where = [slice(None)] * u.ndim
            where[axis] = slice(index, None) if index else slice(0, 1)
            part[tuple(where)] = u[tuple(where)]
            slopes = whole.of_upstream((part,))
            if all(_near(value, slopes.element(name, element)) for value, element in zip(got, at, strict=True)):
                found.add((axis, place))
    return found


def _near(value: float, slope: Any, room: float = 0.0) -> bool:
    """Equal within the slope's bound, or within a thousandth where only rounding is unknown."""
    return bool(abs(value - slope.value) <= slope.bound + room + 1e-4 * abs(slope.value) + 1e-9)


# Another shape


def unsummed(trial: Trial, name: str, gradient: Array) -> tuple[str, str]:
    """A code and an axis for a gradient of the wrong shape: its sum over leading axes is right, or its transpose is."""
    expected = trial.operands[name].shape
    for code, other in _of_the_shape(gradient, expected):
        rng = np.random.default_rng(0)
        flat = rng.permutation(int(np.prod(expected)))[:LOOK]
        slopes = Slopes(trial)
        at = [tuple(int(k) for k in np.unravel_index(int(i), expected)) for i in flat]
        if largest(other) and all(_near(float(other[element]), slopes.element(name, element)) for element in at):
            return code, ", ".join(map(str, range(gradient.ndim - len(expected)))) or "0"
    return "", ""


def _of_the_shape(gradient: Array, expected: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    extra = gradient.ndim - len(expected)
    if extra > 0 and gradient.shape[extra:] == expected:
        yield "gradient_not_summed", gradient.sum(tuple(range(extra)))
    if gradient.ndim == 2 and gradient.T.shape == expected:
        yield "gradient_transposed", gradient.T


# A term

FITTED = 4  # elements, beside one for the factor of each trial, that have to fit


def _over_last(value: Array) -> Array:
    return np.asarray(value.sum(-1, keepdims=True))


TERMS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "dY": lambda X, Y, dY: dY,
    "X dY": lambda X, Y, dY: X * dY,
    "Y dY": lambda X, Y, dY: Y * dY,
    "X^2 dY": lambda X, Y, dY: X * X * dY,
    "Y^2 dY": lambda X, Y, dY: Y * Y * dY,
    "sum(dY)": lambda X, Y, dY: _over_last(dY) + 0 * X,
    "X sum(dY)": lambda X, Y, dY: X * _over_last(dY),
    "Y sum(dY)": lambda X, Y, dY: Y * _over_last(dY),
    "sum(Y dY)": lambda X, Y, dY: _over_last(Y * dY) + 0 * X,
    "X sum(X dY)": lambda X, Y, dY: X * _over_last(X * dY),
    "Y sum(Y dY)": lambda X, Y, dY: Y * _over_last(Y * dY),
    "exp(Y) sum(dY)": lambda X, Y, dY: np.exp(Y) * _over_last(dY),
    "X": lambda X, Y, dY: X + 0 * dY,
}


def plus_a_term(trials: list[Trial], name: str, errors: list[tuple[list[tuple[int, ...]], Array, Array]]) -> str:
    """The term by which the gradient is off in every trial, with its factor; nothing if none fits all of them.

    Each of the errors is where, how far off, and what of it rounding may explain. Y must have the operand's shape.
    """
    if sum(len(at) - 1 for at, _, _ in errors) < FITTED:
        return ""
    for said, term in TERMS.items():
        factors = []
        for trial, (at, error, room) in zip(trials, errors, strict=True):
            X, Y, dY = trial.operands[name], trial.right.outputs[0], trial.upstream[0]
            if trial.many or np.shape(Y) != np.shape(X) or not np.ndim(X):
                return ""
            with np.errstate(all="ignore"):
                whole = np.asarray(term(np.asarray(X), np.asarray(Y, np.float64), dY))
            values = np.array([whole[element] for element in at])
            size = float((values * values).sum())
            if not np.isfinite(size) or not size:
                break
            factor = float((error * values).sum()) / size
            if not factor or (np.abs(error - factor * values) > room + 1e-5 * np.abs(error).max()).any():
                break
            factors.append(factor)
        else:
            factor_said = name_of_factor(factors, [trial.letters for trial in trials])
            if factor_said:
                return {"1": said, "-1": f"-{said}"}.get(factor_said, f"{factor_said} {said}")
    return ""
