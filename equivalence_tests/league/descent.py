"""Policies that look at a loss only: ten steps of gradient descent, and how the loss went.

An op that is no loss gets one: the mean squared error of its outputs against random targets. Everything that has a
gradient is trained, in float32. The step is the largest power of two with which the reference's loss falls at every step:
whoever looks at losses has found such a step before.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.implementations import Implementation, prepared
from equivalence_tests.league.calls import REFERENCE, Arrays, outputs_of, pull_back
from equivalence_tests.league.configurations import Configuration

STEPS = 10
LARGEST, SMALLEST = 2.0**4, 2.0**-30
APART = 1e-2


def goes_down(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """The loss after ten steps is below the first."""
    losses = descend(implementation, configuration, dtype, step_of(configuration, dtype))
    return "" if losses[-1] < losses[0] else f"the loss went from {losses[0]:.6g} to {losses[-1]:.6g}"


def stays_close(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """At every one of ten steps the loss is less than 1e-2 from the reference's, as in llm.c (main in test_gpt2.c, commit
    02e439d, which compares ten losses of a training so, and a gradient once within 2e-2)."""
    step = step_of(configuration, dtype)
    losses = descend(implementation, configuration, dtype, step)
    for at, (got, want) in enumerate(zip(losses, descend(REFERENCE, configuration, dtype, step), strict=True)):
        if not abs(got - want) < APART:
            return f"the loss at step {at} is {got:.6g}, the reference's {want:.6g}"
    return ""


@cache
def step_of(configuration: Configuration, dtype: str) -> float:
    """ValueError if the reference's loss falls with no step."""
    step = LARGEST
    while step >= SMALLEST:
        losses = descend(REFERENCE, configuration, dtype, step)
        if all(after < before for before, after in pairwise(losses)):
            return step
        step /= 2.0
    raise ValueError(f"{configuration.op.name}: no step makes the reference's loss fall at every step")


def descend(implementation: Implementation, configuration: Configuration, dtype: str, step: float) -> list[float]:
    """The loss before each of ten steps, and after the last."""
    op, case = configuration.op, configuration.case.rounded(PRECISIONS[dtype])
    targets = _targets(configuration)
    kept, losses = prepared(case, dtype, writeable=True)[0], []
    for left in reversed(range(STEPS + 1)):
        operands, options, _ = prepared(case, dtype, writeable=True)
        operands |= {name: kept[name].copy() for name in op.gradient_names(case)}
        Y, cache = implementation.forward(op.name)(*op.arguments(operands), **options)
        loss, upstream = _loss(outputs_of(op, Y), targets, op.scalar)
        losses.append(loss)
        if not left:
            break
        gradients = pull_back(implementation, op, case, upstream, cache)
        for name in op.gradient_names(case):
            kept[name] -= step * gradients[f"d{name}"]
    return losses


def _loss(Y: Arrays, targets: Arrays, scalar: bool) -> tuple[float, Arrays]:
    """The loss, and its gradient with respect to each output."""
    if scalar:
        return sum(float(value) for value in Y.values()), {f"d{name}": np.ones(()) for name in Y}
    errors = {name: value - targets[name].astype(value.dtype) for name, value in Y.items()}
    upstream = {f"d{name}": _doubled_mean(error) for name, error in errors.items()}
    return sum(float((error * error).mean()) for error in errors.values()), upstream


def _doubled_mean(error: Array) -> Array:
    return np.asarray(2.0 / error.size * error)


@cache
def _targets(configuration: Configuration) -> Arrays:
    rng = np.random.default_rng(2)
    shapes = {name.removeprefix("d"): value.shape for name, value in configuration.case.upstream.items()}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}
