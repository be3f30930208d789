"""The loss of every single token of held-out stories, whatever the model; and where a model's loss lies."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.ngrams import KneserNey
from reference_numpy._check import Array
from reference_numpy.dataset import TextDataset
from reference_numpy.learner import Learner
from reference_numpy.softmax import log_softmax
from reference_numpy.tokenizer import Tokenizer

EARLY = 16  # tokens of a beginning, for the loss by position
ROWS = 16  # windows of a forward


def whole_stories(data: TextDataset) -> list[Array]:
    """The stories that the windows were cut from, <BOS> ... <EOS>: what an n-gram model reads, with the same targets."""
    stories: list[list[Array]] = []
    for row in data.data:
        if row[0] == data.tokenizer.bos_id:
            stories.append([row])
        else:
            stories[-1].append(row[1:])  # its first token is the last one of the window before
    return [np.concatenate(parts) for parts in stories]


def ngram_losses(model: KneserNey, data: TextDataset) -> list[Array]:
    """-log P of every token but <BOS>, (len(story) - 1,) for each story, in nats."""
    return [-model.log_probs(story) for story in whole_stories(data)]


def neural_losses(learner: Learner, data: TextDataset) -> list[Array]:
    """-log softmax(logits)[target], (len(story) - 1,) for each story, in nats; each window is read on its own

    The softmax is in float64, whatever the model's dtype. Padding stands at the end of a row, where nothing sees it.
    """
    by_window: list[Array] = [np.empty(0)] * len(data)
    order = np.argsort([len(row) for row in data.data], kind="stable")
    for some in (order[start : start + ROWS] for start in range(0, len(order), ROWS)):
        rows = [data.data[n] for n in some]
        ids = np.full((len(rows), max(len(row) for row in rows) - 1), data.tokenizer.pad_id, np.int64)
        for padded, row in zip(ids, rows, strict=True):
            padded[: len(row) - 1] = row[:-1]
        logits, _ = learner.step(ids, None)
        for n, row, own in zip(some, rows, logits, strict=True):
            log_P, _ = log_softmax(own[: len(row) - 1].astype(np.float64))
            by_window[n] = -np.take_along_axis(log_P, row[1:, None], -1)[:, 0]
    stories: list[list[Array]] = []
    for row, losses in zip(data.data, by_window, strict=True):
        if row[0] == data.tokenizer.bos_id:
            stories.append([])
        stories[-1].append(losses)
    return [np.concatenate(parts) for parts in stories]


def groups(stories: list[Array], tokenizer: Tokenizer, window: int) -> dict[str, Array]:
    """Which targets, over all stories on end, are white space and which are not, and where in their story they stand

    window: targets of a window of the neural models, which see nothing of the tokens before it.
    """
    white = np.array([token.isspace() for token in tokenizer.vocabulary])
    targets = np.concatenate([story[1:] for story in stories])
    position = np.concatenate([np.arange(len(story) - 1) for story in stories])
    early, cut = position < EARLY, (position >= window) & (position % window < EARLY)
    return {
        "white space": white[targets],
        "other tokens": ~white[targets],
        f"first {EARLY} of a story": early,
        f"first {EARLY} after a cut": cut & ~early,
        "further on": ~cut & ~early,
    }


def mean_losses(losses: list[Array], masks: dict[str, Array]) -> dict[str, float | None]:
    """The mean over the tokens of each group, in nats; None for a group without any."""
    every = np.concatenate(losses)
    return {name: float(every[mask].mean()) if mask.any() else None for name, mask in masks.items()}


def difference(losses: list[Array], base: list[Array]) -> tuple[float, float | None]:
    """Mean loss minus the base's, in nats per token, and the standard error of that over stories (None for one story)

    losses, base: for each story the losses of its tokens, by two models.

    sum d / sum n with d the difference over a story of n tokens: a ratio of two sums over stories, which are drawn
    independently, as the tokens of a story are not. Its error is the root of S / (S - 1) sum (d - mean n)^2, over sum n.
    """
    n = np.array([len(story) for story in losses])
    d = np.array([float((own - other).sum()) for own, other in zip(losses, base, strict=True)])
    mean, S = float(d.sum() / n.sum()), len(n)
    if S < 2:
        return mean, None
    return mean, math.sqrt(S / (S - 1) * float(((d - mean * n) ** 2).sum())) / float(n.sum())
