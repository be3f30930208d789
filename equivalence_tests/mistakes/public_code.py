"""Mistakes of several ops, as public code has made them: a factor outside its bracket, an option at its ends, a part
for the whole."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._gpt import gpt_backward_with
from equivalence_tests.mistakes._mistake import Mistake
from equivalence_tests.mistakes.attention_backward import _dA, _dS, _from_dS
from equivalence_tests.mistakes.heads import _rows
from equivalence_tests.mistakes.rnn import rnn_with

# softmax, its logarithm, tanh


def factor_outside(dA: Array, cache: Any) -> Any:
    A, axis = cache
    return A * dA - (A * dA).sum(axis, keepdims=True)  # wrong: A (dA - sum)


def weighted_sum_for_sum(dY: Array, cache: Any) -> Any:
    Y, axis = cache
    A = np.exp(Y)
    return dY - A * (A * dY).sum(axis, keepdims=True)  # wrong: sum(dY), without weights


def tanh_of_sigmoid(X: Array) -> Any:
    Y = 2.0 / (1.0 + np.exp(np.clip(-2.0 * X, -80.0, 80.0))) - 1.0  # wrong: 1 is subtracted from a number near 1
    return Y, Y


# layer_norm


def unbiased_and_outside(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D = X - X.mean(-1, keepdims=True)
    deviation = np.sqrt((D * D).sum(-1, keepdims=True) / max(X.shape[-1] - 1, 1))  # wrong: d
    r = 1.0 / (deviation + epsilon)  # wrong: inside the root
    return scale * (D * r) + shift, (D * r, r, scale)


# linear, embedding, dropout, cross_entropy


def divided_by_batch(dY: Array, cache: Any) -> Any:
    dX, *shared = reference.linear_backward(dY, cache)
    batch = float(dY.shape[0]) if dY.ndim > 1 else 1.0
    return dX, *(gradient / batch for gradient in shared)  # wrong: the loss takes means, not the layer


def per_place_lost(dY: Array, cache: Any) -> Any:
    ids, weight = cache
    dweight = np.zeros_like(weight)
    places = ids.reshape(-1, ids.shape[-1] if ids.ndim else 1)
    upstream = dY.reshape(*places.shape, -1)
    for t in range(places.shape[1]):
        dweight[places[:, t]] += upstream[:, t]  # wrong: of an id twice in the batch one stays
    return dweight


def kept_with_p(X: Array, keep: Array | None, p: float) -> Any:
    if keep is None:
        return X.copy(), None
    factor = (keep / np.float64(p)).astype(X.dtype)  # wrong: p is the probability to drop
    return X * factor, factor


def times_factor(dY: Array, factor: Any) -> Any:
    return dY.copy() if factor is None else dY * factor


def summed_over_sequences(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    loss, (log_P, rows, counted, M) = reference.cross_entropy(logits, targets, ignore_index)
    sequences = logits.dtype.type(np.prod(targets.shape[:-1]))
    return loss * sequences, (log_P, rows, counted, M)  # wrong: a mean over time, a sum over the batch


# attention


def masked_by_a_product(dC: Array, cache: Any) -> Any:
    inner, allowed = cache
    S = inner.Q @ inner.K.mT * inner.scale
    E = np.exp(S - S.max(-1, keepdims=True)) * allowed.astype(S.dtype)
    A = E / E.sum(-1, keepdims=True)  # wrong: 0/0 where nothing is allowed, or all that is lies far below the maximum
    again = inner._replace(A=A)
    return _from_dS(_dS(dC, again), dC, again)


def remembers_allowed(Q: Array, K: Array, V: Array, *, mask: Array | None = None, **options: Any) -> Any:
    C, inner = reference.attention(Q, K, V, mask=mask, **options)
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.ones((n, m), bool) if mask is None else np.broadcast_to(mask, inner.A.shape)
    if options.get("causal"):
        allowed = allowed & np.tri(n, m, options.get("query_offset", 0), dtype=bool)
    if options.get("bias") is not None:
        allowed = allowed & ~np.isneginf(options["bias"])
    return C, (inner, allowed)


def mask_times_infinity(Q: Array, K: Array, V: Array, *, mask: Array | None = None, **options: Any) -> Any:
    if mask is None:
        return reference.attention(Q, K, V, **options)
    bias = (1.0 - mask) * -np.inf  # wrong: 0 times infinity where the mask keeps
    C, cache = reference.attention(Q, K, V, mask=mask, **options)
    nothing = np.broadcast_to(np.isnan(bias), cache.A.shape)
    spoilt = np.where(nothing.any(-1, keepdims=True), np.nan, 1.0).astype(Q.dtype)
    return C * spoilt, cache._replace(A=cache.A * spoilt)


def causal_inverted(
    Q: Array, K: Array, V: Array, *, causal: bool = False, query_offset: int = 0, **options: Any
) -> Any:
    if causal:
        future = ~np.tri(Q.shape[-2], K.shape[-2], query_offset, dtype=bool)  # wrong: what is to be hidden
        mask = options.pop("mask", None)
        options["mask"] = future if mask is None else mask & future
    return reference.attention(Q, K, V, **options)


def offset_of_the_other_sign(
    Q: Array, K: Array, V: Array, *, causal: bool = False, query_offset: int = 0, **options: Any
) -> Any:
    offset = query_offset + Q.shape[-2] - K.shape[-2]  # wrong: m - n, if anything
    return reference.attention(Q, K, V, causal=causal, query_offset=offset, **options)


def map_divided_by_batch(dC: Array, cache: Any) -> Any:
    batch = float(dC.shape[0]) if dC.ndim > 2 else 1.0
    return tuple(gradient / batch for gradient in reference.attention_backward(dC, cache))  # wrong: nothing is averaged


def delta_over_queries(dC: Array, cache: Any) -> Any:
    dA = _dA(dC, cache)
    return _from_dS(cache.A * (dA - (cache.A * dA).mean(-1, keepdims=True)), dC, cache)  # wrong: the sum


# multi_head_attention, rnn, gpt


def heads_by_reshape(X: Array, Wq: Array, Wk: Array, Wv: Array, Wo: Array, num_heads: int, **options: Any) -> Any:
    def split(Z: Array) -> Array:
        *lead, n, width = Z.shape
        return Z.reshape(*lead, num_heads, n, width // num_heads)  # wrong: rows of several tokens

    C, inner = reference.attention(split(X @ Wq), split(X @ Wk), split(X @ Wv), **options)
    *lead, _, n, c = C.shape
    merged = C.reshape(*lead, n, num_heads * c)  # wrong: and so back
    return merged @ Wo, (X, Wq, Wk, Wv, Wo, merged, inner)


def heads_by_reshape_backward(dY: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, Wo, merged, inner = cache
    dmerged = dY @ Wo.T
    gradients = reference.attention_backward(dmerged.reshape(inner.Q.shape), inner)
    dQ, dK, dV = (gradient.reshape(merged.shape) for gradient in gradients)
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, *(_rows(X).T @ _rows(gradient) for gradient in (dQ, dK, dV)), _rows(merged).T @ _rows(dY)


def tanh_of_the_input(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Any:
    return np.tanh(x @ W_ih.T + b_ih) + h @ W_hh.T + b_hh  # wrong: tanh of the whole sum


def bias_after_tanh(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Any:
    return np.tanh(x @ W_ih.T + b_ih + h @ W_hh.T) + b_hh  # wrong: tanh of the whole sum


def last_sequence_alone(dX: Array, weight: Array) -> Any:
    dweight = np.zeros_like(weight)
    for row in dX.reshape(-1, *dX.shape[-2:]):
        dweight[: dX.shape[-2]] = row  # wrong: overwritten, not added
    return dweight


def rows_for_every_sequence(dX: Array, weight: Array) -> Any:
    dweight = np.zeros((*dX.shape[:-2], *weight.shape), dX.dtype)  # wrong: not summed over the batch
    dweight[..., : dX.shape[-2], :] = dX
    return dweight


def _of(
    id: str, op: str, sentence: str, hidden_on: str, shown_by: str, forward: Any = None, backward: Any = None
) -> Mistake:
    if forward is not None:  # each takes what the reference takes, however it hands it on
        forward.__signature__ = signature(getattr(reference, op))
    return Mistake(id, op, sentence, hidden_on, shown_by, forward, backward)


AT = "attention"
MISTAKES = (
    _of(
        "Z01",
        "softmax",
        "A dA - sum(A dA): the factor A stands inside.",
        "one entry",
        "a dense dA",
        None,
        factor_outside,
    ),
    _of(
        "Z02",
        "log_softmax",
        "The sum of A dY is taken for the sum of dY.",
        "a constant dY",
        "any dense dY",
        None,
        weighted_sum_for_sum,
    ),
    _of("Z03", "tanh", "2 sigmoid(2X) - 1 cancels near 0.", "|X| above 1", "X near 0, to its digits", tanh_of_sigmoid),
    _of(
        "Z04",
        "layer_norm",
        "The deviation divides by d - 1, and epsilon is added to it.",
        "never right",
        "any value",
        unbiased_and_outside,
    ),
    _of(
        "Z05",
        "linear",
        "Gradients of the parameters are divided by the first axis.",
        "one sample",
        "two samples",
        None,
        divided_by_batch,
    ),
    _of(
        "Z06",
        "embedding",
        "Repeats add up over places, not within the batch.",
        "ids distinct at each place",
        "an id twice at one place",
        None,
        per_place_lost,
    ),
    _of(
        "Z07",
        "dropout",
        "p is taken for the probability to keep.",
        "p = 1/2",
        "p = 0.1; p = 0: NaN",
        kept_with_p,
        times_factor,
    ),
    _of(
        "Z08",
        "cross_entropy",
        "A mean over the last axis, a sum over the others.",
        "one axis",
        "two sequences",
        summed_over_sequences,
    ),
    _of(
        "Z09",
        AT,
        "The recomputed map is exp(S - max) times the mask: 0/0 where a row is empty.",
        "no mask",
        "an empty row: NaN",
        remembers_allowed,
        masked_by_a_product,
    ),
    _of("Z10", AT, "The mask is (1 - mask) times -inf: NaN.", "no mask", "any mask", mask_times_infinity),
    _of(
        "Z11",
        AT,
        "The causal triangle is the other one, without its diagonal.",
        "not causal",
        "causal",
        causal_inverted,
    ),
    _of(
        "Z12",
        AT,
        "The causal mask is moved by n - m.",
        "as many queries as keys",
        "causal, and more keys than queries",
        offset_of_the_other_sign,
    ),
    _of(
        "Z13",
        AT,
        "The gradients are divided by the first axis.",
        "one sample",
        "two samples",
        None,
        map_divided_by_batch,
    ),
    _of("Z14", AT, "delta is a mean of A dA.", "one key", "two keys", None, delta_over_queries),
    _of(
        "Z15",
        "multi_head_attention",
        "Heads are cut out and put back by reshapes alone.",
        "one head or one token",
        "two heads, two tokens",
        heads_by_reshape,
        heads_by_reshape_backward,
    ),
    _of("Z16", "rnn", "tanh of the input's part alone.", "never right", "any value", rnn_with(tanh_of_the_input)),
    _of("Z17", "rnn", "b_hh is added after tanh.", "b_hh = 0", "any other b_hh", rnn_with(bias_after_tanh)),
    _of(
        "Z18",
        "gpt",
        "Positions' gradients overwrite each other.",
        "one sequence",
        "two",
        None,
        gpt_backward_with(positions=last_sequence_alone),
    ),
    _of(
        "Z19",
        "gpt",
        "Positions' gradients are not summed over the batch.",
        "no batch axis",
        "a batch axis: the shape",
        None,
        gpt_backward_with(positions=rows_for_every_sequence),
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "Z01": "dX, sum(A * dA), A * dA: term, operand",
    "Z02": "sum(dY), dX: term, operand",
    "Z03": "Y: precision",
    "Z04": "var, r: factor, term",
    "Z05": "dweight, dbias: factor, accumulation",
    "Z06": "dweight: accumulation",
    "Z07": "p, Y: option, factor",
    "Z08": "loss, count: accumulation, factor",
    "Z09": "A: special",
    "Z10": "mask, masked, A: special, term",
    "Z11": "causal, masked: option, term",
    "Z12": "causal, query_offset, masked: option",
    "Z13": "dQ, dK, dV, dOmega: factor, accumulation",
    "Z14": "delta, dS: factor",
    "Z15": "split, merged: axis",
    "Z16": "h, a: term, operand",
    "Z17": "h, a: term, operand",
    "Z18": "dposition_embedding, dposition: accumulation",
    "Z19": "dposition_embedding, dposition: accumulation, shape",
}
