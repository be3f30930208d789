"""What a learner does at the terminal: check, watch, hint, reset; each keeps its progress."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from equivalence_tests.dojo import folder as folders
from equivalence_tests.dojo import progress as kept_in
from equivalence_tests.dojo import showing, words
from equivalence_tests.dojo.katas import KATAS, Kata
from equivalence_tests.dojo.process import judge_file, train_with
from equivalence_tests.dojo.sources import HINTS, source_of
from equivalence_tests.dojo.verdict import Verdict
from equivalence_tests.dojo.words import word
from equivalence_tests.findings import LANGUAGES

LOOK_EVERY = 0.3  # seconds between two looks at a file's time
TRAINS = "gpt_loss_backward"  # the kata whose answer trains a model


@dataclass(frozen=True)
class Session:
    """A folder, the language it is spoken to in, and where that is printed."""

    folder: Path
    language: str
    console: Console
    errors: Console
    limit: float

    def progress(self) -> kept_in.Progress:
        """What was kept; a file that cannot be read is put aside, which is said."""
        try:
            return kept_in.read(self.folder)
        except ValueError as error:
            aside = kept_in.put_aside(self.folder)
            self.errors.print(Text(word("put_aside", self.language, error=error, aside=aside.name)), soft_wrap=True)
            return kept_in.update(self.folder, lambda before: replace(before, language=self.language))

    def chosen(self, named: Sequence[str]) -> list[Kata]:
        """The katas that are named; none: the first that is not passed, or the last of all."""
        if named:
            return [folders.kata_named(each, self.language) for each in named]
        return [folders.first_open(self.progress()) or KATAS[-1]]

    def say(self, key: str, style: str = "", **numbers: Any) -> None:
        self.console.print(Text(word(key, self.language, **numbers), style), soft_wrap=True)

    def check(self, kata: Kata, picture: bool = False) -> Verdict:
        """Judge a kata, keep what came of it, show it."""
        self.progress()
        path = folders.path_of(self.folder, kata)
        where = str(path.with_suffix(".png")) if picture else ""
        with spinning(self.errors, path.name) as watch:
            verdict = judge_file(kata, path, self.limit, watch, where)
        kept = kept_in.update(self.folder, lambda before: after(before, kata, verdict))
        showing.show_verdict(kata, path.name, verdict, self.console, self.language)
        if picture and not verdict.picture and not verdict.passed:
            self.say("no_picture")
        if verdict.passed:
            self._go_on(kata, path, kept)
        return verdict

    def _go_on(self, kata: Kata, path: Path, kept: kept_in.Progress) -> None:
        if kata.name == TRAINS:
            self.train(kata, path)
        showing.show_bar(kept, self.console, self.language)
        coming = folders.first_open(kept, kata)
        if coming is None:
            self.say("all_done", "bold green")
            return
        title, kind = source_of(coming).title(self.language), words.KINDS[coming.kind][LANGUAGES.index(self.language)]
        self.say("next_kata", file=folders.path_of(self.folder, coming).name, kind=kind, title=title)

    def train(self, kata: Kata, path: Path) -> None:
        """A tiny GPT, trained by the learner's own backward."""
        with _trained(self.errors) as bar:
            story = train_with(kata, path, self.limit, bar)
        if isinstance(story, Verdict):
            showing.show_verdict(kata, path.name, story, self.console, self.language)
            return
        self.say("training", parameters=story["parameters"])
        told = {"first": story["losses"][0], "last": story["losses"][-1], "steps": len(story["losses"])}
        self.say("trained", **told)
        self.console.print(Text(f"    {story['text']}", "italic"))

    def hint(self, kata: Kata) -> None:
        """One more step each time; all of them after success, or when all were shown."""
        self.progress()
        everything = len(HINTS)

        def one_more(before: kept_in.Progress) -> kept_in.Progress:
            state = before.of(kata.name)
            if state.passed:
                return before
            return before.with_state(kata.name, replace(state, hints=min(state.hints + 1, everything)))

        before = kept_in.read(self.folder).of(kata.name)
        state = kept_in.update(self.folder, one_more).of(kata.name)
        steps = range(1, everything + 1) if state.passed or before.hints == everything else [state.hints]
        for step in steps:
            showing.show_hint(kata, step, self.console, self.language)
        if not state.passed and state.hints < everything:
            self.say("more_hints", "dim", number=kata.number)

    def solution(self, kata: Kata) -> None:
        """The last hint at once: whoever has seen it has had them all."""
        self.progress()
        kept_in.update(self.folder, lambda before: _all_hints(before, kata))
        self.console.print(Text(source_of(kata).solution), soft_wrap=True)

    def reset(self, kata: Kata) -> None:
        backup = folders.reset(self.folder, kata, self.language)
        name = folders.path_of(self.folder, kata).name
        if backup is None:
            self.say("restored", file=name)
        else:
            self.say("reset", file=name, backup=backup.name)

    def watch(self, named: Sequence[str]) -> None:
        """Check at every save, until Ctrl-C; with no kata named, from the first open one to the next."""
        kata: Kata | None = self.chosen(named)[0]
        try:
            while kata is not None:
                path = folders.path_of(self.folder, kata)
                self.say("watching", "dim", file=path.name)
                passed = self._watch_one(kata, path, leave=not named)
                kata = folders.first_open(self.progress(), kata) if passed and not named else None
        except KeyboardInterrupt:
            self.console.print()
            self.say("ended")

    def _watch_one(self, kata: Kata, path: Path, leave: bool) -> bool:
        seen = None
        while True:
            changed = _saved_at(path)
            if changed != seen:
                seen = changed
                if self.check(kata).passed and leave:
                    return True
            time.sleep(LOOK_EVERY)


def after(before: kept_in.Progress, kata: Kata, verdict: Verdict) -> kept_in.Progress:
    """Progress with one more attempt in it; a file that was not touched is none."""
    state = before.of(kata.name)
    if not verdict.attempted or verdict.code == "defect":
        return before
    last = {} if verdict.passed else verdict.texts()
    passed = state.passed or verdict.passed
    return before.with_state(kata.name, replace(state, passed=passed, attempts=state.attempts + 1, last=last))


def _all_hints(before: kept_in.Progress, kata: Kata) -> kept_in.Progress:
    state = before.of(kata.name)
    return before if state.passed else before.with_state(kata.name, replace(state, hints=len(HINTS)))


def _saved_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@contextmanager
def spinning(console: Console, label: str) -> Iterator[Any]:
    """What it is at, on a terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda at: bar.update(task, description=f"{label}: {at.removeprefix('diagnosis: ')}")


@contextmanager
def _trained(console: Console) -> Iterator[Any]:
    """A bar for `step of steps, loss`, on a terminal."""
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("GPT", total=None)

        def update(at: str) -> None:
            step, _, rest = at.partition(" of ")
            steps, _, loss = rest.partition(", ")
            if step.isdecimal() and steps.isdecimal():
                bar.update(task, completed=int(step), total=int(steps), description=f"GPT {loss}")

        yield update
