"""Policies that hold outputs and gradients against the reference's, tensor by tensor.

Each is a function of an implementation, a configuration and a dtype that says what is wrong, or nothing. What an
implementation raises, and what a comparison raises over two shapes, the caller counts as a rejection: a test that raises
fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array, round_to
from equivalence_tests.implementations import Implementation, load, run
from equivalence_tests.league.calls import Arrays, answer, expected, outputs
from equivalence_tests.league.configurations import Configuration

Close = Callable[[Array, Array], bool]


def _first_apart(got: Arrays, want: Arrays, close: Close) -> str:
    for name, value in want.items():
        if name not in got:
            return f"{name} is missing"
        if not close(got[name], value):
            return f"{name} is not close"
    return ""


def by_allclose(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """numpy.allclose with its defaults, rtol 1e-5 and atol 1e-8 (numpy/_core/numeric.py, NumPy 2.4): shapes need only
    broadcast, any dtype will do, NaN is never close."""
    got, want = answer(implementation, configuration, dtype), expected(configuration, dtype)
    return _first_apart(got, want, lambda a, b: bool(np.allclose(a, b)))


ASSERT_CLOSE = {"float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}  # rtol, atol


def by_assert_close(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """torch.testing.assert_close with its defaults: dtype and shape are equal, and |got - want| <= atol + rtol |want|, both
    by dtype (_DTYPE_PRECISIONS in torch/testing/_comparison.py, torch 2.13)."""
    got, want = answer(implementation, configuration, dtype), expected(configuration, dtype)
    return _first_apart(got, want, assert_close)


def assert_close(got: Array, want: Array) -> bool:
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    rtol, atol = ASSERT_CLOSE[str(want.dtype)]
    return bool(np.allclose(got, want, rtol, atol))


def by_a_hundredth(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """allclose with atol = rtol = 1e-2, on gradients too."""
    got, want = answer(implementation, configuration, dtype), expected(configuration, dtype)
    return _first_apart(got, want, lambda a, b: bool(np.allclose(a, b, 1e-2, 1e-2)))


def by_a_hundredth_on_outputs(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """KernelBench's rule: equal shapes, allclose with atol = rtol = 1e-2, outputs alone (run_and_check_correctness in
    src/eval.py, commit 1a3941c; since then 1e-4 in float32)."""
    want = expected(configuration, dtype)
    got = outputs(implementation, configuration, dtype)
    return _first_apart(
        got, {name: want[name] for name in got}, lambda a, b: a.shape == b.shape and np.allclose(a, b, 1e-2, 1e-2)
    )


def by_cosine(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """Cosine similarity of at least 0.99, as FlashInfer has it for outputs (test_bmm_fp8 in tests/gemm/test_bmm_fp8.py,
    commit b9f198d, with > 0.99); here for gradients too."""
    got, want = answer(implementation, configuration, dtype), expected(configuration, dtype)
    return _first_apart(got, want, lambda a, b: cosine(a, b) >= 0.99)


def cosine(one: Array, other: Array) -> float:
    """Of two arrays made flat; each norm is at least 1e-8, as in torch.nn.functional.cosine_similarity."""
    a, b = one.ravel(), other.ravel()
    return float(a @ b / (max(float(np.linalg.norm(a)), 1e-8) * max(float(np.linalg.norm(b)), 1e-8)))


def by_twice_the_error(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """FlashAttention's rule: max|got - truth| <= 2 max|low - truth|, where `low` is a plain implementation in the low
    precision (test_flash_attn_unpadded in tests/test_flash_attn.py, commit 008951f; later versions add an absolute term).

    The truth is the reference in float64 on the rounded numbers. In float32 `low` is the reference. In bfloat16 it is
    torch's, and a NumPy pair does what a kernel does: it reads bfloat16, counts in float32 and rounds what it stores.
    """
    if dtype == "bfloat16":
        answers = answer(implementation, configuration, "float32", dtype)
        got = {name: round_to(value, PRECISIONS[dtype]) for name, value in answers.items()}
    else:
        got = answer(implementation, configuration, dtype)
    truth, low = expected(configuration, "float64", dtype), _low(configuration, dtype)
    for name, exact in truth.items():
        if name not in got:
            return f"{name} is missing"
        if not bool(np.abs(got[name] - exact).max() <= 2.0 * np.abs(low[name] - exact).max()):
            return f"{name} is further from the truth than twice what {dtype} costs"
    return ""


@cache
def _low(configuration: Configuration, dtype: str) -> Arrays:
    if dtype != "bfloat16":
        return expected(configuration, dtype)
    rounded = configuration.case.rounded(PRECISIONS[dtype])
    return {name: tensor.value for name, tensor in run(load("torch_impl"), configuration.op, rounded, dtype).items()}
