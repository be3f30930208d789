"""Stages that change one line of a formula, and remember all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.close import Seen, fits, spread_of
from equivalence_tests.diagnosis.plain import Finished, Native, Plain, Wide, evaluate
from equivalence_tests.ops import Op
from equivalence_tests.stages import Stages

FINISHED_LATER = ("softmax", "log_softmax")  # a line of that name is not yet the output


@dataclass(frozen=True)
class Edit:
    """What is done to a line, or (with a slot) to what the line uses. `change` is given the value and the stages."""

    of: str
    slot: str
    change: Callable[[Any, Editing], Any]


@dataclass(frozen=True)
class Hypothesis:
    """A wrong formula: some edits of lines, or of the case, and how it is called. The cheapest that fits is believed.

    A hypothesis about the forward is judged by the outputs alone, one about the backward by the gradients.
    """

    code: str
    stage: str
    numbers: dict[str, Any] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    case: Callable[[Case], Case] | None = None
    forward: bool = False
    native: bool = False
    cost: float = 1.0
    order: int = 0  # of its line: of two that fit equally, the later one is nearer to what is seen

    def answer(self, op: Op, case: Case, dtype: str, kind: type[Plain] | None = None) -> dict[str, Array] | None:
        """What the wrong formula answers on a rounded case, or None where it raises."""
        try:
            stage = Editing(op, case, self.edits, op.outputs if self.forward and op.name not in FINISHED_LATER else ())
            changed = self.case(case) if self.case else case
            return evaluate(op, changed, PRECISIONS[dtype], stage, kind or (Native if self.native else Plain))
        except (ValueError, IndexError, TypeError, KeyError, AttributeError, ZeroDivisionError):
            return None

    def explains(self, op: Op, seen: Seen, names: Sequence[str], careful: bool = True) -> set[str] | None:
        """Which tensors of a case it explains; None if the case speaks against it. `careful` measures how it rounds, where
        the right formula's budget does not let it pass.
        """
        dtype = seen.observation.dtype
        said = self.answer(op, seen.case, dtype)
        explained: set[str] | None = fits(said, seen, names)
        if explained is not None or said is None or seen.raised or not careful:
            return explained
        other = self.answer(op, seen.case, dtype, Wide if dtype == "float64" else Plain if self.native else Native)
        if other is None:
            return None
        spread = spread_of(said, other)
        explained = fits(said, seen, names, spread)
        return fits(other, seen, names, spread) if explained is None else explained


class Editing(Stages):
    """Applies the edits. `lines` holds every number met so far by its name, `slots` in which order what was used."""

    edited = True

    def __init__(self, op: Op, case: Case, edits: tuple[Edit, ...] = (), until: tuple[str, ...] = ()) -> None:
        self.op, self.right, self.fixed = op, dict[str, Any](), set[str]()
        self.until = until  # outputs after which nothing more is asked of the formula
        self.case, self.lines, self.slots = case, dict[str, Any](), list[Slot]()
        self.backwards, self.behind = False, set[str]()  # the lines that the backward made
        self.edits: dict[tuple[str, str], list[Edit]] = {}
        for edit in edits:
            self.edits.setdefault((edit.of, edit.slot), []).append(edit)

    def given(self, numbers: dict[str, Any]) -> None:
        self.lines |= {name: number for name, number in numbers.items() if isinstance(number, Plain)}
        self.fixed |= numbers.keys()

    def line(self, name: str) -> Any:
        """A line met so far, or, if it comes later, as the right formula has it."""
        return self.lines[name] if name in self.lines else self.right_line(name)

    def right_line(self, name: str) -> Any:
        """A line as the right formula has it."""
        if not self.right:
            any_line = next(iter(self.lines.values()))
            recorder = Editing(self.op, self.case)
            evaluate(self.op, self.case, any_line.precision, recorder, type(any_line))
            self.right = recorder.lines
        return self.right[name]

    def __call__(self, of: str, value: Any) -> Any:
        value = self._changed(of, "", value)
        if isinstance(value, Plain):
            self.lines[of] = value
            self.fixed.add(of)
            if self.backwards:
                self.behind.add(of)
        self.slots.append(Slot(of, "", value, self.backwards))
        return value

    def use(self, of: str, slot: str, value: Any) -> Any:
        if isinstance(value, Plain) and slot not in self.fixed:
            self.lines[slot] = value
            if self.backwards:
                self.behind.add(slot)
        self.slots.append(Slot(of, slot, value, self.backwards))
        return self._changed(of, slot, value)

    def forward(self) -> None:
        self.backwards = False

    def backward(self) -> None:
        self.backwards = True
        if self.until and all(name in self.lines for name in self.until):
            raise Finished({name: self.lines[name] for name in self.until})

    def _changed(self, of: str, slot: str, value: Any) -> Any:
        for edit in self.edits.get((of, slot), ()):
            value = edit.change(value, self)
        return value


@dataclass(frozen=True)
class Slot:
    """A line (no slot) or what it uses, as a formula met it."""

    of: str
    slot: str
    value: Any
    backward: bool
