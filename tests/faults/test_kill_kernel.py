"""The Jupyter kernel that renders a page dies, or the command that started it does."""

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

from conftest import ENGINES
from live import SEED, processes
from test_disk import RENDER, assert_no_page, assert_whole_page, project, rendered
from test_report import STUDY, write

slow = pytest.mark.slow


def kernel(pid: int) -> psutil.Process | None:
    try:
        for p in psutil.Process(pid).children(recursive=True):
            if "ipykernel_launcher" in " ".join(p.cmdline()):
                return p
    except psutil.Error:
        pass
    return None


@slow
@pytest.mark.parametrize(("victim", "times"), [("kernel", 5), ("command", 5)])
def test_kill_9_at_random_points(project, victim, times):
    """The page of last time is there whole, or none is; never half of one, never a mixture."""
    points = random.Random(f"{SEED} {victim} {times}")
    out = project / "pages"
    assert rendered(project, out).returncode == 0
    assert_whole_page(out)
    before = (out / "good.html").read_text()
    write(project, "good", (*STUDY[:2], "import time\ntime.sleep(1)", *STUDY[2:]))
    env = os.environ | {"NOISEFLOOR_HOME": str(project), "NOISEFLOOR_ENGINES": str(ENGINES)}
    for _ in range(times):
        command = subprocess.Popen(
            [sys.executable, "-c", RENDER, str(out)], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        while not (found := kernel(command.pid)):
            assert command.poll() is None, command.stdout.read()
            time.sleep(0.02)
        time.sleep(points.uniform(0, 4 if victim == "kernel" else 8))
        target = found if victim == "kernel" else psutil.Process(command.pid)
        hit = target.is_running() and command.poll() is None
        if hit:
            target.send_signal(signal.SIGKILL)
        said = command.communicate()[0]
        deadline = time.monotonic() + 5
        while (left := processes(project)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == [], [" ".join(p.cmdline())[:200] for p in left]
        assert "Traceback" not in said
        if (out / "good.html").exists():
            assert_whole_page(out)
            if hit and victim == "command" and command.returncode < 0:
                page = (out / "good.html").read_text()
                assert page == before or "time.sleep" in (out / "good.ipynb").read_text()
        else:
            assert_no_page(out)
        if hit and victim == "kernel" and command.returncode:
            assert "its kernel was killed or died" in said
            assert_no_page(out)
    assert rendered(project, out).returncode == 0
    assert_whole_page(out)
    assert not list(out.glob("*.partial"))
