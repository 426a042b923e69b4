"""The disk is full, or read-only: while servers are made, while measuring, while raw text is
written, while a page is rendered. Each time on a small file system of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ENGINES
from live import Live, asked, mounts
from test_plots import TABLE
from test_report import STUDY, write

slow = pytest.mark.slow


def fill(folder: Path, leave: int = 0) -> Path:
    """A file that takes all but `leave` bytes of a file system."""
    ballast = folder / "ballast"
    with open(ballast, "wb") as f:
        while (space := os.statvfs(folder)).f_bavail * space.f_frsize > leave:
            try:
                f.write(bytes(min(1 << 16, space.f_bavail * space.f_frsize - leave)))
                f.flush()
            except OSError:
                break
    return ballast


@slow
def test_too_small_a_disk_is_refused_before_anything_is_measured(tmp_path, mysql, mounts):
    mounts.small(tmp_path / ".servers", "400m")
    live = Live(tmp_path, mysql, *asked(0.15), enter=mounts.enter)
    live.start()
    assert live.end() == 1
    assert "GB in .servers, where 0." in live.said
    assert live.said.endswith("GB are free; nothing was measured\n")
    assert live.whole() == []


@slow
def test_raw_text_meets_a_full_disk(tmp_path, mysql, mounts):
    mounts.small(tmp_path / "runs", "30m")
    live = Live(tmp_path, mysql, *asked(0.3), enter=mounts.enter)
    live.runs = mounts.seen(tmp_path / "runs")
    live.start()
    live.until_whole(2)
    ballast = fill(live.runs)
    assert live.end() == 1
    assert "No space left on device" in live.said
    assert "whole runs are kept, the same command continues" in live.said
    ballast.unlink()
    live.finish()
    assert len(list(live.runs.iterdir())) == 1


@slow
def test_the_servers_meet_a_full_disk(tmp_path, mysql, mounts):
    mounts.small(tmp_path / ".servers", "1300m")
    live = Live(tmp_path, mysql, *asked(0.4), enter=mounts.enter)
    live.start()
    live.until_whole(2)
    live.servers = servers = mounts.seen(tmp_path / ".servers")
    ballast = fill(servers)
    assert live.end() == 1
    ballast.unlink()
    live.finish()


@slow
def test_a_read_only_data_folder(tmp_path, mysql, mounts):
    (tmp_path / "runs").mkdir()
    mounts.small(tmp_path / "runs", "30m")
    mounts.mount("-o", "remount,ro", str(tmp_path / "runs"))
    live = Live(tmp_path, mysql, *asked(0.15), enter=mounts.enter)
    live.start()
    assert live.end() == 1
    assert "Read-only file system" in live.said
    mounts.mount("-o", "remount,rw", str(tmp_path / "runs"))
    live.runs = mounts.seen(tmp_path / "runs")
    live.finish()


# -- pages ---------------------------------------------------------------------------------------

RENDER = """
import sys
from noisefloor.cli import main
main(["report", "good", "--out", sys.argv[1]], prog_name="noisefloor")
"""


@pytest.fixture
def project(tmp_path):
    """A project with one small notebook."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "environment.yml").touch()
    TABLE.to_pickle(tmp_path / "table.pkl")
    write(tmp_path, "good", STUDY)
    return tmp_path


def rendered(project: Path, out: Path, *enter: str) -> subprocess.CompletedProcess:
    env = os.environ | {"NOISEFLOOR_HOME": str(project), "NOISEFLOOR_ENGINES": str(ENGINES)}
    argv = [*enter, sys.executable, "-c", RENDER, str(out)]
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False)


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
    assert not index.exists() or index.read_text().rstrip().endswith("</html>")
    assert not index.exists() or 'href="good.html"' not in index.read_text()


@slow
def test_a_page_meets_a_full_disk(project, mounts):
    out = project / "small"
    mounts.small(out, "8m")
    seen = mounts.seen(out)
    done = rendered(project, out, *mounts.enter)
    assert done.returncode == 0, done.stderr
    assert_whole_page(seen)
    (seen / "index.html").unlink()
    ballast = fill(seen, leave=20_000)  # room for a part of it
    done = rendered(project, out, *mounts.enter)
    assert done.returncode == 1
    assert "No space left on device" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert_no_page(seen)
    assert not list(seen.glob("*.partial"))
    assert (seen / "previous" / "good.html").exists()
    ballast.unlink()
    assert rendered(project, out, *mounts.enter).returncode == 0
    assert_whole_page(seen)


@slow
def test_a_page_into_a_read_only_folder(project, mounts):
    out = project / "small"
    mounts.small(out, "8m")
    mounts.mount("-o", "remount,ro", str(out))
    done = rendered(project, out, *mounts.enter)
    assert done.returncode == 1
    assert "Read-only file system" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert list(mounts.seen(out).iterdir()) == []
