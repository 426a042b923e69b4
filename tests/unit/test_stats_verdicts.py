"""From tidy table to verdict table, on the real A/A sessions and on built ones."""

import math
import time

import numpy as np
import pandas as pd
import pytest

from conftest import DATA
from noisefloor import paths, stats

WORSE = ("tps", "apply_rate")  # of which less is worse


def session(name):
    """A recorded A/A session of two identical MySQL 9.7 servers as a tidy table."""
    csv = pd.read_csv(DATA / "aa-mysql97" / f"{name}.csv")
    csv["tps"] = csv.transactions / csv.seconds
    csv["cpu_per_transaction"] = csv.server_cpu_s / csv.transactions
    return csv.melt(
        id_vars=["file", "block", "pair", "position", "arm"],
        value_vars=["tps", "cpu_per_transaction"],
        var_name="metric",
    ).assign(
        study="aa", campaign=name, workload="oltp_read_write", threads=4, unit="", warmup=False,
        run=lambda t: t.file, pair_id=lambda t: t.pair.astype(str),
    )  # fmt: skip


def built(changes, *, arm="on", threads=4, metric="tps", block_pairs=4):
    """Tidy table whose pairs have exactly these log ratios."""
    rows = []
    for i, d in enumerate(changes):
        for name, value in (("off", 1000.0), (arm, 1000.0 * math.exp(d))):
            rows.append((i // block_pairs, i, name, value, f"{threads}-{arm}-{i}"))
    return pd.DataFrame(rows, columns=["block", "pair", "arm", "value", "pair_id"]).assign(
        study="s", campaign="c", workload="w", threads=threads, position=0, metric=metric,
        unit="1/s", warmup=False, run=lambda t: t.pair_id + t.arm,
    )  # fmt: skip


def joined(*tables):
    return pd.concat(tables, ignore_index=True)


def judged(tidy, **given):
    """The verdict table of a campaign that switched a setting from off to on."""
    return stats.table(tidy, **{"baseline": "off", "design": "switched"} | given)


def noise(n, sd=0.01, seed=0):
    return np.random.default_rng(seed).normal(0, sd, n)


def first(tidy, **given):
    """The first row of the verdict table; the joint one where there is one."""
    found = judged(tidy, **given)
    return (found[found["joint"]] if found["joint"].any() else found).iloc[0]


def warned(row, text):
    return any(text in w for w in row["warnings"])


def width(row):
    return row["hi_pct"] - row["lo_pct"]


@pytest.mark.parametrize("design", ["side by side", "switched"])
@pytest.mark.parametrize("name", ["one-start", "blocks"])
def test_identical_servers_are_not_called_different(name, design):
    verdicts = stats.table(session(name), baseline="A", design=design)
    assert len(verdicts) == 2
    assert set(verdicts["verdict"]) <= {"cannot tell", "same"}


def test_pairs_of_one_start_are_less_sure_where_nobody_says_how_they_were_dealt():
    """Two identical servers, p = 0.013 for TPS by the pairs alone."""
    tidy = session("one-start")
    unsure, sure = (stats.table(tidy, baseline="A", restarts=r) for r in (False, True))
    tps = unsure["metric"].eq("tps")
    assert sure.loc[tps, "verdict"].item() != "cannot tell"
    assert unsure.loc[tps, "verdict"].item() == "cannot tell"
    assert (width(unsure) > width(sure)).all()
    assert warned(unsure.iloc[0], "start-to-start CV")


def test_one_start_of_two_servers_is_one_unit():
    row = first(session("one-start"), baseline="A", design="side by side")
    assert row["verdict"] == "cannot tell"
    assert math.isnan(row["lo_pct"])
    assert warned(row, "one block")


@pytest.mark.parametrize(
    ("metric", "word", "worse"),
    [
        ("tps", "faster", False),
        ("cpu_per_transaction", "more", True),
        ("p95", "slower", True),
        ("apply_rate", "faster", False),
        ("disk_bytes_per_transaction", "larger", True),
    ],
)
def test_the_sign_is_that_of_the_metric_and_the_word_says_what_it_means(metric, word, worse):
    row = first(built(0.2 + noise(40), metric=metric), blocks=10)
    assert row["change_pct"] == pytest.approx(100 * math.expm1(0.2), abs=1)
    assert (row["verdict"], row["worse"]) == (word, worse)
    down = first(built(-0.2 + noise(40), metric=metric), blocks=10)
    assert down["change_pct"] < -15
    assert down["worse"] != worse


@pytest.mark.parametrize("design", ["switched", "side by side"])
@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (0.10 + noise(40), "faster"),
        (-0.10 + noise(40), "slower"),
        (noise(40, 0.005), "same"),
        (0.01 + noise(40, 0.005), "same"),  # wins where both hold
        (noise(40, 0.10), "cannot tell"),
        ([0.0] * 40, "same"),
        ([0.10] * 40, "faster"),
    ],
)
def test_a_word_never_contradicts_its_interval(changes, verdict, design):
    row = first(built(changes), blocks=10, design=design)
    assert row["verdict"] == verdict
    assert row["blocks"] == 10
    if verdict in ("slower", "faster"):
        assert row["lo_pct"] * row["hi_pct"] > 0
    if verdict == "same":
        assert -2 < row["lo_pct"] <= row["hi_pct"] < 2


def test_the_margin_is_the_metrics_own_unless_one_is_given():
    tidy = joined(*(built(0.015 + noise(40, 0.001), metric=m) for m in ("tps", "user_sys", "p99")))
    found = judged(tidy, blocks=10).set_index("metric")
    assert found["margin_pct"].to_dict() == {"tps": 2.0, "user_sys": 1.0, "p99": 10.0}
    assert found["verdict"].to_dict() == {"tps": "same", "user_sys": "more", "p99": "same"}
    quick = judged(tidy, blocks=10, quick=True).set_index("metric")
    assert quick["margin_pct"].to_dict() == {"tps": 5.0, "user_sys": 3.0, "p99": 20.0}
    given = judged(tidy, blocks=10, margin_pct=0.5)
    assert set(given["margin_pct"]) == {0.5}


def test_starts_that_differ_widen_the_interval():
    starts = np.repeat([0.10, 0.00, 0.12, -0.01, 0.09, 0.01, 0.11, 0.0], 4)
    steady, varied = (first(built(x + noise(32)), blocks=8) for x in (0.05, starts))
    assert (steady["verdict"], varied["verdict"]) == ("faster", "faster")
    assert width(varied) > 4 * width(steady)


def test_the_last_block_counts_when_it_has_as_many_pairs_as_the_first():
    whole, cut = (first(built(0.1 + noise(n)), blocks=10) for n in (40, 38))
    assert (whole["blocks"], whole["n_arm"]) == (10, 40)
    assert (cut["blocks"], cut["n_arm"]) == (9, 36)
    assert warned(cut, "ended early: 9 of 10 declared blocks were measured")
    assert not warned(whole, "early")


def test_a_pair_that_is_left_out_of_the_last_block_does_not_take_the_block_with_it():
    table = built(noise(12))
    pairs = stats.pairs(table[~table["pair"].eq(9)], baseline="off")
    assert stats.block_means(pairs)["size"].tolist() == [4, 4, 3]
    cut = stats.pairs(table[table["pair"] < 10], baseline="off")
    assert stats.block_means(cut)["size"].tolist() == [4, 4]


def test_runs_without_pairs_beside_a_campaign_are_judged_too():
    logs = built(noise(8)).assign(workload="logs", pair_id=None)
    alone = judged(logs)
    both = judged(joined(built(0.1 + noise(40)), logs))
    assert both["workload"].tolist() == ["w", "logs"]
    pd.testing.assert_frame_equal(both.iloc[1:].reset_index(drop=True), alone)


def test_values_per_second_are_those_of_the_throughput_alone():
    one = joined(*(built([0.1], metric=m).assign(pair_id=None) for m in ("tps", "p95")))
    series = {run: 1000 * np.exp(noise(300, 0.3, i)) for i, run in enumerate(one["run"].unique())}
    bare, with_rows = (judged(one, series=s).set_index("metric") for s in (None, series))
    assert width(with_rows.loc["tps"]) > width(bare.loc["tps"])
    pd.testing.assert_series_equal(with_rows.loc["p95"], bare.loc["p95"])


@pytest.mark.parametrize("metric", ["tps", "p99"])
def test_one_block_has_neither_interval_nor_word_and_says_so(metric):
    row = first(built(0.1 + noise(4), metric=metric), blocks=10)
    assert (row["blocks"], row["verdict"]) == (1, "cannot tell")
    assert math.isnan(row["lo_pct"])
    assert warned(row, "one block: two are needed for an interval")
    assert not warned(first(built(0.1 + noise(8), metric=metric), blocks=10), "one block")


def test_thread_counts_hold_the_truth_together_and_have_a_joint_row_where_they_do_not_differ():
    tables = [built(0.1 + noise(48, 0.02, t), threads=t) for t in (16, 1, 4)]
    verdicts = judged(joined(*tables), blocks=12)
    single, joint = verdicts[~verdicts["joint"]], verdicts[verdicts["joint"]]
    assert single["threads"].tolist() == [1, 4, 16]
    assert set(single["together"]) == {3}
    assert joint["threads"].isna().all()
    assert joint["together"].tolist() == [1]
    assert width(joint.iloc[0]) < width(single).mean()
    alone = first(tables[0], blocks=12)
    assert width(alone) < width(single[single["threads"] == 16].iloc[0])


def test_thread_counts_that_differ_stand_by_themselves():
    tidy = joined(built(0.1 + noise(48), threads=1), built(-0.1 + noise(48, 0.01, 1), threads=64))
    found = judged(tidy, blocks=12)
    assert found["verdict"].tolist() == ["faster", "slower"]
    assert not found["joint"].any()
    assert all(warned(row, "the thread counts differ") for _, row in found.iterrows())


def test_several_arms_hold_the_truth_together():
    other = built(0.1 + noise(48, 0.02, 3), arm="other")
    tidy = joined(built(0.1 + noise(48, 0.02)), other)
    found = judged(tidy, blocks=12)
    assert set(found["together"]) == {2}


def test_the_control_stands_by_itself():
    tidy = joined(built(0.1 + noise(48)), built(noise(48, 0.02, 1), arm="off again"))
    verdicts = judged(tidy, blocks=12, baseline=None).set_index("arm")  # found by its copy
    assert verdicts["control"].to_dict() == {"on": False, "off again": True}
    assert verdicts["verdict"]["on"] == "faster"
    assert set(verdicts["together"]) == {1}


def test_a_server_that_is_never_restarted_carries_the_scatter_of_starts():
    tidy = built(0.02 + noise(40, 0.004))
    floor = {"tps": {"cv_pct": 0.7, "df": 3}}
    free = first(tidy, blocks=10)
    guest = first(tidy, blocks=10, floor=floor, one_start="as recorded")
    assert (free["verdict"], guest["verdict"]) == ("faster", "cannot tell")
    assert width(guest) > 2 * width(free)
    assert warned(guest, "was not restarted")


def test_warmup_half_pairs_what_is_only_shown_and_missing_values_are_left_out():
    tidy = built(0.1 + noise(12))
    warm = tidy.assign(warmup=True, value=1.0, pair_id="w")
    half = tidy[(tidy.pair == 3) & (tidy.arm == "on")].assign(pair_id="alone")
    unjudged = ("max_latency", "written_bytes_per_transaction")
    shown = joined(*(tidy.assign(metric=metric) for metric in unjudged))
    lost = tidy[tidy.pair == 5].assign(pair_id="zero", value=0.0)
    got = judged(joined(tidy, warm, half, shown, lost))
    assert got.metric.tolist() == ["tps"]
    assert got.n_arm.tolist() == [12]
    assert warned(got.iloc[0], "1 pairs left out")


def test_pairs_that_are_left_out_are_told_at_their_own_load_alone():
    one, many = (built(noise(16), threads=t) for t in (1, 64))
    lost = one[one.pair == 5].assign(pair_id="zero", value=0.0)
    rows = judged(joined(one, lost, many, one.assign(workload="other")))
    at = {
        (row["workload"], "joint" if row["joint"] else row["threads"])
        for _, row in rows.iterrows()
        if warned(row, "1 pairs left out")
    }
    assert at == {("w", 1), ("w", "joint")}
    assert len(rows) == 4


def test_pairs_of_two_campaigns_do_not_mix():
    tidy = built(0.1 + noise(8))
    other = tidy.assign(campaign="later", pair=tidy.pair + 8, block=tidy.block + 2)
    assert len(stats.pairs(joined(tidy, other), baseline="off")) == 16


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"baseline": "x"}, "'x' is not an arm"),
        ({"rows": 0}, "no rows"),
        ({"baseline": None}, "which arm is the baseline: off, on"),
    ],
)
def test_refusals(given, says):
    tidy = built([0.1] * 8)
    with pytest.raises(ValueError, match=says):
        judged(tidy.iloc[: given.pop("rows", 16)], **given)


def test_a_percentile_is_known_no_better_than_half_a_bucket():
    row = first(built([-0.012] * 48, metric="p95"), blocks=12)
    assert width(row) == pytest.approx(1.8, abs=0.1)
    exact = first(built([-0.012] * 48), blocks=12)
    assert width(exact) == pytest.approx(0, abs=1e-9)


def test_what_would_decide_it_is_more_than_there_was():
    row = first(built(0.005 + noise(48, 0.06, 2)), pair_seconds=30, blocks=12)
    assert row["verdict"] == "cannot tell"
    assert row["known"].startswith("at most")
    assert row["runs_needed"] > 48
    assert row["minutes_needed"] == pytest.approx(row["runs_needed"] / 2)


def unpaired(thousands=1):
    """Runs of two arms at two thread counts, six a cell, of as many workloads."""
    a, b = 100 * np.exp(noise(6, 0.01, 1)), 80 * np.exp(noise(6, 0.01, 2))
    cells = [
        {"arm": arm, "value": v, "threads": t, "workload": f"w{n}", "run": f"{n}{arm}{t}{i}"}
        for n in range(thousands)
        for t in (1, 8)
        for arm, values in (("before", a), ("after", b))
        for i, v in enumerate(values)
    ]
    return pd.DataFrame(cells).assign(metric="tps", study="s", warmup=False, duration_s=60.0)


def test_unpaired_runs():
    verdicts = stats.table(unpaired(), baseline="before")
    assert verdicts["verdict"].tolist() == ["slower"] * 2
    assert not verdicts["joint"].any()  # without blocks nothing says that thread counts are alike
    assert verdicts["design"].tolist() == ["unpaired"] * 2
    narrow = stats.table(unpaired(), baseline="before", restarts=True)
    assert (width(narrow) < width(verdicts)).all()


def test_this_machines_scatter_of_starts_does_not_count_where_it_is_not_wanted(home):
    paths.runs().mkdir()
    (paths.runs() / "floor.json").write_text('{"tps": {"cv_pct": 50, "df": 3}}')
    here, anywhere = (
        stats.table(unpaired(), baseline="before", local=local) for local in (True, False)
    )
    (paths.runs() / "floor.json").unlink()
    assert (width(here) > 10 * width(anywhere)).all()
    assert width(anywhere).equals(width(stats.table(unpaired(), baseline="before")))


def test_many_runs_are_grouped_at_once():
    tidy = unpaired(170)
    began = time.process_time()
    verdicts = stats.table(tidy, baseline="before")
    assert len(tidy) > 4000
    assert len(verdicts) == 2 * 170
    assert time.process_time() - began < 5
