"""What to compare: metrics, arms, workloads, studies and profiles. Data only, no behaviour."""

import csv
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import get_args, get_origin


@dataclass(frozen=True)
class Metric:
    """One measured quantity: base unit inside (`unit`), shown in `shown_unit` = base * `scale`."""

    name: str
    label: str
    unit: str
    better: str  # "higher" or "lower"
    shown_unit: str = ""
    scale: float = 1.0
    judged: bool = True  # maximum latency is shown and never judged


METRICS = {
    m.name: m
    for m in (
        Metric("tps", "Transactions per second", "1/s", "higher", "TPS"),
        Metric("cpu_per_transaction", "Server CPU per transaction", "s", "lower", "ms", 1e3),
        Metric("p95", "95th percentile latency", "s", "lower", "ms", 1e3),
        Metric("p99", "99th percentile latency", "s", "lower", "ms", 1e3),
        Metric("mean_latency", "Mean latency", "s", "lower", "ms", 1e3),
        Metric("max_latency", "Maximum latency", "s", "lower", "ms", 1e3, judged=False),
        Metric("binlog_bytes_per_transaction", "Binary log per transaction", "B", "lower", "B"),
        Metric("written_bytes_per_transaction", "Written per transaction", "B", "lower", "B"),
        Metric("read_bytes_per_transaction", "Read from disk per transaction", "B", "lower", "B"),
        Metric("restart_s", "Clean restart", "s", "lower", "s"),
        Metric("recovery_s", "Crash recovery", "s", "lower", "s"),
        Metric("warmup_s", "Warm-up", "s", "lower", "s"),
        Metric("checkpoint_age", "Redo since checkpoint", "B", "lower", "MB", 1e-6, judged=False),
        Metric("data_size", "Data files", "B", "lower", "MB", 1e-6, judged=False),
        Metric("queued", "Queries queued by the pool", "1", "lower", "a transaction", judged=False),
        Metric(
            "stalled", "Stalled queries in the pool", "1", "lower", "a transaction", judged=False
        ),
        Metric("apply_rate", "Replica apply rate", "1/s", "higher", "transactions/s"),
        Metric("apply_cpu", "Replica CPU per transaction", "s", "lower", "ms", 1e3),
        Metric("wall", "Wall time", "s", "lower", "s"),
        Metric("user_sys", "CPU time (user + sys)", "s", "lower", "s"),
        Metric("backup_size", "Size of the backup", "B", "lower", "MB", 1e-6),
        Metric("connections_per_second", "Connections per second", "1/s", "higher", "1/s"),
        Metric("cpu_per_connection", "Server CPU per connection", "s", "lower", "ms", 1e3),
        Metric("connect_time", "Time to connect", "s", "lower", "ms", 1e3),
        Metric(
            "client_cpu_per_connection",
            "Client CPU per connection",
            "s",
            "lower",
            "ms",
            1e3,
            judged=False,
        ),
        Metric("value", "Value", "", "higher", ""),
    )
}


@dataclass(frozen=True)
class Arm:
    """One side of a comparison.

    `switch`: variables set by SQL on a live server (switched design); `settings`: my.cnf lines
    (side by side design); `options`: the client's own sysbench options; `prepare`: SQL that makes
    this arm's data directory out of the loaded one; `how`: what a tool with stages or routes is
    told (cipher, key, tunnel); `expect`: evidence name -> state that every run must show; `prove`:
    the same for evidence that takes its time, once for every start of the server; `engine`: the
    arm's own build, "" for the study's; `environment`: variables of the server's process; `pin`:
    the arm whose values this one gets wherever the two builds' defaults differ.
    """

    name: str
    switch: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    how: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, str] = field(default_factory=dict)
    prove: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    pin: str = ""


@dataclass(frozen=True)
class Workload:
    """What is measured, under the same conditions for both arms.

    `settings` are dynamic variables; `writes_per_s` and `reads_per_s` throttle the disk; `threads`
    is a family of comparisons; `deciding` are the metrics whose verdicts end the campaign; `stretch`: its slices are so many times longer; `share`: the part of
    every table's rows that it touches; `arms`: those it is measured for, () for all; `sized`: whether its script
    takes ``--tables`` and ``--table-size``; `digest`: sha256 of a script of the user's own; `clients`:
    hosts that load, one sysbench each, 0 for the one that measures.
    """

    name: str
    why: str
    tool: str = "sysbench"
    script: str = "oltp_read_write"
    options: tuple[str, ...] = ("--rand-type=uniform",)
    threads: tuple[int, ...] = (4,)
    settings: Mapping[str, str] = field(default_factory=dict)
    writes_per_s: int | None = None
    reads_per_s: int | None = None
    metrics: tuple[str, ...] = (
        "tps",
        "cpu_per_transaction",
        "p95",
        "p99",
        "binlog_bytes_per_transaction",
    )
    deciding: tuple[str, ...] = ("tps", "cpu_per_transaction")
    stretch: int = 1
    share: float = 1.0
    arms: tuple[str, ...] = ()
    distance_ms: int | None = None  # of a link between client and server; None: the same machine
    sized: bool = True
    digest: str = ""
    clients: int = 0

    @property
    def throttled(self) -> bool:
        """Whether the disk is made slow."""
        return bool(self.writes_per_s or self.reads_per_s)


@dataclass(frozen=True)
class Profile:
    """How long and how finely to measure. Whole seconds (sysbench's --time), except `budget_min`
    and `settle_s`.

    `blocks`: starts of the server that a campaign declares, for each arm; 0: it declared none."""

    name: str
    budget_min: float
    slice_s: float
    warmup_s: float
    settle_s: float
    blocks: int
    rows: int
    threads: tuple[int, ...]


PROFILES = {
    p.name: p
    for p in (
        Profile("smoke", 0.35, 1, 1, 0.2, 2, 1_000, (4,)),
        Profile("quick", 3, 2, 1, 0.3, 8, 20_000, (4,)),
        Profile("standard", 20, 3, 3, 1.5, 10, 100_000, (1, 4, 16, 64)),
        Profile("full", 720, 300, 30, 10, 10, 100_000, (4,)),
    )
}

AGAIN = " again"  # the A/A control: a verbatim copy of the baseline as an arm


@dataclass(frozen=True)
class Study:
    """What to compare, readable in one screen.

    `pairs`: measure so many pairs a comparison whatever they say (calibration), instead of until
    the verdict is there. `upgrade`: also open the baseline's data directory with the arms' build.
    `kit`: what its tools keep between runs (archives, keys, tunnels); `facts`: what the kit measures
    once a campaign, shown and never judged; `floor`: metric ->
    start-to-start CV in percent and its degrees of freedom, for a server that is never restarted;
    `floor_from`: whose, in words."""

    name: str
    title: str
    question: str
    baseline: Arm
    arms: tuple[Arm, ...]
    workloads: tuple[Workload, ...]
    design: str
    profile: Profile
    settings: Mapping[str, str] = field(default_factory=dict)
    tables: int = 5
    keyring: bool = False
    margin_pct: float = 2.0
    pairs: int = 0
    upgrade: bool = False
    kit: str = ""
    facts: tuple[str, ...] = ()
    reach: Mapping[str, float] = field(default_factory=dict)
    floor: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    floor_from: str = ""

    @property
    def control(self) -> Arm:
        """The A/A control arm."""
        return replace(self.baseline, name=self.baseline.name + AGAIN)

    def arm(self, name: str) -> Arm:
        """The arm, baseline or control called `name`."""
        return {a.name: a for a in (self.baseline, self.control, *self.arms)}[name]

    def workload(self, name: str) -> Workload:
        """The workload called `name`."""
        return {w.name: w for w in self.workloads}[name]


class StudyError(ValueError):
    """A parameter that a study does not allow: given, allowed, what was done."""


# 2,048 clients, each with some fifty prepared statements
_MANY = {"max_connections": "2200", "max_prepared_stmt_count": "1000000"}
# durable writes, no surprises from the machine's size; everything else is the server's default
_SERVER = {"innodb_buffer_pool_size": "256M"} | _MANY


def binlog_encryption(
    profile: str = "quick",
    engine: str = "mysql",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
) -> Study:
    """Binary log encryption, off against on (source: an 8.0.45 study, 4 threads, 300 s)."""
    chosen = _profile(profile, budget_min)
    threads = tuple(threads) or chosen.threads
    mariadb = engine == "mariadb"
    plain, encrypted = (
        Arm(name, expect={"binlog": name}, **{"settings" if mariadb else "switch": {switch: value}})
        for switch in ("encrypt_binlog" if mariadb else "binlog_encryption",)
        for name, value in (("plain", "OFF"), ("encrypted", "ON"))
    )
    few = (4,) if 4 in threads else threads[:1]
    durable = {"sync_binlog": "1"}
    main = Workload(
        "in memory",
        "Every commit synced to the log (sync_binlog=1), data in memory: the processor is busy.",
        threads=threads,
        settings=durable,
    )
    more = (
        Workload(
            "sync_binlog=0",
            "The log is left to the operating system: commits wait for nothing, so a cost of the"
            " processor has nowhere to hide.",
            threads=few,
            settings={"sync_binlog": "0"},
        ),
        Workload(
            "throttled disk",
            "At most 200 writes a second, sync_binlog=1: an I/O-bound server, as on a slow volume.",
            threads=few,
            settings=durable,
            writes_per_s=200,
            stretch=2,
            deciding=("tps",),
        ),
        Workload(
            "replica",
            "The replica's applier is stopped, transactions pile up in its relay log, it starts"
            " again: transactions caught up per second, both servers' logs plain or encrypted.",
            tool="replica",
            script="oltp_write_only",
            threads=few,
            settings=durable,
            metrics=("apply_rate", "apply_cpu"),
            deciding=("apply_rate",),
        ),
    )
    if mariadb:  # encrypt_binlog needs a restart: side by side, and no pair of pairs for a replica
        more = more[:2]
    if chosen.name in ("smoke", "quick"):
        more = ()
    return Study(
        name="binlog-encryption",
        title="Binary log encryption",
        question="What does encrypting the binary log cost?",
        baseline=plain,
        arms=(encrypted,),
        workloads=(main, *more),
        design="side by side" if mariadb else "switched",
        profile=chosen,
        settings=_SERVER | ({"log_bin": "binlog"} if mariadb else {}),
        keyring=True,
        margin_pct=margin_pct,
    )


# rounds of hashing that add about so many percent to a transaction's processor time; what they
# really add is measured by the heaviest arm in the same campaign
INJECTED = {0.5: 43, 1.0: 87, 2.0: 174, 5.0: 435, 10.0: 870, 50.0: 4350}


def calibration(
    profile: str = "quick",
    engine: str = "mysql",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
    *,
    design: str = "side by side",
    injected: tuple[float, ...] = (),
    pairs: int = 30,
) -> Study:
    """The instrument against a truth that is known: two identical servers (no `injected`), or
    known slowdowns in percent, in one of the three designs."""
    chosen = _profile(profile, budget_min or 600)
    short = chosen.name in ("smoke", "quick")
    seconds = 1 if short else 2
    chosen = replace(chosen, slice_s=seconds, settle_s=0.3 if short else 0.5)

    def arm(name: str, rounds: int = 0) -> Arm:
        return Arm(name, options=(f"--work={rounds}",), expect={})

    arms = [arm(f"+{p:g} %", INJECTED[p]) for p in injected] or [arm("other server")]
    main = Workload(
        "read/write",
        "oltp_read_write with a known amount of work added to every transaction.",
        script="work.lua",
        threads=tuple(threads) or (4,),
        settings={"sync_binlog": "1"},
        metrics=("tps", "cpu_per_transaction", "p95", "p99"),
    )
    kind = f"known slowdowns, {design}" if injected else "two identical servers"
    return Study(
        name=f"calibration-{design.replace(' ', '-') if injected else 'aa'}",
        title=f"Calibration: {kind}",
        question="Is the instrument honest on this machine?",
        baseline=arm("nothing added" if injected else "one server"),
        arms=tuple(arms),
        workloads=(main,),
        design=design,
        profile=chosen,
        settings=_SERVER,
        margin_pct=margin_pct,
        pairs=6 if short else pairs,
    )


# OpenSSL's word for the processor's abilities, without AES-NI and carry-less multiplication
MASK_AES = {"OPENSSL_ia32cap": "~0x200000200000000"}

_ROW_B = 240  # a row of sysbench on disk, with its index


def tablespace_encryption(
    profile: str = "quick",
    engine: str = "mysql",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
) -> Study:
    """Tablespace encryption on ten times more data than the buffer pool holds, and in memory
    (source: Percona Server 8.0, oltp_read_only, 1 to 2,048 threads, 300 s)."""
    chosen = _profile(profile, budget_min)
    rows = {"smoke": 20_000, "quick": 60_000, "standard": 200_000, "full": 2_000_000}
    chosen = replace(chosen, rows=rows[chosen.name])
    if chosen.name == "standard":  # short slices: three arms need ten blocks each
        chosen = replace(chosen, slice_s=2, warmup_s=2, threads=(1, 4, 64))
    source = (1, 4, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)
    counts = tuple(threads) or (source if chosen.name == "full" else chosen.threads)
    few = (4,) if 4 in counts else counts[:1]
    tables = 5
    pool = max(5, round(chosen.rows * tables * _ROW_B / 10 / 2**20))
    plain, only, everything = _tablespace_arms(engine == "mariadb", tables)
    arms = (only, everything)
    if chosen.name in ("standard", "full"):
        arms += (
            replace(
                everything,
                name="everything, AES masked",
                environment=MASK_AES,
                prove=everything.prove | {"AES": "masked"},
            ),
        )
    reads = ("tps", "cpu_per_transaction", "p95", "p99", "read_bytes_per_transaction")
    writes = ("tps", "cpu_per_transaction", "p95", "p99", "written_bytes_per_transaction")
    main = Workload(
        "larger than memory",
        "Ten times more data than the buffer pool, read past the system's cache (O_DIRECT): nearly"
        " every page is read from disk, and decrypted.",
        script="oltp_read_only",
        threads=counts,
        metrics=reads,
    )
    memory = replace(
        main,
        name="in memory",
        why="A twentieth of the rows, half of the buffer pool: nothing is read or decrypted, so this"
        " half is the control of the other one.",
        threads=counts if chosen.name == "full" else few,
        share=0.05,
        stretch=2,
        metrics=reads[:-1],
        arms=(only.name,),
    )
    extra = (
        memory,
        Workload(
            "read and write",
            "Pages are encrypted on their way down as well.",
            threads=few,
            metrics=writes,
        ),
        Workload(
            "write only",
            "Writing, and the reads that writing needs.",
            script="oltp_write_only",
            threads=few,
            metrics=writes,
        ),
        replace(
            main,
            name="throttled disk",
            why="At most 1,000 reads a second, as on a slow cloud volume: does waiting hide the"
            " cost?",
            threads=few,
            reads_per_s=1000,
            stretch=2,
            deciding=("tps",),
        ),
        Workload(
            "restart",
            "A clean restart, the warm-up after it, then kill -9 while transactions are written:"
            " seconds until the server answers again.",
            tool="restart",
            threads=few,
            metrics=("restart_s", "recovery_s", "warmup_s"),
            deciding=("restart_s", "recovery_s"),
            stretch=2,
        ),
    )
    extra = tuple(replace(w, arms=w.arms or (everything.name,)) for w in extra)
    if chosen.name == "smoke":
        extra = extra[-1:]
    if chosen.name == "quick":
        arms, extra = (only,), ()
    settings = _MANY | {
        "innodb_buffer_pool_chunk_size": "1M",
        "innodb_buffer_pool_size": f"{pool}M",
        "innodb_flush_method": "O_DIRECT",
        "sync_binlog": "1",
    }
    return Study(
        name="tablespace-encryption",
        title="Tablespace encryption",
        question="What does encrypting the tables cost, and what encrypting everything?",
        baseline=plain,
        arms=arms,
        workloads=(main, *extra),
        design="side by side",
        profile=chosen,
        settings=settings | ({"log_bin": "binlog"} if engine == "mariadb" else {}),
        tables=tables,
        keyring=True,
        margin_pct=margin_pct,
    )


def _tablespace_arms(mariadb: bool, tables: int) -> tuple[Arm, Arm, Arm]:
    """Nothing, the tables alone (the source's arm), and everything that InnoDB writes."""
    how = "ENCRYPTED=YES" if mariadb else "ENCRYPTION='Y'"
    names = [*(f"sbtest{i + 1}" for i in range(tables)), "canary"]
    alter = tuple(f"ALTER TABLE noisefloor.{n} {how}" for n in names)
    if mariadb:
        settings = {"innodb_encrypt_log": "ON", "encrypt_binlog": "ON", "encrypt_tmp_files": "ON"}
        settings |= {"innodb_encrypt_tables": "ON", "innodb_encryption_threads": "1"}
        whole = alter
    else:
        settings = {"innodb_redo_log_encrypt": "ON", "innodb_undo_log_encrypt": "ON"}
        settings |= {"binlog_encryption": "ON"}
        whole = (*alter, "ALTER TABLESPACE mysql ENCRYPTION='Y'")
    always = {"TLS": "off"} | ({} if mariadb else {"keyring": "active"})

    def arm(name, table, logs, **more):
        expect = always | {"tablespace": table, "binlog": logs}
        prove = {"table file": table, "redo log": logs, "undo log": logs}
        if not mariadb:
            prove["doublewrite"] = table
        return Arm(name, expect=expect, prove=prove, **more)

    return (
        arm("plain", "plain", "plain"),
        arm("tables only", "encrypted", "plain", prepare=alter),
        arm("everything", "encrypted", "encrypted", prepare=whole, settings=settings),
    )


def _called(engine: str, label: str) -> str:
    """The usual name of a build, unless what was found is another one."""
    usual = {"mysql": "MySQL 9.7", "mysql-8.0": "MySQL 8.0", "mariadb": "MariaDB"}.get(engine, "")
    if usual and (not label or label.startswith(usual)):
        return usual
    return label or engine.rstrip("/").rpartition("/")[2]


def version_upgrade(
    profile: str = "quick",
    engine: str = "mysql",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
    old: str = "mysql-8.0",
    builds: Mapping[str, tuple[str, str]] = {},
) -> Study:
    """From one server build to another, one factor at a time: the version with the old one's
    values, its own defaults, the thread pool (source: MySQL 8.0.42 against 8.4.5, both with
    thread pool, 64 to 500 threads, 100 s).

    `builds`: what stands behind `engine` and `old` on this machine, as (kind, label)."""
    chosen = _profile(profile, budget_min)
    chosen = replace(chosen, rows={"smoke": 10_000, "quick": 50_000}.get(chosen.name, 100_000))
    if chosen.name == "standard":
        chosen = replace(chosen, slice_s=2, warmup_s=2)
    source = (64, 100, 200, 300, 500)
    few = {"smoke": (8,), "quick": (64,), "standard": (64, 200, 500)}
    kinds = [builds[e][0] if e in builds else e for e in (old, engine)]
    was, now = (_called(e, builds.get(e, ("", ""))[1]) for e in (old, engine))
    if was == now:
        was, now = f"{was} (old)", f"{now} (new)"
    # from the source's my.cnf; the stall limit counts 10 ms in MySQL and 1 ms in MariaDB
    pool = {
        "plugin_load_add": "thread_pool.so",
        "thread_pool_size": "16",
        "thread_pool_algorithm": "1",
        "thread_pool_max_transactions_limit": "512",
        "thread_pool_query_threads_per_group": "2",
        "thread_pool_stall_limit": "6",
    }
    if kinds[1] == "mariadb":
        pool = {"thread_handling": "pool-of-threads", "thread_pool_size": "16"}
        pool |= {"thread_pool_stall_limit": "60"}
    same = {"measuring user": "without TP_CONNECTION_ADMIN", "memory": "sized by hand"}
    if set(kinds) <= {"mysql", "mysql-8.0"}:
        same["redo capacity"] = "100 MiB"
    off, on = (same | {"thread pool": state} for state in ("off", "on"))
    main = Workload(
        "read/write",
        "oltp_read_write on 5 tables, all in memory, more clients than cores.",
        threads=tuple(threads) or few.get(chosen.name, source),
        metrics=("tps", "cpu_per_transaction", "p95", "p99"),
    )
    pinned = Arm(f"{now}, old values", engine=engine, expect=off, pin=was)
    plain = Arm(now, engine=engine, expect=off)
    pooled = Arm(f"{now}, thread pool", engine=engine, expect=on, settings=pool)
    return Study(
        name="version-upgrade",
        title="Version upgrade",
        question=f"What does the step from {was} to {now} change, and which part of it is the"
        " version, the new defaults, the thread pool?",
        baseline=Arm(was, engine=old, expect=off),
        arms=(plain,) if chosen.name == "quick" else (pinned, plain, pooled),
        workloads=(main,),
        design="side by side",
        profile=chosen,
        settings=_SERVER,
        margin_pct=margin_pct,
        upgrade=True,
    )


def backup_encryption(
    profile: str = "quick",
    engine: str = "mariadb",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
    *,
    ciphers: tuple[str, ...] = (),
) -> Study:
    """Encrypted backup streams (source: innobackupex | zstd | openssl), backup and restore.

    `threads` are those of the compressor (zstd -T)."""
    chosen = _profile(profile, budget_min)
    short = chosen.name in ("smoke", "quick")
    rows = {"smoke": 2_000, "quick": 60_000}.get(chosen.name, 200_000)
    masked, unpacked = "aes-128-cbc, no AES instructions", "none, encrypted tables"
    arms = {
        name: Arm(name, how={"cipher": name})
        for name in ("aes-128-cbc", "aes-256-ctr", "chacha20", "sm4-cbc", "sm4")
    }
    arms[masked] = Arm(masked, how={"cipher": "aes-128-cbc", "mask": "AES"})
    for name, extra in (
        ("1 MiB buffers", {"bufsize": "1048576"}),
        ("1 MiB pipes", {"pipe": "1048576"}),
    ):
        arms[f"sm4-cbc, {name}"] = Arm(f"sm4-cbc, {name}", how={"cipher": "sm4-cbc"} | extra)
    mysql = engine.startswith("mysql")
    encrypt = "ENCRYPTION='Y'" if mysql else "ENCRYPTED=YES"
    arms[unpacked] = Arm(
        unpacked,
        prepare=tuple(f"ALTER TABLE noisefloor.sbtest{i} {encrypt}" for i in range(1, 5)),
        how={"cipher": "none"},
    )
    few = {"smoke": ("aes-128-cbc",), "quick": ("aes-128-cbc",)}
    wanted = tuple(ciphers) or few.get(chosen.name, tuple(arms))
    if unknown := set(wanted) - set(arms):
        raise StudyError(
            f"ciphers {', '.join(sorted(unknown))}: there are {', '.join(arms)}; nothing was measured"
        )
    common = {
        "threads": tuple(threads) or (2,),
        "metrics": ("wall", "user_sys"),
        "deciding": ("wall", "user_sys"),
    }
    copy = "clone and tar" if mysql else "mariadb-backup"
    backup = Workload(
        "backup",
        f"{copy}, zstd and openssl enc in a pipe, as in the source: from the first process to"
        " the last byte of the file.",
        tool="backup",
        **common,
    )
    restore = Workload(
        "restore",
        "The pipe backwards into an empty folder, from the arm's first archive of the block; what was"
        " unpacked is then proved, outside the clock: it is prepared, started and compared table by"
        " table, or equal to the byte to a copy that was.",
        tool="restore",
        arms=tuple(a for a in wanted if a != unpacked),
        **common,
    )
    return Study(
        name="backup-encryption",
        title="Encrypted backups",
        question="What does encrypting a backup stream cost?",
        baseline=Arm("none", how={"cipher": "none"}),
        arms=tuple(arms[a] for a in wanted),
        workloads=(backup, restore),
        design="switched",
        profile=replace(chosen, rows=rows, settle_s=0.2),
        settings=_SERVER,
        tables=4,
        keyring=True,
        margin_pct=margin_pct,
        kit="backup",
        facts=("speed", "damage") if short else ("speed", "damage", "tables"),
    )


_TLS = "TLS 1.3, RSA 2048"


def ssl_connections(
    profile: str = "quick",
    engine: str = "mysql",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
) -> Study:
    """Connections per second by kind of connection (source: the two-part connection benchmark)."""
    chosen = _profile(profile, budget_min)
    short = chosen.name in ("smoke", "quick")
    counts = tuple(threads) or ((4,) if short else (1, 4, 16, 32))
    plain = {"require_secure_transport": "OFF"}

    def route(name: str, via: str, **how: str) -> Arm:
        return Arm(name, switch=plain, how={"via": via} | how, expect={})

    def tls(version: str, key: str, more: str = "", **how: str) -> Arm:
        return Arm(
            f"TLS {version}, {key}{more}",
            switch={"require_secure_transport": "ON"},
            how={"via": "tcp", "tls": f"TLSv{version}", "key": key} | how,
        )

    arms = {
        a.name: a
        for a in (
            route("socket", "socket"),
            tls("1.2", "RSA 2048"),
            tls("1.3", "RSA 2048"),
            # libmariadb offers X25519 first; a server that wants another group asks once more
            tls("1.3", "RSA 2048", ", P-256 offered", groups="P-256"),
            tls("1.3", "RSA 1024"),
            tls("1.3", "RSA 4096"),
            tls("1.3", "P-256"),
            *(
                route(f"SSH {c}", "tunnel", cipher=c)
                for c in ("aes256-ctr", "aes256-cbc", "chacha20-poly1305", "aes256-gcm")
            ),
        )
    }
    offered = f"{_TLS}, P-256 offered"
    few = {
        "smoke": (_TLS, offered, "SSH aes256-ctr"),
        "quick": (_TLS, "TLS 1.3, P-256", "SSH aes256-ctr"),
    }
    wanted = few.get(chosen.name, tuple(arms))
    long = tuple(a for a in ("TLS 1.2, RSA 2048", _TLS, offered, "SSH aes256-ctr") if a in wanted)
    rate = {
        "tool": "connect",
        "metrics": ("connections_per_second", "cpu_per_connection"),
        "deciding": ("connections_per_second",),
    }
    hundred = Workload(
        "100 connections",
        "A hundred connections one after the other, as fast as possible, as in the source.",
        threads=(1,),
        options=("--events=100",),
        **rate,
    )
    sustained = Workload(
        "sustained",
        "Connect, disconnect, again, for whole seconds and from several threads.",
        threads=counts,
        arms=(_TLS, "TLS 1.3, RSA 4096", "TLS 1.3, P-256", "SSH aes256-ctr"),
        **rate,
    )
    one = Workload(
        "one request a connection",
        "Connect, one point select, disconnect: what an application without a pool does.",
        threads=(4,) if 4 in counts else counts[:1],
        options=("--queries=1",),
        arms=(_TLS,),
        **rate,
    )
    pooled = Workload(
        "pooled",
        "Point selects over connections that stay open: what encryption costs a query.",
        tool="pooled",
        script="oltp_point_select",
        threads=counts,
        arms=("socket", _TLS),
        metrics=("tps", "cpu_per_transaction"),
        deciding=("tps",),
    )
    read = replace(
        pooled,
        name="pooled, read-only",
        why="Transactions of 14 reads over connections that stay open.",
        script="oltp_read_only",
        threads=(4,),
        arms=(_TLS,),
    )
    far = tuple(
        Workload(
            f"{ms} ms away",
            f"16 threads connect over a link with {ms} ms from end to end and back.",
            threads=(16,),
            distance_ms=ms,
            arms=long,
            **rate | {"metrics": ("connections_per_second",)},
        )
        for ms in (0, 40, 170)
    )
    more = () if short else (sustained, one, pooled, read, *far)
    return Study(
        name="ssl-connections",
        title="TLS and SSH connections",
        question="What does an encrypted connection cost?",
        baseline=route("plain TCP", "tcp"),
        arms=tuple(arms[a] for a in wanted),
        workloads=(hundred, *more),
        design="switched",
        # the effects are large: many short slices
        profile=replace(chosen, rows=min(chosen.rows, 10_000), settle_s=0.1, slice_s=1, warmup_s=1),
        settings=_SERVER | {"skip_name_resolve": "ON", "max_connect_errors": "1000000"},
        tables=1,
        margin_pct=margin_pct,
        kit="connections",
        facts=("resumption", "round trips", "tunnel with -N"),
    )


# what Noisefloor starts its servers with, and what ends every connection to them
_OURS = {
    *("basedir", "bind_address", "datadir", "init_file", "lc_messages_dir", "log_error", "mysqlx"),
    *("offline_mode", "pid_file", "plugin_dir", "port", "read_only", "secure_file_priv"),
    *("skip_networking", "socket", "super_read_only", "tmpdir", "user"),
}
# act when a table is created or loaded, and the arms share the loaded tables
_AT_LOAD = {
    *("default_storage_engine", "default_table_encryption", "innodb_default_row_format"),
    *("innodb_encrypt_tables", "innodb_file_per_table", "innodb_page_size"),
}
# a live server takes these, and then works on them for a while
SLOWLY = {"innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity"}
MOST_ARMS = 15


def asked(settings: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Variable -> its values, the baseline's first, from texts ``VARIABLE=VALUE,VALUE``; a value
    that holds commas stands in single quotes. Raises StudyError."""
    found: dict[str, tuple[str, ...]] = {}
    for text in [settings] if isinstance(settings, str) else settings:
        name, equals, rest = text.partition("=")
        name = name.strip().lower().replace("-", "_")
        if not (equals and re.fullmatch(r"[a-z_][a-z0-9_.]*", name) and text.isprintable()):
            raise StudyError(
                f"{text!r}: VARIABLE=VALUE,VALUE is needed, such as binlog_encryption=OFF,ON;"
                " nothing was measured"
            )
        if name in _OURS:
            raise StudyError(
                f"{name}: without its own value Noisefloor cannot measure; nothing was measured"
            )
        if name in _AT_LOAD:
            raise StudyError(
                f"{name} acts when tables are created, and both arms share the loaded ones: the"
                " tablespace-encryption study deals each arm its own data; nothing was measured"
            )
        values = next(csv.reader([rest], quotechar="'", skipinitialspace=True)) or [""]
        values = tuple(v.strip() for v in values)
        twice = {v.casefold() for v in values}
        if name in found or len(twice) < len(values):
            raise StudyError(
                f"{text}: a variable or value stands there twice; nothing was measured"
            )
        found[name] = values
    if not any(len(v) > 1 for v in found.values()):
        raise StudyError(
            "nothing to compare: a variable with two values or more is needed, such as"
            " binlog_encryption=OFF,ON; nothing was measured"
        )
    return found


def own(
    profile: str = "quick",
    engine: str = "mysql",
    threads: tuple[int, ...] = (),
    margin_pct: float = 2.0,
    budget_min: float = 0.0,
    *,
    settings: Iterable[str] = ("sync_binlog=1,0",),
    workload: str = "oltp_read_write",
    lua: str = "",
    static: tuple[str, ...] = (),
    sized: bool = True,
    digest: str = "",
    guest: bool = False,
) -> Study:
    """Settings of the reader's own: every combination of their values against the first one. A
    variable with one value is held at it in all arms.

    `workload`: a script of sysbench; `lua`: the path of one of the reader's own instead, `digest`
    its sha256. `static`: variables that only a start of the server sets; `sized`: whether the
    script takes the tables' number and size (both found out by `collect`). `guest`: on a server that
    Noisefloor did not start, where nothing but variables can be set."""
    given = asked(settings)
    several = {n: v for n, v in given.items() if len(v) > 1}
    held = {n: v[0] for n, v in given.items() if len(v) == 1}
    combinations = [dict(zip(several, v, strict=True)) for v in product(*several.values())]
    if len(combinations) > MOST_ARMS + 1:
        raise StudyError(
            f"{len(combinations)} combinations are more than {MOST_ARMS + 1}, which no budget settles:"
            " ask about fewer variables or values at a time; nothing was measured"
        )
    start = bool(set(static) & set(several))
    base = combinations[0]

    def arm(values: Mapping[str, str]) -> Arm:
        differs = {n: v for n, v in values.items() if v != base[n]} or values
        expect = dict(values)
        if (log := values.get("binlog_encryption", values.get("encrypt_binlog"))) is not None:
            expect["binlog"] = "encrypted" if log.upper() in ("ON", "1") else "plain"
        return Arm(
            ", ".join(f"{n}={v}" for n, v in differs.items()),
            expect=expect,
            **{"settings" if start else "switch": values | (held if guest else {})},
        )

    chosen = _profile(profile, budget_min)
    if not budget_min:
        chosen = replace(chosen, budget_min=chosen.budget_min * (len(combinations) - 1))
    common = _SERVER
    if engine == "mariadb" and any("binlog" in n for n in given):
        common |= {"log_bin": "binlog"}  # its default is none
    script = Path(lua).name if lua else workload
    names = " and ".join(several)
    return Study(
        name=f"ab-{'-'.join(several)[:48]}".replace("_", "-").replace(".", "-").rstrip("-"),
        title="; ".join(f"{n}: {' or '.join(v)}" for n, v in several.items()),
        question=f"What does {'changing ' * (len(combinations) > 2)}{names} cost?",
        baseline=arm(base),
        arms=tuple(map(arm, combinations[1:])),
        workloads=(
            Workload(
                script.removesuffix(".lua"),
                "A script of the reader's own." if lua else "A script of sysbench, as it comes.",
                script=script,
                threads=tuple(threads) or chosen.threads,
                sized=sized,
                digest=digest,
            ),
        ),
        design="side by side" if start else "switched",
        profile=chosen,
        settings=common | held,
        tables=1 if script.startswith("select_random_") else 5,  # these take no more
        keyring=True,
        margin_pct=margin_pct,
    )


STUDIES = {
    "binlog-encryption": binlog_encryption,
    "tablespace-encryption": tablespace_encryption,
    "version-upgrade": version_upgrade,
    "backup-encryption": backup_encryption,
    "ssl-connections": ssl_connections,
    "own-study": own,
    "calibration-aa": partial(calibration, pairs=200),
    "calibration-switched": partial(
        calibration, design="switched", injected=(1.0, 2.0, 5.0, 10.0, 50.0), pairs=16
    ),
    "calibration-side-by-side": partial(calibration, injected=(5.0,), pairs=32),
    "calibration-duet": partial(calibration, design="duet", injected=(5.0, 50.0), pairs=32),
}


def load(name: str, **parameters: object) -> Study:
    """The study called `name` with its parameters. Raises StudyError."""
    if name not in STUDIES:
        raise StudyError(f"no study is called {name!r}; there are: {', '.join(STUDIES)}")
    _allowed(**parameters)
    return STUDIES[name](**parameters)


THREADS_MOST = 2048  # the servers of the studies take 2,200 connections


def _allowed(margin_pct=2.0, budget_min=0.0, threads=(), **others: object) -> None:
    """Raise StudyError for a number that nothing can be measured with."""

    def number(x: object) -> bool:
        return isinstance(x, int | float) and not isinstance(x, bool)

    if not (number(margin_pct) and 0 < margin_pct < 100):
        raise StudyError(
            f"margin_pct {margin_pct!r}: a number above 0 and below 100 is needed; nothing was measured"
        )
    if not (number(budget_min) and 0 <= budget_min <= 100_000):
        raise StudyError(
            f"budget_min {budget_min!r}: minutes from 0 (the profile's) to 100,000 are needed;"
            " nothing was measured"
        )
    whole = isinstance(threads, list | tuple)
    if not (whole and all(type(t) is int and 1 <= t <= THREADS_MOST for t in threads)):
        raise StudyError(
            f"threads {threads!r}: a list of whole numbers from 1 to {THREADS_MOST}, such as"
            " [1, 4, 16], is needed; nothing was measured"
        )


def first_look(study: Study, reach: Mapping[str, float]) -> Study:
    """`study` as a duet: both servers loaded at once, the fast first look, in the metrics that
    `reach` (metric -> largest honest overhead in percent, from calibration) offers.

    Raises StudyError where none of the study's metrics is offered."""
    kept = tuple(
        replace(w, metrics=offered, deciding=offered)
        for w in study.workloads
        if w.tool == "sysbench" and not w.throttled
        if (offered := tuple(m for m in w.metrics if m in reach))
    )
    if not kept:
        raise StudyError(
            f"a first look at {study.name} is refused: calibration found a duet honest for "
            f"{', '.join(reach) or 'no metric'}, and the study has none of them; nothing was measured"
        )
    return replace(study, design="duet", workloads=kept, reach=dict(reach))


def from_clients(study: Study, n: int) -> Study:
    """`study` with the load of its sysbench workloads divided over `n` client hosts.

    Raises StudyError for one without such a workload, or with fewer threads than clients."""
    loads = [w for w in study.workloads if w.tool == "sysbench" and not w.digest]
    if study.kit or not loads or study.workloads[0] not in loads:
        raise StudyError(
            f"{study.name} is not loaded by sysbench alone: --clients is for studies that are, such"
            " as binlog-encryption; nothing was measured"
        )
    if few := [t for w in loads for t in w.threads if t < n]:
        raise StudyError(
            f"{few[0]} thread{'s' * (few[0] > 1)} cannot be divided over {n} clients: give --threads,"
            f" {n} or more; nothing was measured"
        )
    told = f" The load comes from {n} client{'s' * (n > 1)}."
    kept = (replace(w, clients=n, why=w.why + told) if w in loads else w for w in study.workloads)
    return replace(study, kit="clients", workloads=tuple(kept))


# of these metrics a client sees enough; CPU per transaction where the server's process can be seen
_SEEN = ("tps", "p95", "p99", "cpu_per_transaction")


def as_guest(
    study: Study, floor: Mapping[str, tuple[float, float]], floor_from: str, *, cpu: bool
) -> Study:
    """`study` on a server that Noisefloor did not start: what a client can measure there by setting
    variables, with `floor` (`floor_from`) in place of restarts. `cpu`: whether its processor clock
    can be read.

    Raises StudyError for a study that needs more."""
    seen = _SEEN if cpu else _SEEN[:-1]
    kept = tuple(
        replace(
            w,
            metrics=tuple(m for m in w.metrics if m in seen),
            deciding=tuple(m for m in w.deciding if m in seen),
        )
        for w in study.workloads
        if w.tool == "sysbench" and not w.throttled
    )
    arms = (study.baseline, *study.arms)
    if study.design != "switched" or study.kit or not kept or not all(a.switch for a in arms):
        raise StudyError(
            f"{study.name} needs servers of its own, started and restarted by Noisefloor: on another"
            " one `binlog-encryption` (MySQL) and `ab` with variables that a live server takes can"
            " be measured; nothing was measured"
        )
    base, *others = (replace(a, expect=dict(a.switch)) for a in arms)
    return replace(
        study,
        baseline=base,
        arms=tuple(others),
        workloads=kept,
        settings={},
        keyring=False,
        floor={m: f for m, f in floor.items() if m in seen},
        floor_from=floor_from,
    )


def _profile(name: str, budget_min: float) -> Profile:
    if name not in PROFILES:
        raise StudyError(
            f"profile {name!r} is not one of {', '.join(PROFILES)}; nothing was measured"
        )
    p = PROFILES[name]
    return replace(p, budget_min=budget_min) if budget_min else p


def with_pinned(study: Study, pinned: Mapping) -> Study:
    """The study with the settings that were found for its pinned arms."""
    arms = (
        replace(a, settings=dict(a.settings) | pinned.get(a.name, {}).get("settings", {}))
        for a in study.arms
    )
    return replace(study, arms=tuple(arms))


def _is(value: object, kind: object) -> bool:
    """Whether a value has the type that a field of these dataclasses is declared with."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is tuple:
        every = inside[:1] * len(value) if inside[-1] is ... and type(value) is tuple else inside
        return type(value) is tuple and len(value) == len(every) and all(map(_is, value, every))
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _is(k, inside[0]) and _is(v, inside[1]) for k, v in value.items()
        )
    if inside:  # int | None
        return any(_is(value, k) for k in inside)
    if is_dataclass(kind):
        return isinstance(value, kind) and all(
            _is(getattr(value, f.name), f.type) for f in fields(kind)
        )
    if kind is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return type(value) is kind


def restored(meta: Mapping) -> Study:
    """The study as it stands in a campaign.json: what was compared, whatever the code says now.

    Raises StudyError where none stands there."""
    try:
        found = _restored(meta)
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise StudyError(f"the study in it cannot be read ({e!r})") from None
    if not (_is(found, Study) and found.arms and found.workloads):
        raise StudyError("the study in it has nothing to compare, or a value of a wrong type")
    if not all(w.threads for w in found.workloads):
        raise StudyError("a workload in it has no thread count")
    if not 0 < found.margin_pct < 100:
        raise StudyError("the margin in it is not above 0 and below 100 %")
    return found


def _restored(meta: Mapping) -> Study:
    def made(kind, fields):
        known = {k: v for k, v in fields.items() if k in kind.__dataclass_fields__}
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})

    arms = {n: made(Arm, a) for n, a in meta["arms"].items()}
    if odd := next((n for n, a in arms.items() if not _is(a, Arm) or a.name != n), None):
        raise ValueError(f"arm {odd!r}")
    baseline = arms[meta["baseline"]]
    return Study(
        name=meta["study"],
        title=meta["title"],
        question=meta["question"],
        baseline=baseline,
        arms=tuple(a for n, a in arms.items() if n not in (meta["baseline"], meta["control"])),
        workloads=tuple(made(Workload, w) for w in meta["workloads"]),
        design=meta["design"],
        profile=made(Profile, meta["profile"] | ({} if "plan" in meta else {"blocks": 0})),
        settings=meta["settings"],
        tables=meta["tables"],
        keyring=meta["keyring"],
        margin_pct=meta["margin_pct"],
        pairs=meta["pairs"],
        upgrade=meta.get("upgrade_path", False),
        kit=meta.get("kit", ""),
        facts=tuple(meta.get("facts", ())),
        reach=meta.get("reach", {}),
        floor={m: tuple(f) for m, f in meta.get("floor", {}).items()},
        floor_from=meta.get("floor_from", ""),
    )
