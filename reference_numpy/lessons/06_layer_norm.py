# %% [markdown] lang="en"
# # Layer norm, from atoms to one line
#
# **The question.** Add 100 to every entry of a token: layer norm answers exactly as before. What does that say about
# its gradient, before anything is derived?
#
# That `dX` sums to 0 in every row: a direction in which the output does not move gets no gradient. Doubling the
# distances from the mean changes (nearly) nothing either, which is one more direction. The two means in the backward do
# nothing else: they remove these two directions.

# %% [markdown] lang="es"
# # La normalización por capas, de los átomos a una línea
#
# **La pregunta.** Suma 100 a todas las entradas de un token: la normalización por capas responde exactamente lo mismo.
# ¿Qué dice eso de su gradiente, antes de deducir nada?
#
# Que `dX` suma 0 en cada fila: una dirección en la que la salida no se mueve no recibe gradiente. Duplicar las
# distancias a la media tampoco cambia (casi) nada, y esa es otra dirección. Las dos medias del paso hacia atrás no
# hacen más que quitar esas dos direcciones.

# %%
import matplotlib.pyplot as plt
import numpy as np

import reference_numpy
from equivalence_tests import check
from equivalence_tests.dojo.witness import budget_used, complex_step

# %% [markdown] lang="en"
# ## Forward, one atom a line
#
# For a row of $d$ numbers, with mean $\mu$ and the biased variance (divided by $d$, not $d - 1$):
#
# $$D_j = X_j - \mu \qquad v = \frac{1}{d} \sum_j D_j^2 \qquad r = (v + \epsilon)^{-1/2} \qquad N_j = D_j\, r
# \qquad Y_j = g_j N_j + s_j$$
#
# `scale` $g$ and `shift` $s$ belong to the column and serve every row; $\mu$, $v$ and $r$ belong to the row. The
# variance takes two passes over the row. The school formula $E[x^2] - \mu^2$ needs one, and subtracts two huge numbers
# that are nearly equal.

# %% [markdown] lang="es"
# ## Hacia adelante, un átomo por línea
#
# Para una fila de $d$ números, con media $\mu$ y la varianza sesgada (dividida entre $d$, no entre $d - 1$):
#
# $$D_j = X_j - \mu \qquad v = \frac{1}{d} \sum_j D_j^2 \qquad r = (v + \epsilon)^{-1/2} \qquad N_j = D_j\, r
# \qquad Y_j = g_j N_j + s_j$$
#
# `scale` $g$ y `shift` $s$ son de la columna y sirven a todas las filas; $\mu$, $v$ y $r$ son de la fila. La varianza
# recorre la fila dos veces. La fórmula escolar $E[x^2] - \mu^2$ la recorre una, y resta dos números enormes casi
# iguales.

# %%


def layer_norm(X, scale, shift, epsilon=1e-5):
    D = X - X.mean(-1, keepdims=True)
    v = (D * D).mean(-1, keepdims=True)
    r = 1.0 / np.sqrt(v + epsilon)
    N = D * r
    return scale * N + shift, (D, r, N, scale)


row = np.arange(40000, 40004, dtype=np.float32)
D = row - row.mean()
assert (D * D).mean() == 1.25
one_pass = (row * row).mean() - row.mean() ** 2
assert one_pass != 1.25
print(one_pass)

# %% [markdown] lang="en"
# ## Backward, one atom a line
#
# From the last atom to the first. At each one the question is the same: which numbers does this one reach?
#
# * $Y_j = g_j N_j + s_j$. Column $j$ of every row: $dg_j = \sum_{\text{rows}} dY_j N_j$,
#   $ds_j = \sum_{\text{rows}} dY_j$; and $dN_j = dY_j\, g_j$.
# * $N_j = D_j\, r$. $D_j$ reaches $N_j$ alone; $r$ reaches the whole row: $dD_j = dN_j\, r$ and $dr = \sum_j dN_j D_j$.
# * $r = (v + \epsilon)^{-1/2}$, so $dr/dv = -\frac{1}{2} (v + \epsilon)^{-3/2} = -\frac{1}{2} r^3$:
#   $dv = -\frac{1}{2} r^3\, dr$.
# * $v = \frac{1}{d} \sum_j D_j^2$. $D_j$ gets a second share: $dD_j$ grows by $\frac{2}{d} D_j\, dv$.
# * $D_j = X_j - \frac{1}{d} \sum_k X_k$. $X_k$ reaches its own $D_k$, and every $D_j$ through the mean:
#
# $$dX_k = \sum_j dD_j \Big(1[j = k] - \frac{1}{d}\Big) = dD_k - \frac{1}{d} \sum_j dD_j$$
#
# ## From atoms to one line
#
# Put the shares of $dD$ together, with $D_j\, r = N_j$ twice (once inside the sum):
#
# $$dD_j = r\, dN_j - \frac{1}{d} D_j r^3 \sum_k dN_k D_k = r \Big(dN_j - N_j\, \frac{1}{d} \sum_k dN_k N_k\Big)$$
#
# Its mean over the row loses the second term, since $N$ has mean 0. Subtract it:
#
# $$dX = r\, \big(dN - \mathrm{mean}(dN) - N\, \mathrm{mean}(dN \cdot N)\big) \qquad\qquad dN = dY \cdot g$$

# %% [markdown] lang="es"
# ## Hacia atrás, un átomo por línea
#
# Del último átomo al primero. En cada uno la pregunta es la misma: ¿a qué números llega este?
#
# * $Y_j = g_j N_j + s_j$. La columna $j$ de todas las filas: $dg_j = \sum_{\text{filas}} dY_j N_j$,
#   $ds_j = \sum_{\text{filas}} dY_j$; y $dN_j = dY_j\, g_j$.
# * $N_j = D_j\, r$. $D_j$ solo llega a $N_j$; $r$ llega a toda la fila: $dD_j = dN_j\, r$ y $dr = \sum_j dN_j D_j$.
# * $r = (v + \epsilon)^{-1/2}$, así que $dr/dv = -\frac{1}{2} (v + \epsilon)^{-3/2} = -\frac{1}{2} r^3$:
#   $dv = -\frac{1}{2} r^3\, dr$.
# * $v = \frac{1}{d} \sum_j D_j^2$. $D_j$ recibe una segunda parte: $dD_j$ crece en $\frac{2}{d} D_j\, dv$.
# * $D_j = X_j - \frac{1}{d} \sum_k X_k$. $X_k$ llega a su propio $D_k$ y, a través de la media, a todos los $D_j$:
#
# $$dX_k = \sum_j dD_j \Big(1[j = k] - \frac{1}{d}\Big) = dD_k - \frac{1}{d} \sum_j dD_j$$
#
# ## De los átomos a una línea
#
# Junta las dos partes de $dD$, usando dos veces $D_j\, r = N_j$ (una de ellas dentro de la suma):
#
# $$dD_j = r\, dN_j - \frac{1}{d} D_j r^3 \sum_k dN_k D_k = r \Big(dN_j - N_j\, \frac{1}{d} \sum_k dN_k N_k\Big)$$
#
# En su media sobre la fila el segundo término desaparece, porque $N$ tiene media 0. Réstala:
#
# $$dX = r\, \big(dN - \mathrm{mean}(dN) - N\, \mathrm{mean}(dN \cdot N)\big) \qquad\qquad dN = dY \cdot g$$

# %%


def by_atoms(dY, cache):
    D, r, _, scale = cache
    dN = dY * scale
    dD = dN * r
    dr = (dN * D).sum(-1, keepdims=True)
    dv = -0.5 * r**3 * dr
    dD = dD + 2.0 / D.shape[-1] * D * dv
    return dD - dD.mean(-1, keepdims=True)


def layer_norm_backward(dY, cache):
    _, r, N, scale = cache
    dN = dY * scale
    dX = r * (dN - dN.mean(-1, keepdims=True) - N * (dN * N).mean(-1, keepdims=True))
    rows = tuple(range(dY.ndim - 1))
    return dX, (dY * N).sum(rows), dY.sum(rows)


rng = np.random.default_rng(6)
n, d = 3, 7
X = 2.0 * rng.standard_normal((n, d)) + 5.0
scale, shift = rng.standard_normal((2, d))
dY = rng.standard_normal((n, d))
given = {"X": X, "scale": scale, "shift": shift, "dY": dY}
cache = layer_norm(X, scale, shift)[1]
dX, dscale, dshift = layer_norm_backward(dY, cache)
step = complex_step(lambda X: layer_norm(X, scale, shift)[0], X, dY)
assert budget_used("layer_norm", given, dX=dX, dscale=dscale, dshift=dshift) <= 1.0
assert budget_used("layer_norm", given, dX=by_atoms(dY, cache)) <= 1.0
assert budget_used("layer_norm", given, dX=step) <= 1.0
assert check(layer_norm, like="layer_norm", backward=layer_norm_backward, cases=20).passed

# %% [markdown] lang="en"
# ## The mistake people make here
#
# The scale $g$ is pulled out in front: $g\, r\, (dY - \mathrm{mean}(dY) - N\, \mathrm{mean}(dY \cdot N))$. A public
# transformer in NumPy had it so. It is wrong because $g$ differs from column to column and the means mix columns. It is
# *exactly right* while all of $g$ is 1, that is at initialisation, which is when people run their gradient check. And
# it trains.

# %% [markdown] lang="es"
# ## El error que se comete aquí
#
# Sacar $g$ (`scale`) fuera: $g\, r\, (dY - \mathrm{mean}(dY) - N\, \mathrm{mean}(dY \cdot N))$. Así estaba en un
# transformer público en NumPy. Está mal porque $g$ cambia de columna en columna y las medias mezclan columnas. Y es
# *exactamente correcto* mientras todo $g$ vale 1, es decir, al inicializar, que es cuando la gente comprueba sus
# gradientes. Y aun así entrena.

# %%


def scale_outside(dY, cache):
    _, r, N, scale = cache
    dX = scale * r * (dY - dY.mean(-1, keepdims=True) - N * (dY * N).mean(-1, keepdims=True))
    return dX, *layer_norm_backward(dY, cache)[1:]


fresh = layer_norm(X, np.ones(d), shift)[1]
assert np.array_equal(scale_outside(dY, fresh)[0], layer_norm_backward(dY, fresh)[0])
wrong = scale_outside(dY, cache)[0]
assert budget_used("layer_norm", given, dX=wrong) > 1.0
report = check(layer_norm, like="layer_norm", backward=scale_outside, cases=20)
assert not report.passed
print(report.findings[0].code, np.linalg.norm(wrong - dX) / np.linalg.norm(dX))
print(dX.sum(-1), wrong.sum(-1))  # the row sums tell on it

# %% [markdown] lang="en"
# ## Before the part or after it
#
# A block adds a part $f$ to its input. The original transformer put the norm after the sum, a GPT puts it before the
# part:
#
# $$\text{after: } Y = \mathrm{norm}(X + f(X)) \qquad\qquad \text{before: } Y = X + f(\mathrm{norm}(X))$$
#
# A sum forks the gradient. With the norm before the part, one branch of the fork is $dY$ itself, block after block:
# whatever the parts do, $dX = dY + \dots$ from end to end. With the norm after it, that branch passes through every
# norm, and each one multiplies it by $r$ at most. As the sum of two things varies more than one of them, $r < 1$, and
# the product shrinks with depth. Measured here for 24 blocks with $f(x) = \tanh(x W)$, once the residual path alone and
# once the whole gradient. The whole gradient lives in both cases, because these parts hand back about as much as they
# take. But with the norm behind the sum it depends on the parts alone: one that hands back little leaves only the path
# that shrinks.

# %% [markdown] lang="es"
# ## Antes de la parte o después
#
# Un bloque suma una parte $f$ a su entrada. El transformer original ponía la norma después de la suma; un GPT la pone
# antes de la parte:
#
# $$\text{después: } Y = \mathrm{norm}(X + f(X)) \qquad\qquad \text{antes: } Y = X + f(\mathrm{norm}(X))$$
#
# Una suma bifurca el gradiente. Con la norma antes de la parte, una de las dos ramas es el propio $dY$, bloque tras
# bloque: hagan lo que hagan las partes, $dX = dY + \dots$ de un extremo a otro. Con la norma después, esa rama
# atraviesa todas las normas, y cada una la multiplica por $r$ como mucho. Como la suma de dos cosas varía más que una
# sola, $r < 1$, y el producto se encoge con la profundidad. Aquí se mide en 24 bloques con $f(x) = \tanh(x W)$: el
# camino residual solo y el gradiente entero. El gradiente entero vive en ambos casos, porque estas partes devuelven más
# o menos lo que toman. Pero con la norma detrás de la suma depende solo de las partes: si devuelven poco, solo queda el
# camino que se encoge.

# %%
blocks, width = 24, 64
weights = rng.standard_normal((blocks, width, width)) / np.sqrt(width)
start, end = rng.standard_normal((2, 8, width))
ones, zeros = np.ones(width), np.zeros(width)


def norms_of_gradients(before):
    """Norms of dX after each block, from the last to the first: along the residual path alone, and in all."""
    X, caches = start, []
    for W in weights:
        N, norm = reference_numpy.layer_norm(X, ones, zeros) if before else (X, None)
        part = np.tanh(N @ W)
        X = X + part
        if not before:
            X, norm = reference_numpy.layer_norm(X, ones, zeros)
        caches.append((W, part, norm))
    path, whole, norms, bound = end, end, [], np.linalg.norm(end)
    for W, part, norm in reversed(caches):
        if before:
            dN = (whole * (1.0 - part * part)) @ W.T
            whole = whole + reference_numpy.layer_norm_backward(dN, norm)[0]
        else:
            path = reference_numpy.layer_norm_backward(path, norm)[0]
            whole = reference_numpy.layer_norm_backward(whole, norm)[0]
            whole = whole + (whole * (1.0 - part * part)) @ W.T
            bound *= norm[1].max()
        norms.append((np.linalg.norm(path), np.linalg.norm(whole)))
    return path, np.array(norms), bound


path, before, _ = norms_of_gradients(before=True)
assert np.array_equal(path, end)
path, after, bound = norms_of_gradients(before=False)
assert after[-1, 0] <= bound < before[-1, 0]
print(before[-1] / np.linalg.norm(end), after[-1] / np.linalg.norm(end))

depth = np.arange(blocks, 0, -1)
for norms, colour, name in ((before, "#0072b2", "X + f(norm(X))"), (after, "#d55e00", "norm(X + f(X))")):
    plt.semilogy(depth, norms[:, 1], color=colour, label=name)
    plt.semilogy(depth, norms[:, 0], color=colour, linestyle="--", label=f"{name}, f' = 0")
plt.xlabel("block")
plt.ylabel("|dX|")
plt.legend(frameon=False)
plt.show()

# %% [markdown] lang="en"
# ## Katas
#
# `layer_norm`, `layer_norm_backward`, `layer_norm_simplified`, `layer_norm_bug`

# %% [markdown] lang="es"
# ## Katas
#
# `layer_norm`, `layer_norm_backward`, `layer_norm_simplified`, `layer_norm_bug`
