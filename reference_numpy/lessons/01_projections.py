# %% [markdown] lang="en"
# # Matrices as projections
#
# **The question.** Attention multiplies every token by three matrices, `Wq`, `Wk` and `Wv`, before anything else
# happens. Why? What does a matrix do to a point, and what can three of them do that the point itself cannot?
#
# A token is a point here: a row `x` of `d` numbers. Tokens one below the other are the matrix `X`, of shape `(n, d)`.
# Points are rows throughout this course, so a matrix stands on their right.

# %% [markdown] lang="es"
# # Matrices como proyecciones
#
# **La pregunta.** La atención multiplica cada token por tres matrices, `Wq`, `Wk` y `Wv`, antes de hacer cualquier otra
# cosa. ¿Por qué? ¿Qué le hace una matriz a un punto, y qué consiguen tres matrices que el punto solo no consigue?
#
# Aquí un token es un punto: una fila `x` de `d` números. Los tokens, uno debajo de otro, son la matriz `X`, de forma
# `(n, d)`. En todo el curso los puntos son filas, así que la matriz va a su derecha.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np

# %% [markdown] lang="en"
# ## One point, then all of them
#
# Entry $k$ of $y = x M$ is a sum over the entries of $x$, each weighted by a number of column $k$; for many points
# nothing changes but one more index, $t$, which says which point it is:
#
# $$y_k = \sum_i x_i M_{ik} \qquad\qquad Y_{tk} = \sum_i X_{ti} M_{ik} \qquad\qquad Y = X M$$
#
# Read the columns of $M$ as directions: $y_k$ says how far $x$ goes along column $k$. With small whole numbers float64
# makes no rounding error at all, so in this lesson "equal" may mean equal to the last bit.

# %% [markdown] lang="es"
# ## Un punto, y luego todos
#
# La entrada $k$ de $y = x M$ es una suma sobre las entradas de $x$, cada una con el peso que le da la columna $k$; con
# muchos puntos solo aparece un índice más, $t$, que dice de qué punto se trata:
#
# $$y_k = \sum_i x_i M_{ik} \qquad\qquad Y_{tk} = \sum_i X_{ti} M_{ik} \qquad\qquad Y = X M$$
#
# Lee las columnas de $M$ como direcciones: $y_k$ dice cuánto avanza $x$ a lo largo de la columna $k$. Con números
# enteros pequeños, float64 no redondea nada, así que en esta lección «igual» puede significar igual hasta el último
# bit.

# %%
rng = np.random.default_rng(1)
n, d, c = 4, 3, 2
X = rng.integers(-3, 4, (n, d)).astype(float)
M = rng.integers(-3, 4, (d, c)).astype(float)

Y = np.zeros((n, c))
for t in range(n):
    for k in range(c):
        for i in range(d):
            Y[t, k] += X[t, i] * M[i, k]
assert np.array_equal(Y, X @ M)
assert np.array_equal(Y[2], X[2] @ M)  # a row of Y knows nothing of the other rows of X

# %% [markdown] lang="en"
# ## A square matrix keeps the dimension
#
# A rotation of the plane sends the first axis to $(\cos\theta, \sin\theta)$ and the second to
# $(-\sin\theta, \cos\theta)$; those two images are its rows. It keeps lengths, because $R R^T = I$:
#
# $$|x R|^2 = x R R^T x^T = x x^T = |x|^2$$
#
# The angle of the 3-4-5 triangle has cosine 3/5 and sine 4/5, so five times that rotation is made of whole numbers. Two
# matrices in a row are one, their product: to turn twice by an angle is to turn once by its double.

# %% [markdown] lang="es"
# ## Una matriz cuadrada conserva la dimensión
#
# Una rotación del plano lleva el primer eje a $(\cos\theta, \sin\theta)$ y el segundo a $(-\sin\theta, \cos\theta)$;
# esas dos imágenes son sus filas. Conserva las longitudes, porque $R R^T = I$:
#
# $$|x R|^2 = x R R^T x^T = x x^T = |x|^2$$
#
# El ángulo del triángulo 3-4-5 tiene coseno 3/5 y seno 4/5, así que cinco veces esa rotación es una matriz de enteros.
# Dos matrices seguidas son una sola, su producto: girar dos veces un ángulo es girar una vez el doble.

# %%
R5 = np.array([[3.0, 4.0], [-4.0, 3.0]])  # 5 R
assert np.array_equal(R5 @ R5.T, 25.0 * np.eye(2))
points = rng.integers(-5, 6, (6, 2)).astype(float)
assert np.array_equal(((points @ R5) ** 2).sum(1), 25.0 * (points**2).sum(1))
assert np.array_equal((points @ R5) @ R5, points @ (R5 @ R5))

# %% [markdown] lang="en"
# ## A 3 x 2 matrix takes space to the plane
#
# Three numbers come in and two go out, so something is lost: a whole line of points that the matrix sends to 0, and any
# two points that differ by a piece of that line get the same shadow. What is left is what the matrix was asked to look
# at. A projection throws away on purpose; *which* part it throws away is written in its numbers, and numbers can be
# learned.

# %% [markdown] lang="es"
# ## Una matriz de 3 x 2 lleva el espacio al plano
#
# Entran tres números y salen dos, así que algo se pierde: toda una recta de puntos que la matriz envía al 0, y dos
# puntos que difieren en un trozo de esa recta tienen la misma sombra. Lo que queda es lo que a la matriz se le pidió
# mirar. Una proyección tira cosas a propósito; *qué* tira está escrito en sus números, y los números se pueden
# aprender.

# %%
P = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.25]])  # x and y stay, z moves the shadow aside
lost = np.array([0.5, 0.25, -1.0])
assert np.array_equal(lost @ P, [0.0, 0.0])
assert np.array_equal((X + 2.0 * lost) @ P, X @ P)
assert np.linalg.matrix_rank(P) == 2

# %% [markdown] lang="en"
# ## A frustum takes a scene to the screen
#
# What a camera sees is a pyramid with its top cut off, between a near plane at depth 1 and a far one at depth 3. Far
# things look small: the screen shows $x/z$ and $y/z$. A division is not linear, so no 3 x 2 matrix does this; but a
# 4 x 4 matrix does all of it except the division, if each point carries a fourth coordinate 1. Divide by the fourth
# number that comes out:
#
# $$(x,\ y,\ z,\ 1)\, F = (x,\ y,\ 2z - 3,\ z) \qquad\to\qquad (x/z,\ y/z,\ 2 - 3/z)$$
#
# The third number keeps the order of depth: -1 on the near plane, 1 on the far one. Attention works in the same way:
# products with matrices, and between them one step that is not linear (softmax, which divides too).

# %% [markdown] lang="es"
# ## Un frustum lleva una escena a la pantalla
#
# Lo que ve una cámara es una pirámide sin punta, entre un plano cercano a profundidad 1 y uno lejano a profundidad 3.
# Lo lejano se ve pequeño: la pantalla muestra $x/z$ e $y/z$. Dividir no es lineal, así que ninguna matriz de 3 x 2 lo
# hace; pero una de 4 x 4 lo hace todo, menos la división, si cada punto lleva un 1 como cuarta coordenada. Divide entre
# el cuarto número que sale:
#
# $$(x,\ y,\ z,\ 1)\, F = (x,\ y,\ 2z - 3,\ z) \qquad\to\qquad (x/z,\ y/z,\ 2 - 3/z)$$
#
# El tercer número conserva el orden de las profundidades: -1 en el plano cercano y 1 en el lejano. La atención trabaja
# igual: productos por matrices y, entre ellos, un paso que no es lineal (softmax, que también divide).

# %%
F = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 2, 1], [0, 0, -3, 0]])


def to_screen(points):  # (n, 3) -> (n, 3): two screen coordinates and a depth
    moved = np.hstack([points, np.ones((len(points), 1))]) @ F
    return moved[:, :3] / moved[:, 3:]


assert np.array_equal(to_screen(np.array([[1.0, 1, 1], [1.0, 1, 2]]))[:, :2], [[1, 1], [0.5, 0.5]])
assert np.array_equal(to_screen(np.array([[5.0, 7, 1], [5.0, 7, 3]]))[:, 2], [-1, 1])

corners = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
edges = [(a, b) for a in range(8) for b in range(a) if np.abs(corners[a] - corners[b]).sum() == 1]
letter = np.array([[0, 0], [0, 5], [3, 5], [3, 4], [1, 4], [1, 3], [2, 3], [2, 2], [1, 2], [1, 0], [0, 0]]) / 2.0
blue, vermilion = "#0072b2", "#d55e00"
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
panels[0].plot(*letter.T, color="0.6")
panels[0].plot(*(letter @ R5 / 5).T, color=blue)
panels[0].set_title("2 x 2:  x R")
for a, b in edges:
    panels[1].plot(*(corners[[a, b]] @ P).T, color=blue)
    for x0, z0 in itertools.product((-1.4, 0.6), (1.0, 1.7, 2.4)):
        box = corners[[a, b]] * [0.8, 1.8, 0.4] + [x0, -0.9, z0]
        panels[2].plot(*to_screen(box)[:, :2].T, color=vermilion if z0 == 1.0 else blue, linewidth=1)
panels[1].set_title("3 x 2:  x P")
panels[2].set_title("4 x 4, then / z:  (x, 1) F")
for panel in panels:
    panel.set_aspect("equal")
plt.show()

# %% [markdown] lang="en"
# ## Query, key and value
#
# Attention projects every token three times: `Q = X Wq`, `K = X Wk`, `V = X Wv`, each matrix `(d, c)`. The first one
# asks, the second one offers, the third one hands over. Without them the score of token $m$ for token $p$ would be
# $x_m \cdot x_p$, and that is the same number as the score of $p$ for $m$: "cat" could not look at "fat" unless "fat"
# looked back as much.
#
# $$\Omega_{mp} = \sum_k Q_{mk} K_{pk} = x_m\, W_q W_k^T\, x_p^T$$
#
# Two different matrices break that symmetry.

# %% [markdown] lang="es"
# ## Query, key y value
#
# La atención proyecta cada token tres veces: `Q = X Wq`, `K = X Wk`, `V = X Wv`, con matrices `(d, c)`. La primera
# pregunta, la segunda ofrece, la tercera entrega. Sin ellas, la puntuación del token $m$ hacia el token $p$ sería
# $x_m \cdot x_p$, que es el mismo número que la de $p$ hacia $m$: «cat» no podría mirar a «fat» sin que «fat» lo mirase
# a él en igual medida.
#
# $$\Omega_{mp} = \sum_k Q_{mk} K_{pk} = x_m\, W_q W_k^T\, x_p^T$$
#
# Dos matrices distintas rompen esa simetría.

# %%
Wq, Wk, Wv = rng.integers(-2, 3, (3, d, c)).astype(float)
Q, K, V = X @ Wq, X @ Wk, X @ Wv
Omega = Q @ K.T
assert np.array_equal(X @ X.T, (X @ X.T).T)
assert not np.array_equal(Omega, Omega.T)
assert np.array_equal(Omega, X @ (Wq @ Wk.T) @ X.T)
print(Omega)

# %% [markdown] lang="en"
# ## The backward of a projection
#
# Let `dQ` be the gradient that arrives: $dQ_{tk}$ says how much the loss grows when $Q_{tk}$ does. The chain rule sums
# over every $Q_{tk}$ that a number reaches. $W_{q,ik}$ reaches column $k$ of *every* token; $X_{ti}$ reaches every
# column of row $t$:
#
# $$dW_{q,ik} = \sum_t dQ_{tk} \frac{\partial Q_{tk}}{\partial W_{q,ik}} = \sum_t X_{ti}\, dQ_{tk}
# \qquad\qquad dX_{ti} = \sum_k dQ_{tk}\, W_{q,ik}$$
#
# The index that is summed must stand inside: that alone decides where the transposition goes.
#
# $$dW_q = X^T dQ \qquad\qquad dX = dQ\, W_q^T$$
#
# The map is linear, so a step of size 1 gives the derivative exactly; no small step is needed.

# %% [markdown] lang="es"
# ## El paso hacia atrás de una proyección
#
# Sea `dQ` el gradiente que llega: $dQ_{tk}$ dice cuánto crece la pérdida cuando crece $Q_{tk}$. La regla de la cadena
# suma sobre todos los $Q_{tk}$ a los que llega un número. $W_{q,ik}$ llega a la columna $k$ de *todos* los tokens;
# $X_{ti}$, a todas las columnas de la fila $t$:
#
# $$dW_{q,ik} = \sum_t dQ_{tk} \frac{\partial Q_{tk}}{\partial W_{q,ik}} = \sum_t X_{ti}\, dQ_{tk}
# \qquad\qquad dX_{ti} = \sum_k dQ_{tk}\, W_{q,ik}$$
#
# El índice que se suma tiene que quedar dentro: eso basta para decidir dónde va la transposición.
#
# $$dW_q = X^T dQ \qquad\qquad dX = dQ\, W_q^T$$
#
# La aplicación es lineal, así que un paso de tamaño 1 da la derivada exacta; no hace falta un paso pequeño.

# %%
dQ = rng.integers(-3, 4, (n, c)).astype(float)
dWq, dX = X.T @ dQ, dQ @ Wq.T


def loss(X, Wq):
    return np.sum(dQ * (X @ Wq))


for i, k in np.ndindex(d, c):
    step = np.zeros((d, c))
    step[i, k] = 1.0
    assert dWq[i, k] == loss(X, Wq + step) - loss(X, Wq)
for t, i in np.ndindex(n, d):
    step = np.zeros((n, d))
    step[t, i] = 1.0
    assert dX[t, i] == loss(X + step, Wq) - loss(X, Wq)

# %% [markdown] lang="en"
# ## The mistake people make here
#
# A layer of PyTorch keeps its matrix as `(out, in)`, the transpose of the `(d, c)` used here. If `d` and `c` differ,
# mixing them up raises an error. If they are equal, nothing is raised: shapes fit, the model trains, and every number
# is another one. Test with sizes that differ; a square example proves nothing.

# %% [markdown] lang="es"
# ## El error que se comete aquí
#
# Una capa de PyTorch guarda su matriz como `(out, in)`, la traspuesta de la `(d, c)` que usamos aquí. Si `d` y `c` son
# distintos, confundirlas da un error. Si son iguales, no avisa nadie: las formas encajan, el modelo entrena y cada
# número es otro. Prueba con tamaños distintos; un ejemplo cuadrado no demuestra nada.

# %%
square = rng.integers(-2, 3, (d, d)).astype(float)
assert (X @ square).shape == (X @ square.T).shape
assert not np.array_equal(X @ square, X @ square.T)

# %% [markdown] lang="en"
# ## Katas
#
# `predict_projection`

# %% [markdown] lang="es"
# ## Katas
#
# `predict_projection`
