"""`gemelos bench`, or `python -m benchmarks`: check, then time, CPU against GPU."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from benchmarks import rows as files
from benchmarks import shares, training
from benchmarks.choice import end_of, followed, ordered, plan_of, takes_part, wanted_sizes
from benchmarks.process import cores
from benchmarks.progress import Shown
from benchmarks.rows import Results
from benchmarks.session import Session, names
from benchmarks.suites import SUITES, Scale, works_of
from benchmarks.timing import Plan
from benchmarks.work import Work
from equivalence_tests.candidate import op_named
from equivalence_tests.flags import Parser, seconds
from equivalence_tests.implementations import one_line
from equivalence_tests.loading import nearest
from equivalence_tests.request import Request

OUT, FILE = Path("results/bench"), "results.json"
EVERY = 20.0  # s between two writings of it
COMMANDS = ("compare", "report")
PROG = "gemelos bench"

EPILOG = f"""suites (default: all of them, at most ten minutes)
{chr(10).join(f"  {name:<11} {says}" for name, says in SUITES.items())}

further commands
  gemelos bench compare A.json B.json    what became faster or slower
  gemelos bench report RESULTS.json      tables and pictures of a result file

exit status: 0 done, 1 a contestant was wrong, 2 a wrong argument or file,
130 stopped by Ctrl-C (what was measured is kept)"""


def parser() -> Parser:
    parse = Parser(
        prog=PROG,
        description="Time the implementations against each other, each checked against float64 first and again after.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parse.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    scale = parse.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="everything once at tiny sizes, to see that it runs")
    scale.add_argument(
        "--full", action="store_true", help="also the source's own size and n to 65,536; takes hours, the bars first"
    )
    scale.add_argument("--bars", action="store_true", help="only the works of the table of bars, at their own sizes")
    parse.add_argument("--sizes", nargs="+", metavar="B,H,n,c", help="your own: batch, heads, tokens, width of a head")
    parse.add_argument("--add", metavar="FILE.py:NAME", help="your own contestant; it is checked before it is timed")
    parse.add_argument("--like", metavar="OP", help="what it computes: an op of the table")
    parse.add_argument("--only", nargs="+", default=[], metavar="CONTESTANT", help="these alone, such as 'numpy fast'")
    parse.add_argument(
        "--seconds", type=seconds, metavar="S", help="to time one work for; ten rounds are timed in any case"
    )
    parse.add_argument(
        "--threads", type=int, default=cores(), metavar="N", help="of every contestant (default: %(default)s)"
    )
    parse.add_argument(
        "--out", type=Path, default=OUT, metavar="DIR", help="of results and report (default: %(default)s)"
    )
    return parse


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in COMMANDS:
        return _of_files(arguments[0], arguments[1:])
    parse = parser()
    given = parse.parse_args(arguments)
    try:
        works, plan, own = _asked(given)
        given.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        parse.exit(2, f"{PROG}: {one_line(error).removeprefix('ValueError: ')}\n")
    part = partial(takes_part, given=given)
    with Session(plan, given.threads, [*PROG.split(), *arguments], tuple(given.only), own, part) as session:
        try:
            _measure(session, works, given)
        except KeyboardInterrupt:
            session.results.interrupted = True
        return max(_written(session.results, given.out), _of_its_own(session.results, given.add))


def _measure(session: Session, works: list[Work], given: argparse.Namespace) -> None:
    """The file is written on the way too: whatever ends this process, most of it is there."""
    then, left = followed(works), []
    written = -math.inf
    with Shown(len(works)) as shown:
        for work in works:
            until = session.began + end_of(work.suite, given)
            if time.monotonic() > until:
                left.append(work)
            elif session.contestants(work):
                shown.begin(work)
                session.measure(work, shown.watch, shown.row, until)
            shown.done()
            if work is then and work not in left:
                shares.measure(session, work, shown.watch, shown.row)
                if not given.bars:
                    training.measure(session, work, given.quick, shown.watch, shown.row)
            if time.monotonic() - written > EVERY:
                session.results.write(given.out / FILE)
                written = time.monotonic()
        if left:
            suites = ", ".join(dict.fromkeys(work.suite for work in left))
            said = f"{len(left)} of {len(works)} works were not begun, their time was over: {suites}"
            shown.say.print(f"{said} (name a suite, or --full)", style="bold", markup=False)


FAILED = ("wrong", "failed", "out of memory")


def _of_its_own(results: Results, added: str | None) -> int:
    """The exit status for the contestant that was added: 1 if it failed somewhere, and the first reason is said."""
    failed = [row for row in results.rows if row.contestant == added and row.status in FAILED]
    if failed:
        print(f"{added} was not timed, {failed[0].work} {failed[0].part}: {failed[0].status}: {failed[0].why}")
    return int(bool(failed))


def _written(results: Results, folder: Path) -> int:
    """The file, the report, and the exit status."""
    path = folder / FILE
    results.write(path)
    found = [str(path)]
    found.append(str(import_module("benchmarks.report").write(results, folder)))  # it needs matplotlib: not for --help
    wrong = [row for row in results.rows if row.status == "wrong"]
    if not any(row.device == "cuda" and row.median is not None for row in results.rows):
        print("No GPU was timed: nothing is claimed about one.")
    for row in wrong:
        print(f"Wrong, and not timed: {row.contestant}, {row.work} {row.part}: {row.why}")
    print(f"{'Stopped; what was measured is' if results.interrupted else 'Written'}: {', '.join(found)}")
    if results.interrupted:
        return 130
    return 1 if wrong else 0


def _asked(given: argparse.Namespace) -> tuple[list[Work], Plan, tuple[str, str] | None]:
    """ValueError, one line, for what there is not."""
    for suite in given.suites:
        if suite not in SUITES:
            raise ValueError(f"there is no suite {suite!r}, {nearest(suite, [*SUITES, *COMMANDS])}")
    for name in given.only:
        known = names()
        if name not in known:
            raise ValueError(f"--only: there is no contestant {name!r}, {nearest(name, known)}")
    for flag, value in (("--seconds", given.seconds), ("--threads", given.threads)):
        if value is not None and not value > 0:
            raise ValueError(f"{flag}: {value} came, expected more than 0")
    own, causal = None, True
    if (given.add is None) != (given.like is None):
        raise ValueError("--add and --like belong together: a function, and the op that it is like")
    if given.add is not None:
        op_named(given.like)
        own = (given.add, given.like)
        candidate = Request(given.add, given.like).candidate()
        causal = "causal" in candidate.plan.names.values() or given.like == "simple_attention"
    asked = tuple(wanted_sizes(text) for text in given.sizes or ())
    scale = Scale(given.quick, given.full or given.bars, asked, given.like, causal)
    chosen = given.suites or list(SUITES)
    works = [work for suite in SUITES if suite in ("roofline", *chosen) for work in works_of(suite, scale)]
    works = ordered(works, given)
    if not any(work.suite in chosen for work in works):
        raise ValueError(f"{' and '.join(chosen)}: nothing to time there with these flags")
    return works, plan_of(given), own


def _of_files(command: str, arguments: list[str]) -> int:
    """compare and report."""
    if command == "compare":
        result: int = import_module("benchmarks.compare").main(arguments)
        return result
    parse = Parser(prog=f"{PROG} report", description="Tables and pictures of a result file, in a folder.")
    parse.add_argument("results", type=Path, metavar="RESULTS.json")
    parse.add_argument("--out", type=Path, metavar="DIR", help="default: the folder of the file")
    given = parse.parse_args(arguments)
    try:
        found = files.read(given.results)
        print(import_module("benchmarks.report").write(found, given.out or given.results.parent))
    except (ValueError, OSError) as error:
        parse.exit(2, f"{parse.prog}: {one_line(error).removeprefix('ValueError: ')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
