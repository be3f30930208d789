"""The Elman network."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from reference_numpy import _check as rules
from torch_impl import _check


def rnn(
    X: Tensor, W_ih: Tensor, W_hh: Tensor, b_ih: Tensor, b_hh: Tensor, h0: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """h_t = tanh(x_t W_ih^T + b_ih + h_{t-1} W_hh^T + b_hh);  returns (H, h_last)

    X: (..., n, d), W_ih: (k, d), W_hh: (k, k), b_ih, b_hh: (k,), h0: (..., k), zeros if left out;
    H: (..., n, k), all states; h_last: (..., k), the last one.

    Two biases, as in `nn.RNN`. Source 2: h_s = tanh(A emb(w_s) + B h_{s-1} + d).
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match (a state of another batch too).
    """
    _check.floats("rnn", X=X, W_ih=W_ih, W_hh=W_hh, b_ih=b_ih, b_hh=b_hh, h0=h0)
    rules.shapes("rnn", X=(X, "... n d"), W_ih=(W_ih, "k d"), b_ih=(b_ih, "k"), b_hh=(b_hh, "k"), h0=(h0, "... k"))
    rules.same_shape("rnn", "W_hh", W_hh, (W_ih.shape[0],) * 2, "(k, k) of W_ih")
    if _check.sums_in_half(X):  # autograd adds up dW_hh and db_hh over the steps
        H, h_last = _run(
            X.float(), W_ih.float(), W_hh.float(), b_ih.float(), b_hh.float(), None if h0 is None else h0.float()
        )
        return H.to(X.dtype), h_last.to(X.dtype)
    return _run(X, W_ih, W_hh, b_ih, b_hh, h0)


def _run(X: Tensor, W_ih: Tensor, W_hh: Tensor, b_ih: Tensor, b_hh: Tensor, h0: Tensor | None) -> tuple[Tensor, Tensor]:
    lead, (n, d), k = X.shape[:-2], X.shape[-2:], W_ih.shape[0]
    B = math.prod(lead)
    sequences = X.reshape(B, n, d).contiguous()
    before = X.new_zeros(1, B, k) if h0 is None else h0.reshape(1, B, k).contiguous()
    weights = [W_ih.contiguous(), W_hh.contiguous(), b_ih.contiguous(), b_hh.contiguous()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        # train: cuDNN has no backward otherwise; there is no dropout that it could switch on.
        H, h_last = torch.rnn_tanh(
            sequences,
            before,
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=True,
            bidirectional=False,
            batch_first=True,
        )
    return H.reshape(*lead, n, k), h_last.reshape(*lead, k)
