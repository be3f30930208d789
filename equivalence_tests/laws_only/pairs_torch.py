"""A torch function as a pair over NumPy arrays. Memory is shared where it can be, so that what is changed is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from equivalence_tests.laws_only.pairs import Pair, named_by, takes_cache

Names = Callable[[dict[str, Any]], list[str]]


def as_pair(forward: Any, backward: Any, arrange: Callable[[dict[str, Any]], list[Any]], differentiable: Names) -> Pair:
    """Autograd supplies the gradient, or a backward of (dY, cache) or (dY, *operands) that takes tensors too."""

    def run(operands: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
        given = {name: to_tensor(value) for name, value in operands.items()}
        chosen = {name: to_tensor(value) for name, value in options.items()}
        names = differentiable(operands)
        if backward is None:
            given |= {name: given[name].requires_grad_() for name in names}
        Y = forward(*arrange(given), **chosen)
        cache, cached = None, backward is not None and takes_cache(forward, backward, Y)
        if cached:
            Y, cache = Y
        answer = from_tensors(Y)
        if backward is None:  # a view of an operand is torch's own way of answering, and none of its function's
            answer = copied(answer)
        return answer, (Y, given, chosen, [given[name] for name in names], (cached, cache))

    def pull(dY: Any, remembered: Any) -> Any:
        Y, given, chosen, leaves, (cached, cache) = remembered
        upstream = tuple(map(to_tensor, dY)) if isinstance(dY, tuple) else to_tensor(dY)
        if cached:
            return from_tensors(backward(upstream, cache))
        if backward is not None:
            return from_tensors(backward(upstream, *arrange(given), **named_by(backward, chosen)))
        gradients = torch.autograd.grad(Y, leaves, upstream, retain_graph=True, materialize_grads=True)
        return copied(from_tensors(gradients))

    form = "functional" if backward is not None else "autograd"
    functions = (forward, backward) if backward is not None else ()
    return Pair(form, run, pull, differentiable, "torch", functions)


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
