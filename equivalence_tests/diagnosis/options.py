"""Hypotheses about what an implementation does with its options: one ignored, misread, off by one, inverted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.diagnosis.editing import Hypothesis
from equivalence_tests.diagnosis.operands import of_operands
from equivalence_tests.diagnosis.sizes import sizes
from equivalence_tests.ops import Op

Options = dict[str, Any]
# What came, sizes -> what is read instead; an empty dict where that is the same.
Reading = Callable[[Options, dict[str, int]], Options]


def readings(op: Op, cases: list[Case]) -> Iterator[Hypothesis]:
    """The forward as if an option had been read otherwise. Only options that some case has are asked about."""
    given = {name for case in cases for name, value in case.options.items() if value is not None}
    attends = any("Wq" in case.operands or "Q" in case.operands for case in cases)
    for name, several in READINGS.items():
        if name in given or (attends and name in ("scale", "causal")):
            for code, numbers, reading, cost in several:
                stage = name if numbers.get("option") else str(numbers.get("stage", name))
                said = {key: value for key, value in numbers.items() if key != "stage"}
                yield Hypothesis(code, stage, said, case=_read(op, reading), forward=True, cost=cost)
    yield from of_operands(op, cases)


def _read(op: Op, reading: Reading) -> Callable[[Case], Case]:
    def changed(case: Case) -> Case:
        read = reading(dict(case.options), sizes(op, case))
        return replace(case, options={**case.options, **read})

    return changed


def _ignored(**options: Any) -> Reading:
    return lambda given, _: {name: value for name, value in options.items() if name in given}


def _scale(by: Callable[[dict[str, int]], float], always: bool = False) -> Reading:
    def read(given: Options, letters: dict[str, int]) -> Options:
        return {"scale": by(letters)} if always or given.get("scale") is None else {}

    return read


def _transposed_mask(given: Options, letters: dict[str, int]) -> Options:
    mask = given.get("mask")
    if mask is None or mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        return {}
    return {"mask": np.swapaxes(mask, -1, -2)}


def _first_mask(given: Options, letters: dict[str, int]) -> Options:
    mask = given.get("mask")
    return {"mask": mask[:1]} if mask is not None and mask.ndim > 2 else {}


def _tiled_mask(given: Options, letters: dict[str, int]) -> Options:
    mask, H, B = given.get("mask"), letters.get("H", 1), letters.get("B", 1)
    if mask is None or mask.ndim < 4 or mask.shape[-3] != 1 or mask.ndim > 4 or mask.shape[0] != B:
        return {}
    n, m = mask.shape[-2:]
    return {"mask": np.tile(mask.reshape(B, n, m), (H, 1, 1)).reshape(B, H, n, m)}


def _lower_triangle(given: Options, letters: dict[str, int]) -> Options:
    n, m = letters["n"], letters.get("m", letters["n"])
    lower = np.tri(n, m, dtype=bool)
    return {"mask": lower if given.get("mask") is None else lower & given["mask"]}


def _kept_scores(given: Options, letters: dict[str, int]) -> Options:
    keep = given.get("keep")
    if keep is None:
        return {}
    mask = keep if given.get("mask") is None else keep & given["mask"]
    return {"mask": mask, "keep": None, "p": 0.0}


def _offset(by: Callable[[int, int], int]) -> Reading:
    """`by` is given the offset and m - n."""

    def read(given: Options, letters: dict[str, int]) -> Options:
        if not given.get("causal"):
            return {}
        apart = letters.get("m", letters.get("n", 0)) - letters.get("n", 0)
        return {"query_offset": by(int(given.get("query_offset", 0)), apart)}

    return read


def _scaled_bias(given: Options, letters: dict[str, int]) -> Options:
    bias, scale = given.get("bias"), given.get("scale")
    factor = 1 / math.sqrt(letters["c"]) if scale is None else float(scale)
    if bias is None:
        return {}
    return {"bias": np.where(np.isneginf(bias), bias, bias * factor)}


def _without_bias(given: Options, letters: dict[str, int]) -> Options:
    bias = given.get("bias")
    return {} if bias is None else {"bias": np.where(np.isneginf(bias), bias, 0.0)}


def _negated_bias(given: Options, letters: dict[str, int]) -> Options:
    bias = given.get("bias")
    return {} if bias is None else {"bias": np.where(np.isneginf(bias), bias, -bias)}


def _axis(change: Callable[[int], int], least: int = 1) -> Reading:
    def read(given: Options, letters: dict[str, int]) -> Options:
        axes = letters["axes"]
        return {"axis": change(int(given.get("axis", -1)) % axes) % axes} if axes >= least else {}

    return read


IGNORED, INVERTED, VALUE = "option_ignored", "option_inverted", "option_value"
Entry = tuple[str, dict[str, Any], Reading, float]

READINGS: dict[str, tuple[Entry, ...]] = {
    "scale": (
        (IGNORED, {"option": "scale"}, lambda given, _: {"scale": None}, 1.5),
        (
            VALUE,
            {"option": "scale", "got": "its default where it is 0"},
            lambda given, _: {"scale": given.get("scale") or None},
            2.0,
        ),
        ("wrong_scale", {"stage": "scaled", "named": "none"}, _scale(lambda s: 1.0), 1.5),
        ("wrong_scale", {"stage": "scaled", "named": "none, whatever scale says"}, _scale(lambda s: 1.0, True), 1.8),
        ("wrong_scale", {"stage": "scaled", "named": "1/c"}, _scale(lambda s: 1 / s["c"]), 1.6),
        ("wrong_scale", {"stage": "scaled", "named": "sqrt(c)"}, _scale(lambda s: math.sqrt(s["c"])), 1.7),
        ("wrong_scale", {"stage": "scaled", "named": "c"}, _scale(lambda s: float(s["c"])), 1.8),
        ("wrong_scale", {"stage": "scaled", "named": "1/sqrt(d)"}, _scale(lambda s: s["d"] ** -0.5), 1.7),
        ("wrong_scale", {"stage": "scaled", "named": "1/sqrt(H c)"}, _scale(lambda s: (s["H"] * s["c"]) ** -0.5), 1.7),
        ("wrong_scale", {"stage": "scaled", "named": "1/sqrt(m)"}, _scale(lambda s: s.get("m", s["n"]) ** -0.5), 1.7),
        ("wrong_scale", {"stage": "scaled", "named": "1/sqrt(n)"}, _scale(lambda s: s["n"] ** -0.5), 1.8),
        ("wrong_scale", {"stage": "scaled", "named": "1/sqrt(e)"}, _scale(lambda s: s["e"] ** -0.5), 1.8),
        ("wrong_scale", {"stage": "scaled", "named": "1/n"}, _scale(lambda s: 1 / s["n"]), 1.9),
        ("wrong_scale", {"stage": "scaled", "named": "1/d"}, _scale(lambda s: 1 / s["d"]), 1.9),
    ),
    "mask": (
        (IGNORED, {"option": "mask"}, _ignored(mask=None), 1.5),
        (IGNORED, {"option": "mask, bias and causal"}, _ignored(mask=None, bias=None, causal=False), 2.5),
        (IGNORED, {"option": "mask and bias"}, _ignored(mask=None, bias=None), 2.4),
        (IGNORED, {"option": "mask and causal"}, _ignored(mask=None, causal=False), 2.4),
        ("transposed", {"stage": "mask", "term": "mask"}, _transposed_mask, 2.0),
        ("some_for_all", {"stage": "mask", "term": "mask", "which": "the first"}, _first_mask, 2.0),
        ("wrong_order", {"stage": "mask"}, _tiled_mask, 2.0),
    ),
    "bias": (
        (IGNORED, {"option": "bias"}, _ignored(bias=None), 1.5),
        (IGNORED, {"option": "bias and causal"}, _ignored(bias=None, causal=False), 2.4),
        (VALUE, {"option": "bias", "got": "its -inf alone"}, _without_bias, 1.8),
        ("wrong_factor", {"stage": "bias", "factor": "scale", "named": "scale", "term": "bias"}, _scaled_bias, 1.8),
        ("wrong_sign", {"stage": "bias", "term": "bias"}, _negated_bias, 1.8),
    ),
    "causal": (
        (IGNORED, {"option": "causal"}, _ignored(causal=False), 1.5),
        (VALUE, {"option": "causal", "got": "True, always"}, lambda given, _: {"causal": True}, 1.6),
        (VALUE, {"option": "causal", "got": "True, always, without an offset"}, _lower_triangle, 1.7),
        (
            VALUE,
            {"option": "causal", "got": "False where a mask is given"},
            lambda given, _: {"causal": bool(given.get("causal")) and given.get("mask") is None},
            2.0,
        ),
        ("causal_shifted", {"stage": "causal", "by": -1}, _offset(lambda offset, _: offset - 1), 1.6),
        ("causal_shifted", {"stage": "causal", "by": 1}, _offset(lambda offset, _: offset + 1), 1.6),
        ("causal_shifted", {"stage": "causal", "by": "n - m"}, _offset(lambda offset, apart: offset - apart), 1.8),
        ("causal_aligned", {"stage": "causal"}, _offset(lambda offset, apart: offset + apart), 1.7),
    ),
    "query_offset": (
        (IGNORED, {"option": "query_offset"}, _offset(lambda offset, _: 0), 1.5),
        (VALUE, {"option": "query_offset", "got": "its negative"}, _offset(lambda offset, _: -offset), 1.7),
        (VALUE, {"option": "query_offset", "got": "m - n"}, _offset(lambda offset, apart: apart), 1.9),
        (VALUE, {"option": "query_offset", "got": "twice"}, _offset(lambda offset, _: 2 * offset), 2.0),
    ),
    "keep": (
        (IGNORED, {"option": "keep"}, _ignored(keep=None, p=0.0), 1.4),
        (
            INVERTED,
            {"option": "keep"},
            lambda given, _: {"keep": ~given["keep"]} if given.get("keep") is not None else {},
            1.6,
        ),
        ("before_softmax", {"stage": "A * Z"}, _kept_scores, 1.8),
        (
            "before_softmax",
            {"stage": "A * Z"},
            lambda given, s: {"mask": kept["mask"]} if (kept := _kept_scores(given, s)) else {},
            1.9,
        ),
    ),
    "p": (
        (IGNORED, {"option": "p"}, _ignored(p=0.0), 1.7),
        (
            VALUE,
            {"option": "p", "got": "1 - p"},
            lambda given, _: {"p": 1.0 - float(given["p"])} if given.get("keep") is not None and "p" in given else {},
            1.6,
        ),
    ),
    "epsilon": (
        (IGNORED, {"option": "epsilon"}, _ignored(epsilon=1e-5), 1.5),
        *(
            (
                VALUE,
                {"option": "epsilon", "got": e},
                lambda given, _, e=e: {} if "epsilon" in given else {"epsilon": e},
                2.0,
            )
            for e in (1e-6, 1e-8, 1e-12, 1e-3, 0.0)
        ),
        *(
            (VALUE, {"option": "epsilon", "got": e}, lambda given, _, e=e: {"epsilon": e}, 2.1)
            for e in (1e-6, 1e-8, 1e-12, 1e-3, 0.0)
        ),
    ),
    "axis": (
        (IGNORED, {"option": "axis"}, _axis(lambda axis: -1), 1.5),
        (
            "wrong_axis",
            {"stage": "axis", "axis": "the axis before the one meant"},
            _axis(lambda axis: axis - 1, 2),
            1.8,
        ),
        ("wrong_axis", {"stage": "axis", "axis": "the first axis"}, _axis(lambda axis: 0), 1.8),
    ),
    "ignore_index": (
        (IGNORED, {"option": "ignore_index"}, _ignored(ignore_index=None), 1.5),
        (
            VALUE,
            {"option": "ignore_index", "got": "none where it is 0"},
            lambda given, _: {"ignore_index": given.get("ignore_index") or None},
            1.7,
        ),
        (VALUE, {"option": "ignore_index", "got": -100}, lambda given, _: {"ignore_index": -100}, 1.8),
        (VALUE, {"option": "ignore_index", "got": 0}, lambda given, _: {"ignore_index": 0}, 1.9),
        (VALUE, {"option": "ignore_index", "got": -1}, lambda given, _: {"ignore_index": -1}, 1.9),
    ),
}
