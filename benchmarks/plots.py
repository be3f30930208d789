"""The six pictures of a result file. One whose data is missing is not made, and says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.curves import attention_curves, crossover_curves
from benchmarks.drawing import NoPicture
from benchmarks.points import errors_and_times, roofline
from benchmarks.rows import Results
from benchmarks.training_pictures import losses_over_time, step_shares


@dataclass(frozen=True)
class Picture:
    """What it shows, and the file's name; None with the reason where there is nothing to draw."""

    title: str
    file: str | None
    why: str = ""


DRAWN: tuple[tuple[str, str, Callable[[Results], Figure]], ...] = (
    ("attention.png", "Attention: time against n", attention_curves),
    ("crossover.png", "CPU and GPU: where the GPU begins to win", crossover_curves),
    ("roofline.png", "Roofline: how near to what this machine can do", roofline),
    ("step.png", "Share of each op in a training step", step_shares),
    ("error.png", "Error against time", errors_and_times),
    ("loss.png", "Loss against wall-clock time", losses_over_time),
)


def draw(results: Results, folder: Path, prefix: str = "") -> list[Picture]:
    """Every picture that the results have data for, as PNG files in the folder."""
    pictures = []
    for name, title, make in DRAWN:
        try:
            figure = make(results)
        except NoPicture as why:
            pictures.append(Picture(title, None, str(why)))
            continue
        figure.savefig(folder / f"{prefix}{name}", dpi=150, facecolor="white")
        pictures.append(Picture(title, f"{prefix}{name}"))
    return pictures
