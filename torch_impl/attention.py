"""Scaled dot-product attention, composed or in torch's fused kernels, and every intermediate of it by name."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_numpy import _check as rules
from torch_impl import _check
from torch_impl.dropout import dropout


class AttentionStages(NamedTuple):
    """Every named intermediate, in the order in which it arises; the last seven are None without dC."""

    Omega: Tensor
    scaled: Tensor
    masked: Tensor
    A: Tensor
    C: Tensor
    dA: Tensor | None
    delta: Tensor | None
    dS: Tensor | None
    dOmega: Tensor | None
    dQ: Tensor | None
    dK: Tensor | None
    dV: Tensor | None


class Composed(NamedTuple):
    """The forward intermediates, still in the graph."""

    Omega: Tensor
    scaled: Tensor
    masked: Tensor
    A: Tensor
    C: Tensor


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Tensor | None = None,
    p: float = 0.0,
    fused: bool = False,
) -> Tensor:
    """C = dropout(A) V,  A = softmax(Q K^T * scale + bias) over the allowed keys

    Q: (..., n, c), K: (..., m, c), V: (..., m, e), A: (..., n, m), C: (..., n, e); leading axes equal.

    mask: boolean, True = may attend; bias: added to the scaled scores, -inf counts as "may not attend", a constant (no
    gradient reaches it); both broadcast to (..., n, m), their last axis being m itself. causal: query i sits at position
    i + query_offset and sees the keys j <= i + query_offset. scale: 1/sqrt(c) if left out. keep, p: the dropout of A, not
    renormalised; keep is exactly (..., n, m).

    A row with nothing to attend to has A = 0, C = 0 and no gradient through it. NaN and +inf propagate.

    fused: torch's scaled_dot_product_attention. It draws its own dropout, so it takes no keep; empty rows are found from
    mask, causal and bias, not from scores that happen to be -inf; NaN and +inf are left to the kernel.

    Source 1: A = softmax(Omega / sqrt(c), axis=1), C = A V. Source 2: -inf before the softmax, dropout after it.
    Raises TypeError for dtypes, ValueError for shapes, p outside [0, 1], p > 0 without keep, or keep with fused.
    """
    scale = attention_scale("attention", Q, K, V, mask, bias, query_offset, scale, keep, p)
    if not fused:
        return compose(Q, K, V, mask, bias, causal, query_offset, scale, keep, p).C
    refuse_keep("attention", keep)
    return _fuse(Q, K, V, mask, bias, causal, query_offset, scale)


def attention_stages(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    dC: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Tensor | None = None,
    p: float = 0.0,
) -> AttentionStages:
    """Omega = Q K^T;  scaled = Omega * scale;  masked = scaled + bias, or -inf;  A = softmax(masked);  C = dropout(A) V;
    dA, dS, dOmega, dQ, dK, dV: the gradients of sum(C * dC) by A, masked, Omega, Q, K, V;  delta = sum A dA

    Omega, scaled, masked, A, dA, dS, dOmega: (..., n, m); delta: (..., n, 1); the others as in `attention`.

    Autograd runs on copies, so it does not matter whether the operands want gradients or the caller allows them.
    Raises as attention does.
    """
    op = "attention_stages"
    scale = attention_scale(op, Q, K, V, mask, bias, query_offset, scale, keep, p)
    if dC is not None:
        _check.floats(op, Q=Q, dC=dC)
        rules.same_shape(op, "dC", dC, (*Q.shape[:-1], V.shape[-1]), "C")
    with torch.inference_mode(False), torch.enable_grad():
        q, k, v = (operand.detach().clone().requires_grad_() for operand in (Q, K, V))
        forward = compose(q, k, v, mask, bias, causal, query_offset, scale, keep, p)
        Omega, scaled, masked, A, C = (stage.detach() for stage in forward)
        masked = masked.clone()  # where nothing is masked it is `scaled` itself
        if dC is None:
            return AttentionStages(Omega, scaled, masked, A, C, None, None, None, None, None, None, None)
        stages = (forward.A, forward.masked, forward.Omega, q, k, v)
        dA, dS, dOmega, dQ, dK, dV = torch.autograd.grad(forward.C, stages, dC.detach())
    delta = (A * dA).sum(-1, keepdim=True)
    return AttentionStages(Omega, scaled, masked, A, C, dA, delta, dS, dOmega, dQ, dK, dV)


def compose(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    query_offset: int,
    scale: float,
    keep: Tensor | None,
    p: float,
) -> Composed:
    """Attention step by step, operands already checked."""
    Omega = Q @ K.mT
    scaled = Omega * scale
    masked = scaled if bias is None else scaled + bias.detach()
    allowed = _allowed(masked, mask, causal, query_offset)
    if allowed is not None:
        masked = masked.masked_fill(~allowed, -math.inf)
    # An empty row must be made harmless before the softmax: zeroing its NaN afterwards would leave NaN in the gradient.
    empty = (masked == -math.inf).all(-1, keepdim=True)
    A = torch.softmax(masked.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    C = (A if keep is None else dropout(A, keep, p)) @ V
    return Composed(Omega, scaled, masked, A, C)


def _fuse(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    causal: bool,
    query_offset: int,
    scale: float,
) -> Tensor:
    """Attention in one call of torch's kernel, operands already checked."""
    lead, n, m, e = Q.shape[:-2], Q.shape[-2], K.shape[-2], V.shape[-1]
    top_left = causal and query_offset == 0 and mask is None and bias is None  # exactly what is_causal means
    scores = Q.new_empty(()).expand(*lead, n, m)  # only its shape and device are read
    allowed = None if top_left else _allowed(scores, mask, causal, query_offset)
    if bias is not None:
        attends = bias != -math.inf
        allowed = attends if allowed is None else allowed & attends
    if scale <= 0.0:  # online softmax kernels take the row's maximum before scaling, which needs a positive scale
        Q, scale = Q * scale, 1.0
    if allowed is None:
        C = F.scaled_dot_product_attention(_in_4d(Q), _in_4d(K), _in_4d(V), is_causal=top_left, scale=scale)
        return C.reshape(*lead, n, e)
    empty = ~allowed.any(-1, keepdim=True)
    if bias is None:
        one_mask = allowed | empty
    else:
        one_mask = torch.where(allowed, bias.detach(), -math.inf).masked_fill(empty, 0.0)
    C = F.scaled_dot_product_attention(
        _in_4d(Q), _in_4d(K), _in_4d(V), attn_mask=_mask_in_4d(one_mask, lead, n), scale=scale
    )
    return C.reshape(*lead, n, e).masked_fill(empty, 0.0)


def _allowed(scores: Tensor, mask: Tensor | None, causal: bool, query_offset: int) -> Tensor | None:
    """True where mask and causal let a query attend, or None if they let it everywhere."""
    if not causal:
        return mask
    n, m = scores.shape[-2:]
    queries = torch.arange(n, device=scores.device)[:, None] + query_offset  # (n, 1)
    seen = torch.arange(m, device=scores.device) <= queries
    return seen if mask is None else mask & seen


def _in_4d(X: Tensor) -> Tensor:
    """(..., n, c) -> (batch, heads, n, c): the fast kernels take four axes, no more and no fewer."""
    lead = X.shape[:-2]
    return X.reshape(math.prod(lead[:-1]), lead[-1] if lead else 1, *X.shape[-2:])


def _mask_in_4d(mask: Tensor, lead: torch.Size, n: int) -> Tensor:
    """As _in_4d, but an axis of 1 stays 1 where it can: a mask for all heads is not copied for each."""
    full = mask.reshape((1,) * (len(lead) + 2 - mask.ndim) + tuple(mask.shape))
    full = full.expand(*full.shape[:-2], n, -1)
    if any(size != 1 for size in full.shape[:-3]):
        full = full.expand(*lead[:-1], *full.shape[-3:])
    return _in_4d(full)


def attention_scale(
    op: str,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    query_offset: int,
    scale: float | None,
    keep: Tensor | None,
    p: float,
) -> float:
    """Check the operands of an attention and return its scale."""
    _check.floats(op, Q=Q, K=K, V=V, bias=bias)
    c = rules.shapes(op, Q=(Q, "... n c"), K=(K, "... m c"), V=(V, "... m e"))["c"]
    weights = (*Q.shape[:-1], K.shape[-2])
    _check.attention_options(op, ("Q", Q), weights, mask, bias, query_offset, keep, p)
    return 1.0 / math.sqrt(c) if scale is None else rules.number(op, "scale", scale)


def refuse_keep(op: str, keep: Tensor | None) -> None:
    if keep is not None:
        raise ValueError(f"{op}: keep is given, expected None with fused=True (the fused kernel draws its own dropout)")
