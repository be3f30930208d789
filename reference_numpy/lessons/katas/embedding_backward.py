# %% [markdown] part="task" lang="en"
# # Embedding, backward: ids that repeat
#
# An embedding is a product with one-hot rows that nobody carries out: it reads rows of a table.
# Its backward writes into that table, and there the best-known bug of NumPy waits: `dweight[ids]
# += dY` adds only once for an id that occurs twice. In a text the commonest words repeat most, so
# they would learn least.
#
# Write `embedding_backward(dY, cache)`. It returns dweight.
#
# Approach: weight[v] was read at every place t with ids_t = v, and each of these places has a
# gradient of its own. They add up. Rows that nobody read get exactly 0. A plain loop over the
# places is fine here; the next kata makes it fast.
#
# Shapes: ids (...) of integers, with one leading axis or more, weight and dweight (v, d), Y and
# dY (..., d).
#
# Example: ids = [2, 0, 2], dY = [[1, 10], [2, 20], [3, 30]] and a table of v = 3 rows give
#
#     dweight = [[2, 20], [0, 0], [4, 40]]

# %% [markdown] part="task" lang="es"
# # Embedding hacia atrás: ids que se repiten
#
# Un embedding es un producto con filas one-hot que nadie llega a hacer: lee filas de una tabla.
# Su paso hacia atrás escribe en esa tabla, y ahí acecha el error más conocido de NumPy:
# `dweight[ids] += dY` suma una sola vez para un id que aparece dos veces. En un texto, las
# palabras más comunes son las que más se repiten: aprenderían menos que nadie.
#
# Escribe `embedding_backward(dY, cache)`. Devuelve dweight.
#
# Método: weight[v] se leyó en cada lugar t con ids_t = v, y cada uno de esos lugares tiene su
# gradiente. Se suman. Las filas que nadie leyó reciben exactamente 0. Aquí vale un bucle sencillo
# sobre los lugares; el próximo kata lo hace rápido.
#
# Formas: ids (...) de enteros, con al menos un eje, weight y dweight (v, d), Y y dY (..., d).
#
# Ejemplo: ids = [2, 0, 2], dY = [[1, 10], [2, 20], [3, 30]] y una tabla de v = 3 filas dan
#
#     dweight = [[2, 20], [0, 0], [4, 40]]

# %% part="start"
import numpy as np


def embedding(ids, weight):
    Y = np.take(weight, ids, axis=0)
    return Y, (ids, weight)


def embedding_backward(dY, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Begin with a table of zeros. Which row of it does place t of dY belong to? np.ndindex(ids.shape)
# goes through all places, whatever the number of axes.

# %% [markdown] part="nudge" lang="es"
# Empieza con una tabla de ceros. ¿A qué fila de ella pertenece el lugar t de dY?
# np.ndindex(ids.shape) recorre todos los lugares, sea cual sea el número de ejes.

# %% [markdown] part="formula"
#     Y = onehot(ids) weight
#
#     dweight = onehot(ids)^T dY        dweight_v = sum of dY_t, t: ids_t = v

# %% part="shape"
import numpy as np


def embedding(ids, weight):
    Y = np.take(weight, ids, axis=0)
    return Y, (ids, weight)


def embedding_backward(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)  # (v, d)
    for t in np.ndindex(ids.shape):
        dweight[...] += dY[t]  # (d,)
    return dweight


# %% part="solution"
import numpy as np


def embedding(ids, weight):
    Y = np.take(weight, ids, axis=0)
    return Y, (ids, weight)


def embedding_backward(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)  # (v, d)
    for t in np.ndindex(ids.shape):
        dweight[ids[t]] += dY[t]  # (d,)
    return dweight
