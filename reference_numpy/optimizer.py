"""From gradients to the next parameters: AdamW, clipping by the global norm, and the learning rate of each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from reference_numpy import _arguments, _check
from reference_numpy._check import Array
from reference_numpy._named_arrays import MOMENTS, check_alike, check_arrays, check_memory, check_params, check_state

CLIP_EPSILON = 1e-6  # torch's


def adamw_step(
    params: dict[str, Array],
    grads: Mapping[str, Array],
    state: dict[str, Any],
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    weight_decay: float = 1e-2,
) -> None:
    """p <- p (1 - lr weight_decay) - lr m' / (sqrt(v') + epsilon),  m' = m / (1 - beta1^t), v' = v / (1 - beta2^t), after
    m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2

    params, grads: arrays by name, of the same names, shapes and dtype; g = grads[name]. t counts the steps from 1, once for
    all tensors. state is {} before the first step, then {"step": t, "exp_avg": {name: m}, "exp_avg_sq": {name: v}}.

    In place: params and state change, and their arrays stay the same objects, whoever else holds them; grads do not change.
    AdamW (Loshchilov and Hutter) as torch.optim.AdamW has it: the decay is decoupled from the gradient but multiplied by
    lr; epsilon stands outside the root, after the bias correction; a tensor whose gradient is 0 decays and moves on.

    Raises TypeError or ValueError, and has then changed nothing: for names, shapes or dtypes that differ, hyperparameters
    out of range, arrays that cannot be written or share memory (a tied array has one name, and the sum for its gradient),
    and a gradient that is not finite or whose square is not: torch steps on, and then that parameter is NaN for good, or
    never moves again.
    """
    lr, (beta1, beta2), epsilon, weight_decay = check_step(params, grads, state, lr, betas, epsilon, weight_decay)
    t, exp_avg, exp_avg_sq = start_step(params, state)
    correction1, correction2 = 1.0 - beta1**t, 1.0 - beta2**t
    for name, p in params.items():
        g, m, v = grads[name], exp_avg[name], exp_avg_sq[name]
        m *= beta1
        m += (1.0 - beta1) * g
        v *= beta2
        v += (1.0 - beta2) * np.square(g)
        p *= 1.0 - lr * weight_decay
        p -= (lr / correction1) * m / (np.sqrt(v) / math.sqrt(correction2) + epsilon)


def clip_gradients(grads: Mapping[str, Array], max_norm: float) -> tuple[dict[str, Array], float]:
    """clipped = grads * min(1, max_norm / (norm + 1e-6)),  norm = sqrt(sum over all tensors of g^2)

    grads: floating arrays by name; clipped: new arrays of the same names, shapes and dtypes; norm: a Python float, before
    clipping. It is one norm for all tensors, so the direction stays. The factor is torch's: what is clipped ends just below
    max_norm.

    The squares are taken of g / max|g|, in float64: nothing overflows on the way. An array under two names is one array: it
    counts once, and is one array in clipped. grads stay as they are.
    Raises TypeError for other dtypes, ValueError for a max_norm that is not above 0, and for a norm that is not finite:
    max_norm / inf would set the finite gradients to 0, and a NaN all of them to NaN, without a word.
    """
    max_norm = check_clip(grads, max_norm)
    arrays = {id(g): g for g in grads.values()}
    norm = _norm(list(arrays.values()))
    if not math.isfinite(norm):
        raise ValueError("clip_gradients: grads have a norm beyond float64, expected a finite one")
    factor = min(1.0, max_norm / (norm + CLIP_EPSILON))
    scaled = {key: np.asarray(g * factor) for key, g in arrays.items()}
    return {name: scaled[id(g)] for name, g in grads.items()}, norm


def learning_rate(
    step: int, *, peak: float, warmup_steps: int = 0, total_steps: int | None = None, floor: float = 0.0
) -> float:
    """peak (step + 1) / warmup_steps in the warm-up; then peak, or floor + (peak - floor) (1 + cos(pi x)) / 2

    step counts from 0, the first update. x goes from 0 at the last step of the warm-up (at the first step if there is none)
    to 1 at step total_steps - 1: the rate there is exactly peak, and exactly floor, which every later step has as well.

    Without total_steps the rate stays at peak. If the warm-up is all there is, the last step has peak, not floor.
    Raises TypeError for counts that are no integers, ValueError for a step below 0, for fewer steps in total than in the
    warm-up (or than 1), and for a floor that is not between 0 and peak.
    """
    step = _arguments.integer("step", step, 0)
    warmup_steps = _arguments.integer("warmup_steps", warmup_steps, 0)
    peak = _at_least_0("learning_rate", "peak", peak)
    floor = _at_least_0("learning_rate", "floor", floor)
    if floor > peak:
        raise ValueError(f"learning_rate: floor is {floor}, expected at most peak, {peak}")
    top = max(warmup_steps - 1, 0)  # the step with peak
    if total_steps is not None:
        total_steps = _arguments.integer("total_steps", total_steps, top + 1)
    if step < warmup_steps:
        return peak * ((step + 1) / warmup_steps)
    if total_steps is None:
        return peak
    x = min((step - top) / max(total_steps - 1 - top, 1), 1.0)
    share = (1.0 + math.cos(math.pi * x)) / 2.0
    return peak * share + floor * (1.0 - share)  # exact at both ends


def check_clip(grads: Mapping[str, Array], max_norm: float, largest: Callable[[Array], float] | None = None) -> float:
    """The checks of clip_gradients; `largest` finds max |x|."""
    max_norm = _check.number("clip_gradients", "max_norm", max_norm)
    if max_norm <= 0.0:
        raise ValueError(f"clip_gradients: max_norm is {max_norm}, expected a number above 0")
    check_arrays("clip_gradients", "grads", grads)
    for name, g in grads.items():
        top = (largest or _largest)(g)
        if not math.isfinite(top):
            raise ValueError(f"clip_gradients: grads[{name!r}] holds {top}, expected finite numbers")
    return max_norm


def check_step(
    params: dict[str, Array],
    grads: Mapping[str, Array],
    state: dict[str, Any],
    lr: float,
    betas: tuple[float, float],
    epsilon: float,
    weight_decay: float,
    largest: Callable[[Array], float] | None = None,
) -> tuple[float, tuple[float, float], float, float]:
    """The checks of adamw_step, and its hyperparameters as plain numbers; `largest` finds max |x|."""
    pair = _betas(betas)
    lr = _at_least_0("adamw_step", "lr", lr)
    epsilon = _check.number("adamw_step", "epsilon", epsilon)
    weight_decay = _at_least_0("adamw_step", "weight_decay", weight_decay)
    check_params("adamw_step", params)
    check_state("adamw_step", params, state)
    check_alike("adamw_step", "grads", grads, params)
    _check_numbers(params, grads, state, epsilon, largest or _largest)
    return lr, pair, epsilon, weight_decay


def start_step(params: Mapping[str, Array], state: dict[str, Any]) -> tuple[int, dict[str, Array], dict[str, Array]]:
    """Count the step in the state; its number and both moments, zeros before the first."""
    t = state.get("step", 0) + 1
    exp_avg, exp_avg_sq = (state.get(moment) or _zeros(params) for moment in MOMENTS)
    state.update(step=t, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq)
    return t, exp_avg, exp_avg_sq


def _check_numbers(
    params: Mapping[str, Array],
    grads: Mapping[str, Array],
    state: Mapping[str, Any],
    epsilon: float,
    largest: Callable[[Array], float],
) -> None:
    """Every number of the step will be finite, and every array can be updated in place, once."""
    dtype = np.finfo(next(iter(params.values())).dtype)
    if epsilon < dtype.tiny:  # where v is 0 there is nothing else to divide by
        raise ValueError(
            f"adamw_step: epsilon is {epsilon}, expected at least {dtype.tiny:.2g}, what {dtype.dtype} holds"
        )
    most = math.sqrt(dtype.max) / 2.0  # half the root: v stays finite whatever its own rounding
    for name, g in grads.items():
        top = largest(g)
        if not top <= most:
            expected = f"finite numbers up to {most:.2g}, whose squares are finite"
            raise ValueError(f"adamw_step: grads[{name!r}] holds {top}, expected {expected}")
    written = {f"params[{name!r}]": p for name, p in params.items()}
    for moment in MOMENTS:
        written |= {f"state[{moment!r}][{name!r}]": array for name, array in state.get(moment, {}).items()}
    for label, array in written.items():
        if not array.flags.writeable:
            raise ValueError(f"adamw_step: {label} is read-only, expected an array that can be updated in place")
    check_memory("adamw_step", written, {f"grads[{name!r}]": g for name, g in grads.items()})


def _betas(betas: Any) -> tuple[float, float]:
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise TypeError(f"adamw_step: betas is a {type(betas).__name__}, expected a pair of numbers") from None
    first, second = (_check.number("adamw_step", f"betas[{i}]", beta) for i, beta in enumerate((first, second)))
    for i, beta in enumerate((first, second)):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"adamw_step: betas[{i}] is {beta}, expected a number from 0 to below 1")
    return first, second


def _at_least_0(op: str, name: str, value: Any) -> float:
    real = _check.number(op, name, value)
    if real < 0.0:
        raise ValueError(f"{op}: {name} is {real}, expected at least 0")
    return real


def _zeros(params: Mapping[str, Array]) -> dict[str, Array]:
    return {name: np.zeros(p.shape, p.dtype) for name, p in params.items()}


def _largest(array: Array) -> float:
    """max |x|: NaN if there is one, 0 if there is nothing."""
    return float(np.abs(array).max(initial=0.0))


def _norm(arrays: list[Array]) -> float:
    scale = max((_largest(array) for array in arrays), default=0.0)
    if scale == 0.0:
        return 0.0
    squares = (float(np.square(np.divide(array, scale, dtype=np.float64)).sum()) for array in arrays)
    return scale * math.sqrt(sum(squares))
