"""The formula of every op, line by line: what each named line follows from.

So a line can be judged twice: from the operands alone, and from the lines before it as somebody has them. The arithmetic is
that of `budgets`, with its budgets; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests import budgets
from equivalence_tests.arithmetic import ORACLE, Array, Bounded
from equivalence_tests.ops import Op
from equivalence_tests.row_budgets import exact_product, log_softmax_of, softmax_over
from equivalence_tests.stages import STORED, dropped


@dataclass(frozen=True)
class Line:
    """`names` follow from `needs`, which `compute` takes in that order.

    Of those in `aside` only a size or a bound is used. `hidden` are lines on the way that have no entry of their own.
    """

    names: tuple[str, ...]
    needs: tuple[str, ...]
    compute: Callable[..., Bounded | tuple[Bounded, ...]]
    aside: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


AS_DUMPED = " as dumped"  # of a recurrence: H_t follows from what stands in H one step before


def lines_of(op: Op, names: list[str], options: dict[str, Any]) -> list[Line]:
    """The lines in the order of the formula. `names` are the arrays at hand, `options` the constants of the op's signature.

    Those of a model, and of the rnn as a whole, are one line: their budgets are measured, not carried.
    """
    return [_whole(op, names, options)] if op.model or op.name == "rnn" else _LINES[op.name](names, options)


def local_lines_of(op: Op, names: list[str], options: dict[str, Any]) -> list[Line]:
    """The lines from which a stage follows when the stages before it are given."""
    return _rnn(names) if op.name == "rnn" else lines_of(op, names, options)


def upstream_of(op: Op) -> tuple[str, ...]:
    """The names of the upstream gradients."""
    return ("dC",) if op.name == "attention_stages" else tuple(f"d{name}" for name in op.outputs)


def _one(name: str, needs: str, compute: Callable[..., Bounded], aside: str = "", hidden: str = "") -> Line:
    return Line((name,), tuple(needs.split()), compute, tuple(aside.split()), tuple(hidden.split()))


def _whole(op: Op, names: list[str], options: dict[str, Any]) -> Line:
    """Every output and, with an upstream gradient, every gradient."""
    upstream = upstream_of(op)
    operands = [name for name in names if name not in upstream]
    backward = all(name in names for name in upstream)
    floating = (
        [name for name in operands if "." in name] if op.model else [n for n in operands if n in op.differentiable]
    )
    found = (*op.outputs, *(f"d{name}" for name in floating if backward))
    needs = (*operands, *(upstream if backward else ()))

    def compute(*values: Any) -> tuple[Bounded, ...]:
        given = dict(zip(needs, values, strict=True))
        if not backward:
            precision = given[floating[0]].precision
            given |= {name: Bounded(np.zeros(_shape(name, given)), precision) for name in upstream}
        if op.model:
            given["params"] = {name: given.pop(name) for name in floating}
        tensors = op.formula(**given, **options)
        return tuple(tensors[name] for name in found)

    return Line(found, needs, compute)


def _shape(upstream: str, given: dict[str, Any]) -> tuple[int, ...]:
    """The shape of an upstream gradient that is not there."""
    if upstream == "dlogits":
        return (*given["ids"].shape, given["lm_head.bias"].value.shape[0])
    if upstream == "dloss":
        return ()
    shape = (*given["X"].value.shape[:-1], given["W_hh"].value.shape[0])
    return shape if upstream == "dH" else (*shape[:-2], shape[-1])


def _attention(names: list[str], options: dict[str, Any]) -> list[Line]:
    keep, p, scale = options.get("keep"), options.get("p", 0.0), options.get("scale")
    mask, causal, offset = options.get("mask"), options.get("causal", False), options.get("query_offset", 0)
    biased = "bias" in names

    def scale_of(Q: Bounded) -> Any:
        return 1 / np.sqrt(ORACLE(Q.value.shape[-1])) if scale is None else scale

    def scaled(Omega: Bounded, Q: Bounded, K: Bounded) -> Bounded:
        S: Bounded = Omega * scale_of(Q)
        terms = np.abs(Q.value).astype(np.float64) @ np.abs(K.mT.value).astype(np.float64)
        S.error = S.error + 2.0 * Q.precision.unit * abs(float(scale_of(Q))) * terms  # it may stand on Q, or on K
        exact = exact_product(Q, K.mT, scale_of(Q)) & np.isfinite(S.error)
        S.error = np.where(exact, Q.precision.tiny, S.error)
        return S

    def masked(S: Bounded, bias: Bounded | None = None) -> Bounded:
        allowed = np.ones(S.value.shape, bool)
        if bias is not None:
            allowed &= bias.value != -np.inf
            S = S + Bounded(np.where(allowed, bias.value, 0), S.precision, np.where(allowed, bias.error, 0))
        if mask is not None:
            allowed &= mask
        if causal:
            rows, columns = (np.arange(size) for size in S.value.shape[-2:])
            allowed &= columns[None, :] - rows[:, None] <= offset
        return with_infinities(Bounded(np.where(allowed, S.value, -np.inf), S.precision), S.error)

    def weights(S: Bounded) -> Bounded:
        return softmax_over(S, ~np.isneginf(S.value))

    def dropout(A: Bounded) -> Bounded:
        links: Bounded = dropped(A, keep, p)  # A itself without a mask, unless somebody dropped unasked
        return links

    def delta(A: Bounded, dA: Bounded, C: Bounded, dC: Bounded) -> Bounded:
        total = (A * dA).sum(-1, keepdims=True)
        stored = np.abs(dC.value * C.value).astype(np.float64).sum(-1, keepdims=True)
        total.error = total.error + dC.precision.unit * stored  # it is sum(dC C) too, and C may have been stored
        return total

    return [
        _one("Omega", "Q K", lambda Q, K: Q @ K.mT),
        _one("scaled", "Omega Q K", scaled, aside="Q K"),
        _one("masked", "scaled bias" if biased else "scaled", masked),
        _one("A", "masked", weights),
        Line(("A * Z",), ("A",), dropout),
        Line(("C",), ("A * Z", "V"), lambda AZ, V: AZ @ V),
        _one("dA", "dC V", lambda dC, V: dropout(dC @ V.mT)),
        _one("delta", "A dA C dC", delta, aside="C dC"),
        _one("dS", "A dA delta", lambda A, dA, delta: A * (dA - delta)),
        _one("dOmega", "dS Q", lambda dS, Q: dS * scale_of(Q), aside="Q"),
        _one("dQ", "dOmega K", lambda dOmega, K: dOmega @ K),
        _one("dK", "dOmega Q", lambda dOmega, Q: dOmega.mT @ Q),
        Line(("dV",), ("A * Z", "dC"), lambda AZ, dC: AZ.mT @ dC),
    ]


def with_infinities(X: Bounded, error: Any) -> Bounded:
    """The same value with this error, where -inf is exact."""
    X.error = np.where(np.isneginf(X.value), 0.0, np.broadcast_to(error, X.value.shape))
    return X


def _simple_attention(names: list[str], options: dict[str, Any]) -> list[Line]:
    same = [Line((name,), ("X",), lambda X: X) for name in "QKV"]
    return [*same, *_attention(names, {"scale": 1.0}), _one("dX", "dQ dK dV", lambda dQ, dK, dV: dQ + dK + dV)]


def _self_attention(names: list[str], options: dict[str, Any]) -> list[Line]:
    projected = [_one(x, f"X W{x.lower()}", lambda X, W: X @ W) for x in "QKV"]
    return [*projected, *_attention(names, options), *_projected_back(lambda x: x)]


def _projected_back(merged: Callable[[Bounded], Bounded], hidden: str = "") -> list[Line]:
    def dX(dQ: Bounded, dK: Bounded, dV: Bounded, Wq: Bounded, Wk: Bounded, Wv: Bounded) -> Bounded:
        return merged(dQ) @ Wq.mT + merged(dK) @ Wk.mT + merged(dV) @ Wv.mT

    def weight(X: Bounded, dQ: Bounded) -> Bounded:
        return X.rows().mT @ merged(dQ).rows()

    return [
        _one("dX", "dQ dK dV Wq Wk Wv", dX, hidden=hidden),
        *(_one(f"dW{x.lower()}", f"X d{x}", weight, hidden=hidden) for x in "QKV"),
    ]


def _multi_head_attention(names: list[str], options: dict[str, Any]) -> list[Line]:
    """Q, K, V, C and their gradients with an axis of heads: (..., H, n, c)."""
    heads = options["num_heads"]

    def split(Z: Bounded) -> Bounded:
        return budgets.split_heads(Z, heads)

    attention = _attention(names, options)
    return [
        *(_one(x, f"X W{x.lower()}", lambda X, W: split(X @ W), hidden="split") for x in "QKV"),
        *attention[:6],
        _one("merged", "C", budgets.merge_heads, hidden="split"),
        _one("Y", "merged Wo", lambda merged, Wo: merged @ Wo),
        _one("dmerged", "dY Wo", lambda dY, Wo: dY @ Wo.mT),
        _one("dC", "dmerged", split, hidden="split"),
        *attention[6:],
        *_projected_back(budgets.merge_heads, "split"),
        _one("dWo", "merged dY", lambda merged, dY: merged.rows().mT @ dY.rows()),
    ]


def _softmax(names: list[str], options: dict[str, Any]) -> list[Line]:
    axis = options.get("axis", -1)

    def back(A: Bounded, dA: Bounded) -> Bounded:
        return A * (dA - (A * dA).sum(axis, keepdims=True))

    return [_one("A", "X", lambda X: budgets.softmax(X, X, axis, STORED)["A"]), _one("dX", "A dA", back)]


def _log_softmax(names: list[str], options: dict[str, Any]) -> list[Line]:
    axis = options.get("axis", -1)

    def back(Y: Bounded, dY: Bounded) -> Bounded:
        return (-(Y.exp() * dY.sum(axis, keepdims=True))).plus(dY, Y.value.shape[axis])

    return [_one("Y", "X", lambda X: budgets.log_softmax(X, X, axis, STORED)["Y"]), _one("dX", "Y dY", back)]


def _layer_norm(names: list[str], options: dict[str, Any]) -> list[Line]:
    epsilon = options.get("epsilon", 1e-5)

    def back(r: Bounded, N: Bounded, dN: Bounded, mean: Bounded, weighted: Bounded) -> Bounded:
        return r * (dN - mean - N * weighted)

    return [
        _one("mean(X)", "X", lambda X: X.mean(-1)),
        Line(("X - mean(X)",), ("X", "mean(X)"), lambda X, mean: X - mean),
        Line(("var",), ("X - mean(X)",), lambda D: (D * D).mean(-1)),
        _one("r", "var", lambda var: 1.0 / (var + epsilon).sqrt()),
        Line(("N",), ("X - mean(X)", "r"), lambda D, r: D * r),
        _one("Y", "N scale shift", lambda N, scale, shift: scale * N + shift),
        _one("dN", "dY scale", lambda dY, scale: dY * scale),
        _one("mean(dN)", "dN", lambda dN: dN.mean(-1)),
        Line(("mean(dN * N)",), ("dN", "N"), lambda dN, N: (dN * N).mean(-1)),
        Line(("dX",), ("r", "N", "dN", "mean(dN)", "mean(dN * N)"), back),
        _one("dscale", "dY N", lambda dY, N: (dY * N).rows().sum(0)),
        _one("dshift", "dY", lambda dY: dY.rows().sum(0)),
    ]


def _linear(names: list[str], options: dict[str, Any]) -> list[Line]:
    lines = [
        _one("Y", "X weight", lambda X, weight: X @ weight.mT),
        _one("dX", "dY weight", lambda dY, weight: dY @ weight),
        _one("dweight", "dY X", lambda dY, X: dY.rows().mT @ X.rows()),
    ]
    if "bias" in names:
        lines[0] = _one("Y", "X weight bias", lambda X, W, bias: (X @ W.mT).plus(bias, X.value.shape[-1]))
        lines.append(_one("dbias", "dY", lambda dY: dY.rows().sum(0)))
    return lines


def _relu(names: list[str], options: dict[str, Any]) -> list[Line]:
    return [
        _one("Y", "X", lambda X: budgets.relu(X, X)["Y"]),
        _one("dX", "X dY", lambda X, dY: budgets.relu(X, dY)["dX"]),
    ]


def _tanh(names: list[str], options: dict[str, Any]) -> list[Line]:
    return [_one("Y", "X", lambda X: X.tanh()), _one("dX", "Y dY", lambda Y, dY: dY * (1.0 - Y * Y))]


def _gelu(names: list[str], options: dict[str, Any]) -> list[Line]:
    slope = np.sqrt(2 / (4 * np.arctan(ORACLE(1))))
    cubic = ORACLE(44715) / 1_000_000

    def back(X: Bounded, t: Bounded, dY: Bounded) -> Bounded:
        inner = (1.0 + (X * X) * (3 * cubic)) * slope
        slope_of_Y: Bounded = (1.0 + t) * 0.5 + X * (1.0 - t * t) * inner * 0.5
        return dY * slope_of_Y

    return [
        _one("u", "X", lambda X: (X + (X * X) * X * cubic) * slope),
        _one("t", "u", lambda u: u.tanh()),
        _one("Y", "X t", lambda X, t: X * (1.0 + t) * 0.5),
        _one("dX", "X t dY", back, hidden="du"),
    ]


def _embedding(names: list[str], options: dict[str, Any]) -> list[Line]:
    return [
        _one("Y", "ids weight", lambda ids, weight: budgets._chosen(weight[ids], np.asarray(True))),
        _one("dweight", "ids weight dY", lambda ids, W, dY: budgets.embedding(ids, W, dY)["dweight"], aside="weight"),
    ]


def _dropout(names: list[str], options: dict[str, Any]) -> list[Line]:
    def drop(X: Bounded) -> Bounded:
        Y: Bounded = dropped(X, options.get("keep"), options.get("p", 0.0))
        return Y

    return [_one("Y", "X", drop), _one("dX", "dY", drop)]


def _cross_entropy(names: list[str], options: dict[str, Any]) -> list[Line]:
    ignored = options.get("ignore_index")

    def marked(log_P: Bounded, targets: Array) -> tuple[Array, Array, float]:
        """Which targets count, which class each of them is, and how many count."""
        counted = np.ones(targets.shape, bool) if ignored is None else targets != ignored
        onehot = (targets[..., None] == np.arange(log_P.value.shape[-1])) & counted[..., None]
        return counted, onehot, float(counted.sum())

    def loss(log_P: Bounded, targets: Array) -> Bounded:
        counted, onehot, M = marked(log_P, targets)
        mean: Bounded = log_P.where(onehot).sum(-1).where(counted).moved(np.ravel).sum(0) / M
        return -mean

    def back(P: Bounded, targets: Array, dloss: Bounded) -> Bounded:
        counted, onehot, M = marked(P, targets)
        return ((P - onehot.astype(np.float64)) * (dloss / M)).where(counted[..., None])

    return [
        Line(("log P",), ("logits",), lambda logits: log_softmax_of(logits, STORED)),
        Line(("loss",), ("log P", "targets"), loss, hidden=("count",)),
        Line(("P",), ("log P",), lambda log_P: log_P.exp()),
        _one("dlogits", "P targets dloss", back, hidden="count"),
    ]


def _rnn(names: list[str]) -> list[Line]:
    """Step by step from the states as they stand there; the gradients from the states, with a measured budget."""
    weights = ("W_ih", "W_hh", "b_ih", "b_hh")
    start = ("h0",) if "h0" in names else ()

    def before(H: Bounded, h0: Bounded | None) -> Bounded:
        first = Bounded(np.zeros((*H.value.shape[:-2], H.value.shape[-1])), H.precision) if h0 is None else h0
        return Bounded.stack([first, *(H[..., t, :] for t in range(H.value.shape[-2] - 1))], -2)

    def states(X: Any, W_ih: Any, W_hh: Any, b_ih: Any, b_hh: Any, H: Any, h0: Any = None) -> Bounded:
        from_input = (X @ W_ih.mT).plus(b_ih, X.value.shape[-1])
        from_state = (before(H, h0) @ W_hh.mT).plus(b_hh, H.value.shape[-1])
        a: Bounded = from_input + from_state
        return a.tanh()

    gradients = ("dX", "dW_ih", "dW_hh", "db_ih", "db_hh", *(["dh0"] if start else []))

    def back(X: Any, W_ih: Any, W_hh: Any, H: Any, dH: Any, dh_last: Any, h0: Any = None) -> tuple[Bounded, ...]:
        operands = (X, W_ih, W_hh, H, before(H, h0), dH, dh_last)
        tensors = budgets.measured(_through_time_back, operands, X.precision)
        return tuple(tensors[name] for name in gradients)

    return [
        Line(("H",), ("X", *weights, f"H{AS_DUMPED}", *start), states, hidden=("a", "h", *start)),
        _one("h_last", "H", lambda H: H[..., -1, :]),
        Line(gradients, ("X", "W_ih", "W_hh", "H", "dH", "dh_last", *start), back, hidden=("dh", "da")),
    ]


def _through_time_back(X: Any, W_ih: Any, W_hh: Any, H: Any, before: Any, dH: Any, dh_last: Any) -> dict[str, Any]:
    da: list[Any] = []
    dh = dh_last
    for t in reversed(range(X.value.shape[-2])):
        h = H[..., t, :]
        da.insert(0, (dH[..., t, :] + dh) * (1.0 - h * h))
        dh = (da[0][..., None, :] @ W_hh)[..., 0, :]
    dA = type(X).stack(da, -2)
    db = dA.rows().sum(0)
    products = {"dX": dA @ W_ih, "dW_ih": dA.rows().mT @ X.rows(), "dW_hh": dA.rows().mT @ before.rows()}
    return {**products, "db_ih": db, "db_hh": db, "dh0": dh}


_LINES: dict[str, Callable[[list[str], dict[str, Any]], list[Line]]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "relu": _relu,
    "tanh": _tanh,
    "gelu": _gelu,
    "embedding": _embedding,
    "dropout": _dropout,
    "attention": _attention,
    "attention_stages": _attention,
    "simple_attention": _simple_attention,
    "self_attention": _self_attention,
    "multi_head_attention": _multi_head_attention,
    "cross_entropy": _cross_entropy,
}
