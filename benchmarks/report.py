"""A result file in words, tables and pictures: a folder with one Markdown page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import FAST, Finding, find_all
from benchmarks.crossing import races, sentence
from benchmarks.curves import NO_GPU
from benchmarks.peaks import model_flops_share
from benchmarks.plots import Picture, draw
from benchmarks.ratios import Spread, asked_of, is_timed, same_work, times
from benchmarks.rows import Results, Row
from benchmarks.training_pictures import LOSSES, SHARES
from benchmarks.units import digits, duration, memory, part_in_words, percent, share, shown_sizes

ENOUGH = 10  # rounds
LACKING = ("no GPU", "not installed")

SUITES = {
    "roofline": "What this machine can do",
    "train": "Training steps",
    "attention": "Attention over n",
    "ops": "Every op of the table",
    "generate": "Generation",
    "recurrence": "What sequential means",
    "crossover": "CPU against GPU",
}

METHOD = """\
* Every contestant is checked before it is timed, and again after: a row shows the larger of its two errors against float64,
  in units of the work's computed budget. Above 1 it is wrong, and no time is given.
* One process for each contestant, with all cores while the others wait. A variable that pins OpenBLAS to an older kernel
  does not reach it.
* Interleaved: one run of each, then the next round, so that what slows the machine slows all. Warmed up first.
  All of them hold 20 GB at most: who finds no room beside the others is timed after them, alone, and says so.
* The ops of a training step are timed line by line of its source, in one thread.
* Ratios are taken round by round: their median, and their quartiles in brackets.
* Random data, the same for all; gradients are set to None between runs. TF32 only under its own name.
* Share of the peak: counted FLOP (causal attention by half) over the best product of 2,048 x 2,048 matrices measured here;
  on a GPU the data sheet's dense peak, and n/a for a device that is not in the table.
* Peak memory: resident, of the contestant's own process, less what it had before the work was prepared.
* Rows that are wrong, out of memory or without a GPU stay in. A bar one of whose opponents is missing is not measured.
"""


def write(results: Results, folder: Path, name: str = "report", prefix: str = "") -> Path:
    """NAME.md and its pictures, PREFIXattention.png and so on, in the folder; answers the report's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(markdown(results, draw(results, folder, prefix)), "utf-8")
    return path


def markdown(results: Results, pictures: Sequence[Picture]) -> str:
    parts = [
        "# How fast",
        *([f"**Stopped before the end**: {len(results.rows)} rows were measured."] if results.interrupted else []),
        machine_block(results),
        "## The bars",
        bars_table(find_all(results)),
        *(f"![{picture.title}]({picture.file})" for picture in pictures if picture.file),
        *_not_drawn(pictures),
    ]
    for suite in [*SUITES, *sorted({row.suite for row in results.rows} - set(SUITES))]:
        rows = [row for row in results.rows if row.suite == suite]
        if rows:
            parts += [f"## {SUITES.get(suite, suite)}", *_before(suite, results), *suite_tables(rows, results)]
    parts += ["## How it was measured", METHOD.rstrip()]
    return "\n\n".join(parts) + "\n"


def machine_block(results: Results) -> str:
    facts = {**results.machine, "commit": results.commit, "command": results.command, "started": results.started}
    lines = [f"* {name}: {_fact(value, name)}" for name, value in facts.items()]
    minutes = f"{results.seconds / 60.0:.1f} minutes" if results.seconds >= 60.0 else f"{results.seconds:.0f} s"
    return "\n".join([*lines, f"* took: {minutes}"])


def _fact(value: Any, name: str = "") -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_fact(each, key)}" for key, each in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(_fact(each) for each in value) or "none"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return memory(value) if name == "memory" and isinstance(value, int) else str(value)


# The bars


def bars_table(findings: Iterable[Finding]) -> str:
    """What was asked, what is there, and whether that is enough: computed from the rows."""
    head = ("work (float32)", "bar", "measured", "times", "error, of the budget", "")
    return table(head, [_bar(finding) for finding in findings])


def _bar(finding: Finding) -> tuple[str, ...]:
    bar, measured = finding.bar, finding.measured
    verdict = {"met": "**met**"}.get(finding.verdict, finding.verdict)
    if measured is None:
        return (bar.title, bar.asked, "", "", "", f"{verdict}: {finding.note}")
    rows = [measured.ours, *([measured.other] if measured.other else [])]
    note = f"; {finding.note}" if finding.note else ""
    return (
        bar.title,
        bar.asked,
        f"{spread_in_words(measured.value, bar.unit)}{note}",
        "; ".join(f"{row.contestant} {duration(row.median)}" for row in rows),
        "; ".join(share(worst_share(row)) for row in rows),
        verdict,
    )


def spread_in_words(value: Spread, unit: Callable[[float], str] = digits) -> str:
    """Median and quartiles; and how many rounds, where these are few."""
    if value.count == 1:
        return unit(value.median)
    few = f", {value.count} rounds" if value.count < ENOUGH else ""
    return f"{unit(value.median)} ({unit(value.low)} to {unit(value.high)}{few})"


def worst_share(row: Row) -> float | None:
    return max((each for each in (row.share, row.share_after) if each is not None), default=None)


# The suites


def suite_tables(rows: Sequence[Row], results: Results) -> list[str]:
    """One table for each work and part, as a page of three hundred lines in one could not be read."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.work != LOSSES:
            part = "" if row.work.endswith(SHARES) else row.part
            groups.setdefault((row.work, part), []).append(row)
    return [f"{_heading(*named)}\n\n{_suite_table(group, results)}" for named, group in groups.items()]


def _heading(work: str, part: str) -> str:
    return f"**{work}**" if part in ("", work, "step") else f"**{work}**, {part_in_words(part)}"


def _suite_table(rows: Sequence[Row], results: Results) -> str:
    """Columns that no row fills are left out."""
    shown: list[dict[str, str]] = []
    above = ""
    for row, names in _folded(rows):
        timed = is_timed(row)
        sizes = _sizes(row)
        shown.append(
            {
                "part": row.part if row.work.endswith(SHARES) else "",
                "sizes": "" if sizes == above else sizes,
                "contestant": "; ".join(names),
                "median": duration(row.median),
                "minimum": duration(row.minimum),
                "IQR": duration(row.iqr),
                "runs": str(len(row.seconds)) if timed else "",
                f"time / {FAST}'s": _beside_fast(row, rows),
                "error / budget": share(worst_share(row)),
                "of the peak": of_the_peak(row, results),
                "peak memory": memory(row.peak_bytes),
                "tokens/s": f"{row.tokens / row.median:,.0f}" if row.tokens and row.median else "",
                "": (row.why if row.status == "ok" else f"{row.status}: {row.why}".rstrip(": ")).replace("|", "\\|"),
            }
        )
        above = sizes
    head = [name for name in shown[0] if any(cells[name] for cells in shown)]
    return table(head, [[cells[name] for name in head] for cells in shown])


def _folded(rows: Sequence[Row]) -> list[tuple[Row, list[str]]]:
    """Rows with the names they stand for: all that this machine lacks for one work, for one reason, share a line."""
    found: list[tuple[Row, list[str]]] = []
    for row in rows:
        alike = [
            names
            for other, names in found
            if row.status in LACKING and same_work(row, other) and (row.status, row.why) == (other.status, other.why)
        ]
        if alike:
            alike[0].append(row.contestant)
        else:
            found.append((row, [row.contestant]))
    return found


def _sizes(row: Row) -> str:
    """And what else makes the work another one; causal attention is the rule."""
    asked = asked_of(row)
    words = [shown_sizes(row.sizes)]
    words += ["not causal"] if not asked.get("causal", True) else []
    words += [f"{asked['tokens']} tokens"] if "tokens" in asked else []
    words += [f"{'with' if asked['cache'] else 'without'} cache"] if "cache" in asked else []
    words += [f"**{row.dtype}**"] if row.dtype != "float32" else []
    return ", ".join(word for word in words if word)


def _beside_fast(row: Row, rows: Sequence[Row]) -> str:
    """How many times as long as the fast NumPy, round by round."""
    same = [each for each in rows if each.contestant == FAST and same_work(each, row)]
    if row.contestant == FAST or not (is_timed(row) and any(map(is_timed, same))):
        return ""
    return spread_in_words(times(row, same[0]), lambda value: f"{digits(value)} x")


def of_the_peak(row: Row, results: Results) -> str:
    """Counted FLOP/s over the machine's: measured on a CPU, from the table of data sheets on a GPU."""
    if not row.flops or not row.median:
        return ""
    rate = row.flops / row.median
    if row.device == "cuda":
        return percent(model_flops_share(rate, _fact(results.machine.get("gpu")), row.dtype)) or "n/a"
    ceiling = results.ceilings.get(f"gemm {row.dtype}")
    return percent(rate / ceiling) if ceiling else ""


def _before(suite: str, results: Results) -> list[str]:
    """What is said above a suite's tables."""
    if suite == "roofline":
        said = [
            f"{name} {digits(value / 1e9)} {'GFLOP/s' if name.startswith('gemm') else 'GB/s'}"
            for name, value in sorted(results.ceilings.items())
        ]
        return [f"Ceilings: {'; '.join(said)}."] if said else []
    if suite == "crossover":
        found = [sentence(race) for race in races(results) if race.has_gpu]
        return ["\n".join(f"* {each}" for each in found) or f"{NO_GPU[0].upper()}{NO_GPU[1:]}."]
    return []


def _not_drawn(pictures: Sequence[Picture]) -> list[str]:
    missing = [f"* {picture.title}: {picture.why}." for picture in pictures if picture.file is None]
    return ["Not drawn:\n\n" + "\n".join(missing)] if missing else []


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
