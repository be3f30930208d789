"""Command-line flags from the fields of dataclasses: the name, the type, the default and the help are written once."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A wrong flag is said in one line: the usage of so many flags would bury it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


PARSED: dict[str, Any] = {"int": int, "float": float, "str": str, "str | None": str}


def add_flags(group: Any, config: type, leave_out: tuple[str, ...] = ()) -> None:
    """A flag for every field: --min-frequency for min_frequency, --cosine and --no-cosine for a bool.

    A flag that is not given leaves nothing in the namespace, so that a preset or the field's own default holds.
    """
    for each in fields(config):
        if each.name in leave_out:
            continue
        flag, told = f"--{each.name.replace('_', '-')}", each.metadata["help"].replace("%", "%%")
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": each.name}
        if each.default is not MISSING and each.default is not None:
            told = f"{told} (default: {_shown(each.default)})"
        if each.type == "bool":
            group.add_argument(flag, action=argparse.BooleanOptionalAction, help=told, **options)
        elif each.type == "int | None":
            group.add_argument(flag, type=integer_or_none, metavar="N", help=f"{told}; none: no limit", **options)
        else:
            kind = PARSED[str(each.type)]
            group.add_argument(flag, type=kind, metavar="TEXT" if kind is str else "N", help=told, **options)


def chosen(config: type, given: argparse.Namespace, preset: dict[str, Any]) -> dict[str, Any]:
    """The values of a dataclass's fields that a flag or else the preset gives."""
    names = [each.name for each in fields(config)]
    return {name: preset[name] for name in names if name in preset} | {
        name: getattr(given, name) for name in names if hasattr(given, name)
    }


def _shown(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


MOST_SECONDS = 86_400.0


def seconds(text: str) -> float:
    """A time that can be waited for: above 0, and a day at most."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} came, expected seconds above 0 and at most {MOST_SECONDS:g}")
    return value


def integer_or_none(text: str) -> int | None:
    return None if text == "none" else int(text)
