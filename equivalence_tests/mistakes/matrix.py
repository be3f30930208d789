"""The matrix: every known mistake against every check of its op or part, not stopping at the first that catches it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import reference_numpy
from equivalence_tests.arithmetic import PRECISIONS, Bounded
from equivalence_tests.cases import Case, SeededDraws
from equivalence_tests.checks import LAW_DRAWS, agreement, attempt, conduct, draw_case
from equivalence_tests.implementations import Implementation
from equivalence_tests.judge import Judgement
from equivalence_tests.laws import LAWS, Law
from equivalence_tests.mistakes import MISTAKES, PART_MISTAKES, Mistake, as_implementation, quiet
from equivalence_tests.ops import OPS
from equivalence_tests.parts import PARTS

DTYPES = ("float64", "float32")
CONDUCT_CASES = 12  # enough for most; more only for a mistake that nothing else has caught
DRAWS = 1  # of each law, likewise
WIDE = 110  # columns from which the matrix is a table
REFERENCE = Implementation("reference_numpy", reference_numpy, True, DTYPES)


@dataclass(frozen=True)
class Catch:
    """A check that caught a mistake: in which dtype, at which case (or draw of a law), what it said.

    `tensor` and `share` are agreement's: the first tensor that is wrong, and its error over its budget; a share of 0
    stands for a wrong dtype or shape, a number that is none, or an exception.
    """

    check: str
    dtype: str
    case: int
    what: str
    tensor: str = ""
    share: float = 0.0


@dataclass(frozen=True)
class Row:
    """A mistake and everything that catches it."""

    mistake: Mistake
    agreement: dict[str, Catch]  # by dtype
    conduct: Catch | None
    laws: tuple[Catch, ...]
    named: str = ""  # the mistake that the diagnosis takes it for; nothing if it was not asked
    placed: str = ""  # what it says where that mistake, and those equal to it, are not in its library

    @property
    def caught(self) -> bool:
        return bool(self.agreement or self.conduct or self.laws)


def matrix(cases: int = 200, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> list[Row]:
    """One row for every mistake. `progress` is told how many of how many are done."""
    rows = []
    every = [*MISTAKES.values(), *PART_MISTAKES.values()]
    with quiet():
        for done, mistake in enumerate(every, 1):
            rows.append(row_of(mistake, cases, seed) if mistake.op in OPS else row_of_part(mistake))
            if progress is not None:
                progress(done, len(every))
    return rows


def row_of_part(mistake: Mistake) -> Row:
    """A part has laws alone, and they draw their own inputs."""
    said = ((law, attempt(partial(law, mistake.forward))) for law in PARTS[mistake.op])
    return Row(mistake, {}, None, tuple(Catch(law.__name__, "", 0, what) for law, what in said if what))


def row_of(mistake: Mistake, cases: int, seed: int) -> Row:
    implementation = as_implementation(mistake)
    found = {}
    for dtype in DTYPES:
        caught = _by_agreement(implementation, mistake.op, dtype, cases, seed)
        if caught:
            found[dtype] = caught
    dtypes, draws = (DTYPES[:1], DRAWS) if found else (DTYPES, LAW_DRAWS)
    laws = tuple(caught for law in _laws(mistake) if (caught := _by_law(implementation, law, dtypes, draws, seed)))
    enough = min(cases, CONDUCT_CASES) if found or laws else cases
    return Row(mistake, found, _by_conduct(implementation, mistake.op, enough, seed), laws)


def without_laws(mistake: Mistake, cases: int, seed: int = 0) -> Catch | None:
    """What agreement or conduct alone say of a mistake."""
    implementation, op, few = as_implementation(mistake), mistake.op, min(cases, CONDUCT_CASES)
    with quiet():
        for count in (few, cases):
            by_values = (_by_agreement(implementation, op, dtype, count, seed) for dtype in DTYPES)
            caught = next(filter(None, by_values), None) or _by_conduct(implementation, op, count, seed)
            if caught:
                return caught
    return None


@cache
def _case(op: str, seed: int, index: int, dtype: str) -> tuple[Case, dict[str, Bounded]]:
    """A rounded case and its exact values: the same for every mistake of the op."""
    rounded = draw_case(OPS[op], seed, index).rounded(PRECISIONS[dtype])
    return rounded, OPS[op].exact(rounded, PRECISIONS[dtype])


def _by_agreement(implementation: Implementation, op: str, dtype: str, cases: int, seed: int) -> Catch | None:
    for index in range(cases):
        judged: dict[str, Judgement] = {}

        def judge(index: int = index, judged: dict[str, Judgement] = judged) -> dict[str, Judgement]:
            judged |= agreement(implementation, OPS[op], *_case(op, seed, index, dtype), dtype)
            return judged

        what = attempt(judge)
        if what:
            tensor, share = next(((name, j.share) for name, j in judged.items() if j.wrong), ("", 0.0))
            return Catch("agreement", dtype, index, what, tensor, share)
    return None


def _by_conduct(implementation: Implementation, op: str, cases: int, seed: int) -> Catch | None:
    for index in range(cases):
        for dtype in DTYPES:
            what = attempt(partial(conduct, implementation, OPS[op], *_case(op, seed, index, dtype), dtype))
            if what:
                return Catch("conduct", dtype, index, what)
    return None


def _laws(mistake: Mistake) -> list[Law]:
    """The op's laws. Where the reference refuses on a mistake's behalf, nothing is to be learnt from bad input."""
    return [law for law in LAWS.get(mistake.op, ()) if mistake.accepts or "refuses" not in law.__name__]


def _by_law(implementation: Implementation, law: Law, dtypes: Sequence[str], draws: int, seed: int) -> Catch | None:
    for dtype in dtypes:
        for draw in range(draws):
            what = _broken(implementation, law, dtype, seed, draw)
            if what and not _reference_breaks(law, dtype, seed, draw):
                return Catch(law.__name__, dtype, draw, what)
    return None


def _broken(implementation: Implementation, law: Law, dtype: str, seed: int, draw: int) -> str:
    return attempt(partial(law, implementation, dtype, SeededDraws(np.random.default_rng([seed, draw]))))


@cache
def _reference_breaks(law: Law, dtype: str, seed: int, draw: int) -> bool:
    """A law that the reference breaks catches nobody."""
    return bool(_broken(REFERENCE, law, dtype, seed, draw))


# What is printed


def _caught_by(row: Row) -> str:
    if not row.caught:
        return "NOTHING"
    names = []
    if row.agreement:
        names.append(f"agreement {'/'.join(dtype.removeprefix('float') for dtype in row.agreement)}")
    if row.conduct:
        names.append("conduct")
    if len(row.laws) == 1:
        names.append(row.laws[0].check)
    elif row.laws:
        names.append(f"{row.laws[0].check} and {len(row.laws) - 1} more law{'s' if len(row.laws) > 2 else ''}")
    return ", ".join(names)


def _first_tensor(row: Row) -> str:
    first = next(iter(row.agreement.values()), None)
    if first is None:
        return ""
    name = first.tensor or first.what.split(":")[0]  # an exception names no tensor
    share = f" {first.share:.2g}x" if first.share else ""
    return f"{name}{share}, case {first.case}"


def _named(row: Row) -> str:
    """How the diagnosis names it, with its own entry in the library and without."""
    without = f"without its entry: {row.placed}" if row.placed else ""
    return "; ".join(filter(None, (row.named and f"named {row.named}", without)))


def report(rows: Sequence[Row], console: Console) -> None:
    """A table where there is room for one, else two or three lines a mistake; the last line counts."""
    if console.width >= WIDE:
        table = Table("id", "op", "mistake", "caught by", "first tensor", "named", expand=False, pad_edge=False)
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        for row in rows:
            texts = (
                row.mistake.id,
                row.mistake.op,
                row.mistake.sentence,
                _caught_by(row),
                _first_tensor(row),
                _named(row),
            )
            table.add_row(*(Text(text) for text in texts), style="" if row.caught else "bold red")
        console.print(table)
    else:
        for row in rows:
            style = "" if row.caught else "bold red"
            console.print(Text(f"{row.mistake.id}  {row.mistake.op}", style or "bold"))
            tensor = _first_tensor(row)
            told = (row.mistake.sentence, f"{_caught_by(row)}{f'; {tensor}' if tensor else ''}", _named(row))
            for text in filter(None, told):
                for line in Text(text, style).wrap(console, max(console.width - 2, 20)):
                    console.print(Text("  ") + line)
    console.print(f"{sum(row.caught for row in rows)} of {len(rows)} mistakes caught")


def as_json(rows: Sequence[Row]) -> str:
    def plain(caught: Catch | None) -> dict[str, Any] | None:
        if caught is None:
            return None
        entry = {"check": caught.check, "dtype": caught.dtype, "case": caught.case, "what": caught.what}
        if caught.tensor:
            entry |= {"tensor": caught.tensor, "share": caught.share if np.isfinite(caught.share) else None}
        return entry

    entries = [
        {
            "id": row.mistake.id,
            "op": row.mistake.op,
            "sentence": row.mistake.sentence,
            "hidden_on": row.mistake.hidden_on,
            "shown_by": row.mistake.shown_by,
            "source": row.mistake.source,
            "caught": row.caught,
            "agreement": {dtype: plain(caught) for dtype, caught in row.agreement.items()},
            "conduct": plain(row.conduct),
            "laws": [plain(caught) for caught in row.laws],
            "named": row.named,
            "placed": row.placed,
            "stages": row.mistake.stages,
            "kinds": row.mistake.kinds,
        }
        for row in rows
    ]
    caught = sum(row.caught for row in rows)
    return json.dumps({"caught": caught, "mistakes": len(rows), "rows": entries}, indent=1)
