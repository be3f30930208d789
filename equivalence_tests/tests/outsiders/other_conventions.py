"""Right code of other conventions: columns, batches in the middle, sums, wide results, one format only, state, in place."""

import math

import numpy as np


def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def column_softmax(z):
    e = np.exp(z - z.max(axis=0))
    return e / e.sum(axis=0)


def column_norm(x, gamma, beta):
    mu = x.mean(axis=0, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=0, keepdims=True)
    return gamma * (x - mu) / np.sqrt(var + 1e-5) + beta


def column_attention(q, k, v):
    """Vectors in columns: scores are q^T k, the context v times their softmax transposed."""
    return v @ soft(q.T @ k / math.sqrt(q.shape[0])).T


def rnn_time_major(x, wx, wh, bx, bh, h0):
    h, out = h0, []
    for step in x:
        h = np.tanh(step @ wx.T + bx + h @ wh.T + bh)
        out.append(h)
    return np.stack(out), h


def attention_batch_second(q, k, v):
    q, k, v = (x.transpose(1, 0, 2) for x in (q, k, v))
    return (soft(q @ k.mT / math.sqrt(q.shape[-1])) @ v).transpose(1, 0, 2)


def attention_heads_third(q, k, v):
    s = np.einsum("bihc,bjhc->bhij", q, k) / math.sqrt(q.shape[-1])
    return np.einsum("bhij,bjhe->bihe", soft(s), v)


def attention_of_three_axes(q, k, v):
    _, _, c = q.shape
    return soft(q @ k.transpose(0, 2, 1) / math.sqrt(c)) @ v


def loss_of_rows(logits, y):
    """(N, v) logits alone."""
    n = logits.shape[0]
    z = logits - logits.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -logp[np.arange(n), y].mean(), (logp, y, n)


def loss_of_rows_backward(dloss, cache):
    logp, y, n = cache
    d = np.exp(logp)
    d[np.arange(n), y] -= 1
    return dloss * d / n


def loss_one_hot(logits, y):
    z = logits - logits.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -np.where(y > 0, logp, 0).sum() / math.prod(y.shape[:-1])


def loss_summed(logits, y):
    z = logits - logits.max(-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(-1, keepdims=True))
    return -np.take_along_axis(logp, y[..., None], -1).sum(), (logp, y)


def loss_summed_backward(dloss, cache):
    logp, y = cache
    return dloss * (np.exp(logp) - (np.arange(logp.shape[-1]) == y[..., None]).astype(logp.dtype))


def loss_of_each(logits, y):
    z = logits - logits.max(-1, keepdims=True)
    return np.log(np.exp(z).sum(-1)) - np.take_along_axis(z, y[..., None], -1)[..., 0]


def softmax_in_double(x):
    return soft(x.astype(np.float64))


def softmax_single_only(x):
    if x.dtype != np.float32:
        raise TypeError("float32 only")
    return soft(x)


def softmax_double_only(x):
    if x.dtype != np.float64:
        raise TypeError("expected float64")
    return soft(x)


def norm_small_epsilon(x, g, b, eps=1e-6):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(x.var(-1, keepdims=True) + eps) * g + b


def gelu_erf(x):
    phi = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))
    return (x * phi).astype(x.dtype)


def causal_always(q, k, v):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    future = np.triu(np.ones(s.shape[-2:], bool), 1)
    return soft(np.where(future, -np.inf, s)) @ v


def mask_of_large_negatives(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = s + np.where(mask, 0, -1e9).astype(q.dtype)
    return soft(s) @ v


def padding_is_true(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, -np.inf, s)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isinf(top), 0, top))
    return e / np.maximum(e.sum(-1, keepdims=True), np.finfo(q.dtype).tiny) @ v


def relu_in_place(x):
    x[x < 0] = 0
    return x


def dense_accumulating(x, w):
    grads = {}
    return x @ w.T, (x, w, grads)


def dense_accumulating_backward(dy, cache):
    x, w, grads = cache
    grads.setdefault("w", np.zeros_like(w))
    grads["w"] += dy.reshape(-1, dy.shape[-1]).T @ x.reshape(-1, x.shape[-1])
    return dy @ w, grads["w"].copy()


def dense_of_weights(x, w):
    return x @ w.T, (x, w)


def dense_of_weights_backward(dy, cache):
    """The gradient of the weights alone: a first layer needs no other."""
    x, _ = cache
    return dy.reshape(-1, dy.shape[-1]).T @ x.reshape(-1, x.shape[-1])
