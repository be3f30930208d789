"""A function of any signature as the part that it is meant to be: named arguments, in place or returned, with or without
what the reference returns besides. What is only another habit is noted, and hidden from the laws."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import reference_numpy
from equivalence_tests.arithmetic import Array
from equivalence_tests.implementations import NotOffered
from equivalence_tests.parts.outside.calling import Plan, plan_of
from equivalence_tests.parts.outside.roles import FIELDS, FILTERS, REQUIRED, ROLES
from reference_numpy import sampling

FAINT = 1e-290  # a temperature by which a logit overflows
TINY_LOGIT = -1e4  # at or below it a number stands for -inf, where the reference has -inf

HIDDEN = ("given", "shares memory", "dtypes", "type")  # habits that the adapter of a filter or of clipping hides


@dataclass
class Adapted:
    """`part` is what laws and questions are given; `shown` how the candidate is called; `noted` are codes of habits that
    are no mistakes, with their numbers; `lacking` what it was asked for and does not offer."""

    part: Any
    shown: str
    guessed: tuple[str, ...] = ()
    noted: dict[str, dict[str, Any]] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    hidden: tuple[str, ...] = ()  # leaves of answers that it does not show
    refused: int = 0  # how often it was asked for something of that kind
    replaced: bool = False  # the last answer is not its own

    def missing(self, what: str) -> NotOffered:
        self.lacking.add(what)
        self.refused += 1
        return NotOffered(what)

    def note(self, code: str, **numbers: Any) -> None:
        self.noted.setdefault(code, numbers)


def reference_of(part: str) -> Any:
    return getattr(reference_numpy, part, None) or getattr(sampling, part)


def example_of(part: str) -> str:
    """The call that is expected, for a message."""
    return f"a call such as {part}({', '.join(ROLES[part])})"


def adapted(part: str, function: Any, label: str, strict: bool) -> Adapted:
    """ValueError, one line with an example, if the signature fits no call of the part."""
    if part == "probabilities" and not strict:
        return _probabilities(function, label)
    plan = plan_of(function, ROLES[part], REQUIRED[part], label, example_of(part))
    found = Adapted(None, plan.shown(getattr(function, "__name__", label)), plan.guessed)
    if strict:
        found.part = partial(_called, function, plan, part, found)
    elif part == "clip_gradients":
        found.part = _Clip(function, plan, found)
        found.hidden = HIDDEN
    elif part == "learning_rate":
        found.part = partial(_rate, function, plan, found)
    elif part in FILTERS:
        found.part = partial(_filter, function, plan, part, found)
        found.hidden = HIDDEN
    elif part == "choose":
        found.part = partial(_choose, function, plan, found)
    else:
        found.part = partial(_called, function, plan, part, found)
    return found


def _values(part: str, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of the reference, by role."""
    return dict(zip(ROLES[part], args, strict=False)) | named


def _called(function: Any, plan: Plan, part: str, told: Adapted, *args: Any, **named: Any) -> Any:
    values = _values(part, args, named)
    for role, value in values.items():
        if role not in plan.roles and value is not None and not (role == "samples" and value == 1):
            if value is False or (role in ("step",) and value == 0):
                continue
            raise told.missing(role)
    return plan.call(function, values)


# Clipping


class _Clip:
    """clip_gradients over a dict, a list or one array; what comes back, or was changed in place, as (clipped, norm)."""

    def __init__(self, function: Any, plan: Plan, told: Adapted) -> None:
        self.function, self.plan, self.told, self.kind = function, plan, told, ""

    def __call__(self, grads: Any, max_norm: float) -> tuple[dict[str, Array], float]:
        right, right_norm = reference_numpy.clip_gradients(copy.copy(grads), max_norm)
        kinds = (self.kind,) if self.kind else ("dict", "list", "array")
        raised: BaseException | None = None
        for kind in kinds:
            copies = {id(g): np.array(g) for g in grads.values()}  # a tied array stays one
            given = {name: copies[id(g)] for name, g in grads.items()}
            try:
                clipped, norm = self._run(kind, given, max_norm)
            except NotOffered:
                raise
            except Exception as error:
                raised = raised or error
                continue
            self.kind = kind
            if kind != "dict":
                self.told.note(f"part_takes_{kind}")
            return self._settled(grads, clipped, norm, right, right_norm)
        raise raised or self.told.missing("grads")

    def _run(self, kind: str, given: dict[str, Array], max_norm: float) -> tuple[dict[str, Array], Any]:
        if kind == "array":
            if len(given) != 1:
                flat = np.concatenate([g.reshape(-1) for g in given.values()])
                clipped, norm = self._run("array", {"": flat}, max_norm)
                cuts = np.cumsum([g.size for g in given.values()])[:-1]
                pieces = np.split(clipped[""], cuts)
                back = {name: x.reshape(g.shape) for (name, g), x in zip(given.items(), pieces, strict=True)}
                return back, norm
            held: Any = next(iter(given.values()))
        else:
            held = given if kind == "dict" else list(given.values())
        answer = self.plan.call(self.function, {"grads": held, "max_norm": max_norm})
        return self._read(kind, held, answer, list(given))

    def _read(self, kind: str, held: Any, answer: Any, names: list[str]) -> tuple[dict[str, Array], Any]:
        clipped, norm = None, None
        for each in answer if isinstance(answer, tuple) else (answer,):
            found = _by_name(kind, each, names)
            if found is not None and not (kind == "array" and isinstance(answer, tuple) and np.ndim(each) == 0):
                clipped = found
            elif isinstance(each, float | int | np.number) or (isinstance(each, np.ndarray) and each.ndim == 0):
                norm = float(each)
        if clipped is None:
            clipped = _by_name(kind, held, names)
            self.told.note("part_in_place")
        assert clipped is not None
        return clipped, norm

    def _settled(
        self, grads: Any, clipped: dict[str, Array], norm: Any, right: dict[str, Array], right_norm: float
    ) -> tuple[dict[str, Array], float]:
        """With the norm where none is told, and the right answer where only a square has overflowed or vanished."""
        told_norm = norm is not None
        if not told_norm:
            self.told.lacking.add("norm")
            norm = right_norm
        largest = max((float(np.abs(g).max(initial=0.0)) for g in grads.values()), default=0.0)
        dtype = next(iter(grads.values())).dtype
        edge = largest > math.sqrt(np.finfo(dtype).max) / 64 or 0.0 < largest < 64 * math.sqrt(np.finfo(dtype).tiny)
        lost = not math.isfinite(norm) or abs(norm - right_norm) > 1e-3 * right_norm
        far = not all(_close(clipped[name].astype(right[name].dtype), right[name]) for name in right)
        if edge and (lost or (far and not told_norm)):
            self.told.note("part_squares_overflow")
            self.told.replaced = True
            return right, right_norm
        if self.kind == "array" or edge:
            clipped = {name: np.asarray(x, right[name].dtype) for name, x in clipped.items()}
        close = all(_close(clipped[name], right[name]) for name in right)
        if abs(norm - right_norm) <= 32 * float(np.finfo(dtype).eps) * right_norm:
            norm = right_norm
        chosen = right if close and dtype == np.float64 and len({*map(id, clipped.values())}) == len(right) else clipped
        own = {id(x): np.array(x, right[name].dtype) for name, x in chosen.items()}
        return {name: own[id(x)] for name, x in chosen.items()}, norm


def _by_name(kind: str, held: Any, names: list[str]) -> dict[str, Array] | None:
    if kind == "dict":
        return (
            {name: np.asarray(held[name]) for name in names}
            if isinstance(held, dict) and set(held) == set(names)
            else None
        )
    if kind == "list":
        good = isinstance(held, list | tuple) and len(held) == len(names)
        return {name: np.asarray(x) for name, x in zip(names, held, strict=True)} if good else None
    return {names[0]: np.asarray(held)} if isinstance(held, np.ndarray) else None


def _close(got: Array, right: Array) -> bool:
    if got.shape != right.shape:
        return False
    with np.errstate(all="ignore"):
        return bool((np.abs(got - right) <= 8 * np.finfo(right.dtype).eps * np.abs(right)).all())


# The schedule


def _rate(function: Any, plan: Plan, told: Adapted, step: int, **given: Any) -> Any:
    right = reference_numpy.learning_rate(step, **given)
    values = {"step": step, **given}
    for role, value in given.items():
        usual = {"warmup_steps": 0, "total_steps": None, "floor": 0.0}
        if role not in plan.roles and value != usual.get(role, value):
            raise told.missing(role)
    if values.get("total_steps") is None:
        values.pop("total_steps", None)
        if "total_steps" in plan.roles:
            raise told.missing("total_steps = None")
    got = float(plan.call(function, values))
    return right if abs(got - right) <= 32 * 2.0**-53 * max(abs(right), abs(given["peak"]) * 2.0**-3) else got


# Filters


def _filter(function: Any, plan: Plan, part: str, told: Adapted, *args: Any, **named: Any) -> Any:
    values = _values(part, args, named)
    logits = values["logits"]
    right = reference_of(part)(logits.copy(), *args[1:], **named)
    if part == "penalise":
        _either_count(plan, told, values)
    probs = _takes_probabilities(plan)
    given = _softmax(logits) if probs else logits.copy()
    try:
        answer = plan.call(function, values | {"logits": given})
    except Exception as error:
        if part == "apply_temperature" and values["temperature"] == 0.0:
            told.note("part_refuses_zero")
            raise told.missing("temperature = 0") from error
        if logits.ndim > 1:
            raise told.missing("several rows") from None
        raise
    if answer is None:
        told.note("part_in_place")
        answer = given
    got = np.asarray(answer)
    if part == "apply_temperature" and values["temperature"] < FAINT and _unbounded(got):
        told.note("part_divides_by_zero")
        raise told.missing("temperature = 0")
    if got.shape != right.shape or got.dtype.kind not in "fc":
        return answer
    if probs or (part in ("top_k", "top_p", "min_p") and _is_distribution(got) and not _is_distribution(logits)):
        told.note("part_probabilities")
        with np.errstate(divide="ignore"):
            got = np.where(got > 0.0, logits, -np.inf)
    return _snapped(part, got.astype(np.float64), right, told)


def _unbounded(X: Array) -> bool:
    """A row with NaN or infinity, or with nothing that may be chosen."""
    return bool((np.isnan(X) | np.isposinf(X)).any() or not np.isfinite(X).any(-1).all())


def _takes_probabilities(plan: Plan) -> bool:
    name = next(parameter for parameter, role in plan.given if role == "logits")
    return name.lower().startswith("prob")


def _either_count(plan: Plan, told: Adapted, values: dict[str, Any]) -> None:
    """A penalty that has no `once` counts in one of two ways; what it is held to, its own answer of a small case says."""
    if "once" in plan.roles:
        return
    kept = told.noted.get("part_once", {}).get("once", False)
    if bool(values.get("once", False)) != kept:
        raise told.missing(f"once = {not kept}")


def _softmax(X: Array) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(X - X.max(-1, keepdims=True))
    total: Array = e / e.sum(-1, keepdims=True)
    return total


def _is_distribution(X: Array) -> bool:
    return bool(
        X.shape[-1] > 1 and np.isfinite(X).all() and (X >= 0.0).all() and np.allclose(X.sum(-1), 1.0, atol=1e-6)
    )


def _snapped(part: str, got: Array, right: Array, told: Adapted) -> Array:
    """The right answer, if this one is apart from it by rounding, by a constant in each row or by its number for -inf."""
    got = got.copy()
    filled = np.isneginf(right) & (got <= TINY_LOGIT) & np.isfinite(got)
    if filled.any() and not np.isneginf(got).any():
        told.note("part_fill", fill=f"{got[filled].min():g}")
        got[filled] = -np.inf
    if not np.array_equal(np.isfinite(got), np.isfinite(right)) or np.isnan(got).any() or np.isposinf(got).any():
        return got
    with np.errstate(all="ignore"):
        finite = np.isfinite(right)
        size = np.abs(np.where(np.isfinite(got), got, 0.0))
        shift = got.max(-1, keepdims=True) - right.max(-1, keepdims=True) if part == "apply_temperature" else 0.0
        got = got - shift
        difference = np.where(finite, got - right, 0.0)
        size = np.maximum(size, np.abs(np.where(finite, right, 0.0)))
    if not (np.abs(difference) <= 16 * 2.0**-52 * size.max(-1, keepdims=True)).all():
        return got
    if np.any(shift != 0.0):
        told.note("part_shift")
    return right


def counts_once(function: Any, label: str) -> bool:
    """Whether a penalty without the option counts a token once, whatever its count."""
    plan = plan_of(function, ROLES["penalise"], REQUIRED["penalise"], label, example_of("penalise"))
    if "once" in plan.roles:
        return False
    logits = np.array([4.0, -1.0, 2.0])
    given = logits.copy()
    answer = plan.call(function, {"logits": given, "ids": [0, 0, 1, 1], "gamma": 2.0})
    got = np.asarray(given if answer is None else answer, float)
    return bool(got.shape == (3,) and np.allclose(got, [2.0, -2.0, 2.0]))


# The distribution and the choice


def _probabilities(function: Any, label: str) -> Adapted:
    roles = ROLES["probabilities"] | FIELDS
    plan = plan_of(function, roles, ("logits",), label, "a call such as probabilities(logits, ids, config), or with "
                   "temperature, top_k, top_p, min_p by name")  # fmt: skip
    found = Adapted(None, plan.shown(getattr(function, "__name__", label)), plan.guessed)

    def probabilities(logits: Array, ids: Any, config: Any) -> Any:
        if "config" in plan.roles:
            return plan.call(function, {"logits": logits, "ids": ids, "config": config})
        plain = sampling.SamplingConfig(1.0, None, repetition_penalty=1.0)
        values: dict[str, Any] = {"logits": logits, "ids": ids}
        for name in (*FIELDS, "penalty"):
            value = getattr(config, name)
            if name in plan.roles:
                values[name] = value
            elif value != getattr(plain, name):
                raise found.missing(name)
        if config.repetition_penalty != 1.0 and "ids" not in plan.roles:
            raise found.missing("ids")
        if values.get("top_k", 0) is None:
            values["top_k"] = len(logits)
        if "banned" in values and not values["banned"]:
            values.pop("banned") if plan.given[-1][1] != "banned" else None
        if values.get("temperature") == 0.0:
            raise found.missing("temperature = 0")
        return np.asarray(plan.call(function, values), np.float64)

    found.part = probabilities
    if "config" not in plan.roles:
        found.hidden = HIDDEN
    return found


class Dice:
    """A generator that says one number, in whichever way it is asked."""

    def __init__(self, uniform: float) -> None:
        self.uniform_number = uniform

    def random(self, size: Any = None) -> Any:
        return self.uniform_number if size is None else np.full(size, self.uniform_number)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        value = low + (high - low) * self.uniform_number
        return value if size is None else np.full(size, value)

    rand = random

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """NumPy's: the first sum above the number."""
        items = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        sums = np.cumsum(np.full(len(items), 1.0 / len(items)) if p is None else np.asarray(p))
        found = items[min(int(np.searchsorted(sums / sums[-1], self.uniform_number, side="right")), len(items) - 1)]
        return found if size is None else np.full(size, found)


def _choose(function: Any, plan: Plan, told: Adapted, probabilities: Array, uniform: float) -> Any:
    name = next(parameter for parameter, role in plan.given if role == "uniform")
    number: Any = uniform
    if name.lower() in ("rng", "generator", "random"):
        told.note("part_dice")
        number = Dice(uniform)
    answer = plan.call(function, {"probabilities": probabilities, "uniform": number})
    if isinstance(answer, np.integer) or (
        isinstance(answer, np.ndarray) and answer.size == 1 and answer.dtype.kind in "iu"
    ):
        told.note("part_numpy_integer")
        answer = int(np.asarray(answer).reshape(-1)[0])
    return _at_a_sum(probabilities, uniform, answer)


def _at_a_sum(P: Array, uniform: float, answer: Any) -> Any:
    """The right id, where the number lies within the rounding of a sum between that id and the answer."""
    right = reference_numpy.choose(P.copy(), uniform)
    if type(answer) is int and 0 <= answer < P.size and P[answer] > 0.0:
        sums = np.cumsum(P.astype(np.float64))
        below, room = sums[answer] - P[answer], 8 * P.size * 2.0**-53
        if below - room <= uniform <= sums[answer] + room and uniform > 0.0 and answer != right:
            return right
    return answer
