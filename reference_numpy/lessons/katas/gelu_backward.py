# %% [markdown] part="task" lang="en"
# # Gelu, backward
#
# Between the two linear layers of every GPT-2 block stands this function: relu with its corner
# rounded off. Its derivative is the first of the course with a product, a chain and a polynomial
# in it, and each of them is left out in some public code.
#
# Write `gelu_backward(dY, cache)`. It returns dX.
#
#     Y = X (1 + t) / 2      t = tanh(u)      u = sqrt(2 / pi) (X + 0.044715 X^3)
#
# Approach: X occurs twice in Y, as a factor and inside t. The product rule gives one term for
# each. The second goes through tanh, whose derivative is 1 - t^2, and through u, which is a
# cubic. Entry by entry: no axis matters.
#
# Shapes: X, t, Y, dY, dX, all the same.
#
# Example: X = [-1, 0, 1] and dY = [1, 1, 1] give dX = [-0.0830, 0.5000, 1.0830]. At -1 gelu
# falls, and at 1 it is steeper than relu.

# %% [markdown] part="task" lang="es"
# # Gelu hacia atrás
#
# Entre las dos capas lineales de cada bloque de GPT-2 está esta función: relu con la esquina
# redondeada. Su derivada es la primera del curso que lleva un producto, una cadena y un
# polinomio, y cada uno de los tres falta en algún código público.
#
# Escribe `gelu_backward(dY, cache)`. Devuelve dX.
#
#     Y = X (1 + t) / 2      t = tanh(u)      u = sqrt(2 / pi) (X + 0.044715 X^3)
#
# Método: X aparece dos veces en Y, como factor y dentro de t. La regla del producto da un término
# por cada una. El segundo pasa por tanh, cuya derivada es 1 - t^2, y por u, que es un polinomio
# cúbico. Elemento a elemento: ningún eje importa.
#
# Formas: X, t, Y, dY, dX, todas la misma.
#
# Ejemplo: X = [-1, 0, 1] y dY = [1, 1, 1] dan dX = [-0.0830, 0.5000, 1.0830]. En -1 gelu decrece,
# y en 1 tiene más pendiente que relu.

# %% part="start"
import math

import numpy as np

SLOPE = math.sqrt(2.0 / math.pi)
CUBE = 0.044715


def gelu(X):
    t = np.tanh(SLOPE * (X + CUBE * X * X * X))
    return X * (0.5 * (1.0 + t)), (X, t)


def gelu_backward(dY, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Three small questions: what is du/dX? What is dt/du, said with t? And which two terms does d(X
# (1 + t) / 2)/dX have? Mind the half: it belongs to both.

# %% [markdown] part="nudge" lang="es"
# Tres preguntas pequeñas: ¿cuánto es du/dX? ¿Cuánto es dt/du, dicho con t? ¿Y qué dos términos
# tiene d(X (1 + t) / 2)/dX? Cuidado con el medio: es de los dos.

# %% [markdown] part="formula"
#     du = sqrt(2 / pi) (1 + 3 * 0.044715 X^2)            du/dX
#
#     dt = (1 - t^2) du                                   dt/dX
#
#     dX = dY ((1 + t) / 2 + X dt / 2)

# %% part="shape"
import math

import numpy as np

SLOPE = math.sqrt(2.0 / math.pi)
CUBE = 0.044715


def gelu(X):
    t = np.tanh(SLOPE * (X + CUBE * X * X * X))
    return X * (0.5 * (1.0 + t)), (X, t)


def gelu_backward(dY, cache):
    X, t = cache
    du = SLOPE * (1.0 + ... * X * X)  # (...)
    dt = (1.0 - ...) * du  # (...)
    return dY * (0.5 * (1.0 + t) + ... * dt)  # (...)


# %% part="solution"
import math

import numpy as np

SLOPE = math.sqrt(2.0 / math.pi)
CUBE = 0.044715


def gelu(X):
    t = np.tanh(SLOPE * (X + CUBE * X * X * X))
    return X * (0.5 * (1.0 + t)), (X, t)


def gelu_backward(dY, cache):
    X, t = cache
    du = SLOPE * (1.0 + 3.0 * CUBE * X * X)
    dt = (1.0 - t * t) * du
    return dY * (0.5 * (1.0 + t) + 0.5 * X * dt)
