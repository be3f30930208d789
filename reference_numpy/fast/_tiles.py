"""Attention of some heads in tiles: the (n, m) scores never exist as a whole."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from reference_numpy._check import Array
from reference_numpy.fast import _rows, _threads

QUERIES, KEYS = 128, 512  # of one head's tile
SCORES = 1 << 17  # elements of a tile of several heads: 512 KB in float32, near a core's second-level cache
# exp(score) of scores within +-16 needs no shift: e^-16 times the smallest subnormal number's error is below `tiny`,
# and e^16 times a value up to 1e17 is far from overflow.
SMALL_SCORE, LARGE_VALUE = 16.0, 1e17

Index = tuple[int | slice, ...]


class Options(NamedTuple):
    """What some heads' attention depends on besides Q, K, V; arrays are (..., n, m)."""

    scale: float
    mask: Array | None = None
    bias: Array | None = None
    causal: bool = False
    query_offset: int = 0
    keep: Array | None = None
    p: float = 0.0
    small: Array | None = None  # (..., n): see small_scores

    @property
    def grown(self) -> float:
        """What dropout multiplies a kept weight by; with p = 1 nothing is kept."""
        return 0.0 if self.p == 1.0 else 1.0 / (1.0 - self.p)


class Heads(NamedTuple):
    """Q: (..., n, c), K: (..., m, c), V: (..., m, e), C: (..., n, e), top, share: (..., n): views, leading axes equal.

    A = exp(scores - top) share. Two numbers a row: in one, top - log share, the logarithm is lost beside a large top.
    """

    Q: Array
    K: Array
    V: Array
    C: Array
    top: Array
    share: Array

    def at(self, index: Index) -> Heads:
        return Heads(*(array[index] for array in self))


class Gradients(NamedTuple):
    """Of `Heads`; dQ is written, dK and dV are added to."""

    dC: Array
    dQ: Array
    dK: Array
    dV: Array

    def at(self, index: Index) -> Gradients:
        return Gradients(*(array[index] for array in self))


def small_scores(Q: Array, K: Array, V: Array, options: Options) -> Array | None:
    """Where a row's scores need no maximum and no subtraction: (..., n), or None if that is nowhere known

    |scale q k| <= |scale| |q| |k|, for the longest of the keys that the row may see. So a row is judged by what it sees
    alone: what is behind the diagonal, or in another row, changes nothing in it, not even a rounding.
    """
    scale = abs(options.scale)
    if options.mask is not None or options.bias is not None or scale > LARGE_VALUE:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite length is not small, nor is NaN
        return _small_scores(np.sqrt(np.vecdot(Q, Q)) * scale, K, V, options)


def _small_scores(lengths: Array, K: Array, V: Array, options: Options) -> Array:
    longest = np.sqrt(np.vecdot(K, K))
    longest[np.vecdot(V, V) > LARGE_VALUE**2] = np.inf
    if options.causal:
        last = np.arange(lengths.shape[-1]) + options.query_offset  # the last key that each row sees
        reach = np.maximum.accumulate(longest, -1)[..., np.clip(last, 0, K.shape[-2] - 1)]
    else:
        reach = longest.max(-1, keepdims=True)
    small: Array = lengths * reach <= SMALL_SCORE
    return small


def query_tiles(n: int) -> list[slice]:
    return [slice(start, min(start + QUERIES, n)) for start in range(0, n, QUERIES)]


def heads_of_a_tile(n: int, m: int) -> int:
    """How many heads of this size are handled at once: small ones together, since each call has its price."""
    return max(1, SCORES // (min(n, QUERIES) * min(m, KEYS)))


def forward(heads: Heads, rows: slice, options: Options) -> None:
    """C = softmax(scale Q K^T + bias) V, top = max and share = 1 / sum exp(score - top) of these rows: all are written

    Online softmax (Milakov and Gimelshein): when a tile brings a larger maximum, what was summed so far is multiplied by
    exp(old - new). A row that sees nothing gets C = 0 and top = 0, and exp(-inf - 0) is 0 in the backward too.
    """
    Q, K, V, C, tops, share = heads
    visible = _key_tiles(K.shape[-2], rows, options)
    if not visible:
        C[..., rows, :], tops[..., rows], share[..., rows] = 0.0, 0.0, 1.0
        return
    q = Q[..., rows, :] * options.scale
    acc, total = np.zeros((*q.shape[:-1], V.shape[-1]), q.dtype), np.zeros(q.shape[:-1], q.dtype)
    plain = None if options.small is None else options.small[..., rows]
    shifts = plain is None or not plain.all()
    top = np.full(q.shape[:-1], -np.inf if shifts else 0.0, q.dtype)
    for keys in visible:
        S = _scores(q, K[..., keys, :], rows, keys, options)
        if shifts:
            here = np.maximum(S.max(-1), top)
            if plain is not None:
                here[plain] = 0.0
            shift = np.where(np.isneginf(here), here.dtype.type(0), here)
            shrunk = np.exp(top - shift)
            acc *= shrunk[..., None]
            total *= shrunk
            top = here
            S -= shift[..., None]
        np.exp(S, out=S)
        total += S @ np.ones(S.shape[-1], S.dtype)  # a product with ones takes a third of the time of a sum
        if options.keep is not None:
            S *= options.keep[..., rows, keys]
        acc += _product(S, V[..., keys, :])
    total[total == 0.0] = 1.0  # an empty row
    if options.keep is not None:
        acc *= options.grown
    np.divide(acc, total[..., None], out=C[..., rows, :])
    top[np.isneginf(top)] = 0.0
    sunk = total < 1.0  # small scores, not shifted: another top, since a large dC times 1 / total could overflow
    top[sunk] = -SMALL_SCORE
    total[sunk] *= math.exp(SMALL_SCORE)
    tops[..., rows] = top
    np.divide(1.0, total, out=share[..., rows])


def backward(heads: Heads, grads: Gradients, tiles: list[slice], options: Options) -> None:
    """dV += dropout(A)^T dC;  dS = A (dA - delta), delta = sum dC C;  dQ = scale dS K;  dK += scale dS^T Q

    A = exp(scores - top) share is computed again, tile by tile, from scores that are made as the forward made them. Its
    row's share is a factor of dC and of delta instead, once for all keys. One subtraction is done by a product, with one
    more column: [dC, -delta] [V, 1]^T = dA - delta. sum A dA = sum dC C, since C is A V: no row needs to be seen twice.
    """
    Q, K, V, C, tops, share = heads
    dC, dQ, dK, dV = grads
    e, V1 = V.shape[-1], _with_column(V, 1.0)
    for rows in tiles:
        dc = dC[..., rows, :] * share[..., rows, None]
        delta = np.vecdot(dc, C[..., rows, :])
        dC1, q, top = _with_column(dc, -delta), Q[..., rows, :] * options.scale, tops[..., rows, None]
        shifts, step = bool(top.any()), share[..., rows] == 1.0
        dQ_rows = dQ[..., rows, :]
        dQ_rows[...] = 0.0
        for keys in _key_tiles(K.shape[-2], rows, options):
            A = _scores(q, K[..., keys, :], rows, keys, options)
            if shifts:
                A -= top
            np.exp(A, out=A)
            D = _threads.scratch("gradients", A.size, A.dtype).reshape(A.shape)
            kept = None if options.keep is None else options.keep[..., rows, keys]
            if kept is None:
                np.matmul(dC1, V1[..., keys, :].mT, out=D)
            else:
                np.matmul(dc, V[..., keys, :].mT, out=D)
                D *= options.grown
                D *= kept
                D -= delta[..., None]
            if step.any():
                _settle(
                    D, np.nonzero(step[..., None] & (A == 1.0)), dc, V[..., keys, :], C[..., rows, :], options, kept
                )
            D *= A
            if kept is not None:
                A *= options.grown
                A *= kept
            dV[..., keys, :] += _product(A.mT, dC1[..., :e])
            dK[..., keys, :] += _product(D.mT, q)
            dQ_rows += _product(D, K[..., keys, :])
        dQ_rows *= options.scale


def _settle(
    D: Array, index: tuple[Array, ...], dc: Array, V: Array, C: Array, options: Options, kept: Array | None
) -> None:
    """D = dA - delta as dC (V - C) where one key has all the weight of its row: there C is V to the last bit, and two
    products would differ by their rounding alone, which large queries and keys multiply.
    """
    *row, key = index
    rows = tuple(row)
    values = V[(*rows[:-1], key)]
    if kept is not None:
        values *= (options.grown * kept[index])[:, None]
    D[index] = np.vecdot(dc[rows], values - C[rows])


def _with_column(X: Array, column: Array | float) -> Array:
    """[X, column], a copy."""
    wider = np.empty((*X.shape[:-1], X.shape[-1] + 1), X.dtype)
    wider[..., :-1], wider[..., -1] = X, column
    return wider


def _product(X: Array, Y: Array) -> Array:
    """X Y, in memory that the next call uses again."""
    shape = (*X.shape[:-1], Y.shape[-1])
    out: Array = np.matmul(X, Y, out=_threads.scratch("product", math.prod(shape), X.dtype).reshape(shape))
    return out


def _key_tiles(m: int, rows: slice, options: Options) -> list[slice]:
    """The keys that these queries may see, in tiles: with a causal mask those above the diagonal are never touched."""
    stop = min(m, rows.stop + options.query_offset) if options.causal else m
    return [slice(start, min(start + KEYS, stop)) for start in range(0, stop, KEYS)]


def _scores(q: Array, K: Array, rows: slice, keys: slice, options: Options) -> Array:
    """q K^T + bias, -inf where nobody may look: in memory that the next call uses again."""
    shape = (*q.shape[:-1], K.shape[-2])
    S = _threads.scratch("scores", math.prod(shape), q.dtype).reshape(shape)
    np.matmul(q, K.mT, out=S)
    if options.bias is not None:
        S += options.bias[..., rows, keys]
    if options.mask is not None:
        _rows.select(S, options.mask[..., rows, keys], -np.inf)
    first_hidden = rows.start + options.query_offset + 1  # from the first of these queries
    if options.causal and first_hidden < keys.stop:
        start = max(first_hidden, keys.start)
        future = S[..., start - keys.start :]
        np.copyto(future, -np.inf, where=_upper(*future.shape[-2:], start - first_hidden))
    return S


@lru_cache(maxsize=64)
def _upper(rows: int, columns: int, shift: int) -> Array:
    """True where column + shift >= row."""
    return np.arange(columns) + shift >= np.arange(rows)[:, None]
