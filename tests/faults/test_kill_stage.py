"""A process of a backup's pipe dies, or hangs: mariabackup, tar, zstd, openssl, mbstream."""

import contextlib
import random
import shutil
import signal
import threading
import time
from dataclasses import replace

import psutil
import pytest

from live import SEED, promise, send
from noisefloor import schedule, studies
from noisefloor.data import tidy
from noisefloor.measure import child
from noisefloor.measure.backup import pipe
from noisefloor.model import Request

HERE = all(map(shutil.which, ("zstd", "openssl", "mariabackup")))
pytestmark = pytest.mark.skipif(not HERE, reason="zstd, openssl or mariadb-backup is missing")
STAGES = ("tar", "zstd", "openssl", "mariabackup", "mariadb-backup", "mbstream")


def harmed(times: int, how: signal.Signals, seed: int, done: list) -> None:
    """Send a signal to so many stages at random points; some points hit nothing."""
    points = random.Random(f"{seed} stage {how}")
    while len(done) < times:
        stages = []
        for p in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                stages += [p] if p.name() in STAGES else []
        if stages and points.random() < 0.3:
            chosen = points.choice(stages)
            if send("pipeline stage", chosen, how):
                done.append(chosen.pid)
            time.sleep(points.uniform(0, 1))
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "times", "how"),
    [("mysql", 5, signal.SIGKILL), ("mariadb", 7, signal.SIGKILL), ("mysql", 2, signal.SIGSTOP)],
)
def test_at_random_points(request, campaign, monkeypatch, engine, times, how):
    """Pairs are measured until all harm is done, and one more of each kind after it."""
    monkeypatch.setattr(child, "PATIENCE_S", 2)
    template = request.getfixturevalue(engine)
    both = [
        studies.load(Request("backup-encryption", q, profile="smoke", engine=engine))
        for q in ("headline", "restore")
    ]
    works = tuple(w for s in both for w in s.workloads)
    chosen = replace(both[0], workloads=works)
    c, bench = campaign(chosen, template)
    cells = [x for x in schedule.cells(chosen) if not x.control]
    done: list[int] = []
    thread = threading.Thread(target=harmed, args=(times, how, SEED, done))
    thread.start()
    while thread.is_alive():
        for cell in cells:
            c.pair(bench, cell)
            c.lost = 0  # nobody harms three pairs in a row by accident
    before = c.done()
    for cell in cells:
        c.pair(bench, cell)
    assert all(c.done()[x.key] == before.get(x.key, 0) + 1 for x in cells)
    problems = tidy.opened(c.folder).tidy_runs.problems
    assert len(done) == times
    failed = [p.name for p in c.folder.glob("*.failed*")]
    assert failed
    assert all(any(n in problem for problem in problems) for n in failed)
    promise(c.folder.parent)
    for run in tidy.run_folders(c.folder):
        assert tidy.read(run).get("archive_B", 1) > 0
    folders = [p for place in (bench.folder, bench.kept) for p in place.iterdir()]
    kept = {p.name.partition("-")[0] for p in folders if p.is_dir()}
    assert not kept & {"scratch", "restored", "revived"}
    archives = {*bench.kept.glob("archive-*")}
    assert archives - {*bench.archives.values()} == set()  # of a pipe that failed


def test_a_pipe_that_stands_still_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "PATIENCE_S", 0.5)
    stages = [
        ("head", "-c", "1500000000", "/dev/zero"),
        ("sleep", "1000"),
    ]
    with pytest.raises(child.ToolError, match=r"the pipe stood still for 0\.5 s"):
        pipe(stages, tmp_path)
    assert not [p for p in psutil.Process().children() if p.name() in ("head", "sleep")]
