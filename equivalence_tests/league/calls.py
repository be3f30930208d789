"""Implementations called as their authors' own tests call them: writeable arrays, one forward, one backward."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case
from equivalence_tests.implementations import Implementation, as_upstream, gradients_by_name, prepared
from equivalence_tests.league.configurations import Configuration
from equivalence_tests.ops import Op

Arrays = dict[str, Array]
REFERENCE = Implementation("reference_numpy", reference_numpy, True, ("float64", "float32"))


def outputs_of(op: Op, Y: Any) -> Arrays:
    """The outputs by name, copied: a backward that writes into them is seen by whoever looks afterwards, not here."""
    return dict(zip(op.outputs, (np.array(each) for each in (Y if isinstance(Y, tuple) else (Y,))), strict=True))


def pull_back(implementation: Implementation, op: Op, case: Case, upstream: Arrays, cache: Any) -> Arrays:
    """The gradients by name."""
    gradients = implementation.backward(op.name)(as_upstream(op, upstream), cache)
    return {name: np.asarray(value) for name, value in gradients_by_name(op, case, gradients).items()}


def answer(implementation: Implementation, configuration: Configuration, dtype: str, rounding: str = "") -> Arrays:
    """Outputs and gradients on the case, computed in `dtype` from numbers of the format `rounding` (else of `dtype`)."""
    op, case = configuration.op, configuration.case.rounded(PRECISIONS[rounding or dtype])
    operands, options, upstream = prepared(case, dtype, writeable=True)
    Y, cache = implementation.forward(op.name)(*op.arguments(operands), **options)
    return outputs_of(op, Y) | pull_back(implementation, op, case, upstream, cache)


def outputs(implementation: Implementation, configuration: Configuration, dtype: str) -> Arrays:
    """The forward alone."""
    op, case = configuration.op, configuration.case.rounded(PRECISIONS[dtype])
    operands, options, _ = prepared(case, dtype, writeable=True)
    return outputs_of(op, implementation.forward(op.name)(*op.arguments(operands), **options)[0])


@cache
def expected(configuration: Configuration, dtype: str, rounding: str = "") -> Arrays:
    """What the reference answers."""
    return answer(REFERENCE, configuration, dtype, rounding)
