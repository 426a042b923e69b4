"""The comparison of both servers at once with one after the other: what its row says."""

import math

import pytest

from bench_rate import METRICS_OF, figures_of


def measured(minutes, half):
    """What is measured of one kind: every metric with the same half width, in percent."""
    return {"minutes": minutes, "half": dict.fromkeys(METRICS_OF, half)}


def test_in_turn_is_as_narrow_after_its_own_minutes_times_the_square_of_its_width():
    """Twice as wide after 8 minutes: four times 8, whatever both at once took."""
    figures = figures_of({"at once": measured(4.0, 1.5), "in turn": measured(8.0, 3.0)})
    assert len(figures) == len(METRICS_OF)
    for figure in figures:
        assert figure.ratios == pytest.approx([2.0])
        assert figure.says == (
            "±1.5 % at once, ±3.0 % in turn; as narrow in turn takes 32 minutes instead of 4.0"
        )


def test_a_metric_that_one_kind_did_not_judge_has_no_ratio():
    turn = measured(8.0, 3.0)
    del turn["half"]["p99"]
    *_, p99 = figures_of({"in turn": turn, "at once": measured(4.0, 1.5)})
    assert math.isnan(p99.median)
