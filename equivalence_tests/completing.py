"""A case of the table for a candidate that insists on what the case lacks, or does not take what may be left out."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from equivalence_tests.cases import Case
from equivalence_tests.signatures import OPTIONAL

NEUTRAL = {"causal": False, "query_offset": 0, "p": 0.0, "epsilon": 1e-5, "axis": -1, "ignore_index": -100}


def without_optional(case: Case, op: str, taken: Collection[str]) -> Case:
    """The case without the optional operands that a candidate does not take: it is a case of the op all the same."""
    lost = [name for name in OPTIONAL.get(op, ()) if name in case.operands and name not in taken and name != "dC"]
    return replace(case, operands={n: X for n, X in case.operands.items() if n not in lost}) if lost else case


def completed(case: Case, op: str, required: Collection[str]) -> Case:
    """The case with a neutral value for each operand and option that a candidate cannot do without: nothing is masked,
    nothing is dropped, a bias and a first state are 0, a scale is its default."""
    operands, options = dict(case.operands), dict(case.options)
    for name in required:
        if name in operands or name in options:
            continue
        value = _neutral(name, op, case)
        if value is None:
            continue
        (operands if name in OPTIONAL.get(op, ()) else options)[name] = value
    return replace(case, operands=operands, options=options)


def _neutral(name: str, op: str, case: Case) -> Any:
    """The value that changes nothing, or None if there is none."""
    plain: dict[str, Any] = {
        "causal": False,
        "query_offset": 0,
        "p": 0.0,
        "epsilon": 1e-5,
        "axis": -1,
        "ignore_index": -100,
    }
    if name in plain:
        return plain[name]
    if op == "linear" and name == "bias":
        return np.zeros(case.operands["weight"].shape[0])
    if op == "rnn" and name == "h0":
        return np.zeros((*case.operands["X"].shape[:-2], case.operands["W_hh"].shape[0]))
    if name == "keep" and op == "dropout":
        return np.ones(case.operands["X"].shape, bool)
    first = next(iter(case.operands.values()))
    if name == "scale" and "Wq" not in case.operands and "Q" in case.operands:
        return 1.0 / math.sqrt(first.shape[-1])
    if name == "scale" and "Wq" in case.operands:
        return 1.0 / math.sqrt(case.operands["Wq"].shape[-1] // case.options.get("num_heads", 1))
    if name in ("mask", "bias", "keep") and first.ndim > 1:
        shape = _weights(case)
        return np.zeros(shape) if name == "bias" else np.ones(shape, bool)
    return None


def _weights(case: Case) -> tuple[int, ...]:
    """The shape (..., n, m) of an attention's weights."""
    if "Q" in case.operands:
        Q, K = case.operands["Q"], case.operands["K"]
        return (*Q.shape[:-1], K.shape[-2])
    X = case.operands["X"]
    heads = (case.options["num_heads"],) if "num_heads" in case.options else ()
    return (*X.shape[:-2], *heads, X.shape[-2], X.shape[-2])
