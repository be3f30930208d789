"""Checks that need no reference: right functions pass, and each law tells what breaks it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from equivalence_tests import check_command, check_worker
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.laws_only import check_gradients, check_implementation, check_laws
from equivalence_tests.laws_only.differences import central, noise
from equivalence_tests.laws_only.factors import name_of_factor
from equivalence_tests.laws_only.jitter import jittering
from equivalence_tests.laws_only.shapes import read
from equivalence_tests.mistakes import MISTAKES, as_implementation, quiet
from equivalence_tests.mistakes.matrix import REFERENCE
from equivalence_tests.ops import OPS
from equivalence_tests.report import Report

RIGHT_OPS = [op for op in OPS.values() if op.differentiable and not op.model]


def codes(report):
    return {finding.code for finding in report.findings}


def said(report):
    return "\n".join(finding.say() for finding in report.findings)


# Right functions of which the table knows nothing. The first of a row is written so that no complex number gets through.


def mlp(X, W):
    return np.tanh(X @ W)


def mlp_backward(dY, X, W):
    dA = dY * (1 - np.tanh(X @ W) ** 2)
    return dA @ W.T, X.reshape(-1, X.shape[-1]).T @ dA.reshape(-1, dA.shape[-1])


def unit(X):
    return X / np.linalg.norm(X, axis=-1, keepdims=True)


def unit_backward(dY, X):
    r = np.sqrt((X * X).sum(-1, keepdims=True))
    return (dY - X / r * (dY * X / r).sum(-1, keepdims=True)) / r


def highest(X):
    return X.max(-1)


def highest_backward(dY, X):
    dX = np.zeros_like(X)
    np.put_along_axis(dX, X.argmax(-1)[..., None], np.asarray(dY)[..., None], -1)
    return dX


def huber(X):
    return np.where(np.abs(X) < 1, X * X / 2, np.abs(X) - X.dtype.type(0.5)).sum()


def huber_backward(dY, X):
    return dY * np.where(np.abs(X) < 1, X, np.sign(X))


def lookup(ids, W):
    return W[ids]


def lookup_backward(dY, ids, W):
    dW = np.zeros_like(W)
    np.add.at(dW, ids, dY)
    return dW


def soft(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


def soft_backward(dA, A):
    return A * (dA - (dA * A).sum(-1, keepdims=True))


def two(X, W):
    return X @ W, (X * X).sum(-1)


def two_backward(upstream, X, W):
    dA, db = upstream
    dX = dA @ W.T + 2 * X * np.asarray(db)[..., None]
    return dX, X.reshape(-1, X.shape[-1]).T @ dA.reshape(-1, dA.shape[-1])


def steep(X):
    return np.tanh(30 * X)


def steep_backward(dY, X):
    return 30 * dY * (1 - np.tanh(30 * X) ** 2)


RIGHT = {
    "mlp": (mlp, mlp_backward, "X: ... n d; W: d k"),
    "unit vectors": (unit, unit_backward, "X: ... n d"),
    "a maximum": (highest, highest_backward, "X: ... n d"),
    "a loss with a kink": (huber, huber_backward, "X: n d"),
    "repeated ids": (lookup, lookup_backward, "ids: ... n < v; W: v d"),
    "a pair": (soft, soft_backward, "X: ... m"),
    "two outputs": (two, two_backward, "X: ... n d; W: d k"),
    "a saturated function": (steep, steep_backward, "X: ... n"),
    "a kink at the operand itself": (
        lambda X: np.maximum(np.where(X > 0, X, 0.0 * X), 0.0 * X),
        lambda dY, X: dY * (X > 0),
        "X: n",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_function_passes(name):
    forward, backward, shapes = RIGHT[name]
    report = check_laws(forward, backward, shapes=shapes)
    assert report.passed, str(report)
    assert all(row.judged for row in report.rows)


@pytest.mark.parametrize("op", RIGHT_OPS, ids=lambda op: op.name)
def test_no_false_alarm_on_the_reference(op):
    for seed in range(2):
        report = check_implementation(REFERENCE, op, cases=8, seed=seed, own=False)
        assert report.passed, f"seed {seed}\n{report}"


def test_the_laws_of_an_op_of_the_table_run_too():
    right = check_laws(REFERENCE.forward("softmax"), REFERENCE.backward("softmax"), like="softmax", cases=4)
    assert right.passed, str(right)

    def on_logits_squared(X, axis=-1):  # differentiable, with its own right gradient, but no softmax
        A, cache = REFERENCE.forward("softmax")(np.square(X), axis)
        return A, (X, cache)

    def backward(dA, cache):
        return np.multiply(2, cache[0]) * REFERENCE.backward("softmax")(dA, cache[1])

    wrong = check_laws(on_logits_squared, backward, like="softmax", cases=4)
    assert codes(wrong) == {"law_broken"}, str(wrong)


GRADIENT_MISTAKES = [m for m in MISTAKES.values() if m.backward and not m.forward and not OPS[m.op].model]


def test_known_mistakes_in_gradients_are_caught_without_a_reference():
    """One in fifteen; measured by hand over all of them and 20 cases, with the models', 169 of 170 are caught."""
    missed = []
    for mistake in GRADIENT_MISTAKES[::15]:
        with quiet():
            report = check_implementation(as_implementation(mistake), OPS[mistake.op], cases=8, own=False)
        if not report.findings:
            missed.append(mistake.id)
    assert not missed


# What is wrong is named


def spoiled(change):
    def backward(dY, X, W):
        return change(*mlp_backward(dY, X, W), dY, X, W)

    return backward


NAMED = {
    "half": (lambda dX, dW, *_: (0.5 * dX, dW), "gradient_factor", "dX is 0.5 times"),
    "a sign": (lambda dX, dW, *_: (dX, -dW), "gradient_factor", "dW is -1 times"),
    "nothing": (lambda dX, dW, *_: (0 * dX, dW), "gradient_factor", "dX is 0 times"),
    "a mean": (
        lambda dX, dW, dY, X, W: (dX, dW / (X.size // X.shape[-1])),
        "gradient_factor",
        "dW is 1/(rows n) times",
    ),
    "a root": (
        lambda dX, dW, dY, X, W: (dX * X.dtype.type(X.shape[-1] ** 0.5), dW),
        "gradient_factor",
        "sqrt(d) times",
    ),
    "a term": (lambda dX, dW, dY, X, W: (dX + 1e-6 * dX**2, dW), "not_linear", "dX is not linear"),
    "an element": (lambda dX, dW, *_: (dX, dW + (dW == dW.max()) * dW.dtype.type(0.5)), "gradient_differs", "dW["),
    "a shape": (lambda dX, dW, *_: (dX, dW.T[:1]), "wrong_shape", "dW has shape"),
    "one missing": (lambda dX, dW, *_: dX, "missing", "dW is not returned"),
    "one too many": (lambda dX, dW, *_: (dX, dW, dW), "too_many", "3 gradients"),
    "a dtype": (lambda dX, dW, *_: (dX.astype(np.float64), dW), "wrong_dtype", "dX is float64 where float32"),
    "NaN": (lambda dX, dW, *_: (dX, dW * np.nan), "not_finite", "is nan"),
    "a memory": (lambda dX, dW, dY, X, W: (dX, _written(W, dW)), "conduct", "changes an operand"),
    "an exception": (lambda dX, dW, *_: 1 / 0, "raises", "ZeroDivisionError"),
}


def _written(target, value):
    target[...] = value
    return target


@pytest.mark.parametrize("what", NAMED)
def test_what_is_wrong_is_named(what):
    change, code, text = NAMED[what]
    report = check_laws(mlp, spoiled(change), shapes="X: ... n d; W: d k")
    assert not report.passed
    assert code in codes(report)
    assert text in said(report)
    for language in LANGUAGES:
        assert all(finding.say(language) for finding in report.findings)


def test_swapped_and_transposed_gradients_are_told_apart():
    def bilinear(P, R):
        return (P * R).sum(-1)

    def swapped(dY, P, R):
        return np.asarray(dY)[..., None] * P, np.asarray(dY)[..., None] * R

    assert "gradient_of_another" in codes(check_laws(bilinear, swapped, shapes="P: n d; R: n d"))

    def product(X, W):
        return X @ W

    def transposed(dY, X, W):
        return dY @ W.T, (X.T @ dY).T

    assert "gradient_transposed" in codes(check_laws(product, transposed, shapes="X: n 4; W: 4 4"))


class Remembers:
    """A backward that answers from the last call of its forward, not from its own."""

    def forward(self, X):
        self.X = X.copy()
        return X * X, ()

    def backward(self, dY, cache):
        return 2 * self.X * dY


class Buffers:
    """A backward that answers in the same memory every time."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, dY, X):
        buffer = self.buffers.setdefault((X.shape, X.dtype), np.empty_like(X))
        buffer[...] = 2 * X * dY
        return buffer


def test_conduct_is_judged():
    remembers = Remembers()
    assert "when called again" in said(check_laws(remembers.forward, remembers.backward, shapes="X: n d"))
    assert "a later call changes" in said(check_laws(lambda X: X * X, Buffers(), shapes="X: n d"))

    def in_place(dY, X):
        dY *= 2 * X
        return dY

    assert "changes an operand, an output or its upstream" in said(
        check_laws(lambda X: X * X, in_place, shapes="X: n d")
    )

    def identity_backward(dY, X):
        return dY

    assert "a gradient shares memory" in said(check_laws(lambda X: 1 * X, identity_backward, shapes="X: n d"))
    assert "an output shares memory" in said(check_laws(lambda X: X, lambda dY, X: 1 * dY, shapes="X: n d"))

    def by_memory(X):  # reads the memory behind a view as if it were contiguous
        return np.ndarray(X.shape, X.dtype, X.tobytes("A")) * 2

    assert "depends_on_layout" in codes(check_laws(by_memory, lambda dY, X: 2 * dY, shapes="X: n 3 4"))


def test_a_forward_that_drops_imaginary_parts_is_differentiated_by_differences():
    """Complex steps alone would find the backward right that forgets the norm's own gradient, as they forget it too."""

    def forgetful(dY, X):
        return dY / np.sqrt((X * X).sum(-1, keepdims=True))

    def half_complex(X):
        return X / np.sqrt((np.abs(X) ** 2).sum(-1, keepdims=True))

    assert check_laws(half_complex, unit_backward, shapes="X: n d").passed
    assert "gradient_differs" in codes(check_laws(half_complex, forgetful, shapes="X: n d"))


def scaled_after_the_mask(Q, K):
    """-inf times a complex number is NaN, so no complex step tells the slope; with one row there is no -inf."""
    S = np.where(np.tri(len(Q), dtype=bool), Q @ K.mT, Q.dtype.type(-np.inf)) * Q.shape[-1] ** -0.5
    E = np.exp(S - S.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


def scaled_after_the_mask_backward(dA, A, Q, K):
    dS = A * (dA - (dA * A).sum(-1, keepdims=True)) * Q.shape[-1] ** -0.5
    return dS @ K, dS.mT @ Q


def test_where_a_complex_step_is_nan_differences_judge_every_case():
    def forward(Q, K):
        return scaled_after_the_mask(Q, K)[0]

    def backward(dA, Q, K, times=1.0):
        dQ, dK = scaled_after_the_mask_backward(dA, forward(Q, K), Q, K)
        return dQ * times, dK

    right = check_laws(forward, backward, shapes="Q: n c; K: n c", cases=8)
    assert right.passed, str(right)
    assert right.as_report("right").judged == {"dQ": (8, 8), "dK": (8, 8)}

    def too_large(dA, Q, K):
        return backward(dA, Q, K, 3.0 * Q.shape[-1] ** 0.5)

    wrong = check_laws(forward, too_large, shapes="Q: n c; K: n c", cases=8).as_report("wrong")
    assert wrong.verdict == "wrong"
    assert wrong.judged["dQ"] == (8, 8)


def test_fewer_than_half_of_the_cases_are_no_agreement():
    def rough_where_wide(X):
        return X + (np.sin(X.dtype.type(1e15) * X) / 8 if X.size > 2 else 0 * X)

    report = check_laws(rough_where_wide, lambda dY, X: 1 * dY, shapes="X: n").as_report("rough")
    judged, drawn = report.judged["dX"]
    assert 0 < judged < drawn / 2
    assert (report.verdict, report.exit_code) == ("not judged", 2)
    assert [(finding.code, finding.tensor) for finding in report.findings] == [("few_slopes", "dX")]
    assert f"judged: dX {judged} of {drawn}" in str(report)
    assert Report.from_json(json.loads(json.dumps(report.as_json()))).judged == report.judged


def test_a_forward_that_always_raises_is_not_judged():
    def needs_square(X, W):
        return np.linalg.inv(X) @ W

    report = check_laws(needs_square, lambda dY, X, W: (dY, dY), shapes="X: 3 4; W: 3 2", cases=4).as_report("inverse")
    assert (report.verdict, report.exit_code) == ("not judged", 2)
    assert [finding.code for finding in report.findings] == ["never_runs"]
    assert "it was given X (3, 4), W (3, 2)" in report.findings[0].say()


def test_operands_and_options_come_from_the_users_own_function():
    def scaled(X, *, by, mask):
        return np.where(mask, X * by, 0.0 * X)

    def backward(dY, X, by, mask):
        return np.where(mask, dY * by, 0.0 * dY)

    def inputs(rng):
        return {"X": rng.standard_normal((3, 4)), "by": rng.standard_normal(4), "mask": rng.random((3, 4)) < 0.5}

    assert check_laws(scaled, backward, inputs=inputs).passed
    assert not check_laws(scaled, lambda dY, X, by, mask: dY * by, inputs=inputs).passed


def test_a_function_of_one_precision_is_judged_in_it():
    def single(X):
        if X.dtype != np.float32:
            raise TypeError("float32 only")
        return X * X * X

    report = check_laws(single, lambda dY, X: 3 * X * X * dY, shapes="X: n d")
    assert report.passed, str(report)
    assert report.not_checked == ("float64: it raises TypeError: float32 only",)
    assert "dX is 0.666667 times" in said(check_laws(single, lambda dY, X: 2 * X * X * dY, shapes="X: n d"))


def test_what_has_no_slope_is_not_judged_and_does_not_pass():
    def rough(X):  # so rough that no difference tells its slope, and a complex step only that of the roughness
        return X + np.sin(X.dtype.type(1e15) * X) / 8

    report = check_laws(rough, lambda dY, X: 1 * dY, shapes="X: n")
    assert not report.judged
    assert not report.passed
    assert report.as_report("steps").verdict == "not judged"


def test_a_gradient_in_a_lower_precision_is_told():
    def in_float32(dY, X):
        return (3 * X * X * dY).astype(np.float32).astype(X.dtype)

    report = check_laws(lambda X: X * X * X, in_float32, shapes="X: n d")
    assert {"gradient_imprecise", "not_linear"} <= codes(report)


def test_laws_that_hold_for_some_functions_are_asked_for_by_name():
    laws = ("batch", "permutation n", "permutation k")
    assert check_laws(mlp, mlp_backward, shapes="X: ... n d; W: d k", laws=laws).passed

    def centred(X):
        return X - X.mean(tuple(range(X.ndim)), keepdims=True)

    def centred_backward(dY, X):
        return centred(dY)

    assert check_laws(centred, centred_backward, shapes="X: ... n d").passed
    assert "batch_dependent" in codes(check_laws(centred, centred_backward, shapes="X: ... n d", laws=["batch"]))

    def running(X):
        return np.cumsum(X, -2)

    def running_backward(dY, X):
        return np.cumsum(dY[..., ::-1, :], -2)[..., ::-1, :].copy()

    assert check_laws(running, running_backward, shapes="X: ... n d", laws=["permutation d", "batch"]).passed
    ordered = check_laws(running, running_backward, shapes="X: ... n d", laws=["permutation n"])
    assert codes(ordered) == {"not_equivariant"}


# Torch


class WrongCube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X):
        ctx.save_for_backward(X)
        return X * X * X

    @staticmethod
    def backward(ctx, dY):
        (X,) = ctx.saved_tensors
        return dY * 2 * X * X


def test_autograd_is_judged_by_differences():
    assert check_laws(torch.nn.functional.gelu, shapes="X: n d", cases=8).passed
    assert "dX is 0.666667 times" in said(check_laws(lambda X: WrongCube.apply(X), inputs=cube_inputs, cases=8))
    tensors = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    assert check_gradients(lambda X, W: (X @ W).tanh(), None, tensors).passed


def cube_inputs(rng):
    return torch.from_numpy(rng.standard_normal((2, 3)))


# Slopes


def test_differences_know_their_error():
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = rng.standard_normal(2)
        steepness = 10.0 ** rng.uniform(-2, 4)

        def along(t, a=a, b=b, steepness=steepness):
            return np.longdouble(np.tanh(a + steepness * t) + b * np.exp(b * t))

        slope = central(along, 0.25, noise(along, 2.0**-36, 2.0**-53))
        right = steepness / np.cosh(a) ** 2 + b * b
        assert abs(slope.value - right) <= slope.bound
        assert slope.bound <= 1e-4 * (1 + abs(right))


def test_a_kink_has_no_slope():
    for kink in (lambda t: np.longdouble(abs(t)), lambda t: np.longdouble(max(t, 0.0) + np.exp(t))):
        assert central(kink, 0.25, 1e-16).bound == np.inf


def test_a_function_that_is_flat_to_long_steps_does_not_deceive():
    def narrow(t):  # what layer norm does to a row of tiny variance
        return np.longdouble(t / np.sqrt(t * t + 1e-8))

    assert central(narrow, 0.25, 1e-16).bound < 1.0
    for exponent in range(-16, -3):  # with more noise the short steps tell less, and the long ones seem to tell more
        slope = central(narrow, 0.25, 10.0**exponent)
        assert abs(slope.value - 1e4) <= slope.bound or slope.bound == np.inf


def test_jitter_moves_what_is_computed_and_nothing_else():
    cls = jittering(np.random.default_rng(0))
    X = np.random.default_rng(1).standard_normal((50, 40))
    assert np.array_equal(np.maximum(X.view(cls), 0)[:, ::-1], np.maximum(X, 0)[:, ::-1])
    for moved, exact in (
        (np.exp(X.view(cls)), np.exp(X)),
        (X.view(cls).sum(0), X.sum(0)),
        (X.view(cls) @ X.T, X @ X.T),
    ):
        assert 0.5 < np.abs(np.asarray(moved) / exact - 1).max() * 2**53 < 4
        assert moved.dtype == exact.dtype
    into = np.zeros_like(X).view(cls)
    np.add(X.view(cls), 1.0, out=into)
    assert np.allclose(into, X + 1, rtol=1e-15, atol=1e-15)


# Errors of use


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("X n d", "expected NAME: AXES"),
        ("X: n; X: d", "X came twice"),
        ("X: n ...", "once, and first"),
        ("ids: n < v", "only integers came"),
        ("X: n-1", "axis 'n-1' came"),
        ("X: n; ids: n < 2v", "expected a letter or a number"),
        ("", "nothing came"),
    ],
)
def test_a_line_of_shapes_that_says_nothing_is_refused(line, text):
    with pytest.raises(ValueError, match=text) as caught:
        read(line)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "exactly one of shapes"),
        ({"shapes": "X: n", "like": "softmax"}, "exactly one of shapes"),
        ({"shapes": "X: n", "laws": ["batches"]}, "expected 'batch' or 'permutation LETTER'"),
        ({"shapes": "X: nn d", "laws": ["permutation n"]}, "did you mean 'nn'"),
        ({"shapes": "X: n", "laws": ["batch"]}, "needs leading axes"),
        ({"inputs": lambda rng: {"n": 3}}, "no array of floating-point numbers"),
        ({"inputs": np.ones(3)}, "expected a function of a NumPy generator"),
        ({"like": "sofmax"}, "softmax"),
        ({"shapes": "X: n", "cases": 1}, "at least 2"),
    ],
)
def test_errors_of_use_are_one_line(settings, text):
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        check_laws(lambda X: X * X, lambda dY, X: 2 * X * dY, **settings)
    assert "\n" not in str(caught.value)


def test_a_numpy_function_without_a_backward_is_refused():
    with pytest.raises(TypeError, match="backward: none came, and mlp_alone is no torch function"):
        check_laws(mlp_alone, shapes="X: n d")


def mlp_alone(X):
    return np.tanh(X)


def test_a_report_is_told_in_the_words_of_a_check():
    wrong = check_laws(mlp, spoiled(NAMED["half"][0]), shapes="X: ... n d; W: d k").as_report("mlp")
    assert wrong.verdict == "wrong"
    assert wrong.findings[0].code == "gradient_factor"
    assert check_laws(mlp, mlp_backward, shapes="X: ... n d; W: d k").as_report("mlp").exit_code == 0


# How a candidate is called


def cube(X):
    return X * X * X


def cube_backward(dY, X):
    return 3 * X * X * dY


def test_the_backward_beside_the_forward_is_found():
    assert check_laws(cube, shapes="X: n d", cases=6).passed
    assert check_gradients(cube, None, "X: n d", cases=6).passed


@pytest.mark.parametrize("shapes", ["X: 5", "X:", "X: ... 3", "X: 2 3; b: 3"])
def test_a_number_is_a_size(shapes):
    def forward(X, b=1):
        return X * X * b

    def backward(dY, X, b=None):
        return 2 * X * dY if b is None else (2 * X * b * dY, (X * X * dY).sum(0))

    report = check_laws(forward, backward, shapes=shapes, cases=6)
    assert report.passed, str(report)


def test_sizes_that_are_given_are_not_drawn_and_no_other_size_equals_them():
    came = []

    def forward(X, W):
        came.append((X.shape, W.shape))
        return X @ W

    def backward(dY, X, W):
        return dY @ W.T, X.T @ dY

    assert check_laws(forward, backward, shapes="X: n d; W: d 4", sizes={"d": 5}, cases=30).passed
    assert {W for _, W in came} == {(5, 4)}
    drawn = {X[0] for X, _ in came}
    assert len(drawn) > 3
    assert not drawn & {4, 5}
    with pytest.raises(ValueError, match="'k' is no letter of the shapes, did you mean"):
        check_laws(forward, backward, shapes="X: n d; W: d 4", sizes={"k": 5})
    with pytest.raises(ValueError, match="draws its own sizes"):
        check_laws(forward, backward, inputs=lambda rng: (), sizes={"d": 5})
    attention = check_laws(
        REFERENCE.forward("attention"), REFERENCE.backward("attention"), like="attention", sizes={"c": 3}, cases=4
    )
    assert attention.passed, str(attention)


def widened(X):
    return X * X * np.float64(2.0)


def widened_backward(dY, X):
    return 4.0 * np.asarray(X, np.float64) * dY


def narrowed(X):
    return X.astype(np.float32) ** 2


def narrowed_backward(dY, X):
    return 2 * X.astype(np.float32) * dY.astype(np.float32)


def narrowed_inside(X):
    return narrowed(X).astype(X.dtype)


def narrowed_inside_backward(dY, X):
    return narrowed_backward(dY, X).astype(X.dtype)


@pytest.mark.parametrize(
    ("pair", "dtypes", "note"),
    [
        ((widened, widened_backward), ("float64", "float32"), ("float32", "float64", "float64")),
        ((widened, widened_backward), ("float32",), ("float32", "float64", "float32")),
        ((widened, widened_backward), ("float64",), None),
        ((narrowed, narrowed_backward), ("float64", "float32"), ("float64", "float32", "float32")),
        ((narrowed, narrowed_backward), ("float64",), ("float64", "float32", "float32")),
        ((narrowed, narrowed_backward), ("float32",), None),
        ((narrowed_inside, narrowed_inside_backward), ("float64", "float32"), ("float64", "float32", "float32")),
    ],
)
def test_a_candidate_of_one_dtype_is_judged_in_it_and_it_is_said(pair, dtypes, note):
    forward, backward = pair
    right = check_laws(forward, backward, shapes="X: n d", dtypes=dtypes, cases=6)
    assert right.passed, str(right)
    assert right.judged
    told = [tuple(each.numbers[name] for name in ("came", "got", "judged")) for each in right.notes]
    assert told == ([note] if note else [])
    half = check_laws(forward, lambda dY, X: backward(dY, X) / 2, shapes="X: n d", dtypes=dtypes, cases=6)
    assert codes(half) == {"gradient_factor", "not_adjoint"}, str(half)
    assert "dX is 0.5 times" in said(half)


def layer(X, W, b):
    return X @ W + b


@pytest.mark.parametrize(
    "answer",
    [
        lambda dX, dW, db: (dW, db),
        lambda dX, dW, db: [dW, db],
        lambda dX, dW, db: {"dW": dW, "db": db},
        lambda dX, dW, db: {"b": db, "W": dW},
        lambda dX, dW, db: (None, dW, db),
    ],
)
def test_a_backward_of_the_weights_alone_is_judged(answer):
    def backward(dY, X, W, b, times=1.0):
        return answer(dY @ W.T, times * (X.T @ dY), dY.sum(0))

    report = check_laws(layer, backward, shapes="X: n d; W: d k; b: k", cases=6)
    assert report.passed, str(report)
    assert list(report.as_report("layer").judged) == ["dW", "db"]
    assert [(note.code, note.tensor) for note in report.notes] == [("not_returned", "dX")]
    twice = check_laws(layer, lambda dY, X, W, b: backward(dY, X, W, b, 2.0), shapes="X: n d; W: d k; b: k", cases=6)
    assert codes(twice) == {"gradient_factor", "not_adjoint"}


def test_a_missing_gradient_of_a_weight_is_told_and_the_others_are_judged():
    report = check_laws(layer, lambda dY, X, W, b: (dY @ W.T, X.T @ dY), shapes="X: n d; W: d k; b: k", cases=6)
    assert [(finding.code, finding.tensor) for finding in report.findings] == [("missing", "db")]
    assert {tensor: row.judged for tensor, row in report.gradients.items()} == {"dX": 6, "dW": 6}


def linear_of_the_weights_alone(X, weight, bias):
    return X @ weight.T + bias, X


def test_a_backward_of_the_weights_alone_is_judged_like_an_op_of_the_table():
    def backward(dY, X):
        rows = dY.reshape(-1, dY.shape[-1])
        return rows.T @ X.reshape(-1, X.shape[-1]), rows.sum(0)

    report = check_laws(linear_of_the_weights_alone, backward, like="linear", cases=6)
    assert report.passed, str(report)
    assert list(report.gradients) == ["dweight", "dbias"]


def test_a_torch_pair_with_a_cache():
    def forward(X, W):
        Y = torch.tanh(X @ W)
        return Y, (X, W, Y)

    def backward(dY, cache, times=1.0):
        X, W, Y = cache
        dA = dY * (1 - Y * Y)
        return dA @ W.T, times * (X.T @ dA)

    assert check_laws(forward, backward, shapes="X: n d; W: d k", cases=6).passed
    twice = check_laws(forward, lambda dY, cache: backward(dY, cache, 2.0), shapes="X: n d; W: d k", cases=6)
    assert "dW is 2 times" in said(twice)


class Accumulates:
    """As in many courses: a layer whose gradients add up until they are set to zero."""

    def __init__(self):
        self.dW = 0

    def forward(self, X, W):
        self.X, self.W = X, W
        return X @ W

    def backward(self, dY, X, W):
        self.dW += X.T @ dY
        return dY @ W.T, self.dW


sums: dict[str, Any] = {}


def adds_up(X, W):
    return X @ W


def adds_up_backward(dY, X, W):
    sums["W"] = sums.get("W", 0) + X.T @ dY
    return dY @ W.T, sums["W"]


def test_gradients_that_accumulate_are_judged_after_a_reset():
    courses = Accumulates()
    report = check_laws(courses.forward, courses.backward, shapes="X: n d; W: d k", cases=6)
    assert report.passed, str(report)
    assert [(note.code, note.tensor) for note in report.notes] == [("accumulates", "dW")]
    assert "self.dW += X.T @ dY" in report.notes[0].say()
    assert all(report.notes[0].say(language) for language in LANGUAGES)
    assert check_laws(adds_up, adds_up_backward, shapes="X: n d; W: d k", cases=6).passed

    def half(dY, X, W):
        dX, dW = courses.backward(dY, X, W)
        return dX / 2, dW

    courses.dW = 0
    wrong = check_laws(courses.forward, half, shapes="X: n 3; W: 3 2", cases=6)
    assert "dX is 0.5 times" in said(wrong)
    assert "dW" not in {finding.tensor for finding in wrong.findings}


def test_a_graph_that_is_freed_by_its_backward_is_built_again():
    def forward(X, W):
        X, W = X.requires_grad_(), W.requires_grad_()
        Y = torch.tanh(X @ W)
        return Y.detach(), (Y, X, W)

    def backward(dY, graph):
        Y, X, W = graph
        return torch.autograd.grad(Y, (X, W), dY)

    report = check_laws(forward, backward, shapes="X: n d; W: d k", cases=6)
    assert report.passed, str(report)
    assert [note.code for note in report.notes] == ["backward_once"]

    def popping(dY, cache):
        return 2 * cache.pop() * dY

    assert check_laws(lambda X: (X * X, [X]), popping, shapes="X: n d", cases=6).passed


# What a wrong gradient is instead


def softmax_of(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def heads(X, Wq, Wk, Wv):
    return softmax_of((X @ Wq) @ (X @ Wk).mT * Wq.shape[-1] ** -0.5) @ (X @ Wv)


def heads_backward(dC, X, Wq, Wk, Wv):
    """1/sqrt(c) is missing."""
    Q, K, V = X @ Wq, X @ Wk, X @ Wv
    A, dA = softmax_of(Q @ K.mT * Wq.shape[-1] ** -0.5), dC @ V.mT
    dS = A * (dA - (dA * A).sum(-1, keepdims=True))
    dQ, dK, dV = dS @ K, dS.mT @ Q, A.mT @ dC
    return dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T, X.T @ dQ, X.T @ dK, X.T @ dV


INSTEAD = {
    "a correction": (softmax_of, lambda dA, X: dA * softmax_of(X), "X: n m", "gradient_plus_term", "plus Y sum(Y dY),"),
    "a mean": (
        lambda X: X - X.mean(-1, keepdims=True),
        lambda dY, X: 1 * dY,
        "X: n m",
        "gradient_plus_term",
        "1/m sum(dY)",
    ),
    "a sum of a bias": (
        lambda X, b: X * X + b,
        lambda dY, X, b: (2 * X * dY, 1 * dY[-1]),
        "X: n d; b: d",
        "gradient_of_a_part",
        "db is not summed over axis -2",
    ),
    "an axis of a bias": (
        lambda X, b: X * X + b,
        lambda dY, X, b: (2 * X * dY, 1 * dY),
        "X: n d; b: d",
        "gradient_not_summed",
        "db is not summed over its leading axes (0)",
    ),
    "a transposition": (
        lambda X, W: X @ W,
        lambda dY, X, W: (dY @ W.T, dY.T @ X),
        "X: n d; W: d k",
        "gradient_transposed",
        "dW is transposed",
    ),
    "a scale of attention": (
        heads,
        heads_backward,
        "X: n d; Wq: d c; Wk: d c; Wv: d e",
        "gradient_factor",
        "is sqrt(c) times",
    ),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_what_a_wrong_gradient_is_instead(what):
    forward, backward, shapes, code, text = INSTEAD[what]
    report = check_laws(forward, backward, shapes=shapes, cases=10)
    found = [finding for finding in report.findings if finding.code == code]
    assert found, str(report)
    assert text in found[0].say()
    assert all(found[0].say(language) for language in LANGUAGES)


def test_a_factor_is_named_only_where_the_sizes_tell():
    sizes = [{"n": 4, "c": 9}, {"n": 5, "c": 9}, {"n": 7, "c": 9}]
    assert name_of_factor([3.0] * 3, sizes) == "3"  # and not sqrt(c), which is 3 in every case
    assert name_of_factor([3.0 * each["n"] for each in sizes], sizes) == "3 n"
    assert name_of_factor([2.0], [{"n": 4, "c": 9}]) == "2"
    assert name_of_factor([8.0, 10.0], [{"n": 4}, {"n": 5}]) == ""  # two cases may fit 2 n by chance
    assert name_of_factor([1 / (n - 1) for n in (4, 5, 7)], sizes) == "1/(n - 1)"
    both = [{"n": n, "c": n} for n in (4, 5, 7)]
    assert name_of_factor([n**0.5 for n in (4, 5, 7)], both) == "sqrt(c)"  # the same letter to all cases
    scaled = [{"c": 9, "scale": 0.3}, {"c": 4, "scale": -0.7}, {"c": 7}, {"c": 5}, {"c": 2, "scale": 0.3}]
    by_option = [1 / each["scale"] if "scale" in each else each["c"] ** 0.5 for each in scaled]
    assert name_of_factor(by_option, scaled) == "sqrt(c), 1/scale"
    shares = [{"p": 0.25}, {"p": 0.5}, {"p": 0.1}]
    assert name_of_factor([1 - each["p"] for each in shares], shares) == "(1 - p)"
    pairs = [{"n": 2, "c": 8}, {"n": 3, "c": 5}, {"n": 7, "c": 11}, {"n": 6, "c": 4}]
    assert name_of_factor([-3 * each["c"] ** 0.5 / each["n"] for each in pairs], pairs) == "-3 sqrt(c)/n"


# Where a NaN arises


def zero_over_zero(dY, X):
    dA = dY * 2
    ratio = (X - X) / (X - X)
    return dA * X * ratio


def infinity_times_zero(dY, X):
    dA = dY * 2
    huge = np.exp(X * 0 + 1e4)
    return dA * X * (0 * huge)


@pytest.mark.parametrize(
    ("backward", "code", "texts"),
    [
        (zero_over_zero, "arises", ["ratio = (X - X) / (X - X)"]),
        (
            infinity_times_zero,
            "arises_after",
            ["first nan arises in line", "return dA * X * (0 * huge)", "first inf", "huge = np.exp(X * 0 + 1e4)"],
        ),
        (lambda dY, X: 2 * dY * X / 0, "arises", ["first inf arises", "2 * dY * X / 0"]),
    ],
)
def test_the_line_in_which_the_first_nan_arises_is_told(backward, code, texts):
    report = check_laws(lambda X: X * X, backward, shapes="X: n d", cases=4)
    assert codes(report) == {"not_finite", code}
    assert all(text in said(report) for text in texts), said(report)
    assert [finding.code for finding in report.as_report("squares").findings] == ["not_finite", code]


# From the command line


class Said:
    """Where the worker of a check sends its messages."""

    def __init__(self):
        self.messages = []

    def at(self, what):
        pass

    def send(self, message):
        self.messages.append(message)


MINE = """
import numpy as np

def square(X): return X * X
def square_backward(dY, X): return 2 * X * dY

def linear(X, weight, bias): return X @ weight.T + bias, X
def linear_backward(dY, X):
    rows = dY.reshape(-1, dY.shape[-1])
    return rows.T @ X.reshape(-1, X.shape[-1]), rows.sum(0)

def softmax(X, axis=-1):
    E = np.exp(X - X.max(axis, keepdims=True))
    return E / E.sum(axis, keepdims=True)
def softmax_backward(dA, X): return 0 * dA
"""


def asked(monkeypatch, tmp_path, *flags):
    """What the worker answers to a command line, in this process."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    parser = check_command._parser()
    said = Said()
    check_worker.laws(check_command._request(parser, parser.parse_args([*flags, "--laws-only", "--cases", "6"])), said)
    (message,) = said.messages
    return message.get("error") or Report.from_json(message["report"])


@pytest.mark.parametrize(
    ("flags", "verdict", "judged"),
    [
        (("mine.py:square", "--shapes", "X: 5"), "agrees", {"dX": (6, 6)}),
        (("mine.py:square", "--shapes", "X: n d", "--sizes", "d=3", "--dtype", "float32"), "agrees", {"dX": (6, 6)}),
        (("mine.py:linear", "--like", "linear"), "agrees", {"dweight": (6, 6), "dbias": (6, 6)}),
        (("mine.py:softmax", "--like", "softmax", "--without", "axis"), "wrong", {"dX": (6, 6)}),
    ],
)
def test_the_flags_of_a_check_are_read(monkeypatch, tmp_path, flags, verdict, judged):
    report = asked(monkeypatch, tmp_path, *flags)
    assert isinstance(report, Report), report
    assert (report.verdict, report.judged) == (verdict, judged), str(report)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--sizes", "k=3"), "sizes: 'k' is no letter of the shapes"),
        (("--lead", "2"), "--lead: --laws-only does not read it without --like"),
        (("--layout", "bhnc"), "--layout: --laws-only does not read it"),
        (("--mask-true", "drops"), "--mask-true: --laws-only does not read it"),
        (("--without", "bias"), "--without: --laws-only does not read it"),
        (("--options", "mask"), "--options: --laws-only does not read it"),
        (("--strict",), "--strict: --laws-only does not read it"),
        (("--dtype", "bfloat16"), "bfloat16 came, expected float64 and float32"),
    ],
)
def test_a_flag_that_would_not_be_read_is_refused(monkeypatch, tmp_path, flags, text):
    assert text in asked(monkeypatch, tmp_path, "mine.py:square", "--shapes", "X: n d", *flags)


# Forms of a backward


class Layer:
    def __call__(self, x):
        self.x = x
        return np.tanh(x)

    def backward(self, dout):
        return dout * (1 - np.tanh(self.x) ** 2)


course = Layer()


def affine(x, w):
    return x @ w, (x, w)


FORMS = {
    "of the output": (np.tanh, lambda dY, Y: dY * (1 - Y * Y), "x: n d"),
    "of an operand in another case": (lambda X: np.tanh(X), lambda dout, x: dout * (1 - np.tanh(x) ** 2), "X: n d"),
    "of the cache, then the upstream": (
        affine,
        lambda cache, dout: (dout @ cache[1].T, cache[0].T @ dout),
        "x: n d; w: d k",
    ),
    "of an operand that is returned": (lambda x: (x * x, x), lambda dout, x: 2 * x * dout, "x: n d"),
    "of a boolean mask": (lambda x: (x * (x > 0), x > 0), lambda dout, mask: dout * mask, "x: n d"),
    "of everything that is returned": (
        lambda x: (x / (1 + x * x), x, 1 + x * x),
        lambda dout, z, s: dout * (1 / s - 2 * z * z / (s * s)),
        "x: n d",
    ),
    "of the upstream alone": (course, course.backward, "x: n d"),
    "of a loss, without an upstream": (lambda x, y: (x * y).sum(), lambda x, y: (1 * y, 1 * x), "x: n; y: n"),
    "of a loss and its cache": (lambda x: ((x * x).sum(), x), lambda cache: 2 * cache, "x: n d"),
    "a derivative": (lambda x: np.tanh(x), lambda x: 1 - np.tanh(x) ** 2, "x: n d"),
    "of some operands": (lambda x, w: x + w, lambda dout, w: (1 * dout, dout.sum(0)), "x: n d; w: d"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_a_backward_is_read_from_its_names(form):
    forward, backward, shapes = FORMS[form]
    report = check_laws(forward, backward, shapes=shapes, cases=6)
    assert report.passed, str(report)


def test_a_parameter_that_is_called_as_the_operand_is_the_operand():
    report = check_laws(lambda X: np.tanh(X), lambda dY, X: dY * (1 - X * X), shapes="X: n d", cases=6)
    assert codes(report) >= {"gradient_differs", "not_adjoint"}
