"""What repo2docker, which Binder runs, asks of a repository: its rules, as far as they can be looked
at without Docker. The files stand in its documentation under "Configuration files"."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")  # it has a base environment for
# each of these would be chosen before, or instead of, environment.yml
BEFORE = (
    *("binder", ".binder", "Dockerfile", "Project.toml", "JuliaProject.toml", "REQUIRE"),
    *("default.nix", "DESCRIPTION", "runtime.txt"),
)


def tracked(name: str) -> str:
    """How git holds a file: its mode, "" for none."""
    asked = ["git", "ls-files", "--format=%(objectmode)", name]
    return subprocess.run(
        asked, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_conda_s_environment_is_what_it_finds():
    """With a Python that it has, read as it reads it. pip's part needs nothing of the repository:
    otherwise the environment would be made anew at each commit."""
    assert [name for name in BEFORE if (ROOT / name).exists()] == []
    assert all(map(tracked, ("environment.yml", "apt.txt", "postBuild")))
    names = [d for d in CONDA["dependencies"] if isinstance(d, str)]
    (version,) = filter(None, (re.match(r"python\s*=+\s*([\d.]*)", n) for n in names))
    assert version[1] in PYTHONS
    (pip,) = [d for d in CONDA["dependencies"] if not isinstance(d, str)]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\d.]+", line) for line in pip["pip"])
    assert "pip" in names


def test_post_build_is_a_script_that_git_holds_as_one():
    assert tracked("postBuild") == "100755"
    text = (ROOT / "postBuild").read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "\r" not in text
    assert not re.search(r"\b(sudo|apt|apt-get|conda)\b", text)  # it runs as an ordinary user
    subprocess.run(["bash", "-n", "postBuild"], cwd=ROOT, check=True)


def test_post_build_installs_the_package_from_its_folder(tmp_path):
    """In a copy, into a folder of its own, with what the environment has and without a network."""
    copy, place = tmp_path / "some one's copy", tmp_path / "place"
    for name in ("postBuild", "pyproject.toml", "README.md", "lib/noisefloor/__init__.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    own = {"PIP_PREFIX": str(place), "PIP_IGNORE_INSTALLED": "1", "PIP_NO_INDEX": "1"}
    own |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    own["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for _ in range(2):  # running it twice changes nothing
        env = os.environ | own
        ran = subprocess.run(["./postBuild"], cwd=copy, env=env, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
    (points,) = place.rglob("__editable__*noisefloor*.pth")
    assert points.read_text().strip() == str(copy / "lib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (info,) = place.rglob("noisefloor-*.dist-info")
    assert info.name == f"noisefloor-{project['version']}.dist-info"


def test_the_way_to_explore_is_written_down():
    said = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    opens = re.findall(r"urlpath=lab/tree/(\S+?\.ipynb)", said)
    assert opens
    assert all((ROOT / name).exists() for name in opens)
