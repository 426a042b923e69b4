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

ROOT = Path(__file__).parents[1]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")  # it has a base environment for
# each of these would be chosen before, or instead of, environment.yml
BEFORE = (
    *("binder", ".binder", "Dockerfile", "Project.toml", "JuliaProject.toml", "REQUIRE"),
    *("default.nix", "DESCRIPTION", "runtime.txt"),
)


def tracked(name: str) -> str:
    """How git holds a file: its mode, "" for none."""
    shown = subprocess.run(
        ["git", "ls-files", "-s", name], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return shown.split()[0] if shown else ""


def test_conda_s_environment_is_what_it_finds():
    assert [name for name in BEFORE if (ROOT / name).exists()] == []
    for name in ("environment.yml", "apt.txt", "postBuild"):
        assert tracked(name), f"{name} is not in git"
    assert isinstance(CONDA, dict)
    assert all(isinstance(d, str | dict) for d in CONDA["dependencies"])


def test_its_python_is_one_that_repo2docker_has():
    """The version as repo2docker reads it."""
    found = [re.match(r"python\s*=+\s*([\d.]*)", d) for d in CONDA["dependencies"] if isinstance(d, str)]  # fmt: skip
    (version,) = [m[1] for m in found if m]
    assert version in PYTHONS


def test_pip_s_part_needs_nothing_of_the_repository():
    """Otherwise the environment would be made anew at each commit."""
    (lines,) = [d["pip"] for d in CONDA["dependencies"] if isinstance(d, dict)]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\d.]+", line) for line in lines)
    assert "pip" in CONDA["dependencies"]


def test_every_line_of_apt_txt_is_a_package():
    """They are put into a shell command as they are."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "apt.txt").open()]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", line) for line in lines if line)
    assert len(lines) > 5


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
    for name in ("postBuild", "pyproject.toml", "README.md"):
        copy.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy)
    (copy / "lib" / "noisefloor").mkdir(parents=True)
    shutil.copy(ROOT / "lib" / "noisefloor" / "__init__.py", copy / "lib" / "noisefloor")
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_PREFIX": str(place),
        "PIP_IGNORE_INSTALLED": "1",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    for _ in range(2):  # running it twice changes nothing
        ran = subprocess.run(
            ["./postBuild"], cwd=copy, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
    (points,) = place.rglob("__editable__*noisefloor*.pth")
    assert points.read_text().strip() == str(copy / "lib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert next(place.rglob("noisefloor-*.dist-info")).name.startswith(
        f"noisefloor-{project['version']}."
    )


def test_the_way_to_explore_is_written_down():
    said = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    opens = re.findall(r"urlpath=lab/tree/(\S+?\.ipynb)", said)
    assert opens
    assert all((ROOT / name).exists() for name in opens)
