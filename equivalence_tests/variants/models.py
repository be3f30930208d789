"""The language models, put together from the variants of their parts, and put together otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.variants.activations import GELU
from equivalence_tests.variants.attention import ATTENTION
from equivalence_tests.variants.cross_entropy import CROSS_ENTROPY
from equivalence_tests.variants.dropout import DROPOUT
from equivalence_tests.variants.embedding import EMBEDDING
from equivalence_tests.variants.layer_norm import LAYER_NORM
from equivalence_tests.variants.linear import LINEAR
from equivalence_tests.variants.rnn import RNN
from equivalence_tests.variants.sums import Pair
from reference_numpy.config import GPTConfig, RNNConfig

Params = dict[str, Array]
NAMES = ("query", "key", "value")


@dataclass(frozen=True)
class Parts:
    """What a GPT is made of, and how.

    `fused`: query, key and value in one product; `late`: a block's two branches are added before the residual path is;
    `apart`: tokens and positions are dropped each on its own, then added; `chunk`: so many rows of the head at a time;
    `recomputed`: only the blocks' inputs are remembered.
    """

    embedding: Pair = EMBEDDING["sorted"]
    norm: Pair = LAYER_NORM["Welford"]
    linear: Pair = LINEAR["transposed"]
    attention: Pair = ATTENTION["scale on Q"]
    gelu: Pair = GELU["sigmoid"]
    drop: Pair = DROPOUT["a factor"]
    fused: bool = False
    late: bool = False
    apart: bool = False
    chunk: int = 10**6
    recomputed: bool = False


def _split(X: Array, heads: int) -> Array:
    return np.stack(np.split(X, heads, -1), -3)


def _merge(X: Array) -> Array:
    return np.concatenate(list(np.moveaxis(X, -3, 0)), -1)


def _part(tree: dict[str, Any], name: str) -> dict[str, Any]:
    return {key.removeprefix(f"{name}."): value for key, value in tree.items() if key.startswith(f"{name}.")}


def _attend(parts: Parts, params: Params, N: Array, config: GPTConfig, keep: Any, p: float) -> tuple[Array, Any]:
    weights = [params[f"attention.{name}.weight"] for name in NAMES]
    if parts.fused:
        joined, cache = parts.linear[0](N, np.concatenate(weights))
        projected, caches = np.split(joined, 3, -1), [cache]
    else:
        answers = [parts.linear[0](N, weight) for weight in weights]
        projected, caches = [Y for Y, _ in answers], [cache for _, cache in answers]
    heads = (_split(Y, config.num_heads) for Y in projected)
    C, attention_cache = parts.attention[0](*heads, causal=True, keep=keep, p=p)
    Y, last_cache = parts.linear[0](_merge(C), params["attention.projection.weight"])
    return Y, (caches, attention_cache, last_cache, config.num_heads)


def _attend_backward(parts: Parts, dY: Array, cache: Any) -> tuple[Array, dict[str, Array]]:
    caches, attention_cache, last_cache, heads = cache
    dmerged, dprojection = parts.linear[1](dY, last_cache)
    gradients = [_merge(g) for g in parts.attention[1](_split(dmerged, heads), attention_cache)]
    if parts.fused:
        dN, joined = parts.linear[1](np.concatenate(gradients, -1), caches[0])
        dweights = np.split(joined, 3)
    else:
        answers = [parts.linear[1](g, cache) for g, cache in zip(gradients, caches, strict=True)]
        dN, dweights = sum((dX for dX, _ in answers[1:]), answers[0][0]), [dw for _, dw in answers]
    grads = {f"attention.{name}.weight": dw.copy() for name, dw in zip(NAMES, dweights, strict=True)}
    return dN, {**grads, "attention.projection.weight": dprojection}


def _feed(parts: Parts, params: Params, M: Array, keep: Any, p: float) -> tuple[Array, Any]:
    inner, expand_cache = parts.linear[0](M, params["feed_forward.expand.weight"], params["feed_forward.expand.bias"])
    active, gelu_cache = parts.gelu[0](inner)
    weight, bias = params["feed_forward.contract.weight"], params["feed_forward.contract.bias"]
    outer, contract_cache = parts.linear[0](active, weight, bias)
    Y, drop_cache = parts.drop[0](outer, keep, p)
    return Y, (expand_cache, gelu_cache, contract_cache, drop_cache)


def _feed_backward(parts: Parts, dY: Array, cache: Any) -> tuple[Array, dict[str, Array]]:
    expand_cache, gelu_cache, contract_cache, drop_cache = cache
    dactive, dcontract, dbias = parts.linear[1](parts.drop[1](dY, drop_cache), contract_cache)
    dM, dexpand, dinner = parts.linear[1](parts.gelu[1](dactive, gelu_cache), expand_cache)
    grads = {"expand.weight": dexpand, "expand.bias": dinner, "contract.weight": dcontract, "contract.bias": dbias}
    return dM, {f"feed_forward.{name}": gradient for name, gradient in grads.items()}


def _block(parts: Parts, params: Params, X: Array, config: GPTConfig, keep: Any) -> tuple[Array, Any]:
    p, drops = (0.0, {}) if keep is None else (config.dropout, keep)
    N, norm_1 = parts.norm[0](X, params["norm_1.scale"], params["norm_1.shift"])
    C, attention = _attend(parts, params, N, config, drops.get("attention"), p)
    M, norm_2 = parts.norm[0](X + C, params["norm_2.scale"], params["norm_2.shift"])
    F, feed = _feed(parts, params, M, drops.get("feed_forward"), p)
    return X + (F + C) if parts.late else (X + C) + F, (norm_1, attention, norm_2, feed)


def _block_backward(parts: Parts, dY: Array, cache: Any) -> tuple[Array, dict[str, Array]]:
    norm_1, attention, norm_2, feed = cache
    dM, dfeed = _feed_backward(parts, dY, feed)
    dZ, dscale_2, dshift_2 = parts.norm[1](dM, norm_2)
    dN, dattention = _attend_backward(parts, dZ + dY, attention)
    dX, dscale_1, dshift_1 = parts.norm[1](dN, norm_1)
    norms = {"norm_1.scale": dscale_1, "norm_1.shift": dshift_1, "norm_2.scale": dscale_2, "norm_2.shift": dshift_2}
    return (dX + dZ) + dY if parts.late else dX + (dZ + dY), {**norms, **dattention, **dfeed}


def _head(parts: Parts, N: Array, weight: Array, bias: Array) -> tuple[Array, Any]:
    slices = [slice(start, start + parts.chunk) for start in range(0, len(bias), parts.chunk)]
    answers = [parts.linear[0](N, weight[rows], bias[rows]) for rows in slices]
    return np.concatenate([Y for Y, _ in answers], -1), (slices, [cache for _, cache in answers])


def _head_backward(parts: Parts, dlogits: Array, cache: Any) -> tuple[Array, Array, Array]:
    slices, caches = cache
    answers = [parts.linear[1](dlogits[..., rows], each) for rows, each in zip(slices, caches, strict=True)]
    dN = answers[0][0]
    for dmore, _, _ in answers[1:]:
        dN = dN + dmore
    return dN, np.concatenate([dw for _, dw, _ in answers]), np.concatenate([db for _, _, db in answers])


def _embed(parts: Parts, params: Params, ids: Array, config: GPTConfig, keep: Any) -> tuple[Array, Any]:
    n = ids.shape[-1]
    where = np.broadcast_to(np.arange(n), ids.shape)
    tokens, token_cache = parts.embedding[0](ids, params["token_embedding.weight"])
    positions, position_cache = parts.embedding[0](where, params["position_embedding.weight"])
    p, mask = (0.0, None) if keep is None else (config.dropout, keep["embedding"])
    if parts.apart:
        X = parts.drop[0](tokens, mask, p)[0] + parts.drop[0](positions, mask, p)[0]
        return X, (token_cache, position_cache, parts.drop[0](tokens, mask, p)[1])
    X, drop_cache = parts.drop[0](positions + tokens, mask, p)
    return X, (token_cache, position_cache, drop_cache)


def _gpt(parts: Parts) -> Pair:
    def gpt(params: Params, ids: Array, config: GPTConfig, keep: dict[str, Array] | None = None) -> tuple[Array, Any]:
        X, embed_cache = _embed(parts, params, ids, config, keep)
        blocks = []
        for layer in range(config.num_layers):
            drops = None if keep is None else _part(keep, f"blocks.{layer}")
            block = (_part(params, f"blocks.{layer}"), X, config, drops)
            X, cache = _block(parts, *block)
            blocks.append(block if parts.recomputed else cache)
        N, norm_cache = parts.norm[0](X, params["norm.scale"], params["norm.shift"])
        weight = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
        logits, head_cache = _head(parts, N, weight, params["lm_head.bias"])
        return logits, (embed_cache, blocks, norm_cache, head_cache, config.tied_head)

    def gpt_backward(dlogits: Array, cache: Any) -> dict[str, Array]:
        (token_cache, position_cache, drop_cache), blocks, norm_cache, head_cache, tied = cache
        dN, dhead, dbias = _head_backward(parts, dlogits, head_cache)
        dX, dscale, dshift = parts.norm[1](dN, norm_cache)
        grads = {"norm.scale": dscale, "norm.shift": dshift, "lm_head.bias": dbias}
        for layer, block in reversed(list(enumerate(blocks))):
            dX, dblock = _block_backward(parts, dX, _block(parts, *block)[1] if parts.recomputed else block)
            grads |= {f"blocks.{layer}.{name}": gradient for name, gradient in dblock.items()}
        dX = parts.drop[1](dX, drop_cache)
        grads["position_embedding.weight"] = parts.embedding[1](dX, position_cache)
        dtokens = parts.embedding[1](dX, token_cache)
        if tied:
            return grads | {"token_embedding.weight": dhead + dtokens}
        return grads | {"token_embedding.weight": dtokens, "lm_head.weight": dhead}

    return gpt, gpt_backward


def _generative_rnn(embedding: Pair, rnn: Pair, linear: Pair) -> Pair:
    recurrent = tuple(f"rnn.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

    def generative_rnn(params: Params, ids: Array, config: RNNConfig) -> tuple[Array, Any]:
        X, embedding_cache = embedding[0](ids, params["embedding.weight"])
        (H, _), rnn_cache = rnn[0](X, *(params[name] for name in recurrent))
        logits, head_cache = linear[0](H, params["lm_head.weight"], params["lm_head.bias"])
        return logits, (embedding_cache, rnn_cache, head_cache)

    def generative_rnn_backward(dlogits: Array, cache: Any) -> dict[str, Array]:
        embedding_cache, rnn_cache, head_cache = cache
        dH, dhead, dbias = linear[1](dlogits, head_cache)
        dX, *drecurrent = rnn[1]((dH, np.zeros_like(dH[..., 0, :])), rnn_cache)
        grads = dict(zip(recurrent, drecurrent, strict=True)) | {"lm_head.weight": dhead, "lm_head.bias": dbias}
        return grads | {"embedding.weight": embedding[1](dX, embedding_cache)}

    return generative_rnn, generative_rnn_backward


def _gpt_loss(model: Pair, loss: Pair) -> Pair:
    def gpt_loss(
        params: Params,
        ids: Array,
        targets: Array,
        config: GPTConfig,
        ignore_index: int | None = None,
        keep: dict[str, Array] | None = None,
    ) -> tuple[Any, Any]:
        logits, cache = model[0](params, ids, config, keep)
        value, loss_cache = loss[0](logits, targets, ignore_index)
        return value, (cache, loss_cache)

    return gpt_loss, _loss_backward(model, loss)


def _generative_rnn_loss(model: Pair, loss: Pair) -> Pair:
    def generative_rnn_loss(
        params: Params, ids: Array, targets: Array, config: RNNConfig, ignore_index: int | None = None
    ) -> tuple[Any, Any]:
        logits, cache = model[0](params, ids, config)
        value, loss_cache = loss[0](logits, targets, ignore_index)
        return value, (cache, loss_cache)

    return generative_rnn_loss, _loss_backward(model, loss)


def _loss_backward(model: Pair, loss: Pair) -> Any:
    def backward(dloss: float, cache: Any) -> Any:
        model_cache, loss_cache = cache
        return model[1](loss[1](dloss, loss_cache), model_cache)

    return backward


GPT: dict[str, Pair] = {
    "one-hot embeddings": _gpt(Parts(embedding=EMBEDDING["one-hot product"], attention=ATTENTION["scale on K"])),
    "norms in the next format": _gpt(Parts(norm=LAYER_NORM["wider"], linear=LINEAR["reverse"])),
    "attention key by key": _gpt(Parts(attention=ATTENTION["online, key by key"], norm=LAYER_NORM["a line"])),
    "attention in tiles, delta from dC C": _gpt(Parts(attention=ATTENTION["online, tiles of 3"], gelu=GELU["ratio"])),
    "query, key and value in one product": _gpt(Parts(fused=True, attention=ATTENTION["delta from dC C"])),
    "branches added first": _gpt(Parts(late=True, norm=LAYER_NORM["two passes with correction"])),
    "dropped apart": _gpt(Parts(apart=True, drop=DROPOUT["a sum"], gelu=GELU["expm1"])),
    "head in chunks": _gpt(Parts(chunk=2, linear=LINEAR["bias as a column"], drop=DROPOUT["a division"])),
    "blocks computed again": _gpt(Parts(recomputed=True, linear=LINEAR["einsum"], attention=ATTENTION["einsum"])),
    "gelu by another formula": _gpt(Parts(gelu=GELU["Horner"], linear=LINEAR["partial products"])),
    "scale split, sums by halves": _gpt(
        Parts(attention=ATTENTION["scale split over Q and K"], norm=LAYER_NORM["sums by halves"], fused=True, late=True)
    ),
    "all in the next format": _gpt(
        Parts(
            norm=LAYER_NORM["wider"],
            linear=LINEAR["wider"],
            attention=ATTENTION["wider"],
            gelu=GELU["wider"],
            late=True,
        )
    ),
}
GENERATIVE_RNN: dict[str, Pair] = {
    "joined": _generative_rnn(EMBEDDING["sorted"], RNN["[x, h] joined"], LINEAR["transposed"]),
    "step by step": _generative_rnn(EMBEDDING["in reverse"], RNN["weights step by step"], LINEAR["reverse"]),
    "one-hot": _generative_rnn(EMBEDDING["one-hot product"], RNN["transposed"], LINEAR["bias as a column"]),
    "tanh by expm1": _generative_rnn(EMBEDDING["counted"], RNN["tanh by expm1"], LINEAR["partial products"]),
    "wider": _generative_rnn(EMBEDDING["counted"], RNN["wider"], LINEAR["wider"]),
}
GPT_LOSS: dict[str, Pair] = {
    "log-sum-exp": _gpt_loss(GPT["branches added first"], CROSS_ENTROPY["log-sum-exp minus the target's logit"]),
    "product with one-hot": _gpt_loss(GPT["one-hot embeddings"], CROSS_ENTROPY["product with one-hot"]),
    "chunks": _gpt_loss(GPT["head in chunks"], CROSS_ENTROPY["distance to the max apart"]),
    "blocks computed again": _gpt_loss(GPT["blocks computed again"], CROSS_ENTROPY["row by row"]),
}
GENERATIVE_RNN_LOSS: dict[str, Pair] = {
    "log-sum-exp": _generative_rnn_loss(
        GENERATIVE_RNN["joined"], CROSS_ENTROPY["log-sum-exp minus the target's logit"]
    ),
    "exact sums": _generative_rnn_loss(GENERATIVE_RNN["wider"], CROSS_ENTROPY["exact sums"]),
    "in reverse": _generative_rnn_loss(GENERATIVE_RNN["step by step"], CROSS_ENTROPY["sums in reverse"]),
}
