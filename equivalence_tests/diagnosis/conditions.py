"""NaN and infinity where numbers should be: under which condition of the input they arise, and in which line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import is_floating
from equivalence_tests.diagnosis.close import Seen, Tensor
from equivalence_tests.diagnosis.formula import tensor_stage
from equivalence_tests.findings import Finding
from equivalence_tests.ops import Op

FEW_OTHERS = 0.25  # of the cases that are finite, in which a condition may hold too


@dataclass(frozen=True)
class Condition:
    """What a case may have that divides 0 by 0 or overflows: how it is said, and the line in which it does so."""

    holds: Callable[[Op, Seen], bool]
    en: str
    es: str
    stage: str = ""


def _p(value: float) -> Callable[[Op, Seen], bool]:
    return lambda op, seen: seen.case.options.get("p") == value


def _row_of_nothing(op: Op, seen: Seen) -> bool:
    return "attention" in op.name and bool(_empty_rows(seen).any())


def _empty_rows(seen: Seen) -> Array:
    """Rows of the output that are exactly 0: there is nothing to attend to, or nothing is kept."""
    exact = seen.tensors["C"].exact if "C" in seen.tensors else np.ones(1)
    return np.asarray(~exact.any(-1))


def _masked(op: Op, seen: Seen) -> bool:
    options = seen.case.options
    mask, bias = options.get("mask"), options.get("bias")
    hidden = mask is not None and not bool(np.all(mask))
    return hidden or bool(options.get("causal")) or (bias is not None and bool(np.isneginf(bias).any()))


def _given_mask(op: Op, seen: Seen) -> bool:
    return seen.case.options.get("mask") is not None


def _constant_row(op: Op, seen: Seen) -> bool:
    X = seen.case.operands.get("X")
    return op.name == "layer_norm" and X is not None and bool((X[..., :1] == X).all(-1).any())


def _minus_infinity(op: Op, seen: Seen) -> bool:
    return any(is_floating(x) and bool(np.isneginf(x).any()) for x in seen.case.operands.values())


def _far(op: Op, seen: Seen) -> bool:
    """An operand beyond what exp takes."""
    most = np.log(seen.precision.largest)
    return any(is_floating(x) and bool((np.abs(x) > most).any()) for x in seen.case.operands.values())


def _hard(op: Op, seen: Seen) -> bool:
    return seen.case.hard


CONDITIONS = (
    Condition(_p(1.0), "where p is 1 (0/0, with nothing kept)", "donde p es 1 (0/0: no se conserva nada)", "p"),
    Condition(_p(0.0), "where p is 0", "donde p es 0", "p"),
    Condition(
        _row_of_nothing,
        "in rows with nothing to attend to (the exponentials sum to 0: 0/0)",
        "en filas sin nada que atender (las exponenciales suman 0: 0/0)",
        "A",
    ),
    Condition(
        _constant_row,
        "where a row is constant (its variance is 0)",
        "donde una fila es constante (su varianza es 0)",
        "r",
    ),
    Condition(_minus_infinity, "where an operand holds -inf", "donde un operando contiene -inf"),
    Condition(
        _masked,
        "where keys are masked (-inf minus -inf, or 0 times infinity)",
        "donde hay claves enmascaradas (-inf menos -inf, o 0 por infinito)",
        "A",
    ),
    Condition(
        _given_mask,
        "wherever a mask is given, whatever it hides (0 times infinity)",
        "siempre que se da una máscara, oculte o no (0 por infinito)",
        "mask",
    ),
    Condition(
        _far,
        "where numbers are beyond what exp takes (it overflows)",
        "donde hay números que exp no admite (se desborda)",
    ),
    Condition(_hard, "only where numbers are extreme or cancel", "solo con números extremos o que se cancelan"),
)


def nonfinite(op: Op, seen: Sequence[Seen], names: Sequence[str]) -> Finding | None:
    """In how many cases, in which tensor first, and under which condition of the input."""
    odd = [(each, name) for each in seen if (name := _first_odd(each, names))]
    if not odd:
        return None
    cases = [each for each, _ in odd]
    finite = [each for each in seen if not each.raised and each not in cases]
    each, name = odd[0]
    tensor = each.tensors[name]
    assert tensor.got is not None
    got = str(float(tensor.got[_odd(tensor)].flat[0]))
    condition = _condition(op, cases, finite)
    said = {"when": f", {condition.en}" if condition else "", "when_es": f", {condition.es}" if condition else ""}
    numbers = {"got": got, "cases": len(cases), "hard": all(each.case.hard for each in cases), **said}
    stage = (condition.stage if condition and _has(op, condition.stage) else "") or _fragile(op, name)
    return Finding("nonfinite", name, stage, numbers)


def _has(op: Op, stage: str) -> bool:
    return "attention" in op.name or stage in ("p", "r")


def _condition(op: Op, cases: Sequence[Seen], finite: Sequence[Seen]) -> Condition | None:
    """What all of these cases have, and of those that are finite none, or hardly one."""
    told = []
    for order, condition in enumerate(CONDITIONS):
        if all(condition.holds(op, each) for each in cases):
            others = sum(condition.holds(op, each) for each in finite)
            if others <= FEW_OTHERS * len(finite):
                told.append((others, order, condition))
    return min(told, key=lambda each: each[:2])[2] if told else None


def _first_odd(seen: Seen, names: Sequence[str]) -> str:
    return next((name for name in names if name in seen.tensors and _odd(seen.tensors[name]).any()), "")


def _odd(tensor: Tensor) -> Array:
    """Where a number should be and is none."""
    if tensor.got is None or tensor.got.shape != tensor.exact.shape:
        return np.zeros(tensor.exact.shape, bool)
    return np.asarray(tensor.counted & np.isfinite(tensor.exact) & ~np.isfinite(tensor.got))


def _fragile(op: Op, name: str) -> str:
    """The line in which numbers overflow or divide by 0, where there is one."""
    if "attention" in op.name or op.name == "softmax":
        return "A"
    return {"cross_entropy": "log P", "log_softmax": "Y", "layer_norm": "r"}.get(op.name, tensor_stage(op, name))
