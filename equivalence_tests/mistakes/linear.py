"""Mistakes in linear."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake


def assumed_contiguous(X: Array, weight: Array, bias: Array | None = None) -> Any:
    owner = X if X.base is None else np.asarray(X.base)
    flat = np.resize(owner, X.shape)  # wrong: reads the buffer from its start, whatever the strides
    Y = flat @ weight.T if bias is None else flat @ weight.T + bias
    return Y, (flat, weight, bias)


def square_not_transposed(X: Array, weight: Array, bias: Array | None = None) -> Any:
    matrix = weight if weight.shape[0] == weight.shape[1] else weight.T  # wrong: fitted by shape
    return X @ matrix if bias is None else X @ matrix + bias, (X, weight, bias)


def bias_forgotten(X: Array, weight: Array, bias: Array | None = None) -> Any:
    return X @ weight.T, (X, weight, bias)  # wrong: the bias is not added


def _right(dY: Array, cache: Any) -> tuple[Array, Array, Array]:
    X, weight, _ = cache
    rows = dY.reshape(-1, weight.shape[0])
    return dY @ weight, rows.T @ X.reshape(-1, weight.shape[1]), rows.sum(0)


def _answer(cache: Any, dX: Array, dweight: Array, dbias: Array) -> Any:
    return (dX, dweight) if cache[2] is None else (dX, dweight, dbias)


def dbias_over_first_axis(dY: Array, cache: Any) -> Any:
    dX, dweight, _ = _right(dY, cache)
    return _answer(cache, dX, dweight, dY.sum(0) if dY.ndim > 1 else dY.copy())  # wrong: one leading axis only


def dbias_not_summed(dY: Array, cache: Any) -> Any:
    dX, dweight, _ = _right(dY, cache)
    return _answer(cache, dX, dweight, dY.copy())  # wrong: has grown to the shape of the output


def dbias_mean(dY: Array, cache: Any) -> Any:
    dX, dweight, _ = _right(dY, cache)
    return _answer(cache, dX, dweight, dY.reshape(-1, dY.shape[-1]).mean(0))  # wrong: a sum is meant


def dbias_always(dY: Array, cache: Any) -> Any:
    return _right(dY, cache)  # wrong: without a bias there is no dbias


def dweight_transposed(dY: Array, cache: Any) -> Any:
    dX, dweight, dbias = _right(dY, cache)
    return _answer(cache, dX, dweight.T.copy(), dbias)  # wrong: X^T dY


def dweight_mean(dY: Array, cache: Any) -> Any:
    dX, dweight, dbias = _right(dY, cache)
    return _answer(cache, dX, dweight / (dY.size // dY.shape[-1]), dbias)  # wrong: the loss takes means, not we


def dweight_of_last(dY: Array, cache: Any) -> Any:
    X, _, _ = cache
    dX, dweight, dbias = _right(dY, cache)
    if X.ndim == 3:
        for X_t, dY_t in zip(X, dY, strict=True):
            dweight = dY_t.T @ X_t  # wrong: = for +=
    return _answer(cache, dX, dweight, dbias)


def dweight_in_float64(dY: Array, cache: Any) -> Any:
    X, weight, _ = cache
    dX, _, dbias = _right(dY, cache)
    dweight = np.zeros(weight.shape)  # wrong: the default dtype
    dweight += dY.reshape(-1, weight.shape[0]).T @ X.reshape(-1, weight.shape[1])
    return _answer(cache, dX, dweight, dbias)


def dX_not_transposed(dY: Array, cache: Any) -> Any:
    _, weight, _ = cache
    _, dweight, dbias = _right(dY, cache)
    matrix = weight.T if weight.shape[0] == weight.shape[1] else weight  # wrong: fitted by shape
    return _answer(cache, dY @ matrix, dweight, dbias)


def dX_of_rows(dY: Array, cache: Any) -> Any:
    dX, dweight, dbias = _right(dY, cache)
    return _answer(cache, dX.reshape(-1, dX.shape[-1]), dweight, dbias)  # wrong: the leading axes are lost


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any = None, backward: Any = None, source: str = ""
) -> Mistake:
    return Mistake(id, "linear", sentence, hidden_on, shown_by, forward, backward, source)


MISTAKES = (
    _of("M095", "X is read as if it owned its memory.", "contiguous X", "a transposed view", assumed_contiguous),
    _of(
        "W01",
        "A square weight is not transposed.",
        "symmetric weights; other shapes",
        "a square weight",
        square_not_transposed,
        source="CKP-01",
    ),
    _of("W02", "The bias is not added.", "no bias; bias 0", "any bias", bias_forgotten),
    _of(
        "M089",
        "dbias is summed over the first axis only.",
        "a matrix",
        "two leading axes: the shape",
        backward=dbias_over_first_axis,
        source="BRD-01",
    ),
    _of("BRD-01", "dbias is not summed.", "one row", "two rows: the shape", backward=dbias_not_summed),
    _of("M090", "dbias is a mean.", "one row", "two rows", backward=dbias_mean),
    _of("W03", "dbias comes though there is no bias.", "a bias", "no bias", backward=dbias_always),
    _of(
        "M092",
        "dweight is transposed.",
        "the shape of a square weight",
        "any value",
        backward=dweight_transposed,
    ),
    _of("W04", "dweight is a mean over rows.", "one row", "two rows", backward=dweight_mean, source="GCK-04"),
    _of("W05", "dweight is overwritten in a loop.", "a matrix", "two leading axes", backward=dweight_of_last),
    _of("W06", "dweight is float64.", "float64", "float32: the dtype", backward=dweight_in_float64, source="DTY-01"),
    _of(
        "M093",
        "dX goes through the transposed weight.",
        "symmetric weights",
        "a square weight",
        backward=dX_not_transposed,
    ),
    _of("W07", "dX has lost the leading axes.", "a matrix", "two leading axes: the shape", backward=dX_of_rows),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M095": "Y: operand, axis",
    "W01": "Y: axis",
    "W02": "Y: term",
    "M089": "dbias: accumulation, shape",
    "BRD-01": "dbias: accumulation, shape",
    "M090": "dbias: factor, accumulation",
    "W03": "dbias: shape, option",
    "M092": "dweight: axis, shape",
    "W04": "dweight: factor, accumulation",
    "W05": "dweight: accumulation",
    "W06": "dweight: dtype",
    "M093": "dX: axis",
    "W07": "dX: shape",
}
