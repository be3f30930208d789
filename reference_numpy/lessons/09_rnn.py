# %% [markdown] lang="en"
# # The Elman network and backward through time
#
# **The question.** A recurrent network reads token after token and carries a state along. Its gradient has to walk the
# whole way back, through the same matrix at every step. What is left of it at the first token?

# %% [markdown] lang="es"
# # La red de Elman y la retropropagación en el tiempo
#
# **La pregunta.** Una red recurrente lee un token tras otro y lleva consigo un estado. Su gradiente tiene que desandar
# todo el camino y pasar en cada paso por la misma matriz. ¿Qué queda de él al llegar al primer token?

# %%
import matplotlib.pyplot as plt
import numpy as np

from equivalence_tests import check_backward
from equivalence_tests.counting import count_products
from equivalence_tests.dojo.witness import budget_used
from reference_numpy import cross_entropy_backward, embedding_backward, linear_backward, rnn, rnn_backward

rng = np.random.default_rng(9)
U = 2.0**-53  # the unit roundoff of float64
STYLES = ((0.8, "#0072b2", "-"), (1.0, "#009e73", "--"), (1.25, "#d55e00", "-."))  # spectral radius, colour, line

# %% [markdown] lang="en"
# ## Forward
#
# With rows as vectors, and two biases as `nn.RNN` has them:
#
# $$a_t = x_t W_{ih}^T + b_{ih} + h_{t-1} W_{hh}^T + b_{hh}, \qquad h_t = \tanh a_t.$$
#
# In indices, for one sequence:
# $a_{tk} = \sum_i W^{ih}_{ki} x_{ti} + b^{ih}_k + \sum_j W^{hh}_{kj} h_{t-1,j} + b^{hh}_k$.
#
# ## Backward
#
# Who reads $h_t$? The outside, with the gradient $dH_t$ (the loss looks at every state), and the next step, through
# $a_{t+1}$. Both paths add up:
#
# $$dh_{tj} = dH_{tj} + \sum_k da_{t+1,k}\, W^{hh}_{kj}, \qquad da_{tk} = dh_{tk}\,(1 - h_{tk}^2).$$
#
# At the last step there is no next one; there the second term is the gradient of the last state, $dh_{last}$. Every
# weight serves at every step, so its gradient is a sum over time (and over the sequences of the batch):
#
# $$dW^{hh}_{kj} = \sum_t da_{tk}\, h_{t-1,j}, \qquad dW^{ih}_{ki} = \sum_t da_{tk}\, x_{ti}, \qquad
# db_k = \sum_t da_{tk}, \qquad dx_{ti} = \sum_k da_{tk}\, W^{ih}_{ki}.$$
#
# In matrices, with all $da_t$ as the rows of $dA$: $dX = dA\, W_{ih}$, $dW_{ih} = dA^T X$, $dW_{hh} = dA^T H_{before}$,
# where $H_{before}$ holds $h_0, \ldots, h_{n-1}$: the states *before* each step. And $dh_0 = da_1 W_{hh}$ is an answer
# too.

# %% [markdown] lang="es"
# ## Paso hacia adelante
#
# Con vectores fila y dos sesgos, como los tiene `nn.RNN`:
#
# $$a_t = x_t W_{ih}^T + b_{ih} + h_{t-1} W_{hh}^T + b_{hh}, \qquad h_t = \tanh a_t.$$
#
# Con índices, para una secuencia:
# $a_{tk} = \sum_i W^{ih}_{ki} x_{ti} + b^{ih}_k + \sum_j W^{hh}_{kj} h_{t-1,j} + b^{hh}_k$.
#
# ## Paso hacia atrás
#
# ¿Quién lee $h_t$? El exterior, con el gradiente $dH_t$ (la pérdida mira todos los estados), y el paso siguiente, a
# través de $a_{t+1}$. Los dos caminos se suman:
#
# $$dh_{tj} = dH_{tj} + \sum_k da_{t+1,k}\, W^{hh}_{kj}, \qquad da_{tk} = dh_{tk}\,(1 - h_{tk}^2).$$
#
# En el último paso no hay siguiente; ahí el segundo término es el gradiente del último estado, $dh_{last}$. Cada peso
# actúa en todos los pasos, así que su gradiente es una suma sobre el tiempo (y sobre las secuencias del lote):
#
# $$dW^{hh}_{kj} = \sum_t da_{tk}\, h_{t-1,j}, \qquad dW^{ih}_{ki} = \sum_t da_{tk}\, x_{ti}, \qquad
# db_k = \sum_t da_{tk}, \qquad dx_{ti} = \sum_k da_{tk}\, W^{ih}_{ki}.$$
#
# En forma matricial, con todos los $da_t$ como filas de $dA$: $dX = dA\, W_{ih}$, $dW_{ih} = dA^T X$,
# $dW_{hh} = dA^T H_{before}$, donde $H_{before}$ contiene $h_0, \ldots, h_{n-1}$: los estados *anteriores* a cada paso.
# Y $dh_0 = da_1 W_{hh}$ también forma parte de la respuesta.


# %%
def backward_through_time(dY, cache):
    (dH, dh), (X, W_ih, W_hh, h0, H) = dY, cache
    n, k = H.shape[-2:]
    da = np.empty_like(H)
    for t in reversed(range(n)):
        h = H[..., t, :]
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - h * h)
        dh = da[..., t, :] @ W_hh
    first = np.zeros_like(H[..., :1, :]) if h0 is None else h0[..., None, :]
    before = np.concatenate([first, H[..., :-1, :]], -2)  # h_{t-1} where H has h_t
    rows = da.reshape(-1, k)  # every step of every sequence
    dW_ih, dW_hh = rows.T @ X.reshape(-1, X.shape[-1]), rows.T @ before.reshape(-1, k)
    db = rows.sum(0)
    gradients = (da @ W_ih, dW_ih, dW_hh, db, db.copy())
    return gradients if h0 is None else (*gradients, dh)


assert check_backward(backward_through_time, like="rnn", cases=40, dtype="float64").passed

# %% [markdown] lang="en"
# **The mistake people make here** is $h_t$ in place of $h_{t-1}$ in $dW_{hh}$: the array `H` is at hand, and its shape
# fits. Where does it show most plainly? In a sequence of one token that starts from $h_0 = 0$: nothing has passed
# through $W_{hh}$, so its gradient must be exactly 0.
#
# A second one: the gradient of the last state is dropped, because the loss reads only `H`. It shows as soon as a long
# text is cut into two pieces: the state goes from the first piece into the second, and its gradient has to come back.

# %% [markdown] lang="es"
# **El error típico** es poner $h_t$ en lugar de $h_{t-1}$ en $dW_{hh}$: el array `H` está a mano y su forma encaja.
# ¿Dónde se ve mejor? En una secuencia de un solo token que parte de $h_0 = 0$: por $W_{hh}$ no ha pasado nada, así que
# su gradiente tiene que ser exactamente 0.
#
# Un segundo error: olvidar el gradiente del último estado, porque la pérdida solo lee `H`. Se nota en cuanto un texto
# largo se corta en dos trozos: el estado pasa del primero al segundo, y su gradiente tiene que volver.

# %%
d, k, n = 3, 4, 6
weights = [rng.standard_normal(shape) for shape in ((k, d), (k, k), (k,), (k,))]
X, dH, dh_last = rng.standard_normal((n, d)), rng.standard_normal((n, k)), rng.standard_normal(k)

(H1, last), cache = rnn(X[:1], *weights)
da = (dH[:1] + dh_last) * (1.0 - H1 * H1)
assert not rnn_backward((dH[:1], dh_last), cache)[2].any()
print("n = 1, h_t for h_{t-1}: dW_hh =", (da.T @ H1)[0].round(3), "...")

zero = np.zeros(k)
(_, h), first = rnn(X[:4], *weights, zero)
(_, _), second = rnn(X[4:], *weights, h)
*of_second, dh = rnn_backward((dH[4:], dh_last), second)
*of_first, dh0 = rnn_backward((dH[:4], dh), first)  # dh comes back over the cut
names = ("X", "W_ih", "W_hh", "b_ih", "b_hh", "h0")
given = dict(zip(names, (X, *weights, zero), strict=True)) | {"dH": dH, "dh_last": dh_last}
parts = {f"d{name}": a + b for name, a, b in zip(names[1:], of_first[1:], of_second[1:], strict=False)}
parts |= {"dX": np.concatenate([of_first[0], of_second[0]]), "dh0": dh0}
print("two pieces, of the budget:", budget_used("rnn", given, **parts))
assert budget_used("rnn", given, **parts) <= 1.0

# %% [markdown] lang="en"
# ## Vanish, explode, forget
#
# Let only the last state count. Then $dh_{t-1} = dh_t\, \mathrm{diag}(1 - h_t^2)\, W_{hh}$, and $T$ steps back
#
# $$dh_0 = dh_T \prod_{t=T}^{1} \mathrm{diag}(1 - h_t^2)\, W_{hh}.$$
#
# Without inputs the states stay 0 and the product is $W_{hh}^T$ ($T$ is an exponent here). Its size goes like $\rho^T$,
# where $\rho$ is the spectral radius of $W_{hh}$, the largest modulus of its eigenvalues: below 1 it vanishes, above 1
# it explodes. For $W_{hh} = \rho\, O$ with an orthogonal $O$ it *is* $\rho^T$, at every single step. With inputs,
# $1 - h^2 < 1$ takes more away: then even $\rho = 1$ vanishes.
#
# The same product runs forwards: a nudge $v$ at the first token moves the last state by the product applied to $v$ from
# its other side. So where the gradient vanishes the network **forgets**, and one complex step shows how much:
# $\mathrm{Im}\, h_t(x_1 + i\varepsilon v) / \varepsilon$.

# %% [markdown] lang="es"
# ## Desvanecerse, explotar, olvidar
#
# Supón que solo cuenta el último estado. Entonces $dh_{t-1} = dh_t\, \mathrm{diag}(1 - h_t^2)\, W_{hh}$ y, $T$ pasos
# más atrás,
#
# $$dh_0 = dh_T \prod_{t=T}^{1} \mathrm{diag}(1 - h_t^2)\, W_{hh}.$$
#
# Sin entradas, los estados se quedan en 0 y el producto es $W_{hh}^T$ (aquí $T$ es un exponente). Su tamaño va como
# $\rho^T$, donde $\rho$ es el radio espectral de $W_{hh}$, el mayor módulo de sus valores propios: por debajo de 1 se
# desvanece, por encima de 1 explota. Si $W_{hh} = \rho\, O$ con $O$ ortogonal, *es* $\rho^T$, en cada uno de los pasos.
# Con entradas, $1 - h^2 < 1$ quita todavía más: entonces hasta $\rho = 1$ se desvanece.
#
# El mismo producto corre también hacia adelante: un empujoncito $v$ en el primer token mueve el último estado según el
# producto aplicado a $v$ por el otro lado. Así que, donde el gradiente se desvanece, la red **olvida**; y un solo paso
# complejo muestra cuánto: $\mathrm{Im}\, h_t(x_1 + i\varepsilon v) / \varepsilon$.

# %%
k, T, epsilon = 32, 60, 2.0**-66
orthogonal = np.linalg.qr(rng.standard_normal((k, k)))[0]
noise = 0.5 * rng.standard_normal((T, k))
dh_last, v = rng.standard_normal((2, k))
dh_last, v = dh_last / np.linalg.norm(dh_last), v / np.linalg.norm(v)

figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained", sharey=True)
for rho, colour, line in STYLES:
    weights = (np.eye(k), rho * orthogonal, np.zeros(k), np.zeros(k))  # W_ih = I, so that dx_t is da_t
    for axes, X in ((panels[0], np.zeros((T, k))), (panels[1], noise)):
        dX = rnn_backward((np.zeros((T, k)), dh_last), rnn(X, *weights)[1])[0]
        sizes = np.linalg.norm(dX, axis=-1)
        axes.semilogy(range(1, T + 1), sizes, line, color=colour, label=rf"$\rho = {rho}$")
        if not X.any():
            exact = rho ** np.arange(T - 1.0, -1.0, -1.0)
            assert (np.abs(sizes - exact) <= 2 * T * (k + 1) * k**0.5 * U * exact).all()
    nudged = noise.astype(complex)
    nudged[0] += 1j * epsilon * v
    (H, _), _ = rnn(nudged, *(w.astype(complex) for w in weights))
    moved = H.imag / epsilon
    panels[2].semilogy(range(1, T + 1), np.linalg.norm(moved, axis=-1), line, color=colour)
    forwards, backwards = dh_last @ moved[-1], dX[0] @ v  # <u, J v> = <J^T u, v>
    print(f"rho = {rho}: the first token moves the last state by {forwards:.6e}, and backwards {backwards:.6e}")
    scale = max(np.linalg.norm(moved, axis=-1).max(), np.linalg.norm(dX, axis=-1).max())
    assert abs(forwards - backwards) <= 4 * T * (k + 1) * k**0.5 * U * scale
panels[0].set(title=r"$x_t = 0$", xlabel="$t$", ylabel=r"$\|da_t\|$")
panels[1].set(title=r"$x_t \neq 0$", xlabel="$t$", ylabel=r"$\|da_t\|$")
panels[2].set(title=r"$x_1 \to h_t$", xlabel="$t$", ylabel=r"$\|\partial h_t / \partial x_1 \cdot v\|$")
panels[0].legend(frameon=False)
plt.show()

# %% [markdown] lang="en"
# An exploding gradient can be clipped (lesson 11). A vanished one cannot be brought back: what reached the first token
# is below what the tokens nearby contribute, and the network learns to trust the recent ones. Attention removes the
# cause: any two tokens are *one* step apart (lesson 10).
#
# ## What need not be in the loop
#
# Only the recurrence has to wait for the step before. $X W_{ih}^T$ is one product for all steps, and so are $dX$,
# $dW_{ih}$ and $dW_{hh}$ once all $da_t$ are there. Counted for $n = 6$:

# %% [markdown] lang="es"
# Un gradiente que explota se puede recortar (lección 11). Uno que se ha desvanecido no se recupera: lo que llega al
# primer token es menor que lo que aportan los tokens cercanos, y la red aprende a fiarse de los recientes. La atención
# elimina la causa: entre dos tokens cualesquiera hay *un* solo paso (lección 10).
#
# ## Lo que no hace falta meter en el bucle
#
# Solo la recurrencia tiene que esperar al paso anterior. $X W_{ih}^T$ es un solo producto para todos los pasos, y
# también lo son $dX$, $dW_{ih}$ y $dW_{hh}$ en cuanto están todos los $da_t$. Contados con $n = 6$:


# %%
def step_by_step(X, W_ih, W_hh):
    h = np.zeros(W_hh.shape[0])
    for t in range(len(X)):
        h = np.tanh(X[t] @ W_ih.T + h @ W_hh.T)


def inputs_first(X, W_ih, W_hh):
    from_inputs, h = X @ W_ih.T, np.zeros(W_hh.shape[0])
    for t in range(len(X)):
        h = np.tanh(from_inputs[t] + h @ W_hh.T)


arrays = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), rng.standard_normal((4, 4))
print(
    "products:", count_products(step_by_step, *arrays).products, "and", count_products(inputs_first, *arrays).products
)
assert count_products(step_by_step, *arrays).products == 2 * 6
assert count_products(inputs_first, *arrays).products == 1 + 6

# %% [markdown] lang="en"
# ## A language model
#
# Embedding, recurrence, linear head, cross-entropy; and the four backwards in the opposite order. The last state leads
# nowhere but to its own logits, so $dh_{last} = 0$.

# %% [markdown] lang="es"
# ## Un modelo de lenguaje
#
# Embedding, recurrencia, capa lineal de salida, entropía cruzada; y los cuatro pasos hacia atrás, en orden inverso. El
# último estado no lleva a ninguna parte salvo a sus propios logits, de modo que $dh_{last} = 0$.


# %%
def loss_backward(dloss, cache):
    (embedding_cache, rnn_cache, head_cache), loss_cache = cache
    dlogits = cross_entropy_backward(dloss, loss_cache)
    dH, dhead, dbias = linear_backward(dlogits, head_cache)
    dX, *drecurrent = backward_through_time((dH, np.zeros_like(dH[..., -1, :])), rnn_cache)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {
        "embedding.weight": embedding_backward(dX, embedding_cache),
        **{f"rnn.{name}_l0": gradient for name, gradient in zip(names, drecurrent, strict=True)},
        "lm_head.weight": dhead,
        "lm_head.bias": dbias,
    }


assert check_backward(loss_backward, like="generative_rnn_loss", cases=20, dtype="float64").passed

# %% [markdown] lang="en"
# ## Katas
#
# - `rnn`: the forward
# - `rnn_backward`: backward through time
# - `rnn_bug`: one index is wrong; find it
# - `rnn_faster`: take out of the loop what need not be in it
# - `generative_rnn_loss_backward`: the whole language model, from its parts

# %% [markdown] lang="es"
# ## Katas
#
# - `rnn`: el paso hacia adelante
# - `rnn_backward`: la retropropagación en el tiempo
# - `rnn_bug`: hay un índice mal; encuéntralo
# - `rnn_faster`: saca del bucle lo que no hace falta que esté en él
# - `generative_rnn_loss_backward`: el modelo de lenguaje entero, a partir de sus piezas
