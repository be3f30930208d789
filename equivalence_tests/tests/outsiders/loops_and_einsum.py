"""The same in index notation, with loops, and one row or sample at a time."""

import math

import numpy as np


def attention_einsum(q, k, v):
    s = np.einsum("...ic,...jc->...ij", q, k) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return np.einsum("...ij,...je->...ie", a, v), (q, k, v, a)


def attention_einsum_backward(dc, cache):
    q, k, v, a = cache
    da = np.einsum("...ie,...je->...ij", dc, v)
    dv = np.einsum("...ij,...ie->...je", a, dc)
    ds = a * (da - np.einsum("...ij,...ij->...i", a, da)[..., None])
    ds = ds * q.shape[-1] ** -0.5
    dq = np.einsum("...ij,...jc->...ic", ds, k)
    dk = np.einsum("...ij,...ic->...jc", ds, q)
    return dq, dk, dv


def attention_by_queries(q, k, v):
    out = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    for at in np.ndindex(q.shape[:-1]):
        batch, query = at[:-1], q[at]
        s = k[batch] @ query / math.sqrt(len(query))
        e = np.exp(s - s.max())
        out[at] = (e / e.sum()) @ v[batch]
    return out


def attention_running(q, k, v):
    """One key at a time, with a running maximum."""
    top = np.full((*q.shape[:-1], 1), -np.inf, q.dtype)
    total = np.zeros_like(top)
    out = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    for j in range(k.shape[-2]):
        s = (q @ k[..., j, :, None]) * q.shape[-1] ** -0.5
        new = np.maximum(top, s)
        old = np.exp(top - new)
        e = np.exp(s - new)
        total = total * old + e
        out = out * old + e * v[..., j, None, :]
        top = new
    return out / total


def layer_norm_rows(x, g, b):
    rows = x.reshape(-1, x.shape[-1])
    out = np.empty_like(rows)
    for i, row in enumerate(rows):
        mean = row.mean()
        std = np.sqrt(((row - mean) ** 2).mean() + np.asarray(1e-5, x.dtype))
        out[i] = (row - mean) / std * g + b
    return out.reshape(x.shape)


def layer_norm_three_terms(x, g, b):
    d = x.shape[-1]
    mu = x.sum(-1, keepdims=True) / d
    xmu = x - mu
    var = (xmu * xmu).sum(-1, keepdims=True) / d
    ivar = 1 / np.sqrt(var + 1e-5)
    return xmu * ivar * g + b, (xmu, ivar, g)


def layer_norm_three_terms_backward(dy, cache):
    xmu, ivar, g = cache
    d = xmu.shape[-1]
    lead = tuple(range(dy.ndim - 1))
    xhat = xmu * ivar
    dg = (dy * xhat).sum(lead)
    db = dy.sum(lead)
    dxhat = dy * g
    sum_d = dxhat.sum(-1, keepdims=True)
    sum_dx = (dxhat * xhat).sum(-1, keepdims=True)
    dx = ivar / d * (d * dxhat - sum_d - xhat * sum_dx)
    return dx, dg, db


def linear_einsum(x, w):
    return np.einsum("...d,kd->...k", x, w)


def linear_einsum_backward(dy, x, w):
    rows = x.reshape(-1, x.shape[-1])
    grads = dy.reshape(-1, dy.shape[-1])
    dx = np.einsum("...k,kd->...d", dy, w)
    dw = np.einsum("nk,nd->kd", grads, rows)
    return dx, dw


def rnn_loop(x, w_x, w_h, b_x, b_h):
    h = np.zeros((*x.shape[:-2], w_h.shape[0]), x.dtype)
    states = []
    for t in range(x.shape[-2]):
        h = np.tanh(x[..., t, :] @ w_x.T + b_x + h @ w_h.T + b_h)
        states.append(h)
    return (np.stack(states, -2), h), (x, w_x, w_h, states)


def rnn_loop_backward(upstream, cache):
    d_states, d_last = upstream
    x, w_x, w_h, states = cache
    dx = np.zeros_like(x)
    dwx, dwh = np.zeros_like(w_x), np.zeros_like(w_h)
    db = np.zeros(w_h.shape[0], x.dtype)
    dh = d_last
    for t in reversed(range(len(states))):
        dh = dh + d_states[..., t, :]
        dz = dh * (1 - states[t] ** 2)
        before = states[t - 1] if t else np.zeros_like(states[0])
        flat = dz.reshape(-1, dz.shape[-1])
        dwx += flat.T @ x[..., t, :].reshape(-1, x.shape[-1])
        dwh += flat.T @ before.reshape(-1, before.shape[-1])
        db += flat.sum(0)
        dx[..., t, :] = dz @ w_x
        dh = dz @ w_h
    return dx, dwx, dwh, db, db.copy()


def embedding_loop(ids, table):
    return np.stack([table[i] for i in ids.reshape(-1)]).reshape(*ids.shape, table.shape[1])


def embedding_loop_backward(dy, ids, table):
    d = np.zeros_like(table)
    for i, row in zip(ids.reshape(-1), dy.reshape(-1, dy.shape[-1]), strict=True):
        d[i] += row
    return d


def heads_by_reshape(x, wq, wk, wv, wo, num_heads):
    q = split(x @ wq, num_heads)
    k = split(x @ wk, num_heads)
    v = split(x @ wv, num_heads)
    s = q @ k.mT / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return merge(a @ v) @ wo


def split(x, num_heads):
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-2, -3)


def merge(x):
    y = x.swapaxes(-2, -3)
    return y.reshape(*y.shape[:-2], -1)


def heads_in_a_list(x, wq, wk, wv, wo, num_heads):
    c = wq.shape[1] // num_heads
    parts = []
    for h in range(num_heads):
        own = slice(h * c, (h + 1) * c)
        q, k, v = x @ wq[:, own], x @ wk[:, own], x @ wv[:, own]
        s = q @ k.mT / math.sqrt(c)
        e = np.exp(s - s.max(-1, keepdims=True))
        parts.append(e / e.sum(-1, keepdims=True) @ v)
    return np.concatenate(parts, -1) @ wo
