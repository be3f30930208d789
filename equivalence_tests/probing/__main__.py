"""`gemelos probe FILE.py:NAME`: which conventions an implementation follows, each with the input that decided it."""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console
from rich.table import Table

from equivalence_tests.check_process import run_worker
from equivalence_tests.checking import no_watch
from equivalence_tests.flags import seconds
from equivalence_tests.probing import PROBES, Convention
from equivalence_tests.probing.sentences import LANGUAGES
from equivalence_tests.process import Ended

WORKER = "equivalence_tests.probing.worker"
LIMIT = 60.0

HEADINGS = {"en": ("convention", "answer"), "es": ("convención", "respuesta")}
SUMMARY = {
    "en": "{told} of {all} conventions told.",
    "es": "{told} de {all} convenciones averiguadas.",
}


def main(argv: list[str] | None = None) -> int:
    """0 when the conventions were asked for and printed, 2 when nothing could be judged."""
    options = parser().parse_args(argv)
    request = {"function": options.function, "like": options.like}
    try:
        message, _ = run_worker(request, options.time_limit, no_watch, WORKER)
    except Ended as ended:
        message = {"error": f"{options.function}: {ended.finding.say(options.lang)}"}
    except KeyboardInterrupt:
        print("\ngemelos probe: stopped", file=sys.stderr)
        return 130
    if "error" in message:
        print(f"gemelos probe: {message['error']}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"function": options.function, "conventions": message["conventions"]}, indent=1))
    else:
        told = ("name", "answer", "given", "got", "numbers")
        found = [Convention(**{name: each[name] for name in told}) for each in message["conventions"]]
        show(options.function, found, options.lang, Console())
    return 0


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="gemelos probe",
        description="Which conventions an implementation follows, each with the input that decided it.",
        epilog="example: gemelos probe torch.nn.functional:scaled_dot_product_attention",
    )
    found.add_argument(
        "function",
        metavar="FILE.py:NAME",
        help="a function, module, class or factory without arguments; or package.module:NAME",
    )
    found.add_argument("--like", metavar="OP", help=f"what it is like (by default guessed): {', '.join(PROBES)}")
    found.add_argument("--lang", choices=LANGUAGES, default="en", help="the language of the answers (en)")
    found.add_argument(
        "--time-limit", type=seconds, default=LIMIT, metavar="S", help="of the whole probe (default: %(default)s s)"
    )
    found.add_argument("--json", action="store_true", help="print JSON")
    return found


def show(name: str, found: list[Convention], language: str, say: Console) -> None:
    """A table that a narrow terminal can show: the question, the answer, and below it the evidence."""
    table = Table(title=name, title_justify="left", show_lines=say.is_terminal, expand=False)
    for heading in HEADINGS[language]:
        table.add_column(heading, overflow="fold")
    before = ""
    for each in found:
        answer = each.say(language)
        said = f"[dim]{_plain(answer)}[/dim]" if not each.told else f"[bold]{_plain(answer)}[/bold]"
        new = each.evidence and each.evidence != before  # one input may decide several, one below the other
        table.add_row(each.title(language), said + (f"\n[dim]{_plain(each.evidence)}[/dim]" if new else ""))
        before = each.evidence
    say.print(table)
    told = sum(each.told for each in found)
    say.print(SUMMARY[language].format(told=told, all=len(found)))


def _plain(text: str) -> str:
    """Brackets are no markup."""
    return text.replace("[", r"\[")


if __name__ == "__main__":
    sys.exit(main())
