"""What every op asks of its tensors: the rules of the NumPy twin, and that all are on one device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reference_numpy import _check
from reference_numpy.attention import check_attention_options

TORCH = _check.Family(torch.Tensor, "torch tensor", ("float16", "bfloat16", "float32", "float64"))


def floats(op: str, **operands: Any) -> None:
    """Every operand is a tensor, all of one floating dtype and on one device. None may stand for an optional one."""
    _check.floats(op, TORCH, **operands)
    same_device(op, **operands)


def same_device(op: str, **operands: Any) -> None:
    first = ""
    for name, tensor in operands.items():
        if not isinstance(tensor, Tensor):
            continue
        if not first:
            first = name
        elif tensor.device != operands[first].device:
            expected = f"{operands[first].device} like {first}"
            raise ValueError(f"{op}: {name} is on {tensor.device}, expected {expected}")


def integers(op: str, name: str, tensor: Any, upper: int, besides: int | None = None) -> Tensor:
    """`tensor` holds integers in [0, upper), or equal to `besides`; as int64, which is what torch's primitives take."""
    wide = tensor
    if isinstance(tensor, Tensor) and "int" in _check.dtype_name(tensor):
        wide = tensor.long()
    _check.integers(op, name, wide, upper, TORCH, besides)
    result: Tensor = wide
    return result


def attention_options(
    op: str, operand: tuple[str, Tensor], weights: tuple[int, ...], mask: Any, bias: Any, offset: Any, keep: Any, p: Any
) -> None:
    """The keyword arguments of an attention whose weights A have the shape `weights`, on the device of the operand."""
    check_attention_options(op, weights, mask, bias, offset, keep, p, TORCH)
    name, tensor = operand
    same_device(op, **{name: tensor, "mask": mask, "keep": keep})


def sums_in_half(X: Tensor) -> bool:
    """Whether torch's CPU kernels may add up in half precision here, where 2048 + 1 = 2048 in float16.

    The GPU kernels accumulate in float32. An op whose CPU kernel has this flaw runs in float32 and rounds
    once at the end.
    """
    return X.device.type == "cpu" and X.dtype in (torch.float16, torch.bfloat16)
