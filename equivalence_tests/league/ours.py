"""The table as a policy: agreement within the budget and conduct on one case; or on many cases, and every law."""

from __future__ import annotations

from functools import cache, partial

from equivalence_tests import variants
from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import Case
from equivalence_tests.checks import agreement, attempt, conduct, draw_case, find_fault, law_fault
from equivalence_tests.implementations import Implementation
from equivalence_tests.league.configurations import Configuration
from equivalence_tests.mistakes import Mistake, as_implementation
from equivalence_tests.mistakes.matrix import without_laws
from equivalence_tests.ops import OPS, Op

CASES, RIGHT_CASES = 200, 30  # at most, for a mistake; for a right implementation, which takes them all
TABLE_DTYPES = ("float64", "float32")


def within_the_budget(implementation: Implementation, configuration: Configuration, dtype: str) -> str:
    """Every number within its rounding-error budget of the exact value, and the conduct of a pair (equivalence_tests/
    judge.py and checks.py)."""
    rounded, exact = _exact(configuration, dtype)
    return _fault(implementation, configuration.op, rounded, exact, dtype)


def _fault(implementation: Implementation, op: Op, rounded: Case, exact: dict[str, Bounded], dtype: str) -> str:
    wrong = attempt(partial(agreement, implementation, op, rounded, exact, dtype))
    return wrong or attempt(partial(conduct, implementation, op, rounded, exact, dtype))


@cache
def _exact(configuration: Configuration, dtype: str) -> tuple[Case, dict[str, Bounded]]:
    rounded = configuration.case.rounded(PRECISIONS[dtype])
    return rounded, configuration.op.exact(rounded, PRECISIONS[dtype])


def caught_by_the_table(mistake: Mistake) -> bool:
    """The table's cases first, up to 200; every law for what they leave."""
    op = OPS[mistake.op]
    if without_laws(mistake, -(-CASES // op.every)):
        return True
    return find_fault(as_implementation(mistake), op, cases=1) is not None


def rejected_by_the_table(op: Op, variant: str, dtype: str) -> str:
    """Of a right variant: what is wrong on 30 cases, or by every law once in float32; or nothing."""
    bare = variants.implementation(op.name, variant, checked=False)
    for index in range(-(-RIGHT_CASES // op.every)):
        what = within_the_budget(bare, _table_case(op.name, index), dtype)
        if what:
            return f"case {index}, {dtype}: {what}"
    if dtype != "float32":
        return ""
    return law_fault(variants.implementation(op.name, variant), op, dtype, seed=0, times=1)


@cache
def _table_case(op: str, index: int) -> Configuration:
    return Configuration(f"case {index}", OPS[op], draw_case(OPS[op], 0, index))
