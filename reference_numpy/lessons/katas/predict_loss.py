# %% [markdown] part="task" lang="en"
# # Predict: what a loss says
#
# Whoever can say beforehand what a loss should be sees at once when one is wrong. The first
# number of every training can be predicted: a model that knows nothing gives each token the same
# probability.
#
# No code: replace each `...` by a number. Where it is not whole, give three decimals. log is the
# natural logarithm, and perplexity is exp(loss): the number of tokens among which the model seems
# to be choosing.
#
# * `uniform_loss`, `uniform_perplexity`: every one of V = 60198 tokens gets the probability 1/V.
# * `sentence_loss`, `sentence_perplexity`: three tokens came, to which the model had given the
#   probabilities 1/2, 1/4 and 1/8.
# * Two sequences in a batch, one of one token with the loss 4, one of three tokens with the
#   losses 1, 1, 1. `by_tokens`: the mean over all tokens. `by_sequences`: the mean over sequences
#   of the mean of each.
# * `ratio`: in `by_sequences`, how many times as much does the token of the short sequence weigh
#   as a token of the long one?
#
# Example: with V = 100 tokens and a uniform guess the loss is log 100 = 4.605 and the perplexity
# 100.

# %% [markdown] part="task" lang="es"
# # Predice: qué dice una pérdida
#
# Quien sabe de antemano cuánto debe valer una pérdida ve enseguida cuándo está mal. El primer
# número de cualquier entrenamiento se puede predecir: un modelo que no sabe nada le da a cada
# token la misma probabilidad.
#
# No se programa: sustituye cada `...` por un número. Si no es entero, da tres decimales. log es
# el logaritmo natural, y la perplejidad es exp(loss): entre cuántos tokens parece estar eligiendo
# el modelo.
#
# * `uniform_loss`, `uniform_perplexity`: cada uno de V = 60198 tokens recibe la probabilidad 1/V.
# * `sentence_loss`, `sentence_perplexity`: llegaron tres tokens, a los que el modelo había dado
#   las probabilidades 1/2, 1/4 y 1/8.
# * Dos secuencias en un lote: una de un token, con pérdida 4; otra de tres tokens, con pérdidas
#   1, 1, 1. `by_tokens`: la media sobre todos los tokens. `by_sequences`: la media sobre las
#   secuencias de la media de cada una.
# * `ratio`: en `by_sequences`, ¿cuántas veces el peso de un token de la secuencia larga tiene el
#   de la corta?
#
# Ejemplo: con V = 100 tokens y probabilidades uniformes, la pérdida es log 100 = 4.605, y la
# perplejidad, 100.

# %% part="start"
uniform_loss = ...
uniform_perplexity = ...
sentence_loss = ...
sentence_perplexity = ...
by_tokens = ...
by_sequences = ...
ratio = ...

# %% [markdown] part="nudge" lang="en"
# The loss of one token is -log of the probability that it was given. Averaging logarithms is
# taking the logarithm of a geometric mean. And for the batch: write down the factor in front of
# each of the four losses, twice.

# %% [markdown] part="nudge" lang="es"
# La pérdida de un token es -log de la probabilidad que se le había dado. Promediar logaritmos es
# tomar el logaritmo de una media geométrica. Y para el lote: escribe el factor que lleva delante
# cada una de las cuatro pérdidas, dos veces.

# %% [markdown] part="formula"
#     -log(1/V) = log V        exp(log V) = V
#
#     -(log 1/2 + log 1/4 + log 1/8) / 3 = (1 + 2 + 3) / 3 log 2
#
#     (4 + 1 + 1 + 1) / 4        (4 / 1 + (1 + 1 + 1) / 3) / 2        (1/2) / (1/2 * 1/3)

# %% part="shape"
import math

uniform_loss = math.log(...)
uniform_perplexity = ...  # exp(log V)
sentence_loss = ... * math.log(2)
sentence_perplexity = math.exp(...)
by_tokens = (4 + 1 + 1 + 1) / ...
by_sequences = (4 + ...) / 2
ratio = (1 / 2) / ...

# %% part="solution"
import math

uniform_loss = math.log(60198)  # 11.005
uniform_perplexity = 60198
sentence_loss = 2 * math.log(2)  # 1.386
sentence_perplexity = 4  # exp(2 log 2) = 2^2
by_tokens = 1.75  # 7 / 4
by_sequences = 2.5  # (4 + 1) / 2
ratio = 3  # (1/2) / (1/6)

# %% [markdown] part="mistake" lang="en"
# The two means of the batch are exchanged. By tokens all four losses weigh the same.

# %% [markdown] part="mistake" lang="es"
# Las dos medias del lote están intercambiadas. Por tokens, las cuatro pérdidas pesan lo mismo.

# %% part="mistake"
import math

uniform_loss = math.log(60198)
uniform_perplexity = 60198
sentence_loss = 2 * math.log(2)
sentence_perplexity = 4
by_tokens = 2.5
by_sequences = 1.75
ratio = 3

# %% [markdown] part="mistake" lang="en"
# The logarithms are to base 2: those are bits. The loss of this course is in natural logarithms.

# %% [markdown] part="mistake" lang="es"
# Los logaritmos son en base 2: eso son bits. La pérdida de este curso está en logaritmos
# naturales.

# %% part="mistake"
import math

uniform_loss = math.log2(60198)
uniform_perplexity = 60198
sentence_loss = 2
sentence_perplexity = 4
by_tokens = 1.75
by_sequences = 2.5
ratio = 3

# %% [markdown] part="mistake" lang="en"
# The probabilities are averaged, 7/24, and then the logarithm taken. The loss is the mean of the
# logarithms.

# %% [markdown] part="mistake" lang="es"
# Se promedian las probabilidades, 7/24, y luego se toma el logaritmo. La pérdida es la media de
# los logaritmos.

# %% part="mistake"
import math

uniform_loss = math.log(60198)
uniform_perplexity = 60198
sentence_loss = math.log(24 / 7)
sentence_perplexity = 24 / 7
by_tokens = 1.75
by_sequences = 2.5
ratio = 3

# %% [markdown] part="mistake" lang="en"
# The losses of the sentence are added up, 6 log 2. The loss is their mean: it must not grow with
# the length.

# %% [markdown] part="mistake" lang="es"
# Las pérdidas de la frase se suman, 6 log 2. La pérdida es su media: no debe crecer con la
# longitud.

# %% part="mistake"
import math

uniform_loss = math.log(60198)
uniform_perplexity = 60198
sentence_loss = 6 * math.log(2)
sentence_perplexity = 64
by_tokens = 1.75
by_sequences = 2.5
ratio = 3

# %% [markdown] part="mistake" lang="en"
# The losses of the batch are compared, 4 to 1. The question is about the weights with which they
# enter: 1/2 and 1/6.

# %% [markdown] part="mistake" lang="es"
# Se comparan las pérdidas del lote, 4 contra 1. La pregunta es por los pesos con que entran: 1/2
# y 1/6.

# %% part="mistake"
import math

uniform_loss = math.log(60198)
uniform_perplexity = 60198
sentence_loss = 2 * math.log(2)
sentence_perplexity = 4
by_tokens = 1.75
by_sequences = 2.5
ratio = 4
