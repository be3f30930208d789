# %% [markdown] part="task" lang="en"
# # Simplify: softmax from its atoms
#
# Autograd knows no softmax, it knows atoms: a maximum, a difference, exp, a sum, a reciprocal, a
# product. Going back through them one by one is right, and so is the file you have: each line of
# the backward undoes the line of the forward named beside it. It is also long, it makes an array
# at each line, and it must remember three of them.
#
# Make `softmax_backward` one expression: at most 2 statements, and still right for every input.
# Change the forward as you like: what does it have to remember now?
#
# Approach: put the lines into each other, from the top. E R is A; write A wherever you see it.
# One of the atoms turns out to give exactly 0, so that it can go: which, and why?
#
# Shapes: X, A, dA, dX and D, E (..., n); top, S, R (..., 1).
#
# Example: A = [0.2, 0.3, 0.5] and dA = [1, 2, 3] give dX = [-0.26, -0.09, 0.35], before and
# after.

# %% [markdown] part="task" lang="es"
# # Simplifica: softmax a partir de sus átomos
#
# Autograd no conoce softmax; conoce átomos: un máximo, una diferencia, exp, una suma, un
# recíproco, un producto. Volver atrás por ellos, uno a uno, es correcto, y también lo es el
# archivo que recibes: cada línea del paso hacia atrás deshace la línea del paso hacia adelante
# que se nombra al lado. Pero es largo, crea un arreglo en cada línea y tiene que recordar tres.
#
# Convierte `softmax_backward` en una sola expresión: como mucho 2 instrucciones, y que siga
# siendo correcta con cualquier entrada. Cambia el paso hacia adelante como quieras: ¿qué le queda
# por recordar?
#
# Método: sustituye unas líneas en otras, de arriba abajo. E R es A; escribe A donde aparezca. Uno
# de los átomos resulta dar exactamente 0, así que puede irse: ¿cuál, y por qué?
#
# Formas: X, A, dA, dX y D, E (..., n); top, S, R (..., 1).
#
# Ejemplo: A = [0.2, 0.3, 0.5] y dA = [1, 2, 3] dan dX = [-0.26, -0.09, 0.35], antes y después.

# %% part="start"
import numpy as np


def softmax(X):
    top = X.max(-1, keepdims=True)
    D = X - top
    E = np.exp(D)
    S = E.sum(-1, keepdims=True)
    R = 1.0 / S
    A = E * R
    return A, (D, E, R)


def softmax_backward(dA, cache):
    D, E, R = cache
    dE = dA * R  # A = E * R
    dR = (dA * E).sum(-1, keepdims=True)  # A = E * R
    dS = -dR * R * R  # R = 1 / S
    dE = dE + dS  # S = sum E
    dD = dE * E  # E = exp(D)
    dtop = -dD.sum(-1, keepdims=True)  # D = X - top
    at_top = D == 0.0
    dX = dD + at_top * (dtop / at_top.sum(-1, keepdims=True))  # D = X - top, top = max X
    return dX


# %% [markdown] part="nudge" lang="en"
# Start with dR R: it is (dA E).sum() R, and R may move inside the sum, since it is one number for
# each row. What stands there then? And put numbers into dtop for the example, or think of what
# happens to A when top changes and X does not.

# %% [markdown] part="nudge" lang="es"
# Empieza por dR R: es (dA E).sum() R, y R puede entrar en la suma, porque es un solo número por
# fila. ¿Qué queda ahí entonces? Y pon números en dtop con el ejemplo, o piensa qué le pasa a A
# cuando cambia top y no cambia X.

# %% [markdown] part="formula"
#     dR R = sum_j dA_j E_j R = sum_j A_j dA_j
#
#     dE_i = R (dA_i - sum_j A_j dA_j)
#
#     dD_i = E_i dE_i = A_i (dA_i - sum_j A_j dA_j)
#
#     dtop = -sum_i dD_i = -(sum_i A_i dA_i - (sum_i A_i) (sum_j A_j dA_j)) = 0
#
#     dX = dD = A * (dA - sum(A * dA))

# %% part="shape"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, ...


def softmax_backward(dA, cache):
    A = cache
    return A * (dA - ...)  # (..., n) * ((..., n) - (..., 1))


# %% part="solution"
import numpy as np


def softmax(X):
    E = np.exp(X - X.max(-1, keepdims=True))
    A = E / E.sum(-1, keepdims=True)
    return A, A


def softmax_backward(dA, cache):
    A = cache
    return A * (dA - (A * dA).sum(-1, keepdims=True))  # (..., n)
