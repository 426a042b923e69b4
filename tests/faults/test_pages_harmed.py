"""While a page is rendered the disk is full or read-only, its kernel dies, or the command that
started it does."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conftest import COMMAND, environment
from live import SEED, is_called, mounts, promise, send
from test_disk import fill
from test_report import STUDY, TABLE, write

slow = pytest.mark.slow


@pytest.fixture
def project(tmp_path):
    """A project with one small notebook."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "environment.yml").touch()
    TABLE.to_pickle(tmp_path / "table.pkl")
    write(tmp_path, "good", STUDY)
    return tmp_path


def rendering(project: Path, out: Path, *enter: str) -> subprocess.Popen:
    argv = [*enter, *COMMAND, "report", "good", "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(argv, env=environment(project), text=True, **pipes)


def rendered(project: Path, out: Path, *enter: str, says: str = "") -> None:
    """The command from its start to its end; `says`: the sentence with which it fails."""
    with rendering(project, out, *enter) as command:
        said = command.communicate()[0]
    assert command.returncode == bool(says), said
    assert says in said
    assert "Traceback" not in said


def assert_whole_page(out: Path) -> None:
    """All parts, and the page ends as a page does."""
    assert (out / "good.html").read_text().rstrip().endswith("</html>")
    json.loads((out / "good.json").read_text())
    json.loads((out / "good.ipynb").read_text())
    assert (out / "index.html").read_text().rstrip().endswith("</html>")


def assert_no_page(out: Path) -> None:
    """Nothing looks finished, in the folder or in its index."""
    assert not [p.name for p in out.glob("good.*") if p.suffix != ".ipynb"]
    index = out / "index.html"
    text = index.read_text() if index.exists() else "</html>"
    assert text.rstrip().endswith("</html>")
    assert 'href="good.html"' not in text


@slow
def test_a_page_meets_a_full_disk(project, mounts):
    out = project / "small"
    mounts.small(out, "8m")
    seen = mounts.seen(out)
    rendered(project, out, *mounts.enter)
    assert_whole_page(seen)
    (seen / "index.html").unlink()
    ballast = fill(seen, leave=20_000)  # room for a part of it
    rendered(project, out, *mounts.enter, says="No space left on device")
    assert_no_page(seen)
    assert not list(seen.glob("*.partial"))
    assert (seen / "previous" / "good.html").exists()
    ballast.unlink()
    rendered(project, out, *mounts.enter)
    assert_whole_page(seen)


@slow
def test_a_page_into_a_read_only_folder(project, mounts):
    out = project / "small"
    mounts.small(out, "8m")
    mounts.mount("-o", "remount,ro", str(out))
    rendered(project, out, *mounts.enter, says="Read-only file system")
    assert list(mounts.seen(out).iterdir()) == []


def kernel(pid: int) -> psutil.Process | None:
    try:
        below = psutil.Process(pid).children(recursive=True)
        return next((p for p in below if is_called(p, "ipykernel_launcher")), None)
    except psutil.Error:
        return None


@slow
def test_kill_9_at_random_points(project):
    """The page of last time is there whole, or none is; never half of one, never a mixture."""
    points = random.Random(f"{SEED} a page")
    out = project / "pages"
    rendered(project, out)
    assert_whole_page(out)
    before = (out / "good.html").read_text()
    write(project, "good", (*STUDY[:2], "import time\ntime.sleep(1)", *STUDY[2:]))
    for victim in 2 * ("ipykernel_launcher", "noisefloor report"):
        command = rendering(project, out)
        while not (found := kernel(command.pid)):
            assert command.poll() is None, command.stdout.read()
            time.sleep(0.02)
        of_kernel = victim == "ipykernel_launcher"
        time.sleep(points.uniform(0, 4 if of_kernel else 8))
        hit = send(victim, found if of_kernel else psutil.Process(command.pid))
        said = command.communicate()[0]
        promise(home=project, pages=out)
        assert "Traceback" not in said
        if not (out / "good.html").exists():
            assert_no_page(out)
        elif hit and command.returncode < 0:
            page = (out / "good.html").read_text()
            assert page == before or "time.sleep" in (out / "good.ipynb").read_text()
        if hit and of_kernel and command.returncode:
            assert "its kernel was killed or died" in said
            assert_no_page(out)
    rendered(project, out)
    assert_whole_page(out)
    assert not list(out.glob("*.partial"))
