"""A replica that stops, hangs or dies while it catches up."""

import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest

from live import promise, send
from noisefloor import server as servers
from noisefloor import studies, tools
from noisefloor.server import ServerError
from test_collect import SMOKE, cell_of, names

pytestmark = pytest.mark.slow
ASKED = {"question": "replica", "profile": "smoke"}
WORKLOAD = replace(studies.load("binlog-encryption", **ASKED).workload("replica"), events=3000)
CHOSEN = replace(SMOKE, workloads=(WORKLOAD,))


@pytest.fixture
def pair(campaign, mysql, monkeypatch):
    """A campaign with one pair behind it, and its replica."""
    monkeypatch.setattr(servers, "ANSWER_S", 10)  # of a connection, from its beginning
    monkeypatch.setattr(tools, "PATIENCE_S", 10)
    c, bench = campaign(CHOSEN, mysql)
    c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    return c, bench, bench.pair[1]


def later(harm, seconds: float) -> threading.Thread:
    thread = threading.Timer(seconds, harm)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("statement", "how", "said"),
    [
        ("STOP REPLICA", signal.SIGKILL, "is not running"),
        ("STOP REPLICA IO_THREAD", signal.SIGSTOP, "it hangs"),
    ],
)
def test_one_that_stops_is_started_again_one_that_dies_or_hangs_ends_it(pair, statement, how, said):
    """A run is made again, or the campaign ends with a sentence."""
    c, bench, replica = pair
    own = replica._engine(10)  # a connection of somebody else's
    measured = threading.Event()

    def stop():
        while not measured.is_set() and not list(c.folder.glob("*.failed*")):
            replica._ask(own, 10, statement, {})
            time.sleep(0.25)

    thread = later(stop, 0.5)
    c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    measured.set()
    thread.join()
    assert c.done() == {"replica-t4-encrypted": 2}
    assert [n for n in names(c.folder) if ".failed" in n]
    promise(c.folder.parent)
    thread = later(lambda: send("replica", psutil.Process(replica.pid), how), 1)
    with pytest.raises(ServerError, match=said):
        c.pair(bench, cell_of(CHOSEN, workload=WORKLOAD))
    thread.join()
    runs = c.table[~c.table["warmup"]].groupby("pair_id")["position"].nunique()
    assert runs.eq(2).sum() == 2  # a first run may be whole, its pair is not
    assert not list(c.folder.glob("*.partial"))
    promise(c.folder.parent)
