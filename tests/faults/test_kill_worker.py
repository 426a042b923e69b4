"""A Dask worker dies while tasks are dealt out to it."""

import contextlib
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import distributed
import pytest

import archive
from conftest import done
from live import LONGEST_S, SEED, count
from noisefloor.data import cluster
from noisefloor.data.ingest import build
from test_cluster import project, running, two
from test_ingest import same

pytestmark = pytest.mark.slow
KILLS = 3


@contextlib.contextmanager
def murderer(two, times):
    """Kills workers with -9 at random points, each once the one before it was replaced; yields
    the thread and the process ids so far."""
    points, killed, over = random.Random(f"{SEED} worker"), [], threading.Event()

    def kill():
        deadline = time.monotonic() + LONGEST_S
        while len(killed) < times and not over.wait(points.uniform(0.5, 2)):
            if len(pids := running(two) - {*killed}) == 2:
                killed.append(points.choice(sorted(pids)))
                os.kill(killed[-1], signal.SIGKILL)
                count("Dask worker", signal.SIGKILL)
            if time.monotonic() > deadline:
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield thread, killed
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def in_this_process():
    with ThreadPoolExecutor(1) as executor:
        executor.width = 1
        yield executor


def test_an_ingest_loses_no_file_and_reads_none_twice(two, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "BATCH_FILES", 20)
    monkeypatch.setattr(build, "HERE_BYTES", 0)
    tree, n = tmp_path / "tree", 0
    archive.tree(tree, 600, seconds=100)  # no process is forked beside the threads of Dask
    with murderer(two, KILLS) as (thread, killed):
        while thread.is_alive() or not killed:
            n += 1
            build.build(
                tree, tmp_path / f"out{n}", lambda: cluster.pool(two.scheduler_address, sees=[tree])
            )
    assert len(killed) == KILLS
    build.build(tree, tmp_path / "here", in_this_process)
    for i in range(1, n + 1):
        same(tmp_path / f"out{i}", tmp_path / "here")
        assert not (tmp_path / f"out{i}" / ".partial").exists()
    asked = ("ingest", tree, "--out", tmp_path / "out1", "--cluster", two.scheduler_address)
    assert done(*asked).splitlines()[0].endswith("; 0 files were read")
