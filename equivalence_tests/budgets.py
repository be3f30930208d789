"""The formula of every op, forward and backward, over numbers that know how wrong they may be.

Each function takes the operands and the upstream gradient as `Bounded` numbers and returns every output and gradient by
name: exact values in extended precision, each with the budget of rounding errors that a right implementation may use up.
They are written from the equations alone and share no line with either twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Array, Bounded, Number, Perturbed, Precision

Tensors = dict[str, Bounded]


def softmax(X: Bounded, dA: Bounded, axis: int = -1) -> Tensors:
    X, dA = _last(X, axis), _last(dA, axis)
    A = _softmax_over(X, np.ones(X.value.shape, bool))
    dX = A * (dA - (A * dA).sum(-1, keepdims=True))
    return {"A": _back(A, axis), "dX": _back(dX, axis)}


def log_softmax(X: Bounded, dY: Bounded, axis: int = -1) -> Tensors:
    X, dY = _last(X, axis), _last(dY, axis)
    Y = _log_softmax(X)
    dX = (-(Y.exp() * dY.sum(-1, keepdims=True))).plus(
        dY, X.value.shape[-1]
    )  # dY may be one term of the Jacobian's sum
    return {"Y": _back(Y, axis), "dX": _back(dX, axis)}


def layer_norm(X: Bounded, scale: Bounded, shift: Bounded, dY: Bounded, epsilon: float = 1e-5) -> Tensors:
    D = X - X.mean(-1)
    r = 1.0 / ((D * D).mean(-1) + epsilon).sqrt()
    N = D * r
    dN = dY * scale
    return {
        "Y": scale * N + shift,
        "dX": r * (dN - dN.mean(-1) - N * (dN * N).mean(-1)),
        "dscale": (dY * N).rows().sum(0),
        "dshift": dY.rows().sum(0),
    }


def linear(X: Bounded, weight: Bounded, dY: Bounded, bias: Bounded | None = None) -> Tensors:
    tensors = {
        "Y": X @ weight.mT if bias is None else (X @ weight.mT).plus(bias, X.value.shape[-1]),
        "dX": dY @ weight,
        "dweight": dY.rows().mT @ X.rows(),
    }
    if bias is not None:
        tensors["dbias"] = dY.rows().sum(0)
    return tensors


def relu(X: Bounded, dY: Bounded) -> Tensors:
    return {"Y": _chosen(X, X.value > 0), "dX": _chosen(dY, X.value > 0)}


def tanh(X: Bounded, dY: Bounded) -> Tensors:
    Y = X.tanh()
    return {"Y": Y, "dX": dY * (1.0 - Y * Y)}


def gelu(X: Bounded, dY: Bounded) -> Tensors:
    slope = np.sqrt(2 / (4 * np.arctan(ORACLE(1))))  # sqrt(2 / pi), and the decimal 0.044715, in extended precision
    cubic = ORACLE(44715) / 1_000_000
    X2 = X * X
    t = ((X + X2 * X * cubic) * slope).tanh()
    inner = (1.0 + X2 * (3 * cubic)) * slope
    return {"Y": X * (1.0 + t) * 0.5, "dX": dY * ((1.0 + t) * 0.5 + X * (1.0 - t * t) * inner * 0.5)}


def embedding(ids: Array, weight: Bounded, dY: Bounded) -> Tensors:
    onehot = Bounded(ids.reshape(-1)[:, None] == np.arange(weight.value.shape[0]), dY.precision)
    dweight = onehot.mT @ dY.rows()  # no product is rounded, only the sums; a row that is not named is exactly 0
    repeats = onehot.value.sum(0)[:, None]
    dweight.error = np.where(repeats > 0, dweight.error, 0.0)
    return {"Y": _chosen(weight[ids], np.asarray(True)), "dweight": dweight}


def dropout(X: Bounded, dY: Bounded, keep: Array | None, p: float) -> Tensors:
    return {"Y": _dropout(X, keep, p), "dX": _dropout(dY, keep, p)}


def attention_stages(
    Q: Bounded,
    K: Bounded,
    V: Bounded,
    dC: Bounded,
    *,
    mask: Array | None = None,
    bias: Bounded | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Array | None = None,
    p: float = 0.0,
) -> Tensors:
    factor: Any = 1 / np.sqrt(ORACLE(Q.value.shape[-1])) if scale is None else scale
    Omega = Q @ K.mT
    scaled = Omega * factor
    # The scale may stand on Q, on K, or its root on both, and what is scaled may have been stored.
    terms = np.abs(Q.value).astype(np.float64) @ np.abs(K.mT.value).astype(np.float64)
    scaled.error = scaled.error + 2.0 * Q.precision.unit * abs(float(factor)) * terms
    S, allowed = scaled, np.ones(scaled.value.shape, bool)
    if bias is not None:
        allowed &= bias.value != -np.inf
        S = scaled + Bounded(np.where(allowed, bias.value, 0), bias.precision)
    if mask is not None:
        allowed &= mask
    if causal:
        n, m = allowed.shape[-2:]
        allowed &= np.arange(m)[None, :] - np.arange(n)[:, None] <= query_offset
    A = _softmax_over(S, allowed)
    dropped = _dropout(A, keep, p)
    dA = _dropout(dC @ V.mT, keep, p)
    C = dropped @ V
    delta = (A * dA).sum(-1, keepdims=True)
    # delta is also sum(dC * C), and C may have been stored: in half precision that is more than sum(A dA) loses.
    delta.error = delta.error + Q.precision.unit * np.abs(dC.value * C.value).astype(np.float64).sum(-1, keepdims=True)
    dS = A * (dA - delta)
    dOmega = dS * factor
    masked = Bounded(0.0, Q.precision)
    masked.value, masked.error = np.where(allowed, S.value, -np.inf), np.where(allowed, S.error, 0.0)
    return {
        "Omega": Omega,
        "scaled": scaled,
        "masked": masked,
        "A": A,
        "C": C,
        "dA": dA,
        "delta": delta,
        "dS": dS,
        "dOmega": dOmega,
        "dQ": dOmega @ K,
        "dK": dOmega.mT @ Q,
        "dV": dropped.mT @ dC,
    }


def attention(Q: Bounded, K: Bounded, V: Bounded, dC: Bounded, **options: Any) -> Tensors:
    stages = attention_stages(Q, K, V, dC, **options)
    return {name: stages[name] for name in ("C", "dQ", "dK", "dV")}


def simple_attention(X: Bounded, dC: Bounded) -> Tensors:
    stages = attention_stages(X, X, X, dC, scale=1.0)
    return {"C": stages["C"], "dX": stages["dQ"] + stages["dK"] + stages["dV"]}


def self_attention(X: Bounded, Wq: Bounded, Wk: Bounded, Wv: Bounded, dC: Bounded, **options: Any) -> Tensors:
    stages = attention_stages(X @ Wq, X @ Wk, X @ Wv, dC, **options)
    dQ, dK, dV = stages["dQ"], stages["dK"], stages["dV"]
    return {"C": stages["C"], **_projections(X, Wq, Wk, Wv, dQ, dK, dV)}


def multi_head_attention(
    X: Bounded, Wq: Bounded, Wk: Bounded, Wv: Bounded, Wo: Bounded, dY: Bounded, num_heads: int, **options: Any
) -> Tensors:
    def split(Z: Bounded) -> Bounded:  # (..., n, H c) -> (..., H, n, c)
        return Z.moved(lambda z: np.stack(np.split(z, num_heads, -1), -3))

    def merge(Z: Bounded) -> Bounded:
        return Z.moved(lambda z: np.concatenate(list(np.moveaxis(z, -3, 0)), -1))

    stages = attention_stages(split(X @ Wq), split(X @ Wk), split(X @ Wv), split(dY @ Wo.mT), **options)
    merged = merge(stages["C"])
    dQ, dK, dV = merge(stages["dQ"]), merge(stages["dK"]), merge(stages["dV"])
    gradients = _projections(X, Wq, Wk, Wv, dQ, dK, dV)
    return {"Y": merged @ Wo, **gradients, "dWo": merged.rows().mT @ dY.rows()}


def cross_entropy(logits: Bounded, targets: Array, dloss: Bounded, ignore_index: int | None = None) -> Tensors:
    rows, flat = logits.rows(), targets.reshape(-1)
    counted = np.ones(flat.shape, bool) if ignore_index is None else flat != ignore_index
    M = float(counted.sum())
    onehot = (flat[:, None] == np.arange(rows.value.shape[-1])) & counted[:, None]
    log_P = _log_softmax(rows)
    loss = -(log_P.where(onehot).sum(-1).where(counted).sum(0) / M)
    dlogits = (log_P.exp() - onehot.astype(np.float64)) * (dloss / M)
    dlogits = dlogits.where(counted[:, None]).moved(lambda x: x.reshape(logits.value.shape))
    return {"loss": loss, "dlogits": dlogits}


FACTOR = 8.0  # the measured budget: 8 times the root-mean-square deviation of the runs
SMALLEST_STEP = 2.0**-30  # below it a perturbation would drown in float64; the spread is linear in the step


def rnn(
    X: Bounded,
    W_ih: Bounded,
    W_hh: Bounded,
    b_ih: Bounded,
    b_hh: Bounded,
    dH: Bounded,
    dh_last: Bounded,
    h0: Bounded | None = None,
) -> Tensors:
    """The budget of a composition through time is measured, not bounded."""
    start = Bounded(np.zeros(dh_last.value.shape), X.precision) if h0 is None else h0
    tensors = measured(through_time, (X, W_ih, W_hh, b_ih, b_hh, start, dH, dh_last), X.precision)
    if h0 is None:
        del tensors["dh0"]
    return tensors


def measured(formula: Callable[..., dict[str, Any]], operands: Sequence[Bounded], precision: Precision) -> Tensors:
    """The exact values of a formula over either kind of number, with 8 times the spread of its shaken runs as budget."""
    tensors: Tensors = formula(*operands)
    step = max(precision.unit, SMALLEST_STEP)
    sums = step * precision.sums / precision.unit
    rng = np.random.default_rng(0)
    values = [np.asarray(operand.value, np.float64) for operand in operands]
    runs = formula(*(Perturbed.start(value, rng, step, sums) for value in values))
    for name, tensor in tensors.items():
        spread = runs[name].value - tensor.value.astype(np.float64)
        deviation = np.sqrt((spread**2).mean(0)) * (precision.unit / step)
        tensors[name] = Bounded(tensor.value, precision, FACTOR * deviation + precision.tiny)
    return tensors


def through_time(
    X: Number,
    W_ih: Number,
    W_hh: Number,
    b_ih: Number,
    b_hh: Number,
    h0: Number,
    dH: Any,
    dh_last: Number,
) -> dict[str, Number]:
    """The Elman network and back. dH is a number, or a function of H that answers it."""
    n, d = X.value.shape[-2:]
    k = h0.value.shape[-1]
    states = [h0]
    for t in range(n):
        from_input = (X[..., t, None, :] @ W_ih.mT).plus(b_ih, d)[..., 0, :]
        from_state = (states[-1][..., None, :] @ W_hh.mT).plus(b_hh, k)[..., 0, :]
        states.append((from_input + from_state).tanh())
    stack = type(X).stack
    H, before = stack(states[1:], -2), stack(states[:-1], -2)
    if callable(dH):
        dH = dH(H)
    da: list[Number] = []
    dh = dh_last
    for t in reversed(range(n)):
        h = states[t + 1]
        da.insert(0, (dH[..., t, :] + dh) * (1.0 - h * h))
        dh = (da[0][..., None, :] @ W_hh)[..., 0, :]
    dA = stack(da, -2)
    db = dA.rows().sum(0)
    return {
        "H": H,
        "h_last": states[-1],
        "dX": dA @ W_ih,
        "dW_ih": dA.rows().mT @ X.rows(),
        "dW_hh": dA.rows().mT @ before.rows(),
        "db_ih": db,
        "db_hh": db,
        "dh0": dh,
    }


def _softmax_over(S: Bounded, allowed: Array) -> Bounded:
    """A = softmax over the allowed entries of each row; E(A) = A (e + sum(A e)) + (m + 4) u A, e = expm1(E(S - max)).

    The shift by the maximum changes nothing, but S - max is rounded once more, and up to twice again where the exponential
    is that of base 2, or is taken of S - log(sum).
    """
    precision, m = S.precision, S.value.shape[-1]
    top = np.max(S.value, -1, keepdims=True, where=allowed, initial=-np.inf)
    D = np.where(allowed, S.value - np.where(np.isneginf(top), 0, top), 0)
    E = np.where(allowed, np.exp(D), 0)
    total = E.sum(-1, keepdims=True)
    A = E / np.where(total == 0, 1, total)
    size = A.astype(np.float64)
    e = np.expm1(np.minimum(S.error + 3.0 * precision.unit * np.abs(D).astype(np.float64), 700.0))
    e = np.where(allowed, e, 0.0)
    rounding = (m * precision.sums + 4.0 * precision.unit) * size
    error = size * (e + (size * e).sum(-1, keepdims=True)) + rounding + precision.tiny
    return Bounded(A, precision, np.where(allowed, error, 0.0))


def _log_softmax(X: Bounded) -> Bounded:
    """Y = D - log(sum(exp D)), D = X - max X; the shift is exact in the end, since it cancels.

    Or Y = X - lse, lse = max X + log(sum(exp D)): then the log-sum-exp is rounded, at its own size.
    """
    top = X.value.max(-1, keepdims=True)
    D = X - Bounded(top, X.precision)
    Y = D - D.exp().sum(-1, keepdims=True).log()
    Y.error = Y.error + X.precision.unit * np.abs((X.value - Y.value).astype(np.float64))
    return Y


def _projections(X: Bounded, Wq: Bounded, Wk: Bounded, Wv: Bounded, dQ: Bounded, dK: Bounded, dV: Bounded) -> Tensors:
    rows = X.rows().mT
    return {
        "dX": dQ @ Wq.mT + dK @ Wk.mT + dV @ Wv.mT,
        "dWq": rows @ dQ.rows(),
        "dWk": rows @ dK.rows(),
        "dWv": rows @ dV.rows(),
    }


def _dropout(X: Bounded, keep: Array | None, p: float) -> Bounded:
    if keep is None:
        return X
    if p == 1.0:
        return X * 0.0
    return (X * (1 / (1 - ORACLE(p)))).where(keep)


def _chosen(X: Bounded, condition: Array) -> Bounded:
    """Moved or selected, not computed: the budget is `tiny`."""
    return Bounded(np.where(condition, X.value, 0), X.precision, X.precision.tiny)


def _last(X: Bounded, axis: int) -> Bounded:
    return X.moved(lambda x: np.moveaxis(x, axis, -1))


def _back(X: Bounded, axis: int) -> Bounded:
    return X.moved(lambda x: np.moveaxis(x, -1, axis))
