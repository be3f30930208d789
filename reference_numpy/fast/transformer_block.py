"""One block of a GPT, from end to end."""

from __future__ import annotations

from typing import NamedTuple

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig
from reference_numpy.fast import _block
from reference_numpy.fast._check import only_real
from reference_numpy.fast._memory import Memory
from reference_numpy.transformer_block import check_block

Keep = dict[str, Array]


class BlockCache(NamedTuple):
    """What the backward needs."""

    params: Params
    config: GPTConfig
    shape: tuple[int, ...]
    kept: _block.Kept | None
    weights: _block.Folded
    saved: _block.Saved


def transformer_block(
    params: Params, X: Array, config: GPTConfig, keep: Keep | None = None
) -> tuple[Array, BlockCache]:
    """Z = X + attention(norm_1(X));  Y = Z + feed_forward(norm_2(Z))

    X, Z, Y: (..., n, d). As `reference_numpy.transformer_block`.
    """
    check_block("transformer_block", params, X, config, keep)
    only_real("transformer_block", X=X)
    n, d = X.shape[-2:]
    Y = X.reshape(-1, d).copy()
    kept = None
    if keep is not None:
        attention = keep["attention"].reshape(-1, config.num_heads, n, n)
        kept = _block.Kept(attention, keep["feed_forward"].reshape(-1, d), config.dropout)
    weights, saved = _block.fold(params, Memory()), _block.room(Memory(), 0, len(Y), config, X.dtype)
    _block.forward(Y, n, weights, saved, config, kept)
    return Y.reshape(X.shape), BlockCache(params, config, X.shape, kept, weights, saved)


def transformer_block_backward(dY: Array, cache: BlockCache) -> tuple[Array, Params]:
    """dZ = dY + norm_2'(feed_forward'(dY));  dX = dZ + norm_1'(attention'(dZ))"""
    params, config, shape, kept, weights, saved = cache
    _check.floats("transformer_block_backward", N=saved.N1, dY=dY)
    _check.same_shape("transformer_block_backward", "dY", dY, shape, "the output")
    dX = dY.reshape(-1, shape[-1]).copy()
    grads = _block.backward(dX, shape[-2], weights, saved, config, kept, Memory())
    return dX.reshape(shape), _block.unfold(grads, params)
