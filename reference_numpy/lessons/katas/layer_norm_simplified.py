# %% [markdown] part="task" lang="en"
# # Simplify: layer norm from its atoms
#
# This backward was written as a patient person writes it: one line for each line of the forward,
# from the bottom up. It is right. It also puts six lines between dY and dX, and hides what layer
# norm does to a gradient: it takes away its mean, and the part along N.
#
# Make it short: `layer_norm_backward` with at most 5 statements, right for every input. Unpack
# the cache, find the leading axes, dN, dX, and a return that makes dscale and dshift: that is
# five. So dX has to become one expression of dN, N and r. Change the forward's cache as you like.
#
# Approach: put dr into dvar, dvar into dS, dS into dD. Then use D = N / r, that is D r = N, until
# neither D nor d is left. What is sum(D), and what therefore does dmu come down to?
#
# Shapes: X, Y, dY, D, N, dX (..., d), mu, var, r (..., 1), scale, shift, dscale, dshift (d,).
#
# Example: X = [1, 2, 3, 4], scale all 1 and dY = [1, 0, 0, 0] give dX = [0.2683, -0.3578,
# -0.0894, 0.1789], before and after.

# %% [markdown] part="task" lang="es"
# # Simplifica: la normalización por capas desde sus átomos
#
# Este paso hacia atrás está escrito como lo escribe alguien con paciencia: una línea por cada
# línea del paso hacia adelante, de abajo arriba. Es correcto. También pone seis líneas entre dY y
# dX, y esconde lo que esta normalización le hace a un gradiente: le quita su media y su parte a
# lo largo de N.
#
# Acórtalo: `layer_norm_backward` con 5 instrucciones como mucho, y que siga siendo correcto con
# cualquier entrada. Bastan: desempaquetar la caché, hallar los ejes de delante, dN, dX y un
# return que calcule dscale y dshift. Así que dX tiene que quedar en una sola expresión de dN, N y
# r. Cambia la caché como quieras.
#
# Método: sustituye dr en dvar, dvar en dS, dS en dD. Después usa D = N / r, es decir, D r = N,
# hasta que no quede ni D ni d. ¿Cuánto vale sum(D), y a qué se reduce por eso dmu?
#
# Formas: X, Y, dY, D, N, dX (..., d), mu, var, r (..., 1), scale, shift, dscale, dshift (d,).
#
# Ejemplo: X = [1, 2, 3, 4], scale todo 1 y dY = [1, 0, 0, 0] dan dX = [0.2683, -0.3578, -0.0894,
# 0.1789], antes y después.

# %% part="start"
import numpy as np


def layer_norm(X, scale, shift, epsilon=1e-5):
    mu = X.mean(-1, keepdims=True)
    D = X - mu
    S = D * D
    var = S.mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(var + epsilon)
    N = D * r
    Y = scale * N + shift
    return Y, (D, r, N, scale)


def layer_norm_backward(dY, cache):
    D, r, N, scale = cache
    d = D.shape[-1]
    leading = tuple(range(dY.ndim - 1))
    dshift = dY.sum(leading)  # Y = scale * N + shift
    dscale = (dY * N).sum(leading)  # Y = scale * N + shift
    dN = dY * scale  # Y = scale * N + shift
    dr = (dN * D).sum(-1, keepdims=True)  # N = D * r
    dvar = -0.5 * dr * r * r * r  # r = (var + epsilon)^(-1/2)
    dS = dvar / d  # var = mean(S)
    dD = dN * r + 2.0 * D * dS  # N = D * r, S = D * D
    dmu = -dD.sum(-1, keepdims=True)  # D = X - mu
    dX = dD + dmu / d  # D = X - mu, mu = mean(X)
    return dX, dscale, dshift


# %% [markdown] part="nudge" lang="en"
# dr r is (dN * D r).sum(), which is (dN * N).sum(). That leaves two factors r in dvar: one of
# them turns the D in 2 D dS into N. What do 2, 0.5 and d become? And dmu / d is minus the mean of
# dD: the part with D has mean 0.

# %% [markdown] part="nudge" lang="es"
# dr r es (dN * D r).sum(), o sea, (dN * N).sum(). En dvar quedan así dos factores r: uno
# convierte en N la D de 2 D dS. ¿En qué se quedan 2, 0.5 y d? Y dmu / d es menos la media de dD:
# la parte con D tiene media 0.

# %% [markdown] part="formula"
#     2 D dS = -D r r (dr r) / d = -r N mean(dN * N)
#
#     dD = r (dN - N mean(dN * N))
#
#     dmu / d = -mean(dD) = -r mean(dN)        (mean(N) = 0)
#
#     dX = r (dN - mean(dN) - N mean(dN * N))

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
    dX = r * (dN - ... - N * ...)  # (..., 1) * ((..., d) - (..., 1) - (..., d) * (..., 1))
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
    dN = dY * scale  # (..., d)
    dX = r * (dN - dN.mean(-1, keepdims=True) - N * (dN * N).mean(-1, keepdims=True))  # (..., d)
    return dX, (dY * N).sum(leading), dY.sum(leading)
