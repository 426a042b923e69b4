"""A small calibration: error rates of the rule, coverage, price in pairs, and mutants that fail.

`noisefloor calibrate` runs all cells with ten thousand campaigns each."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import sequential, synthetic

N = 1500
CELLS = [
    *itertools.product(synthetic.NOISES, synthetic.DEPENDENCES, ["none"], [0.02], [0.0]),
    *itertools.product(["normal"], ["iid"], synthetic.DRIFTS, [0.005, 0.04], [0.0]),
    *itertools.product(["normal", "stalls"], ["iid"], ["none"], [0.01], [0.01, 0.02]),
]


def honest(count, n, limit=0.05):
    """Whether a rate may be at most `limit`: its lower bound (99.9 %) does not exceed it."""
    return synthetic.clopper_pearson(count, n, alpha=0.002)[0] <= limit


@pytest.mark.parametrize("design", ["switched", "side by side"])
def test_error_rates_and_coverage_of_every_cell(design):
    for i, (noise, dependence, drift, cv, block_cv) in enumerate(CELLS):
        given = {"cv": cv, "block_cv": block_cv, "n_campaigns": N, "seed": i, "design": design}
        at_zero = synthetic.cell(noise, dependence, drift, **given)
        at_margin = synthetic.cell(noise, dependence, drift, effect=0.02, **given)
        assert honest(at_zero["wrong"], N), at_zero
        assert honest(at_margin["false_same"] + at_margin["wrong"], N), at_margin
        for got in (at_zero, at_margin):
            assert honest(N - got["covered"], N), got


@pytest.mark.parametrize(
    ("effect", "verdict", "one_start", "starts_of_four"),
    [(0.0, "same", 17, 20.5), (0.02, "slower", 14.5, 16.5), (0.05, "slower", 7, 7.6)],
)
def test_price_in_pairs_at_a_pair_sd_of_two_percent(effect, verdict, one_start, starts_of_four):
    for block_pairs, pairs in ((64, one_start), (4, starts_of_four)):
        got = synthetic.cell(
            cv=0.02 / math.sqrt(2), effect=effect, n_campaigns=N, block_pairs=block_pairs
        )
        assert got[verdict] > 0.94 * N
        assert got["pairs_mean"] < pairs


@pytest.mark.parametrize("name", synthetic.MUTANTS)
def test_mutants_fail(name):
    got = synthetic.cell(n_campaigns=N, seed=3, **synthetic.MUTANTS[name])
    assert synthetic.clopper_pearson(got["wrong"], N)[0] > 0.05, got


def test_a_cell_is_its_seed():
    one, two, other = (synthetic.cell(n_campaigns=200, seed=s) for s in (1, 1, 2))
    assert one == two
    assert one != other
    assert sum(one[w] for w in ("slower", "faster", "same", "cannot_tell")) == one["n"] == 200


@pytest.mark.parametrize("noise", synthetic.NOISES)
@pytest.mark.parametrize(("dependence", "phi"), synthetic.DEPENDENCES.items())
def test_noise_has_the_spread_and_memory_it_claims(noise, dependence, phi):
    x = synthetic.runs(noise, dependence, "none", 0.02, (400, 200), np.random.default_rng(1))
    x = x[:, 50:] - x[:, 50:].mean()
    if noise != "stalls":
        assert x.std() == pytest.approx(0.02, rel=0.1)
    assert np.corrcoef(x[:, 1:].ravel(), x[:, :-1].ravel())[0, 1] == pytest.approx(phi, abs=0.05)


@pytest.mark.parametrize("bad", [{"noise": "pink"}, {"drift": "upward"}])
def test_unknown_noise_is_refused(bad):
    with pytest.raises(ValueError, match="is needed"):
        synthetic.cell(n_campaigns=10, **bad)


def test_early_campaigns_are_judged_like_full_ones():
    given = {"cv": 0.03, "block_cv": 0.01, "n_campaigns": 300}
    assert synthetic.cell(**given, first_look=24) == synthetic.cell(**given, first_look=64)


def test_covered_is_what_the_interval_shows():
    d, block = synthetic.campaigns(cv=0.02, effect=0.01, n_campaigns=200, n_pairs=20)
    looks = np.full(200, 20)
    held = synthetic.covered(d, block, looks, 0.01, design="side by side", margin=0.02)
    lo, hi = sequential.interval(sequential.means(d, block), margin=0.02)
    assert np.mean(held == ((lo <= 0.01) & (hi >= 0.01))) > 0.99


@pytest.mark.parametrize(("count", "n"), [(0, 50), (3, 50), (50, 50)])
def test_clopper_pearson(count, n):
    ci = scipy_stats.binomtest(count, n).proportion_ci(0.95)
    assert synthetic.clopper_pearson(count, n) == pytest.approx((ci.low, ci.high), abs=1e-9)
