"""Many clients, many slices, many runs: nothing grows that was not announced."""

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from live import Live
from noisefloor import collect, results, study, tidy
from test_collect import SMOKE, cell_of

slow = pytest.mark.slow


@slow
def test_2048_threads(campaign, mysql):
    chosen = replace(SMOKE, workloads=(replace(SMOKE.workloads[0], threads=(2048,)),))
    c, bench = campaign(chosen, mysql)
    c.pair(bench, cell_of(chosen))
    assert c.done() == {"in-memory-t2048-encrypted": 1}
    for run in tidy.run_folders(c.folder):
        assert tidy.sysbench(run)["threads"] == 2048


def slope(times, values) -> tuple[float, float]:
    """Growth a second, with the half width of its 99 % interval."""
    t, v = np.asarray(times) - np.mean(times), np.asarray(values, float)
    b = (t @ (v - v.mean())) / (t @ t)
    rest = v - v.mean() - b * t
    return b, 2.6 * np.sqrt(rest @ rest / (len(t) - 2) / (t @ t))


@slow
def test_many_slices_leave_memory_handles_and_disk_as_they_were(tmp_path, mysql):
    """A campaign of a minute and a half of slices of one second stands for a day of longer ones."""
    live = Live(
        tmp_path, mysql, *("run", "binlog-encryption", "--profile", "smoke", "--budget", "1.2")
    )
    live.start()
    live.until_whole(4)
    seen = []
    while live.running():
        own = live.victim("noisefloor")
        try:
            memory, handles = own.memory_info().rss, own.num_fds()
        except (psutil.Error, AttributeError):
            break
        disk = 0
        for p in (tmp_path / ".servers").rglob("*"):
            try:
                disk += p.lstat().st_blocks * 512
            except OSError:
                continue
        runs = len(list(live.runs.glob("*/*/run.json")))
        seen.append((time.monotonic(), memory, handles, disk, runs))
        time.sleep(0.5)
    assert live.end() == 0
    live.check()
    at, memory, handles, disk, runs = np.array(seen, float).T
    per_run = slope(runs, memory)
    said = {
        "runs": int(runs[-1]),
        "seconds": round(at[-1] - at[0]),
        "memory_B_per_run": [round(x) for x in per_run],
        "handles": [int(handles.min()), int(handles.max())],
        "handles_per_run": [round(x, 4) for x in slope(runs, handles)],
        "servers_disk_MB": [round(disk.min() / 1e6), round(disk.max() / 1e6)],
        "servers_disk_B_per_run": [round(x) for x in slope(runs, disk)],
        "raw_B_per_run": round(collect._size(live.runs) / runs[-1]),
    }
    print(json.dumps(said))
    announced = re.search(r"takes at most ([\d.]+) GB in .servers and ([\d.]+) GB in", live.words())
    assert disk.max() < float(announced[1]) * 1e9
    assert collect._size(live.runs) < float(announced[2]) * 1e9
    assert handles.max() - handles.min() < 30
    assert slope(runs, handles)[0] < 0.05
    assert per_run[0] < 60_000  # the rows of a run, and what the statistics make of them


@pytest.fixture(scope="module")
def ten_thousand(tmp_path_factory):
    """A campaign folder with ten thousand runs: copies of real ones with their own names and
    checksums."""
    folder = tmp_path_factory.mktemp("many") / "binlog-encryption-smoke-20260101-000000"
    source = Path(__file__).parents[1] / "data" / "campaign"
    folder.mkdir()
    for file in source.glob("*.json"):
        shutil.copy(file, folder)
    meta = json.loads((folder / "campaign.json").read_text())
    runs = [r for r in tidy.run_folders(source) if not tidy.read(r)["warmup"]]
    cells = {}
    for run in runs:
        facts = tidy.read(run)
        cells.setdefault(facts["pair_id"].rpartition("-p")[0], {}).setdefault(
            facts["pair_id"], []
        ).append(run)
    made = 0
    generator = np.random.default_rng(8)
    while made < 10_000:
        for cell, pairs in cells.items():
            both = list(pairs.values())[generator.integers(len(pairs))]
            number = made // (2 * len(cells))
            for run in both:
                facts = json.loads((run / "run.json").read_text())
                pair_id = f"{cell}-p{number:04d}"
                name = facts["run"].replace(facts["pair_id"], pair_id)
                facts |= {"run": name, "pair_id": pair_id, "pair": number, "block": number // 50,
                          "campaign": folder.name}  # fmt: skip
                (folder / name).mkdir()
                for file in run.iterdir():
                    if file.name != "run.json":
                        shutil.copy(file, folder / name)
                (folder / name / "run.json").write_text(json.dumps(facts))
                made += 1
    meta |= {"finished": "", "ended_because": ""}
    (folder / "campaign.json").write_text(json.dumps(meta))
    return folder


@slow
def test_ten_thousand_runs_are_opened_judged_and_continued(ten_thousand, capsys):
    took = {}
    began = time.monotonic()
    found = results.load(ten_thousand)
    table = found.tidy
    took["read"] = time.monotonic() - began
    assert table["run"].nunique() == 10_000
    began = time.monotonic()
    assert len(found.verdicts)
    took["judge"] = time.monotonic() - began
    began = time.monotonic()
    meta = tidy.meta(ten_thousand)
    c = collect.Campaign(study.restored(meta), ten_thousand, meta, collect.Progress())
    took["continue"] = time.monotonic() - began
    assert sum(c.done().values()) == 5_000
    began = time.monotonic()
    c.progress.show(c, "a pair")
    c.open_cells()
    took["next pair"] = time.monotonic() - began
    print({k: round(v, 2) for k, v in took.items()})
    assert took["read"] < 60
    assert took["judge"] < 30
    assert took["continue"] < 120
    assert took["next pair"] < 10
