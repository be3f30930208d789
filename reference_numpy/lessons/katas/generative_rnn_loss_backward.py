# %% [markdown] part="task" lang="en"
# # A whole language model, backward
#
# Four parts, four backwards, and a language model learns: embedding, recurrence, head, loss. You have
# written each of them; here they are joined. That is all that training by hand is: the cache of each
# part goes to the backward of that part, the last one first, and what comes out of one goes into the
# next.
#
# Begin with dloss and cross_entropy_backward. Two places want a thought. The recurrence has two
# outputs, H and the last state, but only H is used here: what gradient does the other one get? And
# rnn_backward gives five gradients, whose names in the dict are those of RECURRENT with "rnn." before
# and "_l0" behind, the first one (dX) left out.
#
# Return one dict with exactly the names of params:
#     embedding.weight (v, d)    rnn.weight_ih_l0, rnn.weight_hh_l0 (d, d)
#     rnn.bias_ih_l0, rnn.bias_hh_l0 (d,)    lm_head.weight (v, d)    lm_head.bias (v,)
#
# The parts:
#     dlogits = cross_entropy_backward(dloss, cache)
#     dH, dweight, dbias = linear_backward(dlogits, cache)
#     dX, dW_ih, dW_hh, db_ih, db_hh = rnn_backward((dH, dh_last), cache)
#     dweight = embedding_backward(dX, cache)
#
# Example: with ids = [0, 1, 1] in a vocabulary of 4 the rows 2 and 3 of the embedding's gradient are 0:
# nobody read those tokens. All rows of the head's gradient are not: every token could have come.

# %% [markdown] part="task" lang="es"
# # Un modelo de lenguaje entero, hacia atrás
#
# Cuatro partes, cuatro pasos hacia atrás, y un modelo de lenguaje aprende: embedding, recurrencia, cabeza
# de salida, pérdida. Ya has escrito cada uno; aquí se unen. Entrenar a mano no es más que eso: la caché de
# cada parte va al paso hacia atrás de esa parte, empezando por la última, y lo que sale de una entra en
# la siguiente.
#
# Empieza con dloss y cross_entropy_backward. Dos sitios merecen pensarse. La recurrencia tiene dos
# salidas, H y el último estado, pero aquí solo se usa H: ¿qué gradiente recibe la otra? Y rnn_backward
# da cinco gradientes, cuyos nombres en el diccionario son los de RECURRENT con "rnn." delante y "_l0"
# detrás, sin contar el primero (dX).
#
# Devuelve un solo diccionario con exactamente los nombres de params:
#     embedding.weight (v, d)    rnn.weight_ih_l0, rnn.weight_hh_l0 (d, d)
#     rnn.bias_ih_l0, rnn.bias_hh_l0 (d,)    lm_head.weight (v, d)    lm_head.bias (v,)
#
# Las partes:
#     dlogits = cross_entropy_backward(dloss, cache)
#     dH, dweight, dbias = linear_backward(dlogits, cache)
#     dX, dW_ih, dW_hh, db_ih, db_hh = rnn_backward((dH, dh_last), cache)
#     dweight = embedding_backward(dX, cache)
#
# Ejemplo: con ids = [0, 1, 1] y un vocabulario de 4, las filas 2 y 3 del gradiente del embedding son 0:
# nadie leyó esos tokens. Las de la cabeza de salida no lo son: cualquier token podía venir.

# %% part="start"
import numpy as np

from reference_numpy import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    linear,
    linear_backward,
    rnn,
    rnn_backward,
)

RECURRENT = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def generative_rnn_loss(params, ids, targets, config, ignore_index=None):
    X, embedding_cache = embedding(ids, params["embedding.weight"])
    (H, _), rnn_cache = rnn(X, *(params[f"rnn.{name}_l0"] for name in RECURRENT))
    logits, head_cache = linear(H, params["lm_head.weight"], params["lm_head.bias"])
    loss, loss_cache = cross_entropy(logits, targets, ignore_index)
    return loss, (embedding_cache, rnn_cache, head_cache, loss_cache)


def generative_rnn_loss_backward(dloss, cache):
    embedding_cache, rnn_cache, head_cache, loss_cache = cache
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Read the forward upwards, one line at a time: each line becomes one call of a backward. What the loss
# does not depend on has the gradient 0, but it needs the right shape: that of one state, dH[..., -1, :].

# %% [markdown] part="nudge" lang="es"
# Lee el paso hacia adelante de abajo arriba, línea a línea: cada línea se convierte en una llamada a un
# paso hacia atrás. Aquello de lo que la pérdida no depende tiene gradiente 0, pero necesita la forma
# correcta: la de un estado, dH[..., -1, :].

# %% [markdown] part="formula"
# dlogits = cross_entropy'(dloss)
#
# dH, dlm_head.weight, dlm_head.bias = linear'(dlogits)
#
# dX, drnn.weight_ih_l0, drnn.weight_hh_l0, drnn.bias_ih_l0, drnn.bias_hh_l0 = rnn'(dH, 0)
#
# dembedding.weight = embedding'(dX)


# %% part="shape"
def generative_rnn_loss_backward(dloss, cache):
    embedding_cache, rnn_cache, head_cache, loss_cache = cache
    dlogits = cross_entropy_backward(dloss, ...)
    dH, dweight, dbias = linear_backward(..., head_cache)
    dX, *drecurrent = rnn_backward((..., np.zeros_like(...)), rnn_cache)
    grads = {f"rnn.{name}_l0": gradient for name, gradient in zip(RECURRENT, drecurrent, strict=True)}
    grads["embedding.weight"] = embedding_backward(..., embedding_cache)
    grads["lm_head.weight"], grads["lm_head.bias"] = dweight, dbias
    return grads


# %% part="solution"
import numpy as np

from reference_numpy import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    linear,
    linear_backward,
    rnn,
    rnn_backward,
)

RECURRENT = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def generative_rnn_loss(params, ids, targets, config, ignore_index=None):
    X, embedding_cache = embedding(ids, params["embedding.weight"])
    (H, _), rnn_cache = rnn(X, *(params[f"rnn.{name}_l0"] for name in RECURRENT))
    logits, head_cache = linear(H, params["lm_head.weight"], params["lm_head.bias"])
    loss, loss_cache = cross_entropy(logits, targets, ignore_index)
    return loss, (embedding_cache, rnn_cache, head_cache, loss_cache)


def generative_rnn_loss_backward(dloss, cache):
    embedding_cache, rnn_cache, head_cache, loss_cache = cache
    dlogits = cross_entropy_backward(dloss, loss_cache)
    dH, dweight, dbias = linear_backward(dlogits, head_cache)
    dX, *drecurrent = rnn_backward((dH, np.zeros_like(dH[..., -1, :])), rnn_cache)
    grads = {f"rnn.{name}_l0": gradient for name, gradient in zip(RECURRENT, drecurrent, strict=True)}
    grads["embedding.weight"] = embedding_backward(dX, embedding_cache)
    grads["lm_head.weight"], grads["lm_head.bias"] = dweight, dbias
    return grads
