# %% [markdown] lang="en"
# # Softmax and its Jacobian
#
# **The question.** Softmax turns a row of scores into weights that sum to 1. The loss wishes the third weight were a
# little larger. Which scores must move, and by how much?
#
# All of them: the weights share one sum, so no weight moves alone, and every score moves every weight. That sharing is
# the whole difficulty of this backward, and in the end it is one line of code.

# %% [markdown] lang="es"
# # Softmax y su jacobiana
#
# **La pregunta.** Softmax convierte una fila de puntuaciones en pesos que suman 1. La pérdida quiere que el tercer peso
# sea un poco mayor. ¿Qué puntuaciones tienen que moverse, y cuánto?
#
# Todas: los pesos comparten una suma, así que ningún peso se mueve solo, y cada puntuación los mueve a todos. Ahí está
# toda la dificultad de este paso hacia atrás, y al final cabe en una línea de código.

# %%
import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check
from equivalence_tests.dojo.witness import budget_used, complex_step

# %% [markdown] lang="en"
# ## Forward, and why the maximum is subtracted
#
# $$A_i = \frac{e^{X_i}}{\sum_j e^{X_j}} = \frac{e^{X_i - a}}{\sum_j e^{X_j - a}}$$
#
# This holds for any $a$: the factor $e^{-a}$ stands above and below and cancels. With $a = \max_j X_j$ the largest
# exponential is exactly 1: nothing overflows, and the sum is never 0. Without it a score of 1000 is enough to get
# infinity over infinity.

# %% [markdown] lang="es"
# ## El paso hacia adelante, y por qué se resta el máximo
#
# $$A_i = \frac{e^{X_i}}{\sum_j e^{X_j}} = \frac{e^{X_i - a}}{\sum_j e^{X_j - a}}$$
#
# Vale para cualquier $a$: el factor $e^{-a}$ está arriba y abajo, y se cancela. Con $a = \max_j X_j$ la mayor
# exponencial vale exactamente 1: nada se desborda y la suma nunca es 0. Sin esa resta, una puntuación de 1000 basta
# para obtener infinito entre infinito.

# %%


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))  # .real lets complex numbers through, which are needed below
    A = E / E.sum(-1, keepdims=True)
    return A, A


with np.errstate(over="ignore", invalid="ignore"):
    naive = np.exp(np.array([1000.0, 0.0])) / np.exp(np.array([1000.0, 0.0])).sum()
assert np.isnan(naive[0])
assert np.array_equal(softmax(np.array([1000.0, 0.0]))[0], [1.0, 0.0])
X = np.array([1.0, 3.0, 0.0, 2.0])
assert np.array_equal(softmax(X)[0], softmax(X + 64.0)[0])  # whole numbers: the differences are exact
print(softmax(X)[0])

# %% [markdown] lang="en"
# ## The Jacobian, entry by entry
#
# Write $E_i = e^{X_i}$ and $Z = \sum_j E_j$, so that $A_i = E_i / Z$. Score $j$ moves $E_i$ only if $i = j$, but it
# always moves $Z$: $\partial E_i/\partial X_j = 1[i = j]\, E_i$ and $\partial Z/\partial X_j = E_j$. The quotient rule:
#
# $$\frac{\partial A_i}{\partial X_j} = \frac{1[i = j]\, E_i}{Z} - \frac{E_i E_j}{Z^2} = A_i\,(1[i = j] - A_j)$$
#
# All entries at once are a matrix, diagonal minus outer product:
#
# $$J = \mathrm{diag}(A) - A A^T$$
#
# To check it, take a step along the imaginary axis: $f(x + ih) = f(x) + ih f'(x)$ up to $h^2$. With $h = 2^{-66}$ the
# square is lost far beyond the last digit, and since nothing is subtracted $\mathrm{imag}(f)/h$ is the derivative to
# full precision.

# %% [markdown] lang="es"
# ## La jacobiana, entrada por entrada
#
# Escribe $E_i = e^{X_i}$ y $Z = \sum_j E_j$, de modo que $A_i = E_i / Z$. La puntuación $j$ mueve $E_i$ solo si
# $i = j$, pero siempre mueve $Z$: $\partial E_i/\partial X_j = 1[i = j]\, E_i$ y $\partial Z/\partial X_j = E_j$. La
# regla del cociente:
#
# $$\frac{\partial A_i}{\partial X_j} = \frac{1[i = j]\, E_i}{Z} - \frac{E_i E_j}{Z^2} = A_i\,(1[i = j] - A_j)$$
#
# Todas las entradas a la vez forman una matriz, la diagonal menos un producto exterior:
#
# $$J = \mathrm{diag}(A) - A A^T$$
#
# Para comprobarla, da un paso por el eje imaginario: $f(x + ih) = f(x) + ih f'(x)$ salvo términos en $h^2$. Con
# $h = 2^{-66}$ el cuadrado queda muy por debajo de la última cifra y, como no se resta nada, $\mathrm{imag}(f)/h$ es la
# derivada con precisión completa.

# %%
A = softmax(X)[0]
J = np.diag(A) - np.outer(A, A)
for i in range(4):
    dA = np.eye(4)[i]  # this upstream gradient picks row i of J
    given = {"X": X, "dA": dA}
    assert budget_used("softmax", given, dX=J[i]) <= 1.0
    assert budget_used("softmax", given, dX=complex_step(lambda X: softmax(X)[0], X, dA)) <= 1.0
print(J)

# %% [markdown] lang="en"
# `budget_used` is how this course says "equal". For the inputs at hand it computes, line by line, how far rounding can
# take a right answer from the exact one, and returns the largest error as a share of that. Above 1 no rounding explains
# it.
#
# ## From the sum to one line
#
# The chain rule sums over every output that score $j$ moves:
#
# $$dX_j = \sum_i dA_i \frac{\partial A_i}{\partial X_j} = \sum_i dA_i A_i\, 1[i = j] - \sum_i dA_i A_i A_j
# = A_j \Big(dA_j - \sum_i A_i\, dA_i\Big)$$
#
# The sum does not depend on $j$: it is one number for the row, the mean of the upstream gradient as $A$ weighs it.
# $dX_j$ is positive exactly where $dA_j$ lies above that mean. And nobody builds $J$: it has $m^2$ numbers, the line
# needs $m$.

# %% [markdown] lang="es"
# `budget_used` es la manera de decir «igual» en este curso. Para los datos que recibe calcula, línea por línea, cuánto
# puede el redondeo alejar una respuesta correcta de la exacta, y devuelve el mayor error como parte de ese margen. Por
# encima de 1, ningún redondeo lo explica.
#
# ## De la suma a una línea
#
# La regla de la cadena suma sobre todas las salidas que mueve la puntuación $j$:
#
# $$dX_j = \sum_i dA_i \frac{\partial A_i}{\partial X_j} = \sum_i dA_i A_i\, 1[i = j] - \sum_i dA_i A_i A_j
# = A_j \Big(dA_j - \sum_i A_i\, dA_i\Big)$$
#
# La suma no depende de $j$: es un solo número por fila, la media del gradiente que llega con los pesos de $A$. $dX_j$
# es positivo justo donde $dA_j$ está por encima de esa media. Y nadie construye $J$: tiene $m^2$ números, y la línea
# necesita $m$.

# %%


def softmax_backward(dA, cache):
    A = cache
    return A * (dA - (A * dA).sum(-1, keepdims=True))


dA = np.array([0.5, -1.0, 2.0, 0.25])
dX = softmax_backward(dA, A)
assert budget_used("softmax", {"X": X, "dA": dA}, dX=dX) <= 1.0
assert budget_used("softmax", {"X": X, "dA": dA}, dX=J @ dA) <= 1.0
assert check(softmax, like="softmax", backward=softmax_backward, cases=20).passed
print(dX)

# %% [markdown] lang="en"
# ## Why ones upstream give 0
#
# If `dA` is the same for every weight, the bracket is $1 - \sum_i A_i = 0$. No surprise: the loss is then the sum of
# the weights, which is 1 whatever the scores are. So a test whose loss is `A.sum()` cannot tell a right backward from
# one that returns zeros. The other side of the same fact: the rows of $J$ sum to 0, and so does $dX$, for any upstream
# gradient at all.

# %% [markdown] lang="es"
# ## Por qué, si llegan unos, el gradiente es 0
#
# Si `dA` es igual para todos los pesos, el paréntesis es $1 - \sum_i A_i = 0$. No sorprende: entonces la pérdida es la
# suma de los pesos, que vale 1 sean cuales sean las puntuaciones. Así que una prueba cuya pérdida es `A.sum()` no
# distingue un paso hacia atrás correcto de uno que devuelve ceros. La otra cara de lo mismo: las filas de $J$ suman 0,
# y $dX$ también, con cualquier gradiente que llegue.

# %%


def zeros_backward(dA, cache):
    return np.zeros_like(dA)


ones = np.ones(4)
used = [budget_used("softmax", {"X": X, "dA": ones}, dX=f(ones, A)) for f in (softmax_backward, zeros_backward)]
assert max(used) <= 1.0  # both pass
used = [budget_used("softmax", {"X": X, "dA": dA}, dX=f(dA, A)) for f in (softmax_backward, zeros_backward)]
assert used[0] <= 1.0 < used[1]  # a random upstream gradient tells them apart
assert not check(softmax, like="softmax", backward=zeros_backward, cases=20).passed

# %% [markdown] lang="en"
# ## The mistake people make here
#
# "The derivative of $A_i$ is $A_i (1 - A_i)$", as for a sigmoid. That is the diagonal of $J$ alone: every weight is
# treated as if it stood by itself. It shows at once: the gradient does not sum to 0. The other one forgets the sum,
# `A * dA`.

# %% [markdown] lang="es"
# ## El error que se comete aquí
#
# «La derivada de $A_i$ es $A_i (1 - A_i)$», como en una sigmoide. Eso es solo la diagonal de $J$: trata cada peso como
# si estuviera solo. Se nota enseguida: el gradiente no suma 0. El otro error olvida la suma: `A * dA`.

# %%


def diagonal_alone(dA, cache):
    return cache * (1.0 - cache) * dA


def without_the_sum(dA, cache):
    return cache * dA


print(dX.sum(), diagonal_alone(dA, A).sum(), without_the_sum(dA, A).sum())
for wrong in (diagonal_alone, without_the_sum):
    report = check(softmax, like="softmax", backward=wrong, cases=20)
    assert not report.passed
    print(wrong.__name__, "->", report.findings[0].code)

# %% [markdown] lang="en"
# ## What the Jacobian looks like
#
# Three rows of scores, the same up to a factor: flat, in between, and nearly a step. As one weight takes everything,
# all of $J$ goes to 0: $A_j (1 - A_j)$ is small at both ends. A softmax that is sure hands nothing back; lesson 08
# measures what that does to attention, and why the scores are divided by $\sqrt{c}$.

# %% [markdown] lang="es"
# ## Qué aspecto tiene la jacobiana
#
# Tres filas de puntuaciones, iguales salvo un factor: plana, intermedia y casi un escalón. Cuando un peso se lo lleva
# todo, $J$ entera tiende a 0: $A_j (1 - A_j)$ es pequeño en los dos extremos. Una softmax segura de sí misma no
# devuelve nada; la lección 08 mide qué le hace eso a la atención, y por qué las puntuaciones se dividen entre
# $\sqrt{c}$.

# %%
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
largest = []
for panel, factor in zip(panels, (0.0, 1.0, 8.0), strict=True):
    A = softmax(factor * X)[0]
    J = np.diag(A) - np.outer(A, A)
    largest.append(np.abs(J).max())
    image = panel.imshow(J, cmap="PuOr", vmin=-0.25, vmax=0.25)
    for i, j in np.ndindex(J.shape):
        colour = "white" if abs(J[i, j]) > 0.15 else "black"
        panel.text(j, i, f"{J[i, j]:.2g}", ha="center", va="center", fontsize=7, color=colour)
    panel.set_title(
        f"J,  A = softmax({factor:g} X)\nA = {np.array2string(A, precision=3, suppress_small=True)}", fontsize=9
    )
    panel.set(xticks=range(4), yticks=range(4), xlabel="j", ylabel="i")
figure.colorbar(image, ax=panels, label="dA_i / dX_j")
plt.show()
assert largest[2] < 0.01 * largest[0]

# %% [markdown] lang="en"
# ## Katas
#
# `softmax`, `softmax_jacobian`, `softmax_backward`, `softmax_simplified`

# %% [markdown] lang="es"
# ## Katas
#
# `softmax`, `softmax_jacobian`, `softmax_backward`, `softmax_simplified`
