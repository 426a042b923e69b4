"""The rule of a live campaign: block means in, one interval and one word out."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.anova import AnovaRM

from noisefloor.model import METRICS
from noisefloor.stats import plan, rule, student, verdict

M = math.log(1.02)


def blocks(n, mean=0.0, sd=0.01, seed=0, shape=()):
    return mean + np.random.default_rng(seed).normal(0, sd, (*shape, n))


@pytest.mark.parametrize("df", [1, 2.5, 4, 9, 44, 300, math.inf])
@pytest.mark.parametrize("q", [0.6, 0.9, 0.95, 0.975, 0.999])
def test_student(df, q):
    """Without scipy."""
    expected = scipy_stats.norm.ppf(q) if df == math.inf else scipy_stats.t.ppf(q, df)
    assert student.quantile(q, df) == pytest.approx(expected, rel=1e-6)
    assert student.quantile(1 - q, df) == pytest.approx(-expected, rel=1e-6)
    assert student.tail(expected, df) == pytest.approx(1 - q, rel=1e-6)


# -- the interval ----------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [1, 4])
def test_the_interval_is_students_t_over_block_means(together):
    units = blocks(10, 0.03)
    found = scipy_stats.ttest_1samp(units, 0).confidence_interval(1 - 0.05 / together)
    mean, lo, hi = rule.block_interval(units, together)
    assert (mean, lo, hi) == pytest.approx((units.mean(), found.low, found.high))


def test_many_campaigns_are_judged_at_once_as_each_by_itself():
    units = blocks(8, 0.01, shape=(5, 3))
    _, lo, hi = rule.block_interval(units)
    assert lo.shape == (5, 3)
    assert rule.block_interval(units[2, 1])[1:] == pytest.approx((lo[2, 1], hi[2, 1]))


def test_one_block_has_no_interval():
    mean, lo, hi = rule.block_interval([0.1])
    assert mean == 0.1
    assert (lo, hi) == (-math.inf, math.inf)


def test_the_scatter_of_starts_that_nobody_saw_widens_it_and_never_narrows_it():
    for sd in (0.001, 0.2):
        units = blocks(10, sd=sd)
        _, lo, hi = rule.block_interval(units)
        _, low, high = rule.block_interval(units, start=(2 * 0.01**2, 5))
        assert high - low >= hi - lo
    assert rule.block_interval(blocks(10), known=0.01)[2] > rule.block_interval(blocks(10))[2]


def test_four_intervals_hold_the_truth_together():
    """Simulated: about 95 of 100 campaigns with all four."""
    units = np.random.default_rng(3).normal(0, 1, (20_000, 4, 10))
    _, lo, hi = rule.block_interval(units, together=4)
    held = ((lo < 0) & (hi > 0)).all(-1).mean()
    assert 0.946 < held < 0.956


# -- the word --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lo", "hi", "code"),
    [
        (-0.01, 0.015, 2),
        (0.001, 0.015, 2),  # inside the margin wins
        (0.001, 0.05, 1),
        (-0.05, -0.001, -1),
        (-0.05, 0.05, 0),
        (-0.01, 0.05, 0),
        (-math.inf, math.inf, 0),
    ],
)
@pytest.mark.parametrize("metric", ["tps", "cpu_per_transaction", "p99", "backup_size", "wall"])
def test_the_word_says_where_the_interval_lies(lo, hi, code, metric):
    assert rule.codes(lo, hi, M) == code
    known = METRICS[metric]
    words = {2: "same", 0: "cannot tell", 1: known.larger, -1: known.smaller}
    found = verdict.word(lo, hi, M, metric)
    assert found == words[code]
    assert verdict.worse(found, metric) == (code == (1 if known.better == "lower" else -1))
    assert (verdict.kind(found) == "better") == (code == (-1 if known.better == "lower" else 1))


def test_every_metric_has_words_and_a_margin():
    pairs = {("more", "less"), ("faster", "slower"), ("slower", "faster"), ("larger", "smaller")}
    for metric in METRICS.values():
        assert (metric.larger, metric.smaller) in pairs
        assert 0 < metric.margin_pct < metric.quick_pct
    own = {"cpu_per_transaction": (1, 3), "tps": (2, 5), "wall": (2, 5), "p99": (10, 20)}
    own["disk_bytes_per_transaction"] = (2, 5)
    for name, margins in own.items():
        assert (METRICS[name].margin_pct, METRICS[name].quick_pct) == margins


def test_what_is_not_known_has_no_word():
    assert verdict.word(math.nan, math.nan, M) == "cannot tell"
    assert verdict.kind("provisional") == "provisional"
    assert verdict.kind("slower") == "worse"
    assert verdict.kind("less") == "better"


# -- thread counts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_whether_thread_counts_differ_is_a_repeated_measures_analysis(seed):
    """Against statsmodels."""
    import pandas as pd

    x = blocks(10, sd=0.02, seed=seed, shape=(4,)) + blocks(10, sd=0.05, seed=seed + 9)
    x += np.linspace(0, 0.02 * (seed % 3), 4)[:, None]
    rows = [(t, b, x[t, b]) for t in range(4) for b in range(10)]
    frame = pd.DataFrame(rows, columns=["threads", "block", "value"])
    p = AnovaRM(frame, "value", "block", within=["threads"]).fit().anova_table["Pr > F"].iloc[0]
    assert bool(rule.alike(x)) == (p > rule.DIFFERENT)


def test_equal_thread_counts_are_found_to_differ_in_one_of_ten_campaigns():
    x = np.random.default_rng(1).normal(0, 1, (20_000, 4, 10))
    x += np.random.default_rng(2).normal(0, 3, (20_000, 1, 10))  # what a start does to all of them
    assert (~rule.alike(x)).mean() == pytest.approx(0.1, abs=0.008)


@pytest.mark.parametrize(
    ("codes", "joint"), [([1, 1], True), ([1, 0], True), ([1, -1], False), ([2, -1], True)]
)
def test_opposite_words_have_no_joint_row(codes, joint):
    x = blocks(10, sd=0.02, shape=(2,))
    assert bool(rule.joint(x - x.mean(-1, keepdims=True), codes)) == joint


# -- how many more ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "sd"), [(0.05, 0.05), (0.0, 0.03), (0.03, 0.06)])
def test_so_many_blocks_would_have_their_word_in_four_of_five_campaigns(value, sd):
    n = plan.units_needed(value, sd, M)

    def share(n):
        units = np.random.default_rng(5).normal(value, sd, (20_000, n))
        _, lo, hi = rule.block_interval(units)
        return (rule.codes(lo, hi, M) != 0).mean()

    assert share(n) == pytest.approx(0.8, abs=0.06)
    assert n >= 4


def test_no_number_of_blocks_decides_what_lies_on_the_margin_of_nothing():
    assert plan.units_needed(0.05, 0.05, M, together=4) > plan.units_needed(0.05, 0.05, M)
    assert plan.units_needed(0.05, 0.05, M, least=90) == 90
