"""Laws of the sampler's filters over logits.

A filter only forbids, so its answer is exact: what stays has the value it had, what goes is -inf. A threshold is put
half-way between two tokens, never within the rounding of one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.laws.common import first
from equivalence_tests.parts._part import Law

INF = math.inf


def generator() -> np.random.Generator:
    return np.random.default_rng(20)


def rows() -> Iterator[Array]:
    """Logits of several sizes: all different, with ties, and with tokens that may not be chosen."""
    rng = generator()
    for v in (1, 2, 5, 13, 40):
        for _ in range(3):
            logits = 2.0 * rng.standard_normal(v)
            yield logits
            yield np.round(logits)
            logits = np.round(logits)
            logits[rng.permutation(v)[: v // 2]] = -INF
            yield logits


def _histories(v: int) -> Iterator[list[int]]:
    """Sequences of ids, from none to a long one over few different ids, so that most are there several times."""
    rng = generator()
    for length in (0, 2, 3, 8, 30):
        yield rng.integers(0, min(v, 3), length).tolist()
        yield rng.integers(0, v, length).tolist()


def ranked(logits: Array) -> list[int]:
    """The ids that may be chosen, the largest logit first and the lowest id among equals."""
    return sorted(np.flatnonzero(logits > -INF).tolist(), key=lambda id: (-logits[id], id))


def _masses(logits: Array, ids: Sequence[int]) -> list[float]:
    weights = [math.exp(logits[id] - logits.max()) for id in ids]
    return [weight / math.fsum(weights) for weight in weights]


def _only(logits: Array, kept: Sequence[int]) -> Array:
    """The logits of `kept`, and -inf elsewhere."""
    answer = np.full(logits.shape, -INF)
    answer[list(kept)] = logits[list(kept)]
    return answer


def _differs(part: Any, logits: Array, *rest: Any, expected: Array) -> str:
    """Whether the answer is another than `expected`, to the bit, or has another dtype, or what came in was changed."""
    given = logits.copy()
    got = part(given, *rest)
    if not np.array_equal(given, logits):
        return f"the logits that came in were changed: {logits} is now {given}"
    if not isinstance(got, np.ndarray) or got.dtype != np.float64:
        return f"the answer is {getattr(got, 'dtype', type(got).__name__)}, expected float64"
    if not np.array_equal(got, expected):
        return f"of {logits} with {rest} came {got}, expected {expected}"
    return ""


# penalise


def a_penalty_is_a_power_of_the_count(part: Any) -> str:
    """With gamma = 2, exactly: l / 2^count where l > 0, else l 2^count; with `once` the count is at most 1."""

    def cases() -> Iterator[str]:
        for logits in rows():
            for ids in _histories(logits.size):
                counts = [ids.count(id) for id in range(logits.size)]
                for once in (False, True):
                    powers = [2.0 ** min(count, 1 if once else count) for count in counts]
                    wanted = [x / power if x > 0 else x * power for x, power in zip(logits, powers, strict=True)]
                    yield _differs(part, logits, ids, 2.0, once, expected=np.array(wanted))

    return first(cases())


def a_penalty_never_helps(part: Any) -> str:
    """gamma > 1 lowers every seen logit but 0, gamma = 1 changes nothing."""
    for logits in rows():
        for ids in _histories(logits.size):
            found = part(logits.copy(), ids, 1.01)
            moved = np.isin(np.arange(logits.size), ids) & np.isfinite(logits) & (logits != 0.0)
            if not (found[moved] < logits[moved]).all() or not np.array_equal(found[~moved], logits[~moved]):
                return f"{logits} became {found} after {ids}"
    return first(_differs(part, logits, [0], 1.0, expected=logits) for logits in rows())


def a_long_history_leaves_finite_logits(part: Any) -> str:
    """However large or small the power: no NaN, and what could be chosen still can."""
    logits = np.array([3.0, -2.0, 0.0, 1e300, -1e300, -INF])
    for gamma in (1.5, 0.5):
        found = part(logits.copy(), list(range(6)) * 5000, gamma)
        if not np.array_equal(np.isfinite(found), np.isfinite(logits)) or found[-1] != -INF:
            return f"{logits} became {found} with gamma {gamma} and 5000 times each token"
    return ""


# block_ngrams and ban


def no_ngram_comes_twice(part: Any) -> str:
    """Blocked is exactly what would complete n tokens in a row that are there already; nothing, if none were left."""

    def cases() -> Iterator[str]:
        for logits in rows():
            for ids, n in itertools.product(_histories(logits.size), (0, 1, 2, 3)):
                there = {tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)}
                ending = tuple(ids[len(ids) - n + 1 :])
                kept = [id for id in ranked(logits) if n == 0 or len(ids) < n or (*ending, id) not in there]
                yield _differs(part, logits, ids, n, expected=_only(logits, kept or ranked(logits)))

    return first(cases())


def the_banned_and_only_they_go(part: Any) -> str:
    """-inf for each banned id, in every row; all else stays."""

    def cases() -> Iterator[str]:
        for logits in rows():
            kept = ranked(logits)[::2]
            banned = [id for id in range(logits.size) if id not in kept]
            yield _differs(part, logits, tuple(banned), expected=_only(logits, kept))
            both = np.stack([logits, logits[::-1]])
            left = np.where(np.isin(np.arange(logits.size), banned), -INF, both)
            if np.isfinite(left).any(-1).all():
                yield _differs(part, both, tuple(banned), expected=left)

    return first(cases())


# apply_temperature


def temperature_divides(part: Any) -> str:
    """(l - max l) / T: exactly, where T is a power of 2."""
    return first(
        _differs(part, logits, T, expected=(logits - logits.max()) / T)
        for logits in rows()
        for T in (0.25, 0.5, 1.0, 2.0, 1024.0)
    )


def temperature_0_is_the_limit(part: Any) -> str:
    """At 0 only the first of the largest is left; at the smallest T > 0 all the largest, and never NaN."""
    return first(
        _differs(part, logits, 0.0, expected=np.where(np.arange(logits.size) == ranked(logits)[0], 0.0, -INF))
        or _differs(part, logits, 5e-324, expected=np.where(logits == logits.max(), 0.0, -INF))
        for logits in rows()
    )


# top_k


def exactly_k_stay(part: Any) -> str:
    """The first k by size, the lowest ids among equals, and never one at -inf; k >= v is everything."""
    return first(
        _differs(part, logits, k, expected=_only(logits, ranked(logits)[:k]))
        for logits in rows()
        for k in (1, 2, 3, 5, logits.size, logits.size + 1, 1000)
    )


def top_k_filters_each_row_for_itself(part: Any) -> str:
    """(2, 3, v) logits of very different size: each row as if it were alone."""
    return _each_row(part, 2)


# top_p


def the_fewest_that_hold_p_stay(part: Any) -> str:
    """With p half-way between two partial sums: the token that crosses p stays, the next one goes."""

    def cases() -> Iterator[str]:
        for logits in rows():
            order = ranked(logits)
            sums = [0.0, *itertools.accumulate(_masses(logits, order))]
            for count, (below, above) in enumerate(itertools.pairwise(sums), 1):
                if above - below > 1e-9:  # far beyond the rounding of a sum of 40
                    yield _differs(part, logits, (below + above) / 2, expected=_only(logits, order[:count]))

    return first(cases())


def p_may_be_a_partial_sum(part: Any) -> str:
    """v equal logits have probabilities 1/v, whatever exp rounds to; at p = the sum of j of them, exactly j stay."""

    def cases() -> Iterator[str]:
        for v in range(2, 20):
            sums = np.full(v, 1.0 / v).cumsum()
            for j in range(1, v):
                yield _differs(part, np.zeros(v), float(sums[j - 1]), expected=_only(np.zeros(v), range(j)))

    return first(cases())


def p_of_1_is_everything(part: Any) -> str:
    """Even where the other probabilities already sum to 1 in floating point."""
    faint = np.array([0.0, -40.0, -50.0, -60.0, -800.0, -INF])
    return first(_differs(part, logits, 1.0, expected=logits) for logits in (faint, *rows()))


def top_p_filters_each_row_for_itself(part: Any) -> str:
    """(2, 3, v) logits of very different size: each row as if it were alone."""
    return _each_row(part, 0.6)


# min_p


def a_share_of_the_largest_stays(part: Any) -> str:
    """With the share half-way between the ratios of two tokens: the larger stays, the smaller goes."""

    def cases() -> Iterator[str]:
        for logits in rows():
            order = ranked(logits)
            ratios = [math.exp(logits[id] - logits.max()) for id in order]
            for count, (larger, smaller) in enumerate(itertools.pairwise([*ratios, 0.0]), 1):
                if larger - smaller > 1e-9:
                    yield _differs(part, logits, (larger + smaller) / 2, expected=_only(logits, order[:count]))

    return first(cases())


def a_share_of_1_is_the_largest_and_0_is_everything(part: Any) -> str:
    """All that equal the largest stay at 1."""
    return first(
        _differs(part, logits, 1.0, expected=np.where(logits == logits.max(), logits, -INF))
        or _differs(part, logits, 0.0, expected=logits)
        for logits in rows()
    )


def min_p_filters_each_row_for_itself(part: Any) -> str:
    """(2, 3, v) logits of very different size: each row as if it were alone."""
    return _each_row(part, 0.3)


def _each_row(part: Any, setting: Any) -> str:
    rng = generator()
    logits = rng.standard_normal((2, 3, 7)) + 50.0 * rng.standard_normal((2, 3, 1))
    alone = np.array([[part(row, setting) for row in rows] for rows in logits])
    return _differs(part, logits, setting, expected=alone)


PARTS: dict[str, tuple[Law, ...]] = {
    "penalise": (
        a_penalty_is_a_power_of_the_count,
        a_penalty_never_helps,
        a_long_history_leaves_finite_logits,
    ),
    "block_ngrams": (no_ngram_comes_twice,),
    "ban": (the_banned_and_only_they_go,),
    "apply_temperature": (temperature_divides, temperature_0_is_the_limit),
    "top_k": (exactly_k_stay, top_k_filters_each_row_for_itself),
    "top_p": (
        the_fewest_that_hold_p_stay,
        p_may_be_a_partial_sum,
        p_of_1_is_everything,
        top_p_filters_each_row_for_itself,
    ),
    "min_p": (
        a_share_of_the_largest_stays,
        a_share_of_1_is_the_largest_and_0_is_everything,
        min_p_filters_each_row_for_itself,
    ),
}
