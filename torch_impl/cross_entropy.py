"""The loss of a language model."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from reference_numpy import _check as rules
from torch_impl import _check


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int | None = None) -> Tensor:
    """loss = -(1/M) sum over the M counted targets of log softmax(logits)[target]

    logits: (..., v), targets: (...) of integers in [0, v) or equal to ignore_index; loss: () of logits' dtype.

    The mean is over counted targets, whatever sequence they are in. Where torch has NaN, with all targets ignored, there
    is an error here. Source 2: step by step (softmax, gather, log, mean) equals one call.
    Raises TypeError for targets that are no integers, ValueError for a target out of range or if all are ignored.
    """
    op = "cross_entropy"
    _check.floats(op, logits=logits)
    if not isinstance(targets, Tensor):
        raise TypeError(f"{op}: targets is a {type(targets).__name__}, expected a torch tensor")
    v = rules.shapes(op, logits=(logits, "... v"))["v"]
    rules.same_shape(op, "targets", targets, logits.shape[:-1], "logits without its last axis")
    wide = _check.integers(op, "targets", targets, v, ignore_index).reshape(-1)
    _check.same_device(op, logits=logits, targets=targets)
    if wide.numel() == 0 or (ignore_index is not None and bool((wide == ignore_index).all())):
        raise ValueError(f"{op}: targets counts 0 of its elements, expected at least 1 not ignored")
    rows = logits.reshape(-1, v)  # (N, v), N the product of the leading axes
    ignored = -100 if ignore_index is None else ignore_index  # -100 is torch's default and no target
    if _check.sums_in_half(rows):  # the loss is a sum over all rows
        return F.cross_entropy(rows.float(), wide, ignore_index=ignored).to(rows.dtype)
    return F.cross_entropy(rows, wide, ignore_index=ignored)
