"""The language models, forward and backward, over numbers that know how wrong they may be.

Compositions through depth and time: their budgets are measured. Written from the equations alone, as in `budgets`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests import budgets
from equivalence_tests.arithmetic import ORACLE, Array, Bounded, Number
from equivalence_tests.budgets import Tensors
from reference_numpy.config import GPTConfig, RNNConfig

EPSILON = 1e-5
Params = dict[str, Any]  # of either kind of number
Start = Callable[[Any], Any]  # logits -> their gradient and, for a loss, the loss


def gpt(
    params: dict[str, Bounded], ids: Array, dlogits: Bounded, config: GPTConfig, keep: dict[str, Array] | None = None
) -> Tensors:
    return _measured(partial(_gpt, ids=ids, config=config, keep=keep), params, dlogits)


def gpt_loss(
    params: dict[str, Bounded],
    ids: Array,
    targets: Array,
    dloss: Bounded,
    config: GPTConfig,
    ignore_index: int | None = None,
    keep: dict[str, Array] | None = None,
) -> Tensors:
    model = partial(_gpt, ids=ids, config=config, keep=keep)
    return _measured(model, params, dloss, partial(_loss, targets=targets, ignore_index=ignore_index))


def generative_rnn(params: dict[str, Bounded], ids: Array, dlogits: Bounded, config: RNNConfig) -> Tensors:
    return _measured(partial(_generative_rnn, ids=ids), params, dlogits)


def generative_rnn_loss(
    params: dict[str, Bounded],
    ids: Array,
    targets: Array,
    dloss: Bounded,
    config: RNNConfig,
    ignore_index: int | None = None,
) -> Tensors:
    loss = partial(_loss, targets=targets, ignore_index=ignore_index)
    return _measured(partial(_generative_rnn, ids=ids), params, dloss, loss)


def _measured(
    model: Callable[..., Any], params: dict[str, Bounded], upstream: Bounded, loss: Callable[..., Any] | None = None
) -> Tensors:
    """The output (the loss, if there is one), and the gradient of every parameter."""

    def formula(*operands: Any) -> dict[str, Any]:
        *values, dY = operands
        found: dict[str, Any] = {}

        def start(logits: Any) -> Any:
            if loss is None:
                found["logits"] = logits
                return dY
            found["loss"], dlogits = loss(logits, dloss=dY)
            return dlogits

        gradients = model(dict(zip(params, values, strict=True)), start=start)
        return found | {f"d{name}": gradients[name] for name in params}

    return budgets.measured(formula, [*params.values(), upstream], upstream.precision)


def _loss(logits: Number, targets: Array, dloss: Number, ignore_index: int | None) -> tuple[Number, Number]:
    """The mean over all counted targets of log-sum-exp minus the target's logit, and (P - onehot) dloss / M."""
    flat = targets.reshape(-1)
    counted = np.ones(flat.shape, bool) if ignore_index is None else flat != ignore_index
    M = float(counted.sum())
    rows = logits.rows()
    shape = targets.shape
    classes = logits.value.shape[-1]
    onehot = (flat[:, None] == np.arange(classes)) & counted[:, None]
    shifted = rows - _top(rows, np.ones(1, bool))
    log_P = shifted - shifted.exp().sum(-1, keepdims=True).log()
    loss = -(log_P.where(onehot).sum(-1).where(counted).sum(0) / M)
    dlogits = ((log_P.exp() - onehot.astype(np.float64)) * (dloss / M)).where(counted[:, None])
    return loss, dlogits.moved(lambda x: x.reshape(*shape, classes))


def _top(X: Number, allowed: Array) -> Number:
    """The largest entry of each row, which is no new number."""
    return X.moved(lambda x: np.where(allowed, x, -np.inf).max(-1, keepdims=True))


def _norm(X: Number, scale: Number, shift: Number) -> tuple[Number, tuple[Number, Number]]:
    D = X - X.mean(-1)
    r = 1.0 / ((D * D).mean(-1) + EPSILON).sqrt()
    N = D * r
    return N * scale + shift, (N, r)


def _norm_backward(dY: Number, scale: Number, tape: tuple[Number, Number]) -> tuple[Number, Number, Number]:
    N, r = tape
    dN = dY * scale
    dX = r * (dN - dN.mean(-1) - N * (dN * N).mean(-1))
    return dX, (dY * N).rows().sum(0), dY.rows().sum(0)


def _linear(X: Number, weight: Number, bias: Number) -> Number:
    return (X @ weight.mT).plus(bias, X.value.shape[-1])


def _weight(dY: Number, X: Number) -> Number:
    """dweight = dY^T X, summed over every leading axis."""
    return dY.rows().mT @ X.rows()


def _rows_of(weight: Number, ids: Array) -> Number:
    return weight.moved(lambda w: w[ids])


def _summed_by_id(dX: Number, ids: Array, size: int) -> Number:
    """onehot(ids)^T dX: what a repeated id gets adds up."""
    onehot = ids.reshape(-1)[:, None] == np.arange(size)
    rows = dX.rows()
    by_id = [rows.where(onehot[:, i, None]).sum(0) for i in range(size)]
    return type(dX).stack(by_id, -2)


def _drop(X: Number, keep: Array | None, p: float) -> Number:
    return X if keep is None else (X * (1 / (1 - ORACLE(p)))).where(keep)


def _softmax(S: Number, allowed: Array) -> Number:
    E = (S - _top(S, allowed)).where(allowed).exp().where(allowed)
    return E / E.sum(-1, keepdims=True)


def _split(X: Number, heads: int) -> Number:
    """(..., n, H c) -> (..., H, n, c)"""
    return X.moved(lambda x: np.stack(np.split(x, heads, -1), -3))


def _merge(X: Number) -> Number:
    """(..., H, n, c) -> (..., n, H c)"""
    return X.moved(lambda x: np.concatenate(list(np.moveaxis(x, -3, 0)), -1))


Backward = Callable[[Any], Any]  # the gradient of a part's output -> the gradient of its input, and of its parameters


def _attention(X: Number, params: Params, config: GPTConfig, keep: Array | None) -> tuple[Number, Backward]:
    heads = config.num_heads
    Wq, Wk, Wv, Wo = (params[f"{name}.weight"] for name in ("query", "key", "value", "projection"))
    Q, K, V = (_split(X @ W.mT, heads) for W in (Wq, Wk, Wv))
    factor = 1 / np.sqrt(ORACLE(config.head_dim))
    n = Q.value.shape[-2]
    A = _softmax((Q @ K.mT) * factor, np.tri(n, dtype=bool))
    dropped = _drop(A, keep, config.dropout)
    C = dropped @ V
    merged = _merge(C)

    def backward(dY: Number) -> tuple[Number, Params]:
        dC = _split(dY @ Wo, heads)
        dA = _drop(dC @ V.mT, keep, config.dropout)
        delta = (A * dA).sum(-1, keepdims=True)
        # Which is also sum dC C. One rounds by |A| |dA|, the other by |dC| |C|: the 0 between them lets either.
        dOmega = A * ((dA - delta) + ((dC * C).sum(-1, keepdims=True) - delta)) * factor
        dQ, dK, dV = (_merge(d) for d in (dOmega @ K, dOmega.mT @ Q, dropped.mT @ dC))
        grads = {"query": _weight(dQ, X), "key": _weight(dK, X), "value": _weight(dV, X)}
        grads["projection"] = _weight(dY, merged)
        return dQ @ Wq + dK @ Wk + dV @ Wv, {f"{name}.weight": dW for name, dW in grads.items()}

    return merged @ Wo.mT, backward


def _feed_forward(X: Number, params: Params, config: GPTConfig, keep: Array | None) -> tuple[Number, Backward]:
    slope = np.sqrt(2 / (4 * np.arctan(ORACLE(1))))
    cubic = ORACLE(44715) / 1_000_000
    Z = _linear(X, params["expand.weight"], params["expand.bias"])
    square = Z * Z
    t = ((Z + square * Z * cubic) * slope).tanh()
    active = Z * (1.0 + t) * 0.5
    Y = _drop(_linear(active, params["contract.weight"], params["contract.bias"]), keep, config.dropout)

    def backward(dY: Number) -> tuple[Number, Params]:
        douter = _drop(dY, keep, config.dropout)
        inner = (1.0 + square * (3 * cubic)) * slope
        dZ = (douter @ params["contract.weight"]) * ((1.0 + t) * 0.5 + Z * (1.0 - t * t) * inner * 0.5)
        return dZ @ params["expand.weight"], {
            "expand.weight": _weight(dZ, X),
            "expand.bias": dZ.rows().sum(0),
            "contract.weight": _weight(douter, active),
            "contract.bias": douter.rows().sum(0),
        }

    return Y, backward


def _beside(part: Callable[..., Any], name: str, X: Number, params: Params, norm: str, *options: Any) -> Any:
    """X + part(norm(X)), and its backward."""
    scale, shift = params[f"{norm}.scale"], params[f"{norm}.shift"]
    N, tape = _norm(X, scale, shift)
    Y, part_backward = part(N, {key.removeprefix(f"{name}."): v for key, v in params.items()}, *options)

    def backward(dY: Number) -> tuple[Number, Params]:
        dN, grads = part_backward(dY)
        dX, dscale, dshift = _norm_backward(dN, scale, tape)
        grads = {f"{name}.{key}": gradient for key, gradient in grads.items()}
        return dY + dX, grads | {f"{norm}.scale": dscale, f"{norm}.shift": dshift}

    return X + Y, backward


def _gpt(params: Params, ids: Array, config: GPTConfig, keep: dict[str, Array] | None, start: Start) -> Params:
    """The gradient of every parameter; `start` is given the logits and answers their gradient."""
    drops: dict[str, Any] = keep or {}
    tokens, positions = params["token_embedding.weight"], params["position_embedding.weight"]
    n = ids.shape[-1]
    X = _rows_of(tokens, ids) + _rows_of(positions, np.arange(n))
    X = _drop(X, drops.get("embedding"), config.dropout)
    backwards: list[tuple[str, Backward]] = []
    for layer in range(config.num_layers):
        name = f"blocks.{layer}"
        block = {key.removeprefix(f"{name}."): v for key, v in params.items() if key.startswith(f"{name}.")}
        for part, of, norm in ((_attention, "attention", "norm_1"), (_feed_forward, "feed_forward", "norm_2")):
            X, backward = _beside(part, of, X, block, norm, config, drops.get(f"{name}.{of}"))
            backwards.append((name, backward))
    N, tape = _norm(X, params["norm.scale"], params["norm.shift"])
    head = tokens if config.tied_head else params["lm_head.weight"]
    dlogits = start(_linear(N, head, params["lm_head.bias"]))
    dX, dscale, dshift = _norm_backward(dlogits @ head, params["norm.scale"], tape)
    gradients = {"norm.scale": dscale, "norm.shift": dshift, "lm_head.bias": dlogits.rows().sum(0)}
    for name, backward in reversed(backwards):
        dX, grads = backward(dX)
        gradients |= {f"{name}.{key}": gradient for key, gradient in grads.items()}
    dX = _drop(dX, drops.get("embedding"), config.dropout)
    dtokens, dhead = _summed_by_id(dX, ids, config.vocab_size), _weight(dlogits, N)
    where = np.broadcast_to(np.arange(n), ids.shape)
    gradients["position_embedding.weight"] = _summed_by_id(dX, where, config.context_window)
    gradients["token_embedding.weight"] = dtokens + dhead if config.tied_head else dtokens
    gradients["lm_head.weight"] = dhead
    return gradients


def _generative_rnn(params: Params, ids: Array, start: Start) -> Params:
    """The gradient of every parameter; `start` is given the logits and answers their gradient."""
    weight, head = params["embedding.weight"], params["lm_head.weight"]
    keys = ("rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0")
    W_ih, W_hh, b_ih, b_hh = (params[key] for key in keys)
    X = _rows_of(weight, ids)
    nothing = X[..., 0, :] * 0.0
    found: dict[str, Any] = {}

    def dH_of(H: Number) -> Number:
        found["H"], found["dlogits"] = H, start(_linear(H, head, params["lm_head.bias"]))
        dH: Number = found["dlogits"] @ head
        return dH

    tensors = budgets.through_time(X, W_ih, W_hh, b_ih, b_hh, nothing, dH_of, nothing)
    names = ("dW_ih", "dW_hh", "db_ih", "db_hh")
    gradients = {key: tensors[name] for key, name in zip(keys, names, strict=True)}
    gradients["embedding.weight"] = _summed_by_id(tensors["dX"], ids, weight.value.shape[-2])
    gradients["lm_head.weight"] = _weight(found["dlogits"], found["H"])
    gradients["lm_head.bias"] = found["dlogits"].rows().sum(0)
    return gradients
