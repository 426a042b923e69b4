"""Measuring tools: each runs once under one arm, and keeps what it printed and used.

A tool gets a `Slice`, writes its text into the run's folder and returns its part of run.json: argv,
exit code, CPU and bytes of each process.
"""

import contextlib
import csv
import math
import os
import re
import signal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from noisefloor.measure import child, workloads
from noisefloor.measure.child import Child, Gated, ToolError
from noisefloor.model import Arm, Study, Workload
from noisefloor.servers import innodb
from noisefloor.servers.engines import which
from noisefloor.servers.sandbox import looks
from noisefloor.servers.server import Server
from noisefloor.servers.throttle import block_device
from noisefloor.stats.within import mser5

_SAMPLE_S = 0.1  # between two looks at the throughput of a server that warms up
_FULL = "event queue is full"  # what sysbench says when it cannot offer more
_SAMPLES_PER_S = 997  # of each core by perf; no multiple of the server's timers
LATER: Any = None  # a field of a Slice that is set when its turn comes

_Meters = Mapping[str, Mapping[str, float]]  # by server, what its process has used


class NotHere(Exception):
    """An arm or workload that this machine does not allow: its name, and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason


@dataclass
class Slice:
    """One run to make: on which server, under which arm, into which folder. `facts`: what its run.json
    has before it is made."""

    study: Study
    server: Server
    arm: Arm
    workload: Workload
    threads: int
    seconds: float
    folder: Path
    idle: Mapping[str, Server] = field(default_factory=dict)
    replica: Server = LATER
    pool: Any = LATER  # the ServerPool of its servers
    gated: Gated = LATER  # a sysbench that has its connections already
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """The variables that are set on the live server for this run."""
        return dict(self.workload.settings) | dict(self.arm.switch)


# -- what is used meanwhile ------------------------------------------------------------------------


def steal() -> float:
    """Seconds of processor time that the host took away since boot, over all cores."""
    return psutil.cpu_times().steal


def _disk_bytes(folder: Path) -> int:
    """Bytes written so far to the disk under a folder, by anybody; 0 where no single disk is."""
    device = block_device(folder)
    return 512 * int((device / "stat").read_text().split()[6]) if device else 0


def meter(servers: Mapping[str, Server]) -> dict[str, dict[str, float]]:
    """What each server's process has used so far, with the bytes in the binary logs on disk."""
    ours = {n: s.datadir.glob("binlog.[0-9]*") for n, s in servers.items() if s.datadir}
    logs = {n: {"binlog_B": sum(p.stat().st_size for p in files)} for n, files in ours.items()}
    return {n: s.usage() | logs.get(n, {}) for n, s in servers.items()}


def used(before: _Meters, after: _Meters) -> dict[str, dict[str, float]]:
    """`after` minus `before`, each as `meter` returns it, to three decimals."""
    return {n: {k: round(after[n][k] - v, 3) for k, v in b.items()} for n, b in before.items()}


def outcome(
    argv: list[str], code: int, usage: _Meters, cpu_s: float, stolen_s: float
) -> dict[str, Any]:
    """What run.json holds of a tool that ended just now. stolen_s: `steal` before its start."""
    return {
        "argv": argv,
        "exit_code": code,
        "usage": usage,
        "client_cpu_s": cpu_s,
        "steal_s": round(steal() - stolen_s, 3),
    }


# counters of the thread pool, by the value of thread_handling
_POOLS = {
    "loaded-dynamically": "SUM(QUERIES_EXECUTED) AS executed, SUM(QUERIES_QUEUED) AS queued,"
    " SUM(STALLED_QUERIES_EXECUTED) AS stalled FROM performance_schema.tp_thread_group_stats",
    "pool-of-threads": "SUM(DEQUEUES_BY_WORKER) AS executed, SUM(POLLS_BY_LISTENER) AS queued,"
    " SUM(STALLS) AS stalled FROM information_schema.thread_pool_stats",
}
# the last one that a server has is used: MariaDB counts syncs of InnoDB's log and files together
_WRITES = {
    "log_syncs": ("Innodb_data_fsyncs", "Innodb_os_log_fsyncs"),
    "pages_written": ("Innodb_pages_written",),
    "binlog_spills": ("Binlog_cache_disk_use",),
}


def _counters(run: Slice) -> dict[str, dict[str, float]]:
    """`pool`: counters of the thread pool, if a server of ours has one; `disk`: syncs of the log,
    transactions too large for the binary log's cache, pages written."""
    counters = {}
    handling = run.server.variables().get("thread_handling") if run.server.datadir else None
    if handling in _POOLS:
        (row,) = run.server.query(f"SELECT {_POOLS[handling]}")
        counters["pool"] = {k: float(v or 0) for k, v in row.items()}
    status = run.server.status(*(v for names in _WRITES.values() for v in names))
    counters["disk"] = {k: status[v] for k, names in _WRITES.items() for v in names if v in status}
    return counters


# -- sysbench --------------------------------------------------------------------------------------


def load_argv(
    run: Slice, seconds: float, option_file: Path | None = None, **changes: Any
) -> list[str]:
    """argv of the sysbench that loads a slice's server. `changes`: as `workloads.sysbench_argv` takes
    them."""
    facts, rows = run.facts, run.study.profile.rows
    seed = (f"--rand-seed={facts['arrivals']}",) if "arrivals" in facts else ()
    given: dict[str, Any] = {"tables": run.study.tables, "rows": rows, "threads": run.threads}
    given |= {"seconds": seconds, "options": (*run.arm.options, *seed)} | changes
    file = option_file or run.server.folder / "sysbench.cnf"
    return workloads.sysbench_argv(run.workload, file, **given)


def sysbench(run: Slice) -> dict[str, Any]:
    """One sysbench run, here or from several clients; text in ``sysbench.txt`` (``sysbench-1.txt``
    …), usage of the measured and the idle servers."""
    argv, meters = load_argv(run, run.seconds), {"server": run.server, **run.idle}
    counted = _counters(run)
    place = run.server.datadir
    stolen, before, disk_B = steal(), meter(meters), _disk_bytes(place) if place else 0

    def begun() -> None:
        # five hundred connections with their statements cost as much as a second of transactions
        before.update(meter(meters))
        counted.update(_counters(run) if "pool" in counted else {})

    patience, out = 3 * run.seconds + child.PATIENCE_S, run.folder / "sysbench.txt"
    text = ""
    if run.workload.clients:
        argv, code, cpu = run.pool.load(run, begun)
    elif run.gated:
        run.gated.go()
        begun()
        code, text, cpu = run.gated.wait(patience)
        out.write_text(text)
    else:
        code, text, cpu = child.run(argv, patience, out, begun)
    facts = outcome(workloads.portable(argv), code, used(before, meter(meters)), cpu, stolen)
    facts |= used(counted, _counters(run)) if counted else {}
    facts |= {"disk_written_B": _disk_bytes(place) - disk_B} if disk_B else {}
    return facts | ({"queue_full": True} if _FULL in text else {})


def pin(pid: int, core: int) -> None:
    """Let all threads of a process run on one core alone; those it starts later do as well."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), {core})


def at_once(runs: list[Slice]) -> list[dict[str, Any]]:
    """Sysbench on all these servers at the same time, each with clients that are connected already;
    text in ``sysbench.txt``, usage of each server until its own load has ended."""
    patience, stolen = 3 * runs[0].seconds + child.PATIENCE_S, steal()
    for run in runs:
        run.gated.go()
    before = [(meter({"server": run.server}), _counters(run)) for run in runs]

    def ended(run: Slice, was: tuple[_Meters, _Meters]) -> dict[str, Any]:
        code, text, cpu = run.gated.wait(patience)
        usage, counted = used(was[0], meter({"server": run.server})), used(was[1], _counters(run))
        argv = workloads.portable(load_argv(run, run.seconds))
        facts = outcome(argv, code, usage, cpu, stolen) | counted
        return facts | ({"queue_full": True} if _FULL in text else {})

    with ThreadPoolExecutor(len(runs)) as executor:
        try:
            return list(executor.map(ended, runs, before))
        except BaseException:  # the other run is of no use alone
            for run in runs:
                run.gated.process.kill()
            raise


# -- which functions a server spends its time in ---------------------------------------------------


def profile(run: Slice) -> dict[str, Any]:
    """One sysbench run with `perf` beside it: which functions of the server, and of the kernel for
    it, its processor time was spent in. Samples by function in ``perf.csv``. Raises NotHere."""
    perf, workload = which("perf"), run.workload.name
    if not perf:
        raise NotHere(workload, "perf is missing (package linux-perf)")
    data = run.server.folder / "perf.data"
    record = [perf, "record", "-q", "-e", "cpu-clock", "-F", str(_SAMPLES_PER_S), "-o", str(data)]
    try:
        with Child([*record, "-a"]) as recorder:  # one process alone: new threads would be missed
            for _ in looks(child.PATIENCE_S):  # its file is empty until it samples
                if recorder.ended or (data.exists() and data.stat().st_size):
                    break
            facts = {} if recorder.ended else sysbench(run)
            os.kill(recorder.process.pid, signal.SIGINT)  # send_signal would take its exit code
            code, printed, _ = recorder.wait(child.PATIENCE_S)
        if not data.exists() or code not in (0, -signal.SIGINT):
            raise NotHere(workload, f"perf recorded nothing: {' '.join(printed.split())[:300]}")
        report = [perf, "report", "-i", str(data), "--stdio", "-q", "--no-children"]
        report += ["-F", "sample,sym", "-t", ";", "--pid", str(run.server.pid)]
        code, printed, _ = child.run(report, child.PATIENCE_S)
    finally:
        data.unlink(missing_ok=True)
    rows = re.findall(r"(?m)^\s*(\d+)\s*;\s*\[(.)\]\s+(\S.*?)\s*$", printed)
    if code or not rows:
        raise NotHere(workload, f"perf reported nothing: {' '.join(printed.split())[:300]}")
    with open(run.folder / "perf.csv", "w", newline="") as file:
        csv.writer(file).writerows([("samples", "of", "function"), *rows])
    return facts


# -- clean restart, crash recovery, warm-up --------------------------------------------------------


def restart(run: Slice) -> dict[str, Any]:
    """Kill a server under load (kill -9) once the workload's `redo_mb` are written since the last
    checkpoint; let it recover, restart it cleanly, and let it warm up.

    Seconds until the first answered query, both times; those of the warm-up by `stats.within.mser5`;
    transactions per second since the restart in ``throughput.csv``, the text in ``load.txt``."""
    server, began, stolen = run.server, time.monotonic(), steal()
    argv = load_argv(run, math.ceil(run.seconds + 2 * child.PATIENCE_S))
    with Child(argv, run.folder / "killed.txt") as load:  # without its server it ends, but slowly
        age = _redo_since(server, 1e6 * run.workload.redo_mb, load)
        ended = load.ended
        server.kill()
    recovery_s = server.start()
    if ended:
        raise load.failed()
    stop_s = server.stop()
    restart_s = server.start()
    server.set(run.variables)
    with Child(argv, run.folder / "load.txt") as load:
        rows = _throughput(server, run.seconds)
        if load.ended:
            raise load.failed()
    if not any(n for _, n in rows[len(rows) // 2 :]):
        raise ToolError("the load on the server stood still")
    table = "".join(f"{t:.3f},{n:.1f}\n" for t, n in rows)
    (run.folder / "throughput.csv").write_text(f"t_s,tps\n{table}")
    cut = mser5([n for _, n in rows])
    return {
        "argv": workloads.portable(load_argv(run, run.seconds)),
        "exit_code": 0,
        "usage": {"server": server.usage()},
        "steal_s": round(steal() - stolen, 3),
        "slice_s": round(time.monotonic() - began, 3),
        "stop_s": round(stop_s, 3),
        "restart_s": round(restart_s, 3),
        "recovery_s": round(recovery_s, 3),
        "warmup_s": round(rows[max(cut - 1, 0)][0], 3),
        "checkpoint_age_B": age,
        "data_B": sum(p.stat().st_size for p in server.datadir.rglob("*.ibd")),
    }


def _redo_since(server: Server, wanted_B: float, load: Child) -> float:
    """Wait until so many bytes of redo were written since the last checkpoint, or the load has
    ended; how many there are."""
    for _ in looks(child.PATIENCE_S):
        now, checkpoint = innodb.redo(server)
        if now - checkpoint >= wanted_B or load.ended:
            return now - checkpoint
    raise ToolError(
        f"{(now - checkpoint) / 1e6:.1f} of {wanted_B / 1e6:g} MB of redo since the last"
        f" checkpoint after {child.PATIENCE_S:g} s"
    )


def _throughput(server: Server, seconds: float) -> list[tuple[float, float]]:
    """Samples of the throughput: (seconds since the first look, commits per second since the last)."""
    began = time.monotonic()
    at, count, rows = 0.0, server.status("Com_commit")["Com_commit"], []
    while at < seconds:
        time.sleep(_SAMPLE_S)
        now, total = time.monotonic() - began, server.status("Com_commit")["Com_commit"]
        rows.append((now, (total - count) / (now - at)))
        at, count = now, total
    return rows
