"""Mistakes in reading a file of stories and in holding some of them out."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.dataset import read_texts, split_texts

Sides = tuple[list[str], list[str]]


def _is_csv(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".csv"


def _text(path: str | Path, encoding: str = "utf-8-sig") -> str:
    """The text of a file that read_texts takes."""
    read_texts(path)
    return Path(path).read_bytes().decode(encoding)


def _stories(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def mark_kept(path: str | Path) -> list[str]:
    if _is_csv(path):
        return read_texts(path)
    text = _text(path, "utf-8")  # wrong: utf-8-sig
    return _stories(re.split(r"\r\n|\r|\n", text))


def split_at_every_separator(path: str | Path) -> list[str]:
    if _is_csv(path):
        return read_texts(path)
    text = _text(path)
    return _stories(text.splitlines())  # wrong: also at U+2028, U+0085 and form feeds


def split_at_line_feeds(path: str | Path) -> list[str]:
    if _is_csv(path):
        return read_texts(path)
    text = _text(path)
    return _stories(text.split("\n"))  # wrong: CR alone ends a line as well


def what_is_no_utf8_skipped(path: str | Path) -> list[str]:
    try:
        return read_texts(path)
    except ValueError as error:
        if "UTF-8" not in str(error) or "NUL" in str(error):
            raise
    text = Path(path).read_bytes().decode("utf-8", errors="ignore")  # wrong: niño becomes nio, silently
    return _stories(re.split(r"\r\n|\r|\n", text))


def blank_lines_kept(path: str | Path) -> list[str]:
    if _is_csv(path):
        return read_texts(path)
    return [line.strip() for line in re.split(r"\r\n|\r|\n", _text(path))]  # wrong: a blank line is no story


def composed_on_reading(path: str | Path) -> list[str]:
    return [unicodedata.normalize("NFC", story) for story in read_texts(path)]  # wrong: prompts are not read from files


def empty_accepted(path: str | Path) -> list[str]:
    try:
        return read_texts(path)
    except ValueError as error:
        if "usable" not in str(error):
            raise
        return []  # wrong: a corpus without a story is an error


def first_column(path: str | Path) -> list[str]:
    stories = read_texts(path)
    if not _is_csv(path):
        return stories
    with open(path, encoding="utf-8-sig", newline="") as file:
        _, *records = [record for record in csv.reader(file) if record]
    return [record[0].strip() for record in records]  # wrong: the column `text`, wherever it is


def record_is_a_line(path: str | Path) -> list[str]:
    stories = read_texts(path)
    if not _is_csv(path):
        return stories
    lines = Path(path).read_bytes().decode("utf-8-sig").splitlines()  # wrong: a quoted field may hold line breaks
    column = lines[0].split(",").index("text")
    fields = [record[column].strip() for record in csv.reader(lines[1:]) if len(record) > column]
    return [field for field in fields if field]


def suffix_in_lower_case_only(path: str | Path) -> list[str]:
    stories = read_texts(path)
    if not _is_csv(path) or Path(path).suffix == ".csv":  # wrong: .CSV is one as well
        return stories
    return _stories(re.split(r"\r\n|\r|\n", _text(path)))


def extra_fields_ignored(path: str | Path) -> list[str]:
    try:
        return read_texts(path)
    except ValueError as error:
        if "fields" not in str(error):
            raise
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [record["text"] for record in csv.DictReader(file)]  # wrong: a comma has cut the story short


# split_texts


def copies_on_both_sides(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    split_texts(texts, held_out, np.random.default_rng(0))
    count = 0 if held_out == 0 else min(max(round(held_out * len(texts)), 1), len(texts) - 1)
    held = set(rng.permutation(len(texts))[:count].tolist())  # wrong: a story told twice may be on both sides
    return [t for n, t in enumerate(texts) if n not in held], [t for n, t in enumerate(texts) if n in held]


def the_end_held_out(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    train, _ = split_texts(texts, held_out, rng)
    return list(texts[: len(train)]), list(texts[len(train) :])  # wrong: the file's end may be one author's


def sides_shuffled(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    train, held = split_texts(texts, held_out, rng)
    order = rng.permutation(len(train))
    return [train[n] for n in order], held  # wrong: the order of the texts is lost


def rounded_to_nothing(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    train, held = split_texts(texts, held_out, rng)
    count = int(held_out * len(set(texts)))  # wrong: a small share holds nothing out
    return (train, held) if count else (list(texts), [])


def one_seed_for_all(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    return split_texts(texts, held_out, np.random.default_rng(42))  # wrong: the generator given is ignored


def share_is_for_training(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    train, held = split_texts(texts, held_out, rng)
    return held, train  # wrong: the sides are exchanged


def share_clipped(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> Sides:
    return split_texts(texts, min(max(held_out, 0.0), 0.999), rng)  # wrong: a share of 2 is a slip of the pen


def _reading(
    id: str, sentence: str, hidden_on: str, shown_by: str, broken: Callable[..., list[str]], accepts: bool = False
) -> Mistake:
    return Mistake(id, "read_texts", sentence, hidden_on, shown_by, broken, accepts=accepts)


def _splitting(
    id: str, sentence: str, hidden_on: str, shown_by: str, broken: Callable[..., Sides], accepts: bool = False
) -> Mistake:
    return Mistake(id, "split_texts", sentence, hidden_on, shown_by, broken, accepts=accepts)


MISTAKES = (
    _reading("TOK-03", "The first story begins with a BOM.", "no BOM", "bytes EF BB BF", mark_kept),
    _reading("T23", "Lines end at U+2028 as well.", "plain line ends", "U+2028 in a story", split_at_every_separator),
    _reading("T24", "Lines end at LF alone.", "LF and CR LF", "CR alone", split_at_line_feeds),
    _reading(
        "T25",
        "Bytes that are no UTF-8 are skipped.",
        "UTF-8",
        "Latin-1 must raise",
        what_is_no_utf8_skipped,
        accepts=True,
    ),
    _reading("T26", "Blank lines are stories.", "no blank line", "a line end at the end", blank_lines_kept),
    _reading("T27", "Stories are composed on reading.", "composed text", "n + U+0303", composed_on_reading),
    _reading(
        "T28",
        "A file without a story is accepted.",
        "a story",
        "an empty file must raise",
        empty_accepted,
        accepts=True,
    ),
    _reading("T29", "The first column of a CSV is read.", "text comes first", "another first", first_column),
    _reading("T30", "A line of a CSV is a record.", "no line breaks inside", "one inside quotes", record_is_a_line),
    _reading("T31", "A .CSV is read as lines.", "the suffix .csv", "the suffix .CSV", suffix_in_lower_case_only),
    _reading(
        "T32",
        "Fields beyond the header are ignored.",
        "quoted commas",
        "a comma alone",
        extra_fields_ignored,
        accepts=True,
    ),
    _splitting("T33", "Copies of a story are split.", "stories that differ", "a story twice", copies_on_both_sides),
    _splitting("T34", "The end of the file is held out.", "shuffled texts", "two seeds", the_end_held_out),
    _splitting("T35", "The training side is shuffled.", "the stories as a set", "their order", sides_shuffled),
    _splitting("T36", "A small share holds nothing out.", "many stories", "a share of 0.001", rounded_to_nothing),
    _splitting("T37", "The generator given is ignored.", "one split", "two seeds", one_seed_for_all),
    _splitting("T38", "The sides are exchanged.", "a share of a half", "any other share", share_is_for_training),
    _splitting("T74", "Any share is accepted.", "a share in [0, 1)", "2.0 must raise", share_clipped, accepts=True),
)
