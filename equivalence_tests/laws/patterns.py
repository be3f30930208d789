"""The shapes of every op's arguments, by letter: what laws that hold for all ops draw their cases from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array, round_to
from equivalence_tests.cases import Case, Draws

MASKS = {"mask": "... n m", "bias": "... n m", "keep": "... n m"}


@dataclass(frozen=True)
class Pattern:
    """Patterns as in `X: "... n d"`: `...` is the leading axes, equal wherever it is written; a letter is one size.

    `integers` names the operands that hold ids below the letter given. `options` are arrays by keyword.
    """

    operands: dict[str, str]
    upstream: dict[str, str]
    options: dict[str, str] = field(default_factory=dict)
    integers: dict[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()  # operands that may be left out


SELF = {"X": "... n d", "Wq": "d c", "Wk": "d c"}
SELF_MASKS = dict.fromkeys(MASKS, "... n n")
PATTERNS = {
    "softmax": Pattern({"X": "... m"}, {"dA": "... m"}),
    "log_softmax": Pattern({"X": "... m"}, {"dY": "... m"}),
    "layer_norm": Pattern({"X": "... d", "scale": "d", "shift": "d"}, {"dY": "... d"}),
    "linear": Pattern({"X": "... d", "weight": "k d", "bias": "k"}, {"dY": "... k"}, optional=("bias",)),
    "relu": Pattern({"X": "..."}, {"dY": "..."}),
    "tanh": Pattern({"X": "..."}, {"dY": "..."}),
    "gelu": Pattern({"X": "..."}, {"dY": "..."}),
    "dropout": Pattern({"X": "..."}, {"dY": "..."}, {"keep": "..."}),
    "embedding": Pattern({"ids": "...", "weight": "v d"}, {"dY": "... d"}, integers={"ids": "v"}),
    "cross_entropy": Pattern({"logits": "... v", "targets": "..."}, {"dloss": ""}, integers={"targets": "v"}),
    "attention": Pattern({"Q": "... n c", "K": "... m c", "V": "... m e"}, {"dC": "... n e"}, MASKS),
    "attention_stages": Pattern(
        {"Q": "... n c", "K": "... m c", "V": "... m e", "dC": "... n e"}, {}, MASKS, optional=("dC",)
    ),
    "simple_attention": Pattern({"X": "... n d"}, {"dC": "... n d"}),
    "self_attention": Pattern({**SELF, "Wv": "d e"}, {"dC": "... n e"}, SELF_MASKS),
    "multi_head_attention": Pattern(
        {"X": "... n d", "Wq": "d Hc", "Wk": "d Hc", "Wv": "d Hc", "Wo": "Hc k"},
        {"dY": "... n k"},
        dict.fromkeys(MASKS, "... H n n"),
    ),
    "rnn": Pattern(
        {"X": "... n d", "W_ih": "k d", "W_hh": "k k", "b_ih": "k", "b_hh": "k", "h0": "... k"},
        {"dH": "... n k", "dh_last": "... k"},
        optional=("h0",),
    ),
}
SIZES = {
    "n": 3,
    "m": 5,
    "d": 4,
    "c": 2,
    "e": 6,
    "k": 7,
    "v": 8,
    "H": 3,
    "Hc": 6,
}  # pairwise different, but for e and Hc
P = 0.3


def shape_of(pattern: str, lead: tuple[int, ...], letters: dict[str, int] = SIZES) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    for letter in pattern.split():
        shape += lead if letter == "..." else (letters[letter],)
    return shape


def case_of(op: str, draws: Draws, dtype: str, lead: tuple[int, ...], options: tuple[str, ...] = ()) -> Case:
    """A case with the given leading axes, with those array options that are named (keep brings its p along)."""
    pattern = PATTERNS[op]

    def drawn(name: str, letters: str) -> Array:
        shape = shape_of(letters, lead)
        if name in pattern.integers:
            return np.asarray(draws.rng.integers(0, SIZES[pattern.integers[name]], shape))
        if name in ("mask", "keep"):
            return np.asarray(draws.rng.random(shape) >= P)
        return round_to(draws.normal(shape), PRECISIONS[dtype])

    def all_of(patterns: dict[str, str]) -> dict[str, Any]:
        return {name: drawn(name, letters) for name, letters in patterns.items()}

    chosen = {name: letters for name, letters in pattern.options.items() if name in options or op == "dropout"}
    settings: dict[str, Any] = all_of(chosen)
    if "keep" in settings:
        settings["p"] = P
    if op == "multi_head_attention":
        settings["num_heads"] = SIZES["H"]
    upstream = {name: np.asarray(-1.7) if name == "dloss" else drawn(name, x) for name, x in pattern.upstream.items()}
    return Case(all_of(pattern.operands), settings, upstream)
