"""The diagnosis: which term of an implementation is wrong, from what was seen of it.

First what the contract says (exceptions, dtypes, shapes), then the library of known mistakes, then edits of the formula,
then where and when the wrong elements lie, and last the worst of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.conditions import nonfinite
from equivalence_tests.diagnosis.contract import contract
from equivalence_tests.diagnosis.formula import formula
from equivalence_tests.diagnosis.known import Library, known
from equivalence_tests.diagnosis.layouts import exchanged_axes
from equivalence_tests.diagnosis.stagewise import stagewise
from equivalence_tests.diagnosis.structure import accuracy, only_with, worst_element
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Implementation
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.mistakes import Mistake
from equivalence_tests.observe import Observation
from equivalence_tests.ops import Op

__all__ = ["Library", "explain"]


LAST = ("first_wrong_stage", "wrong_stage")


def explain(
    op: Op,
    seen: Sequence[Observation],
    conduct: Misconduct | None = None,
    broken_laws: Sequence[str] = (),
    library: Collection[Mistake] | None = None,
    implementation: Implementation | None = None,
) -> list[Finding]:
    """What is wrong with a candidate, best first: the first finding is the answer, the others support it or are others.

    `seen` holds failing and passing observations, `conduct` what the check of conduct said, `broken_laws` names of laws.
    `library` is every known mistake of the op where it is None. With an `implementation` more cases may be run, to tell
    hypotheses apart. Nothing wrong: no finding.
    """
    ready = [Seen(each) for each in seen]
    findings = known(op, ready, conduct, broken_laws, library, implementation) if seen else []
    broken = contract(op, ready, conduct, broken_laws)
    findings += [each for each in broken if each.code in ("wrong_dtype", "writes_into_input", "extra_output")]
    names = [name for name in op.outputs if any(each.wrong([name]) for each in ready)]
    forward = bool(names)
    names = names or list(dict.fromkeys(n for each in ready for n, t in each.tensors.items() if t.wrong))
    if names or any(each.raised for each in ready):
        named = any(each.sure for each in findings)
        found = formula(op, ready, forward, named) if op.differentiable else stagewise(op, ready)
        if forward and not found and op.differentiable:  # the outputs may be off in a few cases for another reason
            right = [each for each in ready if each.raised or not each.wrong(op.outputs)]
            found = formula(op, right, forward=False, alone=named)
        findings += found
        others = (nonfinite(op, ready, names), accuracy(op, ready, names))
        findings += [each for each in others if each is not None]
        findings += only_with(op, ready)
    if not findings and implementation is not None and op.differentiable:
        exchanged = exchanged_axes(op, ready, implementation)
        findings += [exchanged] if exchanged else []
    findings += [each for each in broken if each not in findings]
    last = [each for each in findings if each.code in LAST]  # they place it, and know no more
    findings = [each for each in findings if each not in last] + last
    worst = worst_element(ready, names)
    return findings + ([worst] if worst else [])
