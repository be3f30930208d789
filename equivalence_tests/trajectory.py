"""`python -m equivalence_tests.trajectory`: both twins trained side by side, and how far apart they are after every step.

From one initialisation, over one stream of batches and one of dropout masks, NumPy's hand-written gradients and AdamW
against torch's autograd and `torch.optim.AdamW`; or, with `--twins`, the fast NumPy against either. Rounding is all that
may tell them apart.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from equivalence_tests.flags import Parser
from equivalence_tests.implementations import has_torch
from equivalence_tests.model_pictures import growth_picture, loss_picture
from equivalence_tests.train import TWINS, make_learner, one_line
from equivalence_tests.verify import machine, versions
from reference_numpy.config import GPTConfig, RNNConfig
from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import TextDataset, read_texts
from reference_numpy.generative_rnn import init_rnn
from reference_numpy.gpt import init_gpt
from reference_numpy.learner import Learner
from reference_numpy.train import TrainingConfig, steps_of_an_epoch, train_model

SCHEMA = 1
STEPS = 1000
LIMITS = {"float64": 1e-11, "float32": 1e-3}
SETTINGS = TrainingConfig(batch_size=8, seq_length=33, learning_rate=1e-3)
TALES = 100
Curve = list[tuple[int, float, str]]  # step, the largest relative difference, and of which parameter


def tales(seq_length: int, stories: int = TALES) -> TextDataset:
    """A part of the tales, in a vocabulary of a few hundred tokens."""
    texts = read_texts(corpus_path())[:stories]
    return TextDataset(texts, seq_length, min_frequency=3, lower=True, strip_accents=True, nfc=True)


def small_config(model: str, vocab_size: int) -> GPTConfig | RNNConfig:
    if model == "rnn":
        return RNNConfig(vocab_size, embedding_dim=32)
    return GPTConfig(vocab_size, 32, embedding_dim=32, num_layers=2, num_heads=2, head_dim=16, dropout=0.1)


def side_by_side(
    config: GPTConfig | RNNConfig,
    dataset: TextDataset,
    settings: TrainingConfig,
    steps: int,
    dtype: str,
    told: Callable[[], None] = lambda: None,
    twins: tuple[str, ...] = ("reference", "torch"),
) -> tuple[Curve, dict[str, list[dict[str, Any]]]]:
    """The gap after every step up to the tenth and every tenth one, and the losses of each twin.

    The gap is the largest over all parameters of max |one - other| / max |one|, one being the first twin.
    """
    init: Callable[..., Any] = init_gpt if isinstance(config, GPTConfig) else init_rnn
    params = init(config, np.random.default_rng(settings.seed), dtype)
    everyone = [make_learner(twin, config, {name: p.copy() for name, p in params.items()}, {}, "cpu") for twin in twins]
    epochs = -(-steps // steps_of_an_epoch(len(dataset), settings))
    settings = replace(settings, epochs=epochs)
    curve: Curve = []
    losses: dict[str, list[dict[str, Any]]] = {twin: [] for twin in twins}
    trainings = [_steps(learner, dataset, settings) for learner in everyone]
    for step in range(1, steps + 1):
        for rows, training in zip(losses.values(), trainings, strict=True):
            rows.append(next(training))
        if step <= 10 or step % 10 == 0 or step == steps:
            one, *others = (learner.snapshot()[0] for learner in everyone)
            found = [largest_gap(one, other) for other in others]
            name, gap = found[int(np.argmax([gap for _, gap in found]))]
            curve.append((step, gap, name))
        told()
    return curve, losses


def _steps(learner: Learner, dataset: TextDataset, settings: TrainingConfig) -> Any:
    """The rows of a training, one step each time the next is asked for."""
    total = settings.epochs * steps_of_an_epoch(len(dataset), settings)
    for step in range(total):
        rows: list[dict[str, Any]] = []
        train_model(learner, dataset, settings, step=step, stop=step + 1, watch=rows.append)
        yield rows[0]


def largest_gap(one: dict[str, Any], other: dict[str, Any]) -> tuple[str, float]:
    """The parameter that differs most, relative to its largest element."""
    gaps = {name: float(np.abs(one[name] - other[name]).max() / np.abs(one[name]).max()) for name in one}
    name = list(gaps)[int(np.argmax(list(gaps.values())))]  # a NaN is larger than any number
    return name, gaps[name]


def parser() -> argparse.ArgumentParser:
    parse = Parser(
        prog="python -m equivalence_tests.trajectory",
        description="Train a small GPT and a small RNN on two twins side by side, in float64 and float32, and show how "
        "far their parameters drift apart. Writes results/trajectory.json, trajectory.png and losses.png. "
        "Exit status: 0 if the last gap is within 1e-11 (float64) and 1e-3 (float32), 1 if not.",
    )
    parse.add_argument("--steps", type=int, default=STEPS, help="of each (default: %(default)s)")
    parse.add_argument(
        "--twins",
        nargs=2,
        choices=TWINS,
        default=("reference", "torch"),
        metavar=("ONE", "OTHER"),
        help=f"of {', '.join(TWINS)} (default: reference torch)",
    )
    return parse


def main(argv: list[str] | None = None) -> int:
    given = parser().parse_args(argv)
    if given.steps < 1:
        print(f"trajectory: --steps: {given.steps} came, expected at least 1", file=sys.stderr)
        return 2
    if "torch" in given.twins and not has_torch():
        print("trajectory: torch is not installed, expected both twins", file=sys.stderr)
        return 2
    say = Console(soft_wrap=True, highlight=False)
    try:
        return trajectory(given.steps, say, tuple(given.twins))
    except KeyboardInterrupt:
        say.print("\nStopped before the end: nothing was written.")
        return 130
    except OSError as error:
        print(f"trajectory: {one_line(error)}", file=sys.stderr)
        return 2


def trajectory(steps: int, say: Console, twins: tuple[str, str] = ("reference", "torch")) -> int:
    dataset = tales(SETTINGS.seq_length)
    curves: dict[str, Curve] = {}
    losses: dict[str, list[dict[str, Any]]] = {}
    with Progress(console=say, transient=True, disable=not say.is_terminal) as bar:
        for dtype in LIMITS:
            for model in ("gpt", "rnn"):
                task = bar.add_task(f"{model}, {dtype}", total=steps)
                config = small_config(model, dataset.tokenizer.vocab_size)
                name = f"{model}, {dtype}"
                told = partial(bar.advance, task)
                curves[name], rows = side_by_side(config, dataset, SETTINGS, steps, dtype, told, twins)
                last, parameter = curves[name][-1][1:]
                bar.console.print(f"{name}: after {steps} steps {last:.2g} of its scale, at {parameter}")
                if dtype == "float64":
                    losses |= {f"{model}, {twin}": each for twin, each in rows.items()}
    folder = Path("results")
    folder.mkdir(exist_ok=True)
    report = {
        "schema": SCHEMA,
        "machine": machine(),
        "versions": versions(),
        "settings": asdict(SETTINGS),
        "steps": steps,
        "twins": twins,
        "vocab_size": dataset.tokenizer.vocab_size,
        "curves": curves,
    }
    (folder / "trajectory.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    growth = {name: ([c[0] for c in curve], [c[1] for c in curve]) for name, curve in curves.items()}
    growth_picture(growth, folder / "trajectory.png")
    loss_picture(losses, folder / "losses.png")
    say.print("Wrote results/trajectory.json, results/trajectory.png, results/losses.png")
    apart = [name for name, curve in curves.items() if not curve[-1][1] <= LIMITS[name.split(", ")[1]]]
    if apart:
        say.print(f"APART: {'; '.join(apart)}", style="bold red")
        return 1
    say.print(f"Proved: after {steps} steps of AdamW with dropout every parameter of both twins agrees.", style="bold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
