"""Attention with projections, by the formula, in every form in which it is done."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.attention import softmax

ROLES = ("q", "k", "v")
ORDERS = ["".join(order) for order in itertools.permutations(ROLES)]
SPLITS = ("contiguous", "interleaved", "mixed")
SCALES = ("head", "whole", "none", "head_width", "whole_width", "embedding")
Stored = Mapping[str, list[Array]]


@dataclass(frozen=True)
class Form:
    """One of the ways: `out_in` weights multiply as X W^T, `mixed` heads take rows for columns, as a bare reshape does."""

    batch: str
    order: str
    packing: str
    weights: str
    split: str
    scale: str
    causal: str
    out: str
    heads: int


class Formula:
    """The formula with the weights `stored` by role (q, k, v or qkv packed, out), for one X (B, n, d)."""

    def __init__(self, stored: Stored, X: Array) -> None:
        self.stored, self.X = stored, X
        self._projected: dict[tuple[str | int, ...], list[Array] | None] = {}

    def forms(self, head_counts: list[int]) -> Iterator[Form]:
        """Every form that those weights allow by their names."""
        packed = "qkv" in self.stored
        return (
            Form(*form)
            for form in itertools.product(
                ("batch_first", "sequence_first"),
                ORDERS if packed else ("qkv", "kqv"),
                ("blocks", "by_head", "by_column") if packed else ("separate",),
                ("out_in", "in_out"),
                SPLITS,
                SCALES,
                ("no", "yes"),
                ("out_in", "in_out") if "out" in self.stored else ("none",),
                head_counts,
            )
        )

    def __call__(
        self, form: Form, allowed: Array | None = None, added: Array | None = None, columns: int | None = None
    ) -> Array | None:
        """Y (its first columns), or None if the shapes do not allow the form.

        `allowed` and `added` (B, n, n) are masks, boolean and additive, beside the causal one.
        """
        projected = self._projections(form)
        if projected is None:
            return None
        Q, K, V = (_split(X, form.heads, form.split) for X in projected)
        c = Q.shape[-1]
        scales = {"head": c**-0.5, "whole": (c * form.heads) ** -0.5, "none": 1.0}
        scales |= {"head_width": 1 / c, "whole_width": 1 / (c * form.heads)}
        if self.X.shape[-1] != c * form.heads:  # else it is the whole width
            scales["embedding"] = self.X.shape[-1] ** -0.5
        elif form.scale == "embedding":
            return None
        S = Q @ K.swapaxes(-1, -2) * scales[form.scale]
        if added is not None:
            S = S + added[:, None]
        if form.causal == "yes":
            S = np.where(np.tri(S.shape[-1], dtype=bool), S, -np.inf)
        if allowed is not None:
            S = np.where(allowed[:, None], S, -np.inf)
        Y = _merge(softmax(S) @ V, form.split)
        if form.out != "none":
            Wo = self.stored["out"][0].T if form.out == "out_in" else self.stored["out"][0]
            if Wo.shape[0] != Y.shape[-1]:
                return None
            Y = Y @ Wo[:, :columns]
        Y = Y[..., :columns]
        return Y if form.batch == "batch_first" else Y.swapaxes(0, 1)

    def _projections(self, form: Form) -> list[Array] | None:
        """Q, K, V (B, n, width), computed once for all forms that share them."""
        key = (form.batch, form.order, form.packing, form.weights, form.heads)
        if key not in self._projected:
            matrices = self._matrices(form)
            X = self.X if form.batch == "batch_first" else self.X.swapaxes(0, 1)
            self._projected[key] = None if matrices is None else [X @ W for W in matrices]
        return self._projected[key]

    def _matrices(self, form: Form) -> list[Array] | None:
        """The matrices of Q, K and V as (d, width)."""
        d = self.X.shape[-1]
        turned = {role: [W.T if form.weights == "out_in" else W for W in Ws] for role, Ws in self.stored.items()}
        if "qkv" in turned:
            matrices = _unpacked(turned["qkv"][0], d, form)
        elif all(role in turned and all(W.shape[0] == d for W in turned[role]) for role in ROLES):
            matrices = [np.concatenate(turned[role], axis=1) for role in ROLES]
        else:
            return None
        if any(W.shape[1] % form.heads for W in matrices):
            return None
        matrices = [matrices[form.order.index(role)] for role in ROLES] if matrices else []
        return matrices if matrices and matrices[0].shape == matrices[1].shape else None


def _unpacked(W: Array, d: int, form: Form) -> list[Array]:
    """Three matrices out of one (d, 3 width); none if it is no such one."""
    width = W.shape[1] // 3
    if W.shape[0] != d or W.shape[1] % 3 or width % form.heads:
        return []
    match form.packing:
        case "by_head":
            parts = W.reshape(d, form.heads, 3, width // form.heads)
            return [parts[:, :, i].reshape(d, width) for i in range(3)]
        case "by_column":
            return [W[:, i::3] for i in range(3)]
        case _:
            return np.split(W, 3, axis=1)


def _split(X: Array, heads: int, split: str) -> Array:
    """(B, n, H c) -> (B, H, n, c): head h has c neighbouring columns, or every H-th, or (mixed) rows and columns shift."""
    b, n, width = X.shape
    if split == "contiguous":
        return X.reshape(b, n, heads, width // heads).swapaxes(1, 2)
    if split == "interleaved":
        return np.moveaxis(X.reshape(b, n, width // heads, heads), -1, 1)
    return X.reshape(b, heads, n, width // heads)


def _merge(C: Array, split: str) -> Array:
    b, heads, n, c = C.shape
    if split == "contiguous":
        return C.swapaxes(1, 2).reshape(b, n, heads * c)
    if split == "interleaved":
        return np.moveaxis(C, 1, -1).reshape(b, n, heads * c)
    return C.reshape(b, n, heads * c)
