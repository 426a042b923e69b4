"""Both servers at once, each offered a rate: real servers, what fails, what is counted."""

import json
import os
import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest

from conftest import signalled
from noisefloor import schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import campaign as campaigns
from noisefloor.measure import tools
from noisefloor.servers.server import ServerError
from test_campaign import aside, no_data, whole

RATE, SECONDS = 80, 4


def study(rate=RATE, clients=64):
    asked = studies.load("own-study", settings=["sync_binlog=1,0"], rate=rate, profile="smoke")
    (work,) = asked.workloads
    work = replace(work, threads=(clients,), slices={str(clients): SECONDS})
    profile = replace(asked.profile, rows=1_000)
    return replace(asked, workloads=(work,), profile=profile, settings={}, keyring=False)


def cell(c):
    return next(x for x in schedule.cells(c.study) if not x.control)


@pytest.fixture
def pair(campaign, template):
    """A campaign at a rate with both its servers running."""
    asked = study()
    return campaign(asked, template, *asked.compared)


def several(c, bench):
    """As many pairs as may be lost, and one more."""
    for _ in range(campaigns.GIVE_UP):
        c.pair(bench, cell(c))


def stopped(server, seconds, after):
    """Stop a server for so long, so many seconds from now."""

    def harm():
        time.sleep(after)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(server.pid, signal.SIGCONT)

    thread = threading.Thread(target=harm)
    thread.start()
    return thread


def test_both_servers_are_under_load_at_the_same_time(pair):
    c, bench = pair
    c.pair(bench, cell(c))
    c.pair(bench, cell(c))
    runs = [tidy.read(run) for run in tidy.run_folders(c.folder)]
    assert len(runs) == 4
    for facts in runs:
        assert facts["rate"] == RATE
        assert f"--rate={RATE}" in facts["argv"]
        assert facts["usage"]["server"]["cpu_s"] > 0
        assert facts["slice_s"] == SECONDS
    began = sorted(f["start"] for f in runs)
    ended = sorted(f["end"] for f in runs)
    assert began[1] < ended[0], "the second window begins before the first one ends"
    assert len({f["arrivals"] for f in runs}) == 4, "each has arrivals of its own"
    table = tidy.table(c.folder)
    assert table.attrs["problems"] == []
    found = table[~table["warmup"]].set_index(["metric", "arm"])["value"]
    for arm in (a.name for a in c.study.compared):
        assert found["reached_rate", arm].mean() == pytest.approx(RATE, rel=0.15)
        assert 0 < found["p50", arm].item() < found["p95", arm].item()
        assert found["saturated", arm].sum() == 0
    (verdict,) = [
        v for v in schedule.verdicts(c.study, table, c.plan, pair_seconds=8).to_dict("records")
        if v["metric"] == "cpu_per_transaction"
    ]  # fmt: skip
    assert verdict["n_arm"] == 2


def test_latency_counts_from_the_intended_start(pair):
    c, bench = pair
    c.pair(bench, cell(c))
    calm = tidy.table(c.folder)
    (slow,) = [s for s in bench.servers if s is bench.servers[1]]
    harm = None

    def at_once(runs, measured=tools.at_once):
        nonlocal harm
        harm = stopped(slow, 0.2, 1.0)
        return measured(runs)

    c.block += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "at_once", at_once)
        c.pair(bench, cell(c))
    harm.join()
    both = tidy.table(c.folder)
    arm = c.study.arms[0].name

    def of(table, metric, block):
        rows = table[(table["metric"] == metric) & (table["block"] == block)]
        return rows[rows["arm"] == arm]["value"].item()

    # 16 of 320 transactions arrive while it stands still, and wait 0.1 s on average: 5 ms in all
    assert of(both, "p95", c.block) > of(calm, "p95", 0) + 0.03
    assert of(both, "max_latency", c.block) > 0.19
    slower = of(both, "mean_latency", c.block) - of(calm, "mean_latency", 0)
    assert slower > 0.003, "64 clients in a closed loop would see far less"


def test_a_rate_above_the_capacity_is_saturated_for_both_arms(campaign, mariadb):
    asked = study(rate=20_000)
    c, bench = campaign(asked, mariadb, *asked.compared)
    c.pair(bench, cell(c))
    assert len(whole(c)) == 2
    table = tidy.table(c.folder)
    assert table.attrs["saturated"] == {asked.workloads[0].name: {asked.arms[0].name: [1, 1]}}
    assert set(table["metric"]) <= {"saturated", "steal"}


@pytest.mark.parametrize("victim", ["server", "client"])
def test_a_window_without_one_of_its_servers_or_clients_counts_for_neither(
    pair, victim, monkeypatch
):
    c, bench = pair
    if victim == "server":

        def at_once(runs, measured=tools.at_once):
            threading.Timer(1, bench.servers[0].process.kill).start()
            return measured(runs)

        monkeypatch.setattr(tools, "at_once", at_once)
        with pytest.raises(ServerError, match="not running"):
            several(c, bench)
    else:
        with signalled("sysbench", times=1):
            c.pair(bench, cell(c))  # tried again
        assert len(whole(c)) == 2
        assert [n for n in aside(c) if ".failed" in n]
        return
    no_data(c)


def test_interrupted_no_half_of_a_window_is_left(pair, monkeypatch):
    c, bench = pair

    def at_once(runs, measured=tools.at_once):
        threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
        return measured(runs)

    began = time.monotonic()
    monkeypatch.setattr(tools, "at_once", at_once)
    with pytest.raises(KeyboardInterrupt):
        c.pair(bench, cell(c))
    monkeypatch.undo()
    assert time.monotonic() - began < SECONDS + 8
    no_data(c)
    c.pair(bench, cell(c))
    assert len(whole(c)) == 2
    assert [p for p in psutil.Process().children() if p.name() == "sysbench"] == []


def test_what_a_window_says_stands_in_its_run(pair):
    c, bench = pair
    c.pair(bench, cell(c))
    (run, _) = tidy.run_folders(c.folder)
    facts = json.loads((run / "run.json").read_text())
    assert facts["gate"] or c.study.floor
    assert "Target transaction rate: 80/sec" in (run / "sysbench.txt").read_text()
