# %% [markdown] part="task" lang="en"
# # Bug: a bias that grows
#
# This layer was tested with matrices, and every test passed. With batches of sequences something
# strange happens: after the first step of training, `bias = bias - 0.01 * dbias`, the bias has
# become a matrix. NumPy broadcasts, so nothing crashes. From then on the model has a bias of its
# own for each position, and the loss even goes down.
#
# Find the line and mend it. What was right has to stay right.
#
# Approach: a gradient has the shape of that which it belongs to, always. Go through what comes
# back with X (B, n, d) in mind, and compare shapes. Then ask over which axes that operand was
# used again and again.
#
# Shapes: X (..., d), weight (k, d), bias (k,) or None, Y and dY (..., k); dbias (k,).
#
# Example: dY = [[[1, 2]], [[10, 20]], [[100, 200]]], of shape (3, 1, 2), gives dbias = [111,
# 222].

# %% [markdown] part="task" lang="es"
# # Un error: un sesgo que crece
#
# Esta capa se probó con matrices y pasó todas las pruebas. Con lotes de secuencias pasa algo
# raro: tras el primer paso de entrenamiento, `bias = bias - 0.01 * dbias`, el sesgo se ha
# convertido en una matriz. NumPy extiende las formas, así que nada falla. Desde entonces el
# modelo tiene un sesgo propio para cada posición, y hasta baja la pérdida.
#
# Encuentra la línea y arréglala. Lo que estaba bien tiene que seguir bien.
#
# Método: un gradiente tiene la forma de aquello a lo que pertenece, siempre. Repasa lo que se
# devuelve pensando en X (B, n, d) y compara las formas. Después pregunta a lo largo de qué ejes
# se usó una y otra vez ese operando.
#
# Formas: X (..., d), weight (k, d), bias (k,) o None, Y y dY (..., k); dbias (k,).
#
# Ejemplo: dY = [[[1, 2]], [[10, 20]], [[100, 200]]], de forma (3, 1, 2), da dbias = [111, 222].

# %% part="start"
def linear(X, weight, bias=None):
    Y = X @ weight.T if bias is None else X @ weight.T + bias
    return Y, (X, weight, bias)


def linear_backward(dY, cache):
    X, weight, bias = cache
    k, d = weight.shape
    dX = dY @ weight
    dweight = dY.reshape(-1, k).T @ X.reshape(-1, d)
    if bias is None:
        return dX, dweight
    dbias = dY.sum(axis=0)
    return dX, dweight, dbias


# %% [markdown] part="nudge" lang="en"
# What shape does dbias have if dY is (B, n, k)? And if dY is (k,), one row without any leading
# axis?

# %% [markdown] part="nudge" lang="es"
# ¿Qué forma tiene dbias si dY es (B, n, k)? ¿Y si dY es (k,), una sola fila sin ejes delante?

# %% [markdown] part="formula" lang="en"
#     dbias = sum of dY over every leading axis
#
# There may be none of them, one, two or more. dweight shows how they become one.

# %% [markdown] part="formula" lang="es"
#     dbias = suma de dY sobre todos los ejes de delante
#
# Puede no haber ninguno, o haber uno, dos o más. dweight muestra cómo se convierten en uno solo.


# %% part="shape"
def linear(X, weight, bias=None):
    Y = X @ weight.T if bias is None else X @ weight.T + bias
    return Y, (X, weight, bias)


def linear_backward(dY, cache):
    X, weight, bias = cache
    k, d = weight.shape
    dX = dY @ weight  # (..., d)
    dweight = dY.reshape(-1, k).T @ X.reshape(-1, d)  # (k, d)
    if bias is None:
        return dX, dweight
    dbias = dY.reshape(...).sum(axis=0)  # (k,)
    return dX, dweight, dbias


# %% part="solution"
def linear(X, weight, bias=None):
    Y = X @ weight.T if bias is None else X @ weight.T + bias
    return Y, (X, weight, bias)


def linear_backward(dY, cache):
    X, weight, bias = cache
    k, d = weight.shape
    dX = dY @ weight
    dweight = dY.reshape(-1, k).T @ X.reshape(-1, d)
    if bias is None:
        return dX, dweight
    dbias = dY.reshape(-1, k).sum(axis=0)
    return dX, dweight, dbias
