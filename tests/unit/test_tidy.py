"""A recorded smoke campaign as tables, and what happens when it is damaged."""

import json

import pytest

from noisefloor import model as study
from noisefloor import studies
from noisefloor.data import tidy

ARM = "in-memory-t2-encrypted-p001"
HALF = f"{ARM}: only one run of the pair is whole; not compared"
FACTS = {"workload_tool": "sysbench", "slice_s": 1, "threads": 2, "usage": {"server": {}}}


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def runs(recorded):
    """The two runs of the pair ARM."""
    return sorted(recorded.glob(f"{ARM}-*"))


def test_one_row_a_run_and_metric(recorded):
    table, problems, saturated = tidy.opened(recorded).tidy_runs
    assert list(table.columns) == tidy.COLUMNS
    assert str(table["threads"].dtype) == "Int64"
    assert table["warmup"].dtype == bool
    assert (problems, saturated) == ([], {})
    runs = [p.parent.name for p in recorded.glob("*/run.json")]
    assert sorted(table["run"].unique()) == sorted(runs)
    assert not table.duplicated(["run", "metric"]).any()
    metrics = set(studies.load(study.Request("binlog-encryption")).workloads[0].metrics)
    metrics.remove("p99")  # these runs are too short for it
    for _, part in table.groupby("run"):
        assert metrics <= set(part["metric"])
    for metric, part in table.groupby("metric"):
        assert set(part["unit"]) == {study.METRICS[metric].unit}
        assert (part["value"] > 0).all() or metric == "steal"
    judged = table[~table["warmup"] & (table["metric"] == "tps")]
    assert judged["pair_id"].nunique() == 4
    for _, pair in judged.groupby("pair_id"):  # one run of each arm, in both positions
        assert sorted(pair["position"]) == [0, 1]
        assert "plain" in set(pair["arm"])
        assert (pair["arm"].nunique(), pair["block"].nunique()) == (2, 1)
    assert len(table[table["warmup"]]["run"].unique()) == 2


def test_values_are_what_sysbench_printed_and_the_process_used(runs):
    run = runs[0]
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
def test_an_edited_file_is_named_and_its_pair_not_judged(recorded, runs, name):
    file = runs[0] / name
    text = file.read_text()
    file.write_text(text.replace("1", "2", 1) if "1" in text else text + " ")
    table, problems, _ = tidy.opened(recorded).tidy_runs
    run = runs[0].name
    assert ARM not in set(table["pair_id"])
    changed = f"{run}: {run}/{name} was changed after the run (its sha256 differs)"
    assert problems == [changed, HALF]
    assert run not in set(tidy.run_table(recorded)["run"])


@pytest.mark.parametrize("content", [b"{", b"[]", b"{}", b"\xff\xfe\0", b'{"format": 0}', None])
def test_a_damaged_run_is_one_sentence(recorded, runs, content):
    """Its run.json, or its text that is missing."""
    if content is None:
        (runs[0] / "sysbench.txt").unlink()
    else:
        (runs[0] / "run.json").write_bytes(content)
    table, problems, _ = tidy.opened(recorded).tidy_runs
    run, (first, second) = runs[0].name, problems
    assert ARM not in set(table["pair_id"])
    assert first.startswith(f"{run}: {run} cannot be read (")
    assert "\n" not in first
    assert second == HALF
    for reads in (tidy.run_table, tidy.intervals, tidy.evidence, tidy.variables, tidy.differences):
        assert len(reads(recorded))


def test_a_run_without_its_partner_is_not_judged(recorded, runs):
    for path in runs[0].iterdir():
        path.unlink()
    table, problems, _ = tidy.opened(recorded).tidy_runs
    assert ARM not in set(table["pair_id"])
    assert problems == [HALF, f"{runs[0].name}: it has no run.json; not compared"]


def test_what_failed_is_kept_and_not_judged(recorded, runs):
    other = next(recorded.glob("in-memory-t2-encrypted-p002-*"))
    for run, why in ((runs[0], "failed1"), (runs[1], "unpaired1"), (other, "partial")):
        run.rename(run.with_name(f"{run.name}.{why}"))
    table, problems, _ = tidy.opened(recorded).tidy_runs
    assert table[~table["warmup"]]["pair_id"].nunique() == 2
    assert len(problems) == 3
    assert not any("partial" in p for p in problems)


def test_a_campaign_without_runs_is_an_empty_table(recorded):
    for path in recorded.glob("*/*"):
        path.unlink()
    assert tidy.tidy_table(recorded).empty
    assert list(tidy.run_table(recorded)["warmup"]) == []
    assert tidy.intervals(recorded).empty
    assert tidy.variables(recorded) == {}


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


def test_a_run_too_short_for_a_percentile_has_none(runs):
    n = tidy.Run(runs[0]).sysbench["transactions"]
    found = tidy.metrics(FACTS, runs[0])
    assert ("p95" in found, "p99" in found) == (n >= 200, n >= 1000)
    assert not {"p95", "p99"} & tidy.metrics(FACTS | {"threads": n // 29}, runs[0]).keys()


def test_a_window_whose_queue_ran_full_is_saturated_and_its_text_is_not_read(recorded, runs):
    for run in runs:
        text = run / "sysbench.txt"
        text.write_text("FATAL: The event queue is full.\n")
        sums = json.loads((run / "run.json").read_text())["sha256"]
        change(run / "run.json", queue_full=True, sha256=sums | {text.name: tidy.sha256(text)})
    table, problems, saturated = tidy.opened(recorded).tidy_runs
    assert (problems, saturated) == ([], {"in memory": {"encrypted": [1, 1]}})
    names = {run.name for run in runs}
    assert set(table[table["run"].isin(names)]["metric"]) == {"saturated", "steal"}
    assert not names & set(tidy.intervals(recorded)["run"])
    assert len(tidy.quantiles(recorded, "in memory", 2))


def test_what_the_disk_counted_is_known_where_it_was_read(runs):
    n = tidy.Run(runs[0]).sysbench["transactions"]
    assert "disk_bytes_per_transaction" not in tidy.metrics(FACTS, runs[0])
    found = tidy.metrics(FACTS | {"disk_written_B": 4096 * n}, runs[0])
    assert found["disk_bytes_per_transaction"] == 4096


@pytest.mark.parametrize(
    ("old", "new", "seconds", "message"),
    [
        ("reconnects:                          0", "reconnects:  3", 1, "3 reconnects"),
        ("ignored errors:                      0", "ignored errors:  90", 1, "90 errors in "),
        ("SQL", "SQL", 3, r"ended after 1\.\d+ of 3 s"),
    ],
)
def test_a_whole_result_that_must_not_be_averaged_in(runs, old, new, seconds, message):
    text = (runs[0] / "sysbench.txt").read_text()
    assert old in text
    (runs[0] / "sysbench.txt").write_text(text.replace(old, new))
    with pytest.raises(tidy.Unusable, match=message):
        tidy.metrics(FACTS | {"slice_s": seconds}, runs[0])


def test_a_percentile_that_some_runs_lack_is_told_of_none(recorded):
    """Those that lack it are the slower ones: the others' median would be too good."""
    before = tidy.tidy_table(recorded)
    run = before.loc[before["metric"].eq("p95") & ~before["warmup"], "run"].iloc[0]
    text = recorded / run / "sysbench.txt"
    n = tidy.Run(recorded / run).sysbench["transactions"]
    change(recorded / run / "run.json", threads=2, sha256={})
    text.write_text(text.read_text().replace(f" {n} ", " 100 "))
    assert "p95" in set(before["metric"])
    assert "p95" not in set(tidy.tidy_table(recorded)["metric"])


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
        assert tuple(arm["q"]) == tuple(q for q in tidy.DRAWN if q <= arm["q"].max())
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


def test_variables_are_found_where_a_block_began_with_another_workload(recorded):
    meta = json.loads((recorded / "campaign.json").read_text())
    later = meta["workloads"][0] | {"name": "later"}
    change(recorded / "campaign.json", workloads=[later, *meta["workloads"]])
    assert list(tidy.differences(recorded)["variable"]) == ["binlog_encryption"]


def test_a_difference_that_nobody_asked_for_is_shown(recorded):
    pointer = next(recorded.glob("*encrypted-p000-*-encrypted")) / "variables.json"
    kept = json.loads((recorded / json.loads(pointer.read_text())["file"]).read_text())
    other = recorded / "variables-of-encrypted.json"
    other.write_text(json.dumps(kept | {"sync_binlog": "0", "datadir": "/elsewhere"}))
    for run in recorded.glob("*encrypted-p*-encrypted"):
        (run / "variables.json").write_text(json.dumps({"file": other.name}))
        found = json.loads((run / "run.json").read_text())["sha256"]
        found["variables.json"] = tidy.sha256(run / "variables.json")
        change(run / "run.json", sha256=found)
    found = tidy.differences(recorded).set_index("variable")["asked"].to_dict()
    assert found == {"binlog_encryption": True, "sync_binlog": False}


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        *((name, True) for name in ("hostname", "bind_address", "admin_address", "ssl_cert")),
        *((name, True) for name in ("secure_file_priv", "proxy_protocol_networks")),
        *((name, True) for name in ("group_replication_group_seeds", "wsrep_node_name")),
        *((name, False) for name in ("sync_binlog", "innodb_file_per_table", "sql_mode")),
    ],
)
def test_a_variable_may_name_its_machine(variable, named):
    assert tidy.names_machine(variable) == named
