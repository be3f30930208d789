"""Layer normalisation over the last axis, in cache-sized chunks of rows."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.fast import _rows, _threads
from reference_numpy.fast._check import only_real
from reference_numpy.layer_norm import check_layer_norm

LayerNormCache = tuple[Array, Array, Array]


def layer_norm(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> tuple[Array, LayerNormCache]:
    """Y = scale * N + shift,  N = (X - mu) r,  r = (var + epsilon)^(-1/2)

    X, N, Y: (..., d), scale, shift: (d,). As `reference_numpy.layer_norm`; the variance takes two passes here too.
    Raises as the reference does, and TypeError for complex numbers.
    """
    epsilon = check_layer_norm("layer_norm", X, scale, shift, epsilon)
    only_real("layer_norm", X=X)
    d = X.shape[-1]
    N, Y = np.empty(X.shape, X.dtype), np.empty(X.shape, X.dtype)
    x, n, y, r = X.reshape(-1, d), N.reshape(-1, d), Y.reshape(-1, d), np.empty(X.size // d, X.dtype)

    def some(rows: slice) -> None:
        _rows.normalise(x[rows], epsilon, n[rows], r[rows])
        np.multiply(n[rows], scale, out=y[rows])
        y[rows] += shift

    _threads.over_rows(x, some)
    return Y, (N, r, scale)


def layer_norm_backward(dY: Array, cache: LayerNormCache) -> tuple[Array, Array, Array]:
    """dX = r (dN - mean(dN) - N mean(dN * N)),  dN = dY * scale;  dscale = sum dY * N;  dshift = sum dY

    The two sums over rows are added up chunk by chunk, in order.
    """
    N, r, scale = cache
    _check.upstream("layer_norm_backward", "dY", dY, N)
    d = len(scale)
    dX = np.empty(N.shape, N.dtype)
    dy, n, dx = dY.reshape(-1, d), N.reshape(-1, d), dX.reshape(-1, d)
    pieces = _threads.chunks(len(r), d)
    dscale, dshift = np.zeros((len(pieces), d), N.dtype), np.zeros((len(pieces), d), N.dtype)

    def some(rows: slice) -> None:
        product = _threads.scratch("product", n[rows].size, N.dtype).reshape(n[rows].shape)
        ones = np.ones(len(product), N.dtype)
        piece = pieces.index(rows)
        np.multiply(dy[rows], n[rows], out=product)
        np.matmul(ones, product, out=dscale[piece])
        np.matmul(ones, dy[rows], out=dshift[piece])
        np.multiply(dy[rows], scale, out=dx[rows])
        _rows.normalise_backward(dx[rows], n[rows], r[rows])

    _threads.over_rows(dy, some)
    return dX, dscale.sum(0), dshift.sum(0)
