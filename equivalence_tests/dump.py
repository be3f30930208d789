"""A dump judged: which of its tensors are wrong, and in which line of the formula it began.

Every tensor is held against its exact value, within the budget of the coarsest floating format that went into it. Then
every line is judged once more, given the lines before it: of what is right the exact value, of what is wrong, once it is
named, what stands in the dump. So a mistake is named where it is made, and what follows from it is not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from equivalence_tests.arithmetic import PRECISIONS
from equivalence_tests.candidate import op_named
from equivalence_tests.cases import Case
from equivalence_tests.dump_arrays import Dump, read_dump
from equivalence_tests.dump_findings import Culprit, findings_of, sizes_of
from equivalence_tests.dump_reading import Reading, Row
from equivalence_tests.dump_sample import sampled
from equivalence_tests.findings import Finding
from equivalence_tests.implementations import Tensor
from equivalence_tests.observe import Observation
from equivalence_tests.ops import Op
from equivalence_tests.report import WORDS, show_findings

Explain = Callable[[Op, Sequence[Observation]], list[Finding]]


@dataclass(frozen=True)
class DumpReport:
    """The rows in the order of the formula; what is wrong, the first wrong line first; what was taken for granted."""

    path: Path
    op: str
    rows: list[Row]
    findings: list[Finding]
    notes: list[str]

    @property
    def exit_code(self) -> int:
        """0 if all that could be judged is right, 1 if something is wrong, 2 if nothing could be judged."""
        verdicts = {row.verdict for row in self.rows}
        return 1 if verdicts & {"wrong", "follows"} else 0 if "right" in verdicts else 2

    def as_json(self) -> dict[str, Any]:
        rows = [{**row.__dict__, "share": row.share if np.isfinite(row.share) else None} for row in self.rows]
        found = [finding.as_json() for finding in self.findings]
        return {"path": str(self.path), "op": self.op, "rows": rows, "findings": found, "notes": self.notes}


def check_dump(
    path: Path,
    op: Op,
    *,
    options: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    explain: Explain | None = None,
) -> DumpReport:
    """The verdict on a dump. `options` are constants of the op that are not in it (causal, p, num_heads, ...), `dtype` what
    its floating arrays hold ("bfloat16" for float32 numbers), `explain` whoever can say more of what is wrong.

    ValueError, one line, if the dump cannot be read or its arrays do not fit each other.
    """
    dump = sampled(op, read_dump(Path(path), op, options, dtype))
    return judge_dump(Path(path), op, dump, explain)


def diagnose(arrays: Mapping[str, Any], like: str, **options: Any) -> DumpReport:
    """What is wrong with arrays at hand, and in which line it began: operands, and any of the op's outputs, gradients and
    intermediates, by the names of the table. `options` are constants: causal=True, p=0.1.

    ValueError, one line, for an op that is not in the table or arrays that do not fit each other.
    """
    from equivalence_tests import diagnosis

    with tempfile.TemporaryDirectory() as folder:
        for name, array in arrays.items():
            np.save(Path(folder) / f"{name}.npy", np.asarray(array), allow_pickle=False)
        return check_dump(Path(folder), op_named(like), options=options, explain=diagnosis.explain)


def judge_dump(path: Path, op: Op, dump: Dump, explain: Explain | None = None) -> DumpReport:
    """The verdict on arrays that have been read."""
    with np.errstate(all="ignore"):  # a wrong tensor may hold anything
        reading = Reading(op, dump)
        reading.from_operands()
        rows, culprits = reading.from_dump()
        if op.model:  # in the order of the backward: what is wrong further up is wrong in everything below it
            rows.sort(key=lambda row: _depth(op, row.name))
            culprits.sort(key=lambda culprit: _depth(op, culprit.name))
        findings = findings_of(_unexplained(reading, rows, culprits), sizes_of(op, dump))
        observation = _observation(op, reading)
        if findings and explain is not None and observation is not None:
            findings = [*findings, *explain(op, [observation])]
    if not rows:
        dump.notes.append(f"there is nothing to judge: expected one of {', '.join(op.outputs)}, or a gradient")
    return DumpReport(path, op.name, rows, findings, [*dump.notes, *_finer(dump)])


def _unexplained(reading: Reading, rows: list[Row], culprits: list[Culprit]) -> list[Culprit]:
    """The wrong tensors, without those lines before them that another tensor shows to be right.

    What the backward shows is its own: it may compute again what the forward has got wrong, and the other way round.
    """
    left = []
    for culprit in culprits:
        right = [row for row in rows if row.verdict == "right" and reading.of_backward(row.name) == culprit.backward]
        shown = {line for row in right for line in (*reading.between(row.name), *row.given)}
        cleared = shown - reading.repeated
        between = tuple(line for line in culprit.between if line not in cleared)
        left.append(replace(culprit, between=between, lines=tuple(x for x in culprit.lines if x not in cleared)))
    return left


BACKWARD = ("lm_head", "norm", "blocks", "rnn", "embedding", "position_embedding", "token_embedding")
WITHIN = ("feed_forward", "norm_2", "attention", "norm_1", "contract", "expand", "projection", "value", "key", "query")


def _depth(op: Op, name: str) -> tuple[int, ...]:
    """Where the backward of a model comes to a parameter: the outputs first, then from the head down to the embeddings."""
    if name in op.outputs:
        return ()
    place, *rest = name.removeprefix("d").split(".")
    if place != "blocks":
        return (BACKWARD.index(place),)
    return (BACKWARD.index(place), -int(rest[0]), *(WITHIN.index(each) for each in rest[1:] if each in WITHIN))


def _finer(dump: Dump) -> list[str]:
    """A tensor in a finer format than any operand: it costs memory, or came from an accident."""
    used = [dump.numbers[name].dtype for name in dump.names if name in dump.numbers]
    if not used:
        return []
    finest = min(PRECISIONS[dtype].unit for dtype in used)
    finer = [name for name, tensor in dump.numbers.items() if PRECISIONS[tensor.dtype].unit < finest]
    return [f"{', '.join(finer)}: {dump.numbers[finer[0]].dtype}, where {used[0]} went in"] if finer else []


def _observation(op: Op, reading: Reading) -> Observation | None:
    """The dump as a case of the op that was run, for whoever explains what is wrong. None if it is not a whole one."""
    dump, exact = reading.dump, reading.exact
    names = [name for name in dump.operands if name in dump.names]
    formats = {dump.numbers[name].dtype for name in dump.numbers}
    answered = [
        name for name in (*op.outputs, *(f"d{name}" for name in names)) if name in exact and name in dump.numbers
    ]
    if len(formats) != 1 or not answered or any(name not in dump.names for name in dump.upstream):
        return None
    dtype = formats.pop()
    arrays = {name: tensor.value.astype(np.float64) for name, tensor in dump.numbers.items()} | dump.integers
    options = dict(dump.options) | ({"bias": arrays["bias"]} if "bias" in dump.names and "bias" not in names else {})
    case = Case({name: arrays[name] for name in names}, options, {name: arrays[name] for name in dump.upstream})
    answer = {name: Tensor(dump.numbers[name].value, dtype) for name in answered}
    verdicts = {name: reading.verdicts[name] for name in answered}
    return Observation(0, dtype, case, {name: exact[name] for name in answered}, answer, verdicts)


COLOURS = {"right": "green", "wrong": "bold red", "follows": "yellow", "ill": "magenta", "not judged": "dim"}
SPANISH = {
    "right": "bien",
    "wrong": "mal",
    "follows": "se sigue",
    "ill": "mal condicionado",
    "not judged": "sin juzgar",
    "tensor": "tensor",
    "dtype": "tipo",
    "verdict": "veredicto",
    "of budget": "del margen",
    "given": "dado",
}
VERDICTS = {0: "agrees", 1: "wrong", 2: "not judged"}


def report(found: DumpReport, console: Console, language: str = "en") -> None:
    """The verdict, what is wrong, the rows as a table, and what was taken for granted."""

    def word(text: str) -> str:
        return SPANISH.get(text, text) if language == "es" else text

    style = {0: "bold green", 1: "bold red", 2: "bold yellow"}[found.exit_code]
    verdict = VERDICTS[found.exit_code]
    console.print(Text(f"{found.path} --like {found.op}: {WORDS.get(language, {}).get(verdict, verdict)}", style))
    show_findings(found.findings, console, language)
    if found.rows:
        table = Table(*(word(each) for each in ("tensor", "dtype", "verdict", "of budget", "given")), box=None)
        table.columns[3].justify = "right"
        for row in found.rows:
            share = "" if row.verdict == "not judged" else f"{row.share:.2g}"
            given = row.why if row.verdict == "not judged" else ", ".join(row.given)
            table.add_row(row.name, row.dtype, Text(word(row.verdict), COLOURS[row.verdict]), share, given)
        console.print(table)
    for note in found.notes:
        console.print(Text(note, "dim"))
