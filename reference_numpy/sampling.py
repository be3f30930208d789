"""From logits to the next token: the filters, the distribution that they leave, and the choice by one uniform number.

Every function is pure, takes float16, float32 or float64 and answers in float64. A token that may not be chosen has the
logit -inf, here as in what comes in; NaN, +inf and a row of -inf alone are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reference_numpy import _arguments, _check
from reference_numpy._check import Array
from reference_numpy.config import described
from reference_numpy.softmax import softmax

LOGITS = _check.Family(np.ndarray, "NumPy array", ("float16", "float32", "float64"))
HUGE, TINY = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
PENALTIES = ("count", "once")


@dataclass(frozen=True)
class SamplingConfig:
    """How the next token is chosen, in the order of `probabilities`; the defaults are source 2's where it has them.

    Raises TypeError or ValueError for a field of another type or out of its range.
    """

    temperature: float = described(0.8, "divides the logits; 0 takes the most probable token")
    top_k: int | None = described(50, "keep the k largest logits; above the vocabulary: all of them")
    top_p: float = described(1.0, "keep the fewest tokens that hold this much probability")
    min_p: float = described(0.0, "keep tokens at least this share as probable as the best one")
    repetition_penalty: float = described(1.01, "weakens tokens already seen; 1 turns it off")
    penalty: str = described("count", "count: once for each time a token was seen; once: once")
    no_repeat_ngram: int = described(0, "no sequence of this many tokens twice; 0 turns it off")
    banned: tuple[int, ...] = described((), "ids that are never chosen")
    max_tokens: int = described(256, "the most tokens added to the prompt")

    def __post_init__(self) -> None:
        _real("sampling", "temperature", self.temperature, zero=True)
        if self.top_k is not None:
            _arguments.integer("top_k", self.top_k, 1)
        _real("sampling", "top_p", self.top_p, zero=False, most=1.0)
        _real("sampling", "min_p", self.min_p, zero=True, most=1.0)
        _real("sampling", "repetition_penalty", self.repetition_penalty, zero=False)
        if self.penalty not in PENALTIES:
            raise ValueError(f"sampling: penalty is {self.penalty!r}, expected {' or '.join(PENALTIES)}")
        _arguments.integer("no_repeat_ngram", self.no_repeat_ngram, 0)
        if not isinstance(self.banned, tuple):
            raise TypeError(f"sampling: banned is a {type(self.banned).__name__}, expected a tuple of ids")
        for token in self.banned:
            _arguments.integer("banned", token, 0)
        _arguments.integer("max_tokens", self.max_tokens, 0)


def penalise(logits: Array, ids: Sequence[int] | Array, gamma: float, once: bool = False) -> Array:
    """l_a / gamma^count(a) where l_a > 0, else l_a gamma^count(a)

    logits: (v,), ids: (t,), every token so far, BOS and prompt included; count(a): how often a stands there, or with
    `once` whether it does. gamma > 1 makes what was seen less probable, whatever its sign.

    Source 2. A power beyond float64 stops at its largest (or smallest) number: no NaN, and no finite logit becomes -inf.
    Raises ValueError for gamma <= 0 or an id outside the vocabulary.
    """
    X = _logits("penalise", logits, "v")
    gamma = _real("penalise", "gamma", gamma, zero=False)
    seen, counts = np.unique(_ids("penalise", "ids", ids, X.size), return_counts=True)
    seen_logits = X[seen]
    with np.errstate(over="ignore"):
        powers = np.clip(gamma ** (1 if once else counts), TINY, HUGE)
        penalised = np.where(seen_logits > 0.0, seen_logits / powers, seen_logits * powers)
    X[seen] = np.where(np.isfinite(seen_logits), np.clip(penalised, -HUGE, HUGE), -np.inf)
    return X


def ban(logits: Array, banned: Sequence[int] | Array) -> Array:
    """-inf for every id of `banned`

    logits: (..., v), banned: (any number,). Raises ValueError for an id outside the vocabulary, or if no token is left.
    """
    X = _logits("ban", logits)
    X[..., _ids("ban", "banned", banned, X.shape[-1])] = -np.inf
    if not np.isfinite(X).any(-1).all():
        raise ValueError(f"ban: banned holds all the tokens there are ({len(banned)} ids), expected one to be left")
    return X


def block_ngrams(logits: Array, ids: Sequence[int] | Array, n: int) -> Array:
    """-inf for every token that would complete a sequence of n tokens which `ids` already holds

    logits: (v,), ids: (t,), every token so far. n = 0 blocks nothing; n = 1 lets no token come twice.

    Where that would leave no token at all, nothing is blocked: a ban is a rule, this is a wish.
    Raises ValueError for n < 0 or an id outside the vocabulary.
    """
    X = _logits("block_ngrams", logits, "v")
    n = _arguments.integer("n", n, 0)
    seen = _ids("block_ngrams", "ids", ids, X.size)
    if n == 0 or seen.size < n:
        return X
    ngrams = np.lib.stride_tricks.sliding_window_view(seen, n)
    ending = seen[seen.size - (n - 1) :]  # seen[-(n - 1) :] would be everything at n = 1
    blocked = X.copy()
    blocked[ngrams[(ngrams[:, :-1] == ending).all(-1), -1]] = -np.inf
    return blocked if np.isfinite(blocked).any() else X


def apply_temperature(logits: Array, temperature: float) -> Array:
    """(l - max l) / temperature

    logits: (..., v). At 0 its limit: 0 for the largest (the lowest id among equals), -inf for all others.

    Subtracting first lets any temperature > 0 through: what overflows is -inf, the limit again, and never NaN.
    Raises ValueError for a temperature below 0.
    """
    X = _logits("apply_temperature", logits)
    temperature = _real("apply_temperature", "temperature", temperature, zero=True)
    if temperature == 0.0:
        best = X.argmax(-1)[..., None]
        return np.where(np.arange(X.shape[-1]) == best, 0.0, -np.inf)
    with np.errstate(over="ignore"):
        divided: Array = _below_max(X) / temperature
    return divided


def top_k(logits: Array, k: int) -> Array:
    """The k largest logits; -inf for the others

    logits: (..., v). Exactly k stay (among equals the lowest ids), or fewer if fewer may be chosen: -inf is never one of
    them. k >= v keeps everything. Raises ValueError for k < 1.
    """
    X = _logits("top_k", logits)
    k = min(_arguments.integer("k", k, 1), X.shape[-1])
    cut = np.partition(X, -k, -1)[..., -k, None]  # the k-th largest, far faster than a sort
    larger, equal = cut < X, cut == X
    room = k - larger.sum(-1, keepdims=True)
    return np.where(larger | (equal & (equal.cumsum(-1) <= room)), X, -np.inf)


def top_p(logits: Array, p: float) -> Array:
    """The fewest most probable tokens that hold p of the probability; -inf for the others

    logits: (..., v). In descending order (the lowest id first among equals) a token stays while the sum BEFORE it is
    below p: so the one that crosses p stays, and the first always does. p = 1 keeps everything, whatever the rounding.
    Raises ValueError for p outside (0, 1].
    """
    X = _logits("top_p", logits)
    p = _real("top_p", "p", p, zero=False, most=1.0)
    if p == 1.0:
        return X
    order = np.argsort(-X, -1, kind="stable")
    P, _ = softmax(X)
    sums = np.take_along_axis(P, order, -1).cumsum(-1)
    before = np.concatenate([np.zeros_like(sums[..., :1]), sums[..., :-1]], -1)  # sums - P would round once more
    keep = np.zeros(X.shape, bool)
    np.put_along_axis(keep, order, before < p, -1)
    return np.where(keep, X, -np.inf)


def min_p(logits: Array, share: float) -> Array:
    """The tokens at least `share` times as probable as the most probable one; -inf for the others

    logits: (..., v). 0 keeps everything, 1 only what equals the largest. Raises ValueError for a share outside [0, 1].
    """
    X = _logits("min_p", logits)
    share = _real("min_p", "share", share, zero=True, most=1.0)
    return np.where(np.exp(_below_max(X)) >= share, X, -np.inf)


def probabilities(logits: Array, ids: Sequence[int] | Array, config: SamplingConfig) -> Array:
    """softmax of the logits after penalty, ban, n-gram blocking, temperature, top-k, top-p and min-p, in this order

    logits: (v,), ids: (t,), every token so far; the answer: float64 (v,), exactly 0 for what may not be chosen.

    Each filter sees what the one before it left: top-p measures the probabilities that top-k left, at the temperature.
    Temperature 0 and top_k = 1 are greedy: 1 for the largest penalised logit, the lowest id among equals.
    Raises as the single steps do.
    """
    X = _logits("probabilities", logits, "v")
    X = penalise(X, ids, config.repetition_penalty, once=config.penalty == "once")
    X = block_ngrams(ban(X, config.banned), ids, config.no_repeat_ngram)
    X = apply_temperature(X, config.temperature)
    if config.top_k is not None:
        X = top_k(X, config.top_k)
    return softmax(min_p(top_p(X, config.top_p), config.min_p))[0]


def choose(probabilities: Array, uniform: float) -> int:
    """The smallest id whose cumulative probability is above `uniform`

    probabilities: (v,), summing to 1; uniform: a number in [0, 1), so that each token has its share of the numbers.

    Never a token of probability 0: where rounding leaves the last sum at or below `uniform`, the last possible token.
    Raises ValueError for probabilities that are negative or do not sum to 1, or for a number outside [0, 1).
    """
    _check.floats("choose", LOGITS, probabilities=probabilities)
    v = _check.shapes("choose", probabilities=(probabilities, "v"))["v"]
    uniform = _check.number("choose", "uniform", uniform)
    if not 0.0 <= uniform < 1.0:
        raise ValueError(f"choose: uniform is {uniform}, expected a number from 0 to 1, without 1 itself")
    P = np.array(probabilities, np.float64)
    wrong = np.isnan(P) | (P < 0.0)
    if wrong.any():
        raise ValueError(f"choose: probabilities holds {P[wrong][0]}, expected numbers from 0 to 1")
    cumulative = P.cumsum()
    rounding = (v + 1) * float(np.finfo(probabilities.dtype).eps)  # of a softmax in this dtype, and of the sum here
    if not abs(cumulative[-1] - 1.0) <= rounding:
        raise ValueError(f"choose: probabilities sums to {cumulative[-1]}, expected 1")
    found = int(np.searchsorted(cumulative, uniform, side="right"))
    return min(found, int(np.flatnonzero(P)[-1]))


def _real(part: str, name: str, value: Any, zero: bool, most: float = math.inf) -> float:
    """A number from 0 to `most`, 0 itself only with `zero`."""
    real = _check.number(part, name, value)
    if not 0.0 <= real <= most or (real == 0.0 and not zero):
        expected = ("from 0" if zero else "above 0") + (f" to {most:g}" if most < math.inf else "")
        raise ValueError(f"{part}: {name} is {real}, expected a number {expected}")
    return real


def _logits(part: str, logits: Any, pattern: str = "... v") -> Array:
    """A float64 copy of logits that leave something to choose."""
    _check.floats(part, LOGITS, logits=logits)
    _check.shapes(part, logits=(logits, pattern))
    X = np.array(logits, np.float64)
    wrong = np.isnan(X) | np.isposinf(X)
    if wrong.any():
        raise ValueError(f"{part}: logits holds {X[wrong][0]}, expected finite numbers or -inf")
    if not np.isfinite(X).any(-1).all():
        raise ValueError(f"{part}: logits holds a row of -inf alone, expected at least one finite number")
    return X


def token_ids(name: str, ids: Any) -> Array:
    """(t,) ids as int64; a list will do, and an empty one too."""
    try:
        array = np.asarray(ids)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name}: sequences of different lengths came, expected one sequence of ids") from None
    if array.ndim != 1:
        raise ValueError(f"{name}: shape {array.shape} came, expected one sequence of ids")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: {array.dtype} came, expected integers")
    found = array.astype(np.int64)
    if (found < 0).any():
        raise ValueError(f"{name}: {found.min()} came, expected ids from 0")
    return found


def _ids(part: str, name: str, ids: Any, upper: int) -> Array:
    found = token_ids(name, ids)
    _check.integers(part, name, found, upper)
    return found


def _below_max(X: Array) -> Array:
    with np.errstate(over="ignore"):  # -huge - huge is -inf, its limit
        below: Array = X - X.max(-1, keepdims=True)
    return below
