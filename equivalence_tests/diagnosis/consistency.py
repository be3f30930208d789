"""Where the forward is wrong: whether the gradient is that of the wrong forward, of the right one, or of neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.close import Seen
from equivalence_tests.diagnosis.editing import Hypothesis
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op

STEP = 1e-6  # of a central difference in float64: what it cuts off and what it rounds are both about 1e-10
AGREES = 1e-6  # of the sum of absolute values, far above both

WHOSE = {
    "its own": ("that of this wrong forward", "el de este paso hacia adelante incorrecto"),
    "the right": ("that of the right forward", "el del paso hacia adelante correcto"),
    "neither": ("that of neither this forward nor the right one", "el de ninguno de los dos pasos hacia adelante"),
}


def consistency(op: Op, seen: Sequence[Seen], hypothesis: Hypothesis) -> Finding | None:
    """Of one case in which the outputs are wrong and everything is smooth; None where no case or no gradient is at hand."""
    for each in seen:
        gradients = [name for name in each.tensors if name not in op.outputs]
        soft = not each.case.hard and each.observation.dtype == "float64" and not each.raised
        if not soft or not gradients or not each.wrong(op.outputs):
            continue
        if any(each.tensors[name].got is None for name in gradients):
            return None
        forward, backward, size = _both_ways(op, each, hypothesis, gradients)
        if not np.isfinite(forward + backward) or size == 0.0:
            continue
        if abs(forward - backward) <= AGREES * size:
            whose = "its own"
        else:
            whose = "neither" if each.wrong(gradients) else "the right"
        english, spanish = WHOSE[whose]
        return Finding("gradient_of", ", ".join(gradients), "", {"whose": english, "whose_es": spanish})
    return None


def _both_ways(op: Op, seen: Seen, hypothesis: Hypothesis, gradients: Sequence[str]) -> tuple[float, float, float]:
    """<dY, J v> by differences of the wrong forward, <gradient, v> by the candidate, and the size of what is added up."""
    rng = np.random.default_rng(0)
    direction = {name[1:]: rng.standard_normal(seen.case.operands[name[1:]].shape) for name in gradients}
    ahead, behind = (hypothesis.answer(op, _moved(seen.case, direction, step), "float64") for step in (STEP, -STEP))
    if ahead is None or behind is None:
        return np.nan, np.nan, 0.0
    forward, size = 0.0, 0.0
    for name in op.outputs:
        terms = seen.case.upstream[f"d{name}"] * (ahead[name] - behind[name]) / (2.0 * STEP)
        forward, size = forward + float(terms.sum()), size + float(np.abs(terms).sum())
    answered: list[Any] = [seen.tensors[f"d{name}"].got for name in direction]
    if any(got.shape != v.shape for got, v in zip(answered, direction.values(), strict=True)):
        return np.nan, np.nan, 0.0
    products = [got * v for got, v in zip(answered, direction.values(), strict=True)]
    backward = sum(float(product.sum()) for product in products)
    return forward, backward, size + sum(float(np.abs(product).sum()) for product in products)


def _moved(case: Case, direction: dict[str, Any], step: float) -> Case:
    return replace(case, operands={**case.operands, **{n: case.operands[n] + step * v for n, v in direction.items()}})
