"""A user's own implementation of one op of the table, made to answer as any other implementation does.

It may be a forward alone; a forward with a backward beside it, of `(dY, cache)` or of `(dY, *inputs)`; a torch function,
`autograd.Function` or module (autograd supplies the gradient); a function over arrays of any framework that speaks DLPack.
What its signature does not name is not passed.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.implementations import (
    Implementation,
    NotOffered,
    check_device,
    parameters,
    plain,
)
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.loading import nearest
from equivalence_tests.ops import OPS, Op
from equivalence_tests.signatures import (
    Plan,
    functional_arguments,
    operands_of,
    options_of,
    takes_cache,
    with_signature,
)

LAYOUTS = ("any", "bhnc", "bnhc")
MASK_TRUE = ("keeps", "drops")


@dataclass(frozen=True)
class Convention:
    """What the user says of a candidate: how its operands lie, and what True means in a mask."""

    layout: str = "any"
    mask_true: str = "keeps"
    lead: int | None = None  # leading axes that the operands are to have; None: none, one or two


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
    convention: Convention = Convention()
    backward: Any = None  # as it came, or stands beside it

    @property
    def row(self) -> Op:
        """The row of the table, with its gradients, whatever the candidate has."""
        return OPS[self.op.name]

    def taken(self, case: Case) -> Case:
        """The case without the options that the candidate does not take. NotOffered if it cannot do without one that is
        not there, or if an operand came that it does not take."""
        taken = parameters(self.implementation.forward(self.op.name)) or frozenset()
        lost = [name for name in case.operands if name not in taken and not self.op.model]
        if lost:
            raise NotOffered(lost[0])
        operands, options = dict(case.operands), {k: v for k, v in case.options.items() if k in taken}
        if "keep" in case.options and "keep" not in options:
            options.pop("p", None)
        if "ignore_index" in case.options and "ignore_index" not in options:
            ignored = operands["targets"] == case.options["ignore_index"]
            operands["targets"] = np.where(ignored, 0, operands["targets"]).astype(operands["targets"].dtype)
        absent = [name for name in self.plan.required if name not in {*operands, *options, "params"}]
        if absent:
            raise NotOffered(absent[0])
        for name in {"mask", "bias"} & options.keys():  # (m,) is more than most promise to take, torch too
            options[name] = options[name].reshape((1,) * (2 - options[name].ndim) + options[name].shape)
        found = Case(operands, options, case.upstream, case.hard, case.layouts)
        lead = 2 if self.convention.layout != "any" else self.convention.lead
        return found if lead is None else with_leading(found, self.op.name, lead)


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
    convention: Convention = Convention(),
    without: tuple[str, ...] = (),
) -> Candidate:
    """The candidate behind a function, not to be given the options `without`.

    ValueError, one line, if its signature fits no call of the op.
    """
    op = op_named(like)
    for option in without:
        if option not in options_of(op):
            raise ValueError(f"--without: {like} has no option {option!r}, {nearest(option, options_of(op))}")
    label = label or getattr(function, "__name__", type(function).__name__)
    framework = _framework_of(function)
    if convention.lead is not None and like not in PATTERNS:
        raise ValueError(f"--lead: {like} has no leading axes to choose")
    if convention.layout != "any" and like not in ("attention", "simple_attention", "attention_stages"):
        raise ValueError(f"--layout: {like} has no heads' axis, expected one of attention, simple_attention")
    plain_function = inspect.isroutine(function)
    check_device(device)
    if device != "cpu" and framework != "torch":
        raise ValueError(f"--device: {label} is no torch function and runs on cpu, got {device}")
    sizes: dict[str, int] = {}
    if framework == "torch":
        from equivalence_tests import candidate_torch

        sizes = candidate_torch.sizes_of(function, op)
        function = candidate_torch.as_function(function, op)
    beside = "" if backward is not None else _backward_beside(function)
    backward = backward or _named(function, beside)
    plan = Plan.of(function, op, label).without(without)
    if op.differentiable and backward is None and framework != "torch":
        op = replace(op, differentiable=())
    translate = Translation(op, plan, convention)
    offered = tuple(name for name in options_of(op) if name in plan.names.values())
    left = tuple(name for name in options_of(op) if name not in offered)
    if framework == "torch" and backward is None:
        kind, forward = "autograd", with_signature(translate.torch_forward(function), op, plan)
        dtypes: tuple[str, ...] = ("float64", "float32", "bfloat16", "float16")
        implementation = Implementation(label, SimpleNamespace(**{like: forward}), False, dtypes, device)
    else:
        kind, arrays = "forward", _converters(function, framework)
        functions = {like: with_signature(translate.forward(function, arrays, backward is not None), op, plan)}
        if op.differentiable:
            kind = "pair" if takes_cache(backward, op) else "functional"
            functions[f"{like}_backward"] = translate.backward(backward, arrays)
        implementation = Implementation(label, SimpleNamespace(**functions), True, ("float64", "float32"), device)
    return Candidate(
        label=label,
        op=op,
        implementation=implementation,
        kind=kind,
        framework=framework,
        not_checked=left,
        plan=plan,
        plain=plain_function,
        beside=beside,
        sizes=sizes,
        convention=convention,
        backward=backward,
    )


def _backward_beside(function: Any) -> str:
    """The name of NAME_backward, if there is one in the module where NAME stands."""
    name = f"{getattr(function, '__name__', '')}_backward"
    return name if hasattr(sys.modules.get(getattr(function, "__module__", None) or ""), name) else ""


def _named(function: Any, name: str) -> Any:
    return getattr(sys.modules[function.__module__], name) if name else None


# Frameworks


def _framework_of(function: Any) -> str:
    """The framework whose arrays a function takes: by its type, or by the modules that its own module imports."""
    owner = sys.modules.get(getattr(function, "__module__", None) or "")
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(function, torch.nn.Module):
            return "torch"
        if isinstance(function, type) and issubclass(function, torch.nn.Module | torch.autograd.Function):
            return "torch"
        if (getattr(function, "__module__", None) or "").split(".")[0] in ("torch", "torch_impl"):
            return "torch"
        if isinstance(function, type(torch.relu)) and getattr(torch._C._nn, function.__name__, None) is function:
            return "torch"
    if "Tensor" in str(getattr(function, "__annotations__", "")):
        return "torch"
    imported = _modules_used(function, owner)
    if any(module.__name__.split(".")[0] == "torch" for module in imported):
        return "torch"
    for module in imported:
        if _exchange(module) is not None and module.__name__.split(".")[0] not in ("numpy", "torch"):
            return module.__name__
    return "numpy"


def _modules_used(function: Any, owner: ModuleType | None) -> list[ModuleType]:
    """The modules that a function refers to, itself or through functions of its own file; if there are none, those that
    its file imports, unless NumPy is one of them: then it is taken for a function over NumPy arrays."""
    if owner is None:
        return []
    scope = vars(owner)
    found: list[ModuleType] = []
    waiting, seen = [function], set()
    while waiting:
        code = getattr(inspect.unwrap(waiting.pop()), "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        values = [scope.get(name) for name in code.co_names]
        found += [value for value in values if isinstance(value, ModuleType)]
        waiting += [value for value in values if inspect.isfunction(value) and value.__module__ == owner.__name__]
    every = [value for value in scope.values() if isinstance(value, ModuleType)]
    return found or ([] if any(module.__name__ == "numpy" for module in every) else every)


def _exchange(module: ModuleType) -> Any:
    """`from_dlpack` of an array framework: its own, or that of its dlpack module."""
    return getattr(module, "from_dlpack", None) or getattr(getattr(module, "dlpack", None), "from_dlpack", None)


@dataclass(frozen=True)
class Arrays:
    """To the framework's arrays and back. Memory is shared where it can be, so that what is changed is seen."""

    to: Callable[[Any], Any]
    back: Callable[[Any], Any]


def _converters(function: Any, framework: str) -> Arrays:
    if framework == "numpy":
        return Arrays(lambda x: x, lambda x: x)
    if framework == "torch":
        torch = importlib.import_module("torch")
        return Arrays(lambda x: torch.from_numpy(_forward_strides(x)), lambda x: x.detach().cpu().numpy())
    from_dlpack = _exchange(importlib.import_module(framework))
    return Arrays(lambda x: from_dlpack(_writeable(x)), _from_dlpack)


def _writeable(X: Any) -> Any:
    """DLPack has no read-only arrays."""
    return X if X.flags.writeable else X.copy()


def _forward_strides(X: Any) -> Any:
    """Torch has no reversed views either."""
    return _writeable(X) if all(stride >= 0 for stride in X.strides) else X.copy()


def _from_dlpack(X: Any) -> Any:
    return np.from_dlpack(X) if hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) else X


# Calls


@dataclass(frozen=True)
class Translation:
    """From the table's call to the candidate's, and its answer back."""

    op: Op
    plan: Plan
    convention: Convention

    def _given(self, operands: Iterable[Any], options: dict[str, Any]) -> dict[str, Any]:
        """Every operand and option by the table's name, in the candidate's layout."""
        values = dict(zip(operands_of(self.op), operands, strict=False))
        values = {name: self.laid(value) for name, value in values.items()}
        for name, value in options.items():
            if name in self.plan.names.values():
                values[name] = plain(value)
        if self.convention.mask_true == "drops" and values.get("mask") is not None:
            values["mask"] = ~values["mask"]
        return values

    def laid(self, X: Any) -> Any:
        """(B, H, n, c) <-> (B, n, H, c): its own inverse."""
        return X.swapaxes(-2, -3) if self.convention.layout == "bnhc" and getattr(X, "ndim", 0) == 4 else X

    def _each(self, values: Any, convert: Callable[[Any], Any]) -> Any:
        """Every array in a nest of tuples and dicts converted."""
        if isinstance(values, tuple):
            return tuple(self._each(value, convert) for value in values)
        if isinstance(values, list):
            return [self._each(value, convert) for value in values]
        if isinstance(values, dict):
            return {name: self._each(value, convert) for name, value in values.items()}
        is_array = hasattr(values, "__array__") or hasattr(values, "__dlpack__")
        return convert(values) if is_array and not isinstance(values, np.generic) else values

    def torch_forward(self, function: Any) -> Callable[..., Any]:
        def forward(*operands: Any, **options: Any) -> Any:
            positional, keywords = self.plan.arguments(self._given(operands, options))
            Y = function(*positional, **keywords)
            return self._each(_first(Y, self.op), self.laid)

        return forward

    def forward(self, function: Any, arrays: Arrays, has_backward: bool) -> Callable[..., Any]:
        def forward(*operands: Any, **options: Any) -> Any:
            values = self._each(self._given(operands, options), arrays.to)
            positional, keywords = self.plan.arguments(values)
            answer = function(*positional, **keywords)
            Y, cache = _split(answer, self.op) if has_backward else (_first(answer, self.op), None)
            ours = self._each(self._each(Y, arrays.back), self.laid)
            ours = _scalar(ours) if self.op.scalar else ours
            return (ours, (values, Y, cache)) if self.op.differentiable else ours

        return forward

    def backward(self, backward: Any, arrays: Arrays) -> Callable[..., Any]:
        inverse = dict(self.plan.names)

        def run(dY: Any, cache: Any) -> Any:
            values, Y, own = cache
            dY = self._each(self._each(dY, self.laid), arrays.to)
            if own is not None and takes_cache(backward, self.op):
                gradients = backward(dY, own.value)
            else:
                positional, keywords = functional_arguments(backward, self.op, inverse, values, Y, dY)
                gradients = backward(*positional, **keywords)
            if isinstance(gradients, dict) and not self.op.model:
                gradients = _by_name(gradients, [n for n in self.op.differentiable if n in values])
            gradients = tuple(gradients) if isinstance(gradients, list) else gradients
            return self._each(self._each(gradients, arrays.back), self.laid)

        return run


@dataclass(frozen=True)
class Own:
    """What a pair's forward remembers: opaque, and possibly None."""

    value: Any


def _split(answer: Any, op: Op) -> tuple[Any, Own | None]:
    """(Y, cache) of a pair, or Y alone."""
    if isinstance(answer, tuple) and len(answer) == 2 and (len(op.outputs) == 1 or isinstance(answer[0], tuple)):
        return answer[0], Own(answer[1])
    return answer, None


def _first(answer: Any, op: Op) -> Any:
    """Y, without what else came with it: a cache, or attention weights."""
    if isinstance(answer, tuple) and len(op.outputs) == 1:
        return answer[0]
    two = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], tuple)
    return answer[0] if two and len(op.outputs) > 1 else answer


def _scalar(Y: Any) -> Any:
    """A loss may be a Python float or an array without axes: here it is a NumPy scalar."""
    if isinstance(Y, float):
        return np.float64(Y)
    return Y[()] if isinstance(Y, np.ndarray) and Y.ndim == 0 else Y


def _by_name(gradients: dict[str, Any], names: list[str]) -> Any:
    """Gradients that came as {"dX": ...} or {"X": ...}, in the order of the signature."""
    found = tuple(gradients.get(f"d{name}", gradients.get(name)) for name in names)
    return found[0] if len(names) == 1 else found
