"""The Elman network and its backward through time."""

from __future__ import annotations

import numpy as np

from reference_numpy import _check
from reference_numpy._check import Array

RNNCache = tuple[Array, Array, Array, Array | None, Array]


def rnn(
    X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None
) -> tuple[tuple[Array, Array], RNNCache]:
    """h_t = tanh(x_t W_ih^T + b_ih + h_{t-1} W_hh^T + b_hh);  Y = (H, h_last)

    X: (..., n, d), W_ih: (k, d), W_hh: (k, k), b_ih, b_hh: (k,), h0: (..., k), zeros if left out;
    H: (..., n, k), all states; h_last: (..., k), the last one.

    Two biases, as in `nn.RNN`: each gets the same gradient. Source 2: h_s = tanh(A emb(w_s) + B h_{s-1} + d).
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match (a state of another batch too).
    """
    check_rnn_operands("rnn", X, W_ih, W_hh, b_ih, b_hh, h0)
    n, k = X.shape[-2], W_ih.shape[0]
    from_inputs = X @ W_ih.T + b_ih  # all steps at once; only the recurrence is a loop
    H = np.empty((*X.shape[:-1], k), X.dtype)
    h = np.zeros((*X.shape[:-2], k), X.dtype) if h0 is None else h0
    for t in range(n):
        h = np.tanh(from_inputs[..., t, :] + (h @ W_hh.T + b_hh))
        H[..., t, :] = h
    return (H, H[..., -1, :].copy()), (X, W_ih, W_hh, h0, H)


def rnn_backward(dY: tuple[Array, Array], cache: RNNCache) -> tuple[Array, ...]:
    """da_t = (dH_t + da_{t+1} W_hh) (1 - h_t^2), with dh_last in place of the second term at the last step;
    dX = da W_ih;  dW_ih = da^T X;  dW_hh = sum_t da_t^T h_{t-1};  db_ih = db_hh = sum da;  dh0 = da_1 W_hh

    Backward through time: h_t is read by the outside (dH_t) and by the next step. dh0 is returned only if h0 was given.
    """
    dH, dh_last = dY
    X, W_ih, W_hh, h0, H = cache
    n, k = H.shape[-2:]
    _check.upstream("rnn_backward", "dH", dH, H)
    _check.upstream("rnn_backward", "dh_last", dh_last, H[..., -1, :])
    da = np.empty(H.shape, H.dtype)
    dh = dh_last
    for t in reversed(range(n)):
        h = H[..., t, :]
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - h * h)
        dh = da[..., t, :] @ W_hh
    first = np.zeros((*H.shape[:-2], 1, k), H.dtype) if h0 is None else h0[..., None, :]
    before = np.concatenate([first, H[..., :-1, :]], -2)  # h_{t-1}, where H holds h_t
    da_rows = da.reshape(-1, k)
    dX = da @ W_ih
    dW_ih = da_rows.T @ X.reshape(-1, X.shape[-1])
    dW_hh = da_rows.T @ before.reshape(-1, k)
    db_ih = da_rows.sum(0)
    gradients = (dX, dW_ih, dW_hh, db_ih, db_ih.copy())
    return gradients if h0 is None else (*gradients, dh)


def check_rnn_operands(op: str, X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None) -> None:
    _check.floats(op, X=X, W_ih=W_ih, W_hh=W_hh, b_ih=b_ih, b_hh=b_hh, h0=h0)
    _check.shapes(op, X=(X, "... n d"), W_ih=(W_ih, "k d"), b_ih=(b_ih, "k"), b_hh=(b_hh, "k"), h0=(h0, "... k"))
    _check.same_shape(op, "W_hh", W_hh, (W_ih.shape[0],) * 2, "(k, k) of W_ih")
