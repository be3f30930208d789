"""A torch function as a pair over NumPy arrays. Memory is shared where it can be, so that what is changed is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from equivalence_tests.laws_only.forms import form_of
from equivalence_tests.laws_only.pairs import Pair

Names = Callable[[dict[str, Any]], list[str]]


def as_pair(forward: Any, backward: Any, arrange: Callable[[dict[str, Any]], list[Any]], differentiable: Names) -> Pair:
    """Autograd supplies the gradient, or a backward that takes tensors too, of any form."""
    if backward is None:
        return _by_autograd(forward, arrange, differentiable)

    def run(operands: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
        given = {name: to_tensor(value) for name, value in operands.items()}
        chosen = {name: to_tensor(value) for name, value in options.items()}
        answer = forward(*given.values(), **chosen)
        form = form_of(forward, backward, answer, given)
        Y, cache = form.split(answer)
        return from_tensors(Y), (form, given, chosen, Y, cache)

    def pull(dY: Any, remembered: Any) -> Any:
        form, *rest = remembered
        upstream = tuple(map(to_tensor, dY)) if isinstance(dY, tuple) else to_tensor(dY)
        return from_tensors(form.pull(upstream, *rest))

    return Pair("with a backward", run, pull, differentiable, "torch", (forward, backward))


def _by_autograd(forward: Any, arrange: Callable[[dict[str, Any]], list[Any]], differentiable: Names) -> Pair:
    def run(operands: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
        given = {name: to_tensor(value) for name, value in operands.items()}
        chosen = {name: to_tensor(value) for name, value in options.items()}
        names = differentiable(operands)
        given |= {name: given[name].requires_grad_() for name in names}
        Y = forward(*arrange(given), **chosen)
        # A view of an operand is torch's own way of answering, and none of its function's.
        return copied(from_tensors(Y)), (Y, [given[name] for name in names])

    def pull(dY: Any, remembered: Any) -> Any:
        Y, leaves = remembered
        upstream = tuple(map(to_tensor, dY)) if isinstance(dY, tuple) else to_tensor(dY)
        gradients = torch.autograd.grad(Y, leaves, upstream, retain_graph=True, materialize_grads=True)
        return copied(from_tensors(gradients))

    return Pair("autograd", run, pull, differentiable, "torch")


def to_tensor(value: Any) -> Any:
    """A tensor over the array's memory; torch has no negative strides and no read-only memory, and there it is a copy."""
    if isinstance(value, dict):
        return {name: to_tensor(each) for name, each in value.items()}
    if isinstance(value, np.generic) and value.dtype.kind in "fc":
        return torch.from_numpy(np.asarray(value).copy())
    if not isinstance(value, np.ndarray):
        return value
    able = value.flags.writeable and all(stride >= 0 for stride in value.strides)
    return torch.from_numpy(value if able else value.copy())


def from_tensors(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(from_tensors(each) for each in value)
    if isinstance(value, dict):
        return {name: from_tensors(each) for name, each in value.items()}
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value


def copied(value: Any) -> Any:
    return tuple(copied(each) for each in value) if isinstance(value, tuple) else value.copy()
