"""Laws of AdamW."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, Array
from equivalence_tests.laws.common import differs
from equivalence_tests.parts._guard import told
from equivalence_tests.parts._part import Law
from equivalence_tests.parts.adamw_budget import SETTINGS, SHAPES, Arrays, Settings, training, truth
from equivalence_tests.parts.optimizer_input import refuses_bad_input_and_then_changes_nothing

BOTH = ("float64", "float32")
MOMENTS = ("exp_avg", "exp_avg_sq")


def followed(adamw_step: Any, dtype: str, settings: Settings) -> Iterator[tuple[int, str, str, Array]]:
    """Every array after every step, by name and kind (p, exp_avg, exp_avg_sq)."""
    start, grads, rates = training(dtype)
    params, state = copy.deepcopy(start), {}  # type: tuple[Arrays, dict[str, Any]]
    for t, (g, lr) in enumerate(zip(grads, rates, strict=True)):
        adamw_step(params, copy.deepcopy(g), state, lr, *settings)
        for name in SHAPES:
            for kind, arrays in (("p", params), *((moment, state[moment]) for moment in MOMENTS)):
                yield t, name, kind, arrays[name]


def follows_the_equations(adamw_step: Any) -> str:
    """p, m and v after each of 100 steps whose gradients and rates change, within the measured budget."""
    for dtype in BOTH:
        for settings in SETTINGS:
            right = truth(dtype, settings)
            for t, name, kind, got in followed(adamw_step, dtype, settings):
                if got.dtype != dtype or got.shape != SHAPES[name]:
                    return f"{kind} of {name} is {got.dtype} {got.shape} after step {t + 1}"
                exact, budget = (getattr(moments, kind)[..., t] for moments in right[name])
                wrong = differs(f"{kind} of {name} after step {t + 1} ({dtype})", got.astype(ORACLE), exact, budget)
                if wrong:
                    return wrong
    return ""


# p = 1 at first; the gradients, the keywords, and p after the last step. Half a unit of the last printed digit is allowed.
SMALL: tuple[tuple[str, list[float], dict[str, Any], float], ...] = (
    ("ADW-01", [1e-8], {"weight_decay": 0.0}, 0.95),
    ("ADW-03", [0.0], {"weight_decay": 0.1}, 0.99),
    ("ADW-04", [1.0], {"weight_decay": 0.0}, 0.9),
    ("ADW-04", [1.0, 0.0], {"weight_decay": 0.0}, 0.832994),
    ("ADW-05", [0.5], {"weight_decay": 0.0}, 0.9),
    ("ADW-08", [0.5], {"weight_decay": 0.0}, 0.9),
)


def gives_the_right_values_of_small_cases(adamw_step: Any) -> str:
    for report, gradients, keywords, right in SMALL:
        params, state = {"p": np.array([1.0])}, {}  # type: tuple[Arrays, dict[str, Any]]
        for g in gradients:
            adamw_step(params, {"p": np.array([g])}, state, lr=0.1, **keywords)
        wrong = differs(f"p of {report}", params["p"], np.array([right]), 5e-7)
        if wrong:
            return wrong
    return ""


def updates_the_arrays_that_it_is_given(adamw_step: Any) -> str:
    """Who holds an array of params, or a view of one, or a moment, sees the step."""
    start, grads, _ = training("float64")
    params, state = copy.deepcopy(start), {}  # type: tuple[Arrays, dict[str, Any]]
    columns = np.asfortranarray(params["kernel"])
    params["kernel"] = columns[:, ::-1]  # a view that is not contiguous either
    held = dict(params)
    for t in range(2):
        before = {name: p.copy() for name, p in held.items()}
        moments = {moment: dict(state[moment]) for moment in MOMENTS if t}
        adamw_step(params, copy.deepcopy(grads[t]), state)
        for name, p in held.items():
            if params[name] is not p:
                return f"{name} is another array after the step"
            if p.size and np.array_equal(p, before[name]):
                return f"{name} has not changed"
        if any(state[moment][name] is not array for moment in moments for name, array in moments[moment].items()):
            return "a moment is another array after the step"
    return "" if np.array_equal(columns[:, ::-1], params["kernel"]) else "a caller's view has not changed"


def leaves_the_gradients_alone(adamw_step: Any) -> str:
    start, grads, _ = training("float64")
    params, state = copy.deepcopy(start), {}  # type: tuple[Arrays, dict[str, Any]]
    for g in grads[:3]:
        given = copy.deepcopy(g)
        adamw_step(params, given, state)
        if given.keys() != g.keys() or any(not np.array_equal(given[name], g[name]) for name in g):
            return "the gradients have changed"
        if any(np.shares_memory(given[name], state[moment][name]) for name in g for moment in MOMENTS):
            return "the state shares memory with the gradients"
    return ""


def keeps_everything_in_the_state(adamw_step: Any) -> str:
    """Copied after any step, parameters and state are all it takes to go on; another model in between changes nothing."""
    start, grads, rates = training("float32")
    params, state = copy.deepcopy(start), {}  # type: tuple[Arrays, dict[str, Any]]
    other: tuple[Arrays, dict[str, Any]] = ({name: p[..., None] for name, p in copy.deepcopy(start).items()}, {})
    resumed: tuple[Arrays, dict[str, Any]] = (copy.deepcopy(start), {})
    for t, (g, lr) in enumerate(zip(grads[:8], rates[:8], strict=True)):
        adamw_step(params, copy.deepcopy(g), state, lr)
        adamw_step(other[0], {name: 1.0 + array[..., None] for name, array in g.items()}, other[1], lr)
        adamw_step(resumed[0], copy.deepcopy(g), resumed[1], lr)
        resumed = copy.deepcopy(resumed)
        if (
            state.keys() != {"step", "exp_avg", "exp_avg_sq"}
            or state["step"] != t + 1
            or type(state["step"]) is not int
        ):
            return f"the state after step {t + 1} has the keys {sorted(state)} and step {state.get('step')}"
        if any(resumed[0][name].tobytes() != p.tobytes() for name, p in params.items()):
            return f"going on from a copy of the state gives other parameters after step {t + 1}"
    return ""


def treats_every_tensor_as_if_it_were_alone(adamw_step: Any) -> str:
    """ADW-06: equal tensors stay equal, and any tensor takes the same steps with others beside it."""
    start, grads, rates = training("float64")
    for name in SHAPES:
        alone, twins = {"a": start[name].copy()}, {"b": start[name].copy(), "a": start[name].copy()}
        states: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for g, lr in zip(grads[:6], rates[:6], strict=True):
            adamw_step(alone, {"a": g[name].copy()}, states[0], lr)
            adamw_step(twins, {"a": g[name].copy(), "b": g[name].copy()}, states[1], lr)
        for twin in twins.values():
            if twin.tobytes() != alone["a"].tobytes():
                return f"{name} takes other steps beside its twin than alone"
    return ""


PARTS: dict[str, tuple[Law, ...]] = {
    "adamw_step": told(
        gives_the_right_values_of_small_cases,
        updates_the_arrays_that_it_is_given,
        leaves_the_gradients_alone,
        keeps_everything_in_the_state,
        treats_every_tensor_as_if_it_were_alone,
        follows_the_equations,
        refuses_bad_input_and_then_changes_nothing,
    ),
}
