"""Noisefloor itself dies: kill -9, SIGTERM, Ctrl-C, Ctrl-C twice."""

import os
import random
import signal
import time

import pytest

from live import SEED, Live, asked, count, harm, send
from noisefloor import schedule, tidy

slow = pytest.mark.slow
DUET = ("--question", "processor")


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


def test_kill_9_in_the_middle_of_a_block_of_a_duet(tmp_path, mysql):
    """What was loaded at once is one: nothing of the block counts, it is dealt as before, and measured
    once."""
    told = tmp_path / "dealt"
    live = Live(tmp_path / "home", mysql, *asked(0.25, *DUET), DEALT=str(told))
    live.home.mkdir()
    live.start()
    live.until_whole(2)  # both servers of the first block
    live.until("sysbench")
    time.sleep(2)  # within windows that take five
    assert len(list(live.runs.glob("*/*.partial"))) == 2
    assert send("noisefloor", live.victim("noisefloor"))
    live.end()
    assert len(live.whole()) == 2
    (folder,) = live.runs.iterdir()
    windows, seed = tidy.meta(folder)["plan"]["windows"], tidy.meta(folder)["seed"]
    assert set(tidy.table(folder)["block"]) == {0}
    before = told.read_text().split()
    told.unlink()
    live.finish()
    assert [f.name for f in live.runs.iterdir()] == [folder.name]
    coins = [schedule.coin(seed, k, "deal").permutation(2) for k in (0, 1)]
    dealt = [[["plain", "encrypted"][i] for i in coin] for coin in coins]
    assert before == dealt[0] + dealt[1]
    assert told.read_text().split() == dealt[1]
    table = tidy.table(folder)
    pairs = table.groupby("block")["pair_id"].nunique()
    assert dict(pairs) == {0: windows, 1: windows}
    assert sorted(set(table["pair"])) == list(range(2 * windows))


@slow
def test_kill_9_of_a_duet_at_random_points(tmp_path, mysql):
    harm(Live(tmp_path, mysql, *asked(0.25, *DUET)), "noisefloor", 4, between=(0.5, 9))


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
