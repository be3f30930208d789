"""The feed-forward part of a block."""

from __future__ import annotations

from typing import Any

from reference_numpy import _parameters
from reference_numpy._check import Array
from reference_numpy._parameters import Params, Shapes
from reference_numpy.activations import gelu, gelu_backward
from reference_numpy.config import GPTConfig
from reference_numpy.dropout import dropout, dropout_backward
from reference_numpy.linear import linear, linear_backward

FeedForwardCache = tuple[Any, Any, Any, Any]


def feed_forward_shapes(config: GPTConfig) -> Shapes:
    d = config.embedding_dim
    inner = config.ff_factor * d
    return {"expand.weight": (inner, d), "expand.bias": (inner,), "contract.weight": (d, inner), "contract.bias": (d,)}


def feed_forward(
    params: Params, X: Array, config: GPTConfig, keep: Array | None = None
) -> tuple[Array, FeedForwardCache]:
    """Y = dropout(contract(gelu(expand(X))))

    X, Y: (..., d); expand.weight: (f d, d), contract.weight: (d, f d), f = ff_factor; keep: boolean, of Y's shape.

    Every token on its own. Without keep nothing is dropped. Source 2 describes it in words.
    Raises TypeError for mixed or other dtypes, ValueError for missing parameters and for shapes that do not match.
    """
    _parameters.check_config("feed_forward", config, GPTConfig)
    _parameters.check_parameters("feed_forward", params, feed_forward_shapes(config))
    inner, expand_cache = linear(X, params["expand.weight"], params["expand.bias"])
    active, gelu_cache = gelu(inner)
    outer, contract_cache = linear(active, params["contract.weight"], params["contract.bias"])
    Y, dropout_cache = dropout(outer, keep, 0.0 if keep is None else config.dropout)
    return Y, (expand_cache, gelu_cache, contract_cache, dropout_cache)


def feed_forward_backward(dY: Array, cache: FeedForwardCache) -> tuple[Array, Params]:
    """dX = expand'(gelu'(contract'(dropout'(dY)))), and the gradient of each weight on the way

    A chain: each part hands its input's gradient to the part before it.
    """
    expand_cache, gelu_cache, contract_cache, dropout_cache = cache
    douter = dropout_backward(dY, dropout_cache)
    dactive, dcontract_weight, dcontract_bias = linear_backward(douter, contract_cache)
    dinner = gelu_backward(dactive, gelu_cache)
    dX, dexpand_weight, dexpand_bias = linear_backward(dinner, expand_cache)
    return dX, {
        "expand.weight": dexpand_weight,
        "expand.bias": dexpand_bias,
        "contract.weight": dcontract_weight,
        "contract.bias": dcontract_bias,
    }
