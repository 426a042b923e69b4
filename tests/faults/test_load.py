"""Many clients, many slices: nothing grows that was not announced."""

import contextlib
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from scipy.stats import linregress

from live import Live, asked
from noisefloor.data import tidy
from noisefloor.measure.preflight import RUN_MEMORY_B, size_of
from test_collect import SMOKE, cell_of

slow = pytest.mark.slow


@slow
def test_2048_threads(campaign, mysql):
    chosen = replace(SMOKE, workloads=(replace(SMOKE.workloads[0], threads=(2048,)),))
    c, bench = campaign(chosen, mysql)
    c.pair(bench, cell_of(chosen, workload=chosen.workloads[0]))
    assert c.done() == {"in-memory-t2048-encrypted": 1}
    for run in tidy.run_folders(c.folder):
        assert tidy.Run(run).sysbench["threads"] == 2048


def slope(x, values) -> tuple[float, float]:
    """Growth of `values` a unit of `x`, with the half width of its 99 % interval."""
    fit = linregress(x, values)
    return fit.slope, 2.6 * fit.stderr


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
            memory, handles = own.memory_info(), own.num_fds()
        except (psutil.Error, AttributeError):
            break
        if not memory.rss:  # it has just ended
            break
        runs = len(list(live.runs.glob("*/*/run.json")))
        private = memory.rss - memory.shared  # without the pages of libraries
        seen.append((runs, memory.rss, private, handles, *disk_of(tmp_path / ".servers")))
        time.sleep(0.5)
    assert live.end() == 0
    live.check()
    runs, memory, private, handles, disk, logs = np.array(seen, float).T
    # what is judged first loads libraries, and so does the end
    late = (runs > runs.max() / 2) & (runs < runs.max())
    grows = {
        "memory": slope(runs[late], private[late]),
        "handles": slope(runs, handles),
        "disk": slope(runs, disk),
    }
    said = {
        "runs": int(runs[-1]),
        "a run": {k: [round(x, 3) for x in v] for k, v in grows.items()},
        "memory_MB": [round(memory.min() / 1e6), round(memory.max() / 1e6)],
        "handles": [int(handles.min()), int(handles.max())],
        "servers_MB": [round(disk.min() / 1e6), round(disk.max() / 1e6)],
        "raw_B_per_run": round(size_of(live.runs) / runs[-1]),
    }
    print(json.dumps(said))
    announced = re.search(
        r"takes at most ([\d.]+) GB in .servers, ([\d.]+) GB in \S+, ([\d.]+) GB of memory",
        live.words(),
    )
    at_most = [float(gb) * 1e9 for gb in announced.groups()]
    assert disk.max() < at_most[0]
    assert size_of(live.runs) < at_most[1]
    assert memory.max() < at_most[2]
    # full ones are removed after each pair; the open one, and one more for each change of an arm
    # (two where a block is proved at its end, two in a pair) and for a start
    assert logs.max() <= 6
    assert handles.max() - handles.min() < 30
    assert grows["handles"][0] - grows["handles"][1] < 0.05
    assert grows["memory"][0] - grows["memory"][1] < RUN_MEMORY_B  # as is announced
