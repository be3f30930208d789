"""The laws that bad input is refused, forward and backward."""

from __future__ import annotations

from equivalence_tests.cases import Draws
from equivalence_tests.implementations import Implementation


def refuses_bad_input(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """Every refusal of the op: one line of TypeError or ValueError that names the argument."""
    if implementation.there is not None:  # not everything that is wrong can be sent
        return str(implementation.there.law(op, "refuses_bad_input", dtype))
    from equivalence_tests.refusals import REFUSALS, violation  # which is built on the patterns of this package

    return next((text for each in REFUSALS[op] if (text := violation(each, implementation, op, dtype))), "")


def backward_refuses_a_wrong_upstream(op: str, implementation: Implementation, dtype: str, draws: Draws) -> str:
    """NumPy pairs: an upstream gradient of another shape or dtype is refused as bad input is (for a loss: no number)."""
    if implementation.there is not None:
        return str(implementation.there.law(op, "backward_refuses_a_wrong_upstream", dtype))
    from equivalence_tests.refusals import upstream_violation

    return upstream_violation(implementation, op, dtype)
