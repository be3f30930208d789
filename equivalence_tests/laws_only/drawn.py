"""Where the operands of a trial come from: a line of shapes, a function of the user's, or operands at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.cases import SeededDraws
from equivalence_tests.laws_only.forms import parameter_names
from equivalence_tests.laws_only.pairs import floating, keyword_only
from equivalence_tests.laws_only.shapes import Shapes


class Drawn(NamedTuple):
    """Operands and options by name, float64; the upstream gradients if they are given; sizes by letter if known."""

    operands: dict[str, Any]
    options: dict[str, Any]
    upstream: tuple[Array, ...] = ()
    sizes: dict[str, int] = {}  # noqa: RUF012 (never changed)
    tensors: bool = False  # they came as torch's


def drawing(shapes: Shapes, seed: int) -> Callable[[int], Drawn]:
    def draw(index: int) -> Drawn:
        draws = SeededDraws(np.random.default_rng([seed, index]))
        operands, sizes = shapes.draw(draws, varied=index % 2 == 1)
        return Drawn(operands, {}, (), sizes)

    return draw


def asking(inputs: Any, forward: Any, seed: int) -> Callable[[int], Drawn]:
    if not callable(inputs):
        raise TypeError(f"inputs: a {type(inputs).__name__} came, expected a function of a NumPy generator")
    return lambda index: by_name(inputs(np.random.default_rng([seed, index])), forward)


def by_name(given: Any, forward: Any) -> Drawn:
    """Operands and options by name, of one array, a tuple in the forward's order, or a dict.

    TypeError if none of the operands has a gradient.
    """
    if hasattr(given, "__array__"):
        given = (given,)
    if isinstance(given, tuple | list):
        given = dict(zip(parameter_names(forward, len(given)), given, strict=True))
    if not isinstance(given, dict):
        raise TypeError(f"inputs: a {type(given).__name__} came, expected a tuple of operands or a dict by name")
    tensors = any(hasattr(value, "detach") for value in given.values())
    arrays = {name: _as_array(value) for name, value in given.items()}
    options = {name: value for name, value in arrays.items() if name in keyword_only(forward)}
    operands = {name: value for name, value in arrays.items() if name not in options}
    if not floating(operands):
        raise TypeError("inputs: no array of floating-point numbers came, expected one that has a gradient")
    return Drawn(operands, options, sizes=_sizes(operands), tensors=tensors)


def _sizes(operands: dict[str, Any]) -> dict[str, int]:
    """The length of every axis, by the name under which it can be read."""
    return {f"{name}.shape[{axis}]": n for name, X in operands.items() for axis, n in enumerate(np.shape(X))}


def _as_array(value: Any) -> Any:
    value = value.detach().cpu() if hasattr(value, "detach") else value
    return np.asarray(value) if hasattr(value, "__array__") else value
