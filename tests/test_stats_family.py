"""From tidy table to verdict table, on the real A/A sessions and on built ones."""

import math
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from noisefloor import stats

DATA = Path(__file__).parent / "data" / "aa-mysql97"


def session(name, design):
    """A recorded A/A session of two identical MySQL 9.7 servers as a tidy table."""
    csv = pd.read_csv(DATA / f"{name}.csv")
    csv["tps"] = csv.transactions / csv.seconds
    csv["cpu_per_transaction"] = csv.server_cpu_s / csv.transactions
    tidy = csv.melt(
        id_vars=["file", "block", "pair", "position", "arm"],
        value_vars=["tps", "cpu_per_transaction"],
        var_name="metric",
    ).assign(
        study="aa", campaign=name, workload="oltp_read_write", threads=4, unit="", warmup=False,
        run=lambda t: t.file, pair_id=lambda t: t.pair.astype(str),
    )  # fmt: skip
    tidy.attrs = {"design": design, "baseline": "A"}
    return tidy


def built(overheads, *, arm="on", threads=4, metric="tps", block_pairs=4, design="switched"):
    """Tidy table whose pairs have exactly these log overheads of TPS."""
    rows = []
    for i, d in enumerate(overheads):
        for name, value in (("off", 1000.0), (arm, 1000.0 * math.exp(-d))):
            rows.append((i // block_pairs, i, name, value, f"{threads}-{arm}-{i}"))
    tidy = pd.DataFrame(rows, columns=["block", "pair", "arm", "value", "pair_id"]).assign(
        study="s", campaign="c", workload="w", threads=threads, position=0, metric=metric,
        unit="1/s", warmup=False, run=lambda t: t.pair_id + t.arm,
    )  # fmt: skip
    tidy.attrs = {"design": design, "baseline": "off"}
    return tidy


def joined(*tables):
    out = pd.concat(tables, ignore_index=True)
    out.attrs = tables[0].attrs
    return out


def noise(n, sd=0.01, seed=0):
    return np.random.default_rng(seed).normal(0, sd, n)


def test_a_textbook_test_calls_the_one_start_session_different():
    d = stats.pairs(session("one-start", "side by side")).query("metric == 'tps'").overhead
    p = scipy_stats.ttest_1samp(d, 0).pvalue
    assert p == pytest.approx(0.013, abs=0.003)
    assert d.mean() == pytest.approx(-math.log(1.029), abs=0.001)


@pytest.mark.parametrize("name", ["one-start", "blocks"])
@pytest.mark.parametrize("design", ["side by side", None])
@pytest.mark.parametrize("sequential", [True, False])
def test_identical_servers_are_not_called_different(name, design, sequential):
    verdicts = stats.table(session(name, design), sequential=sequential)
    assert len(verdicts) == 2
    assert set(verdicts.verdict) <= {"cannot tell", "same"}


def test_one_start_of_two_servers_says_why():
    row = stats.table(session("one-start", "side by side")).iloc[0]
    assert row.verdict == "cannot tell"
    assert math.isnan(row.noise_floor_pct)
    assert any("one server start only" in w for w in row.warnings)
    unknown = stats.table(session("one-start", None)).iloc[0]
    assert any("start-to-start CV" in w for w in unknown.warnings)


def test_pairs_of_the_blocks_session():
    pairs = stats.pairs(session("blocks", "side by side"))
    tps = pairs[pairs.metric == "tps"]
    assert len(tps) == 40
    assert tps.overhead.std() == pytest.approx(0.0445, abs=0.0005)
    assert tps.groupby("block").overhead.mean().std() == pytest.approx(0.018, abs=0.0005)


@pytest.mark.parametrize(
    ("metric", "worse"), [("tps", -1), ("cpu_per_transaction", 1), ("p95", 1), ("apply_rate", -1)]
)
def test_positive_always_means_worse(metric, worse):
    tidy = built(0.1 + noise(12), metric=metric)
    row = stats.table(tidy).iloc[0]
    assert row.overhead_pct * -worse > 8
    assert row.verdict == ("slower" if worse < 0 else "faster")
    assert row.lo_pct * row.hi_pct > 0


@pytest.mark.parametrize(
    ("overheads", "verdict"),
    [
        (0.10 + noise(12), "slower"),
        (-0.10 + noise(12), "faster"),
        (noise(24, 0.005), "same"),
        (noise(12, 0.10), "cannot tell"),
        (0.10 + noise(4), "cannot tell"),  # four signs cannot reach 5 %
        ([0.0] * 12, "same"),
        ([0.10] * 12, "slower"),
    ],
)
@pytest.mark.parametrize("sequential", [True, False])
def test_verdicts(overheads, verdict, sequential):
    row = stats.table(built(overheads), sequential=sequential).iloc[0]
    assert row.verdict == verdict
    if verdict in ("slower", "faster"):
        assert row.lo_pct * row.hi_pct > 0
        assert row.p_adjusted <= 0.05
    if verdict == "same":
        assert -2 < row.lo_pct <= row.hi_pct < 2


def test_starts_that_differ_widen_the_interval():
    starts = np.repeat([0.10, 0.02, 0.12, 0.01], 8)
    alike = stats.table(built(0.06 + noise(32), block_pairs=8)).iloc[0]
    differ = stats.table(built(starts + noise(32), block_pairs=8)).iloc[0]
    assert alike.verdict == "slower"
    assert differ.verdict == "cannot tell"
    assert any("starts differ" in w for w in differ.warnings)


def test_side_by_side_counts_blocks():
    few = built(0.10 + noise(40), block_pairs=10, design="side by side")
    many = built(0.10 + noise(40), block_pairs=4, design="side by side")
    assert stats.table(few).iloc[0].verdict == "cannot tell"
    assert stats.table(many).iloc[0].verdict == "slower"
    assert stats.table(many).iloc[0].blocks == 10


def test_family_holm_and_joint_row():
    tables = [built(0.1 + noise(16, 0.02, t), threads=t) for t in (16, 1, 4)]
    verdicts = stats.table(joined(*tables))
    single, joint = verdicts[~verdicts.joint], verdicts[verdicts.joint]
    assert single.threads.tolist() == [1, 4, 16]
    assert joint.threads.isna().all()
    # the joint effect is one more member of the family
    assert verdicts.p_adjusted.tolist() == pytest.approx(
        multipletests(verdicts.p, method="holm")[1].tolist()
    )
    assert joint.verdict.tolist() == ["slower"]
    assert (joint.hi_pct - joint.lo_pct).iloc[0] < (single.hi_pct - single.lo_pct).min()


def test_holm_can_take_a_verdict_back():
    near = built([0.05] * 6, threads=1)  # alone it just reaches 5 %
    others = [built(noise(6, 0.05, t), threads=t) for t in (4, 16, 64)]
    assert stats.table(near).iloc[0].verdict == "slower"
    row = stats.table(joined(near, *others)).query("threads == 1").iloc[0]
    assert row.verdict == "cannot tell"
    assert any("Holm" in w for w in row.warnings)


def test_control_is_one_more_comparison():
    tidy = joined(built(0.1 + noise(12)), built(noise(12, 0.02, 1), arm="off again"))
    tidy.attrs = {"design": "switched"}  # the baseline is found by its copy
    verdicts = stats.table(tidy).set_index("arm")
    assert verdicts.control.to_dict() == {"on": False, "off again": True}
    assert verdicts.verdict["on"] == "slower"
    assert stats.table(tidy, controls=False).arm.tolist() == ["on"]


def test_warmup_half_pairs_maxima_and_missing_values_are_left_out():
    tidy = built(0.1 + noise(12))
    warm = tidy.assign(warmup=True, value=1.0, pair_id="w")
    half = tidy[(tidy.pair == 3) & (tidy.arm == "on")].assign(pair_id="alone")
    maximum = tidy.assign(metric="max_latency")
    lost = tidy[tidy.pair == 5].assign(pair_id="zero", value=0.0)
    got = stats.table(joined(tidy, warm, half, maximum, lost))
    assert got.metric.tolist() == ["tps"]
    assert got.n_arm.tolist() == [12]
    assert any("1 pairs left out" in w for w in got.warnings[0])


def test_pairs_of_two_campaigns_do_not_mix():
    tidy = built(0.1 + noise(8))
    other = tidy.assign(campaign="later", pair=tidy.pair + 8, block=tidy.block + 2)
    assert len(stats.pairs(joined(tidy, other))) == 16


def test_carry_over_and_bucket_are_warnings():
    tidy = built(0.1 + noise(12)).assign(carry_over=0.05)
    assert any("carry-over" in w for w in stats.table(tidy).warnings[0])
    close = built(-0.012 + noise(30, 0.002), metric="p95")
    row = stats.table(close, margin_pct=0.5).iloc[0]
    assert row.verdict == "cannot tell"
    assert any("bucket" in w for w in row.warnings)


def test_plan_budget_and_minutes():
    tidy = built(0.001 + noise(40, 0.04, 2))
    open_ = stats.table(tidy, pair_seconds=30, budget_pairs=500).iloc[0]
    assert open_.verdict == "cannot tell"
    assert not open_.settled
    assert open_.runs_needed > 40
    assert open_.minutes_needed == pytest.approx(open_.runs_needed / 2)
    assert stats.table(tidy, budget_pairs=41).iloc[0].settled
    decided = built(0.1 + noise(12))
    assert stats.table(decided).iloc[0].settled
    assert not stats.table(decided, starts=4).iloc[0].settled


@pytest.mark.parametrize("design", ["switched", "side by side", "duet", None])
def test_path_ends_where_the_table_stands(design):
    tidy = built(0.03 + noise(32, 0.02, 4), design=design)
    path = stats.path(tidy)
    row = stats.table(tidy).iloc[0]
    last = path.iloc[-1]
    assert last.n == row.n_arm
    assert (last.overhead_pct, last.lo_pct, last.hi_pct) == pytest.approx(
        (row.overhead_pct, row.lo_pct, row.hi_pct)
    )
    assert last.verdict == row.verdict
    assert last.e_value == pytest.approx(1 / row.p)
    assert len(path) == (32 if design in ("switched", None) else 8)


def runs(arm, values, threads=4, metric="tps"):
    return pd.DataFrame(
        {"arm": arm, "value": values, "threads": threads, "metric": metric, "study": "s",
         "workload": "w", "warmup": False, "run": [f"{arm}{threads}{i}" for i in range(len(values))]}
    )  # fmt: skip


def test_unpaired_runs():
    a, b = 100 * np.exp(noise(6, 0.01, 1)), 80 * np.exp(noise(6, 0.01, 2))
    tidy = joined(*(runs(arm, v, t) for t in (1, 8) for arm, v in (("before", a), ("after", b))))
    tidy.attrs = {"baseline": "before"}
    verdicts = stats.table(tidy)
    assert verdicts.verdict.tolist() == ["slower"] * 3
    assert verdicts.joint.tolist() == [False, False, True]
    assert verdicts.design.tolist() == ["unpaired"] * 3
    narrow = stats.table(tidy, restarts=True)
    assert (narrow.noise_floor_pct < verdicts.noise_floor_pct).all()


def test_one_run_an_arm_cannot_tell_even_with_rows_per_second():
    tidy = joined(runs("before", [100.0]), runs("after", [50.0]))
    tidy.attrs = {"baseline": "before"}
    rng = np.random.default_rng(0)
    series = {"before40": 100 + rng.normal(size=60), "after40": 50 + rng.normal(size=60)}
    row = stats.table(tidy, series=series).iloc[0]
    assert row.verdict == "cannot tell"
    assert 90 < row.lo_pct < row.overhead_pct < row.hi_pct < 110
    assert math.isnan(row.noise_floor_pct)
    assert stats.table(tidy, floor=2).iloc[0].verdict == "slower"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"margin_pct": 0}, "margin 0"),
        ({"margin_pct": math.nan}, "margin nan"),
        ({"baseline": "x"}, "'x' is not an arm"),
    ],
)
def test_refusals(given, says):
    with pytest.raises(ValueError, match=says):
        stats.table(built([0.1] * 8), **given)


def test_refuses_an_empty_table_and_an_unknown_baseline():
    tidy = built([0.1] * 8)
    with pytest.raises(ValueError, match="no rows"):
        stats.table(tidy.iloc[:0])
    tidy.attrs = {}
    with pytest.raises(ValueError, match="which arm is the baseline: off, on"):
        stats.table(tidy)


def test_check_names_key_and_values():
    tidy = built([0.1] * 8).assign(table_size=[100] * 8 + [200] * 8, test="oltp")
    assert stats.check(tidy) == ["the runs differ in table_size: 100, 200"]


def test_fast_enough_to_run_after_every_pair():
    tables = [
        built(noise(48, 0.02, t), threads=t, arm=arm, metric=m)
        for t in (1, 4, 16, 64)
        for arm in ("on", "off again")
        for m in ("tps", "p95", "cpu_per_transaction")
    ]
    tidy = joined(*tables)
    stats.table(tidy)
    began = time.process_time()
    stats.table(tidy, budget_pairs=60, pair_seconds=10)
    assert len(tidy) > 2000
    assert time.process_time() - began < 0.5  # 0.1 on an idle machine


def test_no_verdict_from_fewer_starts_than_it_needs():
    tidy = built(0.2 + noise(12), block_pairs=6)
    few, enough = (stats.table(tidy, starts=n).iloc[0] for n in (4, 2))
    assert enough.verdict == "slower"
    assert few.verdict == "cannot tell"
    assert not few.settled
    assert any("2 of the 4 server starts" in w for w in few.warnings)
