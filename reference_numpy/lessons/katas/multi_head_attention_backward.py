# %% [markdown] part="task" lang="en"
# # Several heads, backward
#
# The backward of several heads is the backward of one, plus two moves that compute nothing. Splitting
# and merging only put numbers elsewhere, so the gradient of each is the other one: what was merged is
# split, what was split is merged. Whoever sees that is done in six lines.
#
# Go back from the end. Y = merged Wo gives dWo and the gradient of merged. Cut that into heads, let
# attention_backward do its work in all heads at once, merge dQ, dK and dV, and you stand before three
# linear layers with one X.
#
# Shapes: dY (..., n, k); return dX (..., n, d), dWq, dWk, dWv (d, H c), dWo (H c, k). rows(X) gives all
# tokens of all sequences as the rows of one matrix.
#
# Example: X = [[1, 2], [3, 4]], all matrices [[1, 0], [0, 1]], 2 heads, dY = [[1, 0], [0, 0]]
#     dX   [[0.3292, 0], [1.0908, 0]]
#     dWq  [[0.42, 0], [0.8399, 0]]    dWk  [[0.42, 0], [0.42, 0]]
#     dWv  [[2.7616, 0], [3.7616, 0]]  dWo  [[2.7616, 0], [3.964, 0]]

# %% [markdown] part="task" lang="es"
# # Varias cabezas, paso hacia atrás
#
# El paso hacia atrás de varias cabezas es el de una, más dos movimientos que no calculan nada. Cortar y
# unir solo ponen los números en otro sitio, así que el gradiente de cada uno es el otro: lo que se unió
# se corta, lo que se cortó se une. Quien lo ve termina en seis líneas.
#
# Empieza por el final. De Y = merged Wo salen dWo y el gradiente de merged. Córtalo en cabezas, deja que
# attention_backward trabaje en todas a la vez, une dQ, dK y dV, y te quedarás ante tres capas lineales
# con una sola X.
#
# Formas: dY (..., n, k); devuelve dX (..., n, d), dWq, dWk, dWv (d, H c), dWo (H c, k). rows(X) da todos
# los tokens de todas las secuencias como filas de una sola matriz.
#
# Ejemplo: X = [[1, 2], [3, 4]], todas las matrices [[1, 0], [0, 1]], 2 cabezas, dY = [[1, 0], [0, 0]]
#     dX   [[0.3292, 0], [1.0908, 0]]
#     dWq  [[0.42, 0], [0.8399, 0]]    dWk  [[0.42, 0], [0.42, 0]]
#     dWv  [[2.7616, 0], [3.7616, 0]]  dWo  [[2.7616, 0], [3.964, 0]]

# %% part="start"
from reference_numpy import attention, attention_backward


def split_heads(X, num_heads):
    return X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads).swapaxes(-3, -2)


def merge_heads(X):
    swapped = X.swapaxes(-3, -2)
    return swapped.reshape(*swapped.shape[:-2], X.shape[-3] * X.shape[-1])


def rows(X):
    return X.reshape(-1, X.shape[-1])


def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads, *, causal=False):
    Q, K, V = (split_heads(X @ W, num_heads) for W in (Wq, Wk, Wv))
    C, attention_cache = attention(Q, K, V, causal=causal)  # (..., H, n, c)
    merged = merge_heads(C)
    return merged @ Wo, (X, Wq, Wk, Wv, Wo, num_heads, merged, attention_cache)


def multi_head_attention_backward(dY, cache):
    X, Wq, Wk, Wv, Wo, num_heads, merged, attention_cache = cache
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Name every intermediate of the forward (merged, C, Q, K, V) and write the gradient of each, the last one
# first. Which of them has heads, and which has not?

# %% [markdown] part="nudge" lang="es"
# Nombra todos los valores intermedios del paso hacia adelante (merged, C, Q, K, V) y escribe el gradiente
# de cada uno, empezando por el último. ¿Cuáles tienen cabezas y cuáles no?

# %% [markdown] part="formula"
# dWo = merged^T dY
#
# dC = split_heads(dY Wo^T)
#
# dQ, dK, dV = merge_heads(attention'(dC))
#
# dX = dQ Wq^T + dK Wk^T + dV Wv^T
#
# dWq = X^T dQ
#
# dWk = X^T dK
#
# dWv = X^T dV


# %% part="shape"
def multi_head_attention_backward(dY, cache):
    X, Wq, Wk, Wv, Wo, num_heads, merged, attention_cache = cache
    dWo = rows(...).T @ rows(dY)  # (H c, k)
    dC = split_heads(dY @ ..., num_heads)  # (..., H, n, c)
    dQ, dK, dV = (...(gradient) for gradient in attention_backward(dC, attention_cache))
    dX = dQ @ Wq.T + ... + dV @ Wv.T
    dWq, dWk, dWv = (rows(X).T @ rows(...) for gradient in (dQ, dK, dV))
    return dX, dWq, dWk, dWv, dWo


# %% part="solution"
from reference_numpy import attention, attention_backward


def split_heads(X, num_heads):
    return X.reshape(*X.shape[:-1], num_heads, X.shape[-1] // num_heads).swapaxes(-3, -2)


def merge_heads(X):
    swapped = X.swapaxes(-3, -2)
    return swapped.reshape(*swapped.shape[:-2], X.shape[-3] * X.shape[-1])


def rows(X):
    return X.reshape(-1, X.shape[-1])


def multi_head_attention(X, Wq, Wk, Wv, Wo, num_heads, *, causal=False):
    Q, K, V = (split_heads(X @ W, num_heads) for W in (Wq, Wk, Wv))
    C, attention_cache = attention(Q, K, V, causal=causal)  # (..., H, n, c)
    merged = merge_heads(C)
    return merged @ Wo, (X, Wq, Wk, Wv, Wo, num_heads, merged, attention_cache)


def multi_head_attention_backward(dY, cache):
    X, Wq, Wk, Wv, Wo, num_heads, merged, attention_cache = cache
    dWo = rows(merged).T @ rows(dY)
    dC = split_heads(dY @ Wo.T, num_heads)
    dQ, dK, dV = (merge_heads(gradient) for gradient in attention_backward(dC, attention_cache))
    dX = dQ @ Wq.T + dK @ Wk.T + dV @ Wv.T
    dWq, dWk, dWv = (rows(X).T @ rows(gradient) for gradient in (dQ, dK, dV))
    return dX, dWq, dWk, dWv, dWo
