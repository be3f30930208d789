"""Run a torch function on a case; autograd supplies the gradients. The only module of the kit that needs torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case
from equivalence_tests.implementations import Answer, Implementation, Tensor, check_offer


def to_torch(X: Array, dtype: str, device: str, layout: str = "contiguous") -> torch.Tensor:
    """A tensor of the same numbers, laid out as the case says (torch has no reversed views)."""
    if X.dtype == np.float64 and dtype == "float32":  # by NumPy, which says nothing of underflow here
        X = X.astype(np.float32)
    tensor = torch.from_numpy(np.array(X, order="C")).to(device)
    if tensor.is_floating_point():
        tensor = tensor.to(getattr(torch, dtype))
    if layout == "transposed" and X.ndim > 1:
        return tensor.mT.contiguous().mT
    if layout == "strided" and X.ndim:
        return torch.stack([tensor, torch.full_like(tensor, 77)], -1)[..., 0]
    if layout == "broadcast" and X.ndim > 1:
        return tensor[:1].clone().expand(X.shape)
    return tensor


def from_torch(tensor: torch.Tensor) -> Tensor:
    array = tensor.detach().cpu()
    floating = array.double() if array.is_floating_point() else array
    return Tensor(floating.numpy(), str(tensor.dtype).removeprefix("torch."))


@contextmanager
def full_precision() -> Iterator[None]:
    """TF32 is off wherever equality is judged on a GPU."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def run_torch(implementation: Implementation, op: Any, case: Case, dtype: str) -> Answer:
    """Forward and backward on a case that is rounded to `dtype`: every output and gradient by name."""
    with full_precision():
        return _run_torch(implementation, op, case, dtype)


def _run_torch(implementation: Implementation, op: Any, case: Case, dtype: str) -> Answer:
    function = implementation.forward(op.name)
    check_offer(function, case)

    def tensors(values: dict[str, Any]) -> dict[str, Any]:
        return {name: tensor(name, v) for name, v in values.items()}

    def tensor(name: str, value: Any) -> Any:
        if isinstance(value, dict):  # a model's masks
            return tensors(value)
        if not isinstance(value, np.ndarray):
            return value
        return to_torch(value, dtype, implementation.device, case.layouts.get(name, "contiguous"))

    operands, options, upstream = tensors(case.operands), tensors(case.options), tensors(case.upstream)
    if not op.differentiable:
        stages = function(*op.arguments(operands), **options)
        return {name: from_torch(stage) for name, stage in zip(op.outputs, stages, strict=True)}
    names = op.gradient_names(case)
    leaves = [operands[name].requires_grad_() for name in names]
    Y = function(*op.arguments(operands), **options)
    Ys = Y if isinstance(Y, tuple) else (Y,)
    gradients = torch.autograd.grad(Ys, leaves, list(upstream.values()), materialize_grads=True)
    answers = dict(zip(op.outputs, Ys, strict=True)) | dict(zip((f"d{n}" for n in names), gradients, strict=True))
    return {name: from_torch(tensor) for name, tensor in answers.items()}
