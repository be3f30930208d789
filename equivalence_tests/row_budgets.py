"""Softmax and its logarithm over numbers that know how wrong they may be: scores, weights, and what a row stores.

Two budgets. The ordinary one is for code that keeps a row's weights, or its maximum and its sum apart. The wider one, of
stages with `stored`, is for a recomputation from a stored log-sum-exp, which rounds at its own size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded, Precision, round_to
from equivalence_tests.stages import AS_IT_IS, Stages

NOTHING_SAID = np.log(2.0)  # an error of a score from which on its weight may be twice as large: its bound says nothing
A_STEP = 6.0  # roundings of one log-add-exp: 4 each of exp and log1p, at most 1/2 and log 2 large, and of a difference


class Distances(NamedTuple):
    """Of scores to which a bias was added: how far each is from its row's largest, and its error before the softmax."""

    D: Array
    error: Array


def exact_product(X: Bounded, Y: Bounded, factor: Any) -> Array:
    """Where X Y times a factor has no rounding in any order, (n, m): all terms are multiples of one power of two, their
    sum is below 2^p of it, and the root of the factor is a power of two, or the factor 0.
    """
    size = np.abs(X.value).astype(np.float64) @ np.abs(Y.value).astype(np.float64)
    root, power = np.frexp(abs(float(factor)))
    if float(factor) != 0.0 and (root != 0.5 or power % 2 == 0):
        return np.zeros(size.shape, bool)
    exact = np.broadcast_to(~(X.error.any(-1, keepdims=True) | Y.error.any(-2, keepdims=True)), size.shape)
    grain = _grain(X.value, -1) * _grain(Y.value, -2)
    return np.asarray(exact & ((float(factor) == 0.0) | (size * X.precision.unit < grain)))


def _grain(X: Array, axis: int) -> Array:
    """The largest power of two that divides every element along an axis; infinite where all are 0."""
    mantissa, exponent = np.frexp(X.astype(np.float64))
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    grain = np.ldexp((digits & -digits).astype(np.float64), exponent - 53)
    return np.asarray(np.where(digits == 0, np.inf, grain).min(axis, keepdims=True))


def sums(scaled: Bounded, bias: Array, allowed: Array) -> list[Distances]:
    """scaled + bias, where a bias may be so large that the sum keeps nothing of the score: each right answer

    One rounding, u |S|. Where both are exact and so is their sum, none. Where u |S| could double a weight, that bound says
    nothing, but right implementations agree: they round the same sum, or take differences first and round nothing.
    """
    precision = scaled.precision
    bias = np.where(allowed, bias, 0).astype(scaled.value.dtype)
    S = scaled.value + bias
    size = np.abs(S).astype(np.float64)
    rounding = precision.unit * (size + scaled.error)
    stays = (scaled.error <= 8.0 * precision.tiny) & (round_to(S, precision) == S)
    lost = ~stays & (rounding >= NOTHING_SAID) & np.isfinite(size)
    generic = scaled.error + np.where(stays, 0.0, rounding) + precision.tiny
    with np.errstate(over="ignore"):
        generic = np.where(np.isfinite(round_to(S - scaled.error, precision)), generic, np.inf)
    lost &= np.isfinite(generic)
    D = _below_top(S, allowed)
    if not lost.any():
        return [Distances(D, generic)]
    at = np.where(allowed, S, -np.inf).argmax(-1, keepdims=True)
    apart, own = (x - np.take_along_axis(np.broadcast_to(x, S.shape), at, -1) for x in (scaled.value, bias))
    differences = np.where(allowed, apart + own, 0)
    differences = differences - np.where(allowed, differences, -np.inf).max(-1, keepdims=True, initial=-np.inf)
    D = np.where(lost.any(-1, keepdims=True), np.where(allowed, differences, 0), D)
    formats = {precision.name: precision, **({"float32": PRECISIONS["float32"]} if precision.unit > 2.0**-24 else {})}
    own_sums = precision.sums * size if precision.sums < precision.unit else 0.0
    exact = Distances(D, np.where(lost, scaled.error + own_sums + precision.tiny, generic))
    return [exact, *(_rounded(S, scaled.error, allowed, lost, generic, each) for each in formats.values())]


def _rounded(S: Array, error: Array, allowed: Array, lost: Array, generic: Array, precision: Precision) -> Distances:
    """The sums as a format rounds them, and by how much an error before that may change them."""
    low, middle, high = (round_to(S + x, precision) for x in (-error, 0.0, error))
    rounded = np.where(lost, middle, S)
    flips = np.where(lost, np.maximum(high - middle, middle - low) + precision.tiny, generic)
    return Distances(_below_top(rounded, allowed), flips)


def _below_top(S: Array, allowed: Array) -> Array:
    """S - its row's largest allowed element; 0 where nothing is allowed."""
    top = np.max(S, -1, keepdims=True, where=allowed, initial=-np.inf)
    return np.where(allowed, S - np.where(np.isneginf(top), 0, top), 0)


def softmax_over(
    S: Bounded, allowed: Array, stage: Stages = AS_IT_IS, added: Distances | None = None, steps: int = 1
) -> Bounded:
    """A = softmax over the allowed entries of each row; E(A) = A (e + sum(A e)) + (m + 4) u A, e = expm1(E(S - max)).

    The shift by the maximum changes nothing, but S - max is rounded once more, and up to twice again where the exponential
    is that of base 2, or is taken of S - max - log(sum). `added` are S where a bias was added; `steps` are those of
    `stored_error`.
    """
    if stage.edited:
        by_lines: Bounded = softmax_by_lines(S, allowed, stage)
        return by_lines
    precision = S.precision
    D, error = added or Distances(_below_top(S.value, allowed), S.error)
    if stage.stored:
        error = error + stored_error(S.value, D, allowed, precision, steps)
    m = D.shape[-1]
    E = np.where(allowed, np.exp(D), 0)
    total = E.sum(-1, keepdims=True)
    A = E / np.where(total == 0, 1, total)
    size = A.astype(np.float64)
    e = np.expm1(np.minimum(error + 3.0 * precision.unit * np.abs(D).astype(np.float64), 700.0))
    e = np.where(allowed, e, 0.0)
    rounding = (m * precision.sums + 4.0 * precision.unit) * size
    bound = size * (e + (size * e).sum(-1, keepdims=True)) + rounding + precision.tiny
    overflowed = (allowed & ~np.isfinite(error)).any(-1, keepdims=True)
    return Bounded(A, precision, np.where(overflowed, np.inf, np.where(allowed, bound, 0.0)))


def stored_error(X: Array, D: Array, allowed: Array, precision: Precision, steps: int) -> Array:
    """What a stored log-sum-exp L of each row is rounded by: steps u (|L| + 6)

    One rounding where the maximum and the logarithm are added. A sequence of log-add-exps, one for each element, rounds
    every partial result r <= L, and what r lost reaches L times exp(r - L): |r| exp(r - L) is at most |L| + 1/e.
    """
    top = np.max(X, -1, keepdims=True, where=allowed, initial=-np.inf)
    total = np.where(allowed, np.exp(D), 0).sum(-1, keepdims=True)
    L = np.where(np.isneginf(top), 0, top) + np.log(np.where(total == 0, 1, total))
    return np.asarray(steps * precision.unit * (np.abs(L).astype(np.float64) + A_STEP))


def softmax_by_lines(S: Any, allowed: Array, stage: Stages) -> Any:
    """The same over numbers that know no error, for a line that is edited."""
    axis, fill = stage.use("A", "axis", -1), stage.use("masked", "fill", -np.inf)
    if fill != -np.inf:
        S, allowed = S.moved(lambda x: np.where(allowed, x, x.dtype.type(fill))), np.ones(allowed.shape, bool)
    S, allowed = stage.use("A", "scores", S), stage.use("A", "allowed", allowed)
    top = stage.use("X - max", "max", greatest)(S, allowed, axis)
    D = stage("X - max", (S - top).where(allowed))
    E = stage("exp", stage.use("exp", "exp", type(S).exp)(D).where(allowed))
    total = stage("sum(exp)", stage.use("sum(exp)", "sum", total_over)(E, axis))
    guard = stage.use("A", "guard", "empty")
    empty = total.value == 0 if guard == "total" else ~np.broadcast_to(allowed, S.value.shape).any(axis, keepdims=True)
    guarded = total.moved(lambda x: np.where(empty & (guard != "none"), x.dtype.type(1), x))
    return stage("A", E / guarded)


def greatest(S: Any, allowed: Array, axis: Any) -> Any:
    def over(x: Array) -> Array:
        top = np.max(np.where(allowed, x, -np.inf), axis, keepdims=True)
        return np.where(np.isneginf(top), 0, top)

    return S.moved(over)


def total_over(E: Any, axis: Any) -> Any:
    return E.sum(axis, keepdims=True)


def log_softmax_of(X: Bounded, stage: Stages = AS_IT_IS) -> Bounded:
    """Y = D - log(sum(exp D)), D = X - max X; the shift is exact in the end, since it cancels.

    Or Y = X - L, L the stored log-sum-exp, which is rounded at its own size.
    """
    top = X.value.max(-1, keepdims=True)
    top = stage.use("X - max", "max", greatest)(X, np.ones(1, bool), -1).value if stage.edited else top
    D = stage("X - max", X - type(X)(top, X.precision))
    total = stage("sum(exp)", stage.use("sum(exp)", "sum", total_over)(D.exp(), -1))
    lse = stage("log(sum(exp))", stage.use("log(sum(exp))", "log", type(X).log)(total))
    Y = stage("Y", stage.use("Y", "X - max", D) - lse)
    if stage.stored:
        m = X.value.shape[-1]
        Y.error = Y.error + stored_error(X.value, D.value, np.ones(D.value.shape, bool), X.precision, steps=m)
    return Y
