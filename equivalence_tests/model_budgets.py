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
from equivalence_tests.stages import AS_IT_IS, Part, Stages, dropped
from reference_numpy.config import GPTConfig, RNNConfig

EPSILON = 1e-5
Params = dict[str, Any]  # of either kind of number
Start = Callable[[Any], Any]  # logits -> their gradient and, for a loss, the loss


def gpt(
    params: dict[str, Bounded],
    ids: Array,
    dlogits: Bounded,
    config: GPTConfig,
    keep: dict[str, Array] | None = None,
    stage: Stages = AS_IT_IS,
) -> Tensors:
    return _measured(partial(_gpt, ids=ids, config=config, keep=keep), params, dlogits, None, stage)


def gpt_loss(
    params: dict[str, Bounded],
    ids: Array,
    targets: Array,
    dloss: Bounded,
    config: GPTConfig,
    ignore_index: int | None = None,
    keep: dict[str, Array] | None = None,
    stage: Stages = AS_IT_IS,
) -> Tensors:
    model = partial(_gpt, ids=ids, config=config, keep=keep)
    return _measured(model, params, dloss, partial(_loss, targets=targets, ignore_index=ignore_index), stage)


def generative_rnn(
    params: dict[str, Bounded], ids: Array, dlogits: Bounded, config: RNNConfig, stage: Stages = AS_IT_IS
) -> Tensors:
    return _measured(partial(_generative_rnn, ids=ids), params, dlogits, None, stage)


def generative_rnn_loss(
    params: dict[str, Bounded],
    ids: Array,
    targets: Array,
    dloss: Bounded,
    config: RNNConfig,
    ignore_index: int | None = None,
    stage: Stages = AS_IT_IS,
) -> Tensors:
    loss = partial(_loss, targets=targets, ignore_index=ignore_index)
    return _measured(partial(_generative_rnn, ids=ids), params, dloss, loss, stage)


def _measured(
    model: Callable[..., Any],
    params: dict[str, Bounded],
    upstream: Bounded,
    loss: Callable[..., Any] | None,
    stage: Stages,
) -> Tensors:
    """The output (the loss, if there is one), and the gradient of every parameter."""

    def formula(*operands: Any) -> dict[str, Any]:
        *values, dY = operands
        found: dict[str, Any] = {}

        def start(logits: Any) -> Any:
            if loss is None:
                found["logits"] = stage("logits", logits)
                stage.backward()
                return stage.use("dlogits", "dlogits", dY)
            found["loss"], dlogits = loss(stage("logits", logits), dloss=dY, stage=stage)
            return dlogits

        gradients = model(dict(zip(params, values, strict=True)), start=start, stage=stage)
        return found | {f"d{name}": gradients[name] for name in params}

    operands = [*params.values(), upstream]
    return formula(*operands) if stage.edited else budgets.measured(formula, operands, upstream.precision)


def _loss(
    logits: Number, targets: Array, dloss: Number, ignore_index: int | None, stage: Stages
) -> tuple[Number, Number]:
    """The mean over all counted targets of log-sum-exp minus the target's logit, and (P - onehot) dloss / M."""
    flat = targets.reshape(-1)
    counted = np.ones(flat.shape, bool) if ignore_index is None else flat != ignore_index
    counted = stage.use("loss", "counted", counted)
    M = stage("loss, count", float(counted.sum()))
    rows = logits.rows()
    shape = targets.shape
    classes = logits.value.shape[-1]
    onehot = (flat[:, None] == np.arange(classes)) & counted[:, None]
    shifted = rows - _top(rows, np.ones(1, bool))
    total = shifted.exp().sum(-1, keepdims=True)
    log_P = stage("log P", shifted - stage.use("loss", "log", type(total).log)(total))
    if stage.stored:
        log_P = log_P + ((rows - _log_sum_exp(rows, np.ones(rows.value.shape[-2:], bool))) - log_P)
    of_rows = log_P.where(onehot).sum(-1).where(counted)
    loss = stage("loss", -stage.use("loss", "mean", budgets.mean_of_counted)(of_rows, counted, M, shape))
    stage.backward()
    apart = log_P.exp() - onehot.astype(np.float64)
    dlogits = (apart * (stage.use("dloss", "dloss", dloss) / M)).where(counted[:, None])
    return loss, stage("dlogits", dlogits.moved(lambda x: x.reshape(*shape, classes)))


def _top(X: Number, allowed: Array) -> Number:
    """The largest entry of each row, which is no new number."""
    return X.moved(lambda x: np.where(allowed, x, -np.inf).max(-1, keepdims=True))


def _norm(X: Number, scale: Number, shift: Number, stage: Stages, of: str) -> tuple[Number, tuple[Number, Number]]:
    D = X - stage.use(of, "mean", X.mean(-1))
    r = 1.0 / ((D * D).mean(-1) + stage.use(of, "epsilon", EPSILON)).sqrt()
    N = D * r
    return N * stage.use(of, "scale", scale) + stage.use(of, "shift", shift), (N, r)


def _norm_backward(
    dY: Number, scale: Number, tape: tuple[Number, Number], stage: Stages, of: str
) -> tuple[Number, Number, Number]:
    N, r = tape
    dN = dY * stage.use(of, "scale", scale)
    centred = dN - stage.use(of, "mean(dN)", dN.mean(-1))
    dX = stage.use(of, "r", r) * (centred - N * stage.use(of, "mean(dN * N)", (dN * N).mean(-1)))
    return dX, (dY * stage.use(of, "N", N)).rows().sum(0), dY.rows().sum(0)


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


def _softmax(S: Number, allowed: Array) -> Number:
    E = (S - _top(S, allowed)).where(allowed).exp().where(allowed)
    return E / E.sum(-1, keepdims=True)


def _recomputed(S: Number, allowed: Array) -> Number:
    """The same softmax from a stored log-sum-exp, which rounds by its own size: the wider budget."""
    L = _log_sum_exp(S, allowed)
    return (S - L).where(allowed).exp().where(allowed)


def _log_sum_exp(S: Number, allowed: Array) -> Number:
    """As one number a row, which each of its elements may round."""
    top = _top(S, allowed)
    total = (S - top).where(allowed).exp().where(allowed).sum(-1, keepdims=True)
    return total.log().plus(top, S.value.shape[-1])


def _split(X: Number, heads: int) -> Number:
    """(..., n, H c) -> (..., H, n, c)"""
    return X.moved(lambda x: np.stack(np.split(x, heads, -1), -3))


def _merge(X: Number) -> Number:
    """(..., H, n, c) -> (..., n, H c)"""
    return X.moved(lambda x: np.concatenate(list(np.moveaxis(x, -3, 0)), -1))


Backward = Callable[[Any], Any]  # the gradient of a part's output -> the gradient of its input, and of its parameters


def _attention(
    X: Number, params: Params, config: GPTConfig, keep: Array | None, stage: Stages
) -> tuple[Number, Backward]:
    heads = config.num_heads
    Wq, Wk, Wv, Wo = (params[f"{name}.weight"] for name in ("query", "key", "value", "projection"))
    Q, K, V = (stage.use("split", of, _split)(X @ W.mT, heads) for of, W in (("Q", Wq), ("K", Wk), ("V", Wv)))
    factor: Any = stage.use("scaled", "scale", 1 / np.sqrt(ORACLE(config.head_dim)))
    n = Q.value.shape[-2]
    scaled = stage("scaled", (Q @ K.mT) * factor)
    allowed = stage.use("causal", "allowed", np.tri(n, dtype=bool))
    A = stage("A", _softmax(scaled, allowed))
    AZ = stage.dropout("A * Z", A, keep, config.dropout)
    C = AZ @ V
    merged = stage.use("merged", "C", _merge)(C)

    def backward(dY: Number) -> tuple[Number, Params]:
        # What keeps no A makes it anew: the 0 between the two lets either. In half precision the scores are rounded as
        # coarsely as a log-sum-exp: there is one budget for both.
        again = A
        if not stage.edited:
            anew = _recomputed if stage.stored or X.half else _softmax
            again = A + (anew(scaled, allowed) - A)
        again_Z = AZ if stage.edited else dropped(again, keep, config.dropout)
        dC = _split(dY @ Wo, heads)
        dA = stage.dropout("dA", dC @ V.mT, keep, config.dropout)
        delta = stage.use("dS", "delta", (again * dA).sum(-1, keepdims=True))
        # Which is also sum dC C. One rounds by |A| |dA|, the other by |dC| |C|: the 0 between them lets either.
        inner = dA - delta if stage.edited else (dA - delta) + ((dC * C).sum(-1, keepdims=True) - delta)
        dOmega = stage.use("dS", "A", again) * inner * stage.use("dOmega", "scale", factor)
        dQ, dK, dV = (_merge(d) for d in (dOmega @ K, dOmega.mT @ Q, again_Z.mT @ dC))
        dQ, dK, dV = stage("dQ", dQ), stage("dK", dK), stage("dV", dV)
        grads = {"query": _weight(dQ, X), "key": _weight(dK, X), "value": _weight(dV, X)}
        grads["projection"] = _weight(dY, merged)
        dX = stage.use("dX", "dQ Wq", dQ @ Wq) + stage.use("dX", "dK Wk", dK @ Wk)
        dX = stage("dX", dX + stage.use("dX", "dV Wv", dV @ Wv))
        return dX, {f"{name}.weight": dW for name, dW in grads.items()}

    return merged @ stage.use("output", "Wo", Wo.mT), backward


def _feed_forward(
    X: Number, params: Params, config: GPTConfig, keep: Array | None, stage: Stages
) -> tuple[Number, Backward]:
    slope = np.sqrt(2 / (4 * np.arctan(ORACLE(1))))
    cubic = ORACLE(44715) / 1_000_000
    Z = _linear(X, params["expand.weight"], params["expand.bias"])
    square = Z * Z
    t = ((Z + square * Z * cubic) * slope).tanh()
    active = stage("gelu", stage.use("gelu", "gelu", budgets.gelu_of)(Z, t))
    Y = _linear(active, params["contract.weight"], stage.use("output", "bias", params["contract.bias"]))
    Y = stage.dropout("output", Y, keep, config.dropout)

    def backward(dY: Number) -> tuple[Number, Params]:
        douter = stage.dropout("doutput", dY, keep, config.dropout)
        inner = (1.0 + square * (3 * cubic)) * slope
        dactive = douter @ params["contract.weight"]
        dZ = dactive * stage.use("dgelu", "gelu'", (1.0 + t) * 0.5 + Z * (1.0 - t * t) * inner * 0.5)
        return stage("dX", dZ @ params["expand.weight"]), {
            "expand.weight": _weight(dZ, X),
            "expand.bias": dZ.rows().sum(0),
            "contract.weight": _weight(douter, active),
            "contract.bias": douter.rows().sum(0),
        }

    return Y, backward


def _beside(
    part: Callable[..., Any], name: str, X: Number, params: Params, norm: str, stage: Stages, *options: Any
) -> Any:
    """X + part(norm(X)), and its backward."""
    scale, shift = params[f"{norm}.scale"], params[f"{norm}.shift"]
    own = {key.removeprefix(f"{name}."): v for key, v in params.items()}
    tapes: dict[str, Any] = {}

    def normalised(Z: Number) -> Number:
        N, tapes["norm"] = _norm(Z, scale, shift, stage, "norm")
        named: Number = stage("norm", N)
        return named

    def parted(N: Number) -> Number:
        Y, tapes["part"] = part(N, own, *options, Part(stage, name))
        named: Number = stage(name, Y)
        return named

    Z = stage.use("norm", f"order around {name}", pre_norm)(X, normalised, parted)

    def backward(dY: Number) -> tuple[Number, Params]:
        dN, grads = tapes["part"](stage.use(f"d{name}", f"dY of {name}", dY))
        dX, dscale, dshift = _norm_backward(dN, scale, tapes["norm"], stage, "dnorm")
        grads = {f"{name}.{key}": gradient for key, gradient in grads.items()}
        path, branch = stage.use("dresidual", "residual path", dY), stage.use("dresidual", "branch", dX)
        return stage("dresidual", path + branch), grads | {f"{norm}.scale": dscale, f"{norm}.shift": dshift}

    return stage("residual", Z), backward


def pre_norm(X: Any, norm: Callable[[Any], Any], part: Callable[[Any], Any]) -> Any:
    return X + part(norm(X))


def _gpt(
    params: Params, ids: Array, config: GPTConfig, keep: dict[str, Array] | None, start: Start, stage: Stages
) -> Params:
    """The gradient of every parameter; `start` is given the logits and answers their gradient."""
    drops: dict[str, Any] = keep or {}
    tokens, positions = params["token_embedding.weight"], params["position_embedding.weight"]
    n = ids.shape[-1]
    at = stage.use("position", "positions", counted_from_0)(ids, config.context_window)
    E = stage("embedding", _rows_of(stage.use("embedding", "weight", tokens), ids))
    P = stage("position", _rows_of(positions, at))
    kept = drops.get("embedding")
    X = stage.dropout("embedding, dropped", E + P, kept, config.dropout)
    if kept is not None and not stage.edited:  # which is also both dropped, then added: the 0 between them lets either
        rows = P.moved(lambda p: np.broadcast_to(p, (*ids.shape, config.embedding_dim)))
        X = X + ((dropped(E, kept, config.dropout) + dropped(rows, kept, config.dropout)) - X)
    backwards: list[tuple[str, Backward]] = []
    for layer in range(config.num_layers):
        name = f"blocks.{layer}"
        block = {key.removeprefix(f"{name}."): v for key, v in params.items() if key.startswith(f"{name}.")}
        for part, of, norm in ((_attention, "attention", "norm_1"), (_feed_forward, "feed_forward", "norm_2")):
            X, backward = _beside(part, of, X, block, norm, stage, config, drops.get(f"{name}.{of}"))
            backwards.append((name, backward))
    N, tape = _norm(X, params["norm.scale"], params["norm.shift"], stage, "last norm")
    N = stage("last norm", N)
    head = tokens if config.tied_head else params["lm_head.weight"]
    dlogits = start(_linear(N, head, stage.use("logits", "bias", params["lm_head.bias"])))
    dN = stage("dlogits head", dlogits @ head)
    dX, dscale, dshift = _norm_backward(dN, params["norm.scale"], tape, stage, "dlast norm")
    dX = stage("dlast norm", dX)
    gradients = {"norm.scale": dscale, "norm.shift": dshift, "lm_head.bias": dlogits.rows().sum(0)}
    for name, backward in reversed(backwards):
        dX, grads = backward(dX)
        gradients |= {f"{name}.{key}": gradient for key, gradient in grads.items()}
    dX = stage.dropout("dembedding", dX, drops.get("embedding"), config.dropout)
    dtokens = stage("dtoken_embedding", _summed_by_id(dX, ids, config.vocab_size))
    dhead = stage("dlm_head", _weight(dlogits, N))
    where = np.broadcast_to(np.arange(n), ids.shape)
    dpositions = _summed_by_id(stage.use("dposition_embedding", "dX", dX), where, config.context_window)
    gradients["position_embedding.weight"] = stage("dposition_embedding", dpositions)
    if config.tied_head:
        of = "dtoken_embedding, tied"
        dtokens = stage(of, stage.use(of, "dtokens", dtokens) + stage.use(of, "dhead", dhead))
    gradients["token_embedding.weight"] = dtokens
    gradients["lm_head.weight"] = dhead
    return gradients


def counted_from_0(ids: Array, window: int) -> Array:
    return np.arange(ids.shape[-1])


def _generative_rnn(params: Params, ids: Array, start: Start, stage: Stages) -> Params:
    """The gradient of every parameter; `start` is given the logits and answers their gradient."""
    weight, head = params["embedding.weight"], params["lm_head.weight"]
    keys = ("rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0")
    W_ih, W_hh, b_ih, b_hh = (params[key] for key in keys)
    X = stage("embedding", _rows_of(stage.use("embedding", "weight", weight), ids))
    nothing = X[..., 0, :] * 0.0
    found: dict[str, Any] = {}

    def dH_of(H: Number) -> Number:
        H = stage.use("logits", "H", H)
        found["H"], found["dlogits"] = H, start(_linear(H, head, stage.use("logits", "bias", params["lm_head.bias"])))
        dH: Number = found["dlogits"] @ head
        return stage("dlogits head", dH)

    inner = Part(stage, "rnn") if stage.edited else stage
    tensors = budgets.through_time(X, W_ih, W_hh, b_ih, b_hh, nothing, dH_of, nothing, inner)
    names = ("dW_ih", "dW_hh", "db_ih", "db_hh")
    gradients = {key: tensors[name] for key, name in zip(keys, names, strict=True)}
    gradients["embedding.weight"] = _summed_by_id(tensors["dX"], ids, weight.value.shape[-2])
    if stage.edited:
        gradients["embedding.weight"] = stage("dembedding", gradients["embedding.weight"])
    gradients["lm_head.weight"] = stage("dlm_head", _weight(found["dlogits"], found["H"]))
    gradients["lm_head.bias"] = found["dlogits"].rows().sum(0)
    return gradients
