"""The feed-forward part of a block."""

from __future__ import annotations

from torch import Tensor, nn

from reference_numpy.config import GPTConfig
from torch_impl.activations import gelu
from torch_impl.dropout import drop


class FeedForward(nn.Module):
    """Y = dropout(contract(gelu(expand(X))))

    X, Y: (..., d); expand.weight: (f d, d), contract.weight: (d, f d), f = ff_factor.

    keep, boolean of Y's shape, replaces the mask that is drawn in training. In evaluation nothing is dropped. Source 2.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.expand = nn.Linear(config.embedding_dim, config.ff_factor * config.embedding_dim)
        self.contract = nn.Linear(config.ff_factor * config.embedding_dim, config.embedding_dim)
        self.dropout = config.dropout

    def forward(self, X: Tensor, keep: Tensor | None = None) -> Tensor:
        Y: Tensor = self.contract(gelu(self.expand(X)))
        return drop(self, Y, keep, self.dropout)
