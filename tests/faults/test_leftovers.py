"""What stands in the way at the start: ports and sockets that are taken, stale pid and lock files,
folders and cgroups of those that were killed, a leftover ``.partial``, runs that a power cut left."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import planned, until
from live import Live, asked, promise
from noisefloor import model as study
from noisefloor.data import tidy
from noisefloor.measure import collect
from noisefloor.measure.campaign import Campaign
from noisefloor.servers.sandbox import sweep

pytestmark = pytest.mark.slow


def test_a_port_that_was_taken_meanwhile(copy, template):
    server = copy(template, tcp=True)
    with socket.socket() as other:
        other.bind(("127.0.0.1", server.port))
        other.listen()
        taken = server.port
        server.start()
        assert server.port != taken
        assert int(server.query("SELECT @@port AS p")[0]["p"]) == server.port


def test_a_server_keeps_its_port_over_a_restart(copy, mysql):
    server = copy(mysql, tcp=True)
    server.start()
    port = server.port
    with socket.create_connection(("127.0.0.1", port)):
        server.kill()
    server.start()
    assert server.port == port


def test_stale_files_of_a_server_that_was_killed(copy, template):
    """Its socket, the lock beside it and the pid file name a process that lives: this one."""
    server = copy(template)
    server.socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(server.socket))
        other.listen()
        Path(f"{server.socket}.lock").write_text(f"{os.getpid()}\n")
        (server.folder / "pid").write_text(f"{os.getpid()}\n")
        server.start()
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.start()
    assert server.query("SELECT 1 AS x") == [{"x": 1}]


def test_leftovers_of_an_interrupted_campaign(tmp_path, mysql):
    live = Live(tmp_path, mysql, *asked(0.15))
    live.start()
    live.until_whole(2)
    live.process.kill()
    live.end()
    (folder,) = live.runs.iterdir()
    whole = live.whole()
    shutil.copytree(whole[0], folder / f"{whole[0].name[:-1]}x.partial")
    (folder / "in-memory-t4-encrypted-p009-0-plain.partial").mkdir()
    (folder / "campaign.json.partial").write_text('{"finished": "yes"')
    (folder / "variables-000000000000.json.partial").write_text("{")
    dead = tmp_path / ".servers" / "wdead"
    (dead / "data").mkdir(parents=True)
    (dead / "lock").touch()
    half = live.runs / "binlog-encryption-smoke-20200101-000000.partial"
    half.mkdir()
    live.finish()
    assert not dead.exists()
    assert not half.exists()


@pytest.mark.parametrize("file", ["run.json", "sysbench.txt", "variables.json"])
@pytest.mark.parametrize("how", ["empty", "half", "missing"])
def test_a_run_that_a_power_cut_left_is_set_aside(recorded, file, how):
    """Names reach the disk before contents do: such a run is told, and its pair measured again."""
    meta = planned(tidy.meta(recorded))
    run = next(r for r in reversed(tidy.run_folders(recorded)) if not tidy.read(r)["warmup"])
    before, pair = tidy.tidy_table(recorded)["run"].nunique(), tidy.read(run)["pair_id"]
    whole = (run / file).read_bytes()
    (run / file).write_bytes(whole[: len(whole) // 2] if how == "half" else b"")
    if how == "missing":
        (run / file).unlink()
    c = Campaign(study.study_of(meta), recorded, meta, collect.Progress())
    promise(recorded.parent)
    assert pair not in set(c.table["pair_id"])
    assert c.table["run"].nunique() == before - 2


_THROTTLED = """
import sys, time
from pathlib import Path
from noisefloor.servers import engines
from noisefloor.servers.server import Server
from noisefloor.servers.throttle import Throttle
server = Server(engines.find("mysql"), Path(sys.argv[1]))
server.start()
limit = Throttle(server.datadir, server.pid)
limit.limit(50, 50)
print(limit.group, flush=True)
time.sleep(60)
"""


def test_a_cgroup_of_one_that_was_killed_is_removed(copy, mysql, home):
    server = copy(mysql)
    child = subprocess.Popen(
        [sys.executable, "-c", _THROTTLED, str(server.folder)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    group = child.stdout.readline().strip()
    if not group:
        said = child.communicate()[1].splitlines()[-1]
        assert "ServerError" in said
        pytest.skip(said)
    child.kill()
    child.communicate()
    assert Path(group).is_dir()
    (home / ".servers").mkdir()
    until(lambda: sweep() or not Path(group).exists(), "end of the server in it")
    server.start()  # with a fast disk again
