"""Server builds: find one (fetched, on PATH, a folder, conda), or fetch one into ``.engines/``.

Nothing needs root and nothing is installed on the machine: archives are unpacked into a private
folder, and MySQL runs there with the C library of its build.
"""
# ruff: noqa: F401

import contextlib
import functools
import os
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from noisefloor import paths
from noisefloor.servers import kinds
from noisefloor.servers.engines import build, packages
from noisefloor.servers.engines.build import (
    Engine,
    EngineMissing,
    beside,
    brings_libraries,
    first_words,
    label,
    last_words,
    output,
    which,
)
from noisefloor.servers.engines.packages import unpacked


def pins(name: str = "mysql") -> dict[str, Any]:
    """What ``engines.toml`` pins for a build: its version, where it comes from, its sha256; and its
    `kind` and `series`. Raises KeyError for a build that is not pinned."""
    pin = tomllib.loads((Path(__file__).parent / "engines.toml").read_text())[name]
    series = ".".join(pin["version"].split(".")[:2])
    return pin | {"kind": name.partition("-")[0], "series": series}


def find(name: str = "mysql", *, fetch: bool = True) -> Engine:
    """The server build called `name`: ``mysql`` (9.7, or its fall-backs in this order: the newest
    9.7 of the archive, mysqld on PATH, MariaDB), ``mysql-8.0``, ``mariadb`` (the machine's),
    ``mariadb-11.8``, or the path of a build's folder or of its mysqld. With `fetch` a missing build
    is downloaded. Raises EngineMissing, a sentence that says how to get it."""
    if name in FINDERS:
        return FINDERS[name](fetch)
    address = "://" in name  # it may hold a password
    if address or (os.sep not in name and name != "."):
        raise EngineMissing(
            f"no engine is called {'by an address' if address else repr(name)}: it is"
            f" {', '.join(FINDERS)} or the path of a folder that holds a server; nothing was"
            " started"
        )
    return build.in_folder(Path(name).expanduser().resolve())


def _mysql(fetch: bool) -> Engine:
    conda = Path(os.environ.get("CONDA_PREFIX") or "/nonexistent")
    if (conda / "bin" / "mysqld").exists() and not _fetched("mysql"):
        return build.in_folder(conda)
    try:
        return _pinned("mysql", fetch)
    except build.Hangs:
        raise
    except EngineMissing as error:
        why = str(error)
    if (path := which("mysqld")) and (engine := build.in_folder(Path(path))).kind == "mysql":
        engine, where = replace(engine, origin="PATH"), " on PATH"
    else:
        try:
            engine, where = _mariadb(fetch), ""
        except EngineMissing as error:
            raise EngineMissing(f"no server build here: {why}; {error}") from None
    note = f"MySQL {pins()['version']} is not used: {why}; took {label(engine)}{where}"
    return replace(engine, note=note)


def _pinned(name: str, fetch: bool) -> Engine:
    """The build that is pinned as `name`, from ``.engines/`` or, with `fetch`, downloaded."""
    if not _fetched(name):
        if not fetch:
            raise EngineMissing(f"{name} is not fetched yet: noisefloor doctor --fetch {name}")
        with build.building() as folder:
            if not _fetched(name):
                packages.fetch(pins(name), folder)
    return cast(Engine, _fetched(name))


def _fetched(name: str) -> Engine | None:
    """The fetched build of the pinned version, or the one fetched because that was gone."""
    pin = pins(name)
    for prefix in paths.engines().glob(f"{pin['kind']}-{pin['series']}.*"):
        file = prefix / "note.txt"
        note = file.read_text().strip() if file.exists() else ""
        pinned = prefix.name == f"{pin['kind']}-{pin['version']}"
        if pinned or note.startswith(f"{kinds.all_kinds()[pin['kind']].MAKER} {pin['version']} "):
            return replace(build.in_folder(prefix), origin="fetched", note="" if pinned else note)
    return None


def _mariadb(fetch: bool) -> Engine:
    """MariaDB of the machine, with the plugins of the same version where they are not installed:
    the package mariadb-server brings them, and would also start a system-wide server."""
    program = which("mariadbd")
    if not program:
        raise EngineMissing(
            "MariaDB is not here: apt-get install mariadb-server-core mariadb-client-core"
        )
    engine = replace(build.in_folder(Path(program)), origin="PATH")
    if engine.keyring or not which("dpkg-query"):
        return engine
    with contextlib.suppress(EngineMissing):  # a build of another maker, or no archive to ask
        version = build.run("dpkg-query", "-W", "-f", "${Version}", "mariadb-server-core")
        prefix = paths.engines() / f"mariadb-{version.split(':')[-1]}"
        if fetch:
            unpacked(f"mariadb-server={version}", name=prefix.name)
        plugins = prefix / "usr/lib/mysql/plugin"
        if plugins.exists():
            keyring = (plugins / kinds.all_kinds()[engine.kind].KEYRING).exists()
            return replace(engine, plugin_dir=plugins, keyring=keyring)
    return engine


FINDERS: dict[str, Callable[[bool], Engine]] = {
    "mysql": _mysql,
    "mysql-8.0": functools.partial(_pinned, "mysql-8.0"),
    "mariadb": _mariadb,
    "mariadb-11.8": functools.partial(_pinned, "mariadb-11.8"),  # the newer side of an upgrade
}
