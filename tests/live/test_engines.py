"""Server builds, on the machine's own apt and the build that set-up fetched."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from noisefloor import paths
from noisefloor.servers import engines
from noisefloor.servers.engines import build, packages
from noisefloor.servers.server import Server

NINE = engines.pins()
FETCHED = paths.engines() / f"mysql-{NINE['version']}"
NO_MIRROR = "is not used: this machine's apt configuration names no Debian mirror; took"


@pytest.fixture
def nothing_fetched(tmp_path, monkeypatch):
    """An empty .engines; returns its folder."""
    monkeypatch.setenv("NOISEFLOOR_ENGINES", str(tmp_path / "engines"))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    return tmp_path / "engines"


@pytest.fixture
def apt_sources(tmp_path, monkeypatch):
    """Makes apt read only the given files: name -> text."""

    def use(**files: str) -> None:
        parts, config = tmp_path / "sources.list.d", tmp_path / "apt.conf"
        parts.mkdir()
        for name, text in files.items():
            (parts / name.replace("_", ".")).write_text(text)
        config.write_text(
            f'Dir::Etc::sourcelist "{tmp_path}/none";\nDir::Etc::sourceparts "{parts}";\n'
        )
        monkeypatch.setenv("APT_CONFIG", str(config))

    return use


def test_mirrors_are_read_from_both_forms_of_apt_sources(apt_sources):
    apt_sources(
        a_list="# deb http://off.test/debian sid main\n"
        "deb [arch=amd64 signed-by=/k.gpg] http://one.test/debian/ bookworm main\n"
        "deb http://one.test/debian-security bookworm-security main\n"
        "deb http://one.test/ubuntu noble main\n"
        "deb-src http://source.test/debian bookworm main\n"
        "deb mirror+file:/etc/mirrors/debian.list bookworm main\n",
        b_sources="Types: deb deb-src\nURIs: https://two.test/debian http://three.test/x/debian/\n"
        "Suites: bookworm\nComponents: main\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://no.test/debian\nSuites: bookworm\nComponents: main\n",
    )
    assert packages.mirrors() == [
        "http://one.test/debian",
        "mirror+file:/etc/mirrors/debian.list",
        "https://two.test/debian",
        "http://three.test/x/debian",
    ]


# -- builds that are here --------------------------------------------------------------------------


def test_the_fetched_build_is_what_the_pin_says():
    engine = engines.find("mysql", fetch=False)
    assert (engine.kind, engine.origin, engine.note) == ("mysql", "fetched", "")
    assert engine.version == NINE["version"].partition("-")[0]
    assert engines.label(engine) == f"MySQL {engine.version}"
    assert engine.keyring
    assert engine.thread_pool
    assert engine.clone
    assert (engine.plugin_dir / "component_keyring_file.so").exists()
    assert engine.version in build.run(engine.basedir / "bin/mysqldump", "--version")


def test_a_started_command_is_the_server_itself(lent, mysql):
    """Its CPU is read from /proc by pid, so no shell may stand between."""
    server = lent(mysql)
    running = Path(f"/proc/{server.pid}/cmdline").read_text()
    assert f"{server.engine.basedir.parent}/real/mysqld" in running
    assert "/bin/sh" not in running
    assert "Can't find error-message file" not in (server.folder / "error.log").read_text()


def test_a_moved_build_still_runs(tmp_path):
    moved = tmp_path / "else where é"
    try:
        shutil.copytree(FETCHED, moved, symlinks=True, copy_function=os.link)
    except shutil.Error:  # another disk
        shutil.rmtree(moved)
        shutil.copytree(FETCHED, moved, symlinks=True)
    assert engines.find(str(moved)).version == engines.find("mysql", fetch=False).version


def test_the_newer_mariadb_runs_with_its_own_c_library(shop):
    """Fetched as MySQL is; its own script makes the data directory."""
    engine = engines.find("mariadb-11.8")
    assert (engine.kind, engine.thread_pool) == ("mariadb", True)
    assert engine.version.startswith("11.8.")
    with Server(engine, shop / "newer").initialise() as server:
        assert server.query("SELECT VERSION() AS v")[0]["v"].startswith(engine.version)
        assert f"{engine.basedir}/lib" in Path(f"/proc/{server.pid}/maps").read_text()
    server.remove()


def test_mariadb_has_its_plugins():
    engine = engines.find("mariadb")
    assert (engine.kind, engine.keyring, engine.thread_pool) == ("mariadb", True, True)
    assert (engine.plugin_dir / "file_key_management.so").exists()
    assert Path(engine.install_db[0]).name in ("mariadb-install-db", "mysql_install_db")


# -- fall-backs ------------------------------------------------------------------------------------


def test_without_a_mirror_it_takes_mysqld_on_path_and_says_so(
    nothing_fetched, apt_sources, tmp_path, monkeypatch
):
    apt_sources(a_list="deb http://one.test/ubuntu noble main\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mysqld").symlink_to(FETCHED / "usr/sbin/mysqld")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    engine = engines.find("mysql")
    assert engine.origin == "PATH"
    found = f"MySQL {engine.version} on PATH"
    assert engine.note == f"MySQL {NINE['version']} {NO_MIRROR} {found}"


def test_without_a_mirror_and_without_mysqld_it_takes_mariadb_and_says_so(
    nothing_fetched, apt_sources
):
    apt_sources(a_list="")
    engine = engines.find("mysql")
    assert engine.kind == "mariadb"
    assert engine.note.endswith(f"took MariaDB {engine.version}")


@pytest.mark.slow
def test_when_the_pinned_version_is_gone_the_newest_of_its_series_is_taken(
    nothing_fetched, monkeypatch
):
    monkeypatch.setattr(engines, "pins", lambda name="mysql": NINE | {"version": "9.7.0-1"})
    engine = engines.find("mysql")
    assert engine.version.startswith("9.7.")
    assert engine.note.startswith("MySQL 9.7.0-1 is no longer on the mirror: took 9.7.")
    assert engines.find("mysql", fetch=False).note == engine.note


def test_doing_nothing_about_it_is_an_answer_too(nothing_fetched):
    assert "noisefloor doctor --fetch" in engines.find("mysql", fetch=False).note
    assert not nothing_fetched.exists()
    for name in ("mysql-8.0", "mariadb-11.8"):
        with pytest.raises(engines.EngineMissing, match=f"doctor --fetch {name}"):
            engines.find(name, fetch=False)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mysql-5", "no engine is called 'mysql-5': it is mysql, mysql-8.0, mariadb, mariadb-11"),
        ("./nowhere", "nowhere holds no bin/mysqld"),
        ("/etc/passwd", "passwd does not start here"),
    ],
)
def test_a_wrong_name_says_what_is_allowed(name, says):
    with pytest.raises(engines.EngineMissing, match=says):
        engines.find(name)


def test_a_server_that_does_not_say_its_version_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "ANSWER_S", 0.2)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mysqld").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bin/mysqld").chmod(0o700)
    with pytest.raises(build.Hangs, match=r"mysqld --version: no answer within 0\.2 s"):
        engines.find(str(tmp_path))


# -- what is fetched -------------------------------------------------------------------------------


def test_a_build_is_whole_or_absent_and_made_once(nothing_fetched):
    (nothing_fetched / ".new-abc" / "usr").mkdir(parents=True)  # of a fetch that was killed

    def half(folder: Path) -> None:
        (folder / "half").touch()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build.once("final", half)
    assert [p.name for p in nothing_fetched.iterdir()] == [".lock"]
    for _ in range(2):  # the second finds it, and would fail at making it
        made = build.once("final", lambda folder: (folder / "whole").mkdir())
    assert [*nothing_fetched.rglob("*/*")] == [made / "whole"]


def test_an_archive_with_another_checksum_is_thrown_away(tmp_path):
    archive, good = tmp_path / "a_1_amd64.deb", hashlib.sha256(b"good").hexdigest()
    archive.write_bytes(b"good")
    packages.verify(archive, good)
    archive.write_bytes(b"evil")
    with pytest.raises(engines.EngineMissing, match="has not the checksum pinned"):
        packages.verify(archive, good)


def test_a_view_of_links_opens_only_the_folders_it_must_write_to(tmp_path):
    real, view = tmp_path / "real", tmp_path / "view"
    for file in ("bin/mysqld", "lib/plugin/p.so", "lib/other.so", "share/english/errmsg.sys"):
        (real / file).parent.mkdir(parents=True, exist_ok=True)
        (real / file).write_text(file)
    build.links(real, view, [Path("bin"), Path("lib/plugin")])
    assert (view / "share").readlink() == real / "share"
    assert (view / "lib/other.so").readlink() == real / "lib/other.so"
    assert not (view / "lib/plugin").is_symlink()
    assert (view / "lib/plugin/p.so").read_text() == "lib/plugin/p.so"


def test_a_machine_address_is_not_passed_on():
    said = "E: http://u:p@inside.test/debian is gone"
    ran = subprocess.CompletedProcess([], 100, "", said)
    assert build.first_words(ran) == "E: the mirror is gone"
