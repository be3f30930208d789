"""The katas of a folder, for the test file that stands in it."""

from __future__ import annotations

from pathlib import Path

from equivalence_tests.dojo import progress
from equivalence_tests.dojo.folder import kata_named, path_of
from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.process import judge_file


def katas_of(folder: Path) -> list[str]:
    """The names of the katas that have a file there, in the order of the course."""
    return [kata.name for kata in KATAS if path_of(folder, kata).exists()]


def what_is_wrong(folder: Path, name: str) -> str:
    """The dojo's sentence in the folder's language, or nothing. Progress is left as it is."""
    kata, language = kata_named(name, "en"), progress.read(folder).language
    path = path_of(folder, kata)
    verdict = judge_file(kata, path)
    return "" if verdict.passed else f"{path.name}: {verdict.say(language)}"
