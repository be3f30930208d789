"""The assertions of the pytest plugin, alone and in another repository."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from equivalence_tests.pytest_plugin import assert_equivalent, assert_gradients, assert_not_vacuous
from equivalence_tests.vacuity import look

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).parent / "sample_repository"


def run(*command, at=ROOT, **environment):
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    return subprocess.run([sys.executable, *command], cwd=at, env=env, capture_output=True, text=True, timeout=120)


def in_the_sample(folder, *arguments):
    """Pytest in a copy of the sample repository, the plugin loaded by name: so it runs where nothing is installed too."""
    copy = folder / "repository"
    shutil.copytree(SAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    plugin = ("-p", "equivalence_tests.pytest_plugin", "-p", "no:cacheprovider")
    return run("-m", "pytest", *plugin, *arguments, at=copy, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_in_another_repository_what_is_right_passes(tmp_path):
    done = in_the_sample(tmp_path, "tests/check_right.py", "-rP")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "smallest relative error that the test sees, gradient times (1 + e):" in done.stdout


def test_in_another_repository_what_is_wrong_fails_with_its_name(tmp_path):
    done = in_the_sample(tmp_path, "tests/check_wrong.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 failed" in done.stdout
    told = " ".join(done.stdout.split())
    assert "The scale is missing in dQ and dK" in told
    assert "dX is 0.5 times what complex steps of its own forward give" in told
    for how in ("zero", "negated", "doubled", "transposed"):
        assert f"does not see a gradient that is {how}" in told
    assert "idle never calls the backward that it is given" in told
    assert "pytest_plugin.py" not in done.stdout  # the user's own line is shown, not ours


def test_the_plugin_costs_nothing_before_it_is_used():
    heavy = "{'numpy', 'torch', 'matplotlib', 'rich', 'hypothesis'}"
    done = run("-c", f"import sys, equivalence_tests.pytest_plugin; print(sorted(set(sys.modules) & {heavy}))")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_pytest_finds_the_plugin_by_its_entry_point():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert project["entry-points"]["pytest11"] == {"gemelos": "equivalence_tests.pytest_plugin"}


# assert_equivalent


def test_equivalent_or_told_why():
    def pair(X, axis=-1):
        E = np.exp(X - X.max(axis, keepdims=True))
        A = E / E.sum(axis, keepdims=True)
        return A, (A, axis)

    def right(dA, cache):
        A, axis = cache
        return A * (dA - np.sum(A * dA, axis, keepdims=True))

    assert assert_equivalent(pair, "softmax", right, cases=20).passed
    with pytest.raises(AssertionError, match="pair is not softmax\n") as caught:
        assert_equivalent(pair, "softmax", lambda dA, cache: cache[0] * dA, cases=20)
    assert "dX" in str(caught.value)


# assert_gradients


def cube(X):
    return X * X * X


def test_gradients_of_numpy_and_of_torch():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3, 4))
    for inputs in (X, X.astype(np.float32), {"X": X}, lambda rng: rng.standard_normal(5), "X: n d"):
        assert assert_gradients(cube, lambda dY, X: 3 * X * X * dY, inputs).passed
        with pytest.raises(AssertionError, match=r"dX is 0\.666667 times"):
            assert_gradients(cube, lambda dY, X: 2 * X * X * dY, inputs)
    tensor = torch.from_numpy(X)
    assert assert_gradients(lambda X: torch.tanh(X), None, tensor).passed
    assert assert_gradients(lambda X: X.relu(), lambda dY, X: dY * (X > 0), tensor).passed
    with pytest.raises(AssertionError, match="the gradients of <lambda> are wrong"):
        assert_gradients(lambda X: X.relu(), lambda dY, X: dY * (X > 0.5), tensor)


def test_a_gradient_that_nothing_can_judge_is_no_gradient():
    def steps(X):
        return np.floor(1e9 * X)

    with pytest.raises(AssertionError, match=r"could not be judged|are wrong"):
        assert_gradients(steps, lambda dY, X: 1e9 * dY, np.random.default_rng(0).standard_normal((2, 3)))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (None, "inputs: a NoneType came"),
        (np.arange(3), "no array of floating-point numbers"),
        (np.ones(3, np.float16), "float16 came, expected one of float64 and float32"),
    ],
)
def test_gradients_of_nothing_are_refused(inputs, text):
    with pytest.raises(TypeError, match=text) as caught:
        assert_gradients(cube, lambda dY, X: 3 * X * X * dY, inputs)
    assert "\n" not in str(caught.value)


# assert_not_vacuous

RNG = np.random.default_rng(0)
X, W, DY = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5)), RNG.standard_normal((3, 5))


def product_backward(dY, X, W):
    return dY @ W.T, X.T @ dY


def test_a_test_that_looks_closely_is_not_vacuous(capsys):
    def close(backward):
        for got, right in zip(backward(DY, X, W), product_backward(DY, X, W), strict=True):
            assert np.allclose(got, right, rtol=1e-3, atol=0)

    sight = assert_not_vacuous(close, product_backward)
    assert not sight.unseen
    assert {
        f"{kind} (gradient {i})" for kind in ("gradient times (1 + e)", "off in a random direction") for i in (1, 2)
    } == set(sight.smallest)
    for i in (1, 2):
        assert sight.smallest[f"gradient times (1 + e) (gradient {i})"] == pytest.approx(1e-3, rel=0.03)
    assert "(gradient 1): 0.001" in capsys.readouterr().out


BLIND = {
    "zero": lambda got, right: np.abs(got).max() <= np.abs(right).max(),
    "negated": lambda got, right: np.allclose(np.abs(got), np.abs(right)),
    "doubled": lambda got, right: np.allclose(got / np.linalg.norm(got), right / np.linalg.norm(right)),
    "transposed": lambda got, right: np.allclose(np.sort(got.ravel()), np.sort(right.ravel())),
    "NaN": lambda got, right: not (np.abs(got - right) > 1e-6).any(),
    "aliased": lambda got, right: got.shape == right.shape,
}


@pytest.mark.parametrize("how", BLIND)
def test_a_test_is_told_what_it_does_not_see(how):
    def blind(backward):
        right = product_backward(DY, X, W)
        got = backward(DY, X, W)
        assert np.allclose(got[0], right[0])
        assert BLIND[how](got[1], right[1])

    unseen = look(blind, product_backward).unseen
    assert f"{how} (gradient 2)" in unseen
    assert not any("gradient 1" in what for what in unseen)
    with pytest.raises(AssertionError, match=rf"blind passes for .*\n(.*\n)*does not see a gradient that is {how}"):
        assert_not_vacuous(blind, product_backward)


def test_inputs_that_hide_a_mistake_are_told():
    def symmetric(backward):
        S = np.array([[2.0, 1.0], [1.0, 3.0]])
        assert np.array_equal(backward(S, S), S * S)

    unseen = look(symmetric, lambda dY, X: dY * X).unseen
    assert unseen == ("transposed: in this test that is the right one",)

    def nothing_upstream(backward):
        assert not backward(np.zeros(3), np.ones(3)).any()

    told = look(nothing_upstream, lambda dY, X: dY * X).unseen
    assert {what.partition(":")[0] for what in told} == {"zero", "negated", "doubled", "aliased"} - {
        what for what in ("aliased",) if not any(each.startswith("aliased") for each in told)
    }


def test_any_exception_is_seen_and_reported():
    def strict(backward):
        dX, dW = backward(DY, X, W)
        if not np.allclose(dX, DY @ W.T):
            raise ValueError("gradients differ")
        if not np.allclose(dW, X.T @ DY):
            pytest.fail("gradients differ")

    sight = look(strict, product_backward)
    assert not sight.unseen
    assert "zero (gradient 1): ValueError: gradients differ" in sight.raised
    assert "zero (gradient 2): Failed: gradients differ" in sight.raised


def test_a_test_that_fails_for_the_right_backward_is_of_no_use():
    with pytest.raises(AssertionError, match="fails for the right backward already: ZeroDivisionError"):
        assert_not_vacuous(lambda backward: 1 / 0, product_backward)


def test_gradients_by_name_and_of_torch_are_broken_too():
    def named(dY, cache):
        return dY * 2, {"w": cache["x"] * dY, "b": dY.sum()}

    def looks_at_one(backward):
        dX, grads = backward(DY, {"x": DY[::-1]})
        assert np.allclose(dX, 2 * DY)
        assert np.allclose(grads["w"], DY[::-1] * DY)

    unseen = look(looks_at_one, named).unseen
    assert {"zero (gradient 2 b)", "NaN (gradient 2 b)"} <= set(unseen)
    assert all("gradient 2 b" in what for what in unseen)

    tensor = torch.from_numpy(X)

    def of_tensors(backward):
        assert torch.allclose(backward(tensor, tensor), 3 * tensor**3, rtol=1e-6, atol=0)

    sight = look(of_tensors, lambda dY, X: 3 * X * X * dY)
    assert not sight.unseen
    assert sight.smallest["gradient times (1 + e)"] == pytest.approx(1e-6, rel=0.03)
    assert 0 < sight.smallest["off in a random direction"] < math.inf


def test_a_gradient_right_by_chance_of_its_own_shape_is_not_tried():
    def one_dimensional(backward):
        assert np.allclose(backward(DY[0], DY[1]), DY[0] * DY[1])

    sight = look(one_dimensional, lambda dY, X: dY * X)
    assert not sight.unseen
    assert sight.untried == ("transposed: it has no two axes longer than 1",)
