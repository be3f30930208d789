"""Right code of another convention: what it follows is said, all is judged under it, a mistake behind it is found."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equivalence_tests.arithmetic import PRECISIONS, Bounded, erf
from equivalence_tests.candidate import adapt
from equivalence_tests.checking import check
from equivalence_tests.checks import draw_case
from equivalence_tests.conventions import MAKERS, NAMES, exact_under, under
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.implementations import run
from equivalence_tests.ops import OPS

FEW = 20


def normalised(S):
    E = np.exp(S - S.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def over_visible(S, visible):
    """Softmax over what is visible; a row with nothing visible is 0."""
    S = np.where(visible, S, -np.inf)
    top = S.max(-1, keepdims=True)
    E = np.exp(S - np.where(np.isfinite(top), top, 0))
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0, 1, total)


def scores(Q, K):
    return Q @ K.mT / math.sqrt(Q.shape[-1])


# Right code, each of another convention


def small_epsilon(X, scale, shift):
    D = X - X.mean(-1, keepdims=True)
    return D / np.sqrt((D * D).mean(-1, keepdims=True) + 1e-6) * scale + shift


def default_epsilon(X, scale, shift, eps=1e-12):
    D = X - X.mean(-1, keepdims=True)
    return D / np.sqrt((D * D).mean(-1, keepdims=True) + eps) * scale + shift


def double_and_epsilon(X, scale, shift):
    return small_epsilon(X.astype(np.float64), scale, shift)


def norm_of_columns(x, g, b):
    return g * (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) + b


def gelu(x):
    return (0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))).astype(x.dtype)


def gelu_backward(dY, x):
    Phi = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    return (dY * (Phi + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))).astype(x.dtype)


def always_causal(Q, K, V):
    return over_visible(scores(Q, K), np.tri(Q.shape[-2], K.shape[-2], dtype=bool)) @ V


def always_windowed(Q, K, V):
    apart = np.arange(Q.shape[-2])[:, None] - np.arange(K.shape[-2])
    return over_visible(scores(Q, K), (apart >= 0) & (apart < 3)) @ V


def bottom_right(Q, K, V, causal=False):
    n, m = Q.shape[-2], K.shape[-2]
    return over_visible(scores(Q, K), np.tri(n, m, m - n if causal else m, dtype=bool)) @ V


def filled(Q, K, V, mask=None):
    S = scores(Q, K)
    return normalised(S if mask is None else np.where(mask, S, np.asarray(-1e9, S.dtype))) @ V


def hidden_where_true(Q, K, V, mask=None):
    return over_visible(scores(Q, K), True if mask is None else ~mask) @ V


def samples_one_by_one(Q, K, V):
    B, _, c = Q.shape
    return np.stack([normalised(Q[b] @ K[b].T / math.sqrt(c)) @ V[b] for b in range(B)])


def heads_third(Q, K, V):
    Q, K, V = (X.transpose(0, 2, 1, 3) for X in (Q, K, V))
    return (normalised(scores(Q, K)) @ V).transpose(0, 2, 1, 3)


def log_probabilities(logits):
    Z = logits - logits.max(-1, keepdims=True)
    return Z - np.log(np.exp(Z).sum(-1, keepdims=True))


def each_loss(logits, targets):
    return -np.take_along_axis(log_probabilities(logits), targets[..., None], -1)[..., 0]


def summed(logits, targets):
    return each_loss(logits, targets).sum()


def summed_backward(dloss, logits, targets):
    return dloss * (normalised(logits) - (np.arange(logits.shape[-1]) == targets[..., None])).astype(logits.dtype)


def over_batch(logits, targets):
    return each_loss(logits, targets).sum() / (targets.shape[0] if targets.ndim else 1)


def one_hot_targets(logits, targets):
    chosen = np.where(targets > 0, log_probabilities(logits), 0)  # 0 times a logit of -inf would be NaN
    return -chosen.sum() / math.prod(targets.shape[:-1])


def relu(x):
    np.maximum(x, 0, out=x)
    return x


def relu_backward(dY, x):
    return dY * (x > 0)


def time_first(X, W_ih, W_hh, b_ih, b_hh, h0):
    h, H = h0, []
    for x in X:
        h = np.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)
        H.append(h)
    return np.stack(H), h


RIGHT = [
    (small_epsilon, "layer_norm", None, ["epsilon"]),
    (default_epsilon, "layer_norm", None, ["epsilon"]),
    (double_and_epsilon, "layer_norm", None, ["dtype", "epsilon"]),
    (norm_of_columns, "layer_norm", None, ["columns"]),
    (gelu, "gelu", gelu_backward, ["gelu-form"]),
    (always_causal, "attention", None, ["causal"]),
    (always_windowed, "attention", None, ["window"]),
    (bottom_right, "attention", None, ["alignment"]),
    (filled, "attention", None, ["fill"]),
    (hidden_where_true, "attention", None, ["mask-true"]),
    (samples_one_by_one, "attention", None, ["axes"]),
    (heads_third, "attention", None, ["layout"]),
    (each_loss, "cross_entropy", None, ["reduction"]),
    (summed, "cross_entropy", summed_backward, ["reduction"]),
    (over_batch, "cross_entropy", None, ["reduction"]),
    (one_hot_targets, "cross_entropy", None, ["one-hot"]),
    (relu, "relu", relu_backward, ["in-place"]),
    (time_first, "rnn", None, ["middle"]),
]


@pytest.mark.parametrize(("function", "like", "backward", "names"), RIGHT)
def test_right_code_of_another_convention_is_not_wrong(function, like, backward, names):
    cases = 16 if like == "rnn" else FEW
    report = check(function, like, backward=backward, cases=cases)
    found = [each.numbers["accept"] for each in report.conventions]
    assert (report.verdict, found) == ("another convention", names), str(report)
    assert (report.exit_code, report.passed) == (3, False)
    assert all(f"--accept {name}" in " ".join(str(report).split()) for name in names)
    assert not report.findings


@pytest.mark.parametrize(("function", "like", "backward", "names"), RIGHT[2:5])
def test_an_accepted_convention_agrees(function, like, backward, names):
    accepted = check(function, like, backward=backward, cases=FEW, accept=names)
    assert (accepted.verdict, accepted.exit_code) == ("agrees", 0)
    assert len(accepted.conventions) == len(names)
    if len(names) > 1:
        assert check(function, like, cases=FEW, accept=names[:1]).exit_code == 3


# Wrong code behind another convention


def unbiased_variance(X, scale, shift):
    D = (X - X.mean(-1, keepdims=True)).astype(np.float64)
    return D / np.sqrt((D * D).sum(-1, keepdims=True) / max(X.shape[-1] - 1, 1) + 1e-6) * scale + shift


def gelu_without_density(dY, x):
    return (dY * 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))).astype(x.dtype)


def half_as_large(dloss, logits, targets):
    return summed_backward(dloss / 2, logits, targets)


def unscaled(Q, K, V):
    B, _, _ = Q.shape
    return np.stack([normalised(Q[b] @ K[b].T) @ V[b] for b in range(B)])


@pytest.mark.parametrize(
    ("function", "like", "backward", "names", "tensor", "says"),
    [
        (unbiased_variance, "layer_norm", None, ["dtype", "epsilon"], "Y", "d - 1"),
        (gelu, "gelu", gelu_without_density, ["gelu-form"], "dX", "X phi"),
        (summed, "cross_entropy", half_as_large, ["reduction"], "dlogits", "0.5"),
        (unscaled, "attention", None, ["axes"], "C", "1/sqrt(c)"),
    ],
)
def test_a_mistake_behind_a_convention_is_found_in_the_same_run(function, like, backward, names, tensor, says):
    report = check(function, like, backward=backward, cases=FEW)
    assert report.verdict == "wrong"
    assert [each.numbers["accept"] for each in report.conventions] == names
    assert report.counterexample is not None
    assert report.counterexample.wrong.startswith(tensor)
    assert any(says in finding.say() for finding in report.findings[:3]), str(report)
    assert not any(finding.code == "wrong_dtype" for finding in report.findings)


def ignores_epsilon(X, scale, shift, epsilon=1e-5):
    return small_epsilon(X, scale, shift)


def ignores_causal(Q, K, V, causal=False):
    return always_causal(Q, K, V)


@pytest.mark.parametrize(("function", "like"), [(ignores_epsilon, "layer_norm"), (ignores_causal, "attention")])
def test_an_option_that_is_taken_and_not_followed_is_wrong(function, like):
    assert check(function, like, cases=FEW).verdict == "wrong"


def over_everything(X, scale, shift):
    """One mean and one variance for the whole array: right where there are no leading axes."""
    return (X - X.mean()) / np.sqrt(X.var() + 1e-5) * scale + shift


def unsummed(dY, X, weight):
    """A gradient for each sample, beside a right output."""
    return dY @ weight, dY.mT @ X if dY.ndim > 1 else dY[:, None] * X


def dense(X, weight):
    return X @ weight.T


@pytest.mark.parametrize(
    ("function", "like", "backward"), [(over_everything, "layer_norm", None), (dense, "linear", unsummed)]
)
def test_a_mistake_that_hides_where_there_are_no_leading_axes_is_no_convention(function, like, backward):
    report = check(function, like, backward=backward, cases=FEW, trace=False)
    assert (report.verdict, report.conventions) == ("wrong", ()), str(report)


def remembering(X, weight):
    return X @ weight.T, (X, weight, np.zeros_like(weight))


def remembering_backward(dY, cache):
    X, weight, total = cache
    total += dY.reshape(-1, dY.shape[-1]).T @ X.reshape(-1, X.shape[-1])
    return dY @ weight, total.copy()


def test_a_gradient_that_accumulates_is_another_convention():
    report = check(remembering, "linear", backward=remembering_backward, cases=FEW)
    assert (report.verdict, [each.code for each in report.conventions]) == (
        "another convention",
        ["convention_accumulates"],
    ), str(report)
    assert report.conventions[0].tensor == "dweight"


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_what_is_right_under_a_convention_comes_in_every_format(dtype):
    candidate = adapt(small_epsilon, "layer_norm")
    right = exact_under(under(candidate, [MAKERS["epsilon"](candidate, {"got": 1e-6})]))
    case = draw_case(OPS["layer_norm"], 0, 2).rounded(PRECISIONS[dtype])
    assert [
        (tensor.dtype, np.isfinite(tensor.value).all()) for tensor in run(right, candidate.op, case, dtype).values()
    ] == [(dtype, True)]


# How much was judged


def test_every_tensor_says_in_how_many_cases_it_was_judged():
    report = check(gelu, "gelu", backward=gelu_backward, cases=FEW)
    assert set(report.judged) == {"Y", "dX"}
    assert all(judged <= drawn for judged, drawn in report.judged.values())
    assert f"dX {report.judged['dX'][0]} of {report.judged['dX'][1]}" in " ".join(str(report).split())


def test_what_was_judged_in_fewer_than_half_of_the_cases_does_not_agree():
    def linear_recurrence(X, W_ih, W_hh, b_ih, b_hh, h0):
        import torch

        h, H = h0, []
        for t in range(X.shape[-2]):
            h = torch.tanh(X[..., t, :] @ W_ih.mT + b_ih + h @ W_hh.mT + b_hh)
            H.append(h)
        return torch.stack(H, -2), h

    import torch

    linear_recurrence.__annotations__ = {"X": torch.Tensor}
    report = check(linear_recurrence, "rnn", cases=24, dtype="bfloat16")
    assert (report.verdict, report.exit_code) == ("not judged", 2), str(report)
    assert report.findings[0].code == "too_few_judged_ill"


# The pieces


def test_erf_has_all_digits():
    X = np.concatenate([np.linspace(-8, 8, 401), [0.0, 1e-300, -1e-9, 30.0]])
    expected = np.array([math.erf(x) for x in X])
    assert np.abs(erf(X).astype(np.float64) - expected).max() < 2.0**-52
    bound = Bounded(X, PRECISIONS["float64"]).erf()
    assert bool((np.abs(expected - bound.value.astype(np.float64)) <= bound.budget()).all())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_convention_that_can_be_made(name):
    assert name in MAKERS or name == "accumulates"


def test_a_convention_is_said_in_both_languages():
    report = check(small_epsilon, "layer_norm", cases=FEW)
    said = {report.conventions[0].say(language) for language in LANGUAGES}
    assert said == {"epsilon is 1e-06; here it is 1e-05", "epsilon es 1e-06; aquí es 1e-05"}


MINE = """
import numpy as np

def layer_norm(X, scale, shift):
    D = X - X.mean(-1, keepdims=True)
    return FACTOR * D / np.sqrt((D * D).mean(-1, keepdims=True) + 1e-6) * scale + shift
"""


@pytest.mark.parametrize(
    ("factor", "flags", "status"), [("1", [], 3), ("1", ["--accept", "epsilon"], 0), ("2", ["--accept-conventions"], 1)]
)
def test_the_exit_status_tells_a_convention_from_a_mistake(factor, flags, status, tmp_path):
    (tmp_path / "mine.py").write_text(MINE.replace("FACTOR", factor))
    command = [sys.executable, "-m", "equivalence_tests", "check", f"{tmp_path / 'mine.py'}:layer_norm"]
    command += ["--like", "layer_norm", "--cases", "24", "--out", str(tmp_path / "out"), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert "epsilon is 1e-06" in done.stdout
    if status == 1:
        script = str(Path(tmp_path) / "out" / "counterexample.py")
        assert subprocess.run([sys.executable, script], capture_output=True, timeout=60, check=False).returncode == 1
