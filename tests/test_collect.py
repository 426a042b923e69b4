"""Campaigns on real servers: whole ones, killed ones, failing ones."""

import contextlib
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
from noisefloor import collect, paths, schedule, stats, study, tidy
from noisefloor.evidence import EvidenceError
from noisefloor.server import ServerError
from noisefloor.study import Arm, Workload

SMOKE = study.load("binlog-encryption", profile="smoke")
MAIN = SMOKE.workloads[0]
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
    for run in tidy.run_folders(folder):
        facts = tidy.read(run)  # checksums
        files = {p.name for p in run.iterdir()}
        assert files == {"run.json", "sysbench.txt", "variables.json", "evidence.json"}
        assert facts["sha256"].keys() == files - {"run.json"}
        assert facts["usage"]["server"]["cpu_s"] > 0
        assert facts["exit_code"] == 0
        server = facts["usage"]["server"]
        assert server["written_B"] > 0
        assert server["binlog_B"] > 0
        assert {"start", "end", "seed", "argv", "versions", "host", "steal_s"} <= facts.keys()
        checks = json.loads((run / "evidence.json").read_text())["checks"]
        assert len(checks) >= 2
        assert {c["found"] for c in checks} == set(chosen.arm(facts["arm"]).expect.values())
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
from noisefloor import collect, study
parameters = {"profile": "smoke", "budget_min": 0.2}
print(collect.measure(study.load("binlog-encryption", **parameters), parameters=parameters))
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
    monkeypatch.setattr(
        collect, "_templates", lambda *a: {"": mariadb}
    )  # loaded once for all tests
    folder = collect.obtain("binlog-encryption", **parameters)
    judged = assert_whole(folder, "side by side")
    found = tidy.differences(folder)
    assert found[["variable", "asked"]].values.tolist() == [["encrypt_binlog", True]]
    runs = [tidy.read(r) for r in tidy.run_folders(folder)]
    for facts in runs:
        (idle,) = (v for k, v in facts["usage"].items() if k != "server")
        assert idle["cpu_s"] < facts["usage"]["server"]["cpu_s"]
    warm = Counter(f["block"] for f in runs if f["warmup"])
    assert set(warm.values()) == {2}  # both servers, in every block
    assert set(judged["block"]) <= warm.keys()
    assert collect.obtain("binlog-encryption", campaign=folder.name) == folder


def test_a_finished_campaign_is_not_continued_and_another_study_neither(killed, home, monkeypatch):
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(killed["home"] / "runs"))
    build = collect.engines.find("mysql")
    chosen = study.load("binlog-encryption", profile="smoke", budget_min=0.2)
    meta, said = tidy.meta(killed["folder"]), []
    assert collect._resumable(chosen, build, said.append) is None
    unfinished = home / "runs" / killed["folder"].name
    unfinished.mkdir(parents=True)
    collect._write_json(unfinished / "campaign.json", meta | {"finished": ""})
    monkeypatch.setenv("NOISEFLOOR_RUNS", str(home / "runs"))
    assert collect._resumable(chosen, build, said.append) == unfinished
    assert collect._resumable(replace(chosen, margin_pct=1), build, said.append) is None
    assert collect._resumable(chosen, replace(build, version="9.9.9"), said.append) is None
    earlier = {k: v for k, v in meta.items() if k != "plan"} | {"finished": ""}
    collect._write_json(unfinished / "campaign.json", earlier)
    assert said == []
    assert collect._resumable(chosen, build, said.append) is None
    assert said == [f"{unfinished.name} was begun under an earlier plan and is not continued"]
    (unfinished / "campaign.json").write_text("{")
    assert collect._resumable(chosen, build, said.append) is None


# -- one at a time ---------------------------------------------------------------------------------


def test_a_second_campaign_waits_while_one_measures():
    holder = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import time\nfrom noisefloor import collect\n"
            "with collect.alone(): print('holds', flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "holds\n"
        said, entered = [], threading.Event()

        def second():
            with collect.alone(said.append):
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
    c.pair(bench, cell_of(chosen, "few"))
    c.pair(bench, cell_of(chosen, "few", Workload("other", "", settings={"sync_binlog": "3"})))
    c.pair(bench, cell_of(chosen, "few", Workload("none", "")))
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
    workload = study.load("binlog-encryption", profile="standard").workload("replica")
    chosen = replace(SMOKE, workloads=(workload,))
    c, bench = campaign(chosen, mysql)
    c.pair(bench, cell_of(chosen, workload=workload))
    table = tidy.table(c.folder)
    assert set(table["metric"]) == {"apply_rate", "apply_cpu"}
    assert (table["value"] > 0).all()
    for run in tidy.run_folders(c.folder):
        facts = tidy.read(run)
        assert {"source", "replica"} < facts["usage"].keys()  # and the idle server
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
    except collect.tools.NotHere as e:
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


def times(folder: Path) -> dict[str, tuple[str, str]]:
    return {f["arm"]: (f["start"], f["end"]) for f in map(tidy.read, tidy.run_folders(folder))}


def test_the_runs_of_a_duet_are_made_at_once(campaign, mariadb):
    chosen = replace(SMOKE, design="duet", baseline=Arm("one"), arms=(Arm("two"),))
    c, bench = campaign(chosen, mariadb, *(Arm("one"), Arm("two")))
    bench.duet = True
    c.pair(bench, cell_of(chosen, "two"))
    (a, b), (x, y) = times(c.folder).values()
    assert max(a, x) < min(b, y)
    table = tidy.table(c.folder)
    assert sorted(table.drop_duplicates("run")["position"]) == [0, 1]
    assert c.done() == {"in-memory-t4-two": 1}


def test_both_runs_of_a_duet_are_lost_with_one(campaign, mariadb, killer):
    chosen = replace(SMOKE, design="duet", baseline=Arm("one"), arms=(Arm("two"),))
    c, bench = campaign(chosen, mariadb, *(Arm("one"), Arm("two")))
    bench.duet = True
    killer(1)
    c.pair(bench, cell_of(chosen, "two"))
    assert c.lost == 1
    assert c.table.empty
    assert sorted(n.rpartition(".")[2] for n in names(c.folder)) == ["failed1", "unpaired1"]
    bench.servers[1].kill()
    with pytest.raises(ServerError, match="the server is not running"):
        c.pair(bench, cell_of(chosen, "two"))


def test_warnings_say_what_makes_a_run_less_trustworthy():
    used = {"cpu_s": 1.0, "written_B": 1000}
    settled = {"settled": True, "dirty_pages": 0}

    def warnings(idle, settled=settled):
        return collect._warnings({"usage": {"server": used, "idle0": idle}}, settled)

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
    assert name in paths.campaigns("binlog-encryption-smoke")
