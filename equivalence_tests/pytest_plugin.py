"""Assertions on gradients for any test suite, as fixtures and as functions of the same names.

With `pip install gemelos` pytest finds them by itself; in another repository a test asks for what it needs:

    import numpy as np
    from mine import attention, attention_backward, swish, swish_backward

    def test_attention(assert_equivalent):
        assert_equivalent(attention, like="attention", backward=attention_backward)

    def test_swish(assert_gradients):
        assert_gradients(swish, swish_backward, "X: ... n d")

    def test_my_test_can_fail(assert_not_vacuous):
        def my_test(backward):
            X, dY = np.random.default_rng(0).standard_normal((2, 3, 5))
            sigma = 1 / (1 + np.exp(-X))
            assert np.allclose(backward(dY, X), dY * sigma * (1 + X * (1 - sigma)))

        assert_not_vacuous(my_test, swish_backward)

Outside a fixture: `from equivalence_tests.pytest_plugin import assert_gradients`. A test that fails says what is wrong: by
which factor, which term, which element. Nothing but this file is loaded until an assertion is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from equivalence_tests.vacuity import Sight


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kata: a kata of the dojo, judged as `gemelos dojo check` does")


def assert_equivalent(function: Any, like: str = "attention", backward: Any = None, **settings: Any) -> Any:
    """The function is the op `like` of the table, and so is its gradient: the report of `equivalence_tests.check`.

    `backward` is of (dY, cache) or of (dY, *inputs), or None for a forward alone and for torch. `settings` are those of
    `check`: cases, seed, dtype. AssertionError with the report, which names what is wrong; ValueError for an op that is
    not in the table.
    """
    __tracebackhide__ = True
    from equivalence_tests import check

    report = check(function, like, backward=backward, **settings)
    if not report.passed:
        raise AssertionError(f"{_name(function)} is not {like}\n{report}")
    return report


def assert_gradients(function: Any, backward: Any = None, inputs: Any = None, *, cases: int = 10, seed: int = 0) -> Any:
    """The backward is the gradient of the function, whatever it computes, by its own forward alone.

    `inputs` are operands at hand, a function of a NumPy generator that draws them, or a line of shapes such as
    "X: ... n d; W: k d; ids: ... < v". The function may be NumPy's or torch's (without a backward, autograd's gradient
    is judged). AssertionError if a gradient is wrong, or if it could not be judged.
    """
    __tracebackhide__ = True
    from equivalence_tests.laws_only import check_gradients

    report = check_gradients(function, backward, inputs, cases=cases, seed=seed)
    if report.passed:
        return report
    what = "are wrong" if report.findings else "could not be judged: differences tell no slope here"
    raise AssertionError(f"the gradients of {_name(function)} {what}\n{report}")


def assert_not_vacuous(test: Callable[[Callable[..., Any]], Any], backward: Callable[..., Any]) -> Sight:
    """The user's own test fails for every gradient that is wrong in a known way, and prints how small an error it sees.

    `test` takes a backward, calls it, and asserts something of what comes back; it must pass for `backward` itself. It is
    called some thirty times for each gradient. AssertionError that names what it does not see.
    """
    __tracebackhide__ = True
    from equivalence_tests.vacuity import look

    sight = look(test, backward)
    if sight.unseen:
        raise AssertionError(f"{_name(test)} passes for gradients that are wrong\n{sight}")
    print(f"{_name(test)}\n{sight}")
    return sight


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


@pytest.fixture(name="assert_equivalent", scope="session")
def _assert_equivalent() -> Callable[..., Any]:
    return assert_equivalent


@pytest.fixture(name="assert_gradients", scope="session")
def _assert_gradients() -> Callable[..., Any]:
    return assert_gradients


@pytest.fixture(name="assert_not_vacuous", scope="session")
def _assert_not_vacuous() -> Callable[..., Any]:
    return assert_not_vacuous
