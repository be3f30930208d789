"""The loss against wall-clock time: one short training on the tales, the same steps on the same batches for both twins."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.rows import Row
from benchmarks.timing import Contestant, row_of
from benchmarks.work import Work
from reference_numpy import fast
from reference_numpy.config import GPTConfig
from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import TextDataset, read_texts
from reference_numpy.gpt import init_gpt
from reference_numpy.learner import Learner, NumpyLearner
from reference_numpy.train import TrainingConfig, train_model

if TYPE_CHECKING:
    from benchmarks.session import Session

NAME = "loss against time"
NAMES = ("numpy reference", "numpy fast", "torch eager")
LIMIT = 600.0  # s


@dataclass(frozen=True)
class Scale:
    stories: int
    steps: int
    window: int
    d: int
    L: int
    H: int
    B: int


SHORT, LONG = Scale(60, 3, 16, 8, 1, 2, 2), Scale(500, 40, 64, 128, 2, 4, 16)


def losses(contestant: str, quick: bool) -> dict[str, Any]:
    """In the contestant's own process."""
    scale = SHORT if quick else LONG
    texts = read_texts(corpus_path())[: scale.stories]
    dataset = TextDataset(texts, scale.window + 1)
    config = GPTConfig(
        vocab_size=dataset.tokenizer.vocab_size,
        context_window=scale.window,
        embedding_dim=scale.d,
        num_layers=scale.L,
        num_heads=scale.H,
        head_dim=scale.d // scale.H,
        dropout=0.0,
    )
    learner = _learner(contestant, config)
    loss: list[float] = []
    when: list[float] = []

    def watch(row: dict[str, Any]) -> None:
        loss.append(row["loss"])
        when.append(time.perf_counter() - began)

    settings = TrainingConfig(epochs=scale.steps, batch_size=scale.B)
    began = time.perf_counter()
    train_model(learner, dataset, settings, stop=scale.steps, watch=watch)
    sizes = {"B": scale.B, "n": scale.window, "d": scale.d, "H": scale.H, "L": scale.L, "v": config.vocab_size}
    return {"loss": loss, "time": when, "sizes": sizes}


def _learner(contestant: str, config: GPTConfig) -> Learner:
    params = init_gpt(config, np.random.default_rng(0))
    if contestant == "numpy reference":
        return NumpyLearner(config, params)
    if contestant == "numpy fast":
        return fast.NumpyLearner(config, params)
    learner: Learner = importlib.import_module("torch_impl.learner").TorchLearner.from_params(config, params)
    return learner


def measure(
    session: Session, work: Work, quick: bool, watch: Callable[[str], None], show: Callable[[Row], None]
) -> None:
    """A row for each of both twins, with its losses and their times; who diverges from the textbook's losses is wrong."""
    right: list[float] = []
    for each in session.contestants(Work("train", "gpt_step", "step", work.sizes, "float32")):
        if each.name not in NAMES:
            continue
        watch(f"{each.name}: {NAME}")
        answer = session.process_of(Contestant(each.name)).ask("train", LIMIT, contestant=each.name, quick=quick)
        if answer.get("status") in ("not offered", "not installed"):
            continue
        row = row_of(work, each, answer.get("status", "ok"), answer.get("why", ""))
        row.work, row.flops, row.bytes, row.tokens = NAME, None, None, None
        if row.status == "ok":
            _fill(row, answer, right)
        session.results.rows.append(row)
        show(row)


def _fill(row: Row, answer: dict[str, Any], right: list[float]) -> None:
    """The first is the textbook. Rounding grows from step to step: the losses are to agree to a thousandth."""
    row.sizes, loss = answer["sizes"], answer["loss"]
    row.settings = {"loss": loss, "time": answer["time"]}
    right[:] = right or loss
    apart = max(abs(a - b) / b for a, b in zip(loss, right, strict=True))
    row.share, row.checked = apart / 1e-3, "every loss within 0.1 % of the first contestant's"
    if not row.share <= 1.0:
        row.status, row.why, row.settings = "wrong", f"a loss differs by {100.0 * apart:.3g} %", {}
        return
    row.timed(np.diff([0.0, *answer["time"]]).tolist())
    row.share_after = row.share
