"""One block of a GPT: attention and feed-forward, each behind a norm and beside a residual path."""

from __future__ import annotations

from torch import Tensor, nn

from reference_numpy.config import GPTConfig
from torch_impl.feed_forward import FeedForward
from torch_impl.layer_norm import LayerNorm
from torch_impl.self_attention import MultiHeadSelfAttention


class TransformerBlock(nn.Module):
    """Z = X + attention(norm_1(X));  Y = Z + feed_forward(norm_2(Z))

    X, Z, Y: (..., n, d); attention is causal, of num_heads heads.

    keep: {"attention": (..., H, n, n), "feed_forward": (..., n, d)}, boolean, replaces the masks that are drawn in
    training. The same as `nn.TransformerEncoderLayer(norm_first=True)` without biases in attention. Source 2.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm_1 = LayerNorm(config.embedding_dim)
        self.attention = MultiHeadSelfAttention(config)
        self.norm_2 = LayerNorm(config.embedding_dim)
        self.feed_forward = FeedForward(config)

    def forward(self, X: Tensor, keep: dict[str, Tensor] | None = None) -> Tensor:
        drops = keep or {}
        Z = X + self.attention(self.norm_1(X), drops.get("attention"))
        Y: Tensor = Z + self.feed_forward(self.norm_2(Z), drops.get("feed_forward"))
        return Y
