"""NumPy functions as courses write them: no options, a forward and a backward beside it."""

import numpy as np


def softmax_rows(x):
    shifted = x - np.max(x, axis=-1, keepdims=True)
    weights = np.exp(shifted)
    norm = np.sum(weights, axis=-1, keepdims=True)
    return weights / norm


def softmax_rows_backward(grad, x):
    probs = softmax_rows(x)
    mixed = grad * probs
    total = mixed.sum(-1, keepdims=True)
    return mixed - probs * total


def log_softmax_rows(x):
    top = x.max(-1, keepdims=True)
    shifted = x - top
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def log_softmax_rows_backward(grad, x):
    logp = log_softmax_rows(x)
    total = grad.sum(-1, keepdims=True)
    return grad - np.exp(logp) * total


def log_softmax_by_logaddexp(x):
    return x - np.logaddexp.reduce(x, axis=-1, keepdims=True)


def tanh_forward(x):
    out = np.tanh(x)
    return out, out


def tanh_forward_backward(dout, out):
    slope = 1 - out * out
    return dout * slope


def relu_forward(x):
    mask = x > 0
    return np.maximum(x, 0), mask


def relu_forward_backward(dout, mask):
    return dout * mask


def dense(x, w, b):
    out = x @ w.T + b
    return out, (x, w)


def dense_backward(dout, c):
    x, w = c
    dx = dout @ w
    flat = dout.reshape(-1, dout.shape[-1])
    dw = flat.T @ x.reshape(-1, x.shape[-1])
    db = flat.sum(axis=0)
    return dx, dw, db


def layernorm_forward(x, gamma, beta):
    mu = x.mean(axis=-1, keepdims=True)
    centred = x - mu
    var = np.mean(centred**2, axis=-1, keepdims=True)
    inv = 1.0 / np.sqrt(var + 1e-5)
    xhat = centred * inv
    out = gamma * xhat + beta
    return out, (xhat, inv, gamma)


def layernorm_forward_backward(dout, cache):
    xhat, inv, gamma = cache
    axes = tuple(range(dout.ndim - 1))
    dgamma = np.sum(dout * xhat, axis=axes)
    dbeta = np.sum(dout, axis=axes)
    dxhat = dout * gamma
    mean_d = dxhat.mean(axis=-1, keepdims=True)
    mean_dx = (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = inv * (dxhat - mean_d - xhat * mean_dx)
    return dx, dgamma, dbeta


def lookup(tokens, table):
    return table[tokens], (tokens, table.shape)


def lookup_backward(dout, cache):
    tokens, shape = cache
    dtable = np.zeros(shape, dout.dtype)
    np.add.at(dtable, tokens, dout)
    return dtable


def attend(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2)
    scores = scores / q.shape[-1] ** 0.5
    weights = softmax_rows(scores)
    return weights @ v, (q, k, v, weights)


def attend_backward(dout, cache):
    q, k, v, weights = cache
    scale = np.asarray(q.shape[-1] ** -0.5, q.dtype)
    dv = np.swapaxes(weights, -1, -2) @ dout
    dweights = dout @ np.swapaxes(v, -1, -2)
    inner = (dweights * weights).sum(-1, keepdims=True)
    dscores = weights * (dweights - inner)
    dq = scale * (dscores @ k)
    dk = scale * (np.swapaxes(dscores, -1, -2) @ q)
    return dq, dk, dv


def plain_attention(x):
    weights = softmax_rows(x @ x.mT)
    return weights @ x, (x, weights)


def plain_attention_backward(dout, cache):
    x, weights = cache
    dweights = dout @ x.mT
    inner = (dweights * weights).sum(-1, keepdims=True)
    dscores = weights * (dweights - inner)
    dx = weights.mT @ dout
    dx = dx + dscores @ x
    return dx + dscores.mT @ x


def projected(x, wq, wk, wv):
    q = x @ wq
    k = x @ wk
    v = x @ wv
    out, cache = attend(q, k, v)
    return out, (x, wq, wk, wv, cache)


def projected_backward(dout, cache):
    x, wq, wk, wv, inner = cache
    dq, dk, dv = attend_backward(dout, inner)
    dx = dq @ wq.T + dk @ wk.T + dv @ wv.T
    flat = x.reshape(-1, x.shape[-1])
    dwq = flat.T @ dq.reshape(-1, dq.shape[-1])
    dwk = flat.T @ dk.reshape(-1, dk.shape[-1])
    dwv = flat.T @ dv.reshape(-1, dv.shape[-1])
    return dx, dwq, dwk, dwv


def nll(logits, labels):
    logp = log_softmax_rows(logits)
    picked = np.take_along_axis(logp, labels[..., None], axis=-1)
    return -picked.mean(), (logp, labels)


def nll_backward(dloss, cache):
    logp, labels = cache
    probs = np.exp(logp)
    one_hot = np.arange(probs.shape[-1]) == labels[..., None]
    return dloss * (probs - one_hot) / labels.size


def masked_dropout(x, keep, p):
    factor = 0.0 if p == 1 else 1 / (1 - p)
    return x.copy() if keep is None else x * keep * np.asarray(factor, x.dtype), (keep, p)


def masked_dropout_backward(dout, cache):
    keep, p = cache
    factor = 0.0 if p == 1 else 1 / (1 - p)
    return dout.copy() if keep is None else dout * keep * np.asarray(factor, dout.dtype)


def gelu_tanh(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + np.tanh(inner))


def gelu_tanh_backward(dout, x):
    inner = 0.7978845608028654 * (x + 0.044715 * x**3)
    t = np.tanh(inner)
    slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x**2)
    return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
