"""Layers in the style of courses as a pair: `layer = Layer(...)`, `layer.forward(x)`, `layer.backward(dout)`, in NumPy.

What stands for what is found by names and shapes: the constructor's arguments (in_features, dim, eps, W, ...), the weights
among the layer's attributes (W, gamma, params["W"]), their gradients (dW, grads["W"], W.grad) after the backward. Each call
is made on a layer of its own, so nothing that a layer remembers or adds up reaches the next call.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from equivalence_tests.aliases import ALIASES, DEFAULTS, OPERAND_ALIASES
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import one_line
from equivalence_tests.laws.patterns import PATTERNS, SIZES, shape_of
from equivalence_tests.layer_weights import FIELDS, NESTS, Place, cast
from equivalence_tests.ops import OPS, Op
from equivalence_tests.signatures import operands_of, options_of, signature_of

# What constructors call the size of a letter.
SIZE_NAMES = {
    "d": "in_features input_dim input_size in_dim n_in d_in num_inputs d_model dim hidden_dim hidden_size embed_dim "
    "embedding_dim embedding_size normalized_shape num_features features n_features d",
    "k": "out_features output_dim output_size out_dim n_out d_out num_outputs hidden_size units",
    "v": "num_embeddings vocab_size vocabulary_size n_vocab v",
    "c": "d_k head_dim d_head key_dim d_out",
    "e": "d_v value_dim",
}


def is_layer(candidate: Any) -> bool:
    """Whether it is a class, or an object of one, that has a forward and a backward of its own."""
    if inspect.isroutine(candidate):
        return False
    kind = candidate if isinstance(candidate, type) else type(candidate)
    return callable(getattr(kind, "backward", None)) and (hasattr(kind, "forward") or "__call__" in vars(kind))


@dataclass(frozen=True)
class Layer:
    """A layer's class, or an object of it, and the operands that go into its forward and into its weights."""

    given: Any
    op: Op
    label: str
    turned: frozenset[str] = frozenset()  # weights that lie the other way round
    held: frozenset[str] = frozenset()  # the weights that it has

    @property
    def kind(self) -> type:
        return self.given if isinstance(self.given, type) else type(self.given)

    @property
    def data(self) -> list[str]:
        """The operands of the forward: all of an op that has no weights."""
        names = operands_of(self.op)
        return names if self.op.name in ("attention", "cross_entropy") else [names[0]]

    def made(self, values: dict[str, Any]) -> Any:
        """A layer with the weights among the values, in their dtype; a bias that is left out is 0. NumPy's global random
        state stays as it was: construction is no call."""
        values = self.completed(values)
        with _state_kept():
            anew = isinstance(self.given, type)
            layer = self.given(**self._constructed(values)) if anew else copy.deepcopy(self.given)
        dtype = next((x.dtype for x in values.values() if isinstance(x, np.ndarray) and x.dtype.kind == "f"), None)
        if dtype is not None:
            cast(vars(layer), dtype)
        for name in self.weights_in(values):
            self._set(layer, name, values[name])
        return layer

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values, with zeros for those weights that a case leaves out and the layer has."""
        pattern = PATTERNS[self.op.name]
        sizes = self._sizes(values)
        left = [name for name in pattern.optional if name in self.held and name not in values]
        first = next(x for x in values.values() if isinstance(x, np.ndarray) and x.dtype.kind == "f") if left else None
        zeros = {
            name: np.zeros(shape_of(pattern.operands[name], (), sizes), first.dtype)
            for name in left
            if first is not None
        }
        return {**values, **zeros}

    def weights_in(self, values: dict[str, Any]) -> list[str]:
        return [name for name in operands_of(self.op) if name in values and name not in self.data]

    def _constructed(self, values: dict[str, Any]) -> dict[str, Any]:
        """The constructor's arguments. ValueError if one that it needs is not known."""
        signature = signature_of(self.kind)
        found: dict[str, Any] = {}
        for name, parameter in (signature.parameters if signature else {}).items():
            option = ALIASES.get(name, name)
            weight = self._weight_of(name)
            size = self._size_of(name, values)
            if name == "bias" and isinstance(parameter.default, bool):
                found[name] = "bias" in values
            elif weight in values and not isinstance(parameter.default, bool | float | int | str):
                found[name] = self._laid(weight, values[weight])
            elif size is not None:
                found[name] = size
            elif option in values:
                found[name] = values[option]
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                if option not in DEFAULTS:
                    raise ValueError(
                        f"{self.label}: its constructor's argument {name!r} is not known: give an instance"
                    )
                found[name] = DEFAULTS[option]
        return found

    def _weight_of(self, name: str) -> str:
        """The operand that a constructor's argument or an attribute is called after, or nothing."""
        spelt = name.lower().strip("_")
        for operand in operands_of(self.op):
            if operand not in self.data and spelt in (operand.lower(), *OPERAND_ALIASES.get(operand, ())):
                return operand
        return ""

    def _size_of(self, name: str, values: dict[str, Any]) -> int | None:
        """The size that a constructor's argument asks for: of a letter of the op's."""
        sizes = self._sizes(values)
        order = ("k", "d", "v", "c", "e") if self.op.name == "rnn" else ("d", "k", "v", "c", "e")
        return next((sizes[x] for x in order if x in sizes and name.lower() in SIZE_NAMES[x].split()), None)

    def _sizes(self, values: dict[str, Any]) -> dict[str, int]:
        """The size of each letter, from the operands' last axes."""
        sizes: dict[str, int] = {}
        for operand, letters in PATTERNS[self.op.name].operands.items():
            own = letters.replace("...", "").split()
            if operand in values and own:
                sizes |= dict(zip(own, np.shape(values[operand])[-len(own) :], strict=False))
        return sizes

    def _laid(self, name: str, value: Any) -> Any:
        return np.ascontiguousarray(value.T) if name in self.turned else value

    def places(self, layer: Any) -> Iterator[Place]:
        """Every weight of a layer: among its attributes, in a dict of them, or in an object that holds one."""
        nests = [vars(layer), *(vars(layer)[n] for n in NESTS[:3] if isinstance(vars(layer).get(n), dict))]
        for nest in nests:
            for name, value in list(nest.items()):
                operand = self._weight_of(name)
                field = next((f for f in FIELDS if isinstance(getattr(value, f, None), np.ndarray)), "")
                if operand and isinstance(value, np.ndarray):
                    yield Place(operand, layer, nest, name)
                elif operand and field:
                    yield Place(operand, layer, value, field)

    def _set(self, layer: Any, name: str, value: Any) -> None:
        for place in self.places(layer):
            if place.operand == name:
                new = self._laid(name, value)
                place.set_to(new.reshape(place.read().shape) if new.size == place.read().size else new)

    def forward(self, layer: Any, values: dict[str, Any]) -> Any:
        call = getattr(layer, "forward", layer)
        signature = signature_of(call)
        taken = signature.parameters if signature else {}
        named = {p: values[ALIASES.get(p, p)] for p in taken if ALIASES.get(p, p) in values and _is_option(self.op, p)}
        return call(*(values[name] for name in self.data), **named)

    def backward(self, dY: Any, cache: Any) -> Any:
        """By name, from what the backward returns and from the layer's attributes after it."""
        layer, values = copy.deepcopy(cache[0]), self.completed(cache[1])
        signature = signature_of(layer.backward)
        without = signature is not None and not signature.parameters
        returned = layer.backward() if without else layer.backward(dY)
        if without and self.op.scalar:
            returned = returned * dY
        weights = [name for name in self.weights_in(values) if name in OPS[self.op.name].differentiable]
        given = [name for name in self.data if name in OPS[self.op.name].differentiable]
        several = isinstance(returned, tuple | list)
        if several and len(returned) == len(given) + len(weights):
            given, weights = [*given, *weights], []
        found = dict(zip(given, returned if several else [returned], strict=False))
        for place in self.places(layer):
            gradient = place.gradient()
            if place.operand in weights and gradient is not None:
                found[place.operand] = gradient
        listed = getattr(layer, "grads", None)
        if isinstance(listed, list) and len(listed) == len(weights):
            found |= {name: found.get(name, value) for name, value in zip(weights, listed, strict=True)}
        return {f"d{name}": self._back(name, value, values) for name, value in found.items() if name in cache[1]}

    def _back(self, name: str, value: Any, values: dict[str, Any]) -> Any:
        """A gradient as the operand lies."""
        if name not in self.data and isinstance(value, np.ndarray):
            value = value.T if name in self.turned else value
            return value.reshape(np.shape(values[name])) if value.size == np.size(values[name]) else value
        return value


def as_pair(given: Any, op: Op, label: str) -> tuple[Callable[..., Any], Callable[..., Any], Finding, dict[str, int]]:
    """A forward of the op's operands, a backward of (dY, cache), what was assumed, and the sizes that an object fixes.

    ValueError, one line, with what to pass, if the layer cannot be made, or has no weights of the op's names.
    """
    expected = f"expected a function of {', '.join(operands_of(op))}"
    if op.name not in PATTERNS or op.name == "multi_head_attention":
        raise ValueError(f"{label} is a layer, which is not adapted to {op.name}: {expected}")
    layer = Layer(given, op, label)
    pattern = PATTERNS[op.name]
    sizes = {**SIZES, "n": 3}
    wanted = {n: np.zeros(shape_of(x, (2,), sizes)) for n, x in pattern.operands.items()}
    try:
        made = layer.made({**wanted}) if isinstance(given, type) else given
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{label} cannot be made: it raised {one_line(error)}; {expected}") from None
    held = {place.operand: np.shape(place.read()) for place in layer.places(made)}
    signature = signature_of(layer.kind) if isinstance(given, type) else None
    passed = {layer._weight_of(name) for name in (signature.parameters if signature else ())} - {""}
    weights = [n for n in operands_of(op) if n in held or (n in passed and n not in layer.data)]
    missing = [n for n in layer.weights_in(wanted) if n not in weights and n not in pattern.optional]
    if missing:
        raise ValueError(f"{label} has no attribute for {missing[0]}: {expected}")
    fixed: dict[str, int] = {}
    turned = {
        n
        for n in held
        if len(held[n]) == 2 and n not in passed and held[n] == np.shape(wanted[n])[::-1] != np.shape(wanted[n])
    }
    if not isinstance(given, type):
        turned, fixed = _of_object(layer, held)
    layer = Layer(given, op, label, frozenset(turned), frozenset(weights))
    return (*_functions(layer, weights), _assumed(layer, weights), fixed)


def _of_object(layer: Layer, held: dict[str, tuple[int, ...]]) -> tuple[set[str], dict[str, int]]:
    """The sizes that an object's weights fix, and those that lie the other way round: a linear one's are (in, out)."""
    turned = {"weight"} if layer.op.name == "linear" else set()
    sizes: dict[str, int] = {}
    for name, shape in held.items():
        letters = PATTERNS[layer.op.name].operands[name].split()
        sizes |= (
            dict(zip(letters, shape[::-1] if name in turned else shape, strict=False))
            if len(letters) == len(shape)
            else {}
        )
    return turned, sizes


def _functions(layer: Layer, weights: list[str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    names = [name for name in operands_of(layer.op) if name in layer.data or name in weights]
    taken: set[str] = set()
    made_anew = isinstance(layer.given, type)  # an object's own numbers stay as they are
    for each in (
        signature_of(layer.kind) if made_anew else None,
        signature_of(getattr(layer.kind, "forward", layer.kind.__call__)),
    ):
        taken |= {ALIASES.get(name, name) for name in (each.parameters if each else {})}
    options = [name for name in options_of(layer.op) if name in taken]

    def forward(*operands: Any, **chosen: Any) -> Any:
        values = {**dict(zip(names, operands, strict=False)), **chosen}
        made = layer.made(values)
        return layer.forward(made, values), (made, values)

    positional, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    optional = PATTERNS[layer.op.name].optional
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(n, positional, default=None if n in optional else inspect.Parameter.empty) for n in names]
        + [inspect.Parameter(n, keyword, default=DEFAULTS.get(n, 0)) for n in options]
    )

    def backward(dY: Any, cache: Any) -> Any:
        return layer.backward(dY, cache)

    return forward, backward


def _assumed(layer: Layer, weights: list[str]) -> Finding:
    turned = ", ".join(sorted(layer.turned)) or "-"
    return Finding("layer", numbers={"weights": ", ".join(weights) or "-", "turned": turned})


def _is_option(op: Op, parameter: str) -> bool:
    return ALIASES.get(parameter, parameter) in options_of(op)


@contextmanager
def _state_kept() -> Iterator[None]:
    before = np.random.get_state(legacy=True)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
