"""Training and evaluation, whichever twin computes: the same batches, the same masks, the same schedule."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from reference_numpy import _arguments, _check
from reference_numpy._check import Array
from reference_numpy.config import GPTConfig, described
from reference_numpy.dataset import TextDataset, batches, inputs_and_targets
from reference_numpy.gpt import dropout_masks
from reference_numpy.learner import Learner
from reference_numpy.optimizer import learning_rate

Row = dict[str, Any]
ORDER, MASKS = 1, 2  # the streams of random numbers


@dataclass(frozen=True)
class TrainingConfig:
    """How to train. The defaults are source 2's, where it has them.

    Raises TypeError or ValueError for a field of another type or out of its range.
    """

    epochs: int = described(32, "times that every story is seen")
    batch_size: int = described(32, "rows of a batch")
    seq_length: int = described(256, "tokens of a row, at most; a GPT reads one fewer, its last one is a target alone")
    accumulation: int = described(1, "batches whose gradients make one step")
    learning_rate: float = described(1e-3, "of AdamW, at its highest")
    weight_decay: float = described(1e-2, "of AdamW")
    clip_norm: float = described(0.0, "the largest norm of the gradient; 0 clips nothing")
    warmup_steps: int = described(0, "steps in which the learning rate rises to its highest")
    cosine: bool = described(False, "let the learning rate fall to 0 along a cosine")
    drop_last: bool = described(True, "leave out the windows that do not fill a batch")
    by_length: bool = described(False, "batches of rows of similar length: less padding")
    truncate: bool = described(False, "cut stories at seq_length instead of into windows")
    checkpoint_every: int = described(100, "steps between two checkpoints")
    seed: int = described(0, "of the beginning, the order and the dropout")

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulation", "checkpoint_every"):
            _arguments.integer(name, getattr(self, name), 1)
        _arguments.integer("seq_length", self.seq_length, 2)
        for name in ("warmup_steps", "seed"):
            _arguments.integer(name, getattr(self, name), 0)
        for name in ("cosine", "drop_last", "by_length", "truncate"):
            _arguments.flag(name, getattr(self, name))
        for name in ("learning_rate", "weight_decay", "clip_norm"):
            if _check.number("TrainingConfig", name, getattr(self, name)) < 0.0:
                raise ValueError(f"{name}: {getattr(self, name)} came, expected at least 0")


def train_model(
    learner: Learner,
    dataset: TextDataset,
    settings: TrainingConfig,
    *,
    held_out: TextDataset | None = None,
    step: int = 0,
    stop: int | None = None,
    watch: Callable[[Row], None] | None = None,
    save: Callable[[int], None] | None = None,
) -> int:
    """Steps `step` ... epochs * steps_of_an_epoch - 1 of AdamW, or up to stop - 1; the steps done, those before included

    watch is given a row after every step (step, epoch, loss, tokens, learning_rate, and norm if gradients are clipped),
    and after every epoch one on held_out (step, epoch, held_out_loss, perplexity). save is given the number of steps done:
    before the first one, every checkpoint_every steps, and at the end. Ctrl-C ends the training after the step in
    progress, with a last save; a second Ctrl-C ends it at once.

    The order of epoch e comes from `default_rng([seed, 1, e])`, the masks of batch i of step s from
    `default_rng([seed, 2, s, i])`: seed and step are the whole random state, so a training that is taken up at any step
    goes on as if it had never stopped.

    The loss of a step is the mean over the counted targets of all its batches, and so is its gradient. Source 2.
    Raises ValueError for a loss that is not finite, and a data set whose rows are too long for the model.
    """
    longest = max(len(row) for row in dataset.data) - 1
    if isinstance(learner.config, GPTConfig) and longest > learner.config.context_window:
        window = learner.config.context_window
        raise ValueError(f"seq_length: {longest + 1} came, expected at most context_window + 1 = {window + 1}")
    epoch_steps = steps_of_an_epoch(len(dataset), settings)
    total = settings.epochs * epoch_steps
    end = total if stop is None else min(stop, total)
    tell, keep_safe = watch or _ignore, save or _ignore
    if step == 0:
        keep_safe(0)
    order: list[Array] = []
    with _interrupts() as interrupted:
        while step < end and not interrupted():
            epoch, at = divmod(step, epoch_steps)
            if not order or at == 0:
                order = _epoch(dataset, settings, epoch)
            some = order[at * settings.accumulation : (at + 1) * settings.accumulation]
            row = _train_step(learner, some, step, total, settings, dataset.tokenizer.pad_id)
            step += 1
            tell({"step": step, "epoch": epoch + 1, **row})
            if step % epoch_steps == 0 and held_out is not None:
                loss, _ = evaluate(learner, held_out, settings.batch_size)
                tell({"step": step, "epoch": epoch + 1, "held_out_loss": loss, "perplexity": perplexity(loss)})
            if step % settings.checkpoint_every == 0 or step == end or interrupted():
                keep_safe(step)
    return step


def steps_of_an_epoch(windows: int, settings: TrainingConfig) -> int:
    """ceil(batches / accumulation), the last batch of an epoch counted unless it is dropped."""
    full, rest = divmod(windows, settings.batch_size)
    count = full if full and settings.drop_last else full + (rest > 0)
    return -(-count // settings.accumulation)


def evaluate(learner: Learner, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    """-(1/M) sum over the M targets of the data set of log p(target | the tokens before it in its row);  M

    The mean is over tokens, weighted batch by batch, never a mean of means; in nats. Rows of similar length go together.
    """
    pad_id = dataset.tokenizer.pad_id
    total, tokens = 0.0, 0
    settings = {"drop_last": False, "by_length": True}
    for batch in batches(dataset, batch_size, np.random.default_rng(0), **settings):
        ids, targets = inputs_and_targets(batch)
        count = int((targets != pad_id).sum())
        total += count * learner.loss(ids, targets, pad_id)
        tokens += count
    return total / tokens, tokens


def perplexity(loss: float) -> float:
    """exp(loss), loss being the mean over tokens in nats; infinite beyond float64."""
    return math.exp(loss) if loss < 709.0 else math.inf


def _epoch(dataset: TextDataset, settings: TrainingConfig, epoch: int) -> list[Array]:
    rng = np.random.default_rng([settings.seed, ORDER, epoch])
    return batches(dataset, settings.batch_size, rng, drop_last=settings.drop_last, by_length=settings.by_length)


def _train_step(
    learner: Learner, some: list[Array], step: int, total: int, settings: TrainingConfig, pad_id: int
) -> Row:
    """One step on some batches: each weighs as much as its share of the counted targets."""
    pairs = [inputs_and_targets(batch) for batch in some]
    counts = [int((targets != pad_id).sum()) for _, targets in pairs]
    tokens = sum(counts)
    loss = 0.0
    for i, ((ids, targets), count) in enumerate(zip(pairs, counts, strict=True)):
        keep = None
        if isinstance(learner.config, GPTConfig) and learner.config.dropout > 0.0:
            keep = dropout_masks(learner.config, ids.shape, np.random.default_rng([settings.seed, MASKS, step, i]))
        loss += count / tokens * learner.gather(ids, targets, pad_id, keep, count / tokens)
    if not math.isfinite(loss):
        raise ValueError(f"loss: {loss} came at step {step + 1}, expected a finite number (a lower learning rate?)")
    end = total if settings.cosine else None
    lr = learning_rate(step, peak=settings.learning_rate, warmup_steps=settings.warmup_steps, total_steps=end)
    norm = learner.update(lr, settings.weight_decay, settings.clip_norm or None)
    row = {"loss": loss, "tokens": tokens, "learning_rate": lr}
    return row if norm is None else {**row, "norm": norm}


def _ignore(_: Any) -> None:
    """Nobody watches, nobody saves."""


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: the first time it is only noted, for a step is not to end half done."""
    noted = False

    def note(signum: int, frame: Any) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
        yield lambda: noted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
