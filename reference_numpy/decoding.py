"""One step of a GPT with a key-value cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_numpy import _check, _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.attention import attention
from reference_numpy.config import GPTConfig
from reference_numpy.embedding import embedding
from reference_numpy.feed_forward import feed_forward
from reference_numpy.gpt import check_ids, gpt_shapes
from reference_numpy.layer_norm import layer_norm
from reference_numpy.linear import linear
from reference_numpy.self_attention import merge_heads, split_heads

Past = tuple[tuple[Array, Array], ...]


def gpt_step(params: Params, ids: Array, config: GPTConfig, past: Past | None = None) -> tuple[Array, Past]:
    """The logits of further tokens and the keys and values of all tokens so far: what the whole sequence would give

    ids: (..., n) further tokens, at positions t ... t + n - 1; past: (K, V) of every block, (..., H, t, c), or None for
    t = 0; logits: (..., n, vocab_size).

    For generation; it has no backward and drops nothing. A new token attends to all keys so far, its own included; `past`
    is not changed. Whoever generates says what to do when t + n would pass context_window.
    Raises as gpt does; ValueError for a past of another shape, and if t + n is above context_window.
    """
    _parameters.check_config("gpt_step", config, GPTConfig)
    _parameters.check_parameters("gpt_step", params, gpt_shapes(config))
    check_ids("gpt_step", ids, config.context_window)
    t = tokens_so_far(ids, config, past, params["lm_head.bias"])
    n = ids.shape[-1]
    X = embedding(ids, params["token_embedding.weight"])[0] + params["position_embedding.weight"][t : t + n]
    present = []
    for layer in range(config.num_layers):
        block = _parameters.part(params, f"blocks.{layer}")
        N, _ = layer_norm(X, block["norm_1.scale"], block["norm_1.shift"])
        Q, K, V = (
            split_heads(N @ block[f"attention.{name}.weight"].T, config.num_heads) for name in ("query", "key", "value")
        )
        if past is not None:
            K, V = (np.concatenate(pair, -2) for pair in zip(past[layer], (K, V), strict=True))
        present.append((K, V))
        C, _ = attention(Q, K, V, causal=True, query_offset=t)
        X = X + merge_heads(C) @ block["attention.projection.weight"].T
        M, _ = layer_norm(X, block["norm_2.scale"], block["norm_2.shift"])
        X = X + feed_forward(_parameters.part(block, "feed_forward"), M, config)[0]
    N, _ = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    return linear(N, head, params["lm_head.bias"])[0], tuple(present)


def tokens_so_far(ids: Any, config: GPTConfig, past: Any, like: Any, family: _check.Family = _check.NUMPY) -> int:
    """How many tokens are in the past, of either twin; its shapes and its dtype, that of `like`, are checked."""
    if past is None:
        return 0
    if not isinstance(past, tuple):
        raise TypeError(f"gpt_step: past is a {type(past).__name__}, expected a tuple of (K, V) or None")
    if len(past) != config.num_layers:
        raise ValueError(f"gpt_step: past has {len(past)} entries, expected one for each of {config.num_layers} blocks")
    for pair in past:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"gpt_step: past holds a {type(pair).__name__}, expected a pair (K, V) for each block")
        _check.floats("gpt_step", family, **{"lm_head.bias": like, "past K": pair[0], "past V": pair[1]})
    t = int(past[0][0].shape[-2]) if past[0][0].ndim > 1 else 0
    for K, V in past:
        _check.same_shape("gpt_step", "past K", K, (*ids.shape[:-1], config.num_heads, t, config.head_dim), "the first")
        _check.same_shape("gpt_step", "past V", V, K.shape, "K")
    if t + ids.shape[-1] > config.context_window:
        total = f"{t} tokens before and {ids.shape[-1]} more"
        raise ValueError(f"gpt_step: ids has {total}, expected at most context_window = {config.context_window}")
    return t
