"""Judge one answer: the learner's file, or what stands in for it, against what its kata asks for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from equivalence_tests.candidate import Candidate
from equivalence_tests.dojo import by_check, by_op, by_part, by_value, limits, scan
from equivalence_tests.dojo.guard import Guard
from equivalence_tests.dojo.katas import Kata
from equivalence_tests.dojo.sources import Source, source_of
from equivalence_tests.dojo.verdict import Verdict
from equivalence_tests.implementations import one_line
from equivalence_tests.misconduct import READ_ONLY

MEMORY = 3  # GiB that an answer may take
Watch = Callable[[str], None]
Functions = dict[str, Callable[..., Any]]


@dataclass(frozen=True)
class Answer:
    """A file that could be read as Python."""

    kata: Kata
    source: Source
    path: Path
    text: str
    tree: ast.Module

    @property
    def functions(self) -> tuple[str, ...]:
        """The names that are judged: the function, and its backward where the solution has one."""
        names = (self.kata.function, f"{self.kata.function}_backward")
        solution = ast.parse(self.source.solution)
        return tuple(name for name in names if scan.function_named(solution, name))

    @property
    def unchanged(self) -> bool:
        return scan.same_code(self.tree, ast.parse(self.source.start))


def read_answer(kata: Kata, path: Path) -> Answer | Verdict:
    """The answer in a file, or what stands in the way of reading it."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Verdict("no_file", {"file": path.name})
    except OSError as error:
        return Verdict("unreadable", {"file": path.name, "error": error.strerror or str(error)})
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        return Verdict("not_utf8", {"file": path.name, "line": line, "byte": f"0x{raw[error.start]:02x}"})
    return parsed(kata, path, text)


def parsed(kata: Kata, path: Path, text: str) -> Answer | Verdict:
    """The answer in a text. Nothing of it is run."""
    source = source_of(kata)
    try:
        tree = ast.parse(text, str(path))
        compile(text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return _unreadable(path, text, error)
    except (ValueError, RecursionError, MemoryError) as error:
        return Verdict("syntax", {"file": path.name, "line": 1, "error": one_line(error)})
    line = scan.unwritten(tree)
    if line:
        return Verdict("unwritten", {"file": path.name, "line": line}, excerpt=excerpt(text, line))
    given = (
        {kata.like} if kata.kind in ("backward", "bug", "simplify") else set()
    )  # the forward stands in the file anyway
    found = scan.taken(tree, scan.used(source.start, source.solution) | given)
    if found:
        return Verdict("takes", {"line": found[0], "name": found[1]}, excerpt=excerpt(text, found[0]))
    return Answer(kata, source, path, text, tree)


def _unreadable(path: Path, text: str, error: SyntaxError) -> Verdict:
    line = error.lineno or 1
    lines = excerpt(text, line)
    if lines and error.offset:
        shown, _, code = lines[0].partition(" | ")
        lines = (*lines, " " * len(shown) + " | " + " " * min(error.offset - 1, len(code)) + "^")
    return Verdict("syntax", {"file": path.name, "line": line, "error": error.msg}, excerpt=lines)


def excerpt(text: str, line: int) -> tuple[str, ...]:
    """The line itself, with its number."""
    lines = text.splitlines()
    return (f"{line:4} | {lines[line - 1].rstrip()[:160]}",) if 0 < line <= len(lines) else ()


def judge(answer: Answer, guard: Guard, watch: Watch, picture: str = "") -> Verdict:
    """Run it. What it raises is part of the verdict; if it hangs, the guard says so and this does not come back."""
    kata = answer.kata
    watch("file")
    try:
        module = guard.load(compile(answer.text, str(answer.path), "exec", dont_inherit=True))
    except BaseException as error:  # it may raise anything
        return raised(answer, error, guard.line_of(error))
    for name in answer.functions:
        if not callable(getattr(module, name, None)):
            return Verdict("no_function", {"file": answer.path.name, "name": name})
    if kata.kind == "predict" and not answer.source.check:
        return by_value.judged(module, answer.source, answer.path.name)
    functions = {name: guard.wrap(getattr(module, name)) for name in answer.functions}
    verdict = judge_functions(answer, functions, guard, watch, picture)
    if kata.like and verdict.code == "wrong":
        verdict = by_op.with_own_line(verdict, kata, functions)
    return verdict


def judge_functions(answer: Answer, functions: Functions, guard: Guard, watch: Watch, picture: str = "") -> Verdict:
    """The functions of an answer, by whichever judge the kata has; then the limits that it sets."""
    kata = answer.kata
    judged_by = _by_op if kata.like else _by_part if kata.part else _by_check
    verdict, candidate = judged_by(answer, functions, guard, watch)
    if verdict.passed:
        watch("limits")
        return limits.exceeded(kata.limit, answer.tree, kata.function, str(answer.path), candidate) or verdict
    if kata.kind == "bug" and answer.unchanged:
        return Verdict("unchanged", {"file": answer.path.name}, example=verdict.example)
    if picture and candidate is not None and candidate.kind == "pair":
        watch("diagnosis: picture")
        if by_op.picture(candidate, Path(picture)):
            return replace(verdict, picture=picture)
    return verdict


def _by_op(answer: Answer, functions: Functions, guard: Guard, watch: Watch) -> tuple[Verdict, Candidate | None]:
    kata = answer.kata
    try:
        candidate = by_op.candidate_of(kata, functions)
    except ValueError as error:
        return Verdict("signature", {"name": kata.function, "error": str(error)}), None
    wrong = by_op.returns_wrongly(candidate, guard, kata.function)
    if wrong is not None:
        return wrong, None
    verdict = by_op.judged(candidate, answer.source.formula, watch)
    said = verdict.numbers.get("raised", "")
    if said in guard.errors and not verdict.passed:
        first, line = guard.errors[said]
        if READ_ONLY in said and line:
            return Verdict("writes", {"line": line}, excerpt=excerpt(answer.text, line)), None
        if verdict.findings[0].code == "raises" or not verdict.findings[0].sure:
            return raised(answer, first, line), None
    return verdict, candidate


def _by_part(answer: Answer, functions: Functions, guard: Guard, watch: Watch) -> tuple[Verdict, Candidate | None]:
    watch("diagnosis: laws")
    verdict = by_part.judged(functions[answer.kata.function], answer.kata.part)
    if not verdict.passed and guard.errors:
        return raised(answer, *next(iter(guard.errors.values()))), None
    return verdict, None


def _by_check(answer: Answer, functions: Functions, guard: Guard, watch: Watch) -> tuple[Verdict, Candidate | None]:
    watch("diagnosis: calls")
    name = answer.kata.function
    try:
        return by_check.judged(functions[name], name, answer.source), None
    except BaseException as error:
        if one_line(error) not in guard.errors:  # it is not the learner's
            raise
        return raised(answer, error, guard.line_of(error)), None


def raised(answer: Answer, error: BaseException, line: int) -> Verdict:
    """What an exception of the learner's code says, and where."""
    said = {"line": line, "error": one_line(error), "name": answer.kata.function, "limit": MEMORY}
    where = excerpt(answer.text, line)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return Verdict("exits", said, excerpt=where)
    if isinstance(error, RecursionError):
        return Verdict("recursion", said, excerpt=where)
    if isinstance(error, MemoryError):
        return Verdict("memory", said, excerpt=where)
    return Verdict("raises" if line else "raises_elsewhere", said, excerpt=where)


def unwatched(path: Path) -> Guard:
    """A guard that ends the process itself where an answer hangs: for answers that are known not to."""

    def stop(line: int, seconds: float) -> None:
        sys.exit(f"{path}: no answer within {seconds:g} s (line {line})")

    return Guard(path, 60.0, stop)
