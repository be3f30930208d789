"""Mistakes in the batches and in their inputs and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.dataset import TextDataset, inputs_and_targets

Order = Callable[[TextDataset, int, np.random.Generator, bool, bool], Sequence[Any]]


def _order(dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool) -> Any:
    """The groups of indices, as they should be."""
    order = rng.permutation(len(dataset))
    if drop_last and len(order) >= size:
        order = order[: len(order) // size * size]
    if by_length:
        order = order[np.argsort(_lengths(dataset)[order], kind="stable")]
    groups = _grouped(order, size)
    return [groups[n] for n in rng.permutation(len(groups))] if by_length else groups


def _lengths(dataset: TextDataset) -> Array:
    return np.array([len(row) for row in dataset.data])


def _grouped(order: Array, size: int) -> list[Array]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _pad(dataset: TextDataset, rows: Sequence[Array]) -> Array:
    padded = np.full((len(rows), max(len(row) for row in rows)), dataset.tokenizer.pad_id)
    for n, row in enumerate(rows):
        padded[n, : len(row)] = row
    return padded


def batches_with(
    order: Order = _order, pad: Callable[[TextDataset, Sequence[Array]], Array] = _pad
) -> Callable[..., Any]:
    """Batches of the groups that `order` makes, padded by `pad`."""

    def broken(
        dataset: TextDataset,
        batch_size: int,
        rng: np.random.Generator,
        *,
        drop_last: bool = True,
        by_length: bool = False,
    ) -> list[Array]:
        groups = order(dataset, batch_size, rng, drop_last, by_length)
        return [pad(dataset, [dataset.data[n] for n in group]) for group in groups]

    return broken


def global_state(dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool) -> Any:
    rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002  # wrong: the order is anybody's to change
    return _order(dataset, size, rng, drop_last, by_length)


def one_order(dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool) -> Any:
    return _order(dataset, size, np.random.default_rng(0), drop_last, by_length)  # wrong: every epoch the same


def with_replacement(
    dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool
) -> Any:
    drawn = rng.integers(len(dataset), size=len(dataset))  # wrong: some windows twice, others never
    return [drawn[group] for group in _order(dataset, size, rng, drop_last, by_length)]


def the_last_dropped(
    dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool
) -> Any:
    kept = len(dataset) // size * size
    if not drop_last or kept == 0:
        return _order(dataset, size, rng, drop_last, by_length)
    order = rng.permutation(kept)  # wrong: the file's last windows never come
    return _grouped(order[np.argsort(_lengths(dataset)[order])] if by_length else order, size)


def the_longest_dropped(
    dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool
) -> Any:
    groups = _order(dataset, size, rng, False, by_length)
    if not drop_last or len(dataset) < size:
        return groups
    return [group for group in groups if len(group) == size]  # wrong: by length, the incomplete batch has the longest


def remainder_lost(dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool) -> Any:
    return _order(dataset, size, rng, drop_last or by_length, by_length)  # wrong: by_length is not drop_last


def drop_last_ignored(
    dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool
) -> Any:
    return _order(dataset, size, rng, False, by_length)  # wrong: drop_last


def none_for_few(dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool) -> Any:
    groups = _order(dataset, size, rng, drop_last, by_length)
    return (
        [group for group in groups if len(group) == size] if drop_last else groups
    )  # wrong: few windows train nothing


def short_first(dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool) -> Any:
    groups = _order(dataset, size, rng, drop_last, by_length)
    return (
        sorted(groups, key=lambda g: int(_lengths(dataset)[g].min())) if by_length else groups
    )  # wrong: long ones last


def by_length_ignored(
    dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool
) -> Any:
    return _order(dataset, size, rng, drop_last, False)  # wrong: by_length


def shuffled_in_place(
    dataset: TextDataset, size: int, rng: np.random.Generator, drop_last: bool, by_length: bool
) -> Any:
    rng.shuffle(dataset.data)  # wrong: the next epoch depends on how often this was called
    return _order(dataset, size, rng, drop_last, by_length)


def padded_in_front(dataset: TextDataset, rows: Sequence[Array]) -> Array:
    padded = np.full((len(rows), max(len(row) for row in rows)), dataset.tokenizer.pad_id)
    for n, row in enumerate(rows):
        padded[n, -len(row) :] = row  # wrong: positions of a row depend on its neighbours
    return padded


def padded_to_the_window(dataset: TextDataset, rows: Sequence[Array]) -> Array:
    padded = np.full((len(rows), dataset.seq_length + 1), dataset.tokenizer.pad_id)  # wrong: wider than any row
    padded[:, : max(len(row) for row in rows)] = _pad(dataset, rows)
    return padded


def padded_with_zero(dataset: TextDataset, rows: Sequence[Array]) -> Array:
    padded = _pad(dataset, rows)
    return np.where(padded == dataset.tokenizer.pad_id, 0, padded)  # wrong: 0 is a token


def padded_with_the_end(dataset: TextDataset, rows: Sequence[Array]) -> Array:
    padded = _pad(dataset, rows)
    return np.where(padded == dataset.tokenizer.pad_id, dataset.tokenizer.eos_id, padded)  # wrong: it would be a target


def cut_to_the_shortest(dataset: TextDataset, rows: Sequence[Array]) -> Array:
    return np.array([row[: min(len(row) for row in rows)] for row in rows])  # wrong: the longer ones lose their ends


# inputs_and_targets


def shifted_twice(batch: Array) -> tuple[Array, Array]:
    ids, targets = inputs_and_targets(batch)
    return ids[:, :-1].copy(), targets[:, 1:].copy()  # wrong: the token after the next


def not_shifted(batch: Array) -> tuple[Array, Array]:
    return batch[:, :-1].copy(), batch[:, :-1].copy()  # wrong: a token is its own target


def views(batch: Array) -> tuple[Array, Array]:
    return batch[:, :-1], batch[:, 1:]  # wrong: writing into the targets changes the inputs


def _batches(id: str, sentence: str, hidden_on: str, shown_by: str, broken: Callable[..., Any]) -> Mistake:
    return Mistake(id, "batches", sentence, hidden_on, shown_by, broken)


def _pairs(id: str, sentence: str, hidden_on: str, shown_by: str, broken: Any, source: str = "") -> Mistake:
    return Mistake(id, "inputs_and_targets", sentence, hidden_on, shown_by, broken, source=source)


MISTAKES = (
    _batches(
        "T55", "The order comes from the global state.", "one run", "two with one seed", batches_with(global_state)
    ),
    _batches("T56", "Every epoch has one order.", "one epoch", "two epochs", batches_with(one_order)),
    _batches("T57", "Windows are drawn with replacement.", "the mean", "one epoch", batches_with(with_replacement)),
    _batches("T58", "drop_last drops the same windows.", "full batches", "many epochs", batches_with(the_last_dropped)),
    _batches(
        "T59",
        "By length, drop_last drops the longest.",
        "random order",
        "many epochs by length",
        batches_with(the_longest_dropped),
    ),
    _batches("T60", "by_length loses the remainder.", "full batches", "drop_last=False", batches_with(remainder_lost)),
    _batches("T61", "drop_last is ignored.", "full batches", "a remainder", batches_with(drop_last_ignored)),
    _batches("T62", "Few windows make no batch.", "many windows", "fewer than a batch", batches_with(none_for_few)),
    _batches("T63", "By length, short batches come first.", "random order", "two epochs", batches_with(short_first)),
    _batches("T64", "by_length is ignored.", "equal lengths", "other lengths", batches_with(by_length_ignored)),
    _batches("T65", "The data set is shuffled in place.", "one epoch", "the data set", batches_with(shuffled_in_place)),
    _batches("T66", "Padding stands in front.", "equal lengths", "other lengths", batches_with(pad=padded_in_front)),
    _batches("T67", "Batches are wider than needed.", "the loss", "the shape", batches_with(pad=padded_to_the_window)),
    _batches("T68", "Rows are padded with id 0.", "equal lengths", "others", batches_with(pad=padded_with_zero)),
    _batches("T69", "Rows are padded with <EOS>.", "equal lengths", "others", batches_with(pad=padded_with_the_end)),
    _batches("T70", "Rows are cut to the shortest.", "equal lengths", "others", batches_with(pad=cut_to_the_shortest)),
    _pairs("T71", "Targets are shifted twice.", "a falling loss", "any value", shifted_twice, source="XEN-10"),
    _pairs("T72", "Targets are not shifted.", "a falling loss", "any value", not_shifted),
    _pairs("T73", "Inputs and targets share memory.", "a caller that only reads", "one that writes", views),
)
