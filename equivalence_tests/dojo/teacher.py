"""The teacher's report: learners by katas, from their progress files or judged again."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from equivalence_tests.dojo import folder as folders
from equivalence_tests.dojo import progress, session
from equivalence_tests.dojo.katas import KATAS
from equivalence_tests.dojo.process import judge_file
from equivalence_tests.dojo.progress import Progress, State
from equivalence_tests.dojo.teacher_page import page
from equivalence_tests.dojo.words import word


@dataclass(frozen=True)
class Learner:
    """A folder and what stands in it; `error` where it holds no progress that can be read."""

    name: str
    folder: Path
    progress: Progress
    error: str = ""

    @property
    def passed(self) -> int:
        return sum(self.progress.of(kata.name).passed for kata in KATAS)


def report(named: Sequence[str], language: str, as_json: bool, html: str | None, recheck: bool) -> int:
    """0; 2 if there is no learner at all."""
    errors = Console(file=sys.stderr, highlight=False)
    learners = [learner for each in named for learner in learners_of(Path(each), language)]
    if recheck:
        learners = [judged_again(learner, errors) for learner in learners]
    if as_json:
        print(json.dumps(told(learners, recheck), indent=1, ensure_ascii=False))
    if html is not None:
        Path(html).write_text(page(learners, language, recheck), encoding="utf-8")
        print(word("written", language, path=html), file=sys.stderr if as_json else sys.stdout)
    if not as_json and html is None:
        show(learners, language)
    return 0 if any(not learner.error for learner in learners) else 2


def learners_of(folder: Path, language: str) -> list[Learner]:
    """The learner of a folder, or those of the folders in it."""
    own = _own(folder)
    if own is not None:
        return [read(own, folder)]
    inside = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = [read(path, each) for each in inside if (path := _own(each)) is not None]
    return found or [Learner(str(folder), folder, Progress(), word("no_progress", language))]


def _own(folder: Path) -> Path | None:
    both = (folder, folder / folders.DEFAULT)
    return next((path for path in both if (path / progress.NAME).is_file()), None)


def read(folder: Path, shown: Path) -> Learner:
    """Nothing is put aside here: the folder is the learner's."""
    name = shown.resolve().name if str(shown) in (".", "") else str(shown)
    try:
        return Learner(name, folder, progress.read(folder))
    except ValueError as error:
        return Learner(name, folder, Progress(), str(error))


def judged_again(learner: Learner, errors: Console) -> Learner:
    """What the answers are worth now, whatever the file says; attempts and hints are the file's."""
    found = learner.progress
    for kata in KATAS:
        path = folders.path_of(learner.folder, kata)
        with session.spinning(errors, f"{learner.name}: {path.name}"):
            verdict = judge_file(kata, path)
        state = found.of(kata.name)
        last = {} if verdict.passed or not verdict.attempted else verdict.texts()
        found = found.with_state(kata.name, replace(state, passed=verdict.passed, last=last))
    return replace(learner, progress=found)


def told(learners: Sequence[Learner], recheck: bool) -> dict[str, Any]:
    """What is printed as JSON."""
    return {
        "katas": [kata.name for kata in KATAS],
        "judged_again": recheck,
        "learners": [
            {
                "folder": learner.name,
                "passed": learner.passed,
                "error": learner.error,
                "katas": {kata.name: asdict(learner.progress.of(kata.name)) for kata in KATAS},
            }
            for learner in learners
        ],
    }


def show(learners: Sequence[Learner], language: str) -> None:
    """A line a learner, and what the open katas last said."""
    console = Console(highlight=False)
    for learner in learners:
        counts = learner.error or word("progress", language, passed=learner.passed, count=len(KATAS))
        console.print(Text(f"{learner.name}: {counts}", "bold"))
        for kata in KATAS:
            state = learner.progress.of(kata.name)
            if state != State() and not state.passed:
                said = state.last.get(language, "")
                tries = f"{word('attempts', language)} {state.attempts}, {word('hints', language)} {state.hints}"
                console.print(Text(f"    {kata.file}: {tries}. {said}"))
