"""The pictures of `gemelos verify`: who looks at whom, and what 1/sqrt(c) is for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from equivalence_tests.arithmetic import Array
from equivalence_tests.matrix_text import printable
from equivalence_tests.scaling import SMALL, ScalingRow

MOST_TICKS = 64
MOST_CELLS_WITH_NUMBERS = 12
LONGEST_LABEL = 16
WITH, WITHOUT = "#0072b2", "#d55e00"  # blue and vermilion: told apart by everybody, and in grey


def attention_picture(words: Sequence[str], A: Array, path: str | Path) -> None:
    """A heat map of A (n, n): row m is how the query m spreads its attention over the keys."""
    n = len(words)
    if A.shape != (n, n):
        raise ValueError(f"attention_picture: A has shape {A.shape}, expected {(n, n)} for {n} words")
    side = min(12.0, 3.6 + 0.42 * n)
    figure = new_figure(side + 1.2, side + 0.3)
    axes = figure.add_subplot()
    numbers = n <= MOST_CELLS_WITH_NUMBERS
    # Among many words most weights are small: without numbers, the square root keeps them apart from 0.
    colours = PowerNorm(1.0 if numbers else 0.5, vmin=0.0, vmax=float(A.max()))
    image = axes.imshow(A, cmap="Blues", norm=colours, interpolation="nearest")
    step = -(-n // MOST_TICKS)
    named = "" if step == 1 else f" (1 word in {step} named)"
    shown = range(0, n, step)
    labels = drawable_labels([words[i] for i in shown], [i + 1 for i in shown])
    size = 10.0 if n <= 20 else 8.0 if n <= 40 else 7.0
    axes.set_xticks(shown, labels, rotation=45 if n <= 20 else 90, fontsize=size)
    if n <= 20:
        for label in axes.get_xticklabels():
            label.set(ha="right", rotation_mode="anchor")
    axes.set_yticks(shown, labels, fontsize=size)
    axes.set_xlabel("key: at whom" + named)
    axes.set_ylabel("query: who looks" + named)
    axes.set_title("A = softmax(Q Kᵀ / √c), every row sums to 1", fontsize=11)
    if numbers:
        dark = 0.6 * float(A.max())
        for m in range(n):
            for p in range(n):
                colour = "white" if A[m, p] > dark else "black"
                axes.text(p, m, f"{A[m, p]:.2f}", ha="center", va="center", fontsize=8, color=colour)
    figure.colorbar(image, ax=axes, label="attention weight", shrink=0.8, aspect=30)
    figure.savefig(path, dpi=150)


def scaling_picture(rows: Sequence[ScalingRow], path: str | Path) -> None:
    """Entropy, median gradient norm and the share of vanished rows over c, with the scale 1/sqrt(c) and without it."""
    figure = new_figure(11.0, 3.9)
    entropy, norm, share = figure.subplots(1, 3)
    for scaled, label, colour, marker in ((True, "with 1/√c", WITH, "o"), (False, "without", WITHOUT, "s")):
        chosen = [row for row in rows if row["scaled"] is scaled]
        widths = [row["c"] for row in chosen]
        style = {"color": colour, "label": label, "linewidth": 1.8}
        entropy.plot(widths, [row["entropy"] for row in chosen], marker=marker, **style)
        norm.plot(widths, [row["median_norm"] for row in chosen], marker=marker, **style)
        share.plot(widths, [100.0 * row["share_small"] for row in chosen], marker=marker, **style)
    norm.set_yscale("log")
    entropy.set_ylim(-0.03, 1.03)
    share.set_ylim(-3.0, 103.0)
    _panel(entropy, "Entropy of A / log n", rows)
    _panel(norm, "Median norm of a row of dS", rows)
    _panel(share, f"Rows of dS below {SMALL:g}, in %", rows)
    share.legend(frameon=False, loc="upper left")
    figure.suptitle("Without 1/√c, softmax turns into a step function and most gradients vanish", fontsize=12)
    figure.savefig(path, dpi=150)


def drawable_labels(words: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The words as tick labels: cut where long, no mathematics, only characters that the default font can draw.

    A character that the font lacks becomes a box; a word of nothing else becomes `word 3`.
    """
    font = get_font(findfont(FontProperties()))
    labels = []
    for word, number in zip(words, numbers, strict=True):
        short = printable(word)
        if len(short) > LONGEST_LABEL:
            short = short[: LONGEST_LABEL - 1] + "…"
        drawn = "".join(ch if font.get_char_index(ord(ch)) else "□" for ch in short)
        if set(drawn) <= {"□", "…"} and drawn != short:
            drawn = f"word {number}"
        labels.append(drawn.replace("$", r"\$"))
    return labels


def new_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _panel(axes: Axes, title: str, rows: Sequence[ScalingRow]) -> None:
    widths = sorted({row["c"] for row in rows})
    axes.set_xscale("log", base=4)
    axes.set_xticks(widths, [str(c) for c in widths], fontsize=8)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("c")
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
