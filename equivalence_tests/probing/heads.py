"""The conventions of attention with its own projections, of one head or several: functions of the weights, and modules.

Every weight is random and every bias 0, and what comes out is compared with the formula in every one of its forms at once:
how the weights lie and are packed, how columns are cut into heads, the scale, causality, which axis is the batch.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, asked, choose, close
from equivalence_tests.probing.heads_formula import Form, Formula
from equivalence_tests.probing.subject import Subject, converted, of_shape

ALIASES = {
    "X": ("hidden_states", "input", "inputs", "query", "src", "q"),
    "K": ("key", "k"),
    "V": ("value", "v"),
    "Wq": ("W_q", "W_query", "q_weight", "query_weight"),
    "Wk": ("W_k", "W_key", "k_weight", "key_weight"),
    "Wv": ("W_v", "W_value", "v_weight", "value_weight"),
    "Wqkv": ("W_qkv", "qkv_weight", "W_attn", "in_proj_weight"),
    "Wo": ("W_o", "W_0", "W_out", "W_proj", "out_weight", "out_proj_weight"),
    "num_heads": ("n_heads", "n_head", "nheads", "nhead", "heads", "H", "h"),
    "mask": ("attn_mask", "attention_mask"),
    "padding": ("key_padding_mask", "padding_mask"),
}
HEADS = ("num_heads", "n_heads", "n_head", "nheads", "nhead", "heads", "num_attention_heads", "h", "H")
B, N, H = 2, 3, 2
COLUMNS = 8  # of the output are compared: a wide module would take long, and a form that fits eight fits all
NAMES = {
    "heads_batch": "batch",
    "heads_order": "order",
    "heads_packing": "packing",
    "heads_weights": "weights",
    "heads_out_weights": "out",
    "heads_split": "split",
    "heads_scale": "scale",
    "heads_causal": "causal",
}


class Projected:
    """The function or module, with the weights that it has: by role, each as it is stored."""

    def __init__(self, function: Any) -> None:
        self.function, self.subject = function, Subject(function, ALIASES, ("X", "Wq", "Wk", "Wv", "Wo"))
        self.stored: dict[str, list[Array]] = {}
        self.biases: dict[str, Any] = {}
        self.rng = np.random.default_rng(0)
        if self.subject.module:
            self._take_parameters()
        attributes = (getattr(function, name, None) for name in HEADS)
        self.said = next((value for value in attributes if isinstance(value, int)), None)
        Y = self._settle()
        self.outputs = of_shape(Y, B, N, Y.shape[-1] if Y.ndim else 0)

    def _take_parameters(self) -> None:
        for name, parameter in self.function.named_parameters():
            if parameter.ndim == 1:
                self.biases[name] = parameter
                parameter.data.zero_()
            if parameter.ndim != 2:
                continue
            value = self.rng.standard_normal(tuple(parameter.shape)) * 1.5 / np.sqrt(min(parameter.shape))
            parameter.data.copy_(converted(value, "torch", "float64"))
            self.stored.setdefault(role_of(name, parameter.shape), []).append(value)

    def _settle(self) -> Array:
        """The first call that is answered; of a function, with weights of several sizes and orientations."""
        if self.subject.module:
            widths = sorted({size for values in self.stored.values() for value in values for size in value.shape})
            inputs = [self.rng.standard_normal((B, N, width)) for width in widths]
            place, outputs = self.subject.settle(*(self.values(X) for X in inputs))
            self.X = inputs[place]
            return outputs[0]
        tries = []
        for d, width, turned in ((6, 8, False), (6, 8, True), (8, 8, False)):
            shapes = {"q": (d, width), "k": (d, width), "v": (d, width), "qkv": (d, 3 * width), "out": (width, d)}
            names = {"q": "Wq", "k": "Wk", "v": "Wv", "qkv": "Wqkv", "out": "Wo"}
            stored = {
                role: [self.rng.standard_normal(shape[::-1] if turned else shape) * 1.5 / np.sqrt(d)]
                for role, shape in shapes.items()
                if names[role] in self.subject.names
            }
            tries.append((self.rng.standard_normal((B, N, d)), stored))
        calls = []
        for self.X, self.stored in tries:
            calls.append(self.values(self.X))
        place, outputs = self.subject.settle(*calls)
        self.X, self.stored = tries[place]
        return outputs[0]

    def values(self, X: Array) -> dict[str, Any]:
        names = self.subject.names
        given: dict[str, Any] = {"X": X} | {name: X for name in ("K", "V") if name in names}
        if not self.subject.module:
            for role, name in (("q", "Wq"), ("k", "Wk"), ("v", "Wv"), ("qkv", "Wqkv"), ("out", "Wo")):
                if name in names:
                    given[name] = self.stored[role][0]
            if "num_heads" in names:
                given["num_heads"] = H
        return given

    def __call__(self, **options: Any) -> Array:
        return of_shape(self.subject(**self.values(self.X), **options)[0], *self.outputs.shape)

    @property
    def head_counts(self) -> list[int]:
        """How many heads there may be: what is said or given, or else every divisor of the width."""
        if not self.subject.module:
            return [H] if "num_heads" in self.subject.names else [1]
        if len(self.stored.get("q", [])) > 1:
            return [len(self.stored["q"])]
        return [self.said] if self.said else [1, 2, 3, 4, 6, 8, 12]


def role_of(name: str, shape: Any) -> str:
    """Which of the projections a parameter is: by its name, or by its shape where three are packed."""
    tokens = [token for token in re.split(r"[._\d]+", name.lower()) if token not in ("weight", "w", "")]
    for role, words in (("q", ("q", "wq", "quer")), ("k", ("k", "wk", "key")), ("v", ("v", "wv", "val"))):
        if any(token in words[:2] or token.startswith(words[2]) for token in tokens):
            return role
    return "qkv" if max(shape) == 3 * min(shape) else "out"


def probe_heads(function: Any) -> list[Convention]:
    """Batch axis, weights, packing, heads, scale, causality, masks, biases. Refused if no call is answered."""
    subject = Projected(function)
    given = {"X": f"random{subject.X.shape}", "weights": "random", "biases": "0"}
    Y, roundoff = subject.outputs, subject.subject.roundoff
    got = {"Y[0, 0]": Y.reshape(-1)[:3]}
    formula = Formula(subject.stored, subject.X)
    matching = [
        form
        for form in formula.forms(subject.head_counts)
        if (each := formula(form, columns=COLUMNS)) is not None and close(Y[..., :COLUMNS], each, roundoff)
    ]
    if not matching:
        return [Convention("heads_split", "unmatched", given, got)]
    found = [_fact(name, [getattr(form, field) for form in matching], given, got) for name, field in NAMES.items()]
    form = matching[0]
    if form.heads == 1:  # the width of the head is the whole width, and there is nothing to cut
        answers = {"heads_split": "one_head", "heads_scale": form.scale, "heads_packing": form.packing}
        one = {name: Convention(name, answer, given, got) for name, answer in answers.items()}
        found = [one.get(each.name, each) for each in found]
    found.append(Convention("heads_count", "value", given, got, {"heads": form.heads}))
    return [*found, _biases(subject), *_masks(subject, formula, form)]


def _fact(name: str, answers: list[str], given: dict[str, Any], got: dict[str, Any]) -> Convention:
    """What all the forms that fit agree upon."""
    different = list(dict.fromkeys(answers))
    if len(different) == 1:
        return Convention(name, different[0], given, got)
    return Convention(name, "ambiguous", given, got, {"choices": ", ".join(different)})


def _biases(subject: Projected) -> Convention:
    """Which parameters are vectors, and that they count."""
    if not subject.subject.module:
        return Convention("heads_biases", "no_option")
    if not subject.biases:
        return Convention("heads_biases", "none", {"parameters": "matrices alone"}, {"biases": "none"})
    for parameter in subject.biases.values():
        parameter.data.fill_(0.5)
    try:
        Y = subject()
    finally:
        for parameter in subject.biases.values():
            parameter.data.zero_()
    moved = not np.array_equal(Y, subject.outputs)
    given = {"biases": "0.5"}
    got = {"Y[0, 0] without": subject.outputs[0, 0][:2], "with": Y[0, 0][:2]}
    return Convention("heads_biases", "some" if moved else "ignored", given, got, {"names": ", ".join(subject.biases)})


def _masks(subject: Projected, formula: Formula, form: Form) -> list[Convention]:
    """A boolean mask (n, n) and a padding mask (B, n): told by the last query, which sees every key."""
    by_sequence = form.batch != "batch_first"
    b, n = (N, B) if by_sequence else (B, N)
    mask = np.ones((n, n), bool)
    mask[np.arange(n), (np.arange(n) + 1) % n] = False
    padding = np.ones((b, n), bool)
    padding[np.arange(b), np.arange(b) % (n - 1)] = False
    by_query = np.broadcast_to(mask, (b, n, n)), np.broadcast_to(padding[:, None], (b, n, n))
    return [
        _mask(subject, formula, form, "heads_mask", "mask", mask, by_query[0]),
        _mask(subject, formula, form, "heads_padding", "padding", padding, by_query[1]),
    ]


def _mask(
    subject: Projected, formula: Formula, form: Form, name: str, option: str, mask: Array, allowed: Array
) -> Convention:
    if option not in subject.subject.names:
        return Convention(name, "no_option")
    given = {f"{option}[-1]": mask[-1]}

    def last(Y: Array | None) -> Array:
        assert Y is not None  # the form is one that gave what came out without a mask
        return Y[:, -1] if form.batch == "batch_first" else Y[-1]

    def decide() -> Convention:
        alternatives = {
            "keeps": last(formula(form, allowed)),
            "drops": last(formula(form, ~allowed)),
            "added": last(formula(form, added=allowed * 1.0)),
            "ignored": last(formula(form)),
        }
        Y = last(subject(**{option: mask}))
        found = choose(name, Y, alternatives, given, roundoff=subject.subject.roundoff)
        return replace(found, got={"Y[-1]": Y.reshape(-1)[:3]})

    return asked(name, given, decide)
