# %% [markdown] part="task" lang="en"
# # Bug: the loss that likes padding
#
# Somebody's training looks fine: the loss goes down, the gradients look healthy. But batches of
# short tales show smaller losses than batches of long ones, and they move the weights less.
# Nothing of that should be: padding is there to fill the rectangle, and says nothing about how
# well the model guesses.
#
# Find the line and mend `cross_entropy` (and `cross_entropy_backward`, if it needs it).
#
# Approach: take a batch with one real row and add a row of padding to it. What should happen to
# the loss? What does happen? Follow the number that changes.
#
# Shapes: logits (..., v), targets (...), loss a number; dlogits as logits.
#
# Example: logits = [[2, 0], [0, 0], [7, 1]], targets = [0, 1, -100], ignore_index = -100. Right
# is 0.4100, the mean of 0.1269 and 0.6931; the file as it is says 0.2734.

# %% [markdown] part="task" lang="es"
# # Un error: la pérdida a la que le gusta el relleno
#
# El entrenamiento de alguien parece ir bien: la pérdida baja y los gradientes tienen buen
# aspecto. Pero los lotes de cuentos cortos muestran pérdidas menores que los de cuentos largos, y
# mueven menos los pesos. Nada de eso debería pasar: el relleno está para completar el rectángulo
# y no dice nada de lo bien que adivina el modelo.
#
# Encuentra la línea y arregla `cross_entropy` (y `cross_entropy_backward`, si le hace falta).
#
# Método: toma un lote con una sola fila de verdad y añádele una fila de relleno. ¿Qué tendría que
# pasarle a la pérdida? ¿Qué le pasa? Sigue el número que cambia.
#
# Formas: logits (..., v), targets (...), loss un número; dlogits como logits.
#
# Ejemplo: logits = [[2, 0], [0, 0], [7, 1]], targets = [0, 1, -100], ignore_index = -100. Lo
# correcto es 0.4100, la media de 0.1269 y 0.6931; el archivo tal como está dice 0.2734.

# %% part="start"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]
    D = logits - logits.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))
    losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], 0.0)
    M = losses.size
    return losses.sum() / M, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    log_P, rows, counted, M = cache
    onehot = rows == np.arange(log_P.shape[-1])
    dlogits = (np.exp(log_P) - onehot) * (dloss / M)
    return np.where(counted[..., None], dlogits, 0.0)


# %% [markdown] part="nudge" lang="en"
# The sum is right: padding adds 0 to it. So look below the fraction line: what does M count?

# %% [markdown] part="nudge" lang="es"
# La suma está bien: el relleno le añade 0. Así que mira debajo de la raya de la fracción: ¿qué
# cuenta M?

# %% [markdown] part="formula" lang="en"
#     M = number of rows with target != ignore_index
#
#     loss = (sum of the counted losses) / M
#
#     dlogits = (P - onehot(targets)) * counted * dloss / M
#
# Loss and gradient divide by the same M, so that both are right as soon as it is.

# %% [markdown] part="formula" lang="es"
#     M = número de filas con target != ignore_index
#
#     loss = (suma de las pérdidas contadas) / M
#
#     dlogits = (P - onehot(targets)) * counted * dloss / M
#
# La pérdida y el gradiente dividen entre el mismo M, así que los dos estarán bien en cuanto lo
# esté él.

# %% part="shape"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]  # (..., 1)
    D = logits - logits.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))  # (..., v)
    losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], 0.0)  # (...)
    M = ...
    return losses.sum() / M, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    log_P, rows, counted, M = cache
    onehot = rows == np.arange(log_P.shape[-1])
    dlogits = (np.exp(log_P) - onehot) * (dloss / M)
    return np.where(counted[..., None], dlogits, 0.0)


# %% part="solution"
import numpy as np


def cross_entropy(logits, targets, ignore_index=None):
    counted = np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index
    rows = np.where(counted, targets, 0)[..., None]
    D = logits - logits.max(-1, keepdims=True)
    log_P = D - np.log(np.exp(D).sum(-1, keepdims=True))
    losses = np.where(counted, -np.take_along_axis(log_P, rows, -1)[..., 0], 0.0)
    M = counted.sum()
    return losses.sum() / M, (log_P, rows, counted, M)


def cross_entropy_backward(dloss, cache):
    log_P, rows, counted, M = cache
    onehot = rows == np.arange(log_P.shape[-1])
    dlogits = (np.exp(log_P) - onehot) * (dloss / M)
    return np.where(counted[..., None], dlogits, 0.0)
