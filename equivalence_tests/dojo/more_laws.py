"""The laws of an op on more draws than a check takes, and for a forward alone: what hides from the cases shows there."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import reference_numpy
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import SeededDraws
from equivalence_tests.checking import STRICT
from equivalence_tests.checks import attempt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Implementation, NotOffered
from equivalence_tests.laws import LAWS, Law
from equivalence_tests.observe import Observation, observe

if TYPE_CHECKING:
    from equivalence_tests.mistakes import Mistake

DRAWS = 6  # of each law; a model's take long, and are drawn once by the check
SEEN = 12  # cases that the diagnosis is given


def laws_of(op: str) -> list[Law]:
    """Those that a learner's answer is held to."""
    return [law for law in LAWS.get(op, ()) if law.__name__ not in STRICT]


def draws_of(draw: int) -> SeededDraws:
    return SeededDraws(np.random.default_rng([0, draw]))


def completed(candidate: Candidate) -> Implementation:
    """The implementation; of a forward alone with the reference's cache and backward, so that laws can be asked of it."""
    op, implementation = candidate.row, candidate.implementation
    if candidate.kind != "forward" or not op.differentiable:
        return implementation
    right = getattr(reference_numpy, op.name)
    own = implementation.forward(op.name)

    def forward(*operands: Any, **options: Any) -> Any:
        return own(*operands, **options), right(*operands, **options)[1]

    forward.__signature__ = own.__signature__  # type: ignore[attr-defined]
    functions = {op.name: forward, f"{op.name}_backward": getattr(reference_numpy, f"{op.name}_backward")}
    return replace(implementation, module=SimpleNamespace(**functions))


def broken(candidate: Candidate) -> Iterator[str]:
    """The laws that an answer breaks in some draw."""
    if candidate.row.model:
        return
    implementation = completed(candidate)
    for law in laws_of(candidate.op.name):
        if any(attempt(partial(law, implementation, "float64", draws_of(draw))) for draw in range(DRAWS)):
            yield law.__name__


FAR = {"attention": ("Q", 512.0), "simple_attention": ("X", 24.0)}
FAR |= {"self_attention": ("X", 24.0), "multi_head_attention": ("X", 24.0)}


def far_scores(candidate: Candidate) -> list[Observation]:
    """Cases with scores in the thousands, where exp overflows unless a maximum is subtracted; the table's are smaller."""
    found: list[Observation] = []
    if candidate.op.name not in FAR:
        return found
    name, factor = FAR[candidate.op.name]
    for index in range(SEEN):
        case = candidate.row.draw(draws_of(index), False)
        case = replace(case, operands=case.operands | {name: factor * case.operands[name]}, hard=True)
        try:
            seen = observe(candidate.implementation, candidate.op, candidate.taken(case), "float64", index)
        except NotOffered:
            continue
        found.append(seen)
    return found


def findings(candidate: Candidate, library: Collection[Mistake] | None) -> list[Finding]:
    """What is wrong with an answer that every case of the table says is right; nothing if that is so."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # its values are judged, not its warnings
        far, laws = far_scores(candidate), list(broken(candidate))
        if not laws and not any(each.wrong for each in far):
            return []
        return explained(candidate, laws, far, library)


def explained(
    candidate: Candidate, laws: list[str], far: list[Observation], library: Collection[Mistake] | None
) -> list[Finding]:
    """The diagnosis of an answer whose cases of the table are all right."""
    from equivalence_tests import diagnosis  # and with it every known mistake: only where something is wrong

    seen = list(far)
    for index in range(SEEN):
        try:
            case = candidate.taken(candidate.row.draw(draws_of(index), index % 2 == 1))
            seen.append(observe(candidate.implementation, candidate.op, case, "float64", index))
        except NotOffered:
            continue
    return diagnosis.explain(
        candidate.row, seen, broken_laws=laws, library=library, implementation=candidate.implementation
    )
