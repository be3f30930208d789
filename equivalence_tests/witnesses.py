"""Witnesses that share nothing with the hand-written backward passes.

Complex-step differentiation: f(x + i h) = f(x) + i h f'(x) + O(h^2), so imag(f(x + i h)) / h is f'(x) to the last digits,
since nothing is subtracted and h = 2^-66 (about 1e-20, and exact to scale by) has no error term left. And the adjoint
identity <u, J v> = <J^T u, v>: J v from one complex step along v, J^T u from the backward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, Array, Bounded
from equivalence_tests.cases import Case, is_floating
from equivalence_tests.implementations import Implementation, run_pair
from equivalence_tests.ops import Op

STEP = 2.0**-66
UNIT, TINY = PRECISIONS["float64"].unit, PRECISIONS["float64"].tiny


CLOSE = 1e-13


@dataclass
class Testimony:
    """What a witness says of one case: share of the budget, error relative to the tensor's scale, what is wrong."""

    share: float = 0.0
    relative: float = 0.0
    wrong: str = ""


def _outputs(Y: Any) -> tuple[Any, ...]:
    return Y if isinstance(Y, tuple) else (Y,)


def _forward(implementation: Implementation, op: Op, case: Case, moved: dict[str, Array]) -> tuple[Any, ...]:
    """The forward in complex128, some operands moved along the imaginary axis."""
    operands = {
        name: (value + 1j * STEP * moved[name] if name in moved else value.astype(np.complex128))
        if is_floating(value)
        else value
        for name, value in case.operands.items()
    }
    options = {name: v.astype(np.complex128) if is_floating(v) else v for name, v in case.options.items()}
    return _outputs(implementation.forward(op.name)(*op.arguments(operands), **options)[0])


def _against_upstream(case: Case, outputs: tuple[Any, ...]) -> tuple[float, float, float]:
    """imag(<u, f>) / h; the scale of this sum, sum |u_i (J v)_i| over all outputs; and its rounding.

    That is (k + 1) u times the scale, and the underflow of imaginary parts, which are h times as small as what they say.
    """
    pairs = list(zip(case.upstream.values(), outputs, strict=True))
    flat = np.concatenate([(u * np.imag(y)).ravel() / STEP for u, y in pairs]).astype(ORACLE)
    scale = float(np.abs(flat).sum())
    underflow = TINY / STEP * (1.0 + sum(float(np.abs(u).sum()) for u, _ in pairs))
    return float(flat.sum()), scale, (flat.size + 1) * UNIT * scale + underflow


def complex_step(implementation: Implementation, op: Op, case: Case) -> dict[str, tuple[Array, Array]]:
    """The gradient of <u, f> with respect to every element of every operand, one complex step each, and its rounding."""
    gradients = {}
    for name in op.gradient_names(case):
        gradient, rounding = np.zeros((2, *case.operands[name].shape))
        for index in np.ndindex(gradient.shape):
            direction = np.zeros(gradient.shape)
            direction[index] = 1.0
            step = _forward(implementation, op, case, {name: direction})
            gradient[index], _, rounding[index] = _against_upstream(case, step)
        gradients[f"d{name}"] = gradient, rounding
    return gradients


def adjoint_gap(
    implementation: Implementation, op: Op, case: Case, exact: dict[str, Bounded], rng: np.random.Generator
) -> tuple[float, float, float]:
    """|<u, J v> - <J^T u, v>| for a random v; what the budget allows; and the scale sum |u_i (J v)_i|.

    The budget is twice sum |v| E(dX), and the rounding of the two sums: the backward may err by that much, and the
    complex step, which runs the same formula in the other direction, by as much again.
    """
    answer = run_pair(implementation, op, case, "float64")
    names = op.gradient_names(case)
    v = {name: rng.standard_normal(case.operands[name].shape) for name in names}
    forward, scale, rounding = _against_upstream(case, _forward(implementation, op, case, v))
    products = np.concatenate([(answer[f"d{name}"].value.astype(ORACLE) * v[name]).ravel() for name in names])
    errors = sum(float(np.sum(exact[f"d{name}"].budget() * np.abs(v[name]))) for name in names)
    return abs(forward - float(products.sum())), 2.0 * errors + 2.0 * rounding, scale


def hear_witnesses(
    implementation: Implementation, op: Op, case: Case, exact: dict[str, Bounded], index: int
) -> dict[str, Testimony]:
    """Both witnesses on one case in float64: within the budget always, and closer where that is well-conditioned.

    A tensor is well-conditioned if its budget is below 1e-13 of its scale, and then the complex steps are that close; the
    adjoint identity holds to 1e-12 of sum |u_i (J v)_i| wherever all tensors are.
    """
    steps, adjoint = Testimony(), Testimony()
    close = not case.hard
    for name, (gradient, rounding) in complex_step(implementation, op, case).items():
        truth = exact[name]
        allowed = truth.budget() + rounding
        error = np.abs(gradient.astype(ORACLE) - truth.value).astype(np.float64)
        scale = float(np.abs(truth.value).max(initial=0.0))
        if not bool((error <= allowed).all()):
            steps.wrong = f"{name} is {float(error.max()):.3g} from the exact gradient, more than the budget"
        judged = (allowed > 0) & (allowed <= math.sqrt(UNIT) * scale)
        steps.share = max(
            steps.share, float(np.where(judged, error / np.where(judged, allowed, 1), 0).max(initial=0.0))
        )
        well = bool((truth.budget() <= CLOSE * scale).all())
        close = close and well
        if well and not case.hard and scale > 0.0:
            steps.relative = max(steps.relative, float(error.max()) / scale)
    if steps.relative > CLOSE:
        steps.wrong = f"{steps.relative:.2g} of the tensor's scale away, more than {CLOSE:g}"
    gap, allowed_gap, scale = adjoint_gap(implementation, op, case, exact, np.random.default_rng(index))
    if not gap <= allowed_gap:
        adjoint.wrong = f"off by {gap:.3g}, more than the budget {allowed_gap:.3g}"
    if 0.0 < allowed_gap < math.sqrt(UNIT) * scale:
        adjoint.share = gap / allowed_gap
    if close and scale > 0.0:
        adjoint.relative = gap / scale
        if adjoint.relative > 10.0 * CLOSE:
            adjoint.wrong = f"off by {adjoint.relative:.2g} of its scale, more than {10.0 * CLOSE:g}"
    return {"complex steps": steps, "adjoint identity": adjoint}
