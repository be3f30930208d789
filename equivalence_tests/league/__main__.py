"""`python -m equivalence_tests.league`: the known mistakes before other policies of equality."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from equivalence_tests.flags import Parser
from equivalence_tests.league.report import as_json, report
from equivalence_tests.league.standings import check_op, run
from equivalence_tests.origin import origin


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, else nothing."""
    columns = (TextColumn("league"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("league", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _writable(parser: Parser, flag: str, path: Path | None) -> None:
    if path is None:
        return
    if path.is_dir() or not path.absolute().parent.is_dir():
        parser.error(f"{flag}: {path} came, expected a file in a folder that exists")


def main(argv: Sequence[str] | None = None) -> int:
    """0 when the league is played; 2 and one line for an error of use."""
    parser = Parser(
        prog="python -m equivalence_tests.league",
        description="The known mistakes, judged by other policies of equality: how many does each catch?",
    )
    parser.add_argument("--op", help="the mistakes of this op alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, with every mistake that is missed")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the rows as bars")
    arguments = parser.parse_args(argv)
    _writable(parser, "--json", arguments.json)
    _writable(parser, "--plot", arguments.plot)
    if arguments.plot is not None and arguments.plot.suffix != ".png":
        parser.error(f"--plot: {arguments.plot} came, expected a name that ends in .png")
    if arguments.op is not None:
        try:
            check_op(arguments.op)
        except ValueError as error:
            parser.error(str(error))
    with _progress(Console(file=sys.stderr)) as progress:
        standings = run(None if arguments.op is None else [arguments.op], progress)
    report(standings, Console(highlight=False))
    if arguments.json is not None:
        command = [parser.prog, *(sys.argv[1:] if argv is None else argv)]
        told = {"origin": origin(command, seed=0), "policies": as_json(standings)}
        arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if arguments.plot is not None:
        from equivalence_tests.league.picture import league_picture  # matplotlib takes half a second to come

        league_picture(standings, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
