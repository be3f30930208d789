"""The Elman language model: an embedding, the recurrence, a head; its loss; its beginning; one step of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from reference_numpy import _arguments, _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params, Shapes
from reference_numpy.config import RNNConfig
from reference_numpy.cross_entropy import cross_entropy, cross_entropy_backward
from reference_numpy.embedding import embedding, embedding_backward
from reference_numpy.gpt import check_dlogits, check_ids
from reference_numpy.linear import linear, linear_backward
from reference_numpy.rnn import rnn, rnn_backward

GenerativeRNNCache = tuple[Any, Any, Any]
RECURRENT = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def rnn_shapes(config: RNNConfig) -> Shapes:
    """The name and shape of every parameter, in the order of the torch twin's `state_dict`."""
    v, d = config.vocab_size, config.embedding_dim
    return {
        "embedding.weight": (v, d),
        "rnn.weight_ih_l0": (d, d),
        "rnn.weight_hh_l0": (d, d),
        "rnn.bias_ih_l0": (d,),
        "rnn.bias_hh_l0": (d,),
        "lm_head.weight": (v, d),
        "lm_head.bias": (v,),
    }


def init_rnn(config: RNNConfig, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32) -> Params:
    """Embedding from N(0, 1), everything else uniform in +-1/sqrt(embedding_dim): what torch's own modules begin with

    The same numbers for every dtype, rounded, and for both twins. A logit begins with a deviation below 1/sqrt(3), so the
    loss begins within 1/6 of log(vocab_size).
    """
    _parameters.check_config("init_rnn", config, RNNConfig)
    _parameters.check_dtype("init_rnn", dtype)
    _arguments.generator("init_rnn: rng", rng)
    bound = 1.0 / math.sqrt(config.embedding_dim)
    params: Params = {}
    for name, shape in rnn_shapes(config).items():
        values = rng.standard_normal(shape) if name == "embedding.weight" else rng.uniform(-bound, bound, shape)
        params[name] = values.astype(dtype)
    return params


def generative_rnn(params: Params, ids: Array, config: RNNConfig) -> tuple[Array, GenerativeRNNCache]:
    """logits_t = C h_t + e,  h_t = tanh(A emb(ids_t) + B h_{t-1} + d),  h_0 = 0

    ids: (..., n) integers; logits: (..., n, vocab_size), logits_t for the token after ids_t.

    A, B, C are rnn.weight_ih_l0, rnn.weight_hh_l0, lm_head.weight; d is the sum of the two biases. Source 2.
    Raises TypeError for dtypes, ValueError for missing parameters and ids out of range.
    """
    check_rnn("generative_rnn", params, ids, config)
    logits, _, cache = _from_state(params, ids, None)
    return logits, cache


def generative_rnn_backward(dlogits: Array, cache: GenerativeRNNCache) -> Params:
    """grads = embedding'(rnn'(head'(dlogits), 0))

    The last state leads nowhere but to its logits, so no gradient comes in behind the last step.
    """
    embedding_cache, rnn_cache, head_cache = cache
    check_dlogits("generative_rnn_backward", dlogits, head_cache)
    dH, dhead, dbias = linear_backward(dlogits, head_cache)
    dX, *drecurrent = rnn_backward((dH, np.zeros_like(dH[..., -1, :])), rnn_cache)
    grads = {"embedding.weight": embedding_backward(dX, embedding_cache)}
    grads |= {f"rnn.{name}_l0": gradient for name, gradient in zip(RECURRENT, drecurrent, strict=True)}
    return grads | {"lm_head.weight": dhead, "lm_head.bias": dbias}


def generative_rnn_loss(
    params: Params, ids: Array, targets: Array, config: RNNConfig, ignore_index: int | None = None
) -> tuple[Any, tuple[GenerativeRNNCache, Any]]:
    """loss = cross_entropy(generative_rnn(params, ids), targets)

    ids, targets: (..., n); targets_t is the token after ids_t, or ignore_index (the padding); loss: a NumPy scalar.

    The mean is over the counted targets of the whole batch, not over sequences. Source 2.
    Raises as generative_rnn and cross_entropy do.
    """
    logits, rnn_cache = generative_rnn(params, ids, config)
    loss, loss_cache = cross_entropy(logits, targets, ignore_index)
    return loss, (rnn_cache, loss_cache)


def generative_rnn_loss_backward(dloss: float, cache: tuple[GenerativeRNNCache, Any]) -> Params:
    """grads = generative_rnn'(cross_entropy'(dloss))"""
    rnn_cache, loss_cache = cache
    return generative_rnn_backward(cross_entropy_backward(dloss, loss_cache), rnn_cache)


def generative_rnn_step(
    params: Params, ids: Array, config: RNNConfig, past: Array | None = None
) -> tuple[Array, Array]:
    """The logits of further tokens and the state behind them: what the whole sequence would give

    ids: (..., n), past: (..., d), the state behind the tokens before (None: there are none); logits: (..., n, vocab_size).

    For generation; it has no backward. Raises as generative_rnn does.
    """
    check_rnn("generative_rnn_step", params, ids, config)
    logits, last, _ = _from_state(params, ids, past)
    return logits, last


def _from_state(params: Params, ids: Array, state: Array | None) -> tuple[Array, Array, GenerativeRNNCache]:
    X, embedding_cache = embedding(ids, params["embedding.weight"])
    W_ih, W_hh, b_ih, b_hh = (params[f"rnn.{name}_l0"] for name in RECURRENT)
    (H, last), rnn_cache = rnn(X, W_ih, W_hh, b_ih, b_hh, state)
    logits, head_cache = linear(H, params["lm_head.weight"], params["lm_head.bias"])
    return logits, last, (embedding_cache, rnn_cache, head_cache)


def check_rnn(op: str, params: Params, ids: Array, config: RNNConfig) -> None:
    _parameters.check_config(op, config, RNNConfig)
    _parameters.check_parameters(op, params, rnn_shapes(config))
    check_ids(op, ids, None)
