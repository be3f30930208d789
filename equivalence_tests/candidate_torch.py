"""Torch's functions, autograd.Functions and modules as plain functions of an op's operands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from equivalence_tests.cases import Case
from equivalence_tests.implementations import Implementation
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.misconduct import Misconduct
from equivalence_tests.ops import Op
from equivalence_tests.run_torch import to_torch


def as_function(candidate: Any, op: Op) -> Callable[..., Any]:
    """A function of the operands. A module's parameters take the place of the operands behind the first.

    ValueError if a module's parameters are not those of the op.
    """
    if isinstance(candidate, type) and issubclass(candidate, torch.autograd.Function):
        return _applied(candidate)
    if isinstance(candidate, type) and issubclass(candidate, torch.nn.Module):
        return _built(candidate, op)
    if isinstance(candidate, torch.nn.Module) and list(candidate.parameters()):
        return _with_parameters(candidate, op)
    function: Callable[..., Any] = candidate
    return function


def _applied(function: Any) -> Callable[..., Any]:
    """`apply`, which takes no keywords, with the signature of its forward."""
    signature = inspect.signature(function.forward)
    parameters = list(signature.parameters.values())
    own = parameters[1:] if "setup_context" not in vars(function) else parameters

    def apply(*positional: Any, **keywords: Any) -> Any:
        given = inspect.Signature(own).bind(*positional, **keywords)
        given.apply_defaults()
        return function.apply(*given.args, *given.kwargs.values())

    apply.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    apply.__name__ = function.__name__
    return apply


def sizes_of(candidate: Any, op: Op) -> dict[str, int]:
    """The sizes that a module's parameters fix, by letter; none for anything else."""
    if not isinstance(candidate, torch.nn.Module) or op.model:
        return {}
    sizes: dict[str, int] = {}
    for (_, letters), (_, parameter, turned) in zip(_behind_the_first(op), _parameters(candidate, op), strict=False):
        shape = parameter.shape[::-1] if turned else parameter.shape
        sizes |= dict(zip(letters.split(), shape, strict=False))
    return sizes


def _behind_the_first(op: Op) -> list[tuple[str, str]]:
    return list(PATTERNS[op.name].operands.items())[1:] if op.name in PATTERNS else []


def _parameters(module: torch.nn.Module, op: Op) -> list[tuple[str, torch.nn.Parameter, bool]]:
    """Name, parameter, and whether it lies (out, in) where the op has (in, out)."""
    inward = op.name in ("self_attention", "multi_head_attention")
    found = []
    for name, parameter in module.named_parameters():
        owner = module.get_submodule(name.rpartition(".")[0])
        found.append((name, parameter, inward and isinstance(owner, torch.nn.Linear)))
    return found


def _with_parameters(module: torch.nn.Module, op: Op) -> Callable[..., Any]:
    parameters, operands = _parameters(module, op), _behind_the_first(op)
    optional = PATTERNS[op.name].optional if op.name in PATTERNS else ()
    least = len([name for name, _ in operands if name not in optional])
    if not least <= len(parameters) <= len(operands) or any(
        parameter.ndim != len(letters.split())
        for (_, parameter, _), (_, letters) in zip(parameters, operands, strict=False)
    ):
        told = ", ".join(f"{name} {tuple(p.shape)}" for name, p, _ in parameters)
        raise ValueError(
            f"{type(module).__name__} has the parameters {told}; {op.name} has "
            f"{', '.join(f'{name} ({letters})' for name, letters in operands) or 'none'}: "
            "give a function of the operands instead"
        )
    first = next(iter(PATTERNS[op.name].operands))
    own = list(inspect.signature(module.forward).parameters.values())[1:]
    taken = [name for (name, _), _ in zip(operands, parameters, strict=False)]

    def function(*positional: Any, **keywords: Any) -> Any:
        X, *values = positional[: 1 + len(parameters)]
        given = {
            name: value.mT if turned else value for (name, _, turned), value in zip(parameters, values, strict=True)
        }
        inputs = (X, *positional[1 + len(parameters) :])
        return torch.func.functional_call(module.eval(), given, inputs, keywords)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in (first, *taken)]
        + [each.replace(kind=each.KEYWORD_ONLY) for each in own if each.kind is each.POSITIONAL_OR_KEYWORD]
    )
    function.__name__ = type(module).__name__
    return function


def _built(module: type[torch.nn.Module], op: Op) -> Callable[..., Any]:
    """A module made anew for each case: from the sizes of its parameters, in the order of their letters."""
    if op.model:
        return _model(module)
    letters = list(dict.fromkeys(" ".join(x for _, x in _behind_the_first(op)).replace("...", "").split()))
    if op.name == "linear":
        letters = ["d", "k"]  # (in, out), as nn.Linear has it
    letters = [x for x in letters if x != "e"]

    def made(sizes: dict[str, int]) -> torch.nn.Module:
        try:
            return module(*(sizes[letter] for letter in letters))
        except TypeError as error:
            raise ValueError(f"{module.__name__}({', '.join(letters)}) raised {error}: give an instance") from None

    example = _with_parameters(made(dict.fromkeys(letters, 2)), op) if letters else module()
    if not letters:
        return example

    def function(*positional: Any, **keywords: Any) -> Any:
        sizes: dict[str, int] = {}
        for (_, pattern), value in zip(_behind_the_first(op), positional[1:], strict=False):
            sizes |= dict(zip(pattern.split(), value.shape, strict=False))
        return _with_parameters(made(sizes).to(positional[1].dtype), op)(*positional, **keywords)

    function.__signature__ = inspect.signature(example)  # type: ignore[attr-defined]
    function.__name__ = module.__name__
    return function


def _model(module: type[torch.nn.Module]) -> Callable[..., Any]:
    """A language model, made from the case's configuration and given the case's parameters."""

    def function(params: Any, ids: Any, config: Any) -> Any:
        return torch.func.functional_call(module(config).eval(), params, (ids,))

    function.__name__ = module.__name__
    return function


def conduct(implementation: Implementation, op: Op, rounded: Case, _: Any, dtype: str) -> Misconduct | None:
    """How a torch function behaves, whatever it computes: the first rule that it breaks, or None.

    It changes no operand; called again, it answers the same to the last bit; its output is no view of an operand.
    """
    function = implementation.forward(op.name)

    def tensors(values: dict[str, Any]) -> dict[str, Any]:
        return {name: tensor(name, value) for name, value in values.items()}

    def tensor(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return tensors(value)
        if not isinstance(value, np.ndarray):
            return value
        layout = rounded.layouts.get(name, "contiguous")
        return to_torch(value, dtype, implementation.device, "strided" if layout == "broadcast" else layout)

    operands, options = tensors(rounded.operands), tensors(rounded.options)
    given = [x for x in (*operands.values(), *options.values()) if isinstance(x, torch.Tensor)]
    before = [x.clone() for x in given]
    with torch.no_grad():
        Ys = _tensors(function(*op.arguments(operands), **options))
        first = [Y.clone() for Y in Ys]
        written = [x for x, y in zip(given, before, strict=True) if not _same(x, y)]
        if written:
            by_design = all(any(_shared(Y, x) for Y in Ys) for x in written)
            return Misconduct("in_place" if by_design else "changes_operands")
        if any(_shared(Y, x) for Y in Ys for x in given if x.numel()):
            return Misconduct("output_shares_memory")
        again = _tensors(function(*op.arguments(operands), **options))
    if any(not _same(x, y) for x, y in zip(first, again, strict=True)):
        return Misconduct("answers_differently")
    if any(not _same(x, y) for x, y in zip(first, Ys, strict=True)):
        return Misconduct("later_call_changes")
    return None


def _shared(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def _tensors(Y: Any) -> list[torch.Tensor]:
    return [Y] if isinstance(Y, torch.Tensor) else [y for y in Y if isinstance(y, torch.Tensor)]


def _same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Equal to the last bit; NaN is to come again in the same place, and is no other number."""
    return x.shape == y.shape and bool(((x == y) | ((x != x) & (y != y))).all())
