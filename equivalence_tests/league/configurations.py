"""Two inputs for every op: the usual one, as people test, and a rich one, as the table draws.

The usual one: a batch of 2, sizes that coincide, scale 1, shift 0, ids that do not repeat, no mask, no bias, no dropout
but in dropout itself, no target ignored, everything contiguous; a model at its initialisation. The rich one is a case of
the table, drawn like any other: nothing in it was written for a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.checks import draw_case
from equivalence_tests.ops import OPS, Op
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import init_gpt

B, H, N, D = 2, 2, 4, 8  # batch, heads, tokens, width; a head is N wide, and the vocabulary is D

# Found by trying the table's even cases in turn, which are the moderate ones: every operand and every option is given, and
# each option does something (a causal mask that hides some keys, a p between 0 and 1); no axis is 1; sizes differ; ids
# repeat, and some are absent (but not in a GPT, where such a case is large); some array is not contiguous. Then the
# smallest, since a numerical Jacobian has a column for each number. Broadcast arrays are out: gradcheck refuses memory that
# repeats.
RICH = {
    "softmax": 408,
    "log_softmax": 408,
    "layer_norm": 638,
    "linear": 1704,
    "relu": 292,
    "tanh": 292,
    "gelu": 292,
    "embedding": 1620,
    "dropout": 292,
    "attention": 377490,
    "simple_attention": 1672,
    "self_attention": 69872,
    "multi_head_attention": 1364418,
    "cross_entropy": 3020,
    "rnn": 6348,
    "gpt": 610,
    "gpt_loss": 74674,
    "generative_rnn": 7198,
    "generative_rnn_loss": 7198,
}


@dataclass(frozen=True, eq=False)
class Configuration:
    """An op's case under a name: "usual" or "rich". Compared by identity, so that what follows from it can be kept."""

    name: str
    op: Op
    case: Case


@cache
def usual(op: str, ones: bool = False) -> Configuration:
    """The case that people test; its upstream gradient is random, or ones as under `Y.sum()`. That of a loss is 1."""
    operands, options = USUAL[op](np.random.default_rng(0))
    case = Case(operands, options, _upstream(OPS[op], operands, options, ones))
    return Configuration("usual", OPS[op], case)


def _upstream(op: Op, operands: dict[str, Array], options: dict[str, Any], ones: bool) -> dict[str, Array]:
    """An upstream gradient of the shape of each output."""
    rng = np.random.default_rng(1)
    Y, _ = getattr(reference_numpy, op.name)(*op.arguments(operands), **options)
    shapes = [np.shape(each) for each in (Y if isinstance(Y, tuple) else (Y,))]
    draw = np.ones if ones or op.scalar else rng.standard_normal
    return {f"d{name}": np.asarray(draw(shape)) for name, shape in zip(op.outputs, shapes, strict=True)}


@cache
def rich(op: str) -> Configuration:
    """The table's case RICH[op]; its upstream gradient is random and dense."""
    return Configuration("rich", OPS[op], draw_case(OPS[op], 0, RICH[op]))


# The usual cases

Made = tuple[dict[str, Array], dict[str, Any]]


def _rows(rng: np.random.Generator) -> Made:
    return {"X": rng.standard_normal((B, N, D))}, {}


def _layer_norm(rng: np.random.Generator) -> Made:
    return {"X": rng.standard_normal((B, N, D)), "scale": np.ones(D), "shift": np.zeros(D)}, {}


def _linear(rng: np.random.Generator) -> Made:
    weight = rng.standard_normal((D, D)) / np.sqrt(D)
    return {"X": rng.standard_normal((B, N, D)), "weight": weight, "bias": np.zeros(D)}, {}


def _embedding(rng: np.random.Generator) -> Made:
    return {"ids": _distinct(rng), "weight": rng.standard_normal((D, N))}, {}


def _distinct(rng: np.random.Generator) -> Array:
    return rng.permutation(D).reshape(B, N)


def _dropout(rng: np.random.Generator) -> Made:
    return {"X": rng.standard_normal((B, N, D))}, {"keep": rng.random((B, N, D)) >= 0.5, "p": 0.5}


def _attention(rng: np.random.Generator) -> Made:
    return {name: rng.standard_normal((B, H, N, N)) for name in ("Q", "K", "V")}, {}


def _projected(rng: np.random.Generator, names: str) -> dict[str, Array]:
    weights = {name: rng.standard_normal((D, D)) / np.sqrt(D) for name in names.split()}
    return {"X": rng.standard_normal((B, N, D)), **weights}


def _self_attention(rng: np.random.Generator) -> Made:
    return _projected(rng, "Wq Wk Wv"), {}


def _multi_head_attention(rng: np.random.Generator) -> Made:
    return _projected(rng, "Wq Wk Wv Wo"), {"num_heads": H}


def _cross_entropy(rng: np.random.Generator) -> Made:
    return {"logits": rng.standard_normal((B, N, D)), "targets": rng.integers(0, D, (B, N))}, {}


def _rnn(rng: np.random.Generator) -> Made:
    shapes = {"W_ih": (N, N), "W_hh": (N, N), "b_ih": (N,), "b_hh": (N,)}
    bound = 1.0 / np.sqrt(N)  # as torch begins
    weights = {name: rng.uniform(-bound, bound, shape) for name, shape in shapes.items()}
    return {"X": rng.standard_normal((B, N, N)), **weights}, {}


def _gpt(rng: np.random.Generator) -> Made:
    config = GPTConfig(
        vocab_size=D, context_window=N, embedding_dim=N, num_layers=1, num_heads=H, head_dim=2, ff_factor=2, dropout=0.0
    )
    return {**init_gpt(config, rng, np.float64), "ids": _distinct(rng)}, {"config": config}


def _generative_rnn(rng: np.random.Generator) -> Made:
    config = RNNConfig(vocab_size=D, embedding_dim=N)
    return {**init_rnn(config, rng, np.float64), "ids": _distinct(rng)}, {"config": config}


def _with_targets(model: Callable[[np.random.Generator], Made]) -> Callable[[np.random.Generator], Made]:
    def made(rng: np.random.Generator) -> Made:
        operands, options = model(rng)
        return {**operands, "targets": _distinct(rng)}, options

    return made


USUAL: dict[str, Callable[[np.random.Generator], Made]] = {
    "softmax": _rows,
    "log_softmax": _rows,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "relu": _rows,
    "tanh": _rows,
    "gelu": _rows,
    "embedding": _embedding,
    "dropout": _dropout,
    "attention": _attention,
    "simple_attention": _rows,
    "self_attention": _self_attention,
    "multi_head_attention": _multi_head_attention,
    "cross_entropy": _cross_entropy,
    "rnn": _rnn,
    "gpt": _gpt,
    "gpt_loss": _with_targets(_gpt),
    "generative_rnn": _generative_rnn,
    "generative_rnn_loss": _with_targets(_generative_rnn),
}
