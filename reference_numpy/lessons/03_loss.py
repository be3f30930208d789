# %% [markdown] lang="en"
# # The loss of a language model
#
# **The question.** A model gives a tale of 200 words the probability $10^{-300}$. Is that a bad model?
#
# Far from it: that is about 1 in 32 for each word, where a blind guess has 1 in many thousands. The probability of a
# whole text says little before it is taken apart, and how it is taken apart decides what the gradient is divided by.

# %% [markdown] lang="es"
# # La pérdida de un modelo de lenguaje
#
# **La pregunta.** Un modelo le da a un cuento de 200 palabras la probabilidad $10^{-300}$. ¿Es un mal modelo?
#
# Todo lo contrario: es más o menos 1 entre 32 por palabra, cuando adivinar a ciegas da 1 entre muchos miles. La
# probabilidad de un texto entero dice poco hasta que se desmonta, y cómo se desmonta decide entre qué número se divide
# el gradiente.

# %%
import itertools
import math

import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check
from equivalence_tests.dojo.witness import budget_used, complex_step
from reference_numpy import softmax, softmax_backward

# %% [markdown] lang="en"
# ## The chain rule of probability
#
# The probability of a text is a product, each token given all that came before it; this holds for any distribution,
# nothing is assumed independent. The first token is always the start mark, so $p(w_1) = 1$:
#
# $$p(w_1, \dots, w_T) = \prod_{t=1}^{T-1} p(w_{t+1} \mid w_1, \dots, w_t)$$
#
# A product of many small numbers underflows: 400 tokens at 1/8 are $2^{-1200}$, and float64 ends at $2^{-1074}$. So
# take the logarithm, which makes it a sum: the log-likelihood. Its negative grows with the length of the text; divided
# by the number of tokens it does not:
#
# $$\mathrm{loss} = -\frac{1}{M} \sum_{t} \log p(w_{t+1} \mid w_1, \dots, w_t)$$

# %% [markdown] lang="es"
# ## La regla de la cadena de la probabilidad
#
# La probabilidad de un texto es un producto, la de cada token dado todo lo anterior; vale para cualquier distribución,
# sin suponer que nada sea independiente. El primer token es siempre la marca de inicio, así que $p(w_1) = 1$:
#
# $$p(w_1, \dots, w_T) = \prod_{t=1}^{T-1} p(w_{t+1} \mid w_1, \dots, w_t)$$
#
# Un producto de muchos números pequeños se queda en 0: 400 tokens a 1/8 son $2^{-1200}$, y float64 acaba en
# $2^{-1074}$. Por eso se toma el logaritmo, que lo convierte en suma: la log-verosimilitud. Con el signo cambiado crece
# con la longitud del texto; dividida entre el número de tokens, ya no:
#
# $$\mathrm{loss} = -\frac{1}{M} \sum_{t} \log p(w_{t+1} \mid w_1, \dots, w_t)$$

# %%
p_next = {("<BOS>", "a"): 0.5, ("a", "cat"): 0.25, ("cat", "sat"): 0.125, ("sat", "<EOS>"): 0.25}
text = ["<BOS>", "a", "cat", "sat", "<EOS>"]
each = np.array([p_next[pair] for pair in itertools.pairwise(text)])
assert each.prod() == 2.0**-8
assert -np.log2(each).mean() == 2.0  # 8 bits for 4 tokens; powers of two, so exact
assert np.full(400, 0.125).prod() == 0.0
assert np.log2(np.full(400, 0.125)).sum() == -1200.0

# %% [markdown] lang="en"
# ## By tokens or by sequences
#
# A batch holds texts of different length, filled up with a padding token that must not count. Then there are two means.
# Let one text have a single token, with loss 4, and another three tokens, with loss 1 each:
#
# * by tokens: all four in one mean, $(4 + 1 + 1 + 1)/4 = 1.75$;
# * by sequences: a mean in each text, then the mean of those, $(4/1 + 3/3)/2 = 2.5$.
#
# Neither is wrong, they are two losses. Leaving padding out through `ignore_index` gives the first. If all texts are
# equally long both agree, and nobody notices which one it is.

# %% [markdown] lang="es"
# ## Por tokens o por secuencias
#
# Un lote tiene textos de distinta longitud, rellenados con un token de relleno que no debe contar. Entonces hay dos
# medias. Supón un texto de un solo token, con pérdida 4, y otro de tres tokens, con pérdida 1 cada uno:
#
# * por tokens: los cuatro en una sola media, $(4 + 1 + 1 + 1)/4 = 1.75$;
# * por secuencias: una media en cada texto, y la media de ambas, $(4/1 + 3/3)/2 = 2.5$.
#
# Ninguna está mal: son dos pérdidas distintas. Excluir el relleno con `ignore_index` da la primera. Si todos los textos
# miden lo mismo, ambas coinciden, y nadie se da cuenta de cuál se usa.

# %%
losses = np.array([[4.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
counted = np.array([[True, False, False], [True, True, True]])
assert losses.sum() / counted.sum() == 1.75
assert (losses.sum(1) / counted.sum(1)).mean() == 2.5

# %% [markdown] lang="en"
# ## Cross-entropy in one step
#
# The model answers with logits $x$, one for each of the $V$ tokens, and $P = \mathrm{softmax}(x)$. For the target $t$:
#
# $$-\log P_t = -\log \frac{e^{x_t}}{\sum_k e^{x_k}} = \log \sum_k e^{x_k} - x_t$$
#
# The right-hand side needs one sum and one entry, and never takes the logarithm of a number that underflowed to 0. As
# always the maximum $a$ is taken out first: $\log \sum_k e^{x_k} = a + \log \sum_k e^{x_k - a}$.
#
# ## Its gradient
#
# $$\frac{\partial}{\partial x_j} \log \sum_k e^{x_k} = \frac{e^{x_j}}{\sum_k e^{x_k}} = P_j \qquad\qquad
# \frac{\partial(-\log P_t)}{\partial x_j} = P_j - 1[j = t]$$
#
# Every logit is pushed down by the probability it got, the target's is pulled up by what it lacks; the row sums to 0.
# With $M$ counted targets in the mean, and `dloss` arriving, all rows at once are
#
# $$d\mathrm{logits} = (P - \mathrm{onehot}) \cdot \mathrm{counted} \cdot d\mathrm{loss} / M$$

# %% [markdown] lang="es"
# ## La entropía cruzada en un solo paso
#
# El modelo responde con logits $x$, uno por cada uno de los $V$ tokens, y $P = \mathrm{softmax}(x)$. Para el token
# correcto $t$:
#
# $$-\log P_t = -\log \frac{e^{x_t}}{\sum_k e^{x_k}} = \log \sum_k e^{x_k} - x_t$$
#
# El lado derecho necesita una suma y una entrada, y nunca toma el logaritmo de un número que ya se quedó en 0. Como
# siempre, antes se saca el máximo $a$: $\log \sum_k e^{x_k} = a + \log \sum_k e^{x_k - a}$.
#
# ## Su gradiente
#
# $$\frac{\partial}{\partial x_j} \log \sum_k e^{x_k} = \frac{e^{x_j}}{\sum_k e^{x_k}} = P_j \qquad\qquad
# \frac{\partial(-\log P_t)}{\partial x_j} = P_j - 1[j = t]$$
#
# A cada logit lo empuja hacia abajo la probabilidad que recibió, y al correcto lo sube lo que le falta; la fila suma 0.
# Con $M$ tokens contados en la media, y `dloss` como gradiente que llega, todas las filas a la vez son
#
# $$d\mathrm{logits} = (P - \mathrm{onehot}) \cdot \mathrm{counted} \cdot d\mathrm{loss} / M$$

# %%


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]  # an ignored target may point anywhere inside
    D = logits - logits.real.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))
    M = int(counted.sum())  # a NumPy number would turn float32 into float64
    loss = -np.where(counted, np.take_along_axis(log_P, rows, -1)[..., 0], 0.0).sum() / M
    return loss, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    log_P, rows, counted, M = cache
    onehot = np.arange(log_P.shape[-1]) == rows
    return (np.exp(log_P) - onehot) * counted[..., None] * (float(dloss) / M)


rng = np.random.default_rng(3)
PAD = 6
logits = rng.standard_normal((2, 3, 7))
targets = np.array([[5, PAD, PAD], [0, 2, 2]])
given = {"logits": logits, "targets": targets, "ignore_index": PAD, "dloss": np.array(0.5)}
loss, cache = cross_entropy(logits, targets, PAD)
dlogits = cross_entropy_backward(0.5, cache)
step = complex_step(lambda logits: cross_entropy(logits, targets, PAD)[0], logits, 0.5)
assert budget_used("cross_entropy", given, loss=loss, dlogits=dlogits) <= 1.0
assert budget_used("cross_entropy", given, dlogits=step) <= 1.0
assert np.array_equal(dlogits[0, 1:], np.zeros((2, 7)))  # padding asks for nothing
by_tokens = -np.take_along_axis(cache[0], cache[1], -1)[targets != PAD].mean()
assert budget_used("cross_entropy", given, loss=by_tokens) <= 1.0

# %% [markdown] lang="en"
# ## The same in two steps, and why nobody does it
#
# Through softmax first: the loss $-\log P_t$ sends $dP_i = -1[i = t]/P_t$ upstream, and the line of lesson 02 does the
# rest:
#
# $$dx_j = P_j\Big(dP_j - \sum_i P_i\, dP_i\Big) = P_j\Big(-\frac{1[j = t]}{P_t} + 1\Big) = P_j - 1[j = t]$$
#
# The same answer, but on the way a division by $P_t$ that is undone at once. Where $P_t$ underflows, the loss is
# infinite and the gradient NaN, at the very token that the model most needs to learn.

# %% [markdown] lang="es"
# ## Lo mismo en dos pasos, y por qué nadie lo hace
#
# Primero a través de softmax: la pérdida $-\log P_t$ envía $dP_i = -1[i = t]/P_t$, y la línea de la lección 02 hace el
# resto:
#
# $$dx_j = P_j\Big(dP_j - \sum_i P_i\, dP_i\Big) = P_j\Big(-\frac{1[j = t]}{P_t} + 1\Big) = P_j - 1[j = t]$$
#
# La misma respuesta, pero por el camino hay una división entre $P_t$ que se deshace enseguida. Donde $P_t$ se queda en
# 0, la pérdida es infinita y el gradiente NaN, justo en el token que el modelo más necesita aprender.

# %%


def in_two_steps(row, t):
    P, cache = softmax(row)
    dP = np.zeros_like(P)
    with np.errstate(divide="ignore", invalid="ignore"):
        dP[t] = -1.0 / P[t]
        return -np.log(P[t]), softmax_backward(dP, cache)


row, target = logits[0, 0], np.array([5])
given = {"logits": row[None], "targets": target, "dloss": np.array(1.0)}
assert budget_used("cross_entropy", given, dlogits=in_two_steps(row, 5)[1][None]) <= 1.0
far = np.array([1000.0, 0.0])
loss, dfar = in_two_steps(far, 1)
assert loss == np.inf
assert np.isnan(dfar).any()
loss, cache = cross_entropy(far[None], np.array([1]))
assert loss == 1000.0
assert np.array_equal(cross_entropy_backward(1.0, cache), [[1.0, -1.0]])

# %% [markdown] lang="en"
# ## How large is a loss?
#
# A model that knows nothing gives every token $1/V$, and its loss is $\log V$: 11.005 for the 60,198 tokens of a real
# vocabulary. That is where an untrained model should begin, and a good first test. It is no maximum: being sure and
# wrong costs more. The exponential of the loss, the *perplexity*, reads as a number of tokens: how many equally likely
# ones the model hesitates between.

# %% [markdown] lang="es"
# ## ¿Qué pérdida es grande?
#
# Un modelo que no sabe nada le da a cada token $1/V$, y su pérdida es $\log V$: 11.005 con los 60 198 tokens de un
# vocabulario real. Ahí debería empezar un modelo sin entrenar, y es una buena primera prueba. No es un máximo: estar
# seguro y equivocarse cuesta más. La exponencial de la pérdida, la *perplejidad*, se lee como un número de tokens:
# entre cuántos, igual de probables, duda el modelo.

# %%
V = 60198
uniform = np.zeros((1, V))
loss, _ = cross_entropy(uniform, np.array([17]))
assert f"{loss:.3f}" == f"{math.log(V):.3f}" == "11.005"
given = {"logits": uniform, "targets": np.array([17]), "dloss": np.array(1.0)}
assert budget_used("cross_entropy", given, loss=np.log(float(V))) <= 1.0
assert cross_entropy(np.array([[0.0, 50.0]]), np.array([0]))[0] > math.log(2)
print(loss, math.exp(loss))

p = np.linspace(0.002, 1.0, 400)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(p, -np.log(p), color="#0072b2", label="-log p")
left.axhline(math.log(7), color="#d55e00", linestyle="--", label="log V,  V = 7")
left.set(xlabel="p", ylabel="loss")
left.legend(frameon=False)
right.bar(np.arange(7) - 0.2, softmax(row)[0], 0.4, color="#0072b2", label="P")
right.bar(np.arange(7) + 0.2, softmax(row)[0] - np.eye(7)[5], 0.4, color="#d55e00", label="P - onehot")
right.axhline(0.0, color="0.4", linewidth=0.8)
right.set(xlabel="j", title="t = 5", ylabel="dlogits")
right.legend(frameon=False)
plt.show()

# %% [markdown] lang="en"
# ## The mistake people make here
#
# The mean is taken over all rows, padding included, while the loss that is reported counts only real tokens; or the
# backward divides by one and the forward by the other. The direction of the gradient is right and its size is not, by
# the share of padding, which changes from batch to batch: it is a learning rate that nobody chose. The loss still goes
# down.

# %% [markdown] lang="es"
# ## El error que se comete aquí
#
# La media se toma sobre todas las filas, relleno incluido, mientras que la pérdida que se muestra solo cuenta tokens de
# verdad; o el paso hacia adelante divide entre un número y el paso hacia atrás entre otro. La dirección del gradiente
# es correcta y su tamaño no, según la proporción de relleno, que cambia de un lote a otro: es una tasa de aprendizaje
# que nadie eligió. La pérdida baja igualmente.

# %%


def divided_by_all(dloss, cache):
    log_P, rows, counted, _ = cache
    return cross_entropy_backward(dloss, (log_P, rows, counted, counted.size))


assert check(cross_entropy, like="cross_entropy", backward=cross_entropy_backward, cases=20).passed
report = check(cross_entropy, like="cross_entropy", backward=divided_by_all, cases=20)
assert not report.passed
print(report.findings[0].code, divided_by_all(0.5, cross_entropy(logits, targets, PAD)[1])[1, 0, 0] / dlogits[1, 0, 0])

# %% [markdown] lang="en"
# ## Katas
#
# `cross_entropy`, `cross_entropy_backward`, `cross_entropy_bug`, `predict_loss`

# %% [markdown] lang="es"
# ## Katas
#
# `cross_entropy`, `cross_entropy_backward`, `cross_entropy_bug`, `predict_loss`
