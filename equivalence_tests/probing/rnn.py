"""The conventions of an Elman network: axes, activation, biases, initial state, weights, what is returned."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, choose
from equivalence_tests.probing.subject import Refused, Subject, converted

ALIASES = {
    "X": ("input", "inputs", "x"),
    "W_ih": ("weight_ih", "Wx", "Wxh", "W_xh", "W_x", "U", "W_in"),
    "W_hh": ("weight_hh", "Wh", "Whh", "W_h", "W", "W_rec"),
    "b_ih": ("bias_ih", "b", "bias", "bh", "b_h"),
    "b_hh": ("bias_hh",),
    "h0": ("hx", "h_0", "initial_state", "h_prev", "h"),
}
Fact = tuple[str, str, bool, str, float]  # axes, activation, W_hh transposed, biases that count, initial state
B, T, D, H = 2, 4, 3, 5  # pairwise different
BIASES = ("both", "first", "second", "none")
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0.0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
}


class Network:
    """The function or module, with weights of our own: W_ih (h, d), W_hh (h, h), two biases (h,)."""

    def __init__(self, function: Any) -> None:
        self.subject = Subject(function, ALIASES, ("X", "W_ih", "W_hh", "b_ih", "b_hh"))
        self.d, self.h = D, H
        self.named: list[tuple[str, Any]] = []
        if self.subject.module:
            self.named = list(function.named_parameters())
            matrices = [p for _, p in self.named if p.ndim == 2]
            inward = next((p for p in matrices if p.shape[0] != p.shape[1]), None)
            square = next((p for p in matrices if p.shape[0] == p.shape[1]), None)
            if inward is None or square is None:
                raise Refused("it has no weights of an Elman network whose input is not as wide as its state")
            self.h = square.shape[0]
            self.d = int(inward.numel()) // self.h
        rng = np.random.default_rng(0)
        self.W_ih, self.W_hh = rng.standard_normal((self.h, self.d)), rng.standard_normal((self.h, self.h))
        self.biases = rng.standard_normal((2, self.h))
        self.X = rng.standard_normal((B, T, self.d))
        self.turned = False
        self._set()

    def _set(self) -> None:
        """A module's own parameters, by their shapes."""
        biases = iter(self.biases)
        for _, parameter in self.named:
            if parameter.ndim == 1:
                value = next(biases)
            elif parameter.shape[0] == parameter.shape[1]:
                value = self.W_hh
            else:
                self.turned = tuple(parameter.shape) != self.W_ih.shape
                value = self.W_ih.T if self.turned else self.W_ih
            parameter.data.copy_(converted(value, "torch", "float64"))

    @property
    def given_biases(self) -> list[str]:
        if self.subject.module:
            return [name for name, p in self.named if p.ndim == 1]
        return [name for name in ("b_ih", "b_hh") if name in self.subject.names]

    def values(self, X: Array, turned: bool, state: bool) -> dict[str, Any]:
        state_values = {"h0": np.zeros((B, self.h))} if state else {}
        if self.subject.module:
            return {"X": X} | state_values
        names = self.subject.names
        weights = {"W_ih": self.W_ih.T if turned else self.W_ih, "W_hh": self.W_hh}
        weights |= dict(zip(("b_ih", "b_hh"), self.biases, strict=True))
        return {"X": X} | {name: value for name, value in weights.items() if name in names} | state_values

    def states(self, X: Array, activation: str, transposed: bool, biases: str, h0: float) -> Array:
        """(B, T, h), by the formula."""
        step, W = ACTIVATIONS[activation], self.W_hh.T if transposed else self.W_hh
        b = {"both": self.biases.sum(0), "first": self.biases[0], "second": self.biases[1], "none": 0.0}[biases]
        h = np.full((len(X), self.h), h0)
        found = []
        for t in range(X.shape[1]):
            h = step(X[:, t] @ self.W_ih.T + h @ W.T + b)
            found.append(h)
        return np.stack(found, 1)


def probe_rnn(function: Any) -> list[Convention]:
    """Answered all at once, by the states that come out. Refused if no call is answered."""
    network = Network(function)
    X, outputs, asked_for_state = _answer(network)
    given = {"X": f"random{X.shape}", "W_ih, W_hh": "random"}
    alternatives: dict[str, Array] = {}
    facts: dict[str, Fact] = {}
    layouts = ("batch_first", "time_first") if X.ndim == 3 else ("unbatched",)
    for fact in itertools.product(layouts, ACTIVATIONS, (False, True), BIASES, (0.0, 1.0)):
        code = " ".join(str(each) for each in fact)
        facts[code] = fact
        match fact[0]:
            case "time_first":
                alternatives[code] = network.states(X.swapaxes(0, 1), *fact[1:]).swapaxes(0, 1)
            case "batch_first":
                alternatives[code] = network.states(X, *fact[1:])
            case _:
                alternatives[code] = network.states(X[None], *fact[1:])[0]
    H_all, last = _states(network, X, outputs)
    found = choose("rnn_axes", H_all, alternatives, given, "H", roundoff=network.subject.roundoff)
    got = {"H": H_all.reshape(-1)[:3]}
    if not found.told:
        return [replace(found, got={"H": f"shape {H_all.shape}"}, numbers={"choices": "several"})]
    axes, activation, transposed, biases, h0 = facts[found.answer]
    W_ih = network.W_ih.T if network.turned else network.W_ih
    said = {"biases": ", ".join(network.given_biases) or "none"}
    return [
        Convention("rnn_axes", axes, given, got),
        Convention("rnn_activation", activation, given, got),
        Convention("rnn_biases", "one" if biases == "first" else biases, said, got),
        Convention("rnn_initial", "given" if asked_for_state else "zeros" if h0 == 0.0 else "ones", given, got),
        Convention("rnn_input_weight", "in_out" if network.turned else "out_in", {"W_ih": f"shape {W_ih.shape}"}, got),
        Convention("rnn_state_weight", "in_out" if transposed else "out_in", given, got),
        Convention("rnn_last", last, given, {"shapes": ", ".join(str(array.shape) for array in outputs[:2])}),
    ]


def _answer(network: Network) -> tuple[Array, list[Array], bool]:
    """The first call that is answered: with a batch and without, without an initial state and with zeros, W_ih turned."""
    inputs = (network.X, network.X[0])
    choices = list(itertools.product(inputs, (False, True), (False, True)))
    calls = [network.values(X, turned, state) for X, state, turned in choices]
    place, outputs = network.subject.settle(*calls)
    X, state, turned = choices[place]
    if not network.subject.module:
        network.turned = turned
    return X, outputs, state


def _states(network: Network, X: Array, outputs: list[Array]) -> tuple[Array, str]:
    """All states as one array, in the axes of X, and what else came."""
    shape = (*X.shape[:-1], network.h)
    found = next((array for array in outputs if array.shape == shape), None)
    if found is None:
        steps = [array for array in outputs if array.shape == (B, network.h)]
        return (np.stack(steps[:T], 1), "list") if len(steps) >= T else (outputs[0], "none")
    ends = [found[-1], found[..., -1, :]]  # of time first, and of time last
    others = [array for array in outputs if array is not found and any(_same(array, end) for end in ends)]
    return found, "none" if not others else "layered" if others[0].ndim == X.ndim else "flat"


def _same(array: Array, end: Array) -> bool:
    """The same numbers, whatever axes of 1 stand before them."""
    return array.size == end.size and bool(np.array_equal(array.reshape(end.shape), end))
