"""The ways in which AdamW is written: arrays by name, in a list or one at a time, in place or returned, a function with a
state or with its moments, a class with a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.parts.adamw_budget import Arrays, Settings
from equivalence_tests.parts.outside.calling import Plan, plan_of

ROLES = {
    "params": (
        "p",
        "param",
        "parameters",
        "w",
        "weight",
        "weights",
        "theta",
        "x",
        "var",
        "value",
        "tensor",
        "variables",
    ),
    "grads": ("g", "grad", "dw", "dp", "dx", "gradient", "gradients", "gt", "dtheta", "gw"),
    "state": ("optstate", "optimstate", "optimizerstate", "s", "config", "cache", "memory", "moments"),
    "m": ("expavg", "firstmoment", "mt", "mu", "m1", "moment1", "ms", "mw"),
    "v": ("expavgsq", "secondmoment", "vt", "nu", "m2", "moment2", "vs", "vw"),
    "t": ("step", "steps", "i", "it", "iteration", "k", "timestep", "stepnum", "count", "nstep"),
    "lr": ("learningrate", "alpha", "eta", "stepsize", "rate", "a"),
    "betas": ("beta",),
    "beta1": ("b1",),
    "beta2": ("b2",),
    "epsilon": ("eps", "e", "delta"),
    "weight_decay": ("wd", "lam", "lambda", "lambd", "lmbda", "decay", "l2", "wdecay", "weightdecayrate"),
}
EXAMPLE = (
    "a call such as adamw(params, grads, state, lr, betas, eps, weight_decay), adamw(p, g, m, v, t, lr, beta1, beta2, eps, "
    "weight_decay) -> p, m, v, or a class with step()"
)
STEPS_OF_CLASSES = ("step", "update", "apply_gradients", "apply", "update_params", "__call__")
RATES = ("lr", "learning_rate", "alpha", "eta", "step_size")
FIRST = ("exp_avg", "m", "mu", "first_moment", "moment1", "ms")
SECOND = ("exp_avg_sq", "v", "nu", "second_moment", "moment2", "vs")


class Stepper:
    """One model in training. `arrays` are its parameters by name after the last step; moments where they can be seen."""

    def __init__(self, step: Callable[[Arrays, float], None], arrays: Callable[[], dict[str, Arrays]]) -> None:
        self.step, self.arrays = step, arrays


Make = Callable[[Arrays, Settings], Stepper]


@dataclass(frozen=True)
class Style:
    """`words` are codes of what was assumed, `roles` what it can be given; `steady` if its rate cannot change."""

    make: Make
    shown: str
    words: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset(ROLES)
    steady: bool = False
    alone: bool = False  # one tensor at a time
    contract: bool = False  # the reference's own: in place, and the state by its keys
    held: dict[str, bool] = field(default_factory=dict)


def numbers(at: Settings, lr: float) -> dict[str, Any]:
    """Every hyperparameter by its role."""
    beta1, beta2 = at.betas
    told = {"lr": lr, "betas": (beta1, beta2), "beta1": beta1, "beta2": beta2}
    return {**told, "epsilon": at.epsilon, "weight_decay": at.weight_decay}


# Containers of arrays: how a model is handed over, and read back.


def _handed(kind: str, arrays: Arrays) -> Any:
    if kind == "list":
        return list(arrays.values())
    if kind == "array":
        (only,) = arrays.values()
        return only
    return arrays


def _read(kind: str, held: Any, names: list[str]) -> Arrays | None:
    """The arrays by name again, or None if it is no such container."""
    if kind == "dict":
        good = isinstance(held, dict) and list(held) == names
        return {name: np.asarray(held[name]) for name in names} if good else None
    if kind == "list":
        good = isinstance(held, list | tuple) and len(held) == len(names)
        return {name: np.asarray(x) for name, x in zip(names, held, strict=True)} if good else None
    good = isinstance(held, np.ndarray | np.floating | float)
    return {names[0]: np.asarray(held)} if good else None


def _like(kind: str, held: Any, arrays: Arrays) -> Arrays | None:
    found = _read(kind, held, list(arrays))
    if found is None or any(found[name].shape != x.shape for name, x in arrays.items()):
        return None
    return found


def moments_in(state: Any, kind: str, arrays: Arrays) -> dict[str, Arrays]:
    """Both moments, where a state holds them under names that are known: by moment, or by tensor first."""
    found: dict[str, Arrays] = {}
    if not isinstance(state, dict):
        return found
    for moment, names in (("exp_avg", FIRST), ("exp_avg_sq", SECOND)):
        for name in names:
            held = _like(kind, state.get(name), arrays) if name in state else None
            if held is None and all(isinstance(state.get(each), dict) and name in state[each] for each in arrays):
                held = {each: np.asarray(state[each][name]) for each in arrays}
            if held is not None:
                found.setdefault(moment, held)
    return found


class FunctionStepper(Stepper):
    """A function of parameters, gradients and what it has to remember, called once a step (or once a tensor)."""

    def __init__(
        self, function: Any, plan: Plan, kind: str, first: int, begin: Any, params: Arrays, at: Settings
    ) -> None:
        super().__init__(self._step, self._arrays)
        self.function, self.plan, self.kind, self.at, self.t = function, plan, kind, at, first
        self.params, self.replaced = params, False
        zeros = {name: np.zeros(p.shape, p.dtype) for name, p in params.items()}
        self.m, self.v = zeros, {name: x.copy() for name, x in zeros.items()}
        self.state = begin(_handed(kind, params)) if begin else None

    def _step(self, grads: Arrays, lr: float) -> None:
        values = numbers(self.at, lr) | {
            "params": _handed(self.kind, self.params),
            "grads": _handed(self.kind, grads),
            "m": _handed(self.kind, self.m),
            "v": _handed(self.kind, self.v),
            "t": self.t,
            "state": self.state,
        }
        if isinstance(self.state, dict) and "config" in {name for name, role in self.plan.given if role == "state"}:
            named = {"learning_rate": lr, "lr": lr, "beta1": self.at.betas[0], "beta2": self.at.betas[1]}
            wanted = named | {"epsilon": self.at.epsilon, "eps": self.at.epsilon}
            self.state.update(wanted | {"weight_decay": self.at.weight_decay, "wd": self.at.weight_decay})
        before = {name: p.copy() for name, p in self.params.items()}
        answer = self.plan.call(self.function, values)
        self.t += 1
        self._take(answer, values, before)

    def _take(self, answer: Any, values: dict[str, Any], before: Arrays) -> None:
        held = _like(self.kind, values["params"], self.params)
        if held is not None and self.kind != "array":
            self._changed(held)  # a dict or a list may hold other arrays now
        if answer is None:
            return
        given = {role: self.params if role == "params" else getattr(self, role) for role in ("m", "v")}
        moved = any(not np.array_equal(self.params[name], x) for name, x in before.items())
        tensors, rest = self._parts(answer)
        order = ["params", "m", "v"] if not (moved and len(tensors) == 2 and "m" in self.plan.roles) else ["m", "v"]
        for role, found in zip(order, tensors, strict=False):
            if role == "params":
                self._changed(found)
            elif given:
                setattr(self, role, found)
        for each in rest:
            if isinstance(each, int) and not isinstance(each, bool):
                continue  # its step, which is counted here as well
            self.state = each

    def _changed(self, found: Arrays) -> None:
        self.replaced |= any(found[name] is not p for name, p in self.params.items())
        self.params = {name: found[name] for name in self.params}

    def _parts(self, answer: Any) -> tuple[list[Arrays], list[Any]]:
        """What of an answer is like the parameters, in its order, and what is something else."""
        whole = _like(self.kind, answer, self.params)
        if whole is not None and not (self.kind == "list" and isinstance(answer, tuple)):
            return [whole], []
        if not isinstance(answer, tuple | list):
            return [], [answer]
        tensors, rest = [], []
        for each in answer:
            found = _like(self.kind, each, self.params)
            if found is not None:
                tensors.append(found)
            else:
                rest.append(each)
        return (tensors, rest) if tensors else ([whole] if whole is not None else [], rest)

    def _arrays(self) -> dict[str, Arrays]:
        seen = moments_in(self.state, self.kind, self.params)
        if {"m", "v"} <= self.plan.roles:
            seen = {"exp_avg": self.m, "exp_avg_sq": self.v}
        return {"p": self.params, **seen}


class EachAlone(Stepper):
    """A function of one tensor, called for each with a memory of its own."""

    def __init__(self, make: Make, params: Arrays, at: Settings) -> None:
        super().__init__(self._step, self._arrays)
        self.models = {name: make({name: p}, at) for name, p in params.items()}

    def _step(self, grads: Arrays, lr: float) -> None:
        for name, model in self.models.items():
            model.step({name: grads[name]}, lr)

    def _arrays(self) -> dict[str, Arrays]:
        found: dict[str, Arrays] = {}
        for model in self.models.values():
            for kind, arrays in model.arrays().items():
                found.setdefault(kind, {}).update(arrays)
        return found


# The states that a function may want to begin with.


def _zeros(held: Any) -> Any:
    if isinstance(held, dict):
        return {name: np.zeros_like(x) for name, x in held.items()}
    return [np.zeros_like(x) for x in held] if isinstance(held, list) else np.zeros_like(held)


def begun(name: str) -> Callable[[Any], Any]:
    """A state before the first step, by its code."""
    empty: dict[str, Callable[[Any], Any]] = {
        "{}": lambda held: {},
        "None": lambda held: None,
        "m, v, t": lambda held: {"m": _zeros(held), "v": _zeros(held), "t": 0},
        "m, v, step": lambda held: {"m": _zeros(held), "v": _zeros(held), "step": 0},
        "exp_avg": lambda held: {"step": 0, "exp_avg": _zeros(held), "exp_avg_sq": _zeros(held)},
        "(m, v, t)": lambda held: (_zeros(held), _zeros(held), 0),
        "(t, m, v)": lambda held: (0, _zeros(held), _zeros(held)),
    }
    return empty[name]


STATES = ("{}", "None", "m, v, t", "m, v, step", "exp_avg", "(m, v, t)", "(t, m, v)")


def _makers(function: Any) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """What the candidate's own module offers to begin with, then the usual states."""
    space = getattr(function, "__globals__", {})
    for name, each in space.items():
        wanted = "init" in name.lower() and any(word in name.lower() for word in ("adam", "opt", "state"))
        if wanted and inspect.isfunction(each) and each is not function:
            needed = [p for p in inspect.signature(each).parameters.values() if p.default is p.empty]
            if len(needed) == 1:
                yield f"{name}(params)", each
    for name in STATES:
        yield name, begun(name)


def function_styles(function: Any, label: str) -> Iterator[Style]:
    """Every way to call it that its signature allows, not yet tried."""
    plan = plan_of(function, ROLES, ("params", "grads"), label, EXAMPLE)
    if "state" not in plan.roles and not {"m", "v"} <= plan.roles:
        raise ValueError(f"{label}: it takes neither a state nor both moments m and v, expected {EXAMPLE}")
    shown = plan.shown(getattr(function, "__name__", label))
    makers: list[tuple[str, Any]] = list(_makers(function)) if "state" in plan.roles else [("", None)]
    steps = (1, 0) if "t" in plan.roles else (1,)
    for kind in ("dict", "list", "array"):
        for named, begin in makers:
            for first in steps:
                make = partial(FunctionStepper, function, plan, kind, first, begin)
                words = (f"part_takes_{kind}", *(("part_counts_from_0",) if first == 0 else ()))
                words += ("part_begins",) if named not in ("", "{}") else ()
                whole: Make = partial(EachAlone, make) if kind == "array" else make
                yield Style(
                    whole, f"{shown}{', state = ' + named if named else ''}", words, plan.roles, alone=kind == "array"
                )


# Classes


class Parameter:
    """What torch.optim's users expect of a parameter: data and grad."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self.grad: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape


class ParameterArray(np.ndarray):
    """An array that carries its gradient."""

    grad: Any = None


def _objects(params: Arrays, form: str) -> dict[str, Any]:
    if form == "objects":
        return {name: Parameter(p) for name, p in params.items()}
    return {name: p.view(ParameterArray) for name, p in params.items()}


class ClassStepper(Stepper):
    """An object that is made once and asked at every step; what its parameters are, `form` says."""

    def __init__(self, made: Plan, asked: Plan, cls: Any, method: str, form: str, params: Arrays, at: Settings) -> None:
        super().__init__(self._step, self._arrays)
        self.asked, self.form, self.params = asked, form, params
        kind = "list" if form.endswith("list") else "dict"
        self.kind = kind
        self.objects = _objects(params, form.split()[0]) if form.split()[0] in ("objects", "views") else None
        self.held = _handed(kind, self.objects or params)
        values = numbers(at, 1e-3) | {"params": self.held}
        args, named = made.arguments({role: values[role] for role in made.roles if role in values})
        self.own = cls(*args, **named)
        self.method = getattr(self.own, method)

    def _step(self, grads: Arrays, lr: float) -> None:
        if "lr" not in self.asked.roles:
            set_rate(self.own, lr)
        if self.objects is not None:
            for name, each in self.objects.items():
                each.grad = grads[name]
        values = {"params": self.held, "grads": _handed(self.kind, grads), "lr": lr}
        answer = self.asked.call(self.method, values)
        names = list(self.params)
        found = _like(self.kind, answer, self.params) if answer is not None else None
        if self.objects is not None:
            found = {
                name: np.asarray(x.data if self.form.startswith("objects") else x) for name, x in self.objects.items()
            }
        elif found is None:
            found = _read(self.kind, self.held, names)
        if found is not None:
            self.params = found
            if self.objects is None:
                self.held = _handed(self.kind, found) if self.kind == "list" and answer is not None else self.held
                if answer is not None and self.kind == "dict":
                    self.held = dict(found)

    def _arrays(self) -> dict[str, Arrays]:
        return {"p": self.params}


def set_rate(own: Any, lr: float) -> bool:
    """The rate of the next step, where the object has one that can be set."""
    groups = getattr(own, "param_groups", None)
    if isinstance(groups, list) and groups and isinstance(groups[0], dict) and "lr" in groups[0]:
        for group in groups:
            group["lr"] = lr
        return True
    for name in RATES:
        if isinstance(getattr(own, name, None), float | int):
            setattr(own, name, lr)
            return True
    return False


def class_styles(cls: Any, label: str) -> Iterator[Style]:
    made = plan_of(cls, ROLES, (), label, EXAMPLE)
    method = next((name for name in STEPS_OF_CLASSES if callable(getattr(cls, name, None)) and name != "__call__"), "")
    method = method or ("__call__" if "__call__" in vars(cls) else "")
    if not method:
        raise ValueError(f"{label}: the class has no step(), expected {EXAMPLE}")
    asked = _asked(cls, method, label)
    gives = "grads" in asked.roles
    forms = ("dict", "list") if gives else ("objects list", "views list", "objects dict")
    shown = f"{made.shown(cls.__name__)}.{asked.shown(method)}"
    for form in forms:
        make = partial(ClassStepper, made, asked, cls, method, form)
        word = {"dict": "part_takes_dict", "list": "part_takes_list"}.get(form, "part_takes_objects")
        yield Style(make, shown, (word,), made.roles | asked.roles)
    if gives and "params" in asked.roles and "params" not in made.roles:
        single = partial(SingleClassStepper, made, asked, cls, method)
        yield Style(partial(EachAlone, single), shown, ("part_takes_array",), made.roles | asked.roles, alone=True)


def _asked(cls: Any, method: str, label: str) -> Plan:
    function = getattr(cls, method)
    bound = partial(function, None) if inspect.isfunction(function) else function
    plan = plan_of(bound, ROLES, (), f"{label}.{method}", EXAMPLE)
    return Plan(
        tuple((n, r) for n, r in plan.given if r in ("params", "grads", "lr", "t")), plan.guessed, plan.keywords
    )


class SingleClassStepper(Stepper):
    """A class whose step takes one tensor and its gradient."""

    def __init__(self, made: Plan, asked: Plan, cls: Any, method: str, params: Arrays, at: Settings) -> None:
        super().__init__(self._step, lambda: {"p": self.params})
        self.asked, self.params = asked, params
        values = numbers(at, 1e-3)
        args, named = made.arguments({role: values[role] for role in made.roles if role in values})
        self.own = cls(*args, **named)
        self.method = getattr(self.own, method)

    def _step(self, grads: Arrays, lr: float) -> None:
        if "lr" not in self.asked.roles:
            set_rate(self.own, lr)
        ((name, g),) = grads.items()
        answer = self.asked.call(self.method, {"params": self.params[name], "grads": g, "lr": lr})
        found = _like("array", answer, self.params) if answer is not None else None
        if found is not None:
            self.params = found


# The reference's own way


class ContractStepper(Stepper):
    """adamw_step(params, grads, state, lr, betas, epsilon, weight_decay), as the reference has it."""

    def __init__(self, function: Any, params: Arrays, at: Settings) -> None:
        super().__init__(self._step, self._arrays)
        self.function, self.params, self.at = function, params, at
        self.state: dict[str, Any] = {}

    def _step(self, grads: Arrays, lr: float) -> None:
        self.function(self.params, grads, self.state, lr, *self.at)

    def _arrays(self) -> dict[str, Arrays]:
        return {"p": self.params} | {moment: self.state[moment] for moment in ("exp_avg", "exp_avg_sq")}


def contract_style(function: Any) -> Style:
    name = getattr(function, "__name__", "adamw_step")
    shown = f"{name}(params, grads, state, lr, betas, epsilon, weight_decay)"
    return Style(partial(ContractStepper, function), shown, contract=True)
