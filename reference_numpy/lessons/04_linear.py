# %% [markdown] lang="en"
# # Linear layers with batch and time
#
# **The question.** One weight matrix serves every token of every text in the batch. Each of those uses tells it
# something else: up a little, down a lot. Which of them does it follow?
#
# All of them: it follows their sum. This lesson is about what is summed, over which axes, and how to see it without
# thinking.

# %% [markdown] lang="es"
# # Capas lineales con lote y tiempo
#
# **La pregunta.** Una sola matriz de pesos sirve a todos los tokens de todos los textos del lote. Cada uso le dice otra
# cosa: sube un poco, baja mucho. ¿A cuál hace caso?
#
# A todos: hace caso a su suma. Esta lección trata de qué se suma, sobre qué ejes, y de cómo verlo sin pensarlo mucho.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check
from equivalence_tests.dojo.witness import budget_used, complex_step

# %% [markdown] lang="en"
# ## Indices first
#
# `X` has the shape `(B, T, d)`: text $b$, position $t$, entry $i$. The weight lies as `(k, d)`, one row per output, as
# PyTorch keeps it. For one output $o$:
#
# $$Y_{bto} = \sum_i X_{bti} W_{oi} + b_o \qquad\qquad Y = X W^T + b$$
#
# Now let `dY` arrive, and ask of each operand which outputs it reaches. That is what its gradient sums over:
#
# * $X_{bti}$ reaches the outputs of its own token, all $o$ of them;
# * $W_{oi}$ reaches output $o$ of **every** token, all $b$ and $t$;
# * $b_o$ reaches the same ones, with the factor 1.
#
# $$dX_{bti} = \sum_o dY_{bto} W_{oi} \qquad\qquad dW_{oi} = \sum_b \sum_t dY_{bto} X_{bti} \qquad\qquad
# db_o = \sum_b \sum_t dY_{bto}$$
#
# Nothing tells $b$ and $t$ apart in the last two, so lay all tokens below each other, $N = B\,T$ rows, and the sums are
# products:
#
# $$dX = dY\, W \qquad\qquad dW = dY_{\text{rows}}^T\, X_{\text{rows}} \qquad\qquad db = \mathrm{sum}(dY_{\text{rows}})$$

# %% [markdown] lang="es"
# ## Primero los índices
#
# `X` tiene la forma `(B, T, d)`: texto $b$, posición $t$, entrada $i$. El peso es `(k, d)`, una fila por salida, como
# lo guarda PyTorch. Para una salida $o$:
#
# $$Y_{bto} = \sum_i X_{bti} W_{oi} + b_o \qquad\qquad Y = X W^T + b$$
#
# Ahora llega `dY`. Pregúntale a cada operando a qué salidas llega: sobre ellas suma su gradiente.
#
# * $X_{bti}$ llega a las salidas de su propio token, a todas las $o$;
# * $W_{oi}$ llega a la salida $o$ de **todos** los tokens, todos los $b$ y $t$;
# * $b_o$ llega a las mismas, con el factor 1.
#
# $$dX_{bti} = \sum_o dY_{bto} W_{oi} \qquad\qquad dW_{oi} = \sum_b \sum_t dY_{bto} X_{bti} \qquad\qquad
# db_o = \sum_b \sum_t dY_{bto}$$
#
# En las dos últimas nada distingue $b$ de $t$: pon todos los tokens uno debajo de otro, $N = B\,T$ filas, y las sumas
# son productos:
#
# $$dX = dY\, W \qquad\qquad dW = dY_{\text{filas}}^T\, X_{\text{filas}} \qquad\qquad db = \mathrm{sum}(dY_{\text{filas}})$$

# %%


def linear(X, weight, bias=None):
    Y = X @ weight.T
    return Y if bias is None else Y + bias, (X, weight, bias)


def linear_backward(dY, cache):
    X, weight, bias = cache
    k, d = weight.shape
    rows = dY.reshape(-1, k)  # (N, k)
    dX, dW = dY @ weight, rows.T @ X.reshape(-1, d)
    return (dX, dW) if bias is None else (dX, dW, rows.sum(0))


rng = np.random.default_rng(4)
B, T, d, k = 2, 3, 4, 5
X = rng.integers(-3, 4, (B, T, d)).astype(float)
W = rng.integers(-3, 4, (k, d)).astype(float)
bias = rng.integers(-3, 4, k).astype(float)
dY = rng.integers(-3, 4, (B, T, k)).astype(float)

loops_dX, loops_dW, loops_db = np.zeros((B, T, d)), np.zeros((k, d)), np.zeros(k)
for b, t, o in np.ndindex(B, T, k):
    loops_db[o] += dY[b, t, o]
    for i in range(d):
        loops_dX[b, t, i] += dY[b, t, o] * W[o, i]
        loops_dW[o, i] += dY[b, t, o] * X[b, t, i]
dX, dW, db = linear_backward(dY, linear(X, W, bias)[1])
assert np.array_equal(dX, loops_dX)  # whole numbers: no rounding, so equal to the last bit
assert np.array_equal(dW, loops_dW)
assert np.array_equal(db, loops_db)
assert np.array_equal(dW, np.einsum("bto,bti->oi", dY, X))  # what is missing on the right is summed
assert check(linear, like="linear", backward=linear_backward, cases=20).passed

# %% [markdown] lang="en"
# The loss `sum(dY * Y)` is linear in the weight, so a step of size 1 shows its gradient exactly. And a text on its own
# gives a `dW` on its own: the batch's is their sum, not their mean. If a mean is wanted, the loss has taken it, and
# `dY` is small.

# %% [markdown] lang="es"
# La pérdida `sum(dY * Y)` es lineal en el peso, así que un paso de tamaño 1 muestra su gradiente exacto. Y cada texto
# por separado da su propio `dW`: el del lote es la suma, no la media. Si hace falta una media, ya la hizo la pérdida, y
# `dY` es pequeño.

# %%
for o, i in np.ndindex(k, d):
    step = np.zeros((k, d))
    step[o, i] = 1.0
    assert dW[o, i] == np.sum(dY * linear(X, W + step, bias)[0]) - np.sum(dY * linear(X, W, bias)[0])
one_by_one = [linear_backward(dY[b], (X[b], W, bias))[1] for b in range(B)]
assert np.array_equal(dW, sum(one_by_one))

# %% [markdown] lang="en"
# ## Shapes think for you, up to a point
#
# A gradient has the shape of what it belongs to. From `dY` (N, k) and `X` (N, d) only one product makes a `(k, d)`, the
# one above; so with sizes that all differ the shapes alone find the formula. With `k == d` two products fit, and one is
# wrong.
#
# ## The mistake people make here
#
# `db = dY.sum(0)`: right while `X` was `(N, d)`, and wrong since it has a time axis. The shape becomes `(T, k)`.
# Assigned in place it would raise an error; in `b = b - lr * db` it broadcasts, and from then on every position has a
# bias of its own. With a single position, T = 1, it even has the right values.

# %% [markdown] lang="es"
# ## Las formas piensan por ti, hasta cierto punto
#
# Un gradiente tiene la forma de aquello a lo que pertenece. Con `dY` (N, k) y `X` (N, d) solo un producto da `(k, d)`,
# el de arriba; con tamaños todos distintos, las formas encuentran la fórmula ellas solas. Con `k == d` encajan dos
# productos, y uno está mal.
#
# ## El error que se comete aquí
#
# `db = dY.sum(0)`: estaba bien mientras `X` era `(N, d)`, y mal desde que tiene un eje de tiempo. La forma pasa a ser
# `(T, k)`. Con una asignación en el sitio daría un error; en `b = b - lr * db`, NumPy lo expande (*broadcasting*), y
# desde entonces cada posición tiene un sesgo propio. Con una sola posición, T = 1, hasta los valores son correctos.

# %%


def over_axis_0(dY, cache):
    dX, dW, *db = linear_backward(dY, cache)
    return (dX, dW, dY.sum(0)) if db else (dX, dW)


wrong_db = over_axis_0(dY, (X, W, bias))[2]
assert wrong_db.shape == (T, k)
assert (bias - 0.5 * wrong_db).shape == (T, k)  # nobody complained
assert np.array_equal(wrong_db.sum(0), db)
report = check(linear, like="linear", backward=over_axis_0, cases=20)
assert not report.passed
print(report.findings[0].code)

# %% [markdown] lang="en"
# ## Elementwise functions
#
# If $Y_i = f(X_i)$, output $i$ depends on nothing but input $i$. The Jacobian is diagonal, and of the sum over outputs
# a single term is left:
#
# $$dX_i = \sum_j dY_j \frac{\partial Y_j}{\partial X_i} = dY_i\, f'(X_i)$$
#
# * **relu**: $\max(x, 0)$, with slope 1 above 0 and 0 below. At 0 itself there is no derivative, and 0 is agreed on.
# * **tanh** $= s/c$ with $s' = c$ and $c' = s$ (sinh, cosh). The quotient rule needs only the output:
#
# $$\tanh' = \frac{c \cdot c - s \cdot s}{c^2} = 1 - \tanh^2$$
#
# * **gelu**, in its tanh form: $y = x (1 + t)/2$ with $t = \tanh u$ and $u = \sqrt{2/\pi}\,(x + 0.044715\, x^3)$. The
#   product rule gives two terms, and the second one goes through $t$ and $u$:
#
# $$\frac{dy}{dx} = \frac{1 + t}{2} + \frac{x}{2} (1 - t^2) \sqrt{2/\pi}\, (1 + 3 \cdot 0.044715\, x^2)$$

# %% [markdown] lang="es"
# ## Funciones elemento a elemento
#
# Si $Y_i = f(X_i)$, la salida $i$ solo depende de la entrada $i$. La jacobiana es diagonal, y de la suma sobre las
# salidas queda un solo término:
#
# $$dX_i = \sum_j dY_j \frac{\partial Y_j}{\partial X_i} = dY_i\, f'(X_i)$$
#
# * **relu**: $\max(x, 0)$, con pendiente 1 por encima de 0 y 0 por debajo. En el propio 0 no hay derivada, y se acuerda
#   que sea 0.
# * **tanh** $= s/c$ con $s' = c$ y $c' = s$ (sinh, cosh). A la regla del cociente le basta la salida:
#
# $$\tanh' = \frac{c \cdot c - s \cdot s}{c^2} = 1 - \tanh^2$$
#
# * **gelu**, en su forma con tanh: $y = x (1 + t)/2$, donde $t = \tanh u$ y $u = \sqrt{2/\pi}\,(x + 0.044715\, x^3)$.
#   La regla del producto da dos términos, y el segundo pasa por $t$ y por $u$:
#
# $$\frac{dy}{dx} = \frac{1 + t}{2} + \frac{x}{2} (1 - t^2) \sqrt{2/\pi}\, (1 + 3 \cdot 0.044715\, x^2)$$

# %%
SLOPE, CUBE = math.sqrt(2.0 / math.pi), 0.044715


def relu(X):
    Y = np.where(X.real > 0.0, X, 0.0)
    return Y, Y


def relu_backward(dY, Y):
    return np.where(Y > 0.0, dY, 0.0)


def tanh(X):
    Y = np.tanh(X)
    return Y, Y


def tanh_backward(dY, Y):
    return dY * (1.0 - Y * Y)


def gelu(X):
    t = np.tanh(SLOPE * (X + CUBE * X * X * X))
    return X * (1.0 + t) / 2.0, (X, t)


def gelu_backward(dY, cache):
    X, t = cache
    du = SLOPE * (1.0 + 3.0 * CUBE * X * X)
    return dY * ((1.0 + t) / 2.0 + X * (1.0 - t * t) * du / 2.0)


x, dy = rng.standard_normal((2, 7))
functions = {"relu": (relu, relu_backward), "tanh": (tanh, tanh_backward), "gelu": (gelu, gelu_backward)}
for name, (forward, backward) in functions.items():
    given = {"X": x, "dY": dy}
    assert budget_used(name, given, dX=backward(dy, forward(x)[1])) <= 1.0
    assert budget_used(name, given, dX=complex_step(lambda X, f=forward: f(X)[0], x, dy)) <= 1.0

# %% [markdown] lang="en"
# Two slips that leave everything smooth and plausible: the input where the output belongs, $1 - x^2$, and the 3 of the
# cube forgotten. Both are nearly right close to 0, where a freshly initialised net lives; the picture shows where they
# leave.

# %% [markdown] lang="es"
# Dos descuidos que lo dejan todo suave y verosímil: la entrada donde va la salida, $1 - x^2$, y olvidar el 3 del cubo.
# Los dos casi aciertan cerca de 0, donde vive una red recién inicializada; la figura muestra dónde se separan.

# %%


def without_the_3(dY, cache):
    X, t = cache
    return dY * ((1.0 + t) / 2.0 + X * (1.0 - t * t) * SLOPE * (1.0 + CUBE * X * X) / 2.0)


report = check(gelu, like="gelu", backward=without_the_3, cases=20)
assert not report.passed
print(report.findings[0].code)

x = np.linspace(-3.0, 3.0, 301)
one = np.ones_like(x)
figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
slips = {
    "tanh": ("1 - x^2", np.where(np.abs(x) < 1.4, 1.0 - x * x, np.nan)),
    "gelu": ("1, not 3", without_the_3(one, gelu(x)[1])),
}
for panel, (name, (forward, backward)) in zip(panels, functions.items(), strict=True):
    value, cache = forward(x)
    panel.plot(x, value, color="0.6", label="f")
    panel.plot(x, backward(one, cache), color="#0072b2", label="f'")
    if name in slips:
        panel.plot(x, slips[name][1], color="#d55e00", linestyle="--", label=slips[name][0])
    panel.set_title(name)
    panel.legend(frameon=False)
plt.show()

# %% [markdown] lang="en"
# ## Katas
#
# `linear_backward`, `linear_bug`, `predict_shapes`, `gelu_backward`

# %% [markdown] lang="es"
# ## Katas
#
# `linear_backward`, `linear_bug`, `predict_shapes`, `gelu_backward`
