"""From the table's call to a candidate's, and its answer back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from equivalence_tests.findings import Finding
from equivalence_tests.frameworks import Arrays
from equivalence_tests.implementations import plain
from equivalence_tests.ops import OPS, Op
from equivalence_tests.signatures import Plan, functional_arguments, operands_of, takes_cache


@dataclass(frozen=True)
class Convention:
    """What the user says of a candidate: how its operands lie, and what True means in a mask."""

    layout: str = "any"
    mask_true: str = "keeps"
    lead: int | None = None  # leading axes that the operands are to have; None: none, one or two


AS_IT_IS = Convention()


@dataclass(frozen=True)
class Translation:
    """From the table's call to the candidate's, and its answer back.

    `narrow` are integer types that the candidate does not take: int64 goes in instead. `notes` grows while it is called.
    """

    op: Op
    plan: Plan
    convention: Convention
    narrow: frozenset[str] = frozenset()
    notes: dict[str, Finding] = field(default_factory=dict)
    depends: list[str] = field(default_factory=list)  # the name of each function whose answer depends on random numbers

    def _given(self, operands: Iterable[Any], options: dict[str, Any]) -> dict[str, Any]:
        """Every operand and option by the table's name, in the candidate's layout."""
        values = dict(zip(operands_of(self.op), operands, strict=False))
        values = {name: self.widened(self.laid(value)) for name, value in values.items()}
        for name, value in options.items():
            if name in self.plan.names.values():
                values[name] = plain(value)
        if self.convention.mask_true == "drops" and values.get("mask") is not None:
            values["mask"] = ~values["mask"]
        return self.plan.completed(values)

    def laid(self, X: Any) -> Any:
        """(B, H, n, c) <-> (B, n, H, c): its own inverse."""
        return X.swapaxes(-2, -3) if self.convention.layout == "bnhc" and getattr(X, "ndim", 0) == 4 else X

    def widened(self, X: Any) -> Any:
        """Integers of a type that the candidate does not take as int64."""
        if not self.narrow or str(getattr(X, "dtype", "")).removeprefix("torch.") not in self.narrow:
            return X
        return X.astype(np.int64) if isinstance(X, np.ndarray) else X.long()

    def _each(self, values: Any, convert: Callable[[Any], Any]) -> Any:
        """Every array in a nest of tuples and dicts converted."""
        if isinstance(values, tuple):
            return tuple(self._each(value, convert) for value in values)
        if isinstance(values, list):
            return [self._each(value, convert) for value in values]
        if isinstance(values, dict):
            return {name: self._each(value, convert) for name, value in values.items()}
        is_array = hasattr(values, "__array__") or hasattr(values, "__dlpack__")
        return convert(values) if is_array and not isinstance(values, np.generic) else values

    def torch_forward(self, function: Any) -> Callable[..., Any]:
        def forward(*operands: Any, **options: Any) -> Any:
            positional, keywords = self.plan.arguments(self._given(operands, options))
            Y = function(*positional, **keywords)
            return self._each(first_of(Y, self.op), self.laid)

        return forward

    def forward(self, function: Any, arrays: Arrays, has_backward: bool) -> Callable[..., Any]:
        def forward(*operands: Any, **options: Any) -> Any:
            values = self._each(self._given(operands, options), arrays.to)
            positional, keywords = self.plan.arguments(values)
            answer = self._called(function, positional, keywords)
            Y, cache = split(answer, self.op) if has_backward else (first_of(answer, self.op), None)
            ours = self._each(self._each(Y, arrays.back), self.laid)
            ours = _scalar(ours) if self.op.scalar else ours
            if not self.op.differentiable:
                return ours
            return ours, (
                values,
                Y,
                cache,
                Afresh(lambda: split(self._called(function, positional, keywords), self.op)),
            )

        return forward

    def _called(self, function: Any, positional: list[Any], keywords: dict[str, Any]) -> Any:
        """The answer. A function that draws random numbers, and answers the same whatever they are, leaves the global
        random state as it was: it made a layer, whose first weights were not used."""
        before = np.random.get_state(legacy=True)  # noqa: NPY002 (the old global state, which layers draw from)
        answer = function(*positional, **keywords)
        if not _same_state(before):
            np.random.seed(12345)  # noqa: NPY002
            again = function(*positional, **keywords)
            if same_arrays(again, answer) and not self.depends:
                np.random.set_state(before)  # noqa: NPY002
                self.notes.setdefault("draws_unused", Finding("draws_unused"))
            else:
                self.depends.append("forward")
                self.notes.pop("draws_unused", None)
        return answer

    def backward(self, backward: Any, arrays: Arrays) -> Callable[..., Any]:
        inverse = dict(self.plan.names)
        spelt = {name: parameter for parameter, name in inverse.items()}

        def run(dY: Any, cache: Any) -> Any:
            values, Y, own, afresh = cache
            dY = plain(self._each(self._each(dY, self.laid), arrays.to))

            def answered(Y: Any, own: Own | None) -> Any:
                if own is not None and takes_cache(backward, self.op, self.own_names):
                    return backward(dY, own.value)
                caches = () if own is None else (own.value,)
                positional, keywords = functional_arguments(backward, self.op, inverse, values, Y, dY, caches)
                return backward(*positional, **keywords)

            try:
                gradients = answered(Y, own)
            except Exception:
                if not afresh.used:
                    raise
                gradients = answered(*afresh.call())  # what it remembers was freed by the first backward
                self.notes.setdefault("backward_once", Finding("backward_once"))
            afresh.used = True
            if not self.op.model:
                names = [name for name in self.op.differentiable if name in values]
                found = named_gradients(gradients, OPS[self.op.name].differentiable, names, values, spelt)
                gradients = (*(found.get(name) for name in names), *(found[n] for n in found if n.isdecimal()))
                gradients = gradients[0] if len(gradients) == 1 else gradients
            return self._each(self._each(gradients, arrays.back), self.laid)

        return run

    @property
    def own_names(self) -> frozenset[str]:
        """What the forward calls its operands."""
        return frozenset(parameter for parameter, name in self.plan.names.items() if name in self.plan.operands)


@dataclass
class Afresh:
    """The forward's call once more, for a backward that may be called once on what the forward remembers."""

    call: Callable[[], Any]
    used: bool = False


@dataclass(frozen=True)
class Own:
    """What a pair's forward remembers: opaque, and possibly None."""

    value: Any


def split(answer: Any, op: Op) -> tuple[Any, Own | None]:
    """(Y, cache) of a pair, or Y alone."""
    if isinstance(answer, tuple) and len(answer) == 2 and (len(op.outputs) == 1 or isinstance(answer[0], tuple)):
        return answer[0], Own(answer[1])
    return answer, None


def first_of(answer: Any, op: Op) -> Any:
    """Y, without what else came with it: a cache, or attention weights."""
    if isinstance(answer, tuple) and len(op.outputs) == 1:
        return answer[0]
    two = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], tuple)
    return answer[0] if two and len(op.outputs) > 1 else answer


def _scalar(Y: Any) -> Any:
    """A loss may be a Python float or an array without axes: here it is a NumPy scalar."""
    if isinstance(Y, float):
        return np.float64(Y)
    return Y[()] if isinstance(Y, np.ndarray) and Y.ndim == 0 else Y


def _same_state(before: Any) -> bool:
    now: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    return bool(now[2] == before[2] and np.array_equal(now[1], before[1]))


def same_arrays(one: Any, other: Any) -> bool:
    """Whether two answers are the same to the last bit, as far as they hold arrays."""
    if isinstance(one, tuple | list):
        pairs = zip(one, other, strict=False)
        return isinstance(other, tuple | list) and len(one) == len(other) and all(same_arrays(a, b) for a, b in pairs)
    if isinstance(one, np.ndarray | np.generic | float):
        return isinstance(other, np.ndarray | np.generic | float) and bool(np.array_equal(one, other, equal_nan=True))
    return True


def named_gradients(
    gradients: Any,
    differentiable: tuple[str, ...],
    kept: list[str],
    values: dict[str, Any],
    spelt: dict[str, str],
) -> dict[str, Any]:
    """What a backward returned, by the table's names.

    Of a dict by its keys, {"dX": ...} or {"X": ...}, in the candidate's own names (`spelt`) too. Of a tuple in the order of
    the signature; a shorter one is that of the operands that are `kept`, or of those that have its shapes, if no others
    have. What is missing has no entry, or is None; what is too much has a number for a name.
    """
    present = [name for name in differentiable if name in values]
    if isinstance(gradients, dict):
        lower = {str(key).lower(): value for key, value in gradients.items()}
        keys = {
            name: [f"{d}{each}".lower() for each in (name, spelt.get(name, name)) for d in ("d", "d_", "grad_", "")]
            for name in present
        }
        return {name: next((lower[key] for key in keys[name] if key in lower), None) for name in present}
    given = list(gradients) if isinstance(gradients, tuple | list) else [gradients]
    if len(given) == len(differentiable) > len(present):  # None for an operand that was left out
        given = [g for name, g in zip(differentiable, given, strict=True) if name in values or g is not None]
    elif len(given) > len(present):  # None for ids
        given = [g for g in given if g is not None]
    if len(given) < len(present):
        present = kept if len(given) == len(kept) else _of_shapes(given, present, values)
    return dict(zip([*present, *(str(i) for i in range(len(given)))], given, strict=False))


def _of_shapes(gradients: list[Any], names: list[str], values: dict[str, Any]) -> list[str]:
    """The operands, in order, that have the gradients' shapes: none of them if there is more than one choice, the first
    ones if there is no choice."""
    shapes = [tuple(getattr(g, "shape", ())) for g in gradients]
    fitting = [
        list(chosen)
        for chosen in combinations(names, len(gradients))
        if all(tuple(values[name].shape) == shape for name, shape in zip(chosen, shapes, strict=True))
    ]
    return fitting[0] if len(fitting) == 1 else [] if fitting else names
