"""What this machine can measure, what is missing, and the command that adds it.

Nothing is assumed: a right is reported only after it was used and the use undone.
"""

import os
import platform
import re
import tomllib
from pathlib import Path
from typing import Any

from noisefloor import paths
from noisefloor.servers import engines, kinds
from noisefloor.servers.sandbox import ServerError
from noisefloor.servers.throttle import Throttle, block_device

_Builds = dict[str, dict[str, Any]]  # engine -> what it is, or `missing`
_Tools = dict[str, str | None]  # tool -> its version, or None
_Rights = dict[str, tuple[bool, str]]  # right -> whether it is there, and why
_KNOWN = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
_TOOLS, _PARTS = _KNOWN["tools"], _KNOWN["parts"]
_CPUS = Path("/sys/devices/system/cpu")


# -- the host --------------------------------------------------------------------------------------


def host_facts() -> dict[str, Any]:
    """The host as it is recorded with each campaign: processor (its name, `processor_facts`, flags
    and `cpu_settings`), cores, memory (B), whether virtual, kernel, boot id ("" if there is none),
    system, and the disk under the project. No host name, user name or path."""
    cpu = _read("/proc/cpuinfo")
    flags = set((re.search(r"^(?:flags|Features)\s*:(.*)$", cpu, re.M) or ["", ""])[1].split())
    model = re.search(r"^model name\s*: (.*)$", cpu, re.M)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _read("/proc/meminfo"), re.M)
    system = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.M)
    return {
        "cpu": model[1].strip() if model else platform.processor() or platform.machine(),
        "processor": processor_facts(cpu),
        "cpu_settings": cpu_settings(_CPUS),
        "cores": len(os.sched_getaffinity(0)),
        "memory_B": int(memory[1]) * 1024 if memory else None,
        "aes": "aes" in flags,
        "flags": sorted(flags & {*_KNOWN["instructions"]}),
        "virtual": "hypervisor" in flags,
        "kernel": platform.release(),
        "boot": _read("/proc/sys/kernel/random/boot_id").strip(),
        "system": system[1] if system else platform.system(),
        "disk": _disk(paths.root()),
    }


def processor_facts(cpuinfo: str) -> dict[str, str | int]:
    """`vendor`, `family`, `model` and `stepping` by the text of /proc/cpuinfo, as far as they are
    there; of an ARM processor its implementer, part and variant. Empty where it names no model."""
    lines = re.findall(r"^([\w ]+?)[ \t]*:[ \t]*(\S.*?)[ \t]*$", cpuinfo, re.M)
    first: dict[str, str] = dict(reversed(lines))  # of the first core
    ids: dict[str, str | int] = {}
    for key, names in _KNOWN["processor"].items():
        value = next((first[n] for n in names if n in first), "")
        if key == "vendor" and value:
            ids[key] = value
        elif re.fullmatch(r"\d+|0x[0-9a-f]+", value):  # Linux may say "unknown"
            ids[key] = int(value, 16 if "x" in value else 10)
    return ids if {"vendor", "model"} <= set(ids) else {}


def cpu_settings(folder: Path) -> dict[str, str]:
    """The frequency `governor`, `boost` and `SMT` ("on", "off"), as far as they are in the `folder`
    of Linux's processors: a virtual machine has few of these files, or none."""
    settings: dict[str, str] = {}
    for name, files, words in _KNOWN["settings"]:
        values = {_read(file).strip() for file in folder.glob(files)} - {""}
        settings |= {name: " and ".join(sorted(words.get(v, v) for v in values))} if values else {}
    return settings


def _disk(folder: Path) -> dict[str, str | None]:
    """`kind` (nvme, ssd, hdd, virtual, unknown), `filesystem`, `device` (maj:min) of a folder."""
    mounts = [line.split(" - ") for line in _read("/proc/self/mountinfo").splitlines()]
    inside = [
        (len(left.split()[4]), right.split()[0])
        for left, right in mounts
        if folder.resolve().is_relative_to(left.split()[4])
    ]
    filesystem = max(inside)[1] if inside else "unknown"
    if (whole := block_device(folder)) is None:
        return {"kind": "unknown", "filesystem": filesystem, "device": None}
    kind = {"0": "ssd", "1": "hdd"}.get(_read(whole / "queue/rotational").strip(), "unknown")
    if whole.name.startswith(("vd", "xvd", "nvme")):  # a virtual disk says nothing of itself
        kind = "nvme" if whole.name.startswith("nvme") else "virtual"
    return {"kind": kind, "filesystem": filesystem, "device": _read(whole / "dev").strip() or None}


def _read(path: str | Path) -> str:
    """Text of a file that another system may not have: empty then."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


# -- rights, builds and tools ----------------------------------------------------------------------


def rights() -> _Rights:
    """Right -> (whether it is there, with what or why not). Each is tried out and undone."""
    root = os.geteuid() == 0
    unshare, tc = ["unshare", "-n" if root else "-rn"], engines.which("tc")
    space = _try(*unshare, "true")
    delay = ("qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    netem = "it needs a network namespace" if space else "tc is missing"
    netem = netem if space or not tc else _try(*unshare, tc, *delay)
    tun = "/dev/net/tun"
    taps = "" if os.access(tun, os.R_OK | os.W_OK) else f"{tun} is not open to us"
    slow = group = ""
    try:
        limit = Throttle(paths.root())
        limit.remove()
        group = "cgroup v1 blkio" if limit.v1 else "cgroup v2 io.max"
    except ServerError as error:
        slow = str(error)
    tried = {  # what is in the way, what is there
        "network namespaces": (space, "as root" if root else "in a user namespace"),
        "netem": (netem, "tc netem"),
        "network taps": (taps, tun),
        "throttled disk": (slow, group),
    }
    return {name: (not wrong, wrong or right) for name, (wrong, right) in tried.items()}


def _try(*argv: str) -> str:
    """Empty when the command worked, else the reason."""
    ran = engines.output(*argv, timeout=5)
    reason = engines.first_words(ran).removeprefix("Error: ").removeprefix("unshare: ")
    return reason.rstrip(".") if ran.returncode else ""


def _builds(fetch: str) -> _Builds:
    """Engine name -> its label, version, origin, note and abilities; or `missing` with the sentence
    that says how to get it. Only the engine named by `fetch` is downloaded."""
    builds: _Builds = {}
    names = ("kind", "version", "origin", "note", "keyring", "thread_pool", "clone")
    for name in engines.FINDERS:
        try:
            engine = engines.find(name, fetch=name == fetch)
        except engines.EngineMissing as error:
            builds[name] = {"missing": str(error)}
            continue
        fields = {k.replace("_", " "): getattr(engine, k) for k in names}
        builds[name] = {"label": engines.label(engine), **fields}
    return builds


def tools() -> _Tools:
    """Tool -> its version ("here" if it does not print one quickly), None if it is missing."""
    versions: _Tools = {}
    for name, (option, _) in _TOOLS.items():
        program = engines.which(name)
        ran = engines.output(program, option, timeout=60) if program and option else None
        version = re.search(r"\d+\.\d+(?:\.\d+)?\w*", ran.stdout + ran.stderr) if ran else None
        versions[name] = (version[0] if version else "here") if program else None
    return versions


# -- studies ---------------------------------------------------------------------------------------


def studies(built: _Builds, had: _Tools, allowed: _Rights) -> list[dict[str, Any]]:
    """What each study can measure with these servers, tools and rights: `study`, `part`, `can`,
    `why` (with what, or why not) and `add` (the command that adds it)."""
    apart = {n for n in ("sshd", "wirefilter") if not had[n] and engines.which("apt-get")}
    (netem, why), (taps, why_not) = allowed["netem"], allowed["network taps"]
    wired = taps and bool(had["wirefilter"] or "wirefilter" in apart)
    delay = "netem" if netem else "wirefilter" + ", unpacked apart" * ("wirefilter" in apart)
    if not (netem or wired):
        delay = f"netem: {why}; wirefilter: {'missing' if taps else why_not}"
    allowed = allowed | {"delay": (netem or wired, delay)}
    known = {n: b.get("label", "") for n, b in built.items()}
    known |= {n: how for n, (_, how) in allowed.items()}
    known["OpenSSH"] = f"OpenSSH {had['ssh']}{', its server unpacked apart' * ('sshd' in apart)}"
    known["mariadb-backup"] = f"mariadb-backup {had['mariabackup']}"
    parts: list[dict[str, Any]] = []
    for study, (part, needs, using) in ((s, p) for s, of in _PARTS.items() for p in of):
        needs = needs.split(", ")
        servers = [n.split("+") for n in needs if n.split("+")[0] in built]
        lacking = [both for both in (_lacks(built, had, *server) for server in servers) if both]
        lacking += [(allowed[n][1], "") for n in needs if not allowed.get(n, (True,))[0]]
        if programs := [n for n in needs if n in had and not had[n] and n not in apart]:
            daemon = " (installing it also starts one for the machine)" * ("sshd" in programs)
            packages = sorted({_TOOLS[n][1] for n in programs} - {""})
            lacking.append((f"{', '.join(programs)} missing{daemon}", _install(*packages)))
        add = " && ".join(dict.fromkeys(command for _, command in lacking if command))
        why = "; ".join(w for w, _ in lacking)
        why = why or " and ".join(known.get(n, n) for n in using.split(", "))
        parts.append(dict(study=study, part=part, can=not lacking, why=why, add=add))
    return parts


def _lacks(built: _Builds, had: _Tools, name: str, ability: str = "") -> tuple[str, str] | None:
    """What a server lacks, and the command that adds it; None if it lacks nothing."""
    build = built[name]
    fetch = f"noisefloor doctor --fetch {name}"
    if "missing" in build:
        if name in kinds.all_kinds() and (
            packages := kinds.all_kinds()[name].PACKAGES
        ):  # the machine's own
            fetch = _install(*packages)
        elif "artifact" in engines.pins(name) and not had["mvn"]:
            fetch = f"{_install('maven')} && {fetch}"
        return f"no {name} server", fetch
    if build["kind"] != name.partition("-")[0]:
        return f"only {build['label']} is here", fetch
    if ability and not build[ability]:
        return f"{build['label']} has no {ability}", fetch
    return None


def _install(*packages: str) -> str:
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {' '.join(packages)}" if packages else ""


def examine(fetch: str = "") -> dict[str, Any]:
    """All of it: `host`, `engines`, `tools`, `rights` and `studies` (JSON-ready)."""
    built, had, allowed = _builds(fetch), tools(), rights()
    return {
        "host": host_facts(),
        "engines": built,
        "tools": had,
        "rights": {name: {"allowed": ok, "why": why} for name, (ok, why) in allowed.items()},
        "studies": studies(built, had, allowed),
    }


def text(examined: dict[str, Any]) -> str:
    """What `examine` returns, for a terminal."""
    host = examined["host"]
    memory = f"{host['memory_B'] / 2**30:.0f} GiB" if host["memory_B"] else "memory unknown"
    machine = (
        f"{host['cpu']}, {host['cores']} cores, {'with' if host['aes'] else 'without'} AES"
        f" instructions, {memory}, {host['disk']['kind']} disk ({host['disk']['filesystem']}),"
        f" {host['system']}, Linux {host['kernel']}{', virtual' if host['virtual'] else ''}"
    )
    settings = ", ".join(f"{name} {value}" for name, value in host["cpu_settings"].items())
    rows = [("machine   ", line) for line in (machine, settings and f"CPU: {settings}") if line]
    for name, build in examined["engines"].items():
        abilities = ", ".join(a for a in ("keyring", "thread pool", "clone") if build.get(a))
        what = build.get("missing") or f"{build['label']} ({build['origin']})"
        what += f": {abilities}" if abilities else ""
        rows.append(("engines   ", f"{name:13}{what}"))
        if note := build.get("note"):
            rows.append(("engines   ", f"{'':13}{note}"))
    here = [f"{n} {v}".removesuffix(" here") for n, v in examined["tools"].items() if v]
    rows.append(("tools     ", ", ".join(here)))
    for name, right in examined["rights"].items():
        answer = "yes" if right["allowed"] else "no"
        rows.append(("rights    ", f"{name}: {answer} ({right['why']})"))
    for part in examined["studies"]:
        answer = f"{'yes,' if part['can'] else 'no:'} {part['why']}"
        rows.append((f"{part['study']:23}", f"{part['part']:23}{answer}"))
    heads = ["", *(head for head, _ in rows)]  # each is shown once
    lines = [
        f"{' ' * len(head) if head == before else head}{line}"
        for (head, line), before in zip(rows, heads, strict=False)
    ]
    wanted = dict.fromkeys(part["add"] for part in examined["studies"] if part["add"])
    lines += ["to add what is missing:", *(f"  {w}" for w in wanted)] if wanted else []
    return "\n".join(lines)
