# %% [markdown] part="task" lang="en"
# # The GPT, backward
#
# From the logits back to the tables of tokens and positions: one walk through the whole model. Nothing in
# it is hard any more, since every part has its backward; what can go wrong is the joining, and it does so
# in silence: with a wrong gradient for one table the loss still falls, only not as far.
#
# Head, norm, blocks from the last to the first, and then the sum of the two embeddings. Three places want
# care. The position table was spread over all sequences of the batch, so its gradient is summed over them.
# Only its first n rows were used: the gradient of the others is 0. And with config.tied_head one matrix
# is used twice, by the embedding and by the head; its gradient is the sum of both, and lm_head.weight
# is not in params.
#
# Return a dict with exactly the names of params:
#     token_embedding.weight (v, d)    position_embedding.weight (context_window, d)
#     blocks.0.norm_1.scale, ...       norm.scale, norm.shift (d,)
#     lm_head.weight (v, d), without a tied head only    lm_head.bias (v,)
#
# The parts:
#     dN, dweight, dbias = linear_backward(dlogits, cache)
#     dX, dscale, dshift = layer_norm_backward(dN, cache)
#     dX, dict = transformer_block_backward(dY, cache)     dict with norm_1.scale, ...
#     dweight = embedding_backward(dX, cache)
#
# Example: ids [[3, 1], [3, 0]], vocab_size 5, context_window 4. Row 3 of the token table gets the sum of
# two gradients, rows 2 and 4 get 0 (without a tied head); so do rows 2 and 3 of the position table.

# %% [markdown] part="task" lang="es"
# # El GPT, hacia atrás
#
# De los logits hasta las tablas de tokens y de posiciones: un paseo por todo el modelo. Ya no queda nada
# difícil, porque cada parte tiene su paso hacia atrás; lo que puede fallar es la unión, y falla en
# silencio: con un gradiente equivocado en una sola tabla la pérdida sigue bajando, solo que no tanto.
#
# Cabeza de salida, normalización, bloques del último al primero y, por fin, la suma de los dos
# embeddings. Tres sitios piden cuidado. La tabla de posiciones se repartió entre todas las secuencias
# del lote, así que su gradiente se suma sobre ellas. Solo se usaron sus primeras n filas: el gradiente
# de las demás es 0. Y con config.tied_head una misma matriz se usa dos veces, en el embedding y en la
# cabeza de salida; su gradiente es la suma de los dos, y lm_head.weight no está en params.
#
# Devuelve un diccionario con exactamente los nombres de params:
#     token_embedding.weight (v, d)    position_embedding.weight (context_window, d)
#     blocks.0.norm_1.scale, ...       norm.scale, norm.shift (d,)
#     lm_head.weight (v, d), solo si la cabeza de salida no está atada    lm_head.bias (v,)
#
# Las partes:
#     dN, dweight, dbias = linear_backward(dlogits, cache)
#     dX, dscale, dshift = layer_norm_backward(dN, cache)
#     dX, dict = transformer_block_backward(dY, cache)     dict con norm_1.scale, ...
#     dweight = embedding_backward(dX, cache)
#
# Ejemplo: ids [[3, 1], [3, 0]], vocab_size 5, context_window 4. La fila 3 de la tabla de tokens recibe
# la suma de dos gradientes; las filas 2 y 4 reciben 0 (si la cabeza de salida no está atada), igual que
# las filas 2 y 3 de la tabla de posiciones.

# %% part="start"
import numpy as np

from reference_numpy import (
    embedding,
    embedding_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    transformer_block,
    transformer_block_backward,
)


def part(params, name):  # the entries name.rest, as rest
    return {key.removeprefix(f"{name}."): value for key, value in params.items() if key.startswith(f"{name}.")}


def gpt(params, ids, config):
    tokens, token_cache = embedding(ids, params["token_embedding.weight"])
    positions = params["position_embedding.weight"]
    X = tokens + positions[: ids.shape[-1]]  # (..., n, d)
    block_caches = []
    for layer in range(config.num_layers):
        X, block_cache = transformer_block(part(params, f"blocks.{layer}"), X, config)
        block_caches.append(block_cache)
    N, norm_cache = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    logits, head_cache = linear(N, head, params["lm_head.bias"])
    return logits, (token_cache, positions, block_caches, norm_cache, head_cache, config)


def gpt_backward(dlogits, cache):
    token_cache, positions, block_caches, norm_cache, head_cache, config = cache
    grads = {}
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Read the forward upwards. Where one array was added to many (the positions), the gradient is added up over
# the many. Where one array was used in two places (the tied table), it is added up over the two.

# %% [markdown] part="nudge" lang="es"
# Lee el paso hacia adelante de abajo arriba. Donde un arreglo se sumó a muchos (las posiciones), el gradiente
# se suma sobre esos muchos. Donde un arreglo se usó en dos sitios (la tabla atada), se suma sobre los dos.

# %% [markdown] part="formula" lang="en"
# dN, dhead, dlm_head.bias = linear'(dlogits)
#
# dX, dnorm.scale, dnorm.shift = norm'(dN)
#
# dX = block_l'(dX), from the last block to the first
#
# dposition_embedding.weight [t] = sum over all sequences of dX_t, and 0 for t >= n
#
# dtoken_embedding.weight = embedding'(dX), plus dhead if the head is tied
#
# dlm_head.weight = dhead, if it is not

# %% [markdown] part="formula" lang="es"
# dN, dhead, dlm_head.bias = linear'(dlogits)
#
# dX, dnorm.scale, dnorm.shift = norm'(dN)
#
# dX = block_l'(dX), del último bloque al primero
#
# dposition_embedding.weight [t] = suma de dX_t sobre todas las secuencias, y 0 para t >= n
#
# dtoken_embedding.weight = embedding'(dX), más dhead si la cabeza de salida está atada
#
# dlm_head.weight = dhead, si no lo está


# %% part="shape"
def gpt_backward(dlogits, cache):
    token_cache, positions, block_caches, norm_cache, head_cache, config = cache
    grads = {}
    dN, dhead, grads["lm_head.bias"] = linear_backward(dlogits, ...)
    dX, grads["norm.scale"], grads["norm.shift"] = layer_norm_backward(dN, ...)
    for layer in reversed(range(config.num_layers)):
        dX, dblock = transformer_block_backward(..., block_caches[layer])
        grads |= {f"blocks.{layer}.{name}": gradient for name, gradient in dblock.items()}
    n, d = dX.shape[-2:]
    grads["position_embedding.weight"] = np.zeros(positions.shape)
    grads["position_embedding.weight"][:n] = dX.reshape(-1, n, d).sum(...)
    grads["token_embedding.weight"] = embedding_backward(..., token_cache)
    if config.tied_head:
        grads["token_embedding.weight"] += ...
    else:
        grads["lm_head.weight"] = dhead
    return grads


# %% part="solution"
import numpy as np

from reference_numpy import (
    embedding,
    embedding_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    transformer_block,
    transformer_block_backward,
)


def part(params, name):  # the entries name.rest, as rest
    return {key.removeprefix(f"{name}."): value for key, value in params.items() if key.startswith(f"{name}.")}


def gpt(params, ids, config):
    tokens, token_cache = embedding(ids, params["token_embedding.weight"])
    positions = params["position_embedding.weight"]
    X = tokens + positions[: ids.shape[-1]]  # (..., n, d)
    block_caches = []
    for layer in range(config.num_layers):
        X, block_cache = transformer_block(part(params, f"blocks.{layer}"), X, config)
        block_caches.append(block_cache)
    N, norm_cache = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    logits, head_cache = linear(N, head, params["lm_head.bias"])
    return logits, (token_cache, positions, block_caches, norm_cache, head_cache, config)


def gpt_backward(dlogits, cache):
    token_cache, positions, block_caches, norm_cache, head_cache, config = cache
    grads = {}
    dN, dhead, grads["lm_head.bias"] = linear_backward(dlogits, head_cache)
    dX, grads["norm.scale"], grads["norm.shift"] = layer_norm_backward(dN, norm_cache)
    for layer in reversed(range(config.num_layers)):
        dX, dblock = transformer_block_backward(dX, block_caches[layer])
        grads |= {f"blocks.{layer}.{name}": gradient for name, gradient in dblock.items()}
    n, d = dX.shape[-2:]
    grads["position_embedding.weight"] = np.zeros(positions.shape)
    grads["position_embedding.weight"][:n] = dX.reshape(-1, n, d).sum(0)
    grads["token_embedding.weight"] = embedding_backward(dX, token_cache)
    if config.tied_head:
        grads["token_embedding.weight"] += dhead
    else:
        grads["lm_head.weight"] = dhead
    return grads
