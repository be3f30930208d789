"""Mistakes in softmax and log_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake


def maximum_of_everything(X: Array, axis: int = -1) -> Any:
    E = np.exp(X - X.max())  # wrong: one maximum for all rows
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def axis_before(X: Array, axis: int = -1) -> Any:
    axis = (axis - 1) % X.ndim  # wrong: -2 where -1 is meant
    E = np.exp(X - X.max(axis, keepdims=True))
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def last_axis_always(X: Array, axis: int = -1) -> Any:
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)  # wrong: whatever axis was asked for
    return A, (A, -1)


def denominator_padded(X: Array, axis: int = -1) -> Any:
    E = np.exp(X - X.max(axis, keepdims=True))
    A = E / (E.sum(axis, keepdims=True) + 1e-6)  # wrong: the sum is at least 1, it needs no guard
    return A, (A, axis)


def no_shift(X: Array, axis: int = -1) -> Any:
    E = np.exp(X)  # wrong: overflows
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def maximum_from_a_number(X: Array, axis: int = -1) -> Any:
    top = np.maximum(X.max(axis, keepdims=True), -999999.0)  # wrong: the search starts at a finite number
    E = np.exp(X - top)
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def clipped(X: Array, axis: int = -1) -> Any:
    E = np.exp(np.clip(X, -80.0, 80.0))  # wrong: a clip is no shift
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def shifted_in_place(X: Array, axis: int = -1) -> Any:
    X -= X.max(axis, keepdims=True)  # wrong: the caller's array
    E = np.exp(X)
    A = E / E.sum(axis, keepdims=True)
    return A, (A, axis)


def through_float32(X: Array, axis: int = -1) -> Any:
    X32 = X.astype(np.float32)  # wrong: half of the digits of float64 are gone
    E = np.exp(X32 - X32.max(axis, keepdims=True))
    A = (E / E.sum(axis, keepdims=True)).astype(X.dtype)
    return A, (A, axis)


def remembers_input(X: Array, axis: int = -1) -> Any:
    E = np.exp(X - X.max(axis, keepdims=True))
    A = E / E.sum(axis, keepdims=True)
    return A, (X.copy(), axis)  # wrong: the backward is written in terms of A


def diagonal_only(dA: Array, cache: Any) -> Any:
    A, _ = cache
    return dA * A * (1.0 - A)  # wrong: as if softmax were elementwise, like a sigmoid


def mean_subtracted(dA: Array, cache: Any) -> Any:
    A, axis = cache
    return A * (dA - dA.mean(axis, keepdims=True))  # wrong: a plain mean, where A is the weight


def sum_over_everything(dA: Array, cache: Any) -> Any:
    A, _ = cache
    return A * (dA - (A * dA).sum())  # wrong: axis lost


def sum_over_last_axis(dA: Array, cache: Any) -> Any:
    A, _ = cache
    return A * (dA - (A * dA).sum(-1, keepdims=True))  # wrong: whatever the forward's axis was


def factor_missing(dA: Array, cache: Any) -> Any:
    A, axis = cache
    return dA - (A * dA).sum(axis, keepdims=True)  # wrong: not multiplied by A


def sign_of_sum(dA: Array, cache: Any) -> Any:
    A, axis = cache
    return A * (dA + (A * dA).sum(axis, keepdims=True))  # wrong: + for -


def upstream_ignored(dA: Array, cache: Any) -> Any:
    A, axis = cache
    return A * (1.0 - A.sum(axis, keepdims=True))  # wrong: the Jacobian applied to ones, which is 0


def written_into_upstream(dA: Array, cache: Any) -> Any:
    A, axis = cache
    dA -= (A * dA).sum(axis, keepdims=True)  # wrong: dA belongs to the caller
    dA *= A
    return dA


def written_into_cache(dA: Array, cache: Any) -> Any:
    A, axis = cache
    A *= dA - (A * dA).sum(axis, keepdims=True)  # wrong: the saved A is gone
    return A.copy()


def log_of_softmax(X: Array, axis: int = -1) -> Any:
    E = np.exp(X - X.max(axis, keepdims=True))
    Y = np.log(E / E.sum(axis, keepdims=True))  # wrong: log(0) where E underflows
    return Y, (Y, axis)


def log_of_softmax_padded(X: Array, axis: int = -1) -> Any:
    E = np.exp(X - X.max(axis, keepdims=True))
    Y = np.log(E / E.sum(axis, keepdims=True) + 1e-12)  # wrong: never below -27.6
    return Y, (Y, axis)


def log_sum_without_shift(X: Array, axis: int = -1) -> Any:
    Y = X - np.log(np.exp(X).sum(axis, keepdims=True))  # wrong: exp overflows
    return Y, (Y, axis)


def log_maximum_from_a_number(X: Array, axis: int = -1) -> Any:
    D = X - np.maximum(X.max(axis, keepdims=True), -10000.0)  # wrong: the search starts at a finite number
    Y = D - np.log(np.exp(D).sum(axis, keepdims=True))
    return Y, (Y, axis)


def maximum_forgotten(X: Array, axis: int = -1) -> Any:
    top = X.max(axis, keepdims=True)
    Y = X - np.log(np.exp(X - top).sum(axis, keepdims=True))  # wrong: the maximum is not added back
    return Y, (Y, axis)


def logarithms_for_probabilities(dY: Array, cache: Any) -> Any:
    Y, axis = cache
    return dY - Y * dY.sum(axis, keepdims=True)  # wrong: exp(Y) is the softmax


def upstream_not_summed(dY: Array, cache: Any) -> Any:
    Y, _ = cache
    return dY - np.exp(Y)  # wrong: right for a one-hot dY only


def log_upstream_summed_over_everything(dY: Array, cache: Any) -> Any:
    Y, _ = cache
    return dY - np.exp(Y) * dY.sum()  # wrong: axis lost


def gradient_of_softmax(dY: Array, cache: Any) -> Any:
    Y, axis = cache
    A = np.exp(Y)
    return A * (dY - (A * dY).sum(axis, keepdims=True))  # wrong: the backward of softmax, not of its logarithm


MISTAKES = (
    Mistake(
        "M002",
        "softmax",
        "The maximum is taken over the whole array.",
        "rows of similar size",
        "rows 2000 apart",
        forward=maximum_of_everything,
    ),
    Mistake(
        "M003",
        "softmax",
        "It normalises along the axis before the one meant.",
        "one axis; symmetric scores",
        "row sums of a matrix that is not square",
        forward=axis_before,
        source="SMX-01",
    ),
    Mistake(
        "S01",
        "softmax",
        "The argument axis is ignored.",
        "axis=-1",
        "any other axis",
        forward=last_axis_always,
    ),
    Mistake(
        "M005",
        "softmax",
        "1e-6 is added to the denominator.",
        "tolerances above 1e-6",
        "row sums in float64",
        forward=denominator_padded,
    ),
    Mistake("S02", "softmax", "No maximum is subtracted.", "small inputs", "inputs of 1000", forward=no_shift),
    Mistake(
        "S16",
        "softmax",
        "The search for the maximum starts at -999999.",
        "rows with an element above that",
        "a row below it: 0/0",
        forward=maximum_from_a_number,
    ),
    Mistake(
        "S03",
        "softmax",
        "The input is clipped to [-80, 80], and no maximum subtracted.",
        "inputs within the clip",
        "a row at 1000",
        forward=clipped,
    ),
    Mistake(
        "M011",
        "softmax",
        "The maximum is subtracted in place.",
        "the result",
        "the operand afterwards; a read-only operand",
        forward=shifted_in_place,
    ),
    Mistake(
        "S04",
        "softmax",
        "Computed in float32 and cast back.",
        "float32; tolerances above 1e-7",
        "float64, to its own digits",
        forward=through_float32,
        source="DTY-01",
    ),
    Mistake(
        "M006",
        "softmax",
        "Only the diagonal of the Jacobian: g y (1 - y).",
        "nearly one-hot rows, roughly",
        "rows that do not sum to 0",
        backward=diagonal_only,
        source="SMX-03",
    ),
    Mistake(
        "SMX-03b",
        "softmax",
        "The mean of dA is subtracted instead of the sum of A dA.",
        "uniform A; constant dA",
        "any dense dA",
        backward=mean_subtracted,
    ),
    Mistake(
        "SMX-03c",
        "softmax",
        "The backward reads the input where the output belongs.",
        "constant dA and rows that sum to 1",
        "any dense dA",
        forward=remembers_input,
    ),
    Mistake(
        "M008",
        "softmax",
        "The sum of A dA runs over the whole array.",
        "one row",
        "two rows",
        backward=sum_over_everything,
    ),
    Mistake(
        "S05",
        "softmax",
        "The backward sums along the last axis, whatever the forward's.",
        "axis=-1",
        "any other axis",
        backward=sum_over_last_axis,
    ),
    Mistake("M009", "softmax", "The factor A is missing.", "constant dA", "any dense dA", backward=factor_missing),
    Mistake(
        "S06",
        "softmax",
        "The sum of A dA is added, not subtracted.",
        "sum of A dA = 0",
        "any dense dA",
        backward=sign_of_sum,
    ),
    Mistake(
        "S07",
        "softmax",
        "The Jacobian meets a vector of ones instead of dA.",
        "constant dA: all gradients are 0",
        "any dense dA",
        backward=upstream_ignored,
    ),
    Mistake(
        "M012",
        "softmax",
        "The result is written into the upstream gradient.",
        "the first reader of dA",
        "dA afterwards; a residual path",
        backward=written_into_upstream,
        source="SMX-04",
    ),
    Mistake(
        "M012b",
        "softmax",
        "The result is written into the saved A.",
        "the first call",
        "the second call",
        backward=written_into_cache,
    ),
    Mistake(
        "S08",
        "log_softmax",
        "The logarithm of softmax.",
        "inputs within 700 of each other (88 in float32)",
        "an unlikely class",
        forward=log_of_softmax,
        source="XEN-08",
    ),
    Mistake(
        "S09",
        "log_softmax",
        "1e-12 is added before the logarithm.",
        "likely classes, tolerances above 1e-9",
        "an unlikely class: never below -27.6",
        forward=log_of_softmax_padded,
        source="XEN-08",
    ),
    Mistake(
        "S10",
        "log_softmax",
        "The log-sum-exp takes no maximum out.",
        "small inputs",
        "inputs of 1000",
        forward=log_sum_without_shift,
    ),
    Mistake(
        "S17",
        "log_softmax",
        "The search for the maximum starts at -10000.",
        "rows with an element above that",
        "a row below it: the logarithm of 0",
        forward=log_maximum_from_a_number,
    ),
    Mistake(
        "S11",
        "log_softmax",
        "The maximum leaves the log-sum-exp and does not come back.",
        "rows whose maximum is 0",
        "a shift of the row",
        forward=maximum_forgotten,
    ),
    Mistake(
        "S12",
        "log_softmax",
        "The backward takes Y for the probabilities.",
        "dY that sums to 0",
        "any dense dY",
        backward=logarithms_for_probabilities,
    ),
    Mistake(
        "S13",
        "log_softmax",
        "The backward assumes that dY sums to 1.",
        "a one-hot dY",
        "any dense dY",
        backward=upstream_not_summed,
    ),
    Mistake(
        "S14",
        "log_softmax",
        "dY is summed over the whole array.",
        "one row",
        "two rows",
        backward=log_upstream_summed_over_everything,
    ),
    Mistake(
        "S15",
        "log_softmax",
        "The backward of softmax is used.",
        "never right",
        "any dense dY",
        backward=gradient_of_softmax,
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M002": "X - max: axis, precision",
    "M003": "sum(exp), A, axis: axis, option",
    "S01": "axis, sum(exp), A: option, axis",
    "M005": "sum(exp), A: term",
    "S02": "X - max: precision, term",
    "S03": "X - max, exp: precision, term",
    "M011": "forward: conduct",
    "S04": "X - max, exp, A: precision",
    "M006": "sum(A * dA), dX: term",
    "SMX-03b": "sum(A * dA), A * dA: term, operand",
    "SMX-03c": "A * dA, dX: operand",
    "M008": "sum(A * dA): axis, accumulation",
    "S05": "sum(A * dA), axis: axis, option",
    "M009": "dX: term",
    "S06": "dX, sum(A * dA): factor",
    "S07": "A * dA, dX: operand, term",
    "M012": "backward: conduct",
    "M012b": "backward: conduct",
    "S08": "Y, log(sum(exp)): precision, special",
    "S09": "Y, log(sum(exp)): term, precision",
    "S10": "X - max, sum(exp): precision, term",
    "S11": "Y, log(sum(exp)), X - max: term, operand",
    "S12": "dX: operand, term",
    "S13": "sum(dY), dX: term",
    "S14": "sum(dY): axis, accumulation",
    "S15": "dX, sum(dY): term",
    "S16": "X - max: precision, special",
    "S17": "X - max: precision, special",
}
