# %% [markdown] part="task" lang="en"
# # The block, backward
#
# A GPT is this block, again and again. Its secret is the plus sign: a gradient that comes to a sum goes
# on unchanged to both terms, so there is a path from the loss to the first layer which no matrix ever
# touches. Deep networks can be trained because of that, and here you see it as two additions.
#
# The forward: Z = X + attention(norm_1(X)), Y = Z + feed_forward(norm_2(Z)). Go back through the second
# line: dY reaches Z directly, and once more through feed_forward and norm_2. Add. Then the first line in
# the same way, with dZ in the place of dY.
#
# Shapes: X, Y, dY (..., n, d). block_backward returns dX and a dict of gradients with exactly the names
# of params. Parameters have torch's layout (out, in), but multi_head_attention takes (in, out): what
# went in transposed comes back transposed.
#
# The parts:
#     dM, dict = feed_forward_backward(dF, cache)     dict with expand.weight, expand.bias, ...
#     dZ, dscale, dshift = layer_norm_backward(dM, cache)
#     dN, dWq, dWk, dWv, dWo = multi_head_attention_backward(dC, cache)
#
# Example: if attention.projection.weight and feed_forward.contract.weight are 0, both branches are
# silent, and dX is exactly dY.

# %% [markdown] part="task" lang="es"
# # El bloque, hacia atrás
#
# Un GPT es este bloque, una y otra vez. Su secreto es el signo más: un gradiente que llega a una suma
# sigue intacto hacia los dos sumandos, así que hay un camino de la pérdida a la primera capa que
# ninguna matriz toca jamás. Por eso se pueden entrenar redes profundas, y aquí se ve en dos sumas.
#
# El paso hacia adelante: Z = X + attention(norm_1(X)), Y = Z + feed_forward(norm_2(Z)). Vuelve por la
# segunda línea: dY llega a Z directamente, y otra vez a través de feed_forward y norm_2. Suma. Después,
# la primera línea del mismo modo, con dZ en el lugar de dY.
#
# Formas: X, Y, dY (..., n, d). block_backward devuelve dX y un diccionario de gradientes con exactamente
# los nombres de params. Los parámetros tienen la disposición de torch (salida, entrada), pero
# multi_head_attention los toma como (entrada, salida): lo que entró traspuesto vuelve traspuesto.
#
# Las partes:
#     dM, dict = feed_forward_backward(dF, cache)     dict con expand.weight, expand.bias, ...
#     dZ, dscale, dshift = layer_norm_backward(dM, cache)
#     dN, dWq, dWk, dWv, dWo = multi_head_attention_backward(dC, cache)
#
# Ejemplo: si attention.projection.weight y feed_forward.contract.weight son 0, las dos ramas callan y
# dX es exactamente dY.

# %% part="start"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    raise NotImplementedError


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="nudge" lang="en"
# Draw the two sums. How many arrows leave Z on the way forward, and so how many gradients arrive at Z on
# the way back? Which gradient does attention's backward receive: dY or dZ?

# %% [markdown] part="nudge" lang="es"
# Dibuja las dos sumas. ¿Cuántas flechas salen de Z hacia adelante y, por tanto, cuántos gradientes llegan
# a Z hacia atrás? ¿Qué gradiente recibe la atención en su paso hacia atrás: dY o dZ?

# %% [markdown] part="formula"
# dM = feed_forward'(dY)
#
# dZ = dY + norm_2'(dM)
#
# dN = attention'(dZ)
#
# dX = dZ + norm_1'(dN)


# %% part="shape"
def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(..., feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, ...)
    dZ = ... + dbranch
    dN, *dweights = multi_head_attention_backward(..., attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, ...)
    dX = ... + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


# %% part="solution"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dbranch
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dZ + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% part="check"
import numpy as np

from reference_numpy import GPTConfig


def draw(rng):
    n, d, H, c = (int(size) for size in rng.permutation([2, 3, 4, 5, 6, 7])[:4])
    n, H, c = (int(rng.choice([1, size, size, size])) for size in (n, H, c))
    d, f = max(d, 3), int(rng.choice([1, 2]))
    config = GPTConfig(vocab_size=2, embedding_dim=d, num_heads=H, head_dim=c, ff_factor=f)
    shapes = dict.fromkeys(("norm_1.scale", "norm_1.shift", "norm_2.scale", "norm_2.shift"), (d,))
    shapes |= {f"attention.{name}.weight": (H * c, d) for name in ("query", "key", "value")}
    shapes |= {"attention.projection.weight": (d, H * c)}
    shapes |= {"feed_forward.expand.weight": (f * d, d), "feed_forward.expand.bias": (f * d,)}
    shapes |= {"feed_forward.contract.weight": (d, f * d), "feed_forward.contract.bias": (d,)}
    params = {name: rng.standard_normal(shape) / np.sqrt(shape[-1]) for name, shape in shapes.items()}
    lead = [(), (8,), (1,), (2, 9)][rng.integers(4)]
    X, dY = rng.standard_normal((2, *lead, n, d))
    return {"params": params, "X": X, "dY": dY, "config": config}


# %% [markdown] part="mistake" lang="en"
# dZ lacks the direct path: Y = Z + F hands dY to Z as it is, besides what comes back through the feed-forward.

# %% [markdown] part="mistake" lang="es"
# A dZ le falta el camino directo: Y = Z + F entrega dY a Z tal cual, además de lo que vuelve por la red
# feed-forward.

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dbranch
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dZ + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="mistake" lang="en"
# dX lacks the direct path: Z = X + C hands dZ to X as it is, besides what comes back through attention.

# %% [markdown] part="mistake" lang="es"
# A dX le falta el camino directo: Z = X + C entrega dZ a X tal cual, además de lo que vuelve por la atención.

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dbranch
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="mistake" lang="en"
# dY is added to dX where dZ belongs: what came back through the feed-forward to Z also goes on to X.

# %% [markdown] part="mistake" lang="es"
# A dX se le suma dY donde corresponde dZ: lo que volvió a Z por la red feed-forward también sigue hacia X.

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dbranch
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dY + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="mistake" lang="en"
# Attention's backward receives dY. The gradient of Z = X + C is dZ, and that is what comes to C.

# %% [markdown] part="mistake" lang="es"
# El paso hacia atrás de la atención recibe dY. El gradiente de Z = X + C es dZ, y ese es el que llega a C.

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dbranch
    dN, *dweights = multi_head_attention_backward(dY, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dZ + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="mistake" lang="en"
# norm_2 was left out: dM is added to dY directly, but has to go through layer_norm_backward first.

# %% [markdown] part="mistake" lang="es"
# Se saltó norm_2: dM se suma directamente a dY, pero antes tiene que pasar por layer_norm_backward.

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dM
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dZ + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="mistake" lang="en"
# The caches of the two norms are exchanged: norm_2 stands before the feed-forward, norm_1 before attention.

# %% [markdown] part="mistake" lang="es"
# Las cachés de las dos normalizaciones están cambiadas: norm_2 va antes de la red feed-forward, norm_1 antes
# de la atención.

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_1_cache)
    dZ = dY + dbranch
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_2_cache)
    dX = dZ + dbranch
    grads |= {f"attention.{name}.weight": dW.T for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))


# %% [markdown] part="mistake" lang="en"
# The gradients of attention's weights are not transposed back: a parameter (out, in) has a gradient (out, in).

# %% [markdown] part="mistake" lang="es"
# Los gradientes de los pesos de la atención no se han vuelto a trasponer: un parámetro (salida, entrada) tiene
# un gradiente (salida, entrada).

# %% part="mistake"
from reference_numpy import (
    feed_forward,
    feed_forward_backward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
    multi_head_attention_backward,
)

PROJECTIONS = ("query", "key", "value", "projection")
FEED_FORWARD = ("expand.weight", "expand.bias", "contract.weight", "contract.bias")


def block(params, X, config):
    N, norm_1_cache = layer_norm(X, params["norm_1.scale"], params["norm_1.shift"])
    weights = (params[f"attention.{name}.weight"].T for name in PROJECTIONS)
    C, attention_cache = multi_head_attention(N, *weights, config.num_heads, causal=True)
    Z = X + C
    M, norm_2_cache = layer_norm(Z, params["norm_2.scale"], params["norm_2.shift"])
    inner = {name: params[f"feed_forward.{name}"] for name in FEED_FORWARD}
    F, feed_forward_cache = feed_forward(inner, M, config)
    return Z + F, (norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache)


def block_backward(dY, cache):
    norm_1_cache, attention_cache, norm_2_cache, feed_forward_cache = cache
    grads = {}
    dM, dinner = feed_forward_backward(dY, feed_forward_cache)
    dbranch, grads["norm_2.scale"], grads["norm_2.shift"] = layer_norm_backward(dM, norm_2_cache)
    dZ = dY + dbranch
    dN, *dweights = multi_head_attention_backward(dZ, attention_cache)
    dbranch, grads["norm_1.scale"], grads["norm_1.shift"] = layer_norm_backward(dN, norm_1_cache)
    dX = dZ + dbranch
    grads |= {f"attention.{name}.weight": dW for name, dW in zip(PROJECTIONS, dweights, strict=True)}
    grads |= {f"feed_forward.{name}": gradient for name, gradient in dinner.items()}
    return dX, grads


def block_gradients(params, X, dY, config):  # what is judged
    given = {name: p.astype(float) for name, p in params.items()}
    _, cache = block(given, X.astype(float), config)
    dX, grads = block_backward(dY.astype(float), cache)
    return (dX, *(grads[name] for name in params))
