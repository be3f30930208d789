"""`gemelos dojo`: katas of manual backprop, judged by the kit, in English and Spanish."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from equivalence_tests.dojo import folder as folders
from equivalence_tests.dojo import progress, showing
from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.process import LIMIT
from equivalence_tests.dojo.session import Session
from equivalence_tests.dojo.words import word
from equivalence_tests.findings import LANGUAGES
from equivalence_tests.flags import Parser, seconds

EXAMPLES = """examples
  gemelos dojo start --lang es          a folder katas/ with every kata, in Spanish
  gemelos dojo check                    the first kata that is not passed
  gemelos dojo check 4 softmax_back     katas by number, by name, by the beginning of one
  gemelos dojo hint                     a nudge, then the formula, the code's shape, the solution
  gemelos dojo watch                    check at every save
  gemelos dojo report class/* --html report.html

exit status: 0 right or done, 1 wrong, 2 it could not be done"""


def main(argv: Sequence[str] | None = None) -> int:
    """0 right or done, 1 an answer is wrong, 2 it could not be done."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        status: int = given.run(given)
    except ValueError as error:
        parser.exit(2, f"gemelos dojo: {error}\n")
    except OSError as error:
        parser.exit(2, f"gemelos dojo: {error.filename}: {error.strerror}\n")
    except KeyboardInterrupt:
        parser.exit(130, f"\ngemelos dojo: {word('stopped', given.lang or LANGUAGES[0])}\n")
    return status


def _parser() -> Parser:
    parser = Parser(
        prog="gemelos dojo",
        description="Learn manual backprop: write the gradients of softmax, attention, layer norm, an RNN and a GPT; "
        "what is wrong is named.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common = Parser(add_help=False)
    common.add_argument("--lang", choices=LANGUAGES, help="default: that of the folder")
    common.add_argument("--folder", metavar="FOLDER", help="of the katas (default: the nearest one, or katas/)")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: object, told: str) -> Parser:
        found = commands.add_parser(name, help=told, description=told, parents=[common])
        found.set_defaults(run=run)
        return found

    command("start", _start, "make a folder with every kata; nothing in it is written over").add_argument(
        "where", nargs="?", metavar="FOLDER", help=f"default: {folders.DEFAULT}/"
    )
    command("list", _list, "every kata, what it asks for, how far you are")
    checks = command("check", _check, "judge katas (none named: the first that is not passed)")
    checks.add_argument("katas", nargs="*", metavar="KATA")
    checks.add_argument("--picture", action="store_true", help="draw the Jacobian of a wrong gradient beside the file")
    watches = command("watch", _watch, "check at every save, until Ctrl-C")
    watches.add_argument("katas", nargs="?", metavar="KATA")
    for parser_of in (checks, watches):
        told = "seconds that one call may take (default: %(default)g)"
        parser_of.add_argument("--time-limit", type=seconds, default=LIMIT, metavar="S", help=told)
    command("hint", _hint, "one more hint of four").add_argument("katas", nargs="?", metavar="KATA")
    command("reset", _reset, "put the start back; your answer is kept beside it").add_argument("katas", metavar="KATA")
    command("solution", _solution, "show the solution").add_argument("katas", metavar="KATA")
    command("progress", _progress, "how far you are")
    lessons = command("lessons", _lessons, "write the lessons, as scripts, into the folder")
    lessons.add_argument("--notebooks", action="store_true", help="as notebooks (needs jupytext)")
    handout = command("handout", _handout, "write the example that is worked by hand, as a page to print")
    handout.add_argument("--key", action="store_true", help="with every number filled in")
    handout.add_argument("--out", metavar="FILE", help="default: in the folder you are in")
    report = command("report", _report, "the teacher's: learners by katas")
    report.add_argument(
        "folders", nargs="+", metavar="FOLDER", help="of a learner, or one with learners' folders in it"
    )
    report.add_argument("--json", action="store_true", help="print it as JSON")
    report.add_argument("--html", metavar="FILE", help="write it as one page")
    report.add_argument("--recheck", action="store_true", help="judge every answer again, trust no progress file")
    matrix = command("matrix", _matrix, "every start, solution and known mistake against the dojo's own judge")
    matrix.add_argument("--kata", action="append", default=[], metavar="NAME", help="one kata alone; may be repeated")
    matrix.add_argument("--json", action="store_true", help="print it as JSON")
    matrix.add_argument("--all", action="store_true", help="print what is right too, mistake by mistake")
    return parser


def _session(given: argparse.Namespace) -> Session:
    """The folder and its language. ValueError if there is no folder."""
    folder = folders.find(given.folder, given.lang)
    console, errors = Console(highlight=False), Console(file=sys.stderr, highlight=False)
    limit = getattr(given, "time_limit", LIMIT)
    session = Session(folder, given.lang or LANGUAGES[0], console, errors, limit)
    kept = session.progress()
    return Session(folder, given.lang or kept.language, console, errors, limit)


def _start(given: argparse.Namespace) -> int:
    folder = Path(given.where or given.folder or folders.DEFAULT)
    if (folder / progress.NAME).exists():  # a broken file is put aside before anything is added
        given.folder = str(folder)
        _session(given)
    done = folders.start(folder, given.lang)
    language = progress.read(folder).language
    first = folders.path_of(folder, KATAS[0])
    if done.kept:
        said = word("started_again", language, folder=folder, new=done.new, kept=done.kept)
    else:
        said = word("started", language, count=len(KATAS), folder=folder, first=first)
    console = Console(highlight=False)
    console.print(Text(said))
    console.print(Text(word("on_the_way", language)))
    return 0


def _list(given: argparse.Namespace) -> int:
    session = _session(given)
    showing.show_list(session.progress(), session.console, session.language)
    return 0


def _check(given: argparse.Namespace) -> int:
    session = _session(given)
    verdicts = [session.check(kata, given.picture) for kata in session.chosen(given.katas)]
    return max(2 if verdict.code in ("no_file", "unreadable", "defect") else not verdict.passed for verdict in verdicts)


def _watch(given: argparse.Namespace) -> int:
    _session(given).watch([given.katas] if given.katas else [])
    return 0


def _hint(given: argparse.Namespace) -> int:
    session = _session(given)
    session.hint(session.chosen([given.katas] if given.katas else [])[0])
    return 0


def _reset(given: argparse.Namespace) -> int:
    session = _session(given)
    session.reset(session.chosen([given.katas])[0])
    return 0


def _solution(given: argparse.Namespace) -> int:
    session = _session(given)
    session.solution(session.chosen([given.katas])[0])
    return 0


def _progress(given: argparse.Namespace) -> int:
    session = _session(given)
    showing.show_progress(session.progress(), session.console, session.language)
    return 0


def _lessons(given: argparse.Namespace) -> int:
    from equivalence_tests.dojo.lessons import lesson_names, write_lesson

    session = _session(given)
    where = session.folder / "lessons"
    where.mkdir(exist_ok=True)
    names = lesson_names()
    refused = 0
    for name in names:
        try:
            write_lesson(name, session.language, where, notebook=given.notebooks)
        except ValueError as error:  # one that was changed there stays as it is
            session.errors.print(Text(str(error)), soft_wrap=True)
            refused += 1
    if refused < len(names):
        session.say("lessons", count=len(names) - refused, folder=where)
    return 2 if refused else 0


def _handout(given: argparse.Namespace) -> int:
    from equivalence_tests.dojo.handout import handout

    language = given.lang
    if language is None:
        try:
            language = progress.read(folders.find(given.folder, None)).language
        except ValueError:  # it needs no folder
            language = LANGUAGES[0]
    name = {"en": "handout-key" if given.key else "handout", "es": "hoja-solucion" if given.key else "hoja"}[language]
    path = Path(given.out or f"{name}.html")
    path.write_text(handout(language, given.key), encoding="utf-8")
    print(word("handout", language, path=path))
    return 0


def _report(given: argparse.Namespace) -> int:
    from equivalence_tests.dojo import teacher

    if given.html is not None and (not given.html or Path(given.html).is_dir()):
        raise ValueError(f"--html: {given.html!r} came, expected the name of a file")
    return teacher.report(given.folders, given.lang or LANGUAGES[0], given.json, given.html, given.recheck)


def _matrix(given: argparse.Namespace) -> int:
    from equivalence_tests.dojo import matrix_report

    names = [folders.kata_named(each, LANGUAGES[0]).name for each in given.kata]
    return matrix_report.run(names, given.json, given.all)


if __name__ == "__main__":
    sys.exit(main())
