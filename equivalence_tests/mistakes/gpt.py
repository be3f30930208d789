"""Mistakes in the GPT, forward and backward."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes import activations
from equivalence_tests.mistakes._gpt import (
    PROJECTIONS,
    Params,
    attend,
    block_backward_with,
    block_with,
    blocks,
    embed,
    feed,
    feed_backward,
    gpt_backward_with,
    gpt_with,
    head,
    named,
    norm,
    part,
    rate,
)
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.config import GPTConfig

# Embeddings


def counted_from_1(weight: Array, ids: Array) -> Any:
    at = np.arange(1, ids.shape[-1] + 1)  # wrong: the first position is 0
    return weight[np.minimum(at, len(weight) - 1)]


def the_last_rows(weight: Array, ids: Array) -> Any:
    return weight[-ids.shape[-1] :]  # wrong: as if the window were always full


def going_on_over_the_batch(weight: Array, ids: Array) -> Any:
    return weight[np.arange(ids.size).reshape(ids.shape) % len(weight)]  # wrong: every sequence begins at 0


def times_root_d(params: Params, ids: Array, config: GPTConfig, keep: Any) -> Any:
    larger = params["token_embedding.weight"] * math.sqrt(config.embedding_dim)  # wrong: another model's embedding
    return embed(params | {"token_embedding.weight": larger}, ids, config, keep)


def token_0_is_padding(params: Params, ids: Array, config: GPTConfig, keep: Any) -> Any:
    weight = params["token_embedding.weight"].copy()
    weight[0] = 0.0  # wrong: 0 is a token like any other
    return embed(params | {"token_embedding.weight": weight}, ids, config, keep)


def dropped_twice(X: Array, keep: Any, p: float) -> Any:
    once, cache = reference.dropout(X, keep, p)
    return reference.dropout(once, keep, p)[0], cache  # wrong: divided by (1 - p)^2


# Blocks


def post_norm(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
    drops = drops or {"attention": None, "feed_forward": None}
    C, attention_cache = attend(params, X, config, drops["attention"])
    Z, norm_1_cache = norm(params, "norm_1", X + C)  # wrong: the norm stands before each part
    F, feed_cache = feed(params, Z, config, drops["feed_forward"])
    Y, norm_2_cache = norm(params, "norm_2", Z + F)
    return Y, (norm_1_cache, attention_cache, norm_2_cache, feed_cache)


def second_norm_of_X(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
    drops = drops or {"attention": None, "feed_forward": None}
    N, norm_1_cache = norm(params, "norm_1", X)
    C, attention_cache = attend(params, N, config, drops["attention"])
    M, norm_2_cache = norm(params, "norm_2", X)  # wrong: side by side, not one after the other
    F, feed_cache = feed(params, M, config, drops["feed_forward"])
    return X + C + F, (norm_1_cache, attention_cache, norm_2_cache, feed_cache)


def residual_of_the_norm(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
    drops = drops or {"attention": None, "feed_forward": None}
    N, norm_1_cache = norm(params, "norm_1", X)
    C, attention_cache = attend(params, N, config, drops["attention"])
    Z = N + C  # wrong: X + C
    M, norm_2_cache = norm(params, "norm_2", Z)
    F, feed_cache = feed(params, M, config, drops["feed_forward"])
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_cache)


def no_residual(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
    drops = drops or {"attention": None, "feed_forward": None}
    N, norm_1_cache = norm(params, "norm_1", X)
    C, attention_cache = attend(params, N, config, drops["attention"])
    M, norm_2_cache = norm(params, "norm_2", X + C)
    F, feed_cache = feed(params, M, config, drops["feed_forward"])
    return F, (norm_1_cache, attention_cache, norm_2_cache, feed_cache)  # wrong: the path ends here


def one_norm_for_both(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
    same = {f"norm_2.{name}": params[f"norm_1.{name}"] for name in ("scale", "shift")}  # wrong: each has its own
    return block_with()(params | same, X, config, drops)


def dropped_after_the_sum(params: Params, X: Array, config: GPTConfig, drops: Any) -> Any:
    if drops is None:
        return block_with()(params, X, config, drops)
    without = block_with(feed=lambda params, M, config, keep: feed(params, M, config, None))
    Y, cache = without(params, X, config, drops)
    return reference.dropout(Y, drops["feed_forward"], config.dropout)[0], cache  # wrong: on the residual path too


def not_causal(params: Params, N: Array, config: GPTConfig, keep: Any) -> Any:
    Wq, Wk, Wv, Wo = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    options: dict[str, Any] = {"keep": keep, "p": rate(config, keep)}  # wrong: causal
    return reference.multi_head_attention(N, Wq, Wk, Wv, Wo, config.num_heads, **options)


def scale_of_the_embedding(params: Params, N: Array, config: GPTConfig, keep: Any) -> Any:
    Wq, Wk, Wv, Wo = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    scale = 1.0 / math.sqrt(config.embedding_dim)  # wrong: of the head's width
    options: dict[str, Any] = {"causal": True, "scale": scale, "keep": keep, "p": rate(config, keep)}
    return reference.multi_head_attention(N, Wq, Wk, Wv, Wo, config.num_heads, **options)


def interleaved(params: Params, N: Array, config: GPTConfig, keep: Any) -> Any:
    rows = np.arange(config.num_heads * config.head_dim).reshape(config.head_dim, config.num_heads).T.ravel()
    query = params["attention.query.weight"][rows]  # wrong: rows h, h + H, h + 2 H ... for h c ... (h + 1) c - 1
    return attend(params | {"attention.query.weight": query}, N, config, keep)


def keys_and_values_exchanged(params: Params, N: Array, config: GPTConfig, keep: Any) -> Any:
    key, value = params["attention.value.weight"], params["attention.key.weight"]  # wrong: split in another order
    return attend(params | {"attention.key.weight": key, "attention.value.weight": value}, N, config, keep)


def projection_reshaped(params: Params, N: Array, config: GPTConfig, keep: Any) -> Any:
    weight = params["attention.projection.weight"]
    turned = weight.reshape(weight.shape[::-1]).T  # wrong: a reshape is no transposition
    return attend(params | {"attention.projection.weight": turned}, N, config, keep)


def without_gelu(params: Params, M: Array, config: GPTConfig, keep: Any) -> Any:
    inner, expand_cache = reference.linear(M, params["feed_forward.expand.weight"], params["feed_forward.expand.bias"])
    _, gelu_cache = reference.gelu(inner)
    return _contracted(params, inner, config, keep, expand_cache, gelu_cache)  # wrong: two linear layers are one


def with_erf(params: Params, M: Array, config: GPTConfig, keep: Any) -> Any:
    inner, expand_cache = reference.linear(M, params["feed_forward.expand.weight"], params["feed_forward.expand.bias"])
    active, _ = activations.gelu_by_erf(inner)  # wrong: the other gelu
    return _contracted(params, active, config, keep, expand_cache, reference.gelu(inner)[1])


def _contracted(params: Params, active: Array, config: GPTConfig, keep: Any, expand_cache: Any, gelu_cache: Any) -> Any:
    weight, bias = params["feed_forward.contract.weight"], params["feed_forward.contract.bias"]
    outer, contract_cache = reference.linear(active, weight, bias)
    Y, dropout_cache = reference.dropout(outer, keep, rate(config, keep))
    return Y, (expand_cache, gelu_cache, contract_cache, dropout_cache)


def first_masks_everywhere(block: Any, params: Params, X: Array, config: GPTConfig, keep: Any) -> Any:
    if keep is not None:
        first = part(keep, "blocks.0")
        for layer in range(config.num_layers):
            keep = keep | named(f"blocks.{layer}", first)  # wrong: every block has masks of its own
    return blocks(block, params, X, config, keep)


def first_parameters_everywhere(block: Any, params: Params, X: Array, config: GPTConfig, keep: Any) -> Any:
    first = part(params, "blocks.0")
    for layer in range(config.num_layers):
        params = params | named(f"blocks.{layer}", first)  # wrong: every block has parameters of its own
    return blocks(block, params, X, config, keep)


# The end


def no_last_norm(params: Params, name: str, X: Array) -> Any:
    return X, norm(params, name, X)[1]  # wrong: the head is given the residual path as it is


def bias_twice(params: Params, N: Array, config: GPTConfig) -> Any:
    logits, cache = head(params, N, config)
    return logits + params["lm_head.bias"], cache  # wrong: linear has added it


def epsilon_of_another(params: Params, name: str, X: Array) -> Any:
    return reference.layer_norm(X, params[f"{name}.scale"], params[f"{name}.shift"], 1e-6)  # wrong: 1e-5


# The backward


def branch_alone(dpath: Array, dbranch: Array) -> Any:
    return dbranch  # wrong: the residual path hands its gradient on too


def path_twice(dpath: Array, dbranch: Array) -> Any:
    return dpath + dpath + dbranch  # wrong: once


def path_alone(dpath: Array, dbranch: Array) -> Any:
    return dpath.copy()  # wrong: the branch has read it as well


def feed_without_gelu(dF: Array, cache: Any) -> Any:
    expand_cache, _, contract_cache, dropout_cache = cache
    dactive, dW2, db2 = reference.linear_backward(reference.dropout_backward(dF, dropout_cache), contract_cache)
    dM, dW1, db1 = reference.linear_backward(dactive, expand_cache)  # wrong: gelu stands between the two
    grads = {"expand.weight": dW1, "expand.bias": db1, "contract.weight": dW2, "contract.bias": db2}
    return dM, named("feed_forward", grads)


def feed_without_dropout(dF: Array, cache: Any) -> Any:
    *rest, (X, _, _) = cache
    return feed_backward(dF, (*rest, (X, None, 0.0)))  # wrong: the mask is forgotten on the way back


def forwards(block_backward: Any, dX: Array, caches: Any) -> Any:
    grads: dict[str, Any] = {}
    for layer in range(len(caches)):  # wrong: the last block comes first
        dX, dblock = block_backward(dX, caches[layer])
        grads |= named(f"blocks.{layer}", dblock)
    return dX, grads


def named_backwards(block_backward: Any, dX: Array, caches: Any) -> Any:
    grads: dict[str, Any] = {}
    for layer, cache in enumerate(reversed(caches)):
        dX, dblock = block_backward(dX, cache)
        grads |= named(f"blocks.{layer}", dblock)  # wrong: counted from the last
    return dX, grads


def overwritten_by_the_next(block_backward: Any, dX: Array, caches: Any) -> Any:
    dblock: dict[str, Any] = {}
    for cache in reversed(caches):
        dX, dblock = block_backward(dX, cache)  # wrong: of all blocks the first one's stay
    every = {name: gradient.copy() for layer in range(len(caches)) for name, gradient in _of(layer, dblock)}
    return dX, every


def _of(layer: int, dblock: dict[str, Any]) -> Any:
    return named(f"blocks.{layer}", dblock).items()


def same_upstream_for_all(block_backward: Any, dX: Array, caches: Any) -> Any:
    grads: dict[str, Any] = {}
    for layer in reversed(range(len(caches))):
        dlast, dblock = block_backward(dX, caches[layer])  # wrong: each block is given what the last one was
        grads |= named(f"blocks.{layer}", dblock)
    return dlast, grads


def norm_skipped(dN: Array, cache: Any) -> Any:
    _, dscale, dshift = reference.layer_norm_backward(dN, cache)
    return dN.copy(), dscale, dshift  # wrong: the last norm has a backward too


def mask_forgotten(dX: Array, cache: Any) -> Any:
    return dX.copy()  # wrong: the embeddings were dropped on the way in


def row_0_zeroed(dX: Array, cache: Any) -> Any:
    dtokens = reference.embedding_backward(dX, cache)
    dtokens[0] = 0.0  # wrong: 0 is a token like any other
    return dtokens


def first_sequence_alone(dX: Array, weight: Array) -> Any:
    dweight = np.zeros_like(weight)
    if dX.size:
        dweight[: dX.shape[-2]] = dX.reshape(-1, *dX.shape[-2:])[0]  # wrong: all sequences stand on the positions
    return dweight


def averaged_over_sequences(dX: Array, weight: Array) -> Any:
    dweight = np.zeros_like(weight)
    if dX.size:
        dweight[: dX.shape[-2]] = dX.reshape(-1, *dX.shape[-2:]).mean(0)  # wrong: a sum
    return dweight


def positions_met_alone(dX: Array, weight: Array) -> Any:
    return dX.reshape(-1, *dX.shape[-2:]).sum(0)  # wrong: one row for each position that the model knows


def head_overwrites(dtokens: Array, dhead: Array) -> Any:
    return dhead  # wrong: the matrix is used twice


def head_detached(dtokens: Array, dhead: Array) -> Any:
    return dtokens  # wrong: the matrix is used twice


def halved(dtokens: Array, dhead: Array) -> Any:
    return 0.5 * (dtokens + dhead)  # wrong: a sum, not a mean


def _mistake(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any = None, backward: Any = None, source: str = ""
) -> Mistake:
    return Mistake(id, "gpt", sentence, hidden_on, shown_by, forward, backward, source)


def _block(id: str, sentence: str, hidden_on: str, shown_by: str, block: Any) -> Mistake:
    return _mistake(id, sentence, hidden_on, shown_by, gpt_with(block=block))


def _embedding(id: str, sentence: str, hidden_on: str, shown_by: str, at: Any) -> Mistake:
    def placed(params: Params, ids: Array, config: GPTConfig, keep: Any) -> Any:
        return embed(params, ids, config, keep, at)

    return _mistake(id, sentence, hidden_on, shown_by, gpt_with(placed))


def _dropped_twice(params: Params, ids: Array, config: GPTConfig, keep: Any) -> Any:
    return embed(params, ids, config, keep, drop=dropped_twice)


def _back(id: str, sentence: str, hidden_on: str, shown_by: str, source: str = "", **parts: Any) -> Mistake:
    return _mistake(id, sentence, hidden_on, shown_by, None, gpt_backward_with(**parts), source)


def _block_back(id: str, sentence: str, hidden_on: str, shown_by: str, **parts: Any) -> Mistake:
    return _back(id, sentence, hidden_on, shown_by, block_backward=block_backward_with(**parts))


MISTAKES = (
    _embedding(
        "M086b", "Positions go on from one sequence to the next.", "one sequence", "two", going_on_over_the_batch
    ),
    _embedding("L01", "Positions count from 1.", "a window of 1", "any other", counted_from_1),
    _embedding("L02", "Positions are the last n of the window.", "a full window", "a shorter row", the_last_rows),
    _mistake("L03", "Tokens are multiplied by sqrt(d).", "d = 1", "any other d", gpt_with(times_root_d)),
    _mistake(
        "L04",
        "Token 0 is embedded as padding.",
        "ids without 0",
        "a 0",
        gpt_with(token_0_is_padding),
        source="EMB-05",
    ),
    _mistake("L05", "Embeddings are divided by (1 - p)^2.", "no dropout", "dropout", gpt_with(_dropped_twice)),
    _block("L06", "The norms stand after the sums.", "never right", "any value", post_norm),
    _block("L07", "Attention and feed-forward stand side by side.", "attention of 0", "any other", second_norm_of_X),
    _block(
        "L08", "The residual path goes on from the norm.", "rows that are normal", "any other", residual_of_the_norm
    ),
    _block("L09", "The feed-forward has no residual path.", "never right", "any value", no_residual),
    _block("L10", "Both norms use one scale and shift.", "equal ones, as at the start", "others", one_norm_for_both),
    _block("L11", "Dropout acts on the residual path.", "no dropout", "dropout", dropped_after_the_sum),
    _block("L12", "Attention is not causal.", "one token", "two tokens", block_with(not_causal)),
    _block("L13", "Scores are divided by sqrt(d).", "c = d", "c below d", block_with(scale_of_the_embedding)),
    _block("L14", "Heads of the query are interleaved.", "one head; c = 1", "two heads", block_with(interleaved)),
    _block("L15", "Keys and values are exchanged.", "one token", "two tokens", block_with(keys_and_values_exchanged)),
    _block(
        "L16",
        "The projection is reshaped, not transposed.",
        "H c = 1 or d = 1",
        "any other",
        block_with(projection_reshaped),
    ),
    _block("L17", "The feed-forward has no gelu.", "large positive values", "any other", block_with(feed=without_gelu)),
    _block("L18", "gelu has the erf form.", "inputs near 0 or far out", "|x| near 2.7", block_with(feed=with_erf)),
    _mistake(
        "L19",
        "All blocks drop what block 0 drops.",
        "one block; no dropout",
        "two blocks and dropout",
        gpt_with(blocks=first_masks_everywhere),
    ),
    _mistake(
        "L20",
        "All blocks use block 0's parameters.",
        "one block",
        "two blocks",
        gpt_with(blocks=first_parameters_everywhere),
    ),
    _mistake("L21", "There is no last norm.", "rows that are normal", "any other", gpt_with(last=no_last_norm)),
    _mistake("L22", "The head's bias is added twice.", "a bias of 0", "any other", gpt_with(head=bias_twice)),
    _mistake("L23", "epsilon is 1e-6.", "large variances", "a variance of 1", gpt_with(last=epsilon_of_another)),
    _block_back("M066", "dX forgets the residual path.", "never right", "any value", join=branch_alone),
    _block_back("L24", "The residual path's gradient counts twice.", "never right", "any value", join=path_twice),
    _block_back("L25", "The branches hand nothing back.", "branches of 0", "any other", join=path_alone),
    _block_back("L26", "Attention is given dY for dZ.", "a feed-forward of 0", "any other", middle=lambda dY, dZ: dY),
    _block_back("L27", "gelu has no backward.", "large positive values", "any other", feed_backward=feed_without_gelu),
    _block_back("L28", "The feed-forward's mask is lost.", "no dropout", "dropout", feed_backward=feed_without_dropout),
    _back("L29", "Blocks run forwards on the way back.", "one block", "two blocks", blocks_backward=forwards),
    _back(
        "L30", "Blocks' gradients are named from the end.", "one block", "two blocks", blocks_backward=named_backwards
    ),
    _back(
        "L31",
        "One block's gradients overwrite another's.",
        "one block",
        "two blocks",
        blocks_backward=overwritten_by_the_next,
    ),
    _back(
        "L32",
        "Every block is given the last one's gradient.",
        "one block",
        "two blocks",
        blocks_backward=same_upstream_for_all,
    ),
    _back("L33", "The last norm has no backward.", "never right", "any value", last=norm_skipped),
    _back("L34", "The embedding's mask is lost.", "no dropout", "dropout", drop=mask_forgotten),
    _back("L35", "Token 0 has no gradient.", "ids without 0", "a 0", "EMB-05", tokens=row_0_zeroed),
    _back("L36", "Positions learn from one sequence.", "one sequence", "two", positions=first_sequence_alone),
    _back("L37", "Positions' gradients are averaged.", "one sequence", "two", positions=averaged_over_sequences),
    _back(
        "L38",
        "Positions beyond n have no row in the gradient.",
        "a full window",
        "a shorter row: the shape",
        positions=positions_met_alone,
    ),
    _back("M087", "The head's gradient overwrites a tied embedding's.", "untied", "a tied head", tie=head_overwrites),
    _back("EMB-06", "A tied head's gradient is dropped.", "untied", "a tied head", tie=head_detached),
    _back("L39", "A tied gradient is the mean of the two.", "untied", "a tied head", tie=halved),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M086b": "position: axis, operand",
    "L01": "position: operand",
    "L02": "position: operand",
    "L03": "embedding: factor",
    "L04": "embedding: special, term",
    "L05": "embedding, p: factor",
    "L06": "norm, residual: operand, term",
    "L07": "norm, residual, feed_forward: operand",
    "L08": "residual: operand",
    "L09": "residual: term",
    "L10": "norm: operand",
    "L11": "residual, feed_forward, keep: operand, option",
    "L12": "attention, causal: option",
    "L13": "attention, scale: factor",
    "L14": "attention: axis",
    "L15": "attention: operand",
    "L16": "attention: axis",
    "L17": "feed_forward: term",
    "L18": "feed_forward: term, precision",
    "L19": "keep, attention, feed_forward: operand, option",
    "L20": "norm, attention, feed_forward: operand",
    "L21": "last norm: term",
    "L22": "logits: term",
    "L23": "last norm, epsilon: option, term",
    "M066": "dresidual: term",
    "L24": "dresidual: term, factor",
    "L25": "dresidual, dnorm: term",
    "L26": "dattention, dresidual: operand",
    "L27": "dfeed_forward: term",
    "L28": "dfeed_forward, keep: term, option",
    "L29": "dresidual, dfeed_forward: operand",
    "L30": "dnorm, dattention, dfeed_forward: operand",
    "L31": "dnorm, dattention, dfeed_forward: accumulation, operand",
    "L32": "dresidual, dfeed_forward: operand",
    "L33": "dlast norm: term",
    "L34": "dembedding, keep: term, option",
    "L35": "dtoken_embedding: special, term",
    "L36": "dposition_embedding, dposition: accumulation",
    "L37": "dposition_embedding, dposition: factor, accumulation",
    "L38": "dposition_embedding, dposition: shape",
    "M087": "dtoken_embedding, dlm_head: accumulation",
    "EMB-06": "dtoken_embedding, dlm_head: accumulation, term",
    "L39": "dtoken_embedding, dlm_head: factor, accumulation",
}
