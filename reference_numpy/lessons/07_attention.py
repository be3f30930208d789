# %% [markdown] lang="en"
# # Attention, from loops to five products and back
#
# **The question.** In "the fat cat sat on the mat", "fat" says much about "cat" and little about "mat". How can a
# computation made of dot products know that? And when the loss finds that "cat" looked at the wrong word, how does it
# tell the matrices?

# %% [markdown] lang="es"
# # La atención, de los bucles a cinco productos, y de vuelta
#
# **La pregunta.** En «the fat cat sat on the mat», «fat» dice mucho de «cat» y poco de «mat». ¿Cómo puede saberlo un
# cálculo hecho de productos escalares? Y si la pérdida descubre que «cat» miró a la palabra equivocada, ¿cómo se lo
# dice a las matrices?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check
from equivalence_tests.counting import count_products
from equivalence_tests.dojo.witness import budget_used, complex_step

# %% [markdown] lang="en"
# ## Seven tokens, made by hand
#
# An embedding has six entries here, so that each can be read: is it a noun, does it describe, is it a verb, is it a
# small word; and the position as an angle, whose cosine and sine have the nice property that
# $\cos a \cos b + \sin a \sin b = \cos(a - b)$: the dot product of two positions is large for neighbours. A trained
# model finds such features by itself, less tidily.
#
# ## First without any weights, by loops
#
# The score of token $m$ for token $p$ is the dot product of the two; softmax makes weights of a row of scores; the
# context vector is the sum of all tokens with these weights:
#
# $$\omega_{mp} = x_m \cdot x_p \qquad\qquad A_{mp} = \frac{e^{\omega_{mp}}}{\sum_q e^{\omega_{mq}}} \qquad\qquad
# c_m = \sum_p A_{mp}\, x_p$$

# %% [markdown] lang="es"
# ## Siete tokens, hechos a mano
#
# Aquí un embedding tiene seis entradas, para que cada una se pueda leer: si es un sustantivo, si describe, si es un
# verbo, si es una palabra pequeña; y la posición como un ángulo, cuyo coseno y seno cumplen que
# $\cos a \cos b + \sin a \sin b = \cos(a - b)$: el producto escalar de dos posiciones es grande entre vecinos. Un
# modelo entrenado encuentra rasgos así por su cuenta, con menos orden.
#
# ## Primero sin pesos, con bucles
#
# La puntuación del token $m$ hacia el token $p$ es el producto escalar de ambos; softmax convierte cada fila de
# puntuaciones en pesos; el vector de contexto es la suma de todos los tokens con esos pesos:
#
# $$\omega_{mp} = x_m \cdot x_p \qquad\qquad A_{mp} = \frac{e^{\omega_{mp}}}{\sum_q e^{\omega_{mq}}} \qquad\qquad
# c_m = \sum_p A_{mp}\, x_p$$

# %%
words = ["the", "fat", "cat", "sat", "on", "the", "mat"]
kinds = {"cat": 0, "mat": 0, "fat": 1, "sat": 2, "on": 3, "the": 3}
FAT, CAT, MAT = 1, 2, 6
n, d = 7, 6
angle = np.pi / 8.0 * np.arange(n)
X = np.zeros((n, d))
X[np.arange(n), [kinds[word] for word in words]] = 1.0
X[:, 4], X[:, 5] = np.cos(angle), np.sin(angle)


def softmax(S):
    E = np.exp(S - S.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


looped = np.zeros((n, d))
for m in range(n):
    scores = [sum(X[m, i] * X[p, i] for i in range(d)) for p in range(n)]
    weights = [math.exp(score) for score in scores]
    for p in range(n):
        looped[m] += weights[p] / sum(weights) * X[p]
given = {"X": X, "dC": np.zeros((n, d))}
assert budget_used("simple_attention", given, C=looped) <= 1.0
assert budget_used("simple_attention", given, C=softmax(X @ X.T) @ X) <= 1.0  # the same, at once
untrained = softmax(X @ X.T)
assert np.array_equal(untrained.argmax(1), np.arange(n))

# %% [markdown] lang="en"
# Every token looks at itself first: all are equally long here, and nothing is as similar to $x_m$ as $x_m$. And
# $\omega_{mp} = \omega_{pm}$, so "cat" cannot ask "fat" for anything that "fat" does not ask back. There is nothing to
# learn either.
#
# ## Query, key and value
#
# So each token appears in three roles, each through its own matrix (lesson 01): $q_m = x_m W_q$ asks, $k_p = x_p W_k$
# answers, $v_p = x_p W_v$ is what is handed over. By hand: the query of a noun asks for a describing word, and
# everybody asks for his neighbours; the key says whether the word describes, and where it stands; the value says what
# kind of word it is.
#
# $$\Omega_{mp} = \sum_k Q_{mk} K_{pk} \qquad\qquad A = \mathrm{softmax}(\Omega / \sqrt{c}) \qquad\qquad
# C_{mk} = \sum_p A_{mp} V_{pk}$$
#
# The index that is summed stands inside, once as a column of $Q$ and once as a column of $K$; hence the one
# transposition:
#
# $$Q = X W_q \qquad K = X W_k \qquad V = X W_v \qquad \Omega = Q K^T \qquad C = A V$$
#
# Five products and one transposition for all tokens at once. (Why the scores are divided by $\sqrt{c}$: lesson 08.)

# %% [markdown] lang="es"
# Cada token se mira primero a sí mismo: aquí todos tienen la misma longitud, y nada se parece tanto a $x_m$ como $x_m$.
# Y $\omega_{mp} = \omega_{pm}$, así que «cat» no puede pedirle a «fat» nada que «fat» no le pida a él. Tampoco hay nada
# que aprender.
#
# ## Query, key y value
#
# Por eso cada token aparece en tres papeles, cada uno con su propia matriz (lección 01): $q_m = x_m W_q$ pregunta,
# $k_p = x_p W_k$ responde y $v_p = x_p W_v$ es lo que se entrega. A mano: la query de un sustantivo pide una palabra
# que describa, y cada token busca a sus vecinos; la key dice si la palabra describe y dónde está; el value dice qué
# clase de palabra es.
#
# $$\Omega_{mp} = \sum_k Q_{mk} K_{pk} \qquad\qquad A = \mathrm{softmax}(\Omega / \sqrt{c}) \qquad\qquad
# C_{mk} = \sum_p A_{mp} V_{pk}$$
#
# El índice que se suma queda dentro, una vez como columna de $Q$ y otra como columna de $K$; de ahí la única
# transposición:
#
# $$Q = X W_q \qquad K = X W_k \qquad V = X W_v \qquad \Omega = Q K^T \qquad C = A V$$
#
# Cinco productos y una transposición para todos los tokens a la vez. (Por qué se dividen las puntuaciones entre
# $\sqrt{c}$: lección 08.)

# %%


def self_attention(X, Wq, Wk, Wv):
    Q, K, V = X @ Wq, X @ Wk, X @ Wv
    A = softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return A @ V, (X, Wq, Wk, Wv, Q, K, V, A)


c, e = 3, 4
Wq, Wk, Wv = np.zeros((d, c)), np.zeros((d, c)), np.zeros((d, e))
Wq[0, 0] = 2.0  # a noun asks for what describes
Wq[4, 1] = Wq[5, 2] = 3.0  # every token asks for its neighbours
Wk[1, 0] = Wk[4, 1] = Wk[5, 2] = 1.0
Wv[:4] = np.eye(4)
C, cache = self_attention(X, Wq, Wk, Wv)
Q, K, V, A = cache[4:]
assert count_products(self_attention, X, Wq, Wk, Wv) == (5, 1)
assert A[CAT].argmax() == FAT
assert A[CAT, FAT] > 4.0 * A[MAT, FAT]
print(A[[CAT, MAT]].round(2))  # whom "cat" and "mat" look at
print(C[[CAT, MAT]].round(2))  # noun, describes, verb, small word

loops_C = np.zeros((n, e))
for m in range(n):
    q = X[m] @ Wq
    omega = np.array([q @ (X[p] @ Wk) for p in range(n)])
    weights = softmax(omega / math.sqrt(c))
    for p in range(n):
        loops_C[m] += weights[p] * (X[p] @ Wv)
dC = np.random.default_rng(7).standard_normal((n, e))
given = {"X": X, "Wq": Wq, "Wk": Wk, "Wv": Wv, "dC": dC}
assert budget_used("self_attention", given, C=C) <= 1.0
assert budget_used("self_attention", given, C=loops_C) <= 1.0

# %% [markdown] lang="en"
# ## The backward, with indices
#
# Walk back from `dC`. In each line one operand is asked which numbers it reaches, and these are summed over.
#
# **C = A V.** The weight $A_{mp}$ reaches row $m$ of $C$, all $k$; the value $V_{pk}$ reaches column $k$ in every row
# $m$:
#
# $$dA_{mp} = \sum_k dC_{mk} V_{pk} \qquad\qquad dV_{pk} = \sum_m A_{mp}\, dC_{mk}$$
#
# **A = softmax(S)**, row by row, as in lesson 02. The mean of a row of $dA$ has a name, $\delta_m$, and a shortcut:
#
# $$dS_{mp} = A_{mp}(dA_{mp} - \delta_m) \qquad\qquad
# \delta_m = \sum_p A_{mp}\, dA_{mp} = \sum_k dC_{mk} \sum_p A_{mp} V_{pk} = \sum_k dC_{mk} C_{mk}$$
#
# **S = Omega / sqrt(c)**: $d\Omega = dS / \sqrt{c}$.
#
# **Omega = Q K^T.** A query reaches its row of scores, a key its column:
#
# $$dQ_{mk} = \sum_p d\Omega_{mp} K_{pk} \qquad\qquad dK_{pk} = \sum_m d\Omega_{mp} Q_{mk}$$
#
# **Q = X Wq** and its two sisters. A matrix serves every token; a token feeds all three roles, so three gradients meet:
#
# $$dW_{q,ik} = \sum_m X_{mi}\, dQ_{mk} \qquad\qquad
# dX_{mi} = \sum_k dQ_{mk} W_{q,ik} + \sum_k dK_{mk} W_{k,ik} + \sum_k dV_{mk} W_{v,ik}$$

# %% [markdown] lang="es"
# ## El paso hacia atrás, con índices
#
# Recorre el camino de vuelta desde `dC`. En cada línea se le pregunta a un operando a qué números llega, y sobre ellos
# se suma.
#
# **C = A V.** El peso $A_{mp}$ llega a la fila $m$ de $C$, a todos los $k$; el valor $V_{pk}$, a la columna $k$ en
# todas las filas $m$:
#
# $$dA_{mp} = \sum_k dC_{mk} V_{pk} \qquad\qquad dV_{pk} = \sum_m A_{mp}\, dC_{mk}$$
#
# **A = softmax(S)**, fila por fila, como en la lección 02. La media de una fila de $dA$ tiene nombre, $\delta_m$, y un
# atajo:
#
# $$dS_{mp} = A_{mp}(dA_{mp} - \delta_m) \qquad\qquad
# \delta_m = \sum_p A_{mp}\, dA_{mp} = \sum_k dC_{mk} \sum_p A_{mp} V_{pk} = \sum_k dC_{mk} C_{mk}$$
#
# **S = Omega / sqrt(c)**: $d\Omega = dS / \sqrt{c}$.
#
# **Omega = Q K^T.** Una query llega a su fila de puntuaciones; una key, a su columna:
#
# $$dQ_{mk} = \sum_p d\Omega_{mp} K_{pk} \qquad\qquad dK_{pk} = \sum_m d\Omega_{mp} Q_{mk}$$
#
# **Q = X Wq** y sus dos hermanas. Una matriz sirve a todos los tokens; un token alimenta los tres papeles, así que se
# juntan tres gradientes:
#
# $$dW_{q,ik} = \sum_m X_{mi}\, dQ_{mk} \qquad\qquad
# dX_{mi} = \sum_k dQ_{mk} W_{q,ik} + \sum_k dK_{mk} W_{k,ik} + \sum_k dV_{mk} W_{v,ik}$$

# %%
loops_dA, loops_dV = np.zeros((n, n)), np.zeros((n, e))
for m, p, k in np.ndindex(n, n, e):
    loops_dA[m, p] += dC[m, k] * V[p, k]
    loops_dV[p, k] += A[m, p] * dC[m, k]
delta = (dC * C).sum(-1, keepdims=True)
loops_dOmega = A * (loops_dA - delta) / math.sqrt(c)
loops_dQ, loops_dK = np.zeros((n, c)), np.zeros((n, c))
for m, p, k in np.ndindex(n, n, c):
    loops_dQ[m, k] += loops_dOmega[m, p] * K[p, k]
    loops_dK[p, k] += loops_dOmega[m, p] * Q[m, k]
stages = {"Q": Q, "K": K, "V": V, "dC": dC}
assert budget_used("attention_stages", stages, dA=loops_dA, delta=delta, dOmega=loops_dOmega) <= 1.0
assert budget_used("attention_stages", stages, dQ=loops_dQ, dK=loops_dK, dV=loops_dV) <= 1.0

# %% [markdown] lang="en"
# ## The backward, with matrices
#
# Every sum above is a product once its index stands inside, and that decides each transposition:
#
# $$dV = A^T dC \qquad dA = dC\, V^T \qquad dS = A \cdot (dA - \delta) \qquad d\Omega = dS/\sqrt{c}$$
#
# $$dQ = d\Omega\, K \qquad dK = d\Omega^T Q \qquad dX = dQ\, W_q^T + dK\, W_k^T + dV\, W_v^T \qquad dW_q = X^T dQ$$
#
# $dW_k$ and $dW_v$ are made like $dW_q$. With a batch in front, the products of $X$ and the weights sum over its
# tokens, too: all rows below each other (lesson 04).

# %% [markdown] lang="es"
# ## El paso hacia atrás, con matrices
#
# Cada suma de arriba es un producto en cuanto su índice queda dentro, y eso decide cada transposición:
#
# $$dV = A^T dC \qquad dA = dC\, V^T \qquad dS = A \cdot (dA - \delta) \qquad d\Omega = dS/\sqrt{c}$$
#
# $$dQ = d\Omega\, K \qquad dK = d\Omega^T Q \qquad dX = dQ\, W_q^T + dK\, W_k^T + dV\, W_v^T \qquad dW_q = X^T dQ$$
#
# $dW_k$ y $dW_v$ se hacen como $dW_q$. Con un lote delante, los gradientes de los pesos suman también sobre los tokens
# del lote: todas las filas, una debajo de otra (lección 04).

# %%


def rows(M):
    return M.reshape(-1, M.shape[-1])


def self_attention_backward(dC, cache):
    X, Wq, Wk, Wv, Q, K, V, A = cache
    dV = A.mT @ dC
    dA = dC @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdims=True))
    dOmega = dS / math.sqrt(Q.shape[-1])
    dQ = dOmega @ K
    dK = dOmega.mT @ Q
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    return dX, rows(X).T @ rows(dQ), rows(X).T @ rows(dK), rows(X).T @ rows(dV)


dX, dWq, dWk, dWv = self_attention_backward(dC, cache)
assert budget_used("self_attention", given, dX=dX, dWq=dWq, dWk=dWk, dWv=dWv) <= 1.0
steps = {
    "dX": complex_step(lambda X: self_attention(X, Wq, Wk, Wv)[0], X, dC),
    "dWq": complex_step(lambda Wq: self_attention(X, Wq, Wk, Wv)[0], Wq, dC),
    "dWk": complex_step(lambda Wk: self_attention(X, Wq, Wk, Wv)[0], Wk, dC),
    "dWv": complex_step(lambda Wv: self_attention(X, Wq, Wk, Wv)[0], Wv, dC),
}
assert budget_used("self_attention", given, **steps) <= 1.0
assert check(self_attention, like="self_attention", backward=self_attention_backward, cases=20).passed

dA = dC @ V.T
dS = A * (dA - (A * dA).sum(-1, keepdims=True))
figure, panels = plt.subplots(1, 3, figsize=(12, 4.6), layout="constrained")
reach = np.abs(dS).max()
pictures = {"softmax(X X^T)": untrained, "A": A, "dS": dS}
for panel, (name, matrix) in zip(panels, pictures.items(), strict=True):
    limits = {"cmap": "PuOr", "vmin": -reach, "vmax": reach} if name == "dS" else {"cmap": "Blues", "vmin": 0.0}
    panel.imshow(matrix, **limits)
    panel.set_xticks(range(n), words, rotation=45)
    panel.set_yticks(range(n), words)
    panel.set_title(name)
    for (m, p), number in np.ndenumerate(matrix):
        colour = "white" if abs(number) > 0.6 * np.abs(matrix).max() else "black"
        panel.text(p, m, f"{number:.2f}", ha="center", va="center", fontsize=7, color=colour)
plt.show()

# %% [markdown] lang="en"
# ## The mistakes people make here
#
# * The scale is in the forward and not in the backward: `dQ` and `dK` come out $\sqrt{c}$ times too large, `dV` is
#   right.
# * `dX` is assigned three times and not added up: only the value's share is left. Shapes fit, the loss still goes down.
# * `axis=1` runs over the keys of one matrix, but over the queries of a batch of matrices; `axis=-1` means the keys in
#   both.
#
# Two rules for proofreading: every row of `dS` sums to 0, and so `dK` sums to 0 over the keys. Adding one vector to all
# keys changes a whole row of scores alike, and softmax does not notice.

# %% [markdown] lang="es"
# ## Los errores que se cometen aquí
#
# * La escala está hacia adelante y falta hacia atrás: `dQ` y `dK` salen $\sqrt{c}$ veces más grandes, y `dV` está bien.
# * `dX` se asigna tres veces en vez de sumarse: solo queda la parte del value. Las formas encajan y la pérdida baja
#   igualmente.
# * `axis=1` recorre las keys de una matriz, pero las queries de un lote de matrices; `axis=-1` recorre las keys en los
#   dos casos.
#
# Dos reglas para repasar: cada fila de `dS` suma 0, y por eso `dK` suma 0 sobre las keys. Sumar un mismo vector a todas
# las keys cambia por igual toda una fila de puntuaciones, y softmax no se entera.

# %%


def overwritten(dC, cache):
    return cache[7].mT @ dC @ cache[3].T, *self_attention_backward(dC, cache)[1:]


report = check(self_attention, like="self_attention", backward=overwritten, cases=20)
assert not report.passed
print(report.findings[0].code)
assert budget_used("attention_stages", stages, dQ=dS @ K) > 1.0
print(np.linalg.norm(dS @ K) / np.linalg.norm(loops_dQ), math.sqrt(c))
print(dS.sum(-1).round(15), loops_dK.sum(0).round(15))

# %% [markdown] lang="en"
# ## Katas
#
# `simple_attention`, `attention`, `attention_backward`, `predict_attention`, `self_attention`,
# `self_attention_backward`

# %% [markdown] lang="es"
# ## Katas
#
# `simple_attention`, `attention`, `attention_backward`, `predict_attention`, `self_attention`,
# `self_attention_backward`
