# %% [markdown] part="task" lang="en"
# # Your own GPT learns
#
# This is where the road was leading. The whole GPT, from its loss to every parameter, down to the parts
# that you have written yourself: when this passes, your code trains a small GPT on Spanish tales,
# before your eyes.
#
# The forward writes a tape. Every block is two branches beside the residual path, one that attends and one
# that thinks, X = X + branch(X); for each of them the tape holds its layer, its backward and its cache. So
# the way back is: loss, head, norm, and then the tape from its end to its beginning. That is, by the
# way, all that a program which differentiates by itself does. At last come the two embeddings.
#
# backward(dX, branch_cache) gives the gradient that comes back through the branch, and a dict whose names
# (norm_1.scale, ...) still want "blocks.0." before them. The rest is as in gpt_backward.
#
# Return a dict with exactly the names of params.
#
# Example: the rows of dlogits sum to 0, so grads["lm_head.bias"] sums to 0 too. And if all of
# attention.projection.weight and feed_forward.contract.weight are 0, the tape changes nothing: dX comes out
# as it went in.

# %% [markdown] part="task" lang="es"
# # Tu propio GPT aprende
#
# Aquí llevaba el camino. El GPT entero, de la pérdida a cada parámetro, hasta las partes que has escrito
# tú: cuando esto pase, tu código entrenará un pequeño GPT con cuentos en español, ante tus ojos.
#
# El paso hacia adelante graba una cinta. Cada bloque son dos ramas junto al camino residual, una que
# atiende y otra que piensa, X = X + rama(X); de cada una la cinta guarda su capa, su paso hacia atrás y
# su caché. Así que la vuelta es: pérdida, cabeza de salida, normalización y después la cinta, del final al
# principio. Eso es, por cierto, todo lo que hace un programa que deriva solo. Al final vienen los dos
# embeddings.
#
# backward(dX, branch_cache) da el gradiente que vuelve por la rama y un diccionario a cuyos nombres
# (norm_1.scale, ...) todavía les falta "blocks.0." delante. Lo demás es como en gpt_backward.
#
# Devuelve un diccionario con exactamente los nombres de params.
#
# Ejemplo: las filas de dlogits suman 0, así que grads["lm_head.bias"] también suma 0. Y si todas las
# attention.projection.weight y feed_forward.contract.weight son 0, la cinta no cambia nada: dX sale como
# entró.

# %% part="start"
import numpy as np

from reference_numpy import (
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def attend(params, X, config):
    N, norm_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    return C, (norm_cache, attention_cache)


def attend_backward(dC, cache):
    norm_cache, attention_cache = cache
    dN, *dweights = multi_head_attention_backward(dC, attention_cache)
    dX, dscale, dshift = layer_norm_backward(dN, norm_cache)
    grads = {f"attention.{name}.weight": dW.T.copy() for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    return dX, grads | {"norm_1.scale": dscale, "norm_1.shift": dshift}


def think(params, X, config):
    N, norm_cache = layer_norm(X, params["norm_2.scale"], params["norm_2.shift"])
    F, inner_cache = feed_forward({name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}, N, config)
    return F, (norm_cache, inner_cache)


def think_backward(dF, cache):
    norm_cache, inner_cache = cache
    dN, dinner = feed_forward_backward(dF, inner_cache)
    dX, dscale, dshift = layer_norm_backward(dN, norm_cache)
    grads = {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads | {"norm_2.scale": dscale, "norm_2.shift": dshift}


def gpt_loss(params, ids, targets, config, ignore_index=None):
    tokens, token_cache = embedding(ids, params["token_embedding.weight"])
    positions = params["position_embedding.weight"]
    X = tokens + positions[: ids.shape[-1]]  # (..., n, d)
    tape = []  # of every branch: the layer, its backward, its cache
    for layer in range(config.num_layers):
        block = f"blocks.{layer}."
        inside = {name.removeprefix(block): p for name, p in params.items() if name.startswith(block)}
        for branch, backward in ((attend, attend_backward), (think, think_backward)):
            B, branch_cache = branch(inside, X, config)
            X = X + B
            tape.append((layer, backward, branch_cache))
    N, norm_cache = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    logits, head_cache = linear(N, head, params["lm_head.bias"])
    loss, loss_cache = cross_entropy(logits, targets, ignore_index)
    return loss, (token_cache, positions, tape, norm_cache, head_cache, loss_cache, config)


def gpt_loss_backward(dloss, cache):
    token_cache, positions, tape, norm_cache, head_cache, loss_cache, config = cache
    grads = {}
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# X = X + B: the gradient dX goes through the plus sign twice, once as it is and once into the branch. In
# which order must the entries of the tape be read, and what does dX become after each?

# %% [markdown] part="nudge" lang="es"
# X = X + B: el gradiente dX pasa dos veces por el signo más, una tal cual y otra hacia la rama. ¿En qué
# orden hay que leer las entradas de la cinta, y en qué se convierte dX después de cada una?

# %% [markdown] part="formula" lang="en"
# dlogits = cross_entropy'(dloss)
#
# dN, dhead, dlm_head.bias = linear'(dlogits)
#
# dX, dnorm.scale, dnorm.shift = norm'(dN)
#
# dX = dX + branch'(dX), for every branch of the tape, the last one first
#
# dposition_embedding.weight [t] = sum over all sequences of dX_t, and 0 for t >= n
#
# dtoken_embedding.weight = embedding'(dX), plus dhead if the head is tied
#
# dlm_head.weight = dhead, if it is not

# %% [markdown] part="formula" lang="es"
# dlogits = cross_entropy'(dloss)
#
# dN, dhead, dlm_head.bias = linear'(dlogits)
#
# dX, dnorm.scale, dnorm.shift = norm'(dN)
#
# dX = dX + branch'(dX), para cada rama de la cinta, la última primero
#
# dposition_embedding.weight [t] = suma de dX_t sobre todas las secuencias, y 0 para t >= n
#
# dtoken_embedding.weight = embedding'(dX), más dhead si la cabeza de salida está atada
#
# dlm_head.weight = dhead, si no lo está


# %% part="shape"
def gpt_loss_backward(dloss, cache):
    token_cache, positions, tape, norm_cache, head_cache, loss_cache, config = cache
    grads = {}
    dN, dhead, grads["lm_head.bias"] = linear_backward(cross_entropy_backward(dloss, ...), head_cache)
    dX, grads["norm.scale"], grads["norm.shift"] = layer_norm_backward(..., norm_cache)
    for layer, backward, branch_cache in reversed(tape):
        dbranch, named = backward(..., branch_cache)
        dX = ... + dbranch
        grads |= {f"blocks.{layer}.{name}": gradient for name, gradient in named.items()}
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
    cross_entropy,
    cross_entropy_backward,
    embedding,
    embedding_backward,
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def attend(params, X, config):
    N, norm_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    return C, (norm_cache, attention_cache)


def attend_backward(dC, cache):
    norm_cache, attention_cache = cache
    dN, *dweights = multi_head_attention_backward(dC, attention_cache)
    dX, dscale, dshift = layer_norm_backward(dN, norm_cache)
    grads = {f"attention.{name}.weight": dW.T.copy() for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    return dX, grads | {"norm_1.scale": dscale, "norm_1.shift": dshift}


def think(params, X, config):
    N, norm_cache = layer_norm(X, params["norm_2.scale"], params["norm_2.shift"])
    F, inner_cache = feed_forward({name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}, N, config)
    return F, (norm_cache, inner_cache)


def think_backward(dF, cache):
    norm_cache, inner_cache = cache
    dN, dinner = feed_forward_backward(dF, inner_cache)
    dX, dscale, dshift = layer_norm_backward(dN, norm_cache)
    grads = {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads | {"norm_2.scale": dscale, "norm_2.shift": dshift}


def gpt_loss(params, ids, targets, config, ignore_index=None):
    tokens, token_cache = embedding(ids, params["token_embedding.weight"])
    positions = params["position_embedding.weight"]
    X = tokens + positions[: ids.shape[-1]]  # (..., n, d)
    tape = []  # of every branch: the layer, its backward, its cache
    for layer in range(config.num_layers):
        block = f"blocks.{layer}."
        inside = {name.removeprefix(block): p for name, p in params.items() if name.startswith(block)}
        for branch, backward in ((attend, attend_backward), (think, think_backward)):
            B, branch_cache = branch(inside, X, config)
            X = X + B
            tape.append((layer, backward, branch_cache))
    N, norm_cache = layer_norm(X, params["norm.scale"], params["norm.shift"])
    head = params["token_embedding.weight" if config.tied_head else "lm_head.weight"]
    logits, head_cache = linear(N, head, params["lm_head.bias"])
    loss, loss_cache = cross_entropy(logits, targets, ignore_index)
    return loss, (token_cache, positions, tape, norm_cache, head_cache, loss_cache, config)


def gpt_loss_backward(dloss, cache):
    token_cache, positions, tape, norm_cache, head_cache, loss_cache, config = cache
    grads = {}
    dN, dhead, grads["lm_head.bias"] = linear_backward(cross_entropy_backward(dloss, loss_cache), head_cache)
    dX, grads["norm.scale"], grads["norm.shift"] = layer_norm_backward(dN, norm_cache)
    for layer, backward, branch_cache in reversed(tape):
        dbranch, named = backward(dX, branch_cache)
        dX = dX + dbranch
        grads |= {f"blocks.{layer}.{name}": gradient for name, gradient in named.items()}
    n, d = dX.shape[-2:]
    grads["position_embedding.weight"] = np.zeros(positions.shape)
    grads["position_embedding.weight"][:n] = dX.reshape(-1, n, d).sum(0)
    grads["token_embedding.weight"] = embedding_backward(dX, token_cache)
    if config.tied_head:
        grads["token_embedding.weight"] += dhead
    else:
        grads["lm_head.weight"] = dhead
    return grads
