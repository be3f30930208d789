"""A long attention at its own size: what is right in some query rows of every head, and at some keys of one.

The rows are the table's own formula over those queries. A key is seen by every query, and needs the sum and the `delta` of
each of them: they are made tile by tile in float64, and with them, line by line as in the table, the error bounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.work import Inputs, Work
from equivalence_tests.arithmetic import Array, Precision
from equivalence_tests.cases import Case
from equivalence_tests.ops import OPS

ROWS, KEYS, TILE = 32, 32, 256
Sampled = dict[str, tuple[Array, Array, Any]]  # exact, budget, and where


def sampled(work: Work, inputs: Inputs, options: dict[str, Any], precision: Precision) -> tuple[Sampled, Sampled]:
    rng = np.random.default_rng(work.seed + 1)
    wide = {name: X.astype(np.float64) for name, X in inputs.items()}
    B, H, n, _ = wide["Q"].shape
    causal = bool(options.get("causal"))
    count = max(2, min(ROWS, 2**19 // (B * H * n)))
    rows = np.sort(np.concatenate([[n - 1], rng.choice(n - 1, min(count, n) - 1, replace=False)]))
    head = (int(rng.integers(B)), int(rng.integers(H)))
    keys = np.sort(np.concatenate([[0], 1 + rng.choice(n - 1, min(KEYS, n) - 1, replace=False)]))
    return _rows(wide, rows, causal, precision), _keys(wide, head, keys, causal, precision)


def _rows(wide: Inputs, rows: Array, causal: bool, precision: Precision) -> Sampled:
    at = (slice(None), slice(None), rows)
    n = wide["K"].shape[-2]
    operands = {"Q": wide["Q"][at], "K": wide["K"], "V": wide["V"]}
    options = {"mask": np.arange(n) <= rows[:, None]} if causal else {}
    found = OPS["attention"].exact(Case(operands, options, {"dC": wide["dC"][at]}), precision)
    return {name: (found[name].value, found[name].budget(), at) for name in ("C", "dQ")}


def _keys(wide: Inputs, head: tuple[int, int], keys: Array, causal: bool, precision: Precision) -> Sampled:
    """dV_j = sum_i A_ij dC_i;  dK_j = scale sum_i A_ij (dA_ij - delta_i) Q_i, with their bounds, for the keys j."""
    Q, K, V, dC = (wide[name][head] for name in ("Q", "K", "V", "dC"))
    (n, c), m = Q.shape, K.shape[0]
    u, scale = precision.unit, 1.0 / math.sqrt(c)
    A, dA, A_error, dA_error = (np.zeros((n, len(keys))) for _ in range(4))
    delta, delta_error = np.zeros((n, 1)), np.zeros((n, 1))
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
    at = (*head, keys)

    def summed(left: Array, error: Array, right: Array) -> tuple[Array, Array, Any]:
        budget = error.T @ np.abs(right) + (n + 1) * u * (np.abs(left).T @ np.abs(right)) + precision.tiny
        return left.T @ right, budget, at

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
            S = np.where(np.arange(len(K)) <= positions[:, None], S, -np.inf)
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
