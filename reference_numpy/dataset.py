"""From stories to batches of ids: the file, the split, the windows, the order."""

from __future__ import annotations

import csv
import io
import os
import re
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from operator import index
from pathlib import Path

import numpy as np

from reference_numpy import _arguments
from reference_numpy._check import Array
from reference_numpy.tokenizer import Tokenizer

_LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines would also cut at form feeds, U+0085 and U+2028


def read_texts(path: str | Path) -> list[str]:
    """The stories of a UTF-8 file, one a line, stripped; empty lines are dropped

    path: text; or, if its suffix is .csv, comma-separated records under a header, whose column `text` holds one story a
    record (a run of line breaks inside it becomes one space).

    A BOM is dropped; LF, CR LF and CR end a line, and nothing else does. The Unicode form stays as it is: normalising
    is the tokenizer's, which sees prompts as well.
    Raises ValueError, in one line that names the path, for a file that cannot be read, is no UTF-8 text or holds no
    story, and for a CSV without exactly one column `text`, with broken quoting or with a record of another length.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: a {type(path).__name__} came, expected a string or a Path")
    text = _decoded(path)
    lines = _records(path, text) if Path(path).suffix.lower() == ".csv" else _LINE_END.split(text)
    stories = [line.strip() for line in lines if line.strip()]
    if not stories:
        raise ValueError(f"{_named(path)}: 0 usable lines came, expected at least one that is not blank")
    return stories


def split_texts(texts: Sequence[str], held_out: float, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """(train, held): a random share held_out of the different stories is held out, the others are for training

    texts: the stories; held_out: in [0, 1), of the number of different stories, rounded, but at least one on each side;
    0 holds nothing out and draws nothing.

    Both sides keep the order of texts. A story that is there twice is on one side with all its copies: otherwise the
    held-out ones would have been trained on.
    Raises ValueError for a share outside [0, 1) or fewer than two different stories to split.
    """
    stories = _arguments.strings("texts", texts)
    if isinstance(held_out, bool) or not isinstance(held_out, Real):
        raise TypeError(f"held_out: a {type(held_out).__name__} came, expected a real number")
    if not 0.0 <= held_out < 1.0:
        raise ValueError(f"held_out: {held_out} came, expected a share of at least 0 and below 1")
    _arguments.generator("rng", rng)
    if held_out == 0.0:
        return stories, []
    different = list(dict.fromkeys(stories))
    if len(different) < 2:
        raise ValueError(f"texts: {len(different)} different stories came, expected at least 2 to hold some out")
    count = min(max(round(held_out * len(different)), 1), len(different) - 1)
    held = {different[n] for n in rng.permutation(len(different))[:count]}
    return [story for story in stories if story not in held], [story for story in stories if story in held]


class TextDataset:
    """data[i] = a window of <BOS> story <EOS>, at most seq_length tokens; every token but <BOS> is a target once

    texts: stories, or the path of a file of them (read_texts); data: list of 1-D int64 arrays of 2 to seq_length tokens;
    dataset[i]: int64 (seq_length,), padded at the end with pad_id.

    Windows of one story share one token: the last target of a window is the first input of the next. truncate = True
    keeps the first window alone, which then ends without <EOS>: the source's rule. tokenizer = None builds one from
    these texts with the options given; a held-out set is given the tokenizer of its training set. A story without any
    token is dropped. Source 2.
    Raises ValueError for seq_length below 2, options beside a tokenizer, or texts without any token.
    """

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
        self.seq_length = _arguments.integer("seq_length", seq_length, 2)
        stories = read_texts(texts) if isinstance(texts, str | os.PathLike) else _arguments.strings("texts", texts)
        if tokenizer is None:
            tokenizer = Tokenizer.from_texts(
                stories, min_frequency=min_frequency, lower=lower, strip_accents=strip_accents, nfc=nfc
            )
        elif not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"tokenizer: a {type(tokenizer).__name__} came, expected a Tokenizer or None")
        elif (min_frequency, lower, strip_accents, nfc) != (1, False, False, False):
            raise ValueError("tokenizer: one came together with options, expected either: a tokenizer has its own")
        self.tokenizer = tokenizer
        self.data: list[Array] = [window for story in stories for window in self._windows(story, truncate)]
        if not self.data:
            raise ValueError(f"texts: {len(stories)} without any token came, expected at least one story")

    @property
    def num_tokens(self) -> int:
        """The number of targets in all windows: every token but the first of each."""
        return sum(len(row) - 1 for row in self.data)

    @property
    def unknown_rate(self) -> float:
        """The share of the targets that are <UNK>."""
        unknown = sum(int((row[1:] == self.tokenizer.unk_id).sum()) for row in self.data)
        return unknown / self.num_tokens

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, n: int) -> Array:
        if not -len(self.data) <= index(n) < len(self.data):
            raise IndexError(f"n: {n} came, expected an index of {len(self.data)} windows")
        padded: Array = _padded([self.data[n]], self.seq_length, self.tokenizer.pad_id)[0]
        return padded

    def _windows(self, story: str, truncate: bool) -> list[Array]:
        """<BOS> story <EOS> in windows of at most seq_length ids, each beginning with the last id of the one before."""
        ids = self.tokenizer.encode(story)
        if not ids:
            return []
        ids = [self.tokenizer.bos_id, *ids, self.tokenizer.eos_id]
        starts = [0] if truncate else range(0, len(ids) - 1, self.seq_length - 1)
        return [np.array(ids[start : start + self.seq_length], np.int64) for start in starts]


def batches(
    dataset: TextDataset,
    batch_size: int,
    rng: np.random.Generator,
    *,
    drop_last: bool = True,
    by_length: bool = False,
) -> list[Array]:
    """One epoch: every window of the data set once, in batches, in an order that comes from rng alone

    Each batch is int64 (B, T), T the longest of its rows; shorter rows are padded at their end with pad_id.

    drop_last leaves out as many windows as do not fill a batch, drawn anew each time; fewer windows than batch_size make
    one smaller batch rather than none. by_length puts rows of similar length together (less padding) and the batches in
    random order. The same state of rng gives the same batches, whichever twin trains on them.
    Raises ValueError for batch_size below 1.
    """
    size = _arguments.integer("batch_size", batch_size, 1)
    _arguments.generator("rng", rng)
    order = rng.permutation(len(dataset))
    if drop_last and len(order) >= size:
        order = order[: len(order) // size * size]
    if by_length:
        lengths = np.array([len(row) for row in dataset.data])
        order = order[np.argsort(lengths[order], kind="stable")]  # equal lengths stay in random order
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    if by_length:
        groups = [groups[n] for n in rng.permutation(len(groups))]
    rows = [[dataset.data[n] for n in group] for group in groups]
    return [_padded(some, max(len(row) for row in some), dataset.tokenizer.pad_id) for some in rows]


def inputs_and_targets(batch: Array) -> tuple[Array, Array]:
    """ids, targets = batch[:, :-1], batch[:, 1:], as copies: the target of a token is the one that follows it

    batch: (B, T) of integers, T at least 2; ids, targets: (B, T - 1). This is the one place that shifts.
    """
    if not isinstance(batch, np.ndarray) or batch.dtype.kind not in "iu":
        kind = batch.dtype if isinstance(batch, np.ndarray) else type(batch).__name__
        raise TypeError(f"batch: {kind} came, expected a NumPy array of integers")
    if batch.ndim != 2 or batch.shape[1] < 2:
        raise ValueError(f"batch: shape {batch.shape} came, expected (B, T) with T at least 2")
    return batch[:, :-1].copy(), batch[:, 1:].copy()


def _padded(rows: Sequence[Array], length: int, pad_id: int) -> Array:
    padded = np.full((len(rows), length), pad_id, np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded


def _decoded(path: str | os.PathLike[str]) -> str:
    """The file's text without a BOM, its line ends as they are."""
    if os.path.isdir(path):
        raise ValueError(f"{_named(path)}: a folder came, expected a text file")
    try:
        content = Path(path).read_bytes()
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise ValueError(f"{_named(path)}: {where} is not UTF-8, expected text in UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a path that no file can have
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{_named(path)}: {reason}, expected a file that can be read") from None
    if "\0" in text:
        raise ValueError(f"{_named(path)}: a NUL byte at offset {content.index(0)} came, expected text in UTF-8")
    return text.removeprefix("\ufeff")


def _records(path: str | os.PathLike[str], text: str) -> list[str]:
    """The fields under `text`. A record of another length is refused: a comma without quotes would cut a story short."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        with _fields_up_to(len(text)):
            header, *records = [record for record in reader if record] or [[]]
    except csv.Error as error:
        raise ValueError(f"{_named(path)}: line {reader.line_num}: {error}, expected a CSV file") from None
    if not header:
        return []
    if header.count("text") != 1:
        raise ValueError(f"{_named(path)}: columns {reprlib.repr(header)} came, expected exactly one called 'text'")
    for number, record in enumerate(records, 1):
        if len(record) != len(header):
            fields = f"{len(record)} fields, expected {len(header)} as in the header"
            raise ValueError(f"{_named(path)}: record {number} has {fields} (a comma in a story needs quotes)")
    column = header.index("text")
    return [re.sub(r"[\r\n]+", " ", record[column]) for record in records]


@contextmanager
def _fields_up_to(length: int) -> Iterator[None]:
    """The csv module's limit is global and too low for a long story: raised for a moment, and put back."""
    before = csv.field_size_limit(max(length, 131_072))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _named(path: str | os.PathLike[str]) -> str:
    """Quoted: a path may hold a line break."""
    return repr(os.fspath(path))
