"""Mistakes that are not in the library: a held-out test of the diagnosis.

They were written and labelled without a look at the diagnosis; the forms of U11, U19, U22 and U23 were added to it later,
as those of any mistake that is not placed. They stay out of the library: `python -m equivalence_tests.mistakes.naming
--held-out` says how many are put at the right line all the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.mistakes import attention as A_
from equivalence_tests.mistakes import rnn as R_
from equivalence_tests.mistakes._gpt import block_with, feed, gpt_with, norm, rate
from equivalence_tests.mistakes._mistake import Mistake
from equivalence_tests.mistakes.attention_backward import _dA, _dS, _dV, _from_dS
from equivalence_tests.mistakes.heads import (
    _dX,
    _rows,
    _split,
    _weight_gradients,
    merge_interleaved,
    multi_head_attention_with,
)
from equivalence_tests.mistakes.language_models import generative_rnn_backward_with, rnn_loss_with
from equivalence_tests.mistakes.layer_norm import _centred, _mean, _parameter_gradients

# softmax, log_softmax


def off_diagonal_squared(dA: Any, cache: Any) -> Any:
    A, axis = cache
    return A * dA - A * A * dA.sum(axis, keepdims=True)  # wrong: A_i A_i for A_i A_j


_BUFFERS: dict[Any, Any] = {}


def same_buffer(X: Any, axis: Any = -1) -> Any:
    out = _BUFFERS.setdefault((X.shape, X.dtype.name), np.empty(X.shape, X.dtype))
    np.exp(X - X.max(axis, keepdims=True), out=out)
    out /= out.sum(axis, keepdims=True)
    return out, (out, axis)  # wrong: the next call of the same shape writes over it


def mean_of_upstream(dY: Any, cache: Any) -> Any:
    Y, axis = cache
    return dY - np.exp(Y) * dY.mean(axis, keepdims=True)  # wrong: sum


# layer_norm


def variance_not_divided(X: Any, scale: Any, shift: Any, epsilon: Any = 1e-5) -> Any:
    D, _ = _centred(X)
    r = 1.0 / np.sqrt((D * D).sum(-1, keepdims=True) + epsilon)  # wrong: not divided by d
    return scale * (D * r) + shift, (D * r, r, scale)


def second_mean_added(dY: Any, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    return r * (dN - _mean(dN) + N * _mean(dN * N)), *_parameter_gradients(dY, N)  # wrong: + for -


def dscale_through_scale(dY: Any, cache: Any) -> Any:
    N, r, scale = cache
    dN = dY * scale
    dX = r * (dN - _mean(dN) - N * _mean(dN * N))
    dscale, dshift = _parameter_gradients(dN, N)[0], _parameter_gradients(dY, N)[1]  # wrong: dY
    return dX, dscale, dshift


# attention


def causal_by_zeros(Q: Any, K: Any, o: Any) -> Any:
    S = A_._scores(Q, K, o._replace(bias=None))
    S = A_._biased(
        S * np.tril(np.ones(S.shape[-2:], S.dtype), o.query_offset) if o.causal else S, o
    )  # wrong: 0, not -inf
    return A_._guarded(A_._filled(S, ~np.isneginf(S) & A_._unmasked(S, o)))


def offset_for_one_query_only(Q: Any, K: Any, o: Any) -> Any:
    return A_._weights(Q, K, o._replace(query_offset=o.query_offset if Q.shape[-2] == 1 else 0))  # wrong: always


def bias_subtracted(Q: Any, K: Any, o: Any) -> Any:
    if o.bias is None:
        return A_._weights(Q, K, o)
    bias = np.where(np.isneginf(o.bias), o.bias, -o.bias)  # wrong: the sign
    return A_._weights(Q, K, o._replace(bias=bias))


def padding_mask_alone(Q: Any, K: Any, o: Any) -> Any:
    """A mask that has a row for each query is read; one that is of the keys alone is taken for none."""
    ignored = o.mask is not None and (o.mask.ndim == 1 or o.mask.shape[-2] == 1)
    return A_._weights(Q, K, o._replace(mask=None if ignored else o.mask))  # wrong: it broadcasts


def delta_not_weighted(dC: Any, cache: Any) -> Any:
    dA = _dA(dC, cache)
    dS = cache.A * dA - (cache.A * dA).sum(-1, keepdims=True)  # wrong: A (dA - delta)
    return _from_dS(dS, dC, cache)


def key_gradient_of_scaled_query(dC: Any, cache: Any) -> Any:
    dOmega = _dS(dC, cache) * cache.scale
    return dOmega @ cache.K, dOmega.mT @ (cache.Q * cache.scale), _dV(dC, cache)  # wrong: dK is scaled twice


# self_attention, multi_head_attention


def value_matrix_without_map(dC: Any, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    dWq, dWk, _ = _weight_gradients(X, dQ, dK, dV)
    return _dX(dQ, dK, dV, Wq, Wk, Wv), dWq, dWk, _rows(X).T @ _rows(dC)  # wrong: dV, not dC


def paths_averaged(dC: Any, cache: Any) -> Any:
    X, Wq, Wk, Wv, inner = cache
    dQ, dK, dV = reference.attention_backward(dC, inner)
    return _dX(dQ, dK, dV, Wq, Wk, Wv) / 3.0, *_weight_gradients(X, dQ, dK, dV)  # wrong: a sum of three


def first_heads_mask_of_links(Q: Any, K: Any, V: Any, options: Any, X: Any) -> Any:
    keep = options["keep"]
    if keep is not None:
        options = options | {"keep": np.broadcast_to(keep[..., :1, :, :], keep.shape).copy()}  # wrong: a head's own
    return reference.attention(Q, K, V, **options)


def gradients_merged_interleaved(dY: Any, cache: Any) -> Any:
    X, Wq, Wk, Wv, Wo, merged, inner = cache
    gradients = reference.attention_backward(_split(dY @ Wo.T, inner.Q.shape[-3]), inner)
    dQ, dK, dV = (merge_interleaved(g) for g in gradients)  # wrong: (c, H)
    return _dX(dQ, dK, dV, Wq, Wk, Wv), *_weight_gradients(X, dQ, dK, dV), _rows(merged).T @ _rows(dY)


# cross_entropy


def divided_by_sequences(logits: Any, targets: Any, ignore_index: Any = None) -> Any:
    loss, (log_P, rows, counted, M) = reference.cross_entropy(logits, targets, ignore_index)
    batch = targets.shape[0] if targets.ndim else 1
    return loss * loss.dtype.type(M / batch), (log_P, rows, counted, batch)  # wrong: the first axis, not the tokens


def divided_by_classes_too(dloss: Any, cache: Any) -> Any:
    return reference.cross_entropy_backward(dloss, cache) / cache[0].dtype.type(cache[0].shape[-1])  # wrong: M alone


# embedding, linear, dropout


def ids_by_columns(dY: Any, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids.ravel(order="F"), dY.reshape(-1, weight.shape[1]))  # wrong: two orders of the same tokens
    return dweight


def clipped_in_passing(dY: Any, cache: Any) -> Any:
    dX, dweight, *rest = reference.linear_backward(dY, cache)
    return dX, np.clip(dweight, -1.0, 1.0), *rest  # wrong: clipping is the optimizer's business


def multiplied_by_share(X: Any, keep: Any, p: Any) -> Any:
    if keep is None:
        return X.copy(), (X, keep, p)
    return np.where(keep, X * X.dtype.type(1.0 - p), X.dtype.type(0)), (X, keep, p)  # wrong: divided


def single_key(
    Q: Any,
    K: Any,
    V: Any,
    *,
    mask: Any = None,
    bias: Any = None,
    causal: Any = False,
    query_offset: Any = 0,
    scale: Any = None,
    keep: Any = None,
    p: Any = 0.0,
) -> Any:
    options = {"mask": mask, "bias": bias, "causal": causal, "query_offset": query_offset}
    C, cache = reference.attention(Q, K, V, **options, scale=scale, keep=keep, p=p)
    if K.shape[-2] == 1:
        C = np.broadcast_to(V, C.shape).copy()  # wrong: it may be masked or dropped
    return C, cache


def statistics_in_float64(X: Any, scale: Any, shift: Any, epsilon: Any = 1e-5) -> Any:
    D, var = _centred(X.astype(np.float64))
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    return scale * N + shift, (N.astype(X.dtype), r.astype(X.dtype), scale)  # wrong: not brought back to X's dtype


# gelu, relu


def slope_of_tanh_missing(dY: Any, cache: Any) -> Any:
    X, t = cache
    x = np.clip(X, -30.0, 30.0)
    du = math.sqrt(2.0 / math.pi) * (1.0 + 3.0 * 0.044715 * x * x)
    return dY * (0.5 * (1.0 + t) + 0.5 * x * du)  # wrong: 1 - t^2 is missing


def square_for_cube(X: Any) -> Any:
    x = np.clip(X, -30.0, 30.0)
    t = np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x))  # wrong: x^3
    return X * (0.5 * (1.0 + t)), (X, t)


# rnn


def input_gradient_backwards(dY: Any, cache: Any) -> Any:
    da, dh = R_._back(dY, cache)
    found = R_._gradients(da, dh, cache)
    return R_._replaced(found, dX=found[0][..., ::-1, :].copy())  # wrong: collected from the last step, never turned


def truncated_after_two(dY: Any, cache: Any) -> Any:
    dH, dh = dY
    _, _, W_hh, _, H = cache
    da = np.empty_like(H)
    n = H.shape[-2]
    for t in reversed(range(n)):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
        if (n - t) % 2 == 0 and t > 0:
            dh = np.zeros_like(dh)  # wrong: a chunk's border, where there is none
    return R_._gradients(da, dh, cache)


def first_state_at_every_step(X: Any, W_ih: Any, W_hh: Any, b_ih: Any, b_hh: Any, h0: Any = None) -> Any:
    first = R_._start(X, W_ih.shape[0], h0)
    step = lambda x, h, *weights: R_._step(x, h if h is first else h + first, *weights)  # noqa: E731  # wrong: once
    return R_.rnn_with(step)(X, W_ih, W_hh, b_ih, b_hh, h0)


# gpt, generative_rnn


def positions_not_dropped(params: Any, ids: Any, config: Any, keep: Any) -> Any:
    tokens, token_cache = reference.embedding(ids, params["token_embedding.weight"])
    dropped, dropout_cache = reference.dropout(tokens, None if keep is None else keep["embedding"], rate(config, keep))
    return dropped + params["position_embedding.weight"][: ids.shape[-1]], token_cache, dropout_cache  # wrong: the sum


def feed_halved(params: Any, M: Any, config: Any, keep: Any) -> Any:
    F, cache = feed(params, M, config, keep)
    return F * F.dtype.type(0.5), cache  # wrong: the residual path takes all of it


def last_norm_unscaled(params: Any, name: Any, X: Any) -> Any:
    _, cache = norm(params, name, X)
    one = np.ones_like(params[f"{name}.scale"])
    return reference.layer_norm(X, one, params[f"{name}.shift"])[0], cache  # wrong: the scale is not read


def head_halved(grads: Any) -> Any:
    return grads | {"lm_head.weight": grads["lm_head.weight"] * grads["lm_head.weight"].dtype.type(0.5)}  # wrong: all


def last_token_counts(logits: Any, targets: Any, ignore_index: Any) -> Any:
    if not targets.size or (targets[..., -1] == ignore_index).all() if ignore_index is not None else not targets.size:
        return reference.cross_entropy(logits, targets, ignore_index)
    away = logits.shape[-1] + 7
    only = np.full_like(targets, away)
    only[..., -1] = (
        targets[..., -1] if ignore_index is None else np.where(targets[..., -1] == ignore_index, away, targets[..., -1])
    )
    return reference.cross_entropy(logits, only, away)  # wrong: every token counts


def _new(
    id: Any,
    op: Any,
    sentence: Any,
    hidden_on: Any,
    shown_by: Any,
    stages: Any,
    kinds: Any,
    forward: Any = None,
    backward: Any = None,
) -> Any:
    return Mistake(
        id,
        op,
        sentence,
        hidden_on,
        shown_by,
        forward,
        backward,
        stages=tuple(stages.split(", ")),
        kinds=tuple(kinds.split(", ")),
    )


AT, LN, CE = "attention", "layer_norm", "cross_entropy"
HELD_OUT = [
    _new(
        "U01",
        "softmax",
        "The Jacobian has A_i A_i for A_i A_j off the diagonal.",
        "uniform A",
        "any dense dA",
        "sum(A * dA), dX",
        "term, operand",
        backward=off_diagonal_squared,
    ),
    _new(
        "U02",
        "softmax",
        "The output is a buffer that the next call reuses.",
        "one call",
        "two calls",
        "forward",
        "conduct",
        same_buffer,
    ),
    _new(
        "U03",
        "log_softmax",
        "The mean of dY stands for its sum.",
        "dY that sums to 0",
        "any dense dY",
        "sum(dY)",
        "factor, accumulation",
        backward=mean_of_upstream,
    ),
    _new(
        "U04",
        LN,
        "The variance is not divided by d.",
        "width 1",
        "any other width",
        "var",
        "factor",
        variance_not_divided,
    ),
    _new(
        "U05",
        LN,
        "The term with N is added, not subtracted.",
        "dN at right angles to N",
        "any dense dY",
        "dX, mean(dN * N)",
        "factor, term",
        backward=second_mean_added,
    ),
    _new(
        "U06",
        LN,
        "dscale is multiplied by the scale.",
        "scale 1",
        "any other scale",
        "dscale",
        "term, operand",
        backward=dscale_through_scale,
    ),
    _new(
        "U07",
        AT,
        "Causality multiplies scores by 0 instead of leaving them out.",
        "not causal",
        "causal",
        "causal, masked",
        "option, term",
        A_.attention_with(causal_by_zeros),
    ),
    _new(
        "U08",
        AT,
        "The query offset counts for a single query only.",
        "offset 0; one query",
        "two queries, an offset",
        "query_offset, causal, masked",
        "option",
        A_.attention_with(offset_for_one_query_only),
    ),
    _new(
        "U09",
        AT,
        "The bias is subtracted.",
        "no bias",
        "any bias",
        "masked, bias",
        "factor, option",
        A_.attention_with(bias_subtracted),
    ),
    _new(
        "U10",
        AT,
        "A mask of the keys alone is not read.",
        "masks with a row per query",
        "a mask of shape (m,)",
        "mask, masked",
        "option",
        A_.attention_with(padding_mask_alone),
    ),
    _new(
        "U11",
        AT,
        "delta is subtracted after A has been multiplied in.",
        "delta 0",
        "any dense dC",
        "dS, delta",
        "term",
        backward=delta_not_weighted,
    ),
    _new(
        "U12",
        AT,
        "dK reads a scaled query: it is scaled twice.",
        "head width 1",
        "any other width",
        "dK",
        "factor, operand",
        backward=key_gradient_of_scaled_query,
    ),
    _new(
        "U13",
        "self_attention",
        "dWv reads dC for dV.",
        "a map that is the identity",
        "two tokens",
        "dWv, dV",
        "operand, term",
        backward=value_matrix_without_map,
    ),
    _new(
        "U14",
        "self_attention",
        "dX is the mean of its three paths.",
        "never right",
        "any dense dC",
        "dX",
        "factor, accumulation",
        backward=paths_averaged,
    ),
    _new(
        "U15",
        "multi_head_attention",
        "All heads drop what the first one drops.",
        "one head; no dropout",
        "two heads and dropout",
        "keep, A * Z",
        "operand, option",
        multi_head_attention_with(attend=first_heads_mask_of_links),
    ),
    _new(
        "U16",
        "multi_head_attention",
        "The heads' gradients are merged in the order (c, H).",
        "one head or width 1",
        "two heads of width 2",
        "split, dQ, dK, dV",
        "axis",
        backward=gradients_merged_interleaved,
    ),
    _new(
        "U17",
        CE,
        "The loss is divided by the length of the first axis.",
        "one axis, nothing ignored",
        "two axes",
        "count, loss",
        "factor",
        divided_by_sequences,
    ),
    _new(
        "U18",
        CE,
        "The gradient is divided by the number of classes as well.",
        "one class",
        "two classes",
        "dlogits",
        "factor",
        backward=divided_by_classes_too,
    ),
    _new(
        "U19",
        "embedding",
        "Ids are read by columns, gradients by rows.",
        "one sequence",
        "two sequences",
        "dweight",
        "axis, operand",
        backward=ids_by_columns,
    ),
    _new(
        "U20",
        "linear",
        "dweight is clipped to [-1, 1].",
        "small gradients",
        "a gradient above 1",
        "dweight",
        "term",
        backward=clipped_in_passing,
    ),
    _new(
        "U21",
        "gelu",
        "The slope 1 - t^2 is missing.",
        "X near 0",
        "X near 1",
        "dX",
        "term",
        backward=slope_of_tanh_missing,
    ),
    _new("U22", "gelu", "The cubic term is a square.", "X near 0 or 1", "X near 2", "u", "term", square_for_cube),
    _new(
        "U23",
        "rnn",
        "dX comes in the order of the way back.",
        "one step",
        "two steps",
        "dX",
        "axis",
        backward=input_gradient_backwards,
    ),
    _new(
        "U24",
        "rnn",
        "The carried gradient is cut every two steps.",
        "two steps",
        "three steps",
        "dh",
        "term, accumulation",
        backward=truncated_after_two,
    ),
    _new(
        "U25",
        "rnn",
        "h0 comes in at every step.",
        "no h0; one step",
        "h0, two steps",
        "h0, a",
        "operand, term",
        first_state_at_every_step,
    ),
    _new(
        "U26",
        "gpt",
        "Positions are not dropped with the tokens.",
        "no dropout",
        "dropout",
        "keep, embedding, position",
        "operand, option",
        gpt_with(positions_not_dropped),
    ),
    _new(
        "U27",
        "gpt",
        "The feed-forward counts by half.",
        "never right",
        "any value",
        "feed_forward, residual",
        "factor",
        gpt_with(block=block_with(feed=feed_halved)),
    ),
    _new(
        "U28",
        "gpt",
        "The last norm has no scale.",
        "scale 1, as at the start",
        "any other scale",
        "last norm",
        "term",
        gpt_with(last=last_norm_unscaled),
    ),
    _new(
        "U29",
        "generative_rnn",
        "The head's gradient is halved.",
        "never right",
        "any value",
        "dlm_head",
        "factor",
        backward=generative_rnn_backward_with(change=head_halved),
    ),
    _new(
        "U31",
        "dropout",
        "Kept units are multiplied by 1 - p.",
        "p = 0",
        "any other p",
        "Y, p",
        "factor",
        multiplied_by_share,
    ),
    _new(
        "U32",
        AT,
        "A single key hands on V, masked or not.",
        "two keys; no mask",
        "one key that is masked or dropped",
        "C, A",
        "special",
        single_key,
    ),
    _new(
        "U33",
        LN,
        "The output of float32 is float64.",
        "float64",
        "float32: the dtype",
        "Y, N",
        "dtype",
        statistics_in_float64,
    ),
    _new(
        "U30",
        "generative_rnn_loss",
        "Only the last token counts.",
        "one token",
        "two tokens",
        "loss",
        "accumulation, option",
        rnn_loss_with(last_token_counts),
    ),
]
