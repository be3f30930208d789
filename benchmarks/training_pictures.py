"""Where the time of a training step goes, and how fast the loss falls on both twins."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchmarks.drawing import GREY, PARTS, NoPicture, ink, label_ends, look, plain
from benchmarks.rows import Results, Row
from benchmarks.units import duration, round_duration, shown_sizes
from equivalence_tests.pictures import new_figure

SHARES, LOSSES = " share", "loss against time"
ROOM = 0.0105  # of a letter, as a share of the longest bar


def step_shares(results: Results) -> Figure:
    """A bar for each contestant, as long as its step takes, cut into its ops."""
    rows = [row for row in results.rows if row.suite == "train" and row.work.endswith(SHARES) and row.median]
    if not rows:
        raise NoPicture("the parts of a training step were not timed")
    work, sizes = rows[0].work, rows[0].sizes
    rows = [row for row in rows if row.work == work and row.sizes == sizes]
    bars = {name: _parts(rows, name) for name in dict.fromkeys(row.contestant for row in rows)}
    longest = max(sum(parts.values()) for parts in bars.values())
    named = _most(rows)
    figure = new_figure(10.0, 0.85 * len(bars) + 1.9)
    axes = figure.add_subplot()
    plain(axes)
    axes.grid(visible=False)
    for at, parts in enumerate(bars.values()):
        left, total = 0.0, sum(parts.values())
        other = sum(seconds for part, seconds in parts.items() if part not in named)
        for rank, part in enumerate([*named, "other"]):
            seconds = other if part == "other" else parts.get(part, 0.0)
            axes.barh(at, seconds, 0.62, left, color=PARTS[rank if part != "other" else -1], edgecolor="white")
            said = [part, f"{100.0 * seconds / total:.0f} %"]
            if seconds > ROOM * longest * len(said[1]):
                fits = said if seconds > ROOM * longest * len(part) else said[1:]
                axes.text(left + seconds / 2.0, at, "\n".join(fits), ha="center", va="center", fontsize=8)
            left += seconds
        axes.text(left + 0.01 * longest, at, duration(total), va="center", fontsize=9)
    axes.set_yticks(range(len(bars)), list(bars), fontsize=9)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0.0, 1.1 * longest)
    axes.xaxis.set_major_formatter(lambda seconds, _: round_duration(seconds) if seconds else "0")
    has_other = any(part not in named for parts in bars.values() for part in parts)
    keys = [*zip(named, PARTS, strict=False), *[("other", PARTS[-1])] * has_other]
    boxes = [axes.barh(0, 0, color=colour) for _, colour in keys]
    axes.legend(
        boxes, [part for part, _ in keys], ncols=7, fontsize=8.5, frameon=False, loc="lower left", bbox_to_anchor=(0, 1)
    )
    title = (
        f"Where the time of a {work.removesuffix(SHARES).replace('_', ' ')} goes, on one thread: {shown_sizes(sizes)}"
    )
    figure.suptitle(title, fontsize=11)
    return figure


def _parts(rows: list[Row], contestant: str) -> dict[str, float]:
    return {row.part: row.median or 0.0 for row in rows if row.contestant == contestant}


def _most(rows: list[Row]) -> list[str]:
    """The parts that take most time, over all contestants; there are no more than colours."""
    total: dict[str, float] = {}
    for row in rows:
        if row.part != "other":
            total[row.part] = total.get(row.part, 0.0) + (row.median or 0.0)
    return sorted(total, key=lambda part: -total[part])[: len(PARTS) - 1]


def losses_over_time(results: Results) -> Figure:
    """The training loss over wall-clock seconds: equal steps, so the curves differ in how fast they are walked."""
    rows = [row for row in results.rows if row.suite == "train" and row.work == LOSSES and row.settings.get("loss")]
    if not rows:
        raise NoPicture("no training was run on both twins")
    figure = new_figure(8.6, 4.4)
    axes = figure.add_subplot()
    plain(axes)
    ends = []
    for row in rows:
        style, time, loss = look(row.contestant, row.device), row.settings["time"], row.settings["loss"]
        axes.plot(time, loss, color=style.colour, ls=style.dashes, lw=1.8)
        axes.plot(time[-1], loss[-1], color=style.colour, marker=style.marker, ms=6)
        ends.append((time[-1], loss[-1], f"{row.contestant}: {duration(time[-1])}", style.colour))
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("loss, nats per token")
    axes.set_xlim(left=0.0)
    axes.autoscale_view()
    label_ends(axes, ends)
    steps = {len(row.settings["loss"]) for row in rows}
    same = f"the same {steps.pop():,} points on each" if len(steps) == 1 else "stopped where they were"
    axes.text(0.0, 1.01, f"{shown_sizes(rows[0].sizes)}; {same}", transform=axes.transAxes, color=ink(GREY), fontsize=9)
    figure.suptitle("Loss against wall-clock time", fontsize=12)
    return figure
