"""Mistakes in layer_norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake


def _centred(X: Array, axis: int | None = -1) -> tuple[Array, Array]:
    """X - mu and the biased variance: the part that most get right."""
    D = X - X.mean(axis, keepdims=True)
    return D, (D * D).mean(axis, keepdims=True)


def epsilon_outside(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / (np.sqrt(var) + epsilon)  # wrong: added to the deviation
    return scale * (D * r) + shift, (D * r, r, scale)


def root_of_deviation(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(np.sqrt(var) + epsilon)  # wrong: the root of the deviation
    return scale * (D * r) + shift, (D * r, r, scale)


def other_epsilon(X: Array, scale: Array, shift: Array, epsilon: float = 1e-12) -> Any:  # wrong: another default
    D, var = _centred(X)
    r = 1.0 / np.sqrt(var + epsilon)
    return scale * (D * r) + shift, (D * r, r, scale)


def epsilon_ignored(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(var + 1e-5)  # wrong: the argument is not read
    return scale * (D * r) + shift, (D * r, r, scale)


def variance_clamped(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(np.maximum(var, epsilon))  # wrong: a floor is no sum
    return scale * (D * r) + shift, (D * r, r, scale)


def unbiased(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, _ = _centred(X)
    var = (D * D).sum(-1, keepdims=True) / max(X.shape[-1] - 1, 1)  # wrong: ddof = 1
    r = 1.0 / np.sqrt(var + epsilon)
    return scale * (D * r) + shift, (D * r, r, scale)


def one_pass(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    mu = X.mean(-1, keepdims=True)
    var = (X * X).mean(-1, keepdims=True) - mu * mu  # wrong: cancels for a large mean
    r = 1.0 / np.sqrt(var + epsilon)
    N = (X - mu) * r
    return scale * N + shift, (N, r, scale)


def over_first_axis(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X, 0)  # wrong: the statistics of a batch norm
    r = 1.0 / np.sqrt(var + epsilon)
    return scale * (D * r) + shift, (D * r, r, scale)


def over_everything(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X, None)  # wrong: one mean and one variance for all rows
    r = 1.0 / np.sqrt(var + epsilon)
    return scale * (D * r) + shift, (D * r, r, scale)


def divided_by_rows(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D = X - X.sum(-1, keepdims=True) / X.shape[0]  # wrong: the number of rows, not of features
    r = 1.0 / np.sqrt((D * D).sum(-1, keepdims=True) / X.shape[0] + epsilon)
    return scale * (D * r) + shift, (D * r, r, scale)


def no_centring(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    r = 1.0 / np.sqrt((X * X).mean(-1, keepdims=True) + epsilon)  # wrong: root mean square, mu is gone
    return scale * (X * r) + shift, (X * r, r, scale)


def scale_around_one(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(var + epsilon)
    return (1.0 + scale) * (D * r) + shift, (D * r, r, scale)  # wrong: as if the scale were stored minus 1


def shift_scaled(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(var + epsilon)
    return scale * (D * r + shift), (D * r, r, scale)  # wrong: shift inside the bracket


def centred_in_place(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    X -= X.mean(-1, keepdims=True)  # wrong: the caller's array
    r = 1.0 / np.sqrt((X * X).mean(-1, keepdims=True) + epsilon)
    return scale * (X * r) + shift, (X * r, r, scale)


def _parameter_gradients(dY: Array, N: Array) -> tuple[Array, Array]:
    """dscale, dshift: right."""
    leading = tuple(range(dY.ndim - 1))
    return (dY * N).sum(leading), dY.sum(leading)


def _mean(X: Array) -> Any:
    return X.mean(-1, keepdims=True)


def _right_dX(dY: Array, N: Array, r: Array, scale: Array) -> Any:
    dN = dY * scale
    return r * (dN - _mean(dN) - N * _mean(dN * N))


def first_mean_missing(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    dX = r * (dN - N * _mean(dN * N))  # wrong: mean(dN) is missing
    return dX, *_parameter_gradients(dY, N)


def second_mean_missing(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    dX = r * (dN - _mean(dN))  # wrong: N mean(dN N) is missing
    return dX, *_parameter_gradients(dY, N)


def statistics_constant(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dX = r * (dY * scale)  # wrong: mu and r depend on X
    return dX, *_parameter_gradients(dY, N)


def raw_input_remembered(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(var + epsilon)
    return scale * (D * r) + shift, (D * r, r, scale, X.copy())


def raw_input_in_second_term(dY: Array, cache: Any) -> Any:
    N, r, scale, X = cache
    dN = dY * scale
    dX = r * (dN - _mean(dN) - X * _mean(dN * X))  # wrong: X for N
    return dX, *_parameter_gradients(dY, N)


def means_over_everything(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    dX = r * (dN - dN.mean() - N * (dN * N).mean())  # wrong: axis lost
    return dX, *_parameter_gradients(dY, N)


def scale_outside_means(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dX = scale * r * (dY - _mean(dY) - N * _mean(dY * N))  # wrong: the scale differs within a row
    return dX, *_parameter_gradients(dY, N)


def scale_missing(dY: Array, cache: Any) -> Any:
    N, r, _ = cache
    dX = r * (dY - _mean(dY) - N * _mean(dY * N))  # wrong: dN = dY
    return dX, *_parameter_gradients(dY, N)


def r_missing(dY: Array, cache: Any) -> Any:
    N, _, scale = cache
    dN = dY * scale
    dX = dN - _mean(dN) - N * _mean(dN * N)  # wrong: not multiplied by r
    return dX, *_parameter_gradients(dY, N)


def unbiased_means(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    d = dY.shape[-1]
    second = (dN * N).sum(-1, keepdims=True) / max(d - 1, 1)  # wrong: d - 1 under a biased variance
    dX = r * (dN - _mean(dN) - N * second)
    return dX, *_parameter_gradients(dY, N)


def second_term_halved(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    dvar = -0.5 * r**2 * (dN * N).sum(-1, keepdims=True)
    dX = r * (dN - _mean(dN)) + dvar * (N / r) / dY.shape[-1]  # wrong: d(D^2) is 2 D
    return dX, *_parameter_gradients(dY, N)


def power_of_r(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dN, D = dY * scale, N / r
    dvar = -0.5 * r**2 * (dN * D).sum(-1, keepdims=True)  # wrong: r^3
    dX = r * (dN - _mean(dN)) + dvar * 2.0 * D / dY.shape[-1]
    return dX, *_parameter_gradients(dY, N)


def dscale_from_output(dY: Array, cache: Any) -> Any:
    N, r, scale, Y = cache
    dscale = (dY * Y).sum(tuple(range(dY.ndim - 1)))  # wrong: Y for N
    return _right_dX(dY, N, r, scale), dscale, _parameter_gradients(dY, N)[1]


def output_remembered(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D, var = _centred(X)
    r = 1.0 / np.sqrt(var + epsilon)
    Y = scale * (D * r) + shift
    return Y, (D * r, r, scale, Y.copy())


def dscale_over_first_axis(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dscale = (dY * N).sum(0) if dY.ndim > 1 else dY * N  # wrong: one leading axis only
    return _right_dX(dY, N, r, scale), dscale, _parameter_gradients(dY, N)[1]


def dshift_over_first_axis(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dshift = dY.sum(0) if dY.ndim > 1 else dY.copy()  # wrong: one leading axis only
    return _right_dX(dY, N, r, scale), _parameter_gradients(dY, N)[0], dshift


def dshift_mean(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dshift = dY.mean(tuple(range(dY.ndim - 1))) if dY.ndim > 1 else dY.copy()  # wrong: the sum is meant
    return _right_dX(dY, N, r, scale), _parameter_gradients(dY, N)[0], dshift


def dshift_scaled(dY: Array, cache: Any) -> Any:
    N, r, scale = cache
    dshift = (dY * scale).sum(tuple(range(dY.ndim - 1)))  # wrong: the shift comes after the scale
    return _right_dX(dY, N, r, scale), _parameter_gradients(dY, N)[0], dshift


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any = None, backward: Any = None, source: str = ""
) -> Mistake:
    return Mistake(id, "layer_norm", sentence, hidden_on, shown_by, forward, backward, source)


MISTAKES = (
    _of(
        "M050",
        "Epsilon is added to the deviation, outside the root.",
        "a spread near 1 and a loose tolerance",
        "rows that hardly vary",
        epsilon_outside,
        source="LNM-02",
    ),
    _of(
        "LNM-02c",
        "The root of the deviation plus epsilon.",
        "variance 1",
        "any other variance",
        root_of_deviation,
    ),
    _of(
        "M051",
        "The default epsilon is 1e-12.",
        "a spread near 1 and a loose tolerance",
        "rows that hardly vary",
        other_epsilon,
    ),
    _of("N01", "Epsilon is always 1e-5.", "the default", "epsilon = 0.5", epsilon_ignored),
    _of(
        "N02",
        "The variance is clamped at epsilon.",
        "variances far above epsilon",
        "rows that hardly vary, a large epsilon",
        variance_clamped,
    ),
    _of("LNM-02a", "The variance divides by d - 1.", "wide rows, roughly", "narrow rows", unbiased),
    _of(
        "M053",
        "The variance in one pass, mean of squares minus square of mean.",
        "means near 0",
        "rows around 40000, in float32 above all",
        one_pass,
        source="LNM-03",
    ),
    _of(
        "M054",
        "The statistics run over the first axis.",
        "one row with no leading axis",
        "a matrix that is not square",
        over_first_axis,
        source="LNM-08",
    ),
    _of("N03", "One mean and one variance for the whole array.", "one row", "two rows", over_everything),
    _of(
        "LNM-08b",
        "Sums over features are divided by the number of rows.",
        "a square input",
        "a matrix that is not square",
        divided_by_rows,
    ),
    _of("N04", "The mean is not subtracted.", "rows with mean 0", "any other row", no_centring),
    _of(
        "N05",
        "The scale is read as an offset from 1.",
        "scale 0 stored by the same author",
        "any scale",
        scale_around_one,
    ),
    _of("N06", "The shift is multiplied by the scale.", "scale 1 or shift 0", "any other scale", shift_scaled),
    _of(
        "N07",
        "The mean is subtracted in place.",
        "the result",
        "the operand afterwards; a read-only operand",
        centred_in_place,
    ),
    _of(
        "M056",
        "The mean of dN is missing.",
        "dY scale with mean 0 in each row",
        "any dense dY",
        backward=first_mean_missing,
    ),
    _of(
        "M057",
        "The term with N is missing.",
        "dY scale constant in each row",
        "any dense dY",
        backward=second_mean_missing,
    ),
    _of(
        "N08",
        "Mean and deviation are treated as constants.",
        "never right",
        "any dense dY",
        backward=statistics_constant,
    ),
    _of(
        "M059",
        "The raw input stands for N in the second term.",
        "standardised rows",
        "any other row",
        raw_input_remembered,
        raw_input_in_second_term,
    ),
    _of(
        "M060",
        "Both means run over the whole array.",
        "one row",
        "two rows",
        backward=means_over_everything,
    ),
    _of(
        "N09",
        "The scale stands outside the means.",
        "all scales equal, as at initialisation",
        "a random scale",
        backward=scale_outside_means,
    ),
    _of("N10", "The scale is missing in dX.", "scale 1", "any other scale", backward=scale_missing),
    _of("N11", "The factor r is missing in dX.", "variance 1", "any other variance", backward=r_missing),
    _of(
        "N12",
        "The backward divides by d - 1.",
        "wide rows, roughly; dN at right angles to N",
        "narrow rows",
        backward=unbiased_means,
    ),
    _of(
        "N13",
        "The factor 2 of the square is missing.",
        "dN at right angles to N",
        "any dense dY",
        backward=second_term_halved,
    ),
    _of("N14", "r^2 instead of r^3 in dvar.", "variance 1", "any other variance", backward=power_of_r),
    _of(
        "M062",
        "dscale is made from the output instead of N.",
        "scale 1 and shift 0, as at initialisation",
        "any other scale",
        output_remembered,
        dscale_from_output,
    ),
    _of(
        "M063",
        "dscale is summed over the first axis only.",
        "a matrix",
        "two leading axes",
        backward=dscale_over_first_axis,
    ),
    _of(
        "N15",
        "dshift is summed over the first axis only.",
        "a matrix",
        "two leading axes",
        backward=dshift_over_first_axis,
    ),
    _of("N16", "dshift is a mean over rows.", "one row", "two rows", backward=dshift_mean),
    _of("N17", "dshift is multiplied by the scale.", "scale 1", "any other scale", backward=dshift_scaled),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M050": "r, epsilon: term, option",
    "LNM-02c": "r, var: term",
    "M051": "epsilon, r: option, term",
    "N01": "epsilon, r: option",
    "N02": "r, var, epsilon: term, option",
    "LNM-02a": "var: factor",
    "M053": "var: precision",
    "M054": "mean(X), var: axis",
    "N03": "mean(X), var: axis",
    "LNM-08b": "mean(X), var: factor, axis",
    "N04": "X - mean(X), mean(X): term",
    "N05": "Y: term, operand",
    "N06": "Y: term",
    "N07": "forward: conduct",
    "M056": "mean(dN), dX: term",
    "M057": "mean(dN * N), dX: term",
    "N08": "dX, mean(dN), mean(dN * N): term",
    "M059": "mean(dN * N), dX: operand",
    "M060": "mean(dN), mean(dN * N): axis, accumulation",
    "N09": "dN, mean(dN), dX: term, operand",
    "N10": "dN, dX: term, operand",
    "N11": "dX: term",
    "N12": "mean(dN * N): factor",
    "N13": "mean(dN * N), dX: factor, term",
    "N14": "mean(dN * N), dX: term",
    "M062": "dscale: operand",
    "M063": "dscale: accumulation, shape",
    "N15": "dshift: accumulation, shape",
    "N16": "dshift: factor, accumulation",
    "N17": "dshift: term, operand",
}
