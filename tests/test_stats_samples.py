"""Runs without pairs: Welch on logs, the start-to-start floor, single runs, slices."""

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import samples
from noisefloor.stats.synthetic import clopper_pearson

M = math.log(1.02)
RNG = np.random.default_rng(5)
A, B = RNG.normal(0, 0.02, 6), RNG.normal(0.05, 0.03, 5)


def test_with_restarts_it_is_welch_on_logs():
    o = samples.judge([(A, B)], margin=M, floor=(0.01, 9), restarts=True)
    expected = scipy_stats.ttest_ind(B, A, equal_var=False)
    lo, hi = expected.confidence_interval(0.95)
    assert (o.estimate, o.lo, o.hi, o.p) == pytest.approx(
        (B.mean() - A.mean(), lo, hi, expected.pvalue)
    )
    assert (o.n_baseline, o.n_arm) == (6, 5)


def test_without_restarts_the_floor_widens_and_says_so():
    bare = samples.judge([(A, B)], margin=M, restarts=True)
    wide = samples.judge([(A, B)], margin=M, floor=(0.014, 9))
    assert wide.lo < bare.lo < bare.hi < wide.hi
    assert wide.floor > bare.floor
    assert any("restarted" in w for w in wide.warnings)
    assert not any("restarted" in w for w in bare.warnings)


@pytest.mark.parametrize(
    ("a", "b", "given", "verdict"),
    [
        ([0.0], [0.5], {}, "cannot tell"),  # one run each says nothing, however far apart
        ([0.0], [0.0], {}, "cannot tell"),
        ([0.0], [0.5], {"floor": (0.01, 9)}, "cannot tell"),  # a recorded floor does not know these runs
        ([0.0], [0.5], {"floor": (0.01, 9), "known_floor": True}, "slower"),
        ([0.0], [0.5], {"floor": (0.01, 9), "known_floor": True, "restarts": True}, "slower"),
        ([0.5, 0.501, 0.499, 0.5], [0.0, 0.001, -0.001, 0], {"restarts": True}, "faster"),
        ([0, 0.001, -0.001, 0], [0.001, 0.002, 0, 0.001], {"restarts": True}, "same"),
        ([0, 0.001, -0.001, 0], [0.001, 0.002, 0, 0.001], {"floor": (0.014, 9)}, "cannot tell"),
        ([0, 0.001, -0.001, 0], [0.5], {"restarts": True}, "slower"),  # one run borrows the other sd
    ],
)  # fmt: skip
def test_verdicts(a, b, given, verdict):
    o = samples.judge([(np.array(a), np.array(b))], margin=M, **given)
    assert o.verdict == verdict
    if verdict == "cannot tell" and len(a) == 1:
        assert math.isnan(o.floor)


def test_few_runs_are_named():
    o = samples.judge([(A[:3], B[:3])], margin=M, restarts=True)
    assert any("below 4" in w for w in o.warnings)


def test_joint_effect_is_the_mean_and_carries_the_floor_once():
    one = samples.judge([(A, B)], margin=M, floor=(0.014, 9))
    many = samples.judge([(A, B)] * 4, margin=M, floor=(0.014, 9))
    bare = samples.judge([(A, B)] * 4, margin=M, restarts=True)
    assert many.estimate == pytest.approx(one.estimate)
    assert many.hi - many.lo < one.hi - one.lo
    assert many.hi - many.lo > bare.hi - bare.lo


@pytest.mark.parametrize(
    ("floor", "metric", "expected"),
    [
        (None, "tps", (samples.RECORDED_FLOOR[0] / 100, samples.RECORDED_FLOOR[1] - 1)),
        (2, "tps", (0.02, 9)),
        ((2, 5), "tps", (0.02, 4)),
        ({"tps": (3, 6)}, "tps", (0.03, 5)),
        (0, "tps", None),
    ],
)
def test_start_floor(floor, metric, expected):
    assert samples.start_floor(floor, metric) == expected


@pytest.mark.parametrize("floor", [-1, (1, 1), math.nan])
def test_start_floor_refuses(floor):
    with pytest.raises(ValueError, match="floor"):
        samples.start_floor(floor, "tps")


@pytest.mark.parametrize("bad", [0, -3, math.nan, math.inf])
def test_values_without_a_logarithm_are_refused(bad):
    with pytest.raises(ValueError, match="tps"):
        samples.positive([1, bad], "tps")


def ar(n, phi, seed):
    z = np.random.default_rng(seed).normal(size=n)
    for i in range(1, n):
        z[i] += phi * z[i - 1]
    return z


def test_single_runs_with_rows_get_an_interval_and_no_verdict():
    rows = [1000 + 20 * ar(120, 0.3, s) for s in (1, 2)]
    logs = [(np.array([math.log(r.mean())])) for r in rows]
    o = samples.judge([tuple(logs)], margin=M, within=[rows])
    assert o.verdict == "cannot tell"
    assert o.lo < o.estimate < o.hi
    assert any("within-run only" in w for w in o.warnings)
    with_floor = samples.judge(
        [tuple(logs)], margin=M, within=[rows], floor=(0.001, 9), known_floor=True
    )
    assert with_floor.hi - with_floor.lo > o.hi - o.lo


def test_slice_length_follows_the_cost_model():
    rng = np.random.default_rng(8)
    levels = rng.normal(0, 0.02, 40)
    rows = [1000 * np.exp(level + 0.1 * rng.normal(size=60)) for level in levels]
    seconds = samples.slice_from_rows(rows, [r.mean() for r in rows], cost_s=4, longest=300)
    assert seconds == pytest.approx(math.sqrt(4 * 0.1**2 / 0.02**2), rel=0.4)
    alike = [1000 * np.exp(0.1 * ar(60, 0, s)) for s in range(40)]
    longer = samples.slice_from_rows(alike, [r.mean() for r in alike], cost_s=4, longest=300)
    assert longer > 2 * seconds


@pytest.mark.parametrize("wrong_by", [1.0, 1.5])
def test_false_same_at_the_margin_with_a_floor_that_was_too_small(wrong_by):
    rng = np.random.default_rng(9)
    n, said = 1000, 0
    for _ in range(n):
        measured = 0.003 * math.sqrt(rng.chisquare(9) / 9)
        starts = rng.normal(0, 0.003 * wrong_by, 2)
        a, b = rng.normal(starts[0], 0.002, 5), rng.normal(M + starts[1], 0.002, 5)
        said += samples.judge([(a, b)], margin=M, floor=(measured, 9)).verdict == "same"
    assert clopper_pearson(said, n, alpha=0.002)[0] <= 0.05
