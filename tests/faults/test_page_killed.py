"""The Jupyter kernel that renders a page dies, or the command that started it does."""

import os
import random
import subprocess
import sys
import time

import psutil
import pytest

from conftest import ENGINES
from live import SEED, is_called, promise, send
from test_disk_pages import RENDER, assert_no_page, assert_whole_page, project, rendered
from test_report import STUDY, write

slow = pytest.mark.slow


def kernel(pid: int) -> psutil.Process | None:
    try:
        for p in psutil.Process(pid).children(recursive=True):
            if is_called(p, "ipykernel_launcher"):
                return p
    except psutil.Error:
        pass
    return None


@slow
def test_kill_9_at_random_points(project):
    """The page of last time is there whole, or none is; never half of one, never a mixture."""
    points = random.Random(f"{SEED} a page")
    out = project / "pages"
    assert rendered(project, out).returncode == 0
    assert_whole_page(out)
    before = (out / "good.html").read_text()
    write(project, "good", (*STUDY[:2], "import time\ntime.sleep(1)", *STUDY[2:]))
    env = os.environ | {"NOISEFLOOR_HOME": str(project), "NOISEFLOOR_ENGINES": str(ENGINES)}
    for victim in 2 * ("ipykernel_launcher", "noisefloor report"):
        command = subprocess.Popen(
            [sys.executable, "-c", RENDER, str(out)], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        while not (found := kernel(command.pid)):
            assert command.poll() is None, command.stdout.read()
            time.sleep(0.02)
        time.sleep(points.uniform(0, 4 if victim == "ipykernel_launcher" else 8))
        target = found if victim == "ipykernel_launcher" else psutil.Process(command.pid)
        hit = send(victim, target)
        said = command.communicate()[0]
        promise(home=project, pages=out)
        assert "Traceback" not in said
        if not (out / "good.html").exists():
            assert_no_page(out)
        elif hit and command.returncode < 0:
            page = (out / "good.html").read_text()
            assert page == before or "time.sleep" in (out / "good.ipynb").read_text()
        if hit and victim == "ipykernel_launcher" and command.returncode:
            assert "its kernel was killed or died" in said
            assert_no_page(out)
    assert rendered(project, out).returncode == 0
    assert_whole_page(out)
    assert not list(out.glob("*.partial"))
