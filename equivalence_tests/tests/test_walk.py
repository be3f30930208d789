"""The walk: what it reads, what it counts, and that what it prints fits."""

import io
import math
import sys

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from equivalence_tests import walk as subject
from equivalence_tests.arithmetic import Array
from equivalence_tests.counting import Counted, count_products
from equivalence_tests.matrix_text import matrix_lines
from equivalence_tests.pictures import attention_picture, drawable_labels, scaling_picture
from equivalence_tests.scaling import ScalingRow
from equivalence_tests.walk import WalkResult, embed, loops, read_words, walk
from reference_numpy import attention, attention_stages, self_attention, self_attention_backward

SENTENCE = ["the", "fat", "cat", "sat", "on", "the", "mat"]
ODD = ["注意力机制", "مرحبا", "👩\u200d👩\u200d👧", "a\x1b[31mb", "[red]x[/red]", "$x$", "w" * 300]
ODD += ["\u0301", "\ud800", "\u200b"]
STAGES = ["X", "Q", "K", "V", "Omega", "scaled", "A", "C", "dV", "dA", "delta", "dS", "dOmega", "dQ", "dK", "dX"]
STAGES += ["dWq", "dWk", "dWv"]


def told(words: list[str], seed: int = 0, width: int = 80) -> tuple[WalkResult, str]:
    file = io.StringIO()
    result = walk(words, seed, Console(file=file, width=width))
    return result, file.getvalue()


def weights() -> list[Array]:
    n, d, c = 5, 6, 4
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape) for shape in ((n, d), (d, c), (d, c), (d, c))]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize(
    "words",
    [SENTENCE, ["solo"], [f"w{i % 97}" for i in range(512)], ODD],
    ids=["sentence", "one word", "512 words", "odd unicode"],
)
def test_the_walk_fits_the_width_and_names_every_stage(words, width):
    result, text = told(words, width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text
    for equation in ("Q = X Wq", "Omega = Q K^T", "C = A V", "dS = A (dA - delta)", "dWv = X^T dV"):
        assert equation in text
    assert (result["products"], result["transpositions"]) == (5, 1)
    n = len(words)
    assert result["dot_products"] == n * n + 2 * n * result["c"]
    assert result["A"].shape == (n, n)
    assert result["words"] == words


def test_matrices_are_never_wrapped():
    _, text = told(SENTENCE, width=40)
    assert sum(line.startswith("fat") for line in text.splitlines()) == 17  # X to C is 8 stages, dC to dX is 9


def test_small_numbers_are_shown_in_units_of_a_power_of_ten():
    assert matrix_lines(np.array([[0.00512, -0.0001]]), ["a"], 80) == [
        "(entries in units of 1e-3)",
        "a     5.120 -0.100",
    ]
    assert matrix_lines(np.array([[5e-324, 0.0]]), ["a"], 80)[1] == "a    0.000 0.000"


def test_what_is_not_shown_is_said():
    assert matrix_lines(np.ones((9, 10)), ["w"] * 9, 40)[-1] == "(rows 1-8 of 9, columns 1-6 of 10)"
    assert matrix_lines(np.ones((9, 2)), ["w"] * 9, 40)[-1] == "(rows 1-8 of 9)"
    assert len(matrix_lines(np.ones((8, 2)), ["w"] * 8, 40)) == 8


def test_the_walk_is_determined_by_the_seed():
    assert told(SENTENCE, seed=1)[1] == told(SENTENCE, seed=1)[1]
    assert told(SENTENCE, seed=1)[1] != told(SENTENCE, seed=2)[1]


def test_what_is_returned_is_what_is_shown():
    result, text = told(SENTENCE)
    assert f"the  {result['A'][0, 0]:.3f} {result['A'][0, 1]:.3f}" in text
    np.testing.assert_allclose(result["A"].sum(-1), 1.0, rtol=0, atol=7 * 2.0**-52)  # n terms, each at most 1


def test_a_console_that_knows_only_ascii_is_no_obstacle():
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as file:
        walk(ODD, 0, Console(file=file, width=60))
        file.flush()
        assert b"dWv = X^T dV" in raw.getvalue()


def test_without_torch_the_numpy_twin_walks_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    result, text = told(SENTENCE)
    assert "torch is not installed" in text
    assert not result["torch"]
    assert result["differences"] == {}
    assert (result["products"], result["transpositions"]) == (5, 1)


@pytest.mark.parametrize("words", [SENTENCE, ["solo"]], ids=["sentence", "one word"])
def test_both_twins_are_compared_at_every_stage(words):
    result, text = told(words, width=120)
    assert list(result["differences"]) == STAGES
    assert all(0.0 <= value < math.inf for value in result["differences"].values())
    assert "NumPy" in text
    assert "torch" in text


def test_a_wrong_twin_is_seen_from_the_wrong_stage_on(monkeypatch):
    right = attention_stages
    monkeypatch.setattr(subject, "attention_stages", lambda Q, K, V, dC: right(Q, K, V, dC, scale=0.25))
    found = told(SENTENCE)[0]["differences"]
    assert found["Omega"] < 1e3 < found["scaled"]
    assert found["dQ"] > 1e3


def test_the_loops_of_the_source_equal_the_one_product():
    X, Wq, Wk, _ = weights()
    Omega, taken = loops(X, Wq, Wk)
    bound = (6 + 6 + 4 + 3) * 2.0**-53 * (np.abs(X) @ np.abs(Wq)) @ (np.abs(X) @ np.abs(Wk)).T  # sums of 6, 6 and 4
    assert (np.abs(Omega - X @ Wq @ (X @ Wk).T) <= 2 * bound).all()
    assert taken == 5 * 5 + 2 * 5 * 4


def test_an_extra_product_or_transposition_is_counted():
    def wasteful(X, Wq, Wk, Wv):
        return attention(X @ Wq, X @ Wk, X @ Wv @ np.eye(4))

    def turned(X, Wq, Wk, Wv):
        return attention(np.swapaxes(Wq.T @ X.T, -1, -2), X @ Wk, X @ Wv)

    assert count_products(self_attention, *weights()) == (5, 1)
    assert count_products(wasteful, *weights()) == (6, 1)
    assert count_products(turned, *weights()) == (5, 4)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda X: X.T, (0, 1)),
        (lambda X: X.mT, (0, 1)),
        (lambda X: X.transpose(), (0, 1)),
        (lambda X: np.transpose(X), (0, 1)),
        (lambda X: X.swapaxes(0, 1), (0, 1)),
        (lambda X: np.where(X > 0, X, 0.0).T, (0, 1)),
        (lambda X: np.exp(X).sum(0) + X.max(), (0, 0)),
        (lambda X: np.matmul(np.eye(5), X), (1, 0)),
        (lambda X: np.dot(X, X[0]), (1, 0)),
        (lambda X: X.dot(X[0]), (1, 0)),
        (lambda X: np.einsum("nd,md->nm", X, X), (1, 0)),
    ],
)
def test_every_way_to_multiply_and_to_transpose_is_counted_once(function, expected):
    assert count_products(function, weights()[0]) == expected


def test_counting_changes_no_result():
    arrays = weights()
    C, cache = self_attention(*(array.view(Counted) for array in arrays))
    np.testing.assert_array_equal(C, self_attention(*arrays)[0], strict=False)
    gradients = self_attention_backward(np.ones((5, 4)), cache)
    for got, wanted in zip(
        gradients, self_attention_backward(np.ones((5, 4)), self_attention(*arrays)[1]), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def test_equal_words_share_a_token_row_and_differ_by_position():
    X = embed(["cat", "on", "cat"], seed=5, d=3)
    rng = np.random.default_rng(5)
    tokens, positions = rng.standard_normal((2, 3)), rng.standard_normal((3, 3))
    np.testing.assert_array_equal(X, tokens[[0, 1, 0]] + positions)
    assert X.dtype == np.float64


def test_words_are_split_at_white_space():
    assert read_words("  the fat\tcat,\n sat ") == ["the", "fat", "cat,", "sat"]
    assert len(read_words("a " * 512)) == 512


@pytest.mark.parametrize(("text", "message"), [("", "0 words"), (" \n", "0 words"), ("a " * 513, "513 words")])
def test_too_few_or_too_many_words_are_refused_with_the_reason(text, message):
    with pytest.raises(ValueError, match="--text") as caught:
        read_words(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("words", [["solo"], SENTENCE, ODD, [f"w{i}" for i in range(65)]])
def test_the_attention_picture_is_drawn_without_a_warning(words, tmp_path):
    A = np.random.default_rng(0).dirichlet(np.ones(len(words)), len(words))
    attention_picture(words, A, tmp_path / "attention.png")
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_refuses_weights_of_another_size(tmp_path):
    with pytest.raises(ValueError, match="2 words"):
        attention_picture(["a", "b"], np.eye(3), tmp_path / "attention.png")


def test_labels_hold_only_what_the_font_can_draw():
    assert drawable_labels(["naïve", "注意", "na注ve", "$x$"], [1, 2, 3, 4]) == ["naïve", "word 2", "na□ve", r"\$x\$"]
    assert len(drawable_labels(["w" * 99], [1])[0]) == 16


def test_the_scaling_picture_is_drawn(tmp_path):
    rows = [
        ScalingRow(
            c=c,
            scaled=on,
            entropy=0.5,
            median_norm=1e-2,
            mean_norm=1e-2,
            share_small=0.1,
            mean_dOmega=1e-3,
            mean_dQ=1e-3,
        )
        for c in (1, 16)
        for on in (True, False)
    ]
    scaling_picture(rows, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
