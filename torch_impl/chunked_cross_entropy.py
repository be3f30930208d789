"""The loss of a language model from its last states: the logits never exist whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from reference_numpy import _check as rules
from torch_impl import _check


def chunked_cross_entropy(
    X: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, ignore_index: int | None = None, rows: int = 512
) -> Tensor:
    """loss = cross_entropy(linear(X, weight, bias), targets), with the logits of `rows` tokens at a time

    X: (..., d), weight: (v, d), bias: (v,), targets: (...) of integers in [0, v) or equal to ignore_index; loss: ().

    The gradients are made with the loss, while the logits of a chunk are there, so that none is computed twice; they
    have no gradients of their own. Under autocast the products are in its dtype, everything else in X's.
    No number is read on the host, which would wait for the device: a target out of range is torch's own error, and
    if all are ignored the loss is NaN, as torch's is.
    Raises TypeError for mixed or other dtypes, ValueError for sizes that do not match or rows below 1.
    """
    op = "chunked_cross_entropy"
    _check.floats(op, X=X, weight=weight, bias=bias)
    rules.shapes(op, X=(X, "... d"), weight=(weight, "v d"), bias=(bias, "v"))
    if not isinstance(targets, Tensor) or targets.is_floating_point():
        kind = targets.dtype if isinstance(targets, Tensor) else type(targets).__name__
        raise TypeError(f"{op}: targets is {kind}, expected a tensor of integers")
    rules.same_shape(op, "targets", targets, X.shape[:-1], "X without its last axis")
    _check.same_device(op, X=X, targets=targets)
    if rows < 1:
        raise ValueError(f"{op}: rows is {rows}, expected at least 1")
    ignored = -100 if ignore_index is None else ignore_index  # as in cross_entropy
    flat = targets.reshape(-1).long()
    loss: Tensor = _Chunked.apply(X.reshape(-1, X.shape[-1]), weight, bias, flat, ignored, rows)  # type: ignore[no-untyped-call]
    return loss


class _Chunked(torch.autograd.Function):
    """X: (N, d), targets: (N,)"""

    @staticmethod
    def forward(ctx: Any, X: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, ignored: int, rows: int) -> Tensor:
        device = X.device.type
        autocast = torch.is_autocast_enabled(device) and X.dtype == torch.float32
        narrow = torch.get_autocast_dtype(device) if autocast else X.dtype  # of the products
        wide = torch.promote_types(narrow, torch.float32)  # of the sums
        with torch.autocast(device, enabled=False):
            loss, share, gradients = _by_chunks(
                X.to(narrow),
                weight.to(narrow),
                bias.to(narrow),
                targets,
                ignored,
                rows,
                wide,
                any(ctx.needs_input_grad),
            )
        ctx.save_for_backward(
            share, *(each.to(like.dtype) for each, like in zip(gradients, (X, weight, bias), strict=False))
        )
        return loss.to(X.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dloss: Tensor) -> tuple[Tensor | None, ...]:
        share, *gradients = ctx.saved_tensors
        factor = share * dloss
        return (*((each * factor).to(each.dtype) for each in gradients), None, None, None)


def _by_chunks(
    X: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, ignored: int, rows: int, wide: torch.dtype, wanted: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """The mean loss, 1 / M, and the gradients of the loss's sum."""
    counted = targets != ignored
    share = 1.0 / counted.sum().to(wide)
    at = torch.where(counted, targets, 0)[:, None]  # an ignored target points anywhere inside
    weights = counted[:, None].to(wide)
    total = X.new_zeros((), dtype=wide)
    dX = torch.empty_like(X)
    dweight, dbias = (torch.zeros_like(each, dtype=wide) for each in (weight, bias))
    for start in range(0, len(X), rows):
        chunk = slice(start, start + rows)
        log_P = torch.log_softmax(torch.addmm(bias, X[chunk], weight.t()), 1, dtype=wide)
        total -= (log_P.gather(1, at[chunk]) * weights[chunk]).sum()
        if not wanted:
            continue
        dlogits = log_P.exp_()  # P - onehot(targets), a row at a time in place; the factor 1 / M comes last
        dlogits.scatter_add_(1, at[chunk], -torch.ones_like(weights[chunk]))
        dlogits.mul_(weights[chunk])
        dbias += dlogits.sum(0)
        narrow = dlogits.to(X.dtype)
        torch.mm(narrow, weight, out=dX[chunk])
        if narrow.dtype == wide:
            dweight.addmm_(narrow.t(), X[chunk])
        else:
            dweight += narrow.t() @ X[chunk]
    return total * share, share, (dX, dweight, dbias) if wanted else ()
