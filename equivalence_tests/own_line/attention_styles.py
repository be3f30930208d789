"""What right attention of other styles than the formula's binds on the way."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.sizes import sizes
from equivalence_tests.ops import Op
from equivalence_tests.own_line.right import LARGEST


def back_through_softmax(A_: str, dA_: str, A: Array, dA: Array, axis: int = -1) -> Iterator[tuple[str, Any]]:
    both = A * dA
    inner = both.sum(axis, keepdims=True)
    yield from ((f"{A_} * {dA_}", both), (f"sum({A_} * {dA_})", inner), (f"{dA_} - sum({A_} * {dA_})", dA - inner))
    yield f"{A_} sum({A_} * {dA_})", A * inner
    if A.ndim and axis in (-1, A.ndim - 1) and A.size * A.shape[-1] <= LARGEST:
        outer = A[..., :, None] * A[..., None, :]
        diagonal = A[..., :, None] * np.eye(A.shape[-1])
        yield from ((f"{A_} {A_}^T", outer), (f"diag({A_})", diagonal), (f"diag({A_}) - {A_} {A_}^T", diagonal - outer))


def of_attention(op: Op, case: Case, x: dict[str, Array]) -> Iterator[tuple[str, Any]]:
    options = case.options
    letters = sizes(op, case)
    scale = options.get("scale")
    scale = (
        (1.0 if op.name == "simple_attention" else 1 / np.sqrt(letters.get("c", 1))) if scale is None else float(scale)
    )
    heads: dict[str, Array] = {name: x[name] for name in ("Q", "K", "V", "dQ", "dK", "dV", "C", "dC") if name in x}
    if op.name == "simple_attention":
        heads |= dict.fromkeys("QKV", x["X"])
    if op.name == "multi_head_attention":
        heads |= {
            n: _split(z, letters["H"])
            for n, z in heads.items()
            if z.shape[-3:-2] != (letters["H"],) or z.ndim == x["X"].ndim
        }
        yield from ((f"{n} by heads", heads[n]) for n in heads)
    allowed = np.isfinite(x["masked"])
    masked = np.where(allowed, x["scaled"], -np.inf)
    biased = x["masked"]
    raw = np.where(allowed, x["Omega"], -np.inf)
    top = np.where(allowed.any(-1, keepdims=True), biased.max(-1, keepdims=True), 0.0)
    E = np.where(allowed, np.exp(biased - top), 0.0)
    total = E.sum(-1, keepdims=True)
    yield from (
        ("allowed", allowed * 1.0),
        ("0 or -inf", np.where(allowed, 0.0, -np.inf)),
        ("masked Omega", raw),
        ("masked scaled", masked),
    )
    yield from (
        ("max(scaled)", top),
        ("scaled - max", biased - top),
        ("exp(scaled - max)", E),
        ("sum(exp)", total),
        ("1/sum(exp)", 1 / total),
    )
    yield from (
        ("exp(scaled)", np.where(allowed, np.exp(biased), 0.0)),
        ("sum(exp(scaled))", np.exp(np.where(allowed, biased, -np.inf)).sum(-1, keepdims=True)),
    )
    yield from (
        ("lse", top + np.log(total)),
        ("forbidden", ~allowed * 1.0),
        ("guarded sum(exp)", np.where(total == 0, 1.0, total)),
    )
    if "bias" in options:
        yield "Omega + bias", x["Omega"] + options["bias"]
    for name in ("Q", "K"):
        if name in heads:
            yield from (
                (f"{name} scale", heads[name] * scale),
                (f"{name} sqrt(scale)", heads[name] * np.sqrt(scale)),
                (f"{name}^T", heads[name].swapaxes(-1, -2)),
            )
    if "V" in heads:
        yield "V^T", heads["V"].swapaxes(-1, -2)
    A, dA = x["A"], x["dA"]
    yield from back_through_softmax("A", "dA", A, dA)
    yield from (
        ("A^T", A.swapaxes(-1, -2)),
        ("dS^T", x["dS"].swapaxes(-1, -2)),
        ("dOmega^T", x["dOmega"].swapaxes(-1, -2)),
    )
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
    paths = [
        (f"d{n} W{n.lower()}^T", _merged(op, heads[f"d{n}"]) @ x[f"W{n.lower()}"].T)
        for n in "QKV"
        if f"W{n.lower()}" in x
    ]
    yield from paths
    for (one, a), (other, b) in itertools.combinations(paths, 2):
        yield f"{one} + {other}", a + b
    if (
        len({heads[n].shape for n in "QKV" if n in heads}) == 1
        and "Wq" in x
        and len({x[f"W{n}"].shape for n in "qkv"}) == 1
    ):
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
