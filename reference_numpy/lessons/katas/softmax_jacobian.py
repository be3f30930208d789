# %% [markdown] part="task" lang="en"
# # The Jacobian of softmax
#
# Before a backward can be short, one has to see the whole of what it shortens. Softmax ties its
# outputs together: raise one score, and its weight grows while all the others shrink, through the
# common denominator. The Jacobian J writes that down, J_ij = dA_i/dX_j.
#
# Write `softmax_jacobian(A)`: J of one row, from the row's weights A alone.
#
# Approach: differentiate A_i = exp(X_i) / S, with S = sum_k exp(X_k), with respect to X_j. There
# are two cases, i = j and i != j, and in both what comes out can be said with A alone. Then look
# for one matrix that holds both.
#
# Shapes: A (n,), J (n, n).
#
# Example: A = [0.2, 0.3, 0.5] gives
#
#     J = [[ 0.16, -0.06, -0.10],
#          [-0.06,  0.21, -0.15],
#          [-0.10, -0.15,  0.25]]
#
# Each row sums to 0, each column too: what one weight gains, the others lose.

# %% [markdown] part="task" lang="es"
# # El jacobiano de softmax
#
# Antes de que un paso hacia atrás pueda ser corto, hay que ver entero lo que abrevia. Softmax ata
# sus salidas: si sube una puntuación, su peso crece y todos los demás bajan, por el denominador
# común. El jacobiano J lo pone por escrito: J_ij = dA_i/dX_j.
#
# Escribe `softmax_jacobian(A)`: la J de una fila, solo a partir de sus pesos A.
#
# Método: deriva A_i = exp(X_i) / S, con S = sum_k exp(X_k), respecto de X_j. Hay dos casos, i = j
# e i != j, y en los dos lo que sale puede decirse solo con A. Después busca una matriz que reúna
# ambos.
#
# Formas: A (n,), J (n, n).
#
# Ejemplo: A = [0.2, 0.3, 0.5] da
#
#     J = [[ 0.16, -0.06, -0.10],
#          [-0.06,  0.21, -0.15],
#          [-0.10, -0.15,  0.25]]
#
# Cada fila suma 0, y cada columna también: lo que gana un peso lo pierden los demás.

# %% part="start"
import numpy as np


def softmax_jacobian(A):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# X_j stands in the denominator of every A_i, but in the numerator of only one. What does the
# quotient rule leave when i != j? And what is added when i = j?

# %% [markdown] part="nudge" lang="es"
# X_j está en el denominador de todos los A_i, pero en el numerador de uno solo. ¿Qué deja la
# regla del cociente cuando i != j? ¿Y qué se añade cuando i = j?

# %% [markdown] part="formula"
#     dA_i/dX_j = 1[i = j] exp(X_i) / S - exp(X_i) exp(X_j) / S^2 = A_i (1[i = j] - A_j)
#
#     J = diag(A) - A A^T

# %% part="shape"
import numpy as np


def softmax_jacobian(A):
    return np.diag(...) - np.outer(..., ...)  # (n, n) - (n, n)


# %% part="solution"
import numpy as np


def softmax_jacobian(A):
    return np.diag(A) - np.outer(A, A)  # (n, n)


# %% part="check"
import numpy as np


def draw(rng):
    n = int(rng.choice([1, 1, 2, 3, 4, 5, 7, 9]))
    X = rng.standard_normal(n) * rng.choice([0.0, 1.0, 1.0, 1.0, 5.0, 300.0])
    E = np.exp(X - X.max())
    return {"A": E / E.sum()}


# %% [markdown] part="mistake" lang="en"
# Only the diagonal is there, as if softmax were elementwise like a sigmoid. Look at dA_i/dX_j for
# i != j.

# %% [markdown] part="mistake" lang="es"
# Solo está la diagonal, como si softmax actuara elemento a elemento, igual que una sigmoide. Mira
# dA_i/dX_j con i != j.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    return np.diag(A * (1.0 - A))


# %% [markdown] part="mistake" lang="en"
# The term of i = j is missing: the numerator of A_i moves with X_i, and that adds A_i on the
# diagonal.

# %% [markdown] part="mistake" lang="es"
# Falta el término de i = j: el numerador de A_i se mueve con X_i, y eso suma A_i en la diagonal.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    return -np.outer(A, A)


# %% [markdown] part="mistake" lang="en"
# The diagonal has 1 instead of A_i: the factor exp(X_i) / S of the numerator was lost.

# %% [markdown] part="mistake" lang="es"
# La diagonal tiene 1 en lugar de A_i: se perdió el factor exp(X_i) / S del numerador.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    return np.eye(len(A)) - np.outer(A, A)


# %% [markdown] part="mistake" lang="en"
# A A^T is added, not subtracted: the denominator grows with every X_j, so the other weights fall.

# %% [markdown] part="mistake" lang="es"
# A A^T se suma en vez de restarse: el denominador crece con cada X_j, así que los otros pesos
# bajan.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    return np.diag(A) + np.outer(A, A)


# %% [markdown] part="mistake" lang="en"
# A * A is a row of squares that spreads over all rows of J. The outer product is meant: entry i,
# j is A_i A_j.

# %% [markdown] part="mistake" lang="es"
# A * A es una fila de cuadrados que se extiende a todas las filas de J. Hace falta el producto
# exterior: A_i A_j en i, j.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    return np.diag(A) - A * A


# %% [markdown] part="mistake" lang="en"
# A @ A is one number, the sum of squares. The outer product is meant: entry i, j is A_i A_j.

# %% [markdown] part="mistake" lang="es"
# A @ A es un solo número, la suma de los cuadrados. Hace falta el producto exterior: A_i A_j en
# i, j.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    return np.diag(A) - A @ A


# %% [markdown] part="mistake" lang="en"
# A goes through softmax once more. What is given are weights already, not scores.

# %% [markdown] part="mistake" lang="es"
# A pasa otra vez por softmax. Lo que se recibe ya son pesos, no puntuaciones.

# %% part="mistake"
import numpy as np


def softmax_jacobian(A):
    E = np.exp(A - A.max())
    A = E / E.sum()
    return np.diag(A) - np.outer(A, A)
