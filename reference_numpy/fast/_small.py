"""A training step of a model so small that a call costs more than its numbers: the textbook's formulas in the fewest calls.

No tiles, no threads, no folding, no memory kept; sums are products with ones. `_block` and `_head` do the rest.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig
from reference_numpy.fast import _rows
from reference_numpy.fast._block import EPSILON
from reference_numpy.fast._head import Targets
from reference_numpy.fast.embedding import add_rows

FEW = 1 << 20  # elements of the feed-forward's inner layer and of the logits up to which this is the faster way


class Part(NamedTuple):
    """What the backward of one block needs; N1, N2 are the norms without scale and shift, M1, M2 with them."""

    N1: Array
    r1: Array
    M1: Array
    W: Array
    QKV: Array
    A: Array
    C: Array
    N2: Array
    r2: Array
    M2: Array
    active: Array
    slope: Array


def fits(rows: int, config: GPTConfig) -> bool:
    return rows * max(config.ff_factor * config.embedding_dim, config.vocab_size) <= FEW


def loss_gradients(dloss: float, params: Params, ids: Array, targets: Targets, config: GPTConfig) -> tuple[Any, Params]:
    """The loss of `gpt_loss`, nothing dropped, and dloss times its gradient, the tied head's apart as lm_head.weight"""
    n, d = ids.shape[-1], config.embedding_dim
    ids = ids.reshape(-1, n)
    positions = params["position_embedding.weight"]
    X = (params["token_embedding.weight"][ids] + positions[:n]).reshape(-1, d)
    mean, ones = _constants(d, len(X), X.dtype)
    parts = []
    for layer in range(config.num_layers):
        X, part = _forward(X, params, f"blocks.{layer}.", mean, n, config)
        parts.append(part)
    N, r = _norm(X, mean)
    Y = N * params["norm.scale"] + params["norm.shift"]
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    loss, dlogits = _loss(dloss, Y @ head.T + params["lm_head.bias"], targets)
    grads = {"lm_head.weight": dlogits.T @ Y, "lm_head.bias": ones @ dlogits}
    dX = _norm_backward(dlogits @ head, N, r, params, "norm", mean, ones, grads)
    for layer in reversed(range(config.num_layers)):
        dX = _backward(dX, parts[layer], params, f"blocks.{layer}.", mean, ones, n, config, grads)
    grads["token_embedding.weight"] = np.zeros_like(params["token_embedding.weight"])
    add_rows(grads["token_embedding.weight"], ids.reshape(-1), dX)
    grads["position_embedding.weight"] = np.zeros_like(positions)
    np.add.reduce(dX.reshape(-1, n, d), 0, out=grads["position_embedding.weight"][:n])
    return loss, grads


def _forward(X: Array, params: Params, at: str, mean: Array, n: int, config: GPTConfig) -> tuple[Array, Part]:
    """X + attention(norm_1(X)), then plus feed_forward(norm_2(...))"""
    N1, r1 = _norm(X, mean)
    M1 = N1 * params[at + "norm_1.scale"] + params[at + "norm_1.shift"]
    W = np.concatenate([params[f"{at}attention.{name}.weight"] for name in ("query", "key", "value")])
    QKV = (M1 @ W.T).reshape(-1, n, 3, config.num_heads, config.head_dim).transpose(2, 0, 3, 1, 4)
    A = QKV[0] @ QKV[1].mT
    A *= 1.0 / math.sqrt(config.head_dim)
    A += _future(n)
    A -= np.maximum.reduce(A, -1, keepdims=True)
    np.exp(A, out=A)
    A /= np.add.reduce(A, -1, keepdims=True)
    C = (A @ QKV[2]).swapaxes(1, 2).reshape(len(X), -1)
    Z = X + C @ params[at + "attention.projection.weight"].T
    N2, r2 = _norm(Z, mean)
    M2 = N2 * params[at + "norm_2.scale"] + params[at + "norm_2.shift"]
    inner = M2 @ params[at + "feed_forward.expand.weight"].T
    inner += params[at + "feed_forward.expand.bias"]
    active, slope = np.empty_like(inner), np.empty_like(inner)
    _rows.gelu(inner, active, slope)
    Z += active @ params[at + "feed_forward.contract.weight"].T
    Z += params[at + "feed_forward.contract.bias"]
    return Z, Part(N1, r1, M1, W, QKV, A, C, N2, r2, M2, active, slope)


def _backward(
    dY: Array,
    part: Part,
    params: Params,
    at: str,
    mean: Array,
    ones: Array,
    n: int,
    config: GPTConfig,
    grads: Params,
) -> Array:
    """The gradient of a block's input; those of its parameters go into `grads`"""
    N1, r1, M1, W, QKV, A, C, N2, r2, M2, active, slope = part
    grads[at + "feed_forward.contract.weight"] = dY.T @ active
    grads[at + "feed_forward.contract.bias"] = ones @ dY
    dinner = dY @ params[at + "feed_forward.contract.weight"]
    dinner *= slope
    grads[at + "feed_forward.expand.weight"] = dinner.T @ M2
    grads[at + "feed_forward.expand.bias"] = ones @ dinner
    dM2 = dinner @ params[at + "feed_forward.expand.weight"]
    dZ = _norm_backward(dM2, N2, r2, params, at + "norm_2", mean, ones, grads)
    dZ += dY
    grads[at + "attention.projection.weight"] = dZ.T @ C
    dC = dZ @ params[at + "attention.projection.weight"]
    dC = dC.reshape(-1, n, config.num_heads, config.head_dim).swapaxes(1, 2)
    dQKV = np.empty(QKV.shape, A.dtype)
    np.matmul(A.mT, dC, out=dQKV[2])
    dS = dC @ QKV[2].mT
    dS -= np.vecdot(A, dS)[..., None]
    dS *= A
    dS *= 1.0 / math.sqrt(config.head_dim)
    np.matmul(dS, QKV[1], out=dQKV[0])
    np.matmul(dS.mT, QKV[0], out=dQKV[1])
    rows = dQKV.transpose(1, 3, 0, 2, 4).reshape(len(dY), -1)  # (N, 3 H c)
    dW, width = rows.T @ M1, len(W) // 3
    for i, name in enumerate(("query", "key", "value")):
        grads[f"{at}attention.{name}.weight"] = dW[i * width : (i + 1) * width].copy()
    dX = _norm_backward(rows @ W, N1, r1, params, at + "norm_1", mean, ones, grads)
    dX += dZ
    return dX


def _norm(X: Array, mean: Array) -> tuple[Array, Array]:
    """N = (X - mean X) r,  r = (var X + epsilon)^(-1/2); mean: (d, 1) of 1/d"""
    N = X - X @ mean
    r = 1.0 / np.sqrt((N * N) @ mean + EPSILON)
    N *= r
    return N, r


def _norm_backward(
    dM: Array, N: Array, r: Array, params: Params, name: str, mean: Array, ones: Array, grads: Params
) -> Array:
    """r (dN - mean(dN) - N mean(dN N)),  dN = dM * scale"""
    grads[name + ".scale"] = ones @ (dM * N)
    grads[name + ".shift"] = ones @ dM
    dN = dM * params[name + ".scale"]
    along = N * ((dN * N) @ mean)
    along += dN @ mean
    dN -= along
    dN *= r
    return dN


def _loss(dloss: float, Z: Array, targets: Targets) -> tuple[Any, Array]:
    """The loss of the logits Z, which are overwritten, and their gradient"""
    rows = np.arange(len(Z))
    Z -= np.maximum.reduce(Z, 1, keepdims=True)
    of_target = Z[rows, targets.ids]
    np.exp(Z, out=Z)
    total = np.add.reduce(Z, 1)
    losses = np.log(total) - of_target
    loss = losses.sum(where=targets.counted) / targets.total
    share = (targets.counted * (dloss / targets.total)).astype(Z.dtype)
    Z *= (share / total)[:, None]
    Z[rows, targets.ids] -= share
    return loss, Z


@lru_cache(maxsize=16)
def _constants(d: int, rows: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """What a product with gives means, (d, 1) of 1/d, and sums, ones."""
    return np.full((d, 1), 1.0 / d, dtype), np.ones(rows, dtype)


@lru_cache(maxsize=16)
def _future(n: int) -> Array:
    """-inf above the diagonal, else 0: (n, n), float32 for either dtype."""
    return np.triu(np.full((n, n), -np.inf, np.float32), 1)
