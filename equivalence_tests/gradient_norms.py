"""The norms of a training's gradients: of which steps they are taken, and the learner that takes them."""

from __future__ import annotations

from typing import Any

from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.learner import Keep, Learner

OCTAVE = 6  # bits: of the steps from 2^k to 2^(k + 1) - 1 at most 2^(OCTAVE - 1) are measured


def is_measured(step: int) -> bool:
    """Each of the first 63 steps, then every second up to 126, every fourth up to 252, and so on; steps count from 1.

    A few hundred for any training, and a function of the step alone: a training that is taken up, or made longer, goes on
    measuring as if it had never stopped.
    """
    return step % (1 << max(0, step.bit_length() - OCTAVE)) == 0


class Measured:
    """A learner whose `update` first notes the norm of every gradient in `found`: of measured steps, {} of the others.

    step: how many updates were made before.
    """

    def __init__(self, learner: Learner, step: int = 0) -> None:
        self.learner, self.taken = learner, step
        self.found: dict[str, float] = {}

    @property
    def config(self) -> GPTConfig | RNNConfig:
        return self.learner.config

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float) -> float:
        return self.learner.gather(ids, targets, ignore_index, keep, weight)

    def norms(self) -> dict[str, float]:
        return self.learner.norms()

    def update(self, lr: float, weight_decay: float, clip_norm: float | None) -> float | None:
        self.taken += 1
        self.found = self.norms() if is_measured(self.taken) else {}
        return self.learner.update(lr, weight_decay, clip_norm)

    def loss(self, ids: Array, targets: Array, ignore_index: int) -> float:
        return self.learner.loss(ids, targets, ignore_index)

    def step(self, ids: Array, past: Any) -> tuple[Array, Any]:
        return self.learner.step(ids, past)

    def snapshot(self) -> tuple[Params, dict[str, Any]]:
        return self.learner.snapshot()
