# %% [markdown] part="task" lang="en"
# # Bug: a checker that cannot fail
#
# The worst bug is not in a gradient, it is in the check of gradients: it says "right" to whatever it is
# given, and everybody is happy. The checker below has been seen, piece by piece, in the test suites of
# well-known projects. It compares the backward of a softmax with the complex step, which is fine, and yet
# it lets three wrong backwards through.
#
# Three faults, three lines: an upstream gradient for which softmax has no gradient at all, so that
# zeros are right; a difference without its absolute value, so that too small is never wrong; and a
# comparison that is false for NaN, so that NaN is never wrong either. Correct them. The right backwards
# must still pass: no equality to the last bit.
#
# agrees(backward, X, rng) answers True or False; backward(dA, A) gives dX. rng is a NumPy generator.
#
# Shapes: X, A, dA, dX (n, m), with the softmax along the last axis.
#
# Example: what it should say of the six below: True True False False False False.
#     At present it says  True True True True True False.

# %% [markdown] part="task" lang="es"
# # Error: un comprobador que no puede fallar
#
# El peor error no está en un gradiente, está en la comprobación de los gradientes: dice "correcto" a
# todo lo que le den, y todos contentos. El comprobador de abajo se ha visto, pieza a pieza, en las
# pruebas de proyectos muy conocidos. Compara el paso hacia atrás de un softmax con el paso complejo, lo
# cual está bien, y aun así deja pasar tres que están mal.
#
# Tres fallos, tres líneas: un gradiente que llega con el que softmax no tiene gradiente alguno, así que los
# ceros son correctos; una diferencia sin valor absoluto, así que quedarse corto nunca está mal; y una
# comparación que es falsa con NaN, así que NaN tampoco está mal nunca. Corrígelos. Los correctos deben
# seguir pasando: nada de igualdad hasta el último bit.
#
# agrees(backward, X, rng) responde True o False; backward(dA, A) da dX. rng es un generador de NumPy.
#
# Formas: X, A, dA, dX (n, m), con el softmax a lo largo del último eje.
#
# Ejemplo: lo que debería decir de los seis de abajo: True True False False False False.
#     Por ahora dice  True True True True True False.

# %% part="start"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = np.ones(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = (backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    wrong = error > tolerance
    return not wrong


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="nudge" lang="en"
# Put dA = 1 into the formula of `right`. Then try in your head what max says of [-1, -1], and what NaN > 1,
# NaN <= 1 and not (NaN <= 1) are.

# %% [markdown] part="nudge" lang="es"
# Pon dA = 1 en la fórmula de `right`. Después prueba de cabeza qué dice max de [-1, -1], y qué son NaN > 1,
# NaN <= 1 y not (NaN <= 1).

# %% [markdown] part="formula" lang="en"
# dA random and dense: sum_j A_j 1 = 1, so dA = 1 gives dX = A (1 - 1) = 0
#
# error = max |got - dX|
#
# right only if error <= tolerance: for NaN that is False

# %% [markdown] part="formula" lang="es"
# dA aleatorio y denso: sum_j A_j 1 = 1, así que dA = 1 da dX = A (1 - 1) = 0
#
# error = max |got - dX|
#
# correcto solo si error <= tolerance: con NaN eso es False


# %% part="shape"
def agrees(backward, X, rng):
    dA = rng.standard_normal(...)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = np.abs(backward(dA, softmax(X)) - ...).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    return error <= ...


# %% part="solution"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = rng.standard_normal(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = np.abs(backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    return error <= tolerance


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% part="check"
import numpy as np


def draw(rng):
    n, m = int(rng.choice([1, 2])), int(rng.choice([3, 4, 5]))
    return {"X": rng.standard_normal((n, m)), "seed": int(rng.integers(1000))}


# %% [markdown] part="mistake" lang="en"
# Zeros still pass, since an upstream gradient of ones has no gradient through softmax.

# %% [markdown] part="mistake" lang="es"
# Los ceros siguen pasando, porque un gradiente de unos no deja gradiente a través de softmax.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = np.ones(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = np.abs(backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    return error <= tolerance


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="mistake" lang="en"
# What is too small still passes, since the difference has no absolute value.

# %% [markdown] part="mistake" lang="es"
# Lo que se queda corto sigue pasando, porque la diferencia no lleva valor absoluto.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = rng.standard_normal(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = (backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    return error <= tolerance


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="mistake" lang="en"
# NaN still passes, since NaN > tolerance is False.

# %% [markdown] part="mistake" lang="es"
# NaN sigue pasando, porque NaN > tolerance es False.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = rng.standard_normal(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = np.abs(backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    wrong = error > tolerance
    return not wrong


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="mistake" lang="en"
# Zeros still pass, since an upstream gradient of ones has no gradient through softmax; what is too small
# still passes, since the difference has no absolute value.

# %% [markdown] part="mistake" lang="es"
# Los ceros siguen pasando, porque un gradiente de unos no deja gradiente a través de softmax; lo que se queda
# corto sigue pasando, porque la diferencia no lleva valor absoluto.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = np.ones(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = (backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    return error <= tolerance


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="mistake" lang="en"
# Zeros still pass, since an upstream gradient of ones has no gradient through softmax; NaN still passes,
# since NaN > tolerance is False.

# %% [markdown] part="mistake" lang="es"
# Los ceros siguen pasando, porque un gradiente de unos no deja gradiente a través de softmax; NaN sigue
# pasando, porque NaN > tolerance es False.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = np.ones(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = np.abs(backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    wrong = error > tolerance
    return not wrong


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="mistake" lang="en"
# What is too small still passes, since the difference has no absolute value; NaN still passes, since NaN >
# tolerance is False.

# %% [markdown] part="mistake" lang="es"
# Lo que se queda corto sigue pasando, porque la diferencia no lleva valor absoluto; NaN sigue pasando, porque
# NaN > tolerance es False.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = rng.standard_normal(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = (backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    wrong = error > tolerance
    return not wrong


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)


# %% [markdown] part="mistake" lang="en"
# Right backwards are refused: the check asks for equality to the last bit, and two right ways of computing
# differ by rounding.

# %% [markdown] part="mistake" lang="es"
# Se rechazan pasos hacia atrás correctos: la comprobación pide igualdad hasta el último bit, y dos maneras
# correctas de calcular se diferencian en el redondeo.

# %% part="mistake"
import numpy as np


def softmax(X):
    E = np.exp(X - X.real.max(-1, keepdims=True))
    return E / E.sum(-1, keepdims=True)


def agrees(backward, X, rng):
    dA = rng.standard_normal(X.shape)
    dX = np.zeros(X.shape)
    for at in np.ndindex(X.shape):  # the complex step: right to the last digits
        step = np.zeros(X.shape, complex)
        step[at] = 1e-20j
        dX[at] = (dA * softmax(X + step)).sum().imag / 1e-20
    error = np.abs(backward(dA, softmax(X)) - dX).max()
    tolerance = 64 * np.finfo(float).eps * np.abs(dA).max()  # a few roundings of numbers of this size
    return tolerance > 0.0 and error == 0.0


def right(dA, A):
    return A * (dA - (A * dA).sum(-1, keepdims=True))


def right_too(dA, A):
    return A * dA - A * (A * dA).sum(-1, keepdims=True)


def zeros(dA, A):
    return np.zeros(A.shape)


def not_a_number(dA, A):
    return np.full(A.shape, np.nan)


def too_small(dA, A):
    return right(dA, A) - 1.0


def no_sum(dA, A):
    return A * dA


def verdicts(X, seed):  # what is judged
    backwards = (right, right_too, zeros, not_a_number, too_small, no_sum)
    return tuple(bool(agrees(backward, X, np.random.default_rng(seed))) for backward in backwards)
