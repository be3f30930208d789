"""What the dojo prints of a wrong answer, in both languages: nothing false, no internal name, no English in Spanish."""

import math

import pytest

from equivalence_tests.digits import apart, side_by_side
from equivalence_tests.dojo import by_part, showing
from equivalence_tests.dojo.folder import kata_named
from equivalence_tests.dojo.matrix import judged_text
from equivalence_tests.dojo.sources import source_of
from equivalence_tests.dojo.verdict import Example, Verdict
from equivalence_tests.findings import Finding
from equivalence_tests.mistakes import PART_MISTAKES, quiet


@pytest.mark.parametrize(
    ("one", "other", "printed"),
    [
        (-0.0579492, -0.0579523, ("-0.057949", "-0.057952")),
        (0.41418312, 0.41418298, ("0.4141831", "0.414183")),
        (1.0, 1.0 + 2.0**-52, ("1", "1.0000000000000002")),
        (0.5, 0.25, ("0.5", "0.25")),
        (-0.0, 1.0, ("0", "1")),
        (math.nan, 1.0, ("nan", "1")),
        (math.inf, -math.inf, ("inf", "-inf")),
        (math.nan, math.nan, ("nan", "nan")),
        (2.0, 2.0, ("2", "2")),
    ],
)
def test_unequal_numbers_print_unequal(one, other, printed):
    assert side_by_side(one, other) == printed


def test_a_number_is_told_from_all_that_stand_beside_it():
    assert apart(1.000001, 1.0, 1.0000011) == "1.000001"
    assert apart(3.14159265, digits=3) == "3.14"


def test_a_finding_tells_a_factor_from_1_and_the_wrong_from_the_right():
    factor = Finding("wrong_factor", "dX", "r", {"factor": 0.999999, "named": 0.999999, "cases": 3, "of": 3})
    assert "0.999999 times" in factor.say("en")
    worst = Finding("worst_element", "Y", "", {"index": "2", "got": 0.4141831, "expected": 0.414183, "share": 1e200})
    assert worst.say("en").startswith("Y[2] is 0.4141831, expected 0.414183: ∞ times")
    infinite = Finding("worst_element", "Y", "", {"index": "2", "got": -math.inf, "expected": 1e200, "share": 2.0})
    assert infinite.say("es").startswith("Y[2] es -inf; se esperaba 1e+200")
    assert Finding("accuracy", "Y", "Y", {"digits": 4.9551, "cases": 2}).say("en").startswith("Y is right to 5 digits")


def test_wrong_and_right_entries_look_different_and_rounding_is_not_shown():
    got, right = [-0.0579492, 0.25 + 2.0**-54], [-0.0579523, 0.25]
    mine, theirs = (rows[0].plain for rows in showing.both_grids(Example({}, "dX", got, right, [1, 0])))
    assert mine.split() == ["[", "-0.057949*", "0.25", "]"]
    assert theirs.split() == ["[", "-0.057952", "0.25", "]"]


# Parts: named by what they answer, not by what rounds to the same text

ROOT_AND_EPSILON = "(np.sqrt(v / (1.0 - beta2**t)) + epsilon)"
FIRST = "(m / (1.0 - beta1**t))"
SECOND = "v += (1.0 - beta2) * g * g"


def tried(name, *replaced):
    """What is said of the solution with something else in it."""
    kata = kata_named(name, "en")
    text = source_of(kata).solution
    for before, after in zip(replaced[::2], replaced[1::2], strict=True):
        assert before in text
        text = text.replace(before, after, 1)
    with quiet():
        return judged_text(kata, text, "tried")


@pytest.mark.parametrize(
    ("name", "before", "after", "says"),
    [
        ("adamw_step", ROOT_AND_EPSILON, "np.sqrt(v / (1.0 - beta2**t) + epsilon)", "epsilon stands under the root."),
        ("adamw_step", FIRST, "(m * (1.0 - beta1**t))", "m is multiplied by 1 - beta1^t."),
        ("adamw_step", SECOND, "v += g * g", "params['p'][0] is 0.996935, but 0.95 is right."),
        ("adamw_step", SECOND, "v += ((1.0 - beta2) * g) ** 2", "params['p'][0] is 0.903065, but 0.95 is right."),
        ("adamw_step", " + epsilon)", " + 1e-6)", "params['p'][0] is 0.99901, but 0.95 is right."),
        ("adamw_step", "p *= 1.0 - lr * weight_decay", "pass", "params['p'][0] is 1, but 0.99 is right."),
        ("adamw_step", 'state["step"] = 0', 'state["step"] = 0.0', "type(state['step']) is float, but int is right."),
        ("clip_gradients", "(norm + 1e-6)", "(norm or 1.0)", "max_norm / norm, without 1e-6."),
        ("clip_gradients", "norm + 1e-6", "norm + 1e-8", "clip_gradients[0]['a'][0] is 0.6, but 0.5999999 is right."),
        ("clip_gradients", "()}, norm", "()}, norm * factor", "The norm after clipping is returned."),
        ("top_k", "-np.inf)", "-1e9)", "top_k[0] is -1e+09, but -inf is right."),
        ("top_k", "logits, -np.inf)", "logits, -np.inf).astype('f4')", "top_k.dtype is float32, but float64 is right."),
    ],
)
def test_a_part_is_named_by_its_answers_to_the_last_digits(name, before, after, says):
    """Rounded to two digits, six of them are the same as a known mistake that they are not."""
    assert tried(name, before, after).say("en") == says


def test_a_part_is_shown_the_smallest_call_that_is_wrong():
    verdict = tried("adamw_step", ROOT_AND_EPSILON, "np.sqrt(v / (1.0 - beta2**t) + epsilon)")
    assert verdict.example.given == {"params['p']": [1.0], "grads['p']": [1e-8], "lr": 0.1, "weight_decay": 0.0}
    (got,), (right,) = verdict.example.got, verdict.example.expected
    assert (f"{got:.7g}", f"{right:.7g}") == ("0.99999", "0.95")


def test_a_law_of_a_part_is_told_where_all_values_are_right():
    verdict = tried("clip_gradients", "np.asarray(g * factor)", "np.asarray(g * factor) if factor < 1.0 else g")
    assert verdict.numbers["named"] == ["O26"]
    unnamed = by_part._of_law("returns_new_arrays")
    assert unnamed.say("en").startswith("A law does not hold: new arrays are returned")
    assert unnamed.say("es").startswith("No se cumple una ley: se devuelven arreglos nuevos")


def test_what_a_part_must_not_change_is_told():
    verdict = by_part.judged(PART_MISTAKES["O14"].forward, "adamw_step")
    assert (verdict.code, verdict.numbers["argument"]) == ("changes_arguments", "grads")


# Ops


@pytest.mark.parametrize(
    ("name", "before", "after", "english", "spanish"),
    [
        (  # nothing is known of it: the numbers are told, and not that "a law does not hold: agrees in float64"
            "layer_norm",
            "var + epsilon",
            "var + epsilon**2",
            "Y[1] is -2e-10, expected -1.9999e-05: ",
            "Y[1] es -2e-10; se esperaba -1.9999e-05: ",
        ),
        (
            "layer_norm_backward",
            "- first",
            "- 0.9995 * first",
            "mean(dN) is 0.9995 times ",
            "mean(dN) es 0.9995 veces ",
        ),
        (
            "layer_norm_backward",
            "dX = r *",
            "dX = 0.99999 * r *",
            "dX is right to 5 digits only",
            "dX solo es correcto hasta 5",
        ),
    ],
)
def test_a_symbol_stays_as_it_is_written_and_numbers_speak_for_themselves(name, before, after, english, spanish):
    verdict = tried(name, before, after)
    assert verdict.say("en").startswith(english)
    assert verdict.say("es").startswith(spanish)


def test_a_line_of_the_formula_is_shown_only_where_the_mistake_was_placed():
    assert tried("layer_norm", "var + epsilon", "var + epsilon**2").formula == {}
    assert tried("layer_norm", "X.mean(-1, keepdims=True)", "X.mean(0, keepdims=True)").formula["en"] == "mu = mean(X)"


def test_a_mistake_that_several_explain_is_told_with_all_of_them():
    numbers = {"sentence": "A", "sentence_es": "B", "also": {"en": ["C"], "es": ["D"]}}
    verdict = Verdict("wrong", findings=(Finding("known_mistake", "dX", "", numbers, sure=False),))
    assert verdict.say("en") == "perhaps: A. Or: C."
    assert verdict.say("es") == "quizá: B. O bien: D."


def test_a_forward_alone_is_shown_no_gradient_and_the_truths_own_rounding_is_0():
    assert "dY" not in tried("layer_norm", "scale * N + shift", "scale * N").example.given
    verdict = tried("softmax_backward", "(A * dA).sum(-1, keepdims=True)", "(A * dA).sum(-1)")
    numbers = [abs(x) for row in verdict.example.expected for x in row]
    assert all(x == 0.0 or x > 1e-12 for x in numbers), numbers
