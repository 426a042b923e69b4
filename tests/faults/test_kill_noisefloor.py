"""Noisefloor itself dies: kill -9, SIGTERM, Ctrl-C, Ctrl-C twice."""

import os
import random
import signal
import time

import pytest

from live import SEED, Live, asked, count, harm

slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("times", "seed", "minutes"),
    [(2, SEED, 0.1), pytest.param(5, SEED + 1, 0.15, marks=slow)],
)
def test_kill_9_at_random_points(tmp_path, mysql, times, seed, minutes):
    live = Live(tmp_path, mysql, *asked(minutes))
    harm(live, "noisefloor", times, between=(0.5, 7), seed=seed)


@slow
def test_kill_9_while_servers_are_initialised_and_loaded(tmp_path):
    harm(Live(tmp_path, None, *asked(0.1)), "noisefloor", 2, between=(0.5, 7))


@slow
def test_kill_9_of_a_side_by_side_campaign(tmp_path, mariadb):
    live = Live(tmp_path, mariadb, *asked(0.2, "--engine", "mariadb"))
    harm(live, "noisefloor", 2, between=(0.5, 7))


@slow
def test_sigterm(tmp_path, mysql):
    harm(Live(tmp_path, mysql, *asked(0.1)), "noisefloor", 4, how=signal.SIGTERM, between=(0.5, 6))


@slow
def test_ctrl_c_once_twice_and_often(tmp_path, mysql):
    """A terminal sends it to the whole group: server and sysbench get it as well."""
    points = random.Random(f"{SEED} ctrl-c")
    live = Live(tmp_path, mysql, *asked(0.15))
    for presses, apart in ((1, 0), (2, 0.01), (2, 0.5), (5, 0.05)):
        live.start()
        live.until("sysbench")
        time.sleep(points.uniform(0, 2))
        for _ in range(presses):
            if live.running():
                os.killpg(live.process.pid, signal.SIGINT)
                count("noisefloor", signal.SIGINT)
            time.sleep(apart)
        assert live.end() != 0
        if presses == 1:
            assert live.said.endswith(
                "noisefloor: stopped; whole runs are kept, the same command continues\n"
            )
    live.finish()
