# %% [markdown] lang="en"
# # How to check a gradient
#
# **The question.** You have derived a backward and written it down. How do you know that it is right? And how do you
# know that your test would have noticed, had it been wrong?

# %% [markdown] lang="es"
# # Cómo comprobar un gradiente
#
# **La pregunta.** Has deducido un paso hacia atrás y lo has escrito. ¿Cómo sabes que está bien? ¿Y cómo sabes que tu
# prueba se habría dado cuenta si estuviera mal?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check, check_backward
from reference_numpy import attention, attention_backward, softmax

rng = np.random.default_rng(13)
U = 2.0**-53  # the unit roundoff of float64
BLUE, GREEN, VERMILION = "#0072b2", "#009e73", "#d55e00"

# %% [markdown] lang="en"
# ## Three ways to take a derivative by numbers
#
# Expand $f$ around $x$, along the real line and along the imaginary one:
#
# $$f(x \pm h) = f \pm h f' + \tfrac{h^2}{2} f'' \pm \tfrac{h^3}{6} f''' + \ldots, \qquad
# f(x + ih) = f + ih f' - \tfrac{h^2}{2} f'' - i\tfrac{h^3}{6} f''' + \ldots$$
#
# From these, three formulas and their errors of truncation:
#
# $$\frac{f(x+h) - f(x)}{h} = f' + \tfrac{h}{2} f'' + \ldots, \qquad
# \frac{f(x+h) - f(x-h)}{2h} = f' + \tfrac{h^2}{6} f''' + \ldots, \qquad
# \frac{\mathrm{Im}\, f(x+ih)}{h} = f' - \tfrac{h^2}{6} f''' + \ldots$$
#
# A smaller $h$ is better, until rounding speaks: $f(x+h)$ and $f(x)$ are each known to $u |f|$ only, and what is left
# after subtracting them is divided by $h$. The error is about $h |f''|/2 + 2u|f|/h$, least near $h \approx \sqrt u$,
# and there it is $\sqrt u \approx 10^{-8}$: half of the digits are gone. The central difference gets to
# $u^{2/3} \approx 10^{-11}$. The complex step subtracts nothing: $f'$ stands alone in the imaginary part, so $h$ can be
# $10^{-20}$ and all digits are right.

# %% [markdown] lang="es"
# ## Tres maneras de derivar con números
#
# Desarrolla $f$ alrededor de $x$, a lo largo de la recta real y a lo largo de la imaginaria:
#
# $$f(x \pm h) = f \pm h f' + \tfrac{h^2}{2} f'' \pm \tfrac{h^3}{6} f''' + \ldots, \qquad
# f(x + ih) = f + ih f' - \tfrac{h^2}{2} f'' - i\tfrac{h^3}{6} f''' + \ldots$$
#
# De ahí salen tres fórmulas, con sus errores de truncamiento:
#
# $$\frac{f(x+h) - f(x)}{h} = f' + \tfrac{h}{2} f'' + \ldots, \qquad
# \frac{f(x+h) - f(x-h)}{2h} = f' + \tfrac{h^2}{6} f''' + \ldots, \qquad
# \frac{\mathrm{Im}\, f(x+ih)}{h} = f' - \tfrac{h^2}{6} f''' + \ldots$$
#
# Cuanto menor es $h$, mejor; hasta que habla el redondeo: $f(x+h)$ y $f(x)$ se conocen solo con error $u |f|$, y lo que
# queda al restarlos se divide entre $h$. El error es más o menos $h |f''|/2 + 2u|f|/h$, mínimo cerca de
# $h \approx \sqrt u$, y ahí vale $\sqrt u \approx 10^{-8}$: se ha perdido la mitad de las cifras. La diferencia central
# llega a $u^{2/3} \approx 10^{-11}$. El paso complejo no resta nada: $f'$ está sola en la parte imaginaria, así que $h$
# puede ser $10^{-20}$ y todas las cifras son correctas.

# %%
S, G = rng.standard_normal((2, 6))


def f(x):
    """<G, softmax(x S)>, written so that a complex x flows through: the maximum comes from the real part."""
    E = np.exp(x * S - (x * S).real.max())
    return (G * E).sum() / E.sum()


x = 0.7
wide = np.exp(np.longdouble(x) * S)
A = wide / wide.sum()
truth = (G * A * (S - (A * S).sum())).sum()  # the derivative by hand, in extended precision
steps = 10.0 ** np.arange(-20.0, 0.0, 0.5)
forward = np.abs([(f(x + h) - f(x)) / h - truth for h in steps]).astype(float)
central = np.abs([(f(x + h) - f(x - h)) / (2 * h) - truth for h in steps]).astype(float)
complex_step = np.abs([f(x + 1j * h).imag / h - truth for h in steps]).astype(float)

figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for errors, colour, mark, label in (
    (forward, VERMILION, "s--", "$(f(x+h) - f(x))\\,/\\,h$"),
    (central, GREEN, "^-.", "$(f(x+h) - f(x-h))\\,/\\,2h$"),
    (complex_step, BLUE, "o-", r"$\mathrm{Im}\,f(x+ih)\,/\,h$"),
):
    axes.loglog(steps, np.maximum(errors, 1e-18), mark, color=colour, markersize=3.5, linewidth=1.0, label=label)
axes.axhline(U, color="grey", linestyle=":", label="$u$")
axes.set(xlabel="$h$", ylabel=r"$|\cdot - f'|$")
axes.legend(frameon=False, fontsize=8)
plt.show()

at = {h: i for i, h in enumerate(np.round(np.log10(steps), 1))}
print("least errors:", forward.min(), central.min(), "  complex step at 1e-20:", complex_step[0])
assert complex_step[0] <= 4 * (len(S) + 4) * U * np.abs(G * A * S).sum()  # rounding, and nothing else
assert min(forward.min(), central.min()) > 10 * complex_step[0]
assert abs(math.log10(forward[at[-2.0]] / forward[at[-3.0]]) - 1.0) < 0.1  # a tenth of h: a tenth of the error
assert abs(math.log10(central[at[-2.0]] / central[at[-3.0]]) - 2.0) < 0.1  # and a hundredth

# %% [markdown] lang="en"
# ## The small print of complex steps
#
# The whole forward has to let complex numbers through, as analytic functions do: the maximum from `.real`, masks by
# `np.where` with a real condition, no `.conj()`. And no `abs`, which is the mistake people make here: $|x + ih|$ is a
# real number, so the imaginary part is gone and the derivative is 0, without a word.

# %% [markdown] lang="es"
# ## La letra pequeña del paso complejo
#
# Todo el paso hacia adelante tiene que dejar pasar números complejos, como hacen las funciones analíticas: el máximo,
# de `.real`; las máscaras, con `np.where` y una condición real; nada de `.conj()`. Y nada de `abs`, que es el error
# típico: $|x + ih|$ es un número real, así que la parte imaginaria desaparece y la derivada sale 0, sin previo aviso.

# %%
h, x = 1e-20, -2.0 + 1e-20j
print("abs:", np.abs(x).imag / h, "  where:", np.where(x.real > 0, x, -x).imag / h)
assert np.abs(x).imag == 0.0
assert np.where(x.real > 0, x, -x).imag / h == -1.0

# %% [markdown] lang="en"
# ## The adjoint identity: one number for the whole Jacobian
#
# A complex step for each input is exact, and slow: as many forwards as there are numbers. But the forward's Jacobian
# $J$ and the backward's $J^T$ have to be the same matrix. For any $v$ and any upstream gradient $g$,
#
# $$\langle g, J v \rangle = \sum_i g_i \sum_j J_{ij} v_j = \sum_j \Bigl(\sum_i g_i J_{ij}\Bigr) v_j =
# \langle J^T g, v \rangle.$$
#
# Left: one complex step along $v$, for all operands at once. Right: one call of the backward. If the backward is off by
# $e$, the two differ by $\langle e, v \rangle$, and for a random $v$ that is 0 with probability 0.

# %% [markdown] lang="es"
# ## La identidad adjunta: un solo número para todo el jacobiano
#
# Un paso complejo por cada entrada es exacto, y lento: tantos pasos hacia adelante como números haya. Pero el jacobiano
# $J$ del paso hacia adelante y el $J^T$ del paso hacia atrás tienen que ser la misma matriz. Para cualquier $v$ y
# cualquier gradiente $g$ que llegue,
#
# $$\langle g, J v \rangle = \sum_i g_i \sum_j J_{ij} v_j = \sum_j \Bigl(\sum_i g_i J_{ij}\Bigr) v_j =
# \langle J^T g, v \rangle.$$
#
# A la izquierda, un paso complejo en la dirección $v$, con todos los operandos a la vez. A la derecha, una llamada al
# paso hacia atrás. Si este se equivoca en $e$, los dos lados difieren en $\langle e, v \rangle$, y con un $v$ aleatorio
# eso vale 0 con probabilidad 0.

# %%
n, m, c = 4, 5, 3
Q, K, V = (rng.standard_normal((rows, c)) for rows in (n, m, m))
v = [rng.standard_normal(operand.shape) for operand in (Q, K, V)]
dC = rng.standard_normal((n, c))
moved = attention(*(operand + 1j * h * way for operand, way in zip((Q, K, V), v, strict=True)))[0].imag / h
gradients = attention_backward(dC, attention(Q, K, V)[1])
left, right = (dC * moved).sum(), sum((g * way).sum() for g, way in zip(gradients, v, strict=True))
size = sum(np.abs(g * way).sum() for g, way in zip(gradients, v, strict=True))
bound = 2 * sum(k + 1 for k in (c, m, m, m, n * c)) * U * size  # the sums on the way, each rounded by its length
print(f"<g, J v> = {left:.15f}   <J^T g, v> = {right:.15f}")
assert abs(left - right) <= bound

wrong = sum((g * way).sum() for g, way in zip((gradients[0] * math.sqrt(c), *gradients[1:]), v, strict=True))
print(f"had dQ no 1/sqrt(c): {wrong:.15f}")
assert abs(left - wrong) > 1e9 * bound

# %% [markdown] lang="en"
# ## What famous tests miss
#
# A test is worth what it rejects. Here are a scaled softmax, $A = \mathrm{softmax}(X / \sqrt c)$, four wrong backwards
# of it, and the tests that one meets in real repositories:
#
# - **sum**: the loss is `A.sum()`, so the upstream gradient is ones. The rows of $A$ sum to 1 whatever $X$ is: the
#   right gradient is 0, and everything that is 0, too, passes.
# - **mean**: the loss is a mean over many numbers; all gradients are below `atol`, and zeros pass.
# - **cosine**: the direction is compared. A wrong factor has the right direction. And for zeros it is 0 / 0:
#   `nan < 0.99` is False.
# - **difference**: `if np.abs(wrong - right).max() > tol`: with NaN the comparison is False, so NaN passes.
# - **loss**: it goes down in ten steps. Almost any direction goes down.
#
# The last column is what this project asks for: a random upstream gradient, complex steps, an error within a computed
# bound, written so that NaN is outside it. In the table, x means that the test lets it pass.

# %% [markdown] lang="es"
# ## Lo que no ven algunas pruebas famosas
#
# Una prueba vale lo que rechaza. Aquí tienes un softmax con escala, $A = \mathrm{softmax}(X / \sqrt c)$, cuatro pasos
# hacia atrás incorrectos y las pruebas que se encuentran en repositorios reales:
#
# - **sum**: la pérdida es `A.sum()`, así que el gradiente que llega está hecho de unos. Las filas de $A$ suman 1 sea
#   cual sea $X$: el gradiente correcto es 0, y pasa todo lo que también sea 0.
# - **mean**: la pérdida es una media sobre muchos números; todos los gradientes quedan por debajo de `atol`, y los
#   ceros pasan.
# - **cosine**: se compara la dirección. Un factor equivocado tiene la dirección correcta. Y con ceros sale 0 / 0:
#   `nan < 0.99` es falso.
# - **difference**: `if np.abs(wrong - right).max() > tol`: con NaN la comparación es falsa, así que NaN pasa.
# - **loss**: baja en diez pasos. Casi cualquier dirección baja.
#
# La última columna es lo que pide este proyecto: un gradiente aleatorio desde arriba, pasos complejos y un error dentro
# de un margen calculado, escrito de modo que NaN quede fuera. En la tabla, x significa que la prueba lo deja pasar.

# %%
c, X = 8, rng.standard_normal((7, 9))
random = rng.standard_normal(X.shape)


def scaled_softmax(X):
    E = np.exp((X - X.real.max(-1, keepdims=True)) / math.sqrt(c))
    return E / E.sum(-1, keepdims=True)


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True)) / math.sqrt(c)


def with_nan(dA, A):
    dX = right(dA, A)
    dX[0, 0] = np.nan
    return dX


WRONG = {
    "0": lambda dA, A: np.zeros_like(A),
    "dX sqrt(c)": lambda dA, A: right(dA, A) * math.sqrt(c),
    "A dA / sqrt(c)": lambda dA, A: A * dA / math.sqrt(c),
    "NaN": with_nan,
}


def by_sum(backward):
    A = scaled_softmax(X)
    return np.allclose(backward(np.ones_like(A), A), right(np.ones_like(A), A))


def by_mean(backward):
    A = scaled_softmax(X)
    dA = random / 100_000  # a mean over so many numbers
    return np.allclose(backward(dA, A), right(dA, A), atol=1e-5)


def by_cosine(backward):
    a, b = (g(random, scaled_softmax(X)).ravel() for g in (backward, right))
    with np.errstate(invalid="ignore"):
        return not (a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) < 0.99)


def by_difference(backward):
    A = scaled_softmax(X)
    return not (np.abs(backward(random, A) - right(random, A)).max() > 1e-6)


def by_loss(backward):
    Y = X.copy()
    for _ in range(10):
        Y -= 0.1 * backward(random, scaled_softmax(Y))
    return not ((random * scaled_softmax(Y)).sum() > (random * scaled_softmax(X)).sum())


def by_complex_steps(backward):
    dX = backward(random, scaled_softmax(X))
    for place in np.ndindex(X.shape):
        moved = X.astype(complex)
        moved[place] += 1j * h
        row = random[place[0]] * scaled_softmax(moved)[place[0]].imag / h
        size = np.abs(row).sum() + np.abs(random).max()
        if not abs(row.sum() - dX[place]) <= 4 * (X.shape[1] + 5) * U * size:  # `not <=`: NaN is caught
            return False
    return True


TESTS = (by_sum, by_mean, by_cosine, by_difference, by_loss, by_complex_steps)
print(" " * 16 + "".join(f"{test.__name__.removeprefix('by_'):>15}" for test in TESTS))
passes = {name: [bool(test(backward)) for test in TESTS] for name, backward in {"dX": right, **WRONG}.items()}
for name, verdicts in passes.items():
    print(f"{name:16}" + "".join(f"{'x' if verdict else '-':>15}" for verdict in verdicts))
assert all(passes["dX"])  # the right one passes everywhere
assert not any(passes[name][-1] for name in WRONG)  # no wrong one passes the last
assert all(
    any(passes[name][i] for name in WRONG) for i in range(len(TESTS) - 1)
)  # each of the others lets some through

# %% [markdown] lang="en"
# The inputs matter as much as the test. With $H = 4$ heads of width $c = 4$ in a model of width $d = 16$, $1/c$ and
# $1/\sqrt d$ are one number; with $n = d$ a transposed product has the right shape; with scale 1 and shift 0, as at the
# beginning of a training, a scale in the wrong place is invisible. So sizes should be pairwise different, weights
# neither 0 nor 1, ids repeat, some rows be masked.
#
# ## A bound instead of a tolerance
#
# How close is close enough? `rtol=1e-5` is a guess: too strict where a sum cancels, too lax elsewhere. But the error of
# rounding can be computed. Each operation gives $(1 + \delta)$ times its exact result, $|\delta| \le u$; a sum of $k$
# products has $k$ roundings of products and additions on the way of each term, so
#
# $$|\widehat{XY} - XY| \le (k + 1)\, u\, |X|\,|Y|,$$
#
# entry by entry, with the absolute values multiplied as matrices. The errors that $X$ and $Y$ bring along, $E(X)$ and
# $E(Y)$, pass through as $|X| E(Y) + E(X) |Y|$. That is the whole idea of the *budget* behind `gemelos check`: this
# rule line by line.

# %% [markdown] lang="es"
# Las entradas importan tanto como la prueba. Con $H = 4$ cabezas de anchura $c = 4$ en un modelo de anchura $d = 16$,
# $1/c$ y $1/\sqrt d$ son el mismo número; con $n = d$, un producto traspuesto tiene la forma correcta; con escala 1 y
# desplazamiento 0, como al empezar a entrenar, una escala mal puesta es invisible. Por eso conviene que los tamaños
# sean distintos dos a dos, que los pesos no sean ni 0 ni 1, que haya ids repetidos y filas enmascaradas.
#
# ## Un margen en lugar de una tolerancia
#
# ¿Cuánto es bastante cerca? `rtol=1e-5` es una conjetura: demasiado severa donde una suma se cancela, demasiado laxa en
# otros sitios. Pero el error de redondeo se puede calcular. Cada operación da $(1 + \delta)$ veces su resultado exacto,
# con $|\delta| \le u$; en una suma de $k$ productos, cada término pasa a lo sumo por $k$ redondeos, entre productos y
# sumas, así que
#
# $$|\widehat{XY} - XY| \le (k + 1)\, u\, |X|\,|Y|,$$
#
# entrada por entrada, multiplicando como matrices los valores absolutos. Los errores que ya traen $X$ e $Y$, $E(X)$ y
# $E(Y)$, pasan como $|X| E(Y) + E(X) |Y|$. Esa es toda la idea del *margen* que hay detrás de `gemelos check`: esta
# regla, línea por línea.

# %%
k, narrow = 50, 2.0**-24  # the unit roundoff of float32
X32, Y32 = rng.standard_normal((2, 40, k)).astype(np.float32)
wide_X, wide_Y = X32.astype(float), Y32.astype(float)
error = np.abs(X32 @ Y32.T - wide_X @ wide_Y.T)
budget = (k + 1) * narrow * (np.abs(wide_X) @ np.abs(wide_Y).T)
print(f"largest share of the budget: {(error / budget).max():.3f}")
print(
    "right entries that rtol=1e-5 rejects:",
    (~np.isclose(X32 @ Y32.T, wide_X @ wide_Y.T, rtol=1e-5)).sum(),
    "of",
    error.size,
)
assert (error <= budget).all()


def my_softmax_backward(dA, cache):
    A, axis = cache
    return A * (dA - (A * dA).sum(axis, keepdims=True))


assert check(softmax, like="softmax", backward=my_softmax_backward, cases=40).passed
assert not check_backward(lambda dA, cache: cache[0] * dA, like="softmax", cases=8, dtype="float64").passed

# %% [markdown] lang="en"
# ## Katas
#
# - `gradient_check`: a central difference and a complex step of your own
# - `checker_bug`: a checker that cannot fail; make it fail

# %% [markdown] lang="es"
# ## Katas
#
# - `gradient_check`: una diferencia central y un paso complejo hechos por ti
# - `checker_bug`: una comprobación que no puede fallar; haz que falle
