"""What a candidate refuses: the option, pair of options, number of leading axes, strides or sizes behind what it raised.

A refusal is no mistake: the cases that it explains are not judged, and the report says which. What raises elsewhere, or by
a slip in the code (a name that is not there, a division by 0), stays wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import lay_out
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.misconduct import READ_ONLY

LEAST, RIGHT = 3, 5  # observations that raised, and that did not, before anything is concluded
MANY = 8  # raises for each case that is taken nevertheless
SLIPS = ("NameError", "UnboundLocalError", "AttributeError", "KeyError", "ZeroDivisionError", "RecursionError")
STRAY = (*SLIPS, "IndexError")  # for options: an index out of range is a slip there, and tells of axes elsewhere
ENDED = ("MemoryError", "SystemExit", "KeyboardInterrupt")
FOLLOWS = {"p": "keep", "query_offset": "causal"}  # options that never come without another


class Seen(Protocol):
    """What is known of one call: an `Observation` is one."""

    @property
    def case(self) -> Case: ...
    @property
    def raised(self) -> str: ...
    @property
    def wrong(self) -> str: ...


@dataclass(frozen=True)
class Restriction:
    """One thing that a candidate does not take. `code` is one of

    refuses_option, refuses_together: the `names` of the options;
    takes_lead: `numbers` are the counts of leading axes that it takes;
    takes_contiguous: no strided views;
    takes_equal: sizes of two letters, `names`, that have to be one;
    takes_powers: a letter, whose size has to be a power of 2.
    """

    code: str
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    def excludes(self, op: str, case: Case) -> bool:
        """Whether the case asks for what it does not take."""
        if self.code in ("refuses_option", "refuses_together"):
            return all(_is_given(case, name) for name in self.names)
        if self.code == "takes_lead":
            return _leading(op, case) not in self.numbers
        if self.code == "takes_contiguous":
            return any(_is_strided(case, name) for name in case.layouts)
        sizes = _sizes(op, case)
        if self.code == "takes_equal":
            return sizes.get(self.names[0]) != sizes.get(self.names[1])
        size = sizes.get(self.names[0], 1)
        return bool(size & (size - 1))

    def finding(self, count: int = 0) -> Finding:
        """What is said of it, with the number of cases that were not judged."""
        numbers: dict[str, Any] = {"cases": count}
        if self.code.startswith("refuses"):
            numbers |= {"option": self.names[-1], "options": ", ".join(self.names)}
        if self.code == "takes_lead":
            numbers |= {"lead": self.numbers[-1], "counts": ", ".join(map(str, self.numbers))}
        if self.code in ("takes_equal", "takes_powers"):
            numbers |= {"letters": ", ".join(self.names), "letter": self.names[-1]}
            numbers["equal"] = ",".join(f"{letter}=5" for letter in self.names)
        return Finding(self.code, numbers=numbers)


def refuses(raised: str) -> bool:
    """Whether an exception may say that something is not taken: it is no slip of the code, and no write into what was
    given."""
    kind = raised.partition(":")[0].rpartition(".")[2]
    return bool(raised) and kind not in (*SLIPS, *ENDED) and READ_ONLY not in raised


def unusable(op: str, seen: Sequence[Seen], forward_raises: Callable[[Case], bool]) -> Finding | None:
    """Why a candidate cannot be judged: its forward raises on each case that it is given, and by no slip in its code."""
    if not seen or not all(each.raised for each in seen):
        return None
    if not all(refuses(each.raised) for each in seen):
        return None
    if not all(forward_raises(each.case) for each in seen):
        return None
    pattern = PATTERNS.get(op)
    operands = ", ".join(f"{n} ({x})" for n, x in pattern.operands.items()) if pattern else "params, ids, config"
    return Finding("never_answers", numbers={"error": seen[0].raised[:200], "operands": operands, "op": op})


def restrictions(op: str, seen: Sequence[Seen]) -> list[Restriction]:
    """What explains the raises: each Restriction excludes only cases that raised or are wrong (but for one in MANY), and
    all that raised are excluded by one. Raises of one kind are explained together, if all of them cannot be."""
    raised = [each for each in seen if each.raised]
    answered = [each for each in seen if not each.raised]
    right = [each for each in answered if not each.wrong]
    right = right if len(right) >= RIGHT else answered
    if len(raised) < LEAST or len(right) < RIGHT:
        return []
    at_once = _explanation(op, raised, right)
    if at_once is not None:
        return [at_once]
    groups: dict[str, list[Seen]] = {}
    for each in raised:
        groups.setdefault(_kind(each.raised), []).append(each)
    found = [_explanation(op, group, right) if len(group) >= LEAST else None for group in groups.values()]
    return list(dict.fromkeys(each for each in found if each is not None))


def _explanation(op: str, raised: Sequence[Seen], right: Sequence[Seen]) -> Restriction | None:
    """The simplest thing that all of these cases ask for, and hardly one of the right ones."""
    types = {each.raised.partition(":")[0].rpartition(".")[2] for each in raised}
    if types & {*SLIPS, *ENDED}:
        return None
    possible = _possible(op, [*raised, *right], options=not types & {*STRAY})
    fitting = [each for each in possible if all(each.excludes(op, one.case) for one in raised)]
    taken = {each: sum(each.excludes(op, one.case) for one in right) for each in fitting}
    best = min(fitting, key=taken.__getitem__, default=None)  # some kernels take at a size what they refuse at others
    return best if best is not None and taken[best] <= len(raised) // MANY else None


def _possible(op: str, seen: Sequence[Seen], options: bool) -> list[Restriction]:
    """Everything that could be refused, the simplest first."""
    given = dict.fromkeys(name for each in seen for name in each.case.options if _is_given(each.case, name))
    names = [name for name in given if FOLLOWS.get(name) not in given and name not in ("config", "num_heads")]
    found = [Restriction("refuses_option", (name,)) for name in names] if options else []
    if op not in PATTERNS:
        return found
    counts = sorted({_leading(op, each.case) for each in seen})
    found += [
        Restriction("takes_lead", (), kept)
        for size in range(len(counts) - 1, 0, -1)
        for kept in combinations(counts, size)
    ]
    found.append(Restriction("takes_contiguous"))
    letters = sorted({letter for each in seen for letter in _sizes(op, each.case)})
    found += [Restriction("takes_equal", pair) for pair in combinations(letters, 2)]
    found += [Restriction("takes_powers", (letter,)) for letter in letters]
    if options:
        found += [Restriction("refuses_together", pair) for pair in combinations(names, 2)]
    return found


def _is_given(case: Case, name: str) -> bool:
    """Whether the case asks for an option: one that is None or False is not there."""
    value = case.options.get(name)
    return value is not None and value is not False


def _is_strided(case: Case, name: str) -> bool:
    """Whether an array comes in a view that is not contiguous: one of a single row is, whatever its layout is called."""
    X = {**case.operands, **case.options}.get(name)
    return isinstance(X, np.ndarray) and not lay_out(X, case.layouts[name]).flags.c_contiguous


def _leading(op: str, case: Case) -> int:
    """How many axes the first operand has in front of those that are its own."""
    name, letters = next(iter(PATTERNS[op].operands.items()))
    return int(np.ndim(case.operands[name])) - len(letters.replace("...", "").split())


def _sizes(op: str, case: Case) -> dict[str, int]:
    """The size of each letter, from the operands' last axes."""
    sizes: dict[str, int] = {}
    for name, pattern in PATTERNS[op].operands.items() if op in PATTERNS else ():
        letters = pattern.replace("...", "").split()
        if name in case.operands and letters:
            sizes |= dict(zip(letters, case.operands[name].shape[-len(letters) :], strict=False))
    return sizes


def _kind(raised: str) -> str:
    """What was raised, without the numbers in it."""
    return re.sub(r"[-\d.]+", "#", raised)[:60]
