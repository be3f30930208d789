"""The READMEs' table of speeds from a result file, and the report it links: `python -m benchmarks.readme RESULTS.json`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.bars import find_all
from benchmarks.plots import DRAWN
from benchmarks.report import bars_table, write
from benchmarks.rows import Results, read
from benchmarks.spanish import in_spanish
from equivalence_tests.flags import Parser

README = Path(__file__).parents[1] / "README.md"
PAGES = (README, README.with_name("README.es.md"))
COMMITTED = Path(__file__).parent / "results" / "bench.json"  # the file that this project's own README is made from
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def parser() -> argparse.ArgumentParser:
    parse = Parser(
        prog="python -m benchmarks.readme",
        description=f"Write the table of speeds into both READMEs, between {BEGIN} and {END}, and beside the result file "
        "the report and the pictures that it links. Exit status: 0 done, 2 for a wrong file.",
    )
    told = "a result file of `gemelos bench` (default: benchmarks/results/bench.json)"
    parse.add_argument("results", type=Path, nargs="?", default=COMMITTED, metavar="RESULTS.json", help=told)
    pages = (
        "the page written, in Spanish if its name ends in .es.md (default: this checkout's README.md and README.es.md)"
    )
    parse.add_argument("--readme", type=Path, help=pages)
    return parse


def main(argv: list[str] | None = None) -> int:
    parse = parser()
    given = parse.parse_args(argv)
    try:
        results, pages = read(given.results), [given.readme] if given.readme else PAGES

        def written(page: Path) -> str:
            return with_table(page.read_text("utf-8"), page, results, given.results)

        for page in pages:  # what is wrong with any of them is said before anything is written
            written(page)
        write(results, given.results.parent, given.results.stem, f"{given.results.stem}-")
        for page in pages:
            page.write_text(written(page), "utf-8")
    except (OSError, ValueError) as error:
        parse.error(str(error))
    return 0


def with_table(page: str, readme: Path, results: Results, path: Path) -> str:
    """The page with the table between the markers. ValueError if it has not one pair of them."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"{readme}: expected {BEGIN} and below it {END}, once each")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    said = f"{_table(results)}\n\n{_origin(readme, results, path)}"
    said = in_spanish(said) if readme.name.endswith(".es.md") else said
    return f"{before}{BEGIN}\n{said}\n{END}{after}"


def _table(results: Results) -> str:
    """The bars that the file says something about, and what became of them."""
    return bars_table(finding for finding in find_all(results) if finding.verdict != "not measured")


def _origin(readme: Path, results: Results, path: Path) -> str:
    """The command, the day, and links to the report and to those pictures that were drawn."""
    folder = Path(os.path.relpath(path.parent, readme.parent)).as_posix()
    plots = [
        f"[{name.removesuffix('.png')}]({folder}/{path.stem}-{name})"
        for name, _, _ in DRAWN
        if (path.parent / f"{path.stem}-{name}").exists()
    ]
    left_out = sum(finding.verdict == "not measured" for finding in find_all(results))
    said = f"`{results.command}`, {results.started[:10]}: [all rows]({folder}/{path.stem}.md)"
    said += f"; plots: {', '.join(plots)}" if plots else ""
    return f"{said}; {left_out} bars not measured." if left_out else f"{said}."


if __name__ == "__main__":
    sys.exit(main())
