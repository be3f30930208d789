# %% [markdown] part="task" lang="en"
# # Predict: gradients with batch and time
#
# A gradient has the shape of that which it belongs to. If that is smaller than the gradient that
# arrives, a sum has taken place, and where the sum is forgotten or goes over the wrong axis, the
# shape often tells.
#
# A small language model reads a batch of B = 8 sequences of n = 5 tokens each. Its vocabulary has
# v = 10 tokens:
#
#     X = token[ids] + position      ids (B, n), token (v, d), position (n, d), X (B, n, d) with d = 3
#     Y = X weight^T + bias          weight (k, d), bias (k,), Y (B, n, k) with k = 4
#
# Replace each `...`. A shape is a tuple; `terms_...` is the number of products or summands that
# one entry of that gradient is the sum of, counted over the whole batch.
#
# Example: one entry of Y is a sum of d = 3 products (and the bias).

# %% [markdown] part="task" lang="es"
# # Predice: gradientes con lote y tiempo
#
# Un gradiente tiene la forma de aquello a lo que pertenece. Si eso es más pequeño que el
# gradiente que llega, ha habido una suma; y donde la suma se olvida o recorre el eje equivocado,
# la forma suele delatarlo.
#
# Un modelo de lenguaje pequeño lee un lote de B = 8 secuencias de n = 5 tokens cada una. Su
# vocabulario tiene v = 10 tokens:
#
#     X = token[ids] + position      ids (B, n), token (v, d), position (n, d), X (B, n, d) con d = 3
#     Y = X weight^T + bias          weight (k, d), bias (k,), Y (B, n, k) con k = 4
#
# Sustituye cada `...`. Una forma es una tupla; `terms_...` es la cantidad de productos o sumandos
# que se suman en un elemento de ese gradiente, contando todo el lote.
#
# Ejemplo: un elemento de Y es una suma de d = 3 productos (y el sesgo).

# %% part="start"
shape_dX = ...
shape_dweight = ...
shape_dbias = ...
shape_dtoken = ...
shape_dposition = ...
terms_dX = ...
terms_dweight = ...
terms_dbias = ...
terms_dposition = ...

# %% [markdown] part="nudge" lang="en"
# For a count ask: in how many entries of the result does this number take part? bias_k is in Y_tk
# for every row t; position[2] is in X[b, 2] for every sample b; X[b, t, i] is in Y[b, t, k] for
# every k.

# %% [markdown] part="nudge" lang="es"
# Para una cantidad, pregunta: ¿en cuántos elementos del resultado participa este número? bias_k
# está en Y_tk para cada fila t; position[2], en X[b, 2] para cada muestra b; X[b, t, i], en Y[b,
# t, k] para cada k.

# %% [markdown] part="formula"
#     dX_bti = sum_k dY_btk weight_ki
#
#     dweight_ki = sum_b sum_t dY_btk X_bti        dbias_k = sum_b sum_t dY_btk
#
#     dposition_ti = sum_b dX_bti                  dtoken_vi = sum_{b, t: ids_bt = v} dX_bti

# %% part="shape"
shape_dX = (8, 5, ...)
shape_dweight = (..., ...)
shape_dbias = (...,)
shape_dtoken = (..., 3)
shape_dposition = (..., 3)
terms_dX = ...
terms_dweight = 8 * ...
terms_dbias = 8 * ...
terms_dposition = ...

# %% part="solution"
shape_dX = (8, 5, 3)  # (B, n, d)
shape_dweight = (4, 3)  # (k, d)
shape_dbias = (4,)  # (k,)
shape_dtoken = (10, 3)  # (v, d)
shape_dposition = (5, 3)  # (n, d)
terms_dX = 4  # k
terms_dweight = 40  # B n
terms_dbias = 40  # B n
terms_dposition = 8  # B

# %% [markdown] part="mistake" lang="en"
# dweight is transposed: this is the shape of X^T dY. weight is stored as (k, d), so its gradient
# is dY^T X.

# %% [markdown] part="mistake" lang="es"
# dweight está transpuesto: esa es la forma de X^T dY. weight se guarda como (k, d), así que su
# gradiente es dY^T X.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (3, 4)
shape_dbias = (4,)
shape_dtoken = (10, 3)
shape_dposition = (5, 3)
terms_dX = 4
terms_dweight = 40
terms_dbias = 40
terms_dposition = 8

# %% [markdown] part="mistake" lang="en"
# dweight and dbias have kept the batch. There is one weight and one bias for all samples: the
# samples add up.

# %% [markdown] part="mistake" lang="es"
# dweight y dbias conservan el lote. Hay un solo weight y un solo bias para todas las muestras:
# las muestras se suman.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (8, 4, 3)
shape_dbias = (8, 4)
shape_dtoken = (10, 3)
shape_dposition = (5, 3)
terms_dX = 4
terms_dweight = 5
terms_dbias = 5
terms_dposition = 8

# %% [markdown] part="mistake" lang="en"
# dweight and dbias are summed over the samples, but not over time. They serve every position too.

# %% [markdown] part="mistake" lang="es"
# dweight y dbias se suman sobre las muestras, pero no sobre el tiempo. También sirven a todas las
# posiciones.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (5, 4, 3)
shape_dbias = (5, 4)
shape_dtoken = (10, 3)
shape_dposition = (5, 3)
terms_dX = 4
terms_dweight = 8
terms_dbias = 8
terms_dposition = 8

# %% [markdown] part="mistake" lang="en"
# dtoken has a row for each token that was read. It belongs to the table: a row for each token
# that exists.

# %% [markdown] part="mistake" lang="es"
# dtoken tiene una fila por token leído. Pertenece a la tabla: una fila por token que existe.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (4, 3)
shape_dbias = (4,)
shape_dtoken = (8, 5, 3)
shape_dposition = (5, 3)
terms_dX = 4
terms_dweight = 40
terms_dbias = 40
terms_dposition = 8

# %% [markdown] part="mistake" lang="en"
# dposition is as large as X. A position is shared by all samples: its gradient is summed over the
# batch.

# %% [markdown] part="mistake" lang="es"
# dposition es tan grande como X. Todas las muestras comparten una posición: su gradiente se suma
# sobre el lote.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (4, 3)
shape_dbias = (4,)
shape_dtoken = (10, 3)
shape_dposition = (8, 5, 3)
terms_dX = 4
terms_dweight = 40
terms_dbias = 40
terms_dposition = 1

# %% [markdown] part="mistake" lang="en"
# An entry of dX is taken for a sum over d, as in the forward. Backward the other axis of weight
# vanishes: k.

# %% [markdown] part="mistake" lang="es"
# Un elemento de dX se toma por una suma sobre d, como en el paso hacia adelante. Hacia atrás
# desaparece el otro eje: k.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (4, 3)
shape_dbias = (4,)
shape_dtoken = (10, 3)
shape_dposition = (5, 3)
terms_dX = 3
terms_dweight = 40
terms_dbias = 40
terms_dposition = 8

# %% [markdown] part="mistake" lang="en"
# An entry of dposition is taken for a sum over the whole batch and all times. Each position has a
# row of its own.

# %% [markdown] part="mistake" lang="es"
# Un elemento de dposition se toma por una suma sobre todo el lote y todos los tiempos. Cada
# posición tiene su fila.

# %% part="mistake"
shape_dX = (8, 5, 3)
shape_dweight = (4, 3)
shape_dbias = (4,)
shape_dtoken = (10, 3)
shape_dposition = (5, 3)
terms_dX = 4
terms_dweight = 40
terms_dbias = 40
terms_dposition = 40
