# %% [markdown] part="task" lang="en"
# # Predict: what projections do to shapes
#
# Most bugs in attention can be seen in a shape, before a single number is computed. So there is
# no code to write here: think, and put down what you expect.
#
# A matrix of d rows and c columns sends each row of X, a point with d coordinates, to a point
# with c coordinates. Self-attention sends the same X through three such matrices and compares
# what comes out:
#
#     Q = X Wq    K = X Wk    V = X Wv    Omega = Q K^T    A = softmax(Omega / sqrt(c))    C = A V
#
# Sizes: n = 4 tokens, d = 3, c = 2. X is (n, d), Wq and Wk are (d, c), and Wv is (d, e) with e =
# 5.
#
# Replace each `...`: a shape is a tuple, a count a whole number.
#
# * `products`, `transpositions`: how many matrix products and how many transpositions there are
#   from X to C.
# * `point`: where the point (2, -1, 3) goes under the 3 x 2 matrix W = [[1, 0], [0, 1], [2, -1]].
# * `lost`: the point (a, b, 1) that W sends to the origin (0, 0). A projection forgets: every
#   point of that line is lost.
#
# Example: shape_X = (4, 3), and W sends (1, 1, 1) to (1 + 0 + 2, 0 + 1 - 1) = (3, 0).

# %% [markdown] part="task" lang="es"
# # Predice: qué les hace una proyección a las formas
#
# En una atención, la mayoría de los errores se ven en la forma de un arreglo, antes de calcular
# un solo número. Por eso aquí no se programa: piensa y anota lo que esperas.
#
# Una matriz de d filas y c columnas lleva cada fila de X, un punto con d coordenadas, a un punto
# con c coordenadas. La autoatención pasa la misma X por tres matrices así y compara lo que sale:
#
#     Q = X Wq    K = X Wk    V = X Wv    Omega = Q K^T    A = softmax(Omega / sqrt(c))    C = A V
#
# Tamaños: n = 4 tokens, d = 3, c = 2. X es (n, d), Wq y Wk son (d, c), y Wv es (d, e) con e = 5.
#
# Sustituye cada `...`: una forma es una tupla; una cantidad, un número entero.
#
# * `products`, `transpositions`: cuántos productos de matrices y cuántas transposiciones hay
#   desde X hasta C.
# * `point`: adónde va el punto (2, -1, 3) con la matriz de 3 x 2 W = [[1, 0], [0, 1], [2, -1]].
# * `lost`: el punto (a, b, 1) que W lleva al origen (0, 0). Una proyección olvida: todos los
#   puntos de esa recta se pierden.
#
# Ejemplo: shape_X = (4, 3), y W lleva (1, 1, 1) a (1 + 0 + 2, 0 + 1 - 1) = (3, 0).

# %% part="start"
shape_Q = ...
shape_K = ...
shape_V = ...
shape_Omega = ...
shape_A = ...
shape_C = ...
products = ...
transpositions = ...
point = ...
lost = ...

# %% [markdown] part="nudge" lang="en"
# Write the two shapes of each product side by side. The sizes that touch have to agree, and they
# vanish. What is left is the shape of the result.

# %% [markdown] part="nudge" lang="es"
# Escribe una junto a otra las dos formas de cada producto. Los tamaños que se tocan tienen que
# coincidir y desaparecen. Lo que queda es la forma del resultado.

# %% [markdown] part="formula" lang="en"
#     (n, d) (d, c) -> (n, c)    (n, c) (c, n) -> (n, n)    (n, n) (n, e) -> (n, e)
#
# Softmax works within each row and changes no shape. A point times W is a sum over its
# coordinates:
#
#     (x, y, z) W = (x + 2 z, y - z)
#
# and for `lost` both sums have to be 0 with z = 1.

# %% [markdown] part="formula" lang="es"
#     (n, d) (d, c) -> (n, c)    (n, c) (c, n) -> (n, n)    (n, n) (n, e) -> (n, e)
#
# Softmax trabaja dentro de cada fila y no cambia ninguna forma. Un punto por W es una suma sobre
# sus coordenadas:
#
#     (x, y, z) W = (x + 2 z, y - z)
#
# y para `lost` las dos sumas tienen que ser 0 con z = 1.

# %% part="shape"
shape_Q = (4, ...)  # (n, d) (d, c)
shape_K = (4, ...)  # (n, d) (d, c)
shape_V = (4, ...)  # (n, d) (d, e)
shape_Omega = (4, ...)  # (n, c) (c, n)
shape_A = (4, ...)  # softmax(Omega / sqrt(c))
shape_C = (4, ...)  # (n, n) (n, e)
products = 3 + ...  # X Wq, X Wk, X Wv, ...
transpositions = ...
point = (2 + 2 * 3, ...)
lost = (..., ..., 1)

# %% part="solution"
shape_Q = (4, 2)  # (n, c)
shape_K = (4, 2)  # (n, c)
shape_V = (4, 5)  # (n, e)
shape_Omega = (4, 4)  # (n, n)
shape_A = (4, 4)  # (n, n)
shape_C = (4, 5)  # (n, e)
products = 5  # X Wq, X Wk, X Wv, Q K^T, A V
transpositions = 1  # K^T
point = (8, -4)  # (2 + 2 * 3, -1 - 3)
lost = (-2, 1, 1)  # x + 2 = 0, y - 1 = 0

# %% [markdown] part="mistake" lang="en"
# Omega is made as Q^T K: it compares features. There has to be one score for each pair of tokens.

# %% [markdown] part="mistake" lang="es"
# Omega se calcula como Q^T K: compara características. Tiene que haber una puntuación por cada
# par de tokens.

# %% part="mistake"
shape_Q = (4, 2)
shape_K = (4, 2)
shape_V = (4, 5)
shape_Omega = (2, 2)
shape_A = (2, 2)
shape_C = (4, 5)
products = 5
transpositions = 1
point = (8, -4)
lost = (-2, 1, 1)

# %% [markdown] part="mistake" lang="en"
# V and C are given the width c of Q and K. The width of V is that of Wv, and C, a mean of rows of
# V, inherits it.

# %% [markdown] part="mistake" lang="es"
# A V y C se les da el ancho c de Q y K. El ancho de V es el de Wv, y C, que es una media de filas
# de V, lo hereda.

# %% part="mistake"
shape_Q = (4, 2)
shape_K = (4, 2)
shape_V = (4, 2)
shape_Omega = (4, 4)
shape_A = (4, 4)
shape_C = (4, 2)
products = 5
transpositions = 1
point = (8, -4)
lost = (-2, 1, 1)

# %% [markdown] part="mistake" lang="en"
# Q, K and V have one row for each feature here. X has its tokens in rows, and X W keeps them
# there.

# %% [markdown] part="mistake" lang="es"
# Aquí Q, K y V tienen una fila por característica. X tiene sus tokens en filas, y X W los deja
# ahí.

# %% part="mistake"
shape_Q = (2, 4)
shape_K = (2, 4)
shape_V = (5, 4)
shape_Omega = (4, 4)
shape_A = (4, 4)
shape_C = (4, 5)
products = 5
transpositions = 1
point = (8, -4)
lost = (-2, 1, 1)

# %% [markdown] part="mistake" lang="en"
# Three products are counted: those of X with its weights. Q K^T and A V are products of matrices
# too.

# %% [markdown] part="mistake" lang="es"
# Se cuentan tres productos: los de X con sus pesos. Q K^T y A V también son productos de
# matrices.

# %% part="mistake"
shape_Q = (4, 2)
shape_K = (4, 2)
shape_V = (4, 5)
shape_Omega = (4, 4)
shape_A = (4, 4)
shape_C = (4, 5)
products = 3
transpositions = 1
point = (8, -4)
lost = (-2, 1, 1)

# %% [markdown] part="mistake" lang="en"
# The third coordinate is dropped. That is one projection, but not this one: row 3 of W says what
# z adds.

# %% [markdown] part="mistake" lang="es"
# Se descarta la tercera coordenada. Esa es una proyección, pero no esta: la fila 3 de W dice qué
# añade z.

# %% part="mistake"
shape_Q = (4, 2)
shape_K = (4, 2)
shape_V = (4, 5)
shape_Omega = (4, 4)
shape_A = (4, 4)
shape_C = (4, 5)
products = 5
transpositions = 1
point = (2, -1)
lost = (0, 0, 1)

# %% [markdown] part="mistake" lang="en"
# `lost` has its signs turned: W sends it to (4, -2), not to the origin. Both sums have to vanish.

# %% [markdown] part="mistake" lang="es"
# `lost` tiene los signos cambiados: W lo lleva a (4, -2), no al origen. Las dos sumas tienen que
# anularse.

# %% part="mistake"
shape_Q = (4, 2)
shape_K = (4, 2)
shape_V = (4, 5)
shape_Omega = (4, 4)
shape_A = (4, 4)
shape_C = (4, 5)
products = 5
transpositions = 1
point = (8, -4)
lost = (2, -1, 1)
