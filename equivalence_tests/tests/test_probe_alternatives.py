"""Every answer that the probe can give is given by some function that follows that convention: none is out of reach."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from equivalence_tests.probing import probe
from equivalence_tests.probing.sentences import QUESTIONS

COVERED: set[tuple[str, str]] = set()


def softmax(S, axis=-1):
    with np.errstate(all="ignore"):
        E = np.exp(S - S.max(axis, keepdims=True))
        return E / E.sum(axis, keepdims=True)


# Attention, with one knob for each convention


def attention_with(
    *,
    layout="bhnc",
    turned=False,
    rule="root",
    given_scale="multiplies",
    place="scores",
    wide=False,
    alignment="top_left",
    always=False,
    true="keeps",
    added="after",
    fill=-np.inf,
    empty="as it comes",
    together="both",
    drop="scaled",
    p_is="drops",
):
    def attention(Q, K, V, mask=None, bias=None, causal=False, scale=None, p=0.0):
        inner = {"bnhc": lambda X: np.swapaxes(X, -3, -2), "nhc": lambda X: np.swapaxes(X, -3, -2)}.get(
            layout, lambda X: X
        )
        assert Q.ndim == len(layout)
        Q, K, V = inner(Q), inner(K), inner(V)
        if wide:
            Q, K = Q.astype(np.float64), K.astype(np.float64)
        c, m, n = Q.shape[-1], K.shape[-2], Q.shape[-2]
        heads = Q.shape[1] if Q.ndim == 4 else 1
        usual = {
            "root": c**-0.5,
            "width": 1 / c,
            "none": 1.0,
            "keys": m**-0.5,
            "times_root": c**0.5,
            "whole": (heads * c) ** -0.5,
            "other": 0.3,
        }[rule]
        s = usual
        if scale is not None:
            s = {"multiplies": scale, "divides": 1 / scale, "on_top": usual * scale, "ignored": usual}[given_scale]
        s = float(s)
        raw = Q @ K.swapaxes(-1, -2)
        S = (Q * s) @ K.swapaxes(-1, -2) if place == "operands" else raw * s
        i, j = np.arange(n)[:, None], np.arange(m)
        sees = {"top_left": j <= i, "bottom_right": j <= i + m - n, "future": j >= i, "strict": j < i}
        sees["ignored"] = j + i >= 0
        see = sees[alignment] if causal or always else sees["ignored"]
        if mask is not None and (causal or always):
            see = see if together != "mask_only" else sees["ignored"]
            mask = mask if together != "causal_only" else np.ones_like(mask)
        after = 0.0
        if mask is not None:
            flag = mask if true != "drops" else ~mask
            if true in ("keeps", "drops"):
                if empty == "ignored":
                    flag = flag | ~flag.any(-1, keepdims=True)
                S = np.where(flag, S, fill) if fill != "add" else S + np.where(flag, 0.0, -1e4)
            elif true == "added":
                S = S + mask
            elif true == "added_before":
                S = (raw + mask) * s
            elif true == "multiplied":
                S = S * mask
        if bias is not None:
            match added:
                case "after":
                    S = S + bias
                case "before":
                    S = (raw + bias) * s
                case "subtracted":
                    S = S - bias
                case "multiplied":
                    S = S * bias
                case "to_weights":
                    after = bias
                case "read_as_boolean":
                    S = np.where(bias != 0, S, -np.inf)
                case "read_as_boolean_drops":
                    S = np.where(bias != 0, -np.inf, S)
            if empty == "ignored":
                S = np.where(np.isneginf(S).all(-1, keepdims=True), raw * s, S)
        S = np.where(see, S, -np.inf)
        A = softmax(S) + after
        if empty in ("zero", "mean"):
            A = np.where(np.isneginf(S).all(-1, keepdims=True), 0.0 if empty == "zero" else 1 / m, A)
        if mask is not None and true == "weights_multiplied":
            A = A * mask
        if p:
            keep = np.random.random(A.shape) < (1 - p if p_is == "drops" else p)  # noqa: NPY002
            share = 1 - p if p_is == "drops" else p
            dropped = A * keep
            A = {
                "scaled": dropped / share,
                "unscaled": dropped,
                "wrong_share": dropped / (1 - share),
                "renormalised": dropped / dropped.sum(-1, keepdims=True),
                "nothing_left": A * 0,
                "ignored": A,
            }[drop]
        C = inner(A.astype(V.dtype) @ V)
        return np.swapaxes(C, -3, -2) if turned else C

    return attention


ATTENTION: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"layout": "bhnc", "output_layout": "same", "causal_default": "no", "scale": "root", "causal": "top_left"}),
    ({}, {"scale_option": "multiplies", "scale_place": "scores", "upcast": "own", "boolean_mask": "keeps"}),
    ({}, {"additive_mask": "after", "empty_row": "nan", "empty_row_bias": "nan", "fill": "infinite"}),
    ({}, {"both_masks": "both", "attention_dropout": "scaled", "attention_dropout_p": "drops"}),
    *(({"layout": layout}, {"layout": layout, "scale": "root"}) for layout in ("bnhc", "hnc", "nhc", "nc")),
    ({"turned": True}, {"layout": "bhnc", "output_layout": "turned", "boolean_mask": "keeps"}),
    ({"turned": True, "layout": "bnhc"}, {"layout": "bnhc", "output_layout": "turned", "boolean_mask": "keeps"}),
    ({"always": True}, {"causal_default": "yes", "causal": "top_left", "boolean_mask": "keeps", "scale": "root"}),
    ({"always": True, "layout": "bnhc"}, {"causal_default": "yes", "layout": "bnhc"}),
    *(({"alignment": code}, {"causal": code}) for code in ("bottom_right", "future", "strict", "ignored")),
    ({"alignment": "strict", "empty": "zero"}, {"causal": "strict"}),
    ({"alignment": "strict", "empty": "mean"}, {"causal": "strict"}),
    *(({"rule": code}, {"scale": code}) for code in ("width", "none", "keys", "times_root", "whole", "other")),
    *(({"given_scale": code}, {"scale_option": code}) for code in ("divides", "on_top", "ignored")),
    ({"place": "operands"}, {"scale_place": "operands", "scale": "root"}),
    ({"wide": True}, {"upcast": "wider"}),
    ({"true": "drops"}, {"boolean_mask": "drops", "empty_row": "nan", "fill": "infinite", "both_masks": "both"}),
    *(
        ({"true": code}, {"boolean_mask": code, "empty_row": "no_boolean", "fill": "no_boolean"})
        for code in ("added", "added_before", "multiplied", "weights_multiplied", "ignored")
    ),
    *(
        ({"added": code}, {"additive_mask": code})
        for code in (
            *(
                "before",
                "to_weights",
                "subtracted",
                "multiplied",
                "read_as_boolean",
                "read_as_boolean_drops",
                "ignored",
            ),
        )
    ),
    *(({"empty": code}, {"empty_row": code, "empty_row_bias": code}) for code in ("zero", "mean", "ignored")),
    ({"fill": -1e4}, {"fill": "finite", "empty_row": "mean", "boolean_mask": "keeps"}),
    ({"fill": "add"}, {"fill": "finite", "empty_row": "ignored", "boolean_mask": "keeps"}),
    *(({"together": code}, {"both_masks": code}) for code in ("mask_only", "causal_only")),
    *(
        ({"drop": code}, {"attention_dropout": code})
        for code in ("unscaled", "wrong_share", "renormalised", "nothing_left", "ignored")
    ),
    ({"p_is": "keeps"}, {"attention_dropout": "scaled", "attention_dropout_p": "keeps"}),
]


# Everything else


def layer_norm_with(
    axes=(-1,), centred=True, ddof=0, place="inside", epsilon=1e-5, affine="both", one_pass=False, takes=True
):
    def layer_norm(X, scale, shift, eps=epsilon):
        epsilon_used = eps if takes else epsilon
        centre = X.mean(axes, keepdims=True) if centred else X.dtype.type(0)
        count = np.prod([X.shape[axis] for axis in axes]) - ddof
        var = ((X - centre) ** 2).sum(axes, keepdims=True) / count
        if one_pass:
            var = np.maximum((X**2).mean(axes, keepdims=True) - centre**2, 0)
        below = {
            "inside": lambda e: np.sqrt(var + e),
            "outside": lambda e: np.sqrt(var) + e,
            "at_least": lambda e: np.sqrt(np.maximum(var, e)),
        }[place](X.dtype.type(epsilon_used))
        N = (X - centre) / below
        return {
            "both": lambda: scale * N + shift,
            "about_one": lambda: (1 + scale) * N + shift,
            "scale_only": lambda: scale * N,
            "about_one_only": lambda: (1 + scale) * N,
            "shift_only": lambda: N + shift,
            "ignored": lambda: N,
        }[affine]()

    return layer_norm


def value_of(**numbers):
    return numbers


LAYER_NORM: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"norm_axes": "last", "norm_centre": "yes", "norm_variance": "biased", "epsilon_place": "inside"}),
    ({}, {"epsilon": "value", "epsilon_option": "taken", "norm_affine": "both", "norm_cancels": "no"}),
    ({"axes": (0,)}, {"norm_axes": "first"}),
    ({"axes": (1,)}, {"norm_axes": "middle"}),
    ({"axes": (-2, -1)}, {"norm_axes": "last_two"}),
    ({"axes": (0, 1, 2)[:3]}, {"norm_axes": "all"}),
    ({"centred": False}, {"norm_centre": "no", "norm_variance": "biased", "epsilon": "value"}),
    ({"ddof": 1}, {"norm_variance": "unbiased", "epsilon": "value", "epsilon_place": "inside"}),
    ({"ddof": 1, "place": "outside", "epsilon": 1e-6}, {"norm_variance": "unbiased", "epsilon_place": "outside"}),
    *(({"place": code}, {"epsilon_place": code}) for code in ("outside", "at_least")),
    ({"epsilon": 0.0}, {"epsilon_place": "nowhere", "epsilon": "none"}),
    ({"epsilon": 1e-37}, {"epsilon_place": "nowhere", "epsilon": "below"}),
    ({"takes": False}, {"epsilon_option": "ignored"}),
    *(
        ({"affine": code}, {"norm_affine": code, "norm_axes": "last", "epsilon_place": "inside"})
        for code in ("about_one", "scale_only", "about_one_only", "shift_only", "ignored")
    ),
    ({"one_pass": True}, {"norm_cancels": "yes"}),
]


def softmax_with(axis=-1, kind="plain", empty="nan", guard=True, asked=False, takes=True):
    def inner(X, over):
        E = (np.exp2 if kind == "base_2" else np.exp)(X - (X.max(over, keepdims=True) if guard else 0))
        A = E / E.sum(over, keepdims=True)
        if empty != "nan":
            A = np.where(np.isnan(A), 0.0 if empty == "zero" else 1 / X.shape[over], A)
        return np.log(A) if kind == "log" else A

    def asking(X, axis):
        return inner(X, axis)

    def fixed(X, dim=axis):
        return inner(X, dim if takes else axis)

    return asking if asked else fixed


SOFTMAX: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"softmax_kind": "plain", "softmax_axis": "last", "softmax_axis_option": "taken", "softmax_empty": "nan"}),
    ({}, {"softmax_large": "right"}),
    ({"kind": "log"}, {"softmax_kind": "log", "softmax_axis": "last"}),
    ({"kind": "log", "empty": "zero"}, {"softmax_empty": "zero"}),
    ({"kind": "log", "empty": "uniform"}, {"softmax_empty": "uniform"}),
    ({"kind": "base_2"}, {"softmax_kind": "base_2", "softmax_axis_option": "taken"}),
    ({"axis": 0}, {"softmax_axis": "first"}),
    ({"axis": 1}, {"softmax_axis": "middle"}),
    ({"axis": (1, 2)}, {"softmax_axis": "last_two"}),
    ({"axis": (0, 1, 2)}, {"softmax_axis": "all"}),
    ({"asked": True}, {"softmax_axis": "asked", "softmax_kind": "plain"}),
    ({"takes": False}, {"softmax_axis_option": "ignored"}),
    ({"empty": "zero"}, {"softmax_empty": "zero"}),
    ({"empty": "uniform"}, {"softmax_empty": "uniform"}),
    ({"guard": False}, {"softmax_large": "overflows"}),
]


def cross_entropy_with(
    kind="logits",
    reduction="counted",
    classes="last",
    ignored=None,
    smoothing="all_classes",
    guard=0.0,
    takes=False,
    two=False,
):
    def inner(logits, targets, ignore_index, label_smoothing):
        X = np.swapaxes(logits, 1, -1) if classes == "second" and logits.ndim == 3 else logits
        if classes == "first":
            X = logits.T
        if two:
            assert X.ndim == 2
            assert targets.ndim == 1
        if targets.dtype.kind == "f":
            raise TypeError("targets are integers")
        v = X.shape[-1]
        counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
        if not takes and (targets[counted] >= v).any():
            raise IndexError(f"target {targets.max()} is no class")
        rows = np.where(counted, np.minimum(targets, v - 1), 0)[..., None]
        P = softmax(X.astype(np.float64))
        P = {"logits": P, "softmax_twice": softmax(P), "probabilities": X}.get(kind, np.exp(X))
        log = X if kind == "log_probabilities" else np.log(P + guard)
        if kind == "logits" and not guard:
            shifted = X.astype(np.float64) - X.max(-1, keepdims=True)
            log = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        own = -np.take_along_axis(log, rows, -1)[..., 0]
        if label_smoothing and smoothing != "ignored":
            rest = -log.mean(-1) if smoothing == "all_classes" else -(log.sum(-1) + own) / (v - 1)
            own = (1 - label_smoothing) * own + label_smoothing * rest
        losses = np.where(counted, own, 0.0)
        axes = tuple(range(1, losses.ndim))
        match reduction:
            case "sum":
                return losses.sum()
            case "none":
                return losses
            case "all":
                return losses.mean()
            case "sequences":
                return (losses.sum(axes) / counted.sum(axes)).mean() if axes else losses.sum() / counted.sum()
            case "batch":
                return losses.sum() / len(losses) if axes else losses.sum() / counted.sum()
            case "ignored":
                return own.mean() if ignore_index is None else (own * counted + 0).sum() / counted.size
        return losses.sum() / counted.sum() if counted.any() else (0.0 if reduction == "zero" else np.nan)

    def cross_entropy(logits, targets, ignore_index=ignored, label_smoothing=0.0):
        return inner(logits, targets, ignore_index, label_smoothing)

    def counts_all(logits, targets, ignore_index=None):
        return inner(logits, targets, None, 0.0)

    return counts_all if reduction == "counts_all" else cross_entropy


def soft_cross_entropy(logits, targets):
    P = softmax(logits)
    if targets.dtype.kind == "f":
        return -(targets * np.log(P)).sum(-1).mean()
    return -np.log(np.take_along_axis(P, targets[..., None], -1)).mean()


def either_cross_entropy(logits, targets):
    """Finds the axis of the classes by itself."""
    if logits.ndim == 3 and logits.shape[:2] != targets.shape:
        logits = np.swapaxes(logits, 1, 2)
    return -np.log(np.take_along_axis(softmax(logits), targets[..., None], -1)).mean()


def capped_all_ignored(logits, targets, ignore_index=-1):
    counted = targets != ignore_index
    P = softmax(logits)
    own = -np.log(np.take_along_axis(P, np.where(counted, targets, 0)[..., None], -1))[..., 0]
    return (own * counted).sum() / counted.sum() if counted.any() else 7.0


CROSS_ENTROPY: list[tuple[dict[str, Any], dict[str, str]]] = [
    (
        {},
        {
            "ce_input": "logits",
            "ce_reduction": "mean",
            "ce_classes": "last",
            "ce_ignored": "none",
            "ce_range": "refused",
        },
    ),
    ({}, {"ce_counted": "counted", "ce_all_ignored": "nan", "ce_sequences": "tokens", "ce_smoothing": "all_classes"}),
    ({}, {"ce_unlikely": "right", "ce_soft": "refused", "ce_targets": "ids"}),
    *(({"kind": code}, {"ce_input": code}) for code in ("log_probabilities", "probabilities", "softmax_twice")),
    (
        {"reduction": "sum"},
        {"ce_reduction": "sum", "ce_counted": "sum", "ce_sequences": "sum", "ce_all_ignored": "zero"},
    ),
    ({"reduction": "none"}, {"ce_reduction": "none", "ce_counted": "each", "ce_all_ignored": "zero"}),
    ({"reduction": "all"}, {"ce_counted": "all", "ce_sequences": "places", "ce_all_ignored": "zero"}),
    ({"reduction": "sequences"}, {"ce_counted": "counted", "ce_sequences": "sequences"}),
    ({"reduction": "batch"}, {"ce_counted": "counted", "ce_sequences": "batch"}),
    ({"reduction": "counts_all"}, {"ce_counted": "ignored", "ce_all_ignored": "number"}),
    ({"classes": "second"}, {"ce_classes": "second"}),
    ({"classes": "first", "two": True}, {"ce_classes": "columns"}),
    ({"two": True}, {"ce_classes": "rows_only"}),
    *(({"ignored": index}, {"ce_ignored": "index", "ce_counted": "counted"}) for index in (-100, -1, 0, 3)),
    ({"ignored": -1, "reduction": "all"}, {"ce_ignored": "index", "ce_counted": "all"}),
    ({"ignored": 0, "reduction": "none"}, {"ce_ignored": "index", "ce_counted": "each"}),
    *(({"smoothing": code}, {"ce_smoothing": code}) for code in ("other_classes", "ignored")),
    ({"guard": 1e-12}, {"ce_unlikely": "capped"}),
    ({"kind": "probabilities"}, {"ce_unlikely": "right"}),
    ({"takes": True}, {"ce_range": "accepted"}),
    ({"guard": 1e-300}, {"ce_unlikely": "capped"}),
]


def underflowing(logits, targets):
    """log(softmax): minus infinity where softmax is 0."""
    with np.errstate(divide="ignore"):
        return -np.log(np.take_along_axis(softmax(logits), targets[:, None], 1)).mean()


def embedding_with(
    order="ids", factor=1.0, padding=None, row="kept", gradient="stopped", repeats="added", beyond="refuse"
):
    class Rows(torch.autograd.Function):
        @staticmethod
        def forward(ctx, weight, ids, pad):
            ctx.save_for_backward(ids)
            ctx.shape, ctx.pad = weight.shape, pad
            v = len(weight)
            at = ids
            if beyond == "refuse" and ((ids < 0) | (ids >= v)).any():
                raise IndexError("an id is out of range")
            at = ids.clamp(0, v - 1) if beyond == "clip" else ids % v
            Y = weight[at] * factor
            if beyond == "zero":
                Y = torch.where(((ids < 0) | (ids >= v))[..., None], torch.zeros_like(Y), Y)
            if beyond == "nan":
                Y = torch.where((ids >= v)[..., None], torch.full_like(Y, math.nan), Y)
            return torch.where((ids == pad)[..., None], torch.zeros_like(Y), Y) if row == "zero" else Y

        @staticmethod
        def backward(ctx, dY):
            (ids,) = ctx.saved_tensors
            dweight = torch.zeros(ctx.shape)
            order_of = range(len(ids)) if repeats != "first" else reversed(range(len(ids)))
            for t in order_of:
                if repeats in ("added", "mean"):
                    dweight[ids[t]] += dY[t] / ((ids == ids[t]).sum() if repeats == "mean" else 1)
                else:
                    dweight[ids[t]] = dY[t]
            if gradient == "stopped" and ctx.pad >= 0:
                dweight[ctx.pad] = 0
            return dweight * factor, None, None

    def number(pad):
        return -7 if pad is None else pad

    def embedding(ids, weight, padding_idx=padding):
        return Rows.apply(weight, ids, number(padding_idx))

    def plain(ids, weight):
        return Rows.apply(weight, ids, number(padding))

    def turned(weight, ids):
        return Rows.apply(weight, ids, number(padding))

    return {"ids": embedding, "plain": plain, "weight": turned}[order]


EMBEDDING: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"embedding_order": "ids_first", "embedding_factor": "none", "padding_id": "option", "padding_row": "kept"}),
    (
        {},
        {"padding_gradient": "stopped", "embedding_repeats": "added", "negative_id": "refused", "id_beyond": "refused"},
    ),
    ({"order": "weight"}, {"embedding_order": "weight_first", "padding_id": "none"}),
    ({"factor": math.sqrt(3)}, {"embedding_factor": "root", "embedding_repeats": "added", "padding_row": "kept"}),
    ({"padding": 1}, {"padding_id": "default", "embedding_repeats": "added"}),
    ({"order": "plain", "padding": 1, "row": "zero"}, {"padding_id": "own", "padding_row": "zero"}),
    ({"row": "zero", "gradient": "flows"}, {"padding_row": "zero", "padding_gradient": "flows"}),
    *(({"repeats": code}, {"embedding_repeats": code}) for code in ("last", "first", "mean")),
    ({"beyond": "wrap"}, {"negative_id": "from_end", "id_beyond": "wrapped"}),
    ({"beyond": "clip"}, {"negative_id": "first", "id_beyond": "clipped"}),
    ({"beyond": "zero"}, {"negative_id": "zero", "id_beyond": "zero"}),
    ({"beyond": "nan"}, {"id_beyond": "nan"}),
]


def dropout_with(drop="scaled", p_is="drops", evaluation="identity"):
    def dropout(x, p=0.5, training=True):
        share = 1 - p if p_is == "drops" else p
        if not training and evaluation != "drops":
            return x * (1 - p) if evaluation == "shrinks" else x
        dropped = x * (np.random.random(x.shape) < share)  # noqa: NPY002
        return {
            "scaled": dropped / share,
            "unscaled": dropped,
            "wrong_share": dropped / (1 - share),
            "renormalised": dropped * (x.sum(-1, keepdims=True) / dropped.sum(-1, keepdims=True)),
            "ignored": x,
            "nothing_left": x * 0,
        }[drop]

    return dropout


DROPOUT: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"dropout": "scaled", "dropout_p": "drops", "dropout_evaluation": "identity"}),
    *(({"drop": c}, {"dropout": c}) for c in ("unscaled", "wrong_share", "renormalised", "ignored", "nothing_left")),
    ({"p_is": "keeps"}, {"dropout": "scaled", "dropout_p": "keeps"}),
    ({"evaluation": "shrinks", "drop": "unscaled"}, {"dropout_evaluation": "shrinks"}),
    ({"evaluation": "drops"}, {"dropout_evaluation": "drops"}),
]


def rnn_with(
    axes="batch_first", activation=np.tanh, biases="both", h0=0.0, turned=False, transposed=False, last="flat"
):
    def inner(X, W_ih, W_hh, b, start=None):
        W_ih, W_hh = (W_ih if turned else W_ih.T), (W_hh if transposed else W_hh.T)
        X = X if axes == "batch_first" else X.swapaxes(0, 1) if axes == "time_first" else X[None]
        assert X.ndim == 3
        h = np.full((len(X), W_hh.shape[0]), h0) if start is None else start
        states = []
        for t in range(X.shape[1]):
            h = activation(X[:, t] @ W_ih + h @ W_hh + b)
            states.append(h)
        H = np.stack(states, 1)
        H = H if axes == "batch_first" else H.swapaxes(0, 1) if axes == "time_first" else H[0]
        return {"flat": (H, h), "layered": (H, h[None]), "none": H, "list": states}[last]

    def two(X, W_ih, W_hh, b_ih, b_hh):
        return inner(X, W_ih, W_hh, {"both": b_ih + b_hh, "second": b_hh, "one": b_ih}[biases])

    def one(X, Wx, Wh, b):
        return inner(X, Wx, Wh, b)

    def without(X, Wx, Wh):
        return inner(X, Wx, Wh, 0.0)

    def given(X, h0, W_ih, W_hh, b_ih, b_hh):
        return inner(X, W_ih, W_hh, b_ih + b_hh, h0)

    return given if h0 is None else {"one": one, "none": without}.get(biases, two)


RNN: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"rnn_axes": "batch_first", "rnn_activation": "tanh", "rnn_biases": "both", "rnn_initial": "zeros"}),
    ({}, {"rnn_input_weight": "out_in", "rnn_state_weight": "out_in", "rnn_last": "flat"}),
    ({"axes": "time_first"}, {"rnn_axes": "time_first", "rnn_biases": "both"}),
    ({"axes": "unbatched", "last": "none"}, {"rnn_axes": "unbatched", "rnn_last": "none"}),
    ({"activation": lambda a: np.maximum(a, 0)}, {"rnn_activation": "relu"}),
    ({"activation": lambda a: 1 / (1 + np.exp(-a))}, {"rnn_activation": "sigmoid"}),
    *(({"biases": code}, {"rnn_biases": code}) for code in ("one", "second", "none")),
    ({"h0": 1.0}, {"rnn_initial": "ones"}),
    ({"h0": None}, {"rnn_initial": "given"}),
    ({"turned": True, "transposed": True}, {"rnn_input_weight": "in_out", "rnn_state_weight": "in_out"}),
    ({"last": "layered"}, {"rnn_last": "layered"}),
    ({"last": "list"}, {"rnn_last": "list", "rnn_axes": "batch_first"}),
]


def adam_with(epsilon="outside", decay="decoupled", correction="both", needs_lr=False, on="dict"):
    def step(w, g, memory, lr, beta1, beta2, eps, wd):
        t = memory["t"] = memory.get("t", 0) + 1
        g = g + wd * w if decay == "l2" else g
        m = memory["m"] = beta1 * memory.get("m", 0.0) + (1 - beta1) * g
        v = memory["v"] = beta2 * memory.get("v", 0.0) + (1 - beta2) * g * g
        c1 = 1 - beta1**t if correction != "none" else 1.0
        c2 = 1 - beta2**t if correction == "both" else 1.0
        below = {
            "outside": np.sqrt(v / c2) + eps,
            "inside": np.sqrt(v / c2 + eps),
            "before_correction": (np.sqrt(v) + eps) / np.sqrt(c2),
            "none": np.sqrt(v / c2),
        }[epsilon]
        if decay == "decoupled":
            w = w - lr * wd * w
        if decay == "decoupled_without_lr":
            w = w - wd * w
        w = w - lr * m / c1 / below
        return w * (1 - lr * wd) if decay == "after" else w

    def on_dict(params, grads, state, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        for name, w in params.items():
            params[name] = step(w, grads[name], state.setdefault(name, {}), lr, *betas, eps, weight_decay)

    def on_array(w, dw, cache, learning_rate, beta1=0.9, beta2=0.99, epsilon=1e-7):
        return step(w, dw, cache, learning_rate, beta1, beta2, epsilon, 0.0), cache

    return on_array if on == "array" else on_dict


ADAM: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"adam_epsilon": "outside", "adam_decay": "decoupled", "adam_correction": "both"}),
    ({}, dict.fromkeys(("adam_lr", "adam_beta1", "adam_beta2", "adam_eps", "adam_wd"), "value")),
    *(({"epsilon": code}, {"adam_epsilon": code}) for code in ("inside", "before_correction", "none")),
    *(({"decay": code}, {"adam_decay": code}) for code in ("decoupled_without_lr", "after", "l2", "none")),
    *(({"correction": code}, {"adam_correction": code}) for code in ("first", "none")),
    ({"on": "array"}, {"adam_lr": "required", "adam_beta2": "value", "adam_eps": "value", "adam_decay": "no_option"}),
]


def heads_with(
    batch="batch_first",
    order="qkv",
    packing="blocks",
    weights="in_out",
    split="contiguous",
    rule="head",
    causal=False,
    out="in_out",
    true="keeps",
):
    def inner(X, matrices, Wo, H, mask, padding):
        X = X if batch == "batch_first" else X.swapaxes(0, 1)
        b, n, _ = X.shape
        Q, K, V = (X @ W for W in matrices)
        c = Q.shape[-1] // H

        def cut(Z):
            if split == "mixed":
                return Z.reshape(b, H, n, c)
            if split == "interleaved":
                return Z.reshape(b, n, c, H).transpose(0, 3, 1, 2)
            return Z.reshape(b, n, H, c).transpose(0, 2, 1, 3)

        s = {"head": c**-0.5, "whole": (H * c) ** -0.5, "none": 1.0, "head_width": 1 / c, "whole_width": 1 / (H * c)}[
            rule
        ]
        S = cut(Q) @ cut(K).swapaxes(-1, -2) * s
        for each in (mask, None if padding is None else padding[:, None, None]):
            if each is not None and true == "added":
                S = S + each
            elif each is not None and true != "ignored":
                S = np.where(each if true == "keeps" else ~each, S, -np.inf)
        if causal:
            S = np.where(np.tri(n, dtype=bool), S, -np.inf)
        C = softmax(S) @ cut(V)
        if split == "mixed":
            Y = C.reshape(b, n, H * c)
        elif split == "interleaved":
            Y = C.transpose(0, 2, 3, 1).reshape(b, n, H * c)
        else:
            Y = C.transpose(0, 2, 1, 3).reshape(b, n, H * c)
        if Wo is not None:
            Y = Y @ (Wo if out == "in_out" else Wo.T)
        return Y if batch == "batch_first" else Y.swapaxes(0, 1)

    def packed(X, Wqkv, Wo, num_heads, mask=None, key_padding_mask=None):
        W = Wqkv if weights == "in_out" else Wqkv.T
        d, width = W.shape[0], W.shape[1] // 3
        if packing == "by_head":
            parts = W.reshape(d, num_heads, 3, -1)
            stored = [parts[:, :, i].reshape(d, width) for i in range(3)]
        else:
            stored = np.split(W, 3, 1) if packing == "blocks" else [W[:, i::3] for i in range(3)]
        matrices = [stored[order.index(role)] for role in "qkv"]
        return inner(X, matrices, Wo, num_heads, mask, key_padding_mask)

    def separate(X, Wq, Wk, Wv, mask=None):
        matrices = [W if weights == "in_out" else W.T for W in (Wq, Wk, Wv)]
        return inner(X, matrices, None, 1, mask, None)

    return separate if packing == "separate" else packed


HEADS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {"heads_batch": "batch_first", "heads_order": "qkv", "heads_packing": "blocks", "heads_weights": "in_out"}),
    ({}, {"heads_out_weights": "in_out", "heads_split": "contiguous", "heads_scale": "head", "heads_causal": "no"}),
    ({}, {"heads_count": "value", "heads_mask": "keeps", "heads_padding": "keeps"}),
    ({"batch": "sequence_first"}, {"heads_batch": "sequence_first", "heads_mask": "keeps"}),
    *(({"order": code}, {"heads_order": code}) for code in ("qvk", "kqv", "kvq", "vqk", "vkq")),
    *(({"packing": code}, {"heads_packing": code, "heads_order": "qkv"}) for code in ("by_head", "by_column")),
    ({"packing": "separate"}, {"heads_packing": "separate", "heads_split": "one_head", "heads_out_weights": "none"}),
    ({"weights": "out_in", "out": "out_in"}, {"heads_weights": "out_in", "heads_out_weights": "out_in"}),
    *(({"split": code}, {"heads_split": code}) for code in ("interleaved", "mixed")),
    *(({"rule": code}, {"heads_scale": code}) for code in ("whole", "none", "head_width", "whole_width")),
    ({"causal": True}, {"heads_causal": "yes", "heads_mask": "keeps"}),
    *(({"true": code}, {"heads_mask": code, "heads_padding": code}) for code in ("drops", "added", "ignored")),
]


class Fused(nn.Module):
    """One head of one matrix, with biases that do nothing."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(4, 12))
        self.bias = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        q, k, v = (x @ self.qkv).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v)


ACTIVATIONS: dict[str, Any] = {
    "tanh": nn.GELU("tanh"),
    "erf": nn.GELU(),
    "quick": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": nn.SiLU(),
    "relu": nn.ReLU(),
    "tanh_alone": nn.Tanh(),
}


class Tiny(nn.Module):
    """A language model of one block, with a knob for each convention."""

    def __init__(self, *, norm="pre", activation="relu", causal=True, bias=True, tied=False, positions=True, last=True):
        super().__init__()
        self.norm, self.causal, self.positions = norm, causal, positions
        self.activation = ACTIVATIONS[activation]
        self.token, self.place = nn.Embedding(9, 6), nn.Embedding(5, 6)
        self.blocks = nn.ModuleList([Block(norm, self.activation, causal, bias)])
        self.last = nn.LayerNorm(6, bias=bias) if last else nn.Identity()
        self.head = nn.Linear(6, 9, bias=bias)
        if tied:
            self.head.weight = self.token.weight

    def forward(self, input_ids):
        X = self.token(input_ids)
        if self.positions:
            X = X + self.place.weight[: input_ids.shape[-1]]
        for block in self.blocks:
            X = block(X)
        return self.head(self.last(X))


class Block(nn.Module):
    def __init__(self, norm, activation, causal, bias):
        super().__init__()
        self.norm, self.activation, self.causal = norm, activation, causal
        self.norm_1, self.norm_2 = nn.LayerNorm(6, bias=bias), nn.LayerNorm(6, bias=bias)
        self.expand, self.contract = nn.Linear(6, 12, bias=bias), nn.Linear(12, 6, bias=bias)

    def attend(self, X):
        return nn.functional.scaled_dot_product_attention(X, X, X, is_causal=self.causal)

    def feed(self, X):
        return self.contract(self.activation(self.expand(X)))

    def forward(self, X):
        if self.norm == "post":
            X = self.norm_1(X + self.attend(X))
            return self.norm_2(X + self.feed(X))
        if self.norm == "pre":
            X = X + self.attend(self.norm_1(X))
            return X + self.feed(self.norm_2(X))
        return X + self.feed(X + self.attend(X))


GPT: list[tuple[dict[str, Any], dict[str, str]]] = [
    (
        {},
        {"gpt_norm": "pre", "gpt_axes": "batch_first", "gpt_causal": "yes", "gpt_biases": "all", "gpt_head": "untied"},
    ),
    ({}, {"gpt_positions": "yes", "gpt_last_norm": "yes"}),
    *(({"norm": code}, {"gpt_norm": code}) for code in ("post", "neither")),
    *(({"activation": code}, {"gpt_activation": code}) for code in ACTIVATIONS),
    ({"causal": False}, {"gpt_causal": "no"}),
    ({"bias": False}, {"gpt_biases": "none", "gpt_norm": "pre"}),
    ({"tied": True}, {"gpt_head": "tied"}),
    ({"positions": False}, {"gpt_positions": "no"}),
    ({"last": False}, {"gpt_last_norm": "no"}),
]

GELU = {code: (lambda x, form=form: form(torch.as_tensor(x)).numpy()) for code, form in ACTIVATIONS.items()}

Row = tuple[dict[str, Any], dict[str, str]]
TABLES: list[tuple[str, Any, list[Row]]] = [
    ("attention", attention_with, ATTENTION),
    ("layer_norm", layer_norm_with, LAYER_NORM),
    ("softmax", softmax_with, SOFTMAX),
    ("cross_entropy", cross_entropy_with, CROSS_ENTROPY),
    ("embedding", embedding_with, EMBEDDING),
    ("dropout", dropout_with, DROPOUT),
    ("rnn", rnn_with, RNN),
    ("optimizer", adam_with, ADAM),
    ("multi_head_attention", heads_with, HEADS),
    ("gpt", Tiny, GPT),
]


def keeps(X, mask, p):
    return X * mask / (1 - p)


def drops(X, mask, p):
    return X * ~mask / (1 - p)


def floats_only(X, mask, p):
    if mask.dtype == bool:
        raise TypeError("a mask of numbers")
    return X * mask / (1 - p)


def scale_wanted(q, k, v, scale):
    return softmax(q @ k.swapaxes(-1, -2) * scale) @ v


def kernel(q, k, v, causal=False):
    """Heads of 64, and nothing else."""
    assert q.shape[-1] == 64
    return attention_with()(q, k, v, causal=causal)


def drops_by_itself(q, k, v, dropout=0.1):
    return attention_with(drop="unscaled")(q, k, v, p=dropout)


def one_hot_cross_entropy(P, Y):
    return -(Y * np.log(P)).sum() / len(Y)


def one_head(x, Wq, Wk, Wv):
    """It divides by the root of the width of x, not of the head."""
    Q, K, V = x @ Wq, x @ Wk, x @ Wv
    return softmax(Q @ K.swapaxes(-1, -2) / x.dtype.type(math.sqrt(x.shape[-1]))) @ V


def moments_handed_over(w, g, m, v, t, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
    return w - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps), m, v


def state_second(x, h0, Wx, Wh, b):
    """Returns all states and a cache that holds everything."""
    states, h = [], h0
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ Wx + h @ Wh + b)
        states.append(h)
    return np.stack(states, 1), (x, h0, Wx, Wh, b)


class Stacked(nn.Module):
    """A model whose blocks stand in a Sequential, and whose table of positions comes first and is as wide as the output."""

    def __init__(self):
        super().__init__()
        self.place, self.token = nn.Embedding(6, 6), nn.Embedding(7, 6)
        self.body = nn.Sequential(*(Block("post", nn.ReLU(), True, True) for _ in range(2)))

    def forward(self, idx):
        return self.body(self.token(idx) + self.place(torch.arange(idx.shape[-1])))


class Loose(nn.Module):
    """A model whose block is no member of a list."""

    def __init__(self):
        super().__init__()
        self.token, self.one, self.head = nn.Embedding(9, 6), Block("pre", nn.ReLU(), True, True), nn.Linear(6, 9)

    def forward(self, idx):
        return self.head(self.one(self.token(idx)))


SINGLE: list[tuple[str, Any, dict[str, str]]] = [
    ("attention", scale_wanted, {"scale": "asked", "scale_option": "multiplies", "layout": "bhnc"}),
    ("attention", kernel, {"scale": "root", "causal": "top_left", "layout": "bhnc", "scale_place": "scores"}),
    ("attention", drops_by_itself, {"scale": "root", "attention_dropout": "unscaled"}),
    (
        "cross_entropy",
        one_hot_cross_entropy,
        {"ce_targets": "one_hot", "ce_input": "probabilities", "ce_reduction": "mean"},
    ),
    ("self_attention", one_head, {"heads_scale": "embedding", "heads_split": "one_head"}),
    ("optimizer", moments_handed_over, {"adam_epsilon": "outside", "adam_correction": "both", "adam_eps": "value"}),
    (
        "rnn",
        state_second,
        {"rnn_initial": "given", "rnn_biases": "one", "rnn_last": "none", "rnn_input_weight": "in_out"},
    ),
    ("gpt", Stacked(), {"gpt_norm": "post", "gpt_head": "no_head", "gpt_positions": "yes", "gpt_last_norm": "no"}),
    (
        "gpt",
        Loose(),
        {"gpt_norm": "out_of_reach", "gpt_activation": "relu", "gpt_head": "untied", "gpt_positions": "no"},
    ),
    ("dropout", keeps, {"keep_mask": "keeps", "dropout": "scaled"}),
    ("dropout", drops, {"keep_mask": "drops", "dropout": "scaled"}),
    ("dropout", floats_only, {"keep_mask": "keeps", "dropout": "scaled"}),
    ("cross_entropy", soft_cross_entropy, {"ce_soft": "taken"}),
    ("cross_entropy", either_cross_entropy, {"ce_classes": "both"}),
    ("cross_entropy", capped_all_ignored, {"ce_all_ignored": "number", "ce_ignored": "index"}),
    ("cross_entropy", underflowing, {"ce_unlikely": "lost"}),
    ("embedding", nn.Embedding(5, 3, padding_idx=2), {"embedding_order": "module", "padding_id": "own"}),
    (
        "multi_head_attention",
        Fused(),
        {"heads_biases": "ignored", "heads_weights": "in_out", "heads_packing": "blocks"},
    ),
    ("multi_head_attention", nn.MultiheadAttention(8, 2), {"heads_biases": "some"}),
    ("multi_head_attention", nn.MultiheadAttention(8, 2, bias=False), {"heads_biases": "none"}),
    *(("gelu", form, {"gelu_form": code}) for code, form in GELU.items()),
    *(
        ("gelu", (lambda x, approximate, form=form: form(x)), {"gelu_tanh": code, "gelu_none": code})
        for code, form in GELU.items()
    ),
]


def answers_of(function, like):
    return {each.name: each for each in probe(function, like)}


CASES = [(like, make(**knobs), knobs, expected) for like, make, table in TABLES for knobs, expected in table]
CASES += [(like, function, {}, expected) for like, function, expected in SINGLE]
REACHED = {(name, answer) for _, _, _, expected in CASES for name, answer in expected.items()} | {
    ("gpt_axes", "sequence_first"),  # the four that torch's and this project's own functions give, in test_probe.py
    ("gpt_biases", "some"),
    ("gpt_head", "either"),
    ("gpt_head", "no_head"),
}


@pytest.mark.parametrize(
    ("like", "function", "expected"),
    [(like, function, expected) for like, function, _, expected in CASES],
    ids=[f"{like}-{i}-{'-'.join(map(str, knobs)) or 'usual'}" for i, (like, _, knobs, _) in enumerate(CASES)],
)
def test_a_function_that_follows_a_convention_is_told_to_follow_it(like, function, expected):
    found = answers_of(function, like)
    assert {name: found[name].answer for name in expected} == expected


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_answer_in_the_table_is_given_by_some_function(name):
    assert {(name, answer) for answer in QUESTIONS[name][1]} <= REACHED


@pytest.mark.parametrize(
    ("knobs", "epsilon"),
    [
        ({"epsilon": 1e-12}, 1e-12),
        ({"place": "outside", "epsilon": 1e-6}, 1e-6),
        ({"place": "at_least"}, 1e-5),
        ({"place": "outside", "epsilon": 1e-12}, 1e-12),
    ],
)
def test_the_value_of_epsilon_is_measured(knobs, epsilon):
    found = answers_of(layer_norm_with(**knobs), "layer_norm")["epsilon"]
    assert found.numbers["epsilon"] == pytest.approx(epsilon, rel=1e-4)  # of float32's seven digits three are lost


@pytest.mark.parametrize("fill", [-10.0, -1e4, -1e9])
@pytest.mark.parametrize("rule", ["root", "none"])
def test_a_fill_is_measured(fill, rule):
    found = answers_of(attention_with(fill=fill, rule=rule), "attention")["fill"]
    assert found.numbers["fill"] == pytest.approx(fill, rel=1e-3)  # ten, halved twelve times


def test_a_scale_that_is_none_of_the_known_is_given_as_a_number():
    found = answers_of(attention_with(rule="other"), "attention")["scale"]
    assert found.numbers["s"] == pytest.approx(0.3, rel=1e-5)  # a quotient of two logarithms in float32


def test_defaults_that_the_signature_does_not_tell_are_not_told():
    def adam(params, grads, state, lr=None, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        adam_with()(params, grads, state, 0.02 if lr is None else lr, betas, eps, weight_decay)

    found = answers_of(adam, "optimizer")
    assert found["adam_epsilon"].answer == "outside"
    assert not any(found[name].told for name in ("adam_lr", "adam_beta1", "adam_eps", "adam_wd"))


def test_an_optimizer_of_another_kind_is_not_told():
    assert not any(each.told for each in probe(torch.optim.SGD))
