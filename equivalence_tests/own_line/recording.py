"""What each statement of a candidate binds in one run, or other values in the place of what it binds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.own_line.places import Place

EVENTS = 20_000  # values of one run
LARGEST = 100_000  # elements of an array that is kept
BEAT = 0.5  # seconds
REPEATS = 600  # values that one place is followed through

Key = tuple[int, tuple[int | str, ...]]  # a place, and which part of a nest of tuples, lists and dicts


@dataclass
class Trail:
    """Every value of one part of one place, in the order in which they came; `reads` are what the statement read first."""

    values: list[Array] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # "array", "scalar" (a NumPy number), "number" (Python's)
    dtypes: list[str] = field(default_factory=list)
    reads: dict[str, Array] = field(default_factory=dict)
    scope: tuple[str, ...] = ()  # the names of all numbers and arrays at hand
    order: int = 0
    orders: list[int] = field(default_factory=list)
    broken: bool = False  # too many, or too large

    def stacked(self) -> Array | None:
        """All values along a new first axis; the value itself where there is one. None where shapes differ."""
        if self.broken or not self.values:
            return None
        if len(self.values) == 1:
            return self.values[0]
        return np.stack(self.values) if len({x.shape for x in self.values}) == 1 else None


class TooMuch(Exception):
    """The run has more values than are followed."""


class TooLong(BaseException):
    """The run takes too long: another value may have made a loop endless."""


def no_watch(_: str) -> None:
    """Do nothing."""


class Hook:
    """What the rewritten statements call. It either records, or puts other values in the place of what they bound."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.trails: dict[Key, Trail] = {}
        self.replaced: dict[Key, Callable[[Any, int], Any]] = {}
        self.numbers: set[int] = set()
        self.watched: dict[int, Callable[[Any, dict[str, Any], dict[str, Any]], Any]] = {}
        self.counts: dict[Key, int] = {}
        self.recording, self.events, self.until = False, 0, 0.0
        self.alive_at = 0.0
        self.watch: Callable[[str], None] = no_watch  # called now and then, to show that the search goes on
        self.known: dict[int, Array] = {}  # what an array held when it was seen last, by its identity
        self.alive: list[Any] = []  # so that no identity is given to another array

    def __call__(self, number: int, value: Any) -> Any:
        if time.monotonic() > self.until:
            raise TooLong
        if self.recording:
            self._record(number, value)
            return value
        if number in self.watched:
            frame = sys._getframe(1)
            return self.watched[number](value, frame.f_globals, dict(frame.f_locals))
        return self._put(number, (), value) if number in self.numbers else value

    def start(self, replaced: dict[Key, Callable[[Any, int], Any]] | None = None, recording: bool = False) -> None:
        self.recording, self.replaced, self.counts, self.events = recording, replaced or {}, {}, 0
        self.numbers, self.watched = {number for number, _ in self.replaced}, {}
        if recording:
            self.trails, self.known, self.alive = {}, {}, []

    def beat(self) -> None:
        """Say now and then that the search goes on."""
        now = time.monotonic()
        if now > self.alive_at + BEAT:
            self.alive_at = now
            self.watch("the user's own line")

    def _record(self, number: int, value: Any) -> None:
        place = self.places[number]
        if place.stored:
            array = as_array(value)
            before = self.known.get(id(value))
            if array is None or before is None or (place.called and _equal(before, array)):
                return
        frame = sys._getframe(2)
        for path, leaf in leaves(value):
            array = as_array(leaf)
            if array is None:
                continue
            self.events += 1
            if self.events > EVENTS:
                raise TooMuch
            self.known[id(leaf)] = array
            self.alive.append(leaf)
            trail = self.trails.get((number, path))
            if trail is None:
                trail = self.trails[(number, path)] = Trail(order=self.events)
                trail.reads, trail.scope = _read(place.reads, frame), _scope(frame)
            if trail.broken or array.size > LARGEST or len(trail.values) >= REPEATS:
                trail.broken = True
                continue
            trail.values.append(array)
            trail.orders.append(self.events)
            trail.kinds.append(kind_of(leaf))
            trail.dtypes.append(dtype_of(leaf))

    def _put(self, number: int, path: tuple[int | str, ...], value: Any) -> Any:
        key = (number, path)
        if key in self.replaced:
            count = self.counts.get(key, 0)
            self.counts[key] = count + 1
            new = self.replaced[key](value, count)
            if self.places[number].stored:
                _write(value, new)
                return value
            return new
        if isinstance(value, tuple | list) and any(n == number and p[: len(path)] == path for n, p in self.replaced):
            parts = [self._put(number, (*path, i), x) for i, x in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        if isinstance(value, dict):
            return {name: self._put(number, (*path, str(name)), x) for name, x in value.items()}
        return value


def leaves(value: Any, path: tuple[int | str, ...] = ()) -> list[tuple[tuple[int | str, ...], Any]]:
    """Every array and number in a nest."""
    if isinstance(value, tuple | list):
        return [leaf for i, x in enumerate(value[:64]) for leaf in leaves(x, (*path, i))]
    if isinstance(value, dict):
        return [leaf for name, x in value.items() for leaf in leaves(x, (*path, str(name)))]
    return [(path, value)]


def is_tensor(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach")


def as_array(value: Any) -> Array | None:
    """A copy of the numbers, in the dtype that they have; None of what holds no numbers."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return np.asarray(float(value)) if abs(value) < 1e300 else None
    if is_tensor(value):
        tensor = value.detach().cpu()
        if not tensor.numel() or tensor.numel() > LARGEST:
            return None
        return np.array((tensor.double() if tensor.is_floating_point() else tensor).numpy())
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fiub" and 0 < value.size <= LARGEST:
        return np.array(value)
    return None


def kind_of(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, np.generic) else "array"


def dtype_of(value: Any) -> str:
    """float32, int64, ...; "python int" of a Python number."""
    return str(value.dtype).removeprefix("torch.") if hasattr(value, "dtype") else f"python {type(value).__name__}"


def _read(names: Sequence[str], frame: Any) -> dict[str, Array]:
    """What a statement reads, as far as it is a number or an array that is there."""
    found = {}
    for name in names:
        owner, _, attribute = name.partition(".")
        value = frame.f_locals.get(owner)
        if attribute:
            value = getattr(value, "__dict__", {}).get(attribute)
        if isinstance(value, tuple | list):
            value = None
        array = as_array(value)
        if array is not None:
            found[name] = array
    return found


def _scope(frame: Any) -> tuple[str, ...]:
    """The names of every number and array, those that an object holds among them."""
    found = []
    for name, value in frame.f_locals.items():
        if as_array(value) is not None:
            found.append(name)
        elif name.isidentifier() and hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            found += [f"{name}.{each}" for each, x in vars(value).items() if as_array(x) is not None]
    return tuple(found[-40:])


def _equal(one: Array, other: Array) -> bool:
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def like(value: Any, numbers: Array, reshaped: bool = True) -> Any:
    """Numbers as the kind of thing that a value is: its dtype, its shape, its device; gradients flow as through it."""
    if isinstance(value, int) and not isinstance(value, bool):
        whole = float(np.asarray(numbers).reshape(()))
        return int(whole) if whole.is_integer() else whole
    if isinstance(value, float) and not isinstance(value, np.generic):
        return float(np.asarray(numbers).reshape(()))
    if is_tensor(value):
        import torch

        new = torch.from_numpy(np.array(numbers, np.float64)).to(
            value.dtype if value.is_floating_point() else torch.float64
        )
        new = new.to(value.device)
        if not reshaped:
            return new
        new = new.reshape(value.shape)
        return value + (new - value).detach() if value.requires_grad else new
    dtype = value.dtype if value.dtype.kind == "f" else np.float64
    if isinstance(value, np.generic) and np.size(numbers) == 1:
        return np.asarray(numbers).reshape(()).astype(dtype)[()]
    return np.array(numbers).astype(dtype).reshape(value.shape if reshaped else np.shape(numbers))


def _write(value: Any, new: Any) -> None:
    if is_tensor(value):
        import torch

        with torch.no_grad():
            value.copy_(new)
    elif isinstance(value, np.ndarray):
        value[...] = new
