"""The table: one row per op.

A row is property-tested, gradient-checked against every witness, open to outside implementations and to known mistakes,
without another line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests import budgets, cases, model_budgets, model_cases
from equivalence_tests.arithmetic import Bounded, Precision
from equivalence_tests.cases import Case, Draws
from equivalence_tests.stages import AS_IT_IS, Stages


@dataclass(frozen=True)
class Op:
    """An op's name, its outputs, the operands that have a gradient, its cases, and its formula with the budget.

    A model takes its parameters as one dict, and its gradients come back as one: in a case they are operands whose names
    have a dot, and all of them have a gradient.
    """

    name: str
    outputs: tuple[str, ...]
    differentiable: tuple[str, ...]
    draw: Callable[[Draws, bool], Case]
    formula: Callable[..., dict[str, Bounded]]
    scalar: bool = False  # the output is a number, and so is its upstream gradient
    moves_only: bool = False  # only moves or selects numbers: the budget is `tiny`, and has no floor
    every: int = 1  # a model takes as long as many ops: of so many cases one is drawn

    @property
    def model(self) -> bool:
        return self.every > 1

    def gradient_names(self, case: Case) -> list[str]:
        """The differentiable operands that the case has, in the order of the signature."""
        if self.model:
            return [name for name in case.operands if "." in name]
        return [name for name in self.differentiable if name in case.operands]

    def arguments(self, operands: dict[str, Any]) -> list[Any]:
        """The positional arguments: the operands, a model's parameters as one dict in front."""
        if not self.model:
            return list(operands.values())
        params = {name: value for name, value in operands.items() if "." in name}
        return [params, *(value for name, value in operands.items() if name not in params)]

    def exact(self, case: Case, precision: Precision, stage: Stages = AS_IT_IS) -> dict[str, Bounded]:
        """Every output and gradient of a rounded case: its exact value and the error budget in that precision.

        With stages that are STORED it is the wider budget, of a recomputation from a stored log-sum-exp.
        """
        arrays = {**case.operands, **case.upstream, **case.options}
        numbers = {name: Bounded(v, precision) if cases.is_floating(v) else v for name, v in arrays.items()}
        if self.model:
            params = {name: numbers.pop(name) for name in self.gradient_names(case)}
            numbers["params"] = params
        with np.errstate(all="ignore"):  # a bound that overflows promises nothing, and says so
            return self.formula(**numbers, stage=stage)


PARAMETERS = ("params",)
MODEL_EVERY = 8
ATTENTION_STAGES = ("Omega", "scaled", "masked", "A", "C", "dA", "delta", "dS", "dOmega", "dQ", "dK", "dV")
SELF_ATTENTION = ("X", "Wq", "Wk", "Wv")

OPS = {
    op.name: op
    for op in (
        Op("softmax", ("A",), ("X",), cases.softmax, budgets.softmax),
        Op("log_softmax", ("Y",), ("X",), cases.log_softmax, budgets.log_softmax),
        Op("layer_norm", ("Y",), ("X", "scale", "shift"), cases.layer_norm, budgets.layer_norm),
        Op("linear", ("Y",), ("X", "weight", "bias"), cases.linear, budgets.linear),
        Op("relu", ("Y",), ("X",), cases.elementwise, budgets.relu, moves_only=True),
        Op("tanh", ("Y",), ("X",), cases.elementwise, budgets.tanh),
        Op("gelu", ("Y",), ("X",), cases.elementwise, budgets.gelu),
        Op("embedding", ("Y",), ("weight",), cases.embedding, budgets.embedding),
        Op("dropout", ("Y",), ("X",), cases.dropout, budgets.dropout),
        Op("attention", ("C",), ("Q", "K", "V"), cases.attention, budgets.attention),
        Op("attention_stages", ATTENTION_STAGES, (), cases.attention_stages, budgets.attention_stages),
        Op("simple_attention", ("C",), ("X",), cases.simple_attention, budgets.simple_attention),
        Op("self_attention", ("C",), SELF_ATTENTION, cases.self_attention, budgets.self_attention),
        Op(
            "multi_head_attention",
            ("Y",),
            (*SELF_ATTENTION, "Wo"),
            cases.multi_head_attention,
            budgets.multi_head_attention,
        ),
        Op("cross_entropy", ("loss",), ("logits",), cases.cross_entropy, budgets.cross_entropy, scalar=True),
        Op("rnn", ("H", "h_last"), ("X", "W_ih", "W_hh", "b_ih", "b_hh", "h0"), cases.rnn, budgets.rnn),
        Op("gpt", ("logits",), PARAMETERS, model_cases.gpt, model_budgets.gpt, every=MODEL_EVERY),
        Op("gpt_loss", ("loss",), PARAMETERS, model_cases.gpt_loss, model_budgets.gpt_loss, True, every=MODEL_EVERY),
        Op(
            "generative_rnn",
            ("logits",),
            PARAMETERS,
            model_cases.generative_rnn,
            model_budgets.generative_rnn,
            every=MODEL_EVERY,
        ),
        Op(
            "generative_rnn_loss",
            ("loss",),
            PARAMETERS,
            model_cases.generative_rnn_loss,
            model_budgets.generative_rnn_loss,
            scalar=True,
            every=MODEL_EVERY,
        ),
    )
}
