"""One block of a GPT, forward and backward, for some sequences of a batch.

Three things make it fast. The norm's scale and shift are folded into the matrix behind it: (N * scale + shift) W^T =
N (W * scale)^T + W shift, so no row is ever scaled, forward or backward, and both gradients follow from that of the folded
matrix. The forward handles one sequence at a time from the norm to the residual sum, so that it stays in cache. What the
backward needs is written where it will be read.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig
from reference_numpy.fast import _rows, _threads, _tiles
from reference_numpy.fast._memory import Memory
from reference_numpy.fast._tiles import Gradients, Heads, Index, Options

EPSILON = 1e-5  # of the norms, as in the reference
ROWS = 512  # that the forward takes through a block together


class Folded(NamedTuple):
    """A block's matrices, with the norms' scale and shift folded in; `projections` are query, key and value, stacked."""

    projections: Array  # (3 H c, d)
    projections_bias: Array  # (3 H c,)
    output: Array  # (d, H c)
    expand: Array  # (f d, d)
    expand_bias: Array  # (f d,)
    contract: Array  # (d, f d)
    contract_bias: Array  # (d,)


class Saved(NamedTuple):
    """What a block's backward needs, for N rows."""

    N1: Array  # (N, d), the first norm without scale and shift
    r1: Array  # (N,)
    QKV: Array  # (N, 3 H c)
    C: Array  # (N, H c), the heads side by side
    top: Array  # (H, N): A = exp(scores - top) share
    share: Array  # (H, N)
    N2: Array  # (N, d)
    r2: Array  # (N,)
    active: Array  # (N, f d), gelu of the inner layer
    slope: Array  # (N, f d), gelu's slope there

    def of(self, rows: slice) -> Saved:
        by_head = self.top, self.share
        return Saved(*(each[:, rows] if any(each is one for one in by_head) else each[rows] for each in self))


class Kept(NamedTuple):
    """Dropout's masks of a block, for some sequences: (b, H, n, n) and (N, d), and p."""

    attention: Array
    feed_forward: Array
    p: float


def fold(block: Params, memory: Memory) -> Folded:
    """The parameters of one block as it computes with them."""
    stacked = [block[f"attention.{name}.weight"] for name in ("query", "key", "value")]
    expand = block["feed_forward.expand.weight"]
    (k, d), dtype = stacked[0].shape, expand.dtype
    W = np.concatenate(stacked, out=memory("projections", (3 * k, d), dtype))
    projections_bias = W @ block["norm_1.shift"]
    W *= block["norm_1.scale"]
    return Folded(
        W,
        projections_bias,
        block["attention.projection.weight"],
        np.multiply(expand, block["norm_2.scale"], out=memory("expand", expand.shape, dtype)),
        expand @ block["norm_2.shift"] + block["feed_forward.expand.bias"],
        block["feed_forward.contract.weight"],
        block["feed_forward.contract.bias"],
    )


def room(memory: Memory, layer: int, rows: int, config: GPTConfig, dtype: np.dtype[np.floating]) -> Saved:
    """Arrays for what a block saves."""
    d, width = config.embedding_dim, config.num_heads * config.head_dim
    inner = config.ff_factor * d
    shapes = (
        *((rows, d), (rows,), (rows, 3 * width), (rows, width), (config.num_heads, rows), (config.num_heads, rows)),
        *((rows, d), (rows,), (rows, inner), (rows, inner)),
    )
    return Saved(*(memory((layer, i), shape, dtype) for i, shape in enumerate(shapes)))


def forward(X: Array, n: int, weights: Folded, saved: Saved, config: GPTConfig, kept: Kept | None) -> None:
    """X <- X + attention(norm_1(X));  X <- X + feed_forward(norm_2(X)), and everything in `saved`

    X: (N, d), rows of whole sequences of n tokens, in place.
    """
    for rows in _some_sequences(X.shape[0], n):
        x, here = X[rows], saved.of(rows)
        normalise(x, here.N1, here.r1)
        np.matmul(here.N1, weights.projections.T, out=here.QKV)
        np.add(here.QKV, weights.projections_bias, out=here.QKV)
        attended = _attended(here, n, config)
        jobs = [
            partial(_tiles.forward, attended.at(index), tile, options)
            for index, options in _heads(rows, n, config, kept)
            for tile in reversed(_tiles.query_tiles(n))
        ]
        _threads.run(jobs, here.QKV.shape[0] * n * config.num_heads)
        x += here.C @ weights.output.T
        normalise(x, here.N2, here.r2)
        inner = _threads.scratch("inner", here.slope.size, X.dtype).reshape(here.slope.shape)
        np.matmul(here.N2, weights.expand.T, out=inner)
        _threads.over_rows(inner, partial(_activate, inner, weights.expand_bias, here))
        out = here.active @ weights.contract.T
        out += weights.contract_bias
        x += out if kept is None else drop(out, kept.feed_forward[rows], kept.p)


def backward(
    dX: Array, n: int, weights: Folded, saved: Saved, config: GPTConfig, kept: Kept | None, memory: Memory
) -> Folded:
    """dX <- the gradient of the block's input, in place; the gradients of the folded matrices

    The matrices of each part take their gradients from all rows at once, before the residual path's gradient grows.
    """
    dinner = memory("inner", saved.slope.shape, dX.dtype)
    dQKV = memory("QKV", saved.QKV.shape, dX.dtype)
    dF = dX
    if kept is not None:
        dF = memory("dropped", dX.shape, dX.dtype)
        np.copyto(dF, dX)
        drop(dF, kept.feed_forward, kept.p)
    ones = np.ones(dX.shape[0], dX.dtype)
    dcontract, dcontract_bias = dF.T @ saved.active, ones @ dF
    for rows in _some_sequences(dX.shape[0], n):
        here = dinner[rows]
        np.matmul(dF[rows], weights.contract, out=here)
        _threads.over_rows(here, partial(_multiply, here, saved.slope[rows]))
        normalise_backward(here @ weights.expand, saved.N2[rows], saved.r2[rows], dX[rows])
    dexpand, dexpand_bias = dinner.T @ saved.N2, ones @ dinner
    doutput = dX.T @ saved.C
    for rows in _some_sequences(dX.shape[0], n):
        dC, was, here = dX[rows] @ weights.output, saved.of(rows), dQKV[rows]
        here[:, here.shape[1] // 3 :] = 0.0  # dK and dV are added to
        attended, grads = _attended(was, n, config), Gradients(_split(dC, n, config), *_thirds(here, n, config))
        jobs = [
            partial(_tiles.backward, attended.at(index), grads.at(index), _tiles.query_tiles(n), options)
            for index, options in _heads(rows, n, config, kept)
        ]
        _threads.run(jobs, here.shape[0] * n * config.num_heads)
        normalise_backward(here @ weights.projections, saved.N1[rows], saved.r1[rows], dX[rows])
    dprojections, dprojections_bias = dQKV.T @ saved.N1, ones @ dQKV
    return Folded(dprojections, dprojections_bias, doutput, dexpand, dexpand_bias, dcontract, dcontract_bias)


def unfold(grads: Folded, block: Params) -> Params:
    """The gradients of a block's own parameters from those of its folded matrices

    With W' = W * scale and b' = W shift + b:  dW = dW' * scale + db' shift^T,  db = db',
    dscale = column sums of dW' * W,  dshift = db' W.
    """
    W = np.concatenate([block[f"attention.{name}.weight"] for name in ("query", "key", "value")])
    dW, dscale_1, dshift_1 = _unfold(grads.projections, grads.projections_bias, W, block, "norm_1")
    dquery, dkey, dvalue = np.split(dW, 3)
    expand = block["feed_forward.expand.weight"]
    dexpand, dscale_2, dshift_2 = _unfold(grads.expand, grads.expand_bias, expand, block, "norm_2")
    return {
        "norm_1.scale": dscale_1,
        "norm_1.shift": dshift_1,
        "attention.query.weight": dquery.copy(),
        "attention.key.weight": dkey.copy(),
        "attention.value.weight": dvalue.copy(),
        "attention.projection.weight": grads.output,
        "norm_2.scale": dscale_2,
        "norm_2.shift": dshift_2,
        "feed_forward.expand.weight": dexpand,
        "feed_forward.expand.bias": grads.expand_bias,
        "feed_forward.contract.weight": grads.contract,
        "feed_forward.contract.bias": grads.contract_bias,
    }


def _unfold(dfolded: Array, dbias: Array, W: Array, block: Params, norm: str) -> tuple[Array, Array, Array]:
    product = np.multiply(dfolded, W, out=_threads.scratch("folded", W.size, W.dtype).reshape(W.shape))
    dscale = np.ones(len(W), W.dtype) @ product
    dW = dfolded * block[f"{norm}.scale"]
    dW += np.multiply(dbias[:, None], block[f"{norm}.shift"], out=product)
    return dW, dscale, dbias @ W


def normalise(X: Array, N: Array, r: Array) -> None:
    _threads.over_rows(X, lambda rows: _rows.normalise(X[rows], EPSILON, N[rows], r[rows]))


def normalise_backward(dN: Array, N: Array, r: Array, dX: Array) -> None:
    def some(rows: slice) -> None:
        _rows.normalise_backward(dN[rows], N[rows], r[rows])
        dX[rows] += dN[rows]

    _threads.over_rows(dN, some)


def _activate(inner: Array, bias: Array, saved: Saved, rows: slice) -> None:
    inner[rows] += bias
    _rows.gelu(inner[rows], saved.active[rows], saved.slope[rows])


def _multiply(X: Array, by: Array, rows: slice) -> None:
    X[rows] *= by[rows]


def drop(X: Array, keep: Array, p: float) -> Array:
    _threads.over_rows(X, lambda rows: _rows.select(X[rows], keep[rows]))
    X *= 1.0 / (1.0 - p)
    return X


def _some_sequences(rows: int, n: int) -> list[slice]:
    """The rows of as many whole sequences as stay in cache together."""
    step = max(1, ROWS // n) * n
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _heads(rows: slice, n: int, config: GPTConfig, kept: Kept | None) -> list[tuple[Index, Options]]:
    """Sequences and heads that are handled together, and what their attention depends on."""
    options = Options(1.0 / math.sqrt(config.head_dim), causal=True)
    together = _tiles.heads_of_a_tile(n, n)
    heads, sequences = min(together, config.num_heads), max(1, together // config.num_heads)
    groups: list[tuple[Index, Options]] = []
    for b in range(0, (rows.stop - rows.start) // n, sequences):
        for h in range(0, config.num_heads, heads):
            index = slice(b, b + sequences), slice(h, h + heads)
            if kept is None:
                groups.append((index, options))
            else:
                keep = kept.attention[rows.start // n : rows.stop // n][index]
                groups.append((index, options._replace(keep=keep, p=kept.p)))
    return groups


def _attended(saved: Saved, n: int, config: GPTConfig) -> Heads:
    """(b, H, n, ...) views of what is saved."""
    top, share = (each.reshape(config.num_heads, -1, n).swapaxes(0, 1) for each in (saved.top, saved.share))
    return Heads(*_thirds(saved.QKV, n, config), _split(saved.C, n, config), top, share)


def _split(X: Array, n: int, config: GPTConfig) -> Array:
    """(N, H c) -> (b, H, n, c), a view"""
    return X.reshape(-1, n, config.num_heads, config.head_dim).swapaxes(1, 2)


def _thirds(QKV: Array, n: int, config: GPTConfig) -> tuple[Array, Array, Array]:
    """Queries, keys and values of all heads: (N, 3 H c) -> three of (b, H, n, c), views"""
    width = QKV.shape[1] // 3
    Q, K, V = (_split(QKV[:, i * width : (i + 1) * width], n, config) for i in range(3))
    return Q, K, V
