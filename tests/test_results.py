"""A recorded smoke campaign as a notebook sees it."""

import pandas as pd
import pytest

from noisefloor import results, study

VERDICTS = {"slower", "faster", "same", "cannot tell"}


@pytest.fixture
def opened(recorded):
    return results.load(recorded)


def test_the_study_is_the_one_that_was_measured(opened):
    again = study.load("binlog-encryption", profile="smoke", threads=(2,), budget_min=0.16)
    assert opened.study == again


def test_one_row_a_comparison_in_the_order_of_the_contract(opened):
    v = opened.verdicts
    assert list(v.columns[:19]) == [
        *("study", "workload", "metric", "threads", "baseline", "arm", "n_baseline", "n_arm"),
        *("overhead_pct", "lo_pct", "hi_pct", "p", "p_adjusted", "verdict", "noise_floor_pct"),
        *("deciding_cv_pct", "runs_needed", "minutes_needed", "warnings"),
    ]
    metrics = opened.study.workloads[0].metrics
    assert sorted(v[~v["control"]]["metric"]) == sorted(metrics)
    assert set(v["verdict"]) <= VERDICTS
    assert set(v[v["control"]]["arm"]) == {"plain again"}
    assert (v[~v["control"]]["n_arm"] == 3).all()
    assert (v[v["control"]]["n_arm"] == 1).all()
    assert "max_latency" not in set(v["metric"])  # shown, never judged


def test_three_pairs_of_a_second_decide_nothing_about_tps(opened):
    row = opened.of(metric="tps", control=False).iloc[0]
    assert row["verdict"] == "cannot tell"
    assert row["runs_needed"] > 3


def test_overhead_is_positive_where_the_arm_is_worse(opened):
    t = opened.tidy
    for metric, better in (("tps", "higher"), ("cpu_per_transaction", "lower")):
        pairs = opened.pairs("in memory", metric)
        assert len(pairs) == 3
        values = t[(t["metric"] == metric)].set_index(["pair_id", "arm"])["value"]
        for _, pair in pairs.iterrows():
            name = f"in-memory-t2-encrypted-p{pair['pair']:03d}"
            worse = values[name, "encrypted"] < values[name, "plain"]
            assert (pair["overhead"] > 0) == (worse == (better == "higher"))


def test_warm_ups_and_controls_are_not_among_the_pairs(opened):
    assert set(opened.pairs("in memory", "tps")["arm"]) == {"encrypted"}
    path = opened.path("in memory", "tps")
    assert list(path["n"]) == sorted(path["n"])
    assert path["n"].max() == 3
    assert set(path["threads"]) == {2}


def test_a_damaged_run_is_among_the_warnings(recorded):
    run = next(recorded.glob("*p001-0-*"))
    (run / "sysbench.txt").write_text("edited")
    opened = results.load(recorded)
    said = " ".join(opened.warnings["warning"])
    assert "was changed after the run" in said
    assert "only one run of the pair is whole" in said
    v = opened.verdicts
    assert (v[~v["control"]]["n_arm"] == 2).all()


def test_tables_for_the_page(opened):
    assert list(opened.workloads.columns) == ["workload", "threads", "why"]
    assert opened.skipped.empty
    assert list(opened.maxima["arm"]) == ["encrypted", "plain", "plain again"]
    assert (opened.maxima["median"] <= opened.maxima["highest"]).all()
    assert opened.threads == 2
    assert not opened.meta["raw_files"].startswith("/")


@pytest.mark.parametrize(
    ("verdict", "lo", "hi", "strict", "other"),
    [
        ("same", -0.5, 0.9, "at most 0.9 %", "the cost lies within ±2 %"),
        ("slower", 2.5, 4.0, "at most 4.0 %", "between 2.5 and 4.0 %"),
        ("faster", -4.0, -1.0, "no cost was resolved", "no cost was found"),
        ("cannot tell", -3.0, 5.0, "at most 5.0 %", "anything from -3.0 to 5.0 %"),
        ("cannot tell", float("nan"), float("nan"), "no cost was resolved", "too few pairs"),
    ],
)
def test_advice_follows_the_verdict(verdict, lo, hi, strict, other):
    row = pd.Series({"verdict": verdict, "lo_pct": lo, "hi_pct": hi})
    found = results.advice(row, 2.0)["this campaign says"]
    assert strict in found[0]
    assert other in found[1]
