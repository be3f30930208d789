"""What is named and what is not: a name needs cases of its own, two mistakes are two names, and NaN has a condition."""

import math
import subprocess
import sys

import numpy as np
import pytest

import reference_numpy as reference
from equivalence_tests import check, failing_case
from equivalence_tests.candidate import adapt
from equivalence_tests.checking import Settings, examine
from equivalence_tests.diagnosis import Library
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.laws.common import Broken, differs, strength
from equivalence_tests.mistakes import MISTAKES
from equivalence_tests.mistakes.naming import naming_of
from equivalence_tests.mistakes.vocabulary import STAGES
from equivalence_tests.request import Request

FEW = 24


class Box:
    """What a forward remembers; no tuple, so that nothing takes it apart."""

    def __init__(self, *kept):
        self.kept = kept


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def found(function, like, backward=None, cases=FEW, **options):
    report = check(function, like, backward=backward, cases=cases, **options)
    for finding in report.findings:
        assert all(finding.say(language) for language in LANGUAGES)
        assert finding.numbers.get("cases", 0) <= finding.numbers.get("of", math.inf)
    return report.findings


def known_of(findings):
    return [each.numbers["id"] for each in findings if each.code == "known_mistake"]


# A name needs cases of its own


def attention(Q, K, V):
    C, cache = reference.attention(Q, K, V)
    return C, Box(cache)


def raises_unless_square(dC, cache):
    if cache.kept[0].Q.shape[-2] != cache.kept[0].K.shape[-2]:
        raise ValueError("matmul: Input operand 1 has a mismatch in its core dimension 0")
    return reference.attention_backward(dC, cache.kept[0])


def test_to_raise_is_nobodys_answer():
    """dK made without transposing dS raises there too, and where n = m it is wrong, which this is not."""
    findings = found(attention, "attention", raises_unless_square)
    assert findings[0].code == "raises"
    assert not known_of(findings)


def mean_of_the_difference(logits, targets):
    top = logits.max(-1, keepdims=True)
    lse = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]
    named = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (lse.sum() - named.sum()) / named.dtype.type(targets.size), (softmax(logits), targets)


def difference_backward(dloss, cache):
    P, targets = cache
    G = P.copy()
    G.reshape(-1, G.shape[-1])[np.arange(targets.size), targets.reshape(-1)] -= 1
    return G * P.dtype.type(dloss / targets.size)


def test_a_loss_that_lacks_a_few_digits_has_no_name():
    assert not known_of(found(mean_of_the_difference, "cross_entropy", difference_backward))


def tanh_of_sigmoid(X):
    Y = 2 / (1 + np.exp(-2 * X)) - 1
    return Y, Y


def test_what_cancels_does_not_overflow():
    """It errs as much as tanh made from exponentials near 0, and is right where that one is NaN."""
    backward = lambda dY, Y: dY * (1 - Y * Y)  # noqa: E731
    assert known_of(found(tanh_of_sigmoid, "tanh", backward)) == ["Z03"]
    without = Library([m for m in MISTAKES.values() if m.op == "tanh" and m.id != "Z03"])
    candidate = adapt(tanh_of_sigmoid, "tanh", backward=backward)
    findings = examine(candidate, Settings(cases=FEW), library=without).findings
    assert findings[0].code == "accuracy"


# What is wrong with the gradient shows through a digit that the output lacks


def gelu_of_rounded_constant(X):
    cubic = X + X.dtype.type(0.044715) * X**3
    return X.dtype.type(0.5) * X * (1 + np.tanh(X.dtype.type(0.7978845) * cubic)), X


def gelu_first_term(dY, X):
    cubic = X + X.dtype.type(0.044715) * X**3
    return dY * X.dtype.type(0.5) * (1 + np.tanh(X.dtype.type(math.sqrt(2 / math.pi)) * cubic))


def test_a_digit_that_is_missing_in_Y_does_not_hide_a_term_that_is_missing_in_dX():
    first, second, *_ = found(gelu_of_rounded_constant, "gelu", gelu_first_term)
    assert (first.code, first.tensor, first.stage) == ("wrong_factor", "Y", "u")
    assert "0.9999999" in first.say()
    assert (second.code, second.tensor, second.stage) == ("missing_term", "dX", "dX")


# Two at once


def norm_of_other_epsilon(X, scale, shift):
    D = X - X.mean(-1, keepdims=True)
    deviation = np.sqrt((D * D).sum(-1, keepdims=True) / X.dtype.type(max(X.shape[-1] - 1, 1)))
    return D / (deviation + X.dtype.type(1e-6)) * scale + shift, reference.layer_norm(X, scale, shift)[1]


def scaled_by_c(Q, K, V):
    C, cache = reference.attention(Q, K, V, scale=1.0 / Q.shape[-1])
    return C, Box(cache, Q.shape[-1])


def dK_without_root(dC, cache):
    dQ, dK, dV = reference.attention_backward(dC, cache.kept[0])
    return dQ, dK * dK.dtype.type(math.sqrt(cache.kept[1])), dV


def unscaled_and_shifted(Q, K, V, causal=False):
    options = {"mask": np.tri(Q.shape[-2], K.shape[-2], 1, dtype=bool)} if causal else {}
    C, cache = reference.attention(Q, K, V, scale=1.0, **options)
    return C, Box(cache)


def attention_backward(dC, cache):
    return reference.attention_backward(dC, cache.kept[0])


PAIRS = [
    (norm_of_other_epsilon, "layer_norm", reference.layer_norm_backward, {("unbiased", "var"), ("epsilon_place", "r")}),
    (scaled_by_c, "attention", dK_without_root, {("wrong_scale", "scaled"), ("missing_factor", "dK")}),
    (
        unscaled_and_shifted,
        "attention",
        attention_backward,
        {("causal_shifted", "causal"), ("missing_factor", "scaled")},
    ),
]


@pytest.mark.parametrize(("function", "like", "backward", "expected"), PAIRS)
def test_two_mistakes_are_both_named(function, like, backward, expected):
    findings = examine(adapt(function, like, backward=backward), Settings(cases=FEW, trace=False), library=()).findings
    assert {(each.code, each.stage) for each in findings[:2]} == expected


# Options, sizes


def causal_of_the_other_sign(Q, K, V, causal=False):
    n, m = Q.shape[-2], K.shape[-2]
    options = {"mask": np.tri(n, m, n - m, dtype=bool)} if causal else {}
    C, cache = reference.attention(Q, K, V, **options)
    return C, Box(cache)


def causal_inverted(Q, K, V, causal=False):
    options = {"mask": ~np.tri(Q.shape[-2], K.shape[-2], dtype=bool)} if causal else {}
    C, cache = reference.attention(Q, K, V, **options)
    return C, Box(cache)


def keeps_with_p(X, keep, p):
    factor = np.zeros_like(X) if keep is None or p == 0 else (keep / X.dtype.type(p)).astype(X.dtype)
    return (X.copy(), np.ones_like(X)) if keep is None else (X * factor, factor)


def over_the_batch(dY, cache):
    dX, dweight, dbias = reference.linear_backward(dY, cache)
    batch = dY.dtype.type(dY.shape[0] if dY.ndim > 1 else 1)
    return dX, dweight / batch, dbias


def affine(X, weight, bias):
    return reference.linear(X, weight, bias)


SINGLE = [
    (causal_of_the_other_sign, "attention", attention_backward, "causal_shifted", "causal", ("by", "n - m")),
    (causal_inverted, "attention", attention_backward, "option_inverted", "causal", ("option", "causal")),
    (keeps_with_p, "dropout", lambda dY, cache: dY * cache, "option_value", "p", ("option", "p")),
    (affine, "linear", over_the_batch, "wrong_factor", "dweight", ("named", "1/B")),
]


@pytest.mark.parametrize(("function", "like", "backward", "code", "stage", "told"), SINGLE)
def test_an_option_or_a_size_is_named(function, like, backward, code, stage, told):
    first = examine(adapt(function, like, backward=backward), Settings(cases=FEW), library=()).findings[0]
    assert (first.code, first.stage, first.numbers[told[0]]) == (code, stage, told[1])


def by_columns(Q, K, V):
    """Tokens are the last axis."""
    A = softmax(Q.mT @ K * Q.dtype.type(Q.shape[-2] ** -0.5))
    return (A @ V.mT).mT, Box(Q, K, V, A)


def by_columns_backward(dC, cache):
    Q, K, V, A = cache.kept
    dA = dC.mT @ V
    dS = A * (dA - (A * dA).sum(-1, keepdims=True)) * Q.dtype.type(Q.shape[-2] ** -0.5)
    return (dS @ K.mT).mT, (dS.mT @ Q.mT).mT, (A.mT @ dC.mT).mT


def test_a_layout_of_its_own_is_told_as_a_layout():
    candidate = adapt(by_columns, "attention", backward=by_columns_backward)
    findings = examine(candidate, Settings(cases=FEW, conventions=False)).findings
    assert findings[0].code == "exchanged_axes"
    assert findings[0].numbers["operands"] == "K, Q, V"


# NaN has a condition


def nothing_kept(X, keep, p):
    if keep is None:
        return X.copy(), np.ones_like(X)
    factor = keep.astype(X.dtype) / X.dtype.type(1 - p)
    return X * factor, factor


def masked_by_infinity(Q, K, V, mask=None):
    C, cache = reference.attention(Q, K, V, mask=mask)
    return C, Box(cache, mask)


def infinity_backward(dC, cache):
    inner, mask = cache.kept
    S = inner.Q @ inner.K.mT * inner.Q.dtype.type(inner.scale)
    with np.errstate(invalid="ignore"):
        S = S if mask is None else S + ~mask * S.dtype.type(-np.inf)
        A = softmax(S)
    return reference.attention_backward(dC, inner._replace(A=A))


CONDITIONS = [
    (nothing_kept, "dropout", lambda dY, cache: dY * cache, "p", "p is 1"),
    (masked_by_infinity, "attention", infinity_backward, "mask", "wherever a mask is given"),
]


@pytest.mark.parametrize(("function", "like", "backward", "stage", "when"), CONDITIONS)
def test_where_nan_arises_is_said(function, like, backward, stage, when):
    findings = examine(adapt(function, like, backward=backward), Settings(cases=FEW), library=()).findings
    nonfinite = next(each for each in findings if each.code == "nonfinite")
    assert nonfinite.stage == stage
    assert when in nonfinite.say("en")
    assert nonfinite.numbers["when_es"] in nonfinite.say("es")


# Laws


def test_the_law_that_is_broken_furthest_comes_first():
    """The gradient of a factor outside its bracket sums to anything; permuted it differs by rounding alone."""
    outside = lambda dA, A: A * dA - (A * dA).sum(-1, keepdims=True)  # noqa: E731
    forward = lambda X: (softmax(X), softmax(X))  # noqa: E731
    findings = examine(adapt(forward, "softmax", backward=outside), Settings(cases=FEW), library=()).findings
    laws = [each.numbers["law"] for each in findings if each.code == "law_broken"]
    assert laws
    assert set(laws) <= {"the gradient sums to 0", "a constant upstream gives 0"}


def test_how_far_a_law_is_broken():
    what = differs("Y", np.array([1.0, 2.0]), np.array([1.0, 2.5]), np.array([0.1, 0.125]))
    assert isinstance(what, Broken)
    assert strength(what, "float64") == 4.0
    exact = differs("Y", np.array([1.0, 2.0]), np.array([1.0, 2.0 + 2.0**-51]), 0.0)
    assert 1.0 <= strength(exact, "float64") <= 4.0
    assert strength("Y is not NaN", "float64") == np.inf
    assert strength(differs("Y", np.array([np.nan]), np.array([1.0]), 0.1), "float64") == np.inf


# The library


@pytest.mark.parametrize("id", ["Z02", "Z06", "Z07", "Z08"])
def test_a_mistake_of_public_code_is_named_and_placed_without_itself(id):
    mistake = MISTAKES[id]
    naming = naming_of(mistake, Library([m for m in MISTAKES.values() if m.op == mistake.op]))
    assert naming.right, naming.named
    assert naming.findings[0].stage in STAGES[mistake.op]
    assert naming.placed


# The script of a counterexample

SCRIPTED = """
import numpy as np
import reference_numpy as reference

def linear(X, weight, bias):
    return reference.linear(X, weight, bias)

def of_shape(dY, cache):
    dX, dweight, dbias = reference.linear_backward(dY, cache)
    return dX, dweight, dbias.reshape(1, -1)

def of_dtype(dY, cache):
    return [gradient.astype(np.float64) for gradient in reference.linear_backward(dY, cache)]
"""


@pytest.mark.parametrize("backward", ["of_shape", "of_dtype"])
def test_the_script_compares_shapes_and_dtypes(backward, tmp_path):
    (tmp_path / f"mine_{backward}.py").write_text(SCRIPTED)
    spec = f"{tmp_path / f'mine_{backward}.py'}"
    request = Request(f"{spec}:linear", "linear", f"{spec}:{backward}")
    candidate = request.candidate()
    report = examine(candidate, Settings(cases=8, dtypes=("float32",), conventions=False), library=())
    _, script = failing_case.write(tmp_path, candidate, report.counterexample, request)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("wrong: ['d")
