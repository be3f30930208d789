"""Policies that need no reference: a backward against differences of the same implementation's forward.

They ask whether the backward belongs to the forward, and never what the forward computes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.implementations import Implementation, prepared
from equivalence_tests.league.calls import REFERENCE, Arrays, outputs_of, pull_back
from equivalence_tests.league.configurations import Configuration

# torch.autograd.gradcheck's defaults, torch 2.13
EPS, ATOL, RTOL = 1e-6, 1e-5, 1e-3
# jax.test_util.check_grads' defaults
JAX_EPS = 1e-4
JAX_TOLERANCE = {"float32": 2e-3, "float64": 1e-5}  # absolute and relative


@dataclass(frozen=True, eq=False)
class Function:
    """An implementation on one set of arrays, which differences write into and every call reads: as gradcheck has it."""

    implementation: Implementation
    configuration: Configuration
    operands: Arrays
    options: dict[str, Any]

    @property
    def names(self) -> list[str]:
        return self.configuration.op.gradient_names(self.configuration.case)

    def forward(self) -> tuple[Arrays, Any]:
        op = self.configuration.op
        Y, cache = self.implementation.forward(op.name)(*op.arguments(self.operands), **self.options)
        return outputs_of(op, Y), cache

    def backward(self, upstream: Arrays, cache: Any) -> Arrays:
        """The gradients as torch's engine takes them: summed over what broadcasts, cast to the operand's dtype."""
        by_name = {f"d{name}": value for name, value in upstream.items()}
        gradients = pull_back(self.implementation, self.configuration.op, self.configuration.case, by_name, cache)
        return {name: _as_operand(gradients[f"d{name}"], self.operands[name]) for name in self.names}

    def central(self, name: str, where: Any, step: Any, length: float) -> Arrays:
        """(f(x + step) - f(x - step)) / (2 length) for every output; `step` is added to some numbers of an operand."""
        X = self.operands[name]
        before = X[where].copy()
        X[where] = before - step
        low, _ = self.forward()
        X[where] = before + step
        high, _ = self.forward()
        X[where] = before
        return {output: (high[output] - low[output]).ravel() / (2.0 * length) for output in high}


def _as_operand(gradient: Array, operand: Array) -> Array:
    """ValueError for a shape that is not the operand's nor broadcasts from it."""
    extra = gradient.ndim - operand.ndim
    if gradient.shape != operand.shape:
        if extra < 0 or np.broadcast_shapes(operand.shape, gradient.shape) != gradient.shape:
            raise ValueError(f"a gradient of shape {gradient.shape} for an operand of shape {operand.shape}")
        axes = [axis for axis in range(gradient.ndim) if axis < extra or operand.shape[axis - extra] == 1]
        gradient = gradient.sum(tuple(axes)).reshape(operand.shape)
    return gradient.astype(operand.dtype)


def _function(implementation: Implementation, configuration: Configuration) -> Function:
    operands, options, _ = prepared(configuration.case, "float64", writeable=True)
    return Function(implementation, configuration, operands, options)


def gradcheck(implementation: Implementation, configuration: Configuration, dtype: str = "float64") -> str:
    """torch.autograd.gradcheck as it is by default (_slow_gradcheck in torch/autograd/gradcheck.py, torch 2.13).

    Every row of the Jacobian by the backward of a unit vector, twice and equal to the last bit (nondet_tol 0); every
    column by a central difference with eps 1e-6; |analytic - numeric| <= 1e-5 + 1e-3 |numeric|; at last an upstream of
    zeros must give zeros. A gradient that broadcasts is summed and its dtype cast, as the engine does before gradcheck
    looks. gradcheck takes the columns first; here the first wrong one ends it.
    """
    function = _function(implementation, configuration)
    Y, cache = function.forward()
    rows = {output: _rows(function, Y, output, cache) for output in Y}
    for output in Y:
        again = _rows(function, Y, output, cache)
        for name in function.names:
            if bool(np.abs(rows[output][name] - again[name]).max() > 0.0):
                return f"d{name} differs when asked for again"
    for name, number, column in _columns(function):
        for output in Y:
            if not np.allclose(rows[output][name][:, number], column[output], RTOL, ATOL):
                return f"d{name} is not what differences of {output} give"
    return _zero_gives_zero(function, Y, cache)


Column = tuple[str, int, Arrays]


def _columns(function: Function) -> Iterable[Column]:
    """The Jacobian's columns, one for each number of each operand. The reference's are worked out once."""
    op = function.configuration.op.name
    if inspect.unwrap(function.implementation.forward(op)) is getattr(reference_numpy, op):
        return _columns_of_reference(function.configuration)
    return _differences(function)


@cache
def _columns_of_reference(configuration: Configuration) -> tuple[Column, ...]:
    return tuple(_differences(_function(REFERENCE, configuration)))


def _differences(function: Function) -> Iterator[Column]:
    for name in function.names:
        for number, where in enumerate(np.ndindex(function.operands[name].shape)):
            yield name, number, function.central(name, where, EPS, EPS)


def _rows(function: Function, Y: Arrays, output: str, cache: Any) -> Arrays:
    """By operand the rows of one output's Jacobian: the backward of each unit vector, the other outputs' upstream 0."""
    rows: dict[str, list[Array]] = {name: [] for name in function.names}
    for where in np.ndindex(Y[output].shape):
        upstream = {name: np.zeros(value.shape) for name, value in Y.items()}
        upstream[output][where] = 1.0
        for name, gradient in function.backward(upstream, cache).items():
            rows[name].append(gradient.ravel().copy())
    return {name: np.array(each) for name, each in rows.items()}


def _zero_gives_zero(function: Function, Y: Arrays, cache: Any) -> str:
    zeros = {name: np.zeros(value.shape) for name, value in Y.items()}
    for name, gradient in function.backward(zeros, cache).items():
        if not bool((gradient == 0.0).all()):
            return f"d{name} is not 0 for an upstream of 0"
    return ""


def gradcheck_fast(implementation: Implementation, configuration: Configuration, dtype: str = "float64") -> str:
    """gradcheck with fast_mode=True (_fast_gradcheck, same file): one number for each operand and output, v^T J u by a
    central difference along u and by the backward of v, u and v random, not negative and of length 1.

    The absolute tolerance is 1e-5 sum(u) sum(v), so that it allows what the slow mode allows in every entry.
    """
    function, rng = _function(implementation, configuration), np.random.default_rng(0)
    Y, cache = function.forward()
    u = {name: _unit(rng, function.operands[name].shape) for name in function.names}
    v = {output: _unit(rng, value.shape) for output, value in Y.items()}
    moved = {name: function.central(name, ..., EPS * u[name], EPS) for name in function.names}
    for output in Y:
        upstream = {name: v[name] if name == output else np.zeros(value.shape) for name, value in Y.items()}
        pulled, again = function.backward(upstream, cache), function.backward(upstream, cache)
        for name in function.names:
            if bool(np.abs(pulled[name] - again[name]).max() > 0.0):
                return f"d{name} differs when asked for again"
            analytic = float((pulled[name] * u[name]).sum())
            numeric = float(v[output].ravel() @ moved[name][output])
            if not np.allclose(analytic, numeric, RTOL, ATOL * float(u[name].sum()) * float(v[output].sum())):
                return f"d{name} along one direction is not what differences of {output} give"
    return _zero_gives_zero(function, Y, cache)


def _unit(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    vector = rng.random(shape)
    return np.asarray(vector / np.linalg.norm(vector))


def check_grads(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """jax.test_util.check_grads(order=1, modes=("rev",)) of a jax.custom_vjp (check_vjp in jax/_src/public_test_util.py,
    commit 055a883; forward mode cannot differentiate a custom_vjp).

    One random direction u for all operands together, one random upstream v: <u, J^T v> against <J u, v> by a central
    difference with eps 1e-4 in the same dtype, absolute and relative tolerance 2e-3 in float32, 1e-5 in float64, NaN
    equal to NaN. A gradient of another shape than its operand's is refused, as custom_vjp does.
    """
    op, rng = configuration.op, np.random.RandomState(0)  # the directions that JAX takes
    case = configuration.case.rounded(PRECISIONS[dtype])

    def forward(moved: Arrays) -> tuple[Arrays, Any]:
        operands, options, _ = prepared(case, dtype, writeable=True)
        Y, cache = implementation.forward(op.name)(*op.arguments({**operands, **moved}), **options)
        return outputs_of(op, Y), cache

    Y, cache = forward({})
    at = {name: case.operands[name].astype(dtype) for name in op.gradient_names(case)}
    u = {name: rng.standard_normal(X.shape).astype(dtype) for name, X in at.items()}
    step = np.dtype(dtype).type(JAX_EPS)
    high, _ = forward({name: X + step * u[name] for name, X in at.items()})
    low, _ = forward({name: X - step * u[name] for name, X in at.items()})
    v = {name: rng.standard_normal(value.shape).astype(value.dtype) for name, value in Y.items()}
    gradients = pull_back(implementation, op, case, {f"d{name}": value.copy() for name, value in v.items()}, cache)
    for name, X in at.items():
        if gradients[f"d{name}"].shape != X.shape:
            return f"d{name} is not of its operand's shape"
    pulled = sum(np.vdot(u[name], gradients[f"d{name}"]) for name in at)
    pushed = sum(
        np.vdot((high[name] - low[name]) * value.dtype.type(0.5 / JAX_EPS), v[name]) for name, value in Y.items()
    )
    tolerance = max(JAX_TOLERANCE[str(np.asarray(each).dtype)] for each in (pulled, pushed))
    if not np.isclose(pulled, pushed, tolerance, tolerance, equal_nan=True):
        return f"<u, J^T v> is {float(pulled):.6g}, differences give {float(pushed):.6g}"
    return ""
