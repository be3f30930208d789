# %% [markdown] part="task" lang="en"
# # Top-k
#
# However small its share, every silly word has one, and sixty thousand silly words together have a lot. So
# before the dice are thrown all but the k best are struck off: their logits become -inf, whose exp is
# exactly 0. The k best keep the logits they had.
#
# Exactly k stay, even if several are equal at the limit: then the lowest ids stay. What is -inf already is
# not to come back, so fewer than k may be left; if k is larger than the vocabulary everything stays. Each
# row is filtered for itself. Do not change the logits that came in.
#
# Shapes: logits (..., v), k >= 1; return an array (..., v) of the same numbers, or -inf.
#
# Example: logits [2, 5, 5, 1]
#     k = 2  [-inf, 5, 5, -inf]
#     k = 1  [-inf, 5, -inf, -inf]

# %% [markdown] part="task" lang="es"
# # Top-k
#
# Por pequeña que sea, toda palabra disparatada tiene su parte, y sesenta mil palabras disparatadas juntas
# tienen mucha. Por eso, antes de tirar los dados, se tachan todas menos las k mejores: sus logits pasan a
# ser -inf, cuya exp es exactamente 0. Las k mejores conservan los logits que tenían.
#
# Quedan exactamente k, aunque haya varios iguales en el límite: entonces se quedan los de menor id. Lo que
# ya es -inf no debe volver, así que pueden quedar menos de k; si k es mayor que el vocabulario, se queda
# todo. Cada fila se filtra por su cuenta. No cambies los logits que llegan.
#
# Formas: logits (..., v), k >= 1; devuelve un arreglo (..., v) con los mismos números, o -inf.
#
# Ejemplo: logits [2, 5, 5, 1]
#     k = 2  [-inf, 5, 5, -inf]
#     k = 1  [-inf, 5, -inf, -inf]

# %% part="start"
import numpy as np


def top_k(logits, k):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Comparing with the k-th largest value keeps too many where there are equals. Sort the indices instead of
# the values: which sorting leaves equal elements in the order they had?

# %% [markdown] part="nudge" lang="es"
# Comparar con el k-ésimo mayor valor deja demasiados cuando hay iguales. Ordena los índices en vez de los
# valores: ¿qué ordenación deja los elementos iguales en el orden que tenían?

# %% [markdown] part="formula" lang="en"
# order = the ids by falling logit, the lower id first among equals (a stable sort of -l)
#
# Y_i = l_i if i is one of the first k of order, else -inf

# %% [markdown] part="formula" lang="es"
# order = los ids por logit descendente, primero el menor id entre iguales (una ordenación estable de -l)
#
# Y_i = l_i si i es uno de los k primeros de order; si no, -inf

# %% part="shape"
import numpy as np


def top_k(logits, k):
    order = np.argsort(..., axis=-1, kind="stable")  # (..., v)
    keep = np.zeros(logits.shape, bool)
    np.put_along_axis(keep, order[..., ...], True, axis=-1)
    return np.where(keep, ..., -np.inf)


# %% part="solution"
import numpy as np


def top_k(logits, k):
    order = np.argsort(-logits, axis=-1, kind="stable")  # (..., v)
    keep = np.zeros(logits.shape, bool)
    np.put_along_axis(keep, order[..., :k], True, axis=-1)
    return np.where(keep, logits, -np.inf)
