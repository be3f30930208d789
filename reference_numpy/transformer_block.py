"""One block of a GPT: attention and feed-forward, each behind a norm and beside a residual path."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference_numpy import _check, _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params, Shapes
from reference_numpy.config import GPTConfig
from reference_numpy.feed_forward import feed_forward, feed_forward_backward, feed_forward_shapes
from reference_numpy.layer_norm import layer_norm, layer_norm_backward
from reference_numpy.self_attention import multi_head_attention, multi_head_attention_backward

PROJECTIONS = ("query", "key", "value", "projection")
BlockCache = tuple[Any, Any, Any, Any]


def transformer_block_shapes(config: GPTConfig) -> Shapes:
    d, width = config.embedding_dim, config.num_heads * config.head_dim
    norm: Shapes = {"scale": (d,), "shift": (d,)}
    attention: Shapes = {f"{name}.weight": (width, d) for name in PROJECTIONS[:3]}
    attention["projection.weight"] = (d, width)
    return {
        **_parameters.named("norm_1", norm),
        **_parameters.named("attention", attention),
        **_parameters.named("norm_2", norm),
        **_parameters.named("feed_forward", feed_forward_shapes(config)),
    }


def keep_shapes(config: GPTConfig, shape: tuple[int, ...]) -> Shapes:
    """What a block drops from, for ids of the shape (..., n): attention weights and the feed-forward's output."""
    *lead, n = shape
    return {"attention": (*lead, config.num_heads, n, n), "feed_forward": (*lead, n, config.embedding_dim)}


def transformer_block(
    params: Params, X: Array, config: GPTConfig, keep: dict[str, Array] | None = None
) -> tuple[Array, BlockCache]:
    """Z = X + attention(norm_1(X));  Y = Z + feed_forward(norm_2(Z))

    X, Z, Y: (..., n, d); attention is causal, of num_heads heads; keep: {"attention": (..., H, n, n), "feed_forward":
    (..., n, d)}, boolean.

    The norm stands before each part, so the residual path goes from end to end untouched. Source 2.
    Raises TypeError for mixed or other dtypes, ValueError for missing parameters and for shapes that do not match.
    """
    check_block("transformer_block", params, X, config, keep)
    drops = {"attention": None, "feed_forward": None} if keep is None else keep
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    Wq, Wk, Wv, Wo = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)  # (d, H c), the last (H c, d)
    p = 0.0 if keep is None else config.dropout
    C, attention_cache = multi_head_attention(
        N, Wq, Wk, Wv, Wo, config.num_heads, causal=True, keep=drops["attention"], p=p
    )
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    F, feed_forward_cache = feed_forward(_parameters.part(params, "feed_forward"), M, config, drops["feed_forward"])
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def transformer_block_backward(dY: Array, cache: BlockCache) -> tuple[Array, Params]:
    """dZ = dY + norm_2'(feed_forward'(dY));  dX = dZ + norm_1'(attention'(dZ))

    A sum forks the gradient: the residual path hands it on as it is, and the part adds what comes back through it.
    """
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    dM, dfeed_forward = feed_forward_backward(dY, feed_forward_cache)
    dZ_of_norm, dscale_2, dshift_2 = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dZ_of_norm
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dX_of_norm, dscale_1, dshift_1 = layer_norm_backward(dN, norm_1_cache)
    dX = dZ + dX_of_norm
    grads = {"norm_1.scale": dscale_1, "norm_1.shift": dshift_1}
    for name, dweight in zip(PROJECTIONS, dweights, strict=True):
        grads[f"attention.{name}.weight"] = np.ascontiguousarray(dweight.T)  # back to torch's (out, in)
    grads |= {"norm_2.scale": dscale_2, "norm_2.shift": dshift_2, **_parameters.named("feed_forward", dfeed_forward)}
    return dX, grads


def check_block(op: str, params: Params, X: Array, config: GPTConfig, keep: dict[str, Array] | None) -> None:
    _parameters.check_config(op, config, GPTConfig)
    _parameters.check_parameters(op, params, transformer_block_shapes(config))
    _check.floats(op, X=X, scale=params["norm_1.scale"])
    _check.shapes(op, X=(X, "... n d"), scale=(params["norm_1.scale"], "d"))
    if keep is not None:
        _parameters.check_keep(op, keep, keep_shapes(config, X.shape[:-1]))
