"""Measuring tools on real servers: restart, recovery, warm-up, an upgrade of a data directory."""

import json
import os
import re
import signal
import time
from dataclasses import replace

import pandas as pd
import psutil
import pytest

from conftest import mostly, until
from noisefloor import model as study
from noisefloor import parse, studies
from noisefloor.data import tidy
from noisefloor.measure import child, loading, tools
from noisefloor.servers import engines

STUDY = studies.load(study.Request("tablespace-encryption", "restart", profile="smoke"))
STUDY = replace(STUDY, profile=replace(STUDY.profile, rows=1_000))
RESTART, PLAIN = STUDY.workload("restart"), study.Arm("plain")


@pytest.fixture
def one(mysql, copy):
    with copy(mysql) as server:
        yield server


def sysbenches() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if p.name() == "sysbench"]


# -- restarts --------------------------------------------------------------------------------------


def restarted(server, folder, seconds=0.5, **changes) -> dict:
    folder.mkdir(exist_ok=True)
    work = replace(RESTART, **changes)
    return tools.restart(tools.Slice(STUDY, server, PLAIN, work, 2, seconds, folder))


def test_a_restart_is_measured_up_to_the_first_answer_both_times(own, tmp_path):
    own.query("INSERT INTO noisefloor.canary VALUES (77, 'kept')")
    pid = own.pid
    found = restarted(own, tmp_path, 1.5, settings={"sync_binlog": "0"})
    assert own.pid != pid
    assert own.query("SELECT word FROM noisefloor.canary WHERE id = 77") == [{"word": "kept"}]
    assert own.variables()["sync_binlog"] == "0"  # in force after the crash as well
    assert 0.05 < found["restart_s"] < 30
    assert 0.05 < found["recovery_s"] < 30
    assert 1 <= found["checkpoint_age_B"] / (1e6 * RESTART.redo_mb) < 1.3
    assert found["data_B"] > 1e6
    assert found["slice_s"] >= sum(found[k] for k in ("recovery_s", "stop_s", "restart_s")) + 1.5
    assert found["exit_code"] == 0
    assert found["steal_s"] >= 0
    assert not [a for a in found["argv"] if "/" in a]
    rows = pd.read_csv(tmp_path / "throughput.csv")
    assert rows["t_s"].is_monotonic_increasing
    assert 1.5 <= rows["t_s"].max() < 3
    assert rows["tps"].median() > 10
    assert found["warmup_s"] in set(rows["t_s"].round(3))
    facts = json.loads(json.dumps(found)) | {"workload_tool": "restart"}
    assert tidy.metrics(facts, tmp_path).keys() >= set(RESTART.metrics)


@pytest.mark.slow
def test_every_crash_has_the_same_redo_to_recover(one, tmp_path):
    ages = [restarted(one, tmp_path / str(n))["checkpoint_age_B"] / 1e6 for n in range(3)]
    assert max(ages) - min(ages) < 0.3 * RESTART.redo_mb
    # a load that cannot run fails the run, and leaves a server
    with pytest.raises(tools.ToolError, match="FATAL"):
        restarted(one, tmp_path / "absent", options=("--mysql-db=absent",))
    assert one.query("SELECT 1 AS one") == [{"one": 1}]


# -- what is found out once ------------------------------------------------------------------------


@pytest.mark.slow
@mostly("mariadb")
def test_a_copy_opened_by_the_same_build_keeps_its_checksums(template, shop):
    found = loading.upgrade(template, template.engine, shop)
    assert found["checksums"] == "equal"
    assert 0.05 < found["took_s"] < 60
    assert not (shop / "before").exists()
    assert not (shop / "after").exists()


@pytest.mark.slow
def test_a_build_that_refuses_the_data_directory_is_quoted(shop, mysql):
    try:
        older = engines.find("mysql-8.0", fetch=False)
    except engines.EngineMissing as e:
        pytest.skip(str(e))
    found = loading.upgrade(mysql, older, shop)  # backwards: no version allows it
    assert found["took_s"] is None
    assert found["refused"]
    assert [s for s in found["said"] if s.startswith("[ERROR]")]
    assert not [s for s in found["said"] if str(shop) in s]


@mostly("mysql")
def test_a_cipher_is_timed_three_times_with_the_library_of_the_server(running):
    found = loading.cipher_rates({"name": "aes-256-ctr"}, running.engine)
    assert len(found) == 3
    assert min(found) > 1e7
    assert loading.cipher_rates({"name": "no-such-cipher"}, running.engine) == []
    assert f"OpenSSL {loading.openssl(running.engine)} " in loading.built(running)["OpenSSL"] + " "


def test_how_a_build_was_made_is_read_from_it(running):
    found = loading.built(running)
    assert found["release"]
    assert found["machine"]
    assert re.search(r"\blibc\.so", found["libraries"])
    assert "OpenSSL 3" in found["OpenSSL"] or "OpenSSL 1.1" in found["OpenSSL"]


def test_pool_counters_are_kept_with_a_run(mysql, copy, tmp_path):
    chosen = studies.load(study.Request("version-upgrade", "thread-pool", profile="smoke"))
    chosen, arm = replace(chosen, profile=STUDY.profile), chosen.arms[-1]
    with copy(mysql, arm.settings) as server:
        one = tools.Slice(chosen, server, arm, chosen.workloads[0], 4, 1, tmp_path)
        found = tools.sysbench(one)
    assert found["pool"]["executed"] > 20
    assert found["pool"].keys() == {"executed", "queued", "stalled"}
    facts = found | {"workload_tool": "sysbench", "slice_s": 1, "threads": 4}
    assert tidy.metrics(facts, tmp_path)["queued"] >= 0


# -- connections that are made before the clock ----------------------------------------------------


def held(server, folder, threads=8, **changes) -> tools.Gated:
    """A sysbench on `server` that waits for its word."""
    work = replace(study.Workload("x", ""), **changes)
    argv = tools.load_argv(tools.Slice(STUDY, server, PLAIN, work, threads, 1, folder), 1)
    return tools.Gated(argv, threads, folder / "gate", folder / "sysbench.txt")


def test_connections_are_made_and_wait_for_the_word(running, tmp_path):
    with held(running, tmp_path) as gate:
        gate.connected()
        users = [r["User"] for r in running.query("SHOW PROCESSLIST")]
        assert users.count("noisefloor") >= 8
        done = running.status("Com_commit")["Com_commit"]
        time.sleep(0.5)
        assert running.status("Com_commit")["Com_commit"] == done  # nothing runs
        assert not gate.has_printed(b"Threads started!")
        gate.go()
        assert gate.has_printed(b"Threads started!")
        code, text, cpu = gate.wait(20)
    assert code == 0
    assert cpu > 0
    out = parse.sysbench(text)
    assert (out["threads"], out["ignored_errors"]) == (8, 0)
    assert out["transactions"] > 8
    assert 0.9 < out["duration_s"] < 2  # the clock began with the word
    assert (tmp_path / "sysbench.txt").read_text() == text
    assert not (tmp_path / "gate").exists()


def test_one_that_is_never_let_go_ends(running, tmp_path):
    with held(running, tmp_path) as gate:
        gate.connected()
    assert not psutil.pid_exists(gate.process.pid)
    assert not (tmp_path / "gate").exists()


LUA = "function thread_init()\n   error({})\nend\nfunction event() end\n"


@pytest.mark.parametrize(
    ("script", "text", "says"),
    [
        ("no_such_script", "", "no_such_script"),
        ("broken.lua", "function event( return end\n", "expected near"),
        ("refuses.lua", LUA.format("'FATAL: not today'"), "not today"),
        ("tells.lua", LUA.format("'FATAL: ' .. sysbench.opt.mysql_password"), "FATAL"),
    ],
)
def test_a_wrong_script_is_what_it_says(lent, mysql, tmp_path, script, text, says):
    """Without the password, where it tells that."""
    server = lent(mysql)
    password = server.password
    if text:
        (tmp_path / script).write_text(text)
        script = str(tmp_path / script)
    with held(server, tmp_path, threads=1, script=script, sized=False, options=()) as gate:
        with pytest.raises(tools.ToolError, match=says) as e:
            gate.connected()
        assert password not in str(e.value)
    assert password not in (tmp_path / "sysbench.txt").read_text()
    assert not (tmp_path / "gate").exists()


def test_a_password_that_a_tool_printed_before_it_was_killed_is_not_kept(tmp_path):
    options, out = tmp_path / "sysbench.cnf", tmp_path / "sysbench.txt"
    options.write_text("mysql-password=nobody-else-s\n")
    argv = ["sh", "-c", "echo it is nobody-else-s; exec sleep 60", f"--config-file={options}"]
    with child.Child(argv, out) as tool:
        until(lambda: tool.has_printed(b"nobody-else-s"), "password")
    assert out.read_text() == f"it is {parse.HIDDEN}\n"


def test_its_server_is_killed_while_it_waits(one, tmp_path):
    with held(one, tmp_path) as gate:
        gate.connected()
        one.kill()
        try:
            gate.go()  # the threads do not know yet, and may find out before they have said so
            code, text, _ = gate.wait(20)
        except tools.ToolError as e:
            code, text = 1, str(e)
    assert code != 0
    assert "FATAL" in text


def test_one_that_is_killed_while_it_waits_is_not_let_go(running, tmp_path):
    with held(running, tmp_path) as gate:
        gate.connected()
        gate.process.send_signal(signal.SIGKILL)
        with pytest.raises(tools.ToolError):
            gate.go()


def test_connections_that_are_not_made_in_time(one, tmp_path, monkeypatch):
    monkeypatch.setattr(child, "PATIENCE_S", 1)
    one.process.send_signal(signal.SIGSTOP)
    says = "8 connections took more than 1 s"
    with held(one, tmp_path) as gate, pytest.raises(tools.ToolError, match=says):
        gate.connected()
    one.process.send_signal(signal.SIGCONT)


# -- functions --------------------------------------------------------------------------------------


def test_a_profile_names_functions_of_the_server(one, tmp_path):
    """Needs perf (package linux-perf), and the right to sample."""
    chosen = studies.load(study.Request("binlog-encryption", "profile", profile="smoke"))
    work = chosen.workloads[0]
    one.only(work.settings)
    try:
        found = tools.profile(tools.Slice(chosen, one, chosen.baseline, work, 2, 2, tmp_path))
    except tools.NotHere as e:
        if os.geteuid() == 0 or "perf_event_paranoid" not in e.reason:
            raise
        pytest.skip(e.reason)
    assert found["exit_code"] == 0
    rows = pd.read_csv(tmp_path / "perf.csv")
    assert rows["samples"].sum() > 200
    assert rows["function"].str.contains("row_|trx_|mtr_|fil_", regex=True).any()
    assert not (one.folder / "perf.data").exists()
