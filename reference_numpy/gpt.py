"""The GPT: embeddings, blocks, a norm and a head; its loss; its beginning."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from reference_numpy import _arguments, _check, _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params, Shapes
from reference_numpy.config import GPTConfig
from reference_numpy.cross_entropy import cross_entropy, cross_entropy_backward
from reference_numpy.dropout import dropout, dropout_backward
from reference_numpy.embedding import embedding, embedding_backward
from reference_numpy.layer_norm import layer_norm, layer_norm_backward
from reference_numpy.linear import LinearCache, linear, linear_backward
from reference_numpy.transformer_block import (
    keep_shapes,
    transformer_block,
    transformer_block_backward,
    transformer_block_shapes,
)

GPTCache = tuple[Any, Any, Any, Any, Any, Any, GPTConfig]
SMALL, LARGE = 0.02, 0.1  # deviations at the beginning: of the head, and of embeddings that are no head


@lru_cache(maxsize=16)
def gpt_shapes(config: GPTConfig) -> Shapes:
    """The name and shape of every parameter, in the order of the torch twin's `state_dict`. Not to be changed."""
    v, d = config.vocab_size, config.embedding_dim
    shapes: Shapes = {"token_embedding.weight": (v, d), "position_embedding.weight": (config.context_window, d)}
    for layer in range(config.num_layers):
        shapes |= _parameters.named(f"blocks.{layer}", transformer_block_shapes(config))
    shapes |= {"norm.scale": (d,), "norm.shift": (d,)}
    if not config.tied_head:
        shapes["lm_head.weight"] = (v, d)
    shapes["lm_head.bias"] = (v,)
    return shapes


def init_gpt(config: GPTConfig, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32) -> Params:
    """Weights from N(0, 1 / (3 inputs)), those that end a residual branch divided by sqrt(2 num_layers); the head from
    N(0, 0.02^2); token embeddings from N(0, e^2), position embeddings e sin(t w), e cos(t w); scales 1; the rest 0

    e = 0.1, or 0.02 with a tied head, which is the token embedding; w falls from 1 to 1e-4 along the embedding.

    The same numbers for every dtype, rounded, and for both twins. The logits begin near 0, so the loss begins near
    log(vocab_size); the variance of the residual path does not grow with the depth. The positions are trained like all
    the rest, but they begin as waves: "the token before" is then one rotation for all positions. From small random
    numbers a small model trained on the tales was still a bigram after 12 epochs (`python -m benchmarks.perplexity`).
    """
    _parameters.check_config("init_gpt", config, GPTConfig)
    _parameters.check_dtype("init_gpt", dtype)
    _arguments.generator("init_gpt: rng", rng)
    size = SMALL if config.tied_head else LARGE
    params: Params = {}
    for name, shape in gpt_shapes(config).items():
        if name.endswith(".scale"):
            values = np.ones(shape)
        elif name.endswith((".shift", ".bias")):
            values = np.zeros(shape)
        elif name == "position_embedding.weight":
            values = size * _waves(*shape)
        else:
            inputs = 1.0 / math.sqrt(3.0 * shape[1])
            deviation = {"token_embedding.weight": size, "lm_head.weight": SMALL}.get(name, inputs)
            if name.endswith(("attention.projection.weight", "feed_forward.contract.weight")):
                deviation /= math.sqrt(2.0 * config.num_layers)
            values = deviation * rng.standard_normal(shape)
        params[name] = values.astype(dtype)
    return params


def _waves(n: int, d: int) -> Array:
    """sin(t w) in even columns and cos(t w) in odd ones, w = 10000^(-2 k / d) for the k-th pair of columns."""
    columns = np.arange(d)
    angles = np.arange(n)[:, None] * 10000.0 ** (-(columns - columns % 2) / d)
    return np.where(columns % 2 == 0, np.sin(angles), np.cos(angles))


def gpt_keep_shapes(config: GPTConfig, shape: tuple[int, ...]) -> Shapes:
    """What dropout acts on, for ids of the shape (..., n)."""
    shapes: Shapes = {"embedding": (*shape, config.embedding_dim)}
    for layer in range(config.num_layers):
        shapes |= _parameters.named(f"blocks.{layer}", keep_shapes(config, shape))
    return shapes


def dropout_masks(config: GPTConfig, shape: tuple[int, ...], rng: np.random.Generator) -> dict[str, Array]:
    """keep ~ Bernoulli(1 - dropout) for every place of a GPT that drops, for ids of the shape (..., n)

    One stream for both twins, in the order of the forward, so they drop the same units.
    """
    _parameters.check_config("dropout_masks", config, GPTConfig)
    _arguments.generator("dropout_masks: rng", rng)
    if not isinstance(shape, tuple) or not shape or any(not isinstance(size, int) or size < 0 for size in shape):
        raise ValueError(f"dropout_masks: shape is {shape!r}, expected that of the ids, (..., n)")
    return {
        name: rng.random(where, dtype=np.float32) >= config.dropout
        for name, where in gpt_keep_shapes(config, shape).items()
    }


def gpt(params: Params, ids: Array, config: GPTConfig, keep: dict[str, Array] | None = None) -> tuple[Array, GPTCache]:
    """logits = head(norm(block_L(... block_1(dropout(token_embedding[ids] + position_embedding[0 .. n-1])))))

    ids: (..., n) integers, n <= context_window; logits: (..., n, vocab_size), logits_t for the token after ids_t.

    keep: the masks of `dropout_masks`; without them nothing is dropped (evaluation). With a tied head the head's weight is
    token_embedding.weight. Source 2: GPTConfig; DESIGN fixes what the text leaves open.
    Raises TypeError for dtypes, ValueError for missing parameters, ids out of range and rows longer than the window.
    """
    _parameters.check_config("gpt", config, GPTConfig)
    _parameters.check_parameters("gpt", params, gpt_shapes(config))
    check_ids("gpt", ids, config.context_window)
    p = 0.0
    masks: dict[str, Array | None] = dict.fromkeys(["embedding"])
    if keep is not None:
        _parameters.check_keep("gpt", keep, gpt_keep_shapes(config, ids.shape))
        p, masks = config.dropout, dict(keep)
    n = ids.shape[-1]
    tokens, token_cache = embedding(ids, params["token_embedding.weight"])
    X, dropout_cache = dropout(tokens + params["position_embedding.weight"][:n], masks["embedding"], p)
    block_caches = []
    for layer in range(config.num_layers):
        drops = None if keep is None else _parameters.part(keep, f"blocks.{layer}")
        X, block_cache = transformer_block(_parameters.part(params, f"blocks.{layer}"), X, config, drops)
        block_caches.append(block_cache)
    N, norm_cache = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    logits, head_cache = linear(N, head, params["lm_head.bias"])
    positions = params["position_embedding.weight"]
    return logits, (token_cache, positions, dropout_cache, block_caches, norm_cache, head_cache, config)


def gpt_backward(dlogits: Array, cache: GPTCache) -> Params:
    """The parts backwards; dposition_embedding_t = sum over all sequences of dX_t; a tied matrix gets both gradients' sum

    The position embedding is broadcast over sequences, so its gradient is summed over them; a row beyond n gets 0. A tied
    matrix is used twice, by the embedding and by the head.
    """
    token_cache, positions, dropout_cache, block_caches, norm_cache, head_cache, config = cache
    check_dlogits("gpt_backward", dlogits, head_cache)
    dN, dhead, dbias = linear_backward(dlogits, head_cache)
    dX, dscale, dshift = layer_norm_backward(dN, norm_cache)
    dblocks: Params = {}
    for layer in reversed(range(config.num_layers)):
        dX, dblock = transformer_block_backward(dX, block_caches[layer])
        dblocks |= _parameters.named(f"blocks.{layer}", dblock)
    dX = dropout_backward(dX, dropout_cache)
    dtokens = embedding_backward(dX, token_cache)
    dpositions = np.zeros(positions.shape, positions.dtype)
    dpositions[: dX.shape[-2]] = dX.reshape(-1, *dX.shape[-2:]).sum(0)
    grads = {"token_embedding.weight": dtokens, "position_embedding.weight": dpositions, **dblocks}
    grads |= {"norm.scale": dscale, "norm.shift": dshift, "lm_head.bias": dbias}
    if config.tied_head:
        grads["token_embedding.weight"] = dtokens + dhead
    else:
        grads["lm_head.weight"] = dhead
    return {name: grads[name] for name in gpt_shapes(config)}


def attention_maps(params: Params, ids: Array, config: GPTConfig) -> list[Array]:
    """A of every block, nothing dropped: A_ij is how much token i takes from token j

    ids: (..., n); each A: (..., H, n, n), rows sum to 1. For looking at. Raises as gpt does.
    """
    _, (_, _, _, block_caches, *_) = gpt(params, ids, config)
    return [attention_cache[-1].A for _, attention_cache, _, _ in block_caches]


def gpt_loss(
    params: Params,
    ids: Array,
    targets: Array,
    config: GPTConfig,
    ignore_index: int | None = None,
    keep: dict[str, Array] | None = None,
) -> tuple[Any, tuple[GPTCache, Any]]:
    """loss = cross_entropy(gpt(params, ids), targets)

    ids, targets: (..., n); targets_t is the token after ids_t, or ignore_index (the padding); loss: a NumPy scalar.

    The mean is over the counted targets of the whole batch, not over sequences. Source 2.
    Raises as gpt and cross_entropy do.
    """
    logits, gpt_cache = gpt(params, ids, config, keep)
    loss, loss_cache = cross_entropy(logits, targets, ignore_index)
    return loss, (gpt_cache, loss_cache)


def gpt_loss_backward(dloss: float, cache: tuple[GPTCache, Any]) -> Params:
    """grads = gpt'(cross_entropy'(dloss))"""
    gpt_cache, loss_cache = cache
    return gpt_backward(cross_entropy_backward(dloss, loss_cache), gpt_cache)


def check_dlogits(op: str, dlogits: Any, head_cache: LinearCache) -> None:
    """dlogits has the dtype and shape of the logits that the head made."""
    X, weight, _ = head_cache
    _check.floats(op, X=X, dlogits=dlogits)
    _check.same_shape(op, "dlogits", dlogits, (*X.shape[:-1], weight.shape[0]), "the logits")


def check_ids(op: str, ids: Any, window: int | None, family: _check.Family = _check.NUMPY) -> None:
    """ids has rows of at least one token, and of no more than the window. The embedding checks the values."""
    if not isinstance(ids, family.kind):
        raise TypeError(f"{op}: ids is a {type(ids).__name__}, expected a {family.noun}")
    if ids.ndim == 0 or ids.shape[-1] == 0:
        raise ValueError(f"{op}: ids has shape {tuple(ids.shape)}, expected (..., n) with n at least 1")
    if window is not None and ids.shape[-1] > window:
        raise ValueError(f"{op}: ids has {ids.shape[-1]} tokens in a row, expected at most context_window = {window}")
