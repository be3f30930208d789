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
from equivalence_tests.row_budgets import exact_product, log_softmax_of, softmax_over, sums
from equivalence_tests.stages import AS_IT_IS, Stages
from equivalence_tests.stages import dropped as dropped_out

Tensors = dict[str, Bounded]


def softmax(X: Bounded, dA: Bounded, axis: int = -1, stage: Stages = AS_IT_IS) -> Tensors:
    X, dA = _last(X, axis), _last(dA, axis)
    stage.given({"X": X, "dA": dA})
    A = softmax_over(X, np.ones(X.value.shape, bool), stage, steps=X.value.shape[-1])
    stage.backward()
    remembered = stage.use("A, remembered", "A", A)
    inner = stage.sum("sum(A * dA)", stage("A * dA", stage.use("A * dA", "A", remembered) * dA))
    dX = stage.use("dX", "A", remembered) * (stage.use("dX", "dA", dA) - inner)
    return {"A": _back(A, axis), "dX": _back(stage("dX", dX), axis)}


def log_softmax(X: Bounded, dY: Bounded, axis: int = -1, stage: Stages = AS_IT_IS) -> Tensors:
    X, dY = _last(X, axis), _last(dY, axis)
    stage.given({"X": X, "dY": dY})
    Y = log_softmax_of(X, stage)
    stage.backward()
    P = stage.use("dX", "exp(Y)", Y.exp())
    total = stage.sum("sum(dY)", dY)
    # dY may be one term of the Jacobian's sum
    dX = (-(P * stage.use("dX", "sum(dY)", total))).plus(stage.use("dX", "dY", dY), X.value.shape[-1])
    return {"Y": _back(Y, axis), "dX": _back(stage("dX", dX), axis)}


def layer_norm(
    X: Bounded, scale: Bounded, shift: Bounded, dY: Bounded, epsilon: float = 1e-5, stage: Stages = AS_IT_IS
) -> Tensors:
    D = stage("X - mean(X)", X - stage.mean("mean(X)", X))
    var = stage.mean("var", D * stage.use("var", "X - mean(X)", D))
    r = stage("r", 1.0 / stage.use("r", "root", root_of_sum)(var, stage.use("r", "epsilon", epsilon)))
    N = stage("N", stage.use("N", "X - mean(X)", D) * stage.use("N", "r", r))
    Y = stage("Y", stage.use("Y", "scale", scale) * N + stage.use("Y", "shift", shift))
    stage.backward()
    N, r = stage.use("N, remembered", "N", N), stage.use("r, remembered", "r", r)
    dN = stage("dN", dY * stage.use("dN", "scale", scale))
    first = stage.mean("mean(dN)", stage.use("mean(dN)", "dN", dN))
    second = stage.mean("mean(dN * N)", stage.use("mean(dN * N)", "dN", dN) * stage.use("mean(dN * N)", "N", N))
    inner = stage.use("dX", "dN", dN) - first - stage.use("dX", "N mean(dN * N)", stage.use("dX", "N", N) * second)
    return {
        "Y": Y,
        "dX": stage("dX", stage.use("dX", "r", r) * inner),
        "dscale": stage.over_rows("dscale", stage.use("dscale", "dY", dY) * stage.use("dscale", "N", N)),
        "dshift": stage.over_rows("dshift", stage.use("dshift", "dY", dY)),
    }


def root_of_sum(var: Bounded, epsilon: float) -> Bounded:
    return (var + epsilon).sqrt()


def linear(X: Bounded, weight: Bounded, dY: Bounded, bias: Bounded | None = None, stage: Stages = AS_IT_IS) -> Tensors:
    Y = X @ stage.use("Y", "weight", weight.mT)
    if bias is not None:
        Y = Y.plus(stage.use("Y", "bias", bias), X.value.shape[-1])
    tensors = {"Y": stage("Y", Y)}
    stage.backward()
    tensors["dX"] = stage.product("dX", ("dY", dY), ("weight", weight))
    tensors["dweight"] = stage.outer("dweight", ("dY", dY), ("X", X))
    if bias is not None:
        tensors["dbias"] = stage.over_rows("dbias", dY)
    return tensors


def relu(X: Bounded, dY: Bounded, stage: Stages = AS_IT_IS) -> Tensors:
    Y = stage("Y", stage.use("Y", "relu", positive_part)(X))
    stage.backward()
    return {"Y": Y, "dX": stage("dX", _chosen(stage.use("dX", "dY", dY), stage.use("dX", "X > 0", X.value > 0)))}


def positive_part(X: Bounded) -> Bounded:
    return _chosen(X, X.value > 0)


def tanh(X: Bounded, dY: Bounded, stage: Stages = AS_IT_IS) -> Tensors:
    Y = stage("Y", stage.use("Y", "tanh", type(X).tanh)(X))
    stage.backward()
    kept = stage.use("dX", "Y", Y)
    slope = stage.use("dX", "1 - Y^2", 1.0 - kept * stage.use("dX", "Y in Y^2", kept))
    return {"Y": Y, "dX": stage("dX", stage.use("dX", "dY", dY) * slope)}


def gelu(X: Bounded, dY: Bounded, stage: Stages = AS_IT_IS) -> Tensors:
    slope = np.sqrt(2 / (4 * np.arctan(ORACLE(1))))  # sqrt(2 / pi), and the decimal 0.044715, in extended precision
    cubic = ORACLE(44715) / 1_000_000
    X2 = X * X
    u = stage("u", (X + X2 * X * stage.use("u", "0.044715", cubic)) * stage.use("u", "sqrt(2/pi)", slope))
    t = stage("t", stage.use("t", "tanh", type(X).tanh)(u))
    Y = stage("Y", stage.use("Y", "gelu", gelu_of)(X, t))
    stage.backward()
    t = stage.use("t, remembered", "t", t)
    inner = stage("du", (1.0 + stage.use("du", "cubic term", X2 * (3 * cubic))) * slope)
    first = stage.use("dX", "(1 + t)/2", (1.0 + t) * 0.5)
    second = stage.use("dX", "X (1 - t^2) du/2", X * stage.use("dX", "1 - t^2", 1.0 - t * t) * inner * 0.5)
    return {"Y": Y, "dX": stage("dX", stage.use("dX", "dY", dY) * (first + second))}


def gelu_of(X: Bounded, t: Bounded) -> Bounded:
    return X * (1.0 + t) * 0.5


def embedding(ids: Array, weight: Bounded, dY: Bounded, stage: Stages = AS_IT_IS) -> Tensors:
    Y = stage("Y", _chosen(stage.use("Y", "weight", weight)[stage.use("Y", "ids", ids)], np.asarray(True)))
    stage.backward()
    named = stage.use("dweight", "ids", ids).reshape(-1)[:, None] == np.arange(weight.value.shape[0])
    onehot = type(dY)(named, dY.precision)
    onehot = stage.use("dweight", "onehot", onehot)
    dweight = onehot.mT @ dY.rows()  # no product is rounded, only the sums; a row that is not named is exactly 0
    repeats = onehot.value.sum(0)[:, None]
    dweight.error = np.where(repeats > 0, dweight.error, 0.0)
    return {"Y": Y, "dweight": stage("dweight", dweight)}


def dropout(X: Bounded, dY: Bounded, keep: Array | None, p: float, stage: Stages = AS_IT_IS) -> Tensors:
    Y = stage.dropout("Y", X, keep, p)
    stage.backward()
    return {"Y": Y, "dX": stage.dropout("dX", dY, keep, p)}


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
    stage: Stages = AS_IT_IS,
) -> Tensors:
    factor: Any = 1 / np.sqrt(ORACLE(Q.value.shape[-1])) if scale is None else scale
    factor = stage.use("scaled", "scale", factor)
    Omega = stage.product("Omega", ("Q", Q), ("K", K.mT))
    scaled = stage("scaled", Omega * factor)
    # The scale may stand on Q, on K, or its root on both, and what is scaled may have been stored.
    terms = np.abs(Q.value).astype(np.float64) @ np.abs(K.mT.value).astype(np.float64)
    scaled.error = scaled.error + 2.0 * Q.precision.unit * abs(float(factor)) * terms
    S, allowed = scaled, np.ones(scaled.value.shape, bool)
    if not stage.edited:
        exact = exact_product(Q, K.mT, factor) & np.isfinite(scaled.error)
        scaled.error = np.where(exact, Q.precision.tiny, scaled.error)
    if bias is not None:
        allowed &= bias.value != -np.inf
        S = stage("bias", scaled + type(bias)(np.where(allowed, bias.value, 0), bias.precision))
    if mask is not None:
        S, allowed = stage.use("mask", "chosen", chosen)(S, allowed, mask)
    if causal:
        n, m = allowed.shape[-2:]
        may = stage.use("causal", "allowed", np.arange(m)[None, :] - np.arange(n)[:, None] <= query_offset)
        allowed = allowed & may
    ruined = _ruined(scaled, bias, mask, causal, query_offset)
    masked = type(S)(0.0, Q.precision)
    hidden = np.where(ruined, np.inf, 0.0)
    masked.value, masked.error = np.where(allowed, S.value, -np.inf), np.where(allowed, S.error, hidden)
    early = {"Omega": Omega, "scaled": scaled, "masked": stage("masked", masked)}
    added = [None] if bias is None or stage.edited else sums(scaled, bias.value, allowed)
    weights = [_promising_nothing(softmax_over(S, allowed, stage, x), ruined) for x in added]
    answers = [_from_weights(Q, K, V, dC, A, factor, keep, p, stage) for A in weights]
    return early | (answers[0] if len(answers) == 1 else _either(answers))


def _from_weights(
    Q: Bounded,
    K: Bounded,
    V: Bounded,
    dC: Bounded,
    A: Bounded,
    factor: Any,
    keep: Array | None,
    p: float,
    stage: Stages,
) -> Tensors:
    """Everything from A on."""
    dropped = stage.dropout("A * Z", A, keep, p)
    C = stage.product("C", ("A * Z", dropped), ("V", V))
    stage.backward()
    factor = stage.use("dOmega", "scale", 1.0 * factor)
    remembered = stage.use("A, remembered", "A", A)
    if remembered is not A:
        dropped = dropped_out(remembered, keep, p)
    dA = stage.dropout("dA", stage.product("dC V^T", ("dC", dC), ("V", V.mT)), keep, p)
    delta = stage.sum("delta", stage.use("delta", "A", remembered) * stage.use("delta", "dA", dA))
    # delta is also sum(dC * C), and C may have been stored: in half precision that is more than sum(A dA) loses.
    delta.error = delta.error + Q.precision.unit * np.abs(dC.value * C.value).astype(np.float64).sum(-1, keepdims=True)
    inner = stage.use("dS", "dA", dA) - stage.use("dS", "delta", delta)
    dS = stage("dS", stage.use("dS", "A", remembered) * inner)
    dOmega = stage("dOmega", dS * factor)
    return {
        "A": A,
        "C": C,
        "dA": dA,
        "delta": delta,
        "dS": dS,
        "dOmega": dOmega,
        "dQ": stage.product("dQ", ("dOmega", dOmega), ("K", K)),
        "dK": stage.product("dK", ("dOmega", dOmega.mT), ("Q", Q)),
        "dV": stage.product("dV", ("A * Z", dropped.mT), ("dC", dC)),
    }


def _either(answers: list[Tensors]) -> Tensors:
    """The first of several right answers, with a budget that lets each of them, and its own budget around it."""
    first = answers[0]
    for name, tensor in first.items():
        for other in (answer[name] for answer in answers[1:]):
            gap = np.abs(other.value - tensor.value).astype(np.float64)
            tensor.error = np.maximum(tensor.error, gap + other.error)
    return first


def _ruined(scaled: Bounded, bias: Bounded | None, mask: Array | None, causal: bool, query_offset: int) -> Array:
    """Where a score that overflows the format meets a bias of -inf, and no mask hides it: infinity less infinity."""
    if bias is None or not isinstance(scaled, Bounded):
        return np.zeros(scaled.value.shape, bool)
    found = np.isneginf(bias.value) & ~np.isfinite(scaled.error)
    if mask is not None:
        found = found & mask
    if causal:
        n, m = found.shape[-2:]
        found = found & (np.arange(m)[None, :] - np.arange(n)[:, None] <= query_offset)
    return np.asarray(found)


def _promising_nothing(A: Bounded, ruined: Array) -> Bounded:
    """A, of whose rows with such a score nothing is promised."""
    if not ruined.any():
        return A
    return Bounded(A.value, A.precision, np.where(ruined.any(-1, keepdims=True), np.inf, A.error))


def chosen(S: Bounded, allowed: Array, mask: Array) -> tuple[Bounded, Array]:
    return S, allowed & mask


def attention(Q: Bounded, K: Bounded, V: Bounded, dC: Bounded, **options: Any) -> Tensors:
    stages = attention_stages(Q, K, V, dC, **options)
    return {name: stages[name] for name in ("C", "dQ", "dK", "dV")}


def simple_attention(X: Bounded, dC: Bounded, stage: Stages = AS_IT_IS) -> Tensors:
    stages = attention_stages(X, X, X, dC, scale=1.0, stage=stage)
    dQ, dK, dV = (stage.use("dX", name, stages[name]) for name in ("dQ", "dK", "dV"))
    return {"C": stages["C"], "dX": stage("dX", dQ + dK + dV)}


def self_attention(
    X: Bounded,
    Wq: Bounded,
    Wk: Bounded,
    Wv: Bounded,
    dC: Bounded,
    stage: Stages = AS_IT_IS,
    **options: Any,
) -> Tensors:
    stages = attention_stages(*_projected(X, Wq, Wk, Wv, stage), dC, stage=stage, **options)
    dQ, dK, dV = stages["dQ"], stages["dK"], stages["dV"]
    return {"C": stages["C"], **_projections(X, Wq, Wk, Wv, dQ, dK, dV, stage)}


def multi_head_attention(
    X: Bounded,
    Wq: Bounded,
    Wk: Bounded,
    Wv: Bounded,
    Wo: Bounded,
    dY: Bounded,
    num_heads: int,
    stage: Stages = AS_IT_IS,
    **options: Any,
) -> Tensors:
    def split(of: str, Z: Bounded) -> Bounded:
        heads: Bounded = stage.use("split", of, split_heads)(Z, num_heads)
        return heads

    def merge(of: str, Z: Bounded) -> Bounded:
        merged: Bounded = stage.use("split" if of.startswith("d") else "merged", of, merge_heads)(Z)
        return merged

    Q, K, V = (split(name, Z) for name, Z in zip("QKV", _projected(X, Wq, Wk, Wv, stage), strict=True))
    stage.backward()
    dmerged = stage.product("dmerged", ("dY", dY), ("Wo", Wo.mT))
    dC = stage("dC", split("dC", dmerged))
    stage.forward()
    stages = attention_stages(Q, K, V, dC, stage=stage, **options)
    stage.forward()
    merged = stage("merged", merge("C", stages["C"]))
    Y = stage.product("Y", ("merged", merged), ("Wo", Wo))
    stage.backward()
    dQ, dK, dV = (merge(name, stages[name]) for name in ("dQ", "dK", "dV"))
    gradients = _projections(X, Wq, Wk, Wv, dQ, dK, dV, stage)
    return {"Y": Y, **gradients, "dWo": stage.outer("dWo", ("merged", merged), ("dY", dY))}


def split_heads(Z: Bounded, num_heads: int) -> Bounded:
    """(..., n, H c) -> (..., H, n, c)"""
    return Z.moved(lambda z: np.stack(np.split(z, num_heads, -1), -3))


def merge_heads(Z: Bounded) -> Bounded:
    """(..., H, n, c) -> (..., n, H c)"""
    return Z.moved(lambda z: np.concatenate(list(np.moveaxis(z, -3, 0)), -1))


def cross_entropy(
    logits: Bounded, targets: Array, dloss: Bounded, ignore_index: int | None = None, stage: Stages = AS_IT_IS
) -> Tensors:
    rows, flat = logits.rows(), stage.use("loss", "targets", targets).reshape(-1)
    counted = np.ones(flat.shape, bool) if ignore_index is None else flat != ignore_index
    M = stage("count", float(counted.sum()))
    onehot = (flat[:, None] == np.arange(rows.value.shape[-1])) & counted[:, None]
    log_P = stage("log P", log_softmax_of(rows, stage))
    of_rows = log_P.where(onehot).sum(-1).where(counted)
    loss = stage("loss", -stage.use("loss", "mean", mean_of_counted)(of_rows, counted, M, targets.shape))
    if stage.stored:  # the log-sum-exps and the targets' logits may be added up apart: M roundings of each sum, over M
        logit = np.abs(rows.value[np.arange(flat.size), np.where(counted, flat, 0)]).astype(np.float64)
        terms = np.where(counted, 2.0 * logit + np.abs(of_rows.value).astype(np.float64), 0.0)
        loss.error = loss.error + logits.precision.unit * terms.sum()
    stage.backward()
    P = stage("P", stage.use("P", "log P", log_P).exp())
    upstream = stage.use("dlogits", "dloss", dloss) / stage.use("dlogits", "count", M)
    # The one-hot target's 1 is exact.
    dlogits = (stage.use("dlogits", "P", P) - stage.use("dlogits", "onehot", onehot.astype(np.float64))) * upstream
    dlogits = dlogits.where(stage.use("dlogits", "counted", counted)[:, None])
    dlogits = stage("dlogits", dlogits.moved(lambda x: x.reshape(logits.value.shape)))
    return {"loss": loss, "dlogits": dlogits}


def mean_of_counted(of_rows: Number, counted: Array, M: float, shape: tuple[int, ...]) -> Number:
    return of_rows.sum(0) / M


FACTOR = 8.0  # the measured budget: 8 times the root-mean-square deviation of the runs
CANCELLED = 64.0  # a tensor so far below its deviation is zero in exact arithmetic: its terms cancel whole
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
    stage: Stages = AS_IT_IS,
) -> Tensors:
    """The budget of a composition through time is measured, not bounded."""
    start = type(X)(np.zeros(dh_last.value.shape), X.precision) if h0 is None else h0
    operands = (X, W_ih, W_hh, b_ih, b_hh, start, dH, dh_last)
    edited = stage.edited
    tensors = through_time(*operands, stage=stage) if edited else measured(through_time, operands, X.precision)
    if h0 is None:
        del tensors["dh0"]
    return tensors


def measured(formula: Callable[..., dict[str, Any]], operands: Sequence[Bounded], precision: Precision) -> Tensors:
    """The exact values of a formula over either kind of number, with 8 times the spread of its shaken runs as budget.

    A tensor whose negative would pass too, its budget being twice as large as it, is promised nothing: where rounding moves
    a tensor by about what it is, its deviations have tails that no spread of sixteen runs bounds (a layer norm that divides
    by a variance lost in rounding). One that is zero because its terms cancel, as the gradient of the queries' weights at
    one token, keeps its budget.
    """
    tensors: Tensors = formula(*operands)
    step = max(precision.unit, SMALLEST_STEP)
    sums = step * precision.sums / precision.unit
    rng = np.random.default_rng(0)
    values = [np.asarray(operand.value, np.float64) for operand in operands]
    runs = formula(*(Perturbed.start(value, rng, step, sums) for value in values))
    for name, tensor in tensors.items():
        spread = runs[name].value - tensor.value.astype(np.float64)
        deviation = np.sqrt((spread**2).mean(0)) * (precision.unit / step)
        budget = FACTOR * deviation + precision.tiny
        scale, widest = (float(np.abs(x).max(initial=0.0)) for x in (tensor.value, deviation))
        lost = widest / CANCELLED < scale < FACTOR * widest / 2.0
        tensors[name] = Bounded(tensor.value, precision, np.full_like(budget, np.inf) if lost else budget)
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
    stage: Stages = AS_IT_IS,
) -> dict[str, Number]:
    """The Elman network and back. dH is a number, or a function of H that answers it."""
    n, d = X.value.shape[-2:]
    k = h0.value.shape[-1]
    states = [stage.use("h", "h0", h0)]
    for t in range(n):
        from_input = (X[..., t, None, :] @ stage.use("a", "W_ih", W_ih.mT)).plus(stage.use("a", "b_ih", b_ih), d)
        from_state = (states[-1][..., None, :] @ stage.use("a", "W_hh", W_hh.mT)).plus(stage.use("a", "b_hh", b_hh), k)
        a = stage("a", from_input[..., 0, :] + from_state[..., 0, :])
        states.append(stage("h", stage.use("h", "tanh", type(X).tanh)(a)))
    stack = type(X).stack
    H, before = stage("H", stack(states[1:], -2)), stage("h before", stack(states[:-1], -2))
    h_last = stage("h_last", states[-1])
    stage.backward()
    if callable(dH):
        dH = dH(H)
    dH = stage.use("dh", "dH", dH)
    da: dict[int, Number] = {}
    totals: dict[int, Number] = {}
    dh = stage.use("dh", "dh_last", dh_last)
    for t in stage.use("dh", "time", reversed_time)(n):
        h = stage.use("da", "h_t", stage.use("da", "h", H)[..., t, :])
        totals[t] = dH[..., t, :] + (stage.use("dh", "carried", dh) if da else dh)
        da[t] = stage("da", stage.use("da", "dH + dh", totals[t]) * stage.use("da", "1 - h^2", 1.0 - h * h))
        carried = stage.use("dh", "da", da[t])[..., None, :] @ stage.use("dh", "W_hh", W_hh)
        dh = stage("dh", carried[..., 0, :])
    dA = stage("da, all", stack([da[t] for t in range(n)], -2))
    if stage.edited:
        stage("dh, all", stack([totals[t] for t in range(n)], -2))
    db = stage.over_rows("db", stage.use("db", "da, all", dA))
    return {
        "H": H,
        "h_last": h_last,
        "dX": stage.product("dX", ("da, all", dA), ("W_ih", W_ih)),
        "dW_ih": stage.outer("dW_ih", ("da, all", dA), ("X", X)),
        "dW_hh": stage.outer("dW_hh", ("da, all", dA), ("h before", before)),
        "db_ih": stage("db_ih", db),
        "db_hh": stage("db_hh", db),
        "dh0": stage("dh0", dh),
    }


def reversed_time(n: int) -> list[int]:
    return list(reversed(range(n)))


def _projected(X: Bounded, Wq: Bounded, Wk: Bounded, Wv: Bounded, stage: Stages) -> tuple[Bounded, Bounded, Bounded]:
    Q, K, V = (stage.product(of, ("X", X), W) for of, W in (("Q", ("Wq", Wq)), ("K", ("Wk", Wk)), ("V", ("Wv", Wv))))
    return Q, K, V


def _projections(
    X: Bounded,
    Wq: Bounded,
    Wk: Bounded,
    Wv: Bounded,
    dQ: Bounded,
    dK: Bounded,
    dV: Bounded,
    stage: Stages = AS_IT_IS,
) -> Tensors:
    parts = (("dQ", dQ, "Wq", Wq), ("dK", dK, "Wk", Wk), ("dV", dV, "Wv", Wv))
    paths = (
        stage.use("dX", f"{of} {name}^T", stage.use("dX", of, dZ) @ stage.use("dX", name, W.mT))
        for of, dZ, name, W in parts
    )
    from_Q, from_K, from_V = paths
    return {
        "dX": stage("dX", from_Q + from_K + from_V),
        **{f"d{name}": stage.outer(f"d{name}", ("X", X), (of, dZ)) for of, dZ, name, _ in parts},
    }


def _chosen(X: Bounded, condition: Array) -> Bounded:
    """Moved or selected, not computed: the budget is `tiny`."""
    return type(X)(np.where(condition, X.value, 0), X.precision, X.precision.tiny)


def _last(X: Bounded, axis: int) -> Bounded:
    return X.moved(lambda x: np.moveaxis(x, axis, -1))


def _back(X: Bounded, axis: int) -> Bounded:
    return X.moved(lambda x: np.moveaxis(x, -1, axis))
