# %% [markdown] lang="en"
# # Scale, mask, heads
#
# **The question.** Attention divides its scores by $\sqrt{c}$, hides the future with $-\infty$ and works in several
# heads at once. What would break without each of the three, and would anybody notice?

# %% [markdown] lang="es"
# # Escala, máscara, cabezas
#
# **La pregunta.** La atención divide sus puntuaciones entre $\sqrt{c}$, oculta el futuro con $-\infty$ y trabaja con
# varias cabezas a la vez. ¿Qué se estropearía sin cada una de estas tres cosas? ¿Y se daría cuenta alguien?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check_backward
from equivalence_tests.dojo.witness import budget_used
from reference_numpy import attention, attention_backward, attention_stages, multi_head_attention, softmax

rng = np.random.default_rng(8)
U = 2.0**-53  # the unit roundoff of float64
BLUE, VERMILION = "#0072b2", "#d55e00"

# %% [markdown] lang="en"
# ## How large is a score?
#
# A score is $\omega = \sum_a q_a k_a$, a sum of $c$ products. Let all $q_a$ and $k_a$ be independent, with mean 0 and
# variance 1. Then
#
# $$E[\omega] = \sum_a E[q_a]\,E[k_a] = 0, \qquad
# E[\omega^2] = \sum_{a,b} E[q_a q_b]\,E[k_a k_b] = \sum_a 1 \cdot 1 = c,$$
#
# because only the terms with $a = b$ survive. Scores have the size $\sqrt c$: a head of width 64 has scores eight times
# as large as one of width 1, for no reason that lies in the text. The code draws pairs and compares; the mean of $N$
# values of $\omega^2$ has the standard deviation $\sqrt{(2c^2 + 6c)/N}$ (since $E[\omega^4] = 3c^2 + 6c$), and five of
# these are allowed.

# %% [markdown] lang="es"
# ## ¿Qué tamaño tiene una puntuación?
#
# Una puntuación es $\omega = \sum_a q_a k_a$, una suma de $c$ productos. Supón que todos los $q_a$ y $k_a$ son
# independientes, de media 0 y varianza 1. Entonces
#
# $$E[\omega] = \sum_a E[q_a]\,E[k_a] = 0, \qquad
# E[\omega^2] = \sum_{a,b} E[q_a q_b]\,E[k_a k_b] = \sum_a 1 \cdot 1 = c,$$
#
# porque solo sobreviven los términos con $a = b$. Las puntuaciones tienen el tamaño $\sqrt c$: con cabezas de anchura
# 64 son ocho veces mayores que con anchura 1, y el texto no tiene nada que ver en ello. El código sortea parejas y
# compara; la media de $N$ valores de $\omega^2$ tiene la desviación típica $\sqrt{(2c^2 + 6c)/N}$ (pues
# $E[\omega^4] = 3c^2 + 6c$), y se admiten cinco de ellas.

# %%
N = 20_000
for c in (1, 4, 16, 64):
    q, k = rng.standard_normal((2, N, c))
    omega = (q * k).sum(-1)
    deviation = math.sqrt((2 * c * c + 6 * c) / N)
    print(f"c = {c:2}   E[omega^2] = {np.mean(omega**2):6.2f}")
    assert abs(np.mean(omega**2) - c) <= 5 * deviation

# %% [markdown] lang="en"
# ## Softmax as a step function
#
# What do large scores do to softmax? Its Jacobian is
#
# $$\frac{\partial A_i}{\partial S_j} = A_i\,(\delta_{ij} - A_j).$$
#
# As the scores grow, the largest $A_i$ goes to 1 and the others to 0; then every entry, $A_i (1 - A_i)$ on the diagonal
# and $-A_i A_j$ beside it, goes to 0. A step function has no slope. Left: one row of scores, multiplied by $\sqrt c$.
# Right: the size of the Jacobian.

# %% [markdown] lang="es"
# ## Softmax como función escalón
#
# ¿Qué le hacen a softmax unas puntuaciones grandes? Su jacobiano es
#
# $$\frac{\partial A_i}{\partial S_j} = A_i\,(\delta_{ij} - A_j).$$
#
# Cuando crecen las puntuaciones, el mayor de los $A_i$ tiende a 1 y los demás a 0; entonces todas las entradas,
# $A_i (1 - A_i)$ en la diagonal y $-A_i A_j$ fuera de ella, tienden a 0. Una función escalón no tiene pendiente. A la
# izquierda, una fila de puntuaciones multiplicada por $\sqrt c$; a la derecha, el tamaño del jacobiano.

# %%
row = np.array([1.2, 0.9, 0.1, -0.4, -1.6])
widths = 2.0 ** np.arange(13)
curves = softmax(np.sqrt(widths)[:, None] * row)[0]  # (widths, 5)
jacobians = curves[:, :, None] * (np.eye(5) - curves[:, None, :])
sizes = np.sqrt((jacobians**2).sum((1, 2)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for i, style in enumerate(("-", "--", "-.", ":", "-")):
    left.plot(widths, curves[:, i], style, color=plt.get_cmap("viridis")(i / 5), label=f"$A_{i + 1}$")
left.set(xscale="log", xlabel="$c$", ylabel="$A_i$")
left.legend(frameon=False)
right.loglog(widths, sizes, color=VERMILION)
right.set(xlabel="$c$", ylabel=r"$\|\mathrm{diag}(A) - A A^T\|$", ylim=(1e-9, 1))
plt.show()
assert sizes[-1] < 1e-6 * sizes[0]

# %% [markdown] lang="en"
# ## The experiment
#
# Now whole attentions: $n = 64$ queries and keys of standard normal numbers, and a gradient $dA$ that arrives from
# above. It is *random*, with norm 1 in every row. An upstream gradient of ones would prove nothing:
# $dS_i = A_i (1 - \sum_j A_j) = 0$ with any scale whatever, and only rounding is left. So the norm of a row of $dS$ is
# the factor by which softmax shrinks what passes through.

# %% [markdown] lang="es"
# ## El experimento
#
# Ahora, atenciones enteras: $n = 64$ consultas y claves de números normales estándar, y un gradiente $dA$ que llega
# desde arriba. Es *aleatorio*, de norma 1 en cada fila. Un gradiente de unos no demostraría nada:
# $dS_i = A_i (1 - \sum_j A_j) = 0$ con cualquier escala, y solo queda el redondeo. Así, la norma de una fila de $dS$ es
# el factor por el que softmax encoge lo que pasa a través de él.

# %%
n, sequences = 64, 4
identity = np.broadcast_to(np.eye(n), (sequences, n, n))  # V = I: then dA is dC


def experiment(Q, K, dA, scale):
    """Entropy of A as a share of log n, and the norms of the rows of dS."""
    stages = attention_stages(Q, K, identity, dA, scale=scale)
    entropy = -(stages.A * np.log(np.where(stages.A > 0.0, stages.A, 1.0))).sum(-1).mean() / math.log(n)
    return entropy, np.linalg.norm(stages.dS, axis=-1).ravel()


widths = [1, 4, 16, 64, 256, 1024, 4096]
entropies, medians, means = np.empty((3, 2, len(widths)))
for i, c in enumerate(widths):
    Q, K = rng.standard_normal((2, sequences, n, c))
    dA = rng.standard_normal((sequences, n, n))
    dA /= np.linalg.norm(dA, axis=-1, keepdims=True)
    for j, scale in enumerate((1.0 / math.sqrt(c), 1.0)):
        entropies[j, i], norms = experiment(Q, K, dA, scale)
        medians[j, i], means[j, i] = np.median(norms), norms.mean()
    _, norms = experiment(Q, K, np.ones_like(dA), 1.0)
    assert norms.max() <= 2 * (n + 4) * U  # ones: nothing but the rounding of sum A, at any width

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for j, (label, colour, mark) in enumerate(((r"$\Omega/\sqrt{c}$", BLUE, "o-"), (r"$\Omega$", VERMILION, "s--"))):
    left.plot(widths, entropies[j], mark, color=colour, label=label)
    right.plot(widths, medians[j], mark, color=colour, label=label)
left.set(xscale="log", xlabel="$c$", ylabel=r"$H(A_i)\,/\,\log n$", ylim=(0, 1))
right.set(xscale="log", yscale="log", xlabel="$c$", ylabel=r"$\mathrm{med}\ \|dS_i\|$")
right.legend(frameon=False)
plt.show()

print("median |dS_i|", medians[:, -1], "  mean |dS_i|", means[:, -1])
assert np.ptp(medians[0, 2:]) < 0.2 * medians[0, 2:].mean()  # with the scale, the width does not matter
assert medians[1, -1] < 1e-4 * medians[0, -1]

# %% [markdown] lang="en"
# With $c$ in the thousands, the median gradient without the scale is millions of times smaller, and the entropy is that
# of a step function. Two things do not show it. The *mean* of the norms falls only a little, since the few rows that
# hesitate between two keys keep a large gradient. And at $\Omega$ the gradients without the scale can even be larger,
# because $d\Omega = dS / \sqrt c$ divides by it once more: the scale appears in the forward **and** in the backward.
#
# **The mistake people make here** is to forget it in the backward. How does it show? Every entry of $dQ$ and $dK$ is
# too large by exactly $\sqrt c$, 2.8284 at $c = 8$. A cosine sees nothing at all, and a training with AdamW hardly
# anything.

# %% [markdown] lang="es"
# Con $c$ en los millares, la mediana del gradiente sin la escala es millones de veces menor, y la entropía es la de una
# función escalón. Hay dos cosas que no lo muestran. La *media* de las normas baja poco, porque las pocas filas que
# dudan entre dos claves conservan un gradiente grande. Y en $\Omega$ los gradientes sin la escala pueden ser incluso
# mayores, porque $d\Omega = dS / \sqrt c$ vuelve a dividir: la escala aparece en el paso hacia adelante **y** en el
# paso hacia atrás.
#
# **El error típico** es olvidarla en el paso hacia atrás. ¿Cómo se nota? Todas las entradas de $dQ$ y $dK$ salen
# exactamente $\sqrt c$ veces demasiado grandes: 2.8284 con $c = 8$. Un coseno no ve nada, y un entrenamiento con AdamW
# casi nada.

# %%
n, c = 5, 8
Q, K, V, dC = rng.standard_normal((4, n, c))
dQ, dK, dV = attention_backward(dC, attention(Q, K, V)[1])
without = attention_stages(Q, K, V, dC).dS @ K  # dQ, had the scale been forgotten
assert budget_used("attention", {"Q": Q, "K": K, "V": V, "dC": dC}, dQ=without / math.sqrt(8.0)) <= 1.0
cosine = (without * dQ).sum() / (np.linalg.norm(without) * np.linalg.norm(dQ))
print("factor", np.linalg.norm(without) / np.linalg.norm(dQ), "  cosine", cosine)
assert abs(cosine - 1.0) <= 2 * (n * c + 4) * U  # a sum of n c products over two roots of such sums

# %% [markdown] lang="en"
# ## The causal mask: why minus infinity before, and not zero after
#
# A model that predicts the next token must not see it: query $i$ may look at the keys $j \le i$. With $m_{ij} = 1$
# where it may, the masked softmax is
#
# $$A_{ij} = \frac{m_{ij}\, e^{S_{ij}}}{\sum_k m_{ik}\, e^{S_{ik}}},$$
#
# and since $e^{-\infty} = 0$ this is the plain softmax of scores that hold $-\infty$ where $m_{ij} = 0$. Setting
# $A_{ij} = 0$ *after* the softmax changes the numerator only. The denominator still sums over the future, so the rows
# no longer sum to 1, and, worse, the future is still felt.

# %% [markdown] lang="es"
# ## La máscara causal: por qué menos infinito antes, y no cero después
#
# Un modelo que predice el token siguiente no debe verlo: la consulta $i$ puede mirar las claves $j \le i$. Si
# $m_{ij} = 1$ donde puede, el softmax con máscara es
#
# $$A_{ij} = \frac{m_{ij}\, e^{S_{ij}}}{\sum_k m_{ik}\, e^{S_{ik}}},$$
#
# y como $e^{-\infty} = 0$, no es más que el softmax corriente de unas puntuaciones con $-\infty$ donde $m_{ij} = 0$.
# Poner $A_{ij} = 0$ *después* del softmax cambia solo el numerador. El denominador sigue sumando sobre el futuro: las
# filas dejan de sumar 1 y, lo que es peor, el futuro se sigue notando.

# %%
S = rng.standard_normal((n, n))
may = np.tri(n, dtype=bool)  # True on and below the diagonal


def before(S):
    return softmax(np.where(may, S, -np.inf))[0]


def after(S):
    return np.where(may, softmax(S)[0], 0.0)


print("row sums, zero after:    ", after(S).sum(-1).round(3))
print("row sums, -inf before:   ", before(S).sum(-1).round(3))
assert np.abs(before(S).sum(-1) - 1.0).max() <= 2 * (n + 4) * U  # each weight to (n + 4) u, and then their sum
assert (after(S).sum(-1)[:-1] < 1.0).all()

other = S.copy()
other[:, -1] += 3.0  # another last token: nobody before it may notice
print("A_11, zero after:        ", after(S)[0, 0], "->", after(other)[0, 0])
assert (before(S)[:-1] == before(other)[:-1]).all()  # to the last bit
assert (after(S)[:-1] != after(other)[:-1])[may[:-1]].all()

# %% [markdown] lang="en"
# "Then I divide each row by its sum!" On paper that is the same function. In floating point it is not: a future score
# of 1000 takes the whole row, what is allowed underflows to 0, and 0 / 0 is NaN.
#
# The backward needs no line for the mask. $dS_{ij} = A_{ij} (dA_{ij} - \delta_i)$ is 0 wherever $A_{ij}$ is. And a row
# with *nothing* to attend to (a query before the first key, a padded sentence) has the denominator 0: softmax alone
# gives NaN. Here such a row has $A = 0$ and $C = 0$ and passes no gradient on.

# %% [markdown] lang="es"
# «¡Pues divido cada fila entre su suma!» Sobre el papel es la misma función. En coma flotante no lo es: una puntuación
# futura de 1000 se queda con toda la fila, lo permitido se hunde hasta 0, y 0 / 0 es NaN.
#
# El paso hacia atrás no necesita ninguna línea para la máscara. $dS_{ij} = A_{ij} (dA_{ij} - \delta_i)$ vale 0 donde
# $A_{ij}$ vale 0. Y una fila que no puede mirar *nada* (una consulta anterior a la primera clave, una frase de relleno)
# tiene denominador 0: softmax por sí solo da NaN. Aquí una fila así tiene $A = 0$ y $C = 0$, y no deja pasar ningún
# gradiente.

# %%
spike = np.zeros((n, n))
spike[0, 1] = 1000.0
with np.errstate(invalid="ignore"):
    renormalised = after(spike) / after(spike).sum(-1, keepdims=True)
print("divided by the sum:", renormalised[0], "  -inf before:", before(spike)[0])
assert np.isnan(renormalised[0, 0])
assert before(spike)[0, 0] == 1.0

stages = attention_stages(Q, K, V, dC, causal=True, query_offset=-1)  # query i sees the keys j <= i - 1
assert not stages.A[0].any()
assert not stages.C[0].any()
assert not stages.dQ[0].any()
assert not stages.dS[~np.tri(n, k=-1, dtype=bool)].any()
assert np.isnan(softmax(np.full(n, -np.inf))[0]).all()

# %% [markdown] lang="en"
# ## Heads: split, attend, merge
#
# Head $h$ owns the columns $hc \ldots (h+1)c - 1$ of $X W_q$, $X W_k$, $X W_v$. Each head attends by itself; then their
# outputs stand side by side again and meet in $W_o$:
#
# $$Y_{ik} = \sum_h \sum_a C^h_{ia}\, (W_o)_{hc+a,\,k}.$$
#
# Each $C^h_{ia}$ occurs once in each $Y_{ik}$, so
#
# $$dC^h_{ia} = \sum_k dY_{ik}\, (W_o)_{hc+a,\,k}, \qquad d(W_o)_{hc+a,\,k} = \sum_i C^h_{ia}\, dY_{ik}.$$
#
# The first is column $hc + a$ of $dY\, W_o^T$: one product for all heads, and then a *split*. In the same way $dQ^h$,
# $dK^h$, $dV^h$ are *merged* and meet $W_q$, $W_k$, $W_v$ in one product each. Splitting and merging only move numbers,
# so each is the backward of the other.

# %% [markdown] lang="es"
# ## Cabezas: repartir, atender, juntar
#
# A la cabeza $h$ le tocan las columnas $hc \ldots (h+1)c - 1$ de $X W_q$, $X W_k$, $X W_v$. Cada cabeza atiende por su
# cuenta; después, sus salidas vuelven a ponerse una al lado de otra y se encuentran en $W_o$:
#
# $$Y_{ik} = \sum_h \sum_a C^h_{ia}\, (W_o)_{hc+a,\,k}.$$
#
# Cada $C^h_{ia}$ aparece una vez en cada $Y_{ik}$, así que
#
# $$dC^h_{ia} = \sum_k dY_{ik}\, (W_o)_{hc+a,\,k}, \qquad d(W_o)_{hc+a,\,k} = \sum_i C^h_{ia}\, dY_{ik}.$$
#
# Lo primero es la columna $hc + a$ de $dY\, W_o^T$: un solo producto para todas las cabezas, y luego se *reparte*. Del
# mismo modo, $dQ^h$, $dK^h$, $dV^h$ se *juntan* y se encuentran con $W_q$, $W_k$, $W_v$ en un producto cada una.
# Repartir y juntar solo mueven números: cada operación es el paso hacia atrás de la otra.


# %%
def split(X, H):
    """(..., n, H c) -> (..., H, n, c)"""
    return X.reshape(*X.shape[:-1], H, X.shape[-1] // H).swapaxes(-3, -2)


def merge(X):
    """(..., H, n, c) -> (..., n, H c)"""
    *lead, H, n, c = X.shape
    return X.swapaxes(-3, -2).reshape(*lead, n, H * c)


def sum_outer(X, dY):
    """X^T dY over all leading axes: a matrix serves every token of every sequence."""
    return X.reshape(-1, X.shape[-1]).T @ dY.reshape(-1, dY.shape[-1])


def multi_head_backward(dY, cache):
    X, Wq, Wk, Wv, Wo, merged, attention_cache = cache
    dWo = sum_outer(merged, dY)
    dC = split(dY @ Wo.T, attention_cache.Q.shape[-3])
    dQ, dK, dV = (merge(gradient) for gradient in attention_backward(dC, attention_cache))
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, sum_outer(X, dQ), sum_outer(X, dK), sum_outer(X, dV), dWo


assert check_backward(multi_head_backward, like="multi_head_attention", cases=20, dtype="float64").passed

# %% [markdown] lang="en"
# A list of separate heads gives the same. And the mistake that everybody makes once: to reshape $(n, Hc)$ straight to
# $(H, n, c)$. The shape is right and nothing complains, but "head 1" now holds the first half of the sentence and "head
# 2" the other half: the last token no longer feels the first one.

# %% [markdown] lang="es"
# Una lista de cabezas separadas da lo mismo. Y el error que todo el mundo comete una vez: pasar de $(n, Hc)$
# directamente a $(H, n, c)$ con `reshape`. La forma es correcta y nadie protesta, pero ahora la «cabeza 1» contiene la
# primera mitad de la frase y la «cabeza 2» la otra mitad: el último token deja de notar el primero.

# %%
n, d, c, H, k = 5, 6, 3, 2, 7
X = rng.standard_normal((n, d))
Wq, Wk, Wv = rng.standard_normal((3, d, H * c))
Wo = rng.standard_normal((H * c, k))
Y, _ = multi_head_attention(X, Wq, Wk, Wv, Wo, H, causal=True)
alone = [
    attention(X @ Wq[:, own], X @ Wk[:, own], X @ Wv[:, own], causal=True)[0]
    for own in (slice(h * c, (h + 1) * c) for h in range(H))
]
given = {"X": X, "Wq": Wq, "Wk": Wk, "Wv": Wv, "Wo": Wo, "num_heads": H, "causal": True, "dY": np.zeros((n, k))}
assert budget_used("multi_head_attention", given, Y=np.concatenate(alone, -1) @ Wo) <= 1.0


def mixed(X):
    """The mistake: one reshape, and no swap of the axes."""
    Q, K, V = ((X @ W).reshape(H, n, c) for W in (Wq, Wk, Wv))
    return attention(Q, K, V, causal=True)[0].reshape(n, H * c) @ Wo


first = X.copy()
first[0] += 1.0
assert mixed(X).shape == Y.shape
assert (multi_head_attention(first, Wq, Wk, Wv, Wo, H, causal=True)[0] != Y).any(-1).all()
print("tokens that feel the first one:", np.flatnonzero((mixed(first) != mixed(X)).any(-1)))
assert not (mixed(first) != mixed(X))[-1].any()

# %% [markdown] lang="en"
# ## Katas
#
# - `attention_bug`: one line of this backward is wrong; find it
# - `multi_head_attention`: split, attend, merge, project
# - `multi_head_attention_backward`: and back again

# %% [markdown] lang="es"
# ## Katas
#
# - `attention_bug`: una línea de este paso hacia atrás está mal; encuéntrala
# - `multi_head_attention`: reparte, atiende, junta y proyecta
# - `multi_head_attention_backward`: y vuelta atrás
