# %% [markdown] part="task" lang="en"
# # Attention
#
# One function carries the transformer: every token asks (Q), every token offers (K), and what it
# hands over (V) is mixed by how well question and offer fit. You write it as it is really used: with
# a scale, with a mask, and so that the future can be hidden.
#
# Scores first, then forbid, then softmax over what is left, then mix. Forbid with -inf before the
# softmax: a weight set to 0 afterwards leaves a row that no longer sums to 1. A row in which
# everything is forbidden has no softmax (0 / 0); it shall give weights 0 and a context of 0, no NaN.
#
# scale: multiplies the scores; None means 1 / sqrt(c).
# mask: None, or boolean and broadcastable to (..., n, m), True = this query may look at this key.
# causal: if True, query i sees the keys j <= i only (and only those that the mask allows).
#
# Shapes: Q (..., n, c), K (..., m, c), V (..., m, e), C (..., n, e); n and m may differ.
# Return C. Shift by the maximum: scores may be in the hundreds.
#
# Example: Q = [[1], [2]], K = [[0], [1]], V = [[10], [20]], so c = 1 and the scores are [[0, 1], [0, 2]]
#     attention(Q, K, V)                         [[17.3106], [18.808]]
#     attention(Q, K, V, scale=2.0)              [[18.808], [19.8201]]
#     attention(Q, K, V, causal=True)            [[10], [18.808]]
#     mask = [[False, False], [True, False]]     [[0], [10]]

# %% [markdown] part="task" lang="es"
# # Atención
#
# Una sola función sostiene el transformer: cada token pregunta (Q), cada token ofrece (K), y lo que
# entrega (V) se mezcla según lo bien que encajen pregunta y oferta. Vas a escribirla tal como se usa
# de verdad: con escala, con máscara y de modo que el futuro pueda ocultarse.
#
# Primero las puntuaciones, luego prohibir, luego softmax sobre lo que queda, luego mezclar. Prohíbe
# con -inf antes del softmax: un peso puesto a 0 después deja una fila que ya no suma 1. Una fila en
# la que todo está prohibido no tiene softmax (0 / 0); debe dar pesos 0 y un contexto 0, nunca NaN.
#
# scale: multiplica las puntuaciones; None significa 1 / sqrt(c).
# mask: None, o booleana que por broadcasting llega a (..., n, m); True = esta consulta puede mirar esa clave.
# causal: si es True, la consulta i ve solo las claves j <= i (y de ellas, las que deje la máscara).
#
# Formas: Q (..., n, c), K (..., m, c), V (..., m, e), C (..., n, e); n y m pueden ser distintos.
# Devuelve C. Resta el máximo: las puntuaciones pueden llegar a los centenares.
#
# Ejemplo: Q = [[1], [2]], K = [[0], [1]], V = [[10], [20]]: c = 1 y las puntuaciones son [[0, 1], [0, 2]]
#     attention(Q, K, V)                         [[17.3106], [18.808]]
#     attention(Q, K, V, scale=2.0)              [[18.808], [19.8201]]
#     attention(Q, K, V, causal=True)            [[10], [18.808]]
#     mask = [[False, False], [True, False]]     [[0], [10]]

# %% part="start"
import numpy as np


def attention(Q, K, V, *, mask=None, causal=False, scale=None):
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.ones((n, m), bool)
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Collect everything that forbids in one boolean array `allowed`, and use it once. For a row without a
# single True: what is its maximum, and which two lines go wrong because of it?

# %% [markdown] part="nudge" lang="es"
# Reúne todo lo que prohíbe en un solo arreglo booleano `allowed` y úsalo una vez. En una fila sin ningún
# True: ¿cuál es su máximo, y qué dos líneas fallan por su culpa?

# %% [markdown] part="formula" lang="en"
# S_ij = scale sum_k Q_ik K_jk where allowed, else -inf
#
# E_ij = exp(S_ij - max_j S_ij), and in an empty row the maximum is replaced by 0: exp(-inf - 0) = 0
#
# A_ij = E_ij / sum_j E_ij, and in an empty row the sum 0 is replaced by 1
#
# C = A V

# %% [markdown] part="formula" lang="es"
# S_ij = scale sum_k Q_ik K_jk donde se permite; si no, -inf
#
# E_ij = exp(S_ij - max_j S_ij), y en una fila vacía el máximo se cambia por 0: exp(-inf - 0) = 0
#
# A_ij = E_ij / sum_j E_ij, y en una fila vacía la suma 0 se cambia por 1
#
# C = A V

# %% part="shape"
import math

import numpy as np


def attention(Q, K, V, *, mask=None, causal=False, scale=None):
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.ones((n, m), bool)
    if mask is not None:
        allowed = allowed & ...
    if causal:
        allowed = allowed & (np.arange(m) <= ...)  # (n, m): a column against a row
    scale = 1.0 / math.sqrt(...) if scale is None else scale
    S = np.where(allowed, ..., -np.inf)  # (..., n, m)
    top = S.max(-1, keepdims=True)
    E = np.exp(S - np.where(np.isneginf(top), ..., top))
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0.0, ..., total) @ V


# %% part="solution"
import math

import numpy as np


def attention(Q, K, V, *, mask=None, causal=False, scale=None):
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.ones((n, m), bool)
    if mask is not None:
        allowed = allowed & mask
    if causal:
        allowed = allowed & (np.arange(m) <= np.arange(n)[:, None])
    scale = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
    S = np.where(allowed, Q @ K.mT * scale, -np.inf)  # (..., n, m)
    top = S.max(-1, keepdims=True)
    E = np.exp(S - np.where(np.isneginf(top), 0.0, top))  # an empty row: exp(-inf - 0) = 0
    total = E.sum(-1, keepdims=True)
    A = E / np.where(total == 0.0, 1.0, total)
    return A @ V
