"""What looks like a mistake and is none: other formulas for the same function, each with its proof.

Public reports that were wrong themselves are here (their `source`), and the forms that a known mistake resembles
(`looks_like`). A checker that flags one of them has raised a false alarm. The proof is the docstring of the half of the
pair that differs. The code runs on any numbers that NumPy can hold, so that the tests evaluate it with 50 digits.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import Implementation, plain

Attention = Callable[..., Any]
SLOPE, CUBE = math.sqrt(2.0 / math.pi), 0.044715  # of gelu


@dataclass(frozen=True)
class Equivalent:
    """A right pair of one op, and what was or might be said against it."""

    id: str
    op: str
    claim: str
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    looks_like: str = ""  # the id of the mistake that it resembles
    source: str = ""  # the public report that was wrong, by its case

    @property
    def proof(self) -> str:
        """Why it is right: the docstring of the half that differs."""
        return inspect.getdoc(self.forward) or inspect.getdoc(self.backward) or ""

    @property
    def implementation(self) -> Implementation:
        """To be given to any check. The reference runs first and refuses bad input; numbers come as Python's."""
        right: Any = getattr(reference_numpy, self.op)
        right_backward: Any = getattr(reference_numpy, f"{self.op}_backward")

        @wraps(right)
        def forward(*operands: Any, **options: Any) -> Any:
            remembered = right(*operands, **options)[1]
            Y, cache = self.forward(*operands, **{name: plain(value) for name, value in options.items()})
            return Y, (cache, remembered)

        def backward(dY: Any, caches: Any) -> Any:
            cache, remembered = caches
            right_backward(dY, remembered)
            return self.backward(plain(dY), cache)

        pair = {self.op: forward, f"{self.op}_backward": backward}
        return Implementation(self.id, SimpleNamespace(**pair), pairs=True, dtypes=("float64", "float32"))


def _sum(X: Array) -> Any:
    return X.sum(-1, keepdims=True)


def _mean(X: Array) -> Any:
    return X.mean(-1, keepdims=True)


def _rows(X: Array) -> Array:
    return X.reshape(-1, X.shape[-1])


# softmax and log_softmax


def _softmax(X: Array, axis: int = -1) -> Any:
    rows = np.moveaxis(X, axis, -1)
    E = np.exp(rows - rows.max(-1, keepdims=True))
    return np.moveaxis(E / _sum(E), -1, axis), (X, axis)


def through_the_maximum(dA: Array, cache: Any) -> Any:
    """D = X - max X and A = exp(D) / sum(exp(D)), so dD = A (dA - sum(A dA)). The maximum, read by all of its row, is
    handed -sum(dD) = -(sum(A dA) - sum(A) sum(A dA)) = 0, since sum(A) = 1: whether it is differentiated makes no
    difference.
    """
    X, axis = cache
    rows, A, upstream = (np.moveaxis(Z, axis, -1) for Z in (X, _softmax(X, axis)[0], dA))
    dD = A * (upstream - _sum(A * upstream))
    is_top = np.arange(rows.shape[-1]) == rows.argmax(-1)[..., None]
    return np.moveaxis(dD - np.where(is_top, _sum(dD), X.dtype.type(0)), -1, axis)


def _logarithms(X: Array) -> Any:
    D = X - X.max(-1, keepdims=True)
    return D - np.log(_sum(np.exp(D)))


def log_softmax_twice(X: Array, axis: int = -1) -> Any:
    """Y = X - log(sum(exp(X))) has sum(exp(Y)) = 1, and log 1 = 0: a second log_softmax takes nothing off. Its
    backward is handed dY and hands on dY - P sum(dY), which sums to 0, so that the first one's backward takes nothing
    off either.
    """
    Y = np.moveaxis(_logarithms(_logarithms(np.moveaxis(X, axis, -1))), -1, axis)
    return Y, (Y, axis)


def _log_softmax_twice_backward(dY: Array, cache: Any) -> Any:
    Y, axis = cache
    P, once = np.exp(np.moveaxis(Y, axis, -1)), np.moveaxis(dY, axis, -1)
    for _ in range(2):
        once = once - P * _sum(once)
    return np.moveaxis(once, -1, axis)


# layer_norm


def _layer_norm(X: Array, scale: Array, shift: Array, epsilon: float = 1e-5) -> Any:
    D = X - _mean(X)
    r = 1.0 / np.sqrt(_mean(D * D) + epsilon)
    return scale * (D * r) + shift, (D, r, scale)


def with_the_mean_of_deviations(dY: Array, cache: Any) -> Any:
    """By the chain rule through var = mean(D^2), D = X - mu, the mean mu is handed -r sum(dN) - 2 dvar mean(D). The
    last term is 0, since mean(X - mean(X)) = 0: with it or without it, dX = r (dN - mean(dN) - N mean(dN N)).
    """
    D, r, scale = cache
    dN = dY * scale
    d = dY.shape[-1]
    dvar = -0.5 * (_sum(dN * (D * r)) * r * r)
    dmu = -r * _sum(dN) - 2.0 * dvar * _mean(D)
    leading = tuple(range(dY.ndim - 1))
    return dN * r + dvar * (2.0 * D) / d + dmu / d, (dY * (D * r)).sum(leading), dY.sum(leading)


# gelu


def by_sigmoid(X: Array) -> Any:
    """(1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), so X (1 + tanh(u)) / 2 = X sigmoid(2 u): exact, where sigmoid(1.702 X)
    is an approximation. With s = sigmoid(2 u), ds/du = 2 s (1 - s), the derivative is s + 2 X s (1 - s) du/dX.
    """
    x = np.clip(X, -30.0, 30.0)  # beyond, s is 0 or 1 to the last digit
    u = SLOPE * (x + CUBE * (x * x * x))
    E = np.exp(-2.0 * abs(u))
    s = np.where(u >= 0, 1.0 / (1.0 + E), E / (1.0 + E))
    return X * s, (x, s)


def _by_sigmoid_backward(dY: Array, cache: Any) -> Any:
    x, s = cache
    return dY * (s + 2.0 * x * (s * (1.0 - s)) * (SLOPE * (1.0 + 3.0 * CUBE * (x * x))))


# attention


def _on_scores(Q: Array, K: Array, scale: Any) -> Any:
    return (Q @ K.mT) * scale


def _or_minus_infinity(S: Array, allowed: Array) -> Any:
    return np.where(allowed, S, S.dtype.type(-np.inf))


def _weights(S: Array) -> Any:
    """softmax over what is not -inf, and 0 in rows of it."""
    top = S.max(-1, keepdims=True)
    visible = np.not_equal(S, -np.inf)
    E = np.exp(S - np.where(top == -np.inf, S.dtype.type(0), top), where=visible, out=np.zeros_like(S))
    total = _sum(E)
    return E / np.where(total == 0, S.dtype.type(1), total)


def _linked(A: Array, keep: Array | None, p: Any) -> Any:
    return A if keep is None else np.where(keep, A * (0.0 if p == 1.0 else 1.0 / (1.0 - p)), A.dtype.type(0))


def attention_with(
    scores: Callable[[Array, Array, Any], Any] = _on_scores, masked: Callable[[Array, Array], Any] = _or_minus_infinity
) -> Attention:
    """An attention that makes its scaled scores with `scores` and masks them with `masked`; the proof is theirs."""

    def attention(
        Q: Array,
        K: Array,
        V: Array,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        query_offset: int = 0,
        scale: Any = None,
        keep: Array | None = None,
        p: Any = 0.0,
    ) -> Any:
        n, m = Q.shape[-2], K.shape[-2]
        factor = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
        S = scores(Q, K, factor)
        S = S if bias is None else S + bias
        allowed = np.ones(S.shape, bool) if mask is None else np.broadcast_to(mask, S.shape)
        if causal:
            allowed = allowed & (np.arange(m) <= np.arange(n)[:, None] + query_offset)
        A = _weights(masked(S, allowed))
        C = _linked(A, keep, p) @ V
        return C, (Q, K, V, A, C, factor, keep, p)

    attention.__doc__ = scores.__doc__ or masked.__doc__
    return attention


def attention_backward(dC: Array, cache: Any) -> Any:
    Q, K, V, A, _, scale, keep, p = cache
    dA = _linked(dC @ V.mT, keep, p)
    dOmega = A * (dA - _sum(A * dA)) * scale
    return dOmega @ K, dOmega.mT @ Q, _linked(A, keep, p).mT @ dC


def root_on_each(Q: Array, K: Array, scale: Any) -> Any:
    """(a Q) (b K)^T = a b Q K^T: with a = sign(scale) sqrt(|scale|) and b = sqrt(|scale|) the product a b is the
    scale. At head width c these roots are c^(-1/4), not the c^(-1/2) that would scale twice.
    """
    root = abs(scale) ** 0.5
    return (Q * (root if scale >= 0 else -root)) @ (K * root).mT


def on_the_query(Q: Array, K: Array, scale: Any) -> Any:
    """(scale Q) K^T = scale (Q K^T): a number passes through a product of matrices."""
    return (Q * scale) @ K.mT


def added_infinity(S: Array, allowed: Array) -> Any:
    """S + 0 = S and S + -inf = -inf for every score below +inf: adding is selecting, if what is added is 0 and -inf.
    (Adding the mask itself, 1 and 0, is not.)
    """
    return S + np.where(allowed, S.dtype.type(0), S.dtype.type(-np.inf))


def delta_from_context(dC: Array, cache: Any) -> Any:
    """With C = (A * Z) V and dA = (dC V^T) * Z, sum_j A_ij dA_ij = sum_j A_ij Z_ij sum_e dC_ie V_je = sum_e dC_ie
    C_ie: the context itself, dropout and all, gives delta. (The context before dropout does not.)
    """
    Q, K, V, A, C, scale, keep, p = cache
    dOmega = A * (_linked(dC @ V.mT, keep, p) - _sum(dC * C)) * scale
    return dOmega @ K, dOmega.mT @ Q, _linked(A, keep, p).mT @ dC


_attention = attention_with()


def columns_and_transposed(X: Array) -> Any:
    """Omega = X X^T is symmetric, so its columns are its rows: softmax down the columns is the transpose of softmax
    along the rows, and transposed it is the map itself. Either of the two alone is wrong.
    """
    Omega = X @ X.mT
    E = np.exp(Omega - Omega.max(-2, keepdims=True))
    A = (E / E.sum(-2, keepdims=True)).mT
    return A @ X, (X, X, X, A, None, 1.0, None, 0.0)


def _simple_backward(dC: Array, cache: Any) -> Any:
    dQ, dK, dV = attention_backward(dC, cache)
    return dQ + dK + dV


def fused_in_another_order(X: Array, Wq: Array, Wk: Array, Wv: Array, Wo: Array, num_heads: int, **options: Any) -> Any:
    """X [Wk, Wv, Wq] = [X Wk, X Wv, X Wq]: columns of a product are columns of its right factor, so that any order in
    which the three are packed is right if they are unpacked in that order.
    """
    width = Wq.shape[1]
    fused = X @ np.concatenate([Wk, Wv, Wq], 1)
    K, V, Q = (_split(fused[..., i * width : (i + 1) * width], num_heads) for i in range(3))
    C, cache = _attention(Q, K, V, **options)
    merged = _merge(C)
    return merged @ Wo, (X, Wq, Wk, Wv, Wo, merged, cache)


def _split(X: Array, num_heads: int) -> Any:
    return np.swapaxes(X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads), -3, -2)


def _merge(C: Array) -> Any:
    *lead, H, n, c = C.shape
    return np.swapaxes(C, -3, -2).reshape(*lead, n, H * c)


def _fused_backward(dY: Array, cache: Any) -> Any:
    X, Wq, Wk, Wv, Wo, merged, inner = cache
    dQ, dK, dV = (_merge(g) for g in attention_backward(_split(dY @ Wo.T, inner[0].shape[-3]), inner))
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, *(_rows(X).T @ _rows(g) for g in (dQ, dK, dV)), _rows(merged).T @ _rows(dY)


# cross_entropy


def after_log_softmax(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    """log_softmax(log_softmax(X)) = log_softmax(X), since exp(log_softmax(X)) sums to 1 already: log-probabilities
    may be given where logits are expected. (Probabilities may not.)
    """
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]
    log_P = _logarithms(_logarithms(logits))
    losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], logits.dtype.type(0))
    return losses.sum() / int(counted.sum()), (log_P, rows, counted)


def _after_log_softmax_backward(dloss: Any, cache: Any) -> Any:
    log_P, rows, counted = cache
    P = np.exp(log_P)
    push = P - np.where(np.arange(P.shape[-1]) == rows, P.dtype.type(1), P.dtype.type(0))
    push = push - P * _sum(push)  # through the log_softmax in front: of rows that sum to 0 nothing
    return np.where(counted[..., None], push * (dloss / int(counted.sum())), P.dtype.type(0))


def ignored_rows_cut_out(logits: Array, targets: Array, ignore_index: int | None = None) -> Any:
    """The loss is (1/M) times a sum over the M counted rows, each of which reads its own logits alone: the mean over
    all rows of an array from which the ignored ones are gone. They take no part in it, so their gradient is 0.
    """
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    log_P = _logarithms(logits[counted])
    rows = targets[counted][:, None]
    return -np.take_along_axis(log_P, rows, -1).sum() / len(rows), (log_P, rows, counted)


def _ignored_rows_cut_out_backward(dloss: Any, cache: Any) -> Any:
    log_P, rows, counted = cache
    dlogits = np.zeros((*counted.shape, log_P.shape[-1]), log_P.dtype)
    push = np.exp(log_P) - np.where(np.arange(log_P.shape[-1]) == rows, log_P.dtype.type(1), log_P.dtype.type(0))
    dlogits[counted] = push * (dloss / len(rows))
    return dlogits


# rnn


def _rnn(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
    h = np.zeros((*X.shape[:-2], W_ih.shape[0]), X.dtype) if h0 is None else h0
    states = [h]
    for t in range(X.shape[-2]):
        states.append(np.tanh(X[..., t, :] @ W_ih.T + b_ih + states[-1] @ W_hh.T + b_hh))
    H = np.stack(states[1:], -2)
    return (H, H[..., -1, :].copy()), (X, W_ih, W_hh, h0, np.stack(states, -2))


def _rnn_gradients(da: Array, dh: Array, cache: Any) -> Any:
    X, W_ih, _, h0, states = cache
    db = _rows(da).sum(0)
    before = states[..., :-1, :]
    found = (da @ W_ih, _rows(da).T @ _rows(X), _rows(da).T @ _rows(before), db, db.copy())
    return found if h0 is None else (*found, dh)


def slope_multiplied(dY: Any, cache: Any) -> Any:
    """h = tanh(a) = sinh(a) / cosh(a), so dh/da = (cosh^2 - sinh^2) / cosh^2 = 1 - h^2, and a gradient is multiplied
    by the derivative: da = dh (1 - h^2). 1 / (1 - h^2) is da/dh, the derivative of artanh.
    """
    dH, dh = dY
    _, _, W_hh, _, states = cache
    da = np.empty_like(states[..., 1:, :])
    for t in reversed(range(dH.shape[-2])):
        h = states[..., t + 1, :]
        da[..., t, :] = (1.0 - h * h) * (dH[..., t, :] + dh)
        dh = da[..., t, :] @ W_hh
    return _rnn_gradients(da, dh, cache)


def last_state_as_last_output(dY: Any, cache: Any) -> Any:
    """h_last and H_n are one number with two readers, and gradients of readers add up: dH_n + dh_last, in whichever
    of the two places it is added. (At every step it would not be.)
    """
    dH, dh_last = dY
    joined = dH.copy()
    joined[..., -1, :] = joined[..., -1, :] + dh_last
    return slope_multiplied((joined, np.zeros_like(dh_last)), cache)


def one_bias(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
    """The biases enter as b = b_ih + b_hh alone, and db/db_ih = db/db_hh = 1: one bias that is their sum gives the
    same states, and its gradient is the gradient of either, neither halved nor doubled.
    """
    return _rnn(X, W_ih, W_hh, b_ih + b_hh, np.zeros_like(b_hh), h0)


def _one_bias_backward(dY: Any, cache: Any) -> Any:
    return slope_multiplied(dY, cache)


EQUIVALENT: dict[str, Equivalent] = {
    each.id: each
    for each in (
        Equivalent("Q01", "softmax", "The maximum has a gradient too.", _softmax, through_the_maximum, "S02"),
        Equivalent(
            "Q02",
            "log_softmax",
            "log_softmax is applied twice.",
            log_softmax_twice,
            _log_softmax_twice_backward,
            "M069",
        ),
        Equivalent(
            "Q03",
            "layer_norm",
            "A term with the mean of the deviations is missing.",
            _layer_norm,
            with_the_mean_of_deviations,
            "M056",
            "LNM-10",
        ),
        Equivalent("Q04", "gelu", "X sigmoid(2 u) for the tanh form.", by_sigmoid, _by_sigmoid_backward, "M105"),
        Equivalent(
            "Q05",
            "attention",
            "Q and K are both scaled.",
            attention_with(root_on_each),
            attention_backward,
            "M015",
            "SCL-03",
        ),
        Equivalent(
            "Q06",
            "attention",
            "Q is scaled before the product.",
            attention_with(on_the_query),
            attention_backward,
            "M014",
            "SCL-03",
        ),
        Equivalent(
            "Q07",
            "attention",
            "The mask is added to the scores.",
            attention_with(masked=added_infinity),
            attention_backward,
            "M020",
        ),
        Equivalent("Q08", "attention", "delta is made from C.", _attention, delta_from_context, "B11"),
        Equivalent(
            "Q09",
            "simple_attention",
            "The softmax runs down the columns, and the map is transposed.",
            columns_and_transposed,
            _simple_backward,
            "H02",
        ),
        Equivalent(
            "Q10",
            "multi_head_attention",
            "A fused projection is unpacked as K, V, Q.",
            fused_in_another_order,
            _fused_backward,
            "M048",
        ),
        Equivalent(
            "Q11",
            "cross_entropy",
            "log_softmax stands before the loss.",
            after_log_softmax,
            _after_log_softmax_backward,
            "M069",
        ),
        Equivalent(
            "Q12",
            "cross_entropy",
            "Ignored rows are cut out before the loss.",
            ignored_rows_cut_out,
            _ignored_rows_cut_out_backward,
            "XEN-06",
        ),
        Equivalent("Q13", "rnn", "dh must be divided by 1 - h^2.", _rnn, slope_multiplied, "RNN-01", "RNN-01"),
        Equivalent("Q14", "rnn", "dh_last is added to the last output.", _rnn, last_state_as_last_output, "R12"),
        Equivalent("Q15", "rnn", "There is one bias.", one_bias, _one_bias_backward, "R01"),
    )
}
