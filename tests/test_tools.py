"""Measuring tools on real servers: restart, recovery, warm-up, an upgrade of a data directory."""

import json
import os
import re
import signal
import threading
import time
from dataclasses import replace

import pandas as pd
import psutil
import pytest

from noisefloor import engines, studies, study, tidy, tools
from noisefloor.server import ServerError, pin

STUDY = studies.load("tablespace-encryption", question="restart", profile="smoke")
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
    assert 1 <= found["checkpoint_age_B"] / (1e6 * RESTART.redo_mb) < 1.3
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


def test_every_crash_has_the_same_redo_to_recover(one, tmp_path):
    ages = []
    for n in range(3):
        (tmp_path / str(n)).mkdir()
        found = tools.restart(slice_of(one, tmp_path / str(n), seconds=0.5))
        ages.append(found["checkpoint_age_B"] / 1e6)
    assert max(ages) - min(ages) < 0.3 * RESTART.redo_mb


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


def test_a_cipher_is_timed_three_times():
    found = tools.cipher_rates({"name": "aes-256-ctr"})
    assert len(found) == 3
    assert min(found) > 1e7
    assert tools.cipher_rates({"name": "no-such-cipher"}) == []


def test_how_a_build_was_made_is_read_from_it(running):
    found = tools.built(running)
    assert found["release"]
    assert found["machine"]
    assert re.search(r"\blibc\.so", found["libraries"])
    assert "OpenSSL 3" in found["OpenSSL"] or "OpenSSL 1.1" in found["OpenSSL"]


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
    chosen = studies.load("version-upgrade", question="thread-pool", profile="smoke")
    chosen = replace(chosen, profile=replace(chosen.profile, rows=1_000))
    with copy(mysql, chosen.arms[-1].settings) as server:
        one = tools.Slice(chosen, server, chosen.arms[-1], chosen.workloads[0], 4, 1, tmp_path)
        found = tools.sysbench(one)
    assert found["pool"]["executed"] > 20
    assert found["pool"].keys() == {"executed", "queued", "stalled"}
    facts = found | {"workload_tool": "sysbench", "slice_s": 1, "threads": 4}
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


# -- connections that are made before the clock ----------------------------------------------------


def held(server, folder, threads=8, **changes) -> tools.Gated:
    """A sysbench on `server` that waits for its word."""
    work = replace(study.Workload("x", ""), **changes)
    chosen = replace(STUDY, profile=replace(STUDY.profile, rows=1_000))
    slice_ = tools.Slice(chosen, server, study.Arm("plain"), work, threads, 1, folder)
    argv = tools.load_argv(slice_, 1)
    return tools.Gated(argv, threads, folder / "gate", folder / "sysbench.txt")


def connections(server) -> int:
    return sum(r["User"] == "noisefloor" for r in server.query("SHOW PROCESSLIST"))


def test_connections_are_made_and_wait_for_the_word(running, tmp_path):
    gate = held(running, tmp_path)
    try:
        gate.connected()
        assert connections(running) >= 8
        done = running.status("Com_commit")["Com_commit"]
        time.sleep(0.5)
        assert running.status("Com_commit")["Com_commit"] == done  # nothing runs
        assert not gate.said(b"Threads started!")
        gate.go()
        assert gate.said(b"Threads started!")
        code, text, cpu = gate.wait(20)
    finally:
        gate.end()
    assert code == 0
    assert cpu > 0
    out = tidy.parse.sysbench(text)
    assert (out["threads"], out["ignored_errors"]) == (8, 0)
    assert out["transactions"] > 8
    assert 0.9 < out["duration_s"] < 2  # the clock began with the word
    assert (tmp_path / "sysbench.txt").read_text() == text
    assert not (tmp_path / "gate").exists()


def test_one_that_is_never_let_go_ends(running, tmp_path):
    gate = held(running, tmp_path)
    gate.connected()
    gate.end()
    assert not psutil.pid_exists(gate.process.pid)
    assert not (tmp_path / "gate").exists()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("no_such_script", "no_such_script"),
        ("broken.lua", "expected near"),
        ("refuses.lua", "not today"),
    ],
)
def test_a_wrong_script_is_what_it_says(one, tmp_path, script, says):
    (one.folder / "broken.lua").write_text("function event( return end\n")
    (one.folder / "refuses.lua").write_text(
        "function thread_init()\n   error('FATAL: not today')\nend\nfunction event() end\n"
    )
    where = str(one.folder / script) if script.endswith(".lua") else script
    gate = held(one, tmp_path, script=where, sized=False, options=())
    try:
        with pytest.raises(tools.ToolError, match=says):
            gate.connected()
    finally:
        gate.end()
    assert not (tmp_path / "gate").exists()


def test_a_script_of_ones_own_that_prints_the_password(one, tmp_path):
    """What it says when it fails is told without it."""
    script = one.folder / "tells.lua"
    script.write_text(
        "function thread_init()\n   error('FATAL: ' .. sysbench.opt.mysql_password)\nend\n"
        "function event() end\n"
    )
    password = (one.folder / "sysbench.cnf").read_text().split("mysql-password=")[1].split()[0]
    gate = held(one, tmp_path, threads=1, script=str(script), sized=False, options=())
    try:
        with pytest.raises(tools.ToolError) as e:
            gate.connected()
    finally:
        gate.end()
    assert "FATAL" in str(e.value)
    assert password not in str(e.value)


def test_its_server_is_killed_while_it_waits(mysql, copy, tmp_path):
    server = copy(mysql)
    server.start()
    gate = held(server, tmp_path)
    try:
        gate.connected()
        server.kill()
        gate.go()  # the threads do not know yet
        code, text, _ = gate.wait(20)
    finally:
        gate.end()
    assert code != 0
    assert "FATAL" in text


def test_one_that_is_killed_while_it_waits_is_not_let_go(running, tmp_path):
    gate = held(running, tmp_path)
    try:
        gate.connected()
        os.kill(gate.process.pid, signal.SIGKILL)
        with pytest.raises(tools.ToolError):
            gate.go()
    finally:
        gate.end()


def test_connections_that_are_not_made_in_time(one, tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "PATIENCE_S", 1)
    one.process.send_signal(signal.SIGSTOP)
    gate = held(one, tmp_path)
    try:
        with pytest.raises(tools.ToolError, match="8 connections took more than 1 s"):
            gate.connected()
    finally:
        gate.end()
        one.process.send_signal(signal.SIGCONT)


# -- two servers under load at once ----------------------------------------------------------------


def two(mysql, copy, tmp_path, **changes):
    """Slices of two running copies, each with a folder of its own."""
    work = replace(study.Workload("at once", "", at_once=True), **changes)
    chosen = replace(STUDY, profile=replace(STUDY.profile, rows=1_000))
    found = []
    for name in ("a", "b"):
        server = copy(mysql)
        server.start()
        (tmp_path / name).mkdir()
        arm = study.Arm(name)
        found.append(tools.Slice(chosen, server, arm, work, 2, 0.5, tmp_path / name))
    return found


def test_both_are_loaded_in_the_same_windows(mysql, copy, tmp_path):
    both = two(mysql, copy, tmp_path)
    results = tools.duet(both, tmp_path, 4, 0.5)
    edges = [pd.read_csv(tmp_path / n / "windows.csv") for n in ("a", "b")]
    for found, e, s in zip(results, edges, both, strict=True):
        assert found["exit_code"] == 0
        assert (found["windows"], found["window_s"]) == (4, 0.5)
        assert found["usage"]["server"]["cpu_s"] > 0
        assert not [a for a in found["argv"] if "/" in a]
        assert len(e) == 5
        windows = tidy.windows(s.folder)
        assert all(len(v) == 4 for v in windows.values())
        assert (windows["tps"] > 0).all()
        assert (windows["cpu_per_transaction"] > 0).all()
    apart = (edges[0]["t_s"] - edges[1]["t_s"]).abs()
    assert apart.max() < 0.25
    assert edges[0]["t_s"].diff().iloc[1:].between(0.3, 0.8).all()
    assert not list(tmp_path.glob("gate*"))


def test_a_load_that_cannot_run_ends_both(mysql, copy, tmp_path):
    both = two(mysql, copy, tmp_path, options=("--mysql-db=absent",))
    with pytest.raises(tools.ToolError, match="FATAL"):
        tools.duet(both, tmp_path, 3, 0.5)
    assert [p for p in psutil.Process().children() if p.name() == "sysbench"] == []
    assert not list(tmp_path.glob("gate*"))


def test_a_load_that_is_killed_leaves_an_exit_code(mysql, copy, tmp_path):
    both = two(mysql, copy, tmp_path)

    def kill():
        while not (found := [p for p in psutil.Process().children() if p.name() == "sysbench"]):
            time.sleep(0.02)
        time.sleep(1.2)
        found[0].kill()

    thread = threading.Thread(target=kill)
    thread.start()
    codes = sorted(r["exit_code"] for r in tools.duet(both, tmp_path, 4, 0.5))
    thread.join()
    assert codes == [-9, 0]


def test_a_window_without_a_transaction_must_not_be_judged(tmp_path):
    (tmp_path / "windows.csv").write_text(
        "t_s,transactions,cpu_s,written_B,read_B\n1.0,10,0.1,5,0\n2.0,20,0.2,9,0\n3.0,20,0.3,9,0\n"
    )
    with pytest.raises(tidy.Unusable, match="a window without a transaction"):
        tidy.windows(tmp_path)
    (tmp_path / "windows.csv").write_text(
        "t_s,transactions,cpu_s,written_B,read_B\n1.0,10,0.1,5,0\n"
    )
    with pytest.raises(tidy.Unusable):
        tidy.windows(tmp_path)


def test_a_profile_names_functions_of_the_server(one, tmp_path):
    """Needs perf (package linux-perf), and the right to sample."""
    chosen = studies.load("binlog-encryption", question="profile", profile="smoke")
    work = chosen.workloads[0]
    one.only(work.settings)
    found = tools.profile(tools.Slice(chosen, one, chosen.baseline, work, 2, 2, tmp_path))
    assert found["exit_code"] == 0
    rows = pd.read_csv(tmp_path / "perf.csv")
    assert rows["samples"].sum() > 200
    assert rows["function"].str.contains("row_|trx_|mtr_|fil_", regex=True).any()
    assert not (one.folder / "perf.data").exists()
