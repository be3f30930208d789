"""Judge an AdamW written in any style: the same training as the reference's, a model with equal shapes, two in turn."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import ORACLE, Array
from equivalence_tests.checks import attempt, reraise_interrupt
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import one_line
from equivalence_tests.parts.adamw_budget import SETTINGS, Arrays, Settings, training, truth
from equivalence_tests.parts.outside.adamw_styles import Style, class_styles, contract_style, function_styles
from equivalence_tests.parts.outside.answers import Answer
from equivalence_tests.parts.outside.words import told_apart

LONG = 40  # steps of each training that are judged
SHORT = 12  # steps of each training by which a mistake is known
LR = 0.1
TINY = 1e-30  # an epsilon that nothing depends on
QUIET = Settings(weight_decay=0.0)

# What a small case is about, its gradients one step after the other (p = 1 at first), and its settings.
SMALL: tuple[tuple[str, tuple[float, ...], Settings], ...] = (
    ("adamw_decay", (0.0,), Settings(weight_decay=0.1)),
    ("adamw_decay", (0.0, 0.0), Settings(weight_decay=0.1)),
    ("adamw_update", (0.5,), Settings((0.0, 0.0), TINY, 0.0)),
    ("adamw_update", (0.5, -2.0), Settings((0.0, 0.0), TINY, 0.0)),
    ("adamw_epsilon", (1e-3,), Settings((0.0, 0.0), 1e-3, 0.0)),
    ("adamw_second", (0.5,), Settings((0.0, 0.5), TINY, 0.0)),
    ("adamw_second", (0.5, 2.0), Settings((0.0, 0.5), TINY, 0.0)),
    ("adamw_first", (0.5,), Settings((0.5, 0.0), TINY, 0.0)),
    ("adamw_first", (0.5, 2.0), Settings((0.5, 0.0), TINY, 0.0)),
    ("adamw_first", (0.5, 2.0, -1.0), Settings((0.5, 0.0), TINY, 0.0)),
    ("adamw_epsilon", (1e-8,), QUIET),
    ("adamw_together", (1.0,), QUIET),
    ("adamw_together", (1.0, 0.0), QUIET),
    ("adamw_together", (0.5, 2.0, 0.25), QUIET),
    ("adamw_decay", (0.5, 2.0), Settings(epsilon=TINY, weight_decay=0.5)),
)


@dataclass(frozen=True)
class Fault:
    """What is wrong first, of which property (the name of a law)."""

    law: str
    finding: Finding


def settings_for(style: Style, wanted: Settings) -> Settings:
    """The settings, as far as the style can be told them."""
    told = Settings()
    changed: dict[str, Any] = {}
    if "betas" in style.roles or {"beta1", "beta2"} <= style.roles:
        changed["betas"] = wanted.betas
    changed |= {name: getattr(wanted, name) for name in ("epsilon", "weight_decay") if name in style.roles}
    return told._replace(**changed)


def steps_of(
    style: Style, start: Arrays, grads: Sequence[Arrays], rates: Sequence[float], at: Settings
) -> Iterator[dict[str, Arrays]]:
    """What is seen after every step."""
    model = style.make(copy.deepcopy(start), at)
    for g, lr in zip(grads, rates, strict=True):
        given = copy.deepcopy(g)
        model.step(given, lr)
        seen = model.arrays()
        changed = {name: x for name, x in given.items() if not np.array_equal(x, g[name])}
        yield seen | ({"gradient": changed} if changed else {})


def one(values: Sequence[float]) -> list[Arrays]:
    return [{"p": np.array([g])} for g in values]


def trace(style: Style) -> Answer:
    """Everything that is seen of it in trainings that all implementations are given: by these numbers it is known."""
    found: Answer = {}

    def see(label: str, seen: dict[str, Arrays]) -> None:
        for kind in ("p", "exp_avg", "exp_avg_sq"):
            for name, x in seen.get(kind, {}).items():
                # beside a p of 1: what is left of it after a step as large as itself has lost digits
                found[f"{label} {kind}[{name!r}]"] = np.append(x, x.dtype.type(1)) if kind == "p" else np.array(x)
        if style.contract:
            kinds = {kind: {x.dtype.name for x in seen.get(kind, {}).values()} for kind in ("exp_avg", "exp_avg_sq")}
            found[f"{label} dtypes"] = str(kinds)
        found[f"{label} gradients changed"] = {name: x.tolist() for name, x in seen.get("gradient", {}).items()} or None

    for number, (_, gradients, at) in enumerate(SMALL):
        for t, seen in enumerate(_tried(style, {"p": np.array([1.0])}, one(gradients), [LR] * len(gradients), at)):
            see(f"small {number} step {t}", seen)
    for dtype, settings in (("float64", SETTINGS), ("float32", SETTINGS[:1])):
        start, grads, rates = training(dtype, steady=style.steady)
        for number, at in enumerate(settings):
            for t, seen in enumerate(_tried(style, start, grads[:SHORT], rates[:SHORT], at)):
                see(f"{dtype} {number} step {t}", seen)
    for t, seen in enumerate(_tried(style, *_equal_shapes())):
        see(f"equal shapes step {t}", seen)
    for t, seen in enumerate(_in_turn(style)):
        see(f"in turn step {t}", seen)
    return {**found, **_identity(style), **_refusal(style)}


def _tried(style: Style, start: Arrays, grads: Any, rates: Any, at: Settings) -> list[dict[str, Arrays]]:
    """The steps until it raises."""
    seen = []
    try:
        for each in steps_of(style, start, grads, rates, settings_for(style, at)):
            seen.append(copy.deepcopy(each))
    except BaseException as error:
        reraise_interrupt(error)
    return seen


def _equal_shapes() -> tuple[Arrays, list[Arrays], list[float], Settings]:
    rng = np.random.default_rng(3)
    start = {name: rng.standard_normal((2, 2)) for name in ("b", "a")}
    grads = [{name: rng.standard_normal((2, 2)) for name in start} for _ in range(3)]
    return start, grads, [LR] * 3, Settings()


def _in_turn(style: Style) -> list[dict[str, Arrays]]:
    """Two models, a step of each by turns, and then a third one alone: what is seen of the first and of the third."""
    start, grads, rates, at = _equal_shapes()
    seen: list[dict[str, Arrays]] = []
    try:
        one_model, other = (style.make(copy.deepcopy(start), settings_for(style, at)) for _ in range(2))
        for g, lr in zip(grads, rates, strict=True):
            one_model.step(copy.deepcopy(g), lr)
            other.step({name: 2.0 - x for name, x in g.items()}, lr)
            seen.append({"p": copy.deepcopy(one_model.arrays()["p"])})
    except BaseException as error:
        reraise_interrupt(error)
    return seen


def _identity(style: Style) -> Answer:
    """Whether a caller's own array has moved with the step; of the reference's own way alone."""
    if not style.contract:
        return {}
    p = np.array([1.0])
    params, state = {"p": p}, {}  # type: tuple[Arrays, dict[str, Any]]
    try:
        style.make.args[0](params, {"p": np.array([0.5])}, state, LR)  # type: ignore[attr-defined]
    except BaseException as error:
        reraise_interrupt(error)
    return {"the caller's array": bool(p[0] != 1.0)}


def _refusal(style: Style) -> Answer:
    """What becomes of a NaN in the last of two gradients; of the reference's own way alone."""
    if not style.contract:
        return {}
    params, state = {"a": np.array([1.0]), "b": np.array([1.0])}, {}  # type: tuple[Arrays, dict[str, Any]]
    raised = ""
    try:
        style.make.args[0](params, {"a": np.array([0.5]), "b": np.array([np.nan])}, state, LR)  # type: ignore[attr-defined]
    except BaseException as error:
        reraise_interrupt(error)
        raised = type(error).__name__
    return {"of NaN raises": raised, "of NaN a": params["a"].copy(), "of NaN b": params["b"].copy()}


@cache
def right_trace(steady: bool) -> Answer:
    style = contract_style(reference_numpy.adamw_step)
    return trace(style if not steady else _steady(style))


def _steady(style: Style) -> Style:
    return Style(style.make, style.shown, style.words, style.roles, True, style.alone, style.contract)


def trace_of_mistake(forward: Any, steady: bool) -> Answer:
    style = contract_style(forward)
    return trace(_steady(style) if steady else style)


# The judgement by numbers


def faults(style: Style, watch: Callable[[str], None]) -> list[Fault]:
    """What is wrong of it, by property; the smallest case first."""
    found: list[Fault] = []
    for law, check in CHECKS.items():
        watch(f"law {law}")
        try:
            finding = check(style)
        except BaseException as error:
            reraise_interrupt(error)
            finding = Finding("part_raises", numbers={"call": style.shown, "error": one_line(error)[:200]})
        if finding is not None:
            found.append(Fault(law, finding))
    return found


def _exact(values: Sequence[float], at: Settings) -> list[float]:
    params, state = {"p": np.array([1.0])}, {}  # type: tuple[Arrays, dict[str, Any]]
    found = []
    for g in values:
        reference_numpy.adamw_step(params, {"p": np.array([g])}, state, LR, *at)
        found.append(float(params["p"][0]))
    return found


def _small_cases(style: Style) -> Finding | None:
    for code, gradients, wanted in SMALL:
        at = settings_for(style, wanted)
        right = _exact(gradients, at)
        seen = steps_of(style, {"p": np.array([1.0])}, one(gradients), [LR] * len(gradients), at)
        for t, (arrays, exact) in enumerate(zip(seen, right, strict=True)):
            got = float(arrays["p"]["p"].reshape(-1)[0])
            if not abs(got - exact) <= 1e-12 * max(abs(exact), 1.0):
                return _told(code, gradients[: t + 1], at, got, exact)
    return None


def _told(code: str, gradients: Sequence[float], at: Settings, got: float, exact: float) -> Finding:
    shown, right = told_apart(got, exact)
    numbers = {
        "gradients": ", ".join(f"{g:g}" for g in gradients),
        "at": f"lr = {LR:g}, betas = ({at.betas[0]:g}, {at.betas[1]:g}), epsilon = {at.epsilon:g}, "
        f"weight_decay = {at.weight_decay:g}",
        "got": shown,
        "right": right,
    }
    return Finding(code, "p", numbers=numbers)


def _equations(style: Style) -> Finding | None:
    for dtype in ("float64", "float32"):
        start, grads, rates = training(dtype, steady=style.steady)
        for wanted in dict.fromkeys(settings_for(style, each) for each in SETTINGS):
            right = truth(dtype, wanted, style.steady)
            for t, seen in enumerate(steps_of(style, start, grads[:LONG], rates[:LONG], wanted)):
                for name, got in seen["p"].items():
                    exact, budget = (moments.p[..., t] for moments in right[name])
                    where = _worst(got, exact, budget)
                    if where is not None:
                        shown, told = told_apart(float(got[where]), float(exact[where]))
                        place = f"{name}{[int(i) for i in where] if where else ''}"
                        numbers = {
                            "step": t + 1,
                            "steps": LONG,
                            "dtype": dtype,
                            "where": place,
                            "got": shown,
                            "right": told,
                        }
                        return Finding("adamw_differs", "p", numbers=numbers)
    return None


def _worst(got: Array, exact: Any, budget: Any) -> tuple[int, ...] | None:
    error = np.abs(got.astype(ORACLE) - exact)
    wrong = ~(error <= budget)
    if not wrong.any():
        return None
    share = np.where(np.isnan(error), np.inf, error / budget)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(share)), share.shape)) if share.ndim else ()


def _gradients(style: Style) -> Finding | None:
    start, grads, rates, at = _equal_shapes()
    for seen in steps_of(style, start, grads, rates, settings_for(style, at)):
        if seen.get("gradient"):
            return Finding("part_changes", numbers={"what": "grads"})
    return None


def _others(style: Style) -> Finding | None:
    """Two models by turns take the steps that each takes alone."""
    start, grads, rates, at = _equal_shapes()
    alone = [copy.deepcopy(seen["p"]) for seen in steps_of(style, start, grads, rates, settings_for(style, at))]
    turns = [seen["p"] for seen in _in_turn(style)]
    for t, (mine, his) in enumerate(zip(alone, turns, strict=True)):
        if any(mine[name].tobytes() != his[name].tobytes() for name in mine):
            return Finding("adamw_shared", numbers={"step": t + 1})
    return None


def _twins(style: Style) -> Finding | None:
    """Equal tensors with equal gradients stay equal."""
    if style.alone:
        return None
    start, grads, rates, at = _equal_shapes()
    start = {"b": start["a"].copy(), "a": start["a"]}
    equal = [{"b": g["a"].copy(), "a": g["a"]} for g in grads]
    for t, seen in enumerate(steps_of(style, start, equal, rates, settings_for(style, at))):
        if seen["p"]["a"].tobytes() != seen["p"]["b"].tobytes():
            return Finding("adamw_meets", numbers={"step": t + 1})
    return None


CHECKS: dict[str, Callable[[Style], Finding | None]] = {
    "keeps_everything_in_the_state": _others,
    "gives_the_right_values_of_small_cases": _small_cases,
    "follows_the_equations": _equations,
    "leaves_the_gradients_alone": _gradients,
    "treats_every_tensor_as_if_it_were_alone": _twins,
}

# Which style it is


def style_of(function: Any, label: str) -> Style:
    """How it is to be called: of all the ways that run, one in which it is right, or the first.

    ValueError, one line, if it runs in none.
    """
    made = class_styles(function, label) if inspect.isclass(function) else function_styles(function, label)
    running: list[Style] = []
    reasons: list[str] = []
    for style in made:
        raised = attempt(lambda style=style: _first_steps(style))  # type: ignore[misc]
        if raised:
            reasons.append(raised.removeprefix("raised "))
            continue
        style = _as_seen(style)
        if _small_cases(style) is None:
            return style
        running.append(style)
    if not running:
        from equivalence_tests.parts.outside.adamw_styles import EXAMPLE

        raise ValueError(
            f"{label}: no way to call it runs ({reasons[0] if reasons else 'none fits'}), expected {EXAMPLE}"
        )
    return running[0]


def _as_seen(style: Style) -> Style:
    """Steady if its rate cannot be set, the contract if it is the reference's own."""
    from equivalence_tests.parts.outside.adamw_styles import ClassStepper, SingleClassStepper, set_rate

    model = style.make({"p": np.array([1.0])}, Settings())
    models = list(getattr(model, "models", {"": model}).values())
    steady = any(
        isinstance(each, ClassStepper | SingleClassStepper)
        and "lr" not in each.asked.roles
        and not set_rate(each.own, 0.1)
        for each in models
    )
    return Style(style.make, style.shown, style.words, style.roles, steady, style.alone)


def _first_steps(style: Style) -> str:
    """It runs, and after two steps the parameters are somewhere else."""
    start = {"W": np.array([[1.0, -2.0], [0.5, 3.0]]), "b": np.array([1.0, 2.0])}
    grads = [{"W": np.array([[0.5, 1.0], [-2.0, 0.25]]), "b": np.array([-1.0, 0.5])}] * 2
    seen = list(steps_of(style, start, grads, [LR] * 2, settings_for(style, Settings())))
    still = [name for name, p in seen[-1]["p"].items() if np.array_equal(p, start[name])]
    return "the parameters do not move" if still else ""


def is_contract(function: Any) -> bool:
    """Whether it is called as the reference is, changes what it is given, and keeps its state by the same keys."""
    params, state = {"p": np.array([1.0])}, {}  # type: tuple[Arrays, dict[str, Any]]
    try:
        answer = function(params, {"p": np.array([0.5])}, state, 0.1, (0.9, 0.999), 1e-8, 0.01)
    except BaseException as error:
        reraise_interrupt(error)
        return False
    return answer is None and state.keys() == {"step", "exp_avg", "exp_avg_sq"}
