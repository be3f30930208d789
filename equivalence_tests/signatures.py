"""How a user's function is to be called: what its parameters stand for, read from its signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import reference_numpy
from equivalence_tests.aliases import ALIASES, CACHES, DEFAULTS, DERIVED, OPERAND_ALIASES
from equivalence_tests.ops import OPS, Op

OPTIONAL = {"linear": ("bias",), "rnn": ("h0",), "attention_stages": ("dC",)}


def signature_of(function: Any) -> inspect.Signature | None:
    """The signature; of a builtin, what the first line of its documentation says; None if nothing is known."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        pass
    said = re.match(r"\w+\((.*?)\)\s*(->|\n|$)", (getattr(function, "__doc__", "") or "").strip(), re.DOTALL)
    if said is None:
        return None
    space: dict[str, Any] = {}
    try:
        exec(f"def told({said.group(1)}): ...", {}, space)
    except SyntaxError:
        return None
    return inspect.signature(space["told"])


def options_of(op: Op) -> list[str]:
    """The op's options, in the order of the reference's signature."""
    return [
        name for name in inspect.signature(getattr(reference_numpy, op.name)).parameters if name not in operands_of(op)
    ]


@cache
def operands_of(op: Op) -> list[str]:
    known = {*op.differentiable, *OPS[op.name].differentiable, "params", "ids", "targets", "dC", "Q", "K", "V"}
    return [name for name in inspect.signature(getattr(reference_numpy, op.name)).parameters if name in known]


@dataclass(frozen=True)
class Plan:
    """How a function is called: `names` are its parameters, in order, with the operand or option that each is given.

    `required` are those operands and options that it cannot do without; `keywords` are parameters that may be named.
    `filled` are options that it is always given, and `derived` parameters that follow from an operand's shape.
    """

    names: dict[str, str]
    operands: frozenset[str]
    keywords: frozenset[str]
    required: frozenset[str]
    filled: dict[str, Any] = field(default_factory=dict)
    derived: dict[str, tuple[str, int | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Any, op: Op, label: str) -> Plan:
        signature, operands, options = signature_of(function), operands_of(op), options_of(op)
        if signature is None:
            given = frozenset(operands)
            return cls({name: name for name in operands}, given, frozenset(), given)
        parameters = list(signature.parameters.values())
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters) and not variadic
        own = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        derived = {p.name: found for p in own if (found := _derived(p, operands, options)) is not None}
        names = _by_name([p for p in own if p.name not in derived], op)
        names = names or _by_position([p for p in own if p.name not in derived], op, variadic, label)
        missing = [name for name in operands if name not in names.values()]
        rest = [p for p in own if p.name not in names and p.name not in derived]
        names |= {name: name for name in missing} if variadic else {}
        names |= _options_by_name(rest, [*operands, *options], options, label, op.name)
        names |= {name: name for name in options if name not in names.values()} if takes_any else {}
        filled = {
            names[p.name]: DEFAULTS[names[p.name]]
            for p in rest
            if names.get(p.name) in DEFAULTS and (p.default is p.empty or p.default is None)
        }
        order = {p.name: i for i, p in enumerate(own)}
        names = {name: names.get(name, name) for name in sorted({**names, **derived}, key=lambda n: order.get(n, 99))}
        keywords = frozenset(p.name for p in own if p.kind is not p.POSITIONAL_ONLY)
        needed = {names[p.name] for p in own if p.name in names and p.default is p.empty}
        return cls(
            names,
            frozenset(operands),
            frozenset(names) if takes_any else keywords,
            frozenset(needed - filled.keys() - derived.keys()),
            filled,
            derived,
        )

    def without(self, options: tuple[str, ...]) -> Plan:
        """The same call, not given these options."""
        names = {parameter: name for parameter, name in self.names.items() if name not in options}
        return replace(self, names=names, filled={n: v for n, v in self.filled.items() if n not in options})

    def completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """The values with those that the function is always given."""
        found = {**self.filled, **values}
        for parameter, (operand, axis) in self.derived.items():
            shape = values[operand].shape
            found[parameter] = tuple(shape) if axis is None else int(shape[axis])
        return found

    def as_text(self, values: dict[str, str]) -> dict[str, str]:
        """The same as source text, where values are names."""
        found = {name: repr(value) for name, value in self.filled.items()} | values
        for parameter, (operand, axis) in self.derived.items():
            found[parameter] = f"tuple({operand}.shape)" if axis is None else f"{operand}.shape[{axis}]"
        return found

    def arguments(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for those operands and options that came."""
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter, name in self.names.items():
            if name not in values:
                continue
            by_position = name in self.operands or parameter in self.derived
            if parameter in self.keywords and (keywords or not by_position):
                keywords[parameter] = values[name]
            else:
                positional.append(values[name])
        return positional, keywords


def _derived(parameter: inspect.Parameter, operands: list[str], options: list[str]) -> tuple[str, int | None] | None:
    """The operand and the axis that a required parameter is the size of."""
    if parameter.default is not parameter.empty or parameter.name in options:
        return None
    found = DERIVED.get(parameter.name, ())
    return next((each for each in found if each[0] in operands), None)


def _by_name(parameters: list[inspect.Parameter], op: Op) -> dict[str, str]:
    """The operand of each parameter where the names leave no doubt: each operand has one parameter of its name, or of
    another name that means the same. Empty otherwise."""
    found: dict[str, str] = {}
    options = options_of(op)
    for operand in operands_of(op):
        spelt = [operand.lower(), *OPERAND_ALIASES.get(operand, ())]
        fitting = [p for p in parameters if p.name.lower() in spelt and p.name not in found]
        if operand in OPTIONAL.get(op.name, ()) and not fitting:
            continue
        if len(fitting) != 1 or _option_named(fitting[0].name, options) or fitting[0].kind is fitting[0].KEYWORD_ONLY:
            return {}
        found[fitting[0].name] = operand
    return found


def _by_position(parameters: list[inspect.Parameter], op: Op, variadic: bool, label: str) -> dict[str, str]:
    """The operands in the order of the signature. ValueError if there are fewer parameters."""
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    operands, optional, names = operands_of(op), OPTIONAL.get(op.name, ()), {}
    for operand in operands:
        if not positional or (operand in optional and _option_named(positional[0].name, options_of(op)) is not None):
            break
        names[positional.pop(0).name] = operand
    if not variadic and any(name not in names.values() and name not in optional for name in operands):
        raise ValueError(
            f"{label} takes {len(names)} operand{'s' * (len(names) != 1)}, {op.name} has {', '.join(operands)}"
        )
    return names


def _options_by_name(
    parameters: list[inspect.Parameter], expected: list[str], options: list[str], label: str, op: str
) -> dict[str, str]:
    """The option of each parameter that is no operand; a required one of another name is the next that is left."""
    names: dict[str, str] = {}
    left = [name for name in options if name not in {_option_named(p.name, options) for p in parameters}]
    for parameter in parameters:
        option = _option_named(parameter.name, options)
        if option is None and parameter.default is parameter.empty and left:
            option = left.pop(0)
        if option is not None:
            names[parameter.name] = option
        elif parameter.default is parameter.empty:
            raise ValueError(
                f"{label} cannot be called: its parameter {parameter.name!r} is no operand or option of {op}, "
                f"expected {', '.join(expected)}"
            )
    return names


def _option_named(parameter: str, options: list[str]) -> str | None:
    """The option that a parameter's name stands for."""
    name = ALIASES.get(parameter, parameter)
    return name if name in options else None


def with_signature(function: Callable[..., Any], op: Op, plan: Plan) -> Callable[..., Any]:
    """The function with the parameters of the reference that the candidate takes: what a case may ask for; without a
    default those that it cannot do without: what a case must bring."""
    right = inspect.signature(getattr(reference_numpy, op.name)).parameters.values()
    taken = [each for each in right if each.name in plan.names.values()]
    asked = [
        each.replace(default=each.empty, kind=each.kind if each.name in plan.operands else each.KEYWORD_ONLY)
        if each.name in plan.required
        else each
        for each in taken
    ]
    function.__signature__ = inspect.Signature(sorted(asked, key=lambda each: each.kind))  # type: ignore[attr-defined]
    return function


def takes_cache(backward: Any, op: Op, operands: Collection[str] = ()) -> bool:
    """Whether a backward is of (dY, cache), where the forward returns (Y, cache).

    It is if it has a second parameter and needs no third: whatever that one is called, but for the name that an operand
    has in the forward (`operands`), or that of an option.
    """
    signature = signature_of(backward)
    if signature is None:
        return False
    parameters = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(parameters) < 2 or len([p for p in needed if p.kind is not p.VAR_KEYWORD]) > 2:
        return False
    second = parameters[1]
    if second.default is not second.empty and _option_named(second.name, options_of(op)):
        return False
    return second.name not in operands


def second_is_a_value(backward: Any, op: Op) -> bool:
    """Whether the second parameter of a backward has the name of an output or an operand: then one call of the forward has
    to tell whether it is the cache."""
    signature = signature_of(backward)
    names = list(signature.parameters) if signature is not None else []
    known = {name.lower() for name in (*operands_of(op), *op.outputs)}
    return len(names) > 1 and names[1].lower() in known


def functional_arguments(
    backward: Any,
    op: Op,
    names: dict[str, str],
    values: dict[str, Any],
    Y: Any,
    dY: Any,
    caches: tuple[Any, ...] = (),
) -> tuple[list[Any], dict[str, Any]]:
    """A backward of (dY, *inputs): each parameter by the name it has in the forward, an output's name, or in order.

    `caches` holds what the forward remembers, for a parameter that is called so.
    """
    signature = signature_of(backward)
    operands = [name for name in operands_of(op) if name in values]
    if signature is None:
        return [dY, *(values[name] for name in operands)], {}
    parameters = list(signature.parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return [dY, *(values[name] for name in operands)], {}
    outputs = dict(zip(op.outputs, Y if isinstance(Y, tuple) else (Y,), strict=False))
    upstreams = dY if isinstance(dY, tuple) else (dY,)
    apart = len(parameters) >= len(upstreams) + len(operands)
    if caches and len(upstreams) < len(parameters):
        apart = apart or parameters[len(upstreams)].name.lower() in CACHES
    count = len(upstreams) if apart else 1
    positional: list[Any] = list(upstreams) if count > 1 else [dY]
    keywords: dict[str, Any] = {}
    for parameter in parameters[count:]:
        name = names.get(parameter.name, ALIASES.get(parameter.name, parameter.name))
        if caches and parameter.name.lower() in CACHES:
            value = caches[0]
        elif name in values:
            value = values[name]
            if name in operands:
                operands.remove(name)
        elif name in outputs:
            value = outputs[name]
        elif parameter.default is parameter.empty and operands:
            value = values[operands.pop(0)]
        else:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY or len(positional) < parameters.index(parameter):
            keywords[parameter.name] = value
        else:
            positional.append(value)
    return positional, keywords
