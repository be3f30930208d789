"""Bad input of the language models: their parameters, ids, masks and targets, each one change away from a right call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests._refusal import Arguments, Maker, Refusal, made
from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.ops import OPS
from equivalence_tests.small_models import GPTS, IGNORED, LOSSES, MODELS, TOKENS, VOCABULARY, WINDOW, model_case
from reference_numpy.config import GPTConfig, RNNConfig

SHARED = "lm_head.bias"  # a parameter that both families have


def valid_case(op: str) -> Case:
    return model_case(op, SeededDraws(np.random.default_rng(0)), "float64")


def valid(op: str) -> dict[str, Any]:
    """The arguments of a call that is right, by name."""
    case = valid_case(op)
    operands = OPS[op].arguments(case.operands)
    names = ("params", "ids", "targets")[: len(operands)]
    return {**dict(zip(names, operands, strict=True)), **case.options}


Change = Callable[[Maker], Any] | Any  # a value, or what makes it of what is not the implementation's own array
Bad = list[tuple[str, type[Exception], Change]]


def _foreign(array: Array) -> Callable[[Maker], Any]:
    return lambda make: make.foreign(array)


def _of_another_dtype(array: Array) -> Callable[[Maker], Any]:
    return lambda make: make(array, make.other_dtype)


def _value(make: Maker, change: Change) -> Any:
    value = change(make) if callable(change) else change
    return make(value) if isinstance(value, np.ndarray) and not callable(change) else value


def _with(op: str, name: str, change: Change) -> Callable[[Maker], Arguments]:
    """A right call but for one argument."""
    return lambda make: made(make, valid(op)) | {name: _value(make, change)}


def _with_parameters(op: str, name: str, change: Change) -> Callable[[Maker], Arguments]:
    """A right call but for one parameter."""

    def build(make: Maker) -> Arguments:
        arguments = made(make, valid(op))
        return arguments | {"params": arguments["params"] | {name: _value(make, change)}}

    return build


def _without(op: str, argument: str, name: str) -> Callable[[Maker], Arguments]:
    """A right call in which a dict lacks an entry."""

    def build(make: Maker) -> Arguments:
        arguments = made(make, _trained(op) if argument == "keep" else valid(op))
        return arguments | {argument: {key: value for key, value in arguments[argument].items() if key != name}}

    return build


def _parameters(op: str) -> list[Refusal]:
    params = valid(op)["params"]
    refusals = [
        Refusal(f"params {what}", "params", error, _with(op, "params", change))
        for what, error, change in (
            ("None", TypeError, None),
            ("as a list", TypeError, lambda make: list(made(make, params).values())),
            ("empty", ValueError, {}),
        )
    ]
    for name in (next(iter(params)), list(params)[len(params) // 2], SHARED):
        array = params[name]
        bad: Bad = [
            ("as a list", TypeError, array.tolist()),
            ("None", TypeError, None),
            ("of the other framework", TypeError, _foreign(array)),
            ("of another dtype", TypeError, _of_another_dtype(array)),
            ("of integers", TypeError, np.ones(array.shape, np.int64)),
            ("with an axis too many", ValueError, array[None]),
            ("with a row too many", ValueError, np.ones((array.shape[0] + 1, *array.shape[1:]))),
        ]
        if array.ndim == 2:
            bad.append(
                ("transposed", ValueError, np.ones(array.shape[::-1]))
                if array.shape[0] != array.shape[1]
                else ("with a column too few", ValueError, np.ones((array.shape[0], array.shape[1] - 1)))
            )
        refusals += [
            Refusal(f"params[{name}] {what}", "params", error, _with_parameters(op, name, change))
            for what, error, change in bad
        ]
        refusals.append(Refusal(f"params without {name}", "params", ValueError, _without(op, "params", name)))
    more = _with_parameters(op, "extra.weight", np.ones((2, 3)))
    half = Refusal("params of float16", "params", TypeError, lambda make: _half(op, make), pairs_only=True)
    return [*refusals, Refusal("params with one too many", "params", ValueError, more), half]


def _half(op: str, make: Maker) -> Arguments:
    params = {name: make(array, "float16") for name, array in valid(op)["params"].items()}
    return made(make, valid(op)) | {"params": params}


def _ids(op: str) -> list[Refusal]:
    ids = valid(op)["ids"]
    bad: Bad = [
        ("as a list", TypeError, ids.tolist()),
        ("None", TypeError, None),
        ("of the other framework", TypeError, _foreign(ids)),
        ("of floats", TypeError, ids.astype(np.float64)),
        ("of booleans", TypeError, np.zeros(ids.shape, bool)),
        ("negative", ValueError, np.where(np.arange(TOKENS) == 1, -1, ids)),
        ("out of range", ValueError, np.where(np.arange(TOKENS) == 2, VOCABULARY, ids)),
        ("without axes", ValueError, np.array(1)),
        ("of empty rows", ValueError, ids[:, :0]),
    ]
    if op in GPTS:
        long = np.ones((2, WINDOW + 1), np.int64)
        bad.append(("longer than the window", ValueError, long))
    return [Refusal(f"ids {what}", "ids", error, _with(op, "ids", change)) for what, error, change in bad]


def _trained(op: str) -> dict[str, Any]:
    """A right call with masks."""
    case = model_case(op, SeededDraws(np.random.default_rng(0)), "float64", p=0.3)
    return valid(op) | case.options


def _keep(op: str) -> list[Refusal]:
    masks = _trained(op)["keep"]

    def entry(name: str, change: Change) -> Callable[[Maker], Arguments]:
        def build(make: Maker) -> Arguments:
            arguments = made(make, _trained(op))
            return arguments | {"keep": arguments["keep"] | {name: _value(make, change)}}

        return build

    refusals = [
        Refusal(f"keep {what}", "keep", error, _with(op, "keep", change))
        for what, error, change in (
            ("as an array", TypeError, np.ones((2, TOKENS), bool)),
            ("True", TypeError, True),
            ("empty", ValueError, {}),
        )
    ]
    for name, mask in masks.items():
        bad: Bad = [
            ("as a list", TypeError, mask.tolist()),
            ("None", TypeError, None),
            ("of the other framework", TypeError, _foreign(mask)),
            ("of integers", TypeError, mask.astype(np.int64)),
            ("of one sequence", ValueError, mask[:1]),
            ("with another n", ValueError, np.ones((2, *(size + 1 for size in mask.shape[1:])), bool)),
        ]
        refusals += [Refusal(f"keep[{name}] {what}", "keep", error, entry(name, x)) for what, error, x in bad]
        refusals.append(Refusal(f"keep without {name}", "keep", ValueError, _without(op, "keep", name)))
    return [
        *refusals,
        Refusal("keep with one too many", "keep", ValueError, entry("blocks.7.attention", masks["embedding"])),
    ]


def _targets(op: str) -> list[Refusal]:
    targets = valid(op)["targets"]
    none = np.full_like(targets, IGNORED)
    bad: Bad = [
        ("as a list", TypeError, targets.tolist()),
        ("None", TypeError, None),
        ("of the other framework", TypeError, _foreign(targets)),
        ("of floats", TypeError, targets.astype(np.float64)),
        ("of booleans", TypeError, np.zeros(targets.shape, bool)),
        ("negative", ValueError, np.where(np.arange(TOKENS) == 1, -1, targets)),
        ("out of range", ValueError, np.where(np.arange(TOKENS) == 2, VOCABULARY, targets)),
        ("one token short", ValueError, targets[:, 1:]),
        ("flat", ValueError, targets.reshape(-1)),
        ("ignored without an ignore_index", ValueError, none),
    ]
    refusals = [Refusal(f"targets {what}", "targets", error, _with(op, "targets", x)) for what, error, x in bad]
    for value in ("x", 1.5, True):
        build = _with(op, "ignore_index", value)
        refusals.append(Refusal(f"ignore_index = {value!r}", "ignore_index", TypeError, build))

    def all_ignored(make: Maker) -> Arguments:
        return made(make, valid(op) | {"targets": none, "ignore_index": IGNORED})

    return [*refusals, Refusal("targets all ignored", "targets", ValueError, all_ignored)]


def _config(op: str) -> list[Refusal]:
    other = RNNConfig(VOCABULARY) if op in GPTS else GPTConfig(VOCABULARY)
    bad: Bad = [("None", TypeError, None), ("as a dict", TypeError, {}), ("of the other model", TypeError, other)]
    return [Refusal(f"config {what}", "config", error, _with(op, "config", x)) for what, error, x in bad]


REFUSALS: dict[str, tuple[Refusal, ...]] = {
    op: (
        *_parameters(op),
        *_ids(op),
        *_config(op),
        *(_keep(op) if op in GPTS else ()),
        *(_targets(op) if op in LOSSES else ()),
    )
    for op in MODELS
}
