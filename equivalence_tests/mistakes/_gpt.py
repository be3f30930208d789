"""A right GPT in replaceable parts, with the reference's cache: what the mistakes are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from reference_numpy.config import GPTConfig

Params = dict[str, Array]
PROJECTIONS = ("query", "key", "value", "projection")


def part(tree: dict[str, Any], name: str) -> dict[str, Any]:
    return {key.removeprefix(f"{name}."): value for key, value in tree.items() if key.startswith(f"{name}.")}


def named(name: str, tree: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in tree.items()}


def rate(config: GPTConfig, keep: Any) -> float:
    return 0.0 if keep is None else config.dropout


def positions(weight: Array, ids: Array) -> Any:
    return weight[: ids.shape[-1]]


def embed(
    params: Params,
    ids: Array,
    config: GPTConfig,
    keep: Any,
    at: Callable[[Array, Array], Any] = positions,
    drop: Callable[..., Any] = reference.dropout,
) -> Any:
    """dropout(tokens + positions), and the two caches."""
    tokens, token_cache = reference.embedding(ids, params["token_embedding.weight"])
    X = tokens + at(params["position_embedding.weight"], ids)
    X, dropout_cache = drop(X, None if keep is None else keep["embedding"], rate(config, keep))
    return X, token_cache, dropout_cache


def attend(params: Params, N: Array, config: GPTConfig, keep: Any) -> Any:
    """Causal attention of all heads, with the block's parameters."""
    Wq, Wk, Wv, Wo = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    p = rate(config, keep)
    return reference.multi_head_attention(N, Wq, Wk, Wv, Wo, config.num_heads, causal=True, keep=keep, p=p)


def feed(params: Params, M: Array, config: GPTConfig, keep: Any) -> Any:
    return reference.feed_forward(part(params, "feed_forward"), M, config, keep)


def norm(params: Params, name: str, X: Array) -> Any:
    return reference.layer_norm(X, params[f"{name}.scale"], params[f"{name}.shift"])


def block_with(attend: Callable[..., Any] = attend, feed: Callable[..., Any] = feed) -> Callable[..., Any]:
    def block(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
        N, norm_1_cache = norm(params, "norm_1", X)
        C, attention_cache = attend(params, N, config, None if drops is None else drops["attention"])
        Z = X + C
        M, norm_2_cache = norm(params, "norm_2", Z)
        F, feed_cache = feed(params, M, config, None if drops is None else drops["feed_forward"])
        return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_cache)

    return block


def blocks(block: Callable[..., Any], params: Params, X: Array, config: GPTConfig, keep: Any) -> Any:
    caches = []
    for layer in range(config.num_layers):
        drops = None if keep is None else part(keep, f"blocks.{layer}")
        X, cache = block(part(params, f"blocks.{layer}"), X, config, drops)
        caches.append(cache)
    return X, caches


def head(params: Params, N: Array, config: GPTConfig) -> Any:
    weight = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    return reference.linear(N, weight, params["lm_head.bias"])


def gpt_with(
    embed: Callable[..., Any] = embed,
    block: Callable[..., Any] | None = None,
    blocks: Callable[..., Any] = blocks,
    last: Callable[..., Any] = norm,
    head: Callable[..., Any] = head,
) -> Callable[..., Any]:
    block = block or block_with()

    def gpt(params: Params, ids: Array, config: GPTConfig, keep: dict[str, Array] | None = None) -> Any:
        X, token_cache, dropout_cache = embed(params, ids, config, keep)
        X, caches = blocks(block, params, X, config, keep)
        N, norm_cache = last(params, "norm", X)
        logits, head_cache = head(params, N, config)
        where = params["position_embedding.weight"]
        return logits, (token_cache, where, dropout_cache, caches, norm_cache, head_cache, config)

    return gpt


# The backward


def attend_backward(dC: Array, cache: Any) -> tuple[Any, dict[str, Any]]:
    dN, *dweights = reference.multi_head_attention_backward(dC, cache)
    return dN, {f"attention.{name}.weight": dw.T.copy() for name, dw in zip(PROJECTIONS, dweights, strict=True)}


def feed_backward(dF: Array, cache: Any) -> tuple[Any, dict[str, Any]]:
    dM, grads = reference.feed_forward_backward(dF, cache)
    return dM, named("feed_forward", grads)


def block_backward_with(
    attend_backward: Callable[..., Any] = attend_backward,
    feed_backward: Callable[..., Any] = feed_backward,
    join: Callable[[Array, Array], Any] = np.add,
    middle: Callable[[Array, Array], Any] = lambda dY, dZ: dZ,
) -> Callable[..., Any]:
    """`join` adds a branch's gradient to the residual path's; `middle` is what the attention is given of dY and dZ."""

    def block_backward(dY: Array, cache: Any) -> Any:
        norm_1_cache, attention_cache, norm_2_cache, feed_cache = cache
        dM, dfeed = feed_backward(dY, feed_cache)
        dZ_of_norm, dscale_2, dshift_2 = reference.layer_norm_backward(dM, norm_2_cache)
        dZ = join(dY, dZ_of_norm)
        dN, dattention = attend_backward(middle(dY, dZ), attention_cache)
        dX_of_norm, dscale_1, dshift_1 = reference.layer_norm_backward(dN, norm_1_cache)
        norms = {"norm_1.scale": dscale_1, "norm_1.shift": dshift_1, "norm_2.scale": dscale_2, "norm_2.shift": dshift_2}
        return join(dZ, dX_of_norm), {**norms, **dattention, **dfeed}

    return block_backward


def blocks_backward(block_backward: Callable[..., Any], dX: Array, caches: Any) -> tuple[Any, dict[str, Any]]:
    grads: dict[str, Any] = {}
    for layer in reversed(range(len(caches))):
        dX, dblock = block_backward(dX, caches[layer])
        grads |= named(f"blocks.{layer}", dblock)
    return dX, grads


def summed_over_sequences(dX: Array, weight: Array) -> Any:
    dweight = np.zeros_like(weight)
    dweight[: dX.shape[-2]] = dX.reshape(-1, *dX.shape[-2:]).sum(0)
    return dweight


def both(dtokens: Array, dhead: Array) -> Any:
    return dtokens + dhead


def gpt_backward_with(
    block_backward: Callable[..., Any] | None = None,
    blocks_backward: Callable[..., Any] = blocks_backward,
    last: Callable[..., Any] = reference.layer_norm_backward,
    drop: Callable[..., Any] = reference.dropout_backward,
    tokens: Callable[..., Any] = reference.embedding_backward,
    positions: Callable[[Array, Array], Any] = summed_over_sequences,
    tie: Callable[[Array, Array], Any] = both,
) -> Callable[..., Any]:
    block_backward = block_backward or block_backward_with()

    def gpt_backward(dlogits: Array, cache: Any) -> Any:
        token_cache, where, dropout_cache, caches, norm_cache, head_cache, config = cache
        dN, dhead, dbias = reference.linear_backward(dlogits, head_cache)
        dX, dscale, dshift = last(dN, norm_cache)
        dX, grads = blocks_backward(block_backward, dX, caches)
        dX = drop(dX, dropout_cache)
        dtokens = tokens(dX, token_cache)
        grads |= {"norm.scale": dscale, "norm.shift": dshift, "lm_head.bias": dbias}
        grads["position_embedding.weight"] = positions(dX, where)
        grads["token_embedding.weight"] = tie(dtokens, dhead) if config.tied_head else dtokens
        return grads if config.tied_head else grads | {"lm_head.weight": dhead}

    return gpt_backward
