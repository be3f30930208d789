"""Check a function and its gradient without a reference: laws, the adjoint identity, and what its own forward says.

    from equivalence_tests.laws_only import check_laws

    report = check_laws(swish, swish_backward, shapes="X: ... n d")
    print(report)
    assert report.passed

The forward alone says what every gradient should be: by complex steps where it lets complex numbers through, else by
central differences with a computed bound. How far rounding may move an answer is measured (see trials.py); no tolerance
is picked. What such a check cannot see is a forward that computes something else than was meant.
"""

from __future__ import annotations

from equivalence_tests.laws_only.checking import check_gradients, check_implementation, check_laws
from equivalence_tests.laws_only.report import LawsReport, Row

__all__ = ["LawsReport", "Row", "check_gradients", "check_implementation", "check_laws"]
