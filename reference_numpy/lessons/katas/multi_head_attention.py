# %% [markdown] part="task" lang="en"
# # Several heads
#
# One head has one softmax per token, so it can look for one thing at a time. Several heads look for
# several things at once, and cost nothing extra: the width is shared out among them.
#
# Project with the three big matrices, cut the result into num_heads pieces of width c, let every piece
# attend for itself, put the contexts side by side again, and mix them with Wo. Cutting is a reshape
# and a swap of two axes: attention wants (..., H, n, c), with the heads among the leading axes.
# Careful: a single reshape to (..., H, n, c) runs without complaint and mixes tokens into heads.
#
# Shapes: X (..., n, d), Wq, Wk, Wv (d, H c), Wo (H c, k), Y (..., n, k). Head h owns the columns
# h c ... (h + 1) c - 1 of Wq, Wk, Wv and those rows of Wo. You may use attention(Q, K, V), which gives
# (C, cache), with any leading axes; its scale is 1 / sqrt(c), c the width of ONE head. Return Y.
#
# Example: X = [[1, 2], [3, 4]], all four matrices [[1, 0], [0, 1]]
#     2 heads  Y = [[2.7616, 3.964], [2.9951, 3.9993]]
#     1 head   Y = [[2.9717, 3.9717], [2.9999, 3.9999]]

# %% [markdown] part="task" lang="es"
# # Varias cabezas
#
# Una cabeza tiene un solo softmax por token, así que busca una cosa cada vez. Varias cabezas buscan
# varias cosas a la vez y no cuestan más: se reparten la anchura.
#
# Proyecta con las tres matrices grandes, corta el resultado en num_heads trozos de anchura c, deja que
# cada trozo atienda por su cuenta, vuelve a poner los contextos uno al lado del otro y mézclalos con
# Wo. Cortar es un reshape y un intercambio de dos ejes: attention quiere (..., H, n, c), con las
# cabezas entre los ejes de delante. Cuidado: un solo reshape a (..., H, n, c) funciona sin quejarse y
# mezcla los tokens entre las cabezas.
#
# Formas: X (..., n, d), Wq, Wk, Wv (d, H c), Wo (H c, k), Y (..., n, k). La cabeza h es dueña de las
# columnas h c ... (h + 1) c - 1 de Wq, Wk, Wv y de esas mismas filas de Wo. Puedes usar
# attention(Q, K, V), que da (C, caché) con cualesquiera ejes delante; su escala es 1 / sqrt(c), con c
# la anchura de UNA cabeza. Devuelve Y.
#
# Ejemplo: X = [[1, 2], [3, 4]], las cuatro matrices [[1, 0], [0, 1]]
#     2 cabezas  Y = [[2.7616, 3.964], [2.9951, 3.9993]]
#     1 cabeza   Y = [[2.9717, 3.9717], [2.9999, 3.9999]]

# %% part="start"
from reference_numpy import attention


def split_heads(X, num_heads):
    # (..., n, H c) -> (..., H, n, c)
    raise NotImplementedError


def merge_heads(X):
    # (..., H, n, c) -> (..., n, H c)
    raise NotImplementedError


def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# A reshape never changes the order of the numbers in memory: it may cut the last axis H c into (H, c),
# nothing more. Which two axes have to change places after that? Merging is the same two steps backwards.

# %% [markdown] part="nudge" lang="es"
# Un reshape nunca cambia el orden de los números en la memoria: puede cortar el último eje H c en (H, c)
# y nada más. ¿Qué dos ejes tienen que cambiarse de sitio después? Unir es dar los mismos dos pasos al
# revés.

# %% [markdown] part="formula" lang="en"
# split:  X[..., t, h c + i] -> X'[..., h, t, i]
#
# C_h = attention(Q_h, K_h, V_h), each head for itself
#
# Y = (C_1 | C_2 | ... | C_H) Wo

# %% [markdown] part="formula" lang="es"
# cortar:  X[..., t, h c + i] -> X'[..., h, t, i]
#
# C_h = attention(Q_h, K_h, V_h), cada cabeza por su cuenta
#
# Y = (C_1 | C_2 | ... | C_H) Wo

# %% part="shape"
from reference_numpy import attention


def split_heads(X, num_heads):
    cut = X.reshape(*X.shape[:-1], num_heads, ...)  # (..., n, H, c)
    return cut.swapaxes(..., -2)  # (..., H, n, c)


def merge_heads(X):
    swapped = X.swapaxes(..., -2)  # (..., n, H, c)
    return swapped.reshape(*swapped.shape[:-2], ...)  # (..., n, H c)


def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads):
    Q = split_heads(X @ Wq, num_heads)
    K = ...
    V = ...
    C, _ = attention(Q, K, V)  # (..., H, n, c)
    return ... @ Wo


# %% part="solution"
from reference_numpy import attention


def split_heads(X, num_heads):
    cut = X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads)  # (..., n, H, c)
    return cut.swapaxes(-3, -2)


def merge_heads(X):
    swapped = X.swapaxes(-3, -2)  # (..., n, H, c)
    return swapped.reshape(*swapped.shape[:-2], X.shape[-3] * X.shape[-1])


def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads):
    Q = split_heads(X @ Wq, num_heads)
    K = split_heads(X @ Wk, num_heads)
    V = split_heads(X @ Wv, num_heads)
    C, _ = attention(Q, K, V)  # (..., H, n, c)
    return merge_heads(C) @ Wo
