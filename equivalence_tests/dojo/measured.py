"""What rounding may do to a right answer, measured from the solution's own code.

The solution runs sixteen times in float64 with the result of every operation and call, and every number given to it,
multiplied by 1 +- u; the budget of an element is eight times the root mean square of its deviation, plus the smallest
normal number. The truth is the solution run in extended precision.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import ORACLE, PRECISIONS, RUNS, Array

FACTOR = 8.0
HOOK = "_rounded_"


class Rounding:
    """Moves floating numbers by a unit, up or down: equal numbers alike, and each call otherwise than the one before."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(self, value)) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {name: self(each) for name, each in value.items()}
        if isinstance(value, complex | np.complexfloating) or getattr(getattr(value, "dtype", None), "kind", "") == "c":
            return self(np.real(value)) + 1j * self(np.imag(value))
        floating = isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
        if not floating:
            return value
        array = np.ascontiguousarray(value, np.float64)
        factor, shift = (int(self.rng.integers(0, 2**63)) for _ in range(2))
        bits = array.view(np.uint64) * np.uint64(2 * factor + 1) + np.uint64(shift)
        signs = 2.0 * (bits >> np.uint64(63)).astype(np.float64) - 1.0
        moved = array * (1.0 + PRECISIONS["float64"].unit * 2.0 * signs)
        moved = np.where(np.isfinite(array), moved, array).reshape(np.shape(value))
        return moved if isinstance(value, np.ndarray) else np.float64(moved)


class _EveryLine(ast.NodeTransformer):
    """Each operation and each call inside a function goes through the hook."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return _hooked(self.generic_visit(node))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return _hooked(self.generic_visit(node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = [self.visit(each) for each in node.body]  # what stands in its signature is a constant
        return node


def _hooked(node: Any) -> ast.AST:
    return ast.copy_location(ast.Call(ast.Name(HOOK, ast.Load()), [node], []), node)


def namespace_of(code: str) -> dict[str, Any]:
    """What a file defines."""
    found: dict[str, Any] = {"__name__": "solution"}
    exec(compile(code, "solution", "exec"), found)
    return found


@cache
def _shaken(code: str, function: str) -> tuple[Callable[..., Any], Rounding]:
    """The function of a file with every operation's result moved, and what moves them."""
    tree, rounding = ast.parse(code), Rounding(0)
    tree.body = [_EveryLine().visit(node) if isinstance(node, ast.FunctionDef) else node for node in tree.body]
    found: dict[str, Any] = {"__name__": "solution", HOOK: rounding}
    exec(compile(ast.fix_missing_locations(tree), "solution", "exec"), found)
    return found[function], rounding


def in_extended(value: Any) -> Any:
    """Floating numbers in extended precision, complex ones too; all else as it is."""
    if isinstance(value, tuple | list):
        return type(value)(map(in_extended, value)) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {name: in_extended(each) for name, each in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return value.astype(ORACLE if value.dtype.kind == "f" else np.clongdouble)
    return ORACLE(value) if isinstance(value, np.floating) else value


def leaves(value: Any, place: str) -> list[tuple[str, Any]]:
    """Every array, number, string, ... of a nest, each with the place where it stands."""
    if isinstance(value, dict):
        return [each for key, item in value.items() for each in leaves(item, f"{place}[{key!r}]")]
    if isinstance(value, tuple | list):
        return [each for index, item in enumerate(value) for each in leaves(item, f"{place}[{index}]")]
    return [(place, value)]


def is_floating(value: Any) -> bool:
    return isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def budgets(code: str, function: str, keywords: dict[str, Any], truth: Any) -> dict[str, Array]:
    """For every floating leaf of the truth, how far a right answer may be from it."""
    exact = {place: np.asarray(value, ORACLE) for place, value in leaves(truth, "") if is_floating(value)}
    if not exact:
        return {}
    shaken, rounding = _shaken(code, function)
    squares = {place: np.zeros(value.shape, ORACLE) for place, value in exact.items()}  # of 1e-240, too
    with np.errstate(all="ignore"):
        for run in range(RUNS):
            rounding.rng = np.random.default_rng(run)
            answer = dict(leaves(shaken(**rounding(keywords)), ""))
            for place, value in exact.items():
                got = np.asarray(answer.get(place, np.nan), ORACLE)
                squares[place] += np.where(got == value, ORACLE(0), got - value) ** 2  # infinities are equal
    tiny = PRECISIONS["float64"].tiny
    return {place: np.asarray(FACTOR * np.sqrt(s / RUNS) + tiny, np.float64) for place, s in squares.items()}
