"""What a lesson holds its derivation against: complex steps, and the error budget of an op of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case
from equivalence_tests.implementations import Tensor
from equivalence_tests.judge import judge_tensor
from equivalence_tests.ops import OPS

STEP = 2.0**-66


def complex_step(forward: Callable[[Array], Array], X: Array, dY: Array) -> Array:
    """The gradient of sum(dY * forward(X)) with respect to X: one step along the imaginary axis for each element.

    f(x + i h) = f(x) + i h f'(x) up to h^2, so imag(f(x + i h)) / h is f'(x) to the last digits: nothing is subtracted.
    """
    dX = np.zeros(X.shape)
    for index in np.ndindex(X.shape):
        moved = X.astype(np.complex128)
        moved[index] += 1j * STEP
        dX[index] = np.sum(dY * np.imag(forward(moved))) / STEP
    return dX


def budget_used(op: str, given: dict[str, Any], /, **got: Any) -> float:
    """The largest error of the arrays `got`, in shares of the budget that rounding has there: at most 1 if all are right.

    `given` are the operands, the upstream gradient and the options of the op, by name, in float64; `got` are outputs or
    gradients by name. ValueError for a name that the op does not have, and for a wrong shape or dtype.
    """
    precision = PRECISIONS["float64"]
    exact = OPS[op].exact(Case(given, {}, {}), precision)
    used = 0.0
    for name, value in got.items():
        if name not in exact:
            raise ValueError(f"budget_used: {op} has no {name!r}, it has {', '.join(exact)}")
        array = np.asarray(value)
        judgement = judge_tensor(name, Tensor(array, array.dtype.name), exact[name], precision)
        if judgement.wrong and not judgement.share > 1.0:
            raise ValueError(f"budget_used: {judgement.wrong}")
        used = max(used, judgement.share)
    return used
