"""The two ways to an environment stay one; set-up does nothing twice; nothing names a registry; what
repo2docker, which Binder runs, asks of a repository is there, as far as it can be seen without it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
ENGINES = "lib/noisefloor/servers/engines"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text())
# what pip cannot bring: the interpreter, the server and the tools of the backup pipeline
NOT_PYTHON = {"python", "pip", "mysql-server", "zstd", "openssl", "fio", "jemalloc"}
CONDA_S = {"playwright-python": "playwright", "python-duckdb": "duckdb"}  # other names for the same


def wanted() -> dict[str, Requirement]:
    lines = sum(PROJECT["optional-dependencies"].values(), PROJECT["dependencies"])
    return {r.name.lower(): r for r in map(Requirement, lines)}


def conda() -> dict[str, str]:
    """name -> version prefix (``numpy=2.5`` is 2.5 of conda's)."""
    lines = [d for d in CONDA["dependencies"] if isinstance(d, str)]
    (pip,) = (d["pip"] for d in CONDA["dependencies"] if isinstance(d, dict))
    split = [re.match(r"([a-z0-9_-]+)=?([\d.]*)", d).groups() for d in lines] + [
        d.split("==") for d in pip
    ]
    return {CONDA_S.get(name, name): version for name, version in split}


def pins(python: str) -> dict[str, str]:
    """name -> version that requirements.txt installs on that Python."""
    text = re.sub(r"\\\n\s+--hash=\S+", "", (ROOT / "requirements.txt").read_text())
    lines = [line.strip() for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    here = {"python_full_version": f"{python}.0", "python_version": python}
    found = [Requirement(line.rstrip("\\ ")) for line in lines]
    return {
        r.name: str(r.specifier).removeprefix("==")
        for r in found
        if not r.marker or r.marker.evaluate(here)
    }


def test_conda_has_the_packages_of_pyproject():
    assert set(conda()) - NOT_PYTHON == set(wanted())
    assert set(conda()) >= NOT_PYTHON


@pytest.mark.parametrize("name", sorted(wanted()))
def test_conda_s_version_is_the_one_of_requirements(name):
    pinned, prefix = pins(conda()["python"])[name], conda()[name]
    assert prefix, f"{name} has no version in environment.yml"
    assert f"{pinned}.".startswith(f"{prefix}."), f"conda {prefix}, requirements.txt {pinned}"
    assert wanted()[name].specifier.contains(pinned)


def test_conda_s_python_is_one_that_we_and_binder_support():
    assert SpecifierSet(PROJECT["requires-python"]).contains(conda()["python"])
    assert conda()["python"] in ("3.11", "3.12", "3.13", "3.14")


def test_every_requirement_is_exact_and_hashed():
    text = (ROOT / "requirements.txt").read_text()
    blocks = re.split(r"\n(?=[a-zA-Z0-9])", text.partition("\n\n")[2] or text)
    packages = [b for b in blocks if re.match(r"[a-zA-Z0-9._-]+==", b)]
    assert len(packages) > 50
    assert [b.split()[0] for b in packages if "--hash=sha256:" not in b] == []


@pytest.mark.parametrize(
    "name",
    [
        *("requirements.txt", "environment.yml", "apt.txt", "Makefile", "lib/setup.sh"),
        *(f"{ENGINES}/{file}" for file in ("engines.toml", "__init__.py", "packages.py")),
    ],
)
def test_no_registry_s_address_is_written_down(name):
    text = (ROOT / name).read_text()
    assert re.findall(r"https?://\S+", text) == []
    assert not re.search(r"(?<!--no-emit-)index-url", text)


@pytest.mark.parametrize("name", ["apt.txt", "tests/apt.txt"])
def test_every_package_of_apt_txt_is_installed_here(name):
    """Otherwise set-up would try again at each call."""
    packages = (ROOT / name).read_text().split()
    assert packages == sorted(set(packages))
    asked = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages]
    shown = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    installed = {line.split()[0] for line in shown.splitlines() if line.endswith(" installed")}
    assert installed == set(packages)


def run(*argv, **options) -> str:
    """What a command prints, which has to succeed."""
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_set_up_without_rights_names_the_packages_and_the_command(tmp_path):
    """In a copy with a package that does not exist, without sudo, as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a user without sudo")
    copy = tmp_path / "copy"
    (copy / ENGINES).mkdir(parents=True)
    kept = ("requirements.txt", "pyproject.toml", "lib/setup.sh", f"{ENGINES}/engines.toml")
    for name in kept:
        shutil.copyfile(ROOT / name, copy / name)
    (copy / "apt.txt").write_text("no-such-package-a\nno-such-package-b\n")
    (copy / "bin").mkdir()
    tools = "bash cat dirname dpkg-query flock grep mkdir python3 sha256sum"
    for tool in tools.split():
        (copy / "bin" / tool).symlink_to(shutil.which(tool))
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o777)
    top = Path(tempfile.gettempdir())
    for folder in (tmp_path, *(p for p in tmp_path.parents if top in p.parents)):
        folder.chmod(0o755)  # entered by all, written by their owner alone
    ran = subprocess.run(
        ["bash", str(copy / "lib/setup.sh")], user="nobody", env={"PATH": str(copy / "bin")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr == (
        "set-up: these packages are missing: no-such-package-a no-such-package-b; "
        "as root: apt-get install no-such-package-a no-such-package-b\n"
    )


UBUNTU = {  # its MySQL and the headers are installed; apt, whose lists are old, does not know chromium
    "dpkg-query": 'for name in "${@:4}"; do case $name in mysql-client-core\\*|libmysqlclient-dev) echo installed;; *) code=1;; esac; done; exit ${code-0}',
    "apt-get": 'echo "$*" >>apt.log; [[ $* == *update || -e updated ]] && touch updated',
    "apt-cache": "[[ $2 != chromium ]]",
    "sudo": 'exec "$@"',
}


def test_set_up_leaves_out_what_would_replace_mysql_and_what_apt_does_not_know(tmp_path):
    """On a system like Ubuntu, of which a few commands are stand-ins; it ends before Python's packages."""
    kept = (
        "requirements.txt",
        "pyproject.toml",
        "lib/setup.sh",
        f"{ENGINES}/engines.toml",
        "apt.txt",
    )
    for name in (*kept, "tests/apt.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name, script in UBUNTU.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHON": "false"}
    ran = subprocess.run(
        ["bash", tmp_path / "lib/setup.sh", "tests/apt.txt"], env=os.environ | path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "leaving mariadb- out: it would replace the MySQL that is installed here" in ran.stderr
    assert "leaving libmariadb-dev out: it would replace libmysqlclient-dev" in ran.stderr
    assert "this system has no chromium\n" in ran.stderr
    *_, last = (tmp_path / "apt.log").read_text().splitlines()
    asked = [*map(str, (tmp_path / "apt.txt").read_text().split()), "linux-perf", "xz-utils"]
    left = [p for p in asked if not p.startswith("mariadb-") and p != "libmariadb-dev"]
    assert last.split("--no-remove ")[1].split() == left


def test_help_is_the_first_target_and_names_the_others():
    shown = run("make", cwd=ROOT)
    for target in ("setup", "reports", "test", "slow", "lab", "check", "bench", "clean"):
        assert f"make {target} " in shown


def test_ci_runs_the_tests_from_anywhere(tmp_path):
    printed = run(ROOT / ".ci" / "run", cwd=tmp_path, env=os.environ | {"MAKEFLAGS": "-n"})
    assert "lib/setup.sh" in printed
    assert "-m pytest" in printed


def test_the_package_is_installed_not_found_by_a_path():
    where = run(sys.executable, "-c", "import noisefloor; print(noisefloor.__file__)", cwd="/")
    assert Path(where.strip()) == ROOT / "lib" / "noisefloor" / "__init__.py"


# -- Binder ----------------------------------------------------------------------------------------

# each of these would be chosen before, or instead of, environment.yml
BEFORE = (
    *("binder", ".binder", "Dockerfile", "Project.toml", "JuliaProject.toml", "REQUIRE"),
    *("default.nix", "DESCRIPTION", "runtime.txt"),
)


def test_binder_finds_conda_s_environment():
    """pip's part needs nothing of the repository: otherwise the environment would be made anew at
    each commit."""
    assert [name for name in BEFORE if (ROOT / name).exists()] == []
    held = run("git", "ls-files", "environment.yml", "apt.txt", "postBuild", cwd=ROOT)
    assert len(held.split()) == 3
    (pip,) = [d for d in CONDA["dependencies"] if not isinstance(d, str)]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\d.]+", line) for line in pip["pip"])


def test_post_build_is_a_script_that_git_holds_as_one():
    assert run("git", "ls-files", "--format=%(objectmode)", "postBuild", cwd=ROOT) == "100755\n"
    text = (ROOT / "postBuild").read_text()
    assert text.startswith("#!/bin/bash\n")
    assert "\r" not in text
    assert not re.search(r"\b(sudo|apt|apt-get|conda)\b", text)  # it runs as an ordinary user


@pytest.mark.slow
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
        run("./postBuild", cwd=copy, env=os.environ | own)
    (points,) = place.rglob("__editable__*noisefloor*.pth")
    assert points.read_text().strip() == str(copy / "lib")
    (info,) = place.rglob("noisefloor-*.dist-info")
    assert info.name == f"noisefloor-{PROJECT['version']}.dist-info"


def test_the_way_to_explore_is_written_down():
    opens = re.findall(r"urlpath=lab/tree/(\S+?\.ipynb)", (ROOT / "docs/binder.md").read_text())
    assert opens
    assert all((ROOT / name).exists() for name in opens)
