"""How an attention function makes its scores: scale, causality, and the precision in which they are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.attention import HEADS, Attention, softmax
from equivalence_tests.probing.convention import Convention, asked, choose, close

SCORES = np.array([2.0, 0.0, 0.0])


def probe_scores(subject: Attention) -> list[Convention]:
    """Layouts, causality, scale and precision."""
    scale = _scale(subject)
    questions = [_causal(subject), scale, _scale_option(subject), _scale_place(subject, scale), _half(subject)]
    return [*subject.conventions, *questions]


def measured_scale(A: Array, scores: Array) -> float:
    """The factor between the scores and the logits that made the weights of one row."""
    return float(np.log(A[0] / A[1]) / (scores[0] - scores[1]))


def _scaled(subject: Attention, **options: Any) -> tuple[Array, float]:
    """The weights of a query with the scores 2, 0, 0, and the scale that they show."""
    Q = np.zeros((3, subject.width))
    Q[-1, 0] = 2.0
    A = subject.weights(Q, np.eye(3), **options)[-1]
    return A, measured_scale(A, SCORES)


def _scale(subject: Attention) -> Convention:
    given = {"Q[-1]": "[2 0 ..]", "K": "rows of I", "c": subject.width, "m": 3}

    def decide() -> Convention:
        A, s = _scaled(subject)
        if "scale" in subject.fixed:
            return Convention("scale", "asked", {"scale": "has no default"}, {"A[-1], scale = 1": A}, {"s": s})
        c = subject.width
        factors = {"root": c**-0.5, "width": 1 / c, "none": 1.0, "keys": 3**-0.5, "times_root": c**0.5}
        if subject.layout != "nc":
            factors["whole"] = (HEADS * c) ** -0.5
        rows = {code: softmax(factor * SCORES) for code, factor in factors.items()}
        found = choose("scale", A, rows, given, "A[-1]", {"s": s, "c": c}, roundoff=subject.subject.roundoff)
        other = found.answer == "unmatched" and close(A, softmax(s * SCORES), subject.subject.roundoff)
        return replace(found, answer="other") if other else found

    return asked("scale", given, decide)


def _scale_option(subject: Attention) -> Convention:
    given = {"scale": 0.25, "Q[-1]": [2, 0, 0], "K": "rows of I"}
    if not subject.subject.takes("scale"):
        return Convention("scale_option", "no_option")

    def decide() -> Convention:
        usual = _scaled(subject)[1]
        A, s = _scaled(subject, scale=0.25)
        factors = {"multiplies": 0.25, "divides": 4.0, "on_top": 0.25 * usual, "ignored": usual}
        if "scale" in subject.fixed:  # there is no default that it could multiply
            del factors["on_top"]
        rows = {code: softmax(factor * SCORES) for code, factor in factors.items()}
        return choose("scale_option", A, rows, given, "A[-1]", {"s": s}, roundoff=subject.subject.roundoff)

    return asked("scale_option", given, decide)


def _scale_place(subject: Attention, scale: Convention) -> Convention:
    """A score beyond the largest number of the dtype that is below it once it is scaled."""
    if not 0.1 < abs(scale.numbers.get("s", 1.0)) < 0.6:  # the score is 1.5 times the largest number
        return Convention("scale_place", "out_of_reach")
    largest = subject.subject.largest
    q, k = 1.5 * 2.0 ** (largest // 2), 2.0 ** (largest - largest // 2)
    given = {"Q[-1]": [q, 0], "K": [[k, 0], [0, k]]}

    def decide() -> Convention:
        A = subject.weights([[0.0, 0.0], [q, 0.0]], [[k, 0.0], [0.0, k]])[-1]
        return Convention("scale_place", "operands" if np.array_equal(A, [1.0, 0.0]) else "scores", given, {"A[-1]": A})

    return asked("scale_place", given, decide)


def _causal(subject: Attention) -> Convention:
    """Which keys a query sees where there are more keys than queries: equal scores share the weight among them."""
    given = {"n": 2, "m": 4, "Q": "zeros", "K": "zeros"} | ({} if subject.always else {"causal": True})
    if not subject.always and not subject.subject.takes("causal"):
        return Convention("causal", "no_option")
    options = {} if subject.always else {"causal": True}

    def decide() -> Convention:
        A = subject.weights(np.zeros((2, 4)), np.zeros((4, 4)), **options)
        i, j = np.arange(2)[:, None], np.arange(4)
        sees = {"top_left": j <= i, "bottom_right": j <= i + 2, "future": j >= i, "ignored": i + j >= 0}
        alternatives = {code: seen / seen.sum(1, keepdims=True) for code, seen in sees.items()}
        for empty in (0.0, np.nan, 0.25):  # without the diagonal the first row is empty
            alternatives[f"strict {empty}"] = np.where(i == 0, empty, (j < i) / 1.0)
        found = choose("causal", A, alternatives, given, "A", roundoff=subject.subject.roundoff)
        return replace(found, answer="strict") if found.answer.startswith("strict") else found

    return asked("causal", given, decide)


def _half(subject: Attention) -> Convention:
    """In float16 a score beyond 65504, scaled or not: right only if the scores are kept in more."""
    given = {"dtype": "float16", "Q[-1]": [600, 0], "K": [[600, 0], [0, 600]]}

    def decide() -> Convention:
        before, subject.subject.dtype = subject.subject.dtype, "float16"
        try:
            A = subject.weights([[0.0, 0.0], [600.0, 0.0]], [[600.0, 0.0], [0.0, 600.0]])[-1]
        finally:
            subject.subject.dtype = before
        return Convention("upcast", "wider" if np.array_equal(A, [1.0, 0.0]) else "own", given, {"A[-1]": A})

    return asked("upcast", given, decide)
