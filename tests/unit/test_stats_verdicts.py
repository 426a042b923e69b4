"""From tidy table to verdict table, on the real A/A sessions and on built ones."""

import math
import time

import numpy as np
import pandas as pd
import pytest

from conftest import DATA
from noisefloor import stats


def session(name, design):
    """A recorded A/A session of two identical MySQL 9.7 servers as a tidy table."""
    csv = pd.read_csv(DATA / "aa-mysql97" / f"{name}.csv")
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


def first(tidy, **given):
    """The first row of the verdict table; the joint one where there is one."""
    found = stats.table(tidy, **given)
    return (found[found["joint"]] if found["joint"].any() else found).iloc[0]


def warned(row, text):
    return any(text in w for w in row["warnings"])


def width(row):
    return row["hi_pct"] - row["lo_pct"]


@pytest.mark.parametrize("design", ["side by side", "switched"])
@pytest.mark.parametrize("name", ["one-start", "blocks"])
def test_identical_servers_are_not_called_different(name, design):
    verdicts = stats.table(session(name, design))
    assert len(verdicts) == 2
    assert set(verdicts["verdict"]) <= {"cannot tell", "same"}


def test_pairs_of_one_start_are_less_sure_where_nobody_says_how_they_were_dealt():
    """Two identical servers, p = 0.013 for TPS by the pairs alone."""
    unsure, sure = (stats.table(session("one-start", None), restarts=r) for r in (False, True))
    tps = unsure["metric"].eq("tps")
    assert sure.loc[tps, "verdict"].item() == "faster"
    assert unsure.loc[tps, "verdict"].item() == "cannot tell"
    assert (unsure["p"] > 2 * sure["p"]).all()
    assert warned(unsure.iloc[0], "start-to-start CV")


def test_one_start_of_two_servers_is_one_unit():
    row = first(session("one-start", "side by side"))
    assert row["verdict"] == "cannot tell"
    assert math.isnan(row["noise_floor_pct"])
    assert warned(row, "one block")


@pytest.mark.parametrize(
    ("metric", "worse"), [("tps", -1), ("cpu_per_transaction", 1), ("p95", 1), ("apply_rate", -1)]
)
def test_positive_always_means_worse(metric, worse):
    row = first(built(0.1 + noise(40), metric=metric), blocks=10)
    assert row["overhead_pct"] * -worse > 8
    assert row["verdict"] == ("slower" if worse < 0 else "faster")
    assert row["lo_pct"] * row["hi_pct"] > 0


@pytest.mark.parametrize("design", ["switched", "side by side", "duet"])
@pytest.mark.parametrize(
    ("overheads", "verdict"),
    [
        (0.10 + noise(40), "slower"),
        (-0.10 + noise(40), "faster"),
        (noise(40, 0.005), "same"),
        (0.01 + noise(40, 0.005), "same"),  # wins where both hold
        (noise(40, 0.10), "cannot tell"),
        (0.10 + noise(12), "cannot tell"),  # the signs of three blocks cannot reach any level
        ([0.0] * 40, "same"),
        ([0.10] * 40, "slower"),
    ],
)
def test_the_block_is_the_unit_in_every_design(overheads, verdict, design):
    row = first(built(overheads, design=design), blocks=10)
    assert row["verdict"] == verdict
    assert row["blocks"] <= 10
    if verdict in ("slower", "faster"):
        assert row["lo_pct"] * row["hi_pct"] > 0
        assert row["p"] <= row["level"]
    if verdict == "same":
        assert -2 < row["same_lo_pct"] <= row["same_hi_pct"] < 2


def test_starts_that_differ_widen_the_interval():
    starts = np.repeat([0.10, 0.00, 0.12, -0.01, 0.09, 0.01, 0.11, 0.0], 4)
    assert first(built(0.05 + noise(32)), blocks=8)["verdict"] == "slower"
    assert first(built(starts + noise(32)), blocks=8)["verdict"] == "cannot tell"


def test_the_last_block_counts_when_it_has_as_many_pairs_as_the_first():
    whole, cut = (first(built(0.1 + noise(n)), blocks=10) for n in (40, 38))
    assert (whole["blocks"], whole["n_arm"]) == (8, 32)  # decided at the second look
    assert cut["blocks"] == 8
    few = first(built(noise(38, 0.05)), blocks=10)
    assert (few["blocks"], few["n_arm"]) == (9, 36)
    assert warned(few, "9 of 10 declared blocks")


def test_a_campaign_of_an_earlier_plan_says_so():
    assert warned(first(built(noise(40, 0.05))), "earlier plan")
    assert not warned(first(built(noise(40)), blocks=10), "earlier")


def test_a_family_has_one_headline_and_its_thread_counts():
    tables = [built(0.1 + noise(48, 0.02, t), threads=t) for t in (16, 1, 4)]
    verdicts = stats.table(joined(*tables), blocks=12)
    single, joint = verdicts[~verdicts["joint"]], verdicts[verdicts["joint"]]
    assert single["threads"].tolist() == [1, 4, 16]
    assert joint["threads"].isna().all()
    assert joint["level"].iloc[0] < 0.04
    assert set(verdicts["verdict"]) == {"slower"}
    assert width(joint.iloc[0]) < width(single).mean()


def test_weights_are_declared_and_told():
    tidy = joined(built(noise(48, 0.01), threads=1), built(noise(48, 0.2, 1), threads=64))
    weights = {("w", "tps"): {1: 1 / 0.01**2, 64: 1 / 0.2**2}}
    even, heavy = (first(tidy, blocks=12, weights=w) for w in (None, weights))
    assert width(heavy) < 0.3 * width(even)
    assert warned(heavy, "1: 100 %")
    assert warned(even, "weighted equally")


def test_opposite_effects_are_not_averaged_in_silence():
    tidy = joined(built(0.1 + noise(48), threads=1), built(-0.1 + noise(48, 0.01, 1), threads=64))
    assert warned(first(tidy, blocks=12), "opposite effects")


@pytest.mark.parametrize(("sd", "word"), [(0.001, "same"), (0.2, "cannot tell")])
def test_a_joint_effect_without_a_direction_names_the_thread_counts_that_have_one(sd, word):
    rest = [built(noise(48, sd, t), threads=t) for t in (1, 4, 16)]
    clear = built(0.05 + noise(48, 0.001, 9), threads=64)
    weights = {("w", "tps"): {1: 1.0, 4: 1.0, 16: 1.0, 64: 0.02}}
    found = first(joined(*rest, clear), blocks=12, weights=weights)
    assert found["verdict"] == word
    assert warned(found, "(slower at 64)")
    assert warned(found, "one by one")


def test_the_control_is_a_family_of_its_own():
    tidy = joined(built(0.1 + noise(48)), built(noise(48, 0.02, 1), arm="off again"))
    tidy.attrs = {"design": "switched"}  # the baseline is found by its copy
    verdicts = stats.table(tidy, blocks=12).set_index("arm")
    assert verdicts["control"].to_dict() == {"on": False, "off again": True}
    assert verdicts["verdict"]["on"] == "slower"
    assert verdicts["level"]["on"] == first(built(0.1 + noise(48)), blocks=12)["level"]


def test_a_server_that_is_never_restarted_carries_the_scatter_of_starts():
    tidy = built(0.02 + noise(40, 0.004))
    floor = {"tps": {"cv_pct": 0.7, "df": 3}}
    free = first(tidy, blocks=10)
    guest = first(tidy, blocks=10, floor=floor, one_start="as recorded")
    assert (free["verdict"], guest["verdict"]) == ("slower", "cannot tell")
    assert width(guest) > 2 * width(free)
    assert warned(guest, "was not restarted")


def test_warmup_half_pairs_maxima_and_missing_values_are_left_out():
    tidy = built(0.1 + noise(12))
    warm = tidy.assign(warmup=True, value=1.0, pair_id="w")
    half = tidy[(tidy.pair == 3) & (tidy.arm == "on")].assign(pair_id="alone")
    maximum = tidy.assign(metric="max_latency")
    lost = tidy[tidy.pair == 5].assign(pair_id="zero", value=0.0)
    got = stats.table(joined(tidy, warm, half, maximum, lost))
    assert got.metric.tolist() == ["tps"]
    assert got.n_arm.tolist() == [12]
    assert warned(got.iloc[0], "1 pairs left out")


def test_pairs_of_two_campaigns_do_not_mix():
    tidy = built(0.1 + noise(8))
    other = tidy.assign(campaign="later", pair=tidy.pair + 8, block=tidy.block + 2)
    assert len(stats.pairs(joined(tidy, other))) == 16


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"margin_pct": 0}, "margin 0"),
        ({"margin_pct": math.nan}, "margin nan"),
        ({"baseline": "x"}, "'x' is not an arm"),
        ({"rows": 0}, "no rows"),
        ({"attrs": {}}, "which arm is the baseline: off, on"),
    ],
)
def test_refusals(given, says):
    tidy = built([0.1] * 8)
    tidy.attrs = given.pop("attrs", tidy.attrs)
    with pytest.raises(ValueError, match=says):
        stats.table(tidy.iloc[: given.pop("rows", 16)], **given)


def test_carry_over_and_bucket_are_warnings():
    assert warned(first(built(0.1 + noise(12)).assign(carry_over=0.05)), "carry-over")
    close = built(-0.012 + noise(48, 0.002), metric="p95")
    row = first(close, margin_pct=0.5, blocks=12)
    assert row["verdict"] == "cannot tell"
    assert "bucket" in row["warnings"][0]


def test_what_would_settle_it_is_more_than_there_was():
    row = first(built(0.005 + noise(48, 0.06, 2)), pair_seconds=30, blocks=12)
    assert row["verdict"] == "cannot tell"
    assert row["known"].startswith("at most")
    assert row["runs_needed"] > 48
    assert row["minutes_needed"] == pytest.approx(row["runs_needed"] / 2)


@pytest.mark.parametrize("design", ["switched", "side by side", "duet"])
def test_path_ends_where_the_table_is(design):
    tidy = built(0.01 + noise(40, 0.03, 4), design=design)
    row = first(tidy, blocks=10)
    path = stats.path(stats.pairs(tidy), level=row["level"])
    assert len(path) == 10
    last, ends = path.iloc[row["blocks"] - 1], ["overhead_pct", "lo_pct", "hi_pct"]
    assert last["n"] == row["n_arm"]
    assert last[ends].tolist() == pytest.approx(row[ends].tolist())


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
    tidy = pd.DataFrame(cells).assign(metric="tps", study="s", warmup=False, duration_s=60.0)
    tidy.attrs = {"baseline": "before"}
    return tidy


def test_unpaired_runs():
    verdicts = stats.table(unpaired())
    assert verdicts["verdict"].tolist() == ["slower"] * 3
    assert verdicts["joint"].tolist() == [False, False, True]
    assert verdicts["design"].tolist() == ["unpaired"] * 3
    narrow = stats.table(unpaired(), restarts=True)
    assert (narrow["noise_floor_pct"] < verdicts["noise_floor_pct"]).all()


def test_many_runs_are_grouped_at_once():
    tidy = unpaired(170)
    began = time.process_time()
    verdicts = stats.table(tidy)
    assert len(tidy) > 4000
    assert len(verdicts) == 3 * 170
    assert time.process_time() - began < 5


def test_fast_enough_to_run_at_every_look():
    tables = [
        built(noise(48, 0.02, t), threads=t, arm=arm, metric=m)
        for t in (1, 4, 16, 64)
        for arm in ("on", "off again")
        for m in ("tps", "p95", "cpu_per_transaction")
    ]
    tidy = joined(*tables)
    stats.table(tidy, blocks=12)
    began = time.process_time()
    stats.table(tidy, blocks=12, pair_seconds=10)
    assert len(tidy) > 2000
    assert time.process_time() - began < 1  # 0.2 on an idle machine


# -- what the host takes away ----------------------------------------------------------------------


def stolen(effect, slope, blocks=10, each=3, seed=0):
    """Pairs whose runs lose `slope` times what the host takes of them, and the arm's `effect`."""
    draw, rows = np.random.default_rng(seed), []
    for i in range(blocks * each):
        for name, cost in (("off", 0.0), ("on", effect)):
            steal = min(draw.pareto(1.5) * 0.05, 1.0)
            value = 1000 * math.exp(-cost - slope * steal - draw.normal(0, 0.01))
            both = {"block": i // each, "pair": i, "arm": name, "pair_id": str(i)}
            both["run"] = f"{i}{name}"
            rows += [both | {"metric": "tps", "value": value}]
            rows += [both | {"metric": "steal", "value": steal}]
    table = pd.DataFrame(rows).assign(
        study="s", campaign="c", workload="w", threads=4, position=0, unit="", warmup=False
    )
    table.attrs = {"design": "switched", "baseline": "off"}
    return table


def test_levelled_for_what_the_host_takes_the_effect_is_found():
    tidy = stolen(0.03, 1.2)
    raw, levelled = (first(tidy, blocks=10, looks=(6, 8, 10), levelled=on) for on in (False, True))
    assert (raw["verdict"], levelled["verdict"]) == ("cannot tell", "slower")
    assert levelled["lo_pct"] < 100 * math.expm1(0.03) < levelled["hi_pct"]
    assert width(levelled) < width(raw) / 4
    found = stats.pairs(tidy, levelled=True)
    assert (found["raw"] == stats.pairs(tidy)["overhead"]).all()
    assert found["overhead"].std() < 0.02 < found["raw"].std()


def test_levelling_tells_where_the_estimate_would_be_without():
    tidy = stolen(0.0, 1.2, seed=3)
    tidy.loc[(tidy["metric"] == "steal") & (tidy["arm"] == "on"), "value"] += 0.2  # by chance
    tidy.loc[(tidy["metric"] == "tps") & (tidy["arm"] == "on"), "value"] *= math.exp(-0.24)
    raw, row = (first(tidy, blocks=10, looks=(10,), levelled=on) for on in (False, True))
    assert abs(row["overhead_pct"]) < 2
    assert warned(row, f"{raw['overhead_pct']:+.1f} % without")


@pytest.mark.parametrize("case", ["no steal", "one pair a block", "not known"])
def test_where_there_is_nothing_to_level_by_nothing_changes(case):
    tidy = stolen(0.03, 1.2, each=1 if case == "one pair a block" else 3)
    if case == "no steal":
        tidy.loc[tidy["metric"] == "steal", "value"] = 0.0
    if case == "not known":
        tidy = tidy[tidy["metric"] != "steal"]
    found = stats.pairs(tidy, levelled=True)
    assert (found["overhead"] == found["raw"]).all()
