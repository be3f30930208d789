# %% [markdown] part="task" lang="en"
# # Simple attention, without the loops
#
# Attention is first told with loops: take each token, score it against every other one by a dot
# product, turn the scores into weights, mix. The loops below do exactly that, and they are right.
# They are also hopeless: on a thousand tokens Python walks through a million pairs one by one.
#
# Write the same function with matrix products, so that Python does a fixed number of steps however
# many tokens there are. Every loop over pairs is one product: the scores of all pairs are a product
# of X with its own transpose, and every weighted sum of rows is one more product.
#
# Shapes: X (..., n, d), scores and weights (..., n, n), C (..., n, d). There may be any number of
# leading axes (batches, heads), none too: X.mT swaps the last two axes only.
#
# Example: X = [[1, 0], [0, 1], [1, 1]]
#     scores   [[1, 0, 1], [0, 1, 1], [1, 1, 2]]
#     weights  [[0.4223, 0.1554, 0.4223], [0.1554, 0.4223, 0.4223], [0.2119, 0.2119, 0.5761]]
#     C        [[0.8446, 0.5777], [0.5777, 0.8446], [0.7881, 0.7881]]

# %% [markdown] part="task" lang="es"
# # Atención simple, sin bucles
#
# La atención se cuenta primero con bucles: toma cada token, puntúalo contra todos los demás con un
# producto escalar, convierte las puntuaciones en pesos y mezcla. Los bucles de abajo hacen justo
# eso, y lo hacen bien. También son desesperantes: con mil tokens, Python recorre un millón de
# parejas de una en una.
#
# Escribe la misma función con productos de matrices, de modo que Python dé un número fijo de pasos
# por muchos tokens que haya. Cada bucle sobre parejas es un producto: las puntuaciones de todas las
# parejas son el producto de X por su propia traspuesta, y todas las sumas ponderadas de filas son
# otro producto más.
#
# Formas: X (..., n, d), puntuaciones y pesos (..., n, n), C (..., n, d). Puede haber cualquier
# número de ejes delante (lotes, cabezas), también ninguno: X.mT intercambia solo los dos últimos.
#
# Ejemplo: X = [[1, 0], [0, 1], [1, 1]]
#     puntuaciones  [[1, 0, 1], [0, 1, 1], [1, 1, 2]]
#     pesos         [[0.4223, 0.1554, 0.4223], [0.1554, 0.4223, 0.4223], [0.2119, 0.2119, 0.5761]]
#     C             [[0.8446, 0.5777], [0.5777, 0.8446], [0.7881, 0.7881]]

# %% part="start"
import math

import numpy as np


def simple_attention(X):
    C = np.zeros(X.shape)
    for batch in np.ndindex(X.shape[:-2]):
        rows = X[batch]  # (n, d)
        for i, x in enumerate(rows):
            scores = [float(x @ y) for y in rows]
            top = max(scores)
            weights = [math.exp(score - top) for score in scores]
            for weight, y in zip(weights, rows, strict=True):
                C[(*batch, i)] += weight / sum(weights) * y
    return C


# %% [markdown] part="nudge" lang="en"
# Which entry of X X^T is the score of token i against token j? And once the weights stand in a matrix,
# which product takes, for each of its rows, the weighted sum of the rows of X?

# %% [markdown] part="nudge" lang="es"
# ¿Qué entrada de X X^T es la puntuación del token i contra el token j? Y cuando los pesos ya están en
# una matriz, ¿qué producto da, para cada una de sus filas, la suma ponderada de las filas de X?

# %% [markdown] part="formula"
# Omega = X X^T
#
# A_ij = exp(Omega_ij - max_j Omega_ij) / sum_j exp(Omega_ij - max_j Omega_ij)
#
# C = A X

# %% part="shape"
import numpy as np


def simple_attention(X):
    Omega = X @ ...  # (..., n, n)
    E = np.exp(Omega - Omega.max(..., keepdims=True))
    A = E / E.sum(..., keepdims=True)  # each row sums to 1
    return A @ ...  # (..., n, d)


# %% part="solution"
import numpy as np


def simple_attention(X):
    Omega = X @ X.mT  # (..., n, n)
    E = np.exp(Omega - Omega.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A @ X
