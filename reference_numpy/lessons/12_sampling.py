# %% [markdown] lang="en"
# # Sampling
#
# **The question.** A language model answers with a probability for every token of its vocabulary. One of them has to be
# written. Which?

# %% [markdown] lang="es"
# # Elegir el token siguiente
#
# **La pregunta.** Un modelo de lenguaje responde con una probabilidad para cada token de su vocabulario. Hay que
# escribir uno. ¿Cuál?

# %%
from collections import Counter, defaultdict
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from reference_numpy import SamplingConfig, choose, corpus_path, probabilities, read_texts, softmax
from reference_numpy.sampling import apply_temperature, penalise, top_k, top_p

rng = np.random.default_rng(12)
U = 2.0**-53  # the unit roundoff of float64
BLUE = "#0072b2"

# %% [markdown] lang="en"
# ## One uniform number
#
# Lay the probabilities end to end on the line from 0 to 1: token $i$ owns the piece from $F_{i-1}$ to $F_i$, where
# $F_i = \sum_{j \le i} P_j$. A uniform number $u$ falls into it with probability $F_i - F_{i-1} = P_i$. So the token is
# the first $i$ with $F_i > u$. In $N$ draws the share of token $i$ has the standard deviation
# $\sqrt{P_i (1 - P_i) / N}$; five of these are allowed.

# %% [markdown] lang="es"
# ## Un solo número uniforme
#
# Pon las probabilidades una tras otra sobre la recta de 0 a 1: al token $i$ le toca el trozo de $F_{i-1}$ a $F_i$,
# donde $F_i = \sum_{j \le i} P_j$. Un número uniforme $u$ cae en él con probabilidad $F_i - F_{i-1} = P_i$. El token
# es, por tanto, el primer $i$ con $F_i > u$. En $N$ sorteos, la proporción del token $i$ tiene la desviación típica
# $\sqrt{P_i (1 - P_i) / N}$; se admiten cinco.

# %%
P, N = np.array([0.5, 0.3, 0.2, 0.0]), 4000
shares = np.bincount([choose(P, u) for u in rng.random(N)], minlength=4) / N
print("P", P, "  shares", shares)
assert (np.abs(shares - P) <= 5 * np.sqrt(P * (1 - P) / N)).all()  # and the impossible token never comes

# %% [markdown] lang="en"
# ## Why not simply the best?
#
# Greedy takes the largest $P$ at each step, and that is not the most probable *text*. Two steps are enough to see it:
# after `a` (0.6) the model hesitates, after `b` (0.4) it is sure.

# %% [markdown] lang="es"
# ## ¿Por qué no siempre el mejor?
#
# La elección voraz (*greedy*) toma en cada paso el mayor $P$, y ese no es el *texto* más probable. Bastan dos pasos
# para verlo: después de `a` (0.6) el modelo duda; después de `b` (0.4) está seguro.

# %%
first = {"a": 0.6, "b": 0.4}
second = {"a": {"x": 0.35, "y": 0.33, "z": 0.32}, "b": {"x": 0.9, "y": 0.1}}
texts = {one + two: first[one] * second[one][two] for one in first for two in second[one]}
greedy = max(first, key=first.get)
greedy += max(second[greedy], key=second[greedy].get)
best = max(texts, key=texts.get)
print(f"greedy {greedy}: {texts[greedy]:.2f}   best {best}: {texts[best]:.2f}")
assert texts[best] > 1.5 * texts[greedy]

# %% [markdown] lang="en"
# ## Temperature
#
# Divide the logits $l$ by $T$ before the softmax:
#
# $$P_i(T) = \frac{e^{l_i / T}}{\sum_j e^{l_j / T}} = \frac{P_i(1)^{1/T}}{\sum_j P_j(1)^{1/T}}.$$
#
# For $T \to 0$ the largest logit takes all (greedy); for $T \to \infty$ all exponents go to 0, and everybody gets
# $1/|V|$.
#
# Does more temperature always mean more variety? Let $\beta = 1/T$, $Z = \sum_i e^{\beta l_i}$, so that
# $\log P_i = \beta l_i - \log Z$. The entropy is
#
# $$H = -\sum_i P_i \log P_i = \log Z - \beta\, E[l], \qquad
# \frac{d \log Z}{d\beta} = \sum_i \frac{l_i e^{\beta l_i}}{Z} = E[l],$$
#
# and from the backward of softmax (lesson 2), $\partial P_i / \partial \beta = P_i (l_i - E[l])$, so
# $dE[l]/d\beta = \sum_i l_i P_i (l_i - E[l]) = \mathrm{Var}(l)$. Together:
#
# $$\frac{dH}{d\beta} = E[l] - E[l] - \beta\, \mathrm{Var}(l), \qquad
# \frac{dH}{dT} = -\frac{1}{T^2} \frac{dH}{d\beta} = \frac{\mathrm{Var}(l)}{T^3} \ge 0.$$
#
# Yes, always, unless all logits are equal. A complex step says the same.

# %% [markdown] lang="es"
# ## La temperatura
#
# Divide los logits $l$ entre $T$ antes del softmax:
#
# $$P_i(T) = \frac{e^{l_i / T}}{\sum_j e^{l_j / T}} = \frac{P_i(1)^{1/T}}{\sum_j P_j(1)^{1/T}}.$$
#
# Si $T \to 0$, el mayor logit se lo lleva todo (*greedy*); si $T \to \infty$, todos los exponentes tienden a 0 y a cada
# uno le toca $1/|V|$.
#
# ¿Más temperatura significa siempre más variedad? Sea $\beta = 1/T$ y $Z = \sum_i e^{\beta l_i}$, de modo que
# $\log P_i = \beta l_i - \log Z$. La entropía es
#
# $$H = -\sum_i P_i \log P_i = \log Z - \beta\, E[l], \qquad
# \frac{d \log Z}{d\beta} = \sum_i \frac{l_i e^{\beta l_i}}{Z} = E[l],$$
#
# y, por el paso hacia atrás de softmax (lección 2), $\partial P_i / \partial \beta = P_i (l_i - E[l])$, así que
# $dE[l]/d\beta = \sum_i l_i P_i (l_i - E[l]) = \mathrm{Var}(l)$. En total:
#
# $$\frac{dH}{d\beta} = E[l] - E[l] - \beta\, \mathrm{Var}(l), \qquad
# \frac{dH}{dT} = -\frac{1}{T^2} \frac{dH}{d\beta} = \frac{\mathrm{Var}(l)}{T^3} \ge 0.$$
#
# Sí, siempre, salvo que todos los logits sean iguales. Un paso complejo dice lo mismo.

# %%
logits = rng.standard_normal(10)
temperatures = (0.1, 0.5, 1, 2, 5, 10)


def entropy(T):
    S = logits / T
    S = S - S.real.max()  # the maximum from the real part, so that a complex T flows through
    log_P = S - np.log(np.exp(S).sum())
    return -(np.exp(log_P) * log_P).sum()


figure, panels = plt.subplots(2, 3, figsize=(9, 4), layout="constrained", sharey=True)
names = [f"$a_{{{i}}}$" for i in range(1, 11)]
for axes, T in zip(panels.flat, temperatures, strict=True):
    P = softmax(logits / T)[0]
    axes.bar(names, P, color=BLUE)
    axes.set(title=f"$T = {T}$", ylim=(0, 1))
    variance = (P * (logits - (P * logits).sum()) ** 2).sum()
    slope, h = variance / T**3, 1e-20
    terms = (
        10 + np.ptp(logits) / T
    )  # sums of ten terms, and exponents of this size, which exp turns into relative errors
    assert abs(entropy(T + 1j * h).imag / h - slope) <= 4 * (terms + 1) * U * max(slope, 1.0)
    print(f"T = {T:4}   H = {entropy(T):.4f}   dH/dT = {slope:.4f}")
panels[0, 0].set_ylabel("$P_i$")
panels[1, 0].set_ylabel("$P_i$")
plt.show()
agreed = [probabilities(logits, [0], SamplingConfig(T, top_k=None, repetition_penalty=1.0)) for T in (1e-3, 0.0, 1e9)]
assert agreed[0].argmax() == agreed[1].argmax() == logits.argmax()
assert agreed[1].max() == 1.0
assert np.abs(agreed[2] - 0.1).max() <= 1e-9 * np.ptp(logits)

# %% [markdown] lang="en"
# ## Top-k and top-p
#
# However small the probability of a nonsensical token is, in a long text it will come; the tail is long. Top-k keeps
# the $k$ largest logits, top-p ("nucleus") the fewest most probable tokens that hold the share $p$; the others become
# $-\infty$ *before* the softmax, so that what is left sums to 1 again (lesson 8 has the reason).
#
# **The mistakes people make here.** Top-p: to keep a token while the sum *including* it is at most $p$. Then the one
# that crosses $p$ is lost, and with a confident model, $P_1 > p$, nothing is left at all. A token stays while the sum
# *before* it is below $p$. Top-k: to keep all that is at least as large as the $k$-th; among equals these are too many.

# %% [markdown] lang="es"
# ## Top-k y top-p
#
# Por pequeña que sea la probabilidad de un token sin sentido, en un texto largo acabará saliendo; la cola es larga.
# Top-k conserva los $k$ mayores logits; top-p (o *nucleus*), los menos tokens posibles, empezando por el más probable,
# que reúnan la proporción $p$. Los demás pasan a $-\infty$ *antes* del softmax, para que lo que queda vuelva a sumar 1
# (la razón está en la lección 8).
#
# **Los errores típicos.** En top-p, conservar un token mientras la suma, *incluido él*, no pase de $p$: se pierde el
# que cruza $p$ y, con un modelo seguro de sí, $P_1 > p$, no queda nada. Un token se queda mientras la suma *anterior* a
# él sea menor que $p$. En top-k, conservar todo lo que sea al menos tan grande como el $k$-ésimo: si hay empates, son
# demasiados.

# %%
P = np.array([0.7, 0.2, 0.1])
print("top-p 0.5 keeps", np.isfinite(top_p(np.log(P), 0.5)), "  including it:", P.cumsum() <= 0.5)
print("top-p 0.8 keeps", np.isfinite(top_p(np.log(P), 0.8)), "  including it:", P.cumsum() <= 0.8)
assert np.isfinite(top_p(np.log(P), 0.5)).tolist() == [True, False, False]
assert np.isfinite(top_p(np.log(P), 0.8)).tolist() == [True, True, False]

equal = np.array([1.0, 0.0, 1.0, 1.0])
print("top-2 keeps", np.isfinite(top_k(equal, 2)), "  at least as large:", equal >= np.sort(equal)[-2])
assert np.isfinite(top_k(equal, 2)).sum() == 2

# %% [markdown] lang="en"
# ## The repetition penalty
#
# Small models run in circles. The remedy: a token that has come $c$ times already gets a smaller logit, $l / \gamma^c$
# if $l$ is positive and $l \cdot \gamma^c$ if it is negative. To divide always is the mistake: $-1 / 1.2 = -0.83$ is
# *larger*, and the token comes more often. Note, too, that softmax does not care where the zero of the logits lies, and
# this rule does: add 5 to all logits, and it does something else.

# %% [markdown] lang="es"
# ## La penalización por repetición
#
# Los modelos pequeños dan vueltas en círculo. El remedio: a un token que ya ha salido $c$ veces se le baja el logit,
# $l / \gamma^c$ si $l$ es positivo y $l \cdot \gamma^c$ si es negativo. Dividir siempre es el error: $-1 / 1.2 = -0.83$
# es *mayor*, y el token sale más a menudo. Fíjate, además, en que a softmax le da igual dónde esté el cero de los
# logits, y a esta regla no: suma 5 a todos los logits y hará otra cosa.

# %%
logits, seen = np.array([2.0, -1.0, 0.5]), [0, 1, 1]
weaker = penalise(logits, seen, 1.2)
print("l", logits, " ->", weaker.round(3))
assert np.abs(weaker - [2.0 / 1.2, -1.0 * 1.2**2, 0.5]).max() <= 8 * U
before, after = (softmax(penalise(logits + shift, seen, 1.2))[0] for shift in (0.0, 5.0))
print("P", before.round(3), "  and with 5 more:", after.round(3))
assert np.abs(before - after).max() > 0.05

# %% [markdown] lang="en"
# ## Hear it
#
# A bigram model, the simplest there is: $P(w' \mid w)$ is how often $w'$ follows $w$ in the tales, and its logits are
# the logarithms of the counts. Greedy runs in a circle; a high temperature talks nonsense; in between lies what one
# wants. The order of the steps matters: penalty, temperature, top-k, top-p, softmax, one uniform number.

# %% [markdown] lang="es"
# ## Escúchalo
#
# Un modelo de bigramas, el más sencillo que hay: $P(w' \mid w)$ es la frecuencia con que $w'$ sigue a $w$ en los
# cuentos, y sus logits son los logaritmos de los recuentos. Con la elección voraz da vueltas en círculo; con
# temperatura alta dice disparates; en medio está lo que uno quiere. El orden de los pasos importa: penalización,
# temperatura, top-k, top-p, softmax y un número uniforme.

# %%
followers = defaultdict(Counter)
for tale in read_texts(corpus_path()):
    words = tale.split()
    for word, after in pairwise(words):
        followers[word][after] += 1


def tell(T, length=16):
    words = ["Había"]
    while len(words) < length and followers[words[-1]]:
        after, counts = zip(*sorted(followers[words[-1]].items()), strict=True)
        P = softmax(apply_temperature(np.log(np.array(counts, float)), T))[0]
        words.append(after[choose(P, rng.random())])
    return " ".join(words)


for T in (0.0, 0.5, 1.0, 5.0):
    print(f"T = {T}: {tell(T)}")
circle = tell(0.0, length=60).split()
assert len(set(circle)) < len(circle) / 2  # greedy: sooner or later a word comes again, and from there all is the same

# %% [markdown] lang="en"
# ## Katas
#
# - `temperature`: probabilities at any temperature, 0 included
# - `top_k`: exactly k, whatever the ties

# %% [markdown] lang="es"
# ## Katas
#
# - `temperature`: las probabilidades a cualquier temperatura, incluido el 0
# - `top_k`: exactamente k, haya los empates que haya
