"""Backups through a pipe of processes: made, restored, proved; what each process did meanwhile.

`Kit` is what a campaign keeps between its runs; `backup`, `restore`, `beside` and `speed` are the
measuring tools.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from noisefloor.measure import child, tools, workloads
from noisefloor.measure.child import ToolError, run
from noisefloor.measure.loading import checksums
from noisefloor.measure.tools import NotHere, Slice, steal
from noisefloor.measure.workloads import Stage
from noisefloor.model import AGAIN, Arm, Study, Workload
from noisefloor.servers import engines
from noisefloor.servers.evidence import agree, check
from noisefloor.servers.server import Server, ServerError
from noisefloor.servers.workshop import clock, ctrl_c, die_with_parent, secret_file

ALIASES = {"sm4": "sm4-cbc"}  # one cipher under two names
SAMPLE_S = 0.02  # between looks at what the processes of a pipe are doing
SELDOM_S = 0.2  # the same beside a load, which a look takes time from
COMPRESSING = 2  # threads of zstd beside a load
_FIRST_BYTES = {b"Salted__": "encrypted", b"\x28\xb5\x2f\xfd": "plain"}  # openssl's, zstd's
_WAITS = {"pipe_read": "waits for input", "pipe_write": "waits for output"}


class Kit(tools.Kit):
    """Archives, passphrase and extra servers of a campaign."""

    def __init__(self, bench, study: Study):
        super().__init__(bench, study)
        self.folder = bench.folder / "backups"
        self.folder.mkdir(mode=0o700)
        self.password = secret_file(self.folder / "passphrase", secrets.token_hex(16) + "\n")
        self.archives: dict[str, Path] = {}
        self.proved: set[str] = set()  # digests of unpacked trees that were started
        self.own: dict[str, Server] = {}
        self.count = 0

    def dress(self, server: Server) -> None:
        """A fresh server needs nothing more than a program that copies it. Raises ServerError."""
        if server.engine.kind == "mysql" and copier(server) == "tar" and not server.engine.clone:
            raise ServerError("this build of MySQL has no clone plugin, and xtrabackup is missing")
        if not engines.which(copier(server)):
            raise ServerError(f"{copier(server)} is missing (package mariadb-backup)")

    def ready(self, arm: Arm, workload: Workload) -> None:
        """Make sure that its programs and its cipher are on this machine. Raises NotHere."""
        if "cipher" not in arm.how:  # no backup
            return
        stages = workloads.restore("tar", self.folder, arm.how, self.password)
        if workload.tool == "speed":
            stages = [workloads.speed(arm.how, 1)]
        for s in stages:
            if not engines.which(s.argv[0]):
                raise NotHere(arm.name, f"{s.argv[0]} is not on this machine")
        cipher = arm.how["cipher"]
        if cipher != "none" and cipher not in ciphers():
            version = " ".join(run(["openssl", "version"], 20)[1].split()[:2])
            raise NotHere(arm.name, f"the local openssl has no {cipher} ({version})")

    def server(self, arm: Arm, workload: Workload) -> Server | None:
        """The arm's own server where its tables differ, started when first needed in a block; the
        A/A control has the baseline's."""
        if not arm.prepare:
            return None
        name = arm.name.removesuffix(AGAIN)
        if name not in self.own:
            self.own[name] = self.bench.fresh(arm)
            self.own[name].start()
        return self.own[name]

    def stock(self) -> None:
        """Every arm that is restored has its archive, and one copy that was started and compared."""
        for workload in (w for w in self.study.workloads if w.tool == "restore"):
            for arm in self.study.compared:
                with contextlib.suppress(NotHere, ToolError):  # its turn comes, and says so
                    self.ready(arm, workload)
                    server = self.bench.server_of(arm, 0, workload)
                    _restored(self, server, arm, workload.threads[0])
        self.end_block()

    def new(self, name: str) -> Path:
        """A path for a new file or folder; its number keeps the page cache of old ones out."""
        self.count += 1
        return self.folder / f"{name}-{self.count}"

    def end_block(self) -> None:
        """Stop the extra servers; the archives serve the whole campaign."""
        for server in self.own.values():
            server.remove()
        self.own = {}

    def close(self) -> None:
        """Remove everything."""
        self.end_block()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fact(self, name: str) -> list[dict]:
        """What is looked at once a campaign: words, nothing measured."""
        return {"damage": damage}[name](self)


def copier(server: Server) -> str:
    """The program that copies the server's files: mariabackup, xtrabackup where it is installed, or
    tar after a local clone."""
    if server.engine.kind == "mariadb":
        return "mariabackup"
    return "xtrabackup" if engines.which("xtrabackup") else "tar"


@functools.cache
def ciphers() -> set[str]:
    """Ciphers of the local openssl, by every name it knows."""
    words = run(["openssl", "enc", "-list"], 20)[1].split()
    return {word.removeprefix("-") for word in words if word.startswith("-")}


# -- a pipe, watched -------------------------------------------------------------------------------


def pipe(
    stages: list[Stage],
    folder: Path,
    *,
    source: Path | str = os.devnull,
    target: Path | str = os.devnull,
    size: int = 0,
    every_s: float = SAMPLE_S,
) -> dict:
    """Run the stages connected by pipes: {"wall_s", "stages": [{name, user_s, sys_s, wall_s,
    exit_code, said, states}]}.

    `said`: the last line of its stderr, kept in `folder`. `states`: how often it was seen running,
    waiting for input, for output or for something else, a look every `every_s`. `size`: bytes that
    each pipe can hold (0: the system's own 64 KiB). All children die with this process. Raises ToolError when none of
    them uses the processor any more."""
    ends = [os.pipe() for _ in stages[1:]]
    for _, into in ends if size else ():
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, size)
    children: list[subprocess.Popen] = []
    states: list[Counter] = [Counter() for _ in stages]
    with (
        open(source, "rb") as first,
        open(target, "wb") as last,
        ThreadPoolExecutor(len(stages)) as waiters,
    ):
        began = time.monotonic()
        try:
            for i, stage in enumerate(stages):
                with open(folder / f"{i}.stderr", "wb") as said:
                    process = subprocess.Popen(
                        stage.argv,
                        stdin=ends[i - 1][0] if i else first,
                        stdout=ends[i][1] if i < len(ends) else last,
                        stderr=said,
                        env={**os.environ, **stage.env},
                        preexec_fn=die_with_parent,
                    )
                children.append(process)
        finally:
            for end in (e for both in ends for e in both):
                os.close(end)
        endings = [waiters.submit(_ending, c, began) for c in children]
        used, moved = 0.0, began
        try:
            while wait(endings, every_s).not_done:
                ctrl_c()
                for c, ending, seen in zip(children, endings, states, strict=True):
                    if not ending.done() and (doing := _doing(c.pid)):
                        seen[doing] += 1
                now = sum(clock(c.pid) for c in children)
                if now != used:
                    used, moved = now, time.monotonic()
                elif time.monotonic() - moved > child.PATIENCE_S:
                    raise ToolError(f"the pipe stood still for {child.PATIENCE_S:g} s")
        except BaseException:
            for c, ending in zip(children, endings, strict=True):
                if not ending.done():
                    c.kill()
            raise
    found = []
    for i, (stage, ending, seen) in enumerate(zip(stages, endings, states, strict=True)):
        f = {"name": stage.argv[0], "states": seen, **ending.result()}
        lines = (folder / f"{i}.stderr").read_text(errors="replace").strip().splitlines()
        found.append(f | {"said": lines[-1][:200] if lines and f["exit_code"] else ""})
    return {"wall_s": max(f["wall_s"] for f in found), "stages": found}


def _ending(process: subprocess.Popen, began: float) -> dict:
    """Wait for a stage's end; how it ended, and what it used."""
    _, status, used = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "exit_code": process.returncode,
        "user_s": round(used.ru_utime, 4),
        "sys_s": round(used.ru_stime, 4),
        "wall_s": round(took, 4),
    }


def _doing(pid: int) -> str:
    """What a process is doing now: running when any of its threads is, else what most wait for."""
    seen = Counter()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            folder = f"/proc/{pid}/task/{task}"
            with open(f"{folder}/stat") as f:
                state = f.read().rpartition(")")[2].split()[0]
            if state == "R":
                return "runs"
            if state in "ZX":
                return ""
            with open(f"{folder}/wchan") as f:
                waits = f.read()
            seen[next((w for k, w in _WAITS.items() if k in waits), "waits otherwise")] += 1
    if len(seen) > 1:  # threads of a pool wait for each other while one of them waits for the pipe
        del seen["waits otherwise"]
    return seen.most_common(1)[0][0] if seen else ""


# -- the measuring tools ---------------------------------------------------------------------------


def backup(s: Slice) -> dict:
    """One backup into a new archive; the arm's first one is kept for restores."""
    archive = s.kit.new("archive")
    took = _backup(s.kit, s.server, s.arm, s.threads, archive)
    size = archive.stat().st_size
    if s.kit.archives.setdefault(s.arm.name, archive) is not archive:
        archive.unlink()
    data = sum(p.stat().st_size for p in s.server.datadir.rglob("*.ibd"))
    return _result(s, took) | {"archive_B": size, "data_B": data}


def restore(s: Slice) -> dict:
    """The arm's archive unpacked into an empty folder; what makes a backup of mariabackup
    consistent (its prepare) has a clock of its own, and the copy is proved outside both."""
    return _result(s, _restored(s.kit, s.server, s.arm, s.threads))


def _restored(kit: Kit, server: Server, arm: Arm, threads: int) -> dict:
    if arm.name not in kit.archives:
        archive = kit.new("archive")
        _backup(kit, server, arm, threads, archive)
        kit.archives[arm.name] = archive
    archive, size = kit.archives[arm.name], int(arm.how.get("pipe", 0))
    with kit.bench.place("restored") as into:
        stages = workloads.restore(copier(server), into, arm.how, kit.password)
        took = pipe(stages, kit.folder, source=archive, size=size)
        _must(took)
        digest, prepared = tree(into), prepare(server, into)
        checks = prove(kit, server, into, digest)
    own = {"prepare_s": round(prepared, 4)} if prepared else {}
    return took | own | {"archive_B": archive.stat().st_size, "evidence": checks}


def beside(s: Slice) -> dict:
    """A load at a rate, its text in ``sysbench.txt``, with one backup after the other beside it; with
    none where the arm has no cipher.

    The backups begin before the load, and the last one ends after it: all count among the `stages`.
    A clone is no process, but a part of what the server used."""
    argv, over = tools.load_argv(s, s.seconds), threading.Event()
    with (
        s.kit.bench.place("gate") as place,
        tools.Gated(argv, s.threads, place / "0", place / "0.txt") as s.gated,
        ThreadPoolExecutor(1) as other,
    ):
        s.gated.connected()
        going = other.submit(_backups, s, over)
        try:
            found = tools.sysbench(s)
        finally:
            over.set()
        made = going.result()
    wanted = {None: "none", "none": "plain"}.get(s.arm.how.get("cipher"), "encrypted")
    said = ", ".join(sorted({kind for kind, _ in made})) or "none"
    proof = check("backups beside the load", "first bytes of every archive", wanted, said)
    stages = [x for _, stages in made for x in stages if x["name"] != "clone"]
    return found | {"stages": stages, "evidence": agree([proof])}


def _backups(s: Slice, over: threading.Event) -> list[tuple[str, list[dict]]]:
    """Backups of a slice's server under its arm, if it has any, one after the other until `over`:
    what the archive is, and what its processes did."""
    made = []
    while "cipher" in s.arm.how and not over.is_set():
        archive = s.kit.new("archive")
        took = _backup(s.kit, s.server, s.arm, COMPRESSING, archive, SELDOM_S)
        with open(archive, "rb") as file:
            head = file.read(8)
        archive.unlink()
        kinds = (k for first, k in _FIRST_BYTES.items() if head.startswith(first))
        made.append((next(kinds, "unknown"), took["stages"]))
    return made


def speed(s: Slice) -> dict:
    """`openssl speed` of the arm's cipher alone, for whole seconds; text in ``openssl.txt``."""
    stage = workloads.speed(s.arm.how, round(s.seconds), "-decrypt" in s.workload.options)
    stolen, env = steal(), {**os.environ, **stage.env}
    limit = 3 * s.seconds + child.PATIENCE_S
    code, _, cpu = run([*stage.argv], limit, s.folder / "openssl.txt", env=env)
    return tools.told([*stage.argv], code, {}, cpu, stolen)


def _result(s: Slice, took: dict) -> dict:
    user, sys = (sum(x[k] for x in took["stages"]) for k in ("user_s", "sys_s"))
    lines = f"real {took['wall_s']:.4f}\nuser {user:.4f}\nsys {sys:.4f}\n"
    (s.folder / "time.txt").write_text(lines)
    return {"exit_code": 0, "usage": {}, "slice_s": round(took["wall_s"], 3), **took}


def _must(took: dict) -> None:
    for x in took["stages"]:
        if x["exit_code"]:
            raise ToolError(f"{x['name']} ended with exit code {x['exit_code']}: {x['said']}")


def _backup(
    kit: Kit, server: Server, arm: Arm, threads: int, archive: Path, every_s: float = SAMPLE_S
) -> dict:
    copy, data, stolen = copier(server), kit.new("scratch"), steal()
    clone = [_clone(server, data)] if copy == "tar" else []
    data.mkdir(mode=0o700, exist_ok=bool(clone))
    try:
        stages = workloads.backup(copy, _options(kit, server), data, arm.how, kit.password, threads)
        size = int(arm.how.get("pipe", 0))
        took = pipe(stages, kit.folder, target=archive, size=size, every_s=every_s)
        _must(took)
    except ToolError:
        archive.unlink()
        raise
    finally:
        shutil.rmtree(data, ignore_errors=True)
    return {
        "wall_s": took["wall_s"] + sum(c["wall_s"] for c in clone),
        "stages": [*clone, *took["stages"]],
        "argv": [[Path(a).name if "/" in a else a for a in s.argv] for s in stages],
        "steal_s": round(steal() - stolen, 3),
    }


def _clone(server: Server, data: Path) -> dict:
    """A physical copy by MySQL's clone plugin, as a stage: the server's CPU, to a hundredth of a
    second."""
    with contextlib.suppress(Exception):  # installed by an earlier run
        server.patient("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
    before, began = server.usage()["cpu_s"], time.monotonic()
    server.patient("CLONE LOCAL DATA DIRECTORY = :where", where=str(data))
    return {
        "name": "clone",
        "exit_code": 0,
        "said": "",
        "states": {},
        "user_s": round(server.usage()["cpu_s"] - before, 4),
        "sys_s": 0.0,
        "wall_s": round(time.monotonic() - began, 4),
    }


def _options(kit: Kit, server: Server) -> Path:
    """An option file for the copying program: where the server's files are, and its password."""
    account = (server.folder / "client.cnf").read_text().strip().removeprefix("[client]")
    text = (server.folder / "my.cnf").read_text()
    text += f"[mariabackup]\n{account}\n[xtrabackup]\n{account}\n"
    return secret_file(kit.folder / "backup.cnf", text)


# -- proof -----------------------------------------------------------------------------------------


def prepare(server: Server, restored: Path) -> float:
    """Let the copying program apply the redo log to the unpacked files: the seconds that it takes,
    0 for a copy that needs none. Raises ToolError."""
    if copier(server) == "tar":
        return 0.0
    began = time.monotonic()
    argv = [copier(server), "--prepare", f"--target-dir={restored}"]
    done = engines.output(*argv, preexec_fn=die_with_parent)
    if done.returncode:
        raise ToolError(f"prepare failed: {engines.last_words(done)[:200]}")
    return time.monotonic() - began


def prove(kit: Kit, server: Server, restored: Path, digest: str) -> list[dict]:
    """Evidence that the prepared files are a backup of `server`: the first copy whose unpacked
    files had this digest is started and compared by CHECKSUM TABLE; later ones by their bytes.

    Raises ToolError when they are not."""
    how = "bytes of a copy that was started and compared"
    if digest not in kit.proved:
        if said := revive(kit, server, restored):
            raise ToolError(f"the restored copy is no backup: {said}")
        how = "prepared, started, CHECKSUM TABLE"
        kit.proved.add(digest)
    return [check("restored copy", how, "equal", "equal")]


def tree(folder: Path) -> str:
    """Digest of all files of a folder, with their names."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = list(pool.map(_digest, files))
    names = [str(p.relative_to(folder)) for p in files]
    return hashlib.sha256(repr([*zip(names, digests, strict=True)]).encode()).hexdigest()


def _digest(path: Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def revive(kit: Kit, server: Server, restored: Path) -> str:
    """Start a restored and prepared copy beside `server`; "" when every table's checksum is the
    same, else what is wrong, in a sentence."""
    try:
        with server.trial(kit.bench.new("revived-"), data=restored) as other:
            return "" if checksums(other) == checksums(server) else "CHECKSUM TABLE differs"
    except ServerError as e:
        return str(e)


# -- looked at once a campaign ---------------------------------------------------------------------

DAMAGES = ("truncated", "one bit flipped", "wrong passphrase")


def damage(kit: Kit) -> list[dict]:
    """Which process notices a damaged archive: rows cipher, damage, openssl alone, noticed by, what
    it said. `openssl alone`: whether decryption by itself ended as if all were well."""
    server, rows = kit.bench.servers[0], []
    wrong = secret_file(kit.folder / "wrong", secrets.token_hex(16) + "\n")
    arms = [a for a in kit.study.compared if not a.prepare]
    known = {ALIASES.get(a.how["cipher"], a.how["cipher"]): None for a in arms}
    for cipher in (c for c in known if c == "none" or c in ciphers()):
        archive = kit.new("archive")
        _backup(kit, server, Arm(cipher, how={"cipher": cipher}), 1, archive)
        for what in DAMAGES[: 2 if cipher == "none" else 3]:
            password = wrong if what == "wrong passphrase" else kit.password
            for part in (2, 3, 5):
                hurt = kit.new("damaged")
                shutil.copyfile(archive, hurt)
                _hurt(hurt, what, part)
                found = _noticed(kit, server, cipher, hurt, password)
                hurt.unlink()
                # a few bits in a thousand decompress to the same rows when flipped: no damage
                if found["noticed by"] != "nobody":
                    break
            rows.append({"cipher": cipher, "damage": what} | found)
        archive.unlink()
    return rows


def _hurt(path: Path, what: str, part: int = 2) -> None:
    size = path.stat().st_size
    at = size // part
    with open(path, "r+b") as file:
        if what == "truncated":
            file.truncate(size - size // 20 // 16 * 16)  # whole blocks of the cipher are missing
        elif what == "one bit flipped":
            (byte,) = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte ^ 1]), at)


def _noticed(kit: Kit, server: Server, cipher: str, archive: Path, password: Path) -> dict:
    how, copy, alone = {"cipher": cipher}, copier(server), "not in the pipe"
    if cipher != "none":
        stage = workloads.restore(copy, kit.folder, how, password)[:1]
        (only,) = pipe(stage, kit.folder, source=archive)["stages"]
        words = f"notices: {_short(only['said'])}"
        alone = words if only["exit_code"] else "notices nothing, exit 0"
    with kit.bench.place("restored") as into:
        took = pipe(workloads.restore(copy, into, how, password), kit.folder, source=archive)
        failed = [x for x in took["stages"] if noticed(x)]
        who = " and ".join(x["name"] for x in failed)
        said = "; ".join(_short(x["said"]) for x in failed)
        if not failed:
            try:
                prepare(server, into)
                said = revive(kit, server, into)
            except ToolError as e:
                said = str(e)
            who = "the server's start or its checksums" if said else "nobody"
    return {"openssl alone": alone, "noticed by": who, "it said": said}


def noticed(stage: dict) -> bool:
    """Whether a stage failed by itself: one that only lost its reader noticed nothing."""
    lost = stage["exit_code"] == -13 or "error writing output" in stage["said"]
    return bool(stage["exit_code"]) and not lost


def _short(said: str) -> str:
    """An error line without its file names, addresses and process numbers."""
    if m := re.search(r":error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):", said):
        return m[1]
    return re.sub(r"\S*/\S*|^\[\d+\] \S+ \S+ ", "", said).strip(" :")[:80]
