"""One head of attention on real words: every matrix of it, in every position of the page's switches.

The page computes nothing. What it shows is computed here, by the reference, for all positions beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.walk import WIDTH_Q, WIDTH_X, embed
from reference_numpy import attention_stages, self_attention, self_attention_backward, softmax_backward

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST = 24  # words, and columns of X and Q: of more, nobody reads the matrix


@dataclass(frozen=True)
class Given:
    """Where a head begins: X, Wq, Wk, Wv and dC by their names, and the words that X stands for.

    `block` and `head` count from 1 in a trained model; 0 if all was drawn.
    """

    words: list[str]
    seed: int
    matrices: dict[str, Array]
    block: int = 0
    head: int = 0


@dataclass(frozen=True)
class State:
    """One position of the switches: `scale` = (1/sqrt(c) or 1) / temperature, and every matrix by its name.

    J: (n, n, n), J[i] the Jacobian of row i of the softmax; the others as in `attention_stages`.
    """

    causal: bool
    scaled: bool
    temperature: float
    scale: float
    matrices: dict[str, Array]


def drawn(words: Sequence[str], seed: int = 0, d: int = WIDTH_X, c: int = WIDTH_Q) -> Given:
    """X, Wq, Wk, Wv and dC as `gemelos verify` draws them from the same seed."""
    for what, size in (("words", len(words)), ("--width", d), ("--head", c)):
        check_size(what, size)
    check_seed(seed)
    rng = np.random.default_rng([seed, 1])
    Wq, Wk, Wv = rng.standard_normal((3, d, c)) / math.sqrt(d)
    dC = rng.standard_normal((len(words), c))
    return Given(list(words), seed, {"X": embed(words, seed, d), "Wq": Wq, "Wk": Wk, "Wv": Wv, "dC": dC})


def check_size(what: str, size: int, most: int = MOST) -> None:
    if not 1 <= size <= most:
        raise ValueError(f"{what}: {size} came, expected 1 to {most}, which a page can show")


def check_seed(seed: int) -> None:
    if seed < 0:
        raise ValueError(f"--seed: {seed} came, expected at least 0")


def states(given: Given) -> list[State]:
    """Every position of the switches, with all that the reference computes in it."""
    c = given.matrices["Wq"].shape[1]
    return [
        State(causal, scaled, T, scale := (1.0 / math.sqrt(c) if scaled else 1.0) / T, head(given, causal, scale))
        for causal, scaled, T in product((False, True), (True, False), TEMPERATURES)
    ]


def head(given: Given, causal: bool, scale: float) -> dict[str, Array]:
    """Every matrix of a head by its name, forward and backward, from X, Wq, Wk, Wv and dC."""
    X, Wq, Wk, Wv, dC = (given.matrices[name] for name in ("X", "Wq", "Wk", "Wv", "dC"))
    Q, K, V = X @ Wq, X @ Wk, X @ Wv
    stages = attention_stages(Q, K, V, dC, causal=causal, scale=scale)
    _, cache = self_attention(X, Wq, Wk, Wv, causal=causal, scale=scale)
    gradients = dict(zip(("dX", "dWq", "dWk", "dWv"), self_attention_backward(dC, cache), strict=True))
    J = jacobians(stages.A)
    return {**given.matrices, "Q": Q, "K": K, "V": V, **stages._asdict(), **gradients, "J": J}


def jacobians(A: Array) -> Array:
    """J_i[j, k] = dA_{i,j} / dS_{i,k}: the backward of softmax, fed with every unit vector

    A: (n, m), J: (n, m, m).
    """
    n, m = A.shape
    units = np.broadcast_to(np.eye(m), (n, m, m))
    return softmax_backward(units, (np.repeat(A[:, None, :], m, 1), -1))
