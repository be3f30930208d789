# %% [markdown] part="task" lang="en"
# # Two ways to check a gradient
#
# A gradient that you derived is a claim, and these are the two witnesses that can always be called. The
# first moves one entry by a small step h in both directions and divides the difference by 2 h. It needs
# nothing but the function; yet the two values nearly cancel, so half of the digits are lost.
#
# The second is almost magic: take the step along the imaginary axis. f(x + i h) = f(x) + i h f'(x) + ...,
# and f'(x) stands alone in the imaginary part. There is no subtraction, so nothing cancels, h may be 1e-20,
# and the answer is right to the last digits. f has to let complex numbers through; the one below does.
#
# Write both for a function f of one array that gives one number. One entry at a time: all others stay.
#
# Shapes: X (n, d); both return an array (n, d), df/dX. The steps H and TINY are given: H is about the cube
# root of the unit roundoff, where the error of the formula and the lost digits balance.
#
# Example: exp at 1, whose derivative is e
#     one-sided with H           off by 8.2e-06
#     central with H             off by 1.5e-11
#     central with h = 1e-10     off by 6.7e-07: too small a step is worse
#     complex step, h = 1e-20    exactly e

# %% [markdown] part="task" lang="es"
# # Dos maneras de comprobar un gradiente
#
# Un gradiente que has derivado es una afirmación, y estos son los dos testigos a los que siempre se puede
# llamar. El primero mueve una entrada un paso pequeño h en los dos sentidos y divide la diferencia por 2 h.
# No necesita nada más que la función; pero los dos valores casi se cancelan, y se pierde la mitad de las
# cifras.
#
# El segundo es casi magia: da el paso a lo largo del eje imaginario. f(x + i h) = f(x) + i h f'(x) + ...,
# y f'(x) queda sola en la parte imaginaria. No hay ninguna resta, así que nada se cancela, h puede ser
# 1e-20 y la respuesta es correcta hasta las últimas cifras. f tiene que dejar pasar números complejos; la
# de abajo lo hace.
#
# Escribe las dos para una función f de un arreglo que da un número. Una entrada cada vez: las demás no se
# mueven.
#
# Formas: X (n, d); las dos devuelven un arreglo (n, d), df/dX. Los pasos H y TINY están dados: H es más o
# menos la raíz cúbica de la unidad de redondeo, donde se equilibran el error de la fórmula y las cifras
# perdidas.
#
# Ejemplo: exp en 1, cuya derivada es e
#     a un solo lado con H          error 8.2e-06
#     central con H                 error 1.5e-11
#     central con h = 1e-10         error 6.7e-07: un paso demasiado pequeño es peor
#     paso complejo, h = 1e-20      exactamente e

# %% part="start"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    raise NotImplementedError


def complex_step(f, X):
    raise NotImplementedError


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="nudge" lang="en"
# np.ndindex(X.shape) goes through all places of X. At each of them make an array of zeros with the step in
# that one place. What dtype must that array have, so that it can hold an imaginary step?

# %% [markdown] part="nudge" lang="es"
# np.ndindex(X.shape) recorre todos los sitios de X. En cada uno haz un arreglo de ceros con el paso solo en ese
# sitio. ¿Qué dtype debe tener ese arreglo para poder contener un paso imaginario?

# %% [markdown] part="formula" lang="en"
# dX_ij = (f(X + h E_ij) - f(X - h E_ij)) / (2 h),  E_ij = 1 in the place i, j and 0 elsewhere,  h = H
#
# dX_ij = Im f(X + i h E_ij) / h,  h = TINY

# %% [markdown] part="formula" lang="es"
# dX_ij = (f(X + h E_ij) - f(X - h E_ij)) / (2 h),  E_ij = 1 en el sitio i, j y 0 en los demás,  h = H
#
# dX_ij = Im f(X + i h E_ij) / h,  h = TINY


# %% part="shape"
def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = ...
        dX[at] = (f(X + step) - f(...)) / ...
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, ...)  # (n, d)
        step[at] = 1j * TINY
        dX[at] = f(...).imag / ...
    return dX


# %% part="solution"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = H
        dX[at] = (f(X + step) - f(X - step)) / (2.0 * H)
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[at] = 1j * TINY
        dX[at] = f(X + step).imag / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% part="check"
import numpy as np


def draw(rng):
    n, d, k = (int(size) for size in rng.permutation([2, 3, 4]))
    n, d = int(rng.choice([1, n, n])), int(rng.choice([1, d, d]))
    return {"X": rng.standard_normal((n, d)), "W": rng.standard_normal((d, k)) / np.sqrt(d)}


# %% [markdown] part="mistake" lang="en"
# The difference is one-sided, (f(x + h) - f(x)) / h: its error falls with h only, that of the central one
# with h^2.

# %% [markdown] part="mistake" lang="es"
# La diferencia es de un solo lado, (f(x + h) - f(x)) / h: su error baja solo con h; el de la central, con h^2.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = H
        dX[at] = (f(X + step) - f(X)) / H
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[at] = 1j * TINY
        dX[at] = f(X + step).imag / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="mistake" lang="en"
# The central difference is twice too large: between x - h and x + h there are 2 h, not h.

# %% [markdown] part="mistake" lang="es"
# La diferencia central es el doble de lo que debe: entre x - h y x + h hay 2 h, no h.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = H
        dX[at] = (f(X + step) - f(X - step)) / H
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[at] = 1j * TINY
        dX[at] = f(X + step).imag / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="mistake" lang="en"
# The central difference takes the step 1e-20: X + 1e-20 is X, and the difference is 0. It needs H, the
# complex step alone may be that small.

# %% [markdown] part="mistake" lang="es"
# La diferencia central da el paso 1e-20: X + 1e-20 es X, y la diferencia es 0. Necesita H; tan pequeño solo
# puede ser el paso complejo.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = TINY
        dX[at] = (f(X + step) - f(X - step)) / (2.0 * TINY)
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[at] = 1j * TINY
        dX[at] = f(X + step).imag / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="mistake" lang="en"
# The complex step is taken with H: its error is about h^2, 1e-11, and nothing forces that, since nothing
# cancels. Use TINY.

# %% [markdown] part="mistake" lang="es"
# El paso complejo se da con H: su error es de orden h^2, 1e-11, y nada obliga a ello, porque nada se cancela.
# Usa TINY.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = H
        dX[at] = (f(X + step) - f(X - step)) / (2.0 * H)
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[at] = 1j * H
        dX[at] = f(X + step).imag / H
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="mistake" lang="en"
# Every entry is moved at once: each place then gets the sum of all derivatives. The step belongs into one
# place, with zeros elsewhere.

# %% [markdown] part="mistake" lang="es"
# Se mueven todas las entradas a la vez: cada sitio recibe así la suma de todas las derivadas. El paso va en un
# solo sitio, con ceros en los demás.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[...] = H
        dX[at] = (f(X + step) - f(X - step)) / (2.0 * H)
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[...] = 1j * TINY
        dX[at] = f(X + step).imag / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="mistake" lang="en"
# The steps pile up: the entries that were moved before are still moved. Begin with new zeros at each place.

# %% [markdown] part="mistake" lang="es"
# Los pasos se acumulan: las entradas que ya se movieron siguen movidas. Empieza en cada sitio con ceros nuevos.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    step = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step[at] = H
        dX[at] = (f(X + step) - f(X - step)) / (2.0 * H)
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    step = np.zeros(X.shape, complex)
    for at in np.ndindex(X.shape):
        step[at] = 1j * TINY
        dX[at] = f(X + step).imag / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)


# %% [markdown] part="mistake" lang="en"
# The real part is taken: that is f(x) itself, divided by 1e-20. The derivative stands in the imaginary part.

# %% [markdown] part="mistake" lang="es"
# Se toma la parte real: esa es la propia f(x), dividida por 1e-20. La derivada está en la parte imaginaria.

# %% part="mistake"
import numpy as np

H = 6e-6
TINY = 1e-20


def central_difference(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros_like(X)
        step[at] = H
        dX[at] = (f(X + step) - f(X - step)) / (2.0 * H)
    return dX


def complex_step(f, X):
    dX = np.zeros_like(X)
    for at in np.ndindex(X.shape):
        step = np.zeros(X.shape, complex)
        step[at] = 1j * TINY
        dX[at] = f(X + step).real / TINY
    return dX


def loss(X, W):  # one number for an array X
    return np.tanh(X @ W).sum()


def gradient_check(X, W):  # what is judged
    return central_difference(lambda Y: loss(Y, W), X), complex_step(lambda Y: loss(Y, W), X)
