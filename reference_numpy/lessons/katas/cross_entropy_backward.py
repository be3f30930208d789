# %% [markdown] part="task" lang="en"
# # Cross-entropy, backward
#
# The first gradient of every training step, and the most beautiful one: what the model believed
# minus what came. Softmax and logarithm, each with a clumsy derivative, cancel to that.
#
# Write `cross_entropy_backward(dloss, cache)`. It returns dlogits.
#
# Approach: for one counted row, -log P_t = log sum_k exp(logits_k) - logits_t. Differentiate that
# with respect to logits_j: the first part gives P_j, the second a 1 where j is the target. Then
# every row gets its share of the mean, 1/M, times dloss, the number that arrives. Rows that were
# not counted get exactly 0.
#
# Shapes: dloss is a number. In the cache log_P (..., v), rows (..., 1) holds the targets (0 where
# not counted), counted (...) is boolean, M is the count. dlogits (..., v).
#
# Example: P = [[0.5, 0.5], [0.75, 0.25]], targets = [0, 1], M = 2, dloss = 1 give
#
#     dlogits = [[-0.25, 0.25], [0.375, -0.375]]
#
# Each row sums to 0: what is pushed up at the target is taken from the others.

# %% [markdown] part="task" lang="es"
# # La entropía cruzada hacia atrás
#
# Es el primer gradiente de cada paso de entrenamiento, y el más bonito: lo que el modelo creía
# menos lo que llegó. Softmax y logaritmo, cada uno con una derivada incómoda, se cancelan hasta
# quedar en eso.
#
# Escribe `cross_entropy_backward(dloss, cache)`. Devuelve dlogits.
#
# Método: en una fila contada, -log P_t = log sum_k exp(logits_k) - logits_t. Deriva eso respecto
# de logits_j: la primera parte da P_j; la segunda, un 1 donde j es el target. Después, a cada
# fila le toca su parte de la media, 1/M, por dloss, el número que llega. Las filas que no se
# contaron reciben exactamente 0.
#
# Formas: dloss es un número. En la caché, log_P (..., v); rows (..., 1) tiene los targets (0
# donde no se cuenta); counted (...) es booleano; M es cuántas se cuentan. dlogits (..., v).
#
# Ejemplo: P = [[0.5, 0.5], [0.75, 0.25]], targets = [0, 1], M = 2, dloss = 1 dan
#
#     dlogits = [[-0.25, 0.25], [0.375, -0.375]]
#
# Cada fila suma 0: lo que sube en el target se les quita a las demás clases.

# %% part="start"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]
    M = counted.sum()
    D = logits - logits.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_P, rows, -1)[..., 0]
    return losses[counted].sum() / M, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# P is exp(log_P), all of it at hand. A one-hot row can be made by a comparison: rows, of shape
# (..., 1), with the numbers of all classes. And who zeroes the rows that were not counted?

# %% [markdown] part="nudge" lang="es"
# P es exp(log_P); ya lo tienes todo. Una fila one-hot puede salir de una comparación: rows, de
# forma (..., 1), con los números de todas las clases. ¿Y quién pone a 0 las filas que no se
# contaron?

# %% [markdown] part="formula"
#     d(-log P_t)/dlogits_j = exp(logits_j) / sum_k exp(logits_k) - 1[j = t] = P_j - 1[j = t]
#
#     P = exp(log P)
#
#     dlogits = (P - onehot(targets)) * counted * dloss / M

# %% part="shape"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]
    M = counted.sum()
    D = logits - logits.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_P, rows, -1)[..., 0]
    return losses[counted].sum() / M, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    log_P, rows, counted, M = cache
    P = np.exp(log_P)  # (..., v)
    onehot = rows == np.arange(...)  # (..., v)
    dlogits = (P - onehot) * (... / M)  # (..., v)
    return np.where(counted[..., None], dlogits, 0.0)  # (..., v)


# %% part="solution"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]
    M = counted.sum()
    D = logits - logits.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_P, rows, -1)[..., 0]
    return losses[counted].sum() / M, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    log_P, rows, counted, M = cache
    P = np.exp(log_P)  # (..., v)
    onehot = rows == np.arange(P.shape[-1])  # (..., v)
    dlogits = (P - onehot) * (dloss / M)  # (..., v)
    return np.where(counted[..., None], dlogits, 0.0)  # (..., v)
