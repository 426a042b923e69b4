"""Many clients, many slices, many runs: nothing grows that was not announced."""

import contextlib
import gc
import json
import os
import re
import shutil
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from live import Live, asked
from noisefloor import collect, results, study, tidy
from test_collect import SMOKE, cell_of

slow = pytest.mark.slow


@slow
def test_2048_threads(campaign, mysql):
    chosen = replace(SMOKE, workloads=(replace(SMOKE.workloads[0], threads=(2048,)),))
    c, bench = campaign(chosen, mysql)
    c.pair(bench, cell_of(chosen, workload=chosen.workloads[0]))
    assert c.done() == {"in-memory-t2048-encrypted": 1}
    for run in tidy.run_folders(c.folder):
        assert tidy.sysbench(run)["threads"] == 2048


def slope(x, values) -> tuple[float, float]:
    """Growth of `values` a unit of `x`, with the half width of its 99 % interval."""
    t, v = np.asarray(x) - np.mean(x), np.asarray(values, float)
    b = (t @ (v - v.mean())) / (t @ t)
    rest = v - v.mean() - b * t
    return b, 2.6 * np.sqrt(rest @ rest / (len(t) - 2) / (t @ t))


def disk_of(folder: Path) -> tuple[int, int]:
    """Bytes on disk under a folder whose files come and go, and its most binary logs a server."""
    size, logs = 0, [0]
    for where, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                size += os.lstat(Path(where, file)).st_blocks * 512
        logs.append(sum(f.startswith("binlog.0") for f in files))
    return size, max(logs)


@slow
def test_a_day_of_slices_leaves_memory_handles_and_disk_as_they_were(tmp_path, mysql):
    """What a campaign of short slices leaves behind each of them would add up in a day."""
    live = Live(tmp_path, mysql, *asked(0.6))
    live.start()
    live.until_whole(8)
    seen = []
    while live.running():
        own = live.victim("noisefloor")
        try:
            memory, handles = own.memory_info().rss, own.num_fds()
        except (psutil.Error, AttributeError):
            break
        if not memory:  # it has just ended
            break
        runs = len(list(live.runs.glob("*/*/run.json")))
        seen.append((runs, memory, handles, *disk_of(tmp_path / ".servers")))
        time.sleep(0.5)
    assert live.end() == 0
    live.check()
    runs, memory, handles, disk, logs = np.array(seen, float).T
    late = runs > runs.max() / 2  # what is judged first loads libraries
    grows = {
        "memory": slope(runs[late], memory[late]),
        "handles": slope(runs, handles),
        "disk": slope(runs, disk),
    }
    said = {
        "runs": int(runs[-1]),
        "a run": {k: [round(x, 3) for x in v] for k, v in grows.items()},
        "memory_MB": [round(memory.min() / 1e6), round(memory.max() / 1e6)],
        "handles": [int(handles.min()), int(handles.max())],
        "servers_MB": [round(disk.min() / 1e6), round(disk.max() / 1e6)],
        "raw_B_per_run": round(collect._size(live.runs) / runs[-1]),
    }
    print(json.dumps(said))
    announced = re.search(r"takes at most ([\d.]+) GB in .servers and ([\d.]+) GB in", live.words())
    assert disk.max() < float(announced[1]) * 1e9
    assert collect._size(live.runs) < float(announced[2]) * 1e9
    assert logs.max() <= 5  # full ones are removed after each pair
    assert handles.max() - handles.min() < 30
    assert grows["handles"][0] - grows["handles"][1] < 0.05
    assert grows["memory"][0] - grows["memory"][1] < 500_000  # B; see the next test


@slow
def test_what_a_campaign_keeps_in_memory_of_each_run(tmp_path):
    """Counted to the byte while pairs are judged one after the other."""
    source = Path(__file__).parents[1] / "data" / "campaign"
    for file in source.glob("*.json"):
        shutil.copy(file, tmp_path)
    meta = json.loads((source / "campaign.json").read_text()) | {
        "finished": "",
        "ended_because": "",
    }
    (tmp_path / "campaign.json").write_text(json.dumps(meta))
    c = collect.Campaign(study.restored(meta), tmp_path, tidy.meta(tmp_path), collect.Progress())
    pair = [r for r in tidy.run_folders(source) if tidy.read(r)["pair_id"].endswith("-p000")][:2]
    rows = [row for run in pair for row in tidy.rows(run)]
    assert {row["position"] for row in rows} == {0, 1}
    held = []
    tracemalloc.start()
    for i in range(30):
        name = rows[0]["pair_id"].removesuffix("000") + f"{i:03d}"
        c.rows += [
            row | {"run": f"{name}-{row['arm']}", "pair_id": name, "pair": i, "block": i // 4}
            for row in rows
        ]
        c.progress.show(c, "a pair")
        c.open_cells()
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    a_run = (held[-1] - held[10]) / 2 / (len(held) - 11)
    print(f"{a_run:.0f} B a run")
    assert 0 < a_run < 40_000  # a day of runs of 10 s: 350 MB at the most


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
def test_ten_thousand_runs_are_opened_judged_and_continued(ten_thousand):
    """In seconds of the processor: others may use it, too."""
    took, own = {}, psutil.Process()
    memory = own.memory_info().rss
    began = time.process_time()
    found = results.load(ten_thousand)
    table = found.tidy
    took["read"] = time.process_time() - began
    assert table["run"].nunique() == 10_000
    began = time.process_time()
    assert len(found.verdicts)
    took["judge"] = time.process_time() - began
    began = time.process_time()
    meta = tidy.meta(ten_thousand)
    c = collect.Campaign(study.restored(meta), ten_thousand, meta, collect.Progress())
    took["continue"] = time.process_time() - began
    assert sum(c.done().values()) == 5_000
    began = time.process_time()
    c.progress.show(c, "a pair")
    c.open_cells()
    took["next pair"] = time.process_time() - began
    took["MB"] = (own.memory_info().rss - memory) / 1e6
    print({k: round(v, 2) for k, v in took.items()})
    assert took["read"] < 30
    assert took["judge"] < 15
    assert took["continue"] < 40
    assert took["next pair"] < 15
    assert took["MB"] < 600  # as much as a campaign of a day holds in its memory
