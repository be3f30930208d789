# %% [markdown] part="task" lang="en"
# # The Elman network
#
# Before attention, a network read a text as we do: from left to right, with one vector as its memory.
# Each new token changes the memory, and the memory is all that is left of everything before. It is
# small, and its gradient is the best way to understand why attention was wanted.
#
# Begin with h0, or with zeros if it is None. At each step the new state is tanh of what the token says
# plus what the old state says, each through a matrix and with a bias of its own (two biases, as in
# nn.RNN). The weights have torch's layout (out, in), so they are transposed in the product.
#
# Shapes: X (..., n, d), W_ih (k, d), W_hh (k, k), b_ih and b_hh (k,), h0 (..., k) or None.
# Return (H, h_last): all states H (..., n, k), and the last of them (..., k) as an array of its own.
#
# Example: X = [[1], [0], [0]], W_ih = [[1]], W_hh = [[0.5]], biases 0
#     H = [[0.7616], [0.3634], [0.1797]], h_last = [0.1797]: the first token, fading
#     with h0 = [1]  H = [[0.9051], [0.424], [0.2089]]

# %% [markdown] part="task" lang="es"
# # La red de Elman
#
# Antes de la atención, una red leía un texto como nosotros: de izquierda a derecha y con un solo vector
# por memoria. Cada token nuevo cambia la memoria, y la memoria es todo lo que queda de lo anterior. Es
# una red pequeña, y su gradiente es la mejor manera de entender por qué hizo falta la atención.
#
# Empieza con h0, o con ceros si es None. En cada paso el nuevo estado es la tanh de lo que dice el
# token más lo que dice el estado anterior, cada uno a través de una matriz y con su propio sesgo (dos
# sesgos, como en nn.RNN). Los pesos tienen la disposición de torch (salida, entrada), así que en el
# producto van traspuestos.
#
# Formas: X (..., n, d), W_ih (k, d), W_hh (k, k), b_ih y b_hh (k,), h0 (..., k) o None.
# Devuelve (H, h_last): todos los estados H (..., n, k), y el último (..., k) en un arreglo propio.
#
# Ejemplo: X = [[1], [0], [0]], W_ih = [[1]], W_hh = [[0.5]], sesgos 0
#     H = [[0.7616], [0.3634], [0.1797]], h_last = [0.1797]: el primer token, que se desvanece
#     con h0 = [1]  H = [[0.9051], [0.424], [0.2089]]

# %% part="start"
import numpy as np


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# With any number of leading axes the token at step t is X[..., t, :]. What shape has the state that
# belongs to it, before the first step?

# %% [markdown] part="nudge" lang="es"
# Con cualquier número de ejes delante, el token del paso t es X[..., t, :]. ¿Qué forma tiene el estado
# que le corresponde antes del primer paso?

# %% [markdown] part="formula"
# h_t = tanh(x_t W_ih^T + b_ih + h_{t-1} W_hh^T + b_hh)
#
# H = (h_1, ..., h_n)
#
# h_last = h_n

# %% part="shape"
import numpy as np


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    n, k = X.shape[-2], W_ih.shape[0]
    h = np.zeros((*X.shape[:-2], ...)) if h0 is None else h0
    H = np.empty((*X.shape[:-1], k))  # (..., n, k)
    for t in range(n):
        h = np.tanh(X[..., t, :] @ ... + b_ih + h @ ... + b_hh)
        H[..., t, :] = h
    return H, h


# %% part="solution"
import numpy as np


def rnn(X, W_ih, W_hh, b_ih, b_hh, h0=None):
    n, k = X.shape[-2], W_ih.shape[0]
    h = np.zeros((*X.shape[:-2], k)) if h0 is None else h0
    H = np.empty((*X.shape[:-1], k))  # (..., n, k)
    for t in range(n):
        h = np.tanh(X[..., t, :] @ W_ih.T + b_ih + h @ W_hh.T + b_hh)
        H[..., t, :] = h
    return H, h
