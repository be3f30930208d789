"""Reading, splitting, windows and batches: their laws and mistakes, random cases, and what they refuse."""

import csv
import inspect
import io
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence_tests.mistakes import batches as batches_mistakes
from equivalence_tests.mistakes import dataset as dataset_mistakes
from equivalence_tests.mistakes import reading as reading_mistakes
from equivalence_tests.parts import batches as batches_laws
from equivalence_tests.parts import dataset as dataset_laws
from equivalence_tests.parts import reading as reading_laws
from reference_numpy import dataset as subject
from reference_numpy.dataset import TextDataset, batches, inputs_and_targets, read_texts, split_texts
from reference_numpy.tokenizer import Tokenizer

LAWS = {**reading_laws.PARTS, **dataset_laws.PARTS, **batches_laws.PARTS}
MISTAKES = (*reading_mistakes.MISTAKES, *dataset_mistakes.MISTAKES, *batches_mistakes.MISTAKES)
LISTED = "M170 TOK-03 TOK-04 TOK-05 TOK-06"
EACH_LAW = [pytest.param(n, law, id=f"{n}-{law.__name__}") for n, laws in LAWS.items() for law in laws]

# Stories as a file can hold them: no line end, no NUL, nothing that UTF-8 cannot say, not blank, no white space outside.
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n")
STORIES = st.lists(st.text(CHARACTERS).map(str.strip).filter(lambda s: s and not s.startswith("\ufeff")), min_size=1)


def story(tokens):
    return "".join(("a", " ")[n % 2] for n in range(tokens))


# Laws and mistakes


@pytest.mark.parametrize(("name", "law"), EACH_LAW)
def test_law_holds(name, law):
    assert law(getattr(subject, name)) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_every_mistake_is_caught(mistake):
    assert any(law(mistake.forward) for law in LAWS[mistake.op]), mistake.sentence


@pytest.mark.parametrize(("name", "law"), EACH_LAW)
def test_every_law_catches_a_mistake(name, law):
    assert any(law(mistake.forward) for mistake in MISTAKES if mistake.op == name)


def test_every_listed_mistake_is_coded_and_takes_what_the_right_part_takes():
    ids = [mistake.id for mistake in MISTAKES]
    assert set(LISTED.split()) <= set(ids)
    assert len(set(ids)) == len(ids)
    for mistake in MISTAKES:
        given, right = (inspect.signature(f).parameters for f in (mistake.forward, getattr(subject, mistake.op)))
        assert [(p.name, p.kind, p.default) for p in given.values()] == [
            (p.name, p.kind, p.default) for p in right.values()
        ], mistake.id


# Files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


@given(STORIES, st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\r\n \t\r\n"]), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_stories_written_as_lines_are_read_as_they_were(folder, stories, line_end, mark, ended):
    path = folder / "lines.txt"
    text = "\ufeff" * mark + line_end.join(stories) + line_end * ended
    path.write_bytes(text.encode())
    assert read_texts(path) == read_texts(str(path)) == stories


@given(STORIES, st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_stories_written_as_csv_are_read_as_they_were(folder, stories, line_end, quoting, mark):
    page = io.StringIO(newline="")
    writer = csv.writer(page, lineterminator=line_end, quoting=quoting)
    writer.writerows([("n", "text", "note"), *((n, each, "a,b\r\nc") for n, each in enumerate(stories))])
    path = folder / "records.csv"
    path.write_bytes(("\ufeff" * mark + page.getvalue()).encode())
    assert read_texts(path) == stories


def test_a_mark_and_a_line_end_of_windows_are_no_text(tmp_path):
    """TOK-03"""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb")
    assert read_texts(path) == ["a", "b"]
    assert Tokenizer.from_texts(read_texts(path)).vocabulary[:-4] == ["a", "b"]


def test_line_breaks_in_a_record_become_one_space(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\r\n"uno\r\n\r\ndos\ntres\rcuatro"\r\n')
    assert read_texts(path) == ["uno dos tres cuatro"]


def test_a_long_record_is_read_and_the_limit_of_the_csv_module_stays(tmp_path):
    path, limit = tmp_path / "a.csv", csv.field_size_limit()
    path.write_text("text\n" + "a " * limit + "\n")
    assert len(read_texts(path)[0]) == 2 * limit - 1
    assert csv.field_size_limit() == limit
    path.write_text('text\n"a\n')
    with pytest.raises(ValueError, match="unexpected end of data"):
        read_texts(path)
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "No such file or directory, expected a file that can be read"),
        ("latin.txt", "a\nniño".encode("latin-1"), "byte 0xf1 at offset 4 is not UTF-8, expected text in UTF-8"),
        ("cut.txt", "año".encode()[:2], "byte 0xc3 at offset 1 is not UTF-8"),
        ("wide.txt", "a".encode("utf-16"), "byte 0xff at offset 0 is not UTF-8"),
        ("wide.txt", "año".encode("utf-16-le"), "is not UTF-8"),
        ("binary.txt", b"\xef\xbb\xbfab\0c", "a NUL byte at offset 5 came, expected text in UTF-8"),
        ("empty.txt", b"", "0 usable lines came, expected at least one that is not blank"),
        ("mark.txt", b"\xef\xbb\xbf", "0 usable lines came"),
        ("blank.txt", " \n\r\n\t\r\u2028\n".encode(), "0 usable lines came"),
        ("empty.csv", b"", "0 usable lines came"),
        ("header.csv", b"id,text\n", "0 usable lines came"),
        ("blank.csv", b'text\n" "\n\n', "0 usable lines came"),
        ("story.csv", b"a long time ago\n", "columns ['a long time ago'] came, expected exactly one called 'text'"),
        ("semicolon.csv", b"id;text\n1;a\n", "columns ['id;text'] came, expected exactly one called 'text'"),
        ("twice.csv", b"text,text\na,b\n", "columns ['text', 'text'] came"),
        ("case.CSV", b"Text\na\n", "columns ['Text'] came"),
        ("open.csv", b'text\n"a\nb\n', "line 3: unexpected end of data, expected a CSV file"),
        ("after.csv", b'text\n"a"b\n', "line 2: ',' expected after '\"', expected a CSV file"),
        ("comma.csv", b"id,text\n1,a\n2,b, c\n", "record 2 has 3 fields, expected 2 as in the header"),
        ("short.csv", b"id,text\n1\n", "record 1 has 1 fields, expected 2 as in the header"),
        ("latin.csv", "text\nniño".encode("latin-1"), "byte 0xf1 at offset 7 is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for given_path in (path, str(path)):
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            read_texts(given_path)
        assert str(caught.value).startswith(f"'{path}': ")
        assert "\n" not in str(caught.value)


def test_paths_that_no_file_has_are_refused_in_one_line(tmp_path):
    paths = [tmp_path, str(tmp_path), "", "a\0b", "a" * 5000, "two\nlines.txt", tmp_path / "file.csv" / "below"]
    (tmp_path / "file.csv").write_text("text\na\n")
    for path in paths:
        with pytest.raises(ValueError, match="expected a") as caught:
            read_texts(path)
        assert str(caught.value).startswith(repr(os.fspath(path)))
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=re.escape(f"{str(tmp_path)!r}: a folder came, expected a text file")):
        read_texts(tmp_path)


def test_a_file_that_may_not_be_read_is_refused_with_the_reason(tmp_path, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(ValueError, match=r"^'.*a\.txt': Permission denied, expected a file that can be read$"):
        read_texts(tmp_path / "a.txt")


# The split


@given(st.lists(st.sampled_from("abcdefgh"), min_size=2), st.floats(0, 1, exclude_max=True), st.integers(0, 99))
@settings(max_examples=200, deadline=None)
def test_the_sides_are_the_texts_and_have_no_story_in_common(texts, share, seed):
    different = len(set(texts))
    if share > 0 and different < 2:
        with pytest.raises(ValueError, match="texts: 1 different stories came, expected at least 2"):
            split_texts(texts, share, np.random.default_rng(seed))
        return
    train, held = split_texts(texts, share, np.random.default_rng(seed))
    assert train == [text for text in texts if text not in held]
    assert held == [text for text in texts if text not in train]
    assert train
    assert bool(held) == (share > 0)
    assert share == 0 or abs(len(set(held)) - share * different) <= 1  # rounded, or the one that must stay


def test_holding_nothing_out_draws_nothing():
    rng = np.random.default_rng(0)
    assert split_texts(["a"], 0, rng) == (["a"], [])
    assert rng.random() == np.random.default_rng(0).random()


# Windows


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(2, 20))
@settings(max_examples=200, deadline=None)
def test_no_token_is_lost_and_none_is_a_target_twice(lengths, seq_length):
    stories = [story(tokens) for tokens in [*lengths, 3]]
    dataset = TextDataset(stories, seq_length)
    targets = [int(id) for row in dataset.data for id in row[1:]]
    wanted = [id for each in stories if each for id in [*dataset.tokenizer.encode(each), dataset.tokenizer.eos_id]]
    assert targets == wanted
    assert dataset.num_tokens == len(wanted)
    assert len(dataset) == sum(math.ceil((len(each) + 1) / (seq_length - 1)) for each in stories if each)
    for n, row in enumerate(dataset.data):
        assert row.dtype == np.int64
        assert dataset[n][: len(row)].tolist() == row.tolist()
        assert dataset[n][len(row) :].tolist() == [dataset.tokenizer.pad_id] * (seq_length - len(row))


@pytest.mark.parametrize(("tokens", "windows"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 3)])
def test_a_story_at_the_edge_of_a_window_has_no_window_too_many(tokens, windows):
    """TOK-04, TOK-05: with <BOS> and <EOS> these are 3 to 8 ids in windows of 4, which step by 3."""
    dataset = TextDataset([story(tokens)], 4)
    assert len(dataset) == windows
    assert dataset.data[-1][-1] == dataset.tokenizer.eos_id


def test_a_short_story_is_padded_with_a_symbol_of_its_own():
    """TOK-06, EMB-05: id 0 is a token."""
    dataset = TextDataset(["a"], 4)
    assert dataset.tokenizer.vocabulary[0] == "a"
    assert dataset[0].tolist() == [1, 0, 2, 4]


def test_the_shortest_window_holds_one_target():
    """The vocabulary is the space, a, b, <BOS>, <EOS>."""
    assert [row.tolist() for row in TextDataset(["a b"], 2).data] == [[3, 1], [1, 0], [0, 2], [2, 4]]


def test_a_data_set_of_a_path_is_that_of_its_stories(tmp_path):
    path = tmp_path / "cuentos.txt"
    path.write_bytes("\ufeffÉrase una vez.\r\n\r\nFin, niño.\r\n".encode())
    for source in (path, str(path)):
        dataset = TextDataset(source, 6, lower=True, strip_accents=True)
        expected = TextDataset(["Érase una vez.", "Fin, niño."], 6, lower=True, strip_accents=True)
        assert dataset.tokenizer.vocabulary == expected.tokenizer.vocabulary
        assert "niño" in dataset.tokenizer.vocabulary
        assert [row.tolist() for row in dataset.data] == [row.tolist() for row in expected.data]


def test_the_vocabulary_can_be_the_training_sets():
    train = TextDataset(["el gato", "el perro", "el gato"], 8, min_frequency=2)
    held = TextDataset(["el zorro"], 8, tokenizer=train.tokenizer)
    assert train.unknown_rate == 1 / 12
    assert held.unknown_rate == 1 / 4
    assert held.tokenizer.decode(held.data[0]) == "<BOS>el <UNK><EOS>"


def test_a_story_that_the_options_leave_empty_is_dropped():
    dataset = TextDataset(["\u0301", "a"], 4, strip_accents=True)
    assert len(dataset) == 1


def test_torchs_loader_takes_the_data_set():
    from torch.utils.data import DataLoader

    dataset = TextDataset(["a b c", "a"], 5)
    loaded = [row.tolist() for batch in DataLoader(dataset, batch_size=2) for row in batch]
    assert loaded == [row.tolist() for row in dataset]


def test_rows_count_from_both_ends():
    dataset = TextDataset(["a", "b c"], 8)
    assert dataset[-1].tolist() == dataset[1].tolist()
    with pytest.raises(IndexError, match="n: 2 came, expected an index of 2 windows"):
        dataset[2]


# Batches


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=25),
    st.integers(1, 9),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=300, deadline=None)
def test_an_epoch_is_the_data_set_in_another_order(lengths, size, drop_last, by_length, seed):
    dataset = TextDataset([story(tokens) for tokens in lengths], 6)
    epoch = batches(dataset, size, np.random.default_rng(seed), drop_last=drop_last, by_length=by_length)
    pad = dataset.tokenizer.pad_id
    rows = sorted(row[row != pad].tolist() for batch in epoch for row in batch)
    everything = sorted(row.tolist() for row in dataset.data)
    count = len(everything)
    kept = count // size * size if drop_last and count >= size else count
    assert len(rows) == kept
    if kept == count:
        assert rows == everything
    for batch in epoch:
        assert batch.dtype == np.int64
        assert (batch[:, -1] != pad).any()
        assert (np.diff((batch == pad).astype(int), axis=1) >= 0).all()
    assert [len(batch) for batch in epoch].count(size) >= len(epoch) - 1


@given(st.lists(st.integers(1, 18), min_size=9, max_size=40), st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_in_full_batches_by_length_never_pads_more(lengths, size, seed):
    """(A smaller batch can go either way: with rows of 3, 4 and 4 by twos it is best alone with the 3.)"""
    full = len(lengths) // size * size
    dataset = TextDataset([story(tokens) for tokens in lengths[:full]], 20)
    apart, together = (
        sum(batch.size for batch in batches(dataset, size, np.random.default_rng(seed), by_length=by))
        for by in (False, True)
    )
    assert together <= apart


def test_the_sources_719_tales_are_22_batches():
    dataset = TextDataset([story(n % 5 + 1) for n in range(719)], 256)
    epoch = batches(dataset, 32, np.random.default_rng(0))
    assert len(epoch) == 22
    assert all(len(batch) == 32 for batch in epoch)


def test_the_global_random_state_is_neither_read_nor_moved():
    dataset = TextDataset([story(n) for n in range(1, 20)], 8)
    epochs = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        epochs.append([batch.tolist() for batch in batches(dataset, 4, np.random.default_rng(3), by_length=True)])
        after = np.random.random()  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        assert after == np.random.random()  # noqa: NPY002
    assert epochs[0] == epochs[1]


def test_inputs_and_targets_belong_to_the_caller():
    batch = np.array([[7, 1, 8, 9]])
    ids, targets = inputs_and_targets(batch)
    ids[:] = 0
    assert targets.tolist() == [[1, 8, 9]]
    assert batch.tolist() == [[7, 1, 8, 9]]
    assert ids.flags["C_CONTIGUOUS"]
    assert targets.flags["C_CONTIGUOUS"]


RNG = np.random.default_rng(0)
SMALL: Any = TextDataset(["a b"], 4)
Data: Any = TextDataset  # of any type: these calls are wrong on purpose
read: Any = read_texts
split: Any = split_texts
epoch: Any = batches
pairs: Any = inputs_and_targets


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: read(3), TypeError, "path: a int came, expected a string or a Path"),
        (lambda: split(["a", "b"], 1, RNG), ValueError, "held_out: 1 came, expected a share of at least 0 and below 1"),
        (lambda: split(["a", "b"], -0.1, RNG), ValueError, "held_out: -0.1 came"),
        (lambda: split(["a", "b"], math.nan, RNG), ValueError, "held_out: nan came"),
        (lambda: split(["a", "b"], "0.1", RNG), TypeError, "held_out: a str came, expected a real number"),
        (lambda: split(["a", "b"], True, RNG), TypeError, "held_out: a bool came"),
        (lambda: split(["a", "b"], 0.1, 0), TypeError, "rng: a int came, expected a numpy.random.Generator"),
        (lambda: split("ab", 0.1, RNG), TypeError, "texts: a str came, expected a sequence of strings"),
        (lambda: split(["a"], 0.1, RNG), ValueError, "texts: 1 different stories came, expected at least 2"),
        (lambda: Data(["a"], 1), ValueError, "seq_length: 1 came, expected at least 2"),
        (lambda: Data(["a"], 4.0), TypeError, "seq_length: a float came, expected an integer"),
        (lambda: Data([], 4), ValueError, "texts: no token is there 1 times"),
        (lambda: Data(["", ""], 4), ValueError, "texts: no token is there 1 times"),
        (lambda: Data([""], 4, tokenizer=SMALL.tokenizer), ValueError, "texts: 1 without any token came"),
        (lambda: Data([1], 4), TypeError, "texts: a int came among the strings, expected strings alone"),
        (lambda: Data(7, 4), TypeError, "texts: a int came, expected a sequence of strings"),
        (lambda: Data("no such file", 4), ValueError, "'no such file': No such file or directory"),
        (lambda: Data(["a"], 4, tokenizer=["a"]), TypeError, "tokenizer: a list came, expected a Tokenizer or None"),
        (
            lambda: Data(["a"], 4, tokenizer=SMALL.tokenizer, lower=True),
            ValueError,
            "tokenizer: one came together with",
        ),
        (lambda: Data(["a"], 4, min_frequency=0), ValueError, "min_frequency: 0 came, expected at least 1"),
        (lambda: SMALL["a"], TypeError, "'str'"),
        (lambda: epoch(SMALL, 0, RNG), ValueError, "batch_size: 0 came, expected at least 1"),
        (lambda: epoch(SMALL, 2.0, RNG), TypeError, "batch_size: a float came, expected an integer"),
        (lambda: epoch(SMALL, 2, 0), TypeError, "rng: a int came, expected a numpy.random.Generator"),
        (lambda: pairs([[1, 2]]), TypeError, "batch: list came, expected a NumPy array of integers"),
        (lambda: pairs(np.ones((2, 3))), TypeError, "batch: float64 came, expected a NumPy array of integers"),
        (
            lambda: pairs(np.ones((2, 1), int)),
            ValueError,
            "batch: shape (2, 1) came, expected (B, T) with T at least 2",
        ),
        (lambda: pairs(np.ones(3, int)), ValueError, "batch: shape (3,) came"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(call, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)
