"""Backups through a pipe of processes: made, restored, checked; and what each process did.

`BackupPool` is what a campaign keeps between its runs; `backup`, `restore` and `beside` are the
measuring tools. Their input is removed from the system's cache before (`cold`).
"""

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from statistics import median
from typing import Any

from noisefloor.measure import child, tools, workloads
from noisefloor.measure.child import ToolError
from noisefloor.measure.loading import checksums, cipher_rates, openssl
from noisefloor.measure.server_pool import ServerPool
from noisefloor.measure.tools import NotHere, Slice, steal
from noisefloor.model import Arm, Workload
from noisefloor.servers import engines
from noisefloor.servers.evidence import agree, check
from noisefloor.servers.sandbox import clock, ctrl_c, die_with_parent, secret_file
from noisefloor.servers.server import Rows, Server, ServerError

_SAMPLE_S = 0.02  # between looks at what the processes of a pipe are doing
_SELDOM_S = 0.2  # the same beside a load, because each look takes processor time from it
_COMPRESSING = 4  # threads of zstd, unless the study varies them
_STREAM = "chacha20"  # damaged, too: a stream cipher has no padding that shows a wrong passphrase
_SECTOR_B = 512  # of a block in ru_inblock
_FIRST_BYTES = {b"Salted__": "encrypted", b"\x28\xb5\x2f\xfd": "plain"}  # openssl's, zstd's
_DATA = re.compile(r".*\.ibd|ibdata\d+|undo_?\d+")  # files of a server with rows in them
_WAITS = {"pipe_read": "waits for input", "pipe_write": "waits for output"}


class BackupPool(ServerPool):
    """Also keeps archives, passphrase and extra servers of a campaign."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.kept = self.folder / "backups"
        self.kept.mkdir(mode=0o700)
        self.password = secret_file(self.kept / "passphrase", secrets.token_hex(16) + "\n")
        self.archives: dict[str, Path] = {}
        self.proved: set[str] = set()  # digests of unpacked trees that were started
        # the archives, MySQL's clone, a restored copy; and for each arm with tables of its own a
        # server and archives, which may not compress
        copied = copier(self.templates[""]) == "tar"
        restored = any(w.tool == "restore" for w in self.study.workloads)
        self.copies = 1 + copied + restored + 2 * len(self._apart)

    def configure(self, server: Server) -> None:
        """Make sure that a program that copies the server is installed. Raises ServerError."""
        if copier(server) == "tar" and not server.engine.clone:
            raise ServerError("this build of MySQL has no clone plugin, and xtrabackup is missing")
        if not engines.which(copier(server)):
            raise ServerError(f"{copier(server)} is missing (package mariadb-backup)")

    def ready(self, arm: Arm, workload: Workload) -> None:
        """Make sure that its programs and its cipher are on this machine. Raises NotHere."""
        if "cipher" not in arm.how:  # no backup
            return
        for argv in workloads.restore("tar", self.kept, arm.how, self.password):
            if not engines.which(argv[0]):
                raise NotHere(arm.name, f"{argv[0]} is not on this machine")
        cipher = arm.how["cipher"]
        if cipher != "none" and cipher not in _ciphers():
            raise NotHere(arm.name, f"the local openssl has no {cipher} (OpenSSL {openssl(None)})")

    @property
    def _apart(self) -> list[Arm]:
        """The arms whose tables differ from the baseline's."""
        return [a for a in self.study.arms if a.prepare != self.study.baseline.prepare]

    def server(self, arm: Arm, workload: Workload) -> Server | None:
        """The arm's own server if its tables differ from the baseline's, else None. All such
        servers start in a block's first run and stop at its end; their data are copied once."""
        for each in self._apart:
            if each.name not in self.extra:
                self.extra[each.name] = self.fresh(each)
            if not self.extra[each.name].process:
                self.extra[each.name].start()
        return self.extra.get(arm.name)

    def prebuild(self) -> None:
        """Make the archive of every arm that is restored, restore it once, and start and compare
        the copy."""
        for workload in (w for w in self.study.workloads if w.tool == "restore"):
            for arm in self.study.compared:
                with contextlib.suppress(NotHere, ToolError):  # raised again by the arm's first run
                    self.ready(arm, workload)
                    server = self.server_of(arm, 0, workload)
                    _restored(self, server, arm)
        self.end_block()

    def end_block(self) -> None:
        """Stop the extra servers; they and the archives serve the whole campaign."""
        for server in self.extra.values():
            server.stop()

    def discard(self) -> None:
        """Remove everything."""
        for server in self.extra.values():
            server.remove()
        self.extra = {}
        shutil.rmtree(self.kept, ignore_errors=True)

    def fact(self, name: str) -> Rows:
        """Facts that are measured once a campaign, a row each."""
        return {"damage": _damage, "speed": _speed}[name](self)


def copier(server: Server) -> str:
    """The program that copies the server's files: the first of `server.kind.COPIERS` that is
    installed, else the last one. `tar` copies a local clone."""
    *better, last = server.kind.COPIERS
    return next((program for program in better if engines.which(program)), last)


@functools.cache
def _ciphers() -> set[str]:
    """Ciphers of the local openssl, by every name it knows."""
    words = child.run(["openssl", "enc", "-list"], 20)[1].split()
    return {word.removeprefix("-") for word in words if word.startswith("-")}


def cold(place: Path) -> None:
    """Take a file, or all files below a folder, out of the system's cache, so that the next reader
    reads the disk. Writes what is not on the disk yet first. Needs only the right to read."""
    for path in [place] if place.is_file() else place.rglob("*"):
        if path.is_file():
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                os.fsync(file.fileno())  # a dirty page would stay in the cache
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# -- a pipe, watched -------------------------------------------------------------------------------


def pipe(
    stages: list[tuple[str, ...]],
    folder: Path,
    *,
    source: Path | str = os.devnull,
    target: Path | str = os.devnull,
    every_s: float = _SAMPLE_S,
    over: threading.Event | None = None,
) -> dict[str, Any]:
    """Run the programs connected by pipes: {"wall_s", "stages": [{name, user_s, sys_s, wall_s,
    read_B, exit_code, said, states}]}.

    `read_B`: bytes that it read from disk. `said`: if it failed, the last line of its stderr, which
    is kept in `folder`. `states`: how often it was seen running, waiting for input, for output or
    for something else, with a look every `every_s`. `over`: when it is set, what still runs is
    killed. All die with this process. Raises ToolError if none uses CPU for `child.PATIENCE_S`."""
    ends = [os.pipe() for _ in stages[1:]]
    children: list[subprocess.Popen[bytes]] = []
    states: list[Counter[str]] = [Counter() for _ in stages]
    with (
        open(source, "rb") as first,
        open(target, "wb") as last,
        ThreadPoolExecutor(len(stages)) as waiters,
    ):
        began = time.monotonic()
        try:
            for i, argv in enumerate(stages):
                with open(folder / f"{i}.stderr", "wb") as stderr:
                    process = subprocess.Popen(
                        argv,
                        stdin=ends[i - 1][0] if i else first,
                        stdout=ends[i][1] if i < len(ends) else last,
                        stderr=stderr,
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
                if over and over.is_set():
                    _kill([c.pid for c, e in zip(children, endings, strict=True) if not e.done()])
                for process, ending, seen in zip(children, endings, states, strict=True):
                    if not ending.done() and (doing := _doing(process.pid)):
                        seen[doing] += 1
                now = sum(clock(c.pid) for c in children)
                if now != used:
                    used, moved = now, time.monotonic()
                elif time.monotonic() - moved > child.PATIENCE_S:
                    raise ToolError(f"the pipe stood still for {child.PATIENCE_S:g} s")
        except BaseException:
            _kill([c.pid for c, e in zip(children, endings, strict=True) if not e.done()])
            raise
    ended = []
    for i, (argv, ending, seen) in enumerate(zip(stages, endings, states, strict=True)):
        stage: dict[str, Any] = {"name": argv[0], "states": seen, **ending.result()}
        lines = (folder / f"{i}.stderr").read_text(errors="replace").strip().splitlines()
        ended.append(stage | {"said": lines[-1][:200] if lines and stage["exit_code"] else ""})
    return {"wall_s": max(s["wall_s"] for s in ended), "stages": ended}


def _kill(pids: list[int]) -> None:
    """Kill the processes of a pipe, the last one first, so that none takes a cut input for a whole
    one. Whoever waits for them gets their exit codes."""
    for pid in reversed(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _ending(process: subprocess.Popen[bytes], began: float) -> dict[str, Any]:
    """Wait for a stage's end; how it ended, and what it used."""
    _, status, used = os.wait4(process.pid, 0)
    took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "exit_code": process.returncode,
        "user_s": round(used.ru_utime, 4),
        "sys_s": round(used.ru_stime, 4),
        "wall_s": round(took, 4),
        "read_B": used.ru_inblock * _SECTOR_B,
    }


def _doing(pid: int) -> str:
    """What a process does now: `runs` if any thread runs, else what most wait for; "" if ended."""
    seen: Counter[str] = Counter()
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


def backup(run: Slice) -> dict[str, Any]:
    """Back up a server, whose files are not in the system's cache, into a new archive. An arm's
    first archive is kept for restores."""
    cold(run.server.datadir)
    archive, took = _backup(run.pool, run.server, run.arm, run.threads)
    proof = _proof(run.arm, [_kind(archive)])
    size = archive.stat().st_size
    if run.pool.archives.setdefault(run.arm.name, archive) is not archive:
        archive.unlink()
    data = sum(p.stat().st_size for p in run.server.datadir.rglob("*") if _DATA.fullmatch(p.name))
    return _result(run, took) | {"archive_B": size, "data_B": data, "evidence": proof}


def restore(run: Slice) -> dict[str, Any]:
    """Unpack the arm's archive, which is not in the system's cache, into an empty folder. The time
    of `prepare` is measured apart (`prepare_s`); the check of the copy is in neither time."""
    return _result(run, _restored(run.pool, run.server, run.arm))


def _restored(pool: BackupPool, server: Server, arm: Arm) -> dict[str, Any]:
    if arm.name not in pool.archives:
        pool.archives[arm.name], _ = _backup(pool, server, arm, _COMPRESSING)
    archive = pool.archives[arm.name]
    with pool.place("restored") as into:
        stages = workloads.restore(copier(server), into, arm.how, pool.password)
        cold(archive)
        stolen, took = steal(), pipe(stages, pool.kept, source=archive)
        took["steal_s"] = round(steal() - stolen, 3)
        _must(took)
        digest, prepare_s = tree(into), prepare(server, into)
        checks = _prove(pool, server, into, digest)
    prepared = {"prepare_s": round(prepare_s, 4)} if prepare_s else {}
    return took | prepared | {"archive_B": archive.stat().st_size, "evidence": checks}


def beside(run: Slice) -> dict[str, Any]:
    """Load a server at a rate, text in ``sysbench.txt``, with one backup after the other beside the
    load; without backups if the arm has no cipher.

    The backups start before the load, with files that are not in the system's cache; the last one
    is killed when the load ends. `stages` has the processes of each backup and what they used. A
    clone is not among them: it is part of what the server used."""
    argv, over = tools.load_argv(run, run.seconds), threading.Event()
    cold(run.server.datadir)
    with (
        run.pool.place("gate") as place,
        child.Gated(argv, run.threads, place / "0", place / "0.txt") as run.gated,
        ThreadPoolExecutor(1) as other,
    ):
        run.gated.connected()
        going = other.submit(_backups, run, over)
        try:
            facts = tools.sysbench(run)
        finally:
            over.set()
        made = going.result()
    proof = _proof(run.arm, [kind for kind, _ in made])
    stages = [x for _, stages in made for x in stages if x["name"] != "clone"]
    return facts | {"stages": stages, "evidence": proof}


def _backups(run: Slice, over: threading.Event) -> list[tuple[str, list[dict[str, Any]]]]:
    """Make backups of a slice's server, one after the other until `over`, none if its arm has no
    cipher: (kind of the archive, `stages` of `pipe`) of each that wrote anything."""
    made = []
    while "cipher" in run.arm.how and not over.is_set():
        archive, took = _backup(run.pool, run.server, run.arm, _COMPRESSING, _SELDOM_S, over)
        if kind := _kind(archive):
            made.append((kind, took["stages"]))
        archive.unlink()
    return made


def _kind(archive: Path) -> str:
    """What an archive is by its first bytes: encrypted, plain, unknown; "" of an empty one."""
    with open(archive, "rb") as file:
        head = file.read(8)
    kinds = (k for first, k in _FIRST_BYTES.items() if head.startswith(first))
    return next(kinds, "unknown") if head else ""


def _proof(arm: Arm, kinds: list[str]) -> list[dict[str, Any]]:
    """Evidence that an arm's archives are what it says. Raises EvidenceError."""
    wanted = {None: "none", "none": "plain"}.get(arm.how.get("cipher"), "encrypted")
    seen = ", ".join(sorted({kind or "empty" for kind in kinds})) or "none"
    return agree([check("archive", "first bytes of every archive", wanted, seen)])


def _result(run: Slice, took: dict[str, Any]) -> dict[str, Any]:
    user, sys = (sum(x[k] for x in took["stages"]) for k in ("user_s", "sys_s"))
    lines = f"real {took['wall_s']:.4f}\nuser {user:.4f}\nsys {sys:.4f}\n"
    (run.folder / "time.txt").write_text(lines)
    return {"exit_code": 0, "usage": {}, "slice_s": round(took["wall_s"], 3), **took}


def _must(took: dict[str, Any], cut: bool = False) -> None:
    """Raise ToolError when a process of a pipe failed, with the name of the one that failed first.
    One that only lost its reader does not count, nor a killed one if the pipe was `cut`."""
    failed = [x for x in took["stages"] if noticed(x)]
    if cut:
        failed = [x for x in failed if x["exit_code"] != -signal.SIGKILL]
    elif not failed:  # then one that only lost its reader counts, too
        failed = [x for x in took["stages"] if x["exit_code"]]
    if failed:
        first = min(failed, key=lambda x: x["wall_s"])
        raise ToolError(
            f"{first['name']} ended with exit code {first['exit_code']}: {first['said']}"
        )


def _backup(
    pool: BackupPool,
    server: Server,
    arm: Arm,
    threads: int,
    every_s: float = _SAMPLE_S,
    over: threading.Event | None = None,
) -> tuple[Path, dict[str, Any]]:
    """(a new archive of a server, what `pipe` returns, with a clone as its first stage)."""
    archive = pool.new("backups/archive-")
    copy, data, stolen = copier(server), pool.new("backups/scratch-"), steal()
    clone = [_clone(server, data)] if copy == "tar" else []
    data.mkdir(mode=0o700, exist_ok=bool(clone))
    try:
        options, password = _options(pool, server), pool.password
        stages = workloads.backup(copy, options, data, arm.how, password, threads)
        took = pipe(stages, pool.kept, target=archive, every_s=every_s, over=over)
        _must(took, cut=bool(over and over.is_set()))
    except ToolError:
        archive.unlink()
        raise
    finally:
        shutil.rmtree(data, ignore_errors=True)
    return archive, {
        "wall_s": took["wall_s"] + sum(c["wall_s"] for c in clone),
        "stages": [*clone, *took["stages"]],
        "argv": [[Path(a).name if "/" in a else a for a in argv] for argv in stages],
        "steal_s": round(steal() - stolen, 3),
    }


def _clone(server: Server, data: Path) -> dict[str, Any]:
    """Copy the server's files to `data` with MySQL's clone plugin; a stage as in `pipe`, with all
    CPU seconds of the server as `user_s`, and the bytes that the server read from disk."""
    with contextlib.suppress(Exception):  # installed by an earlier run
        server.patient("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
    before, began = server.usage(), time.monotonic()
    server.patient("CLONE LOCAL DATA DIRECTORY = :where", where=str(data))
    took, after = time.monotonic() - began, server.usage()
    return {
        "name": "clone",
        "exit_code": 0,
        "said": "",
        "states": {},
        "user_s": round(after["cpu_s"] - before["cpu_s"], 4),
        "sys_s": 0.0,
        "wall_s": round(took, 4),
        "read_B": after["read_B"] - before["read_B"],
    }


def _options(pool: BackupPool, server: Server) -> Path:
    """An option file for the copying program: where the server's files are, and its password."""
    account = (server.folder / "client.cnf").read_text().strip().removeprefix("[client]")
    text = (server.folder / "my.cnf").read_text()
    text += f"[mariabackup]\n{account}\n[xtrabackup]\n{account}\n"
    return secret_file(pool.kept / "backup.cnf", text)


# -- proof -----------------------------------------------------------------------------------------


def prepare(server: Server, restored: Path) -> float:
    """Let the copying program apply the redo log to the unpacked files, which makes them
    consistent; the seconds that it takes, 0 for a clone. Raises ToolError."""
    if copier(server) == "tar":
        return 0.0
    began = time.monotonic()
    argv = [copier(server), "--prepare", f"--target-dir={restored}"]
    done = engines.output(*argv, preexec_fn=die_with_parent)
    if done.returncode:
        raise ToolError(f"prepare failed: {engines.last_words(done)[:200]}")
    return time.monotonic() - began


def _prove(pool: BackupPool, server: Server, restored: Path, digest: str) -> Rows:
    """Evidence that the prepared files are a backup of `server`. The first copy with this `digest`
    of its unpacked files is started and compared by CHECKSUM TABLE; for later ones the digest is
    enough. Raises ToolError when they are no backup."""
    how = "bytes of a copy that was started and compared"
    if digest not in pool.proved:
        if wrong := revive(pool, server, restored):
            raise ToolError(f"the restored copy is no backup: {wrong}")
        how = "prepared, started, CHECKSUM TABLE"
        pool.proved.add(digest)
    return [check("restored copy", how, "equal", "equal")]


def tree(folder: Path) -> str:
    """Digest of all files of a folder, with their names."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        digests = list(executor.map(_digest, files))
    names = [str(p.relative_to(folder)) for p in files]
    return hashlib.sha256(repr([*zip(names, digests, strict=True)]).encode()).hexdigest()


def _digest(path: Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def revive(pool: BackupPool, server: Server, restored: Path) -> str:
    """Start a restored and prepared copy beside `server`; "" when every table's checksum is the
    same, else what is wrong, in a sentence."""
    try:
        with server.trial(pool.new("revived-"), data=restored) as other:
            return "" if checksums(other) == checksums(server) else "CHECKSUM TABLE differs"
    except ServerError as e:
        return str(e)


# -- measured once a campaign ----------------------------------------------------------------------


def _speed(pool: BackupPool) -> Rows:
    """How fast the arms' ciphers are in memory, with the openssl that the pipe starts: rows arm,
    cipher, direction (backup, restore), B_per_s (of its own processor time), openssl."""
    rows = []
    for arm in pool.study.compared:
        for direction, option in (("backup", ""), ("restore", "-decrypt")):
            if (cipher := arm.how.get("cipher", "none")) == "none":
                continue
            if rates := cipher_rates({"name": cipher, "option": option}):
                row = {"arm": arm.name, "cipher": cipher, "direction": direction}
                rows.append(row | {"B_per_s": median(rates), "openssl": f"OpenSSL {openssl(None)}"})
    return rows


_CUT, _FLIPPED, _WRONG = _DAMAGES = ("truncated", "one bit flipped", "wrong passphrase")


def _damage(pool: BackupPool) -> Rows:
    """Which process notices a damaged archive: rows cipher, damage, openssl alone, noticed by, what
    it said. `openssl alone`: whether decryption by itself ended as if all were well."""
    server, rows = pool.servers[0], []
    wrong = secret_file(pool.kept / "wrong", secrets.token_hex(16) + "\n")
    arms = [a for a in pool.study.compared if not a.prepare]
    known = dict.fromkeys([*(a.how["cipher"] for a in arms), _STREAM])
    for cipher in (c for c in known if c == "none" or c in _ciphers()):
        archive, _ = _backup(pool, server, Arm(cipher, how={"cipher": cipher}), _COMPRESSING)
        for what in _DAMAGES[: 2 if cipher == "none" else 3]:
            password = wrong if what == _WRONG else pool.password
            for part in (2, 3, 5):
                hurt = pool.new("backups/damaged-")
                shutil.copyfile(archive, hurt)
                _hurt(hurt, what, part)
                result = _noticed(pool, server, cipher, hurt, password)
                hurt.unlink()
                # a few flipped bits in a thousand change no row: flip another one
                if result["noticed by"] != "nobody":
                    break
            rows.append({"cipher": cipher, "damage": what} | result)
        archive.unlink()
    return rows


def _hurt(path: Path, what: str, part: int = 2) -> None:
    size = path.stat().st_size
    at = size // part
    with open(path, "r+b") as file:
        if what == _CUT:
            file.truncate(size - size // 20 // 16 * 16)  # whole blocks of the cipher are missing
        elif what == _FLIPPED:
            (byte,) = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte ^ 1]), at)


def _noticed(
    pool: BackupPool, server: Server, cipher: str, archive: Path, password: Path
) -> dict[str, str]:
    how, copy, alone = {"cipher": cipher}, copier(server), "not in the pipe"
    if cipher != "none":
        stage = workloads.restore(copy, pool.kept, how, password)[:1]
        (only,) = pipe(stage, pool.kept, source=archive)["stages"]
        words = f"notices: {_short(only['said'])}"
        alone = words if only["exit_code"] else "notices nothing, exit 0"
    with pool.place("restored") as into:
        took = pipe(workloads.restore(copy, into, how, password), pool.kept, source=archive)
        failed = [x for x in took["stages"] if noticed(x)]
        who = " and ".join(x["name"] for x in failed)
        message = "; ".join(_short(x["said"]) for x in failed)
        if not failed:
            try:
                prepare(server, into)
                message = revive(pool, server, into)
            except ToolError as e:
                message = str(e)
            who = "the server's start or its checksums" if message else "nobody"
    return {"openssl alone": alone, "noticed by": who, "it said": message}


def noticed(stage: dict[str, Any]) -> bool:
    """Whether a stage failed by itself: one that only lost its reader noticed nothing."""
    words = ("error writing output", "Broken pipe")
    lost = stage["exit_code"] == -signal.SIGPIPE or any(w in stage["said"] for w in words)
    return bool(stage["exit_code"]) and not lost


def _short(line: str) -> str:
    """An error line without its file names, addresses and process numbers."""
    if m := re.search(r":error:[0-9A-F]+:[^:]*:[^:]*:([^:]+):", line):
        return m[1]
    return re.sub(r"\S*/\S*|^\[\d+\] \S+ \S+ ", "", line).strip(" :")[:80]
