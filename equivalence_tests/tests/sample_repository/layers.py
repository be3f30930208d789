"""Three layers, by hand, and what somebody got wrong in them."""

import numpy as np


def attention(Q, K, V):
    S = Q @ K.swapaxes(-1, -2) / float(np.sqrt(Q.shape[-1]))
    E = np.exp(S - S.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A @ V, (Q, K, V, A)


def attention_backward(dC, cache):
    return _attention_backward(dC, cache, scale=1.0 / float(np.sqrt(cache[0].shape[-1])))


def attention_backward_without_the_scale(dC, cache):
    return _attention_backward(dC, cache, scale=1.0)


def _attention_backward(dC, cache, scale):
    Q, K, V, A = cache
    dA = dC @ V.swapaxes(-1, -2)
    dS = A * (dA - (A * dA).sum(-1, keepdims=True)) * scale
    return dS @ K, dS.swapaxes(-1, -2) @ Q, A.swapaxes(-1, -2) @ dC


def swish(X):
    return X / (1 + np.exp(-X))


def swish_backward(dY, X):
    sigma = 1 / (1 + np.exp(-X))
    return dY * sigma * (1 + X * (1 - sigma))


def swish_backward_halved(dY, X):
    return swish_backward(dY, X) / 2


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def softmax_backward(dA, X):
    A = softmax(X)
    return A * (dA - (A * dA).sum(-1, keepdims=True))
