# %% [markdown] part="task" lang="en"
# # Bug: a gradient with the right direction
#
# This attention folds the scale into Q before the product, as fast kernels do: one multiplication for
# every entry of Q instead of one for every score. The forward is right to the last bit. Training
# works, the loss goes down, and the cosine between this dQ and the right one is exactly 1. Still dQ
# is wrong: for c = 64 it is 8 times too large, and nobody who compares directions will ever see it.
#
# Find the wrong line and correct it. Do not rewrite the rest: dK and dV are right as they are, and the
# interesting question is why dK is.
#
# Shapes: Q (..., n, c), K (..., m, c), V (..., m, e), dC (..., n, e).
#
# Example: Q = [[2, 0, 0, 0], [0, 2, 0, 0]], K = [[1, 0, 0, 0], [0, 1, 0, 0]], V = [[1, 0], [0, 1]],
# dC = [[1, 0], [0, 0]], so c = 4 and the scale is 1/2
#     right dQ  [[0.0983, -0.0983, 0, 0], [0, 0, 0, 0]]
#     this dQ   [[0.1966, -0.1966, 0, 0], [0, 0, 0, 0]]

# %% [markdown] part="task" lang="es"
# # Error: un gradiente en la dirección correcta
#
# Esta atención mete la escala en Q antes del producto, como hacen los núcleos rápidos: una
# multiplicación por cada entrada de Q en vez de una por cada puntuación. El paso hacia adelante es
# correcto hasta el último bit. El entrenamiento funciona, la pérdida baja y el coseno entre este dQ y
# el correcto es exactamente 1. Y aun así dQ está mal: con c = 64 es 8 veces demasiado grande, y quien
# compare solo direcciones no lo verá nunca.
#
# Encuentra la línea equivocada y corrígela. No reescribas el resto: dK y dV están bien como están, y
# la pregunta interesante es por qué dK lo está.
#
# Formas: Q (..., n, c), K (..., m, c), V (..., m, e), dC (..., n, e).
#
# Ejemplo: Q = [[2, 0, 0, 0], [0, 2, 0, 0]], K = [[1, 0, 0, 0], [0, 1, 0, 0]], V = [[1, 0], [0, 1]],
# dC = [[1, 0], [0, 0]]: c = 4 y la escala es 1/2
#     dQ correcto  [[0.0983, -0.0983, 0, 0], [0, 0, 0, 0]]
#     este dQ      [[0.1966, -0.1966, 0, 0], [0, 0, 0, 0]]

# %% part="start"
import math

import numpy as np


def attention(Q, K, V):
    scale = 1.0 / math.sqrt(Q.shape[-1])
    R = Q * scale
    S = R @ K.mT  # (..., n, m)
    E = np.exp(S - S.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A @ V, (R, K, V, A, scale)


def attention_backward(dC, cache):
    R, K, V, A, scale = cache
    dV = A.mT @ dC
    dA = dC @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    dQ = dS @ K
    dK = dS.mT @ R
    return dQ, dK, dV


# %% [markdown] part="nudge" lang="en"
# The scores are S = R K^T, with R = scale Q. Of which matrix is dS K the gradient: of R or of Q?

# %% [markdown] part="nudge" lang="es"
# Las puntuaciones son S = R K^T, con R = scale Q. ¿De qué matriz es gradiente dS K: de R o de Q?

# %% [markdown] part="formula" lang="en"
# dR = dS K, and R = scale Q, so dQ = scale dR
#
# dK = dS^T R: the scale is already inside R, so dK needs no further factor

# %% [markdown] part="formula" lang="es"
# dR = dS K, y R = scale Q; por tanto dQ = scale dR
#
# dK = dS^T R: la escala ya está dentro de R, así que dK no necesita otro factor


# %% part="shape"
def attention_backward(dC, cache):
    R, K, V, A, scale = cache
    dV = A.mT @ dC
    dA = dC @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    dR = dS @ K
    dQ = dR * ...
    dK = dS.mT @ R
    return dQ, dK, dV


# %% part="solution"
import math

import numpy as np


def attention(Q, K, V):
    scale = 1.0 / math.sqrt(Q.shape[-1])
    R = Q * scale
    S = R @ K.mT  # (..., n, m)
    E = np.exp(S - S.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A @ V, (R, K, V, A, scale)


def attention_backward(dC, cache):
    R, K, V, A, scale = cache
    dV = A.mT @ dC
    dA = dC @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    dR = dS @ K
    dQ = dR * scale
    dK = dS.mT @ R
    return dQ, dK, dV
