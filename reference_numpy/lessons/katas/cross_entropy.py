# %% [markdown] part="task" lang="en"
# # Cross-entropy that never meets log 0
#
# The number that a language model is trained on: how surprised it is by the token that came.
# Written as it is said, log(softmax(logits)), it breaks: where softmax underflows to 0 the loss
# is infinite, and training is over. Written as a log-sum-exp it is good for any logits.
#
# Write `cross_entropy(logits, targets, ignore_index=None)`. It returns the loss, one number:
#
#     loss = -(1/M) sum over the counted rows of log softmax(logits)[target]
#
# Approach: with D = logits - max, the logarithm of the softmax is D - log(sum of exp(D)): no
# softmax is ever made. Pick the target's entry of each row. A row whose target equals
# ignore_index is padding: it is not counted, and M is the number of rows that are. Its target
# need not be a class at all (-100 is usual), so it must not be used as an index.
#
# Shapes: logits (..., v), targets (...) of integers; the loss is a number. At least one target
# counts.
#
# Example: logits = [[2, 0], [0, 0], [7, 1]], targets = [0, 1, -100] and ignore_index = -100. The
# two counted rows cost log(1 + exp(-2)) = 0.1269 and log 2 = 0.6931; the loss is their mean,
# 0.4100.

# %% [markdown] part="task" lang="es"
# # Una entropía cruzada que nunca se topa con log 0
#
# Es el número con que se entrena un modelo de lenguaje: cuánto lo sorprende el token que llegó.
# Escrita tal como se dice, log(softmax(logits)), se rompe: donde softmax cae a 0 la pérdida es
# infinita, y se acabó el entrenamiento. Escrita como log-sum-exp, sirve con cualesquiera logits.
#
# Escribe `cross_entropy(logits, targets, ignore_index=None)`. Devuelve la pérdida, un número:
#
#     loss = -(1/M) suma sobre las filas contadas de log softmax(logits)[target]
#
# Método: con D = logits - max, el logaritmo del softmax es D - log(suma de exp(D)): no se llega a
# hacer ningún softmax. Toma de cada fila el elemento de su target. Una fila cuyo target es
# ignore_index es relleno: no se cuenta, y M es el número de filas que sí. Su target ni siquiera
# tiene por qué ser una clase (lo habitual es -100), así que no debe usarse como índice.
#
# Formas: logits (..., v), targets (...) de enteros; la pérdida es un número. Al menos un target
# cuenta.
#
# Ejemplo: logits = [[2, 0], [0, 0], [7, 1]], targets = [0, 1, -100] e ignore_index = -100. Las
# dos filas contadas cuestan log(1 + exp(-2)) = 0.1269 y log 2 = 0.6931; la pérdida es su media,
# 0.4100.

# %% part="start"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Three questions, in this order. Which rows count? (None counts them all; 0 is a class like any
# other, so test for None and not for truth.) What is log P of every class, without a softmax? And
# how do you take one entry of each row, by a different index in each: do you know
# np.take_along_axis?

# %% [markdown] part="nudge" lang="es"
# Tres preguntas, en este orden. ¿Qué filas cuentan? (Con None, todas; 0 es una clase como las
# demás, así que compara con None y no por verdadero o falso.) ¿Cuánto es log P de cada clase, sin
# softmax? ¿Y cómo se toma un elemento de cada fila, con un índice distinto en cada una: conoces
# np.take_along_axis?

# %% [markdown] part="formula" lang="en"
#     D = logits - max(logits)
#
#     log P = D - log(sum(exp(D)))
#
#     loss = -(1/M) sum over the counted rows t of log P[t, target_t]
#
# max and sum run over the classes. Targets not counted are replaced by any class, 0 say, before
# they serve as an index.

# %% [markdown] part="formula" lang="es"
#     D = logits - max(logits)
#
#     log P = D - log(sum(exp(D)))
#
#     loss = -(1/M) suma sobre las filas contadas t de log P[t, target_t]
#
# max y sum recorren las clases. Los targets que no cuentan se cambian por una clase cualquiera,
# por ejemplo 0, antes de servir de índice.

# %% part="shape"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else ...  # (...)
    rows = np.where(counted, targets, 0)[..., None]  # (..., 1)
    D = logits - ...  # (..., v)
    log_P = D - ...  # (..., v)
    losses = -np.take_along_axis(log_P, rows, -1)[..., 0]  # (...)
    return losses[counted].sum() / ...


# %% part="solution"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index  # (...)
    rows = np.where(counted, targets, 0)[..., None]  # (..., 1)
    D = logits - logits.max(-1, keepdims=True)  # (..., v)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))  # (..., v)
    losses = -np.take_along_axis(log_P, rows, -1)[..., 0]  # (...)
    return losses[counted].sum() / counted.sum()
