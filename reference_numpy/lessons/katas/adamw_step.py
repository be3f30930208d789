# %% [markdown] part="task" lang="en"
# # One step of AdamW
#
# A gradient says which way is up, not how far to go. AdamW keeps two running means for every single
# parameter, of the gradient (m) and of its square (v), and walks by their ratio: about lr a step, whether
# the gradient is a million or a millionth. Apart from that it lets every parameter shrink a little.
#
# In this order: the two means, then the decay, then the step. Both means begin at 0 and are too small at
# first, so they are divided by 1 - beta^t, t counting from 1. epsilon stands outside the root. The decay is
# decoupled: it acts on p itself, times lr, and never goes through m and v.
#
# The step is IN PLACE: m, v and p are arrays that others hold too, so change their contents (m *= ..., m +=
# ...) and bind no new ones. The gradient g stays as it is.
#
# Shapes: p, g, m, v of one tensor all have the same shape. state is {} before the first step.
#
# Example: p = [1, 1], lr = 0.1, the rest as by default
#     g = [0.5, -2]  p becomes [0.899, 1.099]: both moved by 0.1, and by 0.001 of decay
#     g = [0.5, 1]   p becomes [0.7981, 1.1245], m = [0.095, -0.08]

# %% [markdown] part="task" lang="es"
# # Un paso de AdamW
#
# Un gradiente dice hacia dónde se sube, no cuánto hay que andar. AdamW lleva dos medias móviles por cada
# parámetro, la del gradiente (m) y la de su cuadrado (v), y avanza según su cociente: más o menos lr por
# paso, valga el gradiente un millón o una millonésima. Además deja que cada parámetro encoja un poco.
#
# En este orden: las dos medias, luego el decaimiento, luego el paso. Las dos medias empiezan en 0 y al
# principio son demasiado pequeñas, así que se dividen por 1 - beta^t, con t contado desde 1. epsilon va
# fuera de la raíz. El decaimiento va desacoplado: actúa sobre p mismo, multiplicado por lr, y nunca pasa
# por m ni por v.
#
# El paso se da EN EL SITIO: m, v y p son arreglos que otros también tienen, así que cambia su contenido
# (m *= ..., m += ...) y no crees otros. El gradiente g se queda como está.
#
# Formas: p, g, m, v de un mismo tensor tienen todos la misma forma. state es {} antes del primer paso.
#
# Ejemplo: p = [1, 1], lr = 0.1, lo demás por defecto
#     g = [0.5, -2]  p pasa a [0.899, 1.099]: los dos se mueven 0.1, más 0.001 de decaimiento
#     g = [0.5, 1]   p pasa a [0.7981, 1.1245], m = [0.095, -0.08]

# %% part="start"
import numpy as np


def adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state["step"] = 0
        state["exp_avg"] = {name: np.zeros_like(p) for name, p in params.items()}  # m
        state["exp_avg_sq"] = {name: np.zeros_like(p) for name, p in params.items()}  # v
    state["step"] += 1
    t, (beta1, beta2) = state["step"], betas
    for name in params:
        p, g, m, v = params[name], grads[name], state["exp_avg"][name], state["exp_avg_sq"][name]
        raise NotImplementedError


# %% [markdown] part="nudge" lang="en"
# Try it on paper for the first step: m = (1 - beta1) g and v = (1 - beta2) g^2. What must they be divided
# by so that m / sqrt(v) is exactly the sign of g? And which operators change an array without making one?

# %% [markdown] part="nudge" lang="es"
# Pruébalo en papel con el primer paso: m = (1 - beta1) g y v = (1 - beta2) g^2. ¿Por cuánto hay que
# dividirlas para que m / sqrt(v) sea exactamente el signo de g? ¿Y qué operadores cambian un arreglo sin
# crear otro?

# %% [markdown] part="formula"
# m <- beta1 m + (1 - beta1) g
#
# v <- beta2 v + (1 - beta2) g^2
#
# p <- p - lr weight_decay p
#
# p <- p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)

# %% part="shape"
import numpy as np


def adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state["step"] = 0
        state["exp_avg"] = {name: np.zeros_like(p) for name, p in params.items()}  # m
        state["exp_avg_sq"] = {name: np.zeros_like(p) for name, p in params.items()}  # v
    state["step"] += 1
    t, (beta1, beta2) = state["step"], betas
    for name in params:
        p, g, m, v = params[name], grads[name], state["exp_avg"][name], state["exp_avg_sq"][name]
        m *= ...
        m += (1.0 - beta1) * g
        v *= ...
        v += (1.0 - beta2) * ...
        p *= 1.0 - ...
        p -= lr * (m / (1.0 - ...)) / (np.sqrt(v / (1.0 - ...)) + epsilon)


# %% part="solution"
import numpy as np


def adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state["step"] = 0
        state["exp_avg"] = {name: np.zeros_like(p) for name, p in params.items()}  # m
        state["exp_avg_sq"] = {name: np.zeros_like(p) for name, p in params.items()}  # v
    state["step"] += 1
    t, (beta1, beta2) = state["step"], betas
    for name in params:
        p, g, m, v = params[name], grads[name], state["exp_avg"][name], state["exp_avg_sq"][name]
        m *= beta1
        m += (1.0 - beta1) * g
        v *= beta2
        v += (1.0 - beta2) * g * g
        p *= 1.0 - lr * weight_decay
        p -= lr * (m / (1.0 - beta1**t)) / (np.sqrt(v / (1.0 - beta2**t)) + epsilon)
