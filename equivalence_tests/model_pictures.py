"""The pictures of the language models: losses, attention maps, temperatures, and how far the twins drift apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import PowerNorm

from equivalence_tests.arithmetic import Array
from equivalence_tests.pictures import LONGEST_LABEL, new_figure
from reference_numpy.sampling import SamplingConfig, probabilities

TEMPERATURES = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)  # source 2's
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by everybody
STYLES = ("-", "--", "-.", ":")


def loss_picture(runs: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path) -> None:
    """The loss of every step and of the held-out stories after every epoch: rows of a training's log, by its name."""
    figure = new_figure(8.0, 4.5)
    axes = figure.add_subplot()
    for (name, rows), colour, style in zip(runs.items(), COLOURS, STYLES, strict=False):
        steps = [row for row in rows if "loss" in row]
        held = [row for row in rows if "held_out_loss" in row]
        x, y = [row["step"] for row in steps], [row["loss"] for row in steps]
        axes.plot(x, y, style, color=colour, alpha=0.6, linewidth=1.0, label=name)
        if held:
            x, y = [row["step"] for row in held], [row["held_out_loss"] for row in held]
            axes.plot(x, y, "o" + style, color=colour, markersize=3.5, label=f"{name}, held out")
    axes.set(xlabel="step", ylabel="mean cross-entropy (nats per token)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def heads_picture(tokens: Sequence[str], maps: Sequence[Array], path: str | Path) -> None:
    """A of every head (columns) of every block (rows), (H, n, n) each: row i is where token i looks."""
    n, heads = len(tokens), maps[0].shape[0]
    side = 1.2 + 0.16 * n
    figure = new_figure(0.8 + side * heads, 0.8 + side * len(maps))
    labels = [token_label(token) for token in tokens]
    colours = PowerNorm(0.5, vmin=0.0, vmax=1.0)  # the square root keeps small weights apart from 0
    grid = figure.subplots(len(maps), heads, squeeze=False, sharex=True, sharey=True)
    for layer, A in enumerate(maps):
        for head in range(heads):
            axes = grid[layer][head]
            image = axes.imshow(A[head], cmap="Blues", norm=colours, interpolation="nearest")
            axes.set_title(f"block {layer + 1}, head {head + 1}", fontsize=8)
            axes.set_xticks(range(n), labels, rotation=90, fontsize=6)
            axes.set_yticks(range(n), labels, fontsize=6)
    figure.colorbar(image, ax=grid, label="A", shrink=0.6, ticks=(0.0, 0.05, 0.25, 0.5, 1.0))
    figure.supxlabel("key: the token looked at", fontsize=9)
    figure.supylabel("query: the token that looks", fontsize=9)
    figure.savefig(path, dpi=120)


def temperature_picture(path: str | Path, logits: Array | None = None, names: Sequence[str] | None = None) -> None:
    """softmax(logits / T) for six temperatures, as bars: of these tokens alone. Source 2's figure: ten random logits."""
    if logits is None:
        logits = np.random.default_rng(0).standard_normal(10)
    labels = (
        [f"$a_{{{k}}}$" for k in range(1, logits.size + 1)] if names is None else [token_label(name) for name in names]
    )
    figure = new_figure(10.0, 4.6)
    for axes, T in zip(figure.subplots(2, 3, sharey=True).flat, TEMPERATURES, strict=True):
        plain = SamplingConfig(temperature=T, top_k=None, repetition_penalty=1.0)
        axes.bar(labels, probabilities(logits, [0], plain), color=COLOURS[0])
        axes.set(title=f"$T = {T:g}$", ylim=(0.0, 1.0))
        axes.tick_params("x", labelrotation=0 if names is None else 60, labelsize=8)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel("probability")
    figure.savefig(path, dpi=120)


def growth_picture(curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], path: str | Path) -> None:
    """The largest difference between the twins' parameters, relative to the tensor's scale, step after step, by name."""
    figure = new_figure(8.0, 4.5)
    axes = figure.add_subplot()
    for (name, (steps, gaps)), colour, style in zip(curves.items(), COLOURS, STYLES, strict=False):
        axes.plot(steps, gaps, style, color=colour, label=name)
    axes.set(xlabel="step", ylabel="largest difference / largest element", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def token_label(token: str) -> str:
    """A token as a tick: white space to be seen, a dollar sign not as mathematics."""
    shown = {" ": "␣", "\n": "⏎", "\t": "⇥"}.get(token, token).replace("$", r"\$")
    return shown if len(shown) <= LONGEST_LABEL else f"{shown[: LONGEST_LABEL - 1]}…"
