"""A server build in a folder: its abilities, and the files that its keyring component needs."""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.servers import kinds

REAL = "real"  # folder of the programs that wrappers stand for
# in unpacked packages: the loader of the C library, and the folder of all libraries
LOADER, LIBRARIES = "usr/lib*/ld-linux-*.so.*", "usr/lib/*-linux-gnu"
# mysqld looks for these two beside itself before it reads the ones in a data directory
MANIFEST = '{"read_local_manifest": true}\n'
CONFIG = '{"read_local_config": true}\n'
_VERSION = r"Ver (\d+\.\d+\.\d+)"
ANSWER_S = 60  # a program that takes longer to print its version hangs


class EngineMissing(Exception):
    """A server build is missing. A sentence that says how to get it."""


class Hangs(EngineMissing):
    """A build is here and gives no answer. Nothing falls back to another one."""


@dataclass(frozen=True)
class Engine:
    """A server build that can be started. `command` is what to exec: its process is the server."""

    kind: str  # the name of one of `kinds`
    version: str
    command: tuple[str, ...]
    basedir: Path | None = None
    plugin_dir: Path | None = None
    messages_dir: Path | None = None
    install_db: tuple[str, ...] = ()  # empty: mysqld --initialize-insecure
    origin: str = "PATH"  # "fetched", "PATH", "folder" or "conda"
    note: str = ""  # one sentence when this is a fall-back
    keyring: bool = False
    thread_pool: bool = False
    clone: bool = False


def label(engine: Engine) -> str:
    """The name to show: ``MySQL 9.7.4``."""
    return f"{kinds.all_kinds()[engine.kind].MAKER} {engine.version}"


def brings_libraries(engine: Engine) -> bool:
    """Whether a build came with libraries of its own, its C library among them."""
    return (Path(engine.basedir or "/").parent / REAL).is_dir()


def beside(engine: Engine, program: str, *options: str) -> list[str]:
    """argv that starts another program, with the libraries of a build that came with its own."""
    argv = [which(program) or program, *options]
    if not brings_libraries(engine):
        return argv
    prefix = Path(engine.basedir or "/").parent
    loader, libraries = first(prefix, LOADER), first(prefix, LIBRARIES)
    return [str(loader), "--inhibit-cache", "--library-path", str(libraries), *argv]


# -- programs --------------------------------------------------------------------------------------


def which(program: str) -> str | None:
    """Path of a program, also where an ordinary user's PATH does not look: servers are in sbin."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    return shutil.which(program, path=path)


def output(
    *argv: object, timeout: float = 3600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; returns its exit code and what it printed, as text. The exit code
    is 127 if it does not start, and 124 if it takes longer than `timeout` seconds; stderr then
    says why. options: of subprocess.run."""
    command = [str(a) for a in argv]
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": timeout, **options}
    try:
        return subprocess.run(command, check=False, **how)
    except OSError as error:
        why = f"{Path(command[0]).name}: {error.strerror}"
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(
            command, 124, "", f"no answer within {error.timeout:g} s"
        )
    return subprocess.CompletedProcess(command, 127, "", why)


def first_words(ran: subprocess.CompletedProcess[str]) -> str:
    """The first line that a failed program printed, without colours and without addresses, which
    belong to this machine's configuration; its exit code where it printed nothing."""
    lines = [line for line in f"{ran.stderr}\n{ran.stdout}".splitlines() if line.strip()]
    line = (lines or [f"exit code {ran.returncode}"])[0]
    return re.sub(r"\x1b\[\d*m", "", re.sub(r"\S+://\S+", "the mirror", line))[:300]


def last_words(ran: subprocess.CompletedProcess[str]) -> str:
    """The last line that a failed program wrote to stderr, or its exit code."""
    return (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]


def run(*argv: object, **options: Any) -> str:
    """What a program printed. Raises EngineMissing with `first_words` of one that fails."""
    ran = output(*argv, **options)
    if ran.returncode:
        raise EngineMissing(f"{argv[0]} failed ({first_words(ran)})")
    return ran.stdout


@functools.cache
def version(server: Path) -> str:
    """What ``mysqld --version`` prints. Raises EngineMissing if it does not run here, or Hangs."""
    ran = output(server, "--version", timeout=ANSWER_S)
    if ran.returncode == 124:
        raise Hangs(f"{server.name} --version: {ran.stderr}")
    if ran.returncode or not re.search(_VERSION, ran.stdout):
        raise EngineMissing(f"{server.name} does not start here ({last_words(ran)})")
    return ran.stdout


def say(text: str) -> None:
    """Print a line about what is fetched, to stderr."""
    print(f"noisefloor: {text}", file=sys.stderr, flush=True)


# -- folders ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def building() -> Iterator[Path]:
    """An empty folder in ``.engines/``, removed at the end unless it was renamed. Only one process
    at a time has one, others wait. What a killed process left is removed first."""
    home = paths.engines()
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in home.glob(".new-*"):
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=home) as place:
            (folder := Path(place) / "build").mkdir()
            yield folder


def once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name` in ``.engines/``; if it is missing, `make` fills it, all or nothing."""
    final = paths.engines() / name
    if not final.exists():
        with building() as folder:
            if not final.exists():
                make(folder)
                folder.rename(final)
    return final


def first(base: Path, *patterns: str, holding: str = "") -> Path | None:
    """The first path below `base` that matches a pattern and contains `holding`, or None."""
    return next((p for g in patterns for p in sorted(base.glob(g)) if (p / holding).exists()), None)


def in_folder(path: Path) -> Engine:
    """The build at `path`: a folder that holds ``bin/mysqld`` (or sbin, usr/sbin), or a mysqld.

    Raises EngineMissing."""
    if path == path.parent:
        raise EngineMissing(
            f"{path} is this whole machine and no server build; nothing was started"
        )
    names = [f"{d}/{s}" for d in ("bin", "sbin", "usr/sbin") for s in ("mysqld", "mariadbd")]
    server = path if path.is_file() else first(path, *names)
    if server is None:
        raise EngineMissing(
            f"{path.name} holds no bin/mysqld: name the folder of a server build or its mysqld"
        )
    printed = version(server)
    kind = kinds.printing(printed)
    base = server.parent.parent
    if (base / "usr/lib/mysql/plugin").is_dir():  # packages unpacked into a folder
        base = base / "usr"
    plugins = first(base, "lib/mysql/plugin", "lib64/mysql/plugin", "lib/plugin", "lib/*/plugin")
    places = (server.parent, base / "bin", base / "scripts")
    scripts = [str(d / n) for d in places for n in kind.INSTALL if (d / n).exists()]

    def has(plugin: str) -> bool:
        return plugins is not None and (plugins / plugin).exists()

    engine = Engine(
        kind=kind.NAME,
        version=re.findall(_VERSION, printed)[0],
        command=(str(server),),
        basedir=base,
        plugin_dir=plugins,
        messages_dir=first(base, "share/mysql", "share", "share/*", holding="english/errmsg.sys"),
        install_db=tuple(scripts[:1]),
        origin="conda" if (base / "conda-meta").is_dir() else "folder",
        keyring=has(kind.KEYRING),
        thread_pool=not kind.POOL or has(kind.POOL),
        clone=has("mysql_clone.so"),
    )
    unpacked = base.parent / REAL / "mysqld.my"
    if kind.NAME == "mariadb" or not (plugins and engine.keyring) or unpacked.exists():
        return engine
    if server.resolve().with_name("mysqld.my").exists():
        return engine
    return _view(engine, base, server.relative_to(base), plugins.relative_to(base))


def _view(engine: Engine, base: Path, program: Path, plugins: Path) -> Engine:
    """The same build behind a folder of links that holds the two files a keyring needs beside the
    server and its plugins: somebody else's build is never written to."""
    real = (base / program).resolve()
    key = hashlib.sha256(f"{real} {real.stat().st_mtime_ns}".encode()).hexdigest()[:12]

    def make(folder: Path) -> None:
        links(base, folder, [program.parent, plugins])
        for file, content in (
            (program, real.read_bytes()),  # a copy: mysqld looks beside its real file, not a link
            (program.parent / "mysqld.my", MANIFEST.encode()),
            (plugins / "component_keyring_file.cnf", CONFIG.encode()),
        ):
            (folder / file).unlink(missing_ok=True)
            (folder / file).write_bytes(content)
        (folder / program).chmod(0o755)

    view = once(f"view-{key}", make)
    return replace(engine, command=(str(view / program),), plugin_dir=view / plugins)


def links(real: Path, view: Path, opened: list[Path]) -> None:
    """Link all that is in `real` into `view`; `opened` and the folders above them are real ones."""
    folders = {p for folder in opened for p in (folder, *folder.parents)}
    for folder in sorted(folders):
        (view / folder).mkdir(exist_ok=True)
        for entry in (real / folder).iterdir():
            if folder / entry.name not in folders:
                (view / folder / entry.name).symlink_to(entry)
