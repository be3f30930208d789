"""The experiment on 1/sqrt(c): its figures, and what it says of them.

The expected figures are means over 30 seeds at c = 4096; a margin is about five of their standard deviations.
"""

import math
from typing import Any

import numpy as np
import pytest

from equivalence_tests import scaling
from equivalence_tests.scaling import WIDTHS, ScalingRow, describe, scaling_experiment


@pytest.fixture(scope="module")
def rows():
    return scaling_experiment(0)


def at(rows: list[ScalingRow], c: int, scaled: bool) -> Any:
    return next(row for row in rows if row["c"] == c and row["scaled"] is scaled)


def test_every_width_is_measured_with_and_without_the_scale(rows):
    assert [(row["c"], row["scaled"]) for row in rows] == [(c, scaled) for c in WIDTHS for scaled in (True, False)]


@pytest.mark.parametrize(
    ("scaled", "entropy", "entropy_margin", "share", "share_margin"),
    [(True, 0.886, 0.004, 0.0, 0.0), (False, 0.0149, 0.007, 0.832, 0.05)],  # deviations 0.0008, 0; 0.0014, 0.010
)
def test_entropy_and_share_of_vanished_rows(rows, scaled, entropy, entropy_margin, share, share_margin):
    row = at(rows, 4096, scaled)
    assert abs(row["entropy"] - entropy) <= entropy_margin
    assert abs(row["share_small"] - share) <= share_margin


@pytest.mark.parametrize(
    ("figure", "scaled", "expected", "factor"),
    [  # margins as factors, five deviations of the logarithm: 0.004, 0.30, 0.046, 0.046, 0.003 decades
        ("median_norm", True, 2.12e-2, 1.047),
        ("median_norm", False, 2.7e-9, 32.0),
        ("mean_norm", False, 3.54e-3, 1.7),
        ("mean_dQ", False, 2.82e-3, 1.7),
        ("mean_dQ", True, 2.78e-4, 1.035),
    ],
)
def test_norms_of_gradients(rows, figure, scaled, expected, factor):
    assert abs(math.log(at(rows, 4096, scaled)[figure] / expected)) <= math.log(factor)


def test_with_the_scale_nothing_depends_on_the_width(rows):
    chosen = [row for row in rows if row["scaled"] and row["c"] >= 16]
    for figure, margin in (("entropy", 0.01), ("median_norm", 0.05)):  # q . k / sqrt(c) tends to a normal number as 1/c
        values = np.array([row[figure] for row in chosen])
        assert np.ptp(values) <= margin * values.mean()


def test_without_the_scale_attention_sharpens_with_the_width(rows):
    entropies = [row["entropy"] for row in rows if not row["scaled"]]
    shares = [row["share_small"] for row in rows if not row["scaled"]]
    assert entropies == sorted(entropies, reverse=True)
    assert shares == sorted(shares)


def test_at_width_one_the_scale_is_no_scale(rows):
    assert {**at(rows, 1, True), "scaled": False} == at(rows, 1, False)


def test_the_seed_decides(monkeypatch):
    monkeypatch.setattr(scaling, "WIDTHS", (4,))
    assert scaling_experiment(3) == scaling_experiment(3)
    assert scaling_experiment(3) != scaling_experiment(4)


def test_the_description_carries_the_figures_and_what_speaks_against(rows):
    sentences = describe(rows)
    assert len(sentences) == 4
    assert "4096" in sentences[0]
    assert f"{at(rows, 4096, False)['median_norm']:.1e}" in sentences[1]
    assert f"{at(rows, 4096, False)['mean_norm']:.1e}" in sentences[2]
    assert f"{at(rows, 4096, False)['mean_dQ']:.1e}" in sentences[3]
