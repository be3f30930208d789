"""Mistakes in dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake

_GENERATOR = np.random.default_rng(0)


def _dropped(X: Array, keep: Array, factor: float) -> Array:
    return np.where(keep, X * factor, X.dtype.type(0))


def _factor(p: float) -> float:
    return 0.0 if p == 1.0 else 1.0 / (1.0 - p)


def always(X: Array, keep: Array | None, p: float) -> Any:
    if keep is None:
        keep, p = _GENERATOR.random(X.shape) >= 0.1, 0.1  # wrong: nobody asked for it
    return _dropped(X, keep, _factor(p)), (X, keep, p)


def one_over_p(X: Array, keep: Array | None, p: float) -> Any:
    if keep is None or p == 0.0:
        return X.copy(), (None, 0.0)
    return _dropped(X, keep, 1.0 / p), (X, keep, p)  # wrong: p read as the chance of being kept


def unscaled(X: Array, keep: Array | None, p: float) -> Any:
    return (X.copy() if keep is None else _dropped(X, keep, 1.0)), (X, keep, p)  # wrong: no 1 / (1 - p)


def scaled_by_share(X: Array, keep: Array | None, p: float) -> Any:
    if keep is None:
        return X.copy(), (X, keep, p)
    return _dropped(X, keep, 1.0 / max(float(keep.mean()), 1e-12)), (X, keep, p)  # wrong: what was kept, not 1 - p


def inverted(X: Array, keep: Array | None, p: float) -> Any:
    if keep is None:
        return X.copy(), (X, keep, p)
    return _dropped(X, ~keep, _factor(p)), (X, keep, p)  # wrong: True read as "drop"


def nothing_left(X: Array, keep: Array | None, p: float) -> Any:
    if keep is None:
        return X.copy(), (X, keep, p)
    return X * keep / X.dtype.type(1.0 - p), (X, keep, p)  # wrong: 0/0 at p = 1


def in_place(X: Array, keep: Array | None, p: float) -> Any:
    if keep is not None:
        X[~keep] = 0.0  # wrong: the caller's array
    return X * (1.0 if keep is None else _factor(p)), (X, keep, p)


def same_array(X: Array, keep: Array | None, p: float) -> Any:
    return (X if keep is None else _dropped(X, keep, _factor(p))), (X, keep, p)  # wrong: the operand itself comes back


def scale_without_mask(dY: Array, cache: Any) -> Any:
    _, keep, p = cache
    return dY.copy() if keep is None else dY * _factor(p)  # wrong: dropped units get gradient


def mask_without_scale(dY: Array, cache: Any) -> Any:
    _, keep, _ = cache
    return dY.copy() if keep is None else _dropped(dY, keep, 1.0)  # wrong: no 1 / (1 - p)


def scaled_twice(dY: Array, cache: Any) -> Any:
    _, keep, p = cache
    return dY.copy() if keep is None else _dropped(dY, keep, _factor(p) ** 2)  # wrong: 1 / (1 - p)^2


def fresh_mask(dY: Array, cache: Any) -> Any:
    _, keep, p = cache
    if keep is None:
        return dY.copy()
    return _dropped(dY, _GENERATOR.random(dY.shape) >= p, _factor(p))  # wrong: another mask than the forward's


def identity(dY: Array, cache: Any) -> Any:
    return dY.copy()  # wrong: as if nothing had been dropped


def same_gradient(dY: Array, cache: Any) -> Any:
    _, keep, p = cache
    return dY if keep is None else _dropped(dY, keep, _factor(p))  # wrong: the upstream gradient itself comes back


def remembers_output(X: Array, keep: Array | None, p: float) -> Any:
    Y = X.copy() if keep is None else _dropped(X, keep, _factor(p))
    return Y, (X.copy(), Y.copy(), p)


def mask_from_output(dY: Array, cache: Any) -> Any:
    _, Y, p = cache
    return _dropped(dY, Y != 0, _factor(p))  # wrong: a kept 0 is not a dropped one


def factor_from_ratio(dY: Array, cache: Any) -> Any:
    X, Y, _ = cache
    ratio = np.where(X == 0, X.dtype.type(1), Y / np.where(X == 0, X.dtype.type(1), X))  # wrong: unknown where X is 0
    return dY * ratio


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any = None, backward: Any = None, source: str = ""
) -> Mistake:
    return Mistake(id, "dropout", sentence, hidden_on, shown_by, forward, backward, source)


MISTAKES = (
    _of("D01", "Units are dropped although no mask came.", "a mask that came", "two calls without one", always),
    _of(
        "M096",
        "Kept units are multiplied by 1/p.",
        "p = 1/2",
        "p = 0.1",
        one_over_p,
        source="DRP-06",
    ),
    _of("M098", "Kept units are not multiplied.", "p = 0; a layer norm behind it", "any other p", unscaled),
    _of(
        "D02",
        "Kept units are divided by the share that was kept.",
        "a share of exactly 1 - p",
        "small arrays",
        scaled_by_share,
    ),
    _of("DRP-06", "The mask is read the other way round.", "no mask", "any mask", inverted),
    _of("DRP-05", "p = 1 is 0/0.", "any other p", "p = 1", nothing_left),
    _of("D03", "Dropped units are set to 0 in place.", "the result", "the operand afterwards", in_place),
    _of("D04", "Without a mask the operand itself comes back.", "its values", "its memory", same_array),
    _of("M099", "Dropped units get gradient.", "nothing dropped", "a dropped unit", backward=scale_without_mask),
    _of("D05", "The gradient is not divided by 1 - p.", "p = 0", "any other p", backward=mask_without_scale),
    _of("D06", "The gradient is divided by (1 - p)^2.", "p = 0", "any other p", backward=scaled_twice),
    _of(
        "M101",
        "The mask is recovered from Y != 0.",
        "inputs without zeros",
        "a kept 0",
        remembers_output,
        mask_from_output,
        source="DRP-04",
    ),
    _of(
        "DRP-04b",
        "The factor is recovered as Y / X, 1 where X is 0.",
        "inputs without zeros",
        "a dropped 0",
        remembers_output,
        factor_from_ratio,
    ),
    _of("M102", "The backward draws a mask of its own.", "p = 0", "two calls", backward=fresh_mask),
    _of("D07", "The gradient passes as it came.", "no dropout", "any dropout", backward=identity),
    _of(
        "D08",
        "Without a mask the upstream gradient itself comes back.",
        "its values",
        "its memory",
        backward=same_gradient,
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "D01": "Y, keep, forward: option, conduct",
    "M096": "Y, p: factor, option",
    "M098": "Y, p: factor",
    "D02": "Y, p: factor",
    "DRP-06": "Y, keep: option",
    "DRP-05": "Y, p: special",
    "D03": "forward: conduct",
    "D04": "forward: conduct",
    "M099": "dX, keep: term, option",
    "D05": "dX, p: factor",
    "D06": "dX, p: factor",
    "M101": "dX, keep: operand, special",
    "DRP-04b": "dX, keep: operand, special",
    "M102": "dX, keep, backward: operand, conduct",
    "D07": "dX, keep: term, option",
    "D08": "backward: conduct",
}
