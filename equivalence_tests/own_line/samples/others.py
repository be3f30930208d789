"""Linear layers, activations, embeddings, dropout and the recurrent network; and torch's functions."""

from equivalence_tests.own_line.samples import Sample

SAMPLES = (
    Sample(
        "linear",
        "linear",
        """\
import numpy as np

def linear(X, weight, bias=None):
    Y = X @ weight.T
    if bias is not None:
        Y = Y + bias
    return Y, (X, weight, bias)

def linear_backward(dY, cache):
    X, weight, bias = cache
    x = X.reshape(-1, X.shape[-1])
    g = dY.reshape(-1, dY.shape[-1])
    dX = dY @ weight
    dweight = g.T @ x
    if bias is None:
        return dX, dweight
    dbias = g.sum(0)
    return dX, dweight, dbias
""",
        (
            ("Y = Y + bias", "Y = Y - bias"),
            ("dbias = g.sum(0)", "dbias = g.mean(0)"),
            ("dweight = g.T @ x", "dweight = g.T @ x / len(x)"),
            ("dX = dY @ weight", "dX = dY @ weight * 2"),
        ),
    ),
    Sample(
        "gelu",
        "gelu",
        """\
import numpy as np

def gelu(X):
    k = 0.7978845608028654
    inner = X + 0.044715 * X ** 3
    t = np.tanh(k * inner)
    Y = 0.5 * X * (1 + t)
    return Y, (X, t, k)

def gelu_backward(dY, cache):
    X, t, k = cache
    dinner = k * (1 + 3 * 0.044715 * X ** 2)
    left = 0.5 * (1 + t)
    right = 0.5 * X * (1 - t ** 2) * dinner
    dX = dY * (left + right)
    return dX
""",
        (
            ("inner = X + 0.044715 * X ** 3", "inner = X + 0.44715 * X ** 3"),
            ("inner = X + 0.044715 * X ** 3", "inner = X + 0.044715 * X ** 2"),
            ("dinner = k * (1 + 3 * 0.044715 * X ** 2)", "dinner = k * (1 + 0.044715 * X ** 2)"),
            ("right = 0.5 * X * (1 - t ** 2) * dinner", "right = 0.5 * X * (1 - t) * dinner"),
            ("right = 0.5 * X * (1 - t ** 2) * dinner", "right = 0.5 * (1 - t ** 2) * dinner"),
            ("left = 0.5 * (1 + t)", "left = 0.5 * t"),
            ("dX = dY * (left + right)", "dX = dY * left"),
            ("k = 0.7978845608028654", "k = 0.6366197723675814"),
        ),
    ),
    Sample(
        "relu and tanh: tanh",
        "tanh",
        """\
import numpy as np

def tanh(X):
    Y = np.tanh(X)
    return Y, Y

def tanh_backward(dY, cache):
    Y = cache
    slope = 1 - Y * Y
    dX = dY * slope
    return dX
""",
        (
            ("slope = 1 - Y * Y", "slope = 1 - Y"),
            ("dX = dY * slope", "dX = slope"),
        ),
    ),
    Sample(
        "relu",
        "relu",
        """\
import numpy as np

def relu(X):
    keep = X > 0
    Y = np.where(keep, X, 0).astype(X.dtype)
    return Y, keep

def relu_backward(dY, cache):
    keep = cache
    dX = dY * keep
    return dX
""",
        (
            ("dX = dY * keep", "dX = dY.copy()"),
            ("Y = np.where(keep, X, 0).astype(X.dtype)", "Y = np.abs(X)"),
        ),
    ),
    Sample(
        "embedding",
        "embedding",
        """\
import numpy as np

def embedding(ids, weight):
    Y = weight[ids]
    return Y, (ids, weight.shape)

def embedding_backward(dY, cache):
    ids, shape = cache
    dweight = np.zeros(shape, dY.dtype)
    np.add.at(dweight, ids, dY)
    return dweight
""",
        (
            ("np.add.at(dweight, ids, dY)", "dweight[ids] = dY"),
            ("np.add.at(dweight, ids, dY)", "dweight[ids] += dY"),
            ("Y = weight[ids]", "Y = weight[ids - 1]"),
        ),
    ),
    Sample(
        "dropout",
        "dropout",
        """\
import numpy as np

def dropout(X, keep, p):
    factor = 0.0 if p == 1 else 1.0 / (1.0 - p)
    mask = keep * X.dtype.type(factor)
    Y = X * mask
    return Y, mask

def dropout_backward(dY, cache):
    mask = cache
    dX = dY * mask
    return dX
""",
        (
            ("factor = 0.0 if p == 1 else 1.0 / (1.0 - p)", "factor = 1.0"),
            ("factor = 0.0 if p == 1 else 1.0 / (1.0 - p)", "factor = 0.0 if p == 0 else 1.0 / p"),
            ("dX = dY * mask", "dX = dY * (mask > 0)"),
        ),
    ),
    Sample(
        "rnn",
        "rnn",
        """\
import numpy as np

def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    steps = X.shape[-2]
    h = np.zeros((*X.shape[:-2], W_hh.shape[0]), X.dtype) if h0 is None else h0
    states = [h]
    for t in range(steps):
        a = X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh
        h = np.tanh(a)
        states.append(h)
    H = np.stack(states[1:], -2)
    return (H, h.copy()), (X, W_ih, W_hh, states, h0 is not None)

def rnn_backward(upstream, cache):
    dH, dh_last = upstream
    X, W_ih, W_hh, states, has_start = cache
    dW_ih, dW_hh = np.zeros_like(W_ih), np.zeros_like(W_hh)
    db = np.zeros(W_hh.shape[0], X.dtype)
    dX = np.zeros_like(X)
    dh = dh_last
    for t in reversed(range(X.shape[-2])):
        total = dh + dH[..., t, :]
        da = total * (1 - states[t + 1] ** 2)
        flat = da.reshape(-1, da.shape[-1])
        dW_ih += flat.T @ X[..., t, :].reshape(len(flat), -1)
        dW_hh += flat.T @ states[t].reshape(len(flat), -1)
        db += flat.sum(0)
        dX[..., t, :] = da @ W_ih
        dh = da @ W_hh
    gradients = (dX, dW_ih, dW_hh, db, db.copy())
    return (*gradients, dh) if has_start else gradients
""",
        (
            ("a = X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh", "a = X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T"),
            ("da = total * (1 - states[t + 1] ** 2)", "da = total * (1 - states[t] ** 2)"),
            ("total = dh + dH[..., t, :]", "total = dH[..., t, :]"),
            ("dh = da @ W_hh", "dh = da @ W_hh.T"),
            (
                "dW_hh += flat.T @ states[t].reshape(len(flat), -1)",
                "dW_hh += flat.T @ states[t + 1].reshape(len(flat), -1)",
            ),
            (
                "dW_ih += flat.T @ X[..., t, :].reshape(len(flat), -1)",
                "dW_ih = flat.T @ X[..., t, :].reshape(len(flat), -1)",
            ),
            ("db += flat.sum(0)", "db += flat.mean(0)"),
            ("h = np.tanh(a)", "h = np.tanh(a) * 0.9"),
        ),
    ),
)
