"""A head of a trained GPT in place of a drawn one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equivalence_tests.explain.head import Given, check_seed, check_size
from equivalence_tests.generate import load
from reference_numpy.config import GPTConfig
from reference_numpy.gpt import gpt

MOST_COLUMNS = 64


def trained(path: Path, text: str, block: int, head: int, seed: int = 0) -> Given:
    """What a block of the model at `path` gives to one of its heads on a text, and the head's own Wq, Wk, Wv; float64.

    dC is drawn from `seed`. ValueError for what is no GPT, has no such block or head, or is more than a page can show.
    """
    check_seed(seed)
    learner, tokenizer = load(path, "numpy", "cpu")
    config = learner.config
    if not isinstance(config, GPTConfig):
        raise ValueError(f"--checkpoint: {path} holds an rnn, expected a gpt: an rnn has no attention")
    for what, number, most in (("--block", block, config.num_layers), ("--head-number", head, config.num_heads)):
        if not 1 <= number <= most:
            raise ValueError(f"{what}: {number} came, expected 1 to {most}")
    check_size(f"columns of X in {path}", config.embedding_dim, MOST_COLUMNS)
    check_size(f"columns of Q in {path}", config.head_dim, MOST_COLUMNS)
    ids = [tokenizer.bos_id, *tokenizer.encode(text)]
    check_size("words and signs, with the beginning", len(ids))
    params = {name: array.astype(np.float64) for name, array in learner.snapshot()[0].items()}
    _, (_, _, _, block_caches, *_) = gpt(params, np.array(ids), config)
    X, *projections, _, _, _ = block_caches[block - 1][1]  # X, Wq, Wk, Wv, Wo, merged, and the cache of attention
    columns = slice((head - 1) * config.head_dim, head * config.head_dim)
    Wq, Wk, Wv = (W[:, columns].copy() for W in projections)
    dC = np.random.default_rng([seed, 1]).standard_normal((len(ids), config.head_dim))
    words = [tokenizer.vocabulary[i] for i in ids]
    return Given(words, seed, {"X": X, "Wq": Wq, "Wk": Wk, "Wv": Wv, "dC": dC}, block, head)
