"""One step of a GPT with a key-value cache that grows in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_numpy import _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig
from reference_numpy.decoding import Past, tokens_so_far
from reference_numpy.fast import _rows, _threads
from reference_numpy.fast.attention import attention
from reference_numpy.fast.embedding import embedding
from reference_numpy.gpt import check_ids, gpt_shapes
from reference_numpy.self_attention import merge_heads, split_heads

EPSILON = 1e-5  # of the norms, as in the reference


class Grown(tuple[Array, Array]):
    """(K, V) of one block: views of buffers that have room for more tokens.

    The next step writes behind them, where no earlier past looks. `taken` counts the tokens in the buffers: whoever grows
    an older past, which another step has grown already, copies first.
    """

    buffers: tuple[Array, Array]
    taken: list[int]


def gpt_step(params: Params, ids: Array, config: GPTConfig, past: Past | None = None) -> tuple[Array, Past]:
    """The logits of further tokens and the keys and values of all tokens so far: what the whole sequence would give

    ids: (..., n) further tokens; past: (K, V) of every block, (..., H, t, c), or None; logits: (..., n, vocab_size). As
    `reference_numpy.gpt_step`, whose pasts it takes and whose steps take its own; no step copies the past.
    """
    _parameters.check_config("gpt_step", config, GPTConfig)
    _parameters.check_parameters("gpt_step", params, gpt_shapes(config))
    check_ids("gpt_step", ids, config.context_window)
    t = tokens_so_far(ids, config, past, params["lm_head.bias"])
    X = embedding(ids, params["token_embedding.weight"])[0]
    X += params["position_embedding.weight"][t : t + ids.shape[-1]]
    present = []
    for layer in range(config.num_layers):
        at = f"blocks.{layer}"
        N = _norm(X, params, f"{at}.norm_1")
        Q, K, V = (
            split_heads(_product(N, params[f"{at}.attention.{name}.weight"]), config.num_heads)
            for name in ("query", "key", "value")
        )
        pair = _grow(None if past is None else past[layer], K, V, t, config.context_window)
        present.append(pair)
        C = _attend(Q, pair[0], pair[1], t)
        X += _product(merge_heads(C), params[f"{at}.attention.projection.weight"])
        M = _norm(X, params, f"{at}.norm_2")
        inner = _product(M, params[f"{at}.feed_forward.expand.weight"])
        inner += params[f"{at}.feed_forward.expand.bias"]
        active = np.empty(inner.shape, inner.dtype)
        _rows.gelu(inner, active, None)
        X += _product(active, params[f"{at}.feed_forward.contract.weight"])
        X += params[f"{at}.feed_forward.contract.bias"]
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    logits = _product(_norm(X, params, "norm"), head)
    logits += params["lm_head.bias"]
    return logits, tuple(present)


def _grow(pair: Any, K: Array, V: Array, t: int, window: int) -> Grown:
    """The past of a block with further keys and values behind it."""
    total = t + K.shape[-2]
    if isinstance(pair, Grown) and pair.taken[0] == t and pair.buffers[0].shape[-2] >= total:
        buffers, taken = pair.buffers, pair.taken
    else:
        room = min(max(2 * total, 64), window)
        shape = (*K.shape[:-2], room, K.shape[-1])
        buffers, taken = (np.empty(shape, K.dtype), np.empty(shape, V.dtype)), [t]
        if pair is not None:
            for buffer, before in zip(buffers, pair, strict=True):
                buffer[..., :t, :] = before
    for buffer, new in zip(buffers, (K, V), strict=True):
        buffer[..., t:total, :] = new
    taken[0] = total
    grown = Grown(buffer[..., :total, :] for buffer in buffers)
    grown.buffers, grown.taken = buffers, taken
    return grown


def _attend(Q: Array, K: Array, V: Array, t: int) -> Array:
    """Causal attention behind t tokens; a single new token sees every key, so there is nothing to mask."""
    if Q.shape[-2] > 1:
        return attention(Q, K, V, causal=True, query_offset=t)[0]
    S = Q @ K.mT
    S *= 1.0 / np.sqrt(float(Q.shape[-1]))
    S -= S.max(-1, keepdims=True)
    np.exp(S, out=S)
    S /= S.sum(-1, keepdims=True)
    C: Array = S @ V
    return C


def _norm(X: Array, params: Params, name: str) -> Array:
    d = X.shape[-1]
    N = np.empty(X.shape, X.dtype)
    _rows.normalise(X.reshape(-1, d), EPSILON, N.reshape(-1, d), np.empty(X.size // d, X.dtype))
    N *= params[f"{name}.scale"]
    N += params[f"{name}.shift"]
    return N


def _product(X: Array, W: Array) -> Array:
    """X W^T; a single row on one thread, row by row of W: BLAS reads four rows at a time, and half as fast."""
    d = X.shape[-1]
    alone = X.size == d and _threads.count() == 1
    Y: Array = np.vecdot(W, X.reshape(d)) if alone else X.reshape(-1, d) @ W.T
    return Y.reshape(*X.shape[:-1], len(W))
