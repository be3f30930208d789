"""An implementation under test: a module with the public names, run on a case.

A module that has `op_backward` beside `op` is a NumPy pair; any other is differentiated by torch's autograd. What a
function's signature does not name is not on offer: a case that needs it is skipped, and counted as such.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import PRECISIONS, Array
from equivalence_tests.cases import Case


@dataclass(frozen=True)
class Tensor:
    """What an implementation answered: the numbers, and the dtype that it answered in."""

    value: Array
    dtype: str


Answer = dict[str, Tensor]
LARGEST = 2**28  # bytes of an array that can be an answer: no case has a hundredth of that


class NotOffered(Exception):
    """The implementation does not take an option that the case needs."""


class NotTaken(NotOffered):
    """It was seen to refuse what the case asks for."""


class Raised(Exception):
    """An implementation in another process raised what the text says, in one line."""


@dataclass(frozen=True)
class Implementation:
    """A module under test, on a device. `pairs` tells NumPy pairs from autograd."""

    name: str
    module: Any
    pairs: bool
    dtypes: tuple[str, ...]
    device: str = "cpu"
    answers: Callable[[Any, Case, str], Answer] | None = (
        None  # of an op, a case and a dtype: what has no function to call
    )
    ordinary: bool = False  # held to the ordinary budget: it is not to recompute anything from a stored log-sum-exp
    there: Any = None  # its process, where it does not run in this one (remote.py): `module` then has signatures alone

    @property
    def label(self) -> str:
        return self.name if self.device == "cpu" else f"{self.name} on {self.device}"

    def offers(self, op: str) -> bool:
        return hasattr(self.module, op)

    def forward(self, op: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.module, op)
        return function

    def backward(self, op: str) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(self.module, f"{op}_backward")
        return function


# Ours, but for torch's fused kernels, which store one number a row (see test_cases).
ORDINARY = ("reference_numpy", "reference_numpy.fast", "torch_impl")


def load(name: str, device: str = "cpu") -> Implementation:
    """An implementation by its module's name. ValueError if there is no such module or device."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"--implementation: {name!r} came, expected a module's name such as torch_impl.fused")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = "no such module" if error.name == name.split(".")[0] else f"no module {error.name}, which it needs"
        raise ValueError(f"--implementation: {name} cannot be imported, there is {missing}") from None
    except (Exception, SystemExit) as error:
        raise ValueError(f"--implementation: {name} cannot be imported, it raised {one_line(error)}") from None
    pairs = any(attribute.endswith("_backward") for attribute in dir(module))
    if pairs and device != "cpu":
        raise ValueError(f"--device: {name} is NumPy and runs on cpu, got {device}")
    check_device(device)
    dtypes = ("float64", "float32") if pairs else tuple(PRECISIONS)
    return Implementation(name, module, pairs, dtypes, device, ordinary=name in ORDINARY)


def one_line(error: BaseException) -> str:
    """What an exception says, in one line that a terminal can show, even one that cannot speak."""
    try:
        said = str(error).strip().splitlines()
    except Exception:
        said = []
    if isinstance(error, Raised):
        return printable("".join(said[:1]))
    return printable(type(error).__name__ + (f": {said[0]}" if said else ""))


def printable(text: str, most: int = 300) -> str:
    """The text without what moves a cursor or changes a colour, cut where it is too long."""
    cut = text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)


def check_device(device: str) -> None:
    """ValueError unless this machine has the device: cpu, cuda, cuda:1."""
    if device == "cpu":
        return
    if device.split(":")[0] != "cuda":
        raise ValueError(f"--device: {device} came, expected cpu or cuda")
    torch = importlib.import_module("torch") if has_torch() else None
    if torch is None or not torch.cuda.is_available():
        raise ValueError(f"--device: {device} came, but this machine has no CUDA that torch can use")
    count = torch.cuda.device_count()
    index = device.partition(":")[2] or "0"
    if not index.isdecimal() or int(index) >= count:
        raise ValueError(f"--device: {device} came, but there are cuda:0 to cuda:{count - 1}")


def has_torch() -> bool:
    try:
        importlib.import_module("torch")
    except ModuleNotFoundError:
        return False
    return True


def available(device: str | None = None) -> list[Implementation]:
    """Every implementation that this machine can run: both of NumPy, and torch on the CPU and on CUDA where they are."""
    if device is not None:
        check_device(device)
    found = [load(name) for name in ("reference_numpy", "reference_numpy.fast")] if device in (None, "cpu") else []
    if not has_torch():
        return found
    cuda = ["cuda"] if importlib.import_module("torch").cuda.is_available() else []
    devices = [device] if device else ["cpu", *cuda]
    return found + [load(name, where) for where in devices for name in ("torch_impl", "torch_impl.fused")]


@cache
def parameters(function: Callable[..., Any]) -> frozenset[str] | None:
    """What a function's signature names, or None if it takes any keyword."""
    found = inspect.signature(function).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found.values()):
        return None
    return frozenset(found)


def lay_out(X: Array, layout: str) -> Array:
    """The same numbers, otherwise in memory."""
    if layout == "transposed" and X.ndim > 1:
        view = np.ascontiguousarray(np.swapaxes(X, -1, -2)).swapaxes(-1, -2)
    elif layout == "strided" and X.ndim:
        wide = np.full((*X.shape[:-1], 2 * X.shape[-1]), 77, X.dtype)
        wide[..., ::2] = X
        view = wide[..., ::2]
    elif layout == "reversed" and X.ndim:
        view = np.ascontiguousarray(X[::-1])[::-1]
    elif layout == "broadcast" and X.ndim > 1:
        view = np.broadcast_to(X[:1].copy(), X.shape)
    else:
        view = X.copy()
    return view


def prepared(
    case: Case, dtype: str, writeable: bool = False
) -> tuple[dict[str, Array], dict[str, Any], dict[str, Array]]:
    """Operands, options and upstream gradient in the dtype, laid out as the case says; read-only."""

    def cast(name: str, value: Any) -> Any:
        if isinstance(value, dict):  # a model's masks
            return {key: cast(key, each) for key, each in value.items()}
        if not isinstance(value, np.ndarray):
            return value
        array = value.astype(dtype) if value.dtype == np.float64 else value
        view = lay_out(array, case.layouts.get(name, "contiguous"))
        view.flags.writeable = writeable and view.flags.writeable
        return view

    groups = (case.operands, case.options, case.upstream)
    operands, options, upstream = ({name: cast(name, v) for name, v in group.items()} for group in groups)
    return operands, options, upstream


# Operands and options of the table that a call may do without, and that somebody's own signature may insist on.
LEFT_OUT = ("bias", "h0", "mask", "causal", "query_offset", "scale", "keep", "p", "axis", "epsilon", "ignore_index")


def check_offer(function: Callable[..., Any], case: Case) -> None:
    """NotOffered if the case asks for what the function does not take, or comes without what it insists on."""
    for name, each in inspect.signature(function).parameters.items():
        if name in LEFT_OUT and each.default is each.empty and name not in {*case.operands, *case.options}:
            raise NotOffered(name)
    names = parameters(function)
    for option, value in case.options.items():
        if names is not None and option not in names and value is not None:
            raise NotOffered(option)


def run(implementation: Implementation, op: Any, case: Case, dtype: str) -> Answer:
    """Forward and backward on a case that is rounded to `dtype`: every output and gradient by name."""
    if implementation.answers is not None:
        return implementation.answers(op, case, dtype)
    if implementation.there is not None:
        answer: Answer = implementation.there.run(op, case, dtype)
        return answer
    if implementation.pairs:
        return run_pair(implementation, op, case, dtype)
    from equivalence_tests.run_torch import run_torch

    return run_torch(implementation, op, case, dtype)


def run_pair(implementation: Implementation, op: Any, case: Case, dtype: str) -> Answer:
    forward = implementation.forward(op.name)
    check_offer(forward, case)
    operands, options, upstream = prepared(case, dtype, case.writeable)
    if not op.differentiable:
        return named(op, case, forward(*op.arguments(operands), **options), ())
    Y, cache = forward(*op.arguments(operands), **options)
    gradients = implementation.backward(op.name)(as_upstream(op, upstream), cache)
    return named(op, case, Y, gradients)


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python number: for code that is not to be judged by how it takes them."""
    return value.item() if isinstance(value, np.generic) else value


def as_upstream(op: Any, upstream: dict[str, Array]) -> Any:
    """What a backward takes: the gradient of the one output, a tuple for several, a number for a loss."""
    if op.scalar:
        return np.float64(upstream[f"d{op.outputs[0]}"])
    return upstream[f"d{op.outputs[0]}"] if len(op.outputs) == 1 else tuple(upstream.values())


def named(op: Any, case: Case, Y: Any, gradients: Any) -> Answer:
    """Outputs and gradients by name; one that is missing has no entry, one too many has a name of its own."""
    Ys = Y if len(op.outputs) > 1 and isinstance(Y, tuple) else (Y,)
    answers = _paired(list(op.outputs), Ys, "output") | gradients_by_name(op, case, gradients)
    return {name: as_tensor(value, op.scalar and name in op.outputs) for name, value in answers.items()}


def gradients_by_name(op: Any, case: Case, gradients: Any) -> dict[str, Any]:
    """The gradients as `dX`; a model's come by name already."""
    if op.model:
        return {f"d{name}": value for name, value in gradients.items()}
    names = [f"d{name}" for name in op.gradient_names(case)]
    return _paired(names, gradients if len(names) != 1 and isinstance(gradients, tuple) else (gradients,), "gradient")


def _paired(names: list[str], values: tuple[Any, ...], what: str) -> dict[str, Any]:
    names = names + [f"unexpected {what} {i}" for i in range(len(names), len(values))]
    return dict(zip(names, values, strict=False))


def as_tensor(value: Any, scalar: bool = False) -> Tensor:
    """An array (of no axes: or a NumPy scalar), for a loss a NumPy scalar; anything else has no dtype, and is wrong.

    So is an array of what are no numbers, and one that is larger than the answer of any case (a broadcast view may have
    2^40 elements).
    """
    right = isinstance(value, np.generic) or (type(value) is np.ndarray and not scalar)
    if right and value.dtype.kind not in "biufc":
        return Tensor(np.asarray(np.nan), f"of dtype {value.dtype.name}")
    if right and value.nbytes > LARGEST:
        return Tensor(np.asarray(np.nan), f"{value.dtype} in an array of {value.size} elements")
    if right:
        return Tensor(np.asarray(value), str(value.dtype))
    return Tensor(np.asarray(np.nan), f"of a {type(value).__name__}")
