"""Both servers at once, each offered a rate: real servers, what fails, what is counted."""

import json
import os
import re
import signal
import threading
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from conftest import mostly, signalled
from noisefloor import calibrate, paths, schedule, studies
from noisefloor.data import results, tidy
from noisefloor.data.tidy import rates
from noisefloor.measure import ab, collect, loading, tools
from noisefloor.measure import campaign as campaigns
from noisefloor.model import Request, as_guest
from noisefloor.servers.server import ServerError
from noisefloor.studies.ab import RATE_MOST, share_of
from test_campaign import aside, no_data, whole

RATE, SECONDS = 80, 4


def study(rate=RATE, clients=64, seconds=SECONDS):
    asked = Request("own-study", profile="smoke", settings=("sync_binlog=1,0",), rate=rate)
    asked = studies.load(asked)
    (work,) = asked.workloads
    work = replace(work, threads=(clients,), slices={str(clients): seconds})
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


@mostly("mariadb")
def test_both_servers_are_under_load_at_the_same_time(pair):
    c, bench = pair
    for _ in range(6):  # a busy machine saturates a window
        c.pair(bench, cell(c))
        table, problems, saturated = tidy.opened(c.folder).tidy_runs
        counted = table.loc[table["metric"] == "cpu_per_transaction", "pair_id"].nunique()
        if counted == 2:
            break
    assert counted == 2
    runs = [tidy.read(run) for run in tidy.run_folders(c.folder)]
    for facts in runs:
        assert facts["rate"] == RATE
        assert f"--rate={RATE}" in facts["argv"]
        assert facts["gate"]["probes"] > 0
        printed = (c.folder / facts["run"] / "sysbench.txt").read_text()
        assert f"Target transaction rate: {RATE}/sec" in printed
        assert facts["usage"]["server"]["cpu_s"] > 0
        assert facts["slice_s"] == SECONDS
        assert facts["disk"]["log_syncs"] > 0  # of both engines
    first = [f for f in runs if f["pair"] == 0]
    began, ended = max(f["start"] for f in first), min(f["end"] for f in first)
    assert began < ended, "the second window begins before the first one ends"
    assert len({f["arrivals"] for f in runs}) == len(runs), "each has arrivals of its own"
    assert problems == []
    assert {"log_syncs", "written_bytes_per_transaction"} <= set(table["metric"])
    found = table[~table["warmup"]].set_index(["metric", "arm"])["value"]
    for arm in (a.name for a in c.study.compared):
        assert found["reached_rate", arm].mean() == pytest.approx(RATE, rel=0.15)
        assert 0 < found["p50", arm].item() < found["p95", arm].item()
    judged = schedule.judge_campaign(c.study, table, c.plan, saturated=saturated, pair_seconds=8)
    (verdict,) = judged[judged["metric"] == "cpu_per_transaction"].to_dict("records")
    assert verdict["n_arm"] == 2
    gives_its_load(results.load(c.folder), len(runs) // 2)


def gives_its_load(r, windows: int) -> None:
    """What the page of such a campaign draws: latency and processor time against the load."""
    load = results.load_curve(r).set_index("arm")
    assert load["rate"].tolist() == [RATE, RATE]
    assert load["windows"].tolist() == [windows, windows]
    assert load["p99_s"].isna().all()  # too few transactions for it
    rows = r.judged(metric="cpu_per_transaction")
    served = load[load["saturated_pct"] == 0]  # a busy machine may lose a window
    assert (served["p50_s"] > 0).all()
    for arm, cpu in served["cpu_s"].items():
        assert cpu == rows.loc[rows["arm"] == arm, "value"].median()
    many = load["saturated_pct"] > 10
    assert load.loc[many, ["p50_s", "cpu_s"]].isna().all(axis=None)
    assert set(r.of(control=False)["rate"]) == {RATE}
    assert results.highest_tps(r) == 0.0  # nothing was measured in a closed loop


def test_latency_counts_from_the_intended_start(campaign, mariadb, monkeypatch):
    asked = study(rate=100, seconds=11)
    c, bench = campaign(asked, mariadb, *asked.compared)

    def at_once(runs, measured=tools.at_once):
        harm = stopped(bench.servers[1], 0.2, 1.0)
        found = measured(runs)
        harm.join()
        return found

    monkeypatch.setattr(tools, "at_once", at_once)
    c.pair(bench, cell(c))
    arm = c.study.arms[0].name
    (run,) = (r for r in tidy.run_folders(c.folder) if tidy.read(r)["arm"] == arm)
    out = tidy.Run(run).sysbench  # as it was printed: a busy machine may saturate a window
    assert out["latency"]["max"] > 0.19
    # 20 of 1,100 transactions arrive while it stands still, 11 of them wait half of it or more;
    # clients in a closed loop would have sent it one or two
    found = rates.pooled_quantiles([out], [0.5, 0.99])
    assert found[0.99] > 0.06
    assert out["latency"]["mean"] > found[0.5] + 0.001  # 20 of 1,100 wait 100 ms on average


@pytest.mark.parametrize(
    "rate",
    [
        pytest.param(20_000, id="unserved", marks=pytest.mark.slow),
        pytest.param(RATE_MOST, id="queue full"),
    ],
)
def test_a_rate_above_the_capacity_is_saturated_for_both_arms(campaign, mariadb, rate):
    asked = study(rate=rate)
    c, bench = campaign(asked, mariadb, *asked.compared)
    c.pair(bench, cell(c))
    assert len(whole(c)) == 2
    table, _, saturated = tidy.opened(c.folder).tidy_runs
    assert saturated == {asked.workloads[0].name: {asked.arms[0].name: [1, 1]}}
    assert set(table["metric"]) <= {"saturated", "steal"}
    full = [tidy.read(run).get("queue_full", False) for run in tidy.run_folders(c.folder)]
    assert any(full) == (rate == RATE_MOST)


@mostly("mariadb")
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


@mostly("mariadb")
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


# -- the rate that is asked for, and what it lets expect ---------------------------------------------


@pytest.mark.parametrize(
    ("tps", "percent", "rate"),
    [(1940, 25, 480), (9999, 90, 9000), (12.4, 50, 6), (0.3, 1, 1), (10**6, 90, RATE_MOST)],
)
def test_a_share_is_rounded_to_two_digits(tps, percent, rate):
    assert share_of(tps, percent) == rate


@pytest.mark.slow
def test_a_share_of_the_capacity_is_measured_once_and_frozen(mariadb, home, monkeypatch, capsys):
    monkeypatch.setattr(studies.ab, "WINDOW_S", (2, 2))
    monkeypatch.setattr(loading, "templates", lambda *given: {"": mariadb})
    measured, looks = ab._capacity, []
    monkeypatch.setattr(ab, "_capacity", lambda *given: looks.append(measured(*given)) or looks[-1])  # fmt: skip
    asked = Request("own-study", "", "smoke", "mariadb", budget_min=0.3)
    # no more than 10 %: other workers share the machine
    asked = replace(asked, settings=("sync_binlog=1,0",), rate="10%")

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(campaigns.Campaign, "pair", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collect.measure_study(asked)
    said = re.search(r"capacity ([\d,]+) .*; 10 % of it, to two digits: ([\d,]+)", capsys.readouterr().err)  # fmt: skip
    capacity, rate = (int(n.replace(",", "")) for n in said.groups())
    assert rate == pytest.approx(capacity / 10, rel=0.05)
    (folder,) = (home / "runs").iterdir()
    (work,) = tidy.meta(folder)["workloads"]
    assert (work["rate"], work["name"]) == (rate, f"oltp_read_write, {rate:,} a second")
    asked_for = tidy.meta(folder)["parameters"]
    assert (asked_for["rate"], asked_for["capacity"]) == ("10%", capacity)
    assert collect.measure_study(asked) == (folder,)
    assert len(looks) == 1
    runs = map(tidy.read, tidy.run_folders(folder))  # a warm-up is as much as they can do
    assert {run["rate"] for run in runs if not run["warmup"]} == {rate}
    collect.measure_study(asked)  # that one has ended
    assert len(looks) == 2


def test_the_half_width_to_expect_at_once_and_in_turn():
    asked = Request("own-study", settings=("sync_binlog=1,0",), rate=500)
    at_once = schedule.plan(studies.load(asked))["expected"]
    known = json.loads(paths.noise_file("noise", local=False).read_text())["at a rate, at once"]
    for metric, half in at_once.items():  # two-sided t of eight blocks, some windows each
        assert 0.3 < half / known[metric]["64"] < 1.1
    floor = {"p99": (1.0, 5.0), "cpu_per_transaction": (0.7, 5.0)}
    theirs = as_guest(studies.load(replace(asked, server="env")), floor, "", cpu=True)
    warm_ups = [campaigns.warm_up(s).workload.rate for s in (studies.load(asked), theirs)]
    assert warm_ups == [0, 500], "a server of somebody else is never loaded to the full"
    in_turn = schedule.plan(theirs)["expected"]
    assert in_turn["p99"] > 2 * at_once["p99"]
    assert in_turn["cpu_per_transaction"] > 1.5 * at_once["cpu_per_transaction"]
    declared = schedule.plan(theirs)
    wide = replace(theirs, floor=floor | {"cpu_per_transaction": (20.0, 5.0)})
    one_start = schedule.expected(wide, declared)["cpu_per_transaction"]
    assert one_start > 50, "a server that is not restarted shows nothing of its starts"


def test_what_is_expected_has_its_source():
    file = Path(calibrate.__file__).with_name("pilot.toml")
    noise = json.loads(paths.noise_file("noise", local=False).read_text())
    for name, entries in tomllib.loads(file.read_text()).items():
        assert noise[name].keys() >= entries.keys()
        assert noise[name]["source"] == f"recorded; else {entries['source']}"
        assert noise[name]["p99"] != entries["p99"]
