"""Mistakes in the forward of attention, and in its stages."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import reference_numpy as reference
from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy import AttentionCache, AttentionStages


class Options(NamedTuple):
    """The keywords of an attention; `scale` is filled in where it was left out, `given` is what came."""

    mask: Array | None
    bias: Array | None
    causal: bool
    query_offset: int
    scale: float
    keep: Array | None
    p: float
    given: float | None


Weights = Callable[[Array, Array, Options], Any]  # Q, K, options -> A
Mix = Callable[[Array, Array, Options], Any]  # A, V, options -> C


# The right parts, for everybody to be wrong in one of them only.


def _scores(Q: Array, K: Array, o: Options) -> Any:
    return _biased(Q @ K.mT * o.scale, o)


def _biased(S: Array, o: Options) -> Any:
    return S if o.bias is None else S + o.bias


def _allowed(S: Array, o: Options) -> Any:
    return ~np.isneginf(S) & _unmasked(S, o) & _causal(S, o)


def _unmasked(S: Array, o: Options) -> Any:
    return np.ones(S.shape, bool) if o.mask is None else np.broadcast_to(o.mask, S.shape)


def _causal(S: Array, o: Options) -> Any:
    n, m = S.shape[-2:]
    return np.ones((n, m), bool) if not o.causal else np.arange(m) <= np.arange(n)[:, None] + o.query_offset


def _filled(S: Array, allowed: Array, fill: float = -np.inf) -> Any:
    return np.where(allowed, S, S.dtype.type(fill))


def _softmax(S: Array, axis: int = -1) -> Any:
    """No guard: a row of -inf is NaN."""
    return reference.softmax(S, axis)[0]


def _guarded(S: Array) -> Any:
    """A row of -inf gives zeros."""
    empty = np.isneginf(S).all(-1, keepdims=True)
    return np.where(empty, S.dtype.type(0), _softmax(np.where(empty, S.dtype.type(0), S)))


def _mix(A: Array, V: Array, o: Options) -> Any:
    return reference.dropout(A, o.keep, o.p)[0] @ V


def _weights(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    return _guarded(_filled(S, _allowed(S, o)))


def attention_with(weights: Weights = _weights, mix: Mix = _mix) -> Callable[..., Any]:
    """An attention that makes its map with `weights` and its context vectors with `mix`."""

    def attention(
        Q: Array,
        K: Array,
        V: Array,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        query_offset: int = 0,
        scale: float | None = None,
        keep: Array | None = None,
        p: float = 0.0,
    ) -> Any:
        factor = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
        options = Options(mask, bias, causal, query_offset, factor, keep, p, scale)
        A = weights(Q, K, options)
        return mix(A, V, options), AttentionCache(Q, K, V, A, factor, keep, p)

    return attention


def maximum_from_a_number(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    S = _filled(S, _allowed(S, o))
    E = np.exp(S - np.maximum(S.max(-1, keepdims=True), -10000.0))  # wrong: the search starts at a finite number
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0, E.dtype.type(1), total)


# Scale


def _finished(Omega: Array, scale: Any, o: Options) -> Any:
    """Everything after the scale."""
    S = _biased(Omega * scale, o)
    return _guarded(_filled(S, _allowed(S, o)))


def scale_missing(Q: Array, K: Array, o: Options) -> Any:
    return _finished(Q @ K.mT, 1.0, o)  # wrong: no scale


def scale_twice(Q: Array, K: Array, o: Options) -> Any:
    return _finished((Q * o.scale) @ (K * o.scale).mT, 1.0, o)  # wrong: the root of it on each would do


def scale_by_keys(Q: Array, K: Array, o: Options) -> Any:
    scale = 1.0 / math.sqrt(K.shape[-2]) if o.given is None else o.given  # wrong: axis -2 for -1
    return _finished(Q @ K.mT, scale, o)


def scale_by_width(Q: Array, K: Array, o: Options) -> Any:
    scale = 1.0 / Q.shape[-1] if o.given is None else o.given  # wrong: the root is missing
    return _finished(Q @ K.mT, scale, o)


def scale_upside_down(Q: Array, K: Array, o: Options) -> Any:
    scale = math.sqrt(Q.shape[-1]) if o.given is None else o.given  # wrong: times for divided by
    return _finished(Q @ K.mT, scale, o)


def scale_ignored(Q: Array, K: Array, o: Options) -> Any:
    return _finished(Q @ K.mT, 1.0 / math.sqrt(Q.shape[-1]), o)  # wrong: the argument is not read


def scale_falsy(Q: Array, K: Array, o: Options) -> Any:
    return _finished(Q @ K.mT, o.given or 1.0 / math.sqrt(Q.shape[-1]), o)  # wrong: 0 counts as "left out"


def scale_in_float64(Q: Array, K: Array, o: Options) -> Any:
    scale = 1.0 / np.sqrt(Q.shape[-1]) if o.given is None else o.given  # wrong: a float64 scalar, float32 is lost
    return _finished(Q @ K.mT, scale, o)


def _backward_of_any_dtype(dC: Array, cache: AttentionCache) -> Any:
    """Right, and no check stops a float64 map on its way into the gradients."""
    Q, K, V, A, scale, keep, p = cache
    dA = reference.dropout(dC @ V.mT, keep, p)[0]
    dOmega = A * (dA - (A * dA).sum(-1, keepdims=True)) * scale
    return dOmega @ K, dOmega.mT @ Q, reference.dropout(A, keep, p)[0].mT @ dC


# Masks and bias


def mask_added(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    S = S if o.mask is None else S + o.mask  # wrong: False takes away one unit, no more
    return _guarded(_filled(S, ~np.isneginf(S) & _causal(S, o)))


def mask_multiplied(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o._replace(bias=None))
    S = S if o.mask is None else S * o.mask  # wrong: a score of 0 is not "no"
    S = _biased(S, o)
    return _guarded(_filled(S, ~np.isneginf(S) & _causal(S, o)))


def mask_inverted(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    allowed = ~np.isneginf(S) & _causal(S, o)
    allowed = allowed if o.mask is None else allowed & ~o.mask  # wrong: True read as "drop"
    return _guarded(_filled(S, allowed))


def fill_smallest(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    return _softmax(_filled(S, _allowed(S, o), float(np.finfo(S.dtype).min)))  # wrong: an empty row looks at everything


def fill_ten(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    return _softmax(_filled(S, _allowed(S, o), -10.0))  # wrong: a score may be lower


def fill_hundred_added(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o._replace(bias=None))
    dropped = ~(_unmasked(S, o) & _causal(S, o))
    S = _biased(S + dropped * S.dtype.type(-1e2), o)  # wrong: a strong match still wins
    return _guarded(S)


def fills_added(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    least = np.finfo(S.dtype).min
    padding = np.where(_unmasked(S, o), S.dtype.type(0), least)
    future = np.where(_causal(S, o), S.dtype.type(0), least)
    return _softmax(np.where(padding + future < 0, padding + future, S))  # wrong: two fills make -inf, one does not


def no_guard(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    return _softmax(_filled(S, _allowed(S, o)))  # wrong: 0/0 where a row is empty


def guard_for_mask_only(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    A = _softmax(_filled(S, _allowed(S, o)))
    return A if o.mask is None else np.where(o.mask.any(-1, keepdims=True), A, A.dtype.type(0))  # wrong: bias, causal


def nan_replaced_in_output(A: Array, V: Array, o: Options) -> Any:
    return np.nan_to_num(_mix(A, V, o), nan=0.0)  # wrong: the saved A keeps its NaN


def mask_after_softmax(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    return np.where(_allowed(S, o), _softmax(S), S.dtype.type(0))  # wrong: the rows do not sum to 1


def multiplied_not_selected(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    allowed = _allowed(S, o)
    top = np.max(S, -1, keepdims=True, where=allowed, initial=-np.inf)
    E = np.exp(S - np.where(np.isneginf(top), S.dtype.type(0), top)) * allowed  # wrong: infinity times 0
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0, S.dtype.type(1), total)


def maximum_before_mask(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    top = S.max(-1, keepdims=True)  # wrong: the largest score may be a masked one
    E = np.exp(_filled(S - np.where(np.isneginf(top), S.dtype.type(0), top), _allowed(S, o)))
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0, S.dtype.type(1), total)


def maximum_of_everything(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    S = _filled(S, _allowed(S, o))
    top = S.max()  # wrong: far below it a row underflows, and passes for an empty one
    E = np.exp(S - (S.dtype.type(0) if np.isneginf(top) else top))
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0, S.dtype.type(1), total)


def no_maximum(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    E = np.exp(_filled(S, _allowed(S, o)))  # wrong: overflows
    total = E.sum(-1, keepdims=True)
    return E / np.where(total == 0, S.dtype.type(1), total)


def nan_taken_for_empty(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    S = _filled(S, _allowed(S, o))
    top = np.fmax.reduce(S, -1, keepdims=True, initial=-np.inf)  # wrong: a row of NaN has the maximum -inf
    empty = np.isneginf(top)
    E = np.exp(S - np.where(empty, S.dtype.type(0), top))
    return np.where(empty, S.dtype.type(0), E / np.where(empty, S.dtype.type(1), E.sum(-1, keepdims=True)))


def bias_before_scale(Q: Array, K: Array, o: Options) -> Any:
    S = _biased(Q @ K.mT, o) * o.scale  # wrong: the bias is scaled too
    A = _guarded(_filled(S, _allowed(_scores(Q, K, o), o)))
    return A


def bias_after_softmax(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    A = _guarded(_filled(Q @ K.mT * o.scale, _allowed(S, o)))
    return A if o.bias is None else A + np.where(np.isfinite(o.bias), o.bias, 0)  # wrong: the rows do not sum to 1


def softmax_over_queries(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    S = _filled(S, _allowed(S, o))
    return np.nan_to_num(_softmax(S, -2), nan=0.0)  # wrong: columns sum to 1


# Causal


def causal_strict(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K, o._replace(query_offset=o.query_offset - 1))  # wrong: j < i, not even itself


def causal_one_ahead(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K, o._replace(query_offset=o.query_offset + 1))  # wrong: j <= i + 1, the answer itself


def causal_bottom_right(Q: Array, K: Array, o: Options) -> Any:
    offset = K.shape[-2] - Q.shape[-2]
    return _weights(Q, K, o._replace(query_offset=o.query_offset + offset))  # wrong: aligned at the last key


def causal_without_offset(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K, o._replace(query_offset=0))  # wrong: a cached query sees the first key only


def causal_offset_subtracted(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K, o._replace(query_offset=-o.query_offset))  # wrong: the sign


def causal_forgotten(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K, o._replace(causal=False))  # wrong: everybody sees the future


def causal_or_mask(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K, o._replace(causal=o.causal and o.mask is None))  # wrong: elif, where both may be given


def causal_transposed(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    n, m = S.shape[-2:]
    future = np.arange(m) >= np.arange(n)[:, None] + o.query_offset  # wrong: triu for tril
    allowed = ~np.isneginf(S) & _unmasked(S, o)
    return _guarded(_filled(S, allowed & future if o.causal else allowed))


# Dropout and the context vectors

_GENERATOR = np.random.default_rng(0)


def dropout_always(A: Array, V: Array, o: Options) -> Any:
    keep, p = (o.keep, o.p) if o.keep is not None else (_GENERATOR.random(A.shape) >= 0.1, 0.1)  # wrong: not asked for
    return reference.dropout(A, keep, p)[0] @ V


def dropout_ignored(A: Array, V: Array, o: Options) -> Any:
    return A @ V  # wrong: keep is not read


def dropout_unscaled(A: Array, V: Array, o: Options) -> Any:
    return (A if o.keep is None else np.where(o.keep, A, A.dtype.type(0))) @ V  # wrong: no 1 / (1 - p)


def dropout_renormalised(A: Array, V: Array, o: Options) -> Any:
    if o.keep is None:
        return A @ V
    kept = np.where(o.keep, A, A.dtype.type(0))
    total = kept.sum(-1, keepdims=True)
    return kept / np.where(total == 0, A.dtype.type(1), total) @ V  # wrong: made to sum to 1 again


def dropout_before_softmax(Q: Array, K: Array, o: Options) -> Any:
    S = _scores(Q, K, o)
    allowed = _allowed(S, o) if o.keep is None else _allowed(S, o) & o.keep  # wrong: a mask, not a dropout
    return _guarded(_filled(S, allowed))


def dropout_on_context(A: Array, V: Array, o: Options) -> Any:
    C = A @ V
    if o.keep is None:
        return C
    keep = np.resize(o.keep, C.shape)
    return reference.dropout(C, keep, o.p)[0]  # wrong: whole context entries, where links are meant


def axes_of_one_lost(A: Array, V: Array, o: Options) -> Any:
    return np.squeeze(_mix(A, V, o))  # wrong: takes every axis of size 1 along


def assumed_contiguous(Q: Array, K: Array, o: Options) -> Any:
    return _weights(Q, K.ravel(order="K").reshape(K.shape), o)  # wrong: the order in memory, not of the indices


def key_axis_broadcast(
    Q: Array,
    K: Array,
    V: Array,
    *,
    mask: Array | None = None,
    bias: Array | None = None,
    causal: bool = False,
    query_offset: int = 0,
    scale: float | None = None,
    keep: Array | None = None,
    p: float = 0.0,
) -> Any:
    weights = (*Q.shape[:-1], K.shape[-2]) if isinstance(Q, np.ndarray) and isinstance(K, np.ndarray) else ()
    if isinstance(mask, np.ndarray) and mask.ndim and mask.shape[-1] == 1:
        mask = np.broadcast_to(mask, weights)  # wrong: made for another number of keys
    if isinstance(bias, np.ndarray) and bias.ndim and bias.shape[-1] == 1:
        bias = np.broadcast_to(bias, weights)  # wrong: the same
    return reference.attention(
        Q,
        K,
        V,
        mask=mask,
        bias=bias,
        causal=causal,
        query_offset=query_offset,
        scale=scale,
        keep=keep,
        p=p,
    )


# Stages


def stages_with(change: Callable[[AttentionStages, Options], AttentionStages]) -> Callable[..., Any]:
    """The reference's stages, one of them changed; `change` leaves alone what it does not name."""

    def attention_stages(
        Q: Array,
        K: Array,
        V: Array,
        dC: Array | None = None,
        *,
        mask: Array | None = None,
        bias: Array | None = None,
        causal: bool = False,
        query_offset: int = 0,
        scale: float | None = None,
        keep: Array | None = None,
        p: float = 0.0,
    ) -> Any:
        factor = 1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale
        stages = reference.attention_stages(
            Q,
            K,
            V,
            dC,
            mask=mask,
            bias=bias,
            causal=causal,
            query_offset=query_offset,
            scale=scale,
            keep=keep,
            p=p,
        )
        return change(stages, Options(mask, bias, causal, query_offset, factor, keep, p, scale))

    return attention_stages


def scaled_for_omega(s: AttentionStages, o: Options) -> AttentionStages:
    return s._replace(Omega=s.scaled.copy())  # wrong: the scores before scaling are meant


def bias_left_out_of_masked(s: AttentionStages, o: Options) -> AttentionStages:
    return s._replace(masked=np.where(np.isneginf(s.masked), s.masked, s.scaled))  # wrong: the bias is missing


def masked_with_finite_fill(s: AttentionStages, o: Options) -> AttentionStages:
    fill = np.finfo(s.masked.dtype).min
    return s._replace(masked=np.where(np.isneginf(s.masked), fill, s.masked))  # wrong: -inf is meant


def dropped_for_map(s: AttentionStages, o: Options) -> AttentionStages:
    return s._replace(A=reference.dropout(s.A, o.keep, o.p)[0])  # wrong: the map is before dropout


def delta_without_axis(s: AttentionStages, o: Options) -> AttentionStages:
    assert s.delta is not None
    return s._replace(delta=s.delta[..., 0].copy())  # wrong: keepdims is lost


def dS_without_delta(s: AttentionStages, o: Options) -> AttentionStages:
    assert s.dA is not None
    return s._replace(dS=s.A * s.dA)  # wrong: delta is missing


def dS_for_dOmega(s: AttentionStages, o: Options) -> AttentionStages:
    assert s.dS is not None
    return s._replace(dOmega=s.dS.copy())  # wrong: the scale is missing


def dA_before_dropout(s: AttentionStages, o: Options) -> AttentionStages:
    if s.dA is None or o.keep is None:
        return s
    return s._replace(dA=s.dA * (1.0 - o.p))  # wrong: the factor 1 / (1 - p) is missing


def _of(
    id: str,
    sentence: str,
    hidden_on: str,
    shown_by: str,
    weights: Weights = _weights,
    mix: Mix = _mix,
    source: str = "",
) -> Mistake:
    return Mistake(id, "attention", sentence, hidden_on, shown_by, forward=attention_with(weights, mix), source=source)


def _stage(id: str, sentence: str, hidden_on: str, shown_by: str, change: Any) -> Mistake:
    return Mistake(id, "attention_stages", sentence, hidden_on, shown_by, forward=stages_with(change))


MISTAKES = (
    _of("M014", "The scale is missing.", "head width 1", "any other width", scale_missing),
    _of(
        "M015",
        "The scale is applied twice, on Q and on K.",
        "head width 1; scores of 0",
        "any other width",
        scale_twice,
        source="SCL-03",
    ),
    _of("M017", "The scale is made from the number of keys.", "as many keys as width", "m other than c", scale_by_keys),
    _of("A01", "1/c instead of 1/sqrt(c).", "head width 1", "any other width", scale_by_width),
    _of("A02", "Multiplied by sqrt(c).", "head width 1", "any other width", scale_upside_down),
    _of("M018", "The argument scale is ignored.", "the default", "scale 1, 0 or negative", scale_ignored),
    _of("A03", "scale = 0 counts as left out.", "any scale but 0", "scale 0", scale_falsy),
    Mistake(
        "M177",
        "attention",
        "A NumPy scalar as scale turns float32 into float64.",
        "values to 1e-7; float64",
        "the dtype of outputs and gradients in float32",
        attention_with(scale_in_float64),
        _backward_of_any_dtype,
        source="DTY-01",
    ),
    _of("M020", "The boolean mask is added as 0 and 1.", "a mask of True", "any False", mask_added, source="MSK-08"),
    _of(
        "M021",
        "The scores are multiplied by the mask.",
        "a mask of True",
        "any False",
        mask_multiplied,
        source="MSK-11",
    ),
    _of(
        "MSK-07",
        "The mask is read the other way round.",
        "no mask",
        "any mask that is not half True",
        mask_inverted,
    ),
    _of(
        "M023",
        "Masked scores become a finite number, not -inf.",
        "no empty row",
        "an empty row: it looks everywhere",
        fill_smallest,
    ),
    _of(
        "M024",
        "Masked scores become -10.",
        "small scores and a loose tolerance",
        "scores below -10; an empty row",
        fill_ten,
        source="MSK-09",
    ),
    _of(
        "MSK-09b",
        "-100 is added to masked scores.",
        "small scores",
        "a masked score 100 above the rest; an empty row",
        fill_hundred_added,
    ),
    _of(
        "M026",
        "Padding and causal mask are added as finite fills.",
        "one of the two alone",
        "an empty row with keys masked once and twice",
        fills_added,
        source="MSK-04",
    ),
    _of("MSK-01", "An empty row is not guarded.", "no empty row", "an empty row: NaN", no_guard),
    _of(
        "A04",
        "Only a row that the mask empties is guarded.",
        "rows emptied by the mask",
        "rows emptied by a bias or by causality",
        guard_for_mask_only,
    ),
    _of(
        "M027",
        "NaN is replaced in the output, and kept in the cache.",
        "the output",
        "the gradients with an empty row",
        no_guard,
        nan_replaced_in_output,
        source="MSK-02",
    ),
    _of(
        "A05",
        "The mask is applied after the softmax.",
        "no mask",
        "any False: rows do not sum to 1",
        mask_after_softmax,
    ),
    _of(
        "SMX-09",
        "Masked exponentials are multiplied by 0 instead of left out.",
        "masked scores that are not far above the rest",
        "a masked score 700 above the rest (88 in float32)",
        multiplied_not_selected,
    ),
    _of(
        "A06",
        "The maximum of a row is taken before masking.",
        "scores of similar size",
        "a masked score far above the rest",
        maximum_before_mask,
    ),
    _of(
        "A07",
        "The maximum is taken over the whole array.",
        "rows of similar size",
        "rows far apart",
        maximum_of_everything,
    ),
    _of("A08", "No maximum is subtracted.", "scores below 88", "scores in the hundreds", no_maximum),
    _of(
        "M032",
        "A maximum that skips NaN takes a row of NaN for an empty one.",
        "finite operands",
        "NaN in a query",
        nan_taken_for_empty,
        source="GPU-03",
    ),
    _of("A09", "The bias is added before the scale.", "scale 1; head width 1", "any other width", bias_before_scale),
    _of("A10", "The bias is added after the softmax.", "no bias", "any bias", bias_after_softmax),
    _of(
        "A11",
        "The softmax runs over the queries.",
        "symmetric scores",
        "rows that do not sum to 1",
        softmax_over_queries,
        source="SMX-01",
    ),
    _of("M029", "Causal without the diagonal.", "not causal", "causal: the first row is empty", causal_strict),
    _of("M029b", "Causal with one key too many.", "not causal", "causal: a future key is seen", causal_one_ahead),
    _of(
        "CAU-01",
        "Aligned bottom-right where top-left is meant.",
        "as many queries as keys",
        "n other than m",
        causal_bottom_right,
    ),
    _of("CAU-02", "The query offset is ignored.", "offset 0", "one query, several keys", causal_without_offset),
    _of("A12", "The query offset has the wrong sign.", "offset 0", "any other offset", causal_offset_subtracted),
    _of("CAU-04", "Causality is forgotten.", "not causal; one key", "a future key", causal_forgotten),
    _of("A13", "A mask switches causality off.", "either alone", "both at once", causal_or_mask),
    _of("A14", "The upper triangle instead of the lower.", "not causal", "causal", causal_transposed),
    _of(
        "M041",
        "A is dropped although no mask came.",
        "a mask that came",
        "two calls without one",
        mix=dropout_always,
    ),
    _of("A15", "keep is ignored.", "nothing dropped", "any dropped link", mix=dropout_ignored),
    _of(
        "A16",
        "Kept links are not divided by 1 - p.",
        "p = 0",
        "any other p",
        mix=dropout_unscaled,
        source="M098",
    ),
    _of("A17", "Kept links are made to sum to 1.", "nothing dropped", "any dropped link", mix=dropout_renormalised),
    _of("A18", "Links are dropped before the softmax.", "nothing dropped", "any dropped link", dropout_before_softmax),
    _of(
        "A20",
        "The search for a row's maximum starts at -10000.",
        "rows with a score above that",
        "a bias of -1e9 on a whole row",
        maximum_from_a_number,
    ),
    _of("A19", "The context is dropped instead of A.", "no dropout", "any dropped link", mix=dropout_on_context),
    _of("BRD-02", "Axes of size 1 are squeezed away.", "no axis of size 1", "one query", mix=axes_of_one_lost),
    _of(
        "M095b",
        "K is read in the order of memory.",
        "contiguous K",
        "a transposed view",
        assumed_contiguous,
    ),
    Mistake(
        "POS-06",
        "attention",
        "A mask or bias with a key axis of 1 is accepted.",
        "masks of the right shape",
        "a bias of shape (n, 1) must raise",
        forward=key_axis_broadcast,
        accepts=True,
    ),
    _stage("P01", "Omega is given after scaling.", "head width 1", "any other width", scaled_for_omega),
    _stage("P02", "The masked scores lack the bias.", "no bias", "any bias", bias_left_out_of_masked),
    _stage("P03", "Masked scores are the smallest number.", "no mask", "any False", masked_with_finite_fill),
    _stage("P04", "A is given after dropout.", "no dropout", "any dropout", dropped_for_map),
    _stage("P05", "delta has no key axis.", "its values", "its shape", delta_without_axis),
    _stage("P06", "dS lacks delta.", "delta 0", "rows of dS that do not sum to 0", dS_without_delta),
    _stage("P07", "dOmega is given before scaling.", "head width 1", "any other width", dS_for_dOmega),
    _stage("P08", "dA lacks the factor of the dropout.", "p = 0", "any other p", dA_before_dropout),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "M014": "scaled, scale: factor, option",
    "M015": "scaled, scale: factor",
    "M017": "scaled, scale: factor, axis",
    "A01": "scaled, scale: factor",
    "A02": "scaled, scale: factor",
    "M018": "scale, scaled: option",
    "A03": "scale, scaled: option, special",
    "M177": "scaled, scale: dtype",
    "M020": "masked, mask: option, term",
    "M021": "masked, mask: option, term",
    "MSK-07": "mask, masked: option",
    "M023": "masked, mask, A: special",
    "M024": "masked, mask: option, term",
    "MSK-09b": "masked, mask: option, term",
    "M026": "masked, mask: special, term",
    "MSK-01": "A: special",
    "A04": "A: special",
    "M027": "A, C: special",
    "A05": "A, masked, mask: term, option",
    "SMX-09": "A, masked: precision, special",
    "A06": "A, masked: precision, special",
    "A07": "A: axis, precision",
    "A08": "A: precision, term",
    "M032": "A: special",
    "A09": "masked, scaled, bias: factor, term",
    "A10": "masked, A, bias: term, option",
    "A11": "A: axis",
    "M029": "causal, masked: option",
    "M029b": "causal, masked: option",
    "CAU-01": "causal, query_offset, masked: option",
    "CAU-02": "query_offset, causal, masked: option",
    "A12": "query_offset, causal, masked: option",
    "CAU-04": "causal, masked: option",
    "A13": "causal, mask, masked: option",
    "A14": "causal, masked: option, axis",
    "M041": "A * Z, keep, forward: option, conduct",
    "A15": "keep, A * Z: option",
    "A16": "A * Z, p: factor",
    "A17": "A * Z: term",
    "A18": "A * Z, keep, masked: operand, term",
    "A19": "A * Z, C, keep: operand",
    "A20": "A: precision, special",
    "BRD-02": "C: shape, special",
    "M095b": "Omega: axis, operand",
    "POS-06": "mask, bias: special, shape",
    "P01": "Omega: operand, factor",
    "P02": "masked, bias: term, option",
    "P03": "masked, mask: special, term",
    "P04": "A: operand",
    "P05": "delta: shape",
    "P06": "dS: term",
    "P07": "dOmega: factor, operand",
    "P08": "dA, p: factor",
}
