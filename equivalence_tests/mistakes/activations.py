"""Mistakes in relu, tanh and gelu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake

SLOPE = math.sqrt(2.0 / math.pi)
CUBE = 0.044715

# relu


def relu_leaky(X: Array) -> Any:
    Y = np.where(X > 0, X, 0.01 * X)  # wrong: leaks
    return Y, Y


def relu_capped(X: Array) -> Any:
    Y = np.clip(X, 0.0, 6.0)  # wrong: relu6
    return Y, Y


def relu_in_place(X: Array) -> Any:
    X[X < 0] = 0.0  # wrong: the caller's array
    return X.copy(), X.copy()


def relu_hides_nan(X: Array) -> Any:
    Y = np.where(X > 0, X, X.dtype.type(0))  # wrong: NaN > 0 is False
    return Y, Y


def relu_at_zero(dY: Array, cache: Any) -> Any:
    return np.where(cache >= 0, dY, dY.dtype.type(0))  # wrong: Y is never negative, everything passes


def relu_by_upstream(dY: Array, cache: Any) -> Any:
    return np.where(dY > 0, dY, dY.dtype.type(0))  # wrong: the sign of the gradient, not of the input


def relu_mask_alone(dY: Array, cache: Any) -> Any:
    return (cache > 0).astype(dY.dtype)  # wrong: dY is not read


def relu_writes_upstream(dY: Array, cache: Any) -> Any:
    dY[cache <= 0] = 0.0  # wrong: dY belongs to the caller
    return dY.copy()


# tanh


def tanh_by_exponentials(X: Array) -> Any:
    E = np.exp(2.0 * X)
    Y = (E - 1.0) / (E + 1.0)  # wrong: infinity over infinity
    return Y, Y


def tanh_not_squared(dY: Array, cache: Any) -> Any:
    return dY * (1.0 - cache)  # wrong: Y^2


def tanh_of_upstream(dY: Array, cache: Any) -> Any:
    return 1.0 - np.tanh(dY) ** 2  # wrong: neither the input nor the factor dY


def tanh_upstream_missing(dY: Array, cache: Any) -> Any:
    return 1.0 - cache * cache  # wrong: dY is not read


def tanh_twice(dY: Array, cache: Any) -> Any:
    return dY * (1.0 - np.tanh(cache) ** 2)  # wrong: the cache is the output already


def tanh_of_sigmoid(dY: Array, cache: Any) -> Any:
    return dY * cache * (1.0 - cache)  # wrong: the derivative of the sigmoid


def tanh_inverted(dY: Array, cache: Any) -> Any:
    return dY / (1.0 - cache * cache)  # wrong: the derivative of artanh


# gelu


def _erf(X: Array) -> Array:
    return np.asarray([math.erf(x) for x in X.reshape(-1).tolist()], X.dtype).reshape(X.shape)


def _inner(X: Array) -> Any:
    x = np.clip(X, -30.0, 30.0)
    return np.tanh(SLOPE * (x + CUBE * x * x * x))


def gelu_by_erf(X: Array) -> Any:
    return X * (0.5 * (1.0 + _erf(X * math.sqrt(0.5)))), (X, _inner(X))  # wrong: the other form


def gelu_quick(X: Array) -> Any:
    return X / (1.0 + np.exp(np.clip(-1.702 * X, -80.0, 80.0))), (X, _inner(X))  # wrong: an approximation


def gelu_cube_slipped(X: Array) -> Any:
    x = np.clip(X, -30.0, 30.0)
    t = np.tanh(SLOPE * (x + 0.44715 * x * x * x))  # wrong: 0.044715
    return X * (0.5 * (1.0 + t)), (X, t)


def gelu_rounded_constant(X: Array) -> Any:
    x = np.clip(X, -30.0, 30.0)
    t = np.tanh(0.79788 * (x + CUBE * x * x * x))  # wrong: 0.7978845608...
    return X * (0.5 * (1.0 + t)), (X, t)


def _gelu_backward(dY: Array, X: Array, t: Array, du: Array) -> Any:
    return dY * (0.5 * (1.0 + t) + 0.5 * np.clip(X, -30.0, 30.0) * (1.0 - t * t) * du)


def gelu_erf_derivative(dY: Array, cache: Any) -> Any:
    X, _ = cache
    density = np.exp(-0.5 * np.clip(X, -13.0, 13.0) ** 2) * (1.0 / math.sqrt(2.0 * math.pi))
    return dY * (0.5 * (1.0 + _erf(X * math.sqrt(0.5))) + X * density)  # wrong: the other form


def gelu_three_missing(dY: Array, cache: Any) -> Any:
    X, t = cache
    x = np.clip(X, -30.0, 30.0)
    return _gelu_backward(dY, X, t, SLOPE * (1.0 + CUBE * x * x))  # wrong: 3 * 0.044715


def gelu_cubic_term_missing(dY: Array, cache: Any) -> Any:
    X, t = cache
    return _gelu_backward(dY, X, t, np.full_like(X, SLOPE))  # wrong: du/dX is not constant


def gelu_first_term_only(dY: Array, cache: Any) -> Any:
    _, t = cache
    return dY * (0.5 * (1.0 + t))  # wrong: t depends on X


def gelu_second_term_only(dY: Array, cache: Any) -> Any:
    X, t = cache
    x = np.clip(X, -30.0, 30.0)
    return dY * (0.5 * x * (1.0 - t * t) * (SLOPE * (1.0 + 3.0 * CUBE * x * x)))  # wrong: X is a factor itself


def gelu_half_missing(dY: Array, cache: Any) -> Any:
    X, t = cache
    x = np.clip(X, -30.0, 30.0)
    du = SLOPE * (1.0 + 3.0 * CUBE * x * x)
    return dY * (0.5 * (1.0 + t) + x * (1.0 - t * t) * du)  # wrong: the half of the second term


def gelu_far_out(dY: Array, cache: Any) -> Any:
    X, t = cache
    du = SLOPE * (1.0 + 3.0 * CUBE * X * X)  # wrong: 0 times infinity far out
    return dY * (0.5 * (1.0 + t) + 0.5 * X * (1.0 - t * t) * du)


def _of(
    id: str,
    op: str,
    sentence: str,
    hidden_on: str,
    shown_by: str,
    forward: Any = None,
    backward: Any = None,
    source: str = "",
) -> Mistake:
    return Mistake(id, op, sentence, hidden_on, shown_by, forward, backward, source)


MISTAKES = (
    _of("F01", "relu", "Negative inputs leak.", "inputs of at least 0", "any negative input", relu_leaky),
    _of("F02", "relu", "The output ends at 6.", "inputs up to 6", "an input of 7", relu_capped),
    _of("F03", "relu", "Negative inputs are set to 0 in place.", "the result", "the operand afterwards", relu_in_place),
    _of("F04", "relu", "NaN becomes 0.", "finite inputs", "NaN", relu_hides_nan),
    _of("F05", "relu", "Y >= 0 for X > 0: everything passes.", "positive inputs", "0 and below", backward=relu_at_zero),
    _of("F06", "relu", "The sign of dY decides.", "never right", "any dense dY", backward=relu_by_upstream),
    _of("F07", "relu", "The mask comes back without dY.", "dY = 1", "any dense dY", backward=relu_mask_alone),
    _of("F08", "relu", "dY is set to 0 in place.", "the result", "dY afterwards", backward=relu_writes_upstream),
    _of(
        "F09",
        "tanh",
        "Made from exponentials that overflow.",
        "inputs below 354 (44 in float32)",
        "large inputs: NaN",
        tanh_by_exponentials,
    ),
    _of("F10", "tanh", "1 - Y for 1 - Y^2.", "Y = 0 and Y = 1", "any other Y", backward=tanh_not_squared),
    _of("ACT-06", "tanh", "1 - tanh(dY)^2 comes back.", "never right", "any dense dY", backward=tanh_of_upstream),
    _of("F11", "tanh", "The factor dY is missing.", "dY = 1", "any dense dY", backward=tanh_upstream_missing),
    _of("F12", "tanh", "tanh of the output once more.", "Y near 0", "any other Y", backward=tanh_twice),
    _of("F13", "tanh", "The derivative of the sigmoid.", "Y = 1, roughly", "any other Y", backward=tanh_of_sigmoid),
    _of(
        "F14",
        "tanh",
        "Divided by 1 - Y^2.",
        "Y near 0",
        "any other Y",
        backward=tanh_inverted,
        source="RNN-01",
    ),
    _of(
        "M104",
        "gelu",
        "The erf form in place of the tanh form.",
        "tolerances above 5e-4",
        "|X| = 2.7, to its digits",
        gelu_by_erf,
        source="ACT-01",
    ),
    _of("M105", "gelu", "X sigmoid(1.702 X).", "tolerances above 0.02", "any value", gelu_quick),
    _of("F15", "gelu", "0.44715 for 0.044715.", "X near 0 and far out", "X near 1", gelu_cube_slipped),
    _of(
        "F16",
        "gelu",
        "sqrt(2/pi) with five digits.",
        "tolerances above 1e-5",
        "any value to its digits",
        gelu_rounded_constant,
    ),
    _of(
        "M107",
        "gelu",
        "The erf form's derivative behind the tanh form.",
        "tolerances above 1e-3",
        "any value to its digits",
        backward=gelu_erf_derivative,
        source="ACT-01",
    ),
    _of(
        "M108",
        "gelu",
        "The factor 3 of the cubic term is missing.",
        "X near 0",
        "|X| near 1.5",
        backward=gelu_three_missing,
    ),
    _of(
        "F17",
        "gelu",
        "The cubic term has no derivative.",
        "X near 0",
        "|X| near 1.5",
        backward=gelu_cubic_term_missing,
    ),
    _of("F18", "gelu", "The second term is missing.", "far out", "X near 1", backward=gelu_first_term_only),
    _of("F19", "gelu", "The first term is missing.", "far below 0", "X above 0", backward=gelu_second_term_only),
    _of("F20", "gelu", "The second term is doubled.", "far out", "X near 1", backward=gelu_half_missing),
    _of(
        "M110",
        "gelu",
        "0 times an overflown square, far out.",
        "|X| below 1e18; float64",
        "X = 1e20 in float32: NaN",
        backward=gelu_far_out,
        source="ACT-02",
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "F01": "Y: term",
    "F02": "Y: term",
    "F03": "forward: conduct",
    "F04": "Y: special",
    "F05": "dX: term, operand",
    "F06": "dX: operand",
    "F07": "dX: term, operand",
    "F08": "backward: conduct",
    "F09": "Y: precision, special",
    "F10": "dX: term",
    "ACT-06": "dX: operand, term",
    "F11": "dX: term, operand",
    "F12": "dX: operand, term",
    "F13": "dX: term",
    "F14": "dX: term",
    "M104": "Y, t: term, precision",
    "M105": "Y, t: term, precision",
    "F15": "u: factor, term",
    "F16": "u: factor, precision",
    "M107": "dX, du: term, precision",
    "M108": "du: factor, term",
    "F17": "du: term",
    "F18": "dX: term",
    "F19": "dX: term",
    "F20": "dX: factor, term",
    "M110": "du, dX: precision, special",
}
