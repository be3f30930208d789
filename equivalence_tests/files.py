"""A candidate in any language: a command that reads a folder of .npy files and writes another.

    gemelos check --command './my_attention DIR_IN DIR_OUT' --like attention

For every case the command is started once, with the names of two real folders in place of DIR_IN and DIR_OUT. DIR_IN holds
every operand (Q.npy, K.npy, V.npy; a model's parameters by their dotted names), the upstream gradient (dC.npy) and those
options that the command was said to take (mask.npy, causal.npy, ...; a linear's bias and an rnn's h0 count as such).
Numbers are arrays without axes; a model's config is config.json, its masks are keep.NAME.npy. The command writes the output
(C.npy) and, if it has a backward, one file for every gradient (dQ.npy, dK.npy, dV.npy; of a model: d and the parameter's
name), all in the dtype that came in.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.candidate import Candidate, op_named
from equivalence_tests.cases import Case
from equivalence_tests.checks import draw_case
from equivalence_tests.implementations import Answer, Implementation, NotOffered, Tensor
from equivalence_tests.laws.patterns import PATTERNS
from equivalence_tests.loading import nearest
from equivalence_tests.npy import read_npy, write_npy
from equivalence_tests.ops import Op
from equivalence_tests.signatures import Plan

FOLDERS = ("DIR_IN", "DIR_OUT")
DTYPES = ("float64", "float32")
LARGEST = 2**28  # bytes of a file that can be an answer: no case has an array of a thousandth of that


class CommandFailed(RuntimeError):
    """The command gave no answer; one line says why."""


@dataclass(frozen=True)
class Command:
    """A command line in words, the options it takes, and the seconds that one run may last.

    `ignored` collects the names of what it wrote and nobody asked for.
    """

    words: tuple[str, ...]
    offered: tuple[str, ...]
    time_limit: float
    always: tuple[str, ...] = ()  # of these: it computes nothing without
    ignored: set[str] = field(default_factory=set)

    def answer(self, op: Op, case: Case, dtype: str) -> Answer:
        """Run it on a case that is rounded to `dtype`: every output and gradient that it wrote, by name.

        NotOffered if the case asks for an option that it does not take; CommandFailed if it fails, is not done in time,
        writes nothing, or writes a file that cannot be read.
        """
        given = {**self.taken(op, case), **case.upstream}
        with tempfile.TemporaryDirectory(prefix="gemelos-", ignore_cleanup_errors=True) as folder:
            into, out = (Path(folder) / name for name in FOLDERS)
            into.mkdir()
            out.mkdir()
            _write(into, given, dtype)
            words = [word.replace(FOLDERS[0], str(into)).replace(FOLDERS[1], str(out)) for word in self.words]
            _run(words, self.time_limit, Path(folder) / "stderr")
            return self._read(op, case, out, dtype)

    def taken(self, op: Op, case: Case) -> dict[str, Any]:
        """Operands and options that the command is given. What it was not said to take may only have its default."""
        optional, given = offers_of(op), {}
        values = {**case.operands, **case.options}
        absent = [name for name in self.always if values.get(name) is None or values[name] is False]
        if absent:
            raise NotOffered(absent[0])
        for name, value in {**case.operands, **case.options}.items():
            if name not in optional or name in self.offered or _is_required(op, name):
                given[name] = value
            elif value is not None and (
                _parameters(op)[name].default is None or value != _parameters(op)[name].default
            ):
                raise NotOffered(name)
        return {name: value for name, value in given.items() if value is not None}

    def _read(self, op: Op, case: Case, folder: Path, dtype: str) -> Answer:
        expected = {f"{name}.npy": name for name in (*op.outputs, *(f"d{name}" for name in op.gradient_names(case)))}
        try:
            found = sorted(folder.iterdir())
        except OSError:  # it is gone, or no folder any more
            found = []
        self.ignored.update(path.name for path in found if path.name not in expected)
        answer = {expected[path.name]: _read_file(path, dtype) for path in found if path.name in expected}
        if not answer:
            raise CommandFailed(f"{self.words[0]} wrote no {op.outputs[0]}.npy into {FOLDERS[1]}")
        return answer


@dataclass(frozen=True)
class CommandImplementation(Implementation):
    """A command as an implementation: `answers` runs it, and there is no function to call."""

    command: Command = Command((), (), 0.0)


def parse_command(command: str, op: Op, offered: Iterable[str] = (), time_limit: float = 10.0) -> Command:
    """The command behind a command line. ValueError, one line, for one that cannot be run, or for unknown options."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"--command: {command!r} cannot be split into words: {error}") from None
    for folder in FOLDERS:
        if not any(folder in word for word in words[1:]):
            raise ValueError(f"--command: {command!r} has no {folder}, expected one such as './my_op DIR_IN DIR_OUT'")
    if shutil.which(words[0]) is None:
        raise ValueError(f"--command: {_missing(words[0])}")
    known, always = offers_of(op), tuple(name.removesuffix("!") for name in offered if name.endswith("!"))
    offered = tuple(name.removesuffix("!") for name in offered)
    for name in offered:
        if name not in known:
            expected = nearest(name, known) if known else "it has none"
            raise ValueError(f"--options: {name!r} is no option of {op.name}, {expected}")
    if not time_limit > 0:
        raise ValueError(f"--time-limit: {time_limit} came, expected seconds above 0")
    return Command(tuple(words), offered, time_limit, always)


def command_implementation(
    command: str, op: Op, offered: Iterable[str] = (), time_limit: float = 10.0
) -> CommandImplementation:
    """A command that answers the cases of an op as any other implementation does. ValueError as in `parse_command`."""
    parsed = parse_command(command, op, offered, time_limit)

    def forward(*operands: Any, **options: Any) -> Any:
        raise NotOffered("a call without files")

    passed = [each for name, each in _parameters(op).items() if name not in _not_checked(op, parsed)]
    forward.__signature__ = inspect.Signature(passed)  # type: ignore[attr-defined]  # what a case may ask for
    module = SimpleNamespace(**{op.name: forward})
    return CommandImplementation(command, module, False, DTYPES, answers=parsed.answer, command=parsed)


def command_candidate(command: str, like: str, offered: Iterable[str] = (), time_limit: float = 10.0) -> Candidate:
    """A command as a candidate: of a forward alone if, on a case of the op, it writes an output and no gradient.

    ValueError, one line, for an unknown op, option or program. A command that fails on that case is taken for a whole one:
    what is wrong with it will be seen on every case.
    """
    op = op_named(like)
    implementation = command_implementation(command, op, offered, time_limit)
    left = _not_checked(op, implementation.command)
    plan = Plan.of(implementation.forward(like), op, command)
    candidate = Candidate(command, op, implementation, "files", "files", left, plan, plain=False, beside="", sizes={})
    with suppress(CommandFailed):
        written = implementation.command.answer(op, *_first_case(candidate))
        if set(written) <= set(op.outputs):
            return replace(candidate, op=replace(op, differentiable=()), kind="forward")
    return candidate


def offers_of(op: Op) -> list[str]:
    """What a command may be said to take, in the order of the reference's signature: options, and operands like a bias."""
    pattern = PATTERNS.get(op.name)
    operands = {*pattern.operands} - {*pattern.optional} if pattern else {"params", "ids", "targets", "config"}
    return [name for name in _parameters(op) if name not in {*operands, "dC"}]


def _parameters(op: Op) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(reference_numpy, op.name)).parameters)


def _is_required(op: Op, name: str) -> bool:
    return _parameters(op)[name].default is inspect.Parameter.empty


def _not_checked(op: Op, command: Command) -> tuple[str, ...]:
    """What the command is never given."""
    return tuple(name for name in offers_of(op) if name not in command.offered and not _is_required(op, name))


def _first_case(candidate: Candidate) -> tuple[Case, str]:
    """A case that asks for nothing but what the command takes, and its dtype."""
    dtype = candidate.implementation.dtypes[0]
    for index in count():  # a bias, or h0, is left out of every second case
        with suppress(NotOffered):
            return candidate.taken(draw_case(candidate.op, 0, index)).rounded(PRECISIONS[dtype]), dtype
    raise AssertionError("unreachable")


def _missing(program: str) -> str:
    """What is wrong with the name of a program that cannot be started, with the nearest one that can."""
    path = Path(program)
    if path.is_file() and "/" in program:
        return f"{program} may not be executed"
    beside = [each for each in path.parent.iterdir() if each.is_file()] if path.parent.is_dir() else []
    programs = [each.name for each in beside if os.access(each, os.X_OK)]
    close = difflib.get_close_matches(path.name, programs, n=1)
    return f"there is no program {program}" + (f", did you mean ./{path.parent / close[0]}?" if close else "")


def _write(folder: Path, values: dict[str, Any], dtype: str) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            _write(folder, {f"{name}.{key}": each for key, each in value.items()}, dtype)
        elif is_dataclass(value) and not isinstance(value, type):
            (folder / f"{name}.json").write_text(json.dumps(asdict(value)))
        else:
            write_npy(folder / f"{name}.npy", value, dtype)


def _run(words: list[str], time_limit: float, stderr: Path) -> None:
    """Run a command to its end, without a shell; nothing of its process group outlives it. CommandFailed if it fails."""
    with stderr.open("wb") as errors:
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        except OSError as error:
            raise CommandFailed(f"{words[0]} cannot be started: {error.strerror}") from None
        try:
            status = process.wait(time_limit)
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"{words[0]} was not done after {time_limit:g} s{_last_line(stderr)}") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status < 0:
        raise CommandFailed(f"{words[0]} was ended by {_signal_name(-status)}{_last_line(stderr)}")
    if status:
        raise CommandFailed(f"{words[0]} came back with exit status {status}{_last_line(stderr)}")


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _last_line(stderr: Path) -> str:
    """The last thing that it said, in one printable line."""
    with stderr.open("rb") as file:
        file.seek(max(0, stderr.stat().st_size - 4096))
        said = file.read().decode(errors="replace").strip().splitlines()
    line = "".join(character for character in said[-1] if character.isprintable())[:200] if said else ""
    return line and f": {line}"


def _read_file(path: Path, dtype: str) -> Tensor:
    """One answer. In bfloat16 it comes as float32 numbers."""
    if not path.is_file():
        raise CommandFailed(f"{path.name} is no file")
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise ValueError(f"has {size} bytes, more than any answer")
        with path.open("rb") as file:
            tensor = read_npy(file, size)
    except (ValueError, OSError) as error:
        raise CommandFailed(f"{path.name} {error}") from None
    return replace(tensor, dtype=dtype) if (tensor.dtype, dtype) == ("float32", "bfloat16") else tensor
