# %% [markdown] lang="en"
# # AdamW and clipping
#
# **The question.** A gradient says in which direction the loss falls. It does not say how far to go: its size depends
# on units, on the batch, on the scale of a layer. How long should a step be?

# %% [markdown] lang="es"
# # AdamW y el recorte
#
# **La pregunta.** Un gradiente dice en qué dirección baja la pérdida. No dice cuánto hay que avanzar: su tamaño depende
# de las unidades, del lote, de la escala de una capa. ¿Qué longitud debe tener un paso?

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests.parts import PARTS
from reference_numpy import adamw_step, clip_gradients

rng = np.random.default_rng(11)
U = 2.0**-53  # the unit roundoff of float64
BLUE, VERMILION = "#0072b2", "#d55e00"

# %% [markdown] lang="en"
# ## Two averages
#
# AdamW remembers two numbers for each parameter: an average of the gradients and one of their squares, in which the
# past fades:
#
# $$m_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t, \qquad v_t = \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2, \qquad
# m_0 = v_0 = 0.$$
#
# Put $m_{t-1}$ into $m_t$, and so on back to the start:
#
# $$m_t = (1 - \beta_1) \sum_{s=1}^{t} \beta_1^{t-s}\, g_s.$$
#
# Is it an average? Its weights are a geometric series, $(1 - \beta_1) \sum_s \beta_1^{t-s} = 1 - \beta_1^t$: not 1. The
# rest still sits on $m_0 = 0$. So divide by the sum of the weights:
#
# $$\hat m_t = \frac{m_t}{1 - \beta_1^t}, \qquad \hat v_t = \frac{v_t}{1 - \beta_2^t}, \qquad
# p \leftarrow p - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon}.$$
#
# The quotient has no unit. Multiply all gradients by 1000 and the step stays as it is ($\epsilon$ aside).

# %% [markdown] lang="es"
# ## Dos medias
#
# AdamW recuerda dos números por cada parámetro: una media de los gradientes y otra de sus cuadrados, en las que el
# pasado se va apagando:
#
# $$m_t = \beta_1 m_{t-1} + (1 - \beta_1)\, g_t, \qquad v_t = \beta_2 v_{t-1} + (1 - \beta_2)\, g_t^2, \qquad
# m_0 = v_0 = 0.$$
#
# Sustituye $m_{t-1}$ en $m_t$, y así sucesivamente hasta el principio:
#
# $$m_t = (1 - \beta_1) \sum_{s=1}^{t} \beta_1^{t-s}\, g_s.$$
#
# ¿Es una media? Sus pesos forman una serie geométrica, $(1 - \beta_1) \sum_s \beta_1^{t-s} = 1 - \beta_1^t$: no
# suman 1. El resto sigue puesto en $m_0 = 0$. Divide, pues, entre la suma de los pesos:
#
# $$\hat m_t = \frac{m_t}{1 - \beta_1^t}, \qquad \hat v_t = \frac{v_t}{1 - \beta_2^t}, \qquad
# p \leftarrow p - \eta\, \frac{\hat m_t}{\sqrt{\hat v_t} + \epsilon}.$$
#
# El cociente no tiene unidades. Multiplica todos los gradientes por 1000 y el paso queda igual (salvo por $\epsilon$).

# %%
g, beta = rng.standard_normal(20), 0.9
m = 0.0
for each in g:
    m = beta * m + (1.0 - beta) * each
terms = (1.0 - beta) * beta ** np.arange(len(g) - 1, -1, -1) * g
assert abs(m - terms.sum()) <= 4 * (len(g) + 2) * U * np.abs(terms).sum()
print("sum of the weights:", ((1.0 - beta) * beta ** np.arange(len(g))).sum(), "=", 1.0 - beta ** len(g))

# %% [markdown] lang="en"
# ## Without the bias correction
#
# Both averages start too small, so the first steps are too small, are they not? Take $g = 1$ all the time. Then
# $m_t = 1 - \beta_1^t$ and $v_t = 1 - \beta_2^t$; corrected, every step is $\eta$. Uncorrected it is
# $\eta\,(1 - \beta_1^t) / \sqrt{1 - \beta_2^t}$, and at $t = 1$ that is $0.1 / \sqrt{0.001} = 3.16$: too *large*,
# because $v$ is too small by far more than $m$ is. It takes a few thousand steps to settle.

# %% [markdown] lang="es"
# ## Sin la corrección del sesgo
#
# Las dos medias empiezan demasiado pequeñas; entonces los primeros pasos serán demasiado pequeños, ¿no? Toma $g = 1$
# todo el tiempo. Así, $m_t = 1 - \beta_1^t$ y $v_t = 1 - \beta_2^t$; con la corrección, cada paso mide $\eta$. Sin ella
# mide $\eta\,(1 - \beta_1^t) / \sqrt{1 - \beta_2^t}$, y con $t = 1$ eso es $0.1 / \sqrt{0.001} = 3.16$: demasiado
# *grande*, porque $v$ se queda corto mucho más que $m$. Tarda unos miles de pasos en asentarse.

# %%
t = np.arange(1, 2001)
p, state, taken = {"p": np.zeros(1)}, {}, []
for _ in t:
    before = p["p"][0]
    adamw_step(p, {"p": np.ones(1)}, state, lr=1.0, weight_decay=0.0)
    taken.append(before - p["p"][0])
uncorrected = (1.0 - 0.9**t) / np.sqrt(1.0 - 0.999**t)

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.semilogx(t, taken, color=BLUE, label=r"$\hat m_t / \sqrt{\hat v_t}$")
axes.semilogx(t, uncorrected, "--", color=VERMILION, label=r"$m_t / \sqrt{v_t}$")
axes.set(xlabel="$t$", ylabel=r"$|\Delta p|\, /\, \eta$", ylim=(0, None))
axes.legend(frameon=False)
plt.show()
print(f"t = 1: {uncorrected[0]:.2f};  largest: {uncorrected.max():.2f} at t = {uncorrected.argmax() + 1}")
# 1 / (1 + epsilon), and p, which reaches 2000, is rounded in each step; m and v have forgotten their roundings.
assert np.abs(np.array(taken) - 1.0).max() <= 1e-8 + 2 * U * len(t) + 40 * U / (1.0 - 0.999)

# %% [markdown] lang="en"
# ## Where epsilon stands
#
# It keeps the step finite where $v$ is 0, and it stands **outside** the root. Inside, $\sqrt{v + \epsilon}$, the same
# $10^{-8}$ acts like $10^{-4}$ outside, because $\sqrt{10^{-8}} = 10^{-4}$. How does it show? Parameters with small
# gradients hardly move. With $g = 10^{-5}$ the first step should be $\eta$; inside the root it is a tenth of that. With
# $g = 1$ nobody would notice.

# %% [markdown] lang="es"
# ## Dónde va épsilon
#
# Mantiene finito el paso donde $v$ vale 0, y va **fuera** de la raíz. Dentro, $\sqrt{v + \epsilon}$, el mismo $10^{-8}$
# actúa como $10^{-4}$ fuera, porque $\sqrt{10^{-8}} = 10^{-4}$. ¿Cómo se nota? Los parámetros de gradiente pequeño
# apenas se mueven. Con $g = 10^{-5}$ el primer paso debería medir $\eta$; dentro de la raíz mide la décima parte. Con
# $g = 1$ nadie se daría cuenta.

# %%
epsilon = 1e-8
for g in (1.0, 1e-3, 1e-5, 1e-7):
    outside, inside = g / (math.sqrt(g * g) + epsilon), g / math.sqrt(g * g + epsilon)
    p = {"p": np.zeros(1)}
    adamw_step(p, {"p": np.full(1, g)}, {}, lr=1.0, weight_decay=0.0, epsilon=epsilon)
    print(f"g = {g:.0e}   outside {outside:.4f}   inside {inside:.4f}")
    assert abs(-p["p"][0] - outside) <= 16 * U * outside  # five products, two divisions and two roots

# %% [markdown] lang="en"
# ## Decay apart from the gradient
#
# Weight decay pulls every parameter towards 0: $p \leftarrow p\,(1 - \eta \lambda)$. Adam with an L2 term puts it into
# the gradient instead, $g + \lambda p$, and then the division by $\sqrt{\hat v}$ takes the size of it away: a parameter
# with large gradients hardly decays, and one without any walks to 0 at full speed. The plainest case is $g = 0$:
# decoupled, the first step shrinks $p$ by $\eta\lambda p$; coupled, it is $\eta$ itself, whatever $p$ and whatever
# $\lambda$.

# %% [markdown] lang="es"
# ## El decaimiento, aparte del gradiente
#
# El decaimiento de los pesos tira de cada parámetro hacia 0: $p \leftarrow p\,(1 - \eta \lambda)$. Adam con un término
# L2 lo mete, en cambio, en el gradiente, $g + \lambda p$, y entonces la división entre $\sqrt{\hat v}$ le quita el
# tamaño: un parámetro de gradientes grandes apenas decae, y uno sin gradiente camina hacia 0 a toda velocidad. El caso
# más claro es $g = 0$: desacoplado, el primer paso reduce $p$ en $\eta\lambda p$; acoplado, mide $\eta$, sean cuales
# sean $p$ y $\lambda$.

# %%
lr, decay = 1e-3, 1e-2
for start in (0.5, 50.0):
    decoupled, coupled = {"p": np.full(1, start)}, {"p": np.full(1, start)}
    adamw_step(decoupled, {"p": np.zeros(1)}, {}, lr=lr, weight_decay=decay)
    adamw_step(coupled, {"p": decay * coupled["p"]}, {}, lr=lr, weight_decay=0.0)
    print(f"p = {start:4}   decoupled {start - decoupled['p'][0]:.6f}   coupled {start - coupled['p'][0]:.6f}")
    assert abs(decoupled["p"][0] - start * (1.0 - lr * decay)) <= 4 * U * start

# %% [markdown] lang="en"
# ## Clipping
#
# One bad batch can have an enormous gradient (lesson 9 shows why). Clipping shortens it to a largest norm $C$, by one
# factor for all tensors $G$ together:
#
# $$\|g\| = \Bigl(\sum_G \sum_i G_i^2\Bigr)^{1/2}, \qquad
# g \leftarrow g \cdot \min\Bigl(1, \frac{C}{\|g\| + 10^{-6}}\Bigr).$$
#
# One factor, so the direction stays. To clip each tensor by its own norm turns the gradient, and nobody asked for that.
# And the norm of a large gradient must not overflow on the way: $(10^{200})^2$ is infinite, $C / \infty = 0$, and all
# gradients would be silently 0. So the largest number is divided out first: $\|g\| = M\, \|g / M\|$.

# %% [markdown] lang="es"
# ## El recorte
#
# Un lote malo puede traer un gradiente enorme (la lección 9 explica por qué). El recorte lo acorta hasta una norma
# máxima $C$, con un solo factor para todos los tensores $G$ a la vez:
#
# $$\|g\| = \Bigl(\sum_G \sum_i G_i^2\Bigr)^{1/2}, \qquad
# g \leftarrow g \cdot \min\Bigl(1, \frac{C}{\|g\| + 10^{-6}}\Bigr).$$
#
# Un solo factor: la dirección no cambia. Recortar cada tensor por su propia norma gira el gradiente, y nadie había
# pedido eso. Además, la norma de un gradiente grande no debe desbordarse por el camino: $(10^{200})^2$ es infinito,
# $C / \infty = 0$, y todos los gradientes serían 0 sin previo aviso. Por eso se saca antes el mayor número:
# $\|g\| = M\, \|g / M\|$.


# %%
def flat(grads):
    return np.concatenate([g.ravel() for g in grads.values()])


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


grads = {"W": 10.0 * rng.standard_normal((3, 4)), "b": rng.standard_normal(4)}
clipped, norm = clip_gradients(grads, max_norm=1.0)
each = {name: clip_gradients({name: g}, 1.0)[0][name] for name, g in grads.items()}
print(f"norm {norm:.3f} -> {np.linalg.norm(flat(clipped)):.6f}")
print(f"cosine: one norm {cosine(flat(grads), flat(clipped)):.6f}, a norm each {cosine(flat(grads), flat(each)):.6f}")
assert 1.0 - cosine(flat(grads), flat(clipped)) <= 2 * (16 + 3) * U
assert cosine(flat(grads), flat(each)) < 0.99

huge = {"W": np.full(4, 1e200)}
with np.errstate(over="ignore"):
    naive = math.sqrt((huge["W"] ** 2).sum())
print("naive norm", naive, "  reference", clip_gradients(huge, 1.0)[1])
assert clip_gradients(huge, 1.0)[1] == 2e200

# %% [markdown] lang="en"
# ## All of it
#
# Ten lines, in place: `p -= ...` changes the array that the model holds, `p = p - ...` would only give the name to
# another one, and nothing would ever be learnt. The kit's law runs 100 steps with changing gradients and rates and
# compares $p$, $m$ and $v$ after each, within a measured budget.

# %% [markdown] lang="es"
# ## Todo junto
#
# Diez líneas, y sobre el propio array: `p -= ...` cambia el array que tiene el modelo; `p = p - ...` solo le daría el
# nombre a otro, y no se aprendería nunca nada. La ley del kit da 100 pasos con gradientes y tasas cambiantes y compara
# $p$, $m$ y $v$ después de cada uno, dentro de un margen medido.


# %%
def my_adamw(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state |= {"step": 0, "exp_avg": {}, "exp_avg_sq": {}}
        for name, p in params.items():
            state["exp_avg"][name], state["exp_avg_sq"][name] = np.zeros_like(p), np.zeros_like(p)
    state["step"] += 1
    correction1, correction2 = (1.0 - beta ** state["step"] for beta in betas)
    for name, p in params.items():
        g, m, v = grads[name], state["exp_avg"][name], state["exp_avg_sq"][name]
        m[...] = betas[0] * m + (1.0 - betas[0]) * g
        v[...] = betas[1] * v + (1.0 - betas[1]) * g * g
        p *= 1.0 - lr * weight_decay
        p -= lr * (m / correction1) / (np.sqrt(v / correction2) + epsilon)


for law in PARTS["adamw_step"]:
    if not law.__name__.startswith("refuses"):  # our ten lines accept any input
        assert law(my_adamw) == "", (law.__name__, law(my_adamw))

# %% [markdown] lang="en"
# A last picture: a valley, a hundred times steeper across than along, $f = \frac12 (x^2 + 100\, y^2)$. Plain gradient
# descent may not step further than the steep side allows, and crawls along the flat one. AdamW takes steps of the same
# size on both.

# %% [markdown] lang="es"
# Un último dibujo: un valle cien veces más empinado de través que a lo largo, $f = \frac12 (x^2 + 100\, y^2)$. El
# descenso por gradiente simple no puede dar pasos mayores de lo que permite la ladera empinada, y avanza a rastras por
# la llana. AdamW da pasos del mismo tamaño en las dos.

# %%
curvature, steps = np.array([1.0, 100.0]), 60
plain, adam, state = [np.array([4.0, 1.0])], [np.array([4.0, 1.0])], {}
p = {"p": adam[0].copy()}
for _ in range(steps):
    plain.append(plain[-1] - 0.015 * curvature * plain[-1])  # 0.02 would already diverge
    adamw_step(p, {"p": curvature * p["p"]}, state, lr=0.1, weight_decay=0.0)
    adam.append(p["p"].copy())

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
x, y = np.meshgrid(np.linspace(-1.0, 4.5, 80), np.linspace(-1.2, 1.2, 80))
axes.contour(x, y, 0.5 * (x**2 + 100 * y**2), levels=12, colors="lightgrey", linewidths=0.7)
for path, colour, mark, label in ((plain, VERMILION, "s-", r"$p - \eta g$"), (adam, BLUE, "o-", "AdamW")):
    axes.plot(*np.array(path).T, mark, color=colour, markersize=2.5, linewidth=1.0, label=label)
axes.set(xlabel="$x$", ylabel="$y$")
axes.legend(frameon=False)
plt.show()
assert abs(plain[-1][0]) > 1.0 > abs(adam[-1][0])

# %% [markdown] lang="en"
# ## Katas
#
# - `adamw_step`: the step, in place
# - `clip_gradients`: one norm for all
# - `adamw_bug`: it trains, but not as it should

# %% [markdown] lang="es"
# ## Katas
#
# - `adamw_step`: el paso, sobre el propio array
# - `clip_gradients`: una norma para todos
# - `adamw_bug`: entrena, pero no como debería
