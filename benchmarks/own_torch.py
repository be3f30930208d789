"""A user's torch function, differentiated by autograd. Needs torch, as it does itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.inputs import case_of
from benchmarks.work import Inputs
from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import NotOffered
from equivalence_tests.ops import Op


class Autograd:
    """On the CPU, with torch's own number of threads."""

    def __init__(self, op: Op, forward: Callable[..., Any], part: str, inputs: Inputs, options: dict[str, Any]) -> None:
        if part == "backward" or op.model:
            raise NotOffered(f"{op.name}, {part}, of a torch function of one's own")
        operands, upstream = case_of(op, inputs)
        self.op, self.forward, self.part = op, forward, part
        self.operands = {name: torch.from_numpy(X) for name, X in operands.items()}
        self.options = {k: torch.from_numpy(v) if hasattr(v, "ndim") else v for k, v in options.items()}
        self.upstream = [torch.from_numpy(X) for X in upstream.values()]
        self.names = [name for name in op.differentiable if name in self.operands]
        self.gradients: tuple[torch.Tensor, ...] = ()
        if part == "forward+backward":
            for name in self.names:
                self.operands[name].requires_grad_()

    def run(self) -> None:
        self.gradients = ()
        if self.part == "forward":
            with torch.no_grad():
                self.Y = self.forward(*self.op.arguments(self.operands), **self.options)
            return
        self.Y = self.forward(*self.op.arguments(self.operands), **self.options)
        Ys = self.Y if isinstance(self.Y, tuple) else (self.Y,)
        leaves = [self.operands[name] for name in self.names]
        self.gradients = torch.autograd.grad(Ys, leaves, self.upstream, materialize_grads=True)

    def outputs(self) -> dict[str, Array]:
        Ys = self.Y if isinstance(self.Y, tuple) else (self.Y,)
        found = dict(zip(self.op.outputs, Ys, strict=True))
        if self.gradients:
            found |= {f"d{name}": X for name, X in zip(self.names, self.gradients, strict=True)}
        return {name: X.detach().numpy() for name, X in found.items()}
