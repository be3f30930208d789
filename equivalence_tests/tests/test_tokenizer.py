"""The tokenizer: its laws and mistakes, its options, and what it refuses."""

import inspect
import re
import sys
import unicodedata
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equivalence_tests.mistakes.text import MISTAKES
from equivalence_tests.parts.text import PARTS
from reference_numpy.tokenizer import SPECIAL_TOKENS, Tokenizer

LAWS = PARTS["Tokenizer"]
LISTED = "M171 TOK-01 EMB-05"
OPTIONS = [
    dict(zip(("lower", "strip_accents", "nfc"), flags, strict=True)) for flags in product([False, True], repeat=3)
]
FRAGILE = "nN~\u0303\u0301\u0327ñÑéÉ\u0130\u0131\u017fßΣς \r\n\ufeff\u0345\u034f가\u1161"  # marks above all
ANY_TEXT = st.text(st.characters()) | st.text(st.sampled_from(FRAGILE))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law_holds(law):
    assert law(Tokenizer) == ""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.id)
def test_every_mistake_is_caught(mistake):
    assert any(law(mistake.forward) for law in LAWS), mistake.sentence


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_law_catches_a_mistake(law):
    assert any(law(mistake.forward) for mistake in MISTAKES)


def test_every_listed_mistake_is_coded_and_takes_what_the_tokenizer_takes():
    ids = [mistake.id for mistake in MISTAKES]
    assert set(LISTED.split()) <= set(ids)
    assert len(set(ids)) == len(ids)
    for mistake in MISTAKES:
        assert inspect.signature(mistake.forward) == inspect.signature(Tokenizer), mistake.id


@given(ANY_TEXT, st.sampled_from(OPTIONS))
@settings(max_examples=300, deadline=None)
def test_tokens_joined_are_the_prepared_text(text, options):
    tokenizer = Tokenizer([], **options)
    tokens = tokenizer.tokens(text)
    assert "".join(tokens) == tokenizer.prepare(text)
    assert all(tokens)


@given(ANY_TEXT, st.sampled_from(OPTIONS))
@settings(max_examples=300, deadline=None)
def test_preparing_twice_is_preparing_once(text, options):
    tokenizer = Tokenizer([], **options)
    assert tokenizer.prepare(tokenizer.prepare(text)) == tokenizer.prepare(text)


@given(st.lists(ANY_TEXT, min_size=1), st.sampled_from(OPTIONS))
@settings(max_examples=200, deadline=None)
def test_every_text_of_the_vocabulary_comes_back_prepared(texts, options):
    texts = [*texts, "a"]
    tokenizer = Tokenizer.from_texts(texts, **options)
    for text in texts:
        ids = tokenizer.encode(text)
        assert tokenizer.unk_id not in ids
        assert tokenizer.decode(np.array(ids, np.int64)) == tokenizer.decode_text(ids) == tokenizer.prepare(text)
        assert tokenizer.encode(tokenizer.decode(ids)) == ids


@given(ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_without_options_nothing_is_normalised(text):
    assert Tokenizer([]).prepare(text) == text


def test_every_character_is_in_exactly_one_token():
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert "".join(Tokenizer([]).tokens(everything)) == everything


def test_every_character_prepared_stays_as_it_is():
    """The characters that an option can change, each between two spaces, so that nothing meets."""
    changed = [c for c in map(chr, range(sys.maxunicode + 1)) if not c.lower() == unicodedata.normalize("NFD", c) == c]
    assert len(changed) > 13_000
    for options in OPTIONS:
        tokenizer = Tokenizer([], **options)
        everything = tokenizer.prepare(" ".join(changed))
        assert tokenizer.prepare(everything) == everything


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("áéíóúü ÁÉÍÓÚÜ", "aeiouu AEIOUU"),
        ("ñ Ñ n\u0303 N\u0303", "ñ Ñ ñ Ñ"),
        ("ñ\u0301 n\u0327\u0303 ń n\u0303\u0303", "ñ ñ n ñ"),
        ("ã õ a\u0303", "a o a"),
        ("ç ø ł ß æ", "c ø ł ß æ"),
        ("¿«Sí»—dijo…? ¡2º!", "¿«Si»—dijo…? ¡2º!"),
        ("한국 e\u0301\u0308", "한국 e"),
        ("\u0301\u0303", ""),
    ],
)
def test_marks_go_but_the_tilde_of_n(text, expected):
    for form in (text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)):
        assert Tokenizer([], strip_accents=True).prepare(form) == expected


@given(ANY_TEXT)
@settings(max_examples=200, deadline=None)
def test_no_n_with_tilde_is_lost_and_no_mark_is_left(text):
    found = Tokenizer([], strip_accents=True).prepare(text)
    composed = unicodedata.normalize("NFC", text)
    assert found.count("ñ") >= composed.count("ñ")
    assert found.count("Ñ") >= composed.count("Ñ")
    rest = unicodedata.normalize("NFD", re.sub("[ñÑ]", "", found))
    assert all(unicodedata.category(character) != "Mn" for character in rest)


def test_the_vocabulary_is_the_corpus_then_the_special_tokens():
    tokenizer = Tokenizer(("b", "a"))
    assert tokenizer.vocabulary == ["b", "a", *SPECIAL_TOKENS] == ["b", "a", "<BOS>", "<EOS>", "<UNK>", "<PAD>"]
    assert tokenizer.vocab_size == 6
    assert tokenizer.token_to_id == {"b": 0, "a": 1, "<BOS>": 2, "<EOS>": 3, "<UNK>": 4, "<PAD>": 5}


def test_the_special_ids_decode_to_their_names():
    tokenizer = Tokenizer(["a"])
    assert tokenizer.decode([1, 0, 3, 4, 2]) == "<BOS>a<UNK><PAD><EOS>"
    assert tokenizer.decode_text([1, 0, 3, 4, 2]) == "a"


def test_an_unknown_token_is_unk():
    """TOK-01, with its letters as tokens."""
    tokenizer = Tokenizer(["a", "b", "c", " "])
    assert tokenizer.decode(tokenizer.encode("a b d")) == "a b <UNK>"


def test_the_empty_text_has_no_tokens():
    tokenizer = Tokenizer(["a"])
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == tokenizer.decode_text([]) == ""


def test_ids_come_from_any_iterable_of_integers():
    import torch

    tokenizer = Tokenizer(["a", "b"])
    kinds = [[1, 0], (1, 0), iter([1, 0]), np.array([1, 0]), np.array([1, 0], np.uint8), [np.int32(1), 0]]
    for ids in [*kinds, torch.tensor([1, 0]), torch.tensor([1, 0], dtype=torch.int32)]:
        assert tokenizer.decode(ids) == "ba"


def test_a_vocabulary_does_not_depend_on_the_order_of_the_texts():
    texts = ["uno dos", "Tres, ñandú", "árbol 3"]
    assert Tokenizer.from_texts(texts).vocabulary == Tokenizer.from_texts(iter(texts[::-1])).vocabulary


def test_the_frequency_is_counted_after_the_options():
    assert Tokenizer.from_texts(["Él", "el"], min_frequency=2, lower=True, strip_accents=True).vocabulary[:-4] == ["el"]


def test_a_tokenizer_keeps_no_list_of_the_callers():
    corpus = ["a"]
    tokenizer = Tokenizer(corpus)
    corpus.append("b")
    assert tokenizer.vocab_size == 5


T: Any = Tokenizer  # of any type: these calls are wrong on purpose
A: Any = Tokenizer(["a"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: T(["a", "b", "a"]),
            ValueError,
            "corpus_vocabulary: 'a' came 2 times, expected every token once",
        ),
        (lambda: T(["a", "<UNK>"]), ValueError, "corpus_vocabulary: '<UNK>' came, expected no special token"),
        (
            lambda: T(["<PAD>", "<PAD>"]),
            ValueError,
            "corpus_vocabulary: '<PAD>' came, expected no special token",
        ),
        (lambda: T("abc"), TypeError, "corpus_vocabulary: a str came, expected a sequence of strings"),
        (lambda: T(None), TypeError, "corpus_vocabulary: a NoneType came, expected a sequence of strings"),
        (lambda: T(["a", 1]), TypeError, "corpus_vocabulary: a int came among the strings"),
        (lambda: T(["a", []]), TypeError, "corpus_vocabulary: a list came among the strings"),
        (lambda: T(["a"], nfc=1), TypeError, "nfc: a int came, expected True or False"),
        (lambda: T(["a"], lower="no"), TypeError, "lower: a str came, expected True or False"),
        (lambda: T.from_texts(["a"], strip_accents=None), TypeError, "strip_accents: a NoneType came"),
        (lambda: T.from_texts("abc"), TypeError, "texts: a str came, expected a sequence of strings"),
        (lambda: T.from_texts([b"a"]), TypeError, "texts: a bytes came among the strings"),
        (lambda: T.from_texts([]), ValueError, "texts: no token is there 1 times, expected at least one"),
        (lambda: T.from_texts(["a b"], min_frequency=2), ValueError, "texts: no token is there 2 times"),
        (
            lambda: T.from_texts(["a"], min_frequency=0),
            ValueError,
            "min_frequency: 0 came, expected at least 1",
        ),
        (lambda: T.from_texts(["a"], min_frequency=1.5), TypeError, "min_frequency: a float came"),
        (lambda: T.from_texts(["a"], min_frequency=True), TypeError, "min_frequency: a bool came"),
        (lambda: A.encode(b"a"), TypeError, "text: a bytes came, expected a string"),
        (lambda: A.prepare(None), TypeError, "text: a NoneType came, expected a string"),
        (lambda: A.decode([5]), ValueError, "ids: 5 came, expected integers from 0 to 4"),
        (lambda: A.decode([0, -1]), ValueError, "ids: -1 came, expected integers from 0 to 4"),
        (lambda: A.decode_text([10**30]), ValueError, f"ids: {10**30} came, expected integers from 0 to 4"),
        (lambda: A.decode([0.0]), TypeError, "ids: a float came, expected integers"),
        (lambda: A.decode(np.array([0.0])), TypeError, "ids: a float64 came, expected integers"),
        (lambda: A.decode(np.array([[0, 0]])), TypeError, "ids: a ndarray came, expected integers"),
        (lambda: A.decode(np.array([True])), TypeError, "ids: a bool came, expected integers"),
        (lambda: A.decode([True]), TypeError, "ids: a bool came, expected integers"),
        (lambda: A.decode("0"), TypeError, "ids: a str came, expected integers"),
        (lambda: A.decode(0), TypeError, "ids: a int came, expected a sequence of integers"),
        (lambda: A.decode(np.array(0)), TypeError, "ids: a ndarray came, expected a sequence of integers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(call, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)
