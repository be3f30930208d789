"""A function and its gradient that no row of the table describes, made to answer in one way.

A backward may have any of the forms in forms.py; of a torch function without a backward autograd supplies the gradient.
Keyword-only parameters are options, which have no gradient.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from equivalence_tests.implementations import Implementation
from equivalence_tests.laws_only.forms import form_of
from equivalence_tests.ops import Op

Run = Callable[[dict[str, Any], dict[str, Any]], tuple[Any, Any]]
Pull = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Pair:
    """`run(operands, options)` gives Y, as it is returned, and what `pull(dY, remembered)` needs to give the gradients.

    `differentiable` names those operands that have a gradient, in order.
    """

    form: str
    run: Run
    pull: Pull
    differentiable: Callable[[dict[str, Any]], list[str]]
    framework: str = "numpy"
    functions: tuple[Any, ...] = ()  # forward and backward, as they came
    absent: frozenset[str] = frozenset()  # operands whose gradient it does not return


def floating(operands: dict[str, Any]) -> list[str]:
    """The operands that have a gradient: every array of floating-point numbers."""
    return [name for name, value in operands.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One gradient or several, in order."""
    if isinstance(value, dict):
        return tuple(value.values())
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def found_in(gradients: dict[str, Any], name: str) -> Any:
    """The gradient of an operand among gradients by name: as dX, X, grad_X or X_grad."""
    return next(
        (gradients[key] for key in (f"d{name}", name, f"grad_{name}", f"{name}_grad") if key in gradients), None
    )


def backward_beside(forward: Any) -> Any:
    """NAME_backward of the module where the forward NAME stands, or None."""
    name = getattr(forward, "__name__", "")
    return getattr(sys.modules.get(getattr(forward, "__module__", None) or ""), f"{name}_backward", None)


def check_functions(forward: Any, backward: Any, tensors: bool = False) -> None:
    """TypeError, one line, unless these can be a forward and a backward."""
    if not callable(forward):
        raise TypeError(f"forward: a {type(forward).__name__} came, expected a function")
    if backward is not None and not callable(backward):
        raise TypeError(
            f"backward: a {type(backward).__name__} came, expected a function of (dY, cache) or (dY, *inputs)"
        )
    if backward is None and not tensors and not speaks_torch(forward, by_file=True):
        name = getattr(forward, "__name__", "the function")
        raise TypeError(f"backward: none came, and {name} is no torch function; expected a backward beside it")


def of_functions(
    forward: Any, backward: Any, operands: dict[str, Any], options: dict[str, Any], tensors: bool = False
) -> Pair:
    """The pair behind two functions, whose form is told by the backward's signature and one call of the forward.

    `tensors` says that it takes torch's. What the forward raises on these operands is raised.
    """
    if tensors or backward is None or speaks_torch(forward) or speaks_torch(backward):
        return of_torch(forward, backward)
    form = form_of(forward, backward, forward(*operands.values(), **options), operands)

    def run(given: dict[str, Any], chosen: dict[str, Any]) -> tuple[Any, Any]:
        Y, cache = form.split(forward(*given.values(), **chosen))
        return Y, (given, chosen, Y, cache)

    def pull(dY: Any, remembered: Any) -> Any:
        return form.pull(dY, *remembered)

    return Pair(form.kind, run, pull, floating, functions=(forward, backward))


@contextmanager
def one_thread(pair: Pair) -> Iterator[None]:
    """Torch on one thread: for arrays as small as these, more of them only wait for each other."""
    torch = sys.modules.get("torch") if pair.framework == "torch" else None
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def of_the_table(implementation: Implementation, op: Op) -> Pair:
    """An implementation of an op of the table; a model's parameters go in as one dict, and their gradients come as one."""

    def differentiable(operands: dict[str, Any]) -> list[str]:
        return [n for n in operands if "." in n] if op.model else [n for n in op.differentiable if n in operands]

    forward = implementation.forward(op.name)
    if not implementation.pairs:
        return of_torch(forward, None, op.arguments, differentiable)

    def run(operands: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
        Y, cache = forward(*op.arguments(operands), **options)
        return Y, cache

    return Pair("pair", run, implementation.backward(op.name), differentiable)


def of_torch(
    forward: Any,
    backward: Any,
    arrange: Callable[[dict[str, Any]], list[Any]] = lambda operands: list(operands.values()),
    differentiable: Callable[[dict[str, Any]], list[str]] = floating,
) -> Pair:
    """A torch function as a pair over NumPy arrays; its backward is of (dY, *operands), or autograd's where None came."""
    made: Pair = importlib.import_module("equivalence_tests.laws_only.pairs_torch").as_pair(
        forward, backward, arrange, differentiable
    )
    return made


def keyword_only(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


def speaks_torch(function: Any, by_file: bool = False) -> bool:
    """Whether a function takes tensors: a torch module, or one whose own code names torch. Torch is not imported here.

    `by_file` lets the file decide, where the code names no module at all.
    """
    torch = sys.modules.get("torch")
    if torch is None or function is None:
        return False
    if isinstance(function, torch.nn.Module) or (getattr(function, "__module__", None) or "").split(".")[0] == "torch":
        return True
    inner = inspect.unwrap(function.func if isinstance(function, partial) else function)
    if inner is not function:
        return speaks_torch(inner, by_file)
    scope, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    used = [scope[name] for name in (code.co_names if code else ()) if isinstance(scope.get(name), ModuleType)]
    if by_file and not used:
        used = [value for value in scope.values() if isinstance(value, ModuleType)]
    return any(module.__name__.split(".")[0] == "torch" for module in used)
