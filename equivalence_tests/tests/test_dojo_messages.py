"""What the dojo prints of a wrong answer, in both languages: nothing false, no internal name, no English in Spanish."""

import math

import pytest

from equivalence_tests.digits import apart, side_by_side
from equivalence_tests.dojo import showing
from equivalence_tests.dojo.verdict import Example
from equivalence_tests.findings import Finding


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
