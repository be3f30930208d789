# %% [markdown] part="task" lang="en"
# # Layer norm, backward
#
# The gradient that most people copy and few derive. An entry of X reaches the output of its row
# by three ways: by itself, through the mean, and through the variance. Each way gives one term,
# and together they are one line.
#
# Write `layer_norm_backward(dY, cache)`. It returns dX, dscale, dshift.
#
# Approach: dscale and dshift first; they are sums over all rows, as in a linear layer. Then push
# dY through the scale, to dN, and on through N = (X - mu) r. Two things come out that you may use
# to check yourself: each row of dX sums to 0, since moving a row changes nothing, and it is at
# right angles to N (up to epsilon), since stretching a row changes nothing.
#
# Shapes: dY, dX and in the cache N (..., d), scale (d,), r (..., 1) with r = 1 / sqrt(var +
# epsilon); dscale, dshift (d,).
#
# Example: X = [1, 2, 3, 4], scale all 1 and dY = [1, 0, 0, 0] give dX = [0.2683, -0.3578,
# -0.0894, 0.1789], dscale = [-1.3416, 0, 0, 0] and dshift = [1, 0, 0, 0].

# %% [markdown] part="task" lang="es"
# # Normalización por capas, hacia atrás
#
# Es el gradiente que casi todos copian y pocos deducen. Un elemento de X llega a la salida de su
# fila por tres caminos: por sí mismo, por la media y por la varianza. Cada camino da un término,
# y juntos son una sola línea.
#
# Escribe `layer_norm_backward(dY, cache)`. Devuelve dX, dscale, dshift.
#
# Método: primero dscale y dshift; son sumas sobre todas las filas, como en una capa lineal.
# Después lleva dY a través de scale, hasta dN, y sigue por N = (X - mu) r. Resultan dos cosas con
# las que puedes comprobarte: cada fila de dX suma 0, porque desplazar una fila no cambia nada, y
# es perpendicular a N (salvo por epsilon), porque estirarla tampoco.
#
# Formas: dY, dX y, en la caché, N (..., d); scale (d,); r (..., 1), con r = 1 / sqrt(var +
# epsilon); dscale, dshift (d,).
#
# Ejemplo: X = [1, 2, 3, 4], scale todo 1 y dY = [1, 0, 0, 0] dan dX = [0.2683, -0.3578, -0.0894,
# 0.1789], dscale = [-1.3416, 0, 0, 0] y dshift = [1, 0, 0, 0].

# %% part="start"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    var = (D * D).mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    return scale * N + shift, (N, r, scale)


def layer_norm_backward(dY, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# In Y = scale * N + shift all is elementwise: that gives dN, dscale and dshift. For dX take one
# row of d numbers. The mean sends the same number back to all entries; the variance sends back
# something in proportion to N. So dX is r (dN - one number - N * another number). Which numbers?
# dX has to sum to 0 and to be at right angles to N.

# %% [markdown] part="nudge" lang="es"
# En Y = scale * N + shift todo va elemento a elemento: de ahí salen dN, dscale y dshift. Para dX
# toma una fila de d números. La media devuelve el mismo número a todos los elementos; la varianza
# devuelve algo proporcional a N. Así que dX es r (dN - un número - N * otro número). ¿Qué
# números? dX tiene que sumar 0 y ser perpendicular a N.

# %% [markdown] part="formula" lang="en"
#     dN = dY * scale
#
#     dscale = sum over rows of dY * N
#
#     dshift = sum over rows of dY
#
#     J_ij = r (1[i = j] - 1/d - N_i N_j / d)
#
#     dX = r (dN - mean(dN) - N * mean(dN * N))
#
# J, the Jacobian of N by X, holds the three ways: X_j itself, the mean (which moves by 1/d) and r
# (which moves by -r^2 N_j / d). Both means run over the row.

# %% [markdown] part="formula" lang="es"
#     dN = dY * scale
#
#     dscale = suma sobre las filas de dY * N
#
#     dshift = suma sobre las filas de dY
#
#     J_ij = r (1[i = j] - 1/d - N_i N_j / d)
#
#     dX = r (dN - mean(dN) - N * mean(dN * N))
#
# J, el jacobiano de N respecto de X, reúne los tres caminos: la propia X_j, la media (que se
# mueve 1/d) y r (que se mueve -r^2 N_j / d). Las dos medias recorren la fila.

# %% part="shape"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    var = (D * D).mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    return scale * N + shift, (N, r, scale)


def layer_norm_backward(dY, cache):
    N, r, scale = cache
    leading = tuple(range(dY.ndim - 1))
    dN = dY * scale  # (..., d)
    first = ...  # (..., 1)
    second = ...  # (..., 1)
    dX = r * (dN - first - N * second)  # (..., d)
    return dX, (...).sum(leading), dY.sum(leading)  # (..., d), (d,), (d,)


# %% part="solution"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    var = (D * D).mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    return scale * N + shift, (N, r, scale)


def layer_norm_backward(dY, cache):
    N, r, scale = cache
    leading = tuple(range(dY.ndim - 1))
    dN = dY * scale  # (..., d)
    first = dN.mean(-1, keepdims=True)  # (..., 1)
    second = (dN * N).mean(-1, keepdims=True)  # (..., 1)
    dX = r * (dN - first - N * second)  # (..., d)
    return dX, (dY * N).sum(leading), dY.sum(leading)  # (..., d), (d,), (d,)
