"""A failing case made smaller: what is left still fails, is a case of its op, and no entry of it can be spared."""

import numpy as np
import pytest

from equivalence_tests.cases import Case
from equivalence_tests.cutting import cut
from equivalence_tests.dojo.folder import kata_named
from equivalence_tests.dojo.matrix import judged_text
from equivalence_tests.dojo.sources import source_of
from equivalence_tests.mistakes import quiet


def case(n=5, m=4, lead=(3,)):
    rng = np.random.default_rng(0)
    operands = {name: rng.standard_normal((*lead, rows, 2)) for name, rows in (("Q", n), ("K", m), ("V", m))}
    options = {"mask": rng.random((m,)) < 0.9, "bias": rng.standard_normal((1, m)), "causal": True}
    return Case(operands, options, {"dC": rng.standard_normal((*lead, n, 2))})


def shapes(found):
    arrays = {**found.operands, **found.options, **found.upstream}
    return {name: each.shape for name, each in arrays.items() if isinstance(each, np.ndarray)}


def test_every_array_that_has_an_axis_loses_the_same_entries():
    given = case()
    kept = given.operands["K"][1, 2, 0], given.options["bias"][0, 2]

    def fails(found):
        return kept[0] in found.operands["K"][..., 0] and found.operands["Q"].shape[-2] >= 2

    found = cut("attention", given, fails)
    assert shapes(found) == {
        "Q": (1, 2, 1), "K": (1, 1, 1), "V": (1, 1, 1), "mask": (1,), "bias": (1, 1), "dC": (1, 2, 1),
    }  # fmt: skip
    assert (found.operands["K"].item(), found.options["bias"].item()) == kept
    assert found.options["causal"] is True


def test_a_square_matrix_stays_square_and_heads_stay_whole():
    rng = np.random.default_rng(1)
    W = {"W_ih": (3, 4), "W_hh": (3, 3), "b_ih": (3,), "b_hh": (3,)}
    operands = {"X": rng.standard_normal((5, 4)), **{name: rng.standard_normal(shape) for name, shape in W.items()}}
    upstream = {"dH": rng.standard_normal((5, 3)), "dh_last": rng.standard_normal(3)}
    found = shapes(cut("rnn", Case(operands, {}, upstream), lambda _: True))
    assert found == {
        "X": (1, 1), "W_ih": (1, 1), "W_hh": (1, 1), "b_ih": (1,), "b_hh": (1,), "dH": (1, 1), "dh_last": (1,),
    }  # fmt: skip
    weights = {"Wq": (2, 6), "Wk": (2, 6), "Wv": (2, 6), "Wo": (6, 2)}
    operands = {"X": rng.standard_normal((3, 2)), **{name: rng.standard_normal(w) for name, w in weights.items()}}
    heads = Case(operands, {"num_heads": 3}, {"dY": rng.standard_normal((3, 2))})
    assert shapes(cut("multi_head_attention", heads, lambda _: True))["Wo"] == (6, 1)


def test_nothing_is_left_out_where_nothing_smaller_fails():
    given = case()
    assert cut("attention", given, lambda _: False) is given
    assert cut("gpt", given, lambda _: True) is given


@pytest.mark.parametrize(
    ("name", "before", "after", "rows"),
    [
        ("cross_entropy_backward", "np.where(counted[..., None], dlogits, 0.0)", "dlogits", 2),
        ("cross_entropy_backward", "dloss / M", "dloss / counted.size", 2),
        ("attention", "math.sqrt(Q.shape[-1])", "math.sqrt(K.shape[-2])", 1),
    ],
)
def test_the_dojo_shows_no_row_too_many(name, before, after, rows):
    kata = kata_named(name, "en")
    with quiet():
        verdict = judged_text(kata, source_of(kata).solution.replace(before, after), "tried")
    assert not verdict.passed
    assert np.shape(verdict.example.got)[-2] == rows
