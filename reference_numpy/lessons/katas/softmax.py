# %% [markdown] part="task" lang="en"
# # Softmax that survives any scores
#
# Softmax turns a row of scores into weights: none is negative, and they sum to 1. Attention, the
# loss and sampling all go through it, so it must not break down: in floating point exp(1000) is
# infinite, and infinity over infinity is NaN.
#
# Write `softmax(X)`, over the last axis. It returns A.
#
#     A_i = exp(X_i) / sum_j exp(X_j)
#
# Approach: adding one number to all scores of a row changes nothing (the factor stands above and
# below the fraction line). Choose, for each row, the number after which no exponent is above 0.
#
# Shapes: X, A (..., n), with any number of leading axes.
#
# Example: X = [1, 2, 3] gives A = [0.0900, 0.2447, 0.6652], and so does X = [1001, 1002, 1003].

# %% [markdown] part="task" lang="es"
# # Un softmax que aguanta cualquier puntuación
#
# Softmax convierte una fila de puntuaciones en pesos: ninguno es negativo y suman 1. La atención,
# la pérdida y el muestreo pasan por él, así que no puede romperse: en coma flotante exp(1000) es
# infinito, e infinito entre infinito es NaN.
#
# Escribe `softmax(X)`, sobre el último eje. Devuelve A.
#
#     A_i = exp(X_i) / sum_j exp(X_j)
#
# Método: sumar un mismo número a todas las puntuaciones de una fila no cambia nada (el factor
# aparece arriba y abajo de la fracción). Elige, para cada fila, el número con el que ningún
# exponente pase de 0.
#
# Formas: X, A (..., n), con cualquier cantidad de ejes delante.
#
# Ejemplo: X = [1, 2, 3] da A = [0.0900, 0.2447, 0.6652], y X = [1001, 1002, 1003] da lo mismo.

# %% part="start"
import numpy as np


def softmax(X):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Which number of a row is the largest that exp will meet? Take it away from the whole row first.
# And ask of each reduction: over which axis, and does its result still line up with X?

# %% [markdown] part="nudge" lang="es"
# ¿Cuál es el mayor número de cada fila que le llega a exp? Réstaselo primero a toda la fila. Y
# pregúntate en cada reducción: ¿sobre qué eje, y su resultado sigue alineado con X?

# %% [markdown] part="formula" lang="en"
#     A = exp(X - max(X)) / sum(exp(X - max(X)))
#
# max and sum run over the last axis, each row by itself, and keep that axis as one of size 1.

# %% [markdown] part="formula" lang="es"
#     A = exp(X - max(X)) / sum(exp(X - max(X)))
#
# max y sum recorren el último eje, cada fila por su cuenta, y lo conservan como un eje de tamaño
# 1.

# %% part="shape"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(..., keepdims=True))  # (..., n), 0 <= E <= 1
    return E / ...  # (..., n) / (..., 1)


# %% part="solution"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))  # (..., n), 0 <= E <= 1
    return E / E.sum(-1, keepdims=True)  # (..., n) / (..., 1)
