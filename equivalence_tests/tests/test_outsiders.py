"""Right code in the styles of public code is not called wrong, and wrong code is caught."""

from __future__ import annotations

import pytest

from equivalence_tests.tests.outsiders import RIGHT, WRONG, judged, line_named

EVERY_RIGHT, EVERY_WRONG = (
    3,
    8,
)  # of which one is judged here: `python -m equivalence_tests.tests.outsiders` takes them all


@pytest.mark.parametrize("right", RIGHT[::EVERY_RIGHT], ids=lambda each: each.name)
def test_right_code_of_any_style_is_not_called_wrong(right):
    report, _ = judged(right)
    assert tuple(each.numbers["accept"] for each in report.conventions) == right.accept, str(report)
    assert report.verdict == ("another convention" if right.accept else "agrees"), str(report)


@pytest.mark.parametrize(("right", "number"), WRONG[4::EVERY_WRONG], ids=lambda each: getattr(each, "name", each))
def test_a_changed_line_is_caught_and_named(right, number):
    report, line = judged(right, number)
    assert report.verdict == "wrong"
    assert line_named(report) in (line, 0)


def test_there_are_enough():
    assert len(RIGHT) >= 60
    assert len(WRONG) >= 50
