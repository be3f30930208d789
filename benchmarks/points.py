"""One point for every row: how near it comes to this machine's ceilings, and what its accuracy costs in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from benchmarks.drawing import GREY, NoPicture, family, ink, look, plain, spread_out, times
from benchmarks.ratios import is_timed
from benchmarks.rows import Results, Row
from benchmarks.units import digits, part_in_words, shown_sizes
from equivalence_tests.pictures import new_figure

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11, "bfloat16": 2.0**-8}
MARKERS = {"float64": "s", "float32": "o", "tf32": "D", "bfloat16": "^"}
MOST_PANELS = 3
MOST_COLUMNS = 14


def roofline(results: Results) -> Figure:
    """FLOP/s over FLOP per byte, under the ceilings measured here; the contestants of one work stand above each other."""
    roofs = _roofs(results)
    columns = _columns(results)
    if not roofs or not columns:
        raise NoPicture(
            "no ceilings were measured" if not roofs else "no timed row has both its FLOP and its bytes counted"
        )
    figure = new_figure(10.5, 6.2)
    axes = figure.add_subplot()
    plain(axes)
    intensities = [_intensity(column[0]) for column in columns]
    x = np.geomspace(min([*intensities, 0.25]) / 2.0, max([*intensities, 64.0]) * 2.0, 200)
    lowest_roof = min(peak for peak, _ in roofs.values()) if len(roofs) > 1 else 0.0
    for name, (peak, bandwidth) in roofs.items():
        style = look(name)
        axes.plot(x, np.minimum(peak, bandwidth * x), color=style.colour, lw=2)
        said = f"{name}: {digits(peak / 1e9)} GFLOP/s, {digits(bandwidth / 1e9)} GB/s"
        side = "top" if peak == lowest_roof else "bottom"  # two roofs that are near each other share no label's place
        axes.annotate(f" {said} ", (x[-1], peak), ha="right", va=side, fontsize=9, color=ink(style.colour))
    shown: dict[str, Line2D] = {}
    for column in columns:
        for row in column:
            style = look(row.contestant)
            [point] = axes.plot(_intensity(row), _rate(row), ls="none", marker=style.marker, ms=5.5, color=style.colour)
            shown.setdefault(row.contestant, point)
    axes.set(xscale="log", yscale="log", xlim=(x[0], x[-1]))
    lowest = min(_rate(row) for column in columns for row in column)
    top = 2.0 * max(peak for peak, _ in roofs.values())
    axes.set_ylim(lowest / (top / lowest) ** 0.42, top)  # the works' names have the lower 30 %
    _name_columns(axes, columns)
    axes.set_xlabel("FLOP per byte of operands and results, each counted once")
    axes.set_ylabel("GFLOP/s")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate / 1e9:g}"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.legend(shown.values(), shown, fontsize=8.5, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle("How near to the ceilings measured on this machine (float32, CPU)", fontsize=12)
    return figure


def _roofs(results: Results) -> dict[str, tuple[float, float]]:
    """Of each library, the FLOP/s of its large matrix product and the bytes/s of its large copy."""
    found = {}
    for library in ("numpy", "torch"):
        peak = results.ceilings.get(f"gemm float32 {library}")
        bandwidth = results.ceilings.get(f"copy {library}", results.ceilings.get("copy"))
        if peak and bandwidth:
            found[library] = (peak, bandwidth)
    if not found and {"gemm float32", "copy"} <= set(results.ceilings):
        found["best library"] = (results.ceilings["gemm float32"], results.ceilings["copy"])
    return found


def _columns(results: Results) -> list[list[Row]]:
    """The rows of each work and part at its largest size, those of one intensity together."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in results.rows:
        if is_timed(row) and row.device == "cpu" and row.dtype == "float32" and row.flops and row.bytes:
            groups.setdefault((row.work, row.part), []).append(row)
    largest = [
        [row for row in rows if row.sizes == max(rows, key=lambda each: each.flops or 0.0).sizes]
        for rows in groups.values()
    ]
    return sorted(largest, key=lambda rows: -(rows[0].flops or 0.0))[:MOST_COLUMNS]


def _name_columns(axes: Axes, columns: Sequence[Sequence[Row]]) -> None:
    """Upright below the points, moved sideways where two would touch."""
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_axes.transform((_intensity(rows[0]), 1.0))[0]) for rows in columns]
    for rows, at, place in zip(columns, wanted, spread_out(wanted, 0.026, 0.02, 0.98), strict=True):
        bottom = float(to_axes.transform((1.0, min(map(_rate, rows))))[1])
        axes.plot([place, at, at], [0.23, 0.26, bottom], color=GREY, lw=0.5, alpha=0.5, transform=axes.transAxes)
        part = rows[0].part.replace("forward+backward", "both")
        named = rows[0].work if part in ("forward", "step", rows[0].work) else f"{rows[0].work}, {part}"
        axes.text(
            *(place, 0.225, named), rotation=90, ha="center", va="top", fontsize=8, color=GREY, transform=axes.transAxes
        )


def _intensity(row: Row) -> float:
    return (row.flops or 0.0) / (row.bytes or 1.0)


def _rate(row: Row) -> float:
    return (row.flops or 0.0) / (row.median or 1.0)


def errors_and_times(results: Results) -> Figure:
    """The largest error against float64 over the time, in every dtype: what a digit costs."""
    works = _works(results)
    if not works:
        raise NoPicture("no work was timed in two dtypes with its error known")
    width = 4.6 * len(works) + 2.0
    figure = new_figure(width, 4.8)
    panels = figure.subplots(1, len(works), squeeze=False, sharey=True)[0]
    families: dict[str, str] = {}
    for axes, rows in zip(panels, works, strict=True):
        plain(axes, f"{rows[0].work}, {part_in_words(rows[0].part)}\n{shown_sizes(rows[0].sizes)}")
        for row in rows:
            colour = look(row.contestant, row.device).colour
            marker = MARKERS[row.dtype]
            axes.plot(row.median, relative_error(row), ls="none", marker=marker, ms=7, color=colour, alpha=0.9)
            families.setdefault(family(row.contestant), colour)
        axes.set(xscale="log", yscale="log")
        axes.margins(0.12)
        axes.autoscale_view()
        times(axes.xaxis)
        axes.set_xlabel("median time")
    shown = [dtype for dtype in MARKERS if any(row.dtype == dtype for rows in works for row in rows)]
    for axes in panels:
        for dtype in shown:
            axes.axhline(UNIT_ROUNDOFF[dtype], color=GREY, lw=0.7, ls=":", zorder=0)
    for dtype in shown:
        at: dict[str, Any] = {"xy": (1.01, UNIT_ROUNDOFF[dtype]), "xycoords": ("axes fraction", "data"), "va": "center"}
        panels[-1].annotate(f"u of {dtype}", **at, fontsize=8, color=GREY)
    panels[0].set_ylabel("largest error, relative to the tensor's largest element")
    dots = [Line2D([], [], color=colour, marker="o", ls="none") for colour in families.values()]
    dots += [Line2D([], [], color=GREY, marker=marker, ls="none") for marker in map(MARKERS.__getitem__, shown)]
    names = [*families, *shown]
    figure.legend(dots, names, ncols=max(3, int(width / 1.8)), fontsize=8.5, frameon=False, loc="outside lower center")
    figure.suptitle("Error against time", fontsize=12)
    return figure


def relative_error(row: Row) -> float:
    """Of the largest element; the row holds it in units of roundoff of its dtype."""
    return (row.error or 0.0) * UNIT_ROUNDOFF[row.dtype]


def _works(results: Results) -> list[list[Row]]:
    """The works with most dtypes, the largest of each: one panel each."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in results.rows:
        if is_timed(row) and row.error and row.dtype in UNIT_ROUNDOFF:
            groups.setdefault((row.suite, row.work, row.part, tuple(sorted(row.sizes.items()))), []).append(row)
    several = [rows for rows in groups.values() if len({row.dtype for row in rows}) > 1]
    several.sort(key=lambda rows: -max(row.median or 0.0 for row in rows))
    several.sort(key=lambda rows: (rows[0].suite == "roofline", -len({row.dtype for row in rows})))
    first: dict[tuple[str, str], list[Row]] = {}
    for rows in several:
        first.setdefault((rows[0].work, rows[0].part), rows)
    return list(first.values())[:MOST_PANELS]
