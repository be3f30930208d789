"""Mistakes in the training loop and in the evaluation: broken parts, as somebody would have written them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.dataset import TextDataset, batches, inputs_and_targets
from reference_numpy.gpt import dropout_masks
from reference_numpy.optimizer import learning_rate
from reference_numpy.train import TrainingConfig, steps_of_an_epoch
from reference_numpy.train import evaluate as right_evaluate


def _losses(learner: Any, dataset: TextDataset, batch_size: int) -> list[tuple[float, int]]:
    """The loss and the count of every batch."""
    found = []
    for batch in batches(dataset, batch_size, np.random.default_rng(0), drop_last=False, by_length=True):
        ids, targets = inputs_and_targets(batch)
        pad_id = dataset.tokenizer.pad_id
        found.append((learner.loss(ids, targets, pad_id), int((targets != pad_id).sum())))
    return found


def mean_of_means(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    found = _losses(learner, dataset, batch_size)
    return sum(loss for loss, _ in found) / len(found), sum(count for _, count in found)  # wrong: not by tokens


def float32_total(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    total, tokens = np.float32(0.0), 0
    for loss, count in _losses(learner, dataset, batch_size):
        total += np.float32(loss * count)  # wrong: beyond 2^24 it stands still
        tokens += count
    return float(total) / tokens, tokens


def log_of_mean_perplexity(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    found = _losses(learner, dataset, batch_size)
    tokens = sum(count for _, count in found)
    return math.log(sum(count * math.exp(min(loss, 700.0)) for loss, count in found) / tokens), tokens  # wrong


def padding_counted(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    total, tokens = 0.0, 0
    for batch in batches(dataset, batch_size, np.random.default_rng(0), drop_last=False, by_length=True):
        ids, targets = inputs_and_targets(batch)
        total += targets.size * learner.loss(ids, targets, dataset.tokenizer.pad_id)  # wrong: with the padding
        tokens += targets.size
    return total / tokens, tokens


def last_batch_dropped(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    total, tokens = 0.0, 0
    for batch in batches(dataset, batch_size, np.random.default_rng(0), drop_last=True):  # wrong: stories are left out
        ids, targets = inputs_and_targets(batch)
        count = int((targets != dataset.tokenizer.pad_id).sum())
        total += count * learner.loss(ids, targets, dataset.tokenizer.pad_id)
        tokens += count
    return total / tokens, tokens


def evaluation_trains(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    for batch in batches(dataset, batch_size, np.random.default_rng(0), drop_last=False):
        ids, targets = inputs_and_targets(batch)
        learner.gather(ids, targets, dataset.tokenizer.pad_id, None, 1.0)  # wrong: leaves gradients behind
    return right_evaluate(learner, dataset, batch_size)


def evaluation_shuffles(learner: Any, dataset: TextDataset, batch_size: int) -> tuple[float, int]:
    np.random.shuffle([0, 1])  # noqa: NPY002  # wrong: the training that follows draws other numbers
    return right_evaluate(learner, dataset, batch_size)


def base_two(loss: float) -> float:
    return 2.0**loss if loss < 1000.0 else math.inf  # wrong: the loss is in nats


def overflows(loss: float) -> float:
    return math.exp(loss)  # wrong: OverflowError above 709


def per_character(loss: float) -> float:
    return math.exp(loss / 4.0)  # wrong: no longer per token


def loop(
    weights: Callable[[list[int]], list[float]] | None = None,
    order: Callable[[int, int], list[int]] = lambda seed, epoch: [seed, 1, epoch],
    masks: Callable[[int, int, int], list[int]] = lambda seed, step, i: [seed, 2, step, i],
    rate_step: Callable[[int], int] = lambda step: step,
    shift: int = 1,
    told_loss: Callable[[list[float], list[int]], float] | None = None,
    start: Callable[[int], int] = lambda step: step,
    early_save: bool = False,
    evaluation_moves: bool = False,
    checks: bool = True,
) -> Callable[..., int]:
    """A training loop with one of its parts replaced; with none, it is right."""

    def train_model(
        learner: Any,
        dataset: TextDataset,
        settings: TrainingConfig,
        *,
        held_out: TextDataset | None = None,
        step: int = 0,
        stop: int | None = None,
        watch: Callable[[Any], None] | None = None,
        save: Callable[[int], None] | None = None,
    ) -> int:
        step, pad_id, per_epoch = start(step), dataset.tokenizer.pad_id, steps_of_an_epoch(len(dataset), settings)
        total = settings.epochs * per_epoch
        end = total if stop is None else min(stop, total)
        if save and step == 0:
            save(0)
        drawn = 0
        while step < end:
            epoch, at = divmod(step, per_epoch)
            rng = np.random.default_rng(order(settings.seed, epoch))
            rows = batches(
                dataset, settings.batch_size, rng, drop_last=settings.drop_last, by_length=settings.by_length
            )
            some = rows[at * settings.accumulation : (at + 1) * settings.accumulation]
            pairs = [inputs_and_targets(batch) if shift == 1 else (batch[:, :-2], batch[:, 2:]) for batch in some]
            counts = [int((targets != pad_id).sum()) for _, targets in pairs]
            shares = [count / sum(counts) for count in counts] if weights is None else weights(counts)
            losses = []
            for i, ((ids, targets), share) in enumerate(zip(pairs, shares, strict=True)):
                keep = dropout_masks(
                    learner.config, ids.shape, np.random.default_rng(masks(settings.seed, step + drawn, i))
                )
                losses.append(learner.gather(ids, targets, pad_id, keep, share))
            mean = sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)
            loss = mean if told_loss is None else told_loss(losses, counts)
            if checks and not math.isfinite(mean):
                raise ValueError(f"loss: {mean} came")
            last = total if settings.cosine else None
            lr = learning_rate(
                rate_step(step), peak=settings.learning_rate, warmup_steps=settings.warmup_steps, total_steps=last
            )
            saving = (step + 1) % settings.checkpoint_every == 0 or step + 1 == end
            if save and saving and early_save:
                save(step + 1)  # wrong: the step is not taken yet
            learner.update(lr, settings.weight_decay, settings.clip_norm or None)
            step += 1
            if watch:
                watch({"step": step, "epoch": epoch + 1, "loss": loss, "tokens": sum(counts), "learning_rate": lr})
            if step % per_epoch == 0 and held_out is not None:
                drawn += int(evaluation_moves)
                held_loss, _ = right_evaluate(learner, held_out, settings.batch_size)
                if watch:
                    watch({"step": step, "epoch": epoch + 1, "held_out_loss": held_loss, "perplexity": 0.0})
            if save and saving and not early_save:
                save(step)
        return step

    return train_model


def _equal(counts: list[int]) -> list[float]:
    return [1.0 / len(counts) for _ in counts]


def _ones(counts: list[int]) -> list[float]:
    return [1.0 for _ in counts]


def _twice(counts: list[int]) -> list[float]:
    return [count / sum(counts) / len(counts) for count in counts]


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "M176",
        "evaluate",
        "The mean of the batches' means.",
        "batches with equally many targets",
        "batches of short and of long stories",
        mean_of_means,
    ),
    Mistake("M179", "evaluate", "The total in float32.", "short runs", "a total above 2^24", float32_total),
    Mistake(
        "ACC-05",
        "evaluate",
        "The mean of exp(loss), and its logarithm.",
        "batches with equal losses",
        "batches with unequal losses",
        log_of_mean_perplexity,
    ),
    Mistake("Q01", "evaluate", "Padding counts as tokens.", "rows of one length", "rows that differ", padding_counted),
    Mistake(
        "Q02",
        "evaluate",
        "The incomplete last batch is left out.",
        "a size that divides the stories",
        "one that does not",
        last_batch_dropped,
    ),
    Mistake(
        "Q03",
        "evaluate",
        "The evaluation leaves gradients for the next step.",
        "the value of the loss",
        "what the learner is asked for",
        evaluation_trains,
    ),
    Mistake(
        "GPU-08",
        "evaluate",
        "The evaluation consumes the global random state.",
        "the value of the loss",
        "the global state, before and after",
        evaluation_shuffles,
    ),
    Mistake("Q04", "perplexity", "2 to the power of a loss in nats.", "a loss of 0", "log 2", base_two),
    Mistake("Q05", "perplexity", "An overflow for a bad model.", "losses below 709", "10,000 nats", overflows),
    Mistake("Q06", "perplexity", "Per character of an average word.", "a loss of 0", "log 2", per_character),
    Mistake(
        "ACC-06",
        "train_model",
        "Every batch of a step weighs the same.",
        "batches with equally many targets, or one batch a step",
        "accumulation over short and long stories",
        loop(weights=_equal),
        source="ACC-03",
    ),
    Mistake(
        "ACC-02",
        "train_model",
        "Divided by the number of batches a second time.",
        "one batch a step",
        "two batches a step: half the gradient",
        loop(weights=_twice),
    ),
    Mistake(
        "Q07",
        "train_model",
        "The gradients of a step's batches are summed.",
        "one batch a step",
        "two batches a step: AdamW hides the factor, clipping does not",
        loop(weights=_ones),
    ),
    Mistake(
        "Q08",
        "train_model",
        "The loss that is told is the mean of the batches' means.",
        "batches with equally many targets",
        "accumulation over short and long stories",
        loop(told_loss=lambda losses, counts: sum(losses) / len(losses)),
    ),
    Mistake(
        "Q09",
        "train_model",
        "The loss that is told is that of the last batch.",
        "one batch a step",
        "two batches a step",
        loop(told_loss=lambda losses, counts: losses[-1]),
    ),
    Mistake(
        "Q10", "train_model", "Targets shifted twice.", "the loss, which falls all the same", "rows", loop(shift=2)
    ),
    Mistake(
        "Q11",
        "train_model",
        "One order for all epochs.",
        "one epoch",
        "the first rows of two epochs",
        loop(order=lambda seed, epoch: [seed, 1]),
    ),
    Mistake(
        "Q12",
        "train_model",
        "The order ignores the seed.",
        "one seed",
        "two seeds",
        loop(order=lambda seed, epoch: [1, epoch]),
    ),
    Mistake(
        "Q13",
        "train_model",
        "One mask for all steps.",
        "one step",
        "two steps",
        loop(masks=lambda seed, step, i: [seed, 2, i]),
    ),
    Mistake(
        "Q14",
        "train_model",
        "One mask for all batches of a step.",
        "one batch a step",
        "two batches a step",
        loop(masks=lambda seed, step, i: [seed, 2, step]),
    ),
    Mistake(
        "Q15",
        "train_model",
        "The schedule is a step behind.",
        "a constant rate",
        "a warm-up",
        loop(rate_step=lambda step: max(step - 1, 0)),
    ),
    Mistake(
        "Q16",
        "train_model",
        "The schedule begins anew when the training is taken up.",
        "a training in one go",
        "one in two parts",
        loop(start=lambda step: max(step - 1, 0)),
    ),
    Mistake(
        "Q17",
        "train_model",
        "A step is saved before it is taken.",
        "a training that is not interrupted",
        "the number of updates at every save",
        loop(early_save=True),
    ),
    Mistake(
        "Q18",
        "train_model",
        "The evaluation moves the stream of masks on.",
        "a training without held-out stories",
        "one with and one without",
        loop(evaluation_moves=True),
    ),
    Mistake(
        "Q19",
        "train_model",
        "A loss that is NaN is trained on.",
        "finite losses",
        "a learner whose loss is NaN",
        loop(checks=False),
    ),
)
