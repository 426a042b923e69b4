"""The Jupyter kernel of a notebook that measures dies."""

import random
import time

import pytest

from live import PATCHES, SEED, Live, send
from test_report import write

slow = pytest.mark.slow
MEASURES = (
    "# What does it cost?",
    PATCHES,
    "from noisefloor import report, results\n"
    "asked = {'question': 'headline', 'profile': profile, 'budget_min': 0.2}\n"
    "(folder,) = collect.obtain('binlog-encryption', **asked)\n"
    "r = results.load(folder)",
    "## The verdict",
    "report.verdict_box(r.verdicts, r.meta)",
    "report.save(r.verdicts, 'mine', folder, title=r.study.title, primary={'workload': r.main})",
)


@slow
def test_kill_9_while_a_notebook_measures(tmp_path, mysql):
    """A notebook with a measurement of its own: no run is lost, its page is made when all is done."""
    home = tmp_path / "home"
    (home / "notebooks").mkdir(parents=True)
    (home / "environment.yml").touch()
    write(home, "mine", MEASURES, 'profile = "smoke"  # of the campaign\n')
    out = home / "pages"
    live = Live(home, mysql, "report", "mine", "--out", str(out), pages=out)
    points = random.Random(f"{SEED} a notebook measures")
    for n in range(3):
        live.start()
        live.until("sysbench" if n else "ipykernel_launcher")
        time.sleep(points.uniform(0, 3))
        killed = send("ipykernel_launcher", live.until("ipykernel_launcher"))
        assert (live.end() == 1) == killed
    live.finish()
    assert (out / "mine.html").exists()
    assert len(list(live.runs.iterdir())) == 1
