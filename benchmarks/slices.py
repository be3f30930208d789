"""A small part of a work that the table's own budget can judge: fewer and shorter sequences, fewer words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.inputs import MODELS, STEPS
from benchmarks.work import Inputs, Work
from equivalence_tests.arithmetic import Array
from reference_numpy.config import GPTConfig, RNNConfig

BATCH, TOKENS, WORDS = 2, 32, 1000
BY_SAMPLE = ("h0", "dh_last")
BY_TOKEN = ("X", "dY", "dC", "dA", "dH", "ids", "targets", "logits", "dlogits")
BY_WORD = ("token_embedding.weight", "embedding.weight", "lm_head.weight", "lm_head.bias")
HEADS = ("Q", "K", "V", "dC")


def slice_of(work: Work, inputs: Inputs, options: dict[str, Any]) -> tuple[Work, Inputs, dict[str, Any]]:
    """The work, its inputs and its options. Of a model every parameter stays, of its matrices of words the first rows."""
    sizes = dict(work.sizes)
    b, n = min(BATCH, int(sizes["B"])), min(TOKENS, int(sizes["n"]))
    sizes |= {"B": b, "n": n}
    cut = {name: _cut(name, X, b, n) for name, X in inputs.items()}
    options = dict(options)
    if isinstance(options.get("keep"), np.ndarray):
        options["keep"] = options["keep"][:b, :n]
    elif options.get("keep") is not None:
        options["keep"] = {name: _cut_mask(name, keep, b, n) for name, keep in options["keep"].items()}
    if work.work in (*STEPS, *MODELS) and sizes["v"] > WORDS:
        sizes["v"] = WORDS
        cut = {name: _fewer_words(name, X) for name, X in cut.items()}
        config: GPTConfig | RNNConfig = options["config"]
        options["config"] = replace(config, vocab_size=WORDS)
    return replace(work, sizes=sizes), cut, options


def said(work: Work) -> str:
    b, n = int(work.sizes["B"]), int(work.sizes["n"])
    return f"{b} sequence{'s' * (b > 1)} of {n} tokens"


def _cut(name: str, X: Array, b: int, n: int) -> Array:
    if name in HEADS and X.ndim == 4:
        return X[:b, :, :n]
    if name in BY_TOKEN:
        return np.ascontiguousarray(X[:b, :n])
    return X[:b] if name in BY_SAMPLE else X


def _cut_mask(name: str, keep: Array, b: int, n: int) -> Array:
    return keep[:b, :, :n, :n] if name.endswith("attention") else keep[:b, :n]


def _fewer_words(name: str, X: Array) -> Array:
    if name in ("ids", "targets"):
        return X % WORDS
    if name == "dlogits":
        return np.ascontiguousarray(X[..., :WORDS])
    return X[:WORDS] if name in BY_WORD else X
