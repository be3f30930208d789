"""Right and wrong gradients of functions in odd styles, by their own forward alone.

Many of these forwards refuse complex numbers, drop imaginary parts, compute in one dtype only, or have kinks. The right
gradient of each must never be called wrong, and the wrong one beside it must be found.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from equivalence_tests.laws_only import check_laws

CASES = 4


def softmax_of(S):
    E = np.exp(S - S.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def softmax_rule(A, dA):
    return A * (dA - (dA * A).sum(-1, keepdims=True))


# Masks and -inf


def masked(Q, K, V):
    """The scale comes after the mask: a complex -inf times a number is NaN."""
    S = np.where(np.tri(len(Q), dtype=bool), Q @ K.mT, -np.inf) * Q.shape[-1] ** -0.5
    A = softmax_of(S)
    return A @ V, (A, Q, K, V)


def masked_right(dY, cache, scaled=True):
    A, Q, K, V = cache
    dS = softmax_rule(A, dY @ V.mT)
    dS = dS * Q.shape[-1] ** -0.5 if scaled else dS
    return dS @ K, dS.mT @ Q, A.mT @ dY


def masked_wrong(dY, cache):
    return masked_right(dY, cache, scaled=False)


def filled(X):
    """What is above the diagonal is -1e9, and its gradient is 0."""
    S = np.where(np.tri(len(X), dtype=bool), X, X.dtype.type(-1e9))
    return softmax_of(S)


def filled_right(dA, X):
    return softmax_rule(filled(X), dA)


def filled_wrong(dA, X):
    return dA * filled(X)


def chosen_logarithm(X):
    """The logarithm of what is not positive is NaN, and is not chosen."""
    return np.where(X > 0, np.log(X), 0 * X)


# Exponentials and logarithms


def log_probabilities(X):
    return X - np.logaddexp.reduce(X, -1)[..., None]


def log_probabilities_right(dY, X):
    return dY - np.exp(log_probabilities(X)) * dY.sum(-1, keepdims=True)


def log_probabilities_wrong(dY, X):
    return dY - np.exp(log_probabilities(X)) * dY.mean(-1, keepdims=True)


def softplus(X):
    return np.logaddexp(X, 0 * X)


def gelu_of_erf(X):
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return (X * (1 + erf(X / math.sqrt(2)).astype(X.dtype)) / 2).astype(X.dtype)


def gelu_right(dY, X):
    erf = np.vectorize(math.erf, otypes=[np.float64])
    density = np.exp(-X * X / 2) / math.sqrt(2 * math.pi)
    return (dY * ((1 + erf(X / math.sqrt(2))) / 2 + X * density)).astype(X.dtype)


def gelu_wrong(dY, X):
    """That of the tanh form: it differs in the fourth digit."""
    inner = math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * X * X)
    return (dY * ((1 + np.tanh(inner)) / 2 + X * (1 - np.tanh(inner) ** 2) * slope / 2)).astype(X.dtype)


# Selections and kinks


def top_two(X):
    return np.sort(X, -1)[..., -2:].sum(-1) / 2


def top_two_right(dY, X, share=0.5):
    dX = np.zeros_like(X)
    np.put_along_axis(dX, np.argsort(X, -1)[..., -2:], X.dtype.type(share) * np.asarray(dY)[..., None], -1)
    return dX


def gated(X):
    """A softmax over the two largest of each row."""
    order = np.argpartition(X, -2, -1)[..., -2:]
    taken = np.take_along_axis(X, order, -1)
    A = np.zeros_like(X)
    np.put_along_axis(A, order, softmax_of(taken), -1)
    return A


def clipped(X):
    return np.clip(X, -1, 1) * 3


def highest_so_far(X):
    return np.maximum.accumulate(X, -1)


def highest_so_far_right(dY, X):
    dX = np.zeros_like(X)
    for row, upstream, gradient in zip(X, dY, dX, strict=True):
        best = 0
        for i in range(len(row)):
            best = i if row[i] > row[best] else best
            gradient[best] += upstream[i]
    return dX


def hinge(X, w):
    return np.maximum(0, 1 - X @ w).mean()


def hinge_right(dY, X, w, sign=1):
    active = (sign * (1 - X @ w) > 0).astype(X.dtype) * dY / len(X)
    active = active.astype(X.dtype)
    return -active[:, None] * w, -X.T @ active


def pooled(X):
    return X.reshape(len(X), 2, 3).max(-1)


def pooled_right(dY, X, of_all=False):
    blocks = X.reshape(len(X), 2, 3)
    top = np.ones_like(blocks) if of_all else (blocks == blocks.max(-1, keepdims=True)).astype(X.dtype)
    return (top * dY[..., None]).reshape(X.shape)


def leaky_in_a_loop(X):
    Y = np.empty_like(X)
    for i, row in enumerate(X):
        for j, x in enumerate(row):
            Y[i, j] = x if x > 0 else 0.01 * x
    return Y


def middle(X):
    return np.median(X, -1)


def middle_right(dY, X):
    dX = np.zeros_like(X)
    np.put_along_axis(dX, np.argsort(X, -1)[..., 2:3], np.asarray(dY)[..., None], -1)
    return dX


def middle_wrong(dY, X):
    dX = np.zeros_like(X)
    np.put_along_axis(dX, np.argsort(X, -1)[..., 1:2], np.asarray(dY)[..., None], -1)
    return dX


# What complex numbers do not survive


def of_length_one(X):
    return X / np.linalg.norm(X, axis=-1, keepdims=True)


def of_length_one_right(dY, X):
    r = np.linalg.norm(X, axis=-1, keepdims=True)
    return (dY - X / r * (dY * X / r).sum(-1, keepdims=True)) / r


def distance(X, Y):
    return np.abs(X - Y).sum(-1)


def hermitian(Q, K):
    return np.tanh(Q @ K.conj().T)


def hermitian_right(dY, Q, K):
    dS = dY * (1 - np.tanh(Q @ K.T) ** 2)
    return dS @ K, dS.T @ Q


def signed_root(X):
    return np.sign(X) * np.sqrt(np.abs(X) + 1)


def spectrum(X):
    return np.abs(np.fft.rfft(X, axis=-1)) ** 2


def spectrum_right(dY, X):
    n = X.shape[-1]
    F = np.fft.rfft(X, axis=-1)
    k = np.arange(F.shape[-1])
    turns = np.exp(2j * np.pi * np.outer(k, np.arange(n)) / n)
    return (2 * ((dY * F) @ turns).real).astype(X.dtype)


def solved(A, b):
    """LAPACK takes no extended precision."""
    return np.linalg.solve(A @ A.T + np.eye(len(A), dtype=A.dtype), b)


def solved_right(dY, A, b, other_too=True):
    S = A @ A.T + np.eye(len(A), dtype=A.dtype)
    db = np.linalg.solve(S, dY)
    dS = -np.outer(db, np.linalg.solve(S, b))
    return (dS + dS.T if other_too else 2 * dS) @ A, db


# One dtype only, and other habits


def single_only(X):
    if X.dtype != np.float32:
        raise TypeError("float32 only")
    return X * np.tanh(X)


def made_single(X):
    X = np.asarray(X, np.float32)
    return X * X * X


def made_double(X):
    X = np.asarray(X, float)
    return np.tanh(X)


def rounded_inside(X):
    """As on some accelerators: what comes out has the operand's dtype, and float32's digits."""
    return np.tanh(np.float32(X)).astype(X.dtype)


def a_number(X, W):
    """The loss is a Python float."""
    return float(np.square(X @ W).sum() / len(X))


def a_number_right(dY, X, W, times=1.0):
    dA = (2 * times / len(X) * dY) * (X @ W)
    return (dA @ W.T).astype(X.dtype), (X.T @ dA).astype(X.dtype)


def standardised(X):
    centred = X - X.mean(0)
    return centred / np.sqrt(np.square(centred).mean(0) + np.finfo(X.real.dtype).eps)


def standardised_right(dY, X, variance_too=True):
    centred = X - X.mean(0)
    s = np.sqrt(np.square(centred).mean(0) + np.finfo(X.dtype).eps)
    Z = centred / s
    dZ = dY - dY.mean(0)
    return (dZ - Z * (dY * Z).mean(0) if variance_too else dZ) / s


def in_lists(X):
    return np.array([[math.tanh(float(x)) for x in row] for row in X], X.dtype)


def gathered(ids, W):
    return np.array([W[i] for i in ids])


def gathered_right(dY, ids, W):
    dW = np.zeros_like(W)
    for i, row in zip(ids, dY, strict=True):
        dW[i] += row
    return dW


def gathered_wrong(dY, ids, W):
    dW = np.zeros_like(W)
    dW[ids] = dY
    return dW


def of_tensors(x, w):
    return (x @ w).softmax(-1)


def of_tensors_right(dY, x, w):
    A = (x @ w).softmax(-1)
    dS = A * (dY - (dY * A).sum(-1, keepdim=True))
    return dS @ w.T, x.T @ dS


def of_tensors_wrong(dY, x, w):
    A = torch.softmax(x @ w, -1)
    return (dY * A) @ w.T, x.T @ (dY * A)


def with_torch_cache(X):
    Y = torch.nn.functional.silu(X)
    return Y, (X, torch.sigmoid(X))


def tensors(rng):
    return {"x": torch.from_numpy(rng.standard_normal((3, 4))), "w": torch.from_numpy(rng.standard_normal((4, 5)))}


STYLES = {
    "a scale after the mask": (masked, masked_right, masked_wrong, "Q: n c; K: n c; V: n e"),
    "a finite fill": (filled, filled_right, filled_wrong, "X: 4 4"),
    "a NaN that is not chosen": (
        chosen_logarithm,
        lambda dY, X: np.where(X > 0, dY / X, 0 * X),
        lambda dY, X: np.where(X > 0, dY / (X * X), 0 * X),
        "X: n d",
    ),
    "log-add-exp of rows": (log_probabilities, log_probabilities_right, log_probabilities_wrong, "X: ... m"),
    "log-add-exp": (softplus, lambda dY, X: dY / (1 + np.exp(-X)), lambda dY, X: dY / (1 + np.exp(X)), "X: n d"),
    "math.erf": (gelu_of_erf, gelu_right, gelu_wrong, "X: n d"),
    "a sort": (top_two, top_two_right, lambda dY, X: top_two_right(dY, X, 1.0), "X: n 4"),
    "a partition": (
        gated,
        lambda dA, X: softmax_rule(gated(X), dA),
        lambda dA, X: softmax_rule(softmax_of(X), dA),
        "X: n 5",
    ),
    "a clip": (clipped, lambda dY, X: 3 * dY * (np.abs(X) < 1), lambda dY, X: 3 * dY, "X: n d"),
    "a running maximum": (highest_so_far, highest_so_far_right, lambda dY, X: dY.copy(), "X: n d"),
    "a hinge": (hinge, hinge_right, lambda dY, X, w: hinge_right(dY, X, w, -1), "X: n d; w: d"),
    "a pool": (pooled, pooled_right, lambda dY, X: pooled_right(dY, X, True), "X: n 6"),
    "a comparison in a loop": (
        leaky_in_a_loop,
        lambda dY, X: (dY * np.where(X > 0, 1, 0.01)).astype(X.dtype),
        lambda dY, X: dY * (X > 0),
        "X: n d",
    ),
    "a median": (middle, middle_right, middle_wrong, "X: n 5"),
    "a norm": (
        of_length_one,
        of_length_one_right,
        lambda dY, X: dY / np.linalg.norm(X, axis=-1, keepdims=True),
        "X: n d",
    ),
    "an absolute value": (
        distance,
        lambda dY, X, Y: (np.asarray(dY)[..., None] * np.sign(X - Y), np.asarray(dY)[..., None] * np.sign(Y - X)),
        lambda dY, X, Y: (np.asarray(dY)[..., None] * np.sign(X - Y), np.asarray(dY)[..., None] * np.sign(X - Y)),
        "X: n d; Y: n d",
    ),
    "a conjugate": (
        hermitian,
        hermitian_right,
        lambda dY, Q, K: (hermitian_right(dY, Q, K)[0], -hermitian_right(dY, Q, K)[1]),
        "Q: n d; K: m d",
    ),
    "a sign": (
        signed_root,
        lambda dY, X: dY / (2 * np.sqrt(np.abs(X) + 1)),
        lambda dY, X: np.sign(X) * dY / (2 * np.sqrt(np.abs(X) + 1)),
        "X: n d",
    ),
    "a spectrum": (spectrum, spectrum_right, lambda dY, X: spectrum_right(dY, X) / 2, "X: n 6"),
    "a solver": (solved, solved_right, lambda dY, A, b: solved_right(dY, A, b, False), "A: n n; b: n"),
    "float32 alone": (
        single_only,
        lambda dY, X: dY * (np.tanh(X) + X * (1 - np.tanh(X) ** 2)),
        lambda dY, X: dY * np.tanh(X),
        "X: n d",
    ),
    "made float32": (
        made_single,
        lambda dY, X: np.float32(3 * X * X * dY),
        lambda dY, X: np.float32(X * X * dY),
        "X: n d",
    ),
    "made float64": (
        made_double,
        lambda dY, X: dY * (1 - np.tanh(np.asarray(X, float)) ** 2),
        lambda dY, X: dY * (np.tanh(np.asarray(X, float)) ** 2 - 1),
        "X: n d",
    ),
    "float32 inside": (
        rounded_inside,
        lambda dY, X: (np.float32(dY) * (1 - np.tanh(np.float32(X)) ** 2)).astype(X.dtype),
        lambda dY, X: (np.float32(dY) * (1 - np.tanh(np.float32(X)))).astype(X.dtype),
        "X: n d",
    ),
    "a Python float": (a_number, a_number_right, lambda dY, X, W: a_number_right(dY, X, W, 0.5), "X: n d; W: d k"),
    "an epsilon of its dtype": (
        standardised,
        standardised_right,
        lambda dY, X: standardised_right(dY, X, False),
        "X: 5 d",
    ),
    "lists of numbers": (
        in_lists,
        lambda dY, X: dY * (1 - np.tanh(X) ** 2),
        lambda dY, X: dY * (1 - np.tanh(X)) ** 2,
        "X: n d",
    ),
    "a loop over ids": (gathered, gathered_right, gathered_wrong, "ids: 5 < 3; W: 3 d"),
    "methods of tensors": (of_tensors, of_tensors_right, of_tensors_wrong, tensors),
    "a cache of tensors": (
        with_torch_cache,
        lambda dY, cache: dY * cache[1] * (1 + cache[0] * (1 - cache[1])),
        lambda dY, cache: dY * cache[1] * (1 + cache[0]),
        "X: n d",
    ),
}


def judged(name, backward):
    forward, *_, cases = STYLES[name]
    given = {"shapes": cases} if isinstance(cases, str) else {"inputs": cases}
    return check_laws(forward, backward, cases=CASES, **given)


@pytest.mark.parametrize("name", STYLES)
def test_a_right_gradient_is_never_called_wrong(name):
    report = judged(name, STYLES[name][1])
    assert report.passed, str(report)
    assert all(2 * row.judged >= row.of for row in report.gradients.values())


@pytest.mark.parametrize("name", STYLES)
def test_a_wrong_gradient_is_found(name):
    report = judged(name, STYLES[name][2]).as_report(name)
    assert report.verdict == "wrong", str(report)
    assert any(finding.tensor.startswith("d") for finding in report.findings), str(report)
