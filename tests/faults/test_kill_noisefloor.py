"""Noisefloor itself dies: kill -9, SIGTERM, Ctrl-C, Ctrl-C twice."""

import os
import signal
import time

import pytest

from live import SEED, Live, harm

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("times", "seed", "minutes"),
    [(2, SEED, "0.1"), pytest.param(8, SEED + 1, "0.4", marks=slow),
     pytest.param(8, SEED + 2, "0.4", marks=slow)],
)  # fmt: skip
def test_kill_9_at_random_points(tmp_path, mysql, times, seed, minutes):
    live = Live(
        tmp_path, mysql, "run", "binlog-encryption", "--profile", "smoke", "--budget", minutes
    )
    harm(live, "noisefloor", times, between=(0.5, 9), seed=seed)


@slow
def test_kill_9_while_servers_are_initialised_and_loaded(tmp_path):
    live = Live(
        tmp_path, None, *("run", "binlog-encryption", "--profile", "smoke"), "--budget", "0.1"
    )
    harm(live, "noisefloor", 4, between=(0.5, 9))


@slow
def test_kill_9_of_a_side_by_side_campaign(tmp_path, mariadb):
    live = Live(tmp_path, mariadb, *("run", "binlog-encryption", "--profile", "smoke"),
                *("--engine", "mariadb", "--budget", "0.3"))  # fmt: skip
    harm(live, "noisefloor", 5, between=(0.5, 9))


@slow
def test_sigterm(tmp_path, mysql):
    harm(Live(tmp_path, mysql), "noisefloor", 4, how=signal.SIGTERM, between=(1, 9))


@slow
@pytest.mark.parametrize("presses", [1, 2, 5])
def test_ctrl_c(tmp_path, mysql, presses):
    """A terminal sends it to the whole group: server and sysbench get it as well."""
    live = Live(
        tmp_path, mysql, "run", "binlog-encryption", "--profile", "smoke", "--budget", "0.1"
    )
    live.start()
    live.until_whole(1)
    live.until("sysbench")
    for _ in range(presses):
        if live.running():
            os.killpg(live.process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert live.end() != 0
    if presses == 1:
        assert live.said.endswith(
            "noisefloor: stopped; whole runs are kept, the same command continues\n"
        )
    live.finish()
