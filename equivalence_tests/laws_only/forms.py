"""How a backward is to be called: what its parameters stand for, read from their names and one answer of its forward.

`backward(dY, cache)` with a forward that returns (Y, cache), or `(cache, dY)`, or `(dY, *rest)` with (Y, *rest);
`backward(dY, *operands)`, where a parameter that is called as an output stands for Y; `backward(dY)` of a layer that
remembers its last forward; `backward(*operands)` of a loss, or the derivative of an elementwise function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

OUTPUTS = frozenset(
    ("y", "out", "output", "outputs", "result", "a", "p", "s", "h", "probs", "activation", "y_hat", "yhat")
)
CACHES = frozenset(("cache", "ctx", "context", "saved", "memory"))


@dataclass(frozen=True)
class Form:
    """`split` gives Y and what is kept of an answer; `pull` is of (dY, operands, options, Y, what was kept)."""

    kind: str
    split: Callable[[Any], tuple[Any, Any]]
    pull: Callable[[Any, dict[str, Any], dict[str, Any], Any, Any], Any]


def form_of(forward: Any, backward: Any, answer: Any, operands: dict[str, Any]) -> Form:
    """The form of a backward; `answer` is what the forward returned for these operands."""
    names = positional(backward)
    if names is None:  # any number of parameters, or nothing is known of them
        return _functional(forward, backward, answer, operands)
    several = isinstance(answer, tuple) and len(answer) > 1
    if len(names) == 1:
        return _of_one(forward, backward, answer, operands, names[0])
    if len(names) == 2 and several and len(answer) == 2 and names[0].lower() in CACHES:
        return Form("pair", tuple, lambda dY, given, chosen, Y, cache: backward(cache, dY))
    if takes_cache(forward, backward, answer):
        return Form("pair", tuple, lambda dY, given, chosen, Y, cache: backward(dY, cache))
    known = _operand_names(forward, operands)
    if several and len(names) == len(answer) > 2 and not all(name.lower() in known for name in names[1:]):
        return Form("pair", lambda found: (found[0], found[1:]), lambda dY, g, o, Y, rest: backward(dY, *rest))
    of_operands = len(names) == len(operands) and all(name.lower() in known for name in names)
    if of_operands and not isinstance(answer, tuple) and np.ndim(answer) == 0:
        return Form("loss", _whole, lambda dY, g, o, Y, k: _times(dY, backward(*g.values(), **named_by(backward, o))))
    return _functional(forward, backward, answer, operands)


def _of_one(forward: Any, backward: Any, answer: Any, operands: dict[str, Any], name: str) -> Form:
    """A backward of one parameter: the upstream gradient, the cache of a loss, or the operand of a derivative."""
    if isinstance(answer, tuple) and len(answer) == 2 and np.ndim(answer[0]) == 0:
        return Form("loss", tuple, lambda dY, given, chosen, Y, cache: _times(dY, backward(cache)))
    if len(operands) == 1 and name.lower() in _operand_names(forward, operands):
        return Form("derivative", _whole, lambda dY, given, chosen, Y, kept: _times(dY, backward(*given.values())))

    def pull(dY: Any, given: dict[str, Any], chosen: dict[str, Any], Y: Any, kept: Any) -> Any:
        forward(*given.values(), **chosen)  # what it remembers is its last call
        return backward(dY)

    return Form("layer", _whole, pull)


def _functional(forward: Any, backward: Any, answer: Any, operands: dict[str, Any]) -> Form:
    """A backward of (dY, *operands), or of some of them, or of the output."""
    known, names = _operand_names(forward, operands), positional(backward)
    by_keyword = (
        {} if names is None else {name: known[name.lower()] for name in _by_default(backward) if name.lower() in known}
    )
    order = list(operands)

    def chosen_for(given: dict[str, Any], Y: Any) -> list[Any]:
        if names is None:
            return list(given.values())
        wanted = [known.get(name.lower()) for name in names[1:]]
        rest = [name for name in order if name not in wanted and name not in by_keyword.values()]
        values = []
        for name, operand in zip(names[1:], wanted, strict=True):
            if operand is None and name.lower() in OUTPUTS:
                values.append(Y)
            elif operand is not None or rest:
                values.append(given[operand or rest.pop(0)])
        return values

    def pull(dY: Any, given: dict[str, Any], chosen: dict[str, Any], Y: Any, kept: Any) -> Any:
        named = {name: given[operand] for name, operand in by_keyword.items()}
        return backward(dY, *chosen_for(given, Y), **named, **named_by(backward, chosen))

    return Form("functional", _first if _has_cache(answer, operands) else _whole, pull)


def _has_cache(answer: Any, operands: dict[str, Any]) -> bool:
    """Whether the second of two things is no output: an operand, a nest, or no array of floating-point numbers."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        return False
    second = answer[1]
    if second is None or isinstance(second, tuple | list | dict) or any(second is X for X in operands.values()):
        return True
    return np.ndim(second) > 0 and "float" not in str(getattr(second, "dtype", ""))


def _whole(answer: Any) -> tuple[Any, Any]:
    return answer, None


def _first(answer: Any) -> tuple[Any, Any]:
    return answer[0], answer[1]


def _times(dY: Any, gradients: Any) -> Any:
    if isinstance(gradients, tuple | list):
        return tuple(_times(dY, each) for each in gradients)
    if isinstance(gradients, dict):
        return {name: _times(dY, each) for name, each in gradients.items()}
    return None if gradients is None else dY * gradients


def _operand_names(forward: Any, operands: dict[str, Any]) -> dict[str, str]:
    """The operand behind each name in lower case: its own, or that of the forward's parameter."""
    parameters = parameter_names(forward, len(operands))
    return {said.lower(): name for said, name in zip(parameters, operands, strict=True)} | {
        n.lower(): n for n in operands
    }


def takes_cache(forward: Any, backward: Any, answer: Any) -> bool:
    """Whether a backward is of (dY, cache): it has two parameters, the forward gives two things, and the second
    parameter is not called as the forward's first (then it is of (dY, X)).
    """
    parameters = positional(backward)
    if parameters is None or not isinstance(answer, tuple) or len(answer) != 2:
        return False
    first = positional(forward) or ["", ""]
    return len(parameters) == 2 and parameters[1] not in first[:1]


def positional(function: Any) -> list[str] | None:
    """The names of the parameters that have to be given by position; None if any number may be, or nothing is known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]


def _by_default(function: Any) -> list[str]:
    """The parameters that may be given by position and need not be."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is not p.empty]


def parameter_names(function: Any, count: int) -> list[str]:
    """Names for so many operands: the parameters', as far as there are any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = {}.values()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return named + [f"X{i}" for i in range(len(named), count)]


def named_by(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Those options that a function's signature names, or all if it takes any keyword."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}
