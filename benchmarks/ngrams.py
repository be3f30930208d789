"""An n-gram language model with interpolated Kneser-Ney smoothing: what the neural models are measured against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reference_numpy import _arguments, _check
from reference_numpy._check import Array
from reference_numpy.sampling import token_ids

Ngram = tuple[int, ...]
Followers = tuple[Array, Array, float]  # ids seen after a context, their discounted shares, what is left for the rest


class KneserNey:
    """P_n(w | h) = (a(h w) - D_n [a(h w) > 0]) / a(h .) + D_n N(h) / a(h .) P_{n-1}(w | h without its first token)

    stories: 1-D sequences of ids that begin with bos_id; h: the n - 1 tokens before w; N(h): the different tokens seen
    after h; a(h .): the sum of a(h w) over w. P_0 is uniform over every id but bos_id and pad_id, so that those two
    have probability exactly 0 (nothing ever predicts them) and every other id more than 0.

    a is the count at the highest order. Below it is the number of different tokens seen before h w, Kneser and Ney's
    point: a word that only ever follows one other says little about where else it may stand. An n-gram that begins with
    <BOS> has nothing before it and keeps its count. After a context never seen, P_n is P_{n-1}; so it is at the
    beginning of a story, where the context is still shorter than n - 1.
    D_n = n_1 / (n_1 + 2 n_2), with n_k the number of n-grams of this order with a = k; 1/2 where n_1 or n_2 is 0, which
    happens in the smallest texts alone: 0 would leave nothing for what was never seen.

    Kneser and Ney 1995; interpolated as in Chen and Goodman 1999, with one discount an order.
    Raises TypeError or ValueError for ids that are none, out of range or <PAD>, a story that does not begin with <BOS>
    or holds it again, no story with a token to predict, an order below 1.
    """

    def __init__(
        self, stories: Sequence[Sequence[int] | Array], order: int, *, vocab_size: int, bos_id: int, pad_id: int
    ) -> None:
        self.order = _arguments.integer("order", order, 1)
        self.vocab_size = _arguments.integer("vocab_size", vocab_size, 3)
        self.bos_id, self.pad_id = _arguments.integer("bos_id", bos_id, 0), _arguments.integer("pad_id", pad_id, 0)
        if self.bos_id == self.pad_id or max(self.bos_id, self.pad_id) >= self.vocab_size:
            expected = f"two different ids from 0 to {self.vocab_size - 1}"
            raise ValueError(f"bos_id, pad_id: {self.bos_id} and {self.pad_id} came, expected {expected}")
        counts = self._counts([self._story("stories", story) for story in stories])
        if not counts[0]:
            raise ValueError(f"stories: {len(stories)} without a token after <BOS> came, expected at least one")
        uniform = np.full(self.vocab_size, 1.0 / (self.vocab_size - 2))
        uniform[[self.bos_id, self.pad_id]] = 0.0
        self._uniform = uniform
        self.discounts = tuple(_discount(adjusted) for adjusted in counts)
        self._followers = [_followers(each, D) for each, D in zip(counts, self.discounts, strict=True)]
        self.num_ngrams = sum(len(each) for each in counts)

    def next_distribution(self, context: Sequence[int] | Array) -> Array:
        """P(w | context) for every id w: float64 (vocab_size,), summing to 1

        context: (t,) ids, all the tokens so far; the last order - 1 count, and a shorter one is answered by a lower order.
        """
        history = token_ids("context", context)
        _check.integers("next_distribution", "context", history, self.vocab_size)
        return self._distribution(tuple(history[max(0, history.size - self.order + 1) :].tolist()))

    def log_probs(self, story: Sequence[int] | Array) -> Array:
        """log P(story_t | the tokens before it) for every t but 0, which is <BOS>: float64 (len(story) - 1,), in nats."""
        ids = self._story("story", story)
        before = self.order - 1
        contexts = [ids[max(0, t - before) : t] for t in range(1, len(ids))]
        return np.log([self._distribution(c)[w] for c, w in zip(contexts, ids[1:], strict=True)])

    def log_prob(self, story: Sequence[int] | Array) -> float:
        """log P(story) = sum over t of log P(story_t | the tokens before it): the chain rule, <BOS> given; in nats."""
        return float(self.log_probs(story).sum())

    def step(self, ids: Array, past: Any) -> tuple[Array, Array]:
        """logits = log P(next token | the tokens so far), what the project's sampler asks of a model

        ids: (B, n) further tokens; past: (B, up to order - 1), the last tokens before them, None at the beginning;
        logits: (B, n, vocab_size), with -inf for <BOS> and <PAD>.
        """
        _check.integers("step", "ids", ids, self.vocab_size)
        seen = ids if past is None else np.concatenate([past, ids], 1)
        first = seen.shape[1] - ids.shape[1]
        ends = range(first + 1, seen.shape[1] + 1)
        P = np.array([[self.next_distribution(row[:end]) for end in ends] for row in seen])
        with np.errstate(divide="ignore"):  # log 0 = -inf: may not be chosen
            return np.log(P), seen[:, max(0, seen.shape[1] - self.order + 1) :]

    def _distribution(self, context: Ngram) -> Array:
        P = self._uniform
        for before, followers in enumerate(self._followers[: len(context) + 1]):
            found = followers.get(context[len(context) - before :])
            if found is None:  # a longer context was not seen either
                break
            ids, shares, rest = found
            P = P * rest  # never in place: at first it is the uniform one, and the empty context is always found
            P[ids] += shares
        return P

    def _counts(self, stories: list[Ngram]) -> list[Counter[Ngram]]:
        """a of every n-gram, for n = 1 ... order; none ends before the first token after <BOS>."""
        raw = [
            Counter(story[t - n + 1 : t + 1] for story in stories for t in range(max(1, n - 1), len(story)))
            for n in range(1, self.order + 1)
        ]
        adjusted = [
            Counter(ngram[1:] for ngram in longer)
            | Counter({ngram: count for ngram, count in own.items() if ngram[0] == self.bos_id})
            for own, longer in pairwise(raw)
        ]
        return [*adjusted, raw[-1]]

    def _story(self, name: str, story: Sequence[int] | Array) -> Ngram:
        ids = token_ids(name, story)
        _check.integers("KneserNey", name, ids, self.vocab_size)
        if ids.size == 0 or ids[0] != self.bos_id:
            came = "an empty one" if ids.size == 0 else f"one that begins with {ids[0]}"
            raise ValueError(f"{name}: {came} came, expected <BOS> = {self.bos_id} at the beginning")
        for token, special in ((self.bos_id, "<BOS>"), (self.pad_id, "<PAD>")):
            if (ids[1:] == token).any():
                raise ValueError(f"{name}: {token} came after the first token, expected no {special} there")
        return tuple(ids.tolist())


def _discount(adjusted: Counter[Ngram]) -> float:
    of = Counter(adjusted.values())
    return of[1] / (of[1] + 2 * of[2]) if of[1] and of[2] else 0.5


def _followers(adjusted: Counter[Ngram], D: float) -> dict[Ngram, Followers]:
    after: dict[Ngram, dict[int, int]] = defaultdict(dict)
    for ngram, count in adjusted.items():
        after[ngram[:-1]][ngram[-1]] = count
    found: dict[Ngram, Followers] = {}
    for context, counts in after.items():
        a = np.array(list(counts.values()), np.float64)
        total = float(a.sum())
        found[context] = (np.array(list(counts), np.int64), (a - D) / total, D * len(counts) / total)
    return found
