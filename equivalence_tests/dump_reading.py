"""The lines of a formula gone through twice: from the operands, and from what the dump has of the lines before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array, Bounded, Precision, round_to
from equivalence_tests.dump_arrays import Dump
from equivalence_tests.dump_findings import Culprit
from equivalence_tests.dump_lines import AS_DUMPED, Line, lines_of, local_lines_of, upstream_of, with_infinities
from equivalence_tests.implementations import Tensor
from equivalence_tests.judge import Judgement, judge_tensor
from equivalence_tests.ops import Op


@dataclass(frozen=True)
class Row:
    """One tensor of a dump that follows from others.

    `verdict` is "right", "wrong" (the line itself is), "follows" (wrong, but right given what is wrong before it), "ill"
    (the budget is too loose to speak of agreement) or "not judged"; `why` says it in words. `share` and `units` are those
    of the judgement from the operands alone. `given` names the nearest tensors at hand from which the line was judged.
    """

    name: str
    dtype: str
    verdict: str
    why: str = ""
    share: float = 0.0
    units: float = 0.0
    given: tuple[str, ...] = ()


@dataclass(frozen=True)
class Given:
    """A tensor as it stands in the dump. An operand is what the system was given, and is rounded only where a coarser
    format cannot hold it; whatever was computed may have been rounded when it was written down.
    """

    value: Array
    computed: bool

    def at(self, precision: Precision) -> Bounded:
        rounded = np.ones(self.value.shape, bool) if self.computed else round_to(self.value, precision) != self.value
        error = np.where(rounded, precision.unit * np.abs(self.value) + precision.tiny, 0.0)
        X = Bounded(self.value, precision, error)
        return with_infinities(X, X.error)


class Reading:
    """The lines gone through, twice. `state` holds every operand and line by name: as given, as computed, or integers."""

    def __init__(self, op: Op, dump: Dump) -> None:
        self.op, self.dump, self.upstream = op, dump, upstream_of(op)
        self.lines = {name: line for line in local_lines_of(op, dump.names, dump.options) for name in line.names}
        hidden = [each for line in {id(line): line for line in self.lines.values()}.values() for each in line.hidden]
        self.repeated = {
            each for each in hidden if hidden.count(each) > 1
        }  # right in one place, it may be wrong in another
        self.operands: dict[str, Any] = {n: dump.integers.get(n, self._given(n, False)) for n in dump.names}
        self.precisions = {name: PRECISIONS[tensor.dtype] for name, tensor in dump.numbers.items()}
        self.exact: dict[str, Bounded] = {}
        self.verdicts: dict[str, Judgement] = {}  # of the dump's tensors, from the operands alone
        self.absent: dict[str, str] = {}  # of a line that the operands do not lead to: what is missing

    def _given(self, name: str, computed: bool) -> Given | None:
        tensor = self.dump.numbers.get(name)
        return None if tensor is None else Given(tensor.value.astype(np.float64), computed)

    def compute(self, line: Line, state: dict[str, Any]) -> dict[str, Bounded]:
        """What a line gives, in the coarsest format of all that goes into it and comes out of it."""
        formats = [self.precisions[name] for name in (*line.needs, *line.names) if name in self.precisions]
        precision = _coarsest(formats)
        values = line.compute(*(_at(state[name], precision) for name in line.needs))
        self.precisions |= dict.fromkeys(line.names, precision)
        return dict(zip(line.names, values if isinstance(values, tuple) else (values,), strict=True))

    def from_operands(self) -> None:
        """Every line's exact value, and the verdict on what the dump has of it."""
        state = dict(self.operands)
        for line in lines_of(self.op, self.dump.names, self.dump.options):
            missing = next((name for name in line.needs if name not in state), "")
            if missing:
                self.absent |= dict.fromkeys(line.names, self.absent.get(missing, missing))
                continue
            self.exact |= (values := self.compute(line, state))
            state |= values
            for name in set(values) & self.dump.numbers.keys():
                self.verdicts[name] = self.judge(name, values[name])

    def judge(self, name: str, truth: Bounded) -> Judgement:
        return judge_tensor(name, Tensor(self.dump.numbers[name].value, truth.precision.name), truth, truth.precision)

    def from_dump(self) -> tuple[list[Row], list[Culprit]]:
        """Every tensor of the dump, judged from those before it."""
        state, origins, rows, culprits = dict(self.operands), dict[str, set[str]](), list[Row](), list[Culprit]()
        for name in self.dump.numbers:
            state[name + AS_DUMPED] = self._given(name, True)
            self.precisions[name + AS_DUMPED] = self.precisions[name]
            origins[name + AS_DUMPED] = {name}
        for line in local_lines_of(self.op, self.dump.names, self.dump.options):
            sources = set[str]().union(*(origins.get(name, ()) for name in line.needs))
            missing = next((name for name in line.needs if name not in state), "")
            known = all(name in self.exact for name in line.names)
            values: dict[str, Bounded] = {}
            if not missing:
                try:
                    values = self.exact if known and not sources else self.compute(line, state)
                except ValueError:
                    missing = f"a {' or '.join(sorted(sources))} that fits"
            for name in line.names:
                row, culprit = self._judged(name, values.get(name), missing, bool(sources))
                rows += [row] if row else []
                culprits += [culprit] if culprit else []
                misshapen = culprit is not None and culprit.got.shape != culprit.truth.value.shape
                if (culprit and not misshapen) or (row and missing):
                    state[name], origins[name] = self._given(name, True), {name}
                elif row and name in self.verdicts and not self.verdicts[name].wrong:
                    state[name] = self.exact[name]
                elif not missing:
                    state[name], origins[name] = values[name], sources
        return rows, culprits

    def _judged(self, name: str, truth: Bounded | None, missing: str, again: bool) -> tuple[Row | None, Culprit | None]:
        """The row of a tensor, and what is to be said of it if it is itself the wrong one."""
        tensor = self.dump.numbers.get(name)
        if tensor is None:
            return None, None
        if truth is None:
            return Row(name, tensor.dtype, "not judged", f"{self.absent.get(missing, missing)} is missing"), None
        first = self.verdicts.get(name)
        local = self.judge(name, truth) if again or first is None else first
        shown, given = first or local, self.given(name)
        ill = "ill" if shown.ill else "right"
        verdict = ill if not shown.wrong else "wrong" if local.wrong else "follows"
        row = Row(name, tensor.dtype, verdict, shown.wrong, shown.share, shown.units, given)
        if verdict != "wrong":
            return row, None
        lines = tuple(each for each in given if each in self.lines and not self.of_backward(each))
        return row, Culprit(name, tensor.value, truth, given, self.between(name), lines, self.of_backward(name))

    def given(self, name: str) -> tuple[str, ...]:
        """The nearest tensors at hand that a line follows from."""
        needs = [need for need in self.lines[name].needs if need not in self.lines[name].aside]
        if len(needs) > SHOWN:
            return ("params", *self.dump.integers)
        found = [at for need in needs for at in ([need] if self._at_hand(need) else self.given(need))]
        return tuple(dict.fromkeys(each.removesuffix(AS_DUMPED) for each in found))

    def between(self, name: str) -> tuple[str, ...]:
        """The lines from there to it that are not at hand, in the order of the formula."""
        unseen = [line for line in self.lines if line in self._unseen(name)]
        hidden = [each for line in (*unseen, name) for each in self.lines[line].hidden]
        return tuple(dict.fromkeys([*unseen, *hidden]))

    def of_backward(self, name: str) -> bool:
        """Whether a line follows from an upstream gradient."""
        needs = [need for need in self.lines[name].needs if need not in self.lines[name].aside]
        return any(need in self.upstream or (need in self.lines and self.of_backward(need)) for need in needs)

    def _unseen(self, name: str) -> set[str]:
        line = self.lines[name]
        hidden = [need for need in line.needs if need not in line.aside and not self._at_hand(need)]
        return set(hidden).union(*(self._unseen(need) for need in hidden))

    def _at_hand(self, name: str) -> bool:
        return name in self.dump.numbers or name not in self.lines


SHOWN = 8  # operands of one line that are named one by one: a model has dozens


def _at(entry: Any, precision: Precision) -> Any:
    """A number in the format of the line that uses it."""
    if isinstance(entry, Given):
        return entry.at(precision)
    if isinstance(entry, Bounded) and entry.precision != precision:
        return with_infinities(Bounded(entry.value, precision, entry.error), entry.error)
    return entry


def _coarsest(formats: Sequence[Precision]) -> Precision:
    coarsest = max(formats, key=lambda each: each.unit)
    tiny, largest = max(each.tiny for each in formats), min(each.largest for each in formats)
    return replace(coarsest, tiny=tiny, largest=largest, sums=max(each.sums for each in formats))
