"""Gradients of a training, to be looked at: norms, and those of attention."""

from __future__ import annotations

from typing import Any, NamedTuple

from reference_numpy import (
    cross_entropy,
    cross_entropy_backward,
    gpt,
    layer_norm_backward,
    linear_backward,
    softmax_backward,
)
from reference_numpy._check import Array
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.feed_forward import feed_forward_backward
from reference_numpy.learner import Keep, Learner
from reference_numpy.self_attention import split_heads
from reference_numpy.transformer_block import transformer_block_backward

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


class AttentionGradient(NamedTuple):
    """Of one block, (H, n, n) each: A, what the loss gains by it (dA), and by the score before the softmax (dS)."""

    A: Array
    dA: Array
    dS: Array


def attention_gradients(params: Params, ids: Array, targets: Array, config: GPTConfig) -> list[AttentionGradient]:
    """dA = dC V^T, dS = A (dA - sum A dA) of every block, beside A: for the loss of one row of ids, nothing dropped

    ids, targets: (n,). The backward of `gpt`, block by block, with a halt at each attention. Raises as gpt_loss does.
    """
    logits, (_, _, _, block_caches, norm_cache, head_cache, _) = gpt(params, ids, config)
    dlogits = cross_entropy_backward(1.0, cross_entropy(logits, targets)[1])
    dY = layer_norm_backward(linear_backward(dlogits, head_cache)[0], norm_cache)[0]
    found = []
    for cache in reversed(block_caches):
        _, attention_cache, norm_2_cache, feed_forward_cache = cache
        *_, Wo, _, inner = attention_cache
        dM, _ = feed_forward_backward(dY, feed_forward_cache)
        dZ = dY + layer_norm_backward(dM, norm_2_cache)[0]
        dC = split_heads(dZ @ Wo.T, config.num_heads)
        dA = dC @ inner.V.mT
        found.append(AttentionGradient(inner.A, dA, softmax_backward(dA, (inner.A, -1))))
        dY, _ = transformer_block_backward(dY, cache)
    return found[::-1]
