"""Load from several clients: real workers of a Dask cluster on loopback, each with a real sysbench."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from conftest import command_lines, done, noisefloor, refused
from noisefloor import model as study
from noisefloor import parse, studies
from noisefloor.data import tidy
from noisefloor.measure import loading
from noisefloor.measure.campaign import PairLost
from test_cluster import kill_one, workers
from test_collect import SMOKE, cell_of

# on a busy machine two clients do not begin within a tenth of a second
LONGER = replace(SMOKE, profile=replace(SMOKE.profile, slice_s=3, warmup_s=3))


@pytest.fixture(scope="module")
def two():
    """Two clients on loopback."""
    with workers() as made:
        yield made


@pytest.fixture
def loaded(campaign, mysql, two):
    """(Campaign, ServerPool) whose load comes from both clients."""
    return campaign(study.from_clients(LONGER, 2), mysql, address=two.scheduler_address)


def runs(c) -> list:
    return [r for r in tidy.run_folders(c.folder) if "warm" not in r.name]


# -- one run -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_results_of_two_clients_are_one_run(loaded):
    c, bench = loaded
    c.warm(bench, [(0, c.study.baseline)])
    seen = []
    with ThreadPoolExecutor(1) as beside:
        going = beside.submit(c.pair, bench, cell_of(c.study, workload=c.study.workloads[0]))
        while not going.done():
            seen.append(command_lines())
            time.sleep(0.05)
        going.result()
    made = runs(c)
    assert len(made) == 2
    password = (bench.servers[0].folder / "sysbench.cnf").read_text().split("mysql-password=")[1]
    assert not any(password.split()[0] in lines for lines in seen)
    apart = []  # seconds between the starts of both clients
    for run in made:
        facts, found = tidy.read(run), tidy.Run(run).sysbench
        proof = {"variables.json", "evidence.json"} if facts["arm"] == "encrypted" else set()
        assert {p.name for p in run.iterdir()} == {
            "run.json", "clients.json", "sysbench-1.txt", "sysbench-2.txt", *proof
        }  # fmt: skip
        assert facts["exit_code"] == 0
        assert "--threads=2" in facts["argv"]
        assert (facts["threads"], found["threads"]) == (4, 4)
        each = [parse.sysbench(p.read_bytes()) for p in tidy.printed(run)]
        assert found["events"] == sum(e["events"] for e in each) == found["histogram_counts"].sum()
        assert found["tps"] == pytest.approx(sum(e["tps"] for e in each), rel=0.1)
        starts = [x["start_s"] for x in json.loads((run / "clients.json").read_text())]
        apart.append(max(starts) - min(starts))
        value = tidy.metrics(facts, run)
        assert value["tps"] == found["tps"]
        used = facts["usage"]["server"]["cpu_s"]
        assert value["cpu_per_transaction"] == pytest.approx(used / found["events"])
        assert facts["client_cpu_s"] > 0
    assert c.done() == {"in-memory-t4-encrypted": 1}
    assert len(tidy.intervals(c.folder)["run"].unique()) == 3  # the warm-up, too
    assert min(apart) < 0.3
    assert max(apart) < 1  # where the machine was busy


@pytest.mark.slow
def test_three_threads_are_divided(campaign, mysql, two):
    chosen = replace(LONGER, workloads=(replace(LONGER.workloads[0], threads=(3,)),))
    c, bench = campaign(study.from_clients(chosen, 2), mysql, address=two.scheduler_address)
    c.pair(bench, cell_of(c.study, workload=c.study.workloads[0]))
    texts = [p for r in runs(c) for p in tidy.printed(r)]
    assert [parse.sysbench(p.read_bytes())["threads"] for p in texts] == [2, 1, 2, 1]


# -- a client that is lost ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_killed_client_costs_a_run_that_is_made_again(loaded, two):
    """With -9 while both load: the run is kept as failed; the next one has both, and nothing of a
    load goes on."""
    c, bench = loaded
    c.warm(bench, [(0, c.study.baseline)])

    def kill():
        while " --threads=2 " not in command_lines():
            time.sleep(0.02)
        kill_one(two)

    thread = threading.Thread(target=kill)
    thread.start()
    while thread.is_alive() or not c.done():
        c.pair(bench, cell_of(c.study, workload=c.study.workloads[0]))
    thread.join()
    failed = list(c.folder.glob("*.failed*"))
    assert failed
    assert "a client failed or was lost" in (failed[0] / "failure.txt").read_text()
    assert " --threads=2 " not in command_lines()


def test_a_client_that_cannot_load_is_a_failed_run(loaded):
    c, bench = loaded
    broken = replace(c.study.workloads[0], script="no_such_script")
    cell = replace(cell_of(c.study), workload=broken)
    place = {"pair": 0, "pair_id": "x", "position": 0, "slot": 0}
    with pytest.raises(PairLost, match="a client ended with exit code 1: "):
        c.make_run(bench, c.slice(cell, c.study.baseline, 1, "x", **place))


# -- campaigns ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_campaign_from_clients_is_finished_and_judged(home, mysql, two, monkeypatch):
    monkeypatch.setattr(loading, "templates", lambda *a: {"": mysql})
    asked = ("run", "binlog-encryption", "--question", "headline")
    asked += ("--profile", "smoke", "--budget", "0.3")
    done(*asked, "--clients", two.scheduler_address)
    (folder,) = (home / "runs").iterdir()
    meta = tidy.meta(folder)
    assert meta["finished"]
    assert {w["clients"] for w in meta["workloads"]} == {2}
    assert study.study_of(meta) == study.from_clients(
        studies.load(study.Request("binlog-encryption", profile="smoke", budget_min=0.3)), 2
    )
    assert all(tidy.CLIENTS in tidy.read(r)["sha256"] for r in tidy.run_folders(folder))
    table, problems, _ = tidy.opened(folder).tidy_runs
    assert not table[~table["warmup"]].empty
    # on a busy machine two clients may not begin at once: such a run is made again
    assert all("; kept, not compared" in p for p in problems)
    for file in folder.rglob("*.json"):
        assert two.scheduler_address.partition("//")[2] not in file.read_text()


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--clients", "tcp://127.0.0.1:1"], 1, "no Dask scheduler answers"),
        (["--clients", "tcp:"], 2, "tcp:: tcp://host:port"),
        (["--clients", "tcp://db.example:8786"], 1, "tls:// is needed"),
        (
            ["--clients", "two", "--question", "headline", "--threads", "1"],
            2,
            "1 thread cannot be divided over 2 clients",
        ),
        # at a rate, as without --question
        (["--clients", "two"], 2, "binlog-encryption, rate: --clients is for sysbench"),
        (["--clients", "two", "--question", "all"], 2, "rate: --clients is for sysbench"),
        (["--clients", "two", "--question", "replica"], 2, "replica: --clients is for sysbench"),
    ],
)
def test_what_cannot_be_is_one_sentence(home, two, more, code, says):
    more = [two.scheduler_address if m == "two" else m for m in more]
    refused(noisefloor("run", "binlog-encryption", "--profile", "smoke", *more), code, says)
    assert not (home / "runs").exists()


@pytest.mark.parametrize("name", ["backup-encryption", "ssl-connections"])
def test_studies_that_sysbench_does_not_load(name):
    with pytest.raises(study.StudyError, match="--clients is for sysbench alone"):
        study.from_clients(studies.load(study.Request(name, profile="smoke")), 2)
