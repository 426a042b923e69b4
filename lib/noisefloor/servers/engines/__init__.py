"""Server builds: find one (fetched, on PATH, a folder, conda), or fetch one into ``.engines/``.

Nothing here needs root and nothing is installed on the machine: archives are unpacked into a
private folder, and MySQL runs there with the C library that it was built for.
"""

import contextlib
import functools
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

from noisefloor import paths
from noisefloor.servers.engines import build
from noisefloor.servers.engines.build import Engine, EngineMissing, label, which
from noisefloor.servers.engines.packages import fetch as fetch_packages
from noisefloor.servers.engines.packages import out_of_maven, unpacked

__all__ = [
    "FINDERS", "Engine", "EngineMissing", "find", "first_words", "label", "last_words", "output",
    "pins", "unpacked", "which",
]  # fmt: skip
first_words, last_words, output = build.first_words, build.last_words, build.output

LTS = "mariadb-11.8"


def pins(name: str = "mysql") -> dict:
    """What ``engines.toml`` pins for an engine: its version, where it is from, its sha256."""
    return tomllib.loads((Path(__file__).parent / "engines.toml").read_text())[name]


def find(name: str = "mysql", *, fetch: bool = True) -> Engine:
    """The server build called `name`: ``mysql`` (9.7, or its fall-backs in this order: the newest
    9.7 of the archive, mysqld on PATH, MariaDB), ``mysql-8.0``, ``mariadb`` (the machine's),
    ``mariadb-11.8``, or the path of a build's folder or of its mysqld. With `fetch` a missing build
    is downloaded.

    Raises EngineMissing, one sentence with the way to get it."""
    if "://" in name:  # it may hold a password
        raise EngineMissing(
            f"an engine is {', '.join(FINDERS)} or the path of a folder that holds a server, and no"
            " address; nothing was started"
        )
    if name in FINDERS:
        return FINDERS[name](fetch)
    if os.sep not in name and name != ".":
        raise EngineMissing(
            f"no engine is called {name!r}: it is {', '.join(FINDERS)} or the path of a folder that"
            " holds a server; nothing was started"
        )
    return build.in_folder(Path(name).expanduser().resolve())


def _mysql(fetch: bool) -> Engine:
    if found := _fetched("mysql"):
        return found
    conda = Path(os.environ.get("CONDA_PREFIX") or "/nonexistent")
    if (conda / "bin" / "mysqld").exists():
        return build.in_folder(conda)
    why = "it is not fetched yet (noisefloor doctor --fetch)"
    if fetch:
        try:
            return _fetch("mysql")
        except EngineMissing as error:
            why = str(error)
    if prefixes := _prefixes("mysql"):
        engine, where = replace(build.in_folder(prefixes[0]), origin="fetched"), " fetched earlier"
    elif (path := which("mysqld")) and (engine := build.in_folder(Path(path))).kind == "mysql":
        engine, where = replace(engine, origin="PATH"), " on PATH"
    else:
        try:
            engine, where = _mariadb(fetch), ""
        except EngineMissing as error:
            raise EngineMissing(f"no server build here: {why}; {error}") from None
    note = f"MySQL {pins()['version']} is not used: {why}; took {label(engine)}{where}"
    return replace(engine, note=note)


def _only_fetched(name: str, fetch: bool) -> Engine:
    """A build that no package of this machine brings."""
    if found := _fetched(name):
        return found
    if not fetch:
        raise EngineMissing(f"{name} is not fetched yet: noisefloor doctor --fetch {name}")
    return _fetch(name)


def _prefixes(name: str) -> list[Path]:
    """Folders of the fetched builds of a pinned series, the highest version first."""
    pin = pins(name)
    found = [
        p.parent for p in paths.engines().glob(f"{pin['kind']}-{pin['series']}.*/{build.REAL}")
    ]
    return sorted(found, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)], reverse=True)


def _fetched(name: str) -> Engine | None:
    """The fetched build of the pinned version, or the one that was taken because it was gone."""
    pin = pins(name)
    for prefix in _prefixes(name):
        note = prefix / "note.txt"
        said = note.read_text().strip() if note.exists() else ""
        pinned = prefix.name == f"{pin['kind']}-{pin['version']}"
        if pinned or said.startswith(f"{build.MAKERS[pin['kind']]} {pin['version']} "):
            return replace(build.in_folder(prefix), origin="fetched", note="" if pinned else said)
    return None


def _fetch(name: str) -> Engine:
    with build.lock():
        if not _fetched(name):
            fetch_packages(pins(name))
        return _fetched(name)


def _mysql80(fetch: bool) -> Engine:
    """For the older side of the upgrade study."""
    pin = pins("mysql-8.0")
    prefix = paths.engines() / f"mysql-{pin['version']}"
    if not (fetch or (prefix / "bin" / "mysqld").exists()):
        raise EngineMissing("MySQL 8.0 is not fetched yet: noisefloor doctor --fetch mysql-8.0")
    build.once(prefix, functools.partial(out_of_maven, pin))
    return replace(build.in_folder(prefix), origin="fetched")


def _mariadb(fetch: bool) -> Engine:
    """MariaDB of the machine, with the plugins of the same version where they are not installed:
    the package mariadb-server brings them, and would also start a system-wide server."""
    found = which("mariadbd")
    if not found:
        raise EngineMissing(
            "MariaDB is not here: apt-get install mariadb-server-core mariadb-client-core"
        )
    engine = replace(build.in_folder(Path(found)), origin="PATH")
    if engine.keyring or not which("dpkg-query"):
        return engine
    with contextlib.suppress(EngineMissing):  # a build of another maker, or no archive to ask
        version = build.run("dpkg-query", "-W", "-f", "${Version}", "mariadb-server-core")
        prefix = paths.engines() / f"mariadb-{version.split(':')[-1]}"
        if fetch:
            unpacked(f"mariadb-server={version}", name=prefix.name)
        plugins = prefix / "usr/lib/mysql/plugin"
        if plugins.exists():
            keyring = (plugins / "file_key_management.so").exists()
            return replace(engine, plugin_dir=plugins, keyring=keyring)
    return engine


FINDERS = {
    "mysql": _mysql,
    "mysql-8.0": _mysql80,
    "mariadb": _mariadb,
    LTS: functools.partial(_only_fetched, LTS),  # the newer side of an upgrade
}
