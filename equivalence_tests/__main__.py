"""`gemelos`, or `python -m equivalence_tests`: a thin door to the commands."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec

COMMANDS = {
    "verify": ("equivalence_tests.verify", "walk the math on real words, then check every op of every implementation"),
    "check": ("equivalence_tests.check_command", "your own implementation against the reference: which term is wrong"),
    "probe": ("equivalence_tests.probing.__main__", "which conventions an implementation follows, and what decided it"),
    "train": ("equivalence_tests.train", "train a GPT or an RNN on stories, on either twin"),
    "generate": ("equivalence_tests.generate", "text from a trained model"),
    "mistakes": (
        "equivalence_tests.mistakes.command",
        "the matrix of known mistakes against the checks, and the league",
    ),
    "dojo": (
        "equivalence_tests.dojo.command",
        "katas of manual backprop: start, check, hint, watch; the teacher's report",
    ),
    "explain": (
        "equivalence_tests.explain.__main__",
        "a page that shows attention on your words, forward and backward",
    ),
    "bench": ("benchmarks.__main__", "CPU against GPU: check, then time (from a checkout)"),
}


def usage() -> str:
    lines = ["usage: gemelos COMMAND [options]", "       gemelos --version", "", "commands:"]
    lines += [f"  {name:<10} {says}" for name, (_, says) in COMMANDS.items()]
    return "\n".join([*lines, "", "gemelos COMMAND --help says more about one of them."])


def from_checkout() -> bool:
    """Whether the folder of benchmarks is there: the wheel has none."""
    try:
        return find_spec("benchmarks.__main__") is not None
    except ModuleNotFoundError:
        return False


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that cannot show a character gets a question mark
            stream.reconfigure(errors="replace")
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0
    if arguments == ["--version"]:
        print(f"gemelos {version('gemelos')}")
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        print(f"gemelos: there is no command {command!r}, expected one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    if command == "bench" and not from_checkout():
        print(
            "gemelos bench: it needs a checkout of the project, the installed package has no benchmarks",
            file=sys.stderr,
        )
        return 2
    result: int = import_module(COMMANDS[command][0]).main(rest)
    return result


if __name__ == "__main__":
    sys.exit(main())
