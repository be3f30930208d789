# %% [markdown] part="task" lang="en"
# # Bug: right on the first day
#
# A public transformer in NumPy was trained with this backward, and it learned. No wonder: as it
# begins all scales are 1, and for equal scales it is exactly right. It goes wrong a little more
# with each step, and nobody noticed.
#
# Find the line and mend it.
#
# Approach: moving a row of X changes no output, so each row of dX has to sum to 0. Does it here,
# for scales that differ? Follow dY backwards, line by line of the forward: what does it pass
# first, the scale or the mean?
#
# Shapes: dY, dX and in the cache N (..., d), scale (d,), r (..., 1); dscale, dshift (d,).
#
# Example: X = [1, 2, 3, 4], scale = [1, 2, 1, 2], dY = [1, 1, 0, 0]. Right is dX = [-0.4472,
# 0.8944, -0.4472, 0.0000]; the file as it is says [-0.0894, 0.5367, -0.2683, 0.1789].

# %% [markdown] part="task" lang="es"
# # Un error: el primer día funciona
#
# Con este paso hacia atrás se entrenó un transformer público en NumPy, y aprendía. No es raro: al
# empezar todas las escalas valen 1, y con escalas iguales es exactamente correcto. Se estropea un
# poco más en cada paso, y nadie lo notó.
#
# Encuentra la línea y arréglala.
#
# Método: desplazar una fila de X no cambia ninguna salida, así que cada fila de dX tiene que
# sumar 0. ¿Lo hace aquí, si las escalas son distintas? Sigue dY hacia atrás, línea a línea: ¿qué
# atraviesa primero, scale o la media?
#
# Formas: dY, dX y, en la caché, N (..., d); scale (d,); r (..., 1); dscale, dshift (d,).
#
# Ejemplo: X = [1, 2, 3, 4], scale = [1, 2, 1, 2], dY = [1, 1, 0, 0]. Lo correcto es dX =
# [-0.4472, 0.8944, -0.4472, 0.0000]; el archivo tal como está dice [-0.0894, 0.5367, -0.2683,
# 0.1789].

# %% part="start"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    r = 1.0 / np.sqrt((D * D).mean(-1, keepdims=True) + epsilon)
    N = D * r
    return scale * N + shift, (N, r, scale)


def layer_norm_backward(dY, cache):
    N, r, scale = cache
    leading = tuple(range(dY.ndim - 1))
    first = dY.mean(-1, keepdims=True)
    second = (dY * N).mean(-1, keepdims=True)
    dX = scale * r * (dY - first - N * second)
    return dX, (dY * N).sum(leading), dY.sum(leading)


# %% [markdown] part="nudge" lang="en"
# The scale is a vector: it differs within the row that is averaged. May it be taken out of a mean
# over that row?

# %% [markdown] part="nudge" lang="es"
# scale es un vector: cambia dentro de la fila que se promedia. ¿Puede sacarse de una media sobre
# esa fila?

# %% [markdown] part="formula" lang="en"
#     dN = dY * scale
#
#     dX = r (dN - mean(dN) - N * mean(dN * N))
#
# mean(dY * scale) is not scale * mean(dY): the scale belongs inside both means.

# %% [markdown] part="formula" lang="es"
#     dN = dY * scale
#
#     dX = r (dN - mean(dN) - N * mean(dN * N))
#
# mean(dY * scale) no es scale * mean(dY): scale va dentro de las dos medias.

# %% part="shape"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    r = 1.0 / np.sqrt((D * D).mean(-1, keepdims=True) + epsilon)
    N = D * r
    return scale * N + shift, (N, r, scale)


def layer_norm_backward(dY, cache):
    N, r, scale = cache
    leading = tuple(range(dY.ndim - 1))
    dN = dY * scale  # (..., d)
    first = (...).mean(-1, keepdims=True)  # (..., 1)
    second = (...).mean(-1, keepdims=True)  # (..., 1)
    dX = r * (dN - first - N * second)  # (..., d)
    return dX, (dY * N).sum(leading), dY.sum(leading)


# %% part="solution"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    r = 1.0 / np.sqrt((D * D).mean(-1, keepdims=True) + epsilon)
    N = D * r
    return scale * N + shift, (N, r, scale)


def layer_norm_backward(dY, cache):
    N, r, scale = cache
    leading = tuple(range(dY.ndim - 1))
    dN = dY * scale
    first = dN.mean(-1, keepdims=True)
    second = (dN * N).mean(-1, keepdims=True)
    dX = r * (dN - first - N * second)
    return dX, (dY * N).sum(leading), dY.sum(leading)
