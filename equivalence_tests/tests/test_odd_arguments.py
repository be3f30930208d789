"""Arguments that look right to Python: they are refused in one line that names the argument."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import reference_numpy
import torch_impl
from reference_numpy import fast

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # NumPy would like np.matrix to be forgotten
    MATRIX = np.matrix(np.eye(2))
MASKED = np.ma.masked_array(np.eye(2), mask=[[True, False], [False, False]])
TARGETS = np.ma.masked_array([0, 1], mask=[True, False])
EYE = np.eye(2)


@pytest.mark.parametrize("twin", [reference_numpy, fast], ids=["reference", "fast"])
@pytest.mark.parametrize("odd", [MASKED, MATRIX], ids=["masked", "matrix"])
def test_a_masked_array_and_a_matrix_are_refused_by_name(twin, odd):
    kind = type(odd).__name__
    calls = {
        "X": lambda: twin.softmax(odd),
        "V": lambda: twin.attention(EYE, EYE, odd),
        "bias": lambda: twin.attention(EYE, EYE, EYE, bias=odd),
        "mask": lambda: twin.attention(EYE, EYE, EYE, mask=odd > 0),
        "weight": lambda: twin.linear(EYE, odd),
        "logits": lambda: twin.cross_entropy(odd, np.array([0, 1])),
        "dA": lambda: twin.softmax_backward(odd, twin.softmax(EYE)[1]),
        "params": lambda: twin.adamw_step({"w": odd}, {"w": EYE}, {}),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=rf"{name}.* is a {kind}, expected a NumPy array"):
            call()


@pytest.mark.parametrize("twin", [reference_numpy, fast], ids=["reference", "fast"])
def test_masked_targets_are_refused(twin):
    with pytest.raises(TypeError, match="cross_entropy: targets is a MaskedArray"):
        twin.cross_entropy(EYE, TARGETS)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [None, 2.5, "x", True])
def test_an_axis_is_an_integer(op, axis):
    for twin, X in ((reference_numpy, EYE), (fast, EYE), (torch_impl, torch.eye(2))):
        with pytest.raises(TypeError, match=rf"^{op}: axis is {axis!r}, expected an integer$"):
            getattr(twin, op)(X, axis)


@pytest.mark.parametrize("twin", [reference_numpy, fast], ids=["reference", "fast"])
def test_simple_attention_speaks_of_itself(twin):
    _, cache = twin.simple_attention(EYE)
    for error, dC in ((ValueError, np.ones((3, 2))), (TypeError, np.ones((2, 2), "f4"))):
        with pytest.raises(error, match=r"^simple_attention_backward: dC "):
            twin.simple_attention_backward(dC, cache)
    if twin is fast:
        with pytest.raises(TypeError, match=r"^simple_attention: X has dtype complex128"):
            twin.simple_attention(EYE + 0j)
