"""An independent witness: every op as plain loops over numbers of hundreds of digits, every gradient by differences.

A central difference (f(x + h) - f(x - h)) / 2h is useless in float64, where h is either too large or drowned by rounding.
With enough digits both errors vanish, so that no rule of differentiation is needed, and no backward's formula is shared.
Arrays are NumPy object arrays of `mpmath.mpf`; sizes of 1 to 3 take milliseconds to a second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from mpmath import mp, mpf

Exact = npt.NDArray[np.object_]
Integers = npt.NDArray[np.integer[Any]]
Booleans = npt.NDArray[np.bool_]

DIGITS = 450  # less the digits of 1/h: absolute errors near 1e-390, far below the smallest float64 (tiny weights of A)
STEP_DIGITS = 60  # h = 1e-60: the truncation h^2 f'''/6 is near 1e-120 of f'
FACTORS = 8  # scores have 4 factors (X Wq, X Wk), C has 2 more, Wo is one, 1/h the last: each may cost its magnitude


def elementwise(f: Callable[[Any], Any], X: npt.NDArray[Any]) -> Exact:
    Y = np.empty(X.shape, object)
    for index in np.ndindex(X.shape):
        Y[index] = f(X[index])
    return Y


def to_exact(values: npt.ArrayLike) -> Exact:
    """Each float as the mpf of exactly its value (not of its decimal digits); an mpf is taken as it is."""
    return elementwise(lambda x: x if isinstance(x, mpf) else mpf(float(x)), np.asarray(values))


def to_longdouble(values: Exact) -> npt.NDArray[np.longdouble]:
    """Rounded to longdouble by way of 25 decimal digits (it holds 19); what is below its normal range is 0."""
    floor = 2 * mpf(str(np.finfo(np.longdouble).smallest_normal))  # exp(-1e20) has an exponent that no parser takes
    return elementwise(lambda x: np.longdouble(0 if abs(x) < floor else mp.nstr(x, 25)), values).astype(np.longdouble)


def dot(x: Iterable[Any], y: Iterable[Any]) -> Any:
    return sum((a * b for a, b in zip(x, y, strict=True)), mpf(0))


def product(X: Exact, W: Exact) -> Exact:
    """Y = X W;  X: (..., d), W: (d, c) or with X's leading axes (..., d, c), Y: (..., c)"""
    Y = np.empty((*X.shape[:-1], W.shape[-1]), object)
    for index in np.ndindex(Y.shape):
        Y[index] = dot(X[index[:-1]], W[index[: W.ndim - 2]][:, index[-1]])
    return Y


def along(axis: int, f: Callable[[Sequence[Any]], list[Any]], X: Exact) -> Exact:
    """f on every row of X that runs along `axis`."""
    Y = np.empty(X.shape, object)
    rows, results = np.moveaxis(X, axis, -1), np.moveaxis(Y, axis, -1)  # a view: filling it fills Y
    for index in np.ndindex(rows.shape[:-1]):
        results[index] = f(list(rows[index]))
    return Y


def weights(x: Sequence[Any]) -> list[Any]:
    """exp(x_i) / sum_j exp(x_j), no maximum taken off: an mpf does not overflow. All NaN where the sum is 0, inf or NaN."""
    powers = [mp.exp(value) for value in x]
    total = sum(powers)
    return [power / total if 0 < total < mp.inf else mp.nan for power in powers]


def softmax(X: Exact, axis: int = -1) -> Exact:
    """A_i = exp(X_i) / sum_j exp(X_j);  X, A: (...)"""
    return along(axis, weights, X)


def log_softmax(X: Exact, axis: int = -1) -> Exact:
    """Y = log(softmax(X));  X, Y: (...). The logarithm of softmax after all: an mpf does not underflow."""
    return elementwise(mp.log, softmax(X, axis))


def layer_norm(X: Exact, scale: Exact, shift: Exact, epsilon: float = 1e-5) -> Exact:
    """Y = scale * (X - mean(X)) / sqrt(mean((X - mean(X))^2) + epsilon) + shift;  X, Y: (..., d), scale, shift: (d,)"""

    def row(x: Sequence[Any]) -> list[Any]:
        mean = sum(x) / len(x)
        root = mp.sqrt(sum((value - mean) ** 2 for value in x) / len(x) + mpf(epsilon))
        return [a * (value - mean) / root + b for value, a, b in zip(x, scale, shift, strict=True)]

    return along(-1, row, X)


def linear(X: Exact, weight: Exact, bias: Exact | None = None) -> Exact:
    """Y = X weight^T + bias;  X: (..., d), weight: (c, d), bias: (c,), Y: (..., c)"""
    Y = product(X, weight.T)
    return Y if bias is None else Y + bias


def relu(X: Exact) -> Exact:
    """Y = max(X, 0)"""
    return elementwise(lambda x: mpf(0) if x <= 0 else x, X)  # NaN is not <= 0 and passes


def tanh(X: Exact) -> Exact:
    """Y = tanh(X)"""
    return elementwise(mp.tanh, X)


def gelu(X: Exact) -> Exact:
    """Y = X (1 + tanh(u)) / 2 = X / (1 + exp(-2 u)),  u = sqrt(2/pi) (X + 0.044715 X^3); no cancellation in the second."""
    cubic = mpf(44715) / 10**6  # the decimal number, not the double next to it
    return elementwise(lambda x: x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + cubic * x**3))), X)


def embedding(ids: Integers, weight: Exact) -> Exact:
    """Y = weight[ids];  ids: (...), weight: (v, d), Y: (..., d)"""
    return np.take(weight, ids, axis=0)


def dropout(X: Exact, keep: Booleans | None, p: float) -> Exact:
    """Y = X / (1 - p) where keep, else 0;  X, keep, Y: (...). p = 1 gives zeros."""
    Y = np.empty(X.shape, object)
    for index in np.ndindex(X.shape):
        kept = (keep is None or keep[index]) and p < 1
        Y[index] = X[index] / (1 - mpf(p)) if kept else mpf(0)
    return Y


def attention(
    Q: Exact,
    K: Exact,
    V: Exact,
    *,
    mask: Booleans | None = None,
    bias: npt.NDArray[Any] | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Booleans | None = None,
    p: float = 0.0,
) -> Exact:
    """C = dropout(A) V,  A = softmax(scale Q K^T + bias) over the keys that a query may attend to; without any, A = 0

    Q: (..., n, c), K: (..., m, c), V: (..., m, e), C: (..., n, e); mask, bias broadcast to (..., n, m), keep has its shape.
    """
    shape = (*Q.shape[:-1], K.shape[-2])
    factor = 1 / mp.sqrt(Q.shape[-1]) if scale is None else mpf(scale)
    allowed = np.broadcast_to(True if mask is None else mask, shape)
    biases = np.broadcast_to(to_exact(0.0 if bias is None else bias), shape)
    A = np.full(shape, mpf(0), object)
    for *lead, i in np.ndindex(shape[:-1]):
        row = (*lead, i)
        visible = [j for j in range(shape[-1]) if allowed[row][j] and (not causal or j <= i + query_offset)]
        scores = {j: factor * dot(Q[row], K[(*lead, j)]) + biases[row][j] for j in visible}
        scores = {j: score for j, score in scores.items() if score != -mp.inf}
        for j, a in zip(scores, weights(list(scores.values())), strict=True):
            A[(*row, j)] = a
    return product(dropout(A, keep, p), V)


def simple_attention(X: Exact) -> Exact:
    """C = softmax(X X^T) X;  X, C: (..., n, d)"""
    return attention(X, X, X, scale=1.0)


def self_attention(X: Exact, Wq: Exact, Wk: Exact, Wv: Exact, **options: Any) -> Exact:
    """C = attention(X Wq, X Wk, X Wv);  X: (..., n, d), Wq, Wk: (d, c), Wv: (d, e), C: (..., n, e); attention's options"""
    return attention(product(X, Wq), product(X, Wk), product(X, Wv), **options)


def multi_head_attention(X: Exact, Wq: Exact, Wk: Exact, Wv: Exact, Wo: Exact, num_heads: int, **options: Any) -> Exact:
    """Y = [C_1 ... C_H] Wo,  C_h = attention(X Wq_h, X Wk_h, X Wv_h), where W_h is the h-th block of columns

    X: (..., n, d), Wq, Wk, Wv: (d, H c), Wo: (H c, k), Y: (..., n, k); attention's options, for scores (..., H, n, n).
    """
    heads = ([product(X, block) for block in np.split(W, num_heads, axis=1)] for W in (Wq, Wk, Wv))
    C = attention(*(np.stack(head, axis=-3) for head in heads), **options)  # (..., H, n, c)
    return product(np.concatenate([C[..., h, :, :] for h in range(num_heads)], axis=-1), Wo)


def cross_entropy(logits: Exact, targets: Integers, ignore_index: int | None = None) -> Exact:
    """loss = -(1/M) sum over the M counted targets of log_softmax(logits)[target];  logits: (..., v), targets: (...)"""
    log_P = log_softmax(logits)
    losses = [-log_P[(*index, target)] for index, target in np.ndenumerate(targets) if target != ignore_index]
    if not losses:
        raise ValueError("cross_entropy: every target is ignored, expected at least 1 that is not")
    return to_exact(np.array(sum(losses) / len(losses), object))


def rnn(X: Exact, W_ih: Exact, W_hh: Exact, b_ih: Exact, b_hh: Exact, h0: Exact | None = None) -> tuple[Exact, Exact]:
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh);  X: (..., n, d), h0, h_last: (..., k), H: (..., n, k)"""
    n, k = X.shape[-2], len(b_ih)
    H = np.empty((*X.shape[:-1], k), object)
    for lead in np.ndindex(X.shape[:-2]):
        h = [mpf(0)] * k if h0 is None else list(h0[lead])
        for t in range(n):
            h = [mp.tanh(dot(W_ih[a], X[(*lead, t)]) + b_ih[a] + dot(W_hh[a], h) + b_hh[a]) for a in range(k)]
            H[(*lead, t)] = h
    return H, H[..., -1, :].copy()


FORWARDS: dict[str, Callable[..., Any]] = {  # they compute with as many digits as mp is set to
    **{op.__name__: op for op in (softmax, log_softmax, layer_norm, linear, relu, tanh, gelu, embedding, dropout)},
    **{op.__name__: op for op in (attention, simple_attention, self_attention, multi_head_attention)},
    **{op.__name__: op for op in (cross_entropy, rnn)},
}


def prepare(operands: dict[str, Any], options: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The operands, floats made exact; and how many digits their largest finite float has before the point."""
    floats = [np.ravel(x) for x in (*operands.values(), *options.values()) if np.asarray(x).dtype.kind == "f"]
    sizes = [abs(float(x)) for array in floats for x in array if np.isfinite(x)]
    exact = {name: to_exact(x) if np.asarray(x).dtype.kind == "f" else x for name, x in operands.items()}
    return exact, math.ceil(math.log10(max([1.0, *sizes])))


def forward(op: str, operands: dict[str, Any], options: dict[str, Any]) -> Exact | tuple[Exact, ...]:
    """Y = op(**operands, **options) to hundreds of digits; a tuple where the op has two outputs."""
    exact, magnitude = prepare(operands, options)
    with mp.workdps(DIGITS + FACTORS * magnitude):
        Y: Exact | tuple[Exact, ...] = FORWARDS[op](**exact, **options)
    return Y


def gradient(op: str, operands: dict[str, Any], options: dict[str, Any], upstream: Any, name: str) -> Exact:
    """dX = (<upstream, Y(X + h)> - <upstream, Y(X - h)>) / 2h for every element of X = operands[name]

    upstream is as the output: an array, or a tuple where there are two. Outputs that h does not move contribute 0, though
    they be infinite. h is 1e-60, less where operands are large; the op must be smooth over h (relu at 0 is not).
    """
    exact, magnitude = prepare(operands, options)
    with mp.workdps(DIGITS + FACTORS * magnitude):
        h = mpf(10) ** -(STEP_DIGITS + magnitude)
        dX = np.empty(exact[name].shape, object)
        for index in np.ndindex(dX.shape):
            sides = []
            for step in (h, -h):
                moved = exact[name].copy()
                moved[index] += step
                sides.append(numbers(FORWARDS[op](**{**exact, name: moved}, **options)))
            changes = [mpf(0) if above == below else above - below for above, below in zip(*sides, strict=True)]
            dX[index] = dot(numbers(upstream), changes) / (2 * h)
    return dX


def numbers(outputs: Any) -> list[Any]:
    """All numbers of an array, or of a tuple of arrays, in one list."""
    return [x for array in (outputs if isinstance(outputs, tuple) else (outputs,)) for x in to_exact(array).ravel()]
