# %% [markdown] part="task" lang="en"
# # Predict: what attention's gradients must be
#
# Whoever knows what must come out finds a bug before running anything: a shape that cannot be, a sum
# that is not 0. Here nothing is programmed. Read, think, put a number or a shape in place of each `...`.
#
# There are B = 4 sequences in a batch, n = 3 queries, m = 5 keys, c = 8, and V is e = 2 wide:
# Q (4, 3, 8), K (4, 5, 8), V (4, 5, 2). As always
#     A = softmax(Q K^T / sqrt(c)),  C = A V,  dS = A (dA - delta),  dOmega = dS / sqrt(c)
#
# shape_dQ ... shape_dS   the shapes of these four gradients, as tuples
# row_dS      the sum over one row of dS
# sum_dK      every entry of sum_j dK_j, all keys of a sequence added up
# sum_dV      the two entries of sum_j dV_j, as a tuple, for the sequence whose dC is
#             [[1, -2], [0.5, 0], [3, 4]]
# factor      by how much dQ is too large if dOmega = dS, without the 1/sqrt(c), to 4 decimals
# dQ_one_key  every entry of dQ if there is only one key (m = 1)
#
# Example of an answer: the shape of dC would be (4, 3, 2).

# %% [markdown] part="task" lang="es"
# # Predice: cómo tienen que ser los gradientes de la atención
#
# Quien sabe qué debe salir encuentra un error antes de ejecutar nada: una forma que no puede ser, una
# suma que no da 0. Aquí no se programa nada. Lee, piensa y pon un número o una forma en cada `...`.
#
# Hay B = 4 secuencias en un lote, n = 3 consultas, m = 5 claves, c = 8, y V tiene anchura e = 2:
# Q (4, 3, 8), K (4, 5, 8), V (4, 5, 2). Como siempre,
#     A = softmax(Q K^T / sqrt(c)),  C = A V,  dS = A (dA - delta),  dOmega = dS / sqrt(c)
#
# shape_dQ ... shape_dS   las formas de estos cuatro gradientes, como tuplas
# row_dS      la suma de una fila de dS
# sum_dK      cada entrada de sum_j dK_j, sumando todas las claves de una secuencia
# sum_dV      las dos entradas de sum_j dV_j, como tupla, para la secuencia cuyo dC es
#             [[1, -2], [0.5, 0], [3, 4]]
# factor      cuántas veces es dQ demasiado grande si dOmega = dS, sin el 1/sqrt(c), con 4 decimales
# dQ_one_key  cada entrada de dQ si solo hay una clave (m = 1)
#
# Ejemplo de respuesta: la forma de dC sería (4, 3, 2).

# %% part="start"
shape_dQ = ...
shape_dK = ...
shape_dV = ...
shape_dS = ...
row_dS = ...
sum_dK = ...
sum_dV = ...
factor = ...
dQ_one_key = ...

# %% [markdown] part="nudge" lang="en"
# A gradient has the shape of its own operand. For the sums: what do all weights of a row add up to, and
# what happens to A if the same number is added to all scores of a row?

# %% [markdown] part="nudge" lang="es"
# Un gradiente tiene la forma de su propio operando. Para las sumas: ¿cuánto suman todos los pesos de una
# fila, y qué le pasa a A si se suma el mismo número a todas las puntuaciones de una fila?

# %% [markdown] part="formula" lang="en"
# sum_j dS_ij = sum_j A_ij dA_ij - delta_i sum_j A_ij = delta_i - delta_i
#
# sum_j dK_j = sum_i (sum_j dOmega_ij) Q_i
#
# sum_j dV_j = sum_i (sum_j A_ij) dC_i = sum_i dC_i
#
# dQ = dOmega K is linear in dOmega. With m = 1, A_i1 = 1, so dS_i1 = dA_i1 - dA_i1.

# %% [markdown] part="formula" lang="es"
# sum_j dS_ij = sum_j A_ij dA_ij - delta_i sum_j A_ij = delta_i - delta_i
#
# sum_j dK_j = sum_i (sum_j dOmega_ij) Q_i
#
# sum_j dV_j = sum_i (sum_j A_ij) dC_i = sum_i dC_i
#
# dQ = dOmega K es lineal en dOmega. Con m = 1, A_i1 = 1, y por tanto dS_i1 = dA_i1 - dA_i1.

# %% part="shape"
shape_dQ = (4, ..., 8)
shape_dK = (4, ..., 8)
shape_dV = (4, ..., 2)
shape_dS = (4, ..., ...)  # (B, n, m)
row_dS = ...  # delta_i - delta_i
sum_dK = ...  # sum_i row_dS Q_i
sum_dV = (1 + 0.5 + 3, ...)
factor = ...  # sqrt(c)
dQ_one_key = ...  # dA_i1 - dA_i1

# %% part="solution"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 2.8284
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# dK was given the shape of Q. A gradient has the shape of what it is the gradient of: look at n and m,
# which differ here.

# %% [markdown] part="mistake" lang="es"
# A dK se le dio la forma de Q. Un gradiente tiene la forma de aquello cuyo gradiente es: mira n y m, que
# aquí son distintos.

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 3, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 2.8284
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# dS was transposed. It has the shape of the scores: a row for each query (n = 3), a column for each key (m
# = 5).

# %% [markdown] part="mistake" lang="es"
# dS está traspuesto. Tiene la forma de las puntuaciones: una fila por consulta (n = 3) y una columna por
# clave (m = 5).

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 5, 3)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 2.8284
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# A row of A sums to 1, but a row of dS sums to 0: sum over j the formula dS_ij = A_ij (dA_ij - delta_i).

# %% [markdown] part="mistake" lang="es"
# Una fila de A suma 1, pero una fila de dS suma 0: suma sobre j la fórmula dS_ij = A_ij (dA_ij - delta_i).

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 1.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 2.8284
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# Adding one vector to all keys adds the same number to all scores of a row, which softmax does not see:
# the sum of dK is 0.

# %% [markdown] part="mistake" lang="es"
# Sumar un mismo vector a todas las claves suma el mismo número a todas las puntuaciones de una fila, y el
# softmax no lo nota: la suma de dK es 0.

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 1.0
sum_dV = (4.5, 2.0)
factor = 2.8284
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# This is the mean of the rows of dC. dV = A^T dC, and the rows of A sum to 1: summed over the keys, dV is
# the sum of the rows of dC.

# %% [markdown] part="mistake" lang="es"
# Eso es la media de las filas de dC. dV = A^T dC y las filas de A suman 1: sumado sobre las claves, dV da
# la suma de las filas de dC.

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (1.5, 0.6667)
factor = 2.8284
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# The missing factor is 1/sqrt(c), not 1/c: look at the line dOmega = scale dS.

# %% [markdown] part="mistake" lang="es"
# El factor que falta es 1/sqrt(c), no 1/c: mira la línea dOmega = scale dS.

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 8.0
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# That is 1/sqrt(8), what was forgotten. Without it the gradient is too large, not too small: the factor is
# its inverse.

# %% [markdown] part="mistake" lang="es"
# Eso es 1/sqrt(8), lo que se olvidó. Sin ello el gradiente queda demasiado grande, no demasiado pequeño:
# el factor es el inverso.

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 0.3536
dQ_one_key = 0.0

# %% [markdown] part="mistake" lang="en"
# With one key the weight is 1 whatever the score is. What does not move has no gradient: look at dS = A
# (dA - delta) with A = 1.

# %% [markdown] part="mistake" lang="es"
# Con una sola clave el peso es 1 sea cual sea la puntuación. Lo que no se mueve no tiene gradiente: mira
# dS = A (dA - delta) con A = 1.

# %% part="mistake"
shape_dQ = (4, 3, 8)
shape_dK = (4, 5, 8)
shape_dV = (4, 5, 2)
shape_dS = (4, 3, 5)
row_dS = 0.0
sum_dK = 0.0
sum_dV = (4.5, 2.0)
factor = 2.8284
dQ_one_key = 1.0
