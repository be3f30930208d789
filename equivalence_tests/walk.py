"""The walk: self-attention on real words, stage by stage, forward and backward, both twins side by side.

Nothing is judged here, everything is shown; the table of ops judges.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from rich.console import Console

from equivalence_tests.arithmetic import Array
from equivalence_tests.counting import count_products
from equivalence_tests.matrix_text import matrix_lines, printable
from reference_numpy import attention_stages, embedding, self_attention, self_attention_backward

WIDTH_X = 6  # d
WIDTH_Q = 4  # c
MOST_WORDS = 512
ROUNDOFF = 2.0**-53


class WalkResult(TypedDict):
    """What the walk found; differences are in roundoffs (2^-53) of the scale of their matrix."""

    words: list[str]
    n: int
    d: int
    c: int
    seed: int
    torch: bool
    products: int
    transpositions: int
    dot_products: int
    loops: float  # the loops of source 1 against the one matrix product
    differences: dict[str, float]  # stage -> largest difference between the twins; empty without torch
    A: Array


def read_words(text: str, path: object = None) -> list[str]:
    """The words between white space, 1 to 512 of them; `path` is where the text was read from, if it was."""
    words = text.split()
    source = f"--file: {path} holds" if path is not None else "--text: there"
    if not 1 <= len(words) <= MOST_WORDS:
        verb = " are" if path is None else ""
        raise ValueError(f"{source}{verb} {len(words)} words, expected 1 to {MOST_WORDS}")
    return words


def embed(words: Sequence[str], seed: int, d: int = WIDTH_X) -> Array:
    """x_t = token_embedding[word_t] + position_embedding[t]

    X: (n, d). One token row for each distinct word, in the order of the sorted vocabulary; all rows are drawn from `seed`.
    """
    ids, tokens, positions, places = _embedding_inputs(words, seed, d)
    X: Array = embedding(ids, tokens)[0] + embedding(positions, places)[0]
    return X


def walk(words: Sequence[str], seed: int, say: Console) -> WalkResult:
    """Print every stage of self-attention on `words`, forward and backward, and return what was found. d = 6, c = 4."""
    words = list(words)
    n, d, c = len(words), WIDTH_X, WIDTH_Q
    rng = np.random.default_rng([seed, 1])  # embed draws from `seed` itself
    Wq, Wk, Wv = rng.standard_normal((3, d, c)) / math.sqrt(d)
    dC = rng.standard_normal((n, c))
    X = embed(words, seed)
    ours = _numpy_twin(X, Wq, Wk, Wv, dC)
    theirs = _torch_twin(_embedding_inputs(words, seed, d), Wq, Wk, Wv, dC)
    page = _Page(say, words, ours, theirs)

    page.text(f"{_many(n, 'word')}, d = {d}, c = {c}, float64, seed {seed}.")
    if theirs is None:
        page.text("torch is not installed: the NumPy twin walks alone.")
    else:
        page.text("Differences are between the twins, in roundoffs: 2^-53 of the largest number in the matrix.")
    page.title("Forward")
    page.stage("X", "x_t = token_embedding[word_t] + position_embedding[t]")
    page.stage("Q", "Q = X Wq")
    page.stage("K", "K = X Wk")
    page.stage("V", "V = X Wv")
    page.stage("Omega", "Omega = Q K^T", keys=True)
    page.stage("scaled", "Omega / sqrt(c)", keys=True)
    page.stage("A", "A = softmax(Omega / sqrt(c)), row by row", keys=True, sums=True)
    page.stage("C", "C = A V")

    page.title("Loops against matrices")
    looped, dot_products = loops(X, Wq, Wk)
    loop_difference = roundoffs(looped, ours["Omega"], _scale("Omega", ours))
    page.equation("omega_{m,p} = q_m . k_p,  q_m = x_m Wq,  k_p = x_p Wk")
    page.text(f"One at a time: {_many(dot_products, 'dot product')}, against Q K^T at once.")
    page.text(f"Largest difference: {loop_difference:.2g} roundoffs.")
    page.gap()
    products, transpositions = count_products(self_attention, X, Wq, Wk, Wv)
    page.equation("C = softmax(X Wq (X Wk)^T / sqrt(c)) X Wv")
    page.text(f"Counted while it ran: {_many(products, 'product')}, {_many(transpositions, 'transposition')}.")
    page.text("Source 1 says: 5 products, 1 transposition, for all words.")

    page.title("Backward")
    page.stage("dC", "dC: the gradient that arrives at C, drawn at random")
    page.stage("dV", "dV = A^T dC")
    page.stage("dA", "dA = dC V^T", keys=True)
    page.stage("delta", "delta_m = sum_p A_{m,p} dA_{m,p}")
    page.stage("dS", "dS = A (dA - delta), and its rows sum to 0", keys=True, sums=True)
    page.stage("dOmega", "dOmega = dS / sqrt(c)", keys=True)
    page.stage("dQ", "dQ = dOmega K")
    page.stage("dK", "dK = dOmega^T Q")
    page.stage("dX", "dX = dQ Wq^T + dK Wk^T + dV Wv^T")
    paths = (ours["dQ"] @ Wq.T, ours["dK"] @ Wk.T, ours["dV"] @ Wv.T)
    query, key, value = (float(np.linalg.norm(path)) for path in paths)
    page.text(f"Three paths, by their norms: query {query:.3f}, key {key:.3f}, value {value:.3f}.")
    for name in ("dWq", "dWk", "dWv"):
        page.stage(name, f"{name} = X^T d{name[-1].upper()}", labels=[f"x {i}" for i in range(1, d + 1)])
    return WalkResult(
        words=words,
        n=n,
        d=d,
        c=c,
        seed=seed,
        torch=theirs is not None,
        products=products,
        transpositions=transpositions,
        dot_products=dot_products,
        loops=loop_difference,
        differences=page.differences,
        A=ours["A"],
    )


def loops(X: Array, Wq: Array, Wk: Array) -> tuple[Array, int]:
    """omega_{m,p} = q_m . k_p, one dot product at a time; Omega (n, n) and how many dot products it took"""
    taken = 0

    def dot(x: Array, y: Array) -> float:
        nonlocal taken
        taken += 1
        return float(np.dot(x, y))

    n, c = len(X), Wq.shape[1]
    q = np.array([[dot(X[m], Wq[:, j]) for j in range(c)] for m in range(n)])
    k = np.array([[dot(X[p], Wk[:, j]) for j in range(c)] for p in range(n)])
    Omega = np.empty((n, n))
    for m in range(n):
        for p in range(n):
            Omega[m, p] = dot(q[m], k[p])
    return Omega, taken


def roundoffs(got: Array, wanted: Array, scale: float) -> float:
    """The largest |got - wanted|, in units of 2^-53 scale; 0 where nothing differs, whatever the scale."""
    largest = float(np.abs(got - wanted).max())
    return largest / (ROUNDOFF * scale) if largest else 0.0


def _embedding_inputs(words: Sequence[str], seed: int, d: int) -> tuple[Array, Array, Array, Array]:
    """ids (n,), token_embedding (distinct words, d), positions (n,), position_embedding (n, d)"""
    row = {word: i for i, word in enumerate(sorted(set(words)))}
    rng = np.random.default_rng(seed)
    token_embedding = rng.standard_normal((len(row), d))
    position_embedding = rng.standard_normal((len(words), d))
    return np.array([row[word] for word in words]), token_embedding, np.arange(len(words)), position_embedding


def _numpy_twin(X: Array, Wq: Array, Wk: Array, Wv: Array, dC: Array) -> dict[str, Array]:
    Q, K, V = X @ Wq, X @ Wk, X @ Wv
    stages = attention_stages(Q, K, V, dC)
    _, cache = self_attention(X, Wq, Wk, Wv)
    gradients = dict(zip(("dX", "dWq", "dWk", "dWv"), self_attention_backward(dC, cache), strict=True))
    return {"X": X, "Q": Q, "K": K, "V": V, "dC": dC, **stages._asdict(), **gradients}


def _torch_twin(inputs: Sequence[Array], Wq: Array, Wk: Array, Wv: Array, dC: Array) -> dict[str, Array] | None:
    """The same stages from torch's twin, the last four gradients by autograd; None where torch is not installed."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    twin: Any = importlib.import_module("torch_impl")
    ids, tokens, positions, places = map(torch.from_numpy, inputs)
    X = (twin.embedding(ids, tokens) + twin.embedding(positions, places)).requires_grad_()
    weights = [torch.from_numpy(W.copy()).requires_grad_() for W in (Wq, Wk, Wv)]
    upstream = torch.from_numpy(dC.copy())
    Q, K, V = (X @ W for W in weights)
    stages = twin.attention_stages(Q, K, V, upstream)
    gradients = torch.autograd.grad(twin.self_attention(X, *weights), [X, *weights], upstream)
    named = dict(zip(("dX", "dWq", "dWk", "dWv"), gradients, strict=True))
    everything = {"X": X, "Q": Q, "K": K, "V": V, "dC": upstream, **stages._asdict(), **named}
    return {name: tensor.detach().numpy() for name, tensor in everything.items()}


def _scale(name: str, stages: dict[str, Array]) -> float:
    """The largest number in the matrix; from dS on, where dA and delta cancel, the largest of what cancels.

    With one word dS is exactly 0, and a difference in roundoffs of 0 would say nothing.
    """

    def top(stage: str) -> float:
        return float(np.abs(stages[stage]).max())

    cancels = float((stages["A"] * np.abs(stages["dA"])).max())
    reach = cancels / math.sqrt(stages["Q"].shape[-1])
    floor = {"dS": cancels, "dOmega": reach, "dQ": reach * top("K"), "dK": reach * top("Q")}
    floor |= {"dWq": reach * top("K") * top("X"), "dWk": reach * top("Q") * top("X")}
    return max(top(name), floor.get(name, 0.0))


class _Page:
    """Prints titles, equations and matrices within the width of the console, and remembers the differences."""

    def __init__(
        self, say: Console, words: Sequence[str], ours: dict[str, Array], theirs: dict[str, Array] | None
    ) -> None:
        self.say, self.ours, self.theirs = say, ours, theirs
        self.words = [printable(word) for word in words]
        self.differences: dict[str, float] = {}

    def text(self, line: str) -> None:
        if self.say.options.ascii_only:
            line = line.replace("…", "~").encode("ascii", "replace").decode()
        self.say.print(line, markup=False, highlight=False, emoji=False)

    def gap(self) -> None:
        self.say.print()

    def title(self, line: str) -> None:
        self.gap()
        self.text(line)
        self.text("-" * len(line))

    def equation(self, line: str) -> None:
        self.text(line)

    def stage(
        self, name: str, equation: str, *, keys: bool = False, sums: bool = False, labels: list[str] | None = None
    ) -> None:
        """The equation; the corner of the matrix, from both twins where the width allows; the largest difference."""
        M = self.ours[name]
        other = None if self.theirs is None else self.theirs[name]
        self.gap()
        self.equation(equation)
        for line in matrix_lines(
            M, self.words if labels is None else labels, self.say.width, other, self.words if keys else None, sums
        ):
            self.text(line)
        if sums:
            total = 1.0 if name == "A" else 0.0
            off = float(np.abs(M.sum(-1) - total).max())
            self.text(f"Row sums: {total:.0f}, " + (f"but for {off:.1e} at most." if off else "exactly."))
        if other is not None and name != "dC":  # which is given, to both
            self.differences[name] = roundoffs(M, other, _scale(name, self.ours))
            self.text(f"Largest difference: {self.differences[name]:.2g} roundoffs.")


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
