"""Measuring tools: each runs once under one arm, keeps what it printed, and what it used.

Started by `collect` only. A tool gets a `Slice`, writes its text into the run's folder and returns
what stands in run.json: argv, exit code, CPU and bytes of each process.
"""

import contextlib
import csv
import math
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import evidence, parse, stats, tidy, workloads
from .engines import Engine, label, which
from .server import Server, ServerError, die_with_parent, secret_file
from .study import Arm, Study, Workload


class ToolError(Exception):
    """A run that failed: what the tool said. It is recorded, retried once, never averaged in."""


class NotHere(Exception):
    """An arm or workload that this machine does not allow: its name, and the reason."""

    def __init__(self, name: str, reason: str):
        super().__init__(name, reason)
        self.name, self.reason = name, reason


PATIENCE_S = 60  # how long a tool may do nothing beyond its time before it is taken to hang


@dataclass(frozen=True)
class Slice:
    """One run to make: which server, under which arm, into which folder."""

    study: Study
    server: Server
    arm: Arm
    workload: Workload
    threads: int
    seconds: float
    folder: Path
    idle: Mapping[str, Server] = field(default_factory=dict)
    replica: Server | None = None
    kit: object = None  # what the study's tools keep between runs
    gated: "Gated | None" = None  # a sysbench that has its connections already


def load(server: Server, study: Study) -> str:
    """Create the schema, the canary's table, a measuring user without other rights, and the
    sysbench tables; returns what sysbench printed. Leaves its password in ``sysbench.cnf``."""
    password = secrets.token_urlsafe(18)
    schema = workloads.SCHEMA
    server.script(
        f"CREATE DATABASE IF NOT EXISTS {schema}",
        f"CREATE TABLE {schema}.canary (id INT PRIMARY KEY, word VARCHAR(80)) ENGINE=InnoDB",
        f"CREATE USER noisefloor@localhost IDENTIFIED BY '{password}'",
        f"GRANT ALL ON {schema}.* TO noisefloor@localhost",
    )
    secret_file(
        server.folder / "sysbench.cnf",
        workloads.option_file("noisefloor", password, server.socket),
    )
    text = fill(server, study)
    if server.variables()["log_bin"] == "ON":
        server.script("RESET BINARY LOGS AND GTIDS" if _new_words(server) else "RESET MASTER")
    return text


def fill(server: Server, study: Study) -> str:
    """Load the tables of the first workload's script; returns what sysbench printed."""
    options = server.folder / "sysbench.cnf"
    first = study.workloads[0]
    size = (study.tables, study.profile.rows)
    several = 2 if first.sized else max(first.threads)  # it may load a table a thread
    argv = workloads.prepare(options, first.script, *size, several, first.sized)
    code, text, _ = _run(argv, 1800)
    if code and "implement the 'prepare' command" in text:
        code, text, _ = _run(workloads.prepare(options, "oltp_read_write", *size), 1800)
    if code:
        raise ServerError(f"loading the tables failed: {_last(text)}")
    return text


# tests of sysbench that ask no server anything
_NO_SERVER = {"cpu", "fileio", "memory", "mutex", "threads"}


def sized(script: str) -> bool:
    """Whether a sysbench script takes the tables' number and size. Raises ToolError for what is no
    script of sysbench's, or cannot be read as one."""
    _, text, _ = _run(["sysbench", script, "help"], 20)
    if "FATAL" in text or script in _NO_SERVER:
        why = "it asks no server anything" if script in _NO_SERVER else _last(text)
        raise ToolError(
            f"{Path(script).name} is not a workload for a server: {why}; allowed are sysbench's"
            " scripts, such as oltp_read_write, oltp_point_select or oltp_write_only, and Lua files"
        )
    return "--tables=" in text and "--table_size=" in text.replace("table-size", "table_size")


def _new_words(server: Server) -> bool:
    return server.engine.kind == "mysql" and not server.engine.version.startswith("8.0")


def _last(text: str) -> str:
    lines = [s for s in text.splitlines() if "FATAL" in s] or text.splitlines() or ["nothing"]
    return lines[0].strip()[:300]


class Child:
    """A measuring tool that dies with this process; `options` are Popen's (cwd, env). Its text goes
    to `out`, or is kept in memory."""

    def __init__(self, argv: list[str], out: Path | None = None, **options):
        self.argv, self.out = argv, out
        self.text = open(out, "w+b") if out else tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=self.text,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
            **options,
        )

    def wait(
        self, timeout: float, begun: Callable[[], None] | None = None
    ) -> tuple[int, str, float]:
        """Exit code, output and CPU seconds (user + sys, by wait4). One that takes longer than
        `timeout` seconds is killed: exit code -9. `begun` is called once sysbench has made its
        connections and prepared its statements."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
                if pid:
                    break
                if begun and self.said(b"Threads started!"):
                    begun()
                    begun = None
                if time.monotonic() > deadline:
                    self.process.kill()
                    deadline = float("inf")
                time.sleep(0.005)
        except BaseException:
            self.end()
            raise
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.text.seek(0)
        printed = self.text.read().decode(errors="replace")
        self.text.close()
        said = _hidden(printed, self.argv)
        if said != printed and self.out:  # a script of the user's own printed it
            self.out.write_text(said)
        return self.process.returncode, said, round(used.ru_utime + used.ru_stime, 3)

    def said(self, words: bytes) -> bool:
        """Whether these words stand at the beginning of what it printed."""
        return words in os.pread(self.text.fileno(), 4096, 0)

    def end(self) -> None:
        """Kill it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Gated(Child):
    """A sysbench that makes its connections and then waits for `go`."""

    def __init__(self, argv: list[str], threads: int, folder: Path, out: Path):
        self.folder, self.threads = folder, threads
        folder.mkdir(mode=0o700)
        os.mkfifo(folder / "go", 0o600)
        (folder / "ready").touch()
        env = os.environ | {"NOISEFLOOR_SCRIPT": argv[1], "NOISEFLOOR_GATE": str(folder)}
        gate = str(Path(__file__).parent / "lua" / "gate.lua")
        held = [argv[0], gate, *argv[2:]]
        super().__init__(held, out, env=env)

    def connected(self) -> None:
        """Wait until every thread has its connection. Raises ToolError."""
        began = time.monotonic()
        while (self.folder / "ready").stat().st_size < self.threads:
            if self.process.poll() is not None:
                raise ToolError(self._why())
            if time.monotonic() - began > PATIENCE_S:
                raise ToolError(f"{self.threads} connections took more than {PATIENCE_S:g} s")
            time.sleep(0.005)

    def go(self) -> None:
        """Let the threads go. Raises ToolError when they do not."""
        began = time.monotonic()
        door = None
        try:
            while not self.said(b"Threads started!"):
                if door is None:
                    with contextlib.suppress(OSError):  # nobody waits at it yet
                        door = os.open(self.folder / "go", os.O_WRONLY | os.O_NONBLOCK)
                if self.process.poll() is not None or time.monotonic() - began > PATIENCE_S:
                    raise ToolError(self._why())
                time.sleep(0.001)
        finally:
            if door is not None:
                os.close(door)

    def _why(self) -> str:
        return _last(_hidden(self.out.read_text(errors="replace"), self.argv))

    def end(self) -> None:
        """Kill it, and remove its gate."""
        super().end()
        shutil.rmtree(self.folder, ignore_errors=True)


def _run(
    argv: list[str],
    timeout: float,
    out: Path | None = None,
    begun: Callable[[], None] | None = None,
    **options,
) -> tuple[int, str, float]:
    """A `Child` from its start to its end."""
    return Child(argv, out, **options).wait(timeout, begun)


def _hidden(text: str, argv: list[str]) -> str:
    """`text` without what is called a password in it, and without the one of the option file."""
    for name in (a.partition("=")[2] for a in argv if a.startswith("--config-file=")):
        with contextlib.suppress(OSError):
            for word in re.findall(r"(?m)^mysql-password=(.{8,})$", Path(name).read_text()):
                if not word.isdigit():  # or a result would go with it
                    text = text.replace(word, parse.HIDDEN)
    return parse.scrub(text)[0]


def steal() -> float:
    """Seconds of processor time that the host took away since boot, over all cores."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def _binlog_bytes(server: Server) -> int:
    """Bytes in the binary logs on disk."""
    return sum(p.stat().st_size for p in server.datadir.glob("binlog.[0-9]*"))


def _pool(server: Server) -> dict[str, float]:
    """Counters of the thread pool; {} where there is none, or the server is not ours."""
    if not server.datadir:
        return {}
    handling = server.variables().get("thread_handling")
    if handling == "loaded-dynamically":
        sums = "SUM(QUERIES_EXECUTED) AS executed, SUM(QUERIES_QUEUED) AS queued"
        row = server.query(
            f"SELECT {sums}, SUM(STALLED_QUERIES_EXECUTED) AS stalled"
            " FROM performance_schema.tp_thread_group_stats"
        )[0]
    elif handling == "pool-of-threads":
        row = server.query(
            "SELECT SUM(DEQUEUES_BY_WORKER) AS executed, SUM(POLLS_BY_LISTENER) AS queued,"
            " SUM(STALLS) AS stalled FROM information_schema.thread_pool_stats"
        )[0]
    else:
        return {}
    return {k: float(v or 0) for k, v in row.items()}


_WRITES = {"log_syncs": "Innodb_os_log_fsyncs", "pages_written": "Innodb_pages_written"}


def _disk(s: Slice) -> dict[str, float]:
    """What a slow disk was asked for: by commits (the log), by the page cleaner; {} of another disk."""
    if not s.workload.throttled:
        return {}
    found = s.server.status(*_WRITES.values())
    return {name: found[v] for name, v in _WRITES.items() if v in found}


def _meter(servers: Mapping[str, Server]) -> dict[str, dict[str, float]]:
    logs = {n: {"binlog_B": _binlog_bytes(s)} for n, s in servers.items() if s.datadir}
    return {n: s.usage() | logs.get(n, {}) for n, s in servers.items()}


def _used(before: dict, after: dict) -> dict[str, dict[str, float]]:
    return {n: {k: round(after[n][k] - v, 3) for k, v in b.items()} for n, b in before.items()}


def load_argv(s: Slice, seconds: float) -> list[str]:
    """argv of the sysbench that loads a slice's server."""
    return workloads.sysbench(
        s.workload,
        s.server.folder / "sysbench.cnf",
        tables=s.study.tables,
        rows=s.study.profile.rows,
        threads=s.threads,
        seconds=seconds,
        options=s.arm.options,
    )


def sysbench(s: Slice) -> dict:
    """One sysbench run, here or from several clients; text in ``sysbench.txt`` (``sysbench-1.txt``
    …), usage of the measured and the idle servers."""
    argv = load_argv(s, s.seconds)
    meters = {"server": s.server, **s.idle}
    pool, disk = _pool(s.server), _disk(s)
    stolen, before = steal(), _meter(meters)

    def begun() -> None:
        # five hundred connections with their statements cost as much as a second of transactions
        before.update(_meter(meters))
        pool.update(_pool(s.server) if pool else {})

    patience, out = 3 * s.seconds + PATIENCE_S, s.folder / "sysbench.txt"
    if s.workload.clients:
        argv, code, cpu = s.kit.load(s, begun)
    elif s.gated:
        stolen = steal()
        s.gated.go()
        begun()
        code, text, cpu = s.gated.wait(patience)
        out.write_text(text)
    else:
        code, _, cpu = _run(argv, patience, out, begun)
    found = {
        "argv": workloads.shown(argv),
        "exit_code": code,
        "usage": _used(before, _meter(meters)),
        "client_cpu_s": cpu,
        "steal_s": round(steal() - stolen, 3),
    }
    found |= {"pool": _used({"": pool}, {"": _pool(s.server)})[""]} if pool else {}
    return found | ({"disk": _used({"": disk}, {"": _disk(s)})[""]} if disk else {})


WINDOWS = "windows.csv"  # of a run of a duet
EDGE = "t_s,transactions,cpu_s,written_B,read_B,binlog_B\n"
SPARE_S = 0.5  # that a duet's load goes on beyond its last window


def duet(both: list[Slice], folder: Path, windows: int, window_s: float) -> list[dict]:
    """Both servers under load at the same time, for `windows` windows behind one that warms up: what
    stands in each run.json. Counters at the edges of the windows in ``windows.csv``."""
    seconds = math.ceil(window_s * (windows + 1) + SPARE_S)  # sysbench counts whole ones
    argvs = [load_argv(s, seconds) for s in both]
    loads: list[Gated] = []
    try:
        for i, (s, argv) in enumerate(zip(both, argvs, strict=True)):
            loads.append(Gated(argv, s.threads, folder / f"gate{i}", s.folder / "sysbench.txt"))
        for load_ in loads:
            load_.connected()
        stolen = steal()
        meters = [_meter({"server": s.server})["server"] for s in both]
        for load_ in loads:
            load_.go()
        began = time.monotonic()
        edges: list[list[str]] = [[], []]
        for k in range(1, windows + 2):  # the first one warms up
            time.sleep(max(0.0, began + k * window_s - time.monotonic()))
            for s, rows in zip(both, edges, strict=True):
                rows.append(_edge(s.server, began))
        ends = [_meter({"server": s.server})["server"] for s in both]
        done = [x.wait(began + seconds + PATIENCE_S - time.monotonic()) for x in loads]
    finally:
        for load_ in loads:
            load_.end()
    found = []
    for s, argv, rows, before, after, (code, _, cpu) in zip(
        both, argvs, edges, meters, ends, done, strict=True
    ):
        (s.folder / WINDOWS).write_text(EDGE + "".join(rows))
        found.append(
            {
                "argv": workloads.shown(argv),
                "exit_code": code,
                "usage": {"server": {k: round(after[k] - v, 3) for k, v in before.items()}},
                "client_cpu_s": cpu,
                "steal_s": round(steal() - stolen, 3),
                "windows": windows,
                "window_s": window_s,
            }
        )
    return found


def _edge(server: Server, began: float) -> str:
    """A line of `WINDOWS`: what the server has done and used so far."""
    used, done = server.usage(), server.status("Com_commit")["Com_commit"]
    at = time.monotonic() - began
    bytes_ = f"{used['written_B']},{used['read_B']},{_binlog_bytes(server)}"
    return f"{at:.4f},{done:.0f},{used['cpu_s']:.6f},{bytes_}\n"


SAMPLE_S = 0.1  # between two looks at the throughput of a server that warms up


def restart(s: Slice) -> dict:
    """kill -9 under load once so much redo lies behind the last checkpoint, the recovery, then a clean
    restart and the warm-up after it.

    Seconds until the first answered query, both times; transactions per second since the restart in
    ``throughput.csv``, the load's text in ``load.txt``."""
    server, settings = s.server, dict(s.workload.settings) | dict(s.arm.switch)
    with _loaded(s, "killed.txt") as load:
        age = _redo_since(server, 1e6 * s.workload.redo_mb, load)
        ended = load.poll() is not None
        server.kill()
    recovery_s = server.start()
    if ended:
        raise ToolError(_last((s.folder / "killed.txt").read_text(errors="replace")))
    stop_s = server.stop()
    restart_s = server.start()
    server.set(settings)
    with _loaded(s, "load.txt") as load:
        rows = _throughput(server, s.seconds)
        if load.poll() is not None:
            raise ToolError(_last((s.folder / "load.txt").read_text(errors="replace")))
    if not any(n for _, n in rows[len(rows) // 2 :]):
        raise ToolError("the load on the server stood still")
    table = "".join(f"{t:.3f},{n:.1f}\n" for t, n in rows)
    (s.folder / "throughput.csv").write_text(f"t_s,tps\n{table}")
    cut = stats.within.mser5([n for _, n in rows])
    return {
        "argv": workloads.shown(load_argv(s, s.seconds)),
        "exit_code": 0,
        "usage": {"server": server.usage()},
        "stop_s": round(stop_s, 3),
        "restart_s": round(restart_s, 3),
        "recovery_s": round(recovery_s, 3),
        "warmup_s": round(rows[max(cut - 1, 0)][0], 3),
        "checkpoint_age_B": age,
        "data_B": sum(p.stat().st_size for p in server.datadir.rglob("*.ibd")),
    }


@contextlib.contextmanager
def _loaded(s: Slice, name: str) -> Iterator[subprocess.Popen]:
    """The server under the workload's load until the end of the block; its text goes to `name`."""
    with open(s.folder / name, "wb") as text:
        load = subprocess.Popen(
            load_argv(s, math.ceil(s.seconds + 2 * PATIENCE_S)),
            stdin=subprocess.DEVNULL,
            stdout=text,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    try:
        yield load
    finally:
        load.kill()  # without its server it ends, but slowly
        load.wait()


def _redo_since(server: Server, wanted_B: float, load: subprocess.Popen) -> float:
    """Wait until so many bytes of redo were written since the last checkpoint, or the load has ended;
    how many there are."""
    began = time.monotonic()
    while True:
        now, checkpoint = server.redo()
        if now - checkpoint >= wanted_B or load.poll() is not None:
            return now - checkpoint
        if time.monotonic() - began > PATIENCE_S:
            raise ToolError(
                f"{(now - checkpoint) / 1e6:.1f} of {wanted_B / 1e6:g} MB of redo since the last"
                f" checkpoint after {PATIENCE_S:g} s"
            )
        time.sleep(0.02)


def _throughput(server: Server, seconds: float) -> list[tuple[float, float]]:
    """Transactions per second so far, sampled: (seconds since the first look, value)."""
    began = time.monotonic()
    at, count, rows = 0.0, server.status("Com_commit")["Com_commit"], []
    while at < seconds:
        time.sleep(SAMPLE_S)
        now, total = time.monotonic() - began, server.status("Com_commit")["Com_commit"]
        rows.append((now, (total - count) / (now - at)))
        at, count = now, total
    return rows


def cipher_rates(cipher: Mapping[str, str]) -> list[float]:
    """Bytes a second of processor time of a cipher alone in memory, by `openssl speed` three times for
    a second; [] where this machine's openssl does not have it."""
    stage = workloads.speed({"cipher": cipher["name"]}, 1, cipher.get("option") == "-decrypt")
    texts = [_run([*stage.argv], PATIENCE_S)[1] for _ in range(3)]
    return [r for r in map(tidy.cipher_rate, texts) if r]


_SIGNATURES = {"RSA": "rsa{}", "P-256": "ecdsap256"}


def signature_rates(keys: set[str]) -> dict[str, list[float]]:
    """{key: signatures a second of processor time, by `openssl speed` three times for a second}; without
    the keys that this machine's openssl does not have."""
    found = {}
    for key in sorted(keys):
        kind, _, bits = key.partition(" ")
        name = _SIGNATURES[kind].format(bits)
        argv = ["openssl", "speed", "-mr", "-seconds", "1", name]
        texts = [_run(argv, PATIENCE_S)[1] for _ in range(3)]
        rates = [
            float(m[1]) for t in texts if (m := re.search(r"^\+F[24]:\d+:\d+:([\d.]+):", t, re.M))
        ]
        found |= {key: rates} if len(rates) == len(texts) else {}
    return found


_TOLD = {
    "release": "version_comment",
    "machine": "version_compile_machine",
    "system": "version_compile_os",
    "zlib": "version_compile_zlib",
    "allocator": "version_malloc_library",
}
_LOADED = r"lib(?:ssl|crypto|z|stdc\+\+|c|jemalloc|tcmalloc\w*|mimalloc|aio|uring)[-.\d]*\.so[.\d]*"


def built(server: Server) -> dict[str, str]:
    """How the program of a running server was made: what it says itself, the compilers that are named
    in it, and the libraries that it has loaded. What is not told is left out."""
    told = server.variables()
    found = {k: told[v] for k, v in _TOLD.items() if told.get(v)}
    texts = {r["Variable_name"].lower(): r["Value"] for r in server.query("SHOW GLOBAL STATUS")}
    tls = texts.get("tls_library_version") or told.get("version_ssl_library")
    found |= {"OpenSSL": tls} if tls else {}
    maps = Path(f"/proc/{server.pid}/maps").read_text().splitlines()
    loaded = {Path(m.split(maxsplit=5)[5]) for m in maps if "/" in m}
    named: set[bytes] = set()
    for program in (p for p in loaded if p.name in ("mysqld", "mariadbd")):
        text = program.read_bytes()
        named |= set(re.findall(rb"GCC: \([^)]{1,60}\) [\d.]+|clang version [\d.]+", text))
    found |= {"compiler": ", ".join(sorted(n.decode() for n in named))} if named else {}
    libraries = sorted(p.name for p in loaded if re.fullmatch(_LOADED, p.name))
    return found | {"libraries": ", ".join(libraries)}


def upgrade(old: Server, build: Engine, folder: Path) -> dict:
    """A copy of a stopped server's data directory opened by another build: seconds until it
    answers, checksums of all tables before and after, and what the server said."""
    before = old.copy(folder / "before")
    with before:
        sums = checksums(before)
        before.stop()
    after = before.copy(folder / "after")
    after.engine = build
    found = {"from": label(old.engine), "to": label(build), "took_s": None, "checksums": ""}
    try:
        try:
            found["took_s"] = round(after.start(timeout=600), 2)
            found["checksums"] = "equal" if checksums(after) == sums else "different"
        finally:
            found["said"] = after.said(r"\[ERROR\]|[Uu]pgrad")
    except ServerError as e:
        found["refused"] = str(e)
    finally:
        before.remove()
        after.remove()
    return found


def checksums(server: Server) -> dict[str, object]:
    """CHECKSUM TABLE of every table in the measuring schema."""
    tables = server.query(
        "SELECT TABLE_NAME AS t FROM information_schema.tables WHERE TABLE_SCHEMA = :schema",
        schema=workloads.SCHEMA,
    )
    names = ", ".join(f"{workloads.SCHEMA}.{r['t']}" for r in tables)
    return {r["Table"]: r["Checksum"] for r in server.patient(f"CHECKSUM TABLE {names}")}


LOADERS = 16  # threads that pile up what a replica has to catch up with


def replica(s: Slice) -> dict:
    """Transactions caught up by a replica that had been cut off: from the first event that its source
    sends to the last one applied.

    Text of the load in ``sysbench.txt``; the seconds to catch up stand in the result."""
    source, replica = s.server, s.replica
    replica.query("STOP REPLICA")
    argv = workloads.sysbench(
        s.workload,
        source.folder / "sysbench.cnf",
        tables=s.study.tables,
        rows=s.study.profile.rows,
        threads=LOADERS,
        events=s.workload.events,
    )
    fast = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "2"}  # nothing is measured yet
    before = {k: v for k, v in source.variables().items() if k in fast}
    source.set(fast)
    code, text, _ = _run(argv, 5 * PATIENCE_S, s.folder / "sysbench.txt")
    source.set(before)
    if code:
        raise ToolError(_last(text))
    wanted = source.query("SELECT @@global.gtid_executed AS g")[0]["g"]
    meters = {"replica": replica, "source": source, **s.idle}
    stolen, used = steal(), _meter(meters)
    began = time.monotonic()
    replica.query("START REPLICA")
    _wait(lambda: _applied(replica, wanted), "the replica did not catch up", 5 * PATIENCE_S)
    took = time.monotonic() - began
    result = {
        "argv": workloads.shown(argv),
        "exit_code": code,
        "usage": _used(used, _meter(meters)),
        "slice_s": round(took, 4),
        "apply_s": round(took, 4),
        "steal_s": round(steal() - stolen, 3),
    }
    proof = evidence.collect(replica, s.arm.expect | {"relay log": s.arm.expect["binlog"]})
    for server in (source, replica):
        server.purge()
    return result | {"replica_evidence": proof["checks"]}


def _applied(replica: Server, gtids: str) -> bool:
    """Whether all of `gtids` are applied, waiting for them up to a second. Raises ToolError when
    the applier stopped."""
    late = replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(:g, 1) AS x", g=gtids)[0]["x"]
    failed = late and replica.query(
        "SELECT LAST_ERROR_MESSAGE AS e FROM performance_schema.replication_applier_status_by_worker"
        " WHERE LAST_ERROR_NUMBER <> 0"
    )
    if failed:
        raise ToolError(f"the replica's applier stopped: {failed[0]['e']}")
    return not late


def _wait(condition: Callable[[], object], sentence: str, limit_s: float = PATIENCE_S) -> None:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit_s:
            raise ToolError(f"{sentence} within {limit_s:g} s")
        time.sleep(0.02)


def attach(replica: Server, source: Server) -> None:
    """Make `replica` follow `source` over loopback TCP, with a user of its own."""
    password = secrets.token_urlsafe(18)
    source.script(
        f"CREATE USER replica@'127.0.0.1' IDENTIFIED BY '{password}'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
    )
    replica.query(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=:port,"
        " SOURCE_USER='replica', SOURCE_PASSWORD=:password, SOURCE_AUTO_POSITION=1,"
        " GET_SOURCE_PUBLIC_KEY=1",
        port=source.port,
        password=password,
    )
    replica.query("START REPLICA")


SAMPLES_PER_S = 997  # of each of the server's threads that runs; no multiple of its timers


def profile(s: Slice) -> dict:
    """One sysbench run with `perf` beside it: which functions of the server, and of the kernel for it,
    its processor time was spent in. Samples by function in ``perf.csv``. Raises NotHere."""
    perf = which("perf")
    if not perf:
        raise NotHere(s.workload.name, "perf is missing (package linux-perf)")
    data = s.server.folder / "perf.data"
    record = [perf, "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES_PER_S), "-o", str(data)]
    recorder = Child([*record, "-a"])  # of all: threads that are made meanwhile would be missed
    try:
        found = sysbench(s)
        recorder.process.send_signal(signal.SIGINT)
        code, said, _ = recorder.wait(PATIENCE_S)
        if not data.exists() or code not in (0, -signal.SIGINT):
            raise NotHere(s.workload.name, f"perf recorded nothing: {_last(said)}")
        report = [perf, "report", "-i", str(data), "--stdio", "-q", "--no-children"]
        report += ["-F", "sample,sym", "-t", ";", "--pid", str(s.server.pid)]
        code, said, _ = _run(report, PATIENCE_S)
    finally:
        recorder.end()
        data.unlink(missing_ok=True)
    rows = re.findall(r"(?m)^\s*(\d+)\s*;\s*\[(.)\]\s+(\S.*?)\s*$", said)
    if code or not rows:
        raise NotHere(s.workload.name, f"perf reported nothing: {_last(said)}")
    with open(s.folder / "perf.csv", "w", newline="") as file:
        csv.writer(file).writerows([("samples", "of", "function"), *rows])
    return found


TOOLS: dict[str, Callable[[Slice], dict]] = {
    "sysbench": sysbench,
    "replica": replica,
    "restart": restart,
    "profile": profile,
}
