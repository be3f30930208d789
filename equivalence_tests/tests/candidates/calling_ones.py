"""Right functions over NumPy arrays whose parameters are called in many ways."""

import numpy as np


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    a = e / e.sum(axis, keepdims=True)
    return a, (a, axis)


def softmax_of_c(dA, c):
    a, axis = c
    return a * (dA - (a * dA).sum(axis, keepdims=True))


def softmax_of_A(dA, A):
    return softmax_of_c(dA, A)


def softmax_of_Y(dout, Y):
    return softmax_of_c(dout, Y)


def softmax_of_out(dout, out=None):
    return softmax_of_c(dout, out)


def softmax_of_X(dA, X):
    return softmax_of_c(dA, X)


def attention(q, k, v):
    s = q @ k.mT / q.shape[-1] ** 0.5
    a, _ = softmax(s)
    return a @ v, (q, k, v, a)


def attention_of_C(dC, C):
    q, k, v, a = C
    ds = softmax_of_c(dC @ v.mT, (a, -1)) / q.shape[-1] ** 0.5
    return ds @ k, ds.mT @ q, a.mT @ dC


def attention_of_operands(dC, q, k, v):
    """The forward remembers something; this one asks for the operands all the same."""
    return attention_of_C(dC, attention(q, k, v)[1])


def exponential(x):
    """(A, A): what it remembers is its output."""
    a, _ = softmax(x)
    return a, a


def exponential_of_output(dA, y):
    return softmax_of_c(dA, (y, -1))


def loss(logits, targets):
    z = logits - logits.max(-1, keepdims=True)
    lse = np.log(np.exp(z).sum(-1, keepdims=True))
    t = targets.reshape(-1)
    p = (z - lse).reshape(-1, z.shape[-1])
    return -p[np.arange(t.size), t].mean(), (p, targets, z.shape)


def loss_backward(dloss, cache):
    """It multiplies by what comes: a NumPy number in float64 would widen float32."""
    p, targets, shape = cache
    d = np.exp(p)
    d[np.arange(targets.size), targets.reshape(-1)] -= 1
    d /= targets.size
    return (dloss * d).reshape(shape)


def table(weight, ids):
    """The other way round than in the reference."""
    return weight[ids], (weight.shape, ids)


def table_backward(dY, cache):
    shape, ids = cache
    d = np.zeros(shape, dY.dtype)
    np.add.at(d, ids, dY)
    return d


def softmax_needs_dim(x, dim):
    return softmax(x, dim)[0]


def norm_of_five(input, normalized_shape, weight, bias, eps):
    axes = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps) * weight + bias


def draws_weights(x, weight, bias=None):
    """It makes a layer whose constructor draws weights, which are then overwritten."""
    w = np.random.randn(*weight.shape).astype(weight.dtype)  # noqa: NPY002
    w[...] = weight
    y = x @ w.mT
    return y if bias is None else y + bias


def drops_at_random(x):
    return np.maximum(x, 0) * (np.random.rand(*x.shape) < 0.99)  # noqa: NPY002


def without_both(q, k, v, mask=None, causal=False):
    """It refuses a mask beside causal, and is right with either."""
    if mask is not None and causal:
        raise ValueError("mask must be None where causal is set")
    return _masked(q, k, v, mask, causal)


def without_mask(q, k, v, mask=None, causal=False):
    if mask is not None:
        raise NotImplementedError("mask is not implemented yet")
    return _masked(q, k, v, mask, causal)


def _masked(q, k, v, mask, causal):
    s = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isneginf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def square_only(q, k, v):
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(f"{q.shape[-2]} queries, {k.shape[-2]} keys")
    return attention(q, k, v)[0]


def batched_only(q, k, v):
    _, _, _ = q.shape
    return attention(q, k, v)[0]


def contiguous_only(q, k, v):
    if not all(x.flags.c_contiguous for x in (q, k, v)):
        raise ValueError("ndarray is not C-contiguous")
    return attention(q, k, v)[0]


def powers_of_two(q, k, v):
    c = q.shape[-1]
    if c & (c - 1):
        raise ValueError(f"{c} is no power of 2")
    return attention(q, k, v)[0]


def fails_on_one_key(q, k, v):
    """No refusal: a mistake that raises."""
    m = k.shape[-2]
    return attention(q, k, v)[0] / (1 // (m // 2)) ** 0


def norm(x, gamma, beta):
    mean = x.mean(-1, keepdims=True)
    r = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    n = (x - mean) * r
    return n * gamma + beta, (n, r, gamma)


def norm_backward(dy, cache):
    """Of the weights alone."""
    n, _, _ = cache
    rows = tuple(range(dy.ndim - 1))
    return {"dgamma": (dy * n).sum(rows), "dbeta": dy.sum(rows) if rows else dy.copy()}


def norm_backward_with_none(dy, cache):
    found = norm_backward(dy, cache)
    return None, found["dgamma"], found["dbeta"]


def norm_backward_of_two(dy, cache):
    found = norm_backward(dy, cache)
    return found["dgamma"], found["dbeta"]


def norm_backward_twice(dy, cache):
    return {name: 2 * gradient for name, gradient in norm_backward(dy, cache).items()}


def norm_backward_with_none_twice(dy, cache):
    return tuple(g if g is None else 2 * g for g in norm_backward_with_none(dy, cache))


def norm_backward_of_two_twice(dy, cache):
    return tuple(2 * g for g in norm_backward_of_two(dy, cache))


def misses_a_name(q, k, v, mask=None):
    """No refusal either."""
    return attention(q, k, v)[0] if mask is None else attention(q, k, v, a_mask)[0]  # noqa: F821


def of_strings(x):
    raise TypeError(f"expected a str, got {type(x).__name__}")


def raises_backward(dA, cache):
    raise ValueError("shapes do not match")


def needs_causal(x, wq, wk, wv, is_causal):
    """It cannot be called without."""
    return _masked(x @ wq, x @ wk, x @ wv, None, is_causal)


def relu_of_a_graph(x):
    """What it remembers is freed by its backward."""
    return np.maximum(x, 0), [x > 0]


def relu_of_a_graph_backward(dY, graph):
    if not graph:
        raise RuntimeError("the graph was freed")
    return dY * graph.pop()
