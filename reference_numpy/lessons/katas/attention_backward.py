# %% [markdown] part="task" lang="en"
# # Attention, backward
#
# Here it is decided who learns what: dV tells each token what it should have handed over, dQ and dK
# how the questions and the offers should have pointed. Six short lines, and there is more than one way
# to get each of them wrong.
#
# Walk through the forward from its last line to its first. A product hands its gradient to both
# factors: from C = A V come dA and dV. Then softmax, row by row: every score moves all the weights
# of its row, so the sum over the row is subtracted. Then the scale. Then the product Q K^T, twice.
# Masks need no line of their own: where nobody may look A is 0, and so is everything through it.
#
# Shapes: dC (..., n, e), as C; return dQ (..., n, c), dK (..., m, c), dV (..., m, e).
# The cache is (Q, K, V, A, scale), A (..., n, m).
#
# Example: Q = [[1], [2]], K = [[0], [1]], V = [[10], [20]], scale 1, dC = [[1], [0]]
#     A   [[0.2689, 0.7311], [0.1192, 0.8808]]
#     dA  [[10, 20], [0, 0]], and its mean over the row, weighted by A: 17.3106 and 0
#     dQ  [[1.9661], [0]]    dK  [[-1.9661], [1.9661]]    dV  [[0.2689], [0.7311]]

# %% [markdown] part="task" lang="es"
# # Atención, paso hacia atrás
#
# Aquí se decide quién aprende qué: dV le dice a cada token qué debería haber entregado; dQ y dK, hacia
# dónde deberían haber apuntado las preguntas y las ofertas. Son seis líneas cortas, y hay más de una
# manera de equivocarse en cada una.
#
# Recorre el paso hacia adelante de la última línea a la primera. Un producto reparte su gradiente
# entre sus dos factores: de C = A V salen dA y dV. Después el softmax, fila a fila: cada puntuación
# mueve todos los pesos de su fila, y por eso se resta la suma de la fila. Después la escala. Después
# el producto Q K^T, dos veces. Las máscaras no piden ninguna línea: donde nadie puede mirar, A vale
# 0, y también todo lo que pasa por ahí.
#
# Formas: dC (..., n, e), como C; devuelve dQ (..., n, c), dK (..., m, c), dV (..., m, e).
# La caché es (Q, K, V, A, scale), con A (..., n, m).
#
# Ejemplo: Q = [[1], [2]], K = [[0], [1]], V = [[10], [20]], escala 1, dC = [[1], [0]]
#     A   [[0.2689, 0.7311], [0.1192, 0.8808]]
#     dA  [[10, 20], [0, 0]], y su media en cada fila, ponderada con A: 17.3106 y 0
#     dQ  [[1.9661], [0]]    dK  [[-1.9661], [1.9661]]    dV  [[0.2689], [0.7311]]

# %% part="start"
import math

import numpy as np


def attention(Q, K, V, *, mask=None, causal=False, scale=None):
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.ones((n, m), bool) if mask is None else mask
    if causal:
        allowed = allowed & (np.arange(m) <= np.arange(n)[:, None])
    scale = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
    S = np.where(allowed, Q @ K.mT * scale, -np.inf)  # (..., n, m)
    top = S.max(-1, keepdims=True)
    E = np.exp(S - np.where(np.isneginf(top), 0.0, top))
    total = E.sum(-1, keepdims=True)
    A = E / np.where(total == 0.0, 1.0, total)
    return A @ V, (Q, K, V, A, scale)


def attention_backward(dC, cache):
    Q, K, V, A, scale = cache
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Write down the shapes and let them choose the transposes: dA must look like A (n, m), dV like V (m, e).
# For the softmax: if all entries of a row of dA are equal, what must dS be there?

# %% [markdown] part="nudge" lang="es"
# Apunta las formas y deja que ellas elijan las traspuestas: dA debe tener la forma de A (n, m), y dV la
# de V (m, e). Para el softmax: si todas las entradas de una fila de dA son iguales, ¿cuánto debe valer
# dS en esa fila?

# %% [markdown] part="formula"
# dV = A^T dC
#
# dA = dC V^T
#
# dS_ij = A_ij (dA_ij - sum_k A_ik dA_ik)
#
# dOmega = scale dS
#
# dQ = dOmega K
#
# dK = dOmega^T Q


# %% part="shape"
def attention_backward(dC, cache):
    Q, K, V, A, scale = cache
    dV = ... @ dC  # (..., m, e)
    dA = dC @ ...  # (..., n, m)
    dS = A * (dA - (A * dA).sum(..., keepdims=True))
    dOmega = dS * ...
    dQ = dOmega @ ...  # (..., n, c)
    dK = dOmega.mT @ ...  # (..., m, c)
    return dQ, dK, dV


# %% part="solution"
import math

import numpy as np


def attention(Q, K, V, *, mask=None, causal=False, scale=None):
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.ones((n, m), bool) if mask is None else mask
    if causal:
        allowed = allowed & (np.arange(m) <= np.arange(n)[:, None])
    scale = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
    S = np.where(allowed, Q @ K.mT * scale, -np.inf)  # (..., n, m)
    top = S.max(-1, keepdims=True)
    E = np.exp(S - np.where(np.isneginf(top), 0.0, top))
    total = E.sum(-1, keepdims=True)
    A = E / np.where(total == 0.0, 1.0, total)
    return A @ V, (Q, K, V, A, scale)


def attention_backward(dC, cache):
    Q, K, V, A, scale = cache
    dV = A.mT @ dC
    dA = dC @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    dOmega = dS * scale
    dQ = dOmega @ K
    dK = dOmega.mT @ Q
    return dQ, dK, dV
