"""The NumPy contestants, the user's own, and who there is."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import reference_numpy
from benchmarks.inputs import case_of
from benchmarks.work import Inputs, NotHere, Prepared, Work
from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.implementations import NotOffered, Tensor, as_tensor, as_upstream, gradients_by_name
from equivalence_tests.ops import OPS, Op
from equivalence_tests.request import Request

MODULES = {"numpy reference": "reference_numpy", "numpy fast": "reference_numpy.fast"}
LOSSES = {"gpt_step": "gpt_loss", "rnn_step": "generative_rnn_loss"}
TORCH = "benchmarks.torch_contestants"


def names(device: str) -> list[str]:
    """Of this module: NumPy knows no GPU."""
    return list(MODULES) if device == "cpu" else []


def module_of(contestant: str) -> str:
    """Where its `prepare` is."""
    own = contestant in MODULES or ":" in contestant or contestant in ("numpy", "torch", "torch cuda")
    return __name__ if own else TORCH


def prepare(contestant: str, work: Work, inputs: Inputs, options: dict[str, Any]) -> Prepared:
    """NotOffered, NotHere or ValueError, one line, if there is no such contestant for the work."""
    if contestant in ("numpy", "torch", "torch cuda"):
        from benchmarks import ceilings

        return ceilings.prepare(contestant, work, inputs)
    if ":" in contestant:
        return prepare_own(contestant, work, inputs, options)
    module = numpy_module(contestant)
    if work.dtype not in ("float32", "float64") or work.part.startswith("copy"):
        raise NotOffered(f"{contestant} has no {work.dtype}, {work.part}")
    if work.work in LOSSES:
        return Step(module, work, inputs, options)
    if work.work == "generate":
        return Generate(module, inputs, options)
    if work.work not in OPS:
        raise NotOffered(work.work)
    op = OPS[work.work]
    backward = getattr(module, f"{op.name}_backward", None)
    if contestant != "numpy reference" and _is_textbook(op, module, backward):
        raise NotOffered(f"{contestant} has no {op.name} of its own")
    return Pair(op, getattr(module, op.name), backward, work.part, inputs, options)


def _is_textbook(op: Op, module: Any, backward: Any) -> bool:
    """Whether it would be the textbook's time under a second name."""
    same_backward: bool = backward is getattr(reference_numpy, f"{op.name}_backward", None)
    return same_backward and getattr(module, op.name) is getattr(reference_numpy, op.name)


def numpy_module(contestant: str) -> Any:
    name = MODULES[contestant]
    if importlib.util.find_spec(name) is None:
        raise NotHere("not installed", f"there is no {name}")
    return importlib.import_module(name)


class Pair:
    """An op of the table as a forward and its backward."""

    def __init__(self, op: Op, forward: Any, backward: Any, part: str, inputs: Inputs, options: dict[str, Any]) -> None:
        self.op, self.part, self.options = op, part, options
        self.operands, upstream = case_of(op, inputs)
        self.arguments = op.arguments(self.operands)
        self.forward, self.backward = forward, backward
        if part != "forward" and not op.differentiable:
            raise NotOffered(f"{op.name} has no backward")
        self.upstream = as_upstream(op, upstream) if op.differentiable else None
        self.Y: Any = None
        self.gradients: Any = None
        self.cache: Any = None
        if part == "backward":
            self.Y, self.cache = forward(*self.arguments, **options)

    def run(self) -> None:
        if self.part == "backward":
            self.gradients = None
            self.gradients = self.backward(self.upstream, self.cache)
            return
        self.Y = self.gradients = None  # as a training has it: the last ones are gone before the next are made
        answer = self.forward(*self.arguments, **self.options)
        if not self.op.differentiable:
            self.Y = answer
            return
        self.Y, cache = answer
        if self.part == "forward+backward":
            self.gradients = self.backward(self.upstream, cache)

    def outputs(self) -> dict[str, Array]:
        found: dict[str, Tensor] = {}
        if self.part != "backward":
            Ys = self.Y if isinstance(self.Y, tuple) and len(self.op.outputs) > 1 else (self.Y,)
            found = {name: as_tensor(Y, self.op.scalar) for name, Y in zip(self.op.outputs, Ys, strict=True)}
        if self.part != "forward":
            gradients = gradients_by_name(self.op, Case(self.operands, self.options, {}), self.gradients)
            found |= {name: as_tensor(value) for name, value in gradients.items()}
        return {name: _array(tensor) for name, tensor in found.items()}


def _array(tensor: Any) -> Array:
    """ValueError if it is no array: a contestant that answers in another form is not judged by mercy."""
    if tensor.dtype.startswith("of "):
        raise ValueError(f"an answer is {tensor.dtype}, expected an array")
    return np.asarray(tensor.value)


class Step:
    """The loss and all gradients of a model: in one call, where the module has one."""

    def __init__(self, module: Any, work: Work, inputs: Inputs, options: dict[str, Any]) -> None:
        loss = LOSSES[work.work]
        params = {name: X for name, X in inputs.items() if "." in name}
        arguments = (params, inputs["ids"], inputs["targets"])
        forward, backward = getattr(module, loss), getattr(module, f"{loss}_backward")
        at_once: Callable[..., tuple[Any, Any]] | None = getattr(module, f"{loss}_gradients", None)

        def step() -> tuple[Any, Any]:
            if at_once is not None:
                return at_once(1.0, *arguments, **options)
            Y, cache = forward(*arguments, **options)
            return Y, backward(1.0, cache)

        self.step = step
        self.loss: Any = None
        self.grads: Any = None

    def run(self) -> None:
        self.loss = self.grads = None
        self.loss, self.grads = self.step()

    def outputs(self) -> dict[str, Array]:
        return {"loss": np.asarray(self.loss)} | {f"d{name}": X for name, X in self.grads.items()}


class Generate:
    """Tokens one after the other, each the one of the largest logit: with the cache, or all afresh every time."""

    def __init__(self, module: Any, inputs: Inputs, options: dict[str, Any]) -> None:
        self.module, self.config, self.tokens = module, options["config"], options["tokens"]
        self.params = {name: X for name, X in inputs.items() if "." in name}
        self.prompt, self.cache = inputs["ids"], options["cache"]

    def run(self) -> None:
        ids, past, added = self.prompt, None, []
        for _ in range(self.tokens):
            if self.cache:
                logits, past = self.module.gpt_step(self.params, ids, self.config, past)
            else:
                logits, _ = self.module.gpt(self.params, ids, self.config)
            self.logits = logits[:, -1]
            added.append(self.logits.argmax(-1)[:, None])
            ids = added[-1] if self.cache else np.concatenate([ids, added[-1]], 1)
        self.ids = np.concatenate(added, 1)

    def outputs(self) -> dict[str, Array]:
        return {"ids": self.ids, "logits": self.logits}


def prepare_own(spec: str, work: Work, inputs: Inputs, options: dict[str, Any]) -> Prepared:
    """The user's function, as `gemelos check` takes it. ValueError, one line, if it is not to be called so."""
    candidate = Request(spec, work.work).candidate()
    taken = candidate.plan.names.values()
    lost = [name for name, value in options.items() if name not in taken and value is not None and value is not False]
    if lost:
        raise NotOffered(f"{spec} does not take {lost[0]}")
    own = {name: value for name, value in options.items() if name in taken}
    forward = candidate.implementation.forward(work.work)
    if candidate.kind == "autograd":
        from benchmarks.own_torch import Autograd

        return Autograd(candidate.row, forward, work.part, inputs, own)
    if work.part != "forward" and not candidate.op.differentiable:
        raise NotOffered(f"{spec} has no backward")
    backward = candidate.implementation.backward(work.work) if candidate.op.differentiable else None
    if candidate.op.differentiable:
        return Pair(candidate.row, forward, backward, work.part, inputs, own)
    row = candidate.row
    return Pair(
        row, lambda *arguments, **named_ones: (forward(*arguments, **named_ones), None), None, "forward", inputs, own
    )
