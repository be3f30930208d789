"""The NumPy twin in training, with the fast functions: the loss and its gradients are one op."""

from __future__ import annotations

from typing import Any

from reference_numpy import fast
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig
from reference_numpy.learner import Keep
from reference_numpy.learner import NumpyLearner as Textbook


class NumpyLearner(Textbook):
    """As `reference_numpy.NumpyLearner`, whose checkpoints it takes and which takes its own."""

    functions: Any = fast

    def loss_gradients(
        self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float
    ) -> tuple[Any, Params]:
        if isinstance(self.config, GPTConfig):
            return fast.gpt_loss_gradients(weight, self.params, ids, targets, self.config, ignore_index, keep)
        return fast.generative_rnn_loss_gradients(weight, self.params, ids, targets, self.config, ignore_index)
