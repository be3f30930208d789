"""`gemelos check`: somebody's own implementation against the reference, and which term of it is wrong."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.candidate import LAYOUTS, MASK_TRUE
from equivalence_tests.cases import SeededDraws
from equivalence_tests.check_process import Refused, check_in_process
from equivalence_tests.checking import CASES
from equivalence_tests.conventions import NAMES
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.flags import Parser, seconds
from equivalence_tests.loading import nearest
from equivalence_tests.ops import OPS
from equivalence_tests.part_names import PART_NAMES
from equivalence_tests.report import show
from equivalence_tests.request import Request
from equivalence_tests.signatures import options_of

MOST_LEAD, MOST_SIZE = 8, 4096
OF_THE_TABLE = ("layout", "mask_true", "lead", "without")
WITHOUT_A_TABLE = ("shapes", "inputs", "laws")
USELESS = {  # what would be ignored
    "a function": ("options", *WITHOUT_A_TABLE),
    "--laws-only": (),  # what it reads depends on --like: see check_worker.refuse_unread
    "--command": ("backward", "strict", *OF_THE_TABLE, *WITHOUT_A_TABLE),
}
EXAMPLES = """examples
  gemelos check mine.py:attention --like attention
      a forward; if mine.py has attention_backward too, the pair
  gemelos check mine.py:softmax --backward mine.py:softmax_grad --like softmax
      a backward of (dY, *inputs), or of (dY, cache)
  gemelos check mine.py:Attention --like attention --dtype float32 --sizes c=64,m=128,n=128
      a torch function, module or autograd.Function; a kernel of fixed sizes
  gemelos check --command './attention DIR_IN DIR_OUT' --like attention
      any language: one .npy file for each argument and each answer
  gemelos check dump.npz --like attention
      arrays out of a running system: which one is the first that is wrong
  gemelos check mine.py:adamw --like adamw_step
      a part around the model, with its own signature: in place or returned, arrays by name or one at a time, a class

exit status: 0 it agrees, 1 it is wrong, 2 it could not be judged, 3 it agrees, with another convention"""


# Flags that a part does not take.
OP_FLAGS = (
    *("backward", "command", "options", "dtype", "device", "cases", "sizes", "lead", "layout", "mask_true", "without"),
    *("laws_only", "shapes", "inputs", "laws"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if the candidate agrees, 1 if it is wrong, 2 if it could not be judged, 3 if it follows another convention."""
    parser = _parser()
    given = parser.parse_args(argv)
    request = _request(parser, given)
    console = Console(highlight=False)
    try:
        if given.command is None and _is_dump(given.candidate):
            return _dump(given, console)
        with _progress(Console(file=sys.stderr), given.command or given.candidate) as watch:
            report = check_in_process(request, given.time_limit, watch)
    except Refused as refused:
        parser.exit(2, f"gemelos check: {refused}\n")
    except KeyboardInterrupt:
        parser.exit(130, "\ngemelos check: stopped\n")
    if given.json:
        print(json.dumps(report.as_json(), indent=1, default=str))
    else:
        show(report, console, given.lang)
    return report.exit_code


def _parser() -> Parser:
    parser = Parser(
        prog="gemelos check",
        description="Hold your own implementation against the reference: forward and gradients, within a computed error "
        "budget; what is wrong is named and shrunk.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = "FILE.py:NAME or package.module:NAME; or a dump, an .npz file or a folder of .npy files"
    parser.add_argument("candidate", metavar="CANDIDATE", nargs="?", help=what)
    like = f"what it should compute, an op: {', '.join(OPS)}; or a part: {', '.join(PART_NAMES)}"
    parser.add_argument("--like", metavar="NAME", help=like)
    parser.add_argument("--backward", metavar="FILE.py:NAME", help="its backward (default: NAME_backward)")
    parser.add_argument("--command", metavar="WORDS", help="a program of any language instead, with DIR_IN and DIR_OUT")
    parser.add_argument(
        "--options",
        default="",
        metavar="OPTIONS",
        help="that the program takes: mask,causal; always, with a !: causal!; or of a dump: causal,p=0.1",
    )
    parser.add_argument("--dtype", choices=tuple(PRECISIONS), help="default: those that it takes, float64 and float32")
    parser.add_argument("--device", default="cpu", help="of a torch candidate: cpu or cuda (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=CASES, metavar="N", help="of the table (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the cases (default: %(default)s)")
    parser.add_argument("--sizes", default="", metavar="c=64,n=128", help="sizes that it cannot do without")
    parser.add_argument("--lead", type=int, metavar="N", help="leading axes that it takes (default: none, one and two)")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default="any", help="of an attention: just four axes, in this order"
    )
    parser.add_argument(
        "--mask-true", choices=MASK_TRUE, default="keeps", help="what True in a mask does (default: keeps)"
    )
    parser.add_argument(
        "--without", default="", metavar="OPTIONS", help="options that it is not to be given: bias,scale"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        choices=NAMES,
        metavar="NAME",
        help=f"a convention that is as good as the table's; may be repeated: {', '.join(NAMES)}",
    )
    parser.add_argument("--accept-conventions", action="store_true", help="every convention is as good as the table's")
    parser.add_argument("--strict", action="store_true", help="bad input must be refused, empty axes taken, as here")
    parser.add_argument("--no-trace", action="store_true", help="look for no line of your own file")
    laws = parser.add_argument_group("without a reference", "for an op that the table does not know")
    laws.add_argument("--laws-only", action="store_true", help="its gradient against its own forward, and laws")
    laws.add_argument("--shapes", metavar="SHAPES", help="of its operands, by letter: 'X: ... n d; W: k d; ids: n < v'")
    laws.add_argument(
        "--inputs", metavar="FILE.py:NAME", help="a function of a NumPy generator that makes its operands"
    )
    laws.add_argument("--laws", default="", metavar="LAWS", help="more to hold it to: batch, 'permutation n'")
    parser.add_argument(
        "--time-limit", type=seconds, default=10.0, metavar="S", help="of one call (default: %(default)s s)"
    )
    parser.add_argument(
        "--out", default="results/check", metavar="DIR", help="of the counterexample (default: %(default)s)"
    )
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="of the report (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


def _is_dump(path: str) -> bool:
    return path.endswith(".npz") or Path(path).is_dir()


def _dump(given: argparse.Namespace, console: Console) -> int:
    """Arrays that somebody wrote: nothing is run."""
    from equivalence_tests import diagnosis, dump

    try:
        options = dict(_constant(word) for word in _words(given.options))
        found = dump.check_dump(
            Path(given.candidate), OPS[given.like], options=options, dtype=given.dtype, explain=diagnosis.explain
        )
    except ValueError as error:
        raise Refused(str(error)) from None
    if given.json:
        print(json.dumps(found.as_json(), indent=1, default=str))
    else:
        dump.report(found, console, given.lang)
    return found.exit_code


def _request(parser: Parser, given: argparse.Namespace) -> dict[str, Any]:
    """What the worker is told."""
    if given.command is not None and not given.command.strip():
        parser.error(f"--command: {given.command!r} came, expected a program, DIR_IN and DIR_OUT")
    if (given.candidate is None) == (given.command is None):
        parser.error("expected FILE.py:NAME, a dump, or --command WORDS (one of them)")
    if given.like is None and not given.laws_only:
        parser.error(f"--like: expected an op ({', '.join(OPS)}) or a part ({', '.join(PART_NAMES)})")
    if given.like in PART_NAMES:
        _no_op_flags(parser, given)
    elif given.like is not None and given.like not in OPS:
        parser.error(f"--like: {given.like!r} is no op and no part, {nearest(given.like, (*OPS, *PART_NAMES))}")
    if given.like not in PART_NAMES:
        _refuse_the_useless(parser, given)
    for name, least in (("cases", 1), ("seed", 0), ("lead", 0)):
        value = getattr(given, name)
        if value is not None and value < least:
            parser.error(f"--{name}: {value} came, expected at least {least}")
    if given.lead is not None and given.lead > MOST_LEAD:
        parser.error(f"--lead: {given.lead} came, expected at most {MOST_LEAD}")
    if Path(given.out).exists() and not Path(given.out).is_dir():
        parser.error(f"--out: {given.out} is a file, expected a folder")
    asked = Request(
        spec=given.command or given.candidate,
        like=given.like or "",
        backward=given.backward,
        command=given.command is not None,
        options=_words(given.options),
        without=_words(given.without),
        device=given.device,
        layout=given.layout,
        mask_true=given.mask_true,
        lead=given.lead,
        limit=given.time_limit,
    )
    return {
        "candidate": asdict(asked),
        "laws_only": given.laws_only,
        "shapes": given.shapes,
        "inputs": given.inputs,
        "laws": _words(given.laws),
        "out": given.out,
        "settings": {
            "cases": given.cases,
            "seed": given.seed,
            "dtypes": [given.dtype] if given.dtype else None,
            "sizes": _sizes(parser, given.sizes, given.like, given.laws_only),
            "strict": given.strict,
            "accept": ["all"] if given.accept_conventions else given.accept,
            "trace": not given.no_trace,
        },
    }


def _no_op_flags(parser: Parser, given: argparse.Namespace) -> None:
    """A part is a function or a class of Python, and the flags of an op say nothing of it."""
    for name in OP_FLAGS:
        if getattr(given, name) != parser.get_default(name):
            parser.error(f"--{name.replace('_', '-')} is for an op, not for the part {given.like}")
    if given.candidate is not None and _is_dump(given.candidate):
        parser.error(f"{given.candidate}: a dump came, expected FILE.py:NAME for the part {given.like}")


def _constant(word: str) -> tuple[str, bool | int | float]:
    """causal, or p=0.1: an option that is not in a dump."""
    name, _, value = word.partition("=")
    if not value:
        return name, True
    try:
        return name, int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        raise Refused(f"--options: {word!r} came, expected one such as causal or p=0.1") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _refuse_the_useless(parser: Parser, given: argparse.Namespace) -> None:
    """A flag that would change nothing is an error."""
    if given.backward == "":
        parser.error("--backward: '' came, expected FILE.py:NAME or package.module:NAME")
    kind = "--command" if given.command is not None else "--laws-only" if given.laws_only else ""
    if given.command is not None and given.laws_only:
        parser.error("--laws-only: it came with --command, expected a function")
    given_anew = {name: getattr(given, name) != parser.get_default(name) for name in vars(given)}
    for name in USELESS.get(kind, USELESS["a function"]):
        if given_anew[name] and not (given.candidate is not None and _is_dump(given.candidate)):
            flag = f"--{name.replace('_', '-')}"
            parser.error(f"{flag}: it came with {kind or 'a function'}, where it changes nothing")
    if given.like in OPS and given.mask_true != "keeps" and "mask" not in options_of(OPS[given.like]):
        parser.error(f"--mask-true: {given.like} has no mask")


def _sizes(parser: Parser, text: str, like: str | None, laws_only: bool) -> dict[str, int]:
    """c=64,n=128. The letters of --shapes are known where the laws are asked."""
    letters = _letters(like) if text and not laws_only else []
    sizes = {}
    for part in text.split(",") if text else ():
        name, _, size = part.partition("=")
        if not name or not size.isdecimal() or int(size) < 1:
            parser.error(f"--sizes: {part!r} came, expected a letter and a number such as c=64")
        if name not in letters and not laws_only:
            said = f"expected one of {', '.join(letters)}" if letters else "its sizes are those of its configuration"
            parser.error(f"--sizes: {like} has no {name!r}, {said}")
        if int(size) > MOST_SIZE:
            parser.error(f"--sizes: {part} came, expected at most {MOST_SIZE}")
        sizes[name] = int(size)
    return sizes


def _letters(like: str | None) -> list[str]:
    """The letters of an op's sizes: those that change the shapes of its cases when they are given."""

    def shapes(fixed: dict[str, int]) -> list[Any]:
        drawn = [OPS[like].draw(SeededDraws(np.random.default_rng(i), fixed), False) for i in range(10)]  # type: ignore[index]
        return [array.shape for case in drawn for array in case.operands.values()]

    return [letter for letter in "ABHcdekmnv" if like in OPS and shapes({letter: 13}) != shapes({})]


@contextmanager
def _progress(console: Console, label: str) -> Iterator[Any]:
    """What it is at, on a terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda at: bar.update(task, description=f"{label}: {at}")
