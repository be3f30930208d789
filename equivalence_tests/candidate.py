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
    required: frozenset[str]
    convention: Convention = Convention()

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
        absent = [name for name in self.required if name not in {*operands, *options, "params"}]
        if absent:
            raise NotOffered(absent[0])
        if self.convention.layout != "any":
            return four_axes(Case(operands, options, case.upstream, case.hard, case.layouts))
        return Case(operands, options, case.upstream, case.hard, case.layouts)


def four_axes(case: Case) -> Case:
    """With leading axes of 1 before what has fewer than four axes: (B, H, n, c)."""

    def filled(values: dict[str, Any]) -> dict[str, Any]:
        return {
            name: X.reshape((1,) * (4 - X.ndim) + X.shape) if isinstance(X, np.ndarray) and X.ndim else X
            for name, X in values.items()
        }

    layouts = {name: "strided" if layout == "broadcast" else layout for name, layout in case.layouts.items()}
    return Case(filled(case.operands), filled(case.options), filled(case.upstream), case.hard, layouts)


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
) -> Candidate:
    """The candidate behind a function. ValueError, one line, if its signature fits no call of the op."""
    op = op_named(like)
    label = label or getattr(function, "__name__", type(function).__name__)
    framework = _framework_of(function)
    if convention.layout != "any" and like not in ("attention", "simple_attention", "attention_stages"):
        raise ValueError(f"--layout: {like} has no heads' axis, expected one of attention, simple_attention")
    check_device(device)
    if device != "cpu" and framework != "torch":
        raise ValueError(f"--device: {label} is no torch function and runs on cpu, got {device}")
    if framework == "torch":
        from equivalence_tests import candidate_torch

        function = candidate_torch.as_function(function, op)
    backward = backward or _backward_beside(function)
    plan = Plan.of(function, op, label)
    if op.differentiable and backward is None and framework != "torch":
        op = replace(op, differentiable=())
    translate = Translation(op, plan, convention)
    offered = tuple(name for name in options_of(op) if name in plan.names.values())
    left = tuple(name for name in options_of(op) if name not in offered)
    if framework == "torch" and backward is None:
        forward = with_signature(translate.torch_forward(function), op, plan)
        implementation = Implementation(
            label, SimpleNamespace(**{like: forward}), False, ("float64", "float32", "bfloat16", "float16"), device
        )
        return Candidate(label, op, implementation, "autograd", framework, left, plan.required, convention)
    arrays = _converters(function, framework)
    functions = {like: with_signature(translate.forward(function, arrays, backward is not None), op, plan)}
    kind = "forward"
    if op.differentiable:
        functions[f"{like}_backward"] = translate.backward(backward, arrays)
        kind = "pair" if takes_cache(backward, op) else "functional"
    implementation = Implementation(label, SimpleNamespace(**functions), True, ("float64", "float32"), device)
    return Candidate(label, op, implementation, kind, framework, left, plan.required, convention)


def _backward_beside(function: Any) -> Any:
    """NAME_backward in the module where NAME stands, or None."""
    name, module = getattr(function, "__name__", ""), sys.modules.get(getattr(function, "__module__", None) or "")
    return getattr(module, f"{name}_backward", None) if name and module is not None else None


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
    imported = _names_used(function, owner)
    if any(module.__name__.split(".")[0] == "torch" for module in imported):
        return "torch"
    for module in imported:
        if _exchange(module) is not None and module.__name__.split(".")[0] not in ("numpy", "torch"):
            return module.__name__
    return "numpy"


def _names_used(function: Any, owner: ModuleType | None) -> list[ModuleType]:
    """The modules that the function itself refers to, or, if it refers to none, those of its file."""
    scope = vars(owner) if owner is not None else {}
    code = getattr(inspect.unwrap(function), "__code__", None)
    names = code.co_names if code is not None else ()
    used = [scope[name] for name in names if isinstance(scope.get(name), ModuleType)]
    return used or [value for value in scope.values() if isinstance(value, ModuleType)]


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
        return Arrays(lambda x: torch.from_numpy(_writeable(x)), lambda x: x.detach().cpu().numpy())
    from_dlpack = _exchange(importlib.import_module(framework))
    return Arrays(lambda x: from_dlpack(_writeable(x)), _from_dlpack)


def _writeable(X: Any) -> Any:
    """DLPack has no read-only arrays."""
    return X if X.flags.writeable else X.copy()


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
        values = {name: self._laid(value) for name, value in values.items()}
        for name, value in options.items():
            if name in self.plan.names.values():
                values[name] = plain(value)
        if self.convention.mask_true == "drops" and values.get("mask") is not None:
            values["mask"] = ~values["mask"]
        return values

    def _laid(self, X: Any) -> Any:
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
            return self._each(_first(Y, self.op), self._laid)

        return forward

    def forward(self, function: Any, arrays: Arrays, has_backward: bool) -> Callable[..., Any]:
        def forward(*operands: Any, **options: Any) -> Any:
            values = self._each(self._given(operands, options), arrays.to)
            positional, keywords = self.plan.arguments(values)
            answer = function(*positional, **keywords)
            Y, cache = _split(answer, self.op) if has_backward else (_first(answer, self.op), None)
            ours = self._each(self._each(Y, arrays.back), self._laid)
            ours = _scalar(ours) if self.op.scalar else ours
            return (ours, (values, Y, cache)) if self.op.differentiable else ours

        return forward

    def backward(self, backward: Any, arrays: Arrays) -> Callable[..., Any]:
        inverse = dict(self.plan.names)

        def run(dY: Any, cache: Any) -> Any:
            values, Y, own = cache
            dY = self._each(self._each(dY, self._laid), arrays.to)
            if own is not None:
                gradients = backward(dY, own.value)
            else:
                positional, keywords = functional_arguments(backward, self.op, inverse, values, Y, dY)
                gradients = backward(*positional, **keywords)
            if isinstance(gradients, dict) and not self.op.model:
                gradients = _by_name(gradients, [n for n in self.op.differentiable if n in values])
            gradients = tuple(gradients) if isinstance(gradients, list) else gradients
            return self._each(self._each(gradients, arrays.back), self._laid)

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
