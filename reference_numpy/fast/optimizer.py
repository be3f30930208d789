"""AdamW and clipping in one pass over memory, in cache-sized chunks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from reference_numpy._check import Array
from reference_numpy.fast import _threads
from reference_numpy.optimizer import CLIP_EPSILON, check_clip, check_step, start_step

CHUNK = 1 << 15  # elements: five arrays of them lie in cache


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

    In place on params and state, as `reference_numpy.adamw_step`, which says what is refused.
    """
    lr, (beta1, beta2), epsilon, weight_decay = check_step(
        params, grads, state, lr, betas, epsilon, weight_decay, largest
    )
    t, exp_avg, exp_avg_sq = start_step(params, state)
    step, root = lr / (1.0 - beta1**t), 1.0 / math.sqrt(1.0 - beta2**t)

    def update(p: Array, g: Array, m: Array, v: Array) -> None:
        change = _threads.scratch("change", p.size, p.dtype).reshape(p.shape)
        np.multiply(g, 1.0 - beta1, out=change)
        m *= beta1
        m += change
        np.multiply(g, g, out=change)
        change *= 1.0 - beta2
        v *= beta2
        v += change
        np.sqrt(v, out=change)
        change *= root
        change += epsilon
        np.divide(m, change, out=change)
        change *= step
        p *= 1.0 - lr * weight_decay
        p -= change

    jobs = []
    for name, p in params.items():
        arrays = p, grads[name], exp_avg[name], exp_avg_sq[name]
        jobs += [partial(update, *piece) for piece in _pieces(*arrays)]
    _threads.run(jobs, sum(p.size for p in params.values()))


def clip_gradients(grads: Mapping[str, Array], max_norm: float) -> tuple[dict[str, Array], float]:
    """clipped = grads * min(1, max_norm / (norm + 1e-6)),  norm = sqrt(sum over all tensors of g^2)

    As `reference_numpy.clip_gradients`: the squares in float64 of g / max|g|, an array under two names counts once.
    """
    max_norm = check_clip(grads, max_norm, largest)
    arrays = {id(g): g for g in grads.values()}
    scale = max((largest(g) for g in arrays.values()), default=0.0)
    norm = scale * math.sqrt(sum(_squares(g, scale) for g in arrays.values())) if scale else 0.0
    if not math.isfinite(norm):
        raise ValueError("clip_gradients: grads have a norm beyond float64, expected a finite one")
    factor = min(1.0, max_norm / (norm + CLIP_EPSILON))
    scaled = {key: np.empty(g.shape, g.dtype) for key, g in arrays.items()}
    jobs = [
        partial(np.multiply, g, factor, out=to) for key, each in arrays.items() for g, to in _pieces(each, scaled[key])
    ]
    _threads.run(jobs, sum(g.size for g in arrays.values()))
    return {name: scaled[id(g)] for name, g in grads.items()}, norm


def largest(array: Array) -> float:
    """max |x|: NaN if there is one, 0 if there is nothing."""
    found = np.zeros(2 * len(_pieces(array)), array.dtype)

    def look(i: int, piece: Array) -> None:
        piece.max(initial=0.0, out=found[2 * i, ...])
        np.negative(piece.min(initial=0.0), out=found[2 * i + 1, ...])

    _threads.run([partial(look, i, piece) for i, (piece,) in enumerate(_pieces(array))], array.size)
    return float(found.max(initial=0.0))


def _squares(array: Array, scale: float) -> float:
    """sum (x / scale)^2 in float64, chunk by chunk."""
    pieces = _pieces(array)
    sums = np.zeros(len(pieces))

    def add(i: int, piece: Array) -> None:
        x = np.divide(piece, scale, dtype=np.float64).reshape(-1)
        sums[i] = x @ x

    _threads.run([partial(add, i, piece) for i, (piece,) in enumerate(pieces)], array.size)
    return float(sums.sum())


def _pieces(*arrays: Array) -> list[tuple[Array, ...]]:
    """Views of all arrays at the same places, cache-sized; of arrays that do not lie flat in memory, the whole."""
    if not all(array.flags.c_contiguous for array in arrays):
        return [arrays]
    flat = [array.reshape(-1) for array in arrays]
    return [tuple(array[start : start + CHUNK] for array in flat) for start in range(0, flat[0].size, CHUNK)]
