"""Laws of the batches and of their inputs and targets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.parts._guard import told
from equivalence_tests.parts._part import Law
from equivalence_tests.parts.dataset import WORDS
from reference_numpy.dataset import TextDataset


def _numbered(count: int, length: int = 9) -> TextDataset:
    """Windows that all differ, of many lengths, the short ones repeated: 2 to `length` tokens."""
    rng = np.random.default_rng(count)
    stories = [" ".join([f"n{'i' * n}", *rng.choice(WORDS, rng.integers(0, 4))]) for n in range(1, count + 1)]
    dataset = TextDataset(stories, length)
    assert len(dataset) == count
    return dataset


def _windows(dataset: TextDataset, epoch: list[Array]) -> list[int]:
    """The places in the data set of all rows of all batches, their padding aside."""
    places = {tuple(row.tolist()): n for n, row in enumerate(dataset.data)}
    pad = dataset.tokenizer.pad_id
    return [places.get(tuple(row[row != pad].tolist()), -1) for batch in epoch for row in batch]


def every_window_is_in_the_epoch_once(part: Any) -> str:
    """drop_last = False: each once, and only the last batch may be smaller (by length: one of them)."""
    for count, size in ((11, 4), (12, 4), (3, 5), (7, 1), (5, 5)):
        dataset = _numbered(count)
        for by_length in (False, True):
            epoch = part(dataset, size, np.random.default_rng(0), drop_last=False, by_length=by_length)
            if sorted(_windows(dataset, epoch)) != list(range(count)):
                return f"{count} windows by {size}, by_length {by_length}: {_windows(dataset, epoch)}"
            sizes = [len(batch) for batch in epoch]
            if sorted(sizes)[1:] != [size] * (len(sizes) - 1):
                return f"{count} windows by {size}, by_length {by_length}: batches of {sizes}"
    return ""


def only_what_fills_no_batch_is_dropped(part: Any) -> str:
    """drop_last = True: full batches of different windows; fewer windows than a batch make one smaller batch."""
    for count, size in ((11, 4), (12, 4), (3, 5), (5, 5)):
        dataset = _numbered(count)
        for by_length in (False, True):
            epoch = part(dataset, size, np.random.default_rng(0), by_length=by_length)
            sizes, expected = [len(batch) for batch in epoch], [size] * (count // size) or [count]
            if sizes != expected:
                return f"{count} windows by {size}: batches of {sizes}, expected {expected}"
            found = _windows(dataset, epoch)
            if -1 in found or len(set(found)) != len(found):
                return f"{count} windows by {size}: {found}"
    return ""


def every_window_is_dropped_at_some_time(part: Any) -> str:
    """Over 100 epochs no window is always left out, and none never: it is not the last, nor the longest."""
    dataset = _numbered(11)
    for by_length in (False, True):
        rng = np.random.default_rng(1)
        seen = [set(_windows(dataset, part(dataset, 4, rng, by_length=by_length))) for _ in range(100)]
        kept = [sum(n in epoch for epoch in seen) for n in range(11)]
        if min(kept) == 0 or max(kept) == 100:  # chance of a right one: 11 (8/11)^100 < 1e-12
            return f"by_length {by_length}: in 100 epochs the windows came {kept} times"
    return ""


def the_order_comes_from_the_generator_alone(part: Any) -> str:
    """Equal states give equal epochs; the next epoch, or another seed, gives another one; the data set stays as it is."""
    dataset = _numbered(23)
    before = [row.tolist() for row in dataset.data]
    for by_length in (False, True):
        one, same, other = (np.random.default_rng(seed) for seed in (5, 5, 6))
        first, again, next_one, seeded = (
            [batch.tolist() for batch in part(dataset, 4, rng, by_length=by_length)] for rng in (one, same, one, other)
        )
        if first != again:
            return f"by_length {by_length}: one seed, two orders"
        if first in (next_one, seeded):
            return f"by_length {by_length}: every epoch has one order"
    return "" if [row.tolist() for row in dataset.data] == before else "the data set has changed"


def padding_is_at_the_end_and_no_more_than_needed(part: Any) -> str:
    """int64, as wide as its longest row; behind a row's <EOS> there is pad_id alone, and before it none."""
    dataset = _numbered(13)
    pad, eos = dataset.tokenizer.pad_id, dataset.tokenizer.eos_id
    for by_length in (False, True):
        for batch in part(dataset, 3, np.random.default_rng(2), drop_last=False, by_length=by_length):
            lengths = [row.tolist().index(eos) + 1 if eos in row else 0 for row in batch]
            if batch.dtype != np.int64 or batch.shape[1] != max(lengths):
                return f"{batch.dtype} of width {batch.shape[1]}, its longest row has {max(lengths)}"
            beyond = np.arange(batch.shape[1]) >= np.array(lengths)[:, None]
            if ((batch == pad) != beyond).any():
                return f"{batch.tolist()} is not padded behind <EOS> with {pad}"
    return ""


def similar_lengths_are_together_in_random_order(part: Any) -> str:
    """by_length: the batches' ranges of length meet at their ends at most, and the shortest is not always first."""
    dataset = _numbered(40)
    pad, rng = dataset.tokenizer.pad_id, np.random.default_rng(3)
    firsts = []
    for _ in range(40):
        epoch = part(dataset, 5, rng, by_length=True)
        ranges = [(batch != pad).sum(1) for batch in epoch]
        ordered = sorted((lengths.min(), lengths.max()) for lengths in ranges)
        if any(a[1] > b[0] for a, b in pairwise(ordered)):
            return f"batches with rows of {[(int(a), int(b)) for a, b in ordered]} tokens"
        firsts.append(int(ranges[0].min()))
    return "" if len(set(firsts)) > 1 else "the batches come in the order of their lengths"


def the_target_is_the_next_token(part: Any) -> str:
    """ids and targets of a batch, by value, in memory of their own."""
    batch = np.array([[5, 6, 7, 8], [5, 1, 8, 9]])
    ids, targets = part(batch)
    if ids.tolist() != [[5, 6, 7], [5, 1, 8]] or targets.tolist() != [[6, 7, 8], [1, 8, 9]]:
        return f"ids {ids.tolist()}, targets {targets.tolist()}"
    shared = any(np.shares_memory(a, b) for a, b in ((ids, batch), (targets, batch), (ids, targets)))
    return "they share memory" if shared else ""


PARTS: dict[str, tuple[Law, ...]] = {
    "batches": told(
        every_window_is_in_the_epoch_once,
        only_what_fills_no_batch_is_dropped,
        every_window_is_dropped_at_some_time,
        the_order_comes_from_the_generator_alone,
        padding_is_at_the_end_and_no_more_than_needed,
        similar_lengths_are_together_in_random_order,
    ),
    "inputs_and_targets": told(the_target_is_the_next_token),
}
