# %% [markdown] part="task" lang="en"
# # The recurrence alone belongs in the loop
#
# A loop of many small matrix products is the slowest way to use a computer: the work is nothing, the
# calls are everything. In a recurrent network only one product has to wait for the step before it,
# the one with W_hh. All others wait for nothing and can be made for all steps at once.
#
# The pair below is right, and makes six products in every step. Change both functions so that no more
# than 2 n + 4 products are made in n steps: one a step in each direction, and four for everything
# else. What X says can be multiplied by W_ih before the loop; dX, dW_ih and dW_hh can wait until all
# da are known. Leave the class and the last function as they are: they count.
#
# Shapes: X (..., n, d), W_ih (k, d), W_hh (k, k), b (k,), one bias here; H, dH (..., n, k).
# gradients returns H, dX, dW_ih, dW_hh, db and whether the products were few enough.
#
# Example: with n = 5 steps these loops make 30 products; 14 are enough.

# %% [markdown] part="task" lang="es"
# # En el bucle, solo la recurrencia
#
# Un bucle de muchos productos pequeños es la manera más lenta de usar un ordenador: el trabajo no es
# nada, las llamadas lo son todo. En una red recurrente solo un producto tiene que esperar al paso
# anterior, el de W_hh. Todos los demás no esperan a nada y pueden hacerse para todos los pasos a la vez.
#
# El par de funciones de abajo es correcto y hace seis productos en cada paso. Cambia las dos para que
# en n pasos no se hagan más de 2 n + 4 productos: uno por paso en cada sentido y cuatro para todo lo
# demás. Lo que dice X puede multiplicarse por W_ih antes del bucle; dX, dW_ih y dW_hh pueden esperar a
# que se conozcan todos los da. Deja la clase y la última función como están: son las que cuentan.
#
# Formas: X (..., n, d), W_ih (k, d), W_hh (k, k), b (k,), aquí un solo sesgo; H, dH (..., n, k).
# gradients devuelve H, dX, dW_ih, dW_hh, db y si los productos fueron lo bastante pocos.
#
# Ejemplo: con n = 5 pasos estos bucles hacen 30 productos; bastan 14.

# %% part="start"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    H = np.empty_like(X, shape=(*X.shape[:-1], len(W_hh)))  # (..., n, k)
    h = np.zeros_like(X, shape=H[..., 0, :].shape)
    for t in range(X.shape[-2]):
        h = np.tanh(X[..., t, :] @ W_ih.T + h @ W_hh.T + b)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    dX, dW_ih, dW_hh = np.empty_like(X), np.zeros_like(W_ih), np.zeros_like(W_hh)
    db = np.zeros_like(W_hh[0])
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        before = H[..., t - 1, :] if t > 0 else np.zeros_like(H[..., 0, :])
        da = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dX[..., t, :] = da @ W_ih
        dW_ih += rows(da).T @ rows(X[..., t, :])
        dW_hh += rows(da).T @ rows(before)
        db += rows(da).sum(0)
        dh = da @ W_hh
    return dX, dW_ih, dW_hh, db


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% [markdown] part="nudge" lang="en"
# Which products need the result of the step before? Everything else can stand before or after the loop,
# if the loop keeps each da_t in its place in one big array.

# %% [markdown] part="nudge" lang="es"
# ¿Qué productos necesitan el resultado del paso anterior? Todo lo demás puede ir antes o después del
# bucle, si el bucle guarda cada da_t en su sitio de un arreglo grande.

# %% [markdown] part="formula" lang="en"
# before the loop:  U = X W_ih^T + b
#
# in the loop:      h_t = tanh(U_t + h_{t-1} W_hh^T)
#
# backward:         da_t = (dH_t + da_{t+1} W_hh) (1 - h_t^2)
#
# after the loop:   dX = da W_ih,  dW_ih = da^T X,  dW_hh = da^T (0, h_1, ..., h_{n-1}),  db = sum da

# %% [markdown] part="formula" lang="es"
# antes del bucle:    U = X W_ih^T + b
#
# en el bucle:        h_t = tanh(U_t + h_{t-1} W_hh^T)
#
# hacia atrás:        da_t = (dH_t + da_{t+1} W_hh) (1 - h_t^2)
#
# después del bucle:  dX = da W_ih,  dW_ih = da^T X,  dW_hh = da^T (0, h_1, ..., h_{n-1}),  db = sum da


# %% part="shape"
def rnn(X, W_ih, W_hh, b):
    U = ... + b  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + ...)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = np.empty_like(H)
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = ...
        dh = da[..., t, :] @ W_hh
    before = np.zeros_like(H)
    before[..., 1:, :] = ...
    return da @ ..., rows(da).T @ ..., rows(da).T @ ..., rows(da).sum(0)


# %% part="solution"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T + b  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = np.empty_like(H)
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    before = np.zeros_like(H)
    before[..., 1:, :] = H[..., :-1, :]
    return da @ W_ih, rows(da).T @ rows(X), rows(da).T @ rows(before), rows(da).sum(0)


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% part="check"
import numpy as np


def draw(rng):
    n, d, k = rng.permutation([2, 3, 4, 5, 6, 7])[:3]
    d, k = (int(rng.choice([1, size, size])) for size in (d, k))
    lead = [(), (1,), (8,), (9, 2)][rng.integers(4)]
    return {
        "X": rng.standard_normal((*lead, n, d)),
        "W_ih": rng.standard_normal((k, d)) / np.sqrt(d),
        "W_hh": rng.standard_normal((k, k)) / np.sqrt(k),
        "b": rng.standard_normal(k),
        "dH": rng.standard_normal((*lead, n, k)),
    }


# %% [markdown] part="mistake" lang="en"
# The values are right, but there are more than 2 n + 4 matrix products: some product that waits for nothing
# still stands in a loop.

# %% [markdown] part="mistake" lang="es"
# Los valores son correctos, pero hay más de 2 n + 4 productos de matrices: algún producto que no espera a
# nada sigue dentro de un bucle.

# %% part="mistake"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T + b
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    dX, dW_ih, dW_hh = np.empty_like(X), np.zeros_like(W_ih), np.zeros_like(W_hh)
    db = np.zeros_like(W_hh[0])
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        before = H[..., t - 1, :] if t > 0 else np.zeros_like(H[..., 0, :])
        da = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dX[..., t, :] = da @ W_ih
        dW_ih += rows(da).T @ rows(X[..., t, :])
        dW_hh += rows(da).T @ rows(before)
        db += rows(da).sum(0)
        dh = da @ W_hh
    return dX, dW_ih, dW_hh, db


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% [markdown] part="mistake" lang="en"
# dW_hh is made with h_t where h_{t-1} belongs: after the loop H has to be moved by one step, with zeros first.

# %% [markdown] part="mistake" lang="es"
# dW_hh se hace con h_t donde corresponde h_{t-1}: después del bucle hay que desplazar H un paso, con ceros al
# principio.

# %% part="mistake"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T + b  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = np.empty_like(H)
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh

    return da @ W_ih, rows(da).T @ rows(X), rows(da).T @ rows(H), rows(da).sum(0)


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% [markdown] part="mistake" lang="en"
# The state before the first step is the last one here: np.roll goes round in a circle. It has to be zeros.

# %% [markdown] part="mistake" lang="es"
# Aquí el estado anterior al primer paso es el último: np.roll da la vuelta en círculo. Tiene que ser ceros.

# %% part="mistake"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T + b  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = np.empty_like(H)
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    before = np.roll(H, 1, -2)
    return da @ W_ih, rows(da).T @ rows(X), rows(da).T @ rows(before), rows(da).sum(0)


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% [markdown] part="mistake" lang="en"
# The bias is gone: when the product with W_ih leaves the loop, b has to go with it, or stay inside.

# %% [markdown] part="mistake" lang="es"
# El sesgo se ha perdido: cuando el producto por W_ih sale del bucle, b tiene que irse con él o quedarse dentro.

# %% part="mistake"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = np.empty_like(H)
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    before = np.zeros_like(H)
    before[..., 1:, :] = H[..., :-1, :]
    return da @ W_ih, rows(da).T @ rows(X), rows(da).T @ rows(before), rows(da).sum(0)


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% [markdown] part="mistake" lang="en"
# The bias is added twice: before the loop and inside it.

# %% [markdown] part="mistake" lang="es"
# El sesgo se suma dos veces: antes del bucle y dentro de él.

# %% part="mistake"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T + b  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T + b)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = np.empty_like(H)
    dh = np.zeros_like(H[..., 0, :])
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    before = np.zeros_like(H)
    before[..., 1:, :] = H[..., :-1, :]
    return da @ W_ih, rows(da).T @ rows(X), rows(da).T @ rows(before), rows(da).sum(0)


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)


# %% [markdown] part="mistake" lang="en"
# The gradient does not go from step to step: each da_t needs da_{t+1} W_hh besides dH_t. That one product has
# to stay in the loop.

# %% [markdown] part="mistake" lang="es"
# El gradiente no pasa de un paso a otro: cada da_t necesita da_{t+1} W_hh además de dH_t. Ese producto sí
# tiene que quedarse en el bucle.

# %% part="mistake"
import numpy as np


def rnn(X, W_ih, W_hh, b):
    U = X @ W_ih.T + b  # (..., n, k), all steps at once
    H = np.empty_like(U)
    h = np.zeros_like(U[..., 0, :])
    for t in range(X.shape[-2]):
        h = np.tanh(U[..., t, :] + h @ W_hh.T)
        H[..., t, :] = h
    return H, (X, W_ih, W_hh, H)


def rnn_backward(dH, cache):
    X, W_ih, W_hh, H = cache
    da = dH * (1.0 - H**2)
    before = np.zeros_like(H)
    before[..., 1:, :] = H[..., :-1, :]
    return da @ W_ih, rows(da).T @ rows(X), rows(da).T @ rows(before), rows(da).sum(0)


def rows(X):
    return X.reshape(-1, X.shape[-1])


class Counted(np.ndarray):
    # an array that counts the matrix products it takes part in
    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return super().__matmul__(other)

    def __rmatmul__(self, other):
        Counted.products += 1
        return super().__rmatmul__(other)


def gradients(X, W_ih, W_hh, b, dH):
    Counted.products = 0
    H, cache = rnn(*(array.view(Counted) for array in (X, W_ih, W_hh, b)))
    answers = (H, *rnn_backward(dH.view(Counted), cache))
    few = Counted.products <= 2 * X.shape[-2] + 4
    return (*(np.asarray(answer) for answer in answers), few)
