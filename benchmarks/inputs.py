"""The inputs of every work, from its seed: random and dense, at realistic scales, the same in every process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks import ceilings
from benchmarks.rows import Sizes
from benchmarks.work import Inputs, Work
from equivalence_tests.arithmetic import Array
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import dropout_masks, init_gpt

DROPOUT = 0.1  # of the op `dropout`
ROWWISE = ("softmax", "log_softmax")
ELEMENTWISE = ("relu", "tanh", "gelu", "dropout")
MODELS = ("gpt", "gpt_loss", "generative_rnn", "generative_rnn_loss")
STEPS = ("gpt_step", "rnn_step")
UPSTREAM = {
    "attention": "dC",
    "simple_attention": "dC",
    "self_attention": "dC",
    "softmax": "dA",
    "cross_entropy": "dloss",
}


def sizes_of(op: str, B: int, H: int, n: int, c: int, v: int) -> Sizes:
    """An op's own sizes, of those of a model with H heads of width c, n tokens in a row and v words."""
    d = H * c
    known: dict[str, Sizes] = {
        "softmax": {"B": B * H, "n": n, "m": n},
        "log_softmax": {"B": B, "n": n, "m": v},
        "linear": {"B": B, "n": n, "d": d, "k": 4 * d},
        "embedding": {"B": B, "n": n, "d": d, "v": v},
        "attention": {"B": B, "H": H, "n": n, "c": c},
        "attention_stages": {"B": B, "H": H, "n": n, "c": c},
        "self_attention": {"B": B, "n": n, "d": d, "c": c},
        "multi_head_attention": {"B": B, "n": n, "d": d, "H": H, "c": c},
        "cross_entropy": {"B": B, "n": n, "v": v},
        "rnn": {"B": B, "n": n, "d": d, "k": d},
        "gpt": {"B": B, "n": n, "d": d, "H": H, "c": c, "L": 2, "v": v, "dropout": 0.0},
        "generative_rnn": {"B": B, "n": n, "d": d, "v": v},
    }
    name = op.removesuffix("_loss")
    return known.get(name, {"B": B, "n": n, "d": d} | ({"dropout": DROPOUT} if op == "dropout" else {}))


def inputs_of(work: Work) -> tuple[Inputs, dict[str, Any]]:
    """The arrays and the keyword options of a work, as benchmarks.work says."""
    if work.work in ceilings.WORKS:
        return ceilings.inputs_of(work), {}
    rng = np.random.default_rng(work.seed)
    dtype = np.dtype(np.float64 if work.dtype == "float64" else np.float32)
    if work.work in (*STEPS, *MODELS, "generate"):
        return _model(work, rng, dtype)
    arrays, options = _op(work, rng)
    floating = {name: X.astype(dtype) if X.dtype == np.float64 else X for name, X in arrays.items()}
    return floating, options


def config_of(work: Work, window: int) -> GPTConfig | RNNConfig:
    """A GPT's configuration where there are layers, otherwise an RNN's."""
    sizes = work.sizes
    whole = {name: int(value) for name, value in sizes.items() if name != "dropout"}
    if "L" not in whole:
        return RNNConfig(whole["v"], whole["d"])
    return GPTConfig(
        vocab_size=whole["v"],
        context_window=window,
        embedding_dim=whole["d"],
        num_layers=whole["L"],
        num_heads=whole["H"],
        head_dim=whole["c"],
        dropout=float(sizes.get("dropout", 0.0)),
        tied_head=bool(work.extra.get("tied", False)),
    )


def _model(work: Work, rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Inputs, dict[str, Any]]:
    sizes = work.sizes
    B, n, v = (int(sizes[name]) for name in "Bnv")
    added = int(work.extra.get("tokens", 0))
    config = config_of(work, n + added)
    if isinstance(config, GPTConfig):
        params = init_gpt(config, rng, dtype)
    else:
        params = init_rnn(config, rng, dtype)
    arrays: Inputs = {**params, "ids": rng.integers(0, v, (B, n))}
    options: dict[str, Any] = {"config": config}
    if work.work == "generate":
        return arrays, options | {"tokens": added, "cache": bool(work.extra.get("cache", True))}
    if work.work in ("gpt", "generative_rnn"):
        return arrays | {"dlogits": rng.standard_normal((B, n, v)).astype(dtype)}, options
    arrays["targets"] = rng.integers(0, v, (B, n))
    if work.work in MODELS:
        arrays["dloss"] = np.asarray(1.0, dtype)
    if isinstance(config, GPTConfig) and work.work != "gpt_loss":
        options["keep"] = dropout_masks(config, (B, n), rng) if config.dropout else None
    return arrays, options


def _op(work: Work, rng: np.random.Generator) -> tuple[Inputs, dict[str, Any]]:
    """In float64."""
    op, sizes = work.work, {name: int(value) for name, value in work.sizes.items() if name != "dropout"}
    B, n, d = sizes.get("B", 1), sizes.get("n", 1), sizes.get("d", 1)

    def normal(*shape: int, inputs: int = 1) -> Array:
        X: Array = rng.standard_normal(shape) / math.sqrt(inputs)
        return X

    if op in ROWWISE:
        return {"X": 2.0 * normal(B, n, sizes["m"]), _upstream(op): normal(B, n, sizes["m"])}, {}
    if op in ELEMENTWISE:
        options = {"keep": rng.random((B, n, d)) >= DROPOUT, "p": DROPOUT} if op == "dropout" else {}
        return {"X": normal(B, n, d), "dY": normal(B, n, d)}, options
    if op == "layer_norm":
        return {"X": normal(B, n, d), "scale": 1.0 + 0.1 * normal(d), "shift": normal(d), "dY": normal(B, n, d)}, {}
    if op == "linear":
        k = sizes["k"]
        operands = {"X": normal(B, n, d), "weight": normal(k, d, inputs=d), "bias": normal(k)}
        return operands | {"dY": normal(B, n, k)}, {}
    if op == "embedding":
        ids = rng.integers(0, sizes["v"], (B, n))
        return {"ids": ids, "weight": normal(sizes["v"], d), "dY": normal(B, n, d)}, {}
    if op == "cross_entropy":
        v = sizes["v"]
        targets = rng.integers(0, v, (B, n))
        return {"logits": 2.0 * normal(B, n, v), "targets": targets, "dloss": np.asarray(1.0)}, {}
    if op == "rnn":
        k = sizes["k"]
        operands = {"X": normal(B, n, d), "W_ih": normal(k, d, inputs=4 * d), "W_hh": normal(k, k, inputs=4 * k)}
        operands |= {"b_ih": 0.1 * normal(k), "b_hh": 0.1 * normal(k), "h0": 0.1 * normal(B, k)}
        return operands | {"dH": normal(B, n, k), "dh_last": normal(B, k)}, {}
    return _attending(work, sizes, normal)


def _attending(work: Work, sizes: dict[str, int], normal: Any) -> tuple[Inputs, dict[str, Any]]:
    op, B, n = work.work, sizes["B"], sizes["n"]
    options: dict[str, Any] = {"causal": True} if work.extra.get("causal", True) else {}
    if op == "simple_attention":
        d = sizes["d"]
        # X is query and key, unscaled: longer rows than 1 would see themselves alone, and the backward only roundings
        return {"X": normal(B, n, d, inputs=d), "dC": normal(B, n, d)}, {}
    if op in ("attention", "attention_stages"):
        shape = (B, sizes["H"], n, sizes["c"])
        return {name: normal(*shape) for name in ("Q", "K", "V", "dC")}, options
    d, c = sizes["d"], sizes["c"]
    width = c * sizes.get("H", 1)
    operands = {"X": normal(B, n, d), **{name: normal(d, width, inputs=d) for name in ("Wq", "Wk", "Wv")}}
    if op == "self_attention":
        return operands | {"dC": normal(B, n, c)}, options
    operands["Wo"] = normal(width, d, inputs=width)
    return operands | {"dY": normal(B, n, d)}, {"num_heads": sizes["H"], **options}


def _upstream(op: str) -> str:
    return UPSTREAM.get(op, "dY")


def case_of(op: Any, arrays: Inputs) -> tuple[Inputs, Inputs]:
    """Operands and upstream gradients apart."""
    names = [f"d{name}" for name in op.outputs] if op.differentiable else []
    return (
        {name: X for name, X in arrays.items() if name not in names},
        {name: X for name, X in arrays.items() if name in names},
    )
