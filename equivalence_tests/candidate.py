"""A user's own implementation of one op of the table, made to answer as any other implementation does.

It may be a forward alone; a forward with a backward beside it, of `(dY, cache)` or of `(dY, *inputs)`; a torch function,
`autograd.Function` or module (autograd supplies the gradient); a function over arrays of any framework that speaks DLPack.
What its signature does not name is not passed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from equivalence_tests import layers, trial
from equivalence_tests.cases import Case
from equivalence_tests.completing import completed, without_optional
from equivalence_tests.findings import Finding
from equivalence_tests.frameworks import arrays_of, frameworks_of
from equivalence_tests.implementations import Implementation, NotOffered, NotTaken, check_device, has_torch, parameters
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.loading import nearest
from equivalence_tests.ops import OPS, Op
from equivalence_tests.restrictions import Restriction
from equivalence_tests.signatures import (
    OPTIONAL,
    Plan,
    operands_of,
    options_of,
    second_is_a_value,
    takes_cache,
    with_signature,
)
from equivalence_tests.translation import AS_IT_IS, Convention, Translation

__all__ = ["Candidate", "Convention", "Translation", "adapt", "op_named", "with_leading"]

if TYPE_CHECKING:
    from equivalence_tests.conventions import Habit

LAYOUTS = ("any", "bhnc", "bnhc")
MASK_TRUE = ("keeps", "drops")
# For frameworks that compile each operation anew for each shape: leading axes and sizes that differ, one key, one token.
# Where they can be they are those of the laws, for which less is compiled then.
LETTERS = ("lead", *"nmcedkvBHA")
FEW_SHAPES = tuple(
    dict(zip(LETTERS, sizes, strict=True))
    for sizes in (
        (0, 3, 5, 2, 6, 4, 7, 8, 2, 4, 3),
        (2, 3, 5, 2, 6, 4, 7, 8, 2, 4, 3),
        (1, 5, 1, 3, 2, 4, 6, 5, 7, 2, 4),
        (1, 5, 4, 3, 2, 6, 4, 3, 7, 2, 4),
        (1, 1, 3, 1, 1, 1, 3, 1, 3, 3, 1),
    )
)
FEW_CASES = 120  # that they are given, of those sizes


@dataclass(frozen=True)
class Candidate:
    """`op` is the row of the table, without gradients where only a forward came. `kind` says how the gradient is got:
    "forward" (there is none), "pair", "functional" or "autograd". `not_checked` are the options it does not take."""

    label: str
    op: Op
    implementation: Implementation
    kind: str
    framework: str
    not_checked: tuple[str, ...]
    plan: Plan
    plain: bool  # a function to be called as it is, not a module or an autograd.Function
    beside: str  # the name of the backward that stands beside it, if it was found there
    sizes: dict[str, int]  # that a module's own parameters fix
    habits: tuple[Habit, ...] = ()  # other conventions that it is judged under
    raw: Implementation | None = None  # the candidate's own calls, where `implementation` translates them
    convention: Convention = AS_IT_IS
    narrow: frozenset[str] = frozenset()  # integer types that it does not take: int64 goes in instead
    contiguous: bool = False  # it is given contiguous arrays alone
    shapes: tuple[dict[str, int], ...] = ()  # the sizes that are drawn, if few are
    refused: tuple[Restriction, ...] = ()  # what it was seen to refuse: no such case is drawn any more
    notes: dict[str, Finding] = field(default_factory=dict)  # how it was called, by code; grows while it is called
    functions: tuple[Any, ...] = ()  # the user's own, as they came: where their source is looked for
    backward: Any = None  # as it came, or stands beside it

    @property
    def row(self) -> Op:
        """The row of the table, with its gradients, whatever the candidate has."""
        return replace(OPS[self.op.name], formula=self.op.formula)

    @property
    def whole(self) -> bool:
        """Whether every gradient of the row comes back."""
        return self.op.differentiable == self.row.differentiable

    def sizes_at(self, index: int) -> dict[str, int]:
        """The sizes of case number `index` that are not drawn."""
        return self.sizes | (self.shapes[index // 2 % len(self.shapes)] if self.shapes else {})

    def cases_of(self, wanted: int) -> int:
        """How many cases it is given of those that are asked for: fewer where each takes long."""
        return min(wanted, FEW_CASES) if self.shapes else wanted

    def taken(self, case: Case) -> Case:
        """The case without the options that the candidate does not take. NotOffered if it cannot do without one that is
        not there, or if an operand came that it does not take."""
        taken = parameters(self.implementation.forward(self.op.name)) or frozenset()
        case = case if self.op.model else without_optional(case, self.op.name, taken)
        lost = [name for name in case.operands if name not in taken and not self.op.model]
        if lost:
            raise NotOffered(lost[0])
        operands, options = dict(case.operands), {k: v for k, v in case.options.items() if k in taken}
        if "keep" in case.options and "keep" not in options:
            options.pop("p", None)
        if "ignore_index" in case.options and "ignore_index" not in options:
            ignored = operands["targets"] == case.options["ignore_index"]
            operands["targets"] = np.where(ignored, 0, operands["targets"]).astype(operands["targets"].dtype)
        complete = completed(replace(case, operands=operands, options=options), self.op.name, self.plan.required)
        operands, options = complete.operands, complete.options
        absent = [name for name in self.plan.required if name not in {*operands, *options, "params"}]
        if absent:
            raise NotOffered(absent[0])
        for name in {"mask", "bias"} & options.keys():  # (m,) is more than most promise to take, torch too
            options[name] = options[name].reshape((1,) * (2 - options[name].ndim) + options[name].shape)
        found = Case(operands, options, case.upstream, case.hard, case.layouts)
        if self.contiguous:
            found = replace(found, layouts={})
        lead = 2 if self.convention.layout != "any" else self.convention.lead
        found = found if lead is None else with_leading(found, self.op.name, lead)
        for habit in self.habits:
            found = habit.case(found)
        if any(each.excludes(self.op.name, found) for each in self.refused):
            raise NotTaken(self.op.name)
        return found

    @property
    def restricted(self) -> bool:
        """Whether it takes only some sizes or leading axes: laws draw others."""
        return any(each.code in ("takes_lead", "takes_equal", "takes_powers") for each in self.refused)

    def refusing(self, found: Iterable[Restriction]) -> Candidate:
        """The same candidate, not to be asked for what it refuses: by no case, and by no law."""
        found = tuple(found)
        refused = (*self.refused, *(each for each in found if each.code != "takes_contiguous"))
        contiguous = self.contiguous or any(each.code == "takes_contiguous" for each in found)
        name, forward = self.op.name, self.implementation.forward(self.op.name)

        def guarded(*operands: Any, **options: Any) -> Any:
            case = Case(dict(zip(operands_of(self.op), operands, strict=False)), options, {})
            if not self.op.model and any(each.excludes(name, case) for each in refused):
                raise NotTaken(name)
            return forward(*operands, **options)

        guarded.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
        module = SimpleNamespace(**vars(self.implementation.module) | {name: guarded})
        implementation = replace(self.implementation, module=module)
        return replace(self, implementation=implementation, refused=refused, contiguous=contiguous)


def with_leading(case: Case, op: str, count: int) -> Case:
    """With so many leading axes: the first sample of those that are too many, axes of 1 where they are too few."""
    pattern = PATTERNS[op]
    count = max(count, 1) if "..." in pattern.operands.values() else count  # ids, targets: no row is no array

    def fit(name: str, X: Any, letters: str) -> Any:
        if not letters.startswith("...") or not isinstance(X, np.ndarray):
            return X
        axes = len(letters.split()) - 1 + count
        while X.ndim > axes:
            X = X[0]
        return X if name in ("mask", "bias") else X.reshape((1,) * (axes - X.ndim) + X.shape)  # these two broadcast

    def all_of(values: dict[str, Any], patterns: dict[str, str]) -> dict[str, Any]:
        return {name: fit(name, X, patterns.get(name, "")) for name, X in values.items()}

    operands, options = all_of(case.operands, pattern.operands), all_of(case.options, pattern.options)
    options.pop("axis", None)  # a softmax over another axis has no leading axes
    if "ignore_index" in options and (operands["targets"] == options["ignore_index"]).all():
        raise NotOffered("targets")  # the first sample counts none of them
    layouts = {
        name: "strided" if layout in ("broadcast", "reversed") else layout for name, layout in case.layouts.items()
    }
    return Case(operands, options, all_of(case.upstream, pattern.upstream), case.hard, layouts)


def op_named(like: str) -> Op:
    """The row of the table. ValueError with the nearest name if there is none."""
    if like not in OPS:
        raise ValueError(f"--like: {like!r} is not in the table, {nearest(like, OPS)}")
    return OPS[like]


def adapt(
    function: Any,
    like: str,
    *,
    backward: Any = None,
    label: str = "",
    device: str = "cpu",
    convention: Convention = AS_IT_IS,
    without: tuple[str, ...] = (),
) -> Candidate:
    """The candidate behind a function, not to be given the options `without`. What its source does not say, its framework
    or what it remembers, is found by calling it on small cases.

    ValueError, one line, if its signature fits no call of the op.
    """
    op = op_named(like)
    for option in without:
        if option not in options_of(op):
            raise ValueError(f"--without: {like} has no option {option!r}, {nearest(option, options_of(op))}")
    label = label or getattr(function, "__name__", type(function).__name__)
    if convention.lead is not None and like not in PATTERNS:
        raise ValueError(f"--lead: {like} has no leading axes to choose")
    if convention.layout != "any" and like not in ("attention", "simple_attention", "attention_stages"):
        raise ValueError(f"--layout: {like} has no heads' axis, expected one of attention, simple_attention")
    check_device(device)
    frameworks, own = frameworks_of(function), function
    plain_function = inspect.isroutine(function)
    sizes: dict[str, int] = {}
    assumed: Finding | None = None
    if frameworks != ("torch",) and backward is None and layers.is_layer(function):
        function, backward, assumed, sizes = layers.as_pair(function, op, label)
        frameworks = ("numpy",)
    if frameworks == ("torch",):
        from equivalence_tests import candidate_torch

        sizes = candidate_torch.sizes_of(function, op)
        function = candidate_torch.as_function(function, op)
    beside = "" if backward is not None else _backward_beside(function)
    backward = backward or _named(function, beside)
    given = Given(function, backward, op, Plan.of(function, op, label).without(without), label, device, convention)
    given = replace(given, plain=plain_function, beside=beside, sizes=sizes)
    framework = frameworks[0] if len(frameworks) == 1 else _framework_found(given, frameworks)
    if device != "cpu" and framework != "torch":
        raise ValueError(f"--device: {label} is no torch function and runs on cpu, got {device}")
    own_functions = tuple(each for each in (own, backward) if each is not None)
    candidate = replace(_settled(given, framework), functions=own_functions)
    candidate.notes.update({} if assumed is None else {assumed.code: assumed})
    return candidate


@dataclass(frozen=True)
class Given:
    """What came, and how it is to be called."""

    function: Any
    backward: Any
    op: Op
    plan: Plan
    label: str
    device: str
    convention: Convention
    plain: bool = True
    beside: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    narrow: frozenset[str] = frozenset()
    kept: tuple[str, ...] | None = None  # the operands whose gradients come back, where not all do

    def built(self, framework: str, pair: bool = True) -> Candidate:
        """As an implementation over the framework's arrays. `pair`: the forward gives (Y, cache), as far as is known."""
        op, backward, like = self.op, self.backward, self.op.name
        if op.differentiable and backward is None and framework != "torch":
            op = replace(op, differentiable=())
        if self.kept is not None:
            op = replace(op, differentiable=self.kept)
        taken = frozenset(self.plan.names.values())
        translate = Translation(op, self.plan, self.convention, self.narrow)
        if framework == "torch" and backward is None:
            kind, forward = "autograd", with_signature(translate.torch_forward(self.function), op, self.plan)
            dtypes: tuple[str, ...] = ("float64", "float32", "bfloat16", "float16")
            implementation = Implementation(self.label, SimpleNamespace(**{like: forward}), False, dtypes, self.device)
        else:
            kind, arrays = "forward", arrays_of(framework)
            forward = translate.forward(self.function, arrays, backward is not None)
            functions = {like: with_signature(forward, op, self.plan)}
            if op.differentiable:
                kind = "pair" if pair and takes_cache(backward, op, translate.own_names) else "functional"
                functions[f"{like}_backward"] = translate.backward(backward, arrays)
            dtypes = ("float64", "float32")
            implementation = Implementation(self.label, SimpleNamespace(**functions), True, dtypes, self.device)
            if framework not in ("numpy", "torch"):
                numbers = {"framework": framework, "count": len(FEW_SHAPES), "cases": FEW_CASES}
                translate.notes["few_shapes"] = Finding("few_shapes", numbers=numbers)
            if arrays.contiguous:
                translate.notes["contiguous_passed"] = Finding("contiguous_passed", numbers={"framework": framework})
        return Candidate(
            label=self.label,
            op=op,
            implementation=implementation,
            kind=kind,
            framework=framework,
            not_checked=tuple(name for name in (*options_of(op), *OPTIONAL.get(like, ())) if name not in taken),
            plan=self.plan,
            plain=self.plain,
            beside=self.beside,
            sizes=self.sizes,
            convention=self.convention,
            narrow=self.narrow,
            shapes=() if framework in ("numpy", "torch") else FEW_SHAPES,
            notes=translate.notes,
            backward=backward,
        )


def _framework_found(given: Given, frameworks: tuple[str, ...]) -> str:
    """The first framework in which the forward answers a small case; the likeliest if there is none."""
    alone = replace(given, backward=None, beside="")
    for framework in frameworks:
        if (framework != "torch" or has_torch()) and trial.answers(alone.built(framework)):
            return framework
    return frameworks[0]


def _settled(given: Given, framework: str) -> Candidate:
    """The candidate, once it is known which integers it takes, which gradients come back, and what its forward gives."""
    candidate, pair = given.built(framework), True
    notes: dict[str, Finding] = {}
    narrow = trial.not_taken(candidate)
    if narrow:
        given = replace(given, narrow=narrow)
        types = ", ".join(sorted(narrow))
        notes["integers_widened"] = Finding("integers_widened", numbers={"types": types})
        candidate = given.built(framework)
    if candidate.kind in ("pair", "functional"):
        if candidate.kind == "pair" and second_is_a_value(given.backward, given.op):
            pair = trial.remembers(candidate)
        missing = trial.gradients_missing(candidate)
        if missing:
            given = replace(given, kept=tuple(name for name in candidate.op.differentiable if name not in missing))
            told = ", ".join(f"d{name}" for name in missing)
            notes["gradients_not_returned"] = Finding("gradients_not_returned", numbers={"names": told})
        candidate = given.built(framework, pair)
    candidate.notes.update(notes)
    return candidate


def _backward_beside(function: Any) -> str:
    """The name of NAME_backward, if there is one in the module where NAME stands."""
    name = f"{getattr(function, '__name__', '')}_backward"
    return name if hasattr(sys.modules.get(getattr(function, "__module__", None) or ""), name) else ""


def _named(function: Any, name: str) -> Any:
    return getattr(sys.modules[function.__module__], name) if name else None
