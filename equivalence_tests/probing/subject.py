"""A function under probe, called by the names of this project whatever its own names, frameworks and defaults are."""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from equivalence_tests.aliases import ALIASES, DEFAULTS
from equivalence_tests.arithmetic import Array
from equivalence_tests.checks import reraise_interrupt
from equivalence_tests.implementations import one_line
from equivalence_tests.signatures import signature_of

Aliases = Mapping[str, tuple[str, ...]]
DTYPES = ("float32", "float64", "float16")  # in this order a function is asked which it takes
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LENGTH = 90  # of what an exception says


class Refused(Exception):
    """The candidate raised; the text is its error in one line."""


class Subject:
    """A function, or a module, with the parameter that stands for each operand and option.

    `aliases` gives, for each name of this project, what others call it; `operands` are those that come first, in order.
    Calls go in float32 and in the framework that the function seems to be of, until `settle` finds what it takes.
    """

    def __init__(self, function: Any, aliases: Aliases, operands: tuple[str, ...]) -> None:
        self.function, self.aliases, self.operands = function, aliases, operands
        self.module = is_module(function)
        self.dtype = _dtype_of(function) if self.module else "float32"
        self.framework = "torch" if _seems_torch(function) else "numpy"
        self.parameters = _parameters(function.forward if self.module else function)
        self.names = _bound(self.parameters, aliases, operands)

    @property
    def roundoff(self) -> float:
        return ROUNDOFF[self.dtype]

    @property
    def largest(self) -> int:
        """The power of two that the dtype's numbers stay below."""
        return {"float64": 1024, "float16": 16}.get(self.dtype, 128)

    def takes(self, name: str) -> bool:
        """Whether there is a parameter for it; of a function without a signature, whether it takes one of the names."""
        return name in self.names or self.parameters is None

    def requires(self, name: str) -> bool:
        """Whether it cannot be called without."""
        parameter = (self.parameters or {}).get(self.names.get(name, ""))
        return parameter is not None and parameter.default is parameter.empty

    def default(self, name: str) -> Any:
        """The default of an option in the signature, or None."""
        parameter = (self.parameters or {}).get(self.names.get(name, ""))
        return None if parameter is None or parameter.default is parameter.empty else parameter.default

    def settle(self, *calls: dict[str, Any]) -> tuple[int, list[Array]]:
        """Try the calls in each framework and dtype until one is answered: its place, and its outputs. Refused if none."""
        frameworks = [self.framework, *({"numpy", "torch"} - {self.framework})]
        dtypes = [self.dtype] if self.module else DTYPES
        first: Refused | None = None
        possible = [framework for framework in frameworks if framework == "numpy" or "torch" in sys.modules]
        for self.framework, self.dtype in itertools.product(possible, dtypes):
            for place, values in enumerate(calls):
                try:
                    return place, self(**values)
                except Refused as refused:
                    first = first or refused
        self.framework, self.dtype = frameworks[0], dtypes[0]
        raise first or Refused("there is nothing to call")

    def __call__(self, *, training: bool = False, **values: Any) -> list[Array]:
        """Every array that it returns, in float64, in order. Refused if it raises or returns none."""
        answers = arrays_of(self.raw(training=training, **values))
        if not answers:
            raise Refused("it returns no array")
        return answers

    def raw(self, *, training: bool = False, **values: Any) -> Any:
        """What it returns, as it is. Each call gets fresh copies."""
        given = {name: self._converted(value) for name, value in values.items() if value is not None}
        attempts = self._arguments(given, training)
        error = Refused("it takes no such argument")
        for positional, keywords in attempts:
            try:
                if self.module:
                    self.function.train(training)
                return guarded(self.function, *positional, **keywords)
            except Refused as refused:
                error = refused
        raise error

    def _converted(self, value: Any) -> Any:
        return converted(value, self.framework, self.dtype)

    def _arguments(self, given: dict[str, Any], training: bool) -> list[tuple[list[Any], dict[str, Any]]]:
        if self.parameters is None:  # a builtin: what it calls an option is found by trying
            first = [given[name] for name in self.operands if name in given]
            options = [name for name in given if name not in self.operands]
            choices = itertools.product(*((name, *self.aliases.get(name, ())) for name in options))
            return [(first, dict(zip(choice, (given[name] for name in options), strict=True))) for choice in choices]
        given = {self.names.get(name, name): value for name, value in given.items()}
        if "training" in self.names:
            given.setdefault(self.names["training"], training)
        if "deterministic" in self.names:
            given.setdefault(self.names["deterministic"], not training)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        known = {parameter: name for name, parameter in self.names.items()}
        for name, parameter in self.parameters.items():
            required = parameter.default is parameter.empty
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional += [given.pop(operand) for operand in self.operands if operand in given]
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords |= given
                given = {}
            elif name in given or required:
                option = known.get(name, ALIASES.get(name, name))
                if name not in given and name not in known and name != "module" and option not in DEFAULTS:
                    raise Refused(f"its parameter {name!r} is not known here")
                value = given.pop(name, _stand_in(training) if name == "module" else DEFAULTS.get(option))
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    positional.append(value)
                else:
                    keywords[name] = value
        if given:
            raise Refused(f"it takes no {next(iter(given))}")
        return [(positional, keywords)]


def guarded(function: Any, *positional: Any, **keywords: Any) -> Any:
    """What the candidate's function returns, in silence. Refused, in one line, whatever it raises."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*positional, **keywords)
    except BaseException as raised:  # a candidate may raise anything
        reraise_interrupt(raised)
        raise Refused(one_line(raised)[:LENGTH]) from None


def _stand_in(training: bool) -> Any:
    """For the module that some attention functions take in front: they read these fields of it."""
    return SimpleNamespace(training=training, num_key_value_groups=1, is_causal=False, is_cross_attention=False)


def _parameters(function: Any) -> dict[str, inspect.Parameter] | None:
    """The parameters by name, without those that a partial has fixed."""
    if isinstance(function, partial):
        inner = _parameters(function.func)
        if inner is None:
            return None
        positional = list(inner)[len(function.args) :]
        return {name: inner[name] for name in positional if name not in function.keywords}
    signature = signature_of(function)
    return None if signature is None else dict(signature.parameters)


def _bound(
    parameters: dict[str, inspect.Parameter] | None, aliases: Aliases, operands: tuple[str, ...]
) -> dict[str, str]:
    """The parameter of each operand and option: by its name, and operands without one in the order of the signature."""
    free = {
        name: parameter
        for name, parameter in (parameters or {}).items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and name != "module"
    }
    names: dict[str, str] = {}
    for name, others in aliases.items():
        known = [each for each in (name, *others) if each in free]
        known += [each for each in free if each.lower() in {other.lower() for other in (name, *others)}]
        if known:
            names[name] = known[0]
            del free[known[0]]
    for name in operands:
        required = [each for each, parameter in free.items() if parameter.default is parameter.empty]
        left = [each for each in required if ALIASES.get(each, each) not in DEFAULTS]
        if name not in names and left:
            names[name] = left[0]
            del free[left[0]]
    return names


# Frameworks


def is_module(function: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(function, torch.nn.Module)


def _dtype_of(module: Any) -> str:
    return next((str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.is_floating_point()), "float32")


def _seems_torch(function: Any) -> bool:
    """A module, a function of torch's, or one whose own module has something of torch's in it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    function = function.func if isinstance(function, partial) else function
    if is_module(function) or (getattr(function, "__module__", None) or "").split(".")[0] == "torch":
        return True
    around = getattr(inspect.unwrap(function), "__globals__", None)
    if around is None:  # a builtin or an object: the module that it says
        owner = sys.modules.get(getattr(function, "__module__", None) or "")
        around = vars(owner) if owner is not None else {}
    return any(
        value is torch or (getattr(value, "__module__", None) or "").split(".")[0] == "torch"
        for value in list(around.values())
    )


def converted(value: Any, framework: str, dtype: str) -> Any:
    """A copy of an array in the framework; floating-point numbers in the dtype. Anything else as it is."""
    if isinstance(value, dict):
        return {name: converted(each, framework, dtype) for name, each in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    if framework == "numpy":
        return value.astype(dtype) if value.dtype.kind == "f" else value.copy()
    import torch

    tensor = torch.from_numpy(np.array(value))
    return tensor.to(getattr(torch, dtype)) if value.dtype.kind == "f" else tensor


def arrays_of(value: Any) -> list[Array]:
    """Every array of real numbers in what was returned, in order, in float64; a number is an array without axes."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [array for each in value for array in arrays_of(each)]
    if isinstance(value, bool | str | bytes) or value is None:
        return []
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = None if value.is_complex() else value.double().numpy()
    try:
        array = np.asarray(value)
    except Exception:  # what cannot become an array is none
        return []
    return [array.astype(np.float64)] if array.dtype.kind in "fiub" else []


def of_shape(array: Array, *shape: int) -> Array:
    """The array. Refused, with its shape, if that is another."""
    if array.shape != shape:
        raise Refused(f"its output has shape {array.shape}, expected {shape}")
    return array
