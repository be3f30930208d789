"""A model in training: what the training loop, the evaluation and the sampler ask of any twin, and the NumPy one."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

import reference_numpy
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig, RNNConfig

Keep = dict[str, Array]
CHUNK = 1 << 13  # numbers whose squares are taken in float64 at once: few, whatever the array's size


class Learner(Protocol):
    """A model with its optimizer. Arrays in and out are NumPy's, whichever twin computes."""

    @property
    def config(self) -> GPTConfig | RNNConfig: ...

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float) -> float:
        """Add weight times the gradient of the loss on these rows to what is gathered; the loss, without the weight."""

    def norms(self) -> dict[str, float]:
        """sqrt(sum g^2) of the gathered gradient of every parameter, by its name."""

    def update(self, lr: float, weight_decay: float, clip_norm: float | None) -> float | None:
        """One AdamW step with the gathered gradient, which is then forgotten; if it is clipped, its norm before."""

    def loss(self, ids: Array, targets: Array, ignore_index: int) -> float:
        """The mean loss over the counted targets, nothing dropped."""

    def step(self, ids: Array, past: Any) -> tuple[Array, Any]:
        """The logits of further tokens and what the next step needs, as `gpt_step`."""

    def snapshot(self) -> tuple[Params, dict[str, Any]]:
        """Copies of the parameters and of AdamW's state, as the NumPy twin has them."""


class NumpyLearner:
    """A model of the NumPy twin: its parameters and AdamW's state, changed in place by `update`.

    params: the flat dict of `init_gpt` or `init_rnn`; state: AdamW's, {} at first. It computes with the functions of its
    module: the reference here, `reference_numpy.fast` in that module's NumpyLearner.
    """

    functions: Any = reference_numpy

    def __init__(self, config: GPTConfig | RNNConfig, params: Params, state: dict[str, Any] | None = None) -> None:
        self.config, self.params = config, params
        self.state: dict[str, Any] = {} if state is None else state
        self._gathered: Params = {}

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float) -> float:
        loss, grads = self.loss_gradients(ids, targets, ignore_index, keep, weight)
        for name, gradient in self._gathered.items():
            grads[name] += gradient
        self._gathered = grads
        return float(loss)

    def norms(self) -> dict[str, float]:
        return {name: _norm(gradient) for name, gradient in self._gathered.items()}

    def update(self, lr: float, weight_decay: float, clip_norm: float | None) -> float | None:
        grads, norm = self._gathered, None
        if clip_norm is not None:
            grads, norm = self.functions.clip_gradients(grads, clip_norm)
        self.functions.adamw_step(self.params, grads, self.state, lr=lr, weight_decay=weight_decay)
        self._gathered = {}
        return norm

    def loss_gradients(
        self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float
    ) -> tuple[Any, Params]:
        """The loss on these rows, and weight times its gradient."""
        if isinstance(self.config, GPTConfig):
            loss, cache = self.functions.gpt_loss(self.params, ids, targets, self.config, ignore_index, keep)
            return loss, self.functions.gpt_loss_backward(weight, cache)
        loss, cache = self.functions.generative_rnn_loss(self.params, ids, targets, self.config, ignore_index)
        return loss, self.functions.generative_rnn_loss_backward(weight, cache)

    def loss(self, ids: Array, targets: Array, ignore_index: int) -> float:
        compute = "gpt_loss" if isinstance(self.config, GPTConfig) else "generative_rnn_loss"
        return float(getattr(self.functions, compute)(self.params, ids, targets, self.config, ignore_index)[0])

    def step(self, ids: Array, past: Any) -> tuple[Array, Any]:
        compute = "gpt_step" if isinstance(self.config, GPTConfig) else "generative_rnn_step"
        answer: tuple[Array, Any] = getattr(self.functions, compute)(self.params, ids, self.config, past)
        return answer

    def snapshot(self) -> tuple[Params, dict[str, Any]]:
        state = dict(self.state)
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment in state:
                state[moment] = {name: array.copy() for name, array in state[moment].items()}
        return {name: np.array(array) for name, array in self.params.items()}, state


def _norm(array: Array) -> float:
    flat, total = array.reshape(-1), 0.0
    for start in range(0, flat.size, CHUNK):
        piece = flat[start : start + CHUNK].astype(np.float64)
        total += float(piece @ piece)
    return math.sqrt(total)
