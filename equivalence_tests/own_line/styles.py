"""What right code of other styles than the formula's binds on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.ops import Op
from equivalence_tests.own_line.attention_styles import back_through_softmax, of_attention
from equivalence_tests.own_line.right import LARGEST, STYLE, Right


def styles(op: Op, case: Case, known: list[Right]) -> list[Right]:
    """What right code of other styles binds, from the lines."""
    x = {each.name: each.value for each in known}
    found: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for name, value in _of(op, case, x):
            array = np.asarray(value, np.float64)
            if 0 < array.size <= LARGEST:
                found.setdefault(name, array)
    return [Right(name, value, STYLE) for name, value in found.items() if name not in x]


def _of(op: Op, case: Case, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    axis = case.options.get("axis", -1)
    if op.name in ("softmax", "log_softmax", "cross_entropy"):
        yield from _of_softmax(x[next(iter(case.operands))], axis)
    if op.name == "softmax":
        yield from back_through_softmax("A", "dA", x["A"], x["dA"], axis)
    elif op.name == "log_softmax":
        P, total = np.exp(x["Y"]), x["dY"].sum(axis, keepdims=True)
        yield from (("softmax(X)", P), ("sum(dY)", total), ("softmax(X) sum(dY)", P * total))
    elif op.name == "layer_norm":
        yield from _of_layer_norm(x, case.options.get("epsilon", 1e-5))
    elif op.name == "linear":
        yield from (("X weight^T", x["X"] @ x["weight"].T), ("weight^T", x["weight"].T))
    elif op.name in ("relu", "tanh", "gelu"):
        yield from _of_elementwise(op.name, x)
    elif op.name == "embedding":
        ids, v = case.operands["ids"], len(x["weight"])
        onehot = (ids[..., None] == np.arange(v)).astype(float)
        yield from (("onehot", onehot), ("onehot^T", onehot.reshape(-1, v).T), ("ids", ids))
        yield "counts", onehot.reshape(-1, v).sum(0)
    elif op.name == "dropout":
        keep, p = case.options.get("keep"), case.options.get("p", 0.0)
        if keep is not None:
            yield from (("keep", keep * 1.0), ("keep / (1 - p)", keep / (1 - p) if p < 1 else keep * 0.0))
            yield from (("X keep", x["X"] * keep), ("dY keep", x["dY"] * keep))
    elif op.name == "cross_entropy":
        yield from _of_cross_entropy(case, x)
    elif op.name == "rnn":
        yield from _of_rnn(case, x)
    if "dOmega" in x:
        yield from of_attention(op, case, x)


def _of_softmax(X: Array, axis: int) -> Iterator[tuple[str, Any]]:
    top = X.max(axis, keepdims=True)
    E, raw = np.exp(X - top), np.exp(X)
    total, P = E.sum(axis, keepdims=True), np.exp(X - top) / E.sum(axis, keepdims=True)
    yield from (("max(X)", top), ("X - max(X)", X - top), ("exp(X - max(X))", E), ("exp(X)", raw))
    yield from (
        ("sum(exp(X - max(X)))", total),
        ("sum(exp(X))", raw.sum(axis, keepdims=True)),
        ("1/sum(exp)", 1 / total),
    )
    yield from (("log(sum(exp(X - max(X))))", np.log(total)), ("lse", top + np.log(total)))
    yield from (("softmax(X)", P), ("log_softmax(X)", X - top - np.log(total)))


def _of_layer_norm(x: dict[str, Array], epsilon: float) -> Iterator[tuple[str, Any]]:
    X, N, dN, dY, scale = x["X"], x["N"], x["dN"], x["dY"], x["scale"]
    d = X.shape[-1]

    def total(z: Array) -> Array:
        return np.asarray(z.sum(-1, keepdims=True))

    D = X - X.mean(-1, keepdims=True)
    var = (D * D).mean(-1, keepdims=True)
    r, both = 1 / np.sqrt(var + epsilon), dN * N
    yield from (("sum(X)", total(X)), ("X^2", X * X), ("sum(X^2)", total(X * X)), ("mean(X^2)", total(X * X) / d))
    yield from (
        ("mean(X)^2", X.mean(-1, keepdims=True) ** 2),
        ("(X - mean(X))^2", D * D),
        ("sum((X - mean(X))^2)", total(D * D)),
    )
    yield from (
        ("var + epsilon", var + epsilon),
        ("sqrt(var + epsilon)", 1 / r),
        ("N scale", N * scale),
        ("sqrt(var)", np.sqrt(var)),
    )
    yield from (
        ("sum(dN)", total(dN)),
        ("dN * N", both),
        ("sum(dN * N)", total(both)),
        ("N mean(dN * N)", N * total(both) / d),
    )
    yield from (("dN - mean(dN)", dN - total(dN) / d), ("N sum(dN * N)", N * total(both)), ("dY * N", dY * N))
    inner = dN - total(dN) / d - N * total(both) / d
    yield from (
        ("dN - mean(dN) - N mean(dN * N)", inner),
        ("d dN - sum(dN) - N sum(dN * N)", d * inner),
        ("r/d", r / d),
    )
    dvar = total(dN * D) * -0.5 * r**3
    yield from (
        ("dN (X - mean(X))", dN * D),
        ("sum(dN (X - mean(X)))", total(dN * D)),
        ("dvar", dvar),
        ("r^3", r**3),
        ("r^2", r**2),
    )
    yield from (
        ("dN r", dN * r),
        ("-sum(dN r)", -total(dN * r)),
        ("dmean", -total(dN * r) + dvar * -2.0 * total(D) / d),
    )
    yield from (
        ("dvar 2 (X - mean(X))/d", dvar * 2 * D / d),
        ("dmean/d", -total(dN * r) / d),
        ("dD", dN * r + dvar * 2 * D / d),
    )
    yield from (
        ("dsqrtvar", -total(dN * D) * r**2),
        ("-1/sqrtvar^2", -(r**2)),
        ("1/(2 sqrtvar)", r / 2),
        ("dvar/d", dvar / d),
    )
    yield from (
        ("mean(dN r)", total(dN * r) / d),
        ("dr", total(dN * D)),
        ("dN - N mean(dN * N)", dN - N * total(both) / d),
    )
    yield from (("mean(dN) + N mean(dN * N)", total(dN) / d + N * total(both) / d), ("r scale", r * scale))


def _of_elementwise(name: str, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    X = x["X"]
    if name == "relu":
        yield from (("X > 0", (X > 0) * 1.0), ("|X|", np.abs(X)))
    elif name == "tanh":
        Y = np.tanh(X)
        yield from (("Y^2", Y * Y), ("1 - Y^2", 1 - Y * Y), ("exp(2 X)", np.exp(2 * X)), ("exp(-2 X)", np.exp(-2 * X)))
        yield from (("exp(X)", np.exp(X)), ("exp(-X)", np.exp(-X)))
    else:
        s, k, t = np.sqrt(2 / np.pi), 0.044715, x["t"]
        yield from (("X^2", X * X), ("X^3", X**3), ("0.044715 X^3", k * X**3), ("X + 0.044715 X^3", X + k * X**3))
        yield from (
            ("1 + t", 1 + t),
            ("(1 + t)/2", (1 + t) / 2),
            ("t^2", t * t),
            ("1 - t^2", 1 - t * t),
            ("X/2", X / 2),
        )
        inner = s * (1 + 3 * k * X * X)
        first, second = (1 + t) / 2, X * (1 - t * t) * inner / 2
        yield from (("du", inner), ("1 + 3 0.044715 X^2", 1 + 3 * k * X * X), ("3 0.044715 X^2", 3 * k * X * X))
        yield from (("X (1 - t^2) du/2", second), ("slope", first + second), ("(1 - t^2) du", (1 - t * t) * inner))
        yield from (("X (1 - t^2)/2", X * (1 - t * t) / 2), ("X (1 - t^2)", X * (1 - t * t)), ("dY X", x["dY"] * X))
        yield from (
            ("dt", x["dY"] * X / 2),
            ("du of the loss", x["dY"] * X / 2 * (1 - t * t)),
            ("(1 - t^2)/2", (1 - t * t) / 2),
        )


def _of_cross_entropy(case: Case, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    logits, targets = x["logits"], np.asarray(case.operands["targets"])
    v = logits.shape[-1]
    flat, marks = logits.reshape(-1, v), targets.reshape(-1)
    ignored = case.options.get("ignore_index")
    counted = np.ones(marks.shape, bool) if ignored is None else marks != ignored
    M, dloss = float(counted.sum()), float(x.get("dloss", np.asarray(1.0)))
    top = flat.max(-1, keepdims=True)
    lse = top + np.log(np.exp(flat - top).sum(-1, keepdims=True))
    log_P = flat - lse
    P = np.exp(log_P)
    safe = np.where(counted, marks, 0)
    onehot = (safe[:, None] == np.arange(v)) * counted[:, None] * 1.0
    chosen = log_P[np.arange(len(flat)), safe]
    yield from (("targets", marks), ("counted", counted * 1.0), ("onehot", onehot), ("logits, by rows", flat))
    for rows, word in ((slice(None), ""), (counted, ", counted rows")):
        p, one, log_p, picked, row = P[rows], onehot[rows], log_P[rows], chosen[rows], flat[rows]
        yield from ((f"P{word}", p), (f"onehot{word}", one), (f"log P{word}", log_p), (f"log P[target]{word}", picked))
        yield from (
            (f"logits{word}", row),
            (f"lse{word}", lse[rows]),
            (f"max(logits){word}", top[rows]),
            (f"targets{word}", safe[rows]),
        )
        yield from ((f"logits[target]{word}", picked + lse[rows][:, 0]), (f"-log P[target]{word}", -picked))
        yield from (
            (f"P - onehot{word}", p - one),
            (f"(P - onehot) dloss/M{word}", (p - one) * dloss / M),
            (f"(P - onehot)/M{word}", (p - one) / M),
        )
        yield from (
            (f"(P - onehot) dloss{word}", (p - one) * dloss),
            (f"exp(logits - max){word}", np.exp(row - top[rows])),
        )
        yield from (
            (f"sum(exp){word}", np.exp(row - top[rows]).sum(-1)),
            (f"log(sum(exp)){word}", (lse - top)[rows]),
            (f"logits - max{word}", row - top[rows]),
        )
        yield f"P dloss/M{word}", p * dloss / M
        yield f"P/M{word}", p / M
    masked, kept = P * counted[:, None], chosen * counted
    yield from (
        ("P counted", masked),
        ("(P - onehot) counted", (P - onehot) * counted[:, None]),
        ("losses", -kept),
        ("log P[target] counted", kept),
    )
    yield from (
        ("(P - onehot) dloss/M counted", (P - onehot) * counted[:, None] * dloss / M),
        ("(P - onehot)/M counted", (P - onehot) * counted[:, None] / M),
    )
    yield from (
        ("sum of losses", -kept.sum()),
        ("M", M),
        ("dloss/M", dloss / M),
        ("counted/M", counted / M),
        ("counted dloss/M", counted * dloss / M),
    )


def _of_rnn(case: Case, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    X, H, before = x["X"], x["H"], x["h before"]
    first, second = X @ x["W_ih"].T, before @ x["W_hh"].T
    yield from (
        ("X W_ih^T", first),
        ("X W_ih^T + b_ih", first + x["b_ih"]),
        ("h W_hh^T", second),
        ("b_ih + b_hh", x["b_ih"] + x["b_hh"]),
    )
    yield from (
        ("h W_hh^T + b_hh", second + x["b_hh"]),
        ("X W_ih^T + b_ih + b_hh", first + x["b_ih"] + x["b_hh"]),
        ("H^2", H * H),
    )
    yield from (
        ("a, all", first + second + x["b_ih"] + x["b_hh"]),
        ("1 - H^2", 1 - H * H),
        ("X W_ih^T + h W_hh^T", first + second),
    )
    start = before[..., :1, :]
    yield "h before and after", np.concatenate([start, H], -2)
    yield "h at the start", start[..., 0, :]
    da = x["da, all"]
    yield from (("carried, all", da @ x["W_hh"]), ("da W_ih, all", da @ x["W_ih"]))
    yield "carried in", x["dh, all"] - x["dH"]
    yield from (
        ("outer(da, x), all", da[..., :, None] * X[..., None, :]),
        ("outer(da, h), all", da[..., :, None] * before[..., None, :]),
    )
    every = tuple(range(da.ndim - 2))
    yield from (("da, summed over the batch", da.sum(every)), ("dW_ih of each step", _each_step(da, X)))
    yield "dW_hh of each step", _each_step(da, before)
    yield "X, by time", np.moveaxis(X, -2, 0)


def _each_step(da: Array, Z: Array) -> Array:
    return np.asarray((da[..., :, None] * Z[..., None, :]).sum(tuple(range(da.ndim - 2))))
