"""Layers with state, as courses write them: the forward remembers, the backward leaves its gradients in the layer."""

import numpy as np


class Linear:
    def __init__(self, n_in, n_out):
        self.W = np.random.default_rng().standard_normal((n_out, n_in)) * 0.01
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.x = x
        return x @ self.W.T + self.b

    def backward(self, dout):
        rows = dout.reshape(-1, dout.shape[-1])
        self.dW = rows.T @ self.x.reshape(-1, self.x.shape[-1])
        self.db = rows.sum(0)
        return dout @ self.W


class Softmax:
    def forward(self, x):
        e = np.exp(x - x.max(-1, keepdims=True))
        self.out = e / e.sum(-1, keepdims=True)
        return self.out

    def backward(self, dout):
        inner = (dout * self.out).sum(-1, keepdims=True)
        return self.out * (dout - inner)


class LayerNorm:
    def __init__(self, dim, eps=1e-5):
        self.gamma, self.beta, self.eps = np.ones(dim), np.zeros(dim), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdims=True)
        self.inv = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + self.eps)
        self.xhat = centred * self.inv
        return self.xhat * self.gamma + self.beta

    def backward(self, dout):
        lead = tuple(range(dout.ndim - 1))
        self.dgamma = (dout * self.xhat).sum(lead)
        self.dbeta = dout.sum(lead)
        d = dout * self.gamma
        return self.inv * (d - d.mean(-1, keepdims=True) - self.xhat * (d * self.xhat).mean(-1, keepdims=True))
