"""A long attention at its own size: what is right in some query rows of every head, and at some keys of one.

The rows are the table's own formula over those queries. A key is seen by every query, and needs the sum and the `delta` of
each of them: they are made tile by tile in float64, and with them, line by line as in the table, the error bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import reference_numpy
from benchmarks.verdict import rms_of
from benchmarks.work import Inputs, Work
from equivalence_tests.arithmetic import Array, Precision
from equivalence_tests.cases import Case
from equivalence_tests.ops import OPS

ROWS, KEYS, TILE = 32, 32, 256


@dataclass(frozen=True)
class Sampled:
    """Some elements of a tensor: what is exact, its bound, the textbook's rms error there in float32, and where."""

    exact: Array
    budget: Array
    rms: float
    at: Any


def sampled(work: Work, inputs: Inputs, options: dict[str, Any], precision: Precision) -> dict[str, Sampled]:
    rng = np.random.default_rng(work.seed + 1)
    B, H, n, _ = inputs["Q"].shape
    causal = bool(options.get("causal"))
    count = max(2, min(ROWS, 2**19 // (B * H * n)))
    rows = np.sort(np.concatenate([[n - 1], rng.choice(n - 1, min(count, n) - 1, replace=False)]))
    head = (int(rng.integers(B)), int(rng.integers(H)))
    keys = np.sort(np.concatenate([[0], 1 + rng.choice(n - 1, min(KEYS, n) - 1, replace=False)]))
    narrow, wide = ({name: X.astype(dtype) for name, X in inputs.items()} for dtype in ("float32", "float64"))
    found = _rows(wide, narrow, rows, causal, precision)
    textbook = _keys(narrow, head, keys, causal, precision)
    for name, (exact, budget) in _keys(wide, head, keys, causal, precision).items():
        found[name] = Sampled(exact, budget, rms_of(textbook[name][0] - exact), (*head, keys))
    return found


def _rows(wide: Inputs, narrow: Inputs, rows: Array, causal: bool, precision: Precision) -> dict[str, Sampled]:
    """The cut by queries is an attention of its own, with the mask that those rows have."""
    at = (slice(None), slice(None), rows)
    options: dict[str, Any] = {"mask": np.arange(wide["K"].shape[-2]) <= rows[:, None]} if causal else {}
    cut, textbook = ({name: X[at] if name in ("Q", "dC") else X for name, X in of.items()} for of in (wide, narrow))
    upstream = {"dC": cut.pop("dC")}
    exact = OPS["attention"].exact(Case(cut, options, upstream), precision)
    C, cache = reference_numpy.attention(textbook["Q"], textbook["K"], textbook["V"], **options)
    dQ, _, _ = reference_numpy.attention_backward(textbook["dC"], cache)
    found = {}
    for name, got in (("C", C), ("dQ", dQ)):
        value = exact[name].value.astype(np.float64)
        found[name] = Sampled(value, exact[name].budget(), rms_of(got - value), at)
    return found


def _keys(
    inputs: Inputs, head: tuple[int, int], keys: Array, causal: bool, precision: Precision
) -> dict[str, tuple[Array, Array]]:
    """dV_j = sum_i A_ij dC_i;  dK_j = scale sum_i A_ij (dA_ij - delta_i) Q_i, with their bounds, for the keys j.

    In the dtype of the inputs: float32 shows how far off a plain implementation is.
    """
    Q, K, V, dC = (inputs[name][head] for name in ("Q", "K", "V", "dC"))
    (n, c), m = Q.shape, K.shape[0]
    u, scale = precision.unit, 1.0 / math.sqrt(c)
    A, dA, A_error, dA_error = (np.zeros((n, len(keys)), Q.dtype) for _ in range(4))
    delta, delta_error = np.zeros((n, 1), Q.dtype), np.zeros((n, 1), Q.dtype)
    for first in range(0, n, TILE):
        rows = np.arange(first, min(first + TILE, n))
        last = rows[-1] + 1 if causal else m
        tile = _Tile(Q[rows], K[:last], V[:last], dC[rows], rows if causal else None, (m, scale, u))
        delta[rows], delta_error[rows] = tile.delta, tile.delta_error
        seen = keys < last
        for whole, part in ((A, tile.A), (dA, tile.dA), (A_error, tile.A_error), (dA_error, tile.dA_error)):
            whole[np.ix_(rows, np.flatnonzero(seen))] = part[:, keys[seen]]
    inner = dA - delta
    inner_error = dA_error + delta_error + u * (np.abs(inner) + dA_error + delta_error)
    dS = A * inner
    dS_error = A * inner_error + A_error * np.abs(inner) + A_error * inner_error + u * np.abs(dS)
    dOmega, dOmega_error = dS * scale, dS_error * scale + 2.0 * u * np.abs(dS) * scale

    def summed(left: Array, error: Array, right: Array) -> tuple[Array, Array]:
        terms = np.abs(left).T @ np.abs(right)
        return left.T @ right, error.T @ np.abs(right) + (n + 1) * u * terms + precision.tiny

    return {"dK": summed(dOmega, dOmega_error, Q), "dV": summed(A, A_error, dC)}


class _Tile:
    """Some query rows against all keys that they may see."""

    def __init__(
        self, Q: Array, K: Array, V: Array, dC: Array, positions: Array | None, said: tuple[int, float, float]
    ) -> None:
        m, scale, u = said
        c, e = Q.shape[1], V.shape[1]
        terms = np.abs(Q) @ np.abs(K).T
        S = Q @ K.T * scale
        S_error = (c + 1 + 2) * u * scale * terms + 2.0 * u * np.abs(S)
        if positions is not None:
            S = np.where(np.arange(len(K)) <= positions[:, None], S, S.dtype.type(-np.inf))
        top = S.max(-1, keepdims=True)
        self.A = np.exp(S - top)
        self.A /= self.A.sum(-1, keepdims=True)
        shift = np.where(np.isfinite(S), np.abs(S - top), 0.0)
        error = np.expm1(S_error + 3.0 * u * shift)
        self.A_error = self.A * (error + (self.A * error).sum(-1, keepdims=True) + (m + 4) * u)
        self.dA = dC @ V.T
        self.dA_error = (e + 1) * u * (np.abs(dC) @ np.abs(V).T)
        C = self.A @ V
        self.delta = (dC * C).sum(-1, keepdims=True)
        lost = self.A_error * (np.abs(self.dA) + self.dA_error) + self.A * (
            self.dA_error + (m + 1) * u * np.abs(self.dA)
        )
        self.delta_error = (
            lost.sum(-1, keepdims=True) + u * np.abs(dC * C).sum(-1, keepdims=True) + u * np.abs(self.delta)
        )
