"""Ten thousand runs in one campaign: what they hold in memory, how long they take. No server."""

import gc
import itertools
import json
import shutil
import time
import tracemalloc

import numpy as np
import psutil
import pyarrow
import pytest

from conftest import DATA, planned
from noisefloor import model as study
from noisefloor.data import results, tidy
from noisefloor.measure import collect
from noisefloor.measure.campaign import Campaign

slow = pytest.mark.slow
SOURCE = DATA / "campaign"
OPEN = {"finished": "", "ended_because": ""}
LONG = {"blocks": 1250, "pairs": 4}


@slow
def test_what_a_campaign_keeps_in_memory_of_each_run(tmp_path):
    """Counted to the byte while pairs are made one after the other."""
    for file in SOURCE.glob("*.json"):
        shutil.copy(file, tmp_path)
    meta = planned(json.loads((SOURCE / "campaign.json").read_text()), **LONG) | OPEN
    (tmp_path / "campaign.json").write_text(json.dumps(meta))
    c = Campaign(study.study_of(meta), tmp_path, tidy.meta(tmp_path), collect.Progress())
    pair = [r for r in tidy.run_folders(SOURCE) if tidy.read(r)["pair_id"].endswith("-p000")][:2]
    rows = [row for run in pair for row in tidy.rows(run)]
    assert {row["position"] for row in rows} == {0, 1}
    held = []
    tracemalloc.start()
    for i in range(30):
        name = rows[0]["pair_id"].removesuffix("000") + f"{i:03d}"
        c._new += [
            row | {"run": f"{name}-{row['arm']}", "pair_id": name, "pair": i, "block": i // 4}
            for row in rows
        ]
        c.progress.show(c, "a pair")
        assert len(c.done()) == 1
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0] + pyarrow.total_allocated_bytes())
    tracemalloc.stop()
    a_run = (held[-1] - held[10]) / 2 / (len(held) - 11)
    print(f"{a_run:.0f} B a run")
    assert 0 < a_run < 6_000


@pytest.fixture(scope="module")
def ten_thousand(tmp_path_factory):
    """A campaign folder with ten thousand runs: copies of real ones with their own names and
    checksums."""
    folder = tmp_path_factory.mktemp("many") / "binlog-encryption-smoke-20260101-000000"
    folder.mkdir()
    for file in SOURCE.glob("*.json"):
        shutil.copy(file, folder)
    cells = {}
    for run in tidy.run_folders(SOURCE):
        if not (facts := tidy.read(run))["warmup"]:
            cell = facts["pair_id"].rpartition("-p")[0]
            cells.setdefault(cell, {}).setdefault(facts["pair_id"], []).append((run, facts))
    generator = np.random.default_rng(8)
    for number, (cell, pairs) in itertools.product(range(5_000 // len(cells)), cells.items()):
        for run, facts in list(pairs.values())[generator.integers(len(pairs))]:
            pair_id = f"{cell}-p{number:04d}"
            name = facts["run"].replace(facts["pair_id"], pair_id)
            own = {"run": name, "pair_id": pair_id, "pair": number, "block": number // 50}
            shutil.copytree(run, folder / name)
            text = json.dumps(facts | own | {"campaign": folder.name})
            (folder / name / "run.json").write_text(text)
    meta = json.loads((SOURCE / "campaign.json").read_text()) | OPEN
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
    meta = planned(tidy.meta(ten_thousand), **LONG)
    c = Campaign(study.study_of(meta), ten_thousand, meta, collect.Progress())
    took["continue"] = time.process_time() - began
    assert sum(c.done().values()) == 5_000
    began = time.process_time()
    c.progress.show(c, "a pair")
    assert c.whole(0)
    took["next pair"] = time.process_time() - began
    took["MB"] = (own.memory_info().rss - memory) / 1e6
    print({k: round(v, 2) for k, v in took.items()})
    assert took["read"] < 30
    assert took["judge"] < 15
    assert took["continue"] < 40
    assert took["next pair"] < 15
    assert took["MB"] < 600  # of the 655 that are announced
