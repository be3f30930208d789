"""A torch module in training, behind the interface that the training loop, the evaluation and the sampler ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference_numpy._check import Array
from reference_numpy._named_arrays import MOMENTS
from reference_numpy._parameters import Params
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.learner import Keep
from torch_impl.cross_entropy import cross_entropy
from torch_impl.decoding import gpt_step
from torch_impl.generative_rnn import GenerativeRNN, generative_rnn_step
from torch_impl.gpt import GPT, load_parameters


class TorchLearner:
    """A GPT or GenerativeRNN with `torch.optim.AdamW`; gradients by autograd.

    state: AdamW's, as the NumPy twin has it, {} at first. The module stays where it is and in its dtype.
    """

    def __init__(self, model: GPT | GenerativeRNN, state: dict[str, Any] | None = None) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        if state:
            self._restore(state)

    @classmethod
    def from_params(
        cls,
        config: GPTConfig | RNNConfig,
        params: Params,
        state: dict[str, Any] | None = None,
        device: str = "cpu",
    ) -> TorchLearner:
        """The torch twin of a NumPy model, with copies of its numbers."""
        model: GPT | GenerativeRNN = GPT(config) if isinstance(config, GPTConfig) else GenerativeRNN(config)
        load_parameters(model, params)
        return cls(model.to(device), state)

    @property
    def config(self) -> GPTConfig | RNNConfig:
        return self.model.config

    def gather(self, ids: Array, targets: Array, ignore_index: int, keep: Keep | None, weight: float) -> float:
        self.model.train()
        masks = None if keep is None else {name: self._tensor(mask) for name, mask in keep.items()}
        options = {"keep": masks} if isinstance(self.model, GPT) else {}
        loss = cross_entropy(self.model(self._tensor(ids), **options), self._tensor(targets), ignore_index)
        torch.autograd.backward(loss * weight)
        return loss.item()

    def norms(self) -> dict[str, float]:
        named = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        found = [torch.linalg.vector_norm(gradient, dtype=torch.float64) for gradient in named.values()]
        return dict(zip(named, torch.stack(found).tolist() if found else [], strict=True))

    def update(self, lr: float, weight_decay: float, clip_norm: float | None) -> float | None:
        norm = None
        if clip_norm is not None:
            norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip_norm, error_if_nonfinite=True))
        self.optimizer.param_groups[0].update(lr=lr, weight_decay=weight_decay)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    @torch.no_grad()
    def loss(self, ids: Array, targets: Array, ignore_index: int) -> float:
        self.model.eval()
        return cross_entropy(self.model(self._tensor(ids)), self._tensor(targets), ignore_index).item()

    @torch.no_grad()
    def step(self, ids: Array, past: Any) -> tuple[Array, Any]:
        self.model.eval()
        params: dict[str, Tensor] = dict(self.model.named_parameters())
        tokens = self._tensor(ids)
        if isinstance(self.model, GPT):
            logits, past = gpt_step(params, tokens, self.model.config, past)
        else:
            logits, past = generative_rnn_step(params, tokens, self.model.config, past)
        return logits.double().cpu().numpy(), past

    def snapshot(self) -> tuple[Params, dict[str, Any]]:
        params = {name: _array(p) for name, p in self.model.named_parameters()}
        moments = {name: self.optimizer.state.get(p, {}) for name, p in self.model.named_parameters()}
        if not all(moments.values()):
            return params, {}
        state: dict[str, Any] = {"step": int(next(iter(moments.values()))["step"])}
        for moment in MOMENTS:
            state[moment] = {name: _array(values[moment]) for name, values in moments.items()}
        return params, state

    def _restore(self, state: dict[str, Any]) -> None:
        for name, p in self.model.named_parameters():
            moments = {moment: torch.tensor(state[moment][name]).to(p.device) for moment in MOMENTS}
            self.optimizer.state[p] = {"step": torch.tensor(float(state["step"])), **moments}

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.model.lm_head.bias.device)


def _array(tensor: Tensor) -> Array:
    return np.array(tensor.detach().cpu().numpy())
