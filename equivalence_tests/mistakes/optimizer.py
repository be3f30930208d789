"""Mistakes in AdamW."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import optimizer

Arrays = dict[str, Array]
State = dict[str, Any]


class Settings(NamedTuple):
    lr: float
    betas: tuple[float, float]
    epsilon: float
    weight_decay: float


def whole(broken: Callable[[Arrays, Arrays, State, Settings], None], accepts: bool = False) -> Callable[..., None]:
    """The signature of the reference, which runs first: what it refuses is refused, unless accepting is the mistake."""

    def adamw_step(
        params: Arrays,
        grads: Arrays,
        state: State,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        settings = Settings(lr, betas, epsilon, weight_decay)
        if not accepts:
            copies = copy.deepcopy((params, grads, state))
            optimizer.adamw_step(*copies, lr, betas, epsilon, weight_decay)
        broken(params, grads, state, settings)

    return adamw_step


# The right parts; a mistake takes the place of one of them.


def _begin(params: Arrays, state: State) -> None:
    if not state:
        state["step"] = 0
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = {name: np.zeros(p.shape, p.dtype) for name, p in params.items()}


def _decay(p: Array, at: Settings) -> None:
    p *= 1.0 - at.lr * at.weight_decay


def _moments(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    beta1, beta2 = at.betas
    m *= beta1
    m += (1.0 - beta1) * g
    v *= beta2
    v += (1.0 - beta2) * g * g


def _move(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    correction1, correction2 = (1.0 - beta**t for beta in at.betas)
    p -= (at.lr / correction1) * m / (np.sqrt(v) / math.sqrt(correction2) + at.epsilon)


def adamw_with(
    moments: Callable[..., None] = _moments,
    move: Callable[..., None] = _move,
    decay: Callable[..., None] = _decay,
    begin: Callable[..., None] = _begin,
) -> Callable[..., None]:
    def steps(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
        begin(params, state)
        state["step"] += 1
        for name, p in params.items():
            m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
            decay(p, at)
            moments(p, grads[name], m, v, at)
            move(p, m, v, state["step"], at)

    return whole(steps)


# The update


def uncorrected(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    p -= at.lr * m / (np.sqrt(v) + at.epsilon)  # wrong: the moments begin at 0 and are too small at first


def correction_multiplied(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    correction1, correction2 = (1.0 - beta**t for beta in at.betas)
    p -= at.lr * correction1 * m / (np.sqrt(v) / math.sqrt(correction2) + at.epsilon)  # wrong: divided by the first


def both_corrections_multiplied(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    correction1, correction2 = (1.0 - beta**t for beta in at.betas)
    p -= at.lr * (m * correction1) / (np.sqrt(v * correction2) + at.epsilon)  # wrong: divided by, both


def first_correction_alone(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    p -= at.lr / (1.0 - at.betas[0] ** t) * m / (np.sqrt(v) + at.epsilon)  # wrong: v has one of its own


def second_correction_without_root(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    correction1, correction2 = (1.0 - beta**t for beta in at.betas)
    p -= at.lr / correction1 * m / (np.sqrt(v) / correction2 + at.epsilon)  # wrong: it belongs under the root


def power_dropped(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    _move(p, m, v, 1, at)  # wrong: 1 - beta at every step


def one_step_ahead(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    _move(p, m, v, t + 1, at)  # wrong: counted up already


def one_step_behind(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    _move(p, m, v, max(t - 1, 1), at)  # wrong: used before it is counted, and guarded against 0/0 at the first step


def epsilon_inside(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    correction1, correction2 = (1.0 - beta**t for beta in at.betas)
    p -= (at.lr / correction1) * m / np.sqrt(v / correction2 + at.epsilon)  # wrong: under the root


def epsilon_corrected(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    correction1, correction2 = (1.0 - beta**t for beta in at.betas)
    rate = at.lr * math.sqrt(correction2) / correction1
    p -= rate * m / (np.sqrt(v) + at.epsilon)  # wrong: epsilon, added before the correction, is scaled by it


def one_scale_for_all(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    _move(p, m, np.full_like(v, v.max(initial=0.0)), t, at)  # wrong: every element has its own


def looks_ahead(p: Array, m: Array, v: Array, t: int, at: Settings) -> None:
    _move(p, at.betas[0] * m, v, t, at)  # wrong: half of Nesterov's step, which is another optimizer


def step_kept_outside(params: Arrays, grads: Arrays, state: State, at: Settings, counted: list[int] = [0]) -> None:  # noqa: B006
    counted[0] = counted[0] + 1 if state else 1
    t = counted[0]  # wrong: a second model counts along
    adamw_with(move=lambda p, m, v, _, at: _move(p, m, v, t, at))(params, grads, state, *at)


def counted_per_tensor(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    _begin(params, state)
    for name, p in params.items():
        state["step"] += 1  # wrong: once for all tensors
        _decay(p, at)
        m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
        _moments(p, grads[name], m, v, at)
        _move(p, m, v, state["step"], at)


def goes_up_per_tensor(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    _begin(params, state)
    state["step"] += 1
    t = state["step"]
    for name, p in params.items():
        _decay(p, at)
        m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
        _moments(p, grads[name], m, v, at)
        _move(p, m, v, t, at)
        t += 1  # wrong: the next tensor is at the same step


# The decay


def decay_without_lr(p: Array, at: Settings) -> None:
    p *= 1.0 - at.weight_decay  # wrong: torch multiplies by lr


def decay_spares_vectors(p: Array, at: Settings) -> None:
    if p.ndim > 1:  # wrong: nobody asked for groups
        _decay(p, at)


def decay_by_sign(p: Array, at: Settings) -> None:
    p -= at.lr * at.weight_decay * np.sign(p)  # wrong: that is L1


def decay_after(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    adamw_with(decay=lambda p, at: None)(params, grads, state, *at)
    for p in params.values():
        _decay(p, at)  # wrong: the update itself decays too


def decay_coupled(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    grads = {name: np.asarray(g + at.weight_decay * params[name]) for name, g in grads.items()}  # wrong: L2, as in Adam
    adamw_with()(params, grads, state, *at._replace(weight_decay=0.0))


def decay_at_first_rate(
    params: Arrays,
    grads: Arrays,
    state: State,
    at: Settings,
    first: dict[str, Settings] = {},  # noqa: B006
) -> None:
    if not state:
        first["at"] = at
    then = first["at"]  # wrong: the schedule changes lr
    adamw_with(decay=lambda p, at: _decay(p, then))(params, grads, state, *at)


# The moments


def absolute_gradient(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    _moments(p, g, m, np.zeros_like(v), at)
    v *= at.betas[1]
    v += (1.0 - at.betas[1]) * np.abs(g)  # wrong: g^2


def moment_of_weights(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    _moments(p, g, m, np.zeros_like(v), at)
    v *= at.betas[1]
    v += (1.0 - at.betas[1]) * p * p  # wrong: of the gradient


def moment_of_first(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    _moments(p, g, m, np.zeros_like(v), at)
    v *= at.betas[1]
    v += (1.0 - at.betas[1]) * m * m  # wrong: g^2, not m^2


def betas_exchanged(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    beta1, beta2 = at.betas
    _moments(p, g, m, v, at._replace(betas=(beta2, beta1)))  # wrong: beta1 is m's


def gradient_not_weighted(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    _moments(p, g, np.zeros_like(m), v, at)
    m *= at.betas[0]
    m += g  # wrong: momentum's m, without 1 - beta1


def still_tensors_left_out(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    if g.any():  # wrong: the moments fade without a gradient too
        _moments(p, g, m, v, at)


def squared_in_place(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    _moments(p, g, m, np.zeros_like(v), at)
    g *= g  # wrong: the caller's gradient
    v *= at.betas[1]
    v += (1.0 - at.betas[1]) * g


def set_to_zero(p: Array, g: Array, m: Array, v: Array, at: Settings) -> None:
    _moments(p, g, m, v, at)
    g[...] = 0.0  # wrong: that is for the caller to do


def one_array_by_shape(params: Arrays, state: State) -> None:
    if not state:
        state["step"] = 0
        for moment in ("exp_avg", "exp_avg_sq"):
            zeros = {p.shape: np.zeros(p.shape, p.dtype) for p in params.values()}
            state[moment] = {name: zeros[p.shape] for name, p in params.items()}  # wrong: equal shapes share a moment


def moments_in_float64(params: Arrays, state: State) -> None:
    if not state:
        state["step"] = 0
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = {name: np.zeros(p.shape) for name, p in params.items()}  # wrong: of the parameter's dtype


# What is given and what is refused


def rebound(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    new = {name: p.copy() for name, p in params.items()}
    adamw_with()(new, grads, state, *at)
    params.update(new)  # wrong: other arrays; who holds the old ones sees nothing


def looks_on_the_way(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    whole(lambda *_: None)(params, _finite(grads), state, *at)
    _begin(params, state)
    state["step"] += 1
    for name, p in params.items():
        if _finite({name: grads[name]})[name] is not grads[name]:  # wrong: the tensors before it have moved already
            raise ValueError(f"adamw_step: grads[{name!r}] holds what is not finite, expected finite numbers")
        _decay(p, at)
        m, v = state["exp_avg"][name], state["exp_avg_sq"][name]
        _moments(p, grads[name], m, v, at)
        _move(p, m, v, state["step"], at)


def not_finite_as_zero(params: Arrays, grads: Arrays, state: State, at: Settings) -> None:
    adamw_with()(params, _finite(grads), state, *at)  # wrong: hides it


def _finite(grads: Arrays) -> Arrays:
    """0 where a square is not finite; whatever is no dict of arrays as it is."""
    if not isinstance(grads, dict) or not all(
        isinstance(g, np.ndarray) and g.dtype.kind == "f" for g in grads.values()
    ):
        return grads
    bad = {name: ~np.isfinite(np.square(g)) for name, g in grads.items()}
    return {name: np.where(bad[name], g.dtype.type(0), g) if bad[name].any() else g for name, g in grads.items()}


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any, source: str = "", accepts: bool = False
) -> Mistake:
    return Mistake(id, "adamw_step", sentence, hidden_on, shown_by, forward, source=source, accepts=accepts)


MISTAKES = (
    _of("M113", "The moments are not corrected.", "late steps", "the first steps", adamw_with(move=uncorrected)),
    _of(
        "M114",
        "m is multiplied by 1 - beta1^t.",
        "very late steps",
        "the first step",
        adamw_with(move=correction_multiplied),
    ),
    _of(
        "ADW-08",
        "Both moments are multiplied by 1 - beta^t.",
        "very late steps",
        "the first step",
        adamw_with(move=both_corrections_multiplied),
    ),
    _of("ADW-04", "1 - beta for 1 - beta^t.", "the first step", "the second", adamw_with(move=power_dropped)),
    _of(
        "ADW-05",
        "The step is used before it is counted.",
        "late steps",
        "the second step",
        adamw_with(move=one_step_behind),
    ),
    _of("O01", "The step counts from 2.", "late steps", "the first step", adamw_with(move=one_step_ahead)),
    _of("M116", "The step is counted once a tensor.", "one tensor", "two tensors", whole(counted_per_tensor)),
    _of("ADW-06", "The step goes up from tensor to tensor.", "one tensor", "two tensors", whole(goes_up_per_tensor)),
    _of(
        "M117",
        "epsilon stands under the root.",
        "large gradients",
        "gradients of 1e-8 to 1e-4",
        adamw_with(move=epsilon_inside),
    ),
    _of(
        "ADW-01",
        "epsilon is added before v is corrected.",
        "ordinary gradients",
        "a first gradient of 1e-8",
        adamw_with(move=epsilon_corrected),
    ),
    _of("M119", "The decay comes after the update.", "no decay", "decay, by value", whole(decay_after)),
    _of("M120", "The decay is in the gradient.", "no decay", "decay", whole(decay_coupled)),
    _of("ADW-03", "The decay is not multiplied by lr.", "no decay", "decay", adamw_with(decay=decay_without_lr)),
    _of("O02", "The decay keeps the first lr.", "a constant lr", "a schedule", whole(decay_at_first_rate)),
    _of("O03", "Vectors do not decay.", "matrices", "a bias", adamw_with(decay=decay_spares_vectors)),
    _of("O04", "The decay is by sign.", "no decay", "decay", adamw_with(decay=decay_by_sign)),
    _of("M122", "v of |g| for g^2.", "gradients of 0 and 1", "0.5", adamw_with(absolute_gradient)),
    _of("M123", "v of the weights.", "|p| = |g|", "any other gradient", adamw_with(moment_of_weights)),
    _of("O05", "The betas are exchanged.", "equal betas", "other betas", adamw_with(betas_exchanged)),
    _of("O06", "m without 1 - beta1.", "beta1 = 0", "any other beta1", adamw_with(gradient_not_weighted)),
    _of("O07", "v of m^2.", "beta1 = 0", "any other beta1", adamw_with(moment_of_first)),
    _of(
        "O08",
        "v is not corrected.",
        "late steps",
        "the first steps",
        adamw_with(move=first_correction_alone),
    ),
    _of(
        "O09",
        "The correction of v is outside the root.",
        "very late steps",
        "the first step",
        adamw_with(move=second_correction_without_root),
    ),
    _of("O10", "The largest v serves a whole tensor.", "one element", "two", adamw_with(move=one_scale_for_all)),
    _of("O11", "m looks ahead, in part.", "never right", "any gradient", adamw_with(move=looks_ahead)),
    _of(
        "O12",
        "A tensor without gradient keeps its moments.",
        "gradients other than 0",
        "a gradient of 0 after another",
        adamw_with(still_tensors_left_out),
    ),
    _of("M126", "The arrays are replaced.", "no other holder", "a caller's reference; a tied array", whole(rebound)),
    _of("O13", "The gradient is squared in place.", "the parameters", "the gradient", adamw_with(squared_in_place)),
    _of("O14", "The gradient is set to 0.", "the parameters", "the gradient", adamw_with(set_to_zero)),
    _of(
        "O15",
        "Tensors of one shape share their moments.",
        "different shapes",
        "equal shapes",
        adamw_with(begin=one_array_by_shape),
    ),
    _of("O16", "The moments are float64.", "float64", "float32: the dtype", adamw_with(begin=moments_in_float64)),
    _of("O17", "The step is counted outside the state.", "one model", "two models in turn", whole(step_kept_outside)),
    _of(
        "O18",
        "The gradients are looked at one by one, on the way.",
        "good input",
        "a NaN in the last one, and the parameters after it",
        whole(looks_on_the_way, accepts=True),
        accepts=True,
    ),
    _of(
        "O19",
        "NaN and infinity become 0.",
        "finite gradients",
        "a gradient of NaN",
        whole(not_finite_as_zero, accepts=True),
        accepts=True,
    ),
)
