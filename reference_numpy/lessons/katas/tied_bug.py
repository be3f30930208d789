# %% [markdown] part="task" lang="en"
# # Bug: two gradients, one name
#
# Many language models use one table twice: to read a token, and to say which one comes next. With 60,198
# tokens and width 384 that saves 23 of a GPT's 57 million parameters, and it has a trap of its own. A table
# used in two places has two gradients, and in a dict there is only one place for them.
#
# This backward is right for every model whose head is not tied. With config.tied_head something is lost.
# Training goes on all the same, since one of the two gradients arrives. Find the line, and change as
# little as you can.
#
# Shapes: token_embedding.weight and its gradient (v, d); with a tied head there is no lm_head.weight.
#
# Example: tied, ids [3, 1], vocab_size 5. The rows 0, 2 and 4 of this gradient are right: nobody read those
# tokens, so all of their gradient comes from the head. The rows 1 and 3 are wrong.

# %% [markdown] part="task" lang="es"
# # Error: dos gradientes, un solo nombre
#
# Muchos modelos de lenguaje usan la misma tabla dos veces: para leer un token y para decir cuál viene
# después. Con 60 198 tokens y anchura 384, eso ahorra 23 de los 57 millones de parámetros de un GPT, y
# trae su propia trampa. Una tabla usada en dos sitios tiene dos gradientes, y en un diccionario solo hay
# un sitio para ellos.
#
# Este paso hacia atrás es correcto para todo modelo cuya cabeza de salida no esté atada. Con
# config.tied_head se pierde algo. El entrenamiento sigue adelante de todos modos, porque uno de los dos
# gradientes llega. Encuentra la línea y cambia lo menos posible.
#
# Formas: token_embedding.weight y su gradiente (v, d); con la cabeza de salida atada no hay lm_head.weight.
#
# Ejemplo: atada, ids [3, 1], vocab_size 5. Las filas 0, 2 y 4 de este gradiente son correctas: nadie leyó
# esos tokens, así que todo su gradiente viene de la cabeza de salida. Las filas 1 y 3 están mal.

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
    dN, dhead, grads["lm_head.bias"] = linear_backward(dlogits, head_cache)
    dX, grads["norm.scale"], grads["norm.shift"] = layer_norm_backward(dN, norm_cache)
    for layer in reversed(range(config.num_layers)):
        dX, dblock = transformer_block_backward(dX, block_caches[layer])
        grads |= {f"blocks.{layer}.{name}": gradient for name, gradient in dblock.items()}
    n, d = dX.shape[-2:]
    grads["position_embedding.weight"] = np.zeros(positions.shape)
    grads["position_embedding.weight"][:n] = dX.reshape(-1, n, d).sum(0)
    grads["token_embedding.weight"] = embedding_backward(dX, token_cache)
    head_name = "token_embedding.weight" if config.tied_head else "lm_head.weight"
    grads[head_name] = dhead
    return grads


# %% [markdown] part="nudge" lang="en"
# Follow the dict through the last lines with config.tied_head = True. Which name is written twice, and what
# happens to what was there?

# %% [markdown] part="nudge" lang="es"
# Sigue el diccionario por las últimas líneas con config.tied_head = True. ¿Qué nombre se escribe dos veces,
# y qué pasa con lo que había?

# %% [markdown] part="formula" lang="en"
# dtoken_embedding.weight = embedding'(dX) + dhead, with a tied head
#
# dlm_head.weight = dhead, without

# %% [markdown] part="formula" lang="es"
# dtoken_embedding.weight = embedding'(dX) + dhead, con la cabeza de salida atada
#
# dlm_head.weight = dhead, sin atar


# %% part="shape"
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
    head_name = "token_embedding.weight" if config.tied_head else "lm_head.weight"
    grads[head_name] = grads.get(head_name, ...) + dhead
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
    head_name = "token_embedding.weight" if config.tied_head else "lm_head.weight"
    grads[head_name] = grads.get(head_name, 0.0) + dhead
    return grads
