"""The Elman network: a step, a slope, and the weights' gradients at once or step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.activations import tanh_by_expm1
from equivalence_tests.variants.sums import (
    Binary,
    Pair,
    Unary,
    as_rows,
    column_sum,
    einsum,
    matmul,
    outer_products,
    reverse_product,
    split_product,
    turned_product,
    widely,
)

Step = Callable[..., Array]


def _two_products(product: Binary, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """Both products, then the sum of the biases."""
    return np.asarray((product(x, W_ih.T) + product(h, W_hh.T)) + (b_ih + b_hh))


def _biases_apart(product: Binary, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """One term after the other, from the state's bias on."""
    return np.asarray(((b_hh + product(h, W_hh.T)) + b_ih) + product(x, W_ih.T))


def _one_product(product: Binary, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Array:
    """[x, h] times both matrices side by side."""
    return np.asarray(product(np.concatenate([x, h], -1), np.concatenate([W_ih, W_hh], 1).T) + (b_ih + b_hh))


def _biases_as_columns(
    product: Binary, x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array
) -> Array:
    """[1, x, 1, h]: the biases are columns of the matrix."""
    one = np.ones((*x.shape[:-1], 1), x.dtype)
    joined = np.concatenate([b_ih[:, None], W_ih, b_hh[:, None], W_hh], 1)
    return product(np.concatenate([one, x, one, h], -1), joined.T)


def _slope_squares(h: Array) -> Array:
    return np.asarray(1.0 - h * h)


def _slope_factored(h: Array) -> Array:
    """(1 - h) (1 + h)"""
    return np.asarray((1.0 - h) * (1.0 + h))


def _rnn(
    step: Step, product: Binary = matmul, slope: Unary = _slope_squares, tanh: Unary = np.tanh, late: bool = False
) -> Pair:
    """`late` adds up the gradients of the weights step by step, on the way back."""

    def rnn(
        X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None
    ) -> tuple[tuple[Array, Array], Any]:
        lead, k = X.shape[:-2], W_ih.shape[0]
        h = np.zeros((math.prod(lead), k), X.dtype) if h0 is None else as_rows(h0)
        states = [h]
        for t in range(X.shape[-2]):
            states.append(tanh(step(product, as_rows(X[..., t, :]), states[-1], W_ih, W_hh, b_ih, b_hh)))
        H = np.stack(states[1:], 1).reshape(*lead, X.shape[-2], k)
        return (H, states[-1].reshape(*lead, k).copy()), (X, W_ih, W_hh, h0, np.stack(states, 1))

    def rnn_backward(dY: tuple[Array, Array], cache: Any) -> tuple[Array, ...]:
        dH, dh_last = dY
        X, W_ih, W_hh, h0, states = cache
        dh = as_rows(dh_last)
        steps: list[Array] = []
        for t in reversed(range(X.shape[-2])):
            da = (as_rows(dH[..., t, :]) + dh) * slope(states[:, t + 1])
            dh = product(da, W_hh)
            steps.insert(0, da)
        dA = np.stack(steps, 1)
        dX = product(as_rows(dA), W_ih).reshape(X.shape)
        inputs = X.reshape(-1, *X.shape[-2:])
        if late:
            dW_ih, dW_hh, db = (np.zeros(shape, X.dtype) for shape in (W_ih.shape, W_hh.shape, W_hh.shape[:1]))
            for t in reversed(range(X.shape[-2])):
                dW_ih = dW_ih + product(dA[:, t].T, inputs[:, t])
                dW_hh = dW_hh + product(dA[:, t].T, states[:, t])
                db = db + dA[:, t].sum(0)
        else:
            dW_ih = product(as_rows(dA).T, as_rows(inputs))
            dW_hh = product(as_rows(dA).T, as_rows(states[:, :-1]))
            db = column_sum(as_rows(dA))
        gradients = (dX, dW_ih, dW_hh, db, db.copy())
        return gradients if h0 is None else (*gradients, dh.reshape(h0.shape))

    return rnn, rnn_backward


RNN: dict[str, Pair] = {
    "[x, h] joined": _rnn(_one_product),
    "[x, h] joined, einsum": _rnn(_one_product, einsum, late=True),
    "biases summed first": _rnn(_two_products, slope=_slope_factored),
    "biases one by one": _rnn(_biases_apart, late=True),
    "biases as columns": _rnn(_biases_as_columns, slope=_slope_factored, late=True),
    "weights step by step": _rnn(_two_products, late=True),
    "outer products": _rnn(_two_products, outer_products),
    "reverse": _rnn(_biases_apart, reverse_product, _slope_factored),
    "transposed": _rnn(_two_products, turned_product, _slope_factored, late=True),
    "partial products": _rnn(_one_product, split_product, _slope_factored),
    "tanh by expm1": _rnn(_two_products, tanh=tanh_by_expm1),
    "wider": _rnn(_one_product, widely(matmul), widely(_slope_squares), widely(np.tanh)),
}
