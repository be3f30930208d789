# %% [markdown] part="task" lang="en"
# # Bug: off by one step
#
# Time has an index, and an index can be off by one. This backward is right in dX, dW_ih, both biases
# and dh0; only dW_hh is made with the state of the wrong moment. The shapes fit, nothing crashes, the
# network even learns, since neighbouring states look alike. That is what makes the mistake so durable.
#
# Find the line and correct it. You will need a state that no line of the backward has at hand yet: the
# one before the first step. Where is it, if h0 was given, and what is it, if not?
#
# Shapes: H (..., n, k), h0 (..., k) or None, dW_hh (k, k).
#
# Example: X = [[1], [0], [0]], W_ih = [[1]], W_hh = [[0.5]], biases 0, dH = [[0], [0], [1]], dh_last = [0]
#     right dW_hh  [[0.6715]]
#     this dW_hh   [[0.3937]]

# %% [markdown] part="task" lang="es"
# # Error: un paso de diferencia
#
# El tiempo lleva un índice, y un índice puede ir un paso desplazado. Este paso hacia atrás está bien en
# dX, dW_ih, los dos sesgos y dh0; solo dW_hh se calcula con el estado del momento equivocado. Las formas
# encajan, nada falla, la red incluso aprende, porque los estados vecinos se parecen. Por eso el error
# dura tanto.
#
# Encuentra la línea y corrígela. Necesitarás un estado que ninguna línea del paso hacia atrás tiene
# todavía a mano: el anterior al primer paso. ¿Dónde está, si se dio h0, y cuál es, si no?
#
# Formas: H (..., n, k), h0 (..., k) o None, dW_hh (k, k).
#
# Ejemplo: X = [[1], [0], [0]], W_ih = [[1]], W_hh = [[0.5]], sesgos 0, dH = [[0], [0], [1]], dh_last = [0]
#     dW_hh correcto  [[0.6715]]
#     este dW_hh      [[0.3937]]

# %% part="start"
import numpy as np


def rows(X):
    return X.reshape(-1, X.shape[-1])


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    h = np.zeros((*X.shape[:-2], len(W_hh))) if h0 is None else h0
    H = np.empty((*X.shape[:-1], len(W_hh)))  # (..., n, k)
    for t in range(X.shape[-2]):
        h = np.tanh(X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh)
        H[..., t, :] = h
    return (H, h), (X, W_ih, W_hh, h0, H)


def rnn_backward(dY, cache):
    dH, dh = dY
    X, W_ih, W_hh, h0, H = cache
    da = np.empty(H.shape)
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    dX = da @ W_ih
    dW_ih = rows(da).T @ rows(X)
    dW_hh = rows(da).T @ rows(H)
    db = rows(da).sum(0)
    gradients = (dX, dW_ih, dW_hh, db, db.copy())
    return gradients if h0 is None else (*gradients, dh)


# %% [markdown] part="nudge" lang="en"
# In the forward, which state is multiplied by W_hh to make h_t? Write it beside each da_t and compare
# with the rows that stand in H.

# %% [markdown] part="nudge" lang="es"
# En el paso hacia adelante, ¿qué estado se multiplica por W_hh para hacer h_t? Escríbelo junto a cada da_t
# y compáralo con las filas que hay en H.

# %% [markdown] part="formula" lang="en"
# dW_hh = sum_t da_t^T h_{t-1}
#
# that is, da against (h_0, h_1, ..., h_{n-1}): H moved down by one row, with h0 (or zeros) on top

# %% [markdown] part="formula" lang="es"
# dW_hh = sum_t da_t^T h_{t-1}
#
# es decir, da contra (h_0, h_1, ..., h_{n-1}): H bajada una fila, con h0 (o ceros) encima


# %% part="shape"
def rnn_backward(dY, cache):
    dH, dh = dY
    X, W_ih, W_hh, h0, H = cache
    da = np.empty(H.shape)
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    before = np.zeros(H.shape)
    before[..., 1:, :] = ...
    if h0 is not None:
        before[..., 0, :] = ...
    dX = da @ W_ih
    dW_ih = rows(da).T @ rows(X)
    dW_hh = rows(da).T @ rows(...)
    db = rows(da).sum(0)
    gradients = (dX, dW_ih, dW_hh, db, db.copy())
    return gradients if h0 is None else (*gradients, dh)


# %% part="solution"
import numpy as np


def rows(X):
    return X.reshape(-1, X.shape[-1])


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    h = np.zeros((*X.shape[:-2], len(W_hh))) if h0 is None else h0
    H = np.empty((*X.shape[:-1], len(W_hh)))  # (..., n, k)
    for t in range(X.shape[-2]):
        h = np.tanh(X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh)
        H[..., t, :] = h
    return (H, h), (X, W_ih, W_hh, h0, H)


def rnn_backward(dY, cache):
    dH, dh = dY
    X, W_ih, W_hh, h0, H = cache
    da = np.empty(H.shape)
    for t in reversed(range(H.shape[-2])):
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    before = np.zeros(H.shape)
    before[..., 1:, :] = H[..., :-1, :]
    if h0 is not None:
        before[..., 0, :] = h0
    dX = da @ W_ih
    dW_ih = rows(da).T @ rows(X)
    dW_hh = rows(da).T @ rows(before)
    db = rows(da).sum(0)
    gradients = (dX, dW_ih, dW_hh, db, db.copy())
    return gradients if h0 is None else (*gradients, dh)
