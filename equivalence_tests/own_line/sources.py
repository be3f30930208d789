"""The files in which the user's own functions stand."""

from __future__ import annotations

import functools
import inspect
import linecache
import site
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

OURS = ("reference_numpy", "torch_impl", "equivalence_tests")  # never the user's own line, but for tests
SHADOWED = ("torch._dynamo", "torch.jit", "numba", "jax")  # what compiles a function runs another code than its own


def files_of(functions: Sequence[Any]) -> tuple[str, ...]:
    """The user's own files: those of the functions, and of what they call that stands in the same folder."""
    waiting = [code for each in functions for code in _functions(each)]
    files: dict[str, None] = {}
    seen = set[int]()
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        file = function.__code__.co_filename
        if not _is_users(file) or (files and Path(file).parent not in {Path(each).parent for each in files}):
            continue
        files[file] = None
        for name in function.__code__.co_names:
            waiting += _functions(function.__globals__.get(name))
    return tuple(files)


def _functions(value: Any) -> list[FunctionType]:
    """The Python functions behind a function, a method, a partial, a class or an instance of one. None of what is
    compiled: what runs is then another code."""
    if value is None or isinstance(value, str | bytes | int | float | tuple | list | dict):
        return []
    if isinstance(value, functools.partial):
        return _functions(value.func)
    if type(value).__module__.startswith(SHADOWED) or hasattr(value, "_torchdynamo_orig_callable"):
        return []
    value = getattr(value, "__func__", value)
    if inspect.isfunction(value):
        return [value, *(_functions(value.__wrapped__) if hasattr(value, "__wrapped__") else [])]
    kind = value if isinstance(value, type) else type(value)
    found = [getattr(x, "__func__", x) for owner in kind.__mro__ for x in vars(owner).values()]
    return [x for x in found if inspect.isfunction(x) and _is_users(x.__code__.co_filename)]


def _is_users(file: str) -> bool:
    """Whether a file is neither of the standard library, nor installed, nor one of the twins."""
    if not file or not (linecache.getlines(file)):
        return False
    path = Path(file)
    installed = [Path(x) for x in (*site.getsitepackages(), sysconfig.get_path("stdlib"), site.getusersitepackages())]
    ours = [Path(p) for name in OURS if name in sys.modules for p in sys.modules[name].__path__]
    tests = [Path(p) / "tests" for p in sys.modules["equivalence_tests"].__path__]
    if any(path.is_relative_to(folder) for folder in tests):
        return True
    return not any(path.is_relative_to(folder) for folder in (*installed, *ours))
