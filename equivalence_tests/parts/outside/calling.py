"""How a function is called: what each of its parameters stands for, read from the names and, where they do not say, from
the order of the reference's own signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equivalence_tests.signatures import signature_of

Roles = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Plan:
    """`given` pairs parameters with roles, in the order of the signature; `guessed` are those that the name did not tell.

    `keywords` are the parameters that must be named in the call.
    """

    given: tuple[tuple[str, str], ...]
    guessed: tuple[str, ...]
    keywords: frozenset[str]
    spread: bool = False  # it takes any number of named arguments

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(role for _, role in self.given)

    def arguments(self, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments. Behind a parameter that has no value, every other one is named."""
        args: list[Any] = []
        named: dict[str, Any] = {}
        skipped = False
        for parameter, role in self.given:
            if role not in values:
                skipped = True
            elif skipped or parameter in self.keywords:
                named[parameter] = values[role]
            else:
                args.append(values[role])
        return args, named

    def call(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        args, named = self.arguments(values)
        return function(*args, **named)

    def shown(self, name: str) -> str:
        """The call in words: adamw(p=params, g=grads)."""
        return f"{name}({', '.join(f'{p}={r}' if p != r else p for p, r in self.given)})"


def plain(name: str) -> str:
    """A parameter's name without case and underscores, as aliases are written."""
    return name.lower().replace("_", "")


def plan_of(function: Any, roles: Roles, required: Sequence[str], label: str, example: str) -> Plan:
    """How the function is called. `roles` are in the order of the reference, each with the other names that it goes by.

    ValueError, one line with an example, if a parameter without a default stands for nothing, or a role is missing.
    """
    signature = signature_of(function)
    if signature is None:
        given = tuple((name, name) for name in required)
        return Plan(given, tuple(required), frozenset())
    known = {plain(alias): role for role, aliases in roles.items() for alias in (role, *aliases)}
    found: dict[str, str] = {}
    unknown: list[str] = []
    keywords = set()
    spread = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            spread = True
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords.add(name)
        role = known.get(plain(name))
        if role is not None and role not in found.values():
            found[name] = role
        elif parameter.default is inspect.Parameter.empty:
            found[name] = ""
            unknown.append(name)
    left = [role for role in roles if role not in found.values()]
    for name in unknown:
        if not left or not (set(left) & set(required)):
            raise ValueError(f"{label}: the parameter {name!r} stands for nothing known, expected {example}")
        role = next(role for role in left if role in required)
        found[name] = role
        left.remove(role)
    missing = [role for role in required if role not in found.values()]
    if missing:
        raise ValueError(f"{label}: it takes no {' and no '.join(missing)}, expected {example}")
    return Plan(tuple(found.items()), tuple(unknown), frozenset(keywords), spread)
