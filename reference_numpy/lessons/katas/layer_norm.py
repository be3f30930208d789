# %% [markdown] part="task" lang="en"
# # Layer norm, forward
#
# It stands before each part of every block and lets deep models train: whatever comes in, each
# token leaves with mean 0 and variance 1, and is then stretched and moved by two learned vectors.
#
# Write `layer_norm(X, scale, shift, epsilon=1e-5)`. It returns Y.
#
# Approach: mean and variance of each row, over the last axis alone: tokens and samples know
# nothing of each other. The variance is the biased one (divide by d, not by d - 1), epsilon
# stands inside the root. Take two passes, first the mean, then the squares of the differences:
# mean(X^2) - mean(X)^2 cancels where the mean is large, and may even turn negative.
#
# Shapes: X, Y (..., d), scale, shift (d,); the mean and the variance (..., 1).
#
# Example: X = [40000, 40001, 40002, 40003] has the variance 1.25. With scale = [1, 1, 1, 2] and
# shift = [0, 0, 0, 1] it gives Y = [-1.3416, -0.4472, 0.4472, 3.6833].

# %% [markdown] part="task" lang="es"
# # Normalización por capas, hacia adelante
#
# Está delante de cada parte de cada bloque y permite entrenar modelos profundos: sea cual sea la
# entrada, cada token sale con media 0 y varianza 1, y después lo estiran y lo desplazan dos
# vectores aprendidos.
#
# Escribe `layer_norm(X, scale, shift, epsilon=1e-5)`. Devuelve Y.
#
# Método: media y varianza de cada fila, solo sobre el último eje: tokens y muestras no saben nada
# unos de otros. La varianza es la sesgada (divide entre d, no entre d - 1), y epsilon va dentro
# de la raíz. Da dos pasadas, primero la media y luego los cuadrados de las diferencias: mean(X^2)
# - mean(X)^2 se cancela cuando la media es grande, y hasta puede salir negativa.
#
# Formas: X, Y (..., d), scale, shift (d,); la media y la varianza (..., 1).
#
# Ejemplo: X = [40000, 40001, 40002, 40003] tiene varianza 1.25. Con scale = [1, 1, 1, 2] y shift
# = [0, 0, 0, 1] da Y = [-1.3416, -0.4472, 0.4472, 3.6833].

# %% part="start"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Keep the differences X - mean: you need them twice, once for the variance and once for the
# answer. And what does keepdims do for you here?

# %% [markdown] part="nudge" lang="es"
# Guarda las diferencias X - media: las necesitas dos veces, una para la varianza y otra para el
# resultado. ¿Y qué hace aquí keepdims por ti?

# %% [markdown] part="formula"
#     mu = mean(X)
#
#     D = X - mu
#
#     var = mean(D * D)
#
#     N = D / sqrt(var + epsilon)
#
#     Y = scale * N + shift

# %% part="shape"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - ...  # (..., d) - (..., 1)
    var = ...  # (..., 1)
    N = D / np.sqrt(var + ...)  # (..., d)
    return scale * N + shift  # (d,) * (..., d) + (d,)


# %% part="solution"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)  # (..., d)
    var = (D * D).mean(-1, keepdims=True)  # (..., 1)
    N = D / np.sqrt(var + epsilon)  # (..., d)
    return scale * N + shift
