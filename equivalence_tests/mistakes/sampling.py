"""Mistakes in the distribution that the sampler's filters leave, and in the choice by one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import sampling
from reference_numpy.sampling import SamplingConfig
from reference_numpy.softmax import softmax

Ids = Sequence[int] | Array
Filter = Callable[[Array, Ids, SamplingConfig], Array]

# The right filters, to be put into a wrong order


def _penalty(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    return sampling.penalise(X, ids, config.repetition_penalty, once=config.penalty == "once")


def _ban(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    banned = X.copy()
    banned[list(config.banned)] = -np.inf
    return banned


def _ngrams(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    return sampling.block_ngrams(X, ids, config.no_repeat_ngram)


def _temperature(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    return sampling.apply_temperature(X, config.temperature)


def _top_k(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    return X if config.top_k is None else sampling.top_k(X, config.top_k)


def _top_p(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    return sampling.top_p(X, config.top_p)


def _min_p(X: Array, ids: Ids, config: SamplingConfig) -> Array:
    return sampling.min_p(X, config.min_p)


def through(*filters: Filter) -> Callable[..., Any]:
    """The distribution after these filters, one after the other."""

    def probabilities(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
        X = logits.astype(np.float64)
        for each in filters:
            X = each(X, ids, config)
        return softmax(X)[0]

    return probabilities


RIGHT = through(_penalty, _ban, _ngrams, _temperature, _top_k, _top_p, _min_p)

temperature_last = through(_penalty, _ban, _ngrams, _top_k, _top_p, _min_p, _temperature)  # wrong: before top-k
min_p_unscaled = through(_penalty, _ban, _ngrams, _min_p, _temperature, _top_k, _top_p)  # wrong: min-p comes last
p_before_k = through(_penalty, _ban, _ngrams, _temperature, _top_p, _top_k, _min_p)  # wrong: top-k first
min_p_before_p = through(_penalty, _ban, _ngrams, _temperature, _top_k, _min_p, _top_p)  # wrong: top-p first
penalty_scaled = through(
    _ban, _ngrams, _temperature, _penalty, _top_k, _top_p, _min_p
)  # wrong: of l, not (l - max) / T
penalty_last = through(_ban, _ngrams, _temperature, _top_k, _top_p, _min_p, _penalty)  # wrong: too late for top-k
ban_last = through(_penalty, _ngrams, _temperature, _top_k, _top_p, _min_p, _ban)  # wrong: nothing may be left
ban_forgotten = through(_penalty, _ngrams, _temperature, _top_k, _top_p, _min_p)  # wrong: nothing is banned
k_forgotten = through(_penalty, _ban, _ngrams, _temperature, _top_p, _min_p)  # wrong: top-k


def blocking_first(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    X = _penalty(logits, ids, config)
    for each in (_ngrams, _ban, _temperature, _top_k, _top_p, _min_p):  # wrong: what blocking left may be banned
        X = each(X, ids, config) if np.isfinite(X).any() else np.full(X.shape, np.nan)
    return softmax(X)[0]


def greedy_raw(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    if config.temperature == 0.0:
        return np.eye(logits.size)[
            logits.argmax()
        ]  # wrong: the penalty, the ban and the blocking hold at T = 0 as well
    return RIGHT(logits, ids, config)


def not_shifted(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    if config.temperature == 0.0:
        return RIGHT(logits, ids, config)
    X = _ngrams(_ban(_penalty(logits, ids, config), ids, config), ids, config) / config.temperature
    for each in (_top_k, _top_p, _min_p):
        X = each(X, ids, config) if (np.isfinite(X).any() and (np.inf > X).all()) else np.full(X.shape, np.nan)
    E = np.exp(X)  # wrong: the largest logit is not subtracted
    return E / E.sum()


def not_renormalised(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    P = through(_penalty, _ban, _ngrams, _temperature)(logits, ids, config)
    return np.where(RIGHT(logits, ids, config) > 0.0, P, 0.0)  # wrong: what is left does not sum to 1


def in_float32(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    return RIGHT(logits, ids, config).astype(np.float32)  # wrong: float64


def always_by_the_count(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    X = sampling.penalise(logits, ids, config.repetition_penalty)  # wrong: `penalty` is not read
    return through(_ban, _ngrams, _temperature, _top_k, _top_p, _min_p)(X, ids, config)


def counts_of_other_tokens(logits: Array, ids: Ids, config: SamplingConfig) -> Any:
    X = logits.astype(np.float64)
    seen = np.array(ids, np.int64)
    for token, count in zip(np.unique(seen), np.bincount(seen), strict=False):  # wrong: bincount counts from id 0 on
        power = config.repetition_penalty ** (min(count, 1) if config.penalty == "once" else count)
        X[token] = X[token] / power if X[token] > 0.0 else X[token] * power
    return through(_ban, _ngrams, _temperature, _top_k, _top_p, _min_p)(X, ids, config)


# choose


def left_side(probabilities: Array, uniform: float) -> Any:
    P = np.array(probabilities, np.float64)
    found = int(np.searchsorted(P.cumsum(), uniform))  # wrong: side="right"; 0 chooses a first token of probability 0
    return min(found, int(np.flatnonzero(P)[-1]))


def past_the_end(probabilities: Array, uniform: float) -> Any:
    sums = np.array(probabilities, np.float64).cumsum()
    return int(np.searchsorted(sums, uniform, side="right"))  # wrong: v, where the last sum is below `uniform`


def last_id(probabilities: Array, uniform: float) -> Any:
    sums = np.array(probabilities, np.float64).cumsum()
    found = int(np.searchsorted(sums, uniform, side="right"))
    return min(found, len(sums) - 1)  # wrong: its probability may be 0


def rank_for_id(probabilities: Array, uniform: float) -> Any:
    P = np.sort(np.array(probabilities, np.float64))[::-1]  # wrong: the place in this order is no id
    return min(int(np.searchsorted(P.cumsum(), uniform, side="right")), int(np.flatnonzero(P)[-1]))


def sums_in_float32(probabilities: Array, uniform: float) -> Any:
    P = probabilities.astype(np.float32)
    found = int(np.searchsorted(P.cumsum(), np.float32(uniform), side="right"))  # wrong: `uniform` may round to 1
    return min(found, int(np.flatnonzero(P)[-1]))


def most_probable(probabilities: Array, uniform: float) -> Any:
    return int(probabilities.argmax())  # wrong: that is greedy


def a_number_of_numpy(probabilities: Array, uniform: float) -> Any:
    P = np.array(probabilities, np.float64)
    return np.minimum(np.searchsorted(P.cumsum(), uniform, side="right"), np.flatnonzero(P)[-1])  # wrong: no int


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "M155",
        "probabilities",
        "The temperature comes after top-p and min-p.",
        "T = 1",
        "T = 0.5, top_p = 0.8, logits [3, 2, 1]",
        temperature_last,
        source="SMP-09",
    ),
    Mistake(
        "SMP-09",
        "probabilities",
        "min-p is measured before the temperature.",
        "T = 1",
        "T = 2, min_p = 0.3, logits [3, 2, 1]",
        min_p_unscaled,
    ),
    Mistake(
        "G23",
        "probabilities",
        "top-p comes before top-k.",
        "one of the two",
        "top_k = 2, top_p = 0.5 for [.4, .3, .2, .1]",
        p_before_k,
    ),
    Mistake(
        "G24",
        "probabilities",
        "min-p comes before top-p.",
        "one of the two",
        "top_p = 0.5, min_p = 0.6 for [.4, .3, .2, .1]",
        min_p_before_p,
    ),
    Mistake(
        "G25",
        "probabilities",
        "The penalty divides what is scaled and shifted.",
        "no penalty",
        "the largest logit is penalised",
        penalty_scaled,
    ),
    Mistake(
        "G26",
        "probabilities",
        "The penalty comes after top-k.",
        "no penalty",
        "top_k = 1 after the token with the largest logit",
        penalty_last,
    ),
    Mistake(
        "G27",
        "probabilities",
        "The ban comes last.",
        "nothing banned, or not the best",
        "top_k = 1 and the best token banned",
        ban_last,
    ),
    Mistake("G28", "probabilities", "Nothing is banned.", "nothing banned", "a ban", ban_forgotten),
    Mistake("G29", "probabilities", "top_k is not read.", "top_k >= v", "top_k = 1", k_forgotten),
    Mistake(
        "G30",
        "probabilities",
        "The ban comes after the n-gram blocking.",
        "one of the two",
        "n = 1, and everything not seen yet is banned",
        blocking_first,
    ),
    Mistake(
        "G31",
        "probabilities",
        "At T = 0 it is the argmax of the raw logits.",
        "no penalty, ban or blocking",
        "T = 0 and a penalty",
        greedy_raw,
    ),
    Mistake(
        "G32",
        "probabilities",
        "The largest logit is not subtracted.",
        "logits below 700 T",
        "T = 1e-9",
        not_shifted,
        source="SMP-08",
    ),
    Mistake(
        "G33",
        "probabilities",
        "What is left is not renormalised.",
        "no filter",
        "top_k = 1",
        not_renormalised,
    ),
    Mistake("G34", "probabilities", "The answer is float32.", "a tolerance of 1e-6", "its dtype", in_float32),
    Mistake(
        "G35",
        "probabilities",
        'The option "once" is not read.',
        "a history without repetition",
        "a token seen twice",
        always_by_the_count,
        source="SMP-07",
    ),
    Mistake(
        "G59",
        "probabilities",
        "The tokens seen and their counts are not in the same order.",
        "a history that begins at id 0 and leaves none out",
        "any other history and a penalty",
        counts_of_other_tokens,
    ),
    Mistake(
        "G36",
        "choose",
        "The first sum that is not below the number.",
        "numbers that are no sum",
        "0 and a first token of probability 0",
        left_side,
    ),
    Mistake(
        "G37",
        "choose",
        "The id may be v.",
        "a last sum of 1",
        "ten times 0.1 and the largest number below 1",
        past_the_end,
    ),
    Mistake(
        "G38",
        "choose",
        "Where no sum is above the number, the last id is taken.",
        "a last token of probability above 0",
        "ten times 0.1, then 0, and the largest number below 1",
        last_id,
    ),
    Mistake(
        "G39",
        "choose",
        "The place in descending order is taken for the id.",
        "sorted probabilities",
        "unsorted ones",
        rank_for_id,
    ),
    Mistake(
        "G40",
        "choose",
        "Number and sums are rounded to float32.",
        "numbers with 24 bits",
        "the last number before a sum",
        sums_in_float32,
    ),
    Mistake("G41", "choose", "The most probable token.", "one possible token", "two", most_probable),
    Mistake(
        "G42",
        "choose",
        "The id is a number of NumPy.",
        "its value",
        "its type: it does not go into JSON",
        a_number_of_numpy,
    ),
)
