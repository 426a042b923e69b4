"""The wheel, in an environment that holds it and what it declares to need: nothing else, and no
network. And what a release says of its version."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import DATA
from noisefloor.cli import main

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BEFORE, AFTER = (sorted((DATA / "compare").glob(f"00-*{arm}.txt")) for arm in "AB")
OUTSIDE = {k: v for k, v in os.environ.items() if not k.startswith(("NOISEFLOOR", "PYTHON", "PIP"))}
OUTSIDE |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
PIP = (sys.executable, "-m", "pip")


def ran(*argv, cwd: Path, code: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(argv, cwd=cwd, env=OUTSIDE, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def needed(*extras: str) -> set[str]:
    """The packages that are installed with ours: those of pyproject.toml, with these of its extras,
    and theirs."""
    lines = [PROJECT["optional-dependencies"][extra] for extra in extras]
    seen, left = set(), fitting([*PROJECT["dependencies"], *itertools.chain(*lines)])
    while left:
        asked = left.pop()
        new = {(canonicalize_name(asked.name), extra) for extra in ("", *asked.extras)} - seen
        seen |= new
        for name, extra in new:
            left += fitting(metadata.requires(name) or [], extra)
    return {name for name, _ in seen}


def fitting(lines: Iterable[str], extra: str = "") -> list[Requirement]:
    """The requirements that hold here, with one extra of the package whose they are."""
    each = map(Requirement, lines)
    return [r for r in each if not r.marker or r.marker.evaluate({"extra": extra})]


def link(name: str, site: Path) -> None:
    """Make a package of this environment one of another, too."""
    parts = {Path(file).parts[0] for file in metadata.files(name) or ()}
    for part in parts - {"..", "__pycache__"}:
        (site / part).symlink_to(metadata.distribution(name).locate_file(part))


def copied(place: Path) -> Path:
    """The folder `place` with what a wheel is built of: building writes into the folder itself."""
    leave = shutil.ignore_patterns("__pycache__", "*.partial")
    shutil.copytree(ROOT / "lib" / "noisefloor", place / "lib" / "noisefloor", ignore=leave)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    return place


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built of a copy as `pipx install .` builds it."""
    copy, place = copied(tmp_path_factory.mktemp("copy")), tmp_path_factory.mktemp("wheel")
    ran(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place, copy, cwd=place)
    (built,) = place.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an empty environment into which the wheel was installed."""
    place = tmp_path_factory.mktemp("environment")
    ran(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    (site,) = place.glob("lib/python*/site-packages")
    ran(*PIP, "--python", place, "install", "--no-deps", wheel, cwd=place)
    for name in needed():
        link(name, site)
    return place / "bin" / "python"


@pytest.fixture
def command(python, tmp_path):
    """command(*words, code) -> what the installed command did, in an empty folder."""

    def run(*words, code=0):
        return ran(python.with_name("noisefloor"), *map(str, words), cwd=tmp_path, code=code)

    return run


def test_the_wheel_holds_the_library_and_its_licence(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    files = (f for f in (ROOT / "lib" / "noisefloor").rglob("*") if f.is_file())
    files = (f for f in files if f.parent.name != "__pycache__" and f.suffix != ".partial")
    ours = {f.relative_to(ROOT / "lib").as_posix() for f in files}
    info = f"noisefloor-{PROJECT['version']}.dist-info"
    assert {name for name in names if not name.startswith(info)} == ours
    assert any(name.startswith(info) and name.endswith("LICENSE") for name in names)


def test_the_environment_holds_what_is_declared_and_nothing_else(python, tmp_path):
    ran(*PIP, "--python", python, "check", cwd=tmp_path)
    listed = json.loads(
        ran(*PIP, "--python", python, "list", "--format", "json", cwd=tmp_path).stdout
    )
    assert {canonicalize_name(each["name"]) for each in listed} == {"noisefloor", *needed()}


HELP = """
from click.testing import CliRunner
from noisefloor.cli import main
for name in main.commands:
    print(name, "\\nExamples:\\n" in CliRunner().invoke(main, [name, "--help"]).output)
"""


def test_each_command_has_its_help_there(python, tmp_path):
    lines = ran(python, "-c", HELP, cwd=tmp_path).stdout.splitlines()
    assert lines == [f"{name} True" for name in main.commands]


def test_the_command_says_its_version(command):
    assert command("--version").stdout.split()[-1] == PROJECT["version"]


def test_two_numbers_are_judged_there(command):
    assert command("judge", "221.19", "229.41").stdout.startswith("CANNOT TELL: 229.41 TPS ")
    assert command("judge", "1000", "100", "--fail-on", "worse", code=3).stdout.startswith("SLOWER")


def test_logs_are_compared_there(command):
    printed = json.loads(command("compare", "--json", *BEFORE, "--", *AFTER).stdout)
    assert [row["metric"] for row in printed["comparisons"]] == [
        "tps",
        "mean_latency",
        "p95",
        "p99",
    ]


def test_a_tree_of_logs_is_ingested_and_judged_there(command, tmp_path):
    (tmp_path / "labels.txt").write_text("-(?P<server>[AB])[.]txt\n")
    command("ingest", DATA / "compare", "--out", "tables", "--labels", "labels.txt")
    printed = json.loads(command("compare", "--from", "tables", "--baseline", "server=A", "--json").stdout)  # fmt: skip
    assert {(row["baseline"], row["arm"]) for row in printed["comparisons"]} == {("A", "B")}
    assert printed["comparisons"][0]["n_arm"] == len(AFTER)


def test_two_commands_are_timed_there(command):
    printed = command("time", "sleep 0.01", "sleep 0.05", "--seconds", "1", "--json").stdout
    rows = {row["metric"]: row for row in json.loads(printed)["comparisons"]}
    assert rows["wall"]["change_pct"] > 50


def test_what_needs_more_is_refused_in_a_sentence_there(command):
    said = command("report", "--profile", "recorded", code=1)
    assert "pip install 'noisefloor[lab]'" in said.stderr
    assert (said.stdout, said.stderr.count("\n")) == ("", 1)


def test_the_changelog_and_the_citation_name_the_version():
    newest = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert newest[1] == cited["version"] == PROJECT["version"]
    assert newest[2] == str(cited.get("date-released", "unreleased"))
