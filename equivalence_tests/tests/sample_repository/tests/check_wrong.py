"""Each of these has to fail."""

import numpy as np
from layers import (
    attention,
    attention_backward_without_the_scale,
    softmax,
    softmax_backward,
    swish,
    swish_backward_halved,
)


def test_attention(assert_equivalent):
    assert_equivalent(attention, like="attention", backward=attention_backward_without_the_scale, cases=40)


def test_swish(assert_gradients):
    assert_gradients(swish, swish_backward_halved, "X: ... n d")


def test_of_ones(assert_not_vacuous):
    def sums_only(backward):
        """The gradient of softmax(X).sum(), which is 0 whatever X is."""
        X = np.random.default_rng(0).standard_normal((3, 5))
        assert np.allclose(backward(np.ones_like(X), X), np.zeros_like(softmax(X)))

    assert_not_vacuous(sums_only, softmax_backward)


def test_that_never_calls(assert_not_vacuous):
    def idle(backward):
        assert callable(backward)

    assert_not_vacuous(idle, softmax_backward)
