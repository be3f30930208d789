"""Mistakes in rnn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake

Step = Callable[[Array, Array, Array, Array, Array, Array], Any]  # x_t, h, W_ih, W_hh, b_ih, b_hh -> h_t


def _step(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Any:
    return np.tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)


def _start(X: Array, k: int, h0: Array | None) -> Any:
    return np.zeros((*X.shape[:-2], k), X.dtype) if h0 is None else h0


def rnn_with(step: Step = _step, start: Callable[..., Any] = _start) -> Callable[..., Any]:
    """An Elman network that goes from state to state with `step`, beginning at `start(X, k, h0)`."""

    def rnn(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
        H = np.empty((*X.shape[:-1], W_ih.shape[0]), X.dtype)
        h = start(X, W_ih.shape[0], h0)
        for t in range(X.shape[-2]):
            h = step(X[..., t, :], h, W_ih, W_hh, b_ih, b_hh)
            H[..., t, :] = h
        return (H, H[..., -1, :].copy()), (X, W_ih, W_hh, h0, H)

    return rnn


def one_bias(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Any:
    return np.tanh(x @ W_ih.T + b_ih + h @ W_hh.T)  # wrong: the second bias


def state_not_transposed(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Any:
    return np.tanh(x @ W_ih.T + b_ih + h @ W_hh + b_hh)  # wrong: W_hh^T, which has the same shape


def relu_for_tanh(x: Array, h: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array) -> Any:
    return np.maximum(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh, x.dtype.type(0))  # wrong: another activation


def state_ignored(X: Array, k: int, h0: Array | None) -> Any:
    return np.zeros((*X.shape[:-2], k), X.dtype)  # wrong: every chunk starts anew


def state_averaged(X: Array, k: int, h0: Array | None) -> Any:
    h = _start(X, k, h0)
    return h.mean(tuple(range(h.ndim - 1)), keepdims=True) + np.zeros_like(h)  # wrong: samples are mixed


def state_leaks(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
    n, k = X.shape[-2], W_ih.shape[0]
    H = np.empty((*X.shape[:-1], k), X.dtype)
    rows, outputs = X.reshape(-1, n, X.shape[-1]), H.reshape(-1, n, k)
    h = np.zeros(k, X.dtype)  # wrong: once for all samples
    for b in range(rows.shape[0]):
        h = h if h0 is None else h0.reshape(-1, k)[b]
        for t in range(n):
            h = _step(rows[b, t], h, W_ih, W_hh, b_ih, b_hh)
            outputs[b, t] = h
    return (H, H[..., -1, :].copy()), (X, W_ih, W_hh, h0, H)


def state_in_place(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
    first = None if h0 is None else h0.copy()
    H = np.empty((*X.shape[:-1], W_ih.shape[0]), X.dtype)
    h = _start(X, W_ih.shape[0], h0)
    for t in range(X.shape[-2]):
        h[...] = _step(X[..., t, :], h, W_ih, W_hh, b_ih, b_hh)  # wrong: h is the caller's h0
        H[..., t, :] = h
    return (H, H[..., -1, :].copy()), (X, W_ih, W_hh, first, H)


def first_state_for_last(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
    (H, _), cache = rnn_with()(X, W_ih, W_hh, b_ih, b_hh, h0)
    return (H, H[..., 0, :].copy()), cache  # wrong: index 0 for -1


def time_first(X: Array, W_ih: Array, W_hh: Array, b_ih: Array, b_hh: Array, h0: Array | None = None) -> Any:
    (H, last), cache = rnn_with()(X, W_ih, W_hh, b_ih, b_hh, h0)
    return (np.moveaxis(H, -2, 0).copy(), last), cache  # wrong: (n, ..., k)


# The backward: its right parts


def _before(cache: Any) -> Array:
    """h_{t-1}, where H holds h_t."""
    X, W_ih, _, h0, H = cache
    first = _start(X, W_ih.shape[0], h0)
    return np.concatenate([first[..., None, :], H[..., :-1, :]], -2)


def _rows(X: Array) -> Array:
    return X.reshape(-1, X.shape[-1])


def _back(dY: Any, cache: Any, da_of: Any = None, dh_of: Any = None) -> tuple[Array, Array]:
    """da and the last dh, from the last step to the first."""
    dH, dh = dY
    _, _, W_hh, _, H = cache
    da = np.empty_like(H)
    for t in reversed(range(H.shape[-2])):
        h = H[..., t, :]
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - h * h) if da_of is None else da_of(dH, dh, H, t)
        dh = da[..., t, :] @ W_hh if dh_of is None else dh_of(da, dh, W_hh, t)
    return da, dh


def _gradients(da: Array, dh: Array, cache: Any) -> Any:
    X, W_ih, _, h0, _ = cache
    db = _rows(da).sum(0)
    found = (da @ W_ih, _rows(da).T @ _rows(X), _rows(da).T @ _rows(_before(cache)), db, db.copy())
    return found if h0 is None else (*found, dh)


def _replaced(gradients: Any, **wrong: Any) -> Any:
    names = ("dX", "dW_ih", "dW_hh", "db_ih", "db_hh", "dh0")
    return tuple(wrong.get(name, right) for name, right in zip(names, gradients, strict=False))


def one_step_only(dY: Any, cache: Any) -> Any:
    dh_of = lambda da, dh, W_hh, t: np.zeros_like(dh)  # noqa: E731  # wrong: nothing is carried back
    da, _ = _back(dY, cache, dh_of=dh_of)
    return _gradients(da, da[..., 0, :] @ cache[2], cache)


def carried_transposed(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache, dh_of=lambda da, dh, W_hh, t: da[..., t, :] @ W_hh.T)  # wrong: W_hh
    return _gradients(da, dh, cache)


def carried_without_activation(dY: Any, cache: Any) -> Any:
    dH = dY[0]
    da, dh = _back(dY, cache, dh_of=lambda da, dh, W_hh, t: (dH[..., t, :] + dh) @ W_hh)  # wrong: da, not dh
    return _gradients(da, dh, cache)


def clipped_on_the_way(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache, dh_of=lambda da, dh, W_hh, t: np.clip(da[..., t, :] @ W_hh, -1.0, 1.0))  # wrong: clips
    return _gradients(da, dh, cache)


def last_state_ignored(dY: Any, cache: Any) -> Any:
    dH, dh_last = dY
    return _gradients(*_back((dH, np.zeros_like(dh_last)), cache), cache)  # wrong: h_last is read outside as well


def last_state_everywhere(dY: Any, cache: Any) -> Any:
    dH, dh_last = dY
    return _gradients(*_back((dH + dh_last[..., None, :], np.zeros_like(dh_last)), cache), cache)  # wrong: at the end


def last_output_only(dY: Any, cache: Any) -> Any:
    dH, dh_last = dY
    only = np.zeros_like(dH)
    only[..., -1, :] = dH[..., -1, :]  # wrong: every output has a gradient
    return _gradients(*_back((only, dh_last), cache), cache)


def forward_in_time(dY: Any, cache: Any) -> Any:
    dH, dh = dY
    _, _, W_hh, _, H = cache
    da = np.empty_like(H)
    for t in range(H.shape[-2]):  # wrong: reversed
        da[..., t, :] = (dH[..., t, :] + dh) * (1.0 - H[..., t, :] ** 2)
        dh = da[..., t, :] @ W_hh
    return _gradients(da, dh, cache)


def slope_of_state_before(dY: Any, cache: Any) -> Any:
    before = _before(cache)
    da, dh = _back(dY, cache, lambda dH, dh, H, t: (dH[..., t, :] + dh) * (1.0 - before[..., t, :] ** 2))  # wrong: h_t
    return _gradients(da, dh, cache)


def slope_of_upstream(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache, lambda dH, dh, H, t: 1.0 - np.tanh(dH[..., t, :] + dh) ** 2)  # wrong: of h_t, times dh
    return _gradients(da, dh, cache)


def slope_divides(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache, lambda dH, dh, H, t: (dH[..., t, :] + dh) / (1.0 - H[..., t, :] ** 2))  # wrong: times
    return _gradients(da, dh, cache)


def slope_missing(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache, lambda dH, dh, H, t: dH[..., t, :] + dh)  # wrong: 1 - h^2 is missing
    return _gradients(da, dh, cache)


def state_after(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache)
    dW_hh = _rows(da).T @ _rows(cache[4])  # wrong: h_t for h_{t-1}
    return _replaced(_gradients(da, dh, cache), dW_hh=dW_hh)


def first_step_left_out(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache)
    dW_hh = _rows(da[..., 1:, :]).T @ _rows(cache[4][..., :-1, :])  # wrong: h0 is a state too
    return _replaced(_gradients(da, dh, cache), dW_hh=dW_hh)


def dW_hh_transposed(dY: Any, cache: Any) -> Any:
    gradients = _gradients(*_back(dY, cache), cache)
    return _replaced(gradients, dW_hh=gradients[2].T.copy())  # wrong: the shape does not tell


def overwritten_per_step(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache)
    X, before = cache[0], _before(cache)
    for t in reversed(range(X.shape[-2])):
        dW_ih = _rows(da[..., t, :]).T @ _rows(X[..., t, :])  # wrong: = for +=
        dW_hh = _rows(da[..., t, :]).T @ _rows(before[..., t, :])
    return _replaced(_gradients(da, dh, cache), dW_ih=dW_ih, dW_hh=dW_hh)


def bias_before_activation(dY: Any, cache: Any) -> Any:
    dH, dh_last = dY
    da, dh = _back(dY, cache)
    carried = np.concatenate([da[..., 1:, :] @ cache[2], dh_last[..., None, :]], -2)
    db = _rows(dH + carried).sum(0)  # wrong: the gradient of h, not of what goes into tanh
    return _replaced(_gradients(da, dh, cache), db_ih=db, db_hh=db.copy())


def bias_gradient_shared(dY: Any, cache: Any) -> Any:
    gradients = _gradients(*_back(dY, cache), cache)
    return _replaced(gradients, db_ih=gradients[3] * 0.5, db_hh=gradients[4] * 0.5)  # wrong: each gets all of it


def bias_gradient_doubled(dY: Any, cache: Any) -> Any:
    gradients = _gradients(*_back(dY, cache), cache)
    return _replaced(gradients, db_ih=gradients[3] * 2.0)  # wrong: meant for one bias that is the sum of both


def bias_gradients_one_array(dY: Any, cache: Any) -> Any:
    gradients = _gradients(*_back(dY, cache), cache)
    return _replaced(gradients, db_hh=gradients[3])  # wrong: an update in place of one changes the other


def bias_per_sample(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache)
    db = da.sum(-2)  # wrong: summed over time, not over the batch
    return _replaced(_gradients(da, dh, cache), db_ih=db, db_hh=db.copy())


def initial_state_untouched(dY: Any, cache: Any) -> Any:
    da, dh = _back(dY, cache)
    return _gradients(da, np.zeros_like(dh), cache)  # wrong: dh0 is an answer too


def initial_state_a_step_early(dY: Any, cache: Any) -> Any:
    da, _ = _back(dY, cache)
    return _gradients(da, da[..., 0, :].copy(), cache)  # wrong: not yet through W_hh


def _of(
    id: str, sentence: str, hidden_on: str, shown_by: str, forward: Any = None, backward: Any = None, source: str = ""
) -> Mistake:
    return Mistake(id, "rnn", sentence, hidden_on, shown_by, forward, backward, source)


MISTAKES = (
    _of("R01", "The second bias is not added.", "b_hh = 0", "any other bias", rnn_with(one_bias)),
    _of("R02", "W_hh is not transposed.", "a symmetric W_hh", "any other", rnn_with(state_not_transposed)),
    _of("R03", "relu for tanh.", "inputs near 0 from above, roughly", "any value", rnn_with(relu_for_tanh)),
    _of("R04", "h_last is the first state.", "one step", "two steps", first_state_for_last),
    _of("R05", "H has the time axis first.", "no batch axis", "a batch axis: the shape", time_first),
    _of(
        "M143",
        "The state of one sample goes on into the next.",
        "one sample; h0 given",
        "two samples",
        state_leaks,
        source="RNN-05",
    ),
    _of("M144", "h0 is ignored: every chunk starts anew.", "no h0", "h0; two chunks", rnn_with(start=state_ignored)),
    _of("RNN-04", "h0 is averaged over the batch.", "one sample", "two samples", rnn_with(start=state_averaged)),
    _of("R06", "h0 is overwritten.", "no h0", "h0 afterwards", state_in_place),
    _of(
        "M134",
        "No gradient is carried to the step before.",
        "one step",
        "two steps",
        backward=one_step_only,
        source="RNN-02",
    ),
    _of("M135", "dW_hh reads h_t for h_{t-1}.", "a constant state", "any other", backward=state_after),
    _of("M137", "The slope is taken at h_{t-1}.", "a constant state", "any other", backward=slope_of_state_before),
    _of(
        "M138",
        "dW_ih and dW_hh are overwritten at every step.",
        "one step",
        "two steps",
        backward=overwritten_per_step,
    ),
    _of(
        "M140",
        "The biases' gradient is taken after the activation.",
        "states near 0",
        "any other state",
        backward=bias_before_activation,
        source="BRD-05",
    ),
    _of("M141", "dh0 is 0.", "no h0", "h0: its gradient", backward=initial_state_untouched),
    _of("R07", "dh0 has not gone through W_hh.", "W_hh = 1", "h0: its gradient", backward=initial_state_a_step_early),
    _of("R08", "The carried gradient meets W_hh^T.", "a symmetric W_hh", "two steps", backward=carried_transposed),
    _of(
        "R09",
        "The carried gradient skips the activation.",
        "states near 0; one step",
        "two steps",
        backward=carried_without_activation,
    ),
    _of(
        "R10",
        "The carried gradient is clipped to [-1, 1].",
        "small gradients",
        "a carried gradient above 1",
        backward=clipped_on_the_way,
    ),
    _of("R11", "dh_last is ignored.", "dh_last = 0", "any other dh_last", backward=last_state_ignored),
    _of("R12", "dh_last comes in at every step.", "one step", "two steps", backward=last_state_everywhere),
    _of("R13", "Only the last output's gradient is read.", "one step", "two steps", backward=last_output_only),
    _of("R14", "The backward runs forward in time.", "one step", "two steps", backward=forward_in_time),
    _of(
        "R15",
        "1 - tanh(dh)^2 for the slope times dh.",
        "never right",
        "any value",
        backward=slope_of_upstream,
        source="ACT-06",
    ),
    _of(
        "RNN-01",
        "Divided by 1 - h^2.",
        "states near 0",
        "any other state",
        backward=slope_divides,
    ),
    _of("R16", "The slope 1 - h^2 is missing.", "states near 0", "any other state", backward=slope_missing),
    _of("R17", "dW_hh leaves the first step out.", "no h0", "h0", backward=first_step_left_out),
    _of("R18", "dW_hh is transposed.", "width 1", "any other width", backward=dW_hh_transposed),
    _of("R19", "The two biases share the gradient.", "never right", "any value", backward=bias_gradient_shared),
    _of(
        "RNN-03",
        "db_ih is doubled.",
        "never right",
        "any value",
        backward=bias_gradient_doubled,
    ),
    _of(
        "R20",
        "db_ih and db_hh are one array.",
        "their values",
        "their memory",
        backward=bias_gradients_one_array,
    ),
    _of(
        "R21",
        "The biases' gradients are per sample.",
        "no batch axis",
        "a batch axis: the shape",
        backward=bias_per_sample,
    ),
)

# Where a careful reader of the sentence and the code would place each: "stages: kinds".
LABELS = {
    "R01": "a: term",
    "R02": "a: axis",
    "R03": "h: term",
    "R04": "h_last: operand",
    "R05": "H: axis, shape",
    "M143": "h0, h: operand",
    "M144": "h0, a: option, term",
    "RNN-04": "h0, a: axis, accumulation",
    "R06": "forward: conduct",
    "M134": "dh: term",
    "M135": "dW_hh: operand",
    "M137": "da: operand",
    "M138": "dW_ih, dW_hh: accumulation",
    "M140": "db_ih, db_hh: operand, term",
    "M141": "dh0: term",
    "R07": "dh0: term, operand",
    "R08": "dh: axis",
    "R09": "dh: operand, term",
    "R10": "dh: term",
    "R11": "dh, da: term",
    "R12": "dh, da: accumulation, term",
    "R13": "da, dh: accumulation, term",
    "R14": "dh, da: axis, operand",
    "R15": "da: operand, term",
    "RNN-01": "da: term",
    "R16": "da: term",
    "R17": "dW_hh, h0: accumulation, term",
    "R18": "dW_hh: axis",
    "R19": "db_ih, db_hh: factor",
    "RNN-03": "db_ih: factor",
    "R20": "backward: conduct",
    "R21": "db_ih, db_hh: accumulation, shape",
}
