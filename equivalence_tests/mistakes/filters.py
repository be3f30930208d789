"""Mistakes in the sampler's filters over logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.softmax import softmax

Ids = Sequence[int] | Array


def _counts(ids: Ids, v: int) -> Array:
    return np.bincount(np.asarray(ids, np.int64), minlength=v)


def _only(X: Array, keep: Array) -> Array:
    return np.where(keep, X, -np.inf)


# penalise


def default_applied_once(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    X = logits.astype(np.float64)
    factor = gamma ** np.minimum(_counts(ids, X.size), 1)  # wrong: the count is lost without `once` as well
    return np.where(X > 0.0, X / factor, X * factor)


def once_per_occurrence(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    X = logits.astype(np.float64)
    for token in ids:  # wrong: `once` wants set(ids)
        X[token] = X[token] / gamma if X[token] > 0.0 else X[token] * gamma
    return X


def always_divided(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    counts = _counts(ids, logits.size)
    return logits / gamma ** (np.minimum(counts, 1) if once else counts)  # wrong: helps a negative logit


def times_the_count(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    counts = _counts(ids, logits.size)
    factor = np.maximum(gamma * (np.minimum(counts, 1) if once else counts), 1.0)  # wrong: a power, not a product
    return np.where(logits > 0.0, logits / factor, logits * factor)


def sign_of_the_next(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    X = logits.astype(np.float64)
    for token in dict.fromkeys(ids) if once else ids:
        X[token] = X[token] / gamma if X[token] > 1.0 else X[token] * gamma  # wrong: the sign changes at 0
    return X


def power_overflows(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    counts = _counts(ids, logits.size)
    factor = gamma ** (np.minimum(counts, 1) if once else counts)  # wrong: inf for a long history, and 0 inf is NaN
    return np.where(logits > 0.0, logits / factor, logits * factor)


def penalised_in_place(logits: Array, ids: Ids, gamma: float, once: bool = False) -> Any:
    counts = _counts(ids, logits.size)
    factor = gamma ** (np.minimum(counts, 1) if once else counts)
    logits[:] = np.where(logits > 0.0, logits / factor, logits * factor)  # wrong: the caller's array
    return logits


# block_ngrams and ban


def _blocked(logits: Array, tokens: Any) -> Array:
    X = logits.astype(np.float64)
    X[list(tokens)] = -np.inf
    return X if np.isfinite(X).any() else logits.astype(np.float64)


def ending_counted_from_the_end(logits: Array, ids: Ids, n: int) -> Any:
    ids = list(ids)
    if n == 0:
        return logits.astype(np.float64)
    ending = ids[-(n - 1) :]  # wrong: at n = 1 that is everything
    starts = range(len(ids) - n + 1)
    return _blocked(logits, [ids[i + n - 1] for i in starts if ids[i : i + n - 1] == ending])


def one_token_longer(logits: Array, ids: Ids, n: int) -> Any:
    ids = list(ids)
    if n == 0 or len(ids) < n:
        return logits.astype(np.float64)
    ending = ids[len(ids) - n :]  # wrong: n - 1 tokens, of which the next makes n
    return _blocked(logits, [ids[i + n] for i in range(len(ids) - n) if ids[i : i + n] == ending])


def latest_only(logits: Array, ids: Ids, n: int) -> Any:
    ids = list(ids)
    followers = {tuple(ids[i : i + n - 1]): ids[i + n - 1] for i in range(len(ids) - n + 1)} if n else {}
    found = followers.get(tuple(ids[len(ids) - n + 1 :]))  # wrong: one follower of several
    return _blocked(logits, [] if found is None else [found])


def nothing_left(logits: Array, ids: Ids, n: int) -> Any:
    ids = list(ids)
    X = logits.astype(np.float64)
    if n and len(ids) >= n:
        ending = ids[len(ids) - n + 1 :]
        X[[ids[i + n - 1] for i in range(len(ids) - n + 1) if ids[i : i + n - 1] == ending]] = -np.inf
    return X  # wrong: may be -inf throughout


def banned_to_zero(logits: Array, banned: Ids) -> Any:
    X = logits.astype(np.float64)
    X[..., list(banned)] = 0.0  # wrong: a logit of 0 is as good as any
    return X


def first_row_only(logits: Array, banned: Ids) -> Any:
    X = logits.astype(np.float64)
    X.reshape(-1, X.shape[-1])[0, list(banned)] = -np.inf  # wrong: of one row
    return X


# apply_temperature


def divided_by_zero(logits: Array, temperature: float) -> Any:
    return (logits - logits.max(-1, keepdims=True)) / np.float64(temperature)  # wrong: 0/0 at 0


def almost_zero(logits: Array, temperature: float) -> Any:
    return (logits - logits.max(-1, keepdims=True)) / (temperature + 1e-9)  # wrong: 0 is no small number


def multiplied(logits: Array, temperature: float) -> Any:
    X = logits.astype(np.float64)
    if temperature == 0.0:
        return _only(np.zeros_like(X), np.arange(X.shape[-1]) == X.argmax(-1)[..., None])
    return (X - X.max(-1, keepdims=True)) * temperature  # wrong: divided


def last_of_the_largest(logits: Array, temperature: float) -> Any:
    X = logits.astype(np.float64)
    if temperature == 0.0:
        last = X.shape[-1] - 1 - X[..., ::-1].argmax(-1)  # wrong: the lowest id among equals
        return _only(np.zeros_like(X), np.arange(X.shape[-1]) == last[..., None])
    return (X - X.max(-1, keepdims=True)) / temperature


# top_k


def one_too_many(logits: Array, k: int) -> Any:
    X = logits.astype(np.float64)
    rank = np.argsort(np.argsort(-X, -1, kind="stable"), -1, kind="stable")
    return _only(X, rank <= k)  # wrong: rank < k, since ranks begin at 0


def ties_stay(logits: Array, k: int) -> Any:
    X = logits.astype(np.float64)
    k = min(k, X.shape[-1])
    return _only(X, np.partition(X, -k, -1)[..., -k, None] <= X)  # wrong: all that equal the k-th


def highest_id_first(logits: Array, k: int) -> Any:
    X = logits.astype(np.float64)
    order = np.argsort(X, -1, kind="stable")[..., ::-1]  # wrong: reversed, equals come in descending order too
    rank = np.argsort(order, -1, kind="stable")
    return _only(X, rank < k)


def masked_with_zero(logits: Array, k: int) -> Any:
    X = logits.astype(np.float64)
    rank = np.argsort(np.argsort(-X, -1, kind="stable"), -1, kind="stable")
    return np.where(rank < k, X, 0.0)  # wrong: -inf


def one_threshold_for_all(logits: Array, k: int) -> Any:
    X = logits.astype(np.float64)
    rank = np.argsort(np.argsort(-X, None, kind="stable"), kind="stable").reshape(X.shape)  # wrong: not by rows
    return _only(X, rank < k)


# top_p


def _sorted(logits: Array) -> tuple[Array, Array, Array]:
    """The logits, the order of their probabilities, descending, and those probabilities."""
    X = logits.astype(np.float64)
    order = np.argsort(-X, -1, kind="stable")
    return X, order, np.take_along_axis(softmax(X)[0], order, -1)


def _kept(X: Array, order: Array, keep: Array) -> Array:
    back = np.argsort(order, -1, kind="stable")
    return _only(X, np.take_along_axis(keep, back, -1))


def _before(P: Array) -> Array:
    return np.concatenate([np.zeros_like(P[..., :1]), P.cumsum(-1)[..., :-1]], -1)


def crossing_dropped(logits: Array, p: float) -> Any:
    X, order, P = _sorted(logits)
    keep = p >= P.cumsum(-1)  # wrong: the sum before the token, so that the one that crosses stays
    keep[..., 0] = True
    return X if p == 1.0 else _kept(X, order, keep)


def none_at_least(logits: Array, p: float) -> Any:
    X, order, P = _sorted(logits)
    return X if p == 1.0 else _kept(X, order, p >= P.cumsum(-1))  # wrong: nothing stays where the first is above p


def rounded_once_more(logits: Array, p: float) -> Any:
    X, order, P = _sorted(logits)
    return X if p == 1.0 else _kept(X, order, p > P.cumsum(-1) - P)  # wrong: not the sum before, but near it


def not_scattered_back(logits: Array, p: float) -> Any:
    X, _, P = _sorted(logits)
    return X if p == 1.0 else _only(X, p > _before(P))  # wrong: the mask of the sorted tokens


def ascending(logits: Array, p: float) -> Any:
    X = logits.astype(np.float64)
    order = np.argsort(X, -1, kind="stable")  # wrong: -X
    P = np.take_along_axis(softmax(X)[0], order, -1)
    return X if p == 1.0 else _kept(X, order, p > _before(P))


def tail_lost_at_1(logits: Array, p: float) -> Any:
    X, order, P = _sorted(logits)
    return _kept(X, order, p > _before(P))  # wrong: the sum may round to 1 before the last


def crossing_included_twice(logits: Array, p: float) -> Any:
    X, order, P = _sorted(logits)
    return X if p == 1.0 else _kept(X, order, p >= _before(P))  # wrong: a token more where p is a partial sum


def sums_of_all_rows(logits: Array, p: float) -> Any:
    X, order, P = _sorted(logits)
    before = np.concatenate([[0.0], P.cumsum()[:-1]]).reshape(P.shape)  # wrong: goes on from row to row
    return X if p == 1.0 else _kept(X, order, p > before)


# min_p


def absolute_threshold(logits: Array, share: float) -> Any:
    X = logits.astype(np.float64)
    return _only(X, softmax(X)[0] >= share)  # wrong: share times the largest


def strictly_above(logits: Array, share: float) -> Any:
    X = logits.astype(np.float64)
    return _only(X, np.exp(X - X.max(-1, keepdims=True)) > share)  # wrong: nothing is above 1


def largest_of_all_rows(logits: Array, share: float) -> Any:
    X = logits.astype(np.float64)
    return _only(X, np.exp(X - X.max()) >= share)  # wrong: of each row


def share_of_the_logit(logits: Array, share: float) -> Any:
    X = logits.astype(np.float64)
    return X if share == 0.0 else _only(X, share * X.max(-1, keepdims=True) <= X)  # wrong: of the probability


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "M158",
        "penalise",
        "The default rule is applied once, whatever the count.",
        "a history without repetition",
        "a token seen twice",
        default_applied_once,
        source="SMP-07",
    ),
    Mistake(
        "SMP-07",
        "penalise",
        'With "once" a token is penalised at each occurrence.',
        "a history without repetition",
        "a token seen twice",
        once_per_occurrence,
    ),
    Mistake(
        "G01",
        "penalise",
        "Negative logits are divided too.",
        "positive logits",
        "a negative logit",
        always_divided,
    ),
    Mistake(
        "G02",
        "penalise",
        "The penalty is gamma times the count.",
        "tokens seen once",
        "a token seen twice",
        times_the_count,
    ),
    Mistake(
        "G03",
        "penalise",
        "The sign is looked at after the wrong threshold.",
        "logits above 1 or below 0",
        "a logit between 0 and 1",
        sign_of_the_next,
    ),
    Mistake(
        "G04",
        "penalise",
        "The power of the count overflows.",
        "a history of some hundred tokens",
        "5000 times one token and a logit of 0",
        power_overflows,
    ),
    Mistake(
        "G05",
        "penalise",
        "The caller's logits are changed.",
        "the values that come back",
        "the array that came in",
        penalised_in_place,
    ),
    Mistake(
        "G06",
        "block_ngrams",
        "The ending is ids[-(n - 1):].",
        "n above 1",
        "n = 1",
        ending_counted_from_the_end,
    ),
    Mistake(
        "G07",
        "block_ngrams",
        "n tokens may repeat, n + 1 may not.",
        "a history without repetition",
        "n tokens that are there already",
        one_token_longer,
    ),
    Mistake(
        "G08",
        "block_ngrams",
        "Only the latest follower of the ending is blocked.",
        "an ending seen once",
        "an ending with two followers",
        latest_only,
    ),
    Mistake(
        "G09",
        "block_ngrams",
        "All tokens may be blocked.",
        "a vocabulary larger than the history",
        "n = 1 and every token seen",
        nothing_left,
    ),
    Mistake(
        "G10",
        "ban",
        "A banned token gets the logit 0.",
        "one token far above the others",
        "a negative largest logit",
        banned_to_zero,
    ),
    Mistake("G11", "ban", "Only the first row is filtered.", "one row", "two rows", first_row_only),
    Mistake(
        "M156",
        "apply_temperature",
        "Divides by a temperature of 0.",
        "T above 0",
        "T = 0",
        divided_by_zero,
        source="SMP-08",
    ),
    Mistake(
        "SMP-08",
        "apply_temperature",
        "1e-9 is added to the temperature, against the division by 0.",
        "T far above 1e-9 in float32",
        "T = 0 and two equal logits",
        almost_zero,
    ),
    Mistake("G12", "apply_temperature", "Multiplies by the temperature.", "T = 0 or 1", "T = 1/2", multiplied),
    Mistake(
        "G13",
        "apply_temperature",
        "At 0, the highest id among equals is taken.",
        "logits that differ",
        "two equal logits",
        last_of_the_largest,
    ),
    Mistake("M146", "top_k", "One token too many stays.", "k >= v", "k = 1", one_too_many, source="SMP-02"),
    Mistake(
        "M147",
        "top_k",
        "All that equal the k-th stay.",
        "logits that differ",
        "ties at the cut",
        ties_stay,
        source="SMP-03",
    ),
    Mistake(
        "G14",
        "top_k",
        "Among equals the highest ids stay.",
        "logits that differ",
        "ties at the cut",
        highest_id_first,
    ),
    Mistake("G15", "top_k", "The others get the logit 0.", "k >= v", "any smaller k", masked_with_zero),
    Mistake("G16", "top_k", "k of all rows together stay.", "one row", "several rows", one_threshold_for_all),
    Mistake(
        "M149",
        "top_p",
        "The token that crosses p is dropped.",
        "p = 1, or a partial sum",
        "p = 0.8 for [.4, .3, .2, .1]",
        crossing_dropped,
        source="SMP-04",
    ),
    Mistake(
        "SMP-04",
        "top_p",
        "Nothing stays where the first token alone is above p.",
        "p above the largest probability",
        "p below it",
        none_at_least,
    ),
    Mistake(
        "M150",
        "top_p",
        "The sum before a token is the sum with it, minus it.",
        "most inputs",
        "p equal to a partial sum of elevenths",
        rounded_once_more,
        source="SMP-04",
    ),
    Mistake(
        "M152",
        "top_p",
        "The mask is not put back into the order of the ids.",
        "sorted logits",
        "unsorted logits",
        not_scattered_back,
    ),
    Mistake("M153", "top_p", "Sorted in ascending order.", "equal logits", "any others", ascending),
    Mistake(
        "G17",
        "top_p",
        "p = 1 loses what comes after the sum has rounded to 1.",
        "logits of similar size",
        "a logit 40 below the largest",
        tail_lost_at_1,
    ),
    Mistake(
        "G18",
        "top_p",
        "One token more stays where p is a partial sum.",
        "any other p",
        "p = 1/2 for two equal logits",
        crossing_included_twice,
    ),
    Mistake("G58", "top_p", "The sums go on from row to row.", "one row", "two rows", sums_of_all_rows),
    Mistake(
        "G19",
        "min_p",
        "The share is a probability, not a share of the largest.",
        "one token with nearly all the probability",
        "any others",
        absolute_threshold,
    ),
    Mistake(
        "G20",
        "min_p",
        "Only what is above the share stays.",
        "a share below 1",
        "a share of 1: nothing stays",
        strictly_above,
    ),
    Mistake("G21", "min_p", "The largest is that of all rows.", "one row", "several rows", largest_of_all_rows),
    Mistake(
        "G22",
        "min_p",
        "The share is one of the largest logit.",
        "a share of 0 or 1",
        "any other share",
        share_of_the_logit,
    ),
)
