"""The measuring tool dies, or hangs."""

import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest

from live import Live, asked, harm, promise, send
from noisefloor import tools
from noisefloor.study import Workload
from test_collect import SMOKE, cell_of, names

slow = pytest.mark.slow


@slow
def test_kill_9_at_random_points(tmp_path, mysql):
    harm(Live(tmp_path, mysql, *asked(0.2)), "sysbench", 9, between=(0.2, 2.5))


@slow
def test_it_hangs_at_random_points(tmp_path, mysql):
    harm(Live(tmp_path, mysql, *asked(0.2)), "sysbench", 2, how=signal.SIGSTOP, between=(0.2, 4))


@slow
@pytest.mark.parametrize(("how", "times"), [(signal.SIGKILL, 4), (signal.SIGSTOP, 2)])
def test_one_of_two_loads_at_once(tmp_path, mysql, how, times):
    """Its block is not counted, and made again."""
    live = Live(tmp_path, mysql, *asked(0.4, "--question", "processor"))
    harm(live, "sysbench", times, how=how, between=(0.5, 6))


def stopped_once() -> threading.Thread:
    """The next sysbench is stopped (SIGSTOP) a little after its start."""

    def stop():
        while True:
            for child in psutil.Process().children():
                if child.name() == "sysbench":
                    time.sleep(0.3)
                    return send("sysbench", child, signal.SIGSTOP)
            time.sleep(0.01)

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


def test_a_run_whose_sysbench_hangs_is_made_again(campaign, mysql, monkeypatch):
    monkeypatch.setattr(tools, "PATIENCE_S", 0)
    c, bench = campaign(SMOKE, mysql)
    thread = stopped_once()
    c.pair(bench, cell_of(SMOKE))
    thread.join()
    assert c.done() == {"in-memory-t4-encrypted": 1}
    (failed,) = (n for n in names(c.folder) if "." in n)
    said = (c.folder / failed / "failure.txt").read_text()
    assert "exit code -9" in said
    promise(c.folder.parent)


@slow
def test_recovery_under_a_load_that_hangs_is_no_run(campaign, mysql):
    chosen = replace(SMOKE, workloads=(Workload("restart", "", tool="restart"),))
    c, bench = campaign(chosen, mysql)
    thread = stopped_once()
    c.pair(bench, cell_of(chosen, workload=chosen.workloads[0]))
    thread.join()
    failed = next(c.folder.glob("*.failed1"))
    assert "the load on the server stood still" in (failed / "failure.txt").read_text()
    assert len(c.table["run"].unique()) == 2
    promise(c.folder.parent)
