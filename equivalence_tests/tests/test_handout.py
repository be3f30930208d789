"""The paper-sized example and its handout: the numbers are the reference's, the boxes and the key line up."""

import math
import re
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

from equivalence_tests.dojo import paper
from equivalence_tests.dojo.handout import LANGUAGES, handout
from reference_numpy import attention_stages, self_attention, self_attention_backward

STEPS = (*paper.FORWARD, *paper.BACKWARD)
HALF_A_DIGIT = 0.5 * 10.0**-paper.DECIMALS


class Page(HTMLParser):
    """The matrices of a page, each a list of rows of texts, by name; where one is filled in already; all other text."""

    def __init__(self, html):
        super().__init__()
        self.matrices, self.kinds, self.words, self.tags = {}, {}, [], []
        self._cells = None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag == "table":
            name = attributes["data-matrix"]
            assert name not in self.matrices
            self.matrices[name], self.kinds[name] = [], []
        elif tag == "tr":
            name = list(self.matrices)[-1]
            self.matrices[name].append([])
            self.kinds[name].append([])
        elif tag == "td":
            self._cells = self.matrices[list(self.matrices)[-1]][-1]
            self._cells.append("")
            self.kinds[list(self.matrices)[-1]][-1].append(attributes["class"])

    def handle_endtag(self, tag):
        if tag == "td":
            self._cells = None

    def handle_data(self, data):
        if self._cells is not None:
            self._cells[-1] += data
        else:
            self.words.append(data)


def value(text):
    """What is written in a box, as a number."""
    text = text.replace(paper.MINUS, "-")
    if text.endswith("/√2"):
        return int(text[:-3]) / math.sqrt(2)
    return float(Fraction(text))


def reference():
    """Every matrix straight from the reference, with no help from the page's own code."""
    X, Wq, Wk, Wv, dC = (paper.GIVEN[name] for name in ("X", "Wq", "Wk", "Wv", "dC"))
    C, cache = self_attention(X, Wq, Wk, Wv)
    stages = attention_stages(X @ Wq, X @ Wk, X @ Wv, dC)
    gradients = dict(zip(("dX", "dWq", "dWk", "dWv"), self_attention_backward(dC, cache), strict=True))
    E = np.exp(stages.scaled - stages.scaled.max(-1, keepdims=True))
    return {"Q": X @ Wq, "K": X @ Wk, "V": X @ Wv, "E": E, "C": C, **stages._asdict(), **gradients, **paper.GIVEN}


@pytest.fixture(scope="module", params=LANGUAGES)
def pages(request):
    """Boxes and key, as pages and as text."""
    blank, key = handout(request.param), handout(request.param, key=True)
    return Page(blank), Page(key), blank, key


def test_every_number_of_the_key_is_the_reference_s(pages):
    _, key, *_ = pages
    want = reference()
    assert list(key.matrices) == [*paper.GIVEN, *(step.name for step in STEPS)]
    for name, rows in key.matrices.items():
        got = np.array([[value(text) for text in row] for row in rows])
        assert got.shape == want[name].shape
        exact = name in paper.EXACT
        allowed = 0.0 if exact else np.finfo(float).eps * 4 if name == "scaled" else HALF_A_DIGIT * (1 + 1e-9)
        assert (np.abs(got - want[name]) <= allowed).all(), name


def test_the_boxes_and_the_key_line_up(pages):
    blank, key, *_ = pages
    assert list(blank.matrices) == list(key.matrices)
    assert blank.kinds == key.kinds
    for name, rows in key.matrices.items():
        for filled, empty, kinds in zip(rows, blank.matrices[name], blank.kinds[name], strict=True):
            assert empty == [text if kind == "shown" else "" for text, kind in zip(filled, kinds, strict=True)]
            assert all(filled)


def test_one_entry_of_each_step_is_shown_and_it_is_the_one_that_is_worked_out(pages):
    blank, *_ = pages
    for step in STEPS:
        shown = [
            (i, j) for i, row in enumerate(blank.kinds[step.name]) for j, kind in enumerate(row) if kind == "shown"
        ]
        assert shown == [step.place]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_the_arithmetic_that_is_shown_gives_the_entry_that_is_shown(step):
    """Evaluated as it stands, with its rounded numbers, it is as near as somebody with a pencil gets."""
    matrices = paper.numbers()
    text = paper.worked(step, matrices)
    for sign, meaning in ((paper.MINUS, "-"), ("·", "*"), ("√2", "math.sqrt(2)"), ("exp", "math.exp")):
        text = text.replace(sign, meaning)
    assert re.fullmatch(r"[-+*/(). 0-9]*", text.replace("math.sqrt", "").replace("math.exp", ""))
    got = eval(text, {"math": math})
    largest = max(np.abs(matrix).max() for matrix in matrices.values())
    exact = step.name in paper.EXACT or step.name in ("scaled", "E")
    # Both factors of each product may be off by half a digit, and so may a number that is added or divided.
    allowed = 1e-15 if exact else (2 * text.count("*") * largest + 1) * HALF_A_DIGIT
    assert abs(got - matrices[step.name][step.place]) <= allowed


def test_what_must_add_up_adds_up(pages):
    *_, text = pages
    sums = [tuple(map(value, found.split(", "))) for found in re.findall(r"<b>(.*?)</b>", text)]
    want = reference()
    assert sums[:3] == [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (0.0, 0.0)]
    assert sums[3] == tuple(want["dC"].sum(0))
    for pair, names in zip(sums[4:], (("Q", "K"), ("V", "C")), strict=True):
        assert pair[0] == pair[1]
        assert all(abs(pair[0] - (want[f"d{name}"] * want[name]).sum()) <= HALF_A_DIGIT * (1 + 1e-9) for name in names)


def test_the_last_digit_is_said_as_it_comes_out_by_hand(pages):
    *_, text = pages
    exact, rounded = reference(), paper.by_hand()
    apart = max(float(np.abs(exact[step.name].round(4) - rounded[step.name]).max()) for step in STEPS)
    assert 1 <= paper.last_digit() < 10
    assert abs(apart * 10**4 - paper.last_digit()) < 0.5
    assert re.search(rf"(up to|hasta en) {paper.last_digit()}\.", text)


def test_the_arithmetic_is_pleasant():
    want = reference()
    assert set((want["Omega"] - want["Omega"].max(-1, keepdims=True)).ravel()) == {0.0, -1.0, -2.0}
    assert all(np.abs(want[name]).max() <= 3.0 for name in paper.EXACT)
    assert not any(np.array_equal(want["dC"], np.full_like(want["dC"], number)) for number in (0.0, 1.0))
    assert all(want[name].any() for name in want)


def test_the_page_loads_nothing(pages):
    blank, key, *texts = pages
    for page, text in zip((blank, key), texts, strict=True):
        assert "://" not in text
        assert "url(" not in text
        assert "@import" not in text
        assert not any({"src", "href"} & attributes.keys() for _, attributes in page.tags)
        assert not {"script", "link", "img"} & {tag for tag, _ in page.tags}


def test_both_languages_have_the_same_numbers_and_other_words():
    english, spanish = (Page(handout(language, key=True)) for language in ("en", "es"))
    assert english.matrices == spanish.matrices
    assert [
        dict(attributes)["lang"] for page in (english, spanish) for tag, attributes in page.tags if tag == "html"
    ] == ["en", "es"]
    prose = [
        {word.strip() for word in page.words if re.search(r"[a-z]{3} ", word) and "{" not in word}
        for page in (english, spanish)
    ]
    assert not prose[0] & prose[1]
    assert min(map(len, prose)) > 25
    assert not any("{" in word for page in (english, spanish) for word in page.words if "@page" not in word)


def test_a_language_that_it_does_not_speak_is_an_error():
    with pytest.raises(ValueError, match=r"language is 'fr', expected en or es"):
        handout("fr")
