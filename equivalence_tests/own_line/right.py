"""The values that right code may bind: the named lines of the formula, what other styles compute on the way, and constants."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case, is_floating
from equivalence_tests.diagnosis.editing import Editing
from equivalence_tests.diagnosis.plain import evaluate
from equivalence_tests.diagnosis.sizes import factors, sizes
from equivalence_tests.ops import Op

LINE, STYLE, BLEND = 0, 1, 2  # a line or an operand of the formula; what other styles bind; one operation on two of these
LARGEST = 20_000  # elements of a value; a blend of larger ones is not made
BLENDS = 1_500


@dataclass(frozen=True)
class Right:
    """A value with the name that it is told by."""

    name: str
    value: Array
    rank: int

    @functools.cached_property
    def narrow(self) -> Array:
        return narrowed(self.value)


def narrowed(value: Array) -> Array:
    """Without axes of length 1, and without those along which it only repeats itself."""
    narrow = np.asarray(value).squeeze()
    for axis in reversed(range(narrow.ndim)):
        if narrow.shape[axis] > 1 and narrow.size > narrow.shape[axis] and bool((narrow == narrow.take([0], axis)).all()):
            narrow = narrow.take(0, axis)
    return narrow


def lines(op: Op, case: Case) -> list[Right]:
    """Operands, upstream gradients and every named line, in the order of the formula."""
    given = {**case.operands, **case.upstream, **{n: v for n, v in case.options.items() if is_floating(v)}}
    recorder = Editing(op, case)
    with np.errstate(all="ignore"):
        answered = evaluate(op, case, PRECISIONS["float64"], recorder)
    found: dict[str, Array] = {n: np.asarray(v, np.float64) for n, v in given.items() if isinstance(v, np.ndarray)}
    for name, number in {**recorder.lines}.items():
        found.setdefault(name, np.asarray(number.value, np.float64))
    found |= {name: np.asarray(value, np.float64) for name, value in answered.items()}
    return [Right(name, value, LINE) for name, value in found.items() if 0 < value.size <= LARGEST]


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
        yield from _back_through_softmax("A", "dA", x["A"], x["dA"], axis)
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
        yield from _of_attention(op, case, x)


def _of_softmax(X: Array, axis: int) -> Iterator[tuple[str, Any]]:
    top = X.max(axis, keepdims=True)
    E, raw = np.exp(X - top), np.exp(X)
    total, P = E.sum(axis, keepdims=True), np.exp(X - top) / E.sum(axis, keepdims=True)
    yield from (("max(X)", top), ("X - max(X)", X - top), ("exp(X - max(X))", E), ("exp(X)", raw))
    yield from (("sum(exp(X - max(X)))", total), ("sum(exp(X))", raw.sum(axis, keepdims=True)), ("1/sum(exp)", 1 / total))
    yield from (("log(sum(exp(X - max(X))))", np.log(total)), ("lse", top + np.log(total)))
    yield from (("softmax(X)", P), ("log_softmax(X)", X - top - np.log(total)))


def _back_through_softmax(A_: str, dA_: str, A: Array, dA: Array, axis: int = -1) -> Iterator[tuple[str, Any]]:
    both = A * dA
    inner = both.sum(axis, keepdims=True)
    yield from ((f"{A_} * {dA_}", both), (f"sum({A_} * {dA_})", inner), (f"{dA_} - sum({A_} * {dA_})", dA - inner))
    yield f"{A_} sum({A_} * {dA_})", A * inner
    if A.ndim and axis in (-1, A.ndim - 1) and A.size * A.shape[-1] <= LARGEST:
        outer = A[..., :, None] * A[..., None, :]
        diagonal = A[..., :, None] * np.eye(A.shape[-1])
        yield from ((f"{A_} {A_}^T", outer), (f"diag({A_})", diagonal), (f"diag({A_}) - {A_} {A_}^T", diagonal - outer))


def _of_layer_norm(x: dict[str, Array], epsilon: float) -> Iterator[tuple[str, Any]]:
    X, N, dN, dY, scale = x["X"], x["N"], x["dN"], x["dY"], x["scale"]
    d = X.shape[-1]

    def total(z: Array) -> Array:
        return np.asarray(z.sum(-1, keepdims=True))

    D = X - X.mean(-1, keepdims=True)
    var = (D * D).mean(-1, keepdims=True)
    r, both = 1 / np.sqrt(var + epsilon), dN * N
    yield from (("sum(X)", total(X)), ("X^2", X * X), ("sum(X^2)", total(X * X)), ("mean(X^2)", total(X * X) / d))
    yield from (("mean(X)^2", X.mean(-1, keepdims=True) ** 2), ("(X - mean(X))^2", D * D), ("sum((X - mean(X))^2)", total(D * D)))
    yield from (("var + epsilon", var + epsilon), ("sqrt(var + epsilon)", 1 / r), ("N scale", N * scale), ("sqrt(var)", np.sqrt(var)))
    yield from (("sum(dN)", total(dN)), ("dN * N", both), ("sum(dN * N)", total(both)), ("N mean(dN * N)", N * total(both) / d))
    yield from (("dN - mean(dN)", dN - total(dN) / d), ("N sum(dN * N)", N * total(both)), ("dY * N", dY * N))
    inner = dN - total(dN) / d - N * total(both) / d
    yield from (("dN - mean(dN) - N mean(dN * N)", inner), ("d dN - sum(dN) - N sum(dN * N)", d * inner), ("r/d", r / d))
    dvar = total(dN * D) * -0.5 * r**3
    yield from (("dN (X - mean(X))", dN * D), ("sum(dN (X - mean(X)))", total(dN * D)), ("dvar", dvar), ("r^3", r**3), ("r^2", r**2))
    yield from (("dN r", dN * r), ("-sum(dN r)", -total(dN * r)), ("dmean", -total(dN * r) + dvar * -2.0 * total(D) / d))
    yield from (("dvar 2 (X - mean(X))/d", dvar * 2 * D / d), ("dmean/d", -total(dN * r) / d), ("dD", dN * r + dvar * 2 * D / d))
    yield from (("dsqrtvar", -total(dN * D) * r**2), ("-1/sqrtvar^2", -(r**2)), ("1/(2 sqrtvar)", r / 2), ("dvar/d", dvar / d))
    yield from (("mean(dN r)", total(dN * r) / d), ("dr", total(dN * D)), ("dN - N mean(dN * N)", dN - N * total(both) / d))
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
        yield from (("1 + t", 1 + t), ("(1 + t)/2", (1 + t) / 2), ("t^2", t * t), ("1 - t^2", 1 - t * t), ("X/2", X / 2))
        inner = s * (1 + 3 * k * X * X)
        first, second = (1 + t) / 2, X * (1 - t * t) * inner / 2
        yield from (("du", inner), ("1 + 3 0.044715 X^2", 1 + 3 * k * X * X), ("3 0.044715 X^2", 3 * k * X * X))
        yield from (("X (1 - t^2) du/2", second), ("slope", first + second), ("(1 - t^2) du", (1 - t * t) * inner))
        yield from (("X (1 - t^2)/2", X * (1 - t * t) / 2), ("X (1 - t^2)", X * (1 - t * t)), ("dY X", x["dY"] * X))
        yield from (("dt", x["dY"] * X / 2), ("du of the loss", x["dY"] * X / 2 * (1 - t * t)), ("(1 - t^2)/2", (1 - t * t) / 2))


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
        yield from ((f"logits{word}", row), (f"lse{word}", lse[rows]), (f"max(logits){word}", top[rows]), (f"targets{word}", safe[rows]))
        yield from ((f"logits[target]{word}", picked + lse[rows][:, 0]), (f"-log P[target]{word}", -picked))
        yield from ((f"P - onehot{word}", p - one), (f"(P - onehot) dloss/M{word}", (p - one) * dloss / M), (f"(P - onehot)/M{word}", (p - one) / M))
        yield from ((f"(P - onehot) dloss{word}", (p - one) * dloss), (f"exp(logits - max){word}", np.exp(row - top[rows])))
        yield from ((f"sum(exp){word}", np.exp(row - top[rows]).sum(-1)), (f"log(sum(exp)){word}", (lse - top)[rows]), (f"logits - max{word}", row - top[rows]))
        yield f"P dloss/M{word}", p * dloss / M
        yield f"P/M{word}", p / M
    masked, kept = P * counted[:, None], chosen * counted
    yield from (("P counted", masked), ("(P - onehot) counted", (P - onehot) * counted[:, None]), ("losses", -kept), ("log P[target] counted", kept))
    yield from (("(P - onehot) dloss/M counted", (P - onehot) * counted[:, None] * dloss / M), ("(P - onehot)/M counted", (P - onehot) * counted[:, None] / M))
    yield from (("sum of losses", -kept.sum()), ("M", M), ("dloss/M", dloss / M), ("counted/M", counted / M), ("counted dloss/M", counted * dloss / M))


def _of_rnn(case: Case, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    X, H, before = x["X"], x["H"], x["h before"]
    first, second = X @ x["W_ih"].T, before @ x["W_hh"].T
    yield from (("X W_ih^T", first), ("X W_ih^T + b_ih", first + x["b_ih"]), ("h W_hh^T", second), ("b_ih + b_hh", x["b_ih"] + x["b_hh"]))
    yield from (("h W_hh^T + b_hh", second + x["b_hh"]), ("X W_ih^T + b_ih + b_hh", first + x["b_ih"] + x["b_hh"]), ("H^2", H * H))
    yield from (("a, all", first + second + x["b_ih"] + x["b_hh"]), ("1 - H^2", 1 - H * H), ("X W_ih^T + h W_hh^T", first + second))
    start = before[..., :1, :]
    yield "h before and after", np.concatenate([start, H], -2)
    yield "h at the start", start[..., 0, :]
    da = x["da, all"]
    yield from (("carried, all", da @ x["W_hh"]), ("da W_ih, all", da @ x["W_ih"]))
    yield "carried in", x["dh, all"] - x["dH"]
    yield from (("outer(da, x), all", da[..., :, None] * X[..., None, :]), ("outer(da, h), all", da[..., :, None] * before[..., None, :]))
    every = tuple(range(da.ndim - 2))
    yield from (("da, summed over the batch", da.sum(every)), ("dW_ih of each step", _each_step(da, X)))
    yield "dW_hh of each step", _each_step(da, before)
    yield "X, by time", np.moveaxis(X, -2, 0)


def _each_step(da: Array, Z: Array) -> Array:
    return np.asarray((da[..., :, None] * Z[..., None, :]).sum(tuple(range(da.ndim - 2))))


def _of_attention(op: Op, case: Case, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    options = case.options
    letters = sizes(op, case)
    scale = options.get("scale")
    scale = (1.0 if op.name == "simple_attention" else 1 / np.sqrt(letters.get("c", 1))) if scale is None else float(scale)
    heads = {name: x[name] for name in ("Q", "K", "V", "dQ", "dK", "dV", "C", "dC") if name in x}
    if op.name == "simple_attention":
        heads |= {name: x["X"] for name in "QKV"}
    if op.name == "multi_head_attention":
        heads |= {n: _split(z, letters["H"]) for n, z in heads.items() if z.shape[-3:-2] != (letters["H"],) or z.ndim == x["X"].ndim}
        yield from ((f"{n} by heads", heads[n]) for n in heads)
    allowed = np.isfinite(x["masked"])
    masked = np.where(allowed, x["scaled"], -np.inf)
    biased = x["masked"]
    raw = np.where(allowed, x["Omega"], -np.inf)
    top = np.where(allowed.any(-1, keepdims=True), biased.max(-1, keepdims=True), 0.0)
    E = np.where(allowed, np.exp(biased - top), 0.0)
    total = E.sum(-1, keepdims=True)
    yield from (("allowed", allowed * 1.0), ("0 or -inf", np.where(allowed, 0.0, -np.inf)), ("masked Omega", raw), ("masked scaled", masked))
    yield from (("max(scaled)", top), ("scaled - max", biased - top), ("exp(scaled - max)", E), ("sum(exp)", total), ("1/sum(exp)", 1 / total))
    yield from (("exp(scaled)", np.where(allowed, np.exp(biased), 0.0)), ("sum(exp(scaled))", np.exp(np.where(allowed, biased, -np.inf)).sum(-1, keepdims=True)))
    yield from (("lse", top + np.log(total)), ("forbidden", ~allowed * 1.0), ("guarded sum(exp)", np.where(total == 0, 1.0, total)))
    if "bias" in options:
        yield "Omega + bias", x["Omega"] + options["bias"]
    for name in ("Q", "K"):
        if name in heads:
            yield from ((f"{name} scale", heads[name] * scale), (f"{name} sqrt(scale)", heads[name] * np.sqrt(scale)), (f"{name}^T", heads[name].swapaxes(-1, -2)))
    if "V" in heads:
        yield "V^T", heads["V"].swapaxes(-1, -2)
    A, dA = x["A"], x["dA"]
    yield from _back_through_softmax("A", "dA", A, dA)
    yield from (("A^T", A.swapaxes(-1, -2)), ("dS^T", x["dS"].swapaxes(-1, -2)), ("dOmega^T", x["dOmega"].swapaxes(-1, -2)))
    if "K" in heads and "Q" in heads:
        yield from (("dS K", x["dS"] @ heads["K"]), ("dS^T Q", x["dS"].swapaxes(-1, -2) @ heads["Q"]))
        yield "Omega, unscaled and unmasked", x["Omega"]
    keep, p = options.get("keep"), options.get("p", 0.0)
    if keep is not None and p < 1:
        yield from (("keep/(1 - p)", keep / (1 - p)), ("keep", keep * 1.0), ("A keep", A * keep))
    upstream = next((x[n] for n in ("dC",) if n in x), None)
    if upstream is not None and "C" in x and upstream.shape == x["C"].shape:
        yield from (("dC * C", upstream * x["C"]), ("sum(dC * C)", (upstream * x["C"]).sum(-1, keepdims=True)))
    for name, value in heads.items():
        if op.name == "multi_head_attention":
            flat = np.moveaxis(value, -3, -2)
            yield f"{name}, heads behind", flat
            yield f"{name}, merged", flat.reshape(*flat.shape[:-2], -1)
    paths = [(f"d{n} W{n.lower()}^T", _merged(op, heads[f"d{n}"]) @ x[f"W{n.lower()}"].T) for n in "QKV" if f"W{n.lower()}" in x]
    yield from paths
    for (one, a), (other, b) in itertools.combinations(paths, 2):
        yield f"{one} + {other}", a + b
    if len({heads[n].shape for n in "QKV" if n in heads}) == 1 and "Wq" in x and len({x[f"W{n}"].shape for n in "qkv"}) == 1:
        for names in (("Q", "K", "V"), ("dQ", "dK", "dV"), ("Wq", "Wk", "Wv"), ("dWq", "dWk", "dWv")):
            parts = [_merged(op, heads[n]) if n in heads else x[n] for n in names if n in heads or n in x]
            if len(parts) == 3:
                yield f"{', '.join(names)}", np.stack(parts)
                yield f"{', '.join(names)} side by side", np.concatenate(parts, -1)
                if names[0] in heads:
                    yield f"{', '.join(names)} by heads", np.stack([heads[n] for n in names])
    if op.name == "simple_attention":
        yield from (("dQ + dK", x["dQ"] + x["dK"]), ("dV + dQ", x["dV"] + x["dQ"]), ("dV + dK", x["dV"] + x["dK"]))


def _split(Z: Array, H: int) -> Array:
    return np.moveaxis(Z.reshape(*Z.shape[:-1], H, Z.shape[-1] // H), -2, -3)


def _merged(op: Op, Z: Array) -> Array:
    if op.name != "multi_head_attention":
        return Z
    flat = np.moveaxis(Z, -3, -2)
    return flat.reshape(*flat.shape[:-2], -1)


def blends(known: list[Right]) -> Iterator[Right]:
    """One operation on one or two of the lines: what a wrong line may hold, and right code of a style not foreseen."""
    small = [each for each in known if each.value.dtype.kind == "f" and each.value.size <= 700]
    count = 0
    for each in small:
        for axis in range(-each.value.ndim, 0):
            with np.errstate(all="ignore"):
                last = "" if axis == -1 else f", axis {axis}"
                yield Right(f"sum({each.name}{last})", each.value.sum(axis, keepdims=True), BLEND)
                yield Right(f"mean({each.name}{last})", each.value.mean(axis, keepdims=True), BLEND)
                yield Right(f"max({each.name}{last})", each.value.max(axis, keepdims=True), BLEND)
        with np.errstate(all="ignore"):
            yield Right(f"exp({each.name})", np.exp(each.value), BLEND)
            yield Right(f"{each.name}^2", each.value**2, BLEND)
            yield Right(f"1 - {each.name}^2", 1 - each.value**2, BLEND)
            yield Right(f"sum({each.name})", np.asarray(each.value.sum()), BLEND)
            yield Right(f"mean({each.name})", np.asarray(each.value.mean()), BLEND)
    main = [each for each in small if each.rank == LINE]
    for one, other in itertools.combinations(main, 2):
        if count > BLENDS:
            return
        a, b = one.value, other.value
        if _broadcasts(a, b):
            count += 4
            with np.errstate(all="ignore"):
                yield Right(f"{one.name} * {other.name}", a * b, BLEND)
                yield Right(f"{one.name} + {other.name}", a + b, BLEND)
                yield Right(f"{one.name} - {other.name}", a - b, BLEND)
                yield Right(f"{other.name} - {one.name}", b - a, BLEND)
        for (n, s), (m, t) in (((one.name, a), (other.name, b)), ((other.name, b), (one.name, a))):
            yield from _products(n, s, m, t)


def _products(n: str, s: Array, m: str, t: Array) -> Iterator[Right]:
    if s.ndim < 2 or t.ndim < 2 or (s.ndim != t.ndim and t.ndim != 2) or (s.ndim == t.ndim and s.shape[:-2] != t.shape[:-2]):
        return
    turned, back = t.swapaxes(-1, -2), s.swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        if s.shape[-1] == t.shape[-2]:
            yield Right(f"{n} {m}", s @ t, BLEND)
        if s.shape[-1] == t.shape[-1]:
            yield Right(f"{n} {m}^T", s @ turned, BLEND)
        if s.shape[-2] == t.shape[-2] and s.ndim == t.ndim:
            yield Right(f"{n}^T {m}", back @ t, BLEND)


def _broadcasts(a: Array, b: Array) -> bool:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return shape in (a.shape, b.shape)


def constants(op: Op, case: Case) -> dict[str, float]:
    """Numbers by name: sizes, roots, options."""
    found = factors(op, case, simple=True)
    for name in ("epsilon", "p", "scale"):
        if isinstance(case.options.get(name), float):
            found[name] = float(case.options[name])
    if op.name == "layer_norm":
        found.setdefault("epsilon", 1e-5)
    if op.name == "gelu":
        found |= {"0.044715": 0.044715, "sqrt(2/pi)": float(np.sqrt(2 / np.pi)), "3 0.044715": 3 * 0.044715}
    found |= {"1": 1.0, "0": 0.0}
    return found
