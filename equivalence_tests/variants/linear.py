"""Linear: a product, three times."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.sums import (
    Binary,
    Pair,
    as_rows,
    einsum,
    exact_sum,
    matmul,
    outer_products,
    pairwise_sum,
    reverse_product,
    split_product,
    summed_product,
    turned_product,
    widely,
)


def _linear(product: Binary, bias_first: bool = False) -> Pair:
    def linear(X: Array, weight: Array, bias: Array | None = None) -> tuple[Array, Any]:
        rows = as_rows(X)
        if bias is None:
            Y = product(rows, weight.T)
        elif bias_first:  # one more column of X, which is 1
            column = np.ones((rows.shape[0], 1), X.dtype)
            Y = product(np.concatenate([column, rows], 1), np.concatenate([bias[:, None], weight], 1).T)
        else:
            Y = bias + product(rows, weight.T)
        return Y.reshape(*X.shape[:-1], weight.shape[0]), (X, weight, bias)

    def linear_backward(dY: Array, cache: Any) -> tuple[Array, ...]:
        X, weight, bias = cache
        rows = as_rows(dY)
        dX = product(rows, weight).reshape(X.shape)
        dweight = product(rows.T, as_rows(X))
        if bias is None:
            return dX, dweight
        return dX, dweight, product(np.ones((1, rows.shape[0]), X.dtype), rows)[0]

    return linear, linear_backward


LINEAR: dict[str, Pair] = {
    "outer products": _linear(outer_products),
    "einsum": _linear(einsum),
    "bias as a column": _linear(matmul, bias_first=True),
    "bias as a column, outer products": _linear(outer_products, bias_first=True),
    "partial products": _linear(split_product),
    "transposed": _linear(turned_product),
    "reverse": _linear(reverse_product),
    "products, then sums": _linear(summed_product),
    "sums by halves": _linear(partial(summed_product, total=pairwise_sum)),
    "exact sums": _linear(partial(summed_product, total=exact_sum)),
    "wider": _linear(widely(matmul)),
}
