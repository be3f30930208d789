"""Torch code as it is found: without annotations, with modules' functions, einsum, buffers, autograd.Functions."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def softmax(x, dim=-1):
    e = torch.exp(x - x.max(dim, keepdim=True).values)
    return e / e.sum(dim, keepdim=True)


def attention(q, k, v, mask=None):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    a = torch.nan_to_num(F.softmax(s, dim=-1))
    return a @ v


def attention_with_bias(query, key, value, attn_bias=None, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    s = torch.einsum("...id,...jd->...ij", query, key) * scale
    if attn_bias is not None:
        s = s + attn_bias
    blocked = torch.isneginf(s).all(-1, keepdim=True)
    a = torch.softmax(s.masked_fill(blocked, 0), -1).masked_fill(blocked, 0)
    return torch.einsum("...ij,...jd->...id", a, value)


def layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) * torch.rsqrt(var + 1e-5) * weight + bias


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


def lookup(ids, weight):
    return weight[ids]


def linear(x, w, b=None):
    y = torch.matmul(x, w.t())
    return y if b is None else y + b


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        a = torch.softmax(x, -1)
        ctx.save_for_backward(a)
        return a

    @staticmethod
    def backward(ctx, da):
        (a,) = ctx.saved_tensors
        inner = (da * a).sum(-1, keepdim=True)
        return a * (da - inner)


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x, approximate="tanh")

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        k = math.sqrt(2 / math.pi)
        t = torch.tanh(k * (x + 0.044715 * x**3))
        slope = k * (1 + 3 * 0.044715 * x**2)
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.offset = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return layer_norm(x, self.gain, self.offset)


class Head(nn.Module):
    """One head, causal on request, with Linear projections."""

    def __init__(self, width, size):
        super().__init__()
        self.q = nn.Linear(width, size, bias=False)
        self.k = nn.Linear(width, size, bias=False)
        self.v = nn.Linear(width, size, bias=False)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        s = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        return F.softmax(s, -1) @ v
