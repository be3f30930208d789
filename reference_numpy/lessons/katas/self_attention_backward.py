# %% [markdown] part="task" lang="en"
# # Self-attention, backward
#
# X went three ways: into the questions, into the offers and into what is handed over. On the way back
# three gradients arrive at the same X, and the classic slip is to keep only the last of them.
#
# attention_backward gives dQ, dK and dV; you may use it. From each of the three products X W come two
# gradients: one for W, one for X. What a matrix did for every token of every sequence is one sum, so
# the gradient of a weight has the weight's own shape, whatever axes stood in front of X.
#
# Shapes: dC (..., n, e); return dX (..., n, d), dWq and dWk (d, c), dWv (d, e).
#
# Example: X = [[1, 0], [0, 1], [1, 1]], Wq = [[1, 0], [0, 1]], Wk = [[0, 1], [1, 0]], Wv = [[1], [2]],
# dC = [[1], [0], [0]]
#     dQ   [[0.1683, 0.0577], [0, 0], [0, 0]]
#     dX   [[0.3661, 0.2849], [0.4011, 0.7446], [0.4011, 1.0282]]
#     dWq  [[0.1683, 0.0577], [0, 0]]   dWk  [[0.0577, 0], [0.1683, 0]]   dWv  [[0.5989], [0.8022]]

# %% [markdown] part="task" lang="es"
# # Autoatención, paso hacia atrás
#
# X tomó tres caminos: el de las preguntas, el de las ofertas y el de lo que se entrega. A la vuelta
# llegan tres gradientes a la misma X, y el despiste clásico es quedarse solo con el último.
#
# attention_backward da dQ, dK y dV; puedes usarla. De cada uno de los tres productos X W salen dos
# gradientes: uno para W y otro para X. Lo que una matriz hizo por cada token de cada secuencia es una
# sola suma, así que el gradiente de un peso tiene la forma del propio peso, haya los ejes que haya
# delante en X.
#
# Formas: dC (..., n, e); devuelve dX (..., n, d), dWq y dWk (d, c), dWv (d, e).
#
# Ejemplo: X = [[1, 0], [0, 1], [1, 1]], Wq = [[1, 0], [0, 1]], Wk = [[0, 1], [1, 0]], Wv = [[1], [2]],
# dC = [[1], [0], [0]]
#     dQ   [[0.1683, 0.0577], [0, 0], [0, 0]]
#     dX   [[0.3661, 0.2849], [0.4011, 0.7446], [0.4011, 1.0282]]
#     dWq  [[0.1683, 0.0577], [0, 0]]   dWk  [[0.0577, 0], [0.1683, 0]]   dWv  [[0.5989], [0.8022]]

# %% part="start"
from reference_numpy import attention, attention_backward


def self_attention(X, Wq, Wk, Wv, *, causal=False):
    C, attention_cache = attention(X @ Wq, X @ Wk, X @ Wv, causal=causal)
    return C, (X, Wq, Wk, Wv, attention_cache)


def self_attention_backward(dC, cache):
    X, Wq, Wk, Wv, attention_cache = cache
    dQ, dK, dV = attention_backward(dC, attention_cache)
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# A linear layer three times over. If a value is used in three places, what happens to its three
# gradients? And into which two axes must X go before X^T dQ adds up all tokens of all sequences?

# %% [markdown] part="nudge" lang="es"
# Es una capa lineal tres veces. Si un valor se usa en tres sitios, ¿qué pasa con sus tres gradientes? ¿Y
# en qué dos ejes hay que poner X para que X^T dQ sume todos los tokens de todas las secuencias?

# %% [markdown] part="formula" lang="en"
# dX = dQ Wq^T + dK Wk^T + dV Wv^T
#
# dWq = X^T dQ
#
# dWk = X^T dK
#
# dWv = X^T dV
#
# with all tokens of all sequences as the rows of X, dQ, dK and dV

# %% [markdown] part="formula" lang="es"
# dX = dQ Wq^T + dK Wk^T + dV Wv^T
#
# dWq = X^T dQ
#
# dWk = X^T dK
#
# dWv = X^T dV
#
# con todos los tokens de todas las secuencias como filas de X, dQ, dK y dV


# %% part="shape"
def self_attention_backward(dC, cache):
    X, Wq, Wk, Wv, attention_cache = cache
    dQ, dK, dV = attention_backward(dC, attention_cache)
    dX = dQ @ ... + dK @ ... + dV @ ...  # (..., n, d)
    rows = X.reshape(-1, X.shape[-1])  # all tokens of all sequences
    dWq, dWk, dWv = (... @ dY.reshape(-1, dY.shape[-1]) for dY in (dQ, dK, dV))
    return dX, dWq, dWk, dWv


# %% part="solution"
from reference_numpy import attention, attention_backward


def self_attention(X, Wq, Wk, Wv, *, causal=False):
    C, attention_cache = attention(X @ Wq, X @ Wk, X @ Wv, causal=causal)
    return C, (X, Wq, Wk, Wv, attention_cache)


def self_attention_backward(dC, cache):
    X, Wq, Wk, Wv, attention_cache = cache
    dQ, dK, dV = attention_backward(dC, attention_cache)
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    rows = X.reshape(-1, X.shape[-1])  # all tokens of all sequences
    dWq, dWk, dWv = (rows.T @ dY.reshape(-1, dY.shape[-1]) for dY in (dQ, dK, dV))
    return dX, dWq, dWk, dWv
