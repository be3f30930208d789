# %% [markdown] lang="en"
# # Memory and speed
#
# **The question.** Attention makes a matrix $A$ with $n \times n$ numbers, uses it once and keeps it for the backward.
# For a text of $n = 65\,536$ tokens that is 17 GB in float32, for one head of one layer. Does anybody need $A$?

# %% [markdown] lang="es"
# # Memoria y velocidad
#
# **La pregunta.** La atención construye una matriz $A$ de $n \times n$ números, la usa una vez y la guarda para el paso
# hacia atrás. Con un texto de $n = 65\,536$ tokens son 17 GB en float32, para una sola cabeza de una sola capa.
# ¿Necesita alguien $A$?

# %%
import math
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check
from equivalence_tests.counting import count_products
from equivalence_tests.dojo.witness import budget_used
from reference_numpy import (
    attention,
    attention_backward,
    cross_entropy,
    cross_entropy_backward,
    linear,
    linear_backward,
)

rng = np.random.default_rng(14)
U = 2.0**-53  # the unit roundoff of float64
BLUE, VERMILION = "#0072b2", "#d55e00"


def agree(got, want, *sums):
    """Two evaluations of one formula, whose sums have these lengths one after the other: each costs (k + 1) u at most."""
    bound = 2 * sum(k + 1 for k in sums) * U * max(1.0, np.abs(want).max())
    assert np.abs(got - want).max() <= bound, (np.abs(got - want).max(), bound)


def peak(function, *arguments):
    """The most bytes that were held at once beyond what was there before."""
    tracemalloc.start()
    function(*arguments)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


# %% [markdown] lang="en"
# ## A softmax that has not seen everything yet
#
# What we want of a row of scores $S_j$ is only $C = \sum_j e^{S_j} V_j / \sum_j e^{S_j}$. Read the keys tile by tile
# and keep three things: the largest score so far, and both sums, relative to it,
#
# $$\mu = \max_j S_j, \qquad \ell = \sum_j e^{S_j - \mu}, \qquad C = \sum_j e^{S_j - \mu}\, V_j.$$
#
# A new tile $J$ may bring a larger maximum $\mu'$. Then every old term is off by one and the same factor,
# $e^{S_j - \mu'} = e^{\mu - \mu'}\, e^{S_j - \mu}$, and can be put right without being looked at again:
#
# $$\ell' = e^{\mu - \mu'}\, \ell + \sum_{j \in J} e^{S_j - \mu'}, \qquad
# C' = e^{\mu - \mu'}\, C + \sum_{j \in J} e^{S_j - \mu'}\, V_j.$$
#
# At the end $C / \ell$ is the answer, whatever the tiles were. One number for each row is enough to find every $A_{ij}$
# again: $\Lambda_i = \mu_i + \log \ell_i$, the log-sum-exp, because $A_{ij} = e^{S_{ij} - \Lambda_i}$.
#
# ## The backward makes A again
#
# $dS_{ij} = A_{ij} (dA_{ij} - \delta_i)$ needs $\delta_i = \sum_j A_{ij}\, dA_{ij}$, a sum over the whole row: must all
# tiles be there at once, after all? No:
#
# $$\delta_i = \sum_j A_{ij} \sum_e dC_{ie} V_{je} = \sum_e dC_{ie} \sum_j A_{ij} V_{je} = \sum_e dC_{ie}\, C_{ie}.$$
#
# So each tile of $A$ can be computed once more, used, and forgotten.

# %% [markdown] lang="es"
# ## Un softmax que aún no lo ha visto todo
#
# De una fila de puntuaciones $S_j$ solo queremos $C = \sum_j e^{S_j} V_j / \sum_j e^{S_j}$. Lee las claves bloque a
# bloque y guarda tres cosas: la mayor puntuación hasta ahora y las dos sumas, relativas a ella,
#
# $$\mu = \max_j S_j, \qquad \ell = \sum_j e^{S_j - \mu}, \qquad C = \sum_j e^{S_j - \mu}\, V_j.$$
#
# Un bloque nuevo $J$ puede traer un máximo mayor, $\mu'$. Entonces a todos los términos viejos les falta el mismo
# factor, $e^{S_j - \mu'} = e^{\mu - \mu'}\, e^{S_j - \mu}$, y se corrigen sin volver a mirarlos:
#
# $$\ell' = e^{\mu - \mu'}\, \ell + \sum_{j \in J} e^{S_j - \mu'}, \qquad
# C' = e^{\mu - \mu'}\, C + \sum_{j \in J} e^{S_j - \mu'}\, V_j.$$
#
# Al final, la respuesta es $C / \ell$, fueran como fueran los bloques. Basta un número por fila para volver a encontrar
# todos los $A_{ij}$: $\Lambda_i = \mu_i + \log \ell_i$, el log-sum-exp, porque $A_{ij} = e^{S_{ij} - \Lambda_i}$.
#
# ## El paso hacia atrás vuelve a calcular A
#
# $dS_{ij} = A_{ij} (dA_{ij} - \delta_i)$ necesita $\delta_i = \sum_j A_{ij}\, dA_{ij}$, una suma sobre toda la fila:
# ¿tienen que estar todos los bloques a la vez, después de todo? No:
#
# $$\delta_i = \sum_j A_{ij} \sum_e dC_{ie} V_{je} = \sum_e dC_{ie} \sum_j A_{ij} V_{je} = \sum_e dC_{ie}\, C_{ie}.$$
#
# Así que cada bloque de $A$ se puede calcular otra vez, usar y olvidar.


# %%
def tiles(m, size):
    return [slice(start, min(start + size, m)) for start in range(0, m, size)]


def tiled_attention(Q, K, V, size=64):
    scale = 1.0 / math.sqrt(Q.shape[-1])
    top = np.full((*Q.shape[:-1], 1), -np.inf, Q.dtype)
    total = np.zeros_like(top)
    C = np.zeros((*Q.shape[:-1], V.shape[-1]), Q.dtype)
    for keys in tiles(K.shape[-2], size):
        S = (Q @ K[..., keys, :].mT) * scale  # (..., n, size): never more
        higher = np.maximum(top, S.max(-1, keepdims=True))
        E, old = np.exp(S - higher), np.exp(top - higher)
        total = old * total + E.sum(-1, keepdims=True)
        C = old * C + E @ V[..., keys, :]
        top = higher
    C = C / total
    return C, (Q, K, V, C, top + np.log(total), size)


def tiled_attention_backward(dC, cache):
    Q, K, V, C, log_sum, size = cache
    scale = 1.0 / math.sqrt(Q.shape[-1])
    delta = (dC * C).sum(-1, keepdims=True)
    dQ, dK, dV = np.zeros_like(Q), np.empty_like(K), np.empty_like(V)
    for keys in tiles(K.shape[-2], size):
        K_tile, V_tile = K[..., keys, :], V[..., keys, :]
        A = np.exp((Q @ K_tile.mT) * scale - log_sum)  # this tile of A once more
        dV[..., keys, :] = A.mT @ dC
        dOmega = A * (dC @ V_tile.mT - delta) * scale
        dQ += dOmega @ K_tile
        dK[..., keys, :] = dOmega.mT @ Q
    return dQ, dK, dV


def in_twos(Q, K, V):
    return tiled_attention(Q, K, V, size=2)


assert check(in_twos, like="attention", backward=tiled_attention_backward, cases=40, dtype="float64").passed

n, c = 40, 8
Q, K, V, dC = rng.standard_normal((4, n, c))
given = {"Q": Q, "K": K, "V": V, "dC": dC}
for size in (1, 7, 40, 64):
    C, cache = tiled_attention(Q, K, V, size)
    dQ, dK, dV = tiled_attention_backward(dC, cache)
    share = budget_used("attention", given, C=C, dQ=dQ, dK=dK, dV=dV)
    print(f"tiles of {size:2}: {share:.3f} of the budget")
    assert share <= 1.0

# %% [markdown] lang="en"
# **The mistakes people make here.** To put right $\ell$ and forget $C$ when the maximum moves. How does it show? Not at
# all if the largest score happens to lie in the first tile. And with masks: a tile that is masked throughout has
# $\mu' = -\infty$, and $-\infty - (-\infty)$ is NaN; there 0 has to stand in its place.

# %% [markdown] lang="es"
# **Los errores típicos.** Corregir $\ell$ y olvidarse de $C$ cuando cambia el máximo. ¿Cómo se nota? De ninguna manera,
# si la mayor puntuación cae por casualidad en el primer bloque. Y con máscaras: un bloque enmascarado por completo
# tiene $\mu' = -\infty$, y $-\infty - (-\infty)$ es NaN; ahí hay que poner 0 en su lugar.


# %%
def forgetful(s, V, size=4):
    """One query, its scores given; C is not put right."""
    top, total, C = -np.inf, 0.0, 0.0
    for keys in tiles(len(s), size):
        higher = max(top, s[keys].max())
        total = math.exp(top - higher) * total + np.exp(s[keys] - higher).sum()
        C = C + np.exp(s[keys] - higher) @ V[keys]  # here math.exp(top - higher) is missing
        top = higher
    return C / total


s, values = np.sort(rng.standard_normal(12))[::-1], rng.standard_normal(12)
right = np.exp(s) @ values / np.exp(s).sum()
print("largest first:", forgetful(s, values), "  largest last:", forgetful(s[::-1], values[::-1]), "  right:", right)
agree(forgetful(s, values), right, 12, 12)
assert abs(forgetful(s[::-1], values[::-1]) - right) > 0.1 * abs(right)

# %% [markdown] lang="en"
# ## Measured: memory
#
# `tracemalloc` counts the bytes that NumPy holds. Forward and backward, the ordinary attention needs several arrays of
# $n^2$ numbers; the tiled one some of $n c$ and some of $n$ times the width of a tile: doubling $n$ doubles it.

# %% [markdown] lang="es"
# ## Medido: la memoria
#
# `tracemalloc` cuenta los bytes que NumPy tiene ocupados. Entre ida y vuelta, la atención corriente necesita varios
# arrays de $n^2$ números; la de bloques, algunos de $n c$ y otros de $n$ por la anchura de un bloque: si $n$ se
# duplica, la memoria también.


# %%
def plain(Q, K, V, dC):
    return attention_backward(dC, attention(Q, K, V)[1])


def tiled(Q, K, V, dC):
    return tiled_attention_backward(dC, tiled_attention(Q, K, V)[1])


lengths = [128, 256, 512, 1024]
peaks = np.empty((2, len(lengths)))
for i, n in enumerate(lengths):
    arrays = rng.standard_normal((4, n, 16))
    peaks[:, i] = peak(plain, *arrays), peak(tiled, *arrays)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for row, colour, mark, label in ((0, VERMILION, "s--", "$O(n^2)$"), (1, BLUE, "o-", "$O(n\\,c)$")):
    axes.loglog(lengths, peaks[row] / 2**20, mark, color=colour, label=label, base=2)
axes.set(xlabel="$n$", ylabel="MiB")
axes.legend(frameon=False)
plt.show()
print("bytes:", peaks.astype(int).tolist())
assert peaks[0, -1] >= 2 * 8 * lengths[-1] ** 2  # A and dA, at least
assert peaks[1, -1] < 8 * lengths[-1] ** 2  # not even one
assert peaks[1, -1] < 2.2 * peaks[1, -2]

# %% [markdown] lang="en"
# ## Counted: work
#
# What does it cost to compute $A$ again? Forward: $Q K^T$ and $A V$. Backward: $dV$, $dA$, $dQ$, $dK$. That is six
# products of equal size; recomputation adds a seventh, $Q K^T$ once more. A sixth more arithmetic for a memory that no
# longer grows with $n^2$; and since memory is what large matrices wait for, tiling is often *faster*.
#
# The same trade exists for whole layers: keep only the input of each block, and run its forward again on the way back.
# It costs one more forward (about a third more in total) and saves everything between.

# %% [markdown] lang="es"
# ## Contado: el trabajo
#
# ¿Cuánto cuesta volver a calcular $A$? A la ida, $Q K^T$ y $A V$. A la vuelta, $dV$, $dA$, $dQ$, $dK$. Son seis
# productos del mismo tamaño; el recálculo añade un séptimo, otra vez $Q K^T$. Una sexta parte más de aritmética a
# cambio de una memoria que ya no crece con $n^2$; y como lo que las matrices grandes esperan es la memoria, ir por
# bloques suele ser incluso *más rápido*.
#
# El mismo trueque existe para capas enteras: guarda solo la entrada de cada bloque y repite su paso hacia adelante
# durante el camino de vuelta. Cuesta un paso hacia adelante más (cerca de un tercio más en total) y ahorra todo lo que
# hay en medio.

# %%
arrays = rng.standard_normal((4, 32, 8))  # one tile holds all
print("products:", count_products(plain, *arrays).products, "and", count_products(tiled, *arrays).products)
assert count_products(plain, *arrays).products == 6
assert count_products(tiled, *arrays).products == 7

# %% [markdown] lang="en"
# ## A loss in pieces
#
# In a small model with a large vocabulary the largest array is another one: the logits, $N \times V$, and their
# gradient beside them. But $d\mathrm{logits} = (P - \mathrm{onehot})/M$ needs only its own row, so a piece of the rows
# can go through head, loss and backward before the next one exists. From the sums over pieces $R$ and rows $r$:
#
# $$L = \sum_{R} \sum_{r \in R} \frac{-\log P_{r, y_r}}{M}, \qquad dN_r = d\mathrm{logits}_r\, W, \qquad
# dW = \sum_{R} \sum_{r \in R} d\mathrm{logits}_r^T N_r.$$
#
# One thing must be known beforehand: $M$, the number of counted targets of *all* pieces. To take the mean of the
# pieces' means is the mistake here, as soon as the pieces are not equally full.

# %% [markdown] lang="es"
# ## Una pérdida a trozos
#
# En un modelo pequeño de vocabulario grande, el array mayor es otro: los logits, $N \times V$, y a su lado su
# gradiente. Pero $d\mathrm{logits} = (P - \mathrm{onehot})/M$ solo necesita su propia fila, así que un trozo de las
# filas puede pasar por la capa de salida, la pérdida y el paso hacia atrás antes de que exista el siguiente. A partir
# de las sumas sobre los trozos $R$ y las filas $r$:
#
# $$L = \sum_{R} \sum_{r \in R} \frac{-\log P_{r, y_r}}{M}, \qquad dN_r = d\mathrm{logits}_r\, W, \qquad
# dW = \sum_{R} \sum_{r \in R} d\mathrm{logits}_r^T N_r.$$
#
# Hay que saber una cosa de antemano: $M$, el número de objetivos contados en *todos* los trozos. Hacer la media de las
# medias de los trozos es aquí el error, en cuanto no estén igual de llenos.


# %%
def whole_loss(N, W, targets):
    logits, head = linear(N, W)
    loss, cache = cross_entropy(logits, targets, -1)
    return loss, *linear_backward(cross_entropy_backward(1.0, cache), head)


def loss_in_pieces(N, W, targets, size=32):
    M = (targets != -1).sum()
    loss, dN, dW = 0.0, np.empty_like(N), np.zeros_like(W)
    for rows in tiles(len(N), size):
        logits, head = linear(N[rows], W)
        share = (targets[rows] != -1).sum() / M
        if share:  # a piece of padding alone has no loss
            mean, cache = cross_entropy(logits, targets[rows], -1)
            loss += share * mean
            dN[rows], dW_piece = linear_backward(cross_entropy_backward(share, cache), head)
            dW += dW_piece
        else:
            dN[rows] = 0.0
    return loss, dN, dW


rows, d, vocabulary = 256, 8, 500
N, W = rng.standard_normal((rows, d)), rng.standard_normal((vocabulary, d))
targets = rng.integers(vocabulary, size=rows)
targets[200:] = -1  # padding
for got, want in zip(loss_in_pieces(N, W, targets), whole_loss(N, W, targets), strict=True):
    agree(got, want, d, vocabulary, rows)
means = [cross_entropy(linear(N[r], W)[0], targets[r], -1)[0] for r in tiles(200, 32)]
print("mean of means:", np.mean(means), "  right:", whole_loss(N, W, targets)[0])
before, after = peak(whole_loss, N, W, targets), peak(loss_in_pieces, N, W, targets)
print("bytes:", before, "->", after)
assert before > 2 * rows * vocabulary * 8
assert after < rows * vocabulary * 8

# %% [markdown] lang="en"
# ## Writing a text: what need not be computed again
#
# A model that writes asks for the next token again and again. The new token brings one query; the keys and values of
# the tokens before it are as they were, for nobody sees the future. So keep $K$ and $V$, add one row, and ask for one
# row of attention: $n c$ multiplications in place of $n^2 c$.

# %% [markdown] lang="es"
# ## Escribir un texto: lo que no hace falta recalcular
#
# Un modelo que escribe pide el token siguiente una y otra vez. El token nuevo trae una sola consulta; las claves y los
# valores de los anteriores siguen como estaban, pues nadie ve el futuro. Así que guarda $K$ y $V$, añade una fila y
# pide una sola fila de atención: $n c$ multiplicaciones en lugar de $n^2 c$.

# %%
n = len(Q)
whole = attention(Q, K, V, causal=True)[0]
last = attention(Q[-1:], K, V, causal=True, query_offset=n - 1)[0]  # the one query sits at position n - 1
given = {"Q": Q[-1:], "K": K, "V": V, "causal": True, "query_offset": n - 1, "dC": np.zeros((1, c))}
assert max(budget_used("attention", given, C=row) for row in (last, whole[-1:])) <= 1.0

# %% [markdown] lang="en"
# ## Katas
#
# - `attention_tiled`: key by key, tile by tile, without an array of n x n
# - `simple_attention`: loops into products
# - `embedding_faster`: a double loop into one call
# - `rnn_faster`: what need not wait for the step before

# %% [markdown] lang="es"
# ## Katas
#
# - `attention_tiled`: clave a clave, bloque a bloque, sin ningún array de n x n
# - `simple_attention`: de bucles a productos
# - `embedding_faster`: de un bucle doble a una sola llamada
# - `rnn_faster`: lo que no tiene que esperar al paso anterior
