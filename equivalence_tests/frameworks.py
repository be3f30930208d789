"""The framework whose arrays a function takes: what its source refers to, and the arrays on the way there and back."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

OURS = {"torch_impl": "torch", "reference_numpy": "numpy", "equivalence_tests": "numpy"}
# Modules of the standard library and others have no arrays; those that have say so by `from_dlpack`.
DEEPEST = 400  # functions that are followed from one


def frameworks_of(function: Any) -> tuple[str, ...]:
    """The frameworks whose arrays a function may take, the likeliest first; one alone where there is no doubt.

    What the function and its helpers refer to tells most; where they refer to nothing, what their modules import.
    """
    if _is_torchs_own(function) or "Tensor" in str(getattr(function, "__annotations__", "")):
        return ("torch",)
    direct, around = _referred(function)
    others = [name for name in direct if name not in ("numpy", "torch")]
    if others:
        return (others[0],)
    if "torch" in direct:
        return ("torch", "numpy") if "numpy" in direct else ("torch",)
    if "numpy" in direct:
        return ("numpy", "torch") if "torch" in around else ("numpy",)
    if "torch" in around:
        return ("torch", "numpy")
    others = [name for name in around if name not in ("numpy", "torch")]
    if "numpy" in around or others:
        return ("numpy",) if "numpy" in around else (others[0],)
    return ("numpy", "torch")


def _is_torchs_own(function: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    kind = function if isinstance(function, type) else type(function)
    if issubclass(kind, torch.nn.Module | torch.autograd.Function):
        return True
    if (getattr(function, "__module__", None) or "").split(".")[0] in ("torch", "torch_impl"):
        return True
    return isinstance(function, type(torch.relu)) and getattr(torch._C._nn, function.__name__, None) is function


def _referred(function: Any) -> tuple[list[str], list[str]]:
    """The frameworks that a function refers to, itself or through helpers of the user's; and those that the modules where
    these stand refer to anywhere."""
    direct: list[str] = []
    around: list[str] = []
    waiting: list[Any] = [function]
    seen: set[int] = set()
    scopes: set[int] = set()
    while waiting and len(seen) < DEEPEST:
        each = inspect.unwrap(waiting.pop())
        each = each.func if isinstance(each, partial) else each
        if id(each) in seen:
            continue
        seen.add(id(each))
        scope, names = _scope_of(each), set(_names_in(each))
        if id(scope) not in scopes:
            scopes.add(id(scope))
            around += [found for value in list(scope.values()) if (found := _framework_of_value(value))]
        direct += [name for name in names if name == "torch" and name not in scope]  # imported inside a function
        for name in sorted(names & scope.keys()):
            value = scope[name]
            found = _framework_of_value(value)
            if found:
                direct.append(found)
            elif isinstance(value, FunctionType | type | partial) or hasattr(value, "__wrapped__"):
                waiting.append(value)
    return list(dict.fromkeys(direct)), list(dict.fromkeys(around))


def _scope_of(value: Any) -> dict[str, Any]:
    """The global names of the module where a function, a class or an object stands, and what a closure holds."""
    found = getattr(value, "__globals__", None)
    if found is None:
        owner = sys.modules.get(str(getattr(value, "__module__", None) or type(value).__module__))
        return vars(owner) if owner is not None else {}
    held = inspect.getclosurevars(value).nonlocals if isinstance(value, FunctionType) and value.__closure__ else {}
    return {**found, **held} if held else found


def _names_in(value: Any) -> Iterator[str]:
    """The global names in a function's code and in the functions inside it; in all methods of a class or an object."""
    if isinstance(value, FunctionType):
        yield from _names_in_code(value.__code__)
        return
    kind = value if isinstance(value, type) else type(value)
    for method in vars(kind).values():
        method = getattr(method, "__func__", method)
        if isinstance(method, FunctionType):
            yield from _names_in_code(method.__code__)


def _names_in_code(code: CodeType) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in_code(constant)


def _framework_of_value(value: Any) -> str:
    """The framework that a global value is of: a module, or something that a framework's module defines."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(name, str):
        return ""
    root = name.split(".")[0]
    if root in ("numpy", "torch") or root in OURS:
        return OURS.get(root, root)
    if isinstance(value, ModuleType):
        return name if exchange(value) is not None else ""
    inside = (sys.modules.get(each) for each in (f"{root}.numpy", root))
    return next((each.__name__ for each in inside if each is not None and exchange(each) is not None), "")


def exchange(module: ModuleType) -> Any:
    """`from_dlpack` of an array framework: its own, or that of its dlpack module."""
    return getattr(module, "from_dlpack", None) or getattr(getattr(module, "dlpack", None), "from_dlpack", None)


@dataclass(frozen=True)
class Arrays:
    """To the framework's arrays and back. Memory is shared where it can be, so that what is changed is seen.

    `contiguous` tells that the framework takes no strided views: it is given copies instead of them.
    """

    to: Callable[[Any], Any]
    back: Callable[[Any], Any]
    contiguous: bool = False


def arrays_of(framework: str) -> Arrays:
    if framework == "numpy":
        return Arrays(lambda x: x, lambda x: x)
    if framework == "torch":
        torch = importlib.import_module("torch")
        return Arrays(lambda x: torch.from_numpy(_forward_strides(x)), lambda x: x.detach().cpu().numpy())
    from_dlpack = exchange(importlib.import_module(framework))
    try:
        from_dlpack(np.zeros((2, 4), np.float32)[:, ::2])
    except Exception:  # each framework has an error of its own
        return Arrays(lambda x: from_dlpack(_writeable(np.ascontiguousarray(x).reshape(x.shape))), _from_dlpack, True)
    return Arrays(lambda x: from_dlpack(_writeable(x)), _from_dlpack)


def _writeable(X: Any) -> Any:
    """DLPack has no read-only arrays."""
    return X if X.flags.writeable else X.copy()


def _forward_strides(X: Any) -> Any:
    """Torch has no reversed views either."""
    return _writeable(X) if all(stride >= 0 for stride in X.strides) else X.copy()


def _from_dlpack(X: Any) -> Any:
    return np.from_dlpack(X) if hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray) else X
