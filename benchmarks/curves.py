"""Time against size: attention over n, and where a GPU begins to win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.crossing import Race, races, sentence
from benchmarks.drawing import GREY, NoPicture, ink, label_ends, logarithmic, look, plain, times
from benchmarks.ratios import is_timed
from benchmarks.rows import Results, Row
from benchmarks.units import part_in_words, shown_sizes
from equivalence_tests.pictures import new_figure

NO_GPU = "no GPU here: nothing is claimed"
MOST_RACES = 3
End = tuple[float, float, str, str]  # x, y, name, colour


def attention_curves(results: Results) -> Figure:
    """Time over n for every contestant, forward on the left, backward on the right, with a cross where memory ran out."""
    rows = [row for row in results.rows if row.suite == "attention" and row.dtype == "float32"]
    parts = [part for part in ("forward", "backward", "forward+backward") if any(row.part == part for row in rows)]
    if "backward" in parts and "forward+backward" in parts:
        parts.remove("forward+backward")
    drawn = [(part, _longest([row for row in rows if row.part == part])) for part in parts]
    drawn = [(part, found) for part, found in drawn if len({row.sizes["n"] for row in found if is_timed(row)}) > 1]
    if not drawn:
        raise NoPicture("attention was not timed at two values of n")
    figure = new_figure(5.6 * len(drawn) + 0.4, 4.6)
    for axes, (part, found) in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
        causal = "causal, " if all(row.settings.get("causal", row.sizes.get("causal", True)) for row in found) else ""
        sizes = {name: size for name, size in found[0].sizes.items() if name not in ("n", "m", "causal")}
        plain(axes, f"{part_in_words(part)}: {causal}{shown_sizes(sizes)}")
        _lines(axes, found, lambda row: float(row.sizes["n"]), "n")
    figure.suptitle("Attention, float32: median time against n", fontsize=12)
    return figure


def crossover_curves(results: Results) -> Figure:
    """CPU and GPU over the size, the GPU without and with the copies there and back."""
    found = sorted(races(results), key=lambda race: -len({race.x(row) for row in race.rows}))[:MOST_RACES]
    if not found:
        raise NoPicture("the crossover was not timed at two sizes")
    figure = new_figure(5.2 * len(found) + 0.4, 4.8)
    for axes, race in zip(figure.subplots(1, len(found), squeeze=False)[0], found, strict=True):
        plain(axes, f"{race.name}, {part_in_words(race.part)}")
        _lines(axes, race.rows, race.x, race.axis, _with_copies(axes, race))
        if not race.has_gpu:
            axes.text(0.03, 0.97, NO_GPU, transform=axes.transAxes, color=ink(GREY), fontsize=11, va="top")
    said = [sentence(race) for race in found if race.has_gpu]
    title = "\n".join(wrap(" ".join(said), 26 * len(found) + 26))
    figure.suptitle(title or "CPU against GPU, float32: median time", fontsize=11)
    return figure


def _longest(rows: Sequence[Row]) -> list[Row]:
    """Of the rows that differ only in n and contestant, those with the most values of n."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        rest = tuple(sorted((name, size) for name, size in row.sizes.items() if name not in ("n", "m")))
        groups.setdefault((rest, row.settings.get("causal")), []).append(row)
    return max(groups.values(), key=lambda group: len({row.sizes["n"] for row in group}), default=[])


def _lines(axes: Axes, rows: Sequence[Row], x: Callable[[Row], float], label: str, more: Sequence[End] = ()) -> None:
    """A line for every contestant with its name at the end, and on top of the panel whoever ran out of memory."""
    ends = list(more)
    names = list(dict.fromkeys((row.contestant, row.device) for row in rows))
    last: dict[tuple[str, str], tuple[float, float]] = {}
    lost = [row for row in rows if row.status == "out of memory"]
    crossed = {(row.contestant, row.device) for row in lost}
    for name in names:
        own = sorted(
            (x(row), row.median or 0.0) for row in rows if (row.contestant, row.device) == name and is_timed(row)
        )
        if own:
            style = look(*name)
            width = 2.4 if name[0] == "numpy fast" else 1.5
            kind: dict[str, Any] = {"color": style.colour, "ls": style.dashes, "marker": style.marker, "lw": width}
            axes.plot(*zip(*own, strict=True), ms=4, **kind)
            last[name] = own[-1]
            if name not in crossed:  # there the cross has the name
                ends.append((*own[-1], name[0], style.colour))
    logarithmic(axes, [x(row) for row in rows if is_timed(row) or row in lost], label)
    _crosses(axes, [((row.contestant, row.device), x(row)) for row in lost], last)
    axes.autoscale_view()
    times(axes.yaxis)
    label_ends(axes, ends)


def _crosses(
    axes: Axes, lost: list[tuple[tuple[str, str], float]], last: dict[tuple[str, str], tuple[float, float]]
) -> None:
    """A cross at the first size for which each had too little memory, above all lines, and the way there in dots."""
    firsts: dict[tuple[str, str], float] = {}
    for name, x in sorted(lost, key=lambda pair: pair[1]):
        firsts.setdefault(name, x)
    if not firsts:
        return
    bottom, top = axes.get_ylim()
    step = (top / bottom) ** 0.07
    left, end = axes.get_xlim()
    middle = left * end  # squared: the axis is logarithmic
    for rank, (name, x) in enumerate(firsts.items()):
        y, colour = top * step ** (rank + 1), look(*name).colour
        axes.plot([x], [y], marker="x", ms=8, mew=2, color=colour, ls="none")
        right = x * x < middle  # no room on its left
        axes.annotate(
            f"{name[0]}: out of memory",
            *((x, y), (9 if right else -9, 0)),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=8,
            color=ink(colour),
        )
        if name in last:
            axes.plot([last[name][0], x], [last[name][1], y], ls=(0, (1, 3)), lw=1, color=colour)
    axes.set_ylim(bottom, top * step ** (len(firsts) + 1))


def _with_copies(axes: Axes, race: Race) -> list[End]:
    """The GPU's times with both copies added, as thin lines."""
    ends = []
    for name, points in race.with_copies().items():
        style = look(name, "cuda")
        axes.plot(*zip(*points, strict=True), color=style.colour, ls=":", marker="^", ms=4, lw=1.5)
        ends.append((*points[-1], f"{name} + copies", style.colour))
    return ends
