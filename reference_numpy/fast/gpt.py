"""The GPT: each thread takes some sequences from end to end; its loss, and loss and all gradients at once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from reference_numpy import _check, _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig
from reference_numpy.fast import _block, _head, _memory, _small, _threads
from reference_numpy.fast._block import Folded, Kept, Saved
from reference_numpy.fast._check import only_real
from reference_numpy.fast._head import Targets
from reference_numpy.fast._memory import Memory
from reference_numpy.fast.cross_entropy import check_targets
from reference_numpy.fast.embedding import add_rows
from reference_numpy.gpt import check_ids, gpt_keep_shapes, gpt_shapes

Keep = dict[str, Array]


class Trunk(NamedTuple):
    """What everything but the head computed, for the backward: N is the last norm, without scale and shift."""

    blocks: list[Params]
    weights: list[Folded]
    saved: list[Saved]
    N: Array
    r: Array


class GPTCache(NamedTuple):
    """What the backward needs; Y is the head's input."""

    params: Params
    ids: Array
    config: GPTConfig
    keep: Keep | None
    trunk: Trunk
    Y: Array


def gpt(params: Params, ids: Array, config: GPTConfig, keep: Keep | None = None) -> tuple[Array, GPTCache]:
    """logits = head(norm(block_L(... block_1(dropout(token_embedding[ids] + position_embedding[0 .. n-1])))))

    ids: (..., n) integers, logits: (..., n, vocab_size). As `reference_numpy.gpt`.
    """
    check_gpt("gpt", params, ids, config, keep)
    cache = _forward(params, ids, config, keep, Memory())
    logits = cache.Y @ _head_weight(params, config).T
    logits += params["lm_head.bias"]
    return logits.reshape(*ids.shape, config.vocab_size), cache


def gpt_backward(dlogits: Array, cache: GPTCache) -> Params:
    """The parts backwards; a tied matrix gets both gradients' sum"""
    weight, bias = _head_weight(cache.params, cache.config), cache.params["lm_head.bias"]
    _check.floats("gpt_backward", bias=bias, dlogits=dlogits)
    _check.same_shape("gpt_backward", "dlogits", dlogits, (*cache.ids.shape, len(bias)), "the logits")
    rows = dlogits.reshape(-1, len(bias))
    dhead, dbias = rows.T @ cache.Y, np.ones(len(rows), rows.dtype) @ rows
    return _gradients(rows @ weight, dhead, dbias, cache, Memory())


def gpt_loss(
    params: Params,
    ids: Array,
    targets: Array,
    config: GPTConfig,
    ignore_index: int | None = None,
    keep: Keep | None = None,
) -> tuple[Any, tuple[GPTCache, Targets]]:
    """loss = cross_entropy(gpt(params, ids), targets); the logits exist a few rows at a time

    ids, targets: (..., n); loss: a NumPy scalar. As `reference_numpy.gpt_loss`.
    """
    check_gpt("gpt_loss", params, ids, config, keep)
    goal = check_targets("gpt_loss", targets, ids.shape, "ids", config.vocab_size, ignore_index)
    cache = _forward(params, ids, config, keep, Memory())
    loss = _head.loss(cache.Y, _head_weight(params, config), params["lm_head.bias"], goal, Memory())
    return loss, (cache, goal)


def gpt_loss_backward(dloss: float, cache: tuple[GPTCache, Targets]) -> Params:
    """grads = gpt'(cross_entropy'(dloss)); the logits are computed again"""
    gpt_cache, goal = cache
    dloss = _check.number("gpt_loss_backward", "dloss", dloss)
    return _loss_gradients(dloss, gpt_cache, goal, Memory())[1]


def gpt_loss_gradients(
    dloss: float,
    params: Params,
    ids: Array,
    targets: Array,
    config: GPTConfig,
    ignore_index: int | None = None,
    keep: Keep | None = None,
) -> tuple[Any, Params]:
    """loss = cross_entropy(gpt(params, ids), targets), and dloss times its gradient: `gpt_loss` and its backward in one

    ids, targets: (..., n); loss: a NumPy scalar; gradients by name, as `gpt_loss_backward` gives them. As one op the logits
    become their own gradient, a few rows at a time; the pair must compute them twice.
    Raises as gpt_loss does.
    """
    op = "gpt_loss_gradients"
    check_gpt(op, params, ids, config, keep)
    goal = check_targets(op, targets, ids.shape, "ids", config.vocab_size, ignore_index)
    dloss = _check.number(op, "dloss", dloss)
    if keep is None and _small.fits(ids.size, config):
        with np.errstate(over="ignore", invalid="ignore"):
            loss, grads = _small.loss_gradients(dloss, params, ids, goal, config)
        return loss, _all(grads, grads.pop("lm_head.weight"), config)
    with _memory.kept_for((config, ids.shape, params["lm_head.bias"].dtype)) as memory:
        return _loss_gradients(dloss, _forward(params, ids, config, keep, memory), goal, memory)


def _forward(params: Params, ids: Array, config: GPTConfig, keep: Keep | None, memory: Memory) -> GPTCache:
    trunk = forward(params, ids, config, keep, memory)
    Y = trunk.N * params["norm.scale"]
    Y += params["norm.shift"]
    return GPTCache(params, ids, config, keep, trunk, Y)


def _loss_gradients(dloss: float, cache: GPTCache, goal: Targets, memory: Memory) -> tuple[Any, Params]:
    dY = memory("dY", cache.Y.shape, cache.Y.dtype)
    head = _head_weight(cache.params, cache.config), cache.params["lm_head.bias"]
    loss, dhead, dbias = _head.loss_gradients(dloss, cache.Y, *head, goal, dY, memory)
    return loss, _gradients(dY, dhead, dbias, cache, memory)


def _gradients(dY: Array, dhead: Array, dbias: Array, cache: GPTCache, memory: Memory) -> Params:
    grads = backward(dY, cache.params, cache.ids, cache.config, cache.keep, cache.trunk, memory)
    grads["lm_head.bias"] = dbias
    return _all(grads, dhead, cache.config)


def _all(grads: Params, dhead: Array, config: GPTConfig) -> Params:
    """The gradients in the order of the parameters; a tied matrix gets both."""
    if config.tied_head:
        grads["token_embedding.weight"] += dhead
    else:
        grads["lm_head.weight"] = dhead
    return {name: grads[name] for name in gpt_shapes(config)}


def _head_weight(params: Params, config: GPTConfig) -> Array:
    return params["token_embedding.weight" if config.tied_head else "lm_head.weight"]


def forward(params: Params, ids: Array, config: GPTConfig, keep: Keep | None, memory: Memory) -> Trunk:
    """Embeddings, blocks and the last norm; each thread takes some of the sequences from end to end."""
    n, d, dtype = ids.shape[-1], config.embedding_dim, params["lm_head.bias"].dtype
    rows = ids.reshape(-1, n)
    X = memory("X", (ids.size, d), dtype)
    N, r = memory("N", X.shape, dtype), memory("r", X.shape[:1], dtype)
    blocks = [_parameters.part(params, f"blocks.{layer}") for layer in range(config.num_layers)]
    weights = [_block.fold(block, memory.of(layer)) for layer, block in enumerate(blocks)]
    saved = [_block.room(memory, layer, ids.size, config, dtype) for layer in range(config.num_layers)]
    positions = params["position_embedding.weight"][:n]

    def some(sequences: slice) -> None:
        here = slice(sequences.start * n, sequences.stop * n)
        x = X[here]
        np.take(params["token_embedding.weight"], rows[sequences].reshape(-1), axis=0, out=x, mode="clip")
        x.reshape(-1, n, d)[...] += positions
        if keep is not None:
            _block.drop(x, keep["embedding"].reshape(-1, d)[here], config.dropout)
        for layer, weight in enumerate(weights):
            _block.forward(x, n, weight, saved[layer].of(here), config, kept(keep, layer, sequences, config, n))
        _block.normalise(x, N[here], r[here])

    _threads.run([partial(some, part) for part in _threads.parts(len(rows), X.size * d)], X.size * d)
    return Trunk(blocks, weights, saved, N, r)


def backward(
    dY: Array, params: Params, ids: Array, config: GPTConfig, keep: Keep | None, trunk: Trunk, memory: Memory
) -> Params:
    """From the gradient of the last norm's output to those of everything before; dY is overwritten

    Each thread takes its sequences back from end to end; what they give to the parameters is added up in order.
    """
    n, d = ids.shape[-1], config.embedding_dim
    dX = memory("dX", dY.shape, dY.dtype)
    parts = _threads.parts(ids.size // n, dX.size * d)
    dblocks: list[list[Folded]] = [[] for _ in parts]
    ones = np.ones(len(dY), dY.dtype)
    dscale, dshift = ones @ (dY * trunk.N), ones @ dY

    def some(number: int, sequences: slice) -> None:
        here = slice(sequences.start * n, sequences.stop * n)
        dx = dX[here]
        dx[...] = 0.0
        dY[here] *= params["norm.scale"]
        _block.normalise_backward(dY[here], trunk.N[here], trunk.r[here], dx)
        for layer in reversed(range(config.num_layers)):
            drops = kept(keep, layer, sequences, config, n)
            saved, weights = trunk.saved[layer].of(here), trunk.weights[layer]
            own = memory.of(f"part {number}")
            dblocks[number].append(_block.backward(dx, n, weights, saved, config, drops, own))
        if keep is not None:
            _block.drop(dx, keep["embedding"].reshape(-1, d)[here], config.dropout)

    _threads.run([partial(some, number, part) for number, part in enumerate(parts)], dX.size * d)
    grads: Params = {"norm.scale": dscale, "norm.shift": dshift}

    def gather(layer: int) -> None:
        shares = [of_part[-1 - layer] for of_part in dblocks]
        total = shares[0]
        for share in shares[1:]:
            for mine, theirs in zip(total, share, strict=True):
                mine += theirs
        grads.update(_parameters.named(f"blocks.{layer}", _block.unfold(total, trunk.blocks[layer])))

    _threads.run([partial(gather, layer) for layer in range(config.num_layers)], trunk.weights[0].expand.size * 12)
    grads["token_embedding.weight"] = np.zeros_like(params["token_embedding.weight"])
    add_rows(grads["token_embedding.weight"], ids.reshape(-1), dX)
    positions = np.zeros_like(params["position_embedding.weight"])
    positions[:n] = dX.reshape(-1, n, d).sum(0)
    grads["position_embedding.weight"] = positions
    return grads


def kept(keep: Keep | None, layer: int, sequences: slice, config: GPTConfig, n: int) -> Kept | None:
    """Dropout's masks of a block for some sequences."""
    if keep is None:
        return None
    attention = keep[f"blocks.{layer}.attention"].reshape(-1, config.num_heads, n, n)[sequences]
    feed_forward = keep[f"blocks.{layer}.feed_forward"].reshape(-1, n, config.embedding_dim)[sequences]
    return Kept(attention, feed_forward.reshape(-1, config.embedding_dim), config.dropout)


def check_gpt(op: str, params: Params, ids: Array, config: GPTConfig, keep: Keep | None) -> None:
    _parameters.check_config(op, config, GPTConfig)
    _parameters.check_parameters(op, params, gpt_shapes(config))
    only_real(op, **{"params[lm_head.bias]": params["lm_head.bias"]})
    check_ids(op, ids, config.context_window)
    _check.integers(op, "ids", ids, config.vocab_size)
    if keep is not None:
        _parameters.check_keep(op, keep, gpt_keep_shapes(config, ids.shape))
