"""Scaled dot-product attention in tiles, over threads: memory O(n c), never O(n m)."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy.attention import attention_scale
from reference_numpy.fast import _threads, _tiles
from reference_numpy.fast._check import only_real
from reference_numpy.fast._tiles import Gradients, Heads, Index, Options


class TiledCache(NamedTuple):
    """What the backward needs; no attention map: A = exp(scores - top) share is computed again."""

    heads: Heads
    options: Options


def attention(
    Q: Array,
    K: Array,
    V: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Array | None = None,
    p: float = 0.0,
) -> tuple[Array, TiledCache]:
    """C = dropout(A) V,  A = softmax(Q K^T * scale + bias) over the allowed keys

    Q: (..., n, c), K: (..., m, c), V: (..., m, e), C: (..., n, e). As `reference_numpy.attention`, tile by tile (see
    `_tiles.forward`): of A there is one tile for each thread at a time.
    Raises as the reference does, and TypeError for complex numbers.
    """
    scale = attention_scale("attention", Q, K, V, mask, bias, query_offset, scale, keep, p)
    only_real("attention", Q=Q)
    C = np.empty((*Q.shape[:-1], V.shape[-1]), Q.dtype)
    top, share = np.empty((2, *Q.shape[:-1]), Q.dtype)
    options = Options(scale, mask, bias, causal, query_offset, keep, p)
    options = options._replace(small=_tiles.small_scores(Q, K, V, options))
    cache = TiledCache(Heads(Q, K, V, C, top, share), options)
    jobs = [
        partial(_tiles.forward, cache.heads.at(index), rows, own)
        for index, own in _groups(cache)
        for rows in reversed(_tiles.query_tiles(Q.shape[-2]))  # behind a causal mask the last is the longest: first
    ]
    _threads.run(jobs, Q.size * K.shape[-2])
    return C, cache


def attention_backward(dC: Array, cache: TiledCache) -> tuple[Array, Array, Array]:
    """dV = dropout(A)^T dC;  dS = A (dropout'(dC V^T) - delta), delta = sum dC C;  dQ = scale dS K;  dK = scale dS^T Q

    Some heads are one job; where that makes fewer jobs than threads the queries of a head are shared out, and what each
    share gives to dK and dV is added up in order.
    """
    Q, K, V, C, *_ = cache.heads
    _check.floats("attention_backward", Q=Q, dC=dC)
    _check.same_shape("attention_backward", "dC", dC, C.shape, "C")
    groups, tiles = _groups(cache), _tiles.query_tiles(Q.shape[-2])
    threads = _threads.count(Q.size * K.shape[-2])
    shares = 1 if len(groups) >= threads else min(threads, len(tiles))
    dQ, dK, dV = (
        np.empty(Q.shape, Q.dtype),
        np.zeros((shares, *K.shape), K.dtype),
        np.zeros((shares, *V.shape), V.dtype),
    )
    jobs = [
        partial(
            _tiles.backward,
            cache.heads.at(index),
            Gradients(dC, dQ, dK[share], dV[share]).at(index),
            tiles[share::shares],
            own,
        )
        for index, own in groups
        for share in range(shares)
    ]
    _threads.run(jobs, Q.size * K.shape[-2])
    return (dQ, dK[0], dV[0]) if shares == 1 else (dQ, dK.sum(0), dV.sum(0))


def _groups(cache: TiledCache) -> list[tuple[Index, Options]]:
    """Heads that are handled together, neighbours of the last leading axis, and what their attention depends on."""
    (*front, n, m), options = (*cache.heads.Q.shape[:-1], cache.heads.K.shape[-2]), cache.options
    step = max(
        1,
        min(
            _tiles.heads_of_a_tile(n, m),
            math.prod(front) // _threads.count(math.prod(front) * n * m * cache.heads.Q.shape[-1]),
        ),
    )
    indices: list[Index] = [()]
    if front:
        slices = [slice(start, start + step) for start in range(0, front[-1], step)]
        indices = [(*index, heads) for index in np.ndindex(*front[:-1]) for heads in slices]
    given = options.mask, options.bias, options.keep
    masks = [None if each is None else np.broadcast_to(each, (*front, n, m)) for each in given]
    groups = []
    for index in indices:
        mask, bias, keep = (None if each is None else each[index] for each in masks)
        small = None if options.small is None else options.small[index]
        groups.append((index, options._replace(mask=mask, bias=bias, keep=keep, small=small)))
    return groups
