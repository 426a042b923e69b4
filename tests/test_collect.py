"""Campaigns on real servers: whole ones, killed ones, failing ones."""

import contextlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest

from conftest import ENGINES, alive, command_lines, planned
from noisefloor import (
    collect,
    engines,
    honest,
    paths,
    results,
    schedule,
    stats,
    studies,
    study,
    tidy,
    tools,
)
from noisefloor.evidence import EvidenceError
from noisefloor.measure import campaign as campaigns
from noisefloor.measure import lock, loop
from noisefloor.measure.campaign import resumable, write_json
from noisefloor.server import ServerError
from noisefloor.study import Arm, Workload

SMOKE = studies.load("binlog-encryption", profile="smoke")
DUET = studies.load("binlog-encryption", question="processor", profile="smoke", budget_min=0.25)
MAIN = SMOKE.workloads[0]
WORDS = {"slower", "faster", "same", "cannot tell"}
ENDS = (
    "the budget is spent",
    "every comparison is decided",
    "the 2 declared blocks are measured",
)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir())


def assert_whole(folder: Path, design: str) -> pd.DataFrame:
    """What every finished campaign has; returns its tidy table of judged runs."""
    meta = tidy.meta(folder)
    chosen = study.restored(meta)
    assert meta["finished"]
    assert meta["ended_because"] in ENDS
    assert meta["design"] == chosen.design == design
    assert not list(folder.rglob("*.partial"))
    table = tidy.table(folder)
    assert table.attrs["problems"] == []
    judged = table[~table["warmup"]]
    runs = judged.drop_duplicates("run")
    for _, pair in runs.groupby("pair_id"):
        assert sorted(pair["position"]) == [0, 1]
        assert sorted(pair["arm"] == chosen.baseline.name) == [False, True]
        assert pair["block"].nunique() == pair["pair"].nunique() == 1
    for _, comparison in runs[runs["arm"] != chosen.baseline.name].groupby("arm"):
        assert sorted(comparison["pair"]) == list(range(len(comparison)))  # each exactly once
    proved: dict[tuple[int, str], int] = {}
    for run in tidy.run_folders(folder):
        facts = tidy.read(run)  # checksums
        files = {p.name for p in run.iterdir()}
        proof = {"variables.json", "evidence.json"}
        assert files - proof == {"run.json", "sysbench.txt"}
        assert len(files & proof) in (0, 2)
        assert facts["sha256"].keys() == files - {"run.json"}
        assert facts["usage"]["server"]["cpu_s"] > 0
        assert facts["exit_code"] == 0
        server = facts["usage"]["server"]
        assert server["written_B"] > 0
        assert server["binlog_B"] > 0
        assert {"start", "end", "seed", "argv", "versions", "host", "steal_s"} <= facts.keys()
        at = (facts["block"], facts["arm"])
        proved[at] = proved.get(at, 0) + (proof <= files)
        assert proved[at] > 0  # the first run of an arm in a block has it
        if proof <= files:
            checks = json.loads((run / "evidence.json").read_text())["checks"]
            assert len(checks) >= 2
            assert {c["found"] for c in checks} == set(chosen.arm(facts["arm"]).expect.values())
    for block in sorted(set(judged["block"]))[:-1]:  # the last one's budget may have ended it
        closing = json.loads((folder / f"block-{block:02d}.json").read_text())
        assert closing.keys() == {chosen.baseline.name, *(a.name for a in chosen.arms)}
        for name, at_its_end in closing.items():
            found = {c["found"] for c in at_its_end["checks"]}
            assert found == set(chosen.arm(name).expect.values())
            assert (folder / at_its_end["file"]).exists()
    assert meta["wall_s"] >= meta["spent_s"] >= meta["slices_s"] > 0
    starts = runs.groupby("arm")["block"].nunique()
    # what was declared; a slow machine's budget may end before
    assert starts["encrypted"] == meta["plan"]["blocks"] or meta["ended_because"] == ENDS[0]
    pairs = runs[runs["arm"] == "encrypted"].groupby("block").size()
    assert set(pairs.iloc[:-1]) <= {meta["plan"]["pairs"]}
    assert not table[table["warmup"]].empty
    assert set(judged["run"]).isdisjoint(table[table["warmup"]]["run"])
    coins = [
        schedule.order(meta["seed"], r.block, c, r.pair) == (r.position == 0)
        for r in runs[runs["arm"] != chosen.baseline.name].itertuples()
        for c in schedule.cells(chosen)
        if r.pair_id.startswith(f"{c.key}-p")
    ]
    assert all(coins)
    assert coins
    return judged


# -- whole campaigns -------------------------------------------------------------------------------

_COMMAND = """
from noisefloor import collect, studies
parameters = {"profile": "smoke", "budget_min": 0.4}
print(collect.measure(studies.load("binlog-encryption", **parameters), parameters=parameters))
"""


def command(home: Path) -> subprocess.Popen:
    env = os.environ | {"NOISEFLOOR_HOME": str(home), "NOISEFLOOR_ENGINES": str(ENGINES)}
    env |= {"NOISEFLOOR_RUNS": str(home / "runs")}
    argv = [sys.executable, "-c", _COMMAND]
    return subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A campaign that was killed with -9 after two to five runs and continued by the same command:
    its folder, runs at the kill, processes left over, what both said, all command lines seen."""
    home = tmp_path_factory.mktemp("killed")
    whole = 2 + random.randrange(4)
    with command(home) as first:
        while not (runs := sorted(home.glob("runs/*/in-memory*/run.json"))) or len(runs) < whole:
            assert first.poll() is None, first.stderr.read()
            time.sleep(0.02)
        time.sleep(random.random())
        children = psutil.Process(first.pid).children(recursive=True)
        began = sorted(p.parent.name for p in home.glob("runs/*/*/run.json"))
        first.kill()
        first.wait()
    deadline = time.monotonic() + 5
    while any(alive(c.pid) for c in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = [c.pid for c in children if alive(c.pid)]
    lines, secrets = [], set()
    with command(home) as second:
        while second.poll() is None:
            lines.append(command_lines())
            for file in home.glob(".servers/*/*/*.cnf"):
                with contextlib.suppress(OSError):
                    secrets |= set(re.findall(r"password=(.+)", file.read_text()))
            time.sleep(0.1)
        said, folder = second.stderr.read(), second.stdout.read().strip()
        assert second.returncode == 0, said
    return {
        "home": home, "began": began, "children": children, "left": left, "said": said,
        "lines": lines, "secrets": secrets, "folder": Path(folder),
    }  # fmt: skip


def test_a_killed_campaign_is_finished_by_the_same_command(killed):
    assert len(killed["children"]) >= 1
    assert killed["left"] == []
    assert [p.name for p in (killed["home"] / "runs").iterdir()] == [killed["folder"].name]
    assert f"continuing {killed['folder'].name}" in killed["said"]
    judged = assert_whole_but_unpaired(killed["folder"])
    kept = {n for n in killed["began"] if (killed["folder"] / n).exists()}
    gone = set(killed["began"]) - kept
    assert len(gone) <= 1  # the run whose partner was being measured
    for name in gone:
        assert (killed["folder"] / f"{name}.unpaired1" / "run.json").exists() or name in judged[
            "run"
        ].to_list()


def assert_whole_but_unpaired(folder: Path) -> pd.DataFrame:
    for aside in folder.glob("*.unpaired1"):
        aside.rename(folder.parent.parent / aside.name)  # seen by the test, in nobody's way
    judged = assert_whole(folder, "switched")
    for aside in folder.parent.parent.glob("*.unpaired1"):
        aside.rename(folder / aside.name)
    return judged


def test_nothing_is_left_on_the_machine(killed):
    assert [p.name for p in (killed["home"] / ".servers").iterdir()] == ["lock"]
    assert str(killed["home"]) not in command_lines()


def test_no_password_was_seen_in_the_process_list_or_written_with_the_runs(killed):
    assert len(killed["secrets"]) >= 2
    assert any("sysbench" in s for s in killed["lines"])
    for secret in killed["secrets"]:
        assert not any(secret in s for s in killed["lines"])
    for path in killed["folder"].rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not any(s in text for s in killed["secrets"])
            assert str(killed["home"]) not in text
            assert str(ENGINES) not in text


def test_only_the_switch_differs_between_the_arms(killed):
    found = tidy.differences(killed["folder"])
    assert found[["variable", "asked"]].values.tolist() == [["binlog_encryption", True]]


def test_mariadb_side_by_side(home, mariadb, monkeypatch):
    parameters = {"engine": "mariadb", "profile": "smoke", "budget_min": 0.15}
    parameters["question"] = "headline"
    monkeypatch.setattr(collect, "templates", lambda *a: {"": mariadb})  # loaded once for all tests
    (folder,) = collect.obtain("binlog-encryption", **parameters)
    assert re.fullmatch(r"binlog-encryption-headline-smoke-\d{8}-\d{6}", folder.name)
    judged = assert_whole(folder, "side by side")
    found = tidy.differences(folder)
    assert found[["variable", "asked"]].values.tolist() == [["encrypt_binlog", True]]
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    for facts in runs:
        (idle,) = (v for k, v in facts["usage"].items() if k != "server")
        assert idle["cpu_s"] < 0.001  # it stands still meanwhile
    warm = Counter(f["block"] for f in runs if f["warmup"])
    assert set(warm.values()) == {2}  # both servers, in every block
    assert set(judged["block"]) <= warm.keys()
    meta = tidy.meta(folder)
    assert meta["slices_s"] == sum(f["slice_s"] for f in runs if not f["warmup"])
    assert collect.obtain("binlog-encryption", campaign=folder.name) == (folder,)


def test_a_finished_campaign_is_not_continued_and_another_study_neither(killed, home, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(killed["home"] / "runs"))
    build = engines.find("mysql")
    chosen = studies.load("binlog-encryption", profile="smoke", budget_min=0.4)
    meta, said = tidy.meta(killed["folder"]), []
    assert resumable(chosen, build, said.append) is None
    unfinished = home / "runs" / killed["folder"].name
    unfinished.mkdir(parents=True)
    write_json(unfinished / "campaign.json", meta | {"finished": ""})
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(home / "runs"))
    assert resumable(chosen, build, said.append) == unfinished
    assert resumable(replace(chosen, margin_pct=1), build, said.append) is None
    other = studies.load("binlog-encryption", question="no-sync", profile="smoke", budget_min=0.4)
    assert resumable(other, build, said.append) is None
    assert resumable(chosen, replace(build, version="9.9.9"), said.append) is None
    earlier = {k: v for k, v in meta.items() if k != "plan"} | {"finished": ""}
    write_json(unfinished / "campaign.json", earlier)
    assert said == []
    assert resumable(chosen, build, said.append) is None
    assert said == [f"{unfinished.name} was begun under an earlier plan and is not continued"]
    (unfinished / "campaign.json").write_text("{")
    assert resumable(chosen, build, said.append) is None


# -- one at a time ---------------------------------------------------------------------------------


def test_a_second_campaign_waits_while_one_measures():
    holder = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import time\nfrom noisefloor.measure.lock import alone\n"
            "with alone(): print('holds', flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "holds\n"
        said, entered = [], threading.Event()

        def second():
            with lock.alone(said.append):
                entered.set()

        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(1)
        assert said == ["another campaign is measuring on this machine; waiting for it to end"]
        holder.kill()  # however it ends
        assert entered.wait(3)
        thread.join()


# -- failing runs ----------------------------------------------------------------------------------


def kill_sysbench(times: int, stop: threading.Event) -> None:
    """kill -9 for the first so many sysbench processes of this one."""
    seen = set()
    while not stop.is_set() and len(seen) < times:
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                fresh = child.name() == "sysbench" and child.pid not in seen
                if fresh and len(seen) < times:
                    time.sleep(0.3)
                    os.kill(child.pid, signal.SIGKILL)
                    seen.add(child.pid)
        time.sleep(0.01)


@pytest.fixture
def killer():
    """killer(n): the next n sysbench processes die."""
    stop, threads = threading.Event(), []

    def begin(times):
        threads.append(threading.Thread(target=kill_sysbench, args=(times, stop)))
        threads[-1].start()

    yield begin
    stop.set()
    for t in threads:
        t.join()


def cell_of(chosen, arm="encrypted", workload=MAIN):
    return schedule.Cell(workload, workload.threads[0], chosen.arm(arm))


def test_a_killed_sysbench_is_kept_as_failed_and_its_run_made_again(campaign, mysql, killer):
    c, bench = campaign(SMOKE, mysql)
    killer(1)
    c.pair(bench, cell_of(SMOKE))
    failed, *whole = sorted(names(c.folder), key=lambda n: ".failed" not in n)
    assert re.fullmatch(r"in-memory-t4-encrypted-p000-0-\w+\.failed1", failed)
    assert {p.name for p in (c.folder / failed).iterdir()} == {"failure.txt", "sysbench.txt"}
    assert len((c.folder / failed / "failure.txt").read_text().splitlines()) == 2
    assert len(whole) == 2
    table = tidy.table(c.folder)
    assert set(table["run"]) == set(whole)
    assert table.attrs["problems"] == [
        f"{failed}: a run that failed, was changed or lost its partner; kept, not judged"
    ]
    assert set(c.table["run"]) == set(whole)


def test_a_run_that_fails_twice_costs_its_pair_and_three_the_campaign(campaign, mysql):
    bad = Arm("encrypted", options=("--no-such-option",))
    chosen = replace(SMOKE, arms=(bad,))
    c, bench = campaign(chosen, mysql)
    for lost in (1, 2):
        c.pair(bench, cell_of(chosen))
        assert c.lost == lost
    with pytest.raises(collect.CampaignError, match=r"3 pairs in a row were lost.*no-such-option"):
        c.pair(bench, cell_of(chosen))
    assert tidy.table(c.folder).empty
    assert c.table.empty
    assert not [n for n in names(c.folder) if "." not in n]
    texts = [p.read_text() for p in c.folder.glob("*.failed*/failure.txt")]
    assert len(texts) == 6
    assert all("FATAL: `no-such-option" in t or "no-such-option" in t for t in texts)
    c.pair(bench, cell_of(chosen, "plain again"))  # the others go on
    assert c.lost == 0
    assert c.done() == {"in-memory-t4-plain-again": 1}


def test_evidence_that_contradicts_the_arm_is_an_error_and_no_data(campaign, mysql):
    mislabelled = Arm("encrypted", expect={"binlog": "encrypted"})  # nobody switches it on
    chosen = replace(SMOKE, arms=(mislabelled,))
    c, bench = campaign(chosen, mysql)
    with pytest.raises(EvidenceError, match="the binlog should be encrypted, but SHOW BINARY LOGS"):
        c.pair(bench, cell_of(chosen))
    assert not [n for n in names(c.folder) if "-encrypted" in n.split("-p000-")[1]]
    assert not list(c.folder.glob("*.partial"))
    assert tidy.table(c.folder).empty  # nor is the other half of its pair


def test_a_setting_that_the_server_refuses_is_a_failed_run(campaign, mysql):
    chosen = replace(SMOKE, arms=(Arm("encrypted", switch={"port": "1"}),))
    c, bench = campaign(chosen, mysql)
    c.pair(bench, cell_of(chosen))
    assert c.lost == 1
    assert "port: wanted 1, refused" in next(c.folder.glob("*.failed*/failure.txt")).read_text()


def test_a_killed_server_ends_the_campaign_with_a_sentence(campaign, mysql):
    c, bench = campaign(SMOKE, mysql)
    timer = threading.Timer(0.7, os.kill, (bench.servers[0].pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(ServerError, match="the server is not running"):
        c.pair(bench, cell_of(SMOKE))
    assert not list(c.folder.glob("*.partial"))
    assert tidy.table(c.folder).empty


def test_arms_do_not_inherit_from_each_other(campaign, mysql):
    """The baseline says nothing of what the arm sets; each workload has settings of its own."""
    arms = (Arm("few", switch={"innodb_io_capacity": "321"}),)
    chosen = replace(SMOKE, baseline=Arm("default"), arms=arms)
    c, bench = campaign(chosen, mysql)
    before = bench.servers[0].variables()["innodb_io_capacity"]
    others = (Workload("other", "", settings={"sync_binlog": "3"}), Workload("none", ""))
    for workload in (MAIN, *others):
        c.proved.clear()  # it is looked at once a block
        c.pair(bench, cell_of(chosen, "few", workload))
    found = {}
    for run in tidy.run_folders(c.folder):
        facts = tidy.read(run)
        file = json.loads((run / "variables.json").read_text())["file"]
        v = json.loads((c.folder / file).read_text())
        found[facts["workload"], facts["arm"]] = (v["sync_binlog"], v["innodb_io_capacity"])
    assert found == {
        ("in memory", "default"): ("1", before),
        ("in memory", "few"): ("1", "321"),
        ("other", "default"): ("3", before),
        ("other", "few"): ("3", "321"),
        ("none", "default"): ("1", before),
        ("none", "few"): ("1", "321"),
    }


# -- what an interrupted campaign left -------------------------------------------------------------


def open_recorded(recorded):
    meta = planned(tidy.meta(recorded))
    return collect.Campaign(study.restored(meta), recorded, meta, collect.Progress())


def test_nothing_is_lost_or_counted_twice(recorded):
    c = open_recorded(recorded)
    assert c.done() == {"in-memory-t2-encrypted": 3, "in-memory-t2-plain-again": 1}
    assert c.block == 1
    assert len(c.table) == len(tidy.table(recorded))


def test_the_table_grows_with_the_runs_and_shrinks_with_what_is_set_aside(recorded):
    rows = [row for run in tidy.run_folders(recorded) for row in tidy.rows(run)]
    c = open_recorded(recorded)
    c._table, c._new = c._table[:0], []
    for n in range(0, len(rows) + 7, 7):
        c._new += rows[n : n + 7]
        pd.testing.assert_frame_equal(c.table, tidy.frame(rows[: n + 7], c.study.design))
        assert c.table["run"].array.__arrow_array__().num_chunks == 1  # a day would have thousands
    assert c.table is c.table  # nothing is made anew
    c.set_aside(rows[0]["run"], "unpaired")
    left = [row for row in rows if row["run"] != rows[0]["run"]]
    pd.testing.assert_frame_equal(c.table, tidy.frame(left, c.study.design))
    assert c.table.attrs["design"] == c.study.design


def test_half_a_pair_half_a_run_and_a_changed_run_are_set_aside(recorded, capsys):
    def run(pattern):
        return next(recorded.glob(f"*{pattern}*/run.json")).parent

    half, partial, changed = run("encrypted-p000-0"), run("encrypted-p002-0"), run("plain-again-p")
    half.rename(half.with_name(f"{half.name}.failed1"))
    partial.rename(partial.with_name(f"{partial.name}.partial"))
    (changed / "sysbench.txt").write_text("edited")
    (recorded / "campaign.json.partial").write_text("{")
    c = open_recorded(recorded)
    assert c.done() == {"in-memory-t2-encrypted": 1}
    assert not list(recorded.glob("*.partial"))
    assert len(list(recorded.glob("*.unpaired1"))) == 3
    assert len(list(recorded.glob("*.damaged1"))) == 1
    assert "was changed after the run" in capsys.readouterr().err
    open_recorded(recorded)  # and again: nothing is left to do
    assert len(list(recorded.glob("*.unpaired*"))) == 3


def test_a_lost_pair_is_made_anew_under_a_free_number(campaign, mysql):
    c, bench = campaign(SMOKE, mysql)
    for _ in range(2):
        c.pair(bench, cell_of(SMOKE))
    for run in c.folder.glob("*-p000-*"):
        (run / "sysbench.txt").write_text("edited")
    again = collect.Campaign(SMOKE, c.folder, c.meta, c.progress)
    assert again.done() == {"in-memory-t4-encrypted": 1}
    again.pair(bench, cell_of(SMOKE))
    whole = tidy.table(c.folder).drop_duplicates("run")
    assert sorted(whole["pair"]) == [0, 0, 1, 1]


# -- other tools and conditions --------------------------------------------------------------------


def test_a_replica_catches_up_with_both_logs_encrypted_and_not(campaign, mysql):
    asked = {"question": "replica", "profile": "smoke"}
    workload = studies.load("binlog-encryption", **asked).workload("replica")
    chosen = replace(SMOKE, workloads=(workload,))
    c, bench = campaign(chosen, mysql)
    c.pair(bench, cell_of(chosen, workload=workload))
    table = tidy.table(c.folder)
    assert set(table["metric"]) == {"apply_rate", "apply_cpu", "steal"}
    assert (table.loc[table["metric"] != "steal", "value"] > 0).all()
    for run in tidy.run_folders(c.folder):
        facts = tidy.read(run)
        assert {"source", "replica"} < facts["usage"].keys()
        assert facts["usage"]["idle0"]["cpu_s"] < 0.001  # the idle server stands still
        assert facts["slice_s"] == facts["apply_s"]  # from the first event sent to the last applied
        checks = {(e["evidence"], e["found"]) for e in facts["replica_evidence"]}
        assert checks == {("binlog", facts["arm"]), ("relay log", facts["arm"])}
    pids = [s.pid for s in bench.pair]
    bench.close()
    assert not any(alive(p) for p in pids)


def test_a_failed_run_leaves_no_slow_disk(campaign, mysql, killer):
    slow = Workload("slow", "", writes_per_s=50, settings={"sync_binlog": "1"})
    chosen = replace(SMOKE, workloads=(slow,))
    c, bench = campaign(chosen, mysql)
    try:
        bench.throttle(bench.servers[0], slow)
    except tools.NotHere as e:
        pytest.skip(e.reason)
    killer(2)
    c.pair(bench, cell_of(chosen, workload=slow))
    assert c.lost == 1
    group = bench._throttle[-1].group
    limits = group / "blkio.throttle.write_iops_device"
    text = (limits if limits.exists() else group / "io.max").read_text()
    assert "50" not in text.split()
    assert "wiops=50" not in text
    bench.close()
    assert not group.exists()


# -- evidence at the end of a block ----------------------------------------------------------------

SEEN = {"innodb_flush_neighbors": "0"}  # nothing sets it, so nothing sets it back


def test_evidence_is_taken_with_the_first_run_of_a_block_and_at_its_end(campaign, mysql):
    c, bench = campaign(SMOKE, mysql)
    c.warm(bench, [(0, SMOKE.baseline)])
    for _ in range(2):
        c.pair(bench, cell_of(SMOKE))
    has = {r.name: (r / "evidence.json").exists() for r in tidy.run_folders(c.folder)}
    proved = [n for n, there in has.items() if there]
    assert proved[0] == "warm-up-b00-0-plain"
    assert re.fullmatch(r"in-memory-t4-encrypted-p000-\d-encrypted", *proved[1:])
    c.closing(bench, [(0, a) for a in (SMOKE.baseline, *SMOKE.arms)])
    (file,) = tidy.blocks(c.folder)
    assert file.name == "block-00.json"
    found = json.loads(file.read_text())
    assert {n: {x["found"] for x in v["checks"]} for n, v in found.items()} == {
        "plain": {"plain"},
        "encrypted": {"encrypted"},
    }
    kept = {n: json.loads((c.folder / v["file"]).read_text()) for n, v in found.items()}
    assert {n: v["binlog_encryption"] for n, v in kept.items()} == {
        "plain": "OFF",
        "encrypted": "ON",
    }
    counted = tidy.evidence(c.folder).groupby("arm")["runs"].sum()
    assert counted["plain"] == counted["encrypted"] == 2 * 3  # a run and the end, three checks each


def test_a_run_that_was_made_again_has_its_evidence(campaign, mysql, monkeypatch):
    """What was looked at with an attempt that failed does not count for the block."""
    real, lost = tidy.metrics, []

    def metrics(facts, folder):
        if not lost:
            lost.append(folder)
            raise tidy.Unusable("3 reconnects")
        return real(facts, folder)

    monkeypatch.setattr(tidy, "metrics", metrics)
    c, bench = campaign(SMOKE, mysql)
    c.pair(bench, cell_of(SMOKE))
    assert len(list(c.folder.glob("*.failed1"))) == 1
    assert all((r / "evidence.json").exists() for r in tidy.run_folders(c.folder))


def test_an_arm_that_is_not_in_force_at_the_end_of_a_block_takes_the_block_with_it(campaign, mysql):
    base, arm = (replace(a, expect=SEEN) for a in (SMOKE.baseline, *SMOKE.arms))
    chosen = replace(SMOKE, baseline=base, arms=(arm,))
    c, bench = campaign(chosen, mysql)
    arms = [(0, base), (0, arm)]
    c.pair(bench, cell_of(chosen))
    c.closing(bench, arms)  # of a block that is whole
    c.block += 1
    c.proved.clear()
    c.warm(bench, [(0, base)])
    for _ in range(2):
        c.pair(bench, cell_of(chosen))
    bench.servers[0].query("SET GLOBAL innodb_flush_neighbors = 1")  # somebody did
    with pytest.raises(EvidenceError, match=r"innodb_flush_neighbors should be 0, but .* says 1"):
        c.closing(bench, arms)
    assert [f.name for f in tidy.blocks(c.folder)] == ["block-00.json"]
    assert c.done() == {"in-memory-t4-encrypted": 1}
    aside = [n for n in names(c.folder) if ".unproved1" in n]
    assert len(aside) == 5  # two pairs, and the warm-up before them
    table = tidy.table(c.folder)
    assert set(table["block"]) == {0}
    told = table.attrs["problems"]
    assert all(any(t.startswith(f"{n}: ") for t in told) for n in aside)
    again = collect.Campaign(chosen, c.folder, c.meta, c.progress)
    assert again.done() == {"in-memory-t4-encrypted": 1}
    again.block = 1
    bench.servers[0].query("SET GLOBAL innodb_flush_neighbors = 0")
    again.pair(bench, cell_of(chosen))  # the same command measures the block anew
    assert again.done() == {"in-memory-t4-encrypted": 2}


# -- many connections, made before the clock -------------------------------------------------------


def test_many_connections_are_there_before_either_run_begins(campaign, mysql, monkeypatch):
    many = replace(SMOKE, design="side by side", workloads=(replace(MAIN, threads=(40,)),))
    c, bench = campaign(many, mysql, many.baseline, *many.arms)
    seen, real = [], tools.Gated.go

    def go(gate):
        # the one that is not measured stands still: it is asked nothing
        found = [len(psutil.Process(s.pid).net_connections("unix")) for s in bench.servers]
        seen.append((found, gate.said(b"Threads started!")))
        real(gate)

    monkeypatch.setattr(tools.Gated, "go", go)
    c.pair(bench, cell_of(many, workload=many.workloads[0]))
    assert len(seen) == 2
    assert min(seen[0][0]) >= 40  # both servers have theirs before the first run
    assert not any(started for _, started in seen)
    assert c.done() == {"in-memory-t40-encrypted": 1}
    for run in tidy.run_folders(c.folder):
        out, facts = tidy.sysbench(run), tidy.read(run)
        assert out["threads"] == 40
        assert facts["argv"][:2] == ["sysbench", "oltp_read_write"]  # not how it was held back
        assert 0.9 <= out["duration_s"] < 3
    assert not list(bench.folder.glob("gates-*"))


def test_one_of_many_that_was_killed_is_made_again(campaign, mysql, killer):
    many = replace(SMOKE, design="side by side", workloads=(replace(MAIN, threads=(40,)),))
    c, bench = campaign(many, mysql, many.baseline, *many.arms)
    killer(1)
    c.pair(bench, cell_of(many, workload=many.workloads[0]))
    (failed,) = (n for n in names(c.folder) if "." in n)
    assert failed.endswith(".failed1")
    assert c.done() == {"in-memory-t40-encrypted": 1}


# -- two servers under load at once ----------------------------------------------------------------


def judged_as_a_duet(folder: Path) -> pd.DataFrame:
    """What every finished duet has; returns its tidy table."""
    meta = tidy.meta(folder)
    chosen, plan = study.restored(meta), meta["plan"]
    assert meta["finished"]
    assert meta["ended_because"] in ENDS
    assert not list(folder.rglob("*.partial"))
    window_s = schedule.window_s(chosen)
    blocks = Counter()
    for run in tidy.run_folders(folder):
        facts = tidy.read(run)
        files = {p.name for p in run.iterdir()}
        assert files == {
            *("run.json", "sysbench.txt", "windows.csv", "variables.json", "evidence.json")
        }
        assert facts["sha256"].keys() == files - {"run.json"}
        assert (facts["workload_tool"], facts["exit_code"]) == ("duet", 0)
        assert (facts["windows"], facts["window_s"]) == (plan["windows"], window_s)
        assert facts["slice_s"] == plan["windows"] * window_s
        assert not facts["warmup"]  # it warms up by itself
        checks = json.loads((run / "evidence.json").read_text())["checks"]
        assert {c["found"] for c in checks} == set(chosen.arm(facts["arm"]).expect.values())
        edges = pd.read_csv(run / "windows.csv")
        assert len(edges) == plan["windows"] + 1
        assert (edges.diff().iloc[1:] > 0).loc[:, ["t_s", "transactions", "cpu_s"]].all(axis=None)
        assert edges["t_s"].iloc[0] >= window_s  # the first one warms up
        assert edges["transactions"].iloc[-1] <= tidy.sysbench(run)["transactions"]
        blocks[facts["block"]] += 1
    assert set(blocks.values()) == {2}
    table = tidy.table(folder)
    assert not table["warmup"].any()
    both = table.groupby(["pair_id", "metric"])
    assert (both["position"].nunique() == 2).all()
    assert (both["arm"].nunique() == 2).all()
    assert (both["block"].nunique() == 1).all()
    assert table["pair_id"].nunique() == len(blocks) * plan["windows"]
    assert (table.groupby("block")["pair_id"].nunique() == plan["windows"]).all()
    assert not table.duplicated(["run", "pair_id", "metric"]).any()
    spent = sum(plan["windows"] * window_s for _ in blocks)
    assert meta["slices_s"] == spent <= meta["spent_s"] <= meta["wall_s"]
    return table


def test_a_duet_from_question_to_verdict(home, mysql, monkeypatch, capsys):
    monkeypatch.setattr(collect, "templates", lambda *a: {"": mysql})
    monkeypatch.setattr(honest, "duet", lambda: honest.Duet("word"))
    asked = {"question": "processor", "profile": "smoke", "budget_min": 0.25}
    (folder,) = collect.measured("binlog-encryption", **asked)
    said = capsys.readouterr().err
    table = judged_as_a_duet(folder)
    assert table.attrs["problems"] == []
    meta = tidy.meta(folder)
    assert (meta["key"], meta["design"]) == ("processor", "side by side")
    assert f"; {meta['plan']['windows']} windows of 1 s a block" in said
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    for first, second in itertools.pairwise(runs):
        if first["block"] == second["block"]:
            assert first["start"] == second["start"]
    assert {"cpu_per_transaction", "tps"} <= set(table["metric"])
    for run in runs:  # a window's throughput is that of the server in it
        printed = tidy.sysbench(folder / run["run"])["tps"]
        windows = table[(table["run"] == run["run"]) & (table["metric"] == "tps")]["value"]
        assert windows.median() == pytest.approx(printed, rel=0.5)
    found = results.load(folder).verdicts.set_index("metric")
    assert set(found.index) == {"cpu_per_transaction", "tps"}
    assert set(found["design"]) == {"duet"}
    assert set(found["arm"]) == {"encrypted"}  # no A/A control in smoke
    assert found.loc["cpu_per_transaction", "verdict"] in WORDS
    assert found.loc["tps", "verdict"] == "not judged"
    assert collect.obtain("binlog-encryption", campaign=folder.name) == (folder,)


@pytest.fixture
def dealt(monkeypatch):
    """The arms in the order in which their servers were made."""
    found, real = [], collect.Bench.fresh

    def fresh(bench, arm, **settings):
        found.append(arm.name)
        return real(bench, arm, **settings)

    monkeypatch.setattr(collect.Bench, "fresh", fresh)
    return found


def test_a_duet_that_was_interrupted_in_a_block_keeps_its_deal_and_counts_the_block_once(
    campaign, mysql, dealt, monkeypatch
):
    c, bench = campaign(DUET, mysql)
    bench.close()
    real, edges = tools._edge, itertools.count()
    windows = c.plan["windows"]

    def edge(server, began):
        if next(edges) == 2 * (windows + 1) + windows:  # in the middle of the second block
            raise KeyboardInterrupt
        return real(server, began)

    dealt.clear()
    monkeypatch.setattr(tools, "_edge", edge)
    with pytest.raises(KeyboardInterrupt):
        loop.side_by_side(c, bench)
    bench.close()
    assert len(tidy.run_folders(c.folder)) == 2
    assert not list(c.folder.glob("*.partial"))
    assert [p for p in psutil.Process().children() if p.name() == "sysbench"] == []
    first = list(dealt)
    dealt.clear()
    again = collect.Campaign(DUET, c.folder, tidy.meta(c.folder), c.progress)
    assert again.done() == {"in-memory-at-once-t4-encrypted": windows}
    assert again.block == 1  # the first is whole, the second is begun anew
    loop.side_by_side(again, bench)
    assert dealt == first[2:]  # the same coin
    coin = schedule.coin(c.seed, 1, "deal").permutation(2)
    assert dealt == [["plain", "encrypted"][i] for i in coin]
    assert again.done() == {"in-memory-at-once-t4-encrypted": 2 * windows}
    collect._finish(again)
    table = judged_as_a_duet(c.folder)
    assert sorted(set(table["pair"])) == list(range(2 * windows))


def test_both_runs_of_a_duet_are_lost_with_one_and_its_block_is_made_again(
    campaign, mysql, killer, capsys
):
    c, bench = campaign(DUET, mysql, DUET.baseline, *DUET.arms)
    killer(1)
    loop.block(c, bench, DUET.arms[0])
    assert "the pair is not counted" in capsys.readouterr().err
    assert c.done() == {"in-memory-at-once-t4-encrypted": c.plan["windows"]}
    failed = sorted(n for n in names(c.folder) if "." in n)
    assert [n.rpartition(".")[2] for n in failed] == ["failed1", "failed1"]
    assert len([n for n in names(c.folder) if "." not in n]) == 2
    reasons = {(c.folder / n / "failure.txt").read_text().splitlines()[1] for n in failed}
    assert len(reasons) == 1


def test_a_server_of_a_duet_that_is_killed_ends_the_campaign_with_a_sentence(campaign, mysql):
    c, bench = campaign(DUET, mysql, DUET.baseline, *DUET.arms)
    timer = threading.Timer(3, os.kill, (bench.servers[1].pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(ServerError, match="the server is not running"):
        loop.block(c, bench, DUET.arms[0])
    assert not list(c.folder.glob("*.partial"))
    assert tidy.table(c.folder).empty
    assert [p for p in psutil.Process().children() if p.name() == "sysbench"] == []


def test_a_duet_whose_arm_is_not_in_force_is_no_data(campaign, mysql):
    wrong = Arm("encrypted", expect={"binlog": "encrypted"})  # nobody switches it on
    chosen = replace(DUET, arms=(wrong,))
    c, bench = campaign(chosen, mysql, chosen.baseline, wrong)
    with pytest.raises(EvidenceError, match="the binlog should be encrypted"):
        loop.block(c, bench, wrong)
    assert tidy.table(c.folder).empty
    assert not list(c.folder.glob("*.partial"))


# -- which questions are measured ------------------------------------------------------------------


@pytest.fixture
def measured(home, monkeypatch):
    """The studies that would be measured, in order."""
    found = []
    monkeypatch.setattr(collect, "measure", lambda chosen, **more: found.append(chosen) or home)
    return found


def test_all_questions_are_measured_one_after_the_other(measured):
    collect.measured("binlog-encryption", question="all", profile="smoke")
    assert [s.key for s in measured] == list(studies.questions("binlog-encryption"))
    measured.clear()
    collect.measured("binlog-encryption", question="all", profile="smoke", engine="mariadb")
    assert [s.key for s in measured] == list(studies.questions("binlog-encryption", "mariadb"))


@pytest.mark.parametrize(
    ("says", "standard", "quick"),
    [("word", ["headline", "processor"], ["processor"]), ("", ["headline"], ["headline"])],
)
def test_without_a_question_the_headline_is_measured(measured, monkeypatch, says, standard, quick):
    monkeypatch.setattr(honest, "duet", lambda: honest.Duet(says))
    for profile, keys in (("standard", standard), ("quick", quick)):
        measured.clear()
        collect.measured("binlog-encryption", profile=profile)
        assert [s.key for s in measured] == keys


def test_a_path_is_the_build_that_lies_there(measured):
    maria, old = (str(engines.find(name).basedir) for name in ("mariadb", "mysql-8.0"))
    collect.measured("binlog-encryption", question="all", engine=maria)
    assert [s.key for s in measured] == list(studies.questions("binlog-encryption", "mariadb"))
    measured.clear()
    for question in ("headline", "old-values"):
        collect.measured("version-upgrade", question=question, engine=maria, old=old)
    for s in measured:
        assert (s.baseline.engine, s.arms[0].engine) == (old, maria)
        assert s.baseline.name.startswith("MySQL 8.0")
        assert s.arms[0].name.startswith("MariaDB")
    measured.clear()
    collect.measured("version-upgrade", question="old-values", engine=old)
    assert measured[0].arms[0].engine == old


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"question": "cost"}, "it has: headline, processor, no-sync, throttled, replica"),
        ({"question": "all", "profile": "slow"}, "profile 'slow' is not one of"),
        ({"question": "all", "server": "mysql://u@h"}, "--server takes one question at a time"),
    ],
)
def test_a_wrong_question_is_one_sentence_and_nothing_is_measured(measured, asked, says):
    with pytest.raises(study.StudyError, match="nothing was measured") as e:
        collect.measured("binlog-encryption", **asked)
    assert says in str(e.value)
    assert measured == []


def test_warnings_say_what_makes_a_run_less_trustworthy():
    used = {"cpu_s": 1.0, "written_B": 1000}
    settled = {"settled": True, "dirty_pages": 0}

    def warnings(idle, settled=settled):
        return campaigns._warnings({"usage": {"server": used, "idle0": idle}}, settled)

    assert warnings({"cpu_s": 0.02, "written_B": 20}) == []
    assert warnings({"cpu_s": 0.03, "written_B": 20}) == [
        "carry-over: the idle server used 3.0 % of the CPU"
    ]
    assert warnings({"cpu_s": 0, "written_B": 50}) == [
        "carry-over: the idle server used 5.0 % of the writes"
    ]
    busy = {"settled": False, "dirty_pages": 12.0}
    assert warnings({"cpu_s": 0, "written_B": 0}, busy) == [
        "not settled: 12 dirty pages after the wait"
    ]


def test_progress_is_plain_lines_where_there_is_no_terminal(capsys):
    progress = collect.Progress()
    progress.say("one")
    progress.close("two")
    assert capsys.readouterr().err == "noisefloor: one\nnoisefloor: two\n"


def test_the_stop_rule_and_the_page_judge_alike(recorded):
    c = open_recorded(recorded)
    ours = c.verdicts().set_index(["metric", "arm"])[["overhead_pct", "lo_pct", "hi_pct"]]
    page = stats.table(
        tidy.table(recorded).query("~warmup"), margin_pct=2.0, baseline="plain", blocks=2
    ).set_index(["metric", "arm"])[["overhead_pct", "lo_pct", "hi_pct"]]
    pd.testing.assert_frame_equal(ours, page.loc[ours.index])


def test_campaigns_are_found_by_name(killed, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(killed["home"] / "runs"))
    name = killed["folder"].name
    assert paths.campaign(name) == killed["folder"]
    assert name in paths.campaigns("binlog-encryption-headline-smoke")


def test_an_arm_with_pinned_values_is_measured(home, monkeypatch, mysql):
    """Its settings are found before the first block, and are those of the arm that is dealt."""
    chosen = studies.load("version-upgrade", question="old-values", profile="smoke", old="mysql")
    pinned = replace(chosen.arms[0], name="pinned", engine="", expect={}, pin="old")
    chosen = replace(
        chosen, baseline=replace(chosen.baseline, name="old", engine="", expect={}), arms=(pinned,)
    )
    chosen = replace(chosen, workloads=(replace(chosen.workloads[0], threads=(2,)),))
    found = {"pinned": {"settings": {"innodb_purge_threads": "2"}, "refused": {}}}
    monkeypatch.setattr(campaigns, "pinned", lambda *a: found)
    monkeypatch.setattr(collect, "templates", lambda *a: {"": mysql})
    folder = collect.measure(chosen)
    arms = Counter(tidy.read(r)["arm"] for r in tidy.run_folders(folder) if "-p0" in r.name)
    assert arms["pinned"] == arms["old"] > 0
    assert tidy.variables(folder)["pinned"]["innodb_purge_threads"] == "2"
