"""Both servers at once, each offered a rate: a server, a client or Noisefloor itself dies or hangs in
the middle of a window, a disk is full, the clock is stepped. A window counts for both arms or for
neither, once."""

import contextlib
import json
import os
import random
import re
import signal
import threading
import time
from dataclasses import replace
from functools import partial

import psutil
import pytest

import live
from conftest import ROOT, refused, signalled, until
from conftest import noisefloor as run
from live import LONGEST_S, SEED, Live, mounts, promise, send
from noisefloor import model, paths, studies
from noisefloor.data import tidy
from noisefloor.measure import child, collect, loading, tools
from noisefloor.measure.campaign import CampaignError
from noisefloor.measure.child import ToolError
from noisefloor.servers import session
from noisefloor.servers.server import ServerError
from test_ab import ab
from test_campaign import aside, no_data, whole
from test_clock import stepped
from test_disk import fill, text_meets_a_full_disk
from test_own_server import kept, measured, on, theirs
from test_rate import cell, study

slow = pytest.mark.slow
KILL, STOP = signal.SIGKILL, signal.SIGSTOP
SECONDS = 2

# windows are shorter, and no page is made
SHORT = f"""
from noisefloor.show import report
from noisefloor.studies import ab
ab.WINDOW_S = ({SECONDS}, {SECONDS})
report.render_all = lambda *given, **more: [("", "", 0.0)]
from noisefloor.cli"""
ASKED = ("ab", "sync_binlog=1,0", "--engine", "mariadb", "--rate", "80", "--profile", "smoke")


@pytest.fixture
def command(monkeypatch):
    """command(home, template, minutes, **more): the command that measures at a rate, to be harmed."""
    monkeypatch.setattr(live, "DRIVER", live.DRIVER.replace("\nfrom noisefloor.cli", SHORT))

    def made(home, template, minutes, **more):
        home.mkdir(exist_ok=True)
        return Live(home, template, *ASKED, "--budget", str(minutes), **more)

    return made


# -- a server, a client, the command ---------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    ("name", "how", "times"),
    [
        ("noisefloor", KILL, 2),
        ("mariadbd", KILL, 2),
        ("mariadbd", STOP, 1),
        ("sysbench", KILL, 4),
        ("sysbench", STOP, 1),
    ],
)
def test_in_the_middle_of_a_window(tmp_path, mariadb, command, name, how, times):
    at_work, points = (
        command(tmp_path / "home", mariadb, 0.4),
        random.Random(f"{SEED} {name} {how}"),
    )
    at_work.start()
    while times:
        until(lambda: under_load(at_work) or not at_work.running(), "window", LONGEST_S)
        time.sleep(points.uniform(0, SECONDS))
        if (victim := at_work.running() and at_work.victim(name)) and send(name, victim, how):
            times -= 1
        if name == "noisefloor" or not at_work.running():
            at_work.end()
            at_work.start()
    at_work.finish()


def under_load(at_work: Live) -> bool:
    """Whether a client is at work, and not one that only says what its script takes."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(at_work.process.pid).children(recursive=True)
        return any("--rate=80" in p.cmdline() for p in children)
    return False


@pytest.fixture
def pair(campaign, mariadb, monkeypatch):
    """A campaign at a rate with both its servers running; what hangs is not waited for long."""
    monkeypatch.setattr(session, "ANSWER_S", 2)
    monkeypatch.setattr(child, "PATIENCE_S", 1)
    asked = study()
    (work,) = asked.workloads
    work = replace(work, slices=dict.fromkeys(work.slices, SECONDS))
    asked = replace(asked, workloads=(work,))
    return campaign(asked, mariadb, *asked.compared)


@slow
@pytest.mark.parametrize("how", [KILL, STOP], ids=["dies", "hangs"])
@pytest.mark.parametrize("which", [0, 1], ids=["baseline", "arm"])
def test_a_window_whose_server_is_lost_ends_and_counts_for_neither_arm(
    pair, which, how, monkeypatch
):
    c, bench = pair
    victim = bench.servers[which].process

    def at_once(runs, measured=tools.at_once):
        threading.Timer(0.5, victim.send_signal, (how,)).start()
        return measured(runs)

    monkeypatch.setattr(tools, "at_once", at_once)
    began = time.monotonic()
    with pytest.raises(ServerError, match="not running" if how == KILL else "it hangs"):
        c.pair(bench, cell(c))
    # a client that waits for an answer, the look at the server afterwards, nothing else
    assert time.monotonic() - began < 3 * SECONDS + child.PATIENCE_S + 3 * session.ANSWER_S + 3
    no_data(c)
    promise(c.folder.parent)


@slow
def test_a_window_whose_client_hangs_is_made_again(pair):
    c, bench = pair
    with signalled("sysbench", how=STOP, send=partial(send, "sysbench")):
        c.pair(bench, cell(c))
    assert len(whole(c)) == 2
    assert sorted(n.partition(".")[0] for n in aside(c)) == whole(c)  # both runs of the window
    promise(c.folder.parent)


@slow
def test_clients_that_are_not_let_in_fail_before_the_clock(pair):
    """The server that stands still is the one that hangs, not the other one's window."""
    c, bench = pair
    os.kill(bench.servers[1].pid, STOP)
    with pytest.raises((ServerError, ToolError), match="it hangs"):
        c.pair(bench, cell(c))
    os.kill(bench.servers[1].pid, signal.SIGCONT)
    no_data(c)


# -- disk and clock --------------------------------------------------------------------------------


@slow
def test_the_text_of_a_window_meets_a_full_disk(tmp_path, mariadb, command, mounts):
    home = tmp_path / "home"
    mounts.small(home / "runs", "30m")
    at_work = command(home, mariadb, 0.4, enter=mounts.enter)
    at_work.runs = mounts.seen(home / "runs")
    text_meets_a_full_disk(at_work)


@slow
def test_both_servers_meet_a_full_disk(tmp_path, mariadb, command, mounts):
    home = tmp_path / "home"
    mounts.small(home / ".servers", "7000m")
    at_work = command(home, mariadb, 0.5, enter=mounts.enter)
    at_work.start()
    at_work.until_whole(2)
    at_work.servers = servers = mounts.seen(home / ".servers")
    while at_work.running():
        ballast = fill(servers)
        time.sleep(0.1)
    assert at_work.end() in (0, 1)
    ballast.unlink()
    at_work.finish()


@slow
def test_the_clock_is_stepped_in_the_middle_of_a_window(tmp_path, mariadb, command, stepped):
    """As in test_clock: no length and no latency comes from a clock that is stepped."""
    clock, environment = stepped
    at_work = command(tmp_path / "home", mariadb, 1.5, **environment)
    at_work.start()
    for n, step in enumerate(("-3600", "+86400", "-7200"), 1):
        at_work.until_whole(4 * n - 2)
        at_work.until("sysbench")
        clock.write_text(step)
    at_work.until_whole(14)
    at_work.process.send_signal(signal.SIGINT)
    assert at_work.end() == 130
    (folder,) = at_work.runs.iterdir()
    for facts in map(tidy.read, tidy.run_folders(folder)):
        out = tidy.Run(folder / facts["run"]).sysbench
        if not facts["warmup"]:
            assert out["duration_s"] == pytest.approx(SECONDS, abs=1)
            assert out["latency"]["max"] < 2 * SECONDS
            assert out["transactions"] == pytest.approx(80 * SECONDS, rel=0.5)
    assert 0 < tidy.meta(folder)["spent_s"] < 90


# -- a server of one's own -------------------------------------------------------------------------


@slow
@on("mariadb")
def test_a_guest_is_measured_in_turn_at_a_rate(theirs, monkeypatch, capsys):
    """The plan says beforehand how wide that is."""
    monkeypatch.setattr(studies.ab, "WINDOW_S", (SECONDS, SECONDS))
    said: list[str] = []
    measured(theirs.url, rate="80", budget_min=0.2, dry=said.append)
    loads = [s for s in said if s.startswith("-- sysbench") and s.endswith("run")]
    assert ["--rate=80" in s for s in loads] == [True, True]  # the warm-up, and what is measured
    folder = measured(theirs.url, rate="80", budget_min=0.2)
    theirs.unchanged()
    assert {s for _, s in theirs.sent() if "SET GLOBAL" in s} == {
        f"SET GLOBAL sync_binlog = {n}" for n in (0, 1, theirs.before["variables"]["sync_binlog"])
    }
    said = capsys.readouterr().err
    assert "plan: 2 blocks" in said
    assert "expected: Server CPU per transaction ±" in said
    assert "no p99: a block offers 160 transactions, 1,000 are needed" in said
    runs = [tidy.read(r, verify=False) for r in tidy.run_folders(folder)]
    counted = [f for f in runs if not f["warmup"]]
    assert len(counted) >= 2
    for facts in runs:
        assert "--rate=80" in facts["argv"], "nothing loads it to the full"
        assert facts["disk"]["log_syncs"] > 0
    first, second = sorted(counted, key=lambda f: f["start"])[:2]
    assert first["end"] <= second["start"], "one after the other"
    table = tidy.tidy_table(folder)
    reached = table[table["metric"].eq("reached_rate") & ~table["warmup"]]["value"]
    assert reached.mean() == pytest.approx(80, rel=0.2)
    assert tidy.meta(folder)["plan"]["expected"]["cpu_per_transaction"] > 20


@slow
@on("mysql")
def test_a_guest_at_a_rate_from_question_to_page(theirs, home):
    asked = ("sync_binlog=1,0", "--rate", "80", "--profile", "smoke", "--budget", "1")
    ran = ab(home, *asked, "--json", "--server", theirs.url)
    assert ran.returncode == 0, ran.stderr
    theirs.unchanged()
    assert re.search(r"plan: 2 blocks, .*expected: 99th percentile latency over ±100 %", ran.stderr)
    rows = json.loads(ran.stdout)["comparisons"]
    (row,) = (r for r in rows if r["metric"] == "p99" and "again" not in r["arm"])
    assert row["verdict"] in ("cannot tell", "slower", "faster")
    assert (home / "reports" / "ab-sync-binlog.html").exists()


# -- what cannot be asked --------------------------------------------------------------------------

NEEDED = "a whole number of transactions a second from 1 to 100,000 is needed, or a share"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        *(
            (f"ab sync_binlog=1,0 --rate {rate}", f"rate {rate}: {NEEDED}")
            for rate in ("0", "-5", "abc", "0.5", "1e3", "100001", "0%", "91%", "120%", "%", "5,6")
        ),
        ("ab sync_binlog=1,0 --rate 25% --server mysql://u@h", "load it to the full"),
        ("ab sync_binlog=1,0 --rate 0 --server mysql://u@h", NEEDED),
        ("ab sync_binlog=1,0 --rate 500 --workload cpu", "asks no server anything"),
        ("run backup-encryption --rate 500", "No such option '--rate'"),
        ("run ssl-connections --rate 500", "No such option '--rate'"),
        ("report binlog-encryption -p rate 500", "has no parameter 'rate'"),
    ],
    ids=lambda text: text if text.startswith(("ab", "run", "report")) else "",
)
def test_what_cannot_be_asked_is_one_sentence_and_nothing_is_done(line, words, home):
    (home / "notebooks").symlink_to(ROOT / "notebooks")
    refused(run(*line.split()), words=words)
    assert [p.name for p in home.iterdir()] == ["notebooks"]


@slow
def test_a_rate_above_the_capacity_has_no_word_and_says_what_was_reached(
    mariadb, home, monkeypatch
):
    monkeypatch.setattr(studies.ab, "WINDOW_S", (SECONDS, SECONDS))
    monkeypatch.setattr(loading, "templates", lambda *given: {"": mariadb})
    asked = model.Request("own-study", "", "smoke", "mariadb", budget_min=0.3)
    asked = replace(asked, settings=("sync_binlog=1,0",), rate="20000")
    with pytest.raises(CampaignError) as e:
        collect.measure_study(asked)
    n = sum(1 for r in paths.runs().glob("*/*-p[0-9]*-0-*"))
    assert f"saturated in {n} of {n} windows: no word at this rate; a server finished about" in str(
        e.value
    )
    assert "of 20,000 transactions a second" in str(e.value)
    assert "about 0 of" not in str(e.value)
    (folder,) = paths.runs().iterdir()
    assert (
        tidy.meta(folder)["ended_because"] == "in no window did both servers keep up with the rate"
    )
    blocks = {tidy.read(run)["block"] for run in tidy.run_folders(folder)}
    assert blocks == {0}  # of two
    assert isinstance(model.study_of(tidy.meta(folder)), model.Study)
