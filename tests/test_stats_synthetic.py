"""A small calibration: error rates of the rule, coverage, families, files, and mutants that fail.

`noisefloor calibrate` runs all cells with ten thousand campaigns each."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.stats import rule, runs, scatter, spending, synthetic
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


def units(given, n, blocks, seed, **more):
    return synthetic.pairs(given, n, blocks, np.random.default_rng(seed), **more).mean(-1)


def honest(count, n, limit=0.05):
    """Whether a rate may be at most `limit`: its lower bound (99.9 %) does not exceed it."""
    return synthetic.clopper_pearson(count, n, alpha=0.002)[0] <= limit


@pytest.mark.parametrize("blocks", [8, 10, 12])
def test_error_rates_and_coverage_of_every_cell(blocks):
    for i, kind in enumerate(CELLS):
        given = noise(kind, ("switched", "side by side")[i % 2])
        drawn = units(given, N, blocks, i)
        for truth in (0.0, synthetic.MARGIN):
            got = synthetic.tally(drawn, truth)
            wrong = got["faster"] + (got["same"] if truth else got["slower"])
            assert honest(wrong, N), (kind, got)
            assert honest(N - got["covered"], N, 0.065), (kind, got)
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


def test_a_campaign_of_one_comparison_ends_as_the_family_of_one_does():
    words = {0: rule.CANNOT_TELL, 1: rule.SLOWER, -1: rule.FASTER, 2: rule.SAME}
    drawn = units(noise(), 150, 12, 4) + 0.012
    used, code = rule.decide(drawn, margin=synthetic.MARGIN)
    assert len(set(code)) > 2
    for row, n, c in zip(drawn, used, code, strict=True):
        o = rule.family({("a", 4): (np.arange(12), row)}, blocks=12, margin=synthetic.MARGIN)
        assert (o["a", 4].word, o["a", 4].units) == (words[c], n)


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


def test_a_family_of_equal_arms_alarms_no_more_often_than_one_should():
    rng = np.random.default_rng(5)
    members = rng.normal(0, 0.03, (4000, 4, 12))
    count = synthetic.alarms(members).sum()
    assert honest(count, 4000)
    assert count > 60  # it does alarm


@pytest.mark.parametrize(("restarts", "count"), [(False, 2), (False, 5), (True, 2), (True, 5)])
def test_files_have_the_words_that_compare_gives(restarts, count):
    start, words = scatter.start("tps", own=False), set()
    given = {"restarts": restarts, "baseline": "a", "metric": "tps", "own": False}
    for seed, (cv, effect) in enumerate(
        itertools.product((0.002, 0.01), [-0.06, 0, 0.03, 0.1] * 15)
    ):
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


def test_file_figures_at_reduced_size():
    def share(word, *given, n=600):
        return synthetic.files(*given, n, np.random.default_rng(3))[word] / n

    assert share("slower", 4, 0.01, 0.05, False) > 0.84
    assert share("slower", 4, 0.01, 0.05, True) > 0.98
    assert share("same", 10, 0.01, 0.0, True) > 0.9
    for count, restarts in itertools.product((2, 10), (False, True)):
        got = synthetic.files(count, 0.1, 0.0, restarts, 1500, np.random.default_rng(4))
        assert honest(got["slower"] + got["faster"], 1500)
        assert sum(got.values()) == 1500


@pytest.mark.parametrize("name", [*synthetic.MUTANTS, "ddof 0"])
def test_mutants_fail_where_the_rule_does_not(name):
    broken, whole = synthetic.mutant(name, 6000, [3])
    assert synthetic.clopper_pearson(broken, 6000, alpha=0.002)[0] > 0.05
    assert honest(whole, 6000)


@pytest.mark.parametrize("kind", synthetic.NOISES)
@pytest.mark.parametrize(("dependence", "phi"), synthetic.DEPENDENCES.items())
def test_noise_has_the_spread_and_memory_it_claims(kind, dependence, phi):
    x = synthetic.runs(kind, dependence, "none", 0.02, (400, 200), np.random.default_rng(1))
    x = x[:, 50:] - x[:, 50:].mean()
    if kind != "stalls":
        assert x.std() == pytest.approx(0.02, rel=0.1)
    assert np.corrcoef(x[:, 1:].ravel(), x[:, :-1].ravel())[0, 1] == pytest.approx(phi, abs=0.05)


@pytest.mark.parametrize("bad", [{"noise": "pink"}, {"drift": "upward"}])
def test_unknown_noise_is_refused(bad):
    with pytest.raises(ValueError, match="is needed"):
        synthetic.pairs({"cv": 0.01} | bad, 10, 8, np.random.default_rng(1))


def test_every_declared_number_of_blocks_can_pass_its_last_look():
    for blocks in synthetic.PAIRS:
        assert spending.fewest_flips(blocks) < spending.last_level(0.05, blocks)


@pytest.mark.parametrize(("count", "n"), [(0, 50), (3, 50), (50, 50)])
def test_clopper_pearson(count, n):
    ci = scipy_stats.binomtest(count, n).proportion_ci(0.95)
    assert synthetic.clopper_pearson(count, n) == pytest.approx((ci.low, ci.high), abs=1e-9)
    low, high = synthetic.clopper_pearson(np.array([count, 1]), np.array([n, n]))
    assert (low[0], high[0]) == pytest.approx((ci.low, ci.high), abs=1e-9)
