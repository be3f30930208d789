# %% [markdown] part="task" lang="en"
# # A linear layer, backward
#
# Nearly all the arithmetic of a GPT is here: queries, keys, values, feed-forward and head are
# linear layers, and their two products backward cost twice what the one forward costs. Who can
# write this line by heart can write half of a transformer's backward.
#
# Write `linear_backward(dY, cache)`. It returns dX and dweight, and dbias as the third if there
# is a bias.
#
# Approach: write Y_tk = sum_i X_ti weight_ki + bias_k for one row t, and ask of each operand: in
# which entries of Y does it occur, and with which factor? The gradient is the sum over these.
# weight and bias serve every row of every sample, so their gradients are sums over all of them:
# reshape the leading axes into one.
#
# Shapes: X (..., d), weight (k, d) as in torch, bias (k,) or None, Y and dY (..., k).
#
# Example: X = [[1, 2], [3, 4]], weight = [[1, 0], [0, 1], [1, 1]], dY = [[1, 0, 2], [0, 1, 1]]
# give
#
#     dX = [[3, 2], [1, 2]]    dweight = [[1, 2], [3, 4], [5, 8]]    dbias = [1, 1, 3]

# %% [markdown] part="task" lang="es"
# # Una capa lineal hacia atrás
#
# Casi toda la aritmética de un GPT está aquí: consultas, claves, valores, feed-forward y la capa
# de salida son capas lineales, y sus dos productos hacia atrás cuestan el doble que el único de
# ida. Quien se sabe esta línea de memoria sabe escribir la mitad del paso hacia atrás de un
# transformer.
#
# Escribe `linear_backward(dY, cache)`. Devuelve dX y dweight, y además dbias, el tercero, si hay
# sesgo.
#
# Método: escribe Y_tk = sum_i X_ti weight_ki + bias_k para una fila t y pregunta por cada
# operando: ¿en qué elementos de Y aparece, y con qué factor? El gradiente es la suma sobre ellos.
# weight y bias sirven a todas las filas de todas las muestras, así que sus gradientes son sumas
# sobre todas: junta con reshape los ejes de delante en uno solo.
#
# Formas: X (..., d), weight (k, d) como en torch, bias (k,) o None, Y y dY (..., k).
#
# Ejemplo: X = [[1, 2], [3, 4]], weight = [[1, 0], [0, 1], [1, 1]], dY = [[1, 0, 2], [0, 1, 1]]
# dan
#
#     dX = [[3, 2], [1, 2]]    dweight = [[1, 2], [3, 4], [5, 8]]    dbias = [1, 1, 3]

# %% part="start"
def linear(X, weight, bias=None):
    Y = X @ weight.T if bias is None else X @ weight.T + bias
    return Y, (X, weight, bias)


def linear_backward(dY, cache):
    raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Let the shapes lead you: dX (..., d) has to come out of dY (..., k) and weight (k, d), and
# dweight (k, d) out of dY and X. What vanishes in each product is what is summed over: k in the
# one, all rows in the other.

# %% [markdown] part="nudge" lang="es"
# Déjate llevar por las formas: dX (..., d) tiene que salir de dY (..., k) y weight (k, d), y
# dweight (k, d), de dY y X. Lo que desaparece en cada producto es aquello sobre lo que se suma: k
# en uno, todas las filas en el otro.

# %% [markdown] part="formula"
#     dX = dY weight            dX_ti = sum_k dY_tk weight_ki
#
#     dweight = dY^T X          dweight_ki = sum_t dY_tk X_ti
#
#     dbias = sum_t dY_t


# %% part="shape"
def linear(X, weight, bias=None):
    Y = X @ weight.T if bias is None else X @ weight.T + bias
    return Y, (X, weight, bias)


def linear_backward(dY, cache):
    X, weight, bias = cache
    k, d = weight.shape
    rows = dY.reshape(-1, k)  # (N, k)
    dX = dY @ ...  # (..., d)
    dweight = ... @ X.reshape(-1, d)  # (k, N) (N, d)
    if bias is None:
        return dX, dweight
    return dX, dweight, rows.sum(...)  # (k,)


# %% part="solution"
def linear(X, weight, bias=None):
    Y = X @ weight.T if bias is None else X @ weight.T + bias
    return Y, (X, weight, bias)


def linear_backward(dY, cache):
    X, weight, bias = cache
    k, d = weight.shape
    rows = dY.reshape(-1, k)  # (N, k)
    dX = dY @ weight  # (..., d)
    dweight = rows.T @ X.reshape(-1, d)  # (k, d)
    if bias is None:
        return dX, dweight
    return dX, dweight, rows.sum(0)  # (k,)
