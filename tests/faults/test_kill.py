"""Noisefloor itself, the server that is measured, the measuring tool, a replica or the kernel of a
notebook that measures dies (kill -9), or hangs (SIGSTOP)."""

import fcntl
import os
import random
import signal
import time
from dataclasses import replace
from functools import partial

import psutil
import pytest

from conftest import mostly, signalled
from live import PATCHES, SEED, Live, asked, count, harm, promise, send
from noisefloor import schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import child, replication
from noisefloor.model import Request, Workload
from noisefloor.servers import session
from noisefloor.servers.server import ServerError
from test_campaign import no_data
from test_collect import SMOKE, cell_of, names
from test_report import write

slow = pytest.mark.slow
KILL, STOP, TERM = signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM
MARIADB = ("--engine", "mariadb")


@pytest.mark.parametrize(
    ("name", "how", "times", "template", "minutes", "more", "longest"),
    [
        pytest.param("noisefloor", KILL, 2, "mysql", 0.1, (), 7, marks=slow),
        pytest.param("noisefloor", KILL, 4, "mysql", 0.15, (), 7, marks=slow),
        # while servers are initialised and loaded
        pytest.param("noisefloor", KILL, 2, "", 0.1, (), 7, marks=slow),
        pytest.param("noisefloor", KILL, 2, "mariadb", 0.2, MARIADB, 7, marks=slow),
        pytest.param("noisefloor", TERM, 4, "mysql", 0.1, (), 6, marks=slow),
        pytest.param("mysqld", KILL, 3, "mysql", 0.15, (), 6, marks=slow),
        pytest.param("mysqld", STOP, 1, "mysql", 0.2, (), 6, marks=slow),
        pytest.param("mariadbd", KILL, 2, "mariadb", 0.2, MARIADB, 6, marks=slow),
        pytest.param("sysbench", KILL, 6, "mysql", 0.2, (), 2.5, marks=slow),
        pytest.param("sysbench", STOP, 2, "mysql", 0.2, (), 4, marks=slow),
    ],
)
def test_at_random_points(request, tmp_path, name, how, times, template, minutes, more, longest):
    """One server that is switched, or two side by side (MariaDB)."""
    made = request.getfixturevalue(template) if template else None
    live = Live(tmp_path, made, *asked(minutes, *more))
    harm(live, name, times, how=how, between=(0.2, longest), seed=SEED + times)


# -- Noisefloor ------------------------------------------------------------------------------------


@slow
def test_kill_9_in_the_middle_of_a_block_keeps_its_deal(tmp_path, mariadb):
    """Side by side: what is whole of the block stays, and the rest is measured with the same deal."""
    told = tmp_path / "dealt"
    live = Live(tmp_path / "home", mariadb, *asked(0.3, *MARIADB), DEALT=str(told))
    live.home.mkdir()
    live.start()
    live.until_whole(2)  # a pair of the first block
    assert send("noisefloor", live.victim("noisefloor"))
    live.end()
    (folder,) = live.runs.iterdir()
    seed = tidy.meta(folder)["seed"]
    assert set(tidy.tidy_table(folder)["block"]) == {0}
    before = told.read_text().split()
    told.unlink()
    live.finish()
    assert [f.name for f in live.runs.iterdir()] == [folder.name]
    coins = [schedule.generator(seed, k, "deal").permutation(2) for k in (0, 1)]
    dealt = [[["plain", "encrypted"][i] for i in coin] for coin in coins]
    assert before == dealt[0]
    assert told.read_text().split() == dealt[0] + dealt[1]
    assert set(tidy.tidy_table(folder)["block"]) == {0, 1}


@pytest.mark.slow
def test_kill_9_of_a_measurement_of_what_is_due(tmp_path, mysql):
    """No whole run is lost; the same command continues the campaign and packs it."""
    live = Live(tmp_path, mysql, "measure", "--minutes", "3", DUE="1")
    live.start()
    live.until_whole(1)
    (folder,) = live.runs.iterdir()
    look = partial(tidy.locked, folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with pytest.raises(BlockingIOError), look():
        pass
    assert send("noisefloor", live.victim("noisefloor"))
    live.end()
    with look():  # nobody measures it now
        pass
    assert not tidy.meta(folder)["finished"]
    assert not (tmp_path / "data").exists()
    live.finish()
    assert [f.name for f in live.runs.iterdir()] == [folder.name]
    packed = tmp_path / "data" / "raw" / "recorded" / folder.name
    assert f"git add {packed.relative_to(tmp_path)} && git commit" in live.said
    assert tidy.digest(packed) == tidy.digest(folder)


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
                "noisefloor: stopped; what was finished is kept, the same command continues\n"
            )
    live.finish()


# -- the server ------------------------------------------------------------------------------------


@slow
def test_a_campaign_whose_server_died_says_so(tmp_path, mysql):
    live = Live(tmp_path, mysql)
    live.start()
    live.until_whole(1)
    assert send("mysqld", live.until("mysqld"))
    assert live.end() == 1
    assert "noisefloor: the server is not running" in live.said


def test_a_server_that_hangs_ends_the_campaign_with_a_sentence(campaign, mysql, monkeypatch):
    monkeypatch.setattr(session, "ANSWER_S", 2)
    monkeypatch.setattr(child, "PATIENCE_S", 0)
    c, bench = campaign(SMOKE, mysql)
    bench.servers[0].process.send_signal(STOP)
    with pytest.raises(ServerError, match="the server gave no answer in 2 s; it hangs"):
        c.pair(bench, cell_of(SMOKE))
    assert not list(c.folder.glob("*.partial"))
    assert c.table.empty
    promise(c.folder.parent)


@slow
def test_a_long_statement_on_a_server_that_hangs_ends_too(own, monkeypatch):
    monkeypatch.setattr(session, "ANSWER_S", 1)
    assert own.patient("SELECT SLEEP(2.5) AS x") == [{"x": 0}]
    own.process.send_signal(STOP)
    with pytest.raises(ServerError, match="the server is not running"):
        own.patient("SELECT 1")


@mostly("mariadb")
def test_a_server_that_hangs_is_stopped_all_the_same(own, monkeypatch):
    process = own.process
    process.send_signal(STOP)
    with monkeypatch.context() as hasty:
        hasty.setattr(session, "ANSWER_S", 1)
        with pytest.raises(ServerError, match="did not stop within 2 s; it was killed"):
            own.stop()
    assert process.poll() is not None
    assert own.start() > 0  # and starts again


# -- the measuring tool ----------------------------------------------------------------------------


stopped = partial(signalled, "sysbench", how=STOP, send=partial(send, "sysbench"))


@slow
def test_a_run_whose_sysbench_hangs_is_made_again(campaign, mysql, monkeypatch):
    monkeypatch.setattr(child, "PATIENCE_S", 0)
    c, bench = campaign(SMOKE, mysql)
    with stopped():
        c.pair(bench, cell_of(SMOKE))
    assert c.done() == {"in-memory-t4-encrypted": 1}
    (failed,) = (n for n in names(c.folder) if "." in n)
    assert "exit code -9" in (c.folder / failed / "failure.txt").read_text()
    promise(c.folder.parent)


@slow
def test_recovery_under_a_load_that_hangs_is_no_run(campaign, mysql):
    chosen = replace(SMOKE, workloads=(Workload("restart", "", tool="restart"),))
    c, bench = campaign(chosen, mysql)
    with stopped(2):  # the load before the kill, and the one after the recovery
        c.pair(bench, cell_of(chosen, workload=chosen.workloads[0]))
    failed = next(c.folder.glob("*.failed1"))
    assert "the load on the server stood still" in (failed / "failure.txt").read_text()
    assert len(c.table["run"].unique()) == 2
    promise(c.folder.parent)


# -- a replica -------------------------------------------------------------------------------------

CHOSEN = studies.load(Request("binlog-encryption", "replica", profile="smoke"))
WORKLOAD = replace(CHOSEN.workloads[0], events=5_000)  # seconds of applying
CHOSEN = replace(CHOSEN, workloads=(WORKLOAD,))


@pytest.fixture
def harmed(campaign, mysql, monkeypatch):
    """harmed(harm) -> (campaign, bench, cell) of two replicas, one of which `harm` is called with
    each time that they begin to catch up."""
    monkeypatch.setattr(session, "ANSWER_S", 10)  # of a connection, from its beginning
    monkeypatch.setattr(child, "PATIENCE_S", 4)

    def begun(harm):
        looks = replication._looks

        def harmed_looks(runs, *given):
            harm(runs[1].replica)
            return looks(runs, *given)

        monkeypatch.setattr(replication, "_looks", harmed_looks)
        c, bench = campaign(CHOSEN, mysql, *CHOSEN.compared)
        bench.ready(CHOSEN.arms[0], WORKLOAD)
        return c, bench, cell_of(CHOSEN, workload=WORKLOAD)

    return begun


@slow
def test_a_replica_that_stops_is_measured_again(harmed):
    """Stopped by somebody else: both runs of the pair are made again, with new replicas."""
    pids = []

    def stop(replica):
        if not pids:
            replica.query("STOP REPLICA")
        pids.append(replica.pid)

    c, bench, cell = harmed(stop)
    c.pair(bench, cell)
    assert c.done() == {"replica-t4-encrypted": 1}
    assert len(set(pids)) == 2
    failed = [n for n in names(c.folder) if ".failed" in n]
    assert len(failed) == 2
    said = {(c.folder / n / "failure.txt").read_text().splitlines()[1] for n in failed}
    assert said == {"the replica stopped: it was told to"}
    promise(c.folder.parent)


@slow
@pytest.mark.parametrize(("how", "said"), [(KILL, "is not running"), (STOP, "it hangs")])
def test_a_replica_that_dies_or_hangs_ends_it(harmed, how, said):
    c, bench, cell = harmed(lambda replica: send("replica", psutil.Process(replica.pid), how))
    with pytest.raises(ServerError, match=said):
        c.pair(bench, cell)
    no_data(c)  # of neither replica
    promise(c.folder.parent)


# -- the kernel of a notebook that measures --------------------------------------------------------

MEASURES = (
    "# What does it cost?",
    PATCHES,
    "from noisefloor.notebook import collect, report, results\n"
    "from noisefloor.model import Request\n"
    "asked = Request('binlog-encryption', 'headline', profile, budget_min=0.2)\n"
    "(folder,) = collect.measure_study(asked)\n"
    "r = results.load(folder)",
    "## The verdict",
    "report.verdict_box(r.verdicts, r.meta)",
    "report.save(r.verdicts, 'mine', r.meta, title=r.study.title, primary={'workload': results.main_workload(r)})",
)


@slow
def test_the_kernel_of_a_notebook_that_measures(tmp_path, mysql):
    """No run is lost, and the page is made when all is done."""
    home = tmp_path / "home"
    (home / "notebooks").mkdir(parents=True)
    (home / "environment.yml").touch()
    write(home, "mine", MEASURES, 'profile = "smoke"  # of the campaign\n')
    out = home / "pages"
    live = Live(home, mysql, "report", "mine", "--out", str(out), pages=out)
    points = random.Random(f"{SEED} a notebook measures")
    for n in range(2):
        live.start()
        live.until("sysbench" if n else "ipykernel_launcher")
        time.sleep(points.uniform(0, 3))
        killed = send("ipykernel_launcher", live.until("ipykernel_launcher"))
        assert (live.end() == 1) == killed
    live.finish()
    assert (out / "mine.html").exists()
    assert len(list(live.runs.iterdir())) == 1
