# %% [markdown] part="task" lang="en"
# # Clipping, by one norm
#
# One bad batch can throw away an hour of training: its gradient is a hundred times as long as the others,
# and the step goes off the map. Clipping shortens such a gradient and keeps its direction. That works only
# if all tensors are shortened by the same factor, so there is ONE norm, over all of them.
#
# global_norm: the root of the sum of all squares, in all arrays together, as a Python float. Squares
# overflow long before the norm does: 1e200 is a fine number and 1e400 is none. So divide by the largest
# |entry| first, in float64, and multiply the root by it again. If everything is 0 (or there is nothing at
# all), the norm is 0.
#
# factor_for: 1 where the norm is small enough, else max_norm / (norm + 1e-6), as torch has it.
#
# Shapes: a list of arrays of any shapes, even () and (0, 3), of float32 or float64.
#
# Example: global_norm([[3, 0], [4]]) = 5.0
#     factor_for(5.0, 1.0) = 1 / 5.000001, so the gradients become [0.6, 0] and [0.8], up to 6 decimals
#     factor_for(5.0, 10.0) = 1.0

# %% [markdown] part="task" lang="es"
# # Recortar, con una sola norma
#
# Un mal lote puede tirar por la borda una hora de entrenamiento: su gradiente es cien veces más largo que
# los demás, y el paso se sale del mapa. Recortar acorta un gradiente así y conserva su dirección. Eso solo
# funciona si todos los tensores se acortan por el mismo factor; por eso hay UNA norma, la de todos juntos.
#
# global_norm: la raíz de la suma de todos los cuadrados, de todos los arreglos a la vez, como float de
# Python. Los cuadrados se desbordan mucho antes que la norma: 1e200 es un número decente y 1e400 no
# existe. Así que divide antes por el mayor |valor|, en float64, y vuelve a multiplicar la raíz por él. Si
# todo es 0 (o no hay nada), la norma es 0.
#
# factor_for: 1 si la norma es lo bastante pequeña; si no, max_norm / (norm + 1e-6), como en torch.
#
# Formas: una lista de arreglos de cualquier forma, también () y (0, 3), de float32 o float64.
#
# Ejemplo: global_norm([[3, 0], [4]]) = 5.0
#     factor_for(5.0, 1.0) = 1 / 5.000001, y los gradientes pasan a [0.6, 0] y [0.8], con 6 decimales
#     factor_for(5.0, 10.0) = 1.0

# %% part="start"
import numpy as np


def global_norm(arrays):
    raise NotImplementedError


def factor_for(norm, max_norm):
    raise NotImplementedError


def clip_gradients(grads, max_norm):
    arrays = {id(g): g for g in grads.values()}  # an array under two names counts once
    norm = global_norm(list(arrays.values()))
    factor = factor_for(norm, max_norm)
    clipped = {key: np.asarray(g * factor) for key, g in arrays.items()}
    return {name: clipped[id(g)] for name, g in grads.items()}, norm


# %% [markdown] part="nudge" lang="en"
# Find the largest |entry| of all arrays first; np.max needs initial=0.0 for an empty array. What would the
# division give if that largest number is 0?

# %% [markdown] part="nudge" lang="es"
# Busca primero el mayor |valor| de todos los arreglos; np.max necesita initial=0.0 para un arreglo vacío. ¿Qué
# daría la división si ese número es 0?

# %% [markdown] part="formula" lang="en"
# a = max |g|, over all entries of all arrays
#
# norm = a sqrt(sum (g / a)^2), and 0 if a = 0
#
# factor = min(1, max_norm / (norm + 1e-6))

# %% [markdown] part="formula" lang="es"
# a = max |g|, sobre todas las entradas de todos los arreglos
#
# norm = a sqrt(sum (g / a)^2), y 0 si a = 0
#
# factor = min(1, max_norm / (norm + 1e-6))


# %% part="shape"
def global_norm(arrays):
    largest = max((float(np.abs(g).max(initial=0.0)) for g in arrays), default=0.0)
    if largest == 0.0:
        return ...
    squares = (float(np.square(g.astype(np.float64) / ...).sum()) for g in arrays)
    return ... * math.sqrt(sum(squares))


def factor_for(norm, max_norm):
    return min(..., max_norm / (...))


# %% part="solution"
import math

import numpy as np


def global_norm(arrays):
    largest = max((float(np.abs(g).max(initial=0.0)) for g in arrays), default=0.0)
    if largest == 0.0:
        return 0.0
    squares = (float(np.square(g.astype(np.float64) / largest).sum()) for g in arrays)
    return largest * math.sqrt(sum(squares))


def factor_for(norm, max_norm):
    return min(1.0, max_norm / (norm + 1e-6))


def clip_gradients(grads, max_norm):
    arrays = {id(g): g for g in grads.values()}  # an array under two names counts once
    norm = global_norm(list(arrays.values()))
    factor = factor_for(norm, max_norm)
    clipped = {key: np.asarray(g * factor) for key, g in arrays.items()}
    return {name: clipped[id(g)] for name, g in grads.items()}, norm
