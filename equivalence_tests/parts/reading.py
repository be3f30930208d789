"""Laws of reading a file of stories and of holding some of them out."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equivalence_tests.parts._guard import not_refused, told
from equivalence_tests.parts._part import Law


def _read(part: Any, content: bytes | str, name: str = "cuentos.txt") -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return part(path)


def _reads(part: Any, content: bytes | str, expected: list[str], name: str = "cuentos.txt") -> str:
    try:
        found = _read(part, content, name)
    except ValueError as error:
        return f"{content!r} was refused: {error}"
    return "" if found == expected else f"{content!r} is read as {found}, expected {expected}"


def a_story_is_a_line(part: Any) -> str:
    """LF, CR LF and CR end a line; blank lines are dropped, the others stripped."""
    return _reads(part, "uno\ndos\r\n\r\n \ttres \rcuatro\n\n\n cinco", ["uno", "dos", "tres", "cuatro", "cinco"])


def nothing_else_ends_a_line(part: Any) -> str:
    """A form feed, a vertical tab, U+0085, U+2028 and U+2029 are white space within a story."""
    story = "a\x0cb\x0bc\x85d\u2028e\u2029f\x1cg"
    return _reads(part, story + "\nfin\n", [story, "fin"])


def a_bom_is_no_part_of_the_first_story(part: Any) -> str:
    """EF BB BF at the start is dropped, and only there."""
    return _reads(part, b"\xef\xbb\xbfa\r\nb", ["a", "b"]) or _reads(part, "a\n\ufeffb", ["a", "\ufeffb"])


def the_unicode_form_stays(part: Any) -> str:
    """Composed and decomposed letters come as they are."""
    return _reads(part, "n\u0303 \u00f1 e\u0301\n\ufb01n", ["n\u0303 \u00f1 e\u0301", "\ufb01n"])


def what_is_no_text_is_refused(part: Any) -> str:
    """Latin-1, NUL bytes, an empty file, blank lines only: one line of ValueError that names the file."""
    for content in ("a\nniño".encode("latin-1"), b"a\0b", b"", b" \n\r\n\t", "año".encode("utf-16")):
        told = not_refused(partial(_read, part, content), "cuentos.txt")
        if told:
            return f"{content!r}: {told}"
    return ""


def a_story_is_the_text_of_a_record(part: Any) -> str:
    """The column `text` of a CSV, wherever it stands; quotes, commas and line breaks inside; the suffix in any case."""
    content = 'id,text,año\r\n1,"Uno, dos\r\ny ""tres""",7\r\n2, cuatro ,8\r\n\r\n3,"",9\r\n'
    for name in ("cuentos.csv", "CUENTOS.CSV"):
        told = _reads(part, content, ['Uno, dos y "tres"', "cuatro"], name)
        if told:
            return told
    return _reads(part, "\ufefftext\nuno\n", ["uno"], "cuentos.csv")


def a_csv_that_would_lose_text_is_refused(part: Any) -> str:
    """No column `text` or two, a comma without quotes, a quote that is never closed."""
    for content in ("id,story\n1,a\n", "text,text\na,b\n", "id,text\n1,uno, dos\n", 'text\n"uno\ndos\n', "text\n"):
        told = not_refused(partial(_read, part, content, "cuentos.csv"), "cuentos.csv")
        if told:
            return f"{content!r}: {told}"
    return ""


# split_texts

TALES = [f"cuento {n}" for n in range(29)]


def _split(part: Any, texts: list[str], held_out: float, seed: int = 0) -> Any:
    return part(texts, held_out, np.random.default_rng(seed))


def every_story_is_on_one_side_in_its_order(part: Any) -> str:
    """The two sides are the texts, each story once, in the order of the texts."""
    for seed in range(5):
        train, held = _split(part, TALES, 0.3, seed)
        if sorted([*train, *held]) != sorted(TALES):
            return f"{len(train)} and {len(held)} stories of {len(TALES)}"
        if any(side != [story for story in TALES if story in side] for side in (train, held)):
            return "the order of the texts is lost"
    return ""


def a_story_told_twice_is_on_one_side(part: Any) -> str:
    """Copies stay together: a held-out story has not been trained on."""
    texts = TALES + TALES[:20] + TALES[:20]
    for seed in range(5):
        train, held = _split(part, texts, 0.3, seed)
        both = set(train) & set(held)
        if both:
            return f"{min(both)!r} is on both sides"
        if len(train) + len(held) != len(texts):
            return f"{len(train)} and {len(held)} stories of {len(texts)}"
    return ""


def the_share_is_rounded_but_never_to_nothing(part: Any) -> str:
    """29 stories: 0.1 is 3 held out, 0.5 is 14, a share of almost 0 or 1 leaves one on either side, 0 holds none out."""
    for share, count in ((0.1, 3), (0.25, 7), (0.5, 14), (0.001, 1), (0.999, 28), (0.0, 0)):
        train, held = _split(part, TALES, share)
        if (len(train), len(held)) != (29 - count, count):
            return f"held_out {share}: {len(train)} and {len(held)} stories, expected {29 - count} and {count}"
    return ""


def chance_decides_what_is_held_out(part: Any) -> str:
    """One seed, one split; over 60 seeds every story is held out at some time, and never all seeds alike."""
    if _split(part, TALES, 0.3, 7) != _split(part, TALES, 0.3, 7):
        return "one seed splits in two ways"
    splits = [_split(part, TALES, 0.3, seed)[1] for seed in range(60)]
    never = set(TALES) - {story for held in splits for story in held}  # chance of a story: 0.7^60 < 1e-9
    return f"{min(never)!r} is never held out" if never else ""


def what_cannot_be_split_is_refused(part: Any) -> str:
    """A share outside [0, 1), one story, copies of one story: one line of ValueError."""
    calls = [(TALES, share, "held_out") for share in (-0.1, 1.0, 2.0, float("nan"))]
    calls += [(["a"], 0.5, "texts"), (["a", "a"], 0.5, "texts"), ([], 0.5, "texts")]
    for texts, share, name in calls:
        told = not_refused(partial(_split, part, texts, share), name)
        if told:
            return f"{len(texts)} texts, held_out {share}: {told}"
    return ""


PARTS: dict[str, tuple[Law, ...]] = {
    "read_texts": told(
        a_story_is_a_line,
        nothing_else_ends_a_line,
        a_bom_is_no_part_of_the_first_story,
        the_unicode_form_stays,
        what_is_no_text_is_refused,
        a_story_is_the_text_of_a_record,
        a_csv_that_would_lose_text_is_refused,
    ),
    "split_texts": told(
        every_story_is_on_one_side_in_its_order,
        a_story_told_twice_is_on_one_side,
        the_share_is_rounded_but_never_to_nothing,
        chance_decides_what_is_held_out,
        what_cannot_be_split_is_refused,
    ),
}
