"""The server that is measured dies, or hangs."""

import signal

import pytest

from live import Live, asked, harm, promise, send
from noisefloor import server as servers
from noisefloor import tools
from noisefloor.server import ServerError
from test_collect import SMOKE, cell_of

slow = pytest.mark.slow


@slow
def test_kill_9_at_random_points(tmp_path, mysql):
    harm(Live(tmp_path, mysql, *asked(0.15)), "mysqld", 4, between=(0.5, 6))


@slow
def test_kill_9_of_one_of_two(tmp_path, mariadb):
    live = Live(tmp_path, mariadb, *asked(0.2, "--engine", "mariadb"))
    harm(live, "mariadbd", 2, between=(0.5, 6))


@slow
@pytest.mark.parametrize(("how", "times"), [(signal.SIGKILL, 3), (signal.SIGSTOP, 1)])
def test_one_of_two_that_are_loaded_at_once(tmp_path, mysql, how, times):
    live = Live(tmp_path, mysql, *asked(0.25, "--question", "processor"))
    harm(live, "mysqld", times, how=how, between=(0.5, 8))


@slow
def test_a_campaign_whose_server_died_says_so(tmp_path, mysql):
    live = Live(tmp_path, mysql)
    live.start()
    live.until_whole(1)
    assert send("mysqld", live.until("mysqld"))
    assert live.end() == 1
    assert "noisefloor: the server is not running" in live.said


def test_a_server_that_hangs_ends_the_campaign_with_a_sentence(campaign, mysql, monkeypatch):
    monkeypatch.setattr(servers, "ANSWER_S", 2)
    monkeypatch.setattr(tools, "PATIENCE_S", 0)
    c, bench = campaign(SMOKE, mysql)
    bench.servers[0].process.send_signal(signal.SIGSTOP)
    with pytest.raises(ServerError, match="the server gave no answer in 2 s; it hangs"):
        c.pair(bench, cell_of(SMOKE))
    assert not list(c.folder.glob("*.partial"))
    assert c.table.empty
    promise(c.folder.parent)


def test_a_long_statement_on_a_server_that_hangs_ends_too(own, monkeypatch):
    monkeypatch.setattr(servers, "ANSWER_S", 1)
    assert own.patient("SELECT SLEEP(2.5) AS x") == [{"x": 0}]
    own.process.send_signal(signal.SIGSTOP)
    with pytest.raises(ServerError, match="the server is not running"):
        own.patient("SELECT 1")


@slow
def test_it_hangs_at_random_points(tmp_path, mysql):
    harm(Live(tmp_path, mysql, *asked(0.2)), "mysqld", 1, how=signal.SIGSTOP, between=(0.5, 6))


def test_a_server_that_hangs_is_stopped_all_the_same(own, monkeypatch):
    process = own.process
    process.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as hasty:
        hasty.setattr(servers, "ANSWER_S", 1)
        with pytest.raises(ServerError, match="did not stop within 2 s; it was killed"):
            own.stop()
    assert process.poll() is not None
    assert own.start() > 0  # and starts again
