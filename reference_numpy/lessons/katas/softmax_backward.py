# %% [markdown] part="task" lang="en"
# # Softmax, backward in one line
#
# This is the line that everybody who writes attention by hand gets wrong first. Softmax looks
# elementwise and is not: each score moves all weights of its row, through the common denominator.
#
# Write `softmax_backward(dA, cache)`. The forward stands in the file; its cache is A. It returns
# dX.
#
# Approach: the Jacobian of a row is J = diag(A) - A A^T. Multiply it by dA on paper, and never
# build it: n numbers have to come out of n numbers, and an (n, n) matrix in between would be a
# waste. Each row is on its own.
#
# Shapes: A, dA, dX (..., n).
#
# Example: A = [0.2, 0.3, 0.5] and dA = [1, 2, 3] give dX = [-0.26, -0.09, 0.35]. It sums to 0, as
# it must: adding one number to a whole row of X changes nothing. For the same reason dA = [1, 1,
# 1] gives dX = 0, and so a test whose loss is A.sum() passes whatever you write.

# %% [markdown] part="task" lang="es"
# # Softmax hacia atrás, en una línea
#
# Esta es la línea en que primero se equivoca quien escribe una atención a mano. Softmax parece
# actuar elemento a elemento, pero no: cada puntuación mueve todos los pesos de su fila, por el
# denominador común.
#
# Escribe `softmax_backward(dA, cache)`. El paso hacia adelante está en el archivo; su caché es A.
# Devuelve dX.
#
# Método: el jacobiano de una fila es J = diag(A) - A A^T. Multiplícalo por dA sobre el papel, sin
# llegar a construirlo: de n números tienen que salir n números, y pasar por una matriz (n, n)
# sería un derroche. Cada fila va por su cuenta.
#
# Formas: A, dA, dX (..., n).
#
# Ejemplo: A = [0.2, 0.3, 0.5] y dA = [1, 2, 3] dan dX = [-0.26, -0.09, 0.35]. Suma 0, como tiene
# que ser: sumar un mismo número a toda una fila de X no cambia nada. Por eso mismo dA = [1, 1, 1]
# da dX = 0, y una prueba cuya pérdida sea A.sum() da por buena cualquier cosa que escribas.

# %% part="start"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


def softmax_backward(dA, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# J dA = diag(A) dA - A (A^T dA). What shape does A^T dA have, for one row? And what does diag(A)
# do to each entry of dA?

# %% [markdown] part="nudge" lang="es"
# J dA = diag(A) dA - A (A^T dA). ¿Qué forma tiene A^T dA, para una fila? ¿Y qué le hace diag(A) a
# cada elemento de dA?

# %% [markdown] part="formula"
#     dX_j = sum_i dA_i J_ij = sum_i dA_i A_i (1[i = j] - A_j) = A_j dA_j - A_j sum_i A_i dA_i
#
#     dX = A * (dA - sum(A * dA))

# %% part="shape"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


def softmax_backward(dA, cache):
    A = cache
    inner = (...).sum(-1, keepdims=True)  # (..., 1)
    return A * (... - inner)  # (..., n)


# %% part="solution"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


def softmax_backward(dA, cache):
    A = cache
    inner = (A * dA).sum(-1, keepdims=True)  # (..., 1)
    return A * (dA - inner)  # (..., n)
