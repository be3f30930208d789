"""What dropout does: which share p is, what it does to the kept, and what happens outside of training."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.attention import HEADS, Attention
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.subject import Refused, Subject, of_shape

ALIASES = {
    "X": ("input", "inputs"),
    "keep": ("mask", "dropout_mask", "keep_mask"),
    "p": ("rate", "dropout_p", "p_drop", "drop_prob", "dropout_rate", "prob", "keep_prob", "p_keep", "ratio"),
    "training": ("train", "is_training"),
    "deterministic": (),
}
P = 0.25  # not a half, at which dropping and keeping are one
SIZE = 8  # of 64 elements the share that is left tells a quarter from three quarters by 4.6 standard deviations


def probe_attention_dropout(subject: Attention) -> list[Convention]:
    """The dropout of the attention weights. One answer more if p is read at all."""
    given: dict[str, Any] = {"p": P, "Q": "zeros"}
    if not subject.subject.takes("p"):
        return [Convention("attention_dropout", "no_option")]
    zeros = np.zeros((SIZE, SIZE))
    options: dict[str, Any] = {"p": P, "training": True}
    shape = (SIZE, SIZE) if subject.layout == "nc" else (HEADS, SIZE, SIZE)
    drawn = np.random.default_rng(1).random(shape) >= P
    if "keep" in subject.subject.names:
        options["keep"] = drawn[None] if subject.layout.startswith("b") else drawn
    try:
        before, after = subject.weights(zeros, zeros), subject.weights(zeros, zeros, **options)
    except Refused as refused:
        return [Convention("attention_dropout", "refused", given, {}, {"error": str(refused)})]
    masked = "keep" in options
    return _what_it_did(
        "attention_dropout", "attention_dropout_p", after, before, given, P, subject.subject.roundoff, masked
    )


def probe_dropout(function: Any) -> list[Convention]:
    """The kept elements, the meaning of p and of a mask that is given, evaluation. Refused if no call is answered."""
    subject = Subject(function, ALIASES, ("X",))
    X = np.arange(1.0, SIZE * SIZE + 1).reshape(SIZE, SIZE)
    drawn = np.random.default_rng(1).random(X.shape) >= P
    options: dict[str, Any] = {"p": P} if subject.takes("p") else {}
    masks = [drawn, drawn * 1.0] if "keep" in subject.names else [None]
    place, outputs = subject.settle(*({"X": X, "keep": mask, "training": True} | options for mask in masks))
    mask, Y = masks[place], of_shape(outputs[0], *X.shape)
    given: dict[str, Any] = {"X": "1 .. 64", **(options or {"p": "its own"})}
    p = float(options.get("p", getattr(function, "p", P)))
    found = _what_it_did("dropout", "dropout_p", Y, X, given | {"p": p}, p, subject.roundoff, mask is not None)
    return [*found, _evaluation(subject, X, options, p) if mask is None else _keep_mask(Y, drawn)]


def _keep_mask(Y: Array, drawn: Array) -> Convention:
    left = Y != 0
    answer = "keeps" if np.array_equal(left, drawn) else "drops" if np.array_equal(left, ~drawn) else "ignored"
    return Convention("keep_mask", answer, {"keep[0]": drawn[0]}, {"Y[0]": Y[0]})


def _evaluation(subject: Subject, X: Array, options: dict[str, Any], p: float) -> Convention:
    """Outside of training, where the function can be told so."""
    if not (subject.module or {"training", "deterministic"} & subject.names.keys()):
        return Convention("dropout_evaluation", "no_option")
    given = {"X[0]": X[0, :4], "training": False, "p": p}

    def decide() -> Convention:
        Y = of_shape(subject(X=X, training=False, **options)[0], *X.shape)
        if (Y == 0).any():
            return Convention("dropout_evaluation", "drops", given, {"Y[0]": Y[0, :4]})
        alternatives = {"identity": X, "shrinks": X * (1 - p)}
        found = choose("dropout_evaluation", Y, alternatives, given, roundoff=subject.roundoff)
        return Convention("dropout_evaluation", found.answer, given, {"Y[0]": Y[0, :4]}, found.numbers)

    return asked("dropout_evaluation", given, decide)


def _what_it_did(
    name: str, name_p: str, Y: Array, before: Array, given: dict[str, Any], p: float, roundoff: float, masked: bool
) -> list[Convention]:
    """Told from the size of what it kept, and from how much it kept (of which p says nothing where a mask came)."""
    possible = before != 0
    kept = (Y != 0) & possible
    given = given | {"before[-1]": before[-1][:4]}
    got = {"after[-1]": Y[-1][:4], "kept": float(kept.sum() / possible.sum())}
    if kept.sum() in (0, possible.sum()):
        return [Convention(name, "ignored" if kept.any() else "nothing_left", given, got)]
    ratios = Y[kept] / before[kept]
    drops = masked or bool(got["kept"] > 0.5) == (p < 0.5)
    meaning = [] if masked else [Convention(name_p, "drops" if drops else "keeps", given, got)]
    sums_stay = np.abs(Y.sum(-1) / before.sum(-1) - 1).max() < np.ptp(ratios) / SIZE
    if sums_stay:  # while the kept grow otherwise from row to row, by the count that is left
        return [Convention(name, "renormalised", given, got), *meaning]
    share = 1 - p if drops else p
    extremes = np.array([ratios.min(), ratios.max()])
    factors = {"scaled": 1 / share, "unscaled": 1.0, "wrong_share": 1 / (1 - share)}
    alternatives = {code: np.array([factor, factor]) for code, factor in factors.items()}
    found = choose(name, extremes, alternatives, given, "ratio", {"p": p}, roundoff=roundoff)
    return [Convention(name, found.answer, given, got, found.numbers), *meaning]
