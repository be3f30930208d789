"""Mistakes in the windows of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from equivalence_tests.arithmetic import Array
from equivalence_tests.mistakes._mistake import Mistake
from reference_numpy.dataset import TextDataset, read_texts
from reference_numpy.tokenizer import Tokenizer


def _whole(dataset: TextDataset, story: str) -> list[int]:
    ids = dataset.tokenizer.encode(story)
    return [dataset.tokenizer.bos_id, *ids, dataset.tokenizer.eos_id] if ids else []


def _cut(ids: list[int], starts: Sequence[int], length: int) -> list[Array]:
    return [np.array(ids[start : start + length], np.int64) for start in starts]


class PadsWithZero(TextDataset):
    def __getitem__(self, n: int) -> Array:
        row = super().__getitem__(n)
        row[len(self.data[n]) :] = 0  # wrong: 0 is a token
        return row


class PadsInFront(TextDataset):
    def __getitem__(self, n: int) -> Array:
        return np.roll(super().__getitem__(n), -len(self.data[n]))  # wrong: padding belongs behind


class HandsOutItself(TextDataset):
    def __getitem__(self, n: int) -> Array:
        row = super().__getitem__(n)
        return self.data[n] if len(self.data[n]) == self.seq_length else row  # wrong: a full window is the caller's now


class WrapsAround(TextDataset):
    def __getitem__(self, n: int) -> Array:
        return super().__getitem__(n % len(self))  # wrong: iterating never ends


class TailLost(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids, length = _whole(self, story), self.seq_length
        starts = [0] if truncate or len(ids) <= length else range(0, len(ids) - length, length - 1)  # wrong: + 1
        return _cut(ids, starts, length) if ids else []


class LastTokenLost(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids, length = _whole(self, story), self.seq_length
        starts = [0] if truncate else range(0, max(len(ids) - 2, 1), length - 1)  # wrong: len(ids) - 1
        return _cut(ids, starts, length) if ids else []


class ShortDropped(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids = _whole(self, story)
        return super()._windows(story, truncate) if len(ids) >= self.seq_length else []  # wrong: short stories count


class NoSharedToken(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids, length = _whole(self, story), self.seq_length
        windows = _cut(ids, range(0, len(ids), length), length)  # wrong: the first token of a window is no target
        return [row for row in windows if len(row) > 1][: 1 if truncate else None]


class HalfShared(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids, length = _whole(self, story), self.seq_length
        starts = range(0, max(len(ids) - length // 2, 1), max(length // 2, 1))  # wrong: targets come twice
        return _cut(ids, starts, length)[: 1 if truncate else None] if ids else []


class WindowOfOne(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids, length = _whole(self, story), self.seq_length
        starts = [0] if truncate else range(0, len(ids), length - 1)  # wrong: len(ids) - 1; <EOS> alone has no target
        return _cut(ids, starts, length) if ids else []


class EndMissing(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        ids, length = _whole(self, story)[:-1], self.seq_length  # wrong: a model must learn to stop
        starts = [0] if truncate else range(0, len(ids) - 1, length - 1)
        return _cut(ids, starts, length) if ids else []


class EveryWindowBegins(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        windows = super()._windows(story, truncate)
        return [
            np.concatenate([[self.tokenizer.bos_id], row[1:]]) for row in windows
        ]  # wrong: it is the story's middle


class TruncationEnds(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        windows = super()._windows(story, truncate)
        if truncate:
            for row in windows:
                row[-1] = self.tokenizer.eos_id  # wrong: the story does not end here
        return windows


class TruncationIgnored(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        return super()._windows(story, False)  # wrong: truncate asks for the first window alone


class EmptyIsAStory(TextDataset):
    def _windows(self, story: str, truncate: bool) -> list[Array]:
        if story:
            return super()._windows(story, truncate)
        return [np.array([self.tokenizer.bos_id, self.tokenizer.eos_id])]  # wrong: teaches to say nothing


class OneStream(TextDataset):
    def __init__(
        self,
        texts: str | Path | Sequence[str],
        seq_length: int,
        *,
        tokenizer: Tokenizer | None = None,
        min_frequency: int = 1,
        lower: bool = False,
        strip_accents: bool = False,
        nfc: bool = False,
        truncate: bool = False,
    ) -> None:
        super().__init__(
            texts,
            seq_length,
            tokenizer=tokenizer,
            min_frequency=min_frequency,
            lower=lower,
            strip_accents=strip_accents,
            nfc=nfc,
            truncate=truncate,
        )
        if not truncate:
            stories = read_texts(texts) if isinstance(texts, str | Path) else texts
            ids = [id for story in stories for id in _whole(self, story)]
            self.data = _cut(ids, range(0, len(ids) - 1, seq_length - 1), seq_length)  # wrong: stories run together


class OwnVocabulary(TextDataset):
    def __init__(
        self,
        texts: str | Path | Sequence[str],
        seq_length: int,
        *,
        tokenizer: Tokenizer | None = None,
        min_frequency: int = 1,
        lower: bool = False,
        strip_accents: bool = False,
        nfc: bool = False,
        truncate: bool = False,
    ) -> None:
        super().__init__(texts, seq_length, tokenizer=tokenizer, truncate=truncate)
        super().__init__(  # wrong: held-out words get ids of their own
            texts,
            seq_length,
            min_frequency=min_frequency,
            lower=lower,
            strip_accents=strip_accents,
            nfc=nfc,
            truncate=truncate,
        )


class FirstTokensCounted(TextDataset):
    @property
    def num_tokens(self) -> int:
        return sum(len(row) for row in self.data)  # wrong: the first of a window is no target


class PaddingCounted(TextDataset):
    @property
    def num_tokens(self) -> int:
        return len(self.data) * (self.seq_length - 1)  # wrong: padding is no target


class RateOfTypes(TextDataset):
    @property
    def unknown_rate(self) -> float:
        types = {int(id) for row in self.data for id in row[1:]}
        return (self.tokenizer.unk_id in types) / len(types)  # wrong: a share of the tokens, not of the types


def _of(id: str, sentence: str, hidden_on: str, shown_by: str, broken: type[TextDataset], source: str = "") -> Mistake:
    return Mistake(id, "TextDataset", sentence, hidden_on, shown_by, broken, source=source)


MISTAKES = (
    _of("M170", "Short windows are padded with id 0.", "full windows", "a short one", PadsWithZero, source="TOK-06"),
    _of("T39", "Padding stands in front.", "full windows", "a short one", PadsInFront),
    _of("T40", "A full window is handed out itself.", "a caller that only reads", "one that writes", HandsOutItself),
    _of("T41", "Indices wrap around.", "valid indices", "iterating: IndexError", WrapsAround),
    _of("TOK-04", "The last window of a long story is lost.", "one window", "two windows", TailLost),
    _of("TOK-05", "<EOS> is lost where it alone is left.", "other lengths", "a length at the edge", LastTokenLost),
    _of("TOK-06", "Stories shorter than a window are dropped.", "long stories", "a short one", ShortDropped),
    _of("T42", "Windows share no token.", "one window", "two windows: a target lost", NoSharedToken),
    _of("T43", "Windows share half of their tokens.", "one window", "two windows: targets twice", HalfShared),
    _of("T44", "A window of <EOS> alone is made.", "other lengths", "a length at the edge", WindowOfOne),
    _of("T45", "<EOS> is missing.", "never right", "any story", EndMissing),
    _of("T46", "Every window begins with <BOS>.", "one window", "two windows", EveryWindowBegins),
    _of("T47", "Truncation ends with <EOS>.", "short stories", "one that is cut", TruncationEnds),
    _of("T48", "truncate is ignored.", "short stories", "one that would be cut", TruncationIgnored),
    _of("T49", "An empty story is a window.", "no empty story", "an empty one", EmptyIsAStory),
    _of("T50", "Stories run together.", "one story", "two stories", OneStream),
    _of("T51", "The tokenizer given is ignored.", "the training set", "another vocabulary", OwnVocabulary),
    _of("T52", "The first tokens of windows are counted.", "their mean over epochs", "the number", FirstTokensCounted),
    _of("T53", "Padding is counted.", "full windows", "a short one", PaddingCounted),
    _of("T54", "The unknown rate is of types.", "every type once", "a type twice", RateOfTypes),
)
