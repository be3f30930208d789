"""What AdamW's parameters and moments must be after each of 100 steps, and how far a right implementation may be off.

It goes through time, so its budget is measured: sixteen float64 runs in which every line's result, and once and for all
every constant, is multiplied by 1 +- u.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, RUNS, Array, round_to
from equivalence_tests.budgets import FACTOR, SMALLEST_STEP

Arrays = dict[str, Array]
SHAPES = {"embedding.weight": (5, 3), "head.bias": (4,), "kernel": (2, 3, 4), "scalar": (), "none": (0, 3)}
STEPS = 100


class Settings(NamedTuple):
    """Everything but the rate, which changes from step to step."""

    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 1e-2


SETTINGS = (Settings(), Settings((0.8, 0.95), 1e-6, 0.3), Settings((0.0, 0.5), 1e-3, 0.0))


class Training(NamedTuple):
    """What goes in: the first parameters, and for every step the gradients and the rate."""

    params: Arrays
    grads: list[Arrays]
    rates: list[float]


class Moments(NamedTuple):
    """p, m and v of one tensor after every step: (steps, ...), or (runs, steps, ...)."""

    p: Array
    exp_avg: Array
    exp_avg_sq: Array


@cache
def training(dtype: str, seed: int = 0, steady: bool = False) -> Training:
    """Gradients that change, many of them tiny or 0: a row is never met, a tensor now and then, a step sees nothing.

    The rate changes as well, unless it is to be `steady`.
    """
    rng = np.random.default_rng([seed, 113])

    def numbers(shape: tuple[int, ...]) -> Array:
        return round_to(np.asarray(rng.standard_normal(shape)), PRECISIONS[dtype]).astype(dtype)

    def gradient(shape: tuple[int, ...]) -> Array:
        size = 10.0 ** rng.uniform(-12.0, 2.0)
        g = numbers(shape) * np.asarray(size * (rng.random(shape) < 0.8) * (rng.random() < 0.9), dtype)
        if shape:
            g[:1] *= 0.0  # an embedding that no text names
        return np.asarray(g)

    params = {name: numbers(shape) for name, shape in SHAPES.items()}
    grads = [{name: gradient(shape) for name, shape in SHAPES.items()} for _ in range(STEPS)]
    rates = [1e-2 * float(rng.uniform(0.1, 1.0)) for _ in range(STEPS)]
    return Training(params, grads, rates[:1] * STEPS if steady else rates)


def _run(
    p: Array,
    gradients: Sequence[Array],
    rates: Sequence[float],
    constants: Sequence[Any],
    line: Callable[[Array], Array],
    scalar: Callable[[Array], Array],
) -> Moments:
    """The equations, over any numbers; `line` sees the result of every line, `scalar` the powers, which are Python floats.

    A power is subtracted from 1: at the second step, 1 - 0.999^2, what it lost counts 500 times.
    """
    beta1, rest1, beta2, rest2, power1, power2, epsilon, decay = constants
    m, v = np.zeros_like(p), np.zeros_like(p)
    after: list[tuple[Array, Array, Array]] = []
    for t, (g, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        g = g.astype(p.dtype)
        m = line(line(beta1 * m) + line(rest1 * g))
        v = line(line(beta2 * v) + line(rest2 * line(g * g)))
        correction1, correction2 = 1 - scalar(power1**t), 1 - scalar(power2**t)
        rate, root = line(lr / correction1), line(line(np.sqrt(v)) / np.sqrt(correction2))
        moved = line(line(rate * m) / line(root + epsilon))
        p = line(line(p * line(1 - lr * decay)) - moved)
        after.append((p, m, v))
    return Moments(*(np.stack(each, -1) for each in zip(*after, strict=True)))  # the steps come last


@cache
def truth(dtype: str, settings: Settings, steady: bool = False) -> dict[str, tuple[Moments, Moments]]:
    """Of every tensor: the exact values, and the budget of each."""
    start, grads, rates = training(dtype, steady=steady)
    unit, tiny = PRECISIONS[dtype].unit, PRECISIONS[dtype].tiny
    step = max(unit, SMALLEST_STEP)
    rng = np.random.default_rng(5)
    beta1, beta2 = (ORACLE(beta) for beta in settings.betas)
    numbers = [beta1, 1 - beta1, beta2, 1 - beta2, beta1, beta2]
    numbers += [ORACLE(settings.epsilon), ORACLE(settings.weight_decay)]

    def shaken(by: float) -> Callable[[Array], Array]:
        return lambda x: x * (1.0 + by * rng.choice((-1.0, 1.0), x.shape))

    line, scalar = shaken(step), shaken(step * PRECISIONS["float64"].unit / unit)
    found = {}
    for name, p in start.items():
        gradients = [step_grads[name] for step_grads in grads]
        exact = _run(p.astype(ORACLE), gradients, rates, numbers, lambda x: x, lambda x: x)
        runs = (RUNS, *(1,) * p.ndim)
        constants = [line(np.full(runs, float(x))) for x in numbers]
        constants[4:6] = [np.full(runs, beta) for beta in settings.betas]
        wide = np.broadcast_to(p.astype(np.float64), (RUNS, *p.shape))
        shaken_runs = _run(wide, gradients, rates, constants, line, scalar)
        budget = Moments(
            *(
                FACTOR * np.sqrt(((run - right.astype(np.float64)) ** 2).mean(0)) * (unit / step) + tiny
                for run, right in zip(shaken_runs, exact, strict=True)
            )
        )
        found[name] = (exact, budget)
    return found
