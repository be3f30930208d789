# %% [markdown] part="task" lang="en"
# # Bug: a decay that hardly decays
#
# Adam was used for years before somebody noticed that its weight decay does nothing like what it should.
# The trouble is not a sign or a factor, it is the place: the decay was put into the gradient, as one does
# for plain gradient descent. There that is the same. Here the gradient is divided by its own size
# afterwards, and the decay along with it, so that a parameter with large gradients is hardly pulled at all.
# The W in AdamW is the cure.
#
# Find the line and put the decay where it belongs.
#
# Shapes: p, g, m, v of one tensor all have the same shape. The step is in place, as before.
#
# Example: p = [1], lr = 0.1, weight_decay = 0.5, the first step
#     g = [100]  right [0.85], this code [0.9]: nothing is left of the decay
#     g = [1]    right [0.85], this code [0.9]
#     g = [0]    right [0.95], this code [0.9]: here the decay alone makes a full step

# %% [markdown] part="task" lang="es"
# # Error: un decaimiento que apenas decae
#
# Adam se usó durante años antes de que alguien notara que su decaimiento de pesos no hace ni de lejos
# lo que debería. El problema no es un signo ni un factor, es el sitio: el decaimiento se metió en el
# gradiente, como se hace en el descenso de gradiente de toda la vida. Allí da lo mismo. Aquí el
# gradiente se divide después por su propio tamaño, y el decaimiento con él, de modo que apenas se tira
# de un parámetro con gradientes grandes. La W de AdamW es el remedio.
#
# Encuentra la línea y pon el decaimiento donde corresponde.
#
# Formas: p, g, m, v de un mismo tensor tienen todos la misma forma. El paso se da en el sitio, como antes.
#
# Ejemplo: p = [1], lr = 0.1, weight_decay = 0.5, el primer paso
#     g = [100]  correcto [0.85], este código [0.9]: del decaimiento no queda nada
#     g = [1]    correcto [0.85], este código [0.9]
#     g = [0]    correcto [0.95], este código [0.9]: aquí el decaimiento da él solo un paso entero

# %% part="start"
import numpy as np


def adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state["step"] = 0
        state["exp_avg"] = {name: np.zeros_like(p) for name, p in params.items()}
        state["exp_avg_sq"] = {name: np.zeros_like(p) for name, p in params.items()}
    state["step"] += 1
    t, (beta1, beta2) = state["step"], betas
    for name, p in params.items():
        m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
        g = grads[name] + weight_decay * p
        m *= beta1
        m += (1.0 - beta1) * g
        v *= beta2
        v += (1.0 - beta2) * g * g
        p -= lr * (m / (1.0 - beta1**t)) / (np.sqrt(v / (1.0 - beta2**t)) + epsilon)


# %% [markdown] part="nudge" lang="en"
# Follow weight_decay * p to the end. By what is it divided before it reaches p? Decoupled means that it goes
# to p by a path of its own.

# %% [markdown] part="nudge" lang="es"
# Sigue weight_decay * p hasta el final. ¿Por qué se divide antes de llegar a p? Desacoplado quiere decir que
# llega a p por un camino propio.

# %% [markdown] part="formula" lang="en"
# g = grads[name], nothing else
#
# p <- p - lr weight_decay p, and then the step with m and v

# %% [markdown] part="formula" lang="es"
# g = grads[name], nada más
#
# p <- p - lr weight_decay p, y después el paso con m y v

# %% part="shape"
import numpy as np


def adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state["step"] = 0
        state["exp_avg"] = {name: np.zeros_like(p) for name, p in params.items()}
        state["exp_avg_sq"] = {name: np.zeros_like(p) for name, p in params.items()}
    state["step"] += 1
    t, (beta1, beta2) = state["step"], betas
    for name, p in params.items():
        m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
        g = grads[name]
        m *= beta1
        m += (1.0 - beta1) * g
        v *= beta2
        v += (1.0 - beta2) * g * g
        p *= 1.0 - ...
        p -= lr * (m / (1.0 - beta1**t)) / (np.sqrt(v / (1.0 - beta2**t)) + epsilon)


# %% part="solution"
import numpy as np


def adamw_step(params, grads, state, lr=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=1e-2):
    if not state:
        state["step"] = 0
        state["exp_avg"] = {name: np.zeros_like(p) for name, p in params.items()}
        state["exp_avg_sq"] = {name: np.zeros_like(p) for name, p in params.items()}
    state["step"] += 1
    t, (beta1, beta2) = state["step"], betas
    for name, p in params.items():
        m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
        g = grads[name]
        m *= beta1
        m += (1.0 - beta1) * g
        v *= beta2
        v += (1.0 - beta2) * g * g
        p *= 1.0 - lr * weight_decay
        p -= lr * (m / (1.0 - beta1**t)) / (np.sqrt(v / (1.0 - beta2**t)) + epsilon)
