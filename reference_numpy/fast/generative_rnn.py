"""The Elman language model; its loss with all gradients at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import RNNConfig
from reference_numpy.fast import _head, _memory
from reference_numpy.fast._check import only_real
from reference_numpy.fast.cross_entropy import check_targets
from reference_numpy.fast.embedding import embedding, embedding_backward
from reference_numpy.fast.linear import linear, linear_backward
from reference_numpy.fast.rnn import rnn, rnn_backward
from reference_numpy.generative_rnn import RECURRENT, check_rnn
from reference_numpy.gpt import check_dlogits

GenerativeRNNCache = tuple[Any, Any, Any]


def generative_rnn(params: Params, ids: Array, config: RNNConfig) -> tuple[Array, GenerativeRNNCache]:
    """logits_t = C h_t + e,  h_t = tanh(A emb(ids_t) + B h_{t-1} + d),  h_0 = 0

    ids: (..., n), logits: (..., n, vocab_size). As `reference_numpy.generative_rnn`.
    """
    H, embedding_cache, rnn_cache = _states("generative_rnn", params, ids, config)
    logits, head_cache = linear(H, params["lm_head.weight"], params["lm_head.bias"])
    return logits, (embedding_cache, rnn_cache, head_cache)


def generative_rnn_backward(dlogits: Array, cache: GenerativeRNNCache) -> Params:
    """grads = embedding'(rnn'(head'(dlogits), 0))"""
    embedding_cache, rnn_cache, head_cache = cache
    check_dlogits("generative_rnn_backward", dlogits, head_cache)
    dH, dhead, dbias = linear_backward(dlogits, head_cache)
    return _grads(dH, embedding_cache, rnn_cache) | {"lm_head.weight": dhead, "lm_head.bias": dbias}


def generative_rnn_loss(
    params: Params, ids: Array, targets: Array, config: RNNConfig, ignore_index: int | None = None
) -> tuple[Any, tuple[Any, ...]]:
    """loss = cross_entropy(generative_rnn(params, ids), targets); the logits exist a few rows at a time

    ids, targets: (..., n). As `reference_numpy.generative_rnn_loss`.
    """
    op = "generative_rnn_loss"
    H, embedding_cache, rnn_cache = _states(op, params, ids, config)
    goal = check_targets(op, targets, ids.shape, "ids", config.vocab_size, ignore_index)
    head = params["lm_head.weight"], params["lm_head.bias"]
    loss = _head.loss(_rows(H), *head, goal, _memory.Memory())
    return loss, (H, embedding_cache, rnn_cache, *head, goal)


def generative_rnn_loss_backward(dloss: float, cache: tuple[Any, ...]) -> Params:
    """grads = generative_rnn'(cross_entropy'(dloss)); the logits are computed again"""
    H, embedding_cache, rnn_cache, weight, bias, goal = cache
    dloss = _check.number("generative_rnn_loss_backward", "dloss", dloss)
    dH = np.empty(H.shape, H.dtype)
    _, dweight, dbias = _head.loss_gradients(dloss, _rows(H), weight, bias, goal, _rows(dH), _memory.Memory())
    return _grads(dH, embedding_cache, rnn_cache) | {"lm_head.weight": dweight, "lm_head.bias": dbias}


def generative_rnn_loss_gradients(
    dloss: float, params: Params, ids: Array, targets: Array, config: RNNConfig, ignore_index: int | None = None
) -> tuple[Any, Params]:
    """loss = cross_entropy(generative_rnn(params, ids), targets), and dloss times its gradient: the pair in one

    ids, targets: (..., n); loss: a NumPy scalar. As one op the logits become their own gradient, a few rows at a time; the
    pair must compute them twice.
    Raises as generative_rnn_loss does.
    """
    op = "generative_rnn_loss_gradients"
    H, embedding_cache, rnn_cache = _states(op, params, ids, config)
    goal = check_targets(op, targets, ids.shape, "ids", config.vocab_size, ignore_index)
    dloss = _check.number(op, "dloss", dloss)
    with _memory.kept_for((config, ids.shape, H.dtype)) as memory:
        dH = memory("dH", H.shape, H.dtype)
        head = params["lm_head.weight"], params["lm_head.bias"]
        loss, dweight, dbias = _head.loss_gradients(dloss, _rows(H), *head, goal, _rows(dH), memory)
        grads = _grads(dH, embedding_cache, rnn_cache)
    return loss, grads | {"lm_head.weight": dweight, "lm_head.bias": dbias}


def _states(op: str, params: Params, ids: Array, config: RNNConfig) -> tuple[Array, Any, Any]:
    check_rnn(op, params, ids, config)
    only_real(op, **{"params[lm_head.bias]": params["lm_head.bias"]})
    X, embedding_cache = embedding(ids, params["embedding.weight"])
    (H, _), rnn_cache = rnn(X, *(params[f"rnn.{name}_l0"] for name in RECURRENT))
    return H, embedding_cache, rnn_cache


def _grads(dH: Array, embedding_cache: Any, rnn_cache: Any) -> Params:
    dX, *drecurrent = rnn_backward((dH, np.zeros_like(dH[..., -1, :])), rnn_cache)
    grads = {"embedding.weight": embedding_backward(dX, embedding_cache)}
    return grads | {f"rnn.{name}_l0": gradient for name, gradient in zip(RECURRENT, drecurrent, strict=True)}


def _rows(X: Array) -> Array:
    return X.reshape(-1, X.shape[-1])
