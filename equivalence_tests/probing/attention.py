"""The conventions of scaled dot-product attention, of `(Q, K, V)` and whatever options there are.

Each question is put to one head through V = [I | 0], which makes the weights A visible in the output, and is answered by
the last query where it can be: that one sees every key, whether the function is causal by itself or not.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, choose
from equivalence_tests.probing.subject import Refused, Subject, of_shape

ALIASES = {
    "Q": ("query", "queries"),
    "K": ("key", "keys"),
    "V": ("value", "values"),
    "mask": ("attn_mask", "attention_mask", "allowed", "visible"),
    "bias": ("attn_bias", "attention_bias", "additive_mask", "position_bias"),
    "causal": ("is_causal", "causal_mask", "use_causal_mask"),
    "scale": ("scaling", "sm_scale", "softmax_scale"),
    "keep": ("dropout_mask", "keep_mask"),
    "p": ("dropout_p", "dropout", "dropout_rate", "drop", "p_drop", "rate"),
    "training": ("train", "is_training"),
    "deterministic": (),
}
WIDTHS = (5, 64)  # of a head: the first differs from every other size, the second is what many a kernel wants
HEADS = 2
RANKED = ((2, 3, 4), (3, 4), (4,))
LAYOUTS = {4: {"bhnc": 2, "bnhc": 1}, 3: {"hnc": 1, "nhc": 0}, 2: {"nc": 0}}
Q3 = np.array([[0.0, 1.0, 2.0], [1.0, -1.0, 0.5], [2.0, -1.0, 1.0]])  # scores; the last of three queries is asked


class Attention:
    """The function, called for one head: Q (n, c), K (m, c) go in as the layout wants them, A (n, m) comes out.

    `always` tells that it is causal by itself. Refused if no call is answered.
    """

    def __init__(self, function: Any) -> None:
        self.subject = Subject(function, ALIASES, ("Q", "K", "V"))
        self.layout, self.always, self.turned, self.width = "bhnc", False, False, WIDTHS[0]
        self.open_mask: bool | float | None = None  # what lets everything through, where a mask has to be given
        self.fixed: dict[str, Any] = {"scale": 1.0} if self.subject.requires("scale") else {}
        if self.subject.default("p"):
            self.fixed["p"] = 0.0
        self.conventions = self._find_layout()

    def _find_layout(self) -> list[Convention]:
        """The first rank that is answered well: a function of two axes may take four and answer nonsense."""
        refused: Refused | None = None
        found: list[Convention] = []
        masks: tuple[bool | float | None, ...] = (None,)
        if self.subject.requires("mask"):
            masks = (None, True, False, 1.0, 0.0)
        for self.width in WIDTHS:
            for shape, self.open_mask in itertools.product(RANKED, masks):
                V = np.random.default_rng(0).standard_normal((*shape, self.width))
                call = {"Q": V * 0.0, "K": V * 0.0, "V": V} | self._options(shape[-1], shape[-1])
                try:
                    _, outputs = self.subject.settle(call)
                except Refused as error:
                    refused = refused or error
                    continue
                found = self._layout(outputs[0], V)
                if found[0].told and self._rows_sum_to_one():
                    return found
            if found:
                return [replace(found[0], answer="unmatched")]
        raise refused or Refused("")

    def _options(self, n: int, m: int) -> dict[str, Any]:
        """What has to be given in each call."""
        return self.fixed | ({} if self.open_mask is None else {"mask": np.full((n, m), self.open_mask)})

    def _layout(self, C: Array, V: Array) -> list[Convention]:
        """Equal scores average V over the keys that a query sees, whatever the scale."""
        self.turned = C.ndim == V.ndim > 2 and C.shape != V.shape
        alternatives: dict[str, Array] = {}
        for layout, axis in LAYOUTS[V.ndim].items():
            counts = np.arange(1, V.shape[axis] + 1).reshape([-1 if i == axis else 1 for i in range(V.ndim)])
            expected = {layout: np.broadcast_to(V.mean(axis, keepdims=True), V.shape)}
            expected[f"{layout} causal"] = V.cumsum(axis) / counts
            alternatives |= {code: np.swapaxes(Y, -3, -2) if self.turned else Y for code, Y in expected.items()}
        given = {"Q": f"zeros{V.shape}", "K": f"zeros{V.shape}", "V": f"random{V.shape}"}
        found = choose("layout", C, alternatives, given, "C", roundoff=self.subject.roundoff)
        if not found.told:
            return [replace(found, got={"C": f"shape {C.shape}"})]
        self.layout, _, causal = found.answer.partition(" ")
        self.always = bool(causal)
        axis = LAYOUTS[V.ndim][self.layout]
        mean = {"C": f"the mean of V over axis {axis}" + (" up to the query's own place" if causal else "")}
        return [
            Convention("layout", self.layout, given, mean),
            Convention("output_layout", "turned" if self.turned else "same", given, {"C": f"shape {C.shape}"}),
            Convention("causal_default", "yes" if self.always else "no", given, mean),
        ]

    def _rows_sum_to_one(self) -> bool:
        """With unequal scores: the softmax runs over the keys."""
        try:
            return bool(np.allclose(self.weights(Q3, np.eye(3)).sum(-1), 1.0, atol=np.sqrt(self.subject.roundoff)))
        except Refused:
            return False

    def weights(self, Q: Any, K: Any, **options: Any) -> Array:
        """A (n, m), the weights of one head. Refused if the function raises."""
        Q, K = (self._wide(np.asarray(X, dtype=np.float64)) for X in (Q, K))
        V = self._wide(np.eye(len(K)))
        options = self._options(len(Q), len(K)) | options
        operands: dict[str, Any] = {name: self._laid(X) for name, X in (("Q", Q), ("K", K), ("V", V))}
        C = self.subject(**operands, **options)[0]
        if C.ndim == 4:
            C = C[0]
        if C.ndim == 3:
            C = C[0] if self.layout.endswith("hnc") != self.turned else C[:, 0]
        return of_shape(C, len(Q), V.shape[1])[:, : len(K)]

    def _wide(self, X: Array) -> Array:
        """With columns of zeros up to the width of a head, or beyond if it has more already."""
        return np.pad(X, [(0, 0), (0, max(self.width, X.shape[1]) - X.shape[1])])

    def _laid(self, X: Array) -> Array:
        """(n, c) -> the layout, the same for each of two heads."""
        if self.layout == "nc":
            return X
        heads = np.stack([X] * HEADS, axis=0 if self.layout.endswith("hnc") else 1)
        return heads[None] if self.layout.startswith("b") else heads

    def masked(self, mask: Array, option: str, Q: Any = Q3, K: Any = None, **options: Any) -> Array:
        """A with a mask (n, m): with leading axes of 1 and as 1 and 0 instead of booleans, if it is not taken else."""
        K = np.eye(mask.shape[-1]) if K is None else K
        first: Refused | None = None
        forms = (mask, mask * 1.0) if mask.dtype == bool else (mask,)
        for form, leading in itertools.product(forms, ((), (1,), (1, 1))):
            try:
                return self.weights(Q, K, **{option: form.reshape(*leading, *form.shape)}, **options)
            except Refused as refused:
                first = first or refused
        raise first or Refused("")

    def row(self) -> Array:
        """The logits of the last query of Q3 without a mask, up to a constant."""
        return np.asarray(np.log(self.weights(Q3, np.eye(3))[-1]))


def softmax(S: Array) -> Array:
    E = np.exp(S - S.max(-1, keepdims=True))
    return np.asarray(E / E.sum(-1, keepdims=True))
