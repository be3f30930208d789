# %% [markdown] part="task" lang="en"
# # Temperature
#
# The same model can be a bore or a poet, and one number decides. At a low temperature it nearly always says
# the most probable word; at a high one it says anything. Nothing is trained for that: the logits are
# divided by T before the softmax.
#
# At T = 0 the division has no sense, but its limit has: all of the probability on the largest logit, and on
# the lowest id if there are several. For all other T subtract the largest logit first, as always: at
# T = 0.001 a harmless logit of 2 becomes 2000.
#
# Shapes: logits (..., v); return the probabilities (..., v), along the last axis. T is one number, T >= 0.
#
# Example: logits [2, 1, 0]
#     T = 0    [1, 0, 0]
#     T = 0.5  [0.8668, 0.1173, 0.0159]
#     T = 1    [0.6652, 0.2447, 0.09]
#     T = 2    [0.5065, 0.3072, 0.1863]

# %% [markdown] part="task" lang="es"
# # Temperatura
#
# El mismo modelo puede ser un aburrido o un poeta, y lo decide un número. A temperatura baja dice casi
# siempre la palabra más probable; a temperatura alta, cualquier cosa. Para eso no se entrena nada: los
# logits se dividen por T antes del softmax.
#
# En T = 0 la división no tiene sentido, pero su límite sí: toda la probabilidad en el mayor logit, y en el
# de menor id si hay varios. Con cualquier otra T resta antes el mayor logit, como siempre: con T = 0.001
# un inofensivo logit de 2 se convierte en 2000.
#
# Formas: logits (..., v); devuelve las probabilidades (..., v), a lo largo del último eje. T es un solo
# número, T >= 0.
#
# Ejemplo: logits [2, 1, 0]
#     T = 0    [1, 0, 0]
#     T = 0.5  [0.8668, 0.1173, 0.0159]
#     T = 1    [0.6652, 0.2447, 0.09]
#     T = 2    [0.5065, 0.3072, 0.1863]

# %% part="start"
import numpy as np


def temperature(logits, T):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Two cases. For T = 0: which function of NumPy gives the first of the largest, and how do you make a row of
# 0 and 1 of it? For T > 0: what is the largest exponent that exp may see?

# %% [markdown] part="nudge" lang="es"
# Dos casos. Para T = 0: ¿qué función de NumPy da el primero de los mayores, y cómo haces con él una fila de
# ceros y un uno? Para T > 0: ¿cuál es el mayor exponente que exp debe ver?

# %% [markdown] part="formula" lang="en"
# P_i = exp((l_i - max l) / T) / sum_j exp((l_j - max l) / T), for T > 0
#
# P_i = 1 if i is the first index with l_i = max l, else 0, for T = 0

# %% [markdown] part="formula" lang="es"
# P_i = exp((l_i - max l) / T) / sum_j exp((l_j - max l) / T), para T > 0
#
# P_i = 1 si i es el primer índice con l_i = max l; si no, 0, para T = 0

# %% part="shape"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        best = logits.argmax(..., keepdims=True)  # (..., 1)
        return np.where(np.arange(logits.shape[-1]) == ..., 1.0, 0.0)
    E = np.exp((logits - logits.max(-1, keepdims=True)) / ...)
    return E / E.sum(..., keepdims=True)


# %% part="solution"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        best = logits.argmax(-1, keepdims=True)  # (..., 1)
        return np.where(np.arange(logits.shape[-1]) == best, 1.0, 0.0)
    E = np.exp((logits - logits.max(-1, keepdims=True)) / T)
    return E / E.sum(-1, keepdims=True)


# %% part="check"
import numpy as np


def draw(rng):
    v = int(rng.choice([1, 2, 3, 5, 7]))
    lead = [(), (), (4,), (6, 8)][rng.integers(4)]
    logits = rng.standard_normal((*lead, v)) * rng.choice([1.0, 3.0, 3.0, 30.0])
    if rng.random() < 0.4:
        logits = np.round(logits / 2.0)  # some are equal
    if rng.random() < 0.2:
        logits = logits + 1000.0
    T = float(rng.choice([0.0, 0.0, 0.01, 0.25, 0.8, 1.0, 1.5, 10.0]))
    return {"logits": logits, "T": T}


# %% [markdown] part="mistake" lang="en"
# The probabilities are divided by T, and normalising takes the T out again. It is the logits that are divided.

# %% [markdown] part="mistake" lang="es"
# Se dividen por T las probabilidades, y al normalizar la T desaparece otra vez. Lo que se divide son los
# logits.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        best = logits.argmax(-1, keepdims=True)
        return np.where(np.arange(logits.shape[-1]) == best, 1.0, 0.0)
    E = np.exp(logits - logits.max(-1, keepdims=True))
    P = E / E.sum(-1, keepdims=True) / T
    return P / P.sum(-1, keepdims=True)


# %% [markdown] part="mistake" lang="en"
# The logits are multiplied by T: a low temperature then makes everything equally probable. It has to divide.

# %% [markdown] part="mistake" lang="es"
# Los logits se multiplican por T: así una temperatura baja lo hace todo igual de probable. Tiene que dividir.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        best = logits.argmax(-1, keepdims=True)  # (..., 1)
        return np.where(np.arange(logits.shape[-1]) == best, 1.0, 0.0)
    E = np.exp((logits - logits.max(-1, keepdims=True)) * T)
    return E / E.sum(-1, keepdims=True)


# %% [markdown] part="mistake" lang="en"
# The largest logit is not subtracted: exp overflows for large logits and low temperatures, and inf / inf is
# NaN.

# %% [markdown] part="mistake" lang="es"
# No se resta el mayor logit: exp se desborda con logits grandes y temperaturas bajas, e inf / inf es NaN.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        best = logits.argmax(-1, keepdims=True)  # (..., 1)
        return np.where(np.arange(logits.shape[-1]) == best, 1.0, 0.0)
    E = np.exp(logits / T)
    return E / E.sum(-1, keepdims=True)


# %% [markdown] part="mistake" lang="en"
# T = 0 is divided by: 0 / 0 is NaN. Greedy needs a case of its own.

# %% [markdown] part="mistake" lang="es"
# Se divide por T = 0: 0 / 0 es NaN. La elección voraz necesita su propio caso.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    E = np.exp((logits - logits.max(-1, keepdims=True)) / np.float64(T))
    return E / E.sum(-1, keepdims=True)


# %% [markdown] part="mistake" lang="en"
# At T = 0 all logits that equal the largest get a 1, so a row with equal ones sums to more than 1. Only the
# first of them is chosen.

# %% [markdown] part="mistake" lang="es"
# En T = 0 reciben un 1 todos los logits iguales al mayor, así que una fila con empates suma más de 1. Solo se
# elige el primero.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        return np.where(logits == logits.max(-1, keepdims=True), 1.0, 0.0)
    E = np.exp((logits - logits.max(-1, keepdims=True)) / T)
    return E / E.sum(-1, keepdims=True)


# %% [markdown] part="mistake" lang="en"
# At T = 0 equal logits share the probability. The limit is to be greedy: the lowest id of the largest gets
# all of it.

# %% [markdown] part="mistake" lang="es"
# En T = 0 los logits iguales se reparten la probabilidad. El límite ha de ser voraz: el menor id de los
# mayores se la lleva entera.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        largest = np.where(logits == logits.max(-1, keepdims=True), 1.0, 0.0)
        return largest / largest.sum(-1, keepdims=True)
    E = np.exp((logits - logits.max(-1, keepdims=True)) / T)
    return E / E.sum(-1, keepdims=True)


# %% [markdown] part="mistake" lang="en"
# The sum runs over all rows at once: the whole batch sums to 1 instead of every row.

# %% [markdown] part="mistake" lang="es"
# La suma recorre todas las filas a la vez: suma 1 el lote entero en vez de cada fila.

# %% part="mistake"
import numpy as np


def temperature(logits, T):
    if T == 0.0:
        best = logits.argmax(-1, keepdims=True)  # (..., 1)
        return np.where(np.arange(logits.shape[-1]) == best, 1.0, 0.0)
    E = np.exp((logits - logits.max(-1, keepdims=True)) / T)
    return E / E.sum()
