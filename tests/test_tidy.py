"""A recorded smoke campaign as tables, and what happens when it is damaged."""

import json

import pandas as pd
import pytest

from noisefloor import studies, study, tidy

ARM = "in-memory-t2-encrypted-p001"


def runs_of(folder, pair=ARM):
    return sorted(folder.glob(f"{pair}-*"))


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_one_row_a_run_and_metric(recorded):
    table = tidy.table(recorded)
    assert list(table.columns) == tidy.COLUMNS
    assert str(table["threads"].dtype) == "Int64"
    assert table["warmup"].dtype == bool
    assert table.attrs == {"design": "switched", "problems": []}
    runs = [p.parent.name for p in recorded.glob("*/run.json")]
    assert sorted(table["run"].unique()) == sorted(runs)
    assert not table.duplicated(["run", "metric"]).any()
    metrics = set(studies.load("binlog-encryption").workloads[0].metrics)
    metrics.remove("p99")  # these runs are too short for it
    for _, part in table.groupby("run"):
        assert metrics <= set(part["metric"])
    for metric, part in table.groupby("metric"):
        assert set(part["unit"]) == {study.METRICS[metric].unit}
        assert (part["value"] > 0).all() or metric == "steal"


def test_a_pair_holds_one_run_of_each_arm_in_both_positions(recorded):
    table = tidy.table(recorded)
    judged = table[~table["warmup"] & (table["metric"] == "tps")]
    assert judged["pair_id"].nunique() == 4
    for _, pair in judged.groupby("pair_id"):
        assert sorted(pair["position"]) == [0, 1]
        assert "plain" in set(pair["arm"])
        assert pair["arm"].nunique() == 2
        assert pair["block"].nunique() == 1
    assert len(table[table["warmup"]]["run"].unique()) == 2


def test_values_are_what_sysbench_printed_and_the_process_used(recorded):
    run = runs_of(recorded)[0]
    facts = json.loads((run / "run.json").read_text())
    text = (run / "sysbench.txt").read_text()
    found = {r["metric"]: r["value"] for r in tidy.rows(run)}
    n = int(text.split("transactions:")[1].split()[0])
    printed = float(text.split("transactions:")[1].split("(")[1].split()[0])
    seconds = float(text.split("total time:")[1].split("s")[0])
    assert found["tps"] == n / seconds
    assert found["tps"] == pytest.approx(printed, rel=2e-3)  # its clock starts a little earlier
    assert found["cpu_per_transaction"] == facts["usage"]["server"]["cpu_s"] / n
    assert found["binlog_bytes_per_transaction"] == facts["usage"]["server"]["binlog_B"] / n
    assert found["mean_latency"] < found["p95"] < found["max_latency"] * 1.05
    assert found["steal"] == facts["steal_s"] / facts["slice_s"]
    assert found["max_latency"] == float(text.split("max:")[1].split()[0]) / 1e3


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sysbench.txt", "evidence.json", "variables.json"])
def test_an_edited_file_is_named_and_its_pair_not_judged(recorded, name):
    run = runs_of(recorded)[0]
    text = (run / name).read_text()
    (run / name).write_text(text.replace("1", "2", 1) if "1" in text else text + " ")
    table = tidy.table(recorded)
    assert ARM not in set(table["pair_id"])
    assert table.attrs["problems"] == [
        f"{run.name}: {run.name}/{name} was changed after the run (its sha256 differs)",
        f"{ARM}: only one run of the pair is whole; not judged",
    ]
    assert run.name not in set(tidy.runs(recorded)["run"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda run: (run / "run.json").write_text("{"),
        lambda run: (run / "run.json").write_text("[]"),
        lambda run: (run / "run.json").write_text("{}"),
        lambda run: (run / "run.json").write_bytes(b"\xff\xfe\0"),
        lambda run: (run / "sysbench.txt").unlink(),
        lambda run: change(run / "run.json", format=0),
    ],
    ids=["cut", "a list", "empty", "binary", "missing text", "older format"],
)
def test_a_damaged_run_is_one_sentence(recorded, damage):
    run = runs_of(recorded)[0]
    damage(run)
    table = tidy.table(recorded)
    assert ARM not in set(table["pair_id"])
    first, second = table.attrs["problems"]
    assert first.startswith(f"{run.name}: {run.name} cannot be read (")
    assert "\n" not in first
    assert second == f"{ARM}: only one run of the pair is whole; not judged"
    for reads in (tidy.runs, tidy.intervals, tidy.evidence, tidy.variables, tidy.differences):
        assert len(reads(recorded))


def test_a_run_without_its_partner_is_not_judged(recorded):
    empty = runs_of(recorded)[0]
    for path in empty.iterdir():
        path.unlink()
    table = tidy.table(recorded)
    assert ARM not in set(table["pair_id"])
    assert table.attrs["problems"] == [
        f"{ARM}: only one run of the pair is whole; not judged",
        f"{empty.name}: it has no run.json; not judged",
    ]


def test_what_failed_is_kept_and_not_judged(recorded):
    for run, why in zip(runs_of(recorded), ("failed1", "unpaired1"), strict=True):
        run.rename(run.with_name(f"{run.name}.{why}"))
    other = runs_of(recorded, "in-memory-t2-encrypted-p002")[0]
    other.rename(other.with_name(f"{other.name}.partial"))
    table = tidy.table(recorded)
    assert table[~table["warmup"]]["pair_id"].nunique() == 2
    assert len(table.attrs["problems"]) == 3
    assert not any("partial" in p for p in table.attrs["problems"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "campaign/campaign.json cannot be read"),
        ("[1]", "campaign/campaign.json cannot be read"),
        ('{"format": 99}', "has format 99; this version reads 1"),
        (None, "campaign/campaign.json cannot be read"),
    ],
)
def test_a_damaged_campaign_is_one_sentence(recorded, text, message):
    path = recorded / "campaign.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(tidy.Damaged, match=message):
        tidy.table(recorded)


def test_a_campaign_without_runs_is_an_empty_table(recorded):
    for path in recorded.glob("*/*"):
        path.unlink()
    assert tidy.table(recorded).empty
    assert list(tidy.runs(recorded)["warmup"]) == []
    assert tidy.intervals(recorded).empty
    assert tidy.variables(recorded) == {}


def facts(**changes):
    found = {"workload_tool": "sysbench", "slice_s": 1, "threads": 2, "usage": {"server": {}}}
    return found | changes


@pytest.mark.parametrize(
    ("q", "transactions", "threads", "told"),
    [
        (0.95, 200, 1, True),
        (0.95, 199, 1, False),
        (0.99, 1000, 4, True),
        (0.99, 999, 4, False),
        (0.95, 3840, 128, True),  # 30 a client
        (0.95, 3839, 128, False),
        (0.5, 119, 4, False),
    ],
)
def test_a_quantile_needs_enough_transactions(q, transactions, threads, told):
    assert tidy.counts_for(q, transactions, threads) == told


def test_a_run_too_short_for_a_percentile_has_none(recorded):
    run = runs_of(recorded)[0]
    n = tidy.sysbench(run)["transactions"]
    found = tidy.metrics(facts(), run)
    assert ("p95" in found, "p99" in found) == (n >= 200, n >= 1000)
    assert not {"p95", "p99"} & tidy.metrics(facts(threads=n // 29), run).keys()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reconnects:                          0", "reconnects:  3", "3 reconnects"),
        ("ignored errors:                      0", "ignored errors:  90", "90 errors in "),
    ],
)
def test_a_whole_result_that_must_not_be_averaged_in(recorded, old, new, message):
    run = runs_of(recorded)[0]
    text = (run / "sysbench.txt").read_text()
    assert old in text
    (run / "sysbench.txt").write_text(text.replace(old, new))
    with pytest.raises(tidy.Unusable, match=message):
        tidy.metrics(facts(), run)


def test_a_run_that_ended_early_must_not_be_averaged_in(recorded):
    with pytest.raises(tidy.Unusable, match=r"ended after 1\.\d+ of 3 s"):
        tidy.metrics(facts(slice_s=3), runs_of(recorded)[0])


# -- other tables ----------------------------------------------------------------------------------


def test_seconds_of_all_runs_on_one_clock(recorded):
    found = tidy.intervals(recorded)
    columns = {"run", "block", "arm", "workload", "threads", "warmup", "start_s", "t_s", "tps"}
    assert columns <= set(found.columns)
    assert found["start_s"].min() == 0
    assert found["run"].nunique() == 10
    assert tidy.intervals(recorded, "another").empty


def test_quantiles_of_both_arms(recorded):
    found = tidy.quantiles(recorded, "in memory", 2)
    assert set(found["arm"]) == {"plain", "encrypted", "plain again"}
    for _, arm in found.groupby("arm"):
        assert tuple(arm["q"]) == tuple(q for q in tidy.QUANTILES if q <= arm["q"].max())
        assert arm["q"].max() >= 0.95
        assert arm["value_s"].is_monotonic_increasing
        assert (arm["lo"] <= arm["value_s"]).all()
        assert (arm["value_s"] <= arm["hi"]).all()


def test_evidence_is_counted_over_runs(recorded):
    found = tidy.evidence(recorded)
    assert (found["found"] == found["expected"]).all()
    by_arm = found.groupby("arm")["runs"].sum()
    assert by_arm.to_dict() == {"plain": 18, "encrypted": 9, "plain again": 3}
    assert found[found["arm"] == "encrypted"]["check"].nunique() == 3


def test_the_variable_that_was_asked_for_is_the_only_one_that_differs(recorded):
    found = tidy.differences(recorded).set_index("variable")
    assert list(found.index) == ["binlog_encryption"]
    row = found.loc["binlog_encryption"]
    assert (row["plain"], row["encrypted"], row["plain again"]) == ("OFF", "ON", "OFF")
    assert row["asked"]


def test_a_difference_that_nobody_asked_for_is_shown(recorded):
    run = next(recorded.glob("*plain-again-p000-*-plain-again"))
    file = recorded / json.loads((run / "variables.json").read_text())["file"]
    other = recorded / "variables-of-encrypted.json"
    pointer = next(recorded.glob("*encrypted-p000-*-encrypted")) / "variables.json"
    kept = json.loads((recorded / json.loads(pointer.read_text())["file"]).read_text())
    other.write_text(json.dumps(kept | {"sync_binlog": "0", "datadir": "/elsewhere"}))
    for run in recorded.glob("*encrypted-p*-encrypted"):
        (run / "variables.json").write_text(json.dumps({"file": other.name}))
        digest = tidy.sha256(run / "variables.json")
        found = json.loads((run / "run.json").read_text())
        change(run / "run.json", sha256=found["sha256"] | {"variables.json": digest})
    assert file.exists()
    found = tidy.differences(recorded).set_index("variable")["asked"].to_dict()
    assert found == {"binlog_encryption": True, "sync_binlog": False}


def test_one_row_a_run(recorded):
    found = tidy.runs(recorded)
    assert len(found) == 10
    assert found["start"].is_monotonic_increasing
    assert pd.isna(found["steal_s"]).sum() == 0


def test_what_can_be_pinned_is_a_default_and_not_a_place():
    old = {"gtid_mode": "OFF", "datadir": "/a/", "version": "8", "innodb_adaptive_hash_index": "ON"}
    old |= {"only_old": "1", "same": "x", "innodb_buffer_pool_in_core_file": "ON", "basedir": "/a"}
    new = {"gtid_mode": "ON", "datadir": "/b/", "version": "9", "innodb_adaptive_hash_index": "OFF"}
    new |= {"only_new": "1", "same": "x", "innodb_buffer_pool_in_core_file": "OFF", "basedir": "/b"}
    assert tidy.pinnable(old, new) == {
        "gtid_mode": "OFF",
        "innodb_adaptive_hash_index": "ON",
        "innodb_buffer_pool_in_core_file": "ON",
    }


def test_a_percentile_that_some_runs_lack_is_told_of_none(recorded):
    """Those that lack it are the slower ones: the others' median would be too good."""
    rows = tidy.table(recorded)
    assert "p95" in set(rows["metric"])
    one = rows[(rows["metric"] == "p95") & ~rows["warmup"]].index[0]
    found = tidy._percentiles(rows.drop(index=one))
    assert "p95" not in set(found["metric"])
    assert len(found) == len(rows) - (rows["metric"] == "p95").sum()
