"""What this machine can measure, what is missing, and the command that adds it.

Nothing is assumed: a right is reported as there when the thing itself was just done and undone.
"""

import contextlib
import mmap
import os
import platform
import re
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from noisefloor import engines, paths

# tool -> (how to ask for its version, Debian package); optional ones serve a part of one study
_TOOLS = {
    "sysbench": ("--version", "sysbench"),
    "openssl": ("version", "openssl"),
    "zstd": ("--version", "zstd"),
    "mariabackup": ("--version", "mariadb-backup"),
    "xtrabackup": ("--version", ""),  # in no Debian archive
    "ssh": ("-V", "openssh-client"),
    "sshd": ("", "openssh-server"),
    "ip": ("-V", "iproute2"),
    "tc": ("-V", "iproute2"),
    "wirefilter": ("", "vde-wirefilter"),
    "mvn": ("", "maven"),
}


@dataclass(frozen=True)
class Part:
    """One thing that a study measures: can it be done here, with what, or what adds it."""

    study: str
    part: str
    can: bool
    why: str
    add: str = ""


def facts(folder: Path | None = None) -> dict:
    """The host as it is recorded with each run: processor, cores, memory (B), AES flag, kernel,
    and the disk under `folder` (default: the project). No host name, user name or path."""
    cpu = _read("/proc/cpuinfo")
    flags = set((re.search(r"^(?:flags|Features)\s*:(.*)$", cpu, re.M) or ["", ""])[1].split())
    model = re.search(r"^model name\s*: (.*)$", cpu, re.M)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.M)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.M)
    return {
        "cpu": model[1].strip() if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_B": int(memory[1]) * 1024 if memory else None,
        "aes": "aes" in flags,
        "virtual": "hypervisor" in flags,
        "kernel": platform.release(),
        "system": system[1] if system else platform.system(),
        "disk": disk(folder or paths.root()),
    }


def disk(folder: Path) -> dict:
    """`kind` (nvme, ssd, hdd, virtual, unknown), `filesystem` and `device` (maj:min) of a folder."""
    number = os.stat(folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not block.exists():  # overlay, tmpfs, btrfs: no single disk to name
        return {"kind": "unknown", "filesystem": _filesystem(folder), "device": None}
    block = block.resolve()
    whole = block.parent if (block / "partition").exists() else block
    name, spins = whole.name, _read(whole / "queue/rotational").strip()
    kind = "nvme" if name.startswith("nvme") else {"0": "ssd", "1": "hdd"}.get(spins, "unknown")
    if name.startswith(("vd", "xvd")):  # what a virtual disk says of itself means nothing
        kind = "virtual"
    device = _read(whole / "dev").strip() or None
    return {"kind": kind, "filesystem": _filesystem(folder), "device": device}


def _read(path: str | Path) -> str:
    """Text of a file that another system may not have: empty then."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _filesystem(folder: Path) -> str:
    mounts = [line.split(" - ") for line in _read("/proc/self/mountinfo").splitlines()]
    inside = [
        (len(left.split()[4]), right.split()[0])
        for left, right in mounts
        if folder.resolve().is_relative_to(left.split()[4])
    ]
    return max(inside)[1] if inside else "unknown"


# Rights ----------------------------------------------------------------------------------------


def rights() -> dict[str, tuple[bool, str]]:
    """Right -> (is it there, with what or why not), each found by doing it and undoing it."""
    root = os.geteuid() == 0
    unshare = ["unshare", "-n"] if root else ["unshare", "-rn"]
    space = _try([*unshare, "true"])
    tc = engines.which("tc")
    if space or not tc:
        netem = "it needs a network namespace" if space else "tc is missing"
    else:
        netem = _try([*unshare, tc, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"])
    wire = "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "/dev/net/tun is not open to us"
    group, reason = _throttling(disk(paths.root())["device"])
    return {
        "network namespaces": (
            not space,
            space or ("as root" if root else "in a user namespace"),
        ),
        "netem": (not netem, netem or "tc netem"),
        "network taps": (not wire, wire or "/dev/net/tun"),
        "throttled disk": (bool(group), group or reason),
    }


def _try(argv: list[str]) -> str:
    """Empty when the command worked, else the reason."""
    try:
        ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv[0]}: {getattr(error, 'strerror', None) or 'no answer within 5 s'}"
    if ran.returncode == 0:
        return ""
    said = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
    return said[0].removeprefix("Error: ").removeprefix("unshare: ").rstrip(".")


def _throttling(device: str | None) -> tuple[str, str]:
    """(which control group can throttle `device`, "") or ("", why not); a group is made, given a
    limit, and removed."""
    if device is None:
        return "", "the project is not on a disk of its own number (overlay, tmpfs, btrfs)"
    first, second = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
    name = f"noisefloor-doctor-{os.getpid()}"
    group = (first if first.is_dir() else second) / name
    try:
        group.mkdir()
        if first.is_dir():
            (group / "blkio.throttle.write_iops_device").write_text(f"{device} 100")
            return "cgroup v1 blkio", ""
        if not (group / "io.max").exists():
            (second / "cgroup.subtree_control").write_text("+io")
        (group / "io.max").write_text(f"{device} wiops=100")
        return "cgroup v2 io.max", ""
    except OSError as error:
        return "", f"control groups: {error.strerror}"
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


# Servers and tools -----------------------------------------------------------------------------


def builds(fetch: str = "") -> dict[str, dict]:
    """Engine name -> what was found: label, version, origin, note and its abilities; or `missing`
    with the sentence that says how to get it. Only the engine named by `fetch` is downloaded."""
    found = {}
    for name in engines.FINDERS:
        try:
            engine = engines.find(name, fetch=name == fetch)
        except engines.EngineMissing as error:
            found[name] = {"missing": str(error)}
            continue
        found[name] = {
            "label": engines.label(engine),
            "kind": engine.kind,
            "version": engine.version,
            "origin": engine.origin,
            "note": engine.note,
            "keyring": engine.keyring,
            "thread pool": engine.thread_pool,
            "clone": engine.clone,
            "TLS": tls(engine),
        }
    return found


def tls(engine: engines.Engine) -> bool:
    """Was the server built with OpenSSL? Read from the program, since it is not running."""
    program = Path(engine.command[-1])
    inner = (
        engine.basedir.parent / engines.REAL / program.resolve().name if engine.basedir else program
    )
    with (inner if inner.exists() else program).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return text.find(b"libssl") >= 0 or text.find(b"OPENSSL_init_ssl") >= 0


def tools() -> dict[str, str | None]:
    """Tool -> its version ("here" when it has no quick way to say), None when it is missing."""
    found = {}
    for name, (option, _) in _TOOLS.items():
        program = engines.which(name)
        text = ""
        if program and option:
            ran = subprocess.run([program, option], capture_output=True, text=True, check=False)
            text = ran.stdout + ran.stderr
        version = re.search(r"\d+\.\d+(?:\.\d+)?\w*", text)
        found[name] = (version[0] if version else "here") if program else None
    return found


# Studies ---------------------------------------------------------------------------------------


def studies(built: dict, had: dict, allowed: dict) -> list[Part]:
    """What each study can measure with these servers, tools and rights."""
    mysql, older, mariadb = (built[n] for n in ("mysql", "mysql-8.0", "mariadb"))

    def needs(study: str, part: str, *conditions: tuple[bool, str, str], using: str = "") -> Part:
        lacking = [(why, add) for ok, why, add in conditions if not ok]
        commands = " && ".join(dict.fromkeys(add for _, add in lacking if add))
        return Part(study, part, not lacking, "; ".join(w for w, _ in lacking) or using, commands)

    def has(*names: str) -> tuple[bool, str, str]:
        lacking = [n for n in names if not had[n]]
        packages = sorted({_TOOLS[n][1] for n in lacking} - {""})
        add = f"{_sudo()}apt-get install {' '.join(packages)}" if packages else ""
        daemon = " (installing it also starts one for the machine)" if "sshd" in lacking else ""
        return not lacking, f"{', '.join(lacking)} missing{daemon}", add

    def server(build: dict, ability: str = "", name: str = "mysql") -> tuple[bool, str, str]:
        fetch = f"noisefloor doctor --fetch {name}"
        if "missing" in build:
            install = f"{_sudo()}apt-get install mariadb-server-core mariadb-client-core"
            return False, f"no {name} server", install if name == "mariadb" else fetch
        if build["kind"] != name.partition("-")[0]:
            return False, f"only {build['label']} is here", fetch
        return not ability or build[ability], f"{build['label']} has no {ability}", fetch

    def may(right: str) -> tuple[bool, str, str]:
        return *allowed[right], ""

    def label(build: dict) -> str:
        return build.get("label", "")

    with_sysbench = has("sysbench")
    keyring = server(mysql, "keyring"), with_sysbench
    maria_keyring = server(mariadb, "keyring", "mariadb"), with_sysbench
    slow, slow_with = may("throttled disk"), allowed["throttled disk"][1]
    netem, taps = allowed["netem"], allowed["network taps"]
    apart = bool(engines.which("apt-get"))  # what can be unpacked from its package on demand
    wire = bool(taps[0] and (had["wirefilter"] or apart))
    delay = (
        netem[0] or wire,
        f"netem: {netem[1]}; wirefilter: {'missing' if taps[0] else taps[1]}",
        has("wirefilter")[2] if taps[0] else "",
    )
    old = server(older, name="mysql-8.0")
    if "missing" in older and not had["mvn"]:
        old = (*old[:2], f"{has('mvn')[2]} && {old[2]}")
    backup, pipe = has("mariabackup"), has("zstd", "openssl")
    tls_here = server(mysql, "TLS"), with_sysbench, has("openssl")
    return [
        needs("binlog-encryption", "MySQL", *keyring, using=label(mysql)),
        needs("binlog-encryption", "MariaDB", *maria_keyring, using=label(mariadb)),
        needs("binlog-encryption", "throttled disk", slow, using=slow_with),
        needs("tablespace-encryption", "MySQL", *keyring, using=label(mysql)),
        needs("tablespace-encryption", "MariaDB", *maria_keyring, using=label(mariadb)),
        needs("tablespace-encryption", "throttled disk", slow, using=slow_with),
        needs(
            "backup-encryption",
            "MariaDB",
            server(mariadb, name="mariadb"),
            backup,
            pipe,
            using=f"mariadb-backup {had['mariabackup']}",
        ),
        needs("backup-encryption", "MySQL", server(mysql, "clone"), pipe, using="clone plugin"),
        needs("ssl-connections", "TLS", *tls_here, using=label(mysql)),
        needs(
            "ssl-connections",
            "SSH tunnel",
            has("ssh") if apart else has("ssh", "sshd"),
            using=f"OpenSSH {had['ssh']}" + ("" if had["sshd"] else ", its server unpacked apart"),
        ),
        needs(
            "ssl-connections",
            "network distance",
            may("network namespaces"),
            has("ip"),
            delay,
            using="netem"
            if netem[0]
            else "wirefilter" + ("" if had["wirefilter"] else ", unpacked apart"),
        ),
        needs(
            "version-upgrade",
            "8.0 against 9.7",
            server(mysql),
            old,
            with_sysbench,
            using=f"{label(older)} and {label(mysql)}",
        ),
        needs("version-upgrade", "thread pool", server(mysql, "thread pool"), using=label(mysql)),
        needs(
            "version-upgrade",
            "MariaDB, one packager",
            server(mariadb, name="mariadb"),
            server(built[engines.LTS], name=engines.LTS),
            with_sysbench,
            using=f"{label(mariadb)} and {label(built[engines.LTS])}",
        ),
        needs("settings", "MySQL", server(mysql), with_sysbench, using=label(mysql)),
    ]


def _sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "


def examine(fetch: str = "") -> dict:
    """All of it: `host`, `engines`, `tools`, `rights` and `studies` (JSON-ready)."""
    built, had, allowed = builds(fetch), tools(), rights()
    return {
        "host": facts(),
        "engines": built,
        "tools": had,
        "rights": {name: {"allowed": ok, "why": why} for name, (ok, why) in allowed.items()},
        "studies": [asdict(part) for part in studies(built, had, allowed)],
    }


def text(found: dict) -> str:
    """`examine()` for a terminal."""
    host = found["host"]
    memory = f"{host['memory_B'] / 2**30:.0f} GiB" if host["memory_B"] else "memory unknown"
    lines = [
        f"machine   {host['cpu']}, {host['cores']} cores, {'with' if host['aes'] else 'without'} "
        f"AES instructions, {memory}, {host['disk']['kind']} disk ({host['disk']['filesystem']}), "
        f"{host['system']}, Linux {host['kernel']}{', virtual' if host['virtual'] else ''}"
    ]
    for n, (name, build) in enumerate(found["engines"].items()):
        abilities = [a for a in ("keyring", "thread pool", "clone", "TLS") if build.get(a)]
        what = (
            build.get("missing") or f"{build['label']} ({build['origin']}): {', '.join(abilities)}"
        )
        lines.append(f"{'' if n else 'engines':10}{name:10}{what}")
        if build.get("note"):
            lines.append(f"{'':20}{build['note']}")
    here = [f"{n} {v}".removesuffix(" here") for n, v in found["tools"].items() if v]
    lines.append(f"tools     {', '.join(here)}")
    for n, (name, right) in enumerate(found["rights"].items()):
        answer = "yes" if right["allowed"] else "no"
        lines.append(f"{'' if n else 'rights':10}{name}: {answer} ({right['why']})")
    shown = ""
    for part in found["studies"]:
        study = "" if part["study"] == shown else part["study"]
        shown = part["study"]
        answer = f"yes, {part['why']}" if part["can"] else f"no: {part['why']}"
        lines.append(f"{study:23}{part['part']:18}{answer}")
    wanted = dict.fromkeys(part["add"] for part in found["studies"] if part["add"])
    lines += ["to add what is missing:", *(f"  {w}" for w in wanted)] if wanted else []
    return "\n".join(lines)
