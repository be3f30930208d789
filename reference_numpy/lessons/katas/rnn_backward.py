# %% [markdown] part="task" lang="en"
# # Backward through time
#
# One matrix W_hh is used at every step, so a mistake at the end is the fault of all the steps before.
# Backward through time collects that fault: from the last step to the first, each state hears from the
# outside (dH_t) and from the step after it. Multiply by the same matrix a hundred times, and you also
# see with your own eyes why such gradients vanish or explode.
#
# da_t is the gradient of what stands inside tanh. Compute all da in a loop that runs backwards; from
# them everything else is a product after the loop. The outside speaks of h_last too: its gradient
# dh_last is where the loop begins. In dW_hh each da_t meets the state BEFORE its step: `before` in the
# cache holds h_{t-1} where H holds h_t.
#
# Shapes: dH (..., n, k), dh_last (..., k); return dX (..., n, d), dW_ih (k, d), dW_hh (k, k), db_ih and
# db_hh (k,), each an array of its own, and dh0 (..., k) only if h0 was given. rows(X) gives all steps
# of all sequences as the rows of one matrix.
#
# Example: X = [[1], [0], [0]], W_ih = [[1]], W_hh = [[0.5]], biases 0, dH = [[0], [0], [1]], dh_last = [0]
#     da    [[0.0882], [0.42], [0.9677]]: the further back, the fainter
#     dX    the same, since W_ih = 1
#     dW_ih = [[0.0882]], dW_hh = [[0.6715]], db_ih = db_hh = [1.4758]

# %% [markdown] part="task" lang="es"
# # Retropropagación en el tiempo
#
# Una misma matriz W_hh se usa en cada paso, así que de un error al final tienen la culpa todos los
# pasos anteriores. La retropropagación en el tiempo reúne esa culpa: del último paso al primero, cada
# estado recibe noticias de fuera (dH_t) y del paso siguiente. Multiplica cien veces por la misma matriz
# y verás con tus propios ojos por qué esos gradientes se desvanecen o explotan.
#
# da_t es el gradiente de lo que hay dentro de tanh. Calcula todos los da en un bucle que va hacia
# atrás; con ellos, todo lo demás es un producto después del bucle. De fuera también llega algo para
# h_last: su gradiente dh_last es por donde empieza el bucle. En dW_hh cada da_t se encuentra con el
# estado ANTERIOR a su paso: `before`, en la caché, contiene h_{t-1} donde H contiene h_t.
#
# Formas: dH (..., n, k), dh_last (..., k); devuelve dX (..., n, d), dW_ih (k, d), dW_hh (k, k), db_ih y
# db_hh (k,), cada uno en un arreglo propio, y dh0 (..., k) solo si se dio h0. rows(X) da todos los pasos
# de todas las secuencias como filas de una sola matriz.
#
# Ejemplo: X = [[1], [0], [0]], W_ih = [[1]], W_hh = [[0.5]], sesgos 0, dH = [[0], [0], [1]], dh_last = [0]
#     da    [[0.0882], [0.42], [0.9677]]: cuanto más atrás, más débil
#     dX    lo mismo, porque W_ih = 1
#     dW_ih = [[0.0882]], dW_hh = [[0.6715]], db_ih = db_hh = [1.4758]

# %% part="start"
import numpy as np


def rows(X):
    return X.reshape(-1, X.shape[-1])


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    h = np.zeros((*X.shape[:-2], len(W_hh))) if h0 is None else h0
    before = np.empty((*X.shape[:-1], len(W_hh)))
    H = np.empty(before.shape)  # (..., n, k)
    for t in range(X.shape[-2]):
        before[..., t, :] = h
        h = np.tanh(X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh)
        H[..., t, :] = h
    return (H, h), (X, W_ih, W_hh, h0, H, before)


def rnn_backward(dY, cache):
    dH, dh = dY  # dh is dh_last at first
    X, W_ih, W_hh, h0, H, before = cache
    da = np.empty(H.shape)  # from the last step to the first
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Inside the loop there are two lines: from (dH_t, dh) to da_t, and from da_t to the dh of the step before.
# What is the derivative of tanh, said with its output? And after the last round of the loop, what is dh?

# %% [markdown] part="nudge" lang="es"
# Dentro del bucle hay dos líneas: de (dH_t, dh) a da_t, y de da_t al dh del paso anterior. ¿Cuál es la
# derivada de tanh, dicha con su salida? Y tras la última vuelta del bucle, ¿qué es dh?

# %% [markdown] part="formula" lang="en"
# da_t = (dH_t + dh_t) (1 - h_t^2)
#
# dh_{t-1} = da_t W_hh, and dh_n = dh_last
#
# dX = da W_ih
#
# dW_ih = sum_t da_t^T x_t
#
# dW_hh = sum_t da_t^T h_{t-1}
#
# db_ih, db_hh = sum_t da_t
#
# dh0 = da_1 W_hh

# %% [markdown] part="formula" lang="es"
# da_t = (dH_t + dh_t) (1 - h_t^2)
#
# dh_{t-1} = da_t W_hh, y dh_n = dh_last
#
# dX = da W_ih
#
# dW_ih = sum_t da_t^T x_t
#
# dW_hh = sum_t da_t^T h_{t-1}
#
# db_ih, db_hh = sum_t da_t
#
# dh0 = da_1 W_hh


# %% part="shape"
def rnn_backward(dY, cache):
    dH, dh = dY  # dh is dh_last at first
    X, W_ih, W_hh, h0, H, before = cache
    da = np.empty(H.shape)
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * ...
        dh = da[..., t, :] @ ...
    dX = da @ ...
    dW_ih = rows(da).T @ rows(...)
    dW_hh = rows(da).T @ rows(...)
    db = rows(da).sum(...)
    gradients = (dX, dW_ih, dW_hh, db, db.copy())
    return gradients if h0 is None else (*gradients, ...)


# %% part="solution"
import numpy as np


def rows(X):
    return X.reshape(-1, X.shape[-1])


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    h = np.zeros((*X.shape[:-2], len(W_hh))) if h0 is None else h0
    before = np.empty((*X.shape[:-1], len(W_hh)))
    H = np.empty(before.shape)  # (..., n, k)
    for t in range(X.shape[-2]):
        before[..., t, :] = h
        h = np.tanh(X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh)
        H[..., t, :] = h
    return (H, h), (X, W_ih, W_hh, h0, H, before)


def rnn_backward(dY, cache):
    dH, dh = dY  # dh is dh_last at first
    X, W_ih, W_hh, h0, H, before = cache
    da = np.empty(H.shape)  # from the last step to the first
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    dX = da @ W_ih
    dW_ih = rows(da).T @ rows(X)
    dW_hh = rows(da).T @ rows(before)
    db = rows(da).sum(0)
    gradients = (dX, dW_ih, dW_hh, db, db.copy())
    return gradients if h0 is None else (*gradients, dh)
