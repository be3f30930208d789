"""What may stand in the place of a dropout, a mask, the cutting of heads; in a model, of norms and positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.diagnosis.editing import Editing
from equivalence_tests.diagnosis.other import Other, instead

# Dropout: X, keep, p


def _renormalised(X: Any, keep: Any, p: Any) -> Any:
    if keep is None:
        return X
    kept = X.where(keep)
    total = kept.sum(-1, keepdims=True)
    return kept / total.moved(lambda x: np.where(x == 0, 1, x))


def _scaled(
    by: Callable[[float, Array], float], of: Callable[[Array], Array] = lambda keep: keep
) -> Callable[..., Any]:
    def dropout(X: Any, keep: Any, p: Any) -> Any:
        if keep is None:
            return X
        with np.errstate(all="ignore"):
            return (X * by(float(p), keep)).where(of(keep))

    return dropout


def _multiplied(by: Callable[[float], float]) -> Callable[..., Any]:
    """By a mask of factors, of which some are 0/0 or infinite at the ends of p."""

    def dropout(X: Any, keep: Any, p: Any) -> Any:
        if keep is None:
            return X
        with np.errstate(all="ignore"):
            return X * X._new(np.asarray(keep, np.float64) * np.float64(by(float(p))))

    return dropout


def _recovered(stage: Editing, X: Any, keep: Any, p: Any) -> Any:
    """The factor as output over input, 1 where the input is 0."""
    before, after = stage.lines["X"].value, stage.lines["Y"].value
    return X * np.where(before != 0, after / np.where(before == 0, 1, before), 1.0)


def _inverse(x: float) -> float:
    return 1.0 / x if x else np.inf


DROPPED = (
    instead("option_ignored", lambda X, keep, p: X, 1.5, stage="keep", option="keep"),
    instead("unscaled", _scaled(lambda p, _: 1.0), 1.4),
    Other("wrong_operand", lambda _, stage: partial(_recovered, stage), {"term": "keep", "got": "Y / X"}, 3.0),
    instead(
        "wrong_factor",
        _scaled(lambda p, _: _inverse(1 - p) ** 2),
        2.2,
        factor="1/(1 - p)^2",
        named="1/(1 - p), twice",
        term="the dropout",
    ),
    instead(
        "wrong_factor",
        _scaled(lambda p, _: _inverse(p)),
        2.2,
        factor="1/p",
        named="1/p for 1/(1 - p)",
        term="the dropout",
    ),
    *(
        instead(
            "option_value",
            _multiplied(of_p),
            1.6,
            stage="p",
            option="p",
            got="the probability to keep",
        )
        for of_p in (_inverse, lambda p: _inverse(p) if p else 0.0)
    ),
    instead(
        "other_form",
        _multiplied(lambda p: _inverse(1 - p)),
        2.3,
        stage="p",
        term="the dropout",
        form="0 times 1/0 where p is 1",
        kind="special",
    ),
    instead("wrong_factor", _scaled(lambda p, _: 1 - p), 2.2, factor="1 - p", named="(1 - p)", term="the dropout"),
    instead(
        "wrong_factor",
        _scaled(lambda p, keep: _inverse(float(keep.mean()))),
        2.4,
        factor="1/mean(keep)",
        named="1 over the share that was kept",
        term="the dropout",
    ),
    instead("option_inverted", _scaled(lambda p, _: _inverse(1 - p), lambda keep: ~keep), stage="keep", option="keep"),
    instead("missing_term", _scaled(lambda p, _: _inverse(1 - p), lambda keep: np.ones_like(keep)), 2.2, term="keep"),
    instead("other_form", _renormalised, 1.7, term="dropout", form="made to sum to 1 again"),
)


# Masks: S, allowed, mask


def _mask(change: Callable[[Array], Array]) -> Callable[..., Any]:
    return lambda S, allowed, mask: (S, allowed & change(mask))


def _scores_times_mask(stage: Editing, S: Any, allowed: Array, mask: Array) -> Any:
    """Before the bias is added."""
    scaled = stage.lines["scaled"]
    return scaled * S._new(mask) + (S - scaled), allowed


def _penalised(stage: Editing, by: float, S: Any, allowed: Array, mask: Array) -> Any:
    return S + S._new(np.where(mask, 0.0, by)), allowed


CHOSEN = (
    instead("option_ignored", lambda S, allowed, mask: (S, allowed), stage="mask", option="mask"),
    instead("option_inverted", _mask(lambda mask: ~mask), stage="mask", option="mask"),
    instead("mask_arithmetic", lambda S, allowed, mask: (S + S._new(mask), allowed), stage="mask", done="added to"),
    instead(
        "mask_arithmetic", lambda S, allowed, mask: (S * S._new(mask), allowed), stage="mask", done="multiplied with"
    ),
    Other(
        "mask_arithmetic",
        lambda _, stage: partial(_scores_times_mask, stage),
        {"done": "multiplied with"},
        stage="mask",
    ),
    Other(
        "mask_arithmetic",
        lambda _, stage: partial(_penalised, stage, -100.0),
        {"done": "added, times -100, to"},
        stage="mask",
    ),
    Other(
        "mask_arithmetic",
        lambda _, stage: partial(_penalised, stage, -1e4),
        {"done": "added, times -1e4, to"},
        stage="mask",
    ),
    Other(
        "mask_arithmetic",
        lambda _, stage: partial(_penalised, stage, -1e9),
        {"done": "added, times -1e9, to"},
        stage="mask",
    ),
    instead(
        "transposed",
        _mask(lambda mask: np.swapaxes(mask, -1, -2) if mask.ndim > 1 and mask.shape[-1] == mask.shape[-2] else mask),
        stage="mask",
        term="mask",
    ),
    instead(
        "some_for_all",
        _mask(lambda mask: mask[:1] if mask.ndim > 3 else mask),
        2.5,
        stage="mask",
        term="mask",
        which="the first",
    ),
)


# Heads


def _reshaped_heads(Z: Any, H: int) -> Any:
    def split(z: Array) -> Array:
        *lead, n, width = z.shape
        return z.reshape(*lead, H, n, width // H)

    return Z.moved(split)


def _interleaved_heads(Z: Any, H: int) -> Any:
    return Z.moved(lambda z: np.moveaxis(z.reshape(*z.shape[:-1], z.shape[-1] // H, H), -1, -3))


def _merged_by_reshape(Z: Any) -> Any:
    def merge(z: Array) -> Array:
        *lead, H, n, c = z.shape
        return z.reshape(*lead, n, H * c)

    return Z.moved(merge)


def _merged_interleaved(Z: Any) -> Any:
    def merge(z: Array) -> Array:
        *lead, H, n, c = z.shape
        return np.moveaxis(z, -3, -1).reshape(*lead, n, c * H)

    return Z.moved(merge)


def _merged_heads_first(Z: Any) -> Any:
    def merge(z: Array) -> Array:
        *lead, H, n, c = z.shape
        batch = int(np.prod(lead))
        turned = np.swapaxes(z.reshape(H, batch, n, c), 0, 1)
        return np.swapaxes(turned, -3, -2).reshape(*lead, n, H * c)

    return Z.moved(merge)


SPLIT = (
    instead("heads", _reshaped_heads, how="by a reshape alone"),
    instead("heads", _interleaved_heads, how="interleaved, in the order (c, H)"),
)
MERGE = (
    instead("heads", _merged_by_reshape, how="by a reshape alone"),
    instead("heads", _merged_interleaved, how="interleaved, in the order (c, H)"),
    instead("heads", _merged_heads_first, how="with the heads before the batch"),
)


# Models


def _post_norm(X: Any, norm: Any, part: Any) -> Any:
    return norm(X + part(X))


def _of_the_norm(X: Any, norm: Any, part: Any) -> Any:
    N = norm(X)
    return N + part(N)


PRE_NORM = (
    instead("norm_order", _post_norm, stage="norm", how="after the sum"),
    instead("missing_term", lambda X, norm, part: part(norm(X)), stage="residual", term="the residual path"),
    instead("wrong_operand", _of_the_norm, stage="residual", term="X", got="norm(X)"),
    instead("missing_term", lambda X, norm, part: X + part(_unnormed(X, norm)), stage="norm", term="the norm"),
    instead(
        "wrong_factor",
        lambda X, norm, part: X * 2.0 + part(norm(X)),
        2.2,
        stage="residual",
        term="the residual path",
        factor=2.0,
        named="2",
    ),
    instead("missing_term", lambda X, norm, part: X + part(norm(X)) * 0.0, stage="residual", term="the branch"),
)


def _unnormed(X: Any, norm: Any) -> Any:
    norm(X)  # the backward needs its tape
    return X


def _continued(ids: Array, window: int) -> Array:
    n = ids.shape[-1]
    return np.arange(ids.size).reshape(ids.shape) % window if ids.ndim > 1 else np.arange(n)


POSITIONS = (
    instead("position_ids", lambda ids, window: np.minimum(np.arange(ids.shape[-1]) + 1, window - 1), how="from 1"),
    instead("position_ids", lambda ids, window: (np.arange(ids.shape[-1]) + 1) % window, 2.1, how="from 1"),
    instead(
        "position_ids",
        lambda ids, window: np.arange(window - ids.shape[-1], window),
        how="up to the last of the window",
    ),
    instead("position_ids", lambda ids, window: np.arange(ids.shape[-1])[::-1], how="backwards"),
    instead("position_ids", _continued, how="on from one sequence to the next"),
    instead("position_ids", lambda ids, window: np.zeros(ids.shape[-1], int), how="all as 0"),
)
