# %% [markdown] part="task" lang="en"
# # Faster: the embedding's gradient without a loop
#
# The double loop in this file is right and hopeless: a batch of 32 sequences of 256 tokens of
# width 384 takes three million turns of Python. Accumulation looks as if it needed a loop, for
# each turn may meet a row that an earlier one has written. It does not.
#
# Rewrite `embedding_backward` so that the number of Python lines it runs does not grow with ids,
# v or d. It has to stay right: repeated ids add up.
#
# Approach: there are several ways, and all are worth knowing. NumPy has an unbuffered addition,
# which takes every index, however often it comes. Or carry out the product with one-hot rows
# after all. Or sort the ids and sum what belongs together.
#
# Shapes: ids (...) of integers, weight and dweight (v, d), Y and dY (..., d).
#
# Example: ids = [2, 0, 2], dY = [[1, 10], [2, 20], [3, 30]] and a table of v = 3 rows give
#
#     dweight = [[2, 20], [0, 0], [4, 40]]        (dweight[ids] += dY would leave [3, 30] in row 2)

# %% [markdown] part="task" lang="es"
# # Más rápido: el gradiente del embedding sin bucles
#
# El doble bucle de este archivo es correcto y desesperante: un lote de 32 secuencias de 256
# tokens de ancho 384 cuesta tres millones de vueltas de Python. Acumular parece necesitar un
# bucle, porque cada vuelta puede dar con una fila que otra anterior ya escribió. No lo necesita.
#
# Reescribe `embedding_backward` de modo que el número de líneas de Python que ejecuta no crezca
# con ids, v ni d. Tiene que seguir siendo correcto: los ids repetidos se suman.
#
# Método: hay varios caminos, y vale la pena conocerlos todos. NumPy tiene una suma sin búfer, que
# atiende cada índice tantas veces como venga. O haz, después de todo, el producto con filas
# one-hot. U ordena los ids y suma lo que va junto.
#
# Formas: ids (...) de enteros, weight y dweight (v, d), Y y dY (..., d).
#
# Ejemplo: ids = [2, 0, 2], dY = [[1, 10], [2, 20], [3, 30]] y una tabla de v = 3 filas dan
#
#     dweight = [[2, 20], [0, 0], [4, 40]]        (dweight[ids] += dY dejaría [3, 30] en la fila 2)

# %% part="start"
import numpy as np


def embedding(ids, weight):
    Y = np.take(weight, ids, axis=0)
    return Y, (ids, weight)


def embedding_backward(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)
    for t in np.ndindex(ids.shape):
        for i in range(weight.shape[1]):
            dweight[ids[t], i] += dY[t][i]
    return dweight


# %% [markdown] part="nudge" lang="en"
# The inner loop can go at once: a whole row can be added. For the outer one look at the methods
# of np.add: ufuncs have more of them than a call.

# %% [markdown] part="nudge" lang="es"
# El bucle de dentro puede irse ya: se puede sumar una fila entera. Para el de fuera, mira los
# métodos de np.add: una ufunc ofrece más que la simple llamada.

# %% [markdown] part="formula" lang="en"
#     dweight = onehot(ids)^T dY,  or unbuffered:  dweight[ids_t] += dY_t for every t, repeats included
#
# The product costs N v d operations and an (N, v) matrix; the unbuffered addition N d, and no
# matrix. For a vocabulary of a hundred the product may win, for one of 60,198 it cannot.

# %% [markdown] part="formula" lang="es"
#     dweight = onehot(ids)^T dY,  o sin búfer:  dweight[ids_t] += dY_t para cada t, repetidos incluidos
#
# El producto cuesta N v d operaciones y una matriz (N, v); la suma sin búfer, N d y ninguna
# matriz. Con un vocabulario de cien tokens puede ganar el producto; con uno de 60 198, es
# imposible.

# %% part="shape"
import numpy as np


def embedding(ids, weight):
    Y = np.take(weight, ids, axis=0)
    return Y, (ids, weight)


def embedding_backward(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)  # (v, d)
    np.add.at(..., ids, ...)  # (v, d), (...), (..., d)
    return dweight


# %% part="solution"
import numpy as np


def embedding(ids, weight):
    Y = np.take(weight, ids, axis=0)
    return Y, (ids, weight)


def embedding_backward(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)  # (v, d)
    np.add.at(dweight, ids, dY)
    return dweight
