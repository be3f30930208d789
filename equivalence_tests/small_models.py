"""Small language models for laws and refusals: pairwise different sizes, random parameters, some tokens not named."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case, Draws
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import rnn_shapes
from reference_numpy.gpt import gpt_keep_shapes, gpt_shapes

GPTS, RNNS = ("gpt", "gpt_loss"), ("generative_rnn", "generative_rnn_loss")
LOSSES = ("gpt_loss", "generative_rnn_loss")
MODELS = (*GPTS, *RNNS)
OPERANDS = {op: ("params", "ids", "targets") if op in LOSSES else ("params", "ids") for op in MODELS}
TOKENS, WINDOW, VOCABULARY = 3, 6, 8  # the ids are below NAMED, so the vocabulary has rows that nobody names
NAMED = 5
IGNORED = -100


def config_of(op: str, *, layers: int = 1, tied: bool = False, p: float = 0.0) -> GPTConfig | RNNConfig:
    if op in RNNS:
        return RNNConfig(vocab_size=VOCABULARY, embedding_dim=4)
    return GPTConfig(
        vocab_size=VOCABULARY,
        context_window=WINDOW,
        embedding_dim=4,
        num_layers=layers,
        num_heads=3,
        head_dim=2,
        ff_factor=2,
        dropout=p,
        tied_head=tied,
    )


def model_case(
    op: str,
    draws: Draws,
    dtype: str,
    lead: tuple[int, ...] = (2,),
    *,
    layers: int = 1,
    tied: bool = False,
    p: float | None = None,
) -> Case:
    """A case with ids of the shape (*lead, n), rounded. With a `p` it holds the masks of a dropout, half of them True."""
    config = config_of(op, layers=layers, tied=tied, p=p or 0.0)
    shapes = gpt_shapes(config) if isinstance(config, GPTConfig) else rnn_shapes(config)
    operands: dict[str, Any] = {name: _parameter(draws, name, shape) for name, shape in shapes.items()}
    shape = (*lead, TOKENS)
    operands["ids"] = draws.rng.integers(0, NAMED, shape)
    options: dict[str, Any] = {"config": config}
    if p is not None and isinstance(config, GPTConfig):
        masks = gpt_keep_shapes(config, shape)
        options["keep"] = {name: draws.rng.random(where) < 0.5 for name, where in masks.items()}
    upstream = {"dlogits": draws.normal((*shape, VOCABULARY))}
    if op in LOSSES:
        operands["targets"] = draws.rng.integers(0, VOCABULARY, shape)
        upstream = {"dloss": np.asarray(draws.choice((-1.5, 0.75)))}
    return Case(operands, options, upstream).rounded(PRECISIONS[dtype])


def _parameter(draws: Draws, name: str, shape: tuple[int, ...]) -> Array:
    """No scale near 0, no shift or bias 0; a matrix keeps the size of what goes through it."""
    if name.endswith("scale"):
        return np.asarray(1.0 + 0.3 * draws.normal(shape))
    if len(shape) == 1 or "embedding" in name:
        return draws.normal(shape)
    return np.asarray(draws.normal(shape) / np.sqrt(shape[1]))
