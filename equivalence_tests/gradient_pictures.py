"""The pictures of gradients: their norms over a training, attention beside its gradient, a Jacobian with what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm, PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from equivalence_tests.arithmetic import Array
from equivalence_tests.jacobian import Labels, outside
from equivalence_tests.model_pictures import COLOURS, token_label
from equivalence_tests.pictures import new_figure
from equivalence_tests.training_gradients import AttentionGradient

OUTSIDE = "outside the blocks"
RED = "#c0182b"
MOST_NUMBERED = 16  # rows or columns of a Jacobian whose cells can hold numbers
MOST_LISTED = 6  # wrong entries of a larger one


class Place(NamedTuple):
    """Where the norm of a parameter's gradient is drawn: the panel, the line in it, and whether that is dashed."""

    panel: str
    line: str
    dashed: bool


def place(name: str) -> Place:
    """blocks.0.attention.query.weight -> attention.query, block 1; rnn.bias_ih_l0 -> rnn ih, dashed."""
    *owner, last = name.split(".")
    kind, _, of = last.removesuffix("_l0").partition("_")
    dashed = kind in ("bias", "shift")
    if owner[0] == "blocks":
        return Place(".".join(owner[2:]), f"block {int(owner[1]) + 1}", dashed)
    return Place(OUTSIDE, " ".join([".".join(owner), *([of] if of else [])]), dashed)


def norms_picture(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """The norm of every gradient over the steps of a training's log: a panel for each kind, in it a line for each block."""
    measured = [row for row in rows if "norms" in row]
    steps = [row["step"] for row in measured]
    places = {name: place(name) for name in measured[0]["norms"]}
    panels = list(dict.fromkeys(each.panel for each in places.values()))
    panels = [panel for panel in panels if panel != OUTSIDE] + [OUTSIDE]
    blocks = list(dict.fromkeys(each.line for each in places.values() if each.panel != OUTSIDE))
    outer = list(dict.fromkeys(each.line for each in places.values() if each.panel == OUTSIDE))
    depth = colormaps["viridis"](np.linspace(0.0, 0.85, len(blocks)))  # dark to light, to be told apart in grey too
    colours = {**dict(zip(blocks, depth, strict=True)), **dict(zip(outer, COLOURS, strict=False))}
    told = 1 + (len(blocks) + 2 > 9)  # rows of the legend
    figure, axes = _panels(panels, told)
    for name, (panel, line, dashed) in places.items():
        norms = np.array([row["norms"][name] for row in measured])
        shown = np.where(norms > 0.0, norms, np.nan)  # a logarithm has no 0
        style: dict[str, Any] = {"linestyle": "--" if dashed else "-", "marker": "." if len(steps) < 3 else ""}
        axes[panel].plot(steps, shown, color=colours[line], linewidth=1.0, **style)
    kinds: tuple[tuple[Any, str], ...] = (("-", "weight, scale"), ("--", "bias, shift"))
    legend = _lines(blocks, colours) + [Line2D([], [], color="0.3", linestyle=s, label=label) for s, label in kinds]
    axes[OUTSIDE].legend(handles=_lines(outer, colours), fontsize=7, framealpha=0.8)
    figure.legend(handles=legend, loc="lower center", ncols=-(-len(legend) // told), fontsize=8)
    figure.savefig(path, dpi=110)


def _panels(panels: Sequence[str], told: int) -> tuple[Figure, dict[str, Axes]]:
    """Empty panels by their titles, three in a row, with one scale for all; below them there is room for a legend."""
    columns = min(3, len(panels))
    height = -(-len(panels) // columns)
    width, tall = (8.0, 4.8) if columns == 1 else (4.0 * columns, 1.0 + 2.4 * height)
    figure = new_figure(width, tall)
    figure.set_layout_engine("none")  # places that are known need not be arranged
    around = {"left": 0.7 / width, "right": 0.99, "top": 0.96, "bottom": (0.6 + 0.2 * told) / tall}
    spec = figure.add_gridspec(height, columns, wspace=0.04, hspace=0.2, **around)
    grid = spec.subplots(squeeze=False, sharex=True, sharey=True)
    for title, axes in zip(panels, grid.flat, strict=False):
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_title(title if len(panels) > 1 else "", fontsize=9)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=7)
    for empty in grid.flat[len(panels) :]:
        empty.set_axis_off()
    for lowest in grid[-1]:
        lowest.set_xlabel("step", fontsize=8)
    for first in grid[:, 0]:
        first.set_ylabel("norm of the gradient", fontsize=8)
    return figure, dict(zip(panels, grid.flat, strict=False))


def _lines(names: Sequence[str], colours: Mapping[str, Any]) -> list[Line2D]:
    return [Line2D([], [], color=colours[name], label=name) for name in names]


def attention_gradient_picture(tokens: Sequence[str], found: Sequence[AttentionGradient], path: str | Path) -> None:
    """A of every head and, beside it, dS: where the loss falls (blue) or rises (red) if the token looks there more."""
    heads, side = found[0].A.shape[0], 0.5 + 0.11 * len(tokens)  # of a map, in inches
    left, below, apart = 1.0, 1.1, 0.3
    width, height = left + heads * (2.0 * side + apart) + 1.2, below + len(found) * (side + apart) + 0.1
    figure = new_figure(width, height)
    figure.set_layout_engine("none")  # two dozen maps at places that are known need not be arranged

    def axes_at(x: float, y: float, w: float, h: float) -> Axes:
        return figure.add_axes((x / width, y / height, w / width, h / height))

    weights = PowerNorm(0.5, vmin=0.0, vmax=1.0)  # the square root keeps small weights apart from 0
    most = max(float(np.abs(each.dS).max()) for each in found) or 1.0
    slopes = FuncNorm((np.cbrt, _cube), vmin=-most, vmax=most)  # the cube root keeps small slopes apart from 0
    labels = [token_label(token) for token in tokens]
    for layer, each in enumerate(found):
        y = below + (len(found) - 1 - layer) * (side + apart)
        for head in range(heads):
            x = left + head * (2.0 * side + apart)
            one, other = axes_at(x, y, side, side), axes_at(x + side + 0.06, y, side, side)
            image = one.imshow(each.A[head], cmap="Blues", norm=weights, interpolation="nearest")
            slope = other.imshow(each.dS[head], cmap="RdBu_r", norm=slopes, interpolation="nearest")
            one.set_title(f"A, block {layer + 1}, head {head + 1}", fontsize=8, pad=3)
            other.set_title("dS = A (dA - Σ A dA)", fontsize=8, pad=3)
            for axes in (one, other):
                last, first = layer == len(found) - 1, axes is one and head == 0
                axes.set_xticks(range(len(tokens)) if last else [], labels if last else [], rotation=90, fontsize=6)
                axes.set_yticks(range(len(tokens)) if first else [], labels if first else [], fontsize=6)
    bar = (height - below) / 2.0 - 0.4
    _bar(figure, axes_at(width - 1.0, below + bar + 0.5, 0.12, bar), image, "A", (0.0, 0.05, 0.25, 0.5, 1.0))
    told = "dS: blue lowers the loss"
    _bar(figure, axes_at(width - 1.0, below, 0.12, bar), slope, told, (-most, -most / 8.0, 0.0, most / 8.0, most))
    figure.text(0.5, 0.02, "key: the token looked at", ha="center", fontsize=9)
    figure.text(0.1 / width, 0.5, "query: the token that looks", va="center", rotation=90, fontsize=9)
    figure.savefig(path, dpi=110)


def _bar(figure: Figure, axes: Axes, image: Any, label: str, ticks: Sequence[float]) -> None:
    bar = figure.colorbar(image, cax=axes)
    bar.set_label(label, fontsize=8)
    bar.set_ticks(list(ticks), labels=[f"{tick:.2g}" for tick in ticks], fontsize=7)


def _cube(x: Any) -> Any:
    return x * x * x


def jacobian_picture(
    backward_jacobian: Array, true_jacobian: Array, allowed: Array, path: str | Path, labels: Labels | None = None
) -> int:
    """A table of the Jacobian, entries further from the truth than allowed in red, with both numbers; how many they are

    All (outputs, inputs), labels: the names of rows and columns. What is written are symbols and numbers alone. In a
    Jacobian too large for numbers the cells have colours alone, and those furthest off are listed above.
    """
    found, true = np.asarray(backward_jacobian, np.float64), np.asarray(true_jacobian, np.float64)
    wrong = outside(found, true, np.asarray(allowed, np.float64))
    rows, columns = labels or tuple(
        [f"{name}[{i}]" for i in range(n)] for name, n in zip("YX", found.shape, strict=True)
    )
    numbered = max(found.shape) <= MOST_NUMBERED
    cell = (0.72, 0.5) if numbered else (0.16, 0.16)
    figure = new_figure(max(4.0, 1.4 + cell[0] * len(columns)), max(2.2, 1.6 + cell[1] * len(rows)))
    axes = figure.add_subplot()
    most = float(np.abs(np.where(np.isfinite(true), true, 0.0)).max(initial=0.0)) or 1.0
    shade = colormaps["Blues"](0.55 * np.minimum(np.abs(np.nan_to_num(true)) / most, 1.0))
    shade[wrong] = (*(int(RED[i : i + 2], 16) / 255.0 for i in (1, 3, 5)), 1.0)
    axes.imshow(shade, aspect="auto", interpolation="nearest")
    if numbered:
        _numbers(axes, found, true, wrong)
    _frame(axes, rows, columns)
    title = f"∂{_stems(rows)} / ∂{_stems(columns)}     ≠  {int(wrong.sum())} / {wrong.size}"
    listed = [] if numbered else _worst(found, true, wrong, rows, columns)
    figure.suptitle("\n".join([title, *listed]), fontsize=9)
    figure.savefig(path, dpi=140)
    return int(wrong.sum())


def _numbers(axes: Axes, found: Array, true: Array, wrong: Array) -> None:
    """One number where it is right; where it is wrong the candidate's and, below it, the true one."""
    for i, j in np.ndindex(found.shape):
        text = f"{true[i, j] + 0.0:.3g}"
        style: dict[str, Any] = {}
        if wrong[i, j]:
            text = "\n≠ ".join(told_apart(float(found[i, j]), float(true[i, j])))
            style = {"color": "white", "weight": "bold"}
        axes.text(j, i, text, ha="center", va="center", fontsize=7, **style)


def _frame(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Names on every row and column, as far as there is room, and a line where another tensor begins."""
    for names, ticks, line in ((columns, axes.set_xticks, axes.axvline), (rows, axes.set_yticks, axes.axhline)):
        step = -(-len(names) // 64)
        ticks(range(0, len(names), step), names[::step], fontsize=7 if step == 1 else 5)
        for at in range(1, len(names)):
            if _stem(names[at]) != _stem(names[at - 1]):
                line(at - 0.5, color="black", linewidth=1.5)
            elif len(names) <= MOST_NUMBERED:
                line(at - 0.5, color="white", linewidth=0.8)
    axes.tick_params("x", top=True, labeltop=True, bottom=False, labelbottom=False, labelrotation=60)


def _worst(found: Array, true: Array, wrong: Array, rows: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The entries that are furthest off, one a line."""
    gaps = np.where(wrong, np.nan_to_num(np.abs(found - true), nan=math.inf), -1.0)
    order = np.argsort(-gaps, axis=None, kind="stable")[: min(MOST_LISTED, int(wrong.sum()))]
    lines = []
    for i, j in zip(*np.unravel_index(order, gaps.shape), strict=True):
        one, other = told_apart(float(found[i, j]), float(true[i, j]))
        lines.append(f"∂{rows[i]} / ∂{columns[j]} = {one} ≠ {other}")
    return lines


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Both numbers in as few digits, three at least, as tell them apart."""
    for digits in range(3, 18):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return f"{one:.3g}", f"{other:.3g}"


def _stem(name: str) -> str:
    return name.partition("[")[0]


def _stems(names: Sequence[str]) -> str:
    stems = list(dict.fromkeys(map(_stem, names)))
    return stems[0] if len(stems) == 1 else f"({', '.join(stems)})"
