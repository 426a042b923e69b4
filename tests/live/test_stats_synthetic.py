"""A small calibration: error rates of the rule, coverage, families, files, and mutants that fail.

`noisefloor calibrate` runs all cells with ten thousand campaigns each."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import rule, runs, scatter, synthetic
from noisefloor.stats.graph import JOINT

N = 1500
CELLS = [
    *itertools.product(synthetic.NOISES, synthetic.DEPENDENCES, ["none"], [0.02], [0.0]),
    *itertools.product(["normal"], ["iid"], synthetic.DRIFTS, [0.005, 0.04], [0.0]),
    *itertools.product(["normal", "stalls"], ["iid"], ["none"], [0.01], [0.01, 0.02]),
]


def noise(kind=CELLS[0], design="switched"):
    names = ("noise", "dependence", "drift", "cv", "block_cv")
    return dict(zip(names, kind, strict=True)) | {"design": design}


def units(given, n, blocks, seed):
    return synthetic.pairs(given, n, blocks, np.random.default_rng(seed)).mean(-1)


def at_least(count, n):
    """The lower bound (99.9 %) of a rate."""
    return scipy_stats.binomtest(int(count), n).proportion_ci(0.998).low


@pytest.mark.parametrize("blocks", [8, 10, 12])
def test_error_rates_and_coverage_of_every_cell(blocks):
    for i, kind in enumerate(CELLS):
        given = noise(kind, ("switched", "side by side")[i % 2])
        drawn = units(given, N, blocks, i)
        for truth in (0.0, synthetic.MARGIN):
            got = synthetic.tally(drawn, truth)
            wrong = got["faster"] + (got["same"] if truth else got["slower"])
            assert at_least(wrong, N) <= 0.05, (kind, got)
            assert at_least(N - got["covered"], N) <= 0.065, (kind, got)
            assert sum(got[w] for w in synthetic.WORDS) == N


def test_two_servers_carry_the_starts_of_both_and_every_pair_of_a_block_carries_the_same():
    rng = np.random.default_rng(1)
    for design, ratio in (("switched", 1), ("side by side", math.sqrt(2))):
        given = {"cv": 1e-9, "block_cv": 0.01, "design": design}
        d = synthetic.pairs(given, 4000, 8, rng)
        assert d.std() == pytest.approx(0.01 * ratio, rel=0.03)
        assert np.ptp(d, axis=-1).max() < 1e-6


def test_covered_is_what_the_verdict_table_shows():
    drawn = units(noise(), 200, 10, 3) + 0.01
    used, _ = rule.decide(drawn, margin=synthetic.MARGIN)
    held = synthetic.covers(drawn, used, 0.01)
    for row, n, holds in zip(drawn, used, held, strict=True):
        one = {("a", 4): (np.arange(n), row[:n])}
        o = rule.family(one, blocks=10, margin=synthetic.MARGIN)["a", 4]
        assert (o.lo <= 0.01 <= o.hi) == holds


@pytest.mark.parametrize("sd", [0.004, 0.012, 0.03])
@pytest.mark.parametrize("population", [None, scatter.Population((0.01,) * 30, 1, "any")])
def test_alarms_are_those_of_every_family_judged_in_full(sd, population):
    rng = np.random.default_rng(2)
    members = rng.normal(0.6 * sd, sd, (200, 4, 8))  # not equal: so that many alarm
    names = [*(("arm", t) for t in range(4)), ("arm", JOINT)]
    whole = [
        synthetic.family_alarm(dict(zip(names, [*m, m.mean(0)], strict=True)), population)
        for m in members
    ]
    found = synthetic.alarms(members, population)
    assert found.tolist() == whole
    assert 0 < found.sum() < 200 or sd < 0.01


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("restarts", [False, True])
def test_files_have_the_words_that_compare_gives(restarts, count):
    start, words = scatter.start("tps", own=False), set()
    given = {"restarts": restarts, "baseline": "a", "metric": "tps", "own": False}
    kinds = itertools.product((0.002, 0.01), [-0.06, 0, 0.03, 0.1] * 15)
    for seed, (cv, effect) in enumerate(kinds):
        found = synthetic.files(count, cv, effect, restarts, 1, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        x = rng.normal(0, cv, (2, count))
        x += 0 if restarts else rng.normal(0, start.cv, (2, 1))
        x[1] += math.log1p(effect)
        sides = tuple(runs.Side(tuple(np.exp(-v))) for v in x)  # more is better
        (row,) = runs.judge({"b": {4: sides}}, **given)
        assert found[row["verdict"].replace(" ", "_")] == 1
        words.add(row["verdict"])
    assert {"slower", "faster", "cannot tell"} <= words


@pytest.mark.parametrize("count", [2, 10])
@pytest.mark.parametrize("restarts", [False, True])
def test_equal_files_are_seldom_called_different(count, restarts, monkeypatch):
    known = scatter.Start(
        0.008, 5.4
    )  # what is found depends on how much starts are known to scatter
    monkeypatch.setattr(scatter, "start", lambda *_, **__: known)
    got = synthetic.files(count, 0.1, 0.0, restarts, 1500, np.random.default_rng(4))
    assert at_least(got["slower"] + got["faster"], 1500) <= 0.05
    assert sum(got.values()) == 1500
    found = synthetic.files(4, 0.01, 0.05, restarts, 600, np.random.default_rng(3))
    assert found["slower"] > (0.98 if restarts else 0.84) * 600  # what is there is found


@pytest.mark.parametrize("name", [*synthetic.MUTANTS, "ddof 0"])
def test_mutants_fail_where_the_rule_does_not(name):
    broken, whole = synthetic.mutant(name, 6000, [3])
    assert at_least(whole, 6000) <= 0.05 < at_least(broken, 6000)


@pytest.mark.parametrize("kind", synthetic.NOISES)
@pytest.mark.parametrize(("dependence", "phi"), synthetic.DEPENDENCES.items())
def test_noise_has_the_spread_and_memory_it_claims(kind, dependence, phi):
    x = synthetic.runs(kind, dependence, "none", 0.02, (400, 200), np.random.default_rng(1))
    x = x[:, 50:] - x[:, 50:].mean()
    if kind != "stalls":
        assert x.std() == pytest.approx(0.02, rel=0.1)
    assert np.corrcoef(x[:, 1:].ravel(), x[:, :-1].ravel())[0, 1] == pytest.approx(phi, abs=0.05)
