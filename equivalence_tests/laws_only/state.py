"""What a function keeps between its calls, so that a call can be made as if it were the first one."""

from __future__ import annotations

import ast
import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PLAIN = (bool, int, float, complex, str, type(None), np.ndarray, np.generic, dict, list, set)


class Binding(NamedTuple):
    """A variable: its value now, and how to give it another one."""

    now: Callable[[], Any]
    bind: Callable[[Any], Any]


class Place(NamedTuple):
    """A variable, its value at first, and a copy of what that value held."""

    variable: Binding
    value: Any
    held: Any


class State:
    """What the functions can reach and may change: global variables that they name, objects, what they close over."""

    def __init__(self, *functions: Any) -> None:
        self.places: list[Place] = []
        for value, variable in _reached(functions):
            with suppress(Exception):  # what cannot be copied is left as it is
                self.places.append(Place(variable, value, deepcopy(_content(value))))

    def keep_changed(self) -> None:
        """Forget what is still as it was."""
        self.places = [place for place in self.places if _changed(place)]

    def restore(self) -> None:
        """Everything as it was when this was made."""
        for place in self.places:
            held = deepcopy(place.held)
            if isinstance(place.value, np.ndarray) and place.value.flags.writeable:
                place.value[...] = held
            elif isinstance(place.value, list):
                place.value[:] = held
            elif isinstance(place.value, dict | set):
                place.value.clear()
                place.value.update(held)
            elif not isinstance(place.value, PLAIN):
                vars(place.value).clear()
                vars(place.value).update(held)
            place.variable.bind(place.value)


def _same(value: Any) -> Any:
    return value


def _content(value: Any) -> Any:
    return value if isinstance(value, PLAIN) else dict(vars(value))


def _changed(place: Place) -> bool:
    try:
        return place.variable.now() is not place.value or pickle.dumps(_content(place.value)) != pickle.dumps(
            place.held
        )
    except Exception:  # what cannot be compared may have changed
        return True


def _reached(functions: tuple[Any, ...]) -> Iterator[tuple[Any, Binding]]:
    """Each value once, with what reads and binds it: through the functions' code, and that of their module's own."""
    waiting, seen = [inspect.unwrap(each) for each in functions], set[int]()
    while waiting:
        function = waiting.pop()
        if id(function) in seen or inspect.ismodule(function):
            continue
        seen.add(id(function))
        owner = getattr(function, "__self__", None)
        if owner is not None:
            waiting.append(owner)
        elif not inspect.isroutine(function) and not inspect.isclass(function) and hasattr(function, "__dict__"):
            yield function, Binding(partial(_same, function), _same)
            waiting += [each for each in vars(type(function)).values() if inspect.isfunction(each)]
        scope, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
        places = (
            [Binding(partial(scope.get, name), partial(scope.__setitem__, name)) for name in code.co_names]
            if code
            else []
        )
        for cell in getattr(function, "__closure__", None) or ():
            places.append(
                Binding(partial(getattr, cell, "cell_contents", None), partial(setattr, cell, "cell_contents"))
            )
        for place in places:
            value = place.now()
            if isinstance(value, PLAIN):
                yield value, place
            elif getattr(value, "__module__", None) == getattr(function, "__module__", ""):
                waiting.append(value)


def accumulating_line(backward: Any) -> tuple[int, str] | None:
    """The line, by number and text, in which a backward adds to something that outlives its call; None if none is found."""
    code = getattr(inspect.unwrap(backward), "__code__", None) or getattr(type(backward).__call__, "__code__", None)
    path = Path(getattr(code, "co_filename", ""))
    try:
        source = path.read_text()
        tree = ast.parse(source)
    except (OSError, ValueError, SyntaxError):
        return None
    defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    own = [
        node for node in defined if code is not None and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
    ]
    for node in [*own, *(node for node in defined if "backward" in node.name)]:
        for inner in ast.walk(node):
            if isinstance(inner, ast.AugAssign) and isinstance(inner.op, ast.Add) and _outlives(inner.target, node):
                return inner.lineno, source.splitlines()[inner.lineno - 1].strip()
    return None


def _outlives(target: ast.expr, function: ast.FunctionDef) -> bool:
    """Whether what is added to is an attribute, a global variable, or an element of one that the function does not make."""
    root: ast.expr = target
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name):
        return False
    inside = list(ast.walk(function))
    if isinstance(target, ast.Name):
        return any(isinstance(node, ast.Global | ast.Nonlocal) and target.id in node.names for node in inside)
    made = {
        name.id
        for node in inside
        if isinstance(node, ast.Assign)
        for each in node.targets
        for name in ast.walk(each)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    return root.id not in made
