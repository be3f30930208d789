"""The conventions of Adam and AdamW: where epsilon stands, how weights decay, the corrections, the defaults.

Four steps with gradients of very different sizes are compared with the formula in every one of its forms.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.convention import Convention, choose
from equivalence_tests.probing.subject import Refused, Subject, guarded

ALIASES = {
    "params": ("p", "param", "parameters", "w", "weights", "theta"),
    "grads": ("g", "grad", "gradients", "dw", "gradient"),
    "state": ("cache", "memory", "optimizer_state"),
    "m": ("exp_avg", "first_moment"),
    "v": ("exp_avg_sq", "second_moment"),
    "t": ("step", "iteration"),
    "lr": ("learning_rate", "alpha", "step_size", "eta"),
    "betas": (),
    "beta1": ("b1", "beta_1"),
    "beta2": ("b2", "beta_2"),
    "epsilon": ("eps",),
    "weight_decay": ("wd", "decay", "lambda_", "l2"),
}
W = np.array([1.0, -2.0, 0.5])
GRADIENTS = np.array([[0.5, 1e-3, 1e-4], [-0.2, 2e-3, 3e-4], [1.5, -1e-3, 1e-4], [0.1, 5e-4, -2e-4]])
EPSILONS = ("outside", "inside", "before_correction", "none")
DECAYS = ("decoupled", "decoupled_without_lr", "after", "l2", "none")
CORRECTIONS = ("both", "first", "none")


@dataclass(frozen=True)
class Hyper:
    """The numbers of a run."""

    lr: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float


ASKED = Hyper(0.1, 0.8, 0.95, 1e-3, 0.1)


def formula(hyper: Hyper, epsilon: str, decay: str, corrections: str) -> Array:
    """(4, 3): the weights after each step."""
    w, m, v = W.copy(), np.zeros(3), np.zeros(3)
    found = []
    for t, gradient in enumerate(GRADIENTS, 1):
        g = gradient + (hyper.weight_decay * w if decay == "l2" else 0.0)
        m = hyper.beta1 * m + (1 - hyper.beta1) * g
        v = hyper.beta2 * v + (1 - hyper.beta2) * g**2
        c1 = 1.0 if corrections == "none" else 1 - hyper.beta1**t
        c2 = 1 - hyper.beta2**t if corrections == "both" else 1.0
        below = {
            "outside": np.sqrt(v / c2) + hyper.epsilon,
            "inside": np.sqrt(v / c2 + hyper.epsilon),
            "before_correction": (np.sqrt(v) + hyper.epsilon) / np.sqrt(c2),
            "none": np.sqrt(v / c2),
        }[epsilon]
        shrink = hyper.weight_decay * {"decoupled": hyper.lr, "decoupled_without_lr": 1.0, "after": hyper.lr}.get(
            decay, 0.0
        )
        w = w - hyper.lr * m / c1 / below - (shrink * w if decay != "after" else 0.0)
        if decay == "after":
            w = w * (1 - shrink)
        found.append(w)
    return np.stack(found)


class Optimizer:
    """A class of torch.optim, a step on dicts `(params, grads, state)`, or one on an array; in place or not."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.subject = Subject(function, ALIASES, ("params", "grads", "state"))
        torch = sys.modules.get("torch")
        self.torch_class = "grads" not in self.subject.names and torch is not None

    def keywords(self, hyper: Hyper | None) -> dict[str, Any]:
        """The numbers as arguments, those that it takes."""
        if hyper is None:
            return {"lr": ASKED.lr} if self.subject.requires("lr") else {}
        values = {"lr": hyper.lr, "betas": (hyper.beta1, hyper.beta2), "beta1": hyper.beta1, "beta2": hyper.beta2}
        values |= {"epsilon": hyper.epsilon, "weight_decay": hyper.weight_decay}
        return {name: value for name, value in values.items() if name in self.subject.names}

    def run(self, hyper: Hyper | None) -> Array:
        """(4, 3): the weights after each step. None: with its own defaults. Refused if it raises."""
        keywords = self.keywords(hyper)
        return self._torch_steps(keywords) if self.torch_class else self._steps(keywords)

    def _torch_steps(self, keywords: dict[str, Any]) -> Array:
        import torch

        p = torch.nn.Parameter(torch.from_numpy(W.copy()))
        named = {self.subject.names[name]: value for name, value in keywords.items()}
        optimizer = guarded(self.function, [p], **named)
        if not hasattr(optimizer, "step"):
            raise Refused(f"it gives a {type(optimizer).__name__}, which has no step")
        found = []
        for gradient in GRADIENTS:
            p.grad = torch.from_numpy(gradient.copy())
            guarded(optimizer.step)
            found.append(p.detach().numpy().copy())
        return np.stack(found)

    def _steps(self, keywords: dict[str, Any]) -> Array:
        """In float64, with state carried by the function itself, or handed back to it."""
        named = {self.subject.names[name]: value for name, value in keywords.items()}
        first: Refused | None = None
        for wrap in (lambda array: {"w": array}, lambda array: array):
            try:
                return self._steps_on(wrap, named)
            except Refused as refused:
                first = first or refused
        raise first or Refused("")

    def _steps_on(self, wrap: Callable[[Array], Any], named: dict[str, Any]) -> Array:
        names = self.subject.names
        params: Any = wrap(W.copy())
        state: Any = {}
        moments: Any = wrap(np.zeros(3)), wrap(np.zeros(3))
        found = []
        for t, gradient in enumerate(GRADIENTS, 1):
            held = {"params": params, "grads": wrap(gradient.copy()), "state": state}
            held |= {"m": moments[0], "v": moments[1], "t": t}
            given = {names[name]: value for name, value in held.items() if name in names}
            answer = guarded(self.function, **given, **named)
            if answer is not None:
                parts = answer if isinstance(answer, tuple) else (answer,)
                params, state = parts[0], parts[1] if len(parts) > 1 else state
                moments = parts[1:3] if "m" in names and len(parts) > 2 else moments
            now = params.get("w") if isinstance(params, dict) else params
            if not isinstance(now, np.ndarray) or now.dtype.kind != "f" or now.shape != W.shape:
                raise Refused("its answer is no array of the weights' shape")
            found.append(np.array(now, np.float64))
        return np.stack(found)


def probe_optimizer(function: Any) -> list[Convention]:
    """Epsilon, decay, corrections; then the defaults, with which the same formula must give what it gives. Refused if it
    cannot be run."""
    optimizer = Optimizer(function)
    got = optimizer.run(ASKED)
    takes = optimizer.subject.names
    fixed = _defaults(optimizer)
    hyper = replace(
        fixed,
        lr=ASKED.lr if "lr" in takes else fixed.lr,
        beta1=ASKED.beta1 if {"betas", "beta1"} & takes.keys() else fixed.beta1,
        beta2=ASKED.beta2 if {"betas", "beta2"} & takes.keys() else fixed.beta2,
        epsilon=ASKED.epsilon if "epsilon" in takes else fixed.epsilon,
        weight_decay=ASKED.weight_decay if "weight_decay" in takes else 0.0,
    )
    decays = DECAYS if hyper.weight_decay else ("none",)
    forms = {
        f"{e} {d} {c}": (e, d, c)
        for e, d, c in itertools.product(EPSILONS, decays, CORRECTIONS)
        if e != "before_correction" or c == "both"  # where v is not corrected, that is outside
    }
    alternatives = {code: formula(hyper, *form) for code, form in forms.items()}
    given = {"w": W, "g": GRADIENTS[:2]} | {name: getattr(hyper, name) for name in ("lr", "epsilon", "weight_decay")}
    roundoff = 2.0**-53
    found = choose("adam_epsilon", got, alternatives, given, "w", roundoff=roundoff)
    shown = {"w": got[1]}
    if not found.told:
        return [replace(found, got=shown, numbers={"choices": "several"})]
    epsilon, decay, corrections = forms[found.answer]
    structure = [
        Convention("adam_epsilon", epsilon, given, shown),
        Convention("adam_decay", decay, given, shown) if hyper.weight_decay else Convention("adam_decay", "no_option"),
        Convention("adam_correction", corrections, given, shown),
    ]
    return [*structure, *_told_defaults(optimizer, fixed, epsilon, decay, corrections)]


def _defaults(optimizer: Optimizer) -> Hyper:
    """As the signature has them; what it does not name is as Adam's authors had it."""

    def default(name: str, usual: float, place: int = 0) -> float:
        value = optimizer.subject.default(name)
        if name not in optimizer.subject.names and name.startswith("beta"):
            pair = optimizer.subject.default("betas")
            value = pair[place] if pair is not None else None
        return usual if value is None else float(value)

    rate = default("lr", ASKED.lr if "lr" in optimizer.subject.names else 1e-3)
    betas = default("beta1", 0.9, 0), default("beta2", 0.999, 1)
    return Hyper(rate, *betas, default("epsilon", 1e-8), default("weight_decay", 0.0))


def _told_defaults(optimizer: Optimizer, fixed: Hyper, *form: str) -> list[Convention]:
    """The defaults, if the four steps without any argument are those of the formula with them."""
    names = {
        "lr": "adam_lr",
        "beta1": "adam_beta1",
        "beta2": "adam_beta2",
        "epsilon": "adam_eps",
        "weight_decay": "adam_wd",
    }
    given = {"w": W, "g": GRADIENTS[:2], "defaults": "its own"}
    try:
        got = optimizer.run(None)
    except Refused as refused:
        return [Convention(name, "refused", given, {}, {"error": str(refused)}) for name in names.values()]
    form = (form[0], "none" if not fixed.weight_decay else form[1], form[2])
    right = choose("adam_lr", got, {"value": formula(fixed, *form)}, given, "w", roundoff=2.0**-53)
    needed = optimizer.keywords(None)
    found = []
    for field, name in names.items():
        answer = "unmatched" if not right.told else "required" if field in needed else "value"
        found.append(Convention(name, answer, given, {"w": got[1]}, {"value": getattr(fixed, field)}))
    return found
