"""Throwaway servers, real ones: MySQL and MariaDB."""

import contextlib
import mmap
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import MySQLdb
import psutil
import pytest

from conftest import alive, command_lines, mostly
from noisefloor import studies
from noisefloor.measure import server_pool, tools
from noisefloor.measure.child import Child
from noisefloor.model import Request
from noisefloor.servers import disk, evidence, innodb
from noisefloor.servers.sandbox import looks, sandbox, secret_file, sweep
from noisefloor.servers.server import Server, ServerError, SettingError
from noisefloor.servers.session import SCHEMA
from noisefloor.servers.throttle import Throttle

PATIENT_S = 120  # for what takes a moment; more where other tests have the processor and the disk


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def passwords(server: Server) -> list[str]:
    text = "".join((server.folder / f).read_text() for f in ("client.cnf", "sysbench.cnf"))
    return re.findall(r"password=(.+)", text)


def holds(file: Path, words: list[str]) -> bool:
    """Whether a file, which may be large, holds one of the words."""
    if not file.is_file() or not file.stat().st_size:
        return False
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(text.find(word.encode()) >= 0 for word in words)


def listening(server: Server) -> set[str]:
    found = psutil.Process(server.pid).net_connections("inet")
    return {c.laddr.ip for c in found if c.status == "LISTEN"}


# -- secrets ---------------------------------------------------------------------------------------


def test_folders_are_private_and_passwords_are_in_files_of_the_owner_only(running):
    private = (running.folder, running.folder / "tmp", running.folder.parent, running.socket.parent)
    assert {mode(folder) for folder in private} == {"0o700"}
    assert not (running.folder / "init.sql").exists()
    secrets = passwords(running)
    assert len(set(secrets)) == 2
    assert all(len(s) >= 24 for s in secrets)
    holding = {p.name: mode(p) for p in running.folder.rglob("*") if holds(p, secrets)}
    assert holding == {"client.cnf": "0o600", "sysbench.cnf": "0o600"}


def test_a_secret_file_is_private_before_it_holds_the_secret(tmp_path):
    before = os.umask(0)
    try:
        assert mode(secret_file(tmp_path / "a", "x")) == "0o600"
    finally:
        os.umask(before)


def test_no_password_stands_in_a_command_line_while_sysbench_runs(running, tmp_path):
    chosen = studies.load(Request("binlog-encryption", profile="smoke", engine=running.engine.kind))
    slice_ = tools.Slice(chosen, running, chosen.baseline, chosen.workloads[0], 2, 1, tmp_path)
    result, seen = {}, []
    thread = threading.Thread(target=lambda: result.update(tools.sysbench(slice_)))
    thread.start()
    while thread.is_alive():
        seen.append(command_lines())
        time.sleep(0.02)
    thread.join()
    assert result["exit_code"] == 0
    assert sum(str(running.folder / "sysbench.cnf") in s for s in seen) > 5
    seen.append((tmp_path / "sysbench.txt").read_text())
    assert not [w for w in passwords(running) if any(w in s for s in seen)]
    assert str(running.folder) not in " ".join(result["argv"])


def test_the_measuring_user_has_no_rights_elsewhere(running):
    found = running.query("SHOW GRANTS FOR noisefloor@localhost")
    everything, usage = sorted(next(iter(row.values())) for row in found)
    assert everything.startswith(f"GRANT ALL PRIVILEGES ON `{SCHEMA}`.*")
    assert usage.startswith("GRANT USAGE ON *.*")


# -- where it listens ------------------------------------------------------------------------------


def test_a_server_listens_on_its_socket_only(running):
    assert listening(running) == set()
    assert running.socket.is_socket()


def test_on_request_it_listens_on_loopback_tcp_only(template, copy):
    """There every user of the machine reaches it, and needs a password."""
    with copy(template, tcp=True) as server:
        assert listening(server) == {"127.0.0.1"}
        login = {"host": "127.0.0.1", "port": server.port, "connect_timeout": 5}
        login |= {"read_default_group": "none"}
        MySQLdb.connect(**login, user="root", password=passwords(server)[0]).close()
        users = {str(r["u"]) for r in server.query("SELECT user AS u FROM mysql.user")}
        assert {"root", "noisefloor"} <= users
        roots = server.query("SELECT host AS h FROM mysql.user WHERE user = 'root'")
        assert roots == [{"h": "localhost"}]  # each name of the machine would need a password
        for user in (*users, "", "admin", "replica"):
            for password in ("", user, "root", "password"):
                with pytest.raises(MySQLdb.OperationalError) as refused:
                    MySQLdb.connect(**login, user=user, password=password)
                assert refused.value.args[0] in (1045, 1130, 1524, 1698, 3118, 4151), refused.value


# -- life ------------------------------------------------------------------------------------------


@mostly("mariadb")
def test_start_kill_restart_stop(own):
    first = own.pid
    own.query("REPLACE INTO noisefloor.canary VALUES (7, 'kept')")
    own.kill()
    assert not alive(first)
    assert own.process is None
    assert own.start() > 0  # seconds to the first answer, after recovery
    rows = own.query("SELECT word FROM noisefloor.canary WHERE id = :id", id=7)
    assert rows == [{"word": "kept"}]
    second = own.pid
    assert own.stop() > 0
    assert own.start() > 0
    last = own.pid
    assert not alive(second)
    assert alive(last)
    assert own.stop() > 0
    assert not alive(last)
    assert own.stop() == 0.0


@mostly("mariadb")
def test_a_server_that_does_not_start_is_one_sentence(template, copy):
    server = copy(template, {"no_such_variable": "1"})
    with pytest.raises(ServerError, match=r"ended while starting.*no_such_variable") as said:
        server.start()
    assert "\n" not in str(said.value)


@mostly("mariadb")
def test_a_server_that_was_killed_is_one_sentence(own):
    os.kill(own.pid, signal.SIGKILL)
    for ask in (lambda: own.query("SELECT 1"), own.usage):
        with pytest.raises(ServerError, match="the server is not running"):
            ask()


def test_a_workshop_leaves_nothing(mariadb, home):
    with contextlib.suppress(KeyboardInterrupt), sandbox() as shop:
        assert sweep() == []
        short = (shop / "short").readlink()
        server = mariadb.copy(shop / "server")
        server.start()
        pid = server.pid
        raise KeyboardInterrupt  # in a notebook, whose process lives on
    assert not alive(pid)
    assert not shop.exists()
    assert not short.exists()


def test_ctrl_c_while_a_process_is_forked_is_not_lost(home, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    presses = []
    os.register_at_fork(after_in_parent=lambda: presses and signal.raise_signal(presses.pop()))
    for wait in (lambda child: child.wait(20), lambda child: [*looks(20)]):
        with sandbox():
            presses.append(signal.SIGINT)
            with Child(["sleep", "30"]) as sleeps:
                assert not presses
                began = time.monotonic()
                with pytest.raises(KeyboardInterrupt):
                    wait(sleeps)
                assert time.monotonic() - began < 10


def test_full_binary_logs_are_removed_and_the_index_of_one_is_none(running):
    """MariaDB 11 keeps an index of GTIDs beside each log."""
    for _ in range(2):
        running.query("FLUSH BINARY LOGS")
    *full, last = sorted(p for p in running.datadir.glob("binlog.*") if p.suffix[1:].isdecimal())
    assert full
    last.with_name(f"{last.name}.idx").touch()
    for _ in looks(PATIENT_S):  # MariaDB holds one until its commits are written
        running.purge()
        if gone := not any(p.exists() for p in full):
            break
    assert gone
    assert last.exists()


# -- settings --------------------------------------------------------------------------------------


def test_settings_are_compared_by_value(running):
    known = running.variables()
    running.check(
        {
            "innodb_buffer_pool_size": "1G",
            "max_connections": 2200,
            "performance_schema": known["performance_schema"].lower(),
            "log_bin": "any-name",
        }
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_connections": "0"}, "max_connections: wanted 0, got 1"),
        ({"sync_binlog": "many"}, "sync_binlog: wanted many, refused: "),
        ({"no_such_variable": "1"}, "no_such_variable: wanted 1, refused: "),
        ({"datadir": "/elsewhere"}, "datadir: wanted /elsewhere, refused: "),
        ({"x = 1; DROP TABLE y": "1"}, "is not the name of a variable; nothing was set"),
    ],
)
def test_a_variable_that_is_not_in_force_names_wanted_and_got(running, settings, message):
    with pytest.raises(SettingError, match=re.escape(message)):
        running.set(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"innodb_buffer_pool_size": "200M"}, "innodb_buffer_pool_size: wanted 200M, got "),
        (
            {"loose_no_such_variable": "1"},
            "loose_no_such_variable: wanted 1, but the server has no",
        ),
        (
            {"plugin_load_add": "no_such_plugin.so"},
            "wanted no_such_plugin.so, got a plugin that is not active",
        ),
    ],
)
def test_a_setting_that_did_not_take_ends_the_start(mysql, copy, settings, message):
    server = copy(mysql, settings)
    with pytest.raises(SettingError, match=re.escape(message)):
        server.start()
    assert server.process is None


def test_what_is_set_is_taken_literally(running):
    for value in ("SET @a = ':b %s'", "it''s", ""):
        running.set({"init_connect": value})


@mostly("mariadb")
def test_an_arm_leaves_nothing_that_the_server_changed_along_with_it(own):
    """A limit takes its value with it; on MariaDB a value its limit, too."""
    own.query("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 10")
    before = own.variables()
    arms = {"innodb_max_dirty_pages_pct": "5", "innodb_io_capacity": "1000000"}
    for name, value in list(arms.items())[: 2 if own.engine.kind == "mariadb" else 1]:
        for _ in range(2):
            own.only({name: value})
            assert sum(v != before[n] for n, v in own.variables().items()) == 2
            own.only({name: before[name]})
            assert own.variables() == before


def test_variables_that_matter_are_kept_and_those_that_move_are_not(running):
    first = running.variables()
    running.query("REPLACE INTO noisefloor.canary VALUES (8, 'moves the GTID set')")
    assert running.variables() == first
    wanted = {"mysql": ["gtid_mode", "log_timestamps"], "mariadb": ["gtid_strict_mode"]}
    assert set(wanted[running.engine.kind]) <= first.keys()


# -- keyrings and copies ---------------------------------------------------------------------------


def test_copies_carry_keyring_and_password_and_run_side_by_side(template, copy):
    both = [copy(template), copy(template)]
    for server in both:
        server.start()
        assert set(evidence.keyring(server).values()) == {"active"}
        rows = server.query("SELECT word FROM noisefloor.hidden")
        assert rows == [{"word": "under the key"}]
        assert passwords(server) == passwords(template)
    assert both[0].pid != both[1].pid
    for server in both:
        text = (server.folder / "sysbench.cnf").read_text()
        assert f"mysql-socket={server.socket}\n" in text
    if template.engine.kind == "mysql":
        assert len({s.query("SELECT @@server_uuid AS u")[0]["u"] for s in both}) == 2
        assert not any("server_uuid" in s.variables() for s in both)  # one file for equal servers


def test_without_its_keyring_a_server_has_none(mysql, copy):
    server = copy(mysql)
    (server.datadir / "mysqld.my").unlink()
    with server:
        assert evidence.keyring(server) == {"keyring component": "disabled"}
        with pytest.raises(evidence.EvidenceError, match="keyring should be active, but keyring"):
            evidence.collect(server, {"keyring": "active"})
        with pytest.raises(SettingError, match="binlog_encryption: wanted ON, refused"):
            server.set({"binlog_encryption": "ON"})


# -- what it used, settling, a slow disk -----------------------------------------------------------


def test_usage_grows_with_the_work(running):
    before = running.usage()
    running.query("DO BENCHMARK(3000000, SHA2('noisefloor', 256))")
    used = running.usage()["cpu_s"] - before["cpu_s"]
    assert 0.05 < used < 20


def test_frozen_processes_run_again_also_beside_one_that_ended():
    def states():
        return {psutil.Process(p.pid).status() for p in (ended, other)}

    with subprocess.Popen(["sleep", "60"]) as ended, subprocess.Popen(["sleep", "60"]) as other:
        with server_pool.frozen([ended, other]):
            assert any(states() == {psutil.STATUS_STOPPED} for _ in looks(PATIENT_S))
            ended.kill()
            ended.wait()
        running = psutil.Process(other.pid)
        assert any(running.status() != psutil.STATUS_STOPPED for _ in looks(PATIENT_S))
        other.kill()


def test_settling_has_a_limit_and_flushing_restores_what_it_set(running):
    before = running.variables()
    for i in range(3):
        running.query("UPDATE noisefloor.sbtest1 SET k = k + :i", i=i + 1)
    dirty = innodb.settle(running, 0)
    assert dirty["seconds"] < 30  # it waits for nothing
    found = innodb.flush(running, PATIENT_S)
    assert found["settled"]
    assert found["dirty_pages"] <= max(dirty["dirty_pages"], 50)  # at rest it still makes some
    assert running.variables() == before


@pytest.mark.skipif(not shutil.which("fio"), reason="fio is missing")
def test_fio_measures_the_disk_and_prints_no_folder_of_this_machine(tmp_path):
    printed = disk.run_fio(tmp_path, 0.1)
    assert disk.fio_facts(printed).keys() >= {"read_us", "reads_per_s", "writes_per_s", "sync_us"}
    assert str(tmp_path) not in printed
    assert not list(tmp_path.iterdir())


def test_a_throttled_disk_is_slow_until_the_limit_is_lifted(mysql, copy):
    def commits(n: int) -> float:
        began = time.monotonic()
        for i in range(n):
            server.query("REPLACE INTO noisefloor.canary VALUES (9, :word)", word=str(i))
        return time.monotonic() - began

    with copy(mysql, {"sync_binlog": "1"}) as server:
        try:
            limit = Throttle(server.datadir, server.pid)
        except ServerError as e:
            groups = ("/sys/fs/cgroup/blkio", "/sys/fs/cgroup/cgroup.procs")
            if any(os.access(g, os.W_OK) for g in groups) and "block device" not in str(e):
                raise  # it is allowed here, so it has to work
            pytest.skip(str(e))
        innodb.flush(server, 10)
        free = commits(8)
        limit.limit(30)
        slow = commits(8)
        limit.limit(None)
        again = commits(8)
        limit.remove()
    assert slow > 0.3
    assert slow > 1.5 * max(free, again)
    assert not limit.group.exists()
