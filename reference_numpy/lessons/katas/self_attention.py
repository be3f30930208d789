# %% [markdown] part="task" lang="en"
# # Self-attention: five products and a transposition
#
# A sequence attends to itself: the same X gives the questions, the offers and what is handed over,
# each through a matrix of its own. Those three matrices are all that attention learns.
#
# Count along: three products for Q, K and V, one for the scores (with the one transposition), one for
# the contexts. The softmax of each row, over scores divided by sqrt(c), stands between the last two.
# No loop over tokens and none over the batch.
#
# Shapes: X (..., n, d), Wq and Wk (d, c), Wv (d, e), scores and weights (..., n, n), C (..., n, e).
# Return C. You may use softmax(S), which gives (A, cache), along the last axis.
#
# Example: X = [[1, 0], [0, 1], [1, 1]], Wq = [[1, 0], [0, 1]], Wk = [[0, 1], [1, 0]], Wv = [[1], [2]]
#     K      [[0, 1], [1, 0], [1, 1]]
#     Omega  [[0, 1, 1], [1, 0, 1], [1, 1, 2]]
#     A      [[0.1978, 0.4011, 0.4011], [0.4011, 0.1978, 0.4011], [0.2483, 0.2483, 0.5035]]
#     C      [[2.2033], [2], [2.2552]]

# %% [markdown] part="task" lang="es"
# # Autoatención: cinco productos y una trasposición
#
# Una secuencia se atiende a sí misma: la misma X da las preguntas, las ofertas y lo que se entrega,
# cada cosa con una matriz propia. Esas tres matrices son todo lo que la atención aprende.
#
# Ve contando: tres productos para Q, K y V, uno para las puntuaciones (con la única trasposición) y
# uno para los contextos. Entre los dos últimos está el softmax de cada fila, sobre las puntuaciones
# divididas por sqrt(c). Ningún bucle sobre los tokens, ninguno sobre el lote.
#
# Formas: X (..., n, d), Wq y Wk (d, c), Wv (d, e), puntuaciones y pesos (..., n, n), C (..., n, e).
# Devuelve C. Puedes usar softmax(S), que da (A, caché) a lo largo del último eje.
#
# Ejemplo: X = [[1, 0], [0, 1], [1, 1]], Wq = [[1, 0], [0, 1]], Wk = [[0, 1], [1, 0]], Wv = [[1], [2]]
#     K      [[0, 1], [1, 0], [1, 1]]
#     Omega  [[0, 1, 1], [1, 0, 1], [1, 1, 2]]
#     A      [[0.1978, 0.4011, 0.4011], [0.4011, 0.1978, 0.4011], [0.2483, 0.2483, 0.5035]]
#     C      [[2.2033], [2], [2.2552]]

# %% part="start"
import math

from reference_numpy import softmax


def self_attention(X, Wq, Wk, Wv):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Which of the five products needs the transposition? And is the number under the root the width of X or
# that of Q?

# %% [markdown] part="nudge" lang="es"
# ¿Cuál de los cinco productos necesita la trasposición? Y el número bajo la raíz, ¿es la anchura de X o
# la de Q?

# %% [markdown] part="formula"
# Q = X Wq,  K = X Wk,  V = X Wv
#
# A = softmax(Q K^T / sqrt(c))
#
# C = A V

# %% part="shape"
import math

from reference_numpy import softmax


def self_attention(X, Wq, Wk, Wv):
    Q = X @ Wq  # (..., n, c)
    K = X @ ...
    V = X @ ...  # (..., n, e)
    Omega = ... @ K.mT  # (..., n, n)
    A, _ = softmax(Omega / math.sqrt(...))
    return A @ V


# %% part="solution"
import math

from reference_numpy import softmax


def self_attention(X, Wq, Wk, Wv):
    Q = X @ Wq  # (..., n, c)
    K = X @ Wk
    V = X @ Wv  # (..., n, e)
    Omega = Q @ K.mT  # (..., n, n)
    A, _ = softmax(Omega / math.sqrt(Q.shape[-1]))
    return A @ V
