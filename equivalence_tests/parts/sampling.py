"""Laws of the sampler: the distribution that its filters leave, and the choice by one uniform number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, ORACLE_UNIT, PRECISIONS
from equivalence_tests.parts._part import Law
from equivalence_tests.parts.filters import INF, generator, ranked, rows
from reference_numpy.sampling import SamplingConfig

UNIT = PRECISIONS["float64"].unit
OF_TWO = 2 * (2 + 4) * UNIT  # the softmax of two numbers, here and there: DESIGN section 5 with m = 2 and exact scores
PLAIN = SamplingConfig(temperature=1.0, top_k=None, repetition_penalty=1.0)


def _supports(part: Any, cases: Sequence[tuple[list[float], list[int], dict[str, Any], list[int]]]) -> str:
    for logits, ids, changed, expected in cases:
        P = part(np.array(logits), ids, replace(PLAIN, **changed))
        if np.flatnonzero(P).tolist() != expected:
            return f"of {logits} after {ids} with {changed} the possible are {np.flatnonzero(P)}, expected {expected}"
    return ""


def probabilities_are_a_distribution(part: Any) -> str:
    """float64, none negative, the sum 1 within the rounding of v quotients and their sum; at any temperature."""
    extreme = [np.array([1e308, -1e308, 0.0]), np.array([-1e308, -1e308]), np.array([-INF, 1e-310, 0.0, 1e-320])]
    for logits in [*rows(), *extreme]:
        for temperature in (0.0, 5e-324, 0.8, 1e308):
            config = SamplingConfig(temperature=temperature, top_k=7, top_p=0.9, min_p=0.01, no_repeat_ngram=1)
            given = logits.copy()
            P = part(given, [0, 0], config)
            if not np.array_equal(given, logits):
                return f"the logits that came in were changed: {logits} is now {given}"
            if P.dtype != np.float64 or P.shape != logits.shape:
                return f"of {logits} came {P.dtype} {P.shape}, expected float64 {logits.shape}"
            if not ((P >= 0.0).all() and abs(math.fsum(P) - 1.0) <= 2 * logits.size * UNIT):
                return f"of {logits} at temperature {temperature} came {P}"
            if P[logits == -INF].any():
                return f"of {logits} came {P}, expected 0 at -inf"
    return ""


def without_filters_it_is_softmax(part: Any) -> str:
    """top_k = v, or none: softmax(l / T) within its own rounding, DESIGN section 5's bound."""
    for logits, temperature in itertools.product(rows(), (0.3, 2.0)):
        for k in (None, logits.size):
            S = logits.astype(ORACLE) / ORACLE(temperature)
            S = S - S.max()
            A = np.exp(S) / np.exp(S).sum()
            e = np.expm1(2 * UNIT * np.abs(np.where(np.isfinite(S), S, 0)))  # two roundings: difference and quotient
            bound = A * (e + (A * e).sum()) + (logits.size + 4) * (UNIT + ORACLE_UNIT) * A + PRECISIONS["float64"].tiny
            P = part(logits.copy(), [], replace(PLAIN, temperature=temperature, top_k=k))
            if not (np.abs(P - A) <= bound).all():
                return f"of {logits} at temperature {temperature}, top_k {k} came {P}, expected {A}"
    return ""


def k_of_1_and_temperature_0_are_greedy(part: Any) -> str:
    """Exactly 1 for the largest: at T = 0 and for K = 1 the first among equals; at the smallest T > 0 if alone."""
    for logits in rows():
        best = np.eye(logits.size)[ranked(logits)[0]]
        settings: list[dict[str, Any]] = [{"temperature": 0.0}, {"top_k": 1}, {"top_k": 1, "temperature": 3.0}]
        if (logits == logits.max()).sum() == 1:
            settings.append({"temperature": 1e-300})
        for changed in settings:
            P = part(logits.copy(), [], replace(PLAIN, **changed))
            if not np.array_equal(P, best):
                return f"of {logits} with {changed} came {P}, expected {best}"
    return ""


def greedy_is_after_penalty_ban_and_blocking(part: Any) -> str:
    """They hold at temperature 0 and for K = 1 as well."""
    cases: list[tuple[list[float], list[int], dict[str, Any], list[int]]] = []
    for greedy in ({"temperature": 0.0}, {"top_k": 1}):
        cases += [
            ([3.0, 2.0, 1.0], [0], {**greedy, "repetition_penalty": 4.0}, [1]),
            ([3.0, 2.0, 1.0], [], {**greedy, "banned": (0,)}, [1]),
            ([3.0, 2.0, 1.0], [0, 0], {**greedy, "no_repeat_ngram": 2}, [1]),
            ([3.0, 2.0, 1.0], [0], {**greedy, "repetition_penalty": 4.0, "banned": (1,)}, [2]),
        ]
    return _supports(part, cases)


def infinite_temperature_is_uniform(part: Any) -> str:
    """At T = 1e300, exactly 1 / m for each of the m that may be chosen."""
    for logits in rows():
        P = part(logits.copy(), [], replace(PLAIN, temperature=1e300))
        possible = logits > -INF
        if not np.array_equal(P, np.where(possible, 1.0 / possible.sum(), 0.0)):
            return f"of {logits} came {P}"
    return ""


def the_order_shows_in_what_is_possible(part: Any) -> str:
    """Temperature before top-p and min-p, top-k before top-p, top-p before min-p, the penalty before everything."""
    tenths = [math.log(x) for x in (0.4, 0.3, 0.2, 0.1)]
    return _supports(
        part,
        [
            ([3.0, 2.0, 1.0], [], {"top_p": 0.8, "temperature": 0.5}, [0]),
            ([3.0, 2.0, 1.0], [], {"top_p": 0.8}, [0, 1]),
            ([3.0, 2.0, 1.0], [], {"min_p": 0.3, "temperature": 0.5}, [0]),
            ([3.0, 2.0, 1.0], [], {"min_p": 0.3}, [0, 1]),
            ([3.0, 2.0, 1.0], [], {"min_p": 0.3, "temperature": 2.0}, [0, 1, 2]),
            (tenths, [], {"top_k": 2, "top_p": 0.5}, [0]),
            (tenths, [], {"top_p": 0.5, "min_p": 0.6}, [0, 1]),
            ([3.0, 2.0, 1.0], [0], {"repetition_penalty": 4.0, "top_k": 2}, [1, 2]),
            ([3.0, 2.0, 1.0], [0, 0], {"no_repeat_ngram": 2, "top_k": 2}, [1, 2]),
            ([3.0, 2.0, 1.0], [], {"banned": (0,), "top_k": 2}, [1, 2]),
        ],
    )


def the_penalty_is_before_the_temperature(part: Any) -> str:
    """[2, 1] after token 0 with gamma 4 at T = 1/2 is softmax([1, 2]): what is divided is the logit itself."""
    P = part(np.array([2.0, 1.0]), [0], replace(PLAIN, temperature=0.5, repetition_penalty=4.0))
    expected = 1.0 / (1.0 + math.e)
    return "" if abs(P[0] - expected) <= OF_TWO else f"the penalised token has {P[0]}, expected {expected}"


def the_penalty_has_two_ways_to_count(part: Any) -> str:
    """[2, 1] after three times token 0 with gamma 2: softmax([1/4, 1]) by the count, and 1/2 each by "once"."""
    for penalty, expected in (("count", 1.0 / (1.0 + math.exp(0.75))), ("once", 0.5)):
        P = part(np.array([2.0, 1.0]), [0, 0, 0], replace(PLAIN, repetition_penalty=2.0, penalty=penalty))
        if not abs(P[0] - expected) <= OF_TWO:
            return f"with penalty {penalty} the token has {P[0]}, expected {expected}"
    return ""


def blocking_yields_to_a_ban(part: Any) -> str:
    """Where the ban leaves only tokens that would repeat an n-gram, they may: the answer is what the ban leaves."""
    return _supports(
        part,
        [
            ([3.0, 2.0, 1.0], [1, 2], {"no_repeat_ngram": 1, "banned": (0,)}, [1, 2]),
            ([3.0, 2.0, 1.0], [1, 2], {"no_repeat_ngram": 1, "banned": (1,)}, [0]),
        ],
    )


def renaming_the_tokens_renames_the_answer(part: Any) -> str:
    """A permutation of the ids in logits, history and ban permutes the probabilities, within the rounding of a sum."""
    rng = generator()
    config = SamplingConfig(temperature=0.7, top_k=9, top_p=0.95, min_p=0.02, repetition_penalty=1.3, no_repeat_ngram=2)
    for _ in range(20):
        logits, order, ids = 2.0 * rng.standard_normal(12), rng.permutation(12), rng.integers(0, 12, 20)
        name = np.argsort(order)  # the new name of each id
        P = part(logits.copy(), ids.tolist(), replace(config, banned=(3, 5)))
        renamed = part(logits[order], name[ids].tolist(), replace(config, banned=(int(name[3]), int(name[5]))))
        if not (np.abs(renamed - P[order]) <= 2 * 12 * UNIT * P[order]).all():
            return f"{P[order]} became {renamed}"
    return ""


def continuations_sum_to_1(part: Any) -> str:
    """By the chain rule, over all sequences of 3 tokens, with a distribution that depends on the whole history."""
    table = generator().standard_normal((3, 3))
    config = SamplingConfig(temperature=0.7, top_k=None, repetition_penalty=1.5, no_repeat_ngram=3, min_p=0.05)

    def probability(start: list[int], further: Sequence[int]) -> float:
        product = 1.0
        for id in further:
            product *= part(table[start[-1]].copy(), start, config)[id]
            start = [*start, id]
        return product

    total = math.fsum(probability([0], each) for each in itertools.product(range(3), repeat=3))
    return "" if abs(total - 1.0) <= 3 * (2 * 3 + 1) * UNIT else f"all continuations together have {total}, expected 1"


# choose


def each_token_has_its_share_of_the_numbers(part: Any) -> str:
    """Probabilities in 64ths, and the first, a middle and the last number of every 64th: exactly that many, in order."""
    rng = generator()
    for v in (1, 2, 5, 13, 64):
        shares = rng.multinomial(64, rng.dirichlet(np.full(v, 0.3)))
        owners = np.repeat(np.arange(v), shares)
        for i, owner in enumerate(owners.tolist()):
            for uniform in (i / 64, (i + 0.5) / 64, math.nextafter((i + 1) / 64, 0.0)):
                found = part(shares / 64, uniform)
                if found != owner:
                    return f"{uniform} chooses {found} of {shares / 64}, expected {owner}"
    return ""


def what_has_probability_0_is_never_chosen(part: Any) -> str:
    """Also where the sum rounds to a little below 1, and for the smallest and the largest number."""
    cases = [np.array([0.1] * 10 + [0.0, 0.0]), np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.5, 0.0, 0.5, 0.0])]
    for P in cases:
        for uniform in (0.0, 0.5, math.nextafter(1.0, 0.0)):
            found = part(P.copy(), uniform)
            if not (0 <= found < P.size and P[found] > 0.0):
                return f"{uniform} chooses {found} of {P}"
    return ""


def what_is_certain_is_chosen(part: Any) -> str:
    """A probability of 1, as an int of Python, whatever the number."""
    for v, uniform in itertools.product((1, 2, 7), (0.0, 0.3, math.nextafter(1.0, 0.0))):
        for id in range(v):
            found = part(np.eye(v)[id], uniform)
            if type(found) is not int or found != id:
                return f"{uniform} chooses {found!r} ({type(found).__name__}), expected {id}"
    return ""


PARTS: dict[str, tuple[Law, ...]] = {
    "probabilities": (
        probabilities_are_a_distribution,
        without_filters_it_is_softmax,
        k_of_1_and_temperature_0_are_greedy,
        greedy_is_after_penalty_ban_and_blocking,
        infinite_temperature_is_uniform,
        the_order_shows_in_what_is_possible,
        the_penalty_is_before_the_temperature,
        the_penalty_has_two_ways_to_count,
        blocking_yields_to_a_ban,
        renaming_the_tokens_renames_the_answer,
        continuations_sum_to_1,
    ),
    "choose": (
        each_token_has_its_share_of_the_numbers,
        what_has_probability_0_is_never_chosen,
        what_is_certain_is_chosen,
    ),
}
