"""A small calibration: the rule's coverage and error rates, files, sittings, and mistakes that show.

`noisefloor calibrate` runs all cells with ten thousand campaigns each."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from noisefloor.calibrate import synthetic, truth
from noisefloor.stats import rule, runs, scatter, verdicts

N = 1500
CELLS = list(truth.grid("cells"))


def bound(count, n, side):
    """The lower or upper bound (99.9 %) of a rate."""
    return getattr(scipy_stats.binomtest(int(count), n).proportion_ci(0.998), side)


@pytest.mark.parametrize("given", CELLS[::37], ids=lambda g: f"{g['noise']}, {g['drift']}")
def test_coverage_and_error_rates_of_a_cell(given):
    counts = synthetic.cell(given, N, np.random.default_rng(1))
    for name in ("covered", "together"):
        assert bound(counts[name], N, "high") >= 0.94, (name, counts)
    assert bound(counts["joint_covered"], counts["joint"], "high") >= 0.94
    for names in (("larger_0", "smaller_0"), ("same_2", "smaller_2")):
        assert bound(sum(counts[n] for n in names), N, "low") <= 0.05
    for t in synthetic.TRUTHS:
        assert sum(counts[f"{w}_{t}"] for w in synthetic.WORDS) <= N
    assert counts["larger_10"] > 0.99 * N


def test_a_cell_is_judged_as_the_verdict_table_judges_its_campaigns():
    given, n = {"cv": 0.015, "blocks": 8, "start": 0.01, "shared": True}, 8
    members = synthetic.simulated_pairs(given, n, np.random.default_rng(3), threads=4).mean(-1)
    counts = synthetic.cell(given, n, np.random.default_rng(3))
    joint = sum(any(r["joint"] for r in _table(campaign)) for campaign in members)
    alone = [_table(campaign[:1])[0]["verdict"] for campaign in members]
    assert joint == counts["joint"]
    assert alone.count("same") == counts["same_0"]
    assert alone.count("faster") == counts["larger_0"]


def _table(campaign):
    """Rows of the verdict table of one campaign, [thread counts, blocks] of log ratios of TPS."""
    import pandas as pd

    rows = [
        {"study": "s", "campaign": "c", "workload": "w", "threads": t + 1, "block": b, "pair": 0,
         "pair_id": f"{t}-{b}", "arm": arm, "metric": "tps", "value": value, "warmup": False}
        for t, b in np.ndindex(*campaign.shape)
        for arm, value in (("base", 1.0), ("arm", math.exp(campaign[t, b])))
    ]  # fmt: skip
    tidy = pd.DataFrame(rows).astype({"threads": "Int64"})
    return verdicts.table(tidy, baseline="base", design="side by side").to_dict("records")


def test_a_start_is_in_every_pair_of_its_block_and_shared_by_thread_counts_where_it_says_so():
    for shared in (False, True):
        given = {"cv": 1e-9, "start": 0.01, "shared": shared}
        d = synthetic.simulated_pairs(given, 3000, np.random.default_rng(1), threads=2)
        assert d.std() == pytest.approx(0.01, rel=0.03)
        assert np.ptp(d, axis=-1).max() < 1e-6
        apart = np.abs(d[:, 0] - d[:, 1]).max()
        assert (apart < 1e-6) == shared


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("restarts", [False, True])
def test_files_have_the_words_that_compare_gives(restarts, count):
    start, words = scatter.start_scatter("tps", local=False), set()
    asked = {"restarts": restarts, "baseline": "a", "metric": "tps", "local": False}
    kinds = itertools.product((0.002, 0.01), [-0.06, 0, 0.03, 0.1] * 10)
    for seed, (cv, effect) in enumerate(kinds):
        given = {"runs": count, "cv": cv, "effect": effect, "restarts": restarts}
        counts = synthetic.files(given, 1, np.random.default_rng(seed))
        rng = np.random.default_rng(seed)
        x = rng.normal(0, cv, (2, count))
        x += 0 if restarts else rng.normal(0, start.cv, (2, 1))
        x[1] += math.log1p(effect)
        sides = tuple(runs.Side(tuple(np.exp(v))) for v in x)
        (row,) = runs.judge_runs({"b": {4: sides}}, margin_pct=2.0, **asked)
        assert counts[row.verdict.replace(" ", "_")] == 1
        words.add(row.verdict)
    assert {"slower", "faster", "cannot tell"} <= words


@pytest.mark.parametrize("restarts", [False, True])
def test_equal_files_are_seldom_called_different(restarts, monkeypatch):
    start = scatter.Start(0.008, 5.4)  # a figure that does not move with the recorded campaigns
    monkeypatch.setattr(scatter, "start_scatter", lambda *_, **__: start)
    given = {"runs": 10, "cv": 0.1, "effect": 0.0, "restarts": restarts}
    counts = synthetic.files(given, N, np.random.default_rng(4))
    assert bound(counts["slower"] + counts["faster"], N, "low") <= 0.05
    assert sum(counts.values()) == N
    given = {"runs": 4, "cv": 0.01, "effect": 0.05, "restarts": restarts}
    counts = synthetic.files(given, 500, np.random.default_rng(3))
    assert counts["faster"] > (0.98 if restarts else 0.8) * 500  # what is there is found


@pytest.mark.parametrize("given", list(truth.grid("sittings"))[::5], ids=str)
def test_sittings_of_a_known_skewed_scatter_are_covered_and_predicted(given):
    counts = synthetic.sittings(given, 800, np.random.default_rng(2))
    assert counts["n"] == 800
    assert bound(counts["covered"], 800, "high") >= 0.94
    assert bound(counts["inside"], 800, "high") >= 0.9
    assert counts["next_pct"] > counts["half_pct"]


@pytest.mark.parametrize("name", synthetic.MUTANTS)
def test_mistakes_show_where_the_rule_has_none(name):
    given = truth.CELLS["mutants"][name] | {"mutant": name}
    broken, whole = synthetic.mutant(given, 6000, [3])
    assert bound(whole, 6000, "low") <= 0.05 < bound(broken, 6000, "low")


def test_different_is_what_the_interval_says():
    units = (
        synthetic.simulated_pairs({"cv": 0.02}, 200, np.random.default_rng(5))[:, 0].mean(-1)
        + 0.005
    )
    _, lo, hi = rule.block_interval(units)
    assert synthetic.different(units).tolist() == ((lo > 0) | (hi < 0)).tolist()


@pytest.mark.parametrize("kind", truth.CELLS["cells"]["noise"])
@pytest.mark.parametrize("phi", truth.CELLS["cells"]["dependence"])
def test_noise_has_the_spread_and_memory_it_claims(kind, phi):
    x = synthetic.simulated_runs(kind, phi, "none", 0.02, (400, 200), np.random.default_rng(1))
    x = x[:, 50:] - x[:, 50:].mean()
    if kind != "stalls":
        assert x.std() == pytest.approx(0.02, rel=0.1)
    assert np.corrcoef(x[:, 1:].ravel(), x[:, :-1].ravel())[0, 1] == pytest.approx(phi, abs=0.05)
