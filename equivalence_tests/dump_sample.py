"""A large dump of an attention: which heads of which samples are judged.

Extended precision takes its time. Heads are independent of each other, so of many those are judged in which any tensor
differs most from plain float64. Where these are right, no other is likely to be wrong.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import Array
from equivalence_tests.dump_arrays import Dump
from equivalence_tests.implementations import Tensor
from equivalence_tests.ops import Op

LARGEST = 2**25  # products of one line: about seven seconds on one core for all of them
WEIGHTS = ("mask", "keep", "bias")  # what broadcasts to the weights, or is one for each


def sampled(op: Op, dump: Dump) -> Dump:
    """The dump, or of a large one as many heads as fit, along one leading axis. A note says which."""
    numbers = dump.numbers
    if op.name not in ("attention", "attention_stages") or not {"Q", "K", "V"} <= numbers.keys():
        return dump
    Q, K, V = (numbers[name].value for name in ("Q", "K", "V"))
    lead, weights = Q.shape[:-2], (Q.shape[-2], K.shape[-2])
    products = math.prod(weights) * max(Q.shape[-1], V.shape[-1])
    blocks, most = math.prod(lead), max(1, LARGEST // products)
    if blocks <= most or any(X.value.shape[: len(lead)] != lead for name, X in numbers.items() if name != "bias"):
        return dump
    chosen = sorted(np.argsort([-_difference(dump, lead, weights, block) for block in range(blocks)])[:most].tolist())
    picked = {name: Tensor(_picked(name, X.value, lead, weights, chosen), X.dtype) for name, X in numbers.items()}
    options = {name: _option(name, value, lead, weights, chosen) for name, value in dump.options.items()}
    places = ", ".join(str(tuple(int(i) for i in np.unravel_index(block, lead))) for block in chosen[:8])
    note = f"{most} of {blocks} heads are judged, those that differ most: {places}{', ...' if most > 8 else ''}"
    return replace(dump, numbers=picked, options=options, notes=[*dump.notes, note + " (the first index counts these)"])


def _picked(name: str, X: Array, lead: tuple[int, ...], weights: tuple[int, ...], blocks: list[int]) -> Array:
    if name in WEIGHTS:
        X = np.broadcast_to(X, (*lead, *weights))
    return X[np.unravel_index(blocks, lead)]


def _option(name: str, value: Any, lead: tuple[int, ...], weights: tuple[int, ...], blocks: list[int]) -> Any:
    return _picked(name, value, lead, weights, blocks) if name in WEIGHTS and value is not None else value


def _difference(dump: Dump, lead: tuple[int, ...], weights: tuple[int, ...], block: int) -> float:
    """The largest |got - float64| of any tensor of one head, over the largest number in it; infinite for NaN."""
    arrays = {n: _picked(n, X.value, lead, weights, [block])[0].astype(np.float64) for n, X in dump.numbers.items()}
    options = {name: _option(name, value, lead, weights, [block]) for name, value in dump.options.items()}
    options = {name: value[0] if name in WEIGHTS and value is not None else value for name, value in options.items()}
    given: list[Any] = [arrays.get(name) for name in ("Q", "K", "V", "dC")]
    with np.errstate(all="ignore"):
        stages = reference_numpy.attention_stages(*given, **options, bias=arrays.get("bias"))._asdict()
        ratios = [
            float(np.abs(np.where(np.isneginf(right), 0, arrays[name] - right)).max(initial=0.0))
            / (float(np.abs(np.where(np.isneginf(right), 0, right)).max(initial=0.0)) or 1.0)
            for name, right in stages.items()
            if name in arrays and right is not None and arrays[name].shape == right.shape
        ]
    worst = max(ratios, default=0.0)
    return worst if np.isfinite(worst) and not any(np.isnan(ratios)) else np.inf
