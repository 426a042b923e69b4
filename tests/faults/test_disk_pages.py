"""The disk is full, or read-only, while a page is rendered: a small file system of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ENGINES
from live import mounts
from test_disk import fill
from test_plots import TABLE
from test_report import STUDY, write

slow = pytest.mark.slow

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
