"""The tales: what the README of data/ says of them, and that no two are alike."""

import re
from collections import Counter
from pathlib import Path

import pytest

from reference_numpy.corpus import corpus_path
from reference_numpy.dataset import read_texts

TALES = read_texts(corpus_path())
README = Path(__file__).parents[2] / "data" / "README.md"
ALLOWED = re.compile(r"[A-Za-zÁÉÍÓÚÜÑáéíóúüñ0-9 .,;:¿?¡!—…]+")


def words(tale):
    return re.findall(r"\w+", tale.lower())


def fourgrams(tale):
    found = words(tale)
    return {tuple(found[i : i + 4]) for i in range(len(found) - 3)}


def types():
    return Counter(word for tale in TALES for word in words(tale))


def coverage(count):
    seen = types()
    return sum(times for _, times in seen.most_common(count)) / seen.total()


def with_sign(sign):
    return sum(sign in tale for tale in TALES)


def largest_jaccard():
    sets = [fourgrams(tale) for tale in TALES]
    where = {}
    for i, grams in enumerate(sets):
        for gram in grams:
            where.setdefault(gram, []).append(i)
    pairs = {(i, j) for places in where.values() for i in places for j in places if i < j}
    return max(len(sets[i] & sets[j]) / len(sets[i] | sets[j]) for i, j in pairs)


def test_there_are_enough_tales_and_words():
    assert len(TALES) >= 300
    assert types().total() >= 20_000
    assert 3_000 <= len(types()) <= 4_500


def test_no_two_tales_are_alike():
    assert 0.0 < largest_jaccard() < 0.05


def test_two_tales_that_share_a_sentence_would_be_seen():
    one, other = fourgrams("el gato negro duerme al sol y sueña"), fourgrams("el gato negro duerme al sol y ronca")
    assert len(one & other) / len(one | other) > 0.5


@pytest.mark.parametrize("tale", TALES, ids=range(1, len(TALES) + 1))
def test_a_tale_is_a_small_story_in_plain_signs(tale):
    assert ALLOWED.fullmatch(tale)
    assert "  " not in tale
    assert 55 <= len(words(tale)) <= 110
    assert tale[-1] in ".!?…"
    assert (tale.count("¿"), tale.count("¡")) == (tale.count("?"), tale.count("!"))


def test_there_are_dialogues_questions_exclamations_numbers_and_accents():
    for sign, least in (("—", 200), ("¿", 150), ("¡", 150), ("ñ", 150), ("á", 200)):
        assert with_sign(sign) >= least, sign
    assert sum(bool(re.search(r"\d", tale)) for tale in TALES) >= 80


def test_the_readme_of_the_data_tells_the_truth():
    page = README.read_text("utf-8")
    figures = {
        "tales": f"{len(TALES):,}",
        "words": f"{types().total():,}",
        "types": f"{len(types()):,}",
        "the 1,000 most frequent": f"{coverage(1000):.1%}",
        "the 2,000 most frequent": f"{coverage(2000):.1%}",
        "the 4,000 most frequent": f"{coverage(4000):.1%}",
        "largest likeness of two tales": f"{largest_jaccard():.3f}",
        "with dialogue": f"{with_sign('—')}",
        "with a question": f"{with_sign('¿')}",
        "with an exclamation": f"{with_sign('¡')}",
    }
    for name, figure in figures.items():
        assert f"| {name} | {figure} |" in page, (name, figure)
