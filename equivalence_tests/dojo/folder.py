"""A learner's folder: the files of the katas, made once and never written over."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from equivalence_tests.dojo import progress
from equivalence_tests.dojo.katas import KATAS, Kata
from equivalence_tests.dojo.sources import source_of
from equivalence_tests.dojo.words import word
from equivalence_tests.findings import LANGUAGES

DEFAULT = "katas"
TESTS = "test_katas.py"
TESTS_TEXT = '''"""`pytest -m kata` judges every kata of this folder, as `gemelos dojo check` does."""

from pathlib import Path

import pytest

from equivalence_tests.dojo.in_pytest import katas_of, what_is_wrong


@pytest.mark.kata
@pytest.mark.parametrize("kata", katas_of(Path(__file__).parent), ids=str)
def test_kata(kata):
    said = what_is_wrong(Path(__file__).parent, kata)
    if said:
        pytest.fail(said, pytrace=False)
'''


@dataclass(frozen=True)
class Started:
    """What `start` did: how many files it wrote, and how many were there already."""

    new: int
    kept: int


def start(folder: Path, language: str | None) -> Started:
    """Every file that is not there yet; the language is remembered. ValueError if the folder is a file."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(word("not_a_folder", language or LANGUAGES[0], folder=folder))
    folder.mkdir(parents=True, exist_ok=True)
    kept = progress.update(folder, lambda before: replace(before, language=language or before.language))
    texts = {path_of(folder, kata): source_of(kata).file(kept.language) for kata in KATAS}
    texts[folder / TESTS] = TESTS_TEXT
    new = sum(_written(path, text) for path, text in texts.items())
    return Started(new, len(texts) - new)


def _written(path: Path, text: str) -> bool:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def find(given: str | None, language: str | None) -> Path:
    """The folder that is named, else the nearest one upward that has a progress file, or a folder `katas` that has one.

    ValueError, one line, if there is none.
    """
    if given is not None:
        folder = Path(given)
        if not (folder / progress.NAME).is_file():
            raise ValueError(word("no_such_folder", language or LANGUAGES[0], folder=given))
        return folder
    here = Path.cwd()
    for at in (here, *here.parents):
        for folder in (at, at / DEFAULT):
            if (folder / progress.NAME).is_file():
                return Path(os.path.relpath(folder))
    raise ValueError(word("no_folder", language or LANGUAGES[0]))


def path_of(folder: Path, kata: Kata) -> Path:
    """The kata's file, by whatever number it was given when the folder was made."""
    if not (folder / kata.file).exists():
        older = [path for path in folder.glob(f"*_{kata.name}.py") if re.fullmatch(r"\d+", path.name.partition("_")[0])]
        if older:
            return sorted(older)[0]
    return folder / kata.file


def reset(folder: Path, kata: Kata, language: str) -> Path | None:
    """Put the start back; where the old answer is kept, if there was one."""
    path = path_of(folder, kata)
    backup = None
    if path.exists():
        backup = progress.unused(path.with_name(f"{path.name}.bak"))
        os.replace(path, backup)
    progress.write_whole(path, source_of(kata).file(language), f".{path.name}.new")
    return backup


def kata_named(text: str, language: str) -> Kata:
    """A kata by its name, number, file, or a beginning that only one has. ValueError, one line, if there is none."""
    name = Path(text).name.removesuffix(".py")
    number, _, rest = name.partition("_")
    if name.isdecimal():
        if not 1 <= int(name) <= len(KATAS):
            raise ValueError(word("no_number", language, word=text, most=len(KATAS)))
        return KATAS[int(name) - 1]
    name = rest if number.isdecimal() else name
    begun = [kata for kata in KATAS if kata.name.startswith(name)]
    exact = [kata for kata in begun if kata.name == name]
    if exact or len(begun) == 1:
        return (exact or begun)[0]
    if begun:
        names = ", ".join(kata.name for kata in begun)
        raise ValueError(word("many_katas", language, word=text, names=names))
    near = difflib.get_close_matches(name, [kata.name for kata in KATAS], n=1, cutoff=0.0)[0]
    raise ValueError(word("no_kata", language, word=text, near=near))


def first_open(kept: progress.Progress, after: Kata | None = None) -> Kata | None:
    """The first kata that is not passed, from `after` on if one comes there."""
    later = [kata for kata in KATAS if after is not None and kata.number > after.number]
    waiting = [kata for kata in (*later, *KATAS) if not kept.of(kata.name).passed]
    return waiting[0] if waiting else None
