"""A recorded smoke campaign as a notebook sees it."""

from dataclasses import replace

import pandas as pd
import pytest

from noisefloor import paths, results, stats, study

VERDICTS = {"slower", "faster", "same", "cannot tell"}


@pytest.fixture
def opened(recorded):
    return results.load(recorded)


def test_the_study_is_the_one_that_was_measured(opened):
    again = study.load("binlog-encryption", profile="smoke", threads=(2,), budget_min=0.16)
    was = replace(again.profile, blocks=0)  # it declared none
    settings = opened.meta["settings"]  # as they were then
    assert opened.study == replace(again, settings=settings, profile=was)


def test_one_row_a_comparison_in_the_order_of_the_contract(opened):
    v = opened.verdicts
    assert list(v.columns) == stats.row.COLUMNS
    metrics = opened.study.workloads[0].metrics
    assert sorted(v[~v["control"]]["metric"]) == sorted(metrics)
    assert set(v["verdict"]) <= VERDICTS
    assert set(v[v["control"]]["arm"]) == {"plain again"}
    # two blocks, of which the last has fewer pairs than the first and does not count
    assert (v[~v["control"]]["n_arm"] == 2).all()
    assert (v[v["control"]]["n_arm"] == 1).all()
    assert "max_latency" not in set(v["metric"])  # shown, never judged


def test_three_pairs_of_a_second_decide_nothing_about_tps(opened):
    row = opened.of(metric="tps", control=False).iloc[0]
    assert row["verdict"] == "cannot tell"
    assert any("earlier plan" in w for w in row["warnings"])
    assert any("two are needed for an interval" in w for w in row["warnings"])


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
    assert path["n"].max() == 2
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
        ("cannot tell", -3.0, 5.0, "at most 5.0 %", "anything from −3.0 to 5.0 %"),
        ("cannot tell", float("nan"), float("nan"), "no cost was resolved", "too few pairs"),
    ],
)
def test_advice_follows_the_verdict(verdict, lo, hi, strict, other):
    row = pd.Series({"verdict": verdict, "lo_pct": lo, "hi_pct": hi})
    found = results.advice(row, 2.0)["this campaign says"]
    assert strict in found[0]
    assert other in found[1]


# -- the two sweeps --------------------------------------------------------------------------------


@pytest.fixture
def upgraded(recorded):
    """Verdicts of the three arms of an upgrade, over all thread counts."""
    found = results.load(recorded)
    s = study.load("version-upgrade", profile="standard")
    rows = [
        ("tps", s.arms[0].name, 5.0, 3.0, 7.0, "slower"),
        ("tps", s.arms[1].name, -4.0, -6.0, -2.0, "faster"),
        ("tps", s.arms[2].name, -30.0, -33.0, -26.0, "faster"),
    ]
    columns = ["metric", "arm", "overhead_pct", "lo_pct", "hi_pct", "verdict"]
    table = pd.DataFrame(rows, columns=columns).assign(
        workload=s.workloads[0].name, control=False, joint=True, blocks=8, threads=pd.NA
    )
    found.__dict__.update(study=s, verdicts=table)  # where cached properties are kept
    return found


def test_steps_of_an_upgrade_multiply_up_to_the_whole(upgraded):
    steps = upgraded.steps()
    assert list(steps["step"]) == [*(a.name for a in upgraded.study.arms), "all together"]
    factors = 1 + steps["overhead_pct"] / 100
    assert factors[:3].prod() == pytest.approx(factors[3])
    assert steps["end_pct"].tolist() == pytest.approx([5.0, -4.0, -30.0, -30.0])
    assert steps["start_pct"].tolist() == pytest.approx([0.0, 5.0, -4.0, 0.0])
    assert steps["verdict"].tolist() == ["slower", "faster", "faster", "faster"]
    first, second = steps.iloc[0], steps.iloc[1]
    assert (first["lo_pct"], first["hi_pct"]) == pytest.approx((3.0, 7.0))
    wide = second["hi_pct"] - second["lo_pct"]
    assert 4.0 < wide < 8.0  # more than the arm's own interval, less than the sum of both


def test_a_step_whose_ends_are_not_known_cannot_be_told(upgraded):
    table = upgraded.verdicts.copy()
    table.loc[0, ["lo_pct", "hi_pct", "verdict"]] = [float("nan"), float("nan"), "cannot tell"]
    upgraded.__dict__["verdicts"] = table
    assert upgraded.steps()["verdict"].tolist()[:3] == ["cannot tell", "cannot tell", "faster"]


def test_the_price_in_cores_is_throughput_times_cpu(opened):
    price = opened.price(opened.main)
    cpu = opened.of(opened.main, "cpu_per_transaction", control=False).iloc[0]
    row = price.iloc[0]
    assert row["verdict"] == cpu["verdict"]
    assert 0 < row["baseline cores"] < 64
    share = row["more cores"] / row["baseline cores"]
    assert share == pytest.approx(cpu["overhead_pct"] / 100, abs=0.01)


def test_medians_are_shown_in_the_units_of_the_page(opened):
    found = opened.medians(opened.main, ("tps", "p95"))
    assert list(found.columns[3:]) == [
        "Transactions per second, TPS",
        "95th percentile latency, ms",
    ]
    assert set(found["arm"]) == {"plain", "encrypted", "plain again"}
    assert (found["runs"] > 0).all()


def test_proofs_say_where_rows_stay_readable(opened):
    assert opened.exposed.startswith("No arm")
    assert set(opened.proofs.columns) >= {"evidence", "plain", "encrypted"}


@pytest.mark.parametrize("profile", ["smoke", "quick", "standard"])
def test_the_arm_that_changes_the_build_alone_is_found_in_every_profile(profile):
    chosen = study.load("version-upgrade", profile=profile)
    found = results.Results(paths.root())
    found.__dict__["study"] = chosen  # as a campaign would have it
    assert found.study.arm(found.defaults).engine == "mysql"
