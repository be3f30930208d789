"""The inputs of the language models, drawn as in `cases`: parameters by their names, ids, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case, Draws, laid_out, leading, sizes_of, values_of
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import rnn_shapes
from reference_numpy.gpt import gpt_keep_shapes, gpt_shapes


def gpt(draws: Draws, hard: bool) -> Case:
    operands, options = _gpt(draws, hard)
    shape = (*operands["ids"].shape, options["config"].vocab_size)
    return laid_out(draws, operands, options, {"dlogits": values_of(draws, shape, hard)}, hard)


def gpt_loss(draws: Draws, hard: bool) -> Case:
    operands, options = _gpt(draws, hard)
    return _with_targets(draws, operands, options, hard)


def generative_rnn(draws: Draws, hard: bool) -> Case:
    operands, options = _generative_rnn(draws, hard)
    shape = (*operands["ids"].shape, options["config"].vocab_size)
    return laid_out(draws, operands, options, {"dlogits": values_of(draws, shape, hard)}, hard)


def generative_rnn_loss(draws: Draws, hard: bool) -> Case:
    operands, options = _generative_rnn(draws, hard)
    return _with_targets(draws, operands, options, hard)


def _gpt(draws: Draws, hard: bool) -> tuple[dict[str, Array], dict[str, Any]]:
    sizes = sizes_of(draws, "n v d H c B A", {"d": 3, "v": 2})
    sizes["d"] = max(sizes["d"], 3)  # two numbers, normalised, are 1 and -1: a norm of width 2 has hardly a gradient
    config = GPTConfig(
        vocab_size=sizes["v"],
        context_window=sizes["n"] + draws.choice((0, 0, 3)),
        embedding_dim=sizes["d"],
        num_layers=draws.choice((1, 2)),
        num_heads=sizes["H"],
        head_dim=sizes["c"],
        ff_factor=draws.choice((1, 2)),
        dropout=draws.choice((0.1, 0.3, 0.8, 0.0)),
        tied_head=draws.choice((False, False, True)),
    )
    ids = _ids(draws, (*leading(draws, sizes, "B A"), sizes["n"]), sizes["v"])
    options: dict[str, Any] = {"config": config}
    if draws.choice((False, True)):
        dropped = config.dropout or 0.4  # dropout says what the kept ones are divided by, keep what is kept
        shapes = gpt_keep_shapes(config, ids.shape)
        options["keep"] = {name: draws.rng.random(shape) >= dropped for name, shape in shapes.items()}
    params = {name: _parameter(draws, name, shape, hard) for name, shape in gpt_shapes(config).items()}
    return {**params, "ids": ids}, options


def _generative_rnn(draws: Draws, hard: bool) -> tuple[dict[str, Array], dict[str, Any]]:
    sizes = sizes_of(draws, "n v d B A", {"v": 2})
    config = RNNConfig(vocab_size=sizes["v"], embedding_dim=sizes["d"])
    ids = _ids(draws, (*leading(draws, sizes, "B A"), sizes["n"]), sizes["v"])
    params = {name: _parameter(draws, name, shape, hard) for name, shape in rnn_shapes(config).items()}
    return {**params, "ids": ids}, {"config": config}


def _parameter(draws: Draws, name: str, shape: tuple[int, ...], hard: bool) -> Array:
    """As large as keeps the variance of what goes through, and a spread of it; no scale is 1 and no shift or bias 0."""
    gain = draws.choice((1.0, 0.5, 2.0)) if hard else draws.choice((1.0, 0.5))
    if name.endswith("scale"):
        return 1.0 + gain * draws.normal(shape)
    if len(shape) == 1 or "embedding" in name:
        return gain * draws.normal(shape)
    return np.asarray(gain * draws.normal(shape) / np.sqrt(shape[1]))


def _ids(draws: Draws, shape: tuple[int, ...], size: int) -> Array:
    """Tokens of a small vocabulary, so that they repeat, within a row too."""
    return draws.rng.integers(0, size, shape).astype(draws.choice((np.int64, np.int32)))


def _with_targets(draws: Draws, operands: dict[str, Array], options: dict[str, Any], hard: bool) -> Case:
    """Targets, some of them ignored: any class, also one that exists."""
    ids, size = operands["ids"], options["config"].vocab_size
    targets = draws.rng.integers(0, size, ids.shape)
    if draws.choice((False, True)):
        ignored = draws.choice((-100, size - 1))
        targets = np.where(draws.rng.random(ids.shape) < 0.4, ignored, targets)
        targets.reshape(-1)[-1] = 0  # at least one counts
        options["ignore_index"] = ignored
    operands["targets"] = targets.astype(draws.choice((np.int64, np.int32)))
    upstream = {"dloss": np.asarray(draws.choice((1.0, -1.7, 0.3)))}
    return laid_out(draws, operands, options, upstream, hard)
