"""Layer normalisation over the last axis."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference_numpy import _check as rules
from torch_impl import _check


def layer_norm(X: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Y = scale * N + shift,  N = (X - mu) / sqrt(var + epsilon)

    X, N, Y: (..., d), scale, shift: (d,), mu, var: (..., 1), the mean and the biased variance of a row.

    torch is no witness at the edge of the range: a row of one element at 1e6 gives a dscale that is not 0, and 1e30 in
    float32 gives NaN. Source 2: LayerNorm(emb_dim, epsilon = 1e-5).
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match or a negative epsilon.
    """
    _check.floats("layer_norm", X=X, scale=scale, shift=shift)
    d = rules.shapes("layer_norm", X=(X, "... d"), scale=(scale, "d"), shift=(shift, "d"))["d"]
    epsilon = rules.number("layer_norm", "epsilon", epsilon)
    if epsilon < 0.0:
        raise ValueError(f"layer_norm: epsilon is {epsilon}, expected a number of at least 0")
    if _check.sums_in_half(X):  # dscale and dshift are sums over all rows
        return F.layer_norm(X.float(), (d,), scale.float(), shift.float(), epsilon).to(X.dtype)
    return F.layer_norm(X, (d,), scale, shift, epsilon)


class LayerNorm(nn.Module):
    """Y = scale * (X - mu) / sqrt(var + epsilon) + shift

    X, Y: (..., emb_dim), scale, shift: (emb_dim,), 1 and 0 at first. The same as `nn.LayerNorm(emb_dim)`. Source 2.
    """

    def __init__(self, emb_dim: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.shift = nn.Parameter(torch.zeros(emb_dim))
        self.epsilon = epsilon

    def forward(self, X: Tensor) -> Tensor:
        return layer_norm(X, self.scale, self.shift, self.epsilon)
