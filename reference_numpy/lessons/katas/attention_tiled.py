# %% [markdown] part="task" lang="en"
# # Attention that never holds the n x m matrix
#
# At 32,000 tokens one matrix of scores has a billion entries, 8 gigabytes, and nobody needs it: of A
# only the product A V is wanted. So take the keys TILE by TILE and keep, for each query, just three
# things: the largest score so far, the sum of the exponentials so far, the weighted sum of V so far.
#
# When a tile brings a larger score, everything collected so far was measured against too small a
# maximum: multiply it by exp(old maximum - new maximum), then add the tile. At the end divide. The
# backward is already written that way: it makes A again, tile by tile, from the logarithm L of each
# row's sum. What is left is the forward: it is right, but it holds all the scores at once.
#
# Shapes: Q (..., n, c), K (..., m, c), V (..., m, e); return C (..., n, e) and the cache
# (Q, K, V, C, L), L (..., n, 1) = maximum + log(sum). The last tile may be shorter. At n = m = 512 no
# more than one matrix of 512 x 512 may be held at any time, in all arrays together.
#
# Example: one query with scores 1, 2, 4 against values 10, 20, 30, with TILE = 2
#     after the scores 1, 2   maximum 2, sum 1.3679, weighted sum 23.6788
#     then the score 4        both times exp(2 - 4) = 0.1353, plus 1 and plus 30: 1.1851 and 33.2046
#     at the end              C = 33.2046 / 1.1851 = 28.0178, L = 4 + log(1.1851) = 4.1698

# %% [markdown] part="task" lang="es"
# # Una atención que nunca guarda la matriz n x m
#
# Con 32 000 tokens, una matriz de puntuaciones tiene mil millones de entradas, 8 gigabytes, y nadie la
# necesita: de A solo se quiere el producto A V. Así que toma las claves por bloques de TILE y guarda,
# para cada consulta, solo tres cosas: la mayor puntuación hasta ahora, la suma de las exponenciales
# hasta ahora y la suma ponderada de V hasta ahora.
#
# Cuando un bloque trae una puntuación mayor, todo lo reunido estaba medido contra un máximo demasiado
# pequeño: multiplícalo por exp(máximo viejo - máximo nuevo) y después suma el bloque. Al final, divide.
# El paso hacia atrás ya está escrito así: rehace A, bloque a bloque, a partir del logaritmo L de la
# suma de cada fila. Falta el paso hacia adelante: es correcto, pero guarda todas las puntuaciones
# a la vez.
#
# Formas: Q (..., n, c), K (..., m, c), V (..., m, e); devuelve C (..., n, e) y la caché
# (Q, K, V, C, L), con L (..., n, 1) = máximo + log(suma). El último bloque puede ser más corto. Con
# n = m = 512 no se puede guardar en ningún momento más de una matriz de 512 x 512, sumando todos los
# arreglos.
#
# Ejemplo: una consulta con puntuaciones 1, 2, 4 contra los valores 10, 20, 30, con TILE = 2
#     tras las puntuaciones 1, 2   máximo 2, suma 1.3679, suma ponderada 23.6788
#     después la puntuación 4      ambas por exp(2 - 4) = 0.1353, más 1 y más 30: 1.1851 y 33.2046
#     al final                     C = 33.2046 / 1.1851 = 28.0178, L = 4 + log(1.1851) = 4.1698

# %% part="start"
import math

import numpy as np

TILE = 16


def attention(Q, K, V):
    scale = 1.0 / math.sqrt(Q.shape[-1])
    S = Q @ K.mT * scale  # (..., n, m): all of them
    top = S.max(-1, keepdims=True)
    E = np.exp(S - top)
    total = E.sum(-1, keepdims=True)
    C = E @ V / total
    return C, (Q, K, V, C, top + np.log(total))


def attention_backward(dC, cache):
    Q, K, V, C, L = cache
    scale = 1.0 / math.sqrt(Q.shape[-1])
    delta = (dC * C).sum(-1, keepdims=True)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for first in range(0, K.shape[-2], TILE):
        tile = np.s_[..., first : first + TILE, :]
        A = np.exp(Q @ K[tile].mT * scale - L)  # (..., n, TILE)
        dOmega = A * (dC @ V[tile].mT - delta) * scale
        dQ += dOmega @ K[tile]
        dK[tile] = dOmega.mT @ Q
        dV[tile] = A.mT @ dC
    return dQ, dK, dV


# %% [markdown] part="nudge" lang="en"
# What has to stand in the three memories before the first tile, so that the first one needs no case of
# its own? What is exp(-inf - 3)?

# %% [markdown] part="nudge" lang="es"
# ¿Qué debe haber en las tres memorias antes del primer bloque para que este no sea un caso aparte?
# ¿Cuánto vale exp(-inf - 3)?

# %% [markdown] part="formula" lang="en"
# At first: top = -inf, total = 0, C = 0. For each tile of keys, with its scores S:
#
# new = max(top, max_j S_j)
#
# total = total exp(top - new) + sum_j exp(S_j - new)
#
# C = C exp(top - new) + sum_j exp(S_j - new) V_j
#
# top = new
#
# At the end: C / total, and L = top + log(total)

# %% [markdown] part="formula" lang="es"
# Al principio: top = -inf, total = 0, C = 0. Para cada bloque de claves, con sus puntuaciones S:
#
# new = max(top, max_j S_j)
#
# total = total exp(top - new) + sum_j exp(S_j - new)
#
# C = C exp(top - new) + sum_j exp(S_j - new) V_j
#
# top = new
#
# Al final: C / total, y L = top + log(total)


# %% part="shape"
def attention(Q, K, V):
    scale = 1.0 / math.sqrt(Q.shape[-1])
    top = np.full((*Q.shape[:-1], 1), ...)
    total = np.zeros(top.shape)
    C = np.zeros((*Q.shape[:-1], V.shape[-1]))
    for first in range(0, K.shape[-2], TILE):
        tile = np.s_[..., first : first + TILE, :]
        S = Q @ K[tile].mT * scale  # (..., n, TILE)
        new = np.maximum(top, ...)
        shrink, E = np.exp(... - new), np.exp(S - new)
        total = total * shrink + ...
        C = C * shrink + ... @ V[tile]
        top = new
    C = C / total
    return C, (Q, K, V, C, top + np.log(total))


# %% part="solution"
import math

import numpy as np

TILE = 16


def attention(Q, K, V):
    scale = 1.0 / math.sqrt(Q.shape[-1])
    top = np.full((*Q.shape[:-1], 1), -np.inf)
    total = np.zeros(top.shape)
    C = np.zeros((*Q.shape[:-1], V.shape[-1]))
    for first in range(0, K.shape[-2], TILE):
        tile = np.s_[..., first : first + TILE, :]
        S = Q @ K[tile].mT * scale  # (..., n, TILE)
        new = np.maximum(top, S.max(-1, keepdims=True))
        shrink, E = np.exp(top - new), np.exp(S - new)
        total = total * shrink + E.sum(-1, keepdims=True)
        C = C * shrink + E @ V[tile]
        top = new
    C = C / total
    return C, (Q, K, V, C, top + np.log(total))


def attention_backward(dC, cache):
    Q, K, V, C, L = cache
    scale = 1.0 / math.sqrt(Q.shape[-1])
    delta = (dC * C).sum(-1, keepdims=True)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for first in range(0, K.shape[-2], TILE):
        tile = np.s_[..., first : first + TILE, :]
        A = np.exp(Q @ K[tile].mT * scale - L)  # (..., n, TILE)
        dOmega = A * (dC @ V[tile].mT - delta) * scale
        dQ += dOmega @ K[tile]
        dK[tile] = dOmega.mT @ Q
        dV[tile] = A.mT @ dC
    return dQ, dK, dV
