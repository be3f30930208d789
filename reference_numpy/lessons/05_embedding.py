# %% [markdown] lang="en"
# # Embedding: a product with a one-hot matrix
#
# **The question.** "the" stands twice in "the fat cat sat on the mat". Its embedding is one row of a table. How much
# does that row learn from the sentence, and how does a line of NumPy that looks right lose half of it?

# %% [markdown] lang="es"
# # Embedding: un producto por una matriz one-hot
#
# **La pregunta.** «the» aparece dos veces en «the fat cat sat on the mat». Su embedding es una fila de una tabla.
# ¿Cuánto aprende esa fila de la oración, y cómo es que una línea de NumPy que parece correcta pierde la mitad?

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check

# %% [markdown] lang="en"
# ## Looking up is multiplying
#
# Write token $t$ as a row of zeros with a single 1, in the column of its id. Times the table $W$ of shape `(V, d)`,
# that row selects one row of $W$:
#
# $$Y_{tj} = \sum_v 1[ids_t = v]\, W_{vj} = W_{ids_t,\, j} \qquad\qquad Y = \mathrm{onehot}\, W$$
#
# So an embedding is a linear layer whose input is one-hot. The product costs $N V d$ multiplications, nearly all by 0;
# looking up costs none. The equation is the same, and the equation is what gets differentiated.

# %% [markdown] lang="es"
# ## Consultar es multiplicar
#
# Escribe el token $t$ como una fila de ceros con un solo 1, en la columna de su id. Multiplicada por la tabla $W$, de
# forma `(V, d)`, esa fila elige una fila de $W$:
#
# $$Y_{tj} = \sum_v 1[ids_t = v]\, W_{vj} = W_{ids_t,\, j} \qquad\qquad Y = \mathrm{onehot}\, W$$
#
# Así que un embedding es una capa lineal cuya entrada es one-hot. El producto cuesta $N V d$ multiplicaciones, casi
# todas por 0; consultar no cuesta ninguna. La ecuación es la misma, y la ecuación es lo que se deriva.

# %%
words = ["the", "fat", "cat", "sat", "on", "the", "mat"]
vocabulary = sorted(set(words))
ids = np.array([vocabulary.index(word) for word in words])
rng = np.random.default_rng(5)
N, V, d = len(ids), len(vocabulary), 3
W = rng.integers(-3, 4, (V, d)).astype(float)
onehot = (ids[:, None] == np.arange(V)).astype(float)  # (N, V)
Y = W[ids]
assert np.array_equal(Y, onehot @ W)
print(ids)

# %% [markdown] lang="en"
# ## Backward: everybody who was looked up gets a share
#
# $W_{vj}$ reaches $Y_{tj}$ for every $t$ whose id is $v$, with the factor 1. The chain rule sums over them:
#
# $$dW_{vj} = \sum_t dY_{tj} \frac{\partial Y_{tj}}{\partial W_{vj}} = \sum_t 1[ids_t = v]\, dY_{tj}
# \qquad\qquad dW = \mathrm{onehot}^T dY$$
#
# Row $v$ is the sum of the gradients of all tokens with id $v$. A row that no token named is exactly 0. With batch and
# time the sum runs over both, as for any weight.

# %% [markdown] lang="es"
# ## Hacia atrás: cada fila consultada recibe su parte
#
# $W_{vj}$ llega a $Y_{tj}$ en todo $t$ cuyo id sea $v$, con el factor 1. La regla de la cadena suma sobre ellos:
#
# $$dW_{vj} = \sum_t dY_{tj} \frac{\partial Y_{tj}}{\partial W_{vj}} = \sum_t 1[ids_t = v]\, dY_{tj}
# \qquad\qquad dW = \mathrm{onehot}^T dY$$
#
# La fila $v$ es la suma de los gradientes de todos los tokens con id $v$. Una fila que ningún token nombró es
# exactamente 0. Con lote y tiempo la suma recorre ambos, como en cualquier peso.

# %%


def embedding(ids, weight):
    return weight[ids] + 0.0, (ids, weight)  # + 0.0: a copy, even for a single id


def embedding_backward(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dY)
    return dweight


dY = rng.integers(-3, 4, (N, d)).astype(float)
dW = embedding_backward(dY, (ids, W))
assert np.array_equal(dW, onehot.T @ dY)
the = vocabulary.index("the")
assert np.array_equal(dW[the], dY[0] + dY[5])
for v, j in np.ndindex(V, d):  # linear, so a step of size 1 is exact
    step = np.zeros((V, d))
    step[v, j] = 1.0
    assert dW[v, j] == np.sum(dY * (W + step)[ids]) - np.sum(dY * Y)
assert check(embedding, like="embedding", backward=embedding_backward, cases=20).passed

# %% [markdown] lang="en"
# ## The mistake people make here
#
# `dW[ids] += dY` reads as "add each row where it belongs". What NumPy does: it reads the rows `dW[ids]`, adds `dY`, and
# writes the result back. Both rows of "the" are read before either is written, and the second write overwrites the
# first. The last one wins, and the others are lost. With distinct ids, as in most toy tests, it is exactly right.
#
# Two right ways: `np.add.at`, which adds one after the other; and sorting, so that equal ids stand together and one
# `np.add.reduceat` sums each group. For a small vocabulary the one-hot product itself may well be the fastest.

# %% [markdown] lang="es"
# ## El error que se comete aquí
#
# `dW[ids] += dY` se lee como «suma cada fila donde corresponde». Lo que hace NumPy es otra cosa: lee las filas
# `dW[ids]`, les suma `dY` y escribe el resultado. Las dos filas de «the» se leen antes de escribir ninguna, y la
# segunda escritura pisa la primera. Gana la última y las demás se pierden. Con ids distintos, como en casi todas las
# pruebas de juguete, es exacto.
#
# Dos maneras correctas: `np.add.at`, que suma una tras otra; y ordenar, para que los ids iguales queden juntos y un
# solo `np.add.reduceat` sume cada grupo. Con un vocabulario pequeño, lo más rápido puede ser el propio producto
# one-hot.

# %%


def last_one_wins(dY, cache):
    ids, weight = cache
    dweight = np.zeros_like(weight)
    dweight[ids] += dY
    return dweight


assert np.array_equal(last_one_wins(dY, (ids, W))[the], dY[5])  # dY[0] is lost
report = check(embedding, like="embedding", backward=last_one_wins, cases=20)
assert not report.passed
print(report.findings[0].code)

order = np.argsort(ids, kind="stable")
named, begins = np.unique(ids[order], return_index=True)
sorted_dW = np.zeros((V, d))
sorted_dW[named] = np.add.reduceat(dY[order], begins, axis=0)
assert np.array_equal(sorted_dW, dW)

figure, panels = plt.subplots(1, 4, figsize=(11, 3.2), layout="constrained")
pictures = {"onehot^T": onehot.T, "dY": dY, "dW": dW, "dW[ids] += dY": last_one_wins(dY, (ids, W))}
for panel, (name, matrix) in zip(panels, pictures.items(), strict=True):
    panel.imshow(matrix, cmap="PuOr", vmin=-6, vmax=6)
    for (i, j), number in np.ndenumerate(matrix):
        panel.text(j, i, f"{number:g}", ha="center", va="center", fontsize=9)
    rows = words if name == "dY" else vocabulary
    panel.set_yticks(range(len(rows)), rows)
    panel.set_xticks([])
    panel.set_title(name)
plt.show()

# %% [markdown] lang="en"
# ## Position embeddings: a sum forks the gradient
#
# The input of a transformer is token plus position, $X_{btj} = E_{ids_{bt},\, j} + P_{tj}$. A sum hands its gradient on
# to both sides as it is. $P_{tj}$ serves position $t$ of every text in the batch, so its gradient sums over $b$:
#
# $$dE = \mathrm{onehot}^T dX \qquad\qquad dP_{tj} = \sum_b dX_{btj}$$

# %% [markdown] lang="es"
# ## Embeddings de posición: una suma bifurca el gradiente
#
# La entrada de un transformer es token más posición, $X_{btj} = E_{ids_{bt},\, j} + P_{tj}$. Una suma entrega su
# gradiente tal cual a los dos lados. $P_{tj}$ sirve a la posición $t$ de todos los textos del lote, así que su
# gradiente suma sobre $b$:
#
# $$dE = \mathrm{onehot}^T dX \qquad\qquad dP_{tj} = \sum_b dX_{btj}$$

# %%
batch = np.stack([ids, ids[::-1]])  # (B, N)
dX = rng.integers(-3, 4, (2, N, d)).astype(float)
dE, dP = embedding_backward(dX, (batch, W)), dX.sum(0)
every_position = np.broadcast_to(np.arange(N), batch.shape)
assert np.array_equal(dP, embedding_backward(dX, (every_position, np.zeros((N, d)))))  # it is an embedding, too
assert np.array_equal(dE.sum(0), dP.sum(0))  # both are sums of the same rows

# %% [markdown] lang="en"
# ## Dropout: a mask that is given
#
# Each entry is kept with probability $1 - p$ and then divided by it, or becomes 0. The division keeps the mean: over
# all masks,
#
# $$E[Y_i] = (1 - p) \cdot \frac{X_i}{1 - p} + p \cdot 0 = X_i \qquad\qquad dX_i = dY_i \frac{keep_i}{1 - p}$$
#
# With $p = 1/2$ and four entries there are 16 equally likely masks, so the mean can be computed and not just estimated.
# The function is linear in $X$ and the mask is a constant: backward is the same function again, **with the same mask**.
# Three slips: drawing a new mask, forgetting $1/(1 - p)$, and recovering the mask from `Y != 0`, which takes a kept 0
# for dropped.

# %% [markdown] lang="es"
# ## Dropout: una máscara dada
#
# Cada entrada se conserva con probabilidad $1 - p$, y entonces se divide entre ella; si no, pasa a ser 0. La división
# conserva la media: sobre todas las máscaras,
#
# $$E[Y_i] = (1 - p) \cdot \frac{X_i}{1 - p} + p \cdot 0 = X_i \qquad\qquad dX_i = dY_i \frac{keep_i}{1 - p}$$
#
# Con $p = 1/2$ y cuatro entradas hay 16 máscaras igual de probables, así que la media se puede calcular y no solo
# estimar. La función es lineal en $X$ y la máscara es una constante: hacia atrás es otra vez la misma función, **con la
# misma máscara**. Tres descuidos: sortear otra máscara, olvidar $1/(1 - p)$ y recuperar la máscara con `Y != 0`, que da
# por eliminado un 0 conservado.

# %%


def dropout(X, keep, p):
    if keep is None:
        return X + 0.0, (None, 0.0)
    return np.where(keep, X / (1.0 - p) if p < 1.0 else 0.0 * X, 0.0), (keep, p)


def dropout_backward(dY, cache):
    keep, p = cache
    return dropout(dY, keep, p)[0]


X = np.array([3.0, -1.0, 0.0, 2.0])
masks = np.array(list(itertools.product((True, False), repeat=4)))
assert np.array_equal(np.mean([dropout(X, keep, 0.5)[0] for keep in masks], axis=0), X)
assert check(dropout, like="dropout", backward=dropout_backward, cases=20).passed

keep = np.array([True, False, True, True])
Y, cache = dropout(X, keep, 0.5)
dY = np.ones(4)
assert np.array_equal(dropout_backward(dY, cache), [2.0, 0.0, 2.0, 2.0])
assert np.array_equal(dropout_backward(dY, (Y != 0.0, 0.5)), [2.0, 0.0, 0.0, 2.0])  # the kept 0 is lost

# %% [markdown] lang="en"
# ## Katas
#
# `embedding_backward`, `embedding_faster`, `dropout_backward`

# %% [markdown] lang="es"
# ## Katas
#
# `embedding_backward`, `embedding_faster`, `dropout_backward`
