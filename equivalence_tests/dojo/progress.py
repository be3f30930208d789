"""What a learner has done, in one file that survives anything: progress.json in the learner's folder.

It is written beside itself and moved into its place in one step, so whoever reads it, or dies while writing, sees the
state before or the state after. Two who write at once take turns at a lock file, each reading what the other has written.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from equivalence_tests.findings import LANGUAGES

NAME, LOCK, NEW = "progress.json", ".progress.lock", ".progress.new"
FORMAT = 1


@dataclass(frozen=True)
class State:
    """Of one kata: `last` is the last finding by language, nothing after a success; `hints` counts those shown."""

    passed: bool = False
    attempts: int = 0
    hints: int = 0
    last: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """The language of the folder, and the state of each kata that was touched, by name."""

    language: str = LANGUAGES[0]
    katas: dict[str, State] = field(default_factory=dict)

    def of(self, name: str) -> State:
        return self.katas.get(name, State())

    def with_state(self, name: str, state: State) -> Progress:
        return replace(self, katas={**self.katas, name: state})


def read(folder: Path) -> Progress:
    """What the file says; the beginning where there is none. ValueError, one line, for a broken or foreign file."""
    try:
        text = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return Progress()
    try:
        return _parsed(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{folder / NAME}: {error}") from None


def update(folder: Path, change: Callable[[Progress], Progress]) -> Progress:
    """Change what the file says, in one step. ValueError as in `read`."""
    with _alone(folder):
        changed = change(read(folder))
        _write(folder, changed)
    return changed


def put_aside(folder: Path) -> Path:
    """Move a file that cannot be read to a name of its own, so that it is not lost: the name."""
    with _alone(folder):
        aside = unused(folder / f"{NAME}.broken")
        os.replace(folder / NAME, aside)
    return aside


def unused(path: Path) -> Path:
    """The first of path-1, path-2, ... that is not there."""
    number = 1
    while path.with_name(f"{path.name}-{number}").exists():
        number += 1
    return path.with_name(f"{path.name}-{number}")


def write_whole(path: Path, text: str, beside: str) -> None:
    """The file with this text, or as it was: never half of it. `beside` names what is written first, in the same folder."""
    new = path.with_name(beside)
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the new name, too, is to survive a power cut
    finally:
        os.close(descriptor)


def _write(folder: Path, progress: Progress) -> None:
    told = {"gemelos_dojo": FORMAT, **asdict(progress)}
    write_whole(folder / NAME, json.dumps(told, indent=1, ensure_ascii=False) + "\n", NEW)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """The lock goes with its process, however that ends."""
    with (folder / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _parsed(told: Any) -> Progress:
    if not isinstance(told, dict) or told.get("gemelos_dojo") != FORMAT:
        raise ValueError(f"this is no progress of the dojo, expected gemelos_dojo: {FORMAT}")
    if told["language"] not in LANGUAGES:
        raise ValueError(f"language: {told['language']!r} came, expected one of {', '.join(LANGUAGES)}")
    katas = {name: State(**state) for name, state in told["katas"].items()}
    for name, state in katas.items():
        counts = all(type(count) is int and count >= 0 for count in (state.attempts, state.hints))
        texts = isinstance(state.last, dict) and all(isinstance(text, str) for text in state.last.values())
        if type(state.passed) is not bool or not counts or not texts:
            raise ValueError(f"katas: {name} has a state that is none")
    return Progress(told["language"], katas)
