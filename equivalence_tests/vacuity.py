"""Can a test fail? The user's own test of a backward is run against gradients that are wrong in known ways.

Each gradient that the backward returns is broken in turn, all else left right: zero, negated, doubled, transposed, NaN,
and aliased, where the memory that comes back is the upstream gradient or another argument. A test that passes with one
of these does not see it. Then the smallest relative error that the test can see is found by bisection, once for a
gradient that is a little too large and once for one that is a little off in a random direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equivalence_tests.implementations import one_line

Test = Callable[[Callable[..., Any]], Any]
Path = tuple[Any, ...]
SMALLEST = 2.0**-60
RATIO = 1.02  # of the two errors between which the threshold lies: 2 digits


@dataclass(frozen=True)
class Sight:
    """What a test sees. `unseen` are the breaks, by gradient, with which it passes; `raised` those that it saw by an
    exception of its own, no assertion; `smallest` by gradient and kind the smallest relative error that fails it, infinite
    if even an error of 1 passes; `untried` what could not be made.
    """

    unseen: tuple[str, ...]
    raised: tuple[str, ...]
    untried: tuple[str, ...]
    smallest: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"does not see a gradient that is {what}" for what in self.unseen]
        lines += [f"sees by an exception, not by an assertion: {what}" for what in self.raised]
        lines += [f"could not be tried: {what}" for what in self.untried]
        for what, error in self.smallest.items():
            said = f"{error:.2g}" if math.isfinite(error) else "none, not even 1"
            lines.append(f"smallest relative error that the test sees, {what}: {said}")
        return "\n".join(lines)


def look(test: Test, backward: Callable[..., Any]) -> Sight:
    """Run the test with the right backward, with every broken one, and with ever smaller errors.

    AssertionError if it fails for the right one or never calls it: then there is nothing to learn.
    """
    __tracebackhide__ = True
    name = getattr(test, "__name__", "the test")
    seen: list[Path] = []
    steady = _Watch(backward, seen)
    failed = _failure(test, steady)
    if failed is not None:
        raise AssertionError(f"{name} fails for the right backward already: {one_line(failed)}") from failed
    if not seen:
        raise AssertionError(f"{name} never calls the backward that it is given, so it passes for any")
    paths = list(dict.fromkeys(seen))
    unseen, raised, untried, smallest = [], [], [], {}
    for path in paths:
        where = f" ({_said(path)})" if len(paths) > 1 else ""
        for how in BREAKS:
            broken = Broken(backward, path, how)
            failure = _failure(test, broken)
            if failure is None and not broken.able:
                untried.append(f"{how}{where}: {BREAKS[how][1]}")
            elif failure is None:
                unseen.append(f"{how}{where}" + ("" if broken.changed else ": in this test that is the right one"))
            elif not isinstance(failure, AssertionError):
                raised.append(f"{how}{where}: {one_line(failure)}")
        for kind, change in ERRORS.items():
            smallest[f"{kind}{where}"] = _threshold(test, backward, path, change)
    return Sight(tuple(unseen), tuple(raised), tuple(untried), smallest)


def _failure(test: Test, backward: Callable[..., Any]) -> BaseException | None:
    """What the test raises, or None. Ctrl-C stays the user's."""
    try:
        with np.errstate(all="ignore"):
            test(backward)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # pytest.fail raises no Exception
        return error
    return None


def _threshold(test: Test, backward: Callable[..., Any], path: Path, change: Callable[[Any, float], Any]) -> float:
    """The smallest relative error, to 2 digits, with which the test fails; bisected on the logarithm."""

    def sees(error: float) -> bool:
        return _failure(test, Broken(backward, path, lambda g, _: change(g, error))) is not None

    low, high = SMALLEST, 1.0
    if not sees(high):
        return math.inf
    if sees(low):
        return low
    while high > RATIO * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if sees(middle) else (middle, high)
    return high


# How a gradient is broken. Operators alone, so that arrays of any framework will do.


def _transposed(gradient: Any, _: Any) -> Any:
    """The last two axes swapped; where that is another shape, its numbers in that order in the old shape."""
    shape = tuple(gradient.shape)
    if len(shape) < 2 or 1 in shape[-2:]:
        return None
    return gradient.swapaxes(-1, -2).reshape(shape)


def _aliased(gradient: Any, arguments: tuple[Any, ...]) -> Any:
    """The upstream gradient itself, or else another argument of the gradient's shape."""
    alike = (x for x in _arrays(arguments) if tuple(x.shape) == tuple(np.shape(gradient)))
    return next(alike, None)


Break = Callable[[Any, Any], Any]
BREAKS: dict[str, tuple[Break, str]] = {
    "zero": (lambda g, _: g * 0, ""),
    "negated": (lambda g, _: -g, ""),
    "doubled": (lambda g, _: g * 2, ""),
    "transposed": (_transposed, "it has no two axes longer than 1"),
    "NaN": (lambda g, _: g * math.nan, ""),
    "aliased": (_aliased, "no argument of the backward has its shape"),
}


def _askew(gradient: Any, error: float) -> Any:
    """The gradient and `error` times its norm in a random direction, the same one at every call."""
    shape = tuple(np.shape(gradient))
    direction = np.random.default_rng(list(shape)).standard_normal(shape)
    direction = direction / np.sqrt((direction * direction).sum())
    norm = float((gradient * gradient).sum()) ** 0.5
    return gradient + _like(gradient, direction) * (error * norm)


ERRORS: dict[str, Callable[[Any, float], Any]] = {
    "gradient times (1 + e)": lambda g, e: g * (1.0 + e),
    "off in a random direction": _askew,
}


def _like(gradient: Any, array: Any) -> Any:
    """The array in the gradient's framework and dtype."""
    if hasattr(gradient, "new_tensor"):
        return gradient.new_tensor(array)
    return array.astype(gradient.dtype) if hasattr(gradient, "dtype") else array


@dataclass
class _Watch:
    """The right backward, which notes what it gives."""

    backward: Callable[..., Any]
    seen: list[Path]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        gradients = self.backward(*arguments, **keywords)
        self.seen += [path for path, _ in _leaves(gradients)]
        return gradients


@dataclass
class Broken:
    """The backward with one gradient broken. `able` if it could be broken in some call, `changed` if that made it wrong."""

    backward: Callable[..., Any]
    path: Path
    how: str | Break
    able: bool = False
    changed: bool = False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        change = BREAKS[self.how][0] if isinstance(self.how, str) else self.how
        return self._replace(self.backward(*arguments, **keywords), self.path, change, (*arguments, keywords))

    def _replace(self, value: Any, path: Path, change: Break, arguments: Any) -> Any:
        if path:
            if isinstance(value, dict):
                return {
                    k: self._replace(v, path[1:], change, arguments) if k == path[0] else v for k, v in value.items()
                }
            parts = [self._replace(v, path[1:], change, arguments) if i == path[0] else v for i, v in enumerate(value)]
            return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
        if value is None:
            return None
        broken = change(value, arguments)
        if broken is None:
            return value
        self.able = True
        self.changed = self.changed or not bool((broken == value).all() if hasattr(value, "shape") else broken == value)
        return broken


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every gradient with its place in a nest of tuples, lists and dicts."""
    if isinstance(value, tuple | list):
        for i, each in enumerate(value):
            yield from _leaves(each, (*path, i))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, (*path, name))
    elif value is not None:
        yield path, value


def _arrays(value: Any) -> Iterator[Any]:
    return (leaf for _, leaf in _leaves(value) if hasattr(leaf, "shape"))


def _said(path: Path) -> str:
    return "gradient " + " ".join(str(part + 1) if isinstance(part, int) else str(part) for part in path)
