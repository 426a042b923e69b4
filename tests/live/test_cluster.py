"""Work dealt out to real worker processes of a Dask cluster: the same results, also when one dies."""

import contextlib
import json
import os
import signal
import socket
import threading
import time

import dask
import distributed
import pytest

from conftest import moved, noisefloor, refused, until
from noisefloor.data import cluster


@contextlib.contextmanager
def workers(**options):
    asked = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1"}
    asked["dashboard_address"] = "127.0.0.1:0"
    # else a worker killed twice within this time is closed by the clock of its first death
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"})
    local = distributed.LocalCluster
    with patient, local(processes=True, silence_logs=50, **(asked | options)) as made:
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project folder that this process and the workers see."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("notebooks", "data/raw/recorded"):
        (folder / name).mkdir(parents=True)
    (folder / "environment.yml").touch()
    with moved(folder):
        yield folder


@pytest.fixture(autouse=True)
def little_patience(monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_S", 2)


@pytest.fixture(scope="module")
def two(project):
    """A scheduler and two workers on loopback."""
    with workers() as made:
        yield made


def running(made) -> set[int]:
    """Process ids of the workers that Dask replaces: it gives up on one that dies before it was
    seen to run."""
    up = [n.process for n in made.workers.values() if n.process]
    return {p.pid for p in up if p.status == distributed.Status.running} - {None}


def any_of_two(made) -> int:
    """The process id of a worker, once both are there."""
    return min(until(lambda: len(up := running(made)) == 2 and up, "second worker"))


def kill_one(made) -> int:
    """Kill a worker with -9; its process id."""
    victim = any_of_two(made)
    os.kill(victim, signal.SIGKILL)
    return victim


def test_a_worker_that_dies_while_it_is_asked_what_it_has_is_asked_no_more(two):
    victim = any_of_two(two)
    os.kill(victim, signal.SIGSTOP)  # it cannot answer before it dies
    death = threading.Timer(0.5, os.kill, (victim, signal.SIGKILL))
    death.start()
    with cluster.pool(two.scheduler_address) as executor:
        assert not death.is_alive()
        assert executor.submit(abs, -1).result() == 1
    any_of_two(two)  # for the tests after this one


# --- the same results ------------------------------------------------------------------------------


def test_a_scheduler_file_names_a_cluster(two, tmp_path):
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps(two.scheduler.identity(), skipkeys=True))
    with cluster.pool(str(file), sees=[tmp_path]) as pool:
        assert 1 <= pool.width <= 2  # the killed one may be on its way back
        assert list(pool.map(abs, range(-20, 0))) == list(range(20, 0, -1))


def test_a_task_that_kills_whom_it_is_given_to_is_one_sentence(two):
    with pytest.raises(cluster.Unreachable, match="killed every worker"):  # noqa: SIM117
        with cluster.pool(two.scheduler_address) as pool:
            pool.submit(os._exit, 9).result(60)


def test_a_process_has_the_environment_that_it_is_given(monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_CANARY", "here")
    given = {"PATH": os.environ["PATH"], "NOISEFLOOR_HOME": "/elsewhere"}
    with cluster.pool(workers=1, apart=True, environment=given) as pool:
        assert pool.submit(os.getenv, "NOISEFLOOR_HOME").result() == "/elsewhere"
        assert pool.submit(os.getenv, "NOISEFLOOR_CANARY").result() is None
    with cluster.pool(workers=1, apart=True) as pool:  # that of now, not of when it was first asked
        assert pool.submit(os.getenv, "NOISEFLOOR_CANARY").result() == "here"
    assert os.environ["NOISEFLOOR_CANARY"] == "here"


# --- clusters that cannot be worked with ---------------------------------------------------------------


def unreachable(address, **given):
    start = time.monotonic()
    with pytest.raises(cluster.Unreachable) as e, cluster.pool(address, **given):
        pass
    assert time.monotonic() - start < 3 * cluster.PATIENCE_S
    assert "\n" not in str(e.value)
    assert str(e.value).endswith("nothing was run")
    return e.value


@pytest.mark.parametrize(
    ("address", "code", "says"),
    [
        ("tcp://127.0.0.1:1", 1, "no Dask scheduler answers"),
        pytest.param("tls://127.0.0.1:1", 1, "no Dask scheduler answers", marks=pytest.mark.slow),
        ("tcp://127.0.0.1", 2, "is needed"),
        ("tcp://127.0.0.1:x", 2, "is needed"),
        ("http://127.0.0.1:8786", 2, "is needed"),
        ("nowhere.json", 2, "a scheduler file is needed"),
        ("tests", 2, "a scheduler file is needed"),
    ],
)
def test_an_address_without_a_scheduler_is_one_sentence(address, code, says):
    found = unreachable(address)
    assert found.code == code
    assert says in str(found)


def test_something_else_that_answers_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            connection, _ = listening.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        found = unreachable(f"tcp://127.0.0.1:{listening.getsockname()[1]}")
    assert found.code == 1


@pytest.mark.parametrize(
    ("n", "threads", "says"),
    [(0, 1, "has no worker"), pytest.param(1, 2, "has 2 threads", marks=pytest.mark.slow)],
)
def test_workers_that_do_not_fit_are_refused(n, threads, says):
    with workers(n_workers=n, threads_per_worker=threads) as made:
        assert says in str(unreachable(made.scheduler_address))


def test_a_folder_that_a_worker_does_not_see_is_named(two, tmp_path):
    found = unreachable(two.scheduler_address, sees=[tmp_path, tmp_path / "gone"])
    assert "does not see gone" in str(found)


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        (["ingest", "tests/data/sysbench", "--out", "no-such-folder", "--cluster", "tcp:"], 2, "is needed"),
        (["report", "--profile", "recorded", "--cluster", "tcp:"], 2, "--cluster"),
        (["calibrate", "--small", "--cluster", "tcp:"], 2, "--cluster"),
    ],
)  # fmt: skip
def test_commands_end_with_one_sentence(asked, code, says, monkeypatch):
    monkeypatch.delenv("NOISEFLOOR_HOME", raising=False)
    refused(noisefloor(*asked), code, says)


@pytest.mark.parametrize(
    ("address", "clear"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("tcp://localhost:8786", False),
        ("tcp://[::1]:8786", False),
        ("tls://db.example:8786", False),
        ("tcp://db.example:8786", True),
    ],
)
def test_what_crosses_a_network_in_the_clear_is_known(address, clear):
    assert cluster.in_the_clear(address) == clear
