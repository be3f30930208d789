"""A model in training: what the training loop, the evaluation and the sampler ask of either twin, and the NumPy one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.decoding import gpt_step
from reference_numpy.generative_rnn import (
    generative_rnn_loss,
    generative_rnn_loss_backward,
    generative_rnn_step,
)
from reference_numpy.gpt import gpt_loss, gpt_loss_backward
from reference_numpy.optimizer import adamw_step, clip_gradients

Keep = dict[str, Array]


class Learner(Protocol):
    """A model with its optimizer. Arrays in and out are NumPy's, whichever twin computes."""

    @property
    def config(self) -> GPTConfig | RNNConfig: ...

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float) -> float:
        """Add weight times the gradient of the loss on these rows to what is gathered; the loss, without the weight."""

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

    params: the flat dict of `init_gpt` or `init_rnn`; state: AdamW's, {} at first.
    """

    def __init__(self, config: GPTConfig | RNNConfig, params: Params, state: dict[str, Any] | None = None) -> None:
        self.config, self.params = config, params
        self.state: dict[str, Any] = {} if state is None else state
        self._gathered: Params = {}

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float) -> float:
        if isinstance(self.config, GPTConfig):
            loss, cache = gpt_loss(self.params, ids, targets, self.config, ignore_index, keep)
            grads = gpt_loss_backward(weight, cache)
        else:
            loss, rnn_cache = generative_rnn_loss(self.params, ids, targets, self.config, ignore_index)
            grads = generative_rnn_loss_backward(weight, rnn_cache)
        for name, gradient in self._gathered.items():
            grads[name] += gradient
        self._gathered = grads
        return float(loss)

    def update(self, lr: float, weight_decay: float, clip_norm: float | None) -> float | None:
        grads, norm = self._gathered, None
        if clip_norm is not None:
            grads, norm = clip_gradients(grads, clip_norm)
        adamw_step(self.params, grads, self.state, lr=lr, weight_decay=weight_decay)
        self._gathered = {}
        return norm

    def loss(self, ids: Array, targets: Array, ignore_index: int) -> float:
        if isinstance(self.config, GPTConfig):
            return float(gpt_loss(self.params, ids, targets, self.config, ignore_index)[0])
        return float(generative_rnn_loss(self.params, ids, targets, self.config, ignore_index)[0])

    def step(self, ids: Array, past: Any) -> tuple[Array, Any]:
        if isinstance(self.config, GPTConfig):
            return gpt_step(self.params, ids, self.config, past)
        return generative_rnn_step(self.params, ids, self.config, past)

    def snapshot(self) -> tuple[Params, dict[str, Any]]:
        state = dict(self.state)
        for moment in ("exp_avg", "exp_avg_sq"):
            if moment in state:
                state[moment] = {name: array.copy() for name, array in state[moment].items()}
        return {name: np.array(array) for name, array in self.params.items()}, state
