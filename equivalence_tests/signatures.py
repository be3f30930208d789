"""How a user's function is to be called: what its parameters stand for, read from its signature."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import reference_numpy
from equivalence_tests.ops import OPS, Op

ALIASES = {"attn_mask": "mask", "attention_mask": "mask", "is_causal": "causal", "eps": "epsilon", "axes": "axis"}
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
    """

    names: dict[str, str]
    operands: frozenset[str]
    keywords: frozenset[str]
    required: frozenset[str]

    @classmethod
    def of(cls, function: Any, op: Op, label: str) -> Plan:
        signature, operands, options = signature_of(function), operands_of(op), options_of(op)
        if signature is None:
            given = frozenset(operands)
            return cls({name: name for name in operands}, given, frozenset(), given)
        parameters = list(signature.parameters.values())
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names: dict[str, str] = {}
        optional = OPTIONAL.get(op.name, ())
        for operand in operands:
            if not positional:
                break
            first = positional[0]
            known = _option_named(first.name, options)
            if operand in optional and known is not None:
                break
            names[positional.pop(0).name] = operand
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        missing = [name for name in operands if name not in names.values() and name not in optional]
        if variadic:
            names |= {name: name for name in missing}
        elif missing:
            raise ValueError(
                f"{label} takes {len(names)} operand{'s' * (len(names) != 1)}, {op.name} has {', '.join(operands)}"
            )
        rest = [*positional, *[p for p in parameters if p.kind is p.KEYWORD_ONLY]]
        left = [name for name in options if name not in {_option_named(p.name, options) for p in rest}]
        for parameter in rest:
            option = _option_named(parameter.name, options)
            if option is None and parameter.default is parameter.empty and left:
                option = left.pop(0)  # a required one of another name: the next in the order of the reference
            if option is not None:
                names[parameter.name] = option
            elif parameter.default is parameter.empty:
                raise ValueError(
                    f"{label} cannot be called: its parameter {parameter.name!r} is no operand or option of {op.name}, "
                    f"expected {', '.join([*operands, *options])}"
                )
        if any(p.kind is p.VAR_KEYWORD for p in parameters) and not variadic:
            names |= {name: name for name in options if name not in names.values()}
        by_name = frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        keywords = frozenset(names) if takes_any and not variadic else by_name
        needed = frozenset(names[p.name] for p in parameters if p.name in names and p.default is p.empty)
        return cls(names, frozenset(operands), keywords, needed)

    def without(self, options: tuple[str, ...]) -> Plan:
        """The same call, not given these options."""
        names = {parameter: name for parameter, name in self.names.items() if name not in options}
        return Plan(names, self.operands, self.keywords, self.required)

    def arguments(self, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for those operands and options that came."""
        positional, keywords = [], {}
        for parameter, name in self.names.items():
            if name not in values:
                continue
            if parameter in self.keywords and name not in self.operands:
                keywords[parameter] = values[name]
            else:
                positional.append(values[name])
        return positional, keywords


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


def takes_cache(backward: Any, op: Op) -> bool:
    signature = signature_of(backward)
    if signature is None:
        return False
    needed = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    known = {name.lower() for name in (*operands_of(op), *op.outputs)}
    return len(needed) == 2 and needed[1].name.lower() not in known


def functional_arguments(
    backward: Any, op: Op, names: dict[str, str], values: dict[str, Any], Y: Any, dY: Any
) -> tuple[list[Any], dict[str, Any]]:
    """A backward of (dY, *inputs): each parameter by the name it has in the forward, an output's name, or in order."""
    signature = signature_of(backward)
    operands = [name for name in operands_of(op) if name in values]
    if signature is None:
        return [dY, *(values[name] for name in operands)], {}
    parameters = list(signature.parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return [dY, *(values[name] for name in operands)], {}
    outputs = dict(zip(op.outputs, Y if isinstance(Y, tuple) else (Y,), strict=False))
    upstreams = dY if isinstance(dY, tuple) else (dY,)
    count = len(upstreams) if len(parameters) >= len(upstreams) + len(operands) else 1
    positional: list[Any] = list(upstreams) if count > 1 else [dY]
    keywords: dict[str, Any] = {}
    for parameter in parameters[count:]:
        name = names.get(parameter.name, ALIASES.get(parameter.name, parameter.name))
        if name in values:
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
