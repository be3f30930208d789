"""Softmax, log-softmax, layer norm and cross-entropy."""

from equivalence_tests.own_line.samples import Sample

SAMPLES = (
    Sample(
        "softmax, plain",
        "softmax",
        """\
import numpy as np

def softmax(X, axis=-1):
    top = X.max(axis, keepdims=True)
    E = np.exp(X - top)
    total = E.sum(axis, keepdims=True)
    A = E / total
    return A, (A, axis)

def softmax_backward(dA, cache):
    A, axis = cache
    inner = (A * dA).sum(axis, keepdims=True)
    dX = A * (dA - inner)
    return dX
""",
        (
            ("total = E.sum(axis, keepdims=True)", "total = E.sum(0, keepdims=True)"),
            ("E = np.exp(X - top)", "E = np.exp(top - X)"),
            ("A = E / total", "A = E / (total + 1e-3)"),
            ("(A * dA).sum(axis, keepdims=True)", "(A * dA).mean(axis, keepdims=True)"),
            ("(A * dA).sum(axis, keepdims=True)", "dA.sum(axis, keepdims=True)"),
            ("(A * dA).sum(axis, keepdims=True)", "(A * dA).sum()"),
            ("dX = A * (dA - inner)", "dX = dA - inner"),
            ("dX = A * (dA - inner)", "dX = A * (dA + inner)"),
            ("dX = A * (dA - inner)", "dX = A * dA"),
            ("dX = A * (dA - inner)", "dX = A * (1 - A) * dA"),
        ),
    ),
    Sample(
        "softmax, by rows",
        "softmax",
        """\
import numpy as np

def softmax(X, axis=-1):
    Z = np.moveaxis(X, axis, -1)
    rows = Z.reshape(-1, Z.shape[-1])
    out = np.zeros_like(rows)
    for i in range(len(rows)):
        row = rows[i] - rows[i].max()
        e = np.exp(row)
        out[i] = e / e.sum()
    A = np.moveaxis(out.reshape(Z.shape), -1, axis)
    return A, (A, axis)

def softmax_backward(dA, cache):
    A, axis = cache
    P = np.moveaxis(A, axis, -1)
    G = np.moveaxis(dA, axis, -1)
    p = P.reshape(-1, P.shape[-1])
    g = G.reshape(p.shape)
    out = np.zeros_like(p)
    for i in range(len(p)):
        J = np.diag(p[i]) - np.outer(p[i], p[i])
        out[i] = J @ g[i]
    return np.moveaxis(out.reshape(P.shape), -1, axis)
""",
        (
            ("J = np.diag(p[i]) - np.outer(p[i], p[i])", "J = np.diag(p[i]) + np.outer(p[i], p[i])"),
            ("J = np.diag(p[i]) - np.outer(p[i], p[i])", "J = np.diag(p[i] * (1 - p[i]))"),
            ("out[i] = e / e.sum()", "out[i] = e / e.max()"),
            ("e = np.exp(row)", "e = np.exp2(row)"),
        ),
    ),
    Sample(
        "log-softmax",
        "log_softmax",
        """\
import numpy as np

def log_softmax(X, axis=-1):
    m = X.max(axis, keepdims=True)
    shifted = X - m
    lse = np.log(np.exp(shifted).sum(axis, keepdims=True))
    Y = shifted - lse
    return Y, (Y, axis)

def log_softmax_backward(dY, cache):
    Y, axis = cache
    P = np.exp(Y)
    total = dY.sum(axis, keepdims=True)
    dX = dY - P * total
    return dX
""",
        (
            (
                "lse = np.log(np.exp(shifted).sum(axis, keepdims=True))",
                "lse = np.log(np.exp(shifted).mean(axis, keepdims=True))",
            ),
            ("Y = shifted - lse", "Y = X - lse"),
            ("P = np.exp(Y)", "P = Y"),
            ("total = dY.sum(axis, keepdims=True)", "total = dY.mean(axis, keepdims=True)"),
            ("total = dY.sum(axis, keepdims=True)", "total = dY.sum()"),
            ("dX = dY - P * total", "dX = dY - P"),
            ("dX = dY - P * total", "dX = P * (dY - total)"),
        ),
    ),
    Sample(
        "layer norm, two means",
        "layer_norm",
        """\
import numpy as np

def layer_norm(X, scale, shift, epsilon=1e-5):
    mean = X.mean(-1, keepdims=True)
    D = X - mean
    var = (D * D).mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    Y = N * scale + shift
    return Y, (N, r, scale)

def layer_norm_backward(dY, cache):
    N, r, scale = cache
    d = N.shape[-1]
    dshift = dY.reshape(-1, d).sum(0)
    dscale = (dY * N).reshape(-1, d).sum(0)
    dN = dY * scale
    first = dN.mean(-1, keepdims=True)
    second = (dN * N).mean(-1, keepdims=True)
    dX = r * (dN - first - N * second)
    return dX, dscale, dshift
""",
        (
            (
                "var = (D * D).mean(-1, keepdims=True)",
                "var = X.var(-1, keepdims=True, ddof=1) if X.shape[-1] > 1 else X * 0",
            ),
            ("r = 1.0 / np.sqrt(var + epsilon)", "r = 1.0 / (np.sqrt(var) + epsilon)"),
            ("r = 1.0 / np.sqrt(var + epsilon)", "r = 1.0 / (var + epsilon)"),
            ("mean = X.mean(-1, keepdims=True)", "mean = X.mean()"),
            ("N = D * r", "N = X * r"),
            ("Y = N * scale + shift", "Y = (N + shift) * scale"),
            ("dscale = (dY * N).reshape(-1, d).sum(0)", "dscale = (dY * N * scale).reshape(-1, d).sum(0)"),
            ("dshift = dY.reshape(-1, d).sum(0)", "dshift = dY.reshape(-1, d).mean(0)"),
            ("dN = dY * scale", "dN = dY"),
            ("first = dN.mean(-1, keepdims=True)", "first = dN.sum(-1, keepdims=True)"),
            ("first = dN.mean(-1, keepdims=True)", "first = dY.mean(-1, keepdims=True)"),
            ("second = (dN * N).mean(-1, keepdims=True)", "second = (dY * N).mean(-1, keepdims=True)"),
            ("second = (dN * N).mean(-1, keepdims=True)", "second = (dN * N).sum(-1, keepdims=True)"),
            ("dX = r * (dN - first - N * second)", "dX = r * (dN - N * second)"),
            ("dX = r * (dN - first - N * second)", "dX = dN - first - N * second"),
            ("dX = r * (dN - first - N * second)", "dX = r * (dN - first - second)"),
        ),
    ),
    Sample(
        "layer norm, through the variance",
        "layer_norm",
        """\
import numpy as np

class State:
    pass

def layer_norm(x, gamma, beta, epsilon=1e-5):
    s = State()
    s.mu = np.mean(x, axis=-1, keepdims=True)
    s.xmu = x - s.mu
    s.var = np.mean(s.xmu ** 2, axis=-1, keepdims=True)
    s.sqrtvar = np.sqrt(s.var + epsilon)
    s.ivar = 1.0 / s.sqrtvar
    s.xhat = s.xmu * s.ivar
    s.gamma = gamma
    return gamma * s.xhat + beta, s

def layer_norm_backward(dout, cache):
    s = cache
    D = dout.shape[-1]
    axes = tuple(range(dout.ndim - 1))
    dbeta = np.sum(dout, axis=axes)
    dgamma = np.sum(dout * s.xhat, axis=axes)
    dxhat = dout * s.gamma
    divar = np.sum(dxhat * s.xmu, axis=-1, keepdims=True)
    dxmu1 = dxhat * s.ivar
    dsqrtvar = -1.0 / (s.sqrtvar ** 2) * divar
    dvar = 0.5 / s.sqrtvar * dsqrtvar
    dsq = np.ones_like(dout) / D * dvar
    dxmu2 = 2 * s.xmu * dsq
    dx1 = dxmu1 + dxmu2
    dmu = -np.sum(dx1, axis=-1, keepdims=True)
    dx2 = np.ones_like(dout) / D * dmu
    dx = dx1 + dx2
    return dx, dgamma, dbeta
""",
        (
            ("dxmu1 = dxhat * s.ivar", "dxmu1 = dxhat"),
            ("dsqrtvar = -1.0 / (s.sqrtvar ** 2) * divar", "dsqrtvar = 1.0 / (s.sqrtvar ** 2) * divar"),
            ("dvar = 0.5 / s.sqrtvar * dsqrtvar", "dvar = 1.0 / s.sqrtvar * dsqrtvar"),
            ("dxmu2 = 2 * s.xmu * dsq", "dxmu2 = s.xmu * dsq"),
            ("dmu = -np.sum(dx1, axis=-1, keepdims=True)", "dmu = np.sum(dx1, axis=-1, keepdims=True)"),
            ("dx = dx1 + dx2", "dx = dx1"),
            ("s.xhat = s.xmu * s.ivar", "s.xhat = s.xmu / s.var"),
            ("dgamma = np.sum(dout * s.xhat, axis=axes)", "dgamma = np.sum(dout * s.xmu, axis=axes)"),
        ),
    ),
    Sample(
        "cross-entropy, plain",
        "cross_entropy",
        """\
import numpy as np

def cross_entropy(logits, targets, ignore_index=None):
    flat = logits.reshape(-1, logits.shape[-1])
    t = targets.reshape(-1)
    counted = np.ones(t.shape, bool) if ignore_index is None else t != ignore_index
    M = counted.sum()
    top = flat.max(-1, keepdims=True)
    lse = top + np.log(np.exp(flat - top).sum(-1, keepdims=True))
    log_P = flat - lse
    safe = np.where(counted, t, 0)
    picked = log_P[np.arange(len(t)), safe]
    loss = -(picked * counted).sum() / M
    return loss.astype(logits.dtype), (log_P, safe, counted, float(M), logits.shape)

def cross_entropy_backward(dloss, cache):
    log_P, safe, counted, M, shape = cache
    dlogits = np.exp(log_P)
    dlogits[np.arange(len(safe)), safe] -= 1.0
    dlogits *= float(dloss) / M
    dlogits[~counted] = 0.0
    return dlogits.reshape(shape)
""",
        (
            ("dlogits[np.arange(len(safe)), safe] -= 1.0", "dlogits[np.arange(len(safe)), safe] += 1.0"),
            ("dlogits *= float(dloss) / M", "dlogits *= float(dloss)"),
            ("dlogits *= float(dloss) / M", "dlogits *= float(dloss) / len(safe)"),
            ("dlogits[~counted] = 0.0", "dlogits[counted] *= 1.0"),
            ("M = counted.sum()", "M = t.size"),
            ("loss = -(picked * counted).sum() / M", "loss = (picked * counted).sum() / M"),
            ("loss = -(picked * counted).sum() / M", "loss = -picked.sum() / M"),
            (
                "lse = top + np.log(np.exp(flat - top).sum(-1, keepdims=True))",
                "lse = np.log(np.exp(flat - top).sum(-1, keepdims=True))",
            ),
            ("dlogits = np.exp(log_P)", "dlogits = log_P.copy()"),
        ),
    ),
    Sample(
        "cross-entropy, one-hot",
        "cross_entropy",
        """\
import numpy as np

def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

def cross_entropy(logits, targets):
    z = logits.reshape(-1, logits.shape[-1])
    y = np.eye(z.shape[1], dtype=z.dtype)[targets.reshape(-1)]
    zmax = z.max(axis=1)
    lse = zmax + np.log(np.exp(z - zmax[:, None]).sum(axis=1))
    right = (z * y).sum(axis=1)
    losses = lse - right
    loss = losses.mean()
    return loss, (z, y, logits.shape)

def cross_entropy_backward(dloss, cache):
    z, y, shape = cache
    n = len(z)
    p = softmax(z)
    diff = p - y
    grad = diff / n
    return (float(dloss) * grad).reshape(shape)
""",
        (
            ("losses = lse - right", "losses = lse + right"),
            ("loss = losses.mean()", "loss = losses.sum()"),
            ("diff = p - y", "diff = y - p"),
            ("grad = diff / n", "grad = diff / z.size"),
            ("n = len(z)", "n = z.shape[1]"),
            ("return e / e.sum(axis=1, keepdims=True)", "return e / e.sum(axis=0, keepdims=True)"),
            ("return (float(dloss) * grad).reshape(shape)", "return grad.reshape(shape)"),
        ),
    ),
)
