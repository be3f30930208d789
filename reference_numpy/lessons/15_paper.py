# %% [markdown] lang="en"
# # One head of attention, by hand
#
# **The question.** Can you do without a computer what the lessons before have derived? Three tokens, $d = c = 2$, small
# numbers: everything from $X$ to $dW_q$ fits on two sheets of paper. `gemelos dojo handout` writes them with boxes to
# fill in, `gemelos dojo handout --key` with all the answers; here is the way from one to the other.

# %% [markdown] lang="es"
# # Una cabeza de atención, a mano
#
# **La pregunta.** ¿Sabrías hacer sin ordenador lo que han deducido las lecciones anteriores? Tres tokens, $d = c = 2$,
# números pequeños: todo, desde $X$ hasta $dW_q$, cabe en dos hojas de papel. `gemelos dojo handout` las escribe con
# casillas para rellenar; `gemelos dojo handout --key`, con todas las respuestas; aquí está el camino de las unas a las
# otras.

# %%
import math
from fractions import Fraction

import numpy as np

from equivalence_tests.dojo.paper import GIVEN, last_digit
from equivalence_tests.dojo.witness import budget_used, complex_step
from reference_numpy import attention_stages, self_attention

half = Fraction(1, 2)
X = [[1, 1], [1, 2], [0, 1]]
Wq = [[0, 2], [1, -1]]
Wk = [[-1, 1], [1, 0]]
Wv = [[0, 1], [half, half]]
dC = [[1, 1], [2, -1], [-1, 2]]

U = 2.0**-53  # the unit roundoff of float64
given = [np.array(M, float) for M in (X, Wq, Wk, Wv, dC)]
assert all((mine == theirs).all() for mine, theirs in zip(given, GIVEN.values(), strict=True))


def product(L, R):
    """Y_ij = sum_k L_ik R_kj, as one does it with a pencil; exact if the numbers are fractions."""
    return [[sum(row[k] * R[k][j] for k in range(len(R))) for j in range(len(R[0]))] for row in L]


def transposed(M):
    return [list(column) for column in zip(*M, strict=True)]


def show(name, M):
    for i, row in enumerate(M):
        texts = (f"{x:.4f}" if isinstance(x, float) else str(x) for x in row)
        print(f"{name if i == 0 else '':>7} | " + "  ".join(f"{text:>7}" for text in texts))


# %% [markdown] lang="en"
# ## While everything is rational
#
# $Q = X W_q$: row 2 of $X$ is $(1, 2)$, column 1 of $W_q$ is $(0, 1)$, so $Q_{21} = 1 \cdot 0 + 2 \cdot 1 = 2$. In the
# same way $K = X W_k$, $V = X W_v$ and $\Omega = Q K^T$, whose entry $\Omega_{12}$ is query 1 with key 2:
# $1 \cdot 1 + 1 \cdot 1 = 2$. These numbers are exact, in fractions as in float64: the code asks for equality.

# %% [markdown] lang="es"
# ## Mientras todo es racional
#
# $Q = X W_q$: la fila 2 de $X$ es $(1, 2)$, la columna 1 de $W_q$ es $(0, 1)$, así que
# $Q_{21} = 1 \cdot 0 + 2 \cdot 1 = 2$. Del mismo modo, $K = X W_k$, $V = X W_v$ y $\Omega = Q K^T$, cuya entrada
# $\Omega_{12}$ es la consulta 1 con la clave 2: $1 \cdot 1 + 1 \cdot 1 = 2$. Estos números son exactos, tanto en
# fracciones como en float64: el código exige igualdad.

# %%
Q, K, V = product(X, Wq), product(X, Wk), product(X, Wv)
Omega = product(Q, transposed(K))
for name, M in (("Q", Q), ("K", K), ("V", V), ("Omega", Omega)):
    show(name, M)

C, cache = self_attention(*given[:4])
stages = attention_stages(*cache[-1][:3], given[4])
for mine, theirs in ((Q, cache[-1].Q), (K, cache[-1].K), (V, cache[-1].V), (Omega, stages.Omega)):
    assert (np.array(mine, float) == theirs).all()
assert Q[1][0] == 2
assert Omega[0][1] == 2

# %% [markdown] lang="en"
# ## The root appears
#
# $S = \Omega / \sqrt 2$. Softmax does not care about a shift, so take the largest score off each row: what is left in
# the exponent is $0$, $-1/\sqrt 2$ or $-2/\sqrt 2$. With $s = e^{-1/\sqrt 2} \approx 0.4931$ and $s^2 \approx 0.2431$
# the three rows of $A$ are
#
# $$A_1 = \frac{(s,\ 1,\ s)}{1 + 2s}, \qquad A_2 = \frac{(s^2,\ 1,\ 1)}{2 + s^2}, \qquad
# A_3 = \frac{(s^2,\ s,\ 1)}{1 + s + s^2}.$$
#
# Token 1 looks mostly at token 2, token 2 at itself and token 3 alike, token 3 at itself. And $C = A V$ is a mixture of
# the rows of $V$: $C_{11} = 0.2483 \cdot \frac12 + 0.5035 \cdot 1 + 0.2483 \cdot \frac12 = 0.7517$.

# %% [markdown] lang="es"
# ## Aparece la raíz
#
# $S = \Omega / \sqrt 2$. A softmax no le importa un desplazamiento, así que resta a cada fila su mayor puntuación: en
# el exponente quedan $0$, $-1/\sqrt 2$ o $-2/\sqrt 2$. Con $s = e^{-1/\sqrt 2} \approx 0.4931$ y $s^2 \approx 0.2431$,
# las tres filas de $A$ son
#
# $$A_1 = \frac{(s,\ 1,\ s)}{1 + 2s}, \qquad A_2 = \frac{(s^2,\ 1,\ 1)}{2 + s^2}, \qquad
# A_3 = \frac{(s^2,\ s,\ 1)}{1 + s + s^2}.$$
#
# El token 1 mira sobre todo al token 2; el token 2, por igual a sí mismo y al token 3; el token 3, a sí mismo. Y
# $C = A V$ es una mezcla de las filas de $V$:
# $C_{11} = 0.2483 \cdot \frac12 + 0.5035 \cdot 1 + 0.2483 \cdot \frac12 = 0.7517$.

# %%
below = [[omega - max(row) for omega in row] for row in Omega]  # 0, -1 or -2, over sqrt(2)
assert {x for row in below for x in row} == {0, -1, -2}
s = math.exp(-1 / math.sqrt(2))
E = [[s**-x for x in row] for row in below]
A = [[e / sum(row) for e in row] for row in E]
C_by_hand = product(A, V)
show("A", A)
show("C", C_by_hand)
assert (f"{s:.4f}", f"{s * s:.4f}", f"{C[0, 0]:.4f}") == ("0.4931", "0.2431", "0.7517")
head = {"Q": cache[-1].Q, "K": cache[-1].K, "V": cache[-1].V, "dC": given[4]}
assert budget_used("attention_stages", head, A=A, C=C_by_hand) <= 1.0

# %% [markdown] lang="en"
# ## Back through the mixture and the softmax
#
# The gradient $dC$ arrives. $C = A V$ hands it to both factors: $dV = A^T dC$, whose entry $dV_{11}$ asks who listened
# to token 1 (column 1 of $A$): $0.2483 \cdot 1 + 0.1084 \cdot 2 + 0.1400 \cdot (-1) = 0.3250$; and $dA = dC\, V^T$,
# which is exact once more.
#
# In each row, $\delta_i = \sum_j A_{ij}\, dA_{ij}$ is what the row gains on average, and
# $dS_{ij} = A_{ij} (dA_{ij} - \delta_i)$ gives each score, in proportion to its weight, what it has above that average.
# So each row of $dS$ sums to 0: a check that costs three additions.

# %% [markdown] lang="es"
# ## Hacia atrás a través de la mezcla y del softmax
#
# Llega el gradiente $dC$. $C = A V$ lo entrega a los dos factores: $dV = A^T dC$, cuya entrada $dV_{11}$ pregunta quién
# escuchó al token 1 (columna 1 de $A$): $0.2483 \cdot 1 + 0.1084 \cdot 2 + 0.1400 \cdot (-1) = 0.3250$; y
# $dA = dC\, V^T$, que vuelve a ser exacto.
#
# En cada fila, $\delta_i = \sum_j A_{ij}\, dA_{ij}$ es lo que la fila gana de media, y
# $dS_{ij} = A_{ij} (dA_{ij} - \delta_i)$ le da a cada puntuación, en proporción a su peso, lo que supera esa media. Por
# eso cada fila de $dS$ suma 0: una comprobación que cuesta tres sumas.

# %%
dV = product(transposed(A), dC)
dA = product(dC, transposed(V))
delta = [sum(a * da for a, da in zip(A[i], dA[i], strict=True)) for i in range(3)]
dS = [[A[i][j] * (dA[i][j] - delta[i]) for j in range(3)] for i in range(3)]
for name, M in (("dV", dV), ("dA", dA), ("delta", [delta]), ("dS", dS)):
    show(name, M)
assert (np.array(dA, float) == stages.dA).all()
assert f"{dV[0][0]:.4f}" == "0.3250"
assert budget_used("attention_stages", head, dV=dV, dS=dS) <= 1.0
assert (
    np.abs(np.sum(dS, -1)).max() <= 10 * U * np.abs(stages.dA).max()
)  # ten roundings of numbers up to the largest of dA

# %% [markdown] lang="en"
# ## Back to the weights
#
# $d\Omega = dS / \sqrt 2$: the scale a second time. Then the two factors of $\Omega = Q K^T$, $dQ = d\Omega\, K$ and
# $dK = d\Omega^T Q$. Because the keys of this example hold only 0 and 1, $dQ$ is a matter of additions:
# $dQ_{12} = d\Omega_{11} + d\Omega_{12} = 0.2203$.
#
# And $W_q$ served all three tokens, so its gradient is a sum over them, $dW_q = X^T dQ$; its entry at row 2, column 1
# is $1 \cdot 0.0448 + 2 \cdot 0.0512 + 1 \cdot (-0.1000) = 0.0473$ (with four decimals the sum gives 0.0472; that is
# what the last digit is worth). The same for $dW_k$ and $dW_v$. $X$ was read three times:
# $dX = dQ\, W_q^T + dK\, W_k^T + dV\, W_v^T$.

# %% [markdown] lang="es"
# ## Hacia atrás hasta los pesos
#
# $d\Omega = dS / \sqrt 2$: la escala por segunda vez. Después, los dos factores de $\Omega = Q K^T$: $dQ = d\Omega\, K$
# y $dK = d\Omega^T Q$. Como las claves de este ejemplo solo contienen ceros y unos, $dQ$ es cuestión de sumar:
# $dQ_{12} = d\Omega_{11} + d\Omega_{12} = 0.2203$.
#
# Y $W_q$ sirvió a los tres tokens, así que su gradiente es una suma sobre ellos, $dW_q = X^T dQ$; su entrada en la fila
# 2, columna 1 es $1 \cdot 0.0448 + 2 \cdot 0.0512 + 1 \cdot (-0.1000) = 0.0473$ (con cuatro decimales la suma da
# 0.0472; eso es lo que vale la última cifra). Lo mismo para $dW_k$ y $dW_v$. $X$ se leyó tres veces:
# $dX = dQ\, W_q^T + dK\, W_k^T + dV\, W_v^T$.

# %%
dOmega = [[x / math.sqrt(2) for x in row] for row in dS]
dQ, dK = product(dOmega, K), product(transposed(dOmega), Q)
dWq, dWk, dWv = (product(transposed(X), gradient) for gradient in (dQ, dK, dV))
paths = [product(gradient, transposed(W)) for gradient, W in ((dQ, Wq), (dK, Wk), (dV, Wv))]
dX = [[sum(path[i][j] for path in paths) for j in range(2)] for i in range(3)]
mine = {"dX": dX, "dWq": dWq, "dWk": dWk, "dWv": dWv}
for name, M in (("dOmega", dOmega), ("dQ", dQ), ("dK", dK), *mine.items()):
    show(name, M)
whole = dict(zip(GIVEN, given, strict=True))
assert budget_used("self_attention", whole, C=C_by_hand, **mine) <= 1.0
assert (f"{dQ[0][1]:.4f}", f"{dWq[1][0]:.4f}") == ("0.2203", "0.0473")
assert (
    np.abs(np.sum(dK, 0)).max() <= 20 * U * np.abs(stages.dA).max() * np.abs(cache[-1].Q).sum()
)  # a shift of all keys changes nothing

# %% [markdown] lang="en"
# ## Is it true?
#
# An answer on paper can be checked like any other: move that one entry of $W_q$ by a complex step, run only the
# forward, and see how much $\langle dC, C \rangle$ has moved. And those who round every number to four decimals before
# they go on: how far off can they end? The handout says so on its first page.

# %% [markdown] lang="es"
# ## ¿Es verdad?
#
# Una respuesta en papel se comprueba como cualquier otra: mueve esa única entrada de $W_q$ con un paso complejo,
# ejecuta solo el paso hacia adelante y mira cuánto se ha movido $\langle dC, C \rangle$. Y quien redondea cada número a
# cuatro decimales antes de seguir, ¿cuánto puede desviarse al final? La hoja lo dice en su primera página.


# %%
def context(moved):
    """C for a complex Wq."""
    others = [M.astype(complex) for M in given]
    return self_attention(others[0], moved, others[2], others[3])[0]


dWq_by_steps = complex_step(context, given[1], given[4])
print(f"dWq_21 = {dWq[1][0]:.15f}, complex step: {dWq_by_steps[1, 0]:.15f}")
assert budget_used("self_attention", whole, dWq=dWq_by_steps) <= 1.0
print("last digit:", last_digit())

# %% [markdown] lang="en"
# ## Katas
#
# - `self_attention`: the forward, in five products and a transposition
# - `attention_backward`: from dC to dQ, dK, dV
# - `self_attention_backward`: and on to X and the weights

# %% [markdown] lang="es"
# ## Katas
#
# - `self_attention`: el paso hacia adelante, en cinco productos y una transposición
# - `attention_backward`: de dC a dQ, dK, dV
# - `self_attention_backward`: y de ahí a X y los pesos
