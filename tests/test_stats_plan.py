"""Student's t in plain Python, and the plans built on it."""

import math

import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import plan


@pytest.mark.parametrize("df", [1, 2.5, 4, 9, 44, 300, math.inf])
@pytest.mark.parametrize("q", [0.6, 0.9, 0.95, 0.975, 0.999])
def test_student(df, q):
    expected = scipy_stats.norm.ppf(q) if df == math.inf else scipy_stats.t.ppf(q, df)
    assert plan.t_quantile(q, df) == pytest.approx(expected, rel=1e-6)
    assert plan.t_quantile(1 - q, df) == pytest.approx(-expected, rel=1e-6)
    assert plan.t_tail(expected, df) == pytest.approx(1 - q, rel=1e-6)


@pytest.mark.parametrize(
    ("estimate", "sd", "pairs"), [(0, 0.02, 14), (0.02, 0.02, 14), (0.05, 0.02, 7), (0.05, 0, 6)]
)
def test_units_needed(estimate, sd, pairs):
    assert plan.units_needed(estimate, sd, 0.02) == pairs


def test_units_needed_is_endless_only_between_zero_and_margin_with_endless_noise():
    assert plan.units_needed(0.01, 100, 0.02) == math.inf
    assert plan.units_needed(0.01, 0.02, 0.02) == 41


def test_slice_seconds():
    assert plan.slice_seconds(4, 0.03, 2, 0.01) == pytest.approx(math.sqrt(4 * 0.0009 * 2 / 1e-4))
    assert plan.slice_seconds(4, 0.03, 2, 0) == math.inf
