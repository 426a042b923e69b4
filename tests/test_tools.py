"""Measuring tools on real servers: restart, recovery, warm-up, an upgrade of a data directory."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from noisefloor import engines, study, tidy, tools
from noisefloor.server import ServerError, pin

STUDY = study.load("tablespace-encryption", profile="smoke")
RESTART = STUDY.workload("restart")


def slice_of(server, folder, seconds=1.5, **changes):
    chosen = replace(STUDY, profile=replace(STUDY.profile, rows=1_000))
    arm = study.Arm("plain")
    return tools.Slice(chosen, server, arm, replace(RESTART, **changes), 2, seconds, folder)


def test_a_restart_is_measured_up_to_the_first_answer_both_times(own, tmp_path):
    pid = own.pid
    found = tools.restart(slice_of(own, tmp_path, settings={"sync_binlog": "0"}))
    assert own.pid != pid
    assert own.variables()["sync_binlog"] == "0"  # in force after the crash as well
    assert 0.05 < found["restart_s"] < 30
    assert 0.05 < found["recovery_s"] < 30
    assert found["checkpoint_age_B"] > 10_000
    assert found["data_B"] > 1e6
    assert found["exit_code"] == 0
    assert not [a for a in found["argv"] if "/" in a]
    rows = pd.read_csv(tmp_path / "throughput.csv")
    assert rows["t_s"].is_monotonic_increasing
    assert 1.5 <= rows["t_s"].max() < 3
    assert rows["tps"].median() > 10
    assert found["warmup_s"] in set(rows["t_s"].round(3))
    facts = json.loads(json.dumps(found)) | {"workload_tool": "restart"}
    assert tidy.metrics(facts, tmp_path).keys() >= set(RESTART.metrics)


@pytest.fixture
def one(mysql, copy):
    with copy(mysql) as server:
        yield server


def test_rows_committed_before_the_crash_are_there_after_it(one, tmp_path):
    one.query("INSERT INTO noisefloor.canary VALUES (77, 'kept')")
    tools.restart(slice_of(one, tmp_path, seconds=0.5))
    assert one.query("SELECT word FROM noisefloor.canary WHERE id = 77") == [{"word": "kept"}]


def test_a_load_that_cannot_run_fails_the_run_and_leaves_a_server(one, tmp_path):
    with pytest.raises(tools.ToolError, match="FATAL"):
        tools.restart(slice_of(one, tmp_path, seconds=1.0, options=("--mysql-db=absent",)))
    assert one.query("SELECT 1 AS one") == [{"one": 1}]


def test_a_copy_opened_by_the_same_build_keeps_its_checksums(mysql, shop):
    found = tools.upgrade(mysql, mysql.engine, shop)
    assert found["checksums"] == "equal"
    assert 0.05 < found["took_s"] < 60
    assert not (shop / "before").exists()
    assert not (shop / "after").exists()


def test_a_build_that_refuses_the_data_directory_is_quoted(shop, mysql):
    try:
        older = engines.find("mysql-8.0", fetch=False)
    except engines.EngineMissing as e:
        pytest.skip(str(e))
    found = tools.upgrade(mysql, older, shop)  # backwards: no version allows it
    assert found["took_s"] is None
    assert found["refused"]
    assert [s for s in found["said"] if s.startswith("[ERROR]")]
    assert not [s for s in found["said"] if str(shop) in s]


def test_pool_counters_are_kept_with_a_run(mysql, copy, tmp_path):
    chosen = study.load("version-upgrade", profile="smoke")
    chosen = replace(chosen, profile=replace(chosen.profile, rows=1_000))
    with copy(mysql, chosen.arms[-1].settings) as server:
        one = tools.Slice(chosen, server, chosen.arms[-1], chosen.workloads[0], 4, 1, tmp_path)
        found = tools.sysbench(one)
    assert found["pool"]["executed"] > 20
    assert found["pool"].keys() == {"executed", "queued", "stalled"}
    facts = found | {"workload_tool": "sysbench", "slice_s": 1}
    assert tidy.metrics(facts, tmp_path)["queued"] >= 0


def test_a_pinned_value_that_a_build_refuses_is_left_out_with_its_reason(mysql, shop):
    wanted = {"innodb_io_capacity": "300", "innodb_purge_threads": "999"}
    kept, refused = pin(mysql, shop / "pin", wanted)
    assert kept == {"innodb_io_capacity": "300"}
    assert refused == {"innodb_purge_threads": "innodb_purge_threads: wanted 999, got 32"}


def test_a_server_that_cannot_start_for_another_reason_is_an_error(mysql, shop):
    broken = mysql.copy(shop / "broken")
    (broken.datadir / "mysql.ibd").write_bytes(b"no tablespace")
    with pytest.raises(ServerError):
        pin(broken, shop / "pin", {"innodb_io_capacity": "300"})
    broken.remove()
