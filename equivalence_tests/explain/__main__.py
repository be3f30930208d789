"""`gemelos explain WORDS`: one HTML file that shows a head of attention on them, forward and backward."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from equivalence_tests.explain.head import MOST, Given, drawn
from equivalence_tests.explain.page import page
from equivalence_tests.explain.texts import LANGUAGES
from equivalence_tests.flags import Parser
from equivalence_tests.walk import WIDTH_Q, WIDTH_X

WORDS = {"en": "the fat cat sat on the mat", "es": "el gato se sentó en la alfombra"}


def parser() -> Parser:
    parse = Parser(
        prog="gemelos explain",
        description="Write one HTML file that shows a head of attention on your words, forward and backward, matrix by "
        "matrix, with the numbers of the reference. It needs no network. "
        "Exit status: 0 done, 2 for a wrong argument.",
        epilog='example: gemelos explain "el gato se sentó en la alfombra" --lang es --open',
    )
    parse.add_argument("words", nargs="*", help=f"1 to {MOST} words (default: a cat's)")
    parse.add_argument("--out", type=Path, default=Path("results/explain.html"), help="the file (default: %(default)s)")
    parse.add_argument("--lang", choices=LANGUAGES, default="en", help="in which it opens; it has both (default: en)")
    parse.add_argument("--seed", type=int, default=0, metavar="N", help="of all that is drawn (default: %(default)s)")
    parse.add_argument("--width", type=int, default=WIDTH_X, metavar="D", help="columns of X (default: %(default)s)")
    parse.add_argument(
        "--head", type=int, default=WIDTH_Q, metavar="C", help="columns of Q, K, V (default: %(default)s)"
    )
    model = parse.add_argument_group("a head of a trained model, in place of a drawn one")
    model.add_argument("--checkpoint", type=Path, help="what gemelos train wrote, of a GPT of at most 64 columns")
    model.add_argument("--block", type=int, default=1, metavar="N", help="counted from 1 (default: %(default)s)")
    model.add_argument("--head-number", type=int, default=1, metavar="N", help="counted from 1 (default: %(default)s)")
    parse.add_argument("--open", action="store_true", help="open it in the browser")
    return parse


def head_of(given: argparse.Namespace, text: str) -> Given:
    if given.checkpoint is None:
        return drawn(text.split(), given.seed, given.width, given.head)
    from equivalence_tests.explain.trained import trained  # the commands of models take half a second to load

    return trained(given.checkpoint, text, given.block, given.head_number, given.seed)


def main(argv: list[str] | None = None) -> int:
    given = parser().parse_args(argv)
    try:
        text = page(head_of(given, " ".join(given.words or [WORDS[given.lang]])), given.lang)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text, "utf-8")
    except ValueError as error:
        print(f"gemelos explain: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gemelos explain: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{given.out} ({given.out.stat().st_size / 1000:,.0f} kB)")
    if given.open:
        webbrowser.open(given.out.resolve().as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main())
