# %% [markdown] part="task" lang="en"
# # Dropout, backward
#
# Dropout throws units away at random in training, and makes up for it by enlarging those that
# stay. Its backward is the easiest line of the course, if one thing is understood: the mask
# belongs to the forward. The backward draws nothing and guesses nothing.
#
# Write `dropout_backward(dY, cache)`. It returns dX.
#
# Approach: with a given mask Y is linear in X, and diagonal: each entry is multiplied by `factor`
# or by 0. So each gradient is too. Recovering the mask from Y != 0 looks clever and is wrong: a
# kept X may be 0. If keep is None nothing was dropped; give back a copy then, since a gradient
# should share no memory with what came in.
#
# Shapes: X, Y, dY, dX any shape; keep boolean of the same shape, or None. factor is 1 / (1 - p),
# and 0 for p = 1.
#
# Example: p = 0.2 makes factor 1.25. X = [1, 2, 0] with keep = [True, False, True] gives Y =
# [1.25, 0, 0], and dY = [4, 8, -4] gives dX = [5, 0, -5].

# %% [markdown] part="task" lang="es"
# # Dropout hacia atrás
#
# Dropout desecha unidades al azar durante el entrenamiento y lo compensa agrandando las que
# quedan. Su paso hacia atrás es la línea más fácil del curso si se entiende una cosa: la máscara
# es del paso hacia adelante. Hacia atrás no se sortea nada ni se adivina nada.
#
# Escribe `dropout_backward(dY, cache)`. Devuelve dX.
#
# Método: con una máscara dada, Y es lineal en X, y diagonal: cada elemento se multiplica por
# `factor` o por 0. Con su gradiente pasa lo mismo. Recuperar la máscara con Y != 0 parece
# ingenioso y está mal: una X conservada puede valer 0. Si keep es None, no se desechó nada;
# devuelve entonces una copia, porque un gradiente no debe compartir memoria con lo que entró.
#
# Formas: X, Y, dY, dX de cualquier forma; keep booleano de la misma forma, o None. factor es 1 /
# (1 - p), y 0 si p = 1.
#
# Ejemplo: p = 0.2 hace que factor sea 1.25. X = [1, 2, 0] con keep = [True, False, True] da Y =
# [1.25, 0, 0], y dY = [4, 8, -4] da dX = [5, 0, -5].

# %% part="start"
import numpy as np


def dropout(X, keep, p):
    factor = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    Y = X.copy() if keep is None else np.where(keep, X * factor, 0.0)
    return Y, (keep, factor)


def dropout_backward(dY, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# What is dY_i/dX_i for an entry that was kept, and what for one that was dropped? Which line of
# the file does just that already, to something else?

# %% [markdown] part="nudge" lang="es"
# ¿Cuánto es dY_i/dX_i en un elemento conservado, y cuánto en uno desechado? ¿Qué línea del
# archivo hace ya justo eso, con otra cosa?

# %% [markdown] part="formula" lang="en"
#     dX_i = dY_i / (1 - p) where keep_i, else 0

# %% [markdown] part="formula" lang="es"
#     dX_i = dY_i / (1 - p) donde keep_i, y 0 en los demás

# %% part="shape"
import numpy as np


def dropout(X, keep, p):
    factor = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    Y = X.copy() if keep is None else np.where(keep, X * factor, 0.0)
    return Y, (keep, factor)


def dropout_backward(dY, cache):
    keep, factor = cache
    return dY.copy() if keep is None else np.where(keep, factor * ..., ...)  # (...)


# %% part="solution"
import numpy as np


def dropout(X, keep, p):
    factor = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    Y = X.copy() if keep is None else np.where(keep, X * factor, 0.0)
    return Y, (keep, factor)


def dropout_backward(dY, cache):
    keep, factor = cache
    return dY.copy() if keep is None else np.where(keep, dY * factor, 0.0)
