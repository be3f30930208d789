"""The conventions of a GPT as a function `(params, ids, config)` of the flat dict: asked through its parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.probing.activations import gelu_forms
from equivalence_tests.probing.convention import Convention, asked, choose
from equivalence_tests.probing.subject import Refused, Subject, of_shape
from reference_numpy.config import GPTConfig
from reference_numpy.gpt import init_gpt

ALIASES = {"params": ("parameters", "weights"), "ids": ("input_ids", "idx", "x"), "config": ("cfg",)}
CONFIG = GPTConfig(vocab_size=9, context_window=5, embedding_dim=6, num_layers=1, num_heads=2, head_dim=4, ff_factor=2)
IDS = np.array([[3, 1, 4, 1]])
LARGE = 1e6  # beside such embeddings what a branch adds is nothing
TABLES = ("token_embedding.weight", "position_embedding.weight")
BRANCHES_OFF = {"projection.weight": 0.0, "contract.weight": 0.0, "contract.bias": 0.0}
UNCHANGED: dict[str, Any] = {}


class Flat:
    """The function, with parameters of our own in which branches can be switched off."""

    def __init__(self, function: Any) -> None:
        self.subject = Subject(function, ALIASES, ("params", "ids", "config"))
        self.params = init_gpt(CONFIG, np.random.default_rng(0), np.float64)
        rng = np.random.default_rng(1)
        self.params |= {
            name: rng.standard_normal(p.shape) / 2 for name, p in self.params.items() if "scale" not in name
        }
        self.subject.settle({"params": self.params, "ids": IDS, "config": CONFIG})

    def __call__(self, ends: dict[str, Any] = UNCHANGED, ids: Array = IDS, config: GPTConfig = CONFIG) -> Array:
        """Logits; `ends` has other values for parameters, by the ends of their names."""
        params = {
            name: next((np.zeros_like(p) + value for end, value in ends.items() if name.endswith(end)), p)
            for name, p in self.params.items()
            if not (config.tied_head and name == "lm_head.weight")
        }
        return of_shape(self.subject(params=params, ids=ids, config=config)[0], *ids.shape, config.vocab_size)


def probe_gpt_function(function: Any) -> list[Convention]:
    """Norms, activation, causality, head, positions. Refused if the function cannot be called so."""
    model = Flat(function)
    questions = {"gpt_norm": _norm, "gpt_activation": _activation, "gpt_causal": _causal}
    questions |= {"gpt_head": _head, "gpt_positions": _positions}
    return [asked(name, {}, lambda ask=ask: ask(model)) for name, ask in questions.items()]  # type: ignore[misc]


def _norm(model: Flat) -> Convention:
    """With huge embeddings the branches of a pre-norm block are nothing beside the residual path."""
    huge = {name: model.params[name] * LARGE for name in TABLES}
    on, off = model(huge), model(huge | BRANCHES_OFF)
    alone = np.abs(on - off).max() <= 2.0**-8 * np.abs(off).max()
    given = {"embeddings": f"times {LARGE:.0e}"}
    got = {"logits[0, 0]": on[0, 0][:2], "without the branches": off[0, 0][:2]}
    return Convention("gpt_norm", "pre" if alone else "post", given, got)


def _activation(model: Flat) -> Convention:
    """Embeddings of 0, attention off: the logits are the last norm of the activation of the bias of `expand`."""
    d = CONFIG.embedding_dim
    x = np.array([-2.7, -1.0, 0.5, 1.5, 2.7, -0.3])
    off = (*TABLES, "shift", "projection.weight", "expand.weight", "contract.bias")
    changed: dict[str, Any] = dict.fromkeys(off, 0.0)
    changed |= {"expand.bias": np.resize(x, CONFIG.ff_factor * d), "contract.weight": np.eye(d, CONFIG.ff_factor * d)}
    changed |= {"norm.scale": 1.0, "lm_head.weight": np.eye(CONFIG.vocab_size, d), "lm_head.bias": 0.0}
    logits = model(changed)[0, 0][:d]
    forms = {}
    for code, y in gelu_forms(x).items():
        forms[code] = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    found = choose("gpt_activation", logits, forms, {"expand(X)": x}, "its norm", roundoff=model.subject.roundoff)
    return replace(found, got={"its norm": logits[:4]})


def _causal(model: Flat) -> Convention:
    other = IDS.copy()
    other[0, -1] += 1
    before, after = model(), model(ids=other)
    moved = np.abs(before[:, :-1] - after[:, :-1]).max() > 64 * model.subject.roundoff * np.abs(before).max()
    given = {"ids": IDS[0], "or": other[0]}
    return Convention(
        "gpt_causal", "no" if moved else "yes", given, {"logits[0, 0, :2]": before[0, 0, :2], "then": after[0, 0, :2]}
    )


def _head(model: Flat) -> Convention:
    """With a dict that has no matrix for the head, and the field that says so."""
    given = {"config": "tied_head", "lm_head.weight": "absent"}
    try:
        logits = model(config=replace(CONFIG, tied_head=True))
    except Refused:
        return Convention("gpt_head", "untied", given, {"logits": "refused"})
    return Convention("gpt_head", "either", given, {"logits[0, 0]": logits[0, 0][:2]})


def _positions(model: Flat) -> Convention:
    ids = np.full((1, 4), 1)
    Y = model(ids=ids)
    same = np.abs(Y[0, 1:] - Y[0, :1]).max() <= 64 * model.subject.roundoff * np.abs(Y).max()
    return Convention("gpt_positions", "no" if same else "yes", {"ids": ids[0]}, {"logits[0, :, 0]": Y[0, :, 0]})
