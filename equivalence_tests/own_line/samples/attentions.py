"""Attention in its forms."""

from equivalence_tests.own_line.samples import Sample

SAMPLES = (
    Sample(
        "attention, plain",
        "attention",
        """\
import numpy as np

def softmax(S):
    e = np.exp(S - S.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def attention(Q, K, V, causal=False):
    scale = Q.shape[-1] ** -0.5
    S = Q @ K.swapaxes(-1, -2) * scale
    if causal:
        n, m = S.shape[-2:]
        seen = np.arange(m)[None, :] <= np.arange(n)[:, None]
        S = np.where(seen, S, -np.inf)
    A = softmax(S)
    C = A @ V
    return C, (Q, K, V, A, scale)

def attention_backward(dC, cache):
    Q, K, V, A, scale = cache
    dV = A.swapaxes(-1, -2) @ dC
    dA = dC @ V.swapaxes(-1, -2)
    delta = (A * dA).sum(-1, keepdims=True)
    dS = A * (dA - delta)
    dOmega = dS * scale
    dQ = dOmega @ K
    dK = dOmega.swapaxes(-1, -2) @ Q
    return dQ, dK, dV
""",
        (
            ("S = Q @ K.swapaxes(-1, -2) * scale", "S = Q @ K.swapaxes(-1, -2)"),
            ("scale = Q.shape[-1] ** -0.5", "scale = 1.0 / Q.shape[-1]"),
            (
                "seen = np.arange(m)[None, :] <= np.arange(n)[:, None]",
                "seen = np.arange(m)[None, :] < np.arange(n)[:, None] + 2",
            ),
            (
                "seen = np.arange(m)[None, :] <= np.arange(n)[:, None]",
                "seen = np.arange(m)[None, :] >= np.arange(n)[:, None] - (m - 1)",
            ),
            ("S = np.where(seen, S, -np.inf)", "S = np.where(seen, S, 0.0)"),
            ("dV = A.swapaxes(-1, -2) @ dC", "dV = A.swapaxes(-1, -2) @ (dC * scale)"),
            ("delta = (A * dA).sum(-1, keepdims=True)", "delta = (A * dA).mean(-1, keepdims=True)"),
            ("delta = (A * dA).sum(-1, keepdims=True)", "delta = dA.sum(-1, keepdims=True)"),
            ("delta = (A * dA).sum(-1, keepdims=True)", "delta = (A * dA).sum(-2, keepdims=True)"),
            ("dS = A * (dA - delta)", "dS = dA - delta"),
            ("dS = A * (dA - delta)", "dS = A * dA - delta"),
            ("dS = A * (dA - delta)", "dS = A * (dA + delta)"),
            ("dOmega = dS * scale", "dOmega = dS"),
            ("dOmega = dS * scale", "dOmega = dS / scale"),
            ("dQ = dOmega @ K", "dQ = dOmega @ K * scale"),
            ("dK = dOmega.swapaxes(-1, -2) @ Q", "dK = dS.swapaxes(-1, -2) @ Q"),
            ("return e / e.sum(-1, keepdims=True)", "return e / e.sum(-2, keepdims=True)"),
        ),
    ),
    Sample(
        "attention, einsum and masks",
        "attention",
        """\
import numpy as np

def attention(Q, K, V, mask=None, bias=None):
    c = Q.shape[-1]
    scores = np.einsum("...ic,...jc->...ij", Q, K)
    scores = scores / np.sqrt(c).astype(Q.dtype)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    peak = scores.max(-1, keepdims=True)
    peak = np.where(np.isneginf(peak), 0.0, peak).astype(Q.dtype)
    weights = np.exp(scores - peak)
    norm = weights.sum(-1, keepdims=True)
    probs = weights / np.where(norm == 0, 1, norm).astype(Q.dtype)
    out = np.einsum("...ij,...je->...ie", probs, V)
    return out, (Q, K, V, probs)

def attention_backward(dout, cache):
    Q, K, V, probs = cache
    dV = np.einsum("...ij,...ie->...je", probs, dout)
    dprobs = np.einsum("...ie,...je->...ij", dout, V)
    rowsum = np.einsum("...ij,...ij->...i", probs, dprobs)
    dscores = probs * (dprobs - rowsum[..., None])
    dscores = dscores / np.sqrt(Q.shape[-1]).astype(Q.dtype)
    dQ = np.einsum("...ij,...jc->...ic", dscores, K)
    dK = np.einsum("...ij,...ic->...jc", dscores, Q)
    return dQ, dK, dV
""",
        (
            ("scores = scores / np.sqrt(c).astype(Q.dtype)", "scores = scores * np.sqrt(c).astype(Q.dtype)"),
            ("scores = scores + bias", "scores = scores - bias"),
            ("scores = np.where(mask, scores, -np.inf)", "scores = np.where(mask, scores, -10.0)"),
            ("scores = np.where(mask, scores, -np.inf)", "scores = scores * mask"),
            ("weights = np.exp(scores - peak)", "weights = np.exp(scores - peak) ** 2"),
            (
                'dprobs = np.einsum("...ie,...je->...ij", dout, V)',
                'dprobs = np.einsum("...ie,...je->...ij", dout, V) * probs',
            ),
            (
                'rowsum = np.einsum("...ij,...ij->...i", probs, dprobs)',
                'rowsum = np.einsum("...ij,...ij->...i", dprobs, dprobs)',
            ),
            ("dscores = probs * (dprobs - rowsum[..., None])", "dscores = probs * dprobs"),
            (
                "dscores = dscores / np.sqrt(Q.shape[-1]).astype(Q.dtype)",
                "dscores = dscores / np.sqrt(V.shape[-1]).astype(Q.dtype)",
            ),
            (
                'dV = np.einsum("...ij,...ie->...je", probs, dout)',
                'dV = np.einsum("...ij,...ie->...je", probs * probs, dout)',
            ),
        ),
    ),
    Sample(
        "attention, loops over the batch",
        "attention",
        """\
import numpy as np

def one(Q, K, V):
    s = Q @ K.T / Q.shape[1] ** 0.5
    s = s - s.max(axis=1, keepdims=True)
    w = np.exp(s)
    z = w.sum(axis=1, keepdims=True)
    p = w / z
    return p @ V, p

def attention(Q, K, V):
    lead = Q.shape[:-2]
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (Q, K, V))
    outs, probs = [], []
    for b in range(len(q)):
        out, p = one(q[b], k[b], v[b])
        outs.append(out)
        probs.append(p)
    C = np.stack(outs).reshape(*lead, *outs[0].shape)
    return C, (q, k, v, probs, (Q.shape, K.shape, V.shape))

def attention_backward(dC, cache):
    q, k, v, probs, shapes = cache
    g = dC.reshape(-1, *dC.shape[-2:])
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b in range(len(q)):
        p = probs[b]
        dv[b] = p.T @ g[b]
        dp = g[b] @ v[b].T
        r = np.sum(g[b] * (p @ v[b]), axis=1)
        ds = p * (dp - r[:, None])
        ds = ds / q.shape[-1] ** 0.5
        dq[b] = ds @ k[b]
        dk[b] = ds.T @ q[b]
    return tuple(x.reshape(shape) for x, shape in zip((dq, dk, dv), shapes))
""",
        (
            ("s = Q @ K.T / Q.shape[1] ** 0.5", "s = Q @ K.T / Q.shape[1]"),
            ("z = w.sum(axis=1, keepdims=True)", "z = w.sum(axis=0, keepdims=True)"),
            ("dv[b] = p.T @ g[b]", "dv[b] = p.T @ g[0]"),
            ("dp = g[b] @ v[b].T", "dp = g[b] @ v[0].T"),
            ("r = np.sum(g[b] * (p @ v[b]), axis=1)", "r = np.sum(p * p, axis=1)"),
            ("ds = p * (dp - r[:, None])", "ds = dp - r[:, None]"),
            ("ds = ds / q.shape[-1] ** 0.5", "ds = ds * 1.0"),
            ("dk[b] = ds.T @ q[b]", "dk[b] = dp.T @ q[b]"),
            ("w = np.exp(s)", "w = np.exp(s) + 1e-3"),
        ),
    ),
    Sample(
        "simple attention",
        "simple_attention",
        """\
import numpy as np

def simple_attention(X):
    scores = X @ X.swapaxes(-1, -2)
    scores = scores - scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(-1, keepdims=True)
    context = weights @ X
    return context, (X, weights)

def simple_attention_backward(dC, cache):
    X, weights = cache
    dweights = dC @ X.swapaxes(-1, -2)
    dX = weights.swapaxes(-1, -2) @ dC
    dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True))
    dX = dX + dscores @ X
    dX = dX + dscores.swapaxes(-1, -2) @ X
    return dX
""",
        (
            (
                "dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True))",
                "dscores = weights * dweights",
            ),
            ("dX = dX + dscores.swapaxes(-1, -2) @ X", "dX = dX + dscores @ X"),
            ("dX = weights.swapaxes(-1, -2) @ dC", "dX = weights @ dC"),
            (
                "weights = weights / weights.sum(-1, keepdims=True)",
                "weights = weights / weights.sum(-2, keepdims=True)",
            ),
            ("context = weights @ X", "context = weights.swapaxes(-1, -2) @ X"),
            ("scores = X @ X.swapaxes(-1, -2)", "scores = X @ X.swapaxes(-1, -2) / X.shape[-1] ** 0.5"),
        ),
    ),
    Sample(
        "self-attention, a class with state",
        "self_attention",
        """\
import numpy as np

class SelfAttention:
    def __init__(self, Wq, Wk, Wv):
        self.Wq, self.Wk, self.Wv = Wq, Wk, Wv
        self.grads = {}

    def forward(self, X):
        self.X = X
        self.Q = X @ self.Wq
        self.K = X @ self.Wk
        self.V = X @ self.Wv
        self.scale = 1.0 / self.Q.shape[-1] ** 0.5
        scores = self.Q @ self.K.swapaxes(-1, -2) * self.scale
        e = np.exp(scores - scores.max(-1, keepdims=True))
        self.A = e / e.sum(-1, keepdims=True)
        return self.A @ self.V

    def backward(self, dC):
        dV = self.A.swapaxes(-1, -2) @ dC
        dA = dC @ self.V.swapaxes(-1, -2)
        dS = self.A * (dA - (dA * self.A).sum(-1, keepdims=True))
        dS = dS * self.scale
        dQ = dS @ self.K
        dK = dS.swapaxes(-1, -2) @ self.Q
        rows = self.X.reshape(-1, self.X.shape[-1])
        self.grads["Wq"] = rows.T @ dQ.reshape(-1, dQ.shape[-1])
        self.grads["Wk"] = rows.T @ dK.reshape(-1, dK.shape[-1])
        self.grads["Wv"] = rows.T @ dV.reshape(-1, dV.shape[-1])
        dX = dQ @ self.Wq.T
        dX = dX + dK @ self.Wk.T
        dX = dX + dV @ self.Wv.T
        return dX

def self_attention(X, Wq, Wk, Wv):
    layer = SelfAttention(Wq, Wk, Wv)
    return layer.forward(X), layer

def self_attention_backward(dC, cache):
    dX = cache.backward(dC)
    return dX, cache.grads["Wq"], cache.grads["Wk"], cache.grads["Wv"]
""",
        (
            ("self.scale = 1.0 / self.Q.shape[-1] ** 0.5", "self.scale = 1.0 / X.shape[-1] ** 0.5"),
            ("self.K = X @ self.Wk", "self.K = X @ self.Wq"),
            (
                "dS = self.A * (dA - (dA * self.A).sum(-1, keepdims=True))",
                "dS = self.A * (dA - dA.sum(-1, keepdims=True))",
            ),
            ("dS = dS * self.scale", "dS = dS / self.scale"),
            ("dK = dS.swapaxes(-1, -2) @ self.Q", "dK = dS @ self.Q"),
            (
                'self.grads["Wk"] = rows.T @ dK.reshape(-1, dK.shape[-1])',
                'self.grads["Wk"] = rows.T @ dQ.reshape(-1, dQ.shape[-1])',
            ),
            ("dX = dX + dK @ self.Wk.T", "dX = dX + dK @ self.Wq.T"),
            ("dX = dX + dV @ self.Wv.T", "dX = dX - dV @ self.Wv.T"),
            ("dA = dC @ self.V.swapaxes(-1, -2)", "dA = dC @ self.V.swapaxes(-1, -2) * self.scale"),
        ),
    ),
    Sample(
        "multi-head attention",
        "multi_head_attention",
        """\
import numpy as np

def split(X, H):
    *lead, n, width = X.shape
    return X.reshape(*lead, n, H, width // H).swapaxes(-2, -3)

def merge(X):
    *lead, H, n, c = X.shape
    return X.swapaxes(-2, -3).reshape(*lead, n, H * c)

def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads):
    Q = split(X @ Wq, num_heads)
    K = split(X @ Wk, num_heads)
    V = split(X @ Wv, num_heads)
    S = Q @ K.swapaxes(-1, -2) / Q.shape[-1] ** 0.5
    E = np.exp(S - S.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    C = A @ V
    merged = merge(C)
    Y = merged @ Wo
    return Y, (X, Wq, Wk, Wv, Wo, Q, K, V, A, merged, num_heads)

def multi_head_attention_backward(dY, cache):
    X, Wq, Wk, Wv, Wo, Q, K, V, A, merged, H = cache
    flat = lambda z: z.reshape(-1, z.shape[-1])
    dWo = flat(merged).T @ flat(dY)
    dmerged = dY @ Wo.T
    dC = split(dmerged, H)
    dV = A.swapaxes(-1, -2) @ dC
    dA = dC @ V.swapaxes(-1, -2)
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    dS = dS / Q.shape[-1] ** 0.5
    dQ = merge(dS @ K)
    dK = merge(dS.swapaxes(-1, -2) @ Q)
    dV = merge(dV)
    dWq = flat(X).T @ flat(dQ)
    dWk = flat(X).T @ flat(dK)
    dWv = flat(X).T @ flat(dV)
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, dWq, dWk, dWv, dWo
""",
        (
            ("S = Q @ K.swapaxes(-1, -2) / Q.shape[-1] ** 0.5", "S = Q @ K.swapaxes(-1, -2) / Wq.shape[-1] ** 0.5"),
            ("merged = merge(C)", "merged = C.reshape(*X.shape[:-1], -1)"),
            ("return X.reshape(*lead, n, H, width // H).swapaxes(-2, -3)", "return X.reshape(*lead, H, n, width // H)"),
            ("dC = split(dmerged, H)", "dC = dmerged.reshape(V.shape)"),
            ("dS = A * (dA - (A * dA).sum(-1, keepdims=True))", "dS = A * (dA - (A * dA).sum(-2, keepdims=True))"),
            ("dS = dS / Q.shape[-1] ** 0.5", "dS = dS / Wq.shape[-1] ** 0.5"),
            ("dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T", "dX = dQ @ Wq.T + dK @ Wk.T"),
            ("dWo = flat(merged).T @ flat(dY)", "dWo = flat(merged).T @ flat(dY) / H"),
            ("dWk = flat(X).T @ flat(dK)", "dWk = flat(X).T @ flat(dQ)"),
            ("A = E / E.sum(-1, keepdims=True)", "A = E / E.sum(-3, keepdims=True)"),
        ),
    ),
    Sample(
        "multi-head attention, a loop over the heads",
        "multi_head_attention",
        """\
import numpy as np

def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads):
    c = Wq.shape[1] // num_heads
    heads = []
    saved = []
    for h in range(num_heads):
        block = slice(h * c, (h + 1) * c)
        q = X @ Wq[:, block]
        k = X @ Wk[:, block]
        v = X @ Wv[:, block]
        s = np.matmul(q, np.swapaxes(k, -1, -2)) / c ** 0.5
        s = s - s.max(-1, keepdims=True)
        a = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
        heads.append(a @ v)
        saved.append((q, k, v, a))
    Z = np.concatenate(heads, -1)
    return Z @ Wo, (X, Wq, Wk, Wv, Wo, Z, saved, c)

def multi_head_attention_backward(dY, cache):
    X, Wq, Wk, Wv, Wo, Z, saved, c = cache
    d = X.shape[-1]
    x = X.reshape(-1, d)
    dWo = Z.reshape(-1, Z.shape[-1]).T @ dY.reshape(-1, dY.shape[-1])
    dZ = dY @ Wo.T
    dX = np.zeros_like(X)
    dWq, dWk, dWv = np.zeros_like(Wq), np.zeros_like(Wk), np.zeros_like(Wv)
    for h, (q, k, v, a) in enumerate(saved):
        block = slice(h * c, (h + 1) * c)
        dz = dZ[..., block]
        dv = np.swapaxes(a, -1, -2) @ dz
        da = dz @ np.swapaxes(v, -1, -2)
        ds = a * (da - (da * a).sum(-1, keepdims=True)) / c ** 0.5
        dq = ds @ k
        dk = np.swapaxes(ds, -1, -2) @ q
        dWq[:, block] = x.T @ dq.reshape(-1, c)
        dWk[:, block] = x.T @ dk.reshape(-1, c)
        dWv[:, block] = x.T @ dv.reshape(-1, c)
        dX += dq @ Wq[:, block].T
        dX += dk @ Wk[:, block].T
        dX += dv @ Wv[:, block].T
    return dX, dWq, dWk, dWv, dWo
""",
        (
            (
                "s = np.matmul(q, np.swapaxes(k, -1, -2)) / c ** 0.5",
                "s = np.matmul(q, np.swapaxes(k, -1, -2)) / Wq.shape[1] ** 0.5",
            ),
            ("dz = dZ[..., block]", "dz = dZ[..., :c]"),
            (
                "ds = a * (da - (da * a).sum(-1, keepdims=True)) / c ** 0.5",
                "ds = a * (da - (da * a).sum(-1, keepdims=True))",
            ),
            ("dWk[:, block] = x.T @ dk.reshape(-1, c)", "dWk[:, block] = x.T @ dq.reshape(-1, c)"),
            ("dX += dk @ Wk[:, block].T", "dX += dk @ Wq[:, block].T"),
            ("dX += dv @ Wv[:, block].T", "dX = dv @ Wv[:, block].T"),
            ("dk = np.swapaxes(ds, -1, -2) @ q", "dk = np.swapaxes(ds, -1, -2) @ k"),
            ("da = dz @ np.swapaxes(v, -1, -2)", "da = dz @ np.swapaxes(q, -1, -2)"),
        ),
    ),
)
