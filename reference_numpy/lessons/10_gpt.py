# %% [markdown] lang="en"
# # The block and the GPT
#
# **The question.** A GPT is a pile of parts whose backwards we have. Two questions are left: how does a gradient pass
# through so many layers and still arrive, and what happens where one number is used twice?

# %% [markdown] lang="es"
# # El bloque y el GPT
#
# **La pregunta.** Un GPT es una pila de piezas cuyos pasos hacia atrás ya conocemos. Quedan dos preguntas: ¿cómo
# atraviesa un gradiente tantas capas sin perderse?, ¿y qué pasa cuando un mismo número se usa dos veces?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check_backward
from reference_numpy import (
    GPTConfig,
    adamw_step,
    corpus_path,
    cross_entropy_backward,
    dropout_backward,
    embedding_backward,
    feed_forward,
    feed_forward_backward,
    gpt,
    gpt_loss,
    init_gpt,
    layer_norm_backward,
    linear_backward,
    multi_head_attention_backward,
    read_texts,
)

rng = np.random.default_rng(10)
BLUE, VERMILION = "#0072b2", "#d55e00"

# %% [markdown] lang="en"
# ## The residual path
#
# Let $Y = X + F(X)$, token by token or not. From the sum over indices,
#
# $$dX_i = \sum_j dY_j \frac{\partial Y_j}{\partial X_i} = \sum_j dY_j \Bigl(\delta_{ij} +
# \frac{\partial F_j}{\partial X_i}\Bigr) = dY_i + (F'(dY))_i,$$
#
# where $F'$ stands for the backward of $F$. The $\delta_{ij}$ is a road on which the gradient travels untouched.
# Through $L$ layers without it, the gradient is multiplied by $L$ Jacobians; with it, by $L$ matrices $1 + J$, and one
# of the $2^L$ terms of that product is the gradient itself. The picture: 24 feed-forward parts with small random
# weights, and the norm of the gradient at the input of each.

# %% [markdown] lang="es"
# ## El camino residual
#
# Sea $Y = X + F(X)$, token a token o no. A partir de la suma sobre los índices,
#
# $$dX_i = \sum_j dY_j \frac{\partial Y_j}{\partial X_i} = \sum_j dY_j \Bigl(\delta_{ij} +
# \frac{\partial F_j}{\partial X_i}\Bigr) = dY_i + (F'(dY))_i,$$
#
# donde $F'$ es el paso hacia atrás de $F$. La $\delta_{ij}$ es una vía por la que el gradiente viaja intacto. A través
# de $L$ capas sin ella, el gradiente se multiplica por $L$ jacobianos; con ella, por $L$ matrices $1 + J$, y uno de los
# $2^L$ términos de ese producto es el propio gradiente. El dibujo: 24 capas feed-forward con pesos aleatorios pequeños,
# y la norma del gradiente a la entrada de cada una.

# %%
L = 24
config = GPTConfig(vocab_size=5, context_window=8, embedding_dim=16, num_layers=L, num_heads=2, head_dim=8)
params = init_gpt(config, rng, np.float64)
X0, dY0 = rng.standard_normal((2, 8, 16))


def part(name, params):
    return {key.removeprefix(name): value for key, value in params.items() if key.startswith(name)}


def gradient_norms(residual):
    """|dX| at the input of each of the L layers, the deepest last, for a gradient of norm 1 behind them."""
    X, dX, caches, norms = X0, dY0 / np.linalg.norm(dY0), [], []
    for layer in range(L):
        F, cache = feed_forward(part(f"blocks.{layer}.feed_forward.", params), X, config)
        X = X + F if residual else F
        caches.append(cache)
    for cache in reversed(caches):
        dF = feed_forward_backward(dX, cache)[0]
        dX = dX + dF if residual else dF
        norms.append(np.linalg.norm(dX))
    return norms[::-1]


figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for residual, label, colour, mark in ((True, "$X + F(X)$", BLUE, "o-"), (False, "$F(X)$", VERMILION, "s--")):
    norms = gradient_norms(residual)
    axes.semilogy(range(1, L + 1), norms, mark, color=colour, label=label, markersize=4)
    print(f"{label}: |dX_1| = {norms[0]:.1e}")
axes.set(xlabel=r"$\ell$", ylabel=r"$\|dX_\ell\|$")
axes.legend(frameon=False)
plt.show()
assert gradient_norms(True)[0] > 0.5
assert gradient_norms(False)[0] < 1e-20

# %% [markdown] lang="en"
# ## The block
#
# Attention mixes the tokens, a feed-forward part works on each by itself; each stands behind a norm and beside a
# residual path:
#
# $$Z = X + \mathrm{attention}(\mathrm{norm}_1(X)), \qquad Y = Z + \mathrm{ff}(\mathrm{norm}_2(Z)).$$
#
# The norm stands *before* each part, so nothing at all stands on the residual path: it goes from the embedding to the
# last norm. Behind the sum (as the first Transformers had it) a norm would divide the gradient on that path in every
# block, see lesson 6. Read the two equations from right to left, and each sum forks the gradient:
#
# $$dZ = dY + \mathrm{norm}_2'(\mathrm{ff}'(dY)), \qquad dX = dZ + \mathrm{norm}_1'(\mathrm{attention}'(dZ)).$$

# %% [markdown] lang="es"
# ## El bloque
#
# La atención mezcla los tokens, la parte feed-forward trabaja en cada uno por separado; cada una va detrás de una
# normalización y junto a un camino residual:
#
# $$Z = X + \mathrm{attention}(\mathrm{norm}_1(X)), \qquad Y = Z + \mathrm{ff}(\mathrm{norm}_2(Z)).$$
#
# La normalización va *antes* de cada parte, así que en el camino residual no hay absolutamente nada: llega desde el
# embedding hasta la última normalización. Si estuviera detrás de la suma (como en los primeros Transformers), dividiría
# el gradiente de ese camino en cada bloque; véase la lección 6. Lee las dos ecuaciones de derecha a izquierda: cada
# suma bifurca el gradiente.
#
# $$dZ = dY + \mathrm{norm}_2'(\mathrm{ff}'(dY)), \qquad dX = dZ + \mathrm{norm}_1'(\mathrm{attention}'(dZ)).$$

# %%
PROJECTIONS = ("query", "key", "value", "projection")


def block_backward(dY, cache):
    norm_1, attention, norm_2, ff = cache
    dM, dff = feed_forward_backward(dY, ff)
    dZ_of_norm, dscale_2, dshift_2 = layer_norm_backward(dM, norm_2)
    dZ = dY + dZ_of_norm
    dN, *dprojections = multi_head_attention_backward(dZ, attention)
    dX_of_norm, dscale_1, dshift_1 = layer_norm_backward(dN, norm_1)
    grads = {"norm_1.scale": dscale_1, "norm_1.shift": dshift_1, "norm_2.scale": dscale_2, "norm_2.shift": dshift_2}
    for name, dW in zip(PROJECTIONS, dprojections, strict=True):
        grads[f"attention.{name}.weight"] = dW.T  # the parameters are (out, in), as torch has them
    return dZ + dX_of_norm, grads | {f"feed_forward.{name}": g for name, g in dff.items()}


# %% [markdown] lang="en"
# ## The whole GPT
#
# The input of the first block is $X_{bti} = E_{w_{bt}\, i} + P_{ti}$, a row of the token embedding and a row of the
# position embedding. Who uses $P_{ti}$? Every sequence $b$, once. Who uses $E_{vi}$? Every place where the token is
# $v$. So
#
# $$dP_{ti} = \sum_b dX_{bti}, \qquad dE_{vi} = \sum_{b,t:\, w_{bt} = v} dX_{bti}.$$
#
# At the end stand a norm and the head: $\mathrm{logits}_{btv} = \sum_i N_{bti} H_{vi} + b_v$. With a **tied** head
# there is no $H$: the head reads $E$ itself. Then the loss depends on $E_{vi}$ in two ways, and the chain rule adds
# them:
#
# $$dE_{vi} = \sum_{b,t:\, w_{bt} = v} dX_{bti} + \sum_{b,t} d\mathrm{logits}_{btv}\, N_{bti}.$$
#
# All the rest is the parts' backwards in the opposite order.

# %% [markdown] lang="es"
# ## El GPT entero
#
# La entrada del primer bloque es $X_{bti} = E_{w_{bt}\, i} + P_{ti}$: una fila del embedding de tokens y una fila del
# embedding de posiciones. ¿Quién usa $P_{ti}$? Cada secuencia $b$, una vez. ¿Quién usa $E_{vi}$? Cada lugar donde el
# token es $v$. Por tanto,
#
# $$dP_{ti} = \sum_b dX_{bti}, \qquad dE_{vi} = \sum_{b,t:\, w_{bt} = v} dX_{bti}.$$
#
# Al final están una normalización y la capa de salida: $\mathrm{logits}_{btv} = \sum_i N_{bti} H_{vi} + b_v$. Con la
# salida **atada** (*tied*) no hay $H$: la capa de salida lee el propio $E$. Entonces la pérdida depende de $E_{vi}$ por
# dos caminos, y la regla de la cadena los suma:
#
# $$dE_{vi} = \sum_{b,t:\, w_{bt} = v} dX_{bti} + \sum_{b,t} d\mathrm{logits}_{btv}\, N_{bti}.$$
#
# Todo lo demás son los pasos hacia atrás de las piezas, en orden inverso.


# %%
def gpt_backward(dlogits, cache, tie=np.add):
    tokens, positions, dropout, blocks, norm, head, config = cache
    dN, dhead, dbias = linear_backward(dlogits, head)
    dX, dscale, dshift = layer_norm_backward(dN, norm)
    grads = {"norm.scale": dscale, "norm.shift": dshift, "lm_head.bias": dbias}
    for layer in reversed(range(config.num_layers)):
        dX, dblock = block_backward(dX, blocks[layer])
        grads |= {f"blocks.{layer}.{name}": g for name, g in dblock.items()}
    dX = dropout_backward(dX, dropout)
    grads["token_embedding.weight"] = embedding_backward(dX, tokens)
    grads["position_embedding.weight"] = np.zeros_like(positions)  # rows behind the last token get nothing
    grads["position_embedding.weight"][: dX.shape[-2]] = dX.reshape(-1, *dX.shape[-2:]).sum(0)
    if config.tied_head:
        grads["token_embedding.weight"] = tie(grads["token_embedding.weight"], dhead)
    else:
        grads["lm_head.weight"] = dhead
    return grads


assert check_backward(gpt_backward, like="gpt", cases=20, dtype="float64").passed

# %% [markdown] lang="en"
# **The mistake people make here**: the dictionary of gradients already holds `token_embedding.weight`, and the head's
# gradient is written over it. No shape complains, every number is finite, the model trains. How does it show? Only with
# a tied head, and only in the rows of the tokens that occur in the batch: the others get nothing from the embedding
# anyway.

# %% [markdown] lang="es"
# **El error típico**: el diccionario de gradientes ya contiene `token_embedding.weight`, y el gradiente de la capa de
# salida se escribe encima. Ninguna forma protesta, todos los números son finitos y el modelo se entrena. ¿Cómo se nota?
# Solo con la salida atada, y solo en las filas de los tokens que aparecen en el lote: las demás no reciben nada del
# embedding de todos modos.

# %%
tied = GPTConfig(9, context_window=4, embedding_dim=6, num_layers=1, num_heads=2, head_dim=3, tied_head=True)
ids = np.array([[3, 1, 4, 1], [5, 1, 3, 8]])
logits, cache = gpt(init_gpt(tied, rng, np.float64), ids, tied)
dlogits = rng.standard_normal(logits.shape)
right = gpt_backward(dlogits, cache)["token_embedding.weight"]
overwritten = gpt_backward(dlogits, cache, tie=lambda dtokens, dhead: dhead)["token_embedding.weight"]
wrong = np.flatnonzero((right != overwritten).any(-1))
print("wrong rows:", wrong, "  |right|:", np.linalg.norm(right), "  |overwritten|:", np.linalg.norm(overwritten))
assert wrong.tolist() == np.unique(ids).tolist()

# %% [markdown] lang="en"
# ## Training it
#
# Forty tales, letter by letter, and AdamW with the gradients that we wrote. The loss begins near $\log V$, that of a
# uniform guess; the dotted line is the entropy of the letters' frequencies, all that can be known without looking at
# the context. Falling below it means that the model looks at the letters before. (That a loss goes down proves little
# about the gradient: lesson 13. The proof is the check above.)

# %% [markdown] lang="es"
# ## Entrenarlo
#
# Cuarenta cuentos, letra a letra, y AdamW con los gradientes que hemos escrito. La pérdida empieza cerca de $\log V$,
# la de una respuesta al azar uniforme; la línea de puntos es la entropía de las frecuencias de las letras, todo lo que
# se puede saber sin mirar el contexto. Bajar de ella significa que el modelo mira las letras anteriores. (Que la
# pérdida baje demuestra poco sobre el gradiente: lección 13. La prueba es la comprobación de arriba.)

# %%
text = "\n".join(read_texts(corpus_path())[:40]).lower()
letters, ids = np.unique(list(text), return_inverse=True)
V, n, B = len(letters), 32, 16
config = GPTConfig(V, context_window=n, embedding_dim=32, num_layers=2, num_heads=2, head_dim=16)
params, state, losses = init_gpt(config, rng), {}, []
for _ in range(100):
    starts = rng.integers(len(ids) - n, size=B)
    windows = ids[starts[:, None] + np.arange(n + 1)]
    loss, (gpt_cache, loss_cache) = gpt_loss(params, windows[:, :-1], windows[:, 1:], config)
    adamw_step(params, gpt_backward(cross_entropy_backward(1.0, loss_cache), gpt_cache), state, lr=1e-2)
    losses.append(float(loss))

shares = np.bincount(ids) / len(ids)
entropy = -(shares * np.log(shares)).sum()
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(losses, color=BLUE)
axes.axhline(math.log(V), color="grey", linestyle="--", label=r"$\log V$")
axes.axhline(entropy, color="black", linestyle=":", label=r"$-\sum_v p_v \log p_v$")
axes.set(xlabel="$t$", ylabel="$L$")
axes.legend(frameon=False)
plt.show()
print(f"V = {V}, log V = {math.log(V):.3f}, entropy {entropy:.3f}, L: {losses[0]:.3f} ... {np.mean(losses[-5:]):.3f}")
assert abs(losses[0] - math.log(V)) < 0.1
assert np.mean(losses[-5:]) < entropy - 0.3

# %% [markdown] lang="en"
# ## Katas
#
# - `block_backward`: two residual paths, four parts
# - `gpt_backward`: the parts backwards
# - `gpt_loss_backward`: the whole, which then trains a GPT before your eyes
# - `tied_bug`: one matrix, two gradients

# %% [markdown] lang="es"
# ## Katas
#
# - `block_backward`: dos caminos residuales, cuatro partes
# - `gpt_backward`: las piezas hacia atrás
# - `gpt_loss_backward`: todo junto; con ello se entrena un GPT ante tus ojos
# - `tied_bug`: una matriz, dos gradientes
