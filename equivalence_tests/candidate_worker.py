"""The process in which a candidate runs: it may hang, exit, print, crash or patch NumPy, and only this process suffers.

The judge lives in another process (see remote.py), sends requests and gets plain values back (see wire.py). The kit's own
modules keep the NumPy that was there before the candidate was imported.
"""

from __future__ import annotations

import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import fields, replace
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any

import numpy as np

from equivalence_tests import wire
from equivalence_tests.candidate import Candidate
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checks import conduct
from equivalence_tests.conventions import of_codes, under
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import NotOffered, one_line, run
from equivalence_tests.laws import LAWS
from equivalence_tests.loading import keep_numpy
from equivalence_tests.ops import OPS, Op
from equivalence_tests.request import Request
from equivalence_tests.signatures import signature_of
from equivalence_tests.trial import forward_raises

ANY = [["operands", int(Parameter.VAR_POSITIONAL), True]]  # of a function of which nothing is known
NOT_SENT = (
    "op",
    "implementation",
    "backward",
    "habits",
    "raw",
    "notes",
    "functions",
    "refused",
)  # the fields of a candidate that the judge makes itself


class _Nowhere:
    """Where a candidate's prints go."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


class Served:
    """One candidate; every public method answers one kind of request."""

    candidate: Candidate

    def describe(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Import it, and say what it is."""
        told: dict[str, Any] = {n: tuple(x) if isinstance(x, list) else x for n, x in asked.items()}
        try:
            self.candidate = Request(**told).candidate()
        except ValueError as error:
            return {"refused": one_line(error).partition(": ")[2]}
        keep_numpy()
        implementation, op = self.candidate.implementation, self.candidate.op
        backward = self.candidate.backward
        return {
            "fields": {
                each.name: getattr(self.candidate, each.name) for each in fields(Candidate) if each.name not in NOT_SENT
            },
            "op": [op.name, list(op.differentiable), op.scalar],
            "pairs": implementation.pairs,
            "dtypes": implementation.dtypes,
            "device": implementation.device,
            "signature": _parameters(implementation.forward(op.name)),
            "backward": None if backward is None else _parameters(backward) or ANY,
        }

    def run(self, op: list[Any], case: Case, dtype: str) -> dict[str, Any]:
        with redirect_stdout(_NOWHERE):
            return run(self.candidate.implementation, _op(op), case, dtype)

    def conduct(self, op: list[Any], case: Case, budgets: dict[str, Any], dtype: str) -> Any:
        """Shared memory and changed arrays can be seen here alone."""
        implementation = self.candidate.implementation
        exact: Any = {name: _Budget(budget) for name, budget in budgets.items()}
        rule: Any = conduct
        if not implementation.pairs:
            from equivalence_tests import candidate_torch

            keep_numpy()
            rule = candidate_torch.conduct
        what = rule(implementation, _op(op), case, exact, dtype)
        return None if what is None else [what.code, what.tensor, what.error]

    def own_line(self, habits: list[Any], cases: list[Any]) -> list[Any]:
        """The line of the user's file in which the mistake is."""
        from equivalence_tests import own_line

        keep_numpy()
        candidate = under(self.candidate, of_codes(self.candidate, [(name, numbers) for name, numbers in habits]))
        seen: Any = [SimpleNamespace(case=case, dtype=dtype, wrong="wrong") for case, dtype in cases]
        return _told(own_line.finding_of(candidate, seen))

    def notes(self) -> list[Any]:
        return _told(self.candidate.notes.values())

    def forward_raises(self, case: Case) -> bool:
        return forward_raises(self.candidate, case)

    def law(self, op: str, name: str, dtype: str) -> Any:
        """One of those laws that hand the candidate what cannot be sent."""
        law = next(law for law in LAWS[op] if law.__name__ == name)
        with redirect_stdout(_NOWHERE):
            return law(self.candidate.implementation, dtype, SeededDraws(np.random.default_rng([0, 0])))


_NOWHERE: Any = _Nowhere()


class _Budget:
    """What the judge allows, as the check of conduct asks for it."""

    def __init__(self, allowed: Any) -> None:
        self.allowed = allowed

    def budget(self) -> Any:
        return self.allowed


def _op(told: list[Any]) -> Op:
    name, differentiable, scalar = told
    return replace(OPS[name], differentiable=tuple(differentiable), scalar=scalar)


def _told(found: Iterable[Finding]) -> list[Any]:
    return [[each.code, each.tensor, each.numbers, each.sure] for each in found]


def _parameters(function: Any) -> list[list[Any]] | None:
    """Name, kind, and whether it must be given; None if nothing is known."""
    told = signature_of(function) if not hasattr(function, "__signature__") else signature(function)
    if told is None:
        return None
    return [[each.name, int(each.kind), each.default is Parameter.empty] for each in told.parameters.values()]


def _answer(method: Callable[..., Any], values: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return {"value": method(*values)}
    except NotOffered as missing:
        return {"not_offered": str(missing)}
    except BaseException as error:  # a candidate may raise anything
        defect = traceback.format_exc() if method.__name__ == "describe" else ""
        return {"raised": one_line(error), "defect": defect}


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the judge; what is raised here is the candidate's
    requests, answers = (int(each) for each in sys.argv[1:])
    keep_numpy()
    served = Served()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # values are judged, not warnings
        while head := wire.read_exactly(requests, wire.HEAD.size):
            told, arrays = wire.lengths(head)
            name, *values = wire.unpack(wire.read_exactly(requests, told), wire.read_exactly(requests, arrays))
            answer = _answer(getattr(served, name), tuple(values))
            wire.write_all(answers, wire.pack(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
