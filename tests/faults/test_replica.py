"""A replica that stops, hangs or dies while it catches up."""

import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest

from live import promise, send
from noisefloor import server as servers
from noisefloor import study, tools
from noisefloor.server import ServerError
from test_collect import SMOKE, cell_of, names

pytestmark = pytest.mark.slow
WORKLOAD = study.load("binlog-encryption", profile="quick").workload("replica")
CHOSEN = replace(SMOKE, workloads=(WORKLOAD,))


@pytest.fixture
def pair(campaign, mysql, monkeypatch):
    """A campaign with one pair behind it, and its replica."""
    c, bench = campaign(CHOSEN, mysql)
    c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    monkeypatch.setattr(servers, "ANSWER_S", 4)
    monkeypatch.setattr(tools, "PATIENCE_S", 4)
    return c, bench, bench.pair[1]


def later(harm, seconds: float) -> threading.Thread:
    thread = threading.Timer(seconds, harm)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "statements",
    [("STOP REPLICA",), ("STOP REPLICA IO_THREAD",)],
    ids=["both threads", "the receiver"],
)
def test_one_that_stops_is_started_again_and_the_run_made_again(pair, statements):
    c, bench, replica = pair
    own = replica._engine(5)  # a connection of somebody else's

    def stop():
        for _ in range(12):
            for s in statements:
                replica._ask(own, 5, s, {})
            time.sleep(0.25)

    thread = later(stop, 0.5)
    c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    thread.join()
    c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    assert c.done() == {"replica-t4-encrypted": 3}
    assert len([n for n in names(c.folder) if ".failed" in n]) >= 1
    promise(c.folder.parent)


@pytest.mark.parametrize(
    ("how", "said"), [(signal.SIGKILL, "is not running"), (signal.SIGSTOP, "it hangs")]
)
def test_one_that_dies_or_hangs_ends_the_campaign_with_a_sentence(pair, how, said):
    c, bench, replica = pair
    thread = later(lambda: send("replica", psutil.Process(replica.pid), how), 1)
    with pytest.raises(ServerError, match=said):
        c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    thread.join()
    assert c.done() == {"replica-t4-encrypted": 1}
    assert not list(c.folder.glob("*.partial"))
    promise(c.folder.parent)
