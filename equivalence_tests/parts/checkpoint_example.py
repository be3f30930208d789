"""A checkpoint with everything that could get lost, and what of two checkpoints differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from reference_numpy.checkpoint import Checkpoint
from reference_numpy.tokenizer import Tokenizer

ODD = [np.nan, np.inf, -np.inf, -0.0, 1e-310, 1.0 + 2.0**-52]
MOMENTS = ("exp_avg", "exp_avg_sq")


def example(dtype: str = "float64", steps: int = 3, seed: int = 0) -> Checkpoint:
    """Small, with every shape and number that could get lost; steps = 0 has no optimizer state."""
    rng = np.random.default_rng(seed)
    tokenizer = Tokenizer(["ñ", "a", "\n", "z", "<"], lower=True, nfc=True)  # not sorted
    params = {
        "lm_head.weight": rng.standard_normal((3, 5)).astype(dtype),
        "a/b": np.asarray(ODD, dtype),
        "scalar": np.asarray(0.1, dtype),
        "none": np.zeros((0, 2), dtype),
        "columns": rng.standard_normal((4, 6)).astype(dtype).T[::2],
        "square": rng.standard_normal((4, 4)).astype(dtype),  # transposed, its shape would be the same
        "square columns": np.asfortranarray(rng.standard_normal((3, 3)).astype(dtype)),
    }
    state: dict[str, Any] = {}
    if steps:
        moments = {moment: {name: np.square(p.copy()) for name, p in params.items()} for moment in MOMENTS}
        moments["exp_avg"] = {name: np.asarray(-v) for name, v in moments["exp_avg"].items()}
        state = {"step": steps, **{moment: {n: np.asarray(v) for n, v in x.items()} for moment, x in moments.items()}}
    training = {"seed": 2**100, "epoch": 3, "lr": 0.1, "history": [[1, 2.5e-300]], "note": "ñ\n\ud800", "best": None}
    config = {"vocab_size": tokenizer.vocab_size, "dropout": 0.1, "tied_head": False}
    return Checkpoint("gpt", config, tokenizer, params, state, training)


def difference(got: Checkpoint, right: Checkpoint) -> str:
    """Nothing, or what of two checkpoints is not the same, to the last bit."""
    for name in ("model", "config", "training"):
        if repr(getattr(got, name)) != repr(getattr(right, name)):
            return f"{name} is {getattr(got, name)!r}"
    if (got.tokenizer.vocabulary, got.tokenizer.options()) != (right.tokenizer.vocabulary, right.tokenizer.options()):
        return f"the tokenizer has {got.tokenizer.vocabulary} and {got.tokenizer.options()}"
    if got.state.keys() != right.state.keys() or got.state.get("step") != right.state.get("step"):
        return f"the state has {sorted(got.state)} and step {got.state.get('step')}"
    for what, arrays, exact in (
        ("params", got.params, right.params),
        *((moment, got.state.get(moment, {}), right.state.get(moment, {})) for moment in MOMENTS),
    ):
        if list(arrays) != list(exact):
            return f"{what} has the names {list(arrays)}"
        for name, array in arrays.items():
            if (array.dtype, array.shape) != (exact[name].dtype, exact[name].shape):
                return f"{what}[{name!r}] is {array.dtype} {array.shape}"
            if array.tobytes() != exact[name].tobytes():
                return f"{what}[{name!r}] has other numbers"
    return ""


@contextmanager
def folder_of_its_own() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)
