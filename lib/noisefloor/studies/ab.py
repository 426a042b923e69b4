"""A study of the reader's own settings: every combination of values against the first one."""

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

from noisefloor import schedule
from noisefloor.model import (
    SIDE_BY_SIDE,
    Arm,
    Profile,
    Request,
    Resolved,
    Study,
    StudyError,
    Workload,
)
from noisefloor.servers import kinds

# 2,048 clients, each with some fifty prepared statements
MANY = {"max_connections": "2200", "max_prepared_stmt_count": "1000000"}
# variables that Noisefloor itself sets, and those that would end its connections
_OURS = {
    *("basedir", "bind_address", "datadir", "init_file", "lc_messages_dir", "log_error", "mysqlx"),
    *("offline_mode", "pid_file", "plugin_dir", "port", "read_only", "secure_file_priv"),
    *("skip_networking", "socket", "super_read_only", "tmpdir", "user"),
}
# these act only when a table is created or loaded, but the arms share the loaded tables
_AT_LOAD = {
    *("default_storage_engine", "default_table_encryption", "innodb_default_row_format"),
    *("innodb_encrypt_tables", "innodb_file_per_table", "innodb_page_size"),
}
# a live server takes these, but applies them in the background for a while
SLOWLY = {"innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity"}
_MOST_ARMS = 15

_CLIENTS = 64  # at a rate: enough that transactions wait in the server, not in sysbench
RATE_MOST = 100_000  # sysbench's queue holds no more transactions
_SHARE_MOST = 90  # percent of a capacity that may be offered
WINDOW_S = (8, 120)  # least and most seconds of a window
LEADS = 3  # of several rates the first gives the answer: its windows are three times as long
_ENOUGH = 1_150  # transactions of a window: ten of them are slower than its 99th percentile, even
# if fewer arrive by chance


def offered(rate: int | str) -> tuple[int, int]:
    """(transactions a second, percent) of a rate like 500 or "25%": one of both is 0. Raises
    StudyError."""
    match = re.fullmatch(r"([0-9]{1,6})(%?)", str(rate))
    number, share = (int(match[1]), bool(match[2])) if match else (0, False)
    if not 1 <= number <= (_SHARE_MOST if share else RATE_MOST):
        raise refused(
            f"rate {rate}: a whole number of transactions a second from 1 to {RATE_MOST:,} is"
            f" needed, or a share of what the baseline can do, from 1% to {_SHARE_MOST}%"
        )
    return (0, number) if share else (number, 0)


def share_of(tps: float, percent: int) -> int:
    """So many percent of a capacity of `tps`, to two digits, from 1 to RATE_MOST."""
    return min(max(int(float(f"{tps * percent / 100:.1e}")), 1), RATE_MOST)


def at_rate(
    work: Workload, rate: int, threads: tuple[int, ...] = (), longer: int = 1, only: str = ""
) -> Workload:
    """`work` with `rate` transactions a second offered to each server. `longer`: times the shortest
    sufficient window; `only`: the one arm that is measured at this rate, "" for all."""
    many = threads or (_CLIENTS,)
    least, most = WINDOW_S
    seconds = min(max(least, math.ceil(longer * _ENOUGH / rate)), most)
    return replace(
        work,
        name=f"{work.name}, {rate:,} a second",
        threads=many,
        rate=rate,
        slices={str(t): seconds for t in many},
        only_at={str(t): only for t in many if only},
        metrics=(
            *("p99", "cpu_per_transaction", "mean_latency", "p95"),
            *(m for m in work.metrics if m.startswith(("binlog_", "read_"))),  # a disk is shared
        ),
        deciding=("p99", "cpu_per_transaction"),
    )


def refused(why: str) -> StudyError:
    """The error for a request that cannot be measured; `why`: without its last clause."""
    return StudyError(f"{why}; nothing was measured")


def asked(settings: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Variable -> its values, the baseline's first, from texts ``VARIABLE=VALUE,VALUE``; a value
    with commas is in single quotes. Raises StudyError."""
    by_name: dict[str, tuple[str, ...]] = {}
    for text in [settings] if isinstance(settings, str) else settings:
        name, equals, rest = text.partition("=")
        name = name.strip().lower().replace("-", "_")
        if not (equals and re.fullmatch(r"[a-z_][a-z0-9_.]*", name) and text.isprintable()):
            raise refused(
                f"{text!r}: VARIABLE=VALUE,VALUE is needed, such as binlog_encryption=OFF,ON"
            )
        if name in _OURS:
            raise refused(f"{name} has a fixed value, without which Noisefloor cannot measure")
        if name in _AT_LOAD:
            raise refused(
                f"{name} acts when tables are created, and both arms share the loaded ones:"
                " the study tablespace-encryption loads tables for each arm"
            )
        row = next(csv.reader([rest], quotechar="'", skipinitialspace=True)) or [""]
        values = tuple(v.strip() for v in row)
        twice = {v.casefold() for v in values}
        if name in by_name or len(twice) < len(values):
            raise refused(f"{text}: a variable or value occurs twice")
        by_name[name] = values
    if not any(len(v) > 1 for v in by_name.values()):
        raise refused(
            "nothing to compare: a variable with two values or more is needed, such as"
            " binlog_encryption=OFF,ON"
        )
    return by_name


def ab_study(request: Request, resolved: Resolved, profile: Profile, *, declared: bool) -> Study:
    """The study of the user's own settings: every combination of their values against the first one.
    A variable with one value has it in all arms. A server that Noisefloor did not start is only
    switched by SQL. A rate is offered to both servers at once; if a share is not resolved yet, the
    study is the closed loop that measures the capacity. declared: whether the profile's budget is
    for the whole question, not for one arm. Raises StudyError."""
    given, threads, lua = asked(request.settings), request.threads, request.lua
    guest, rate = bool(request.server), resolved.rate or request.rate
    known, engine = kinds.all_kinds(), resolved.engine or request.engine
    kind = known.get(engine.partition("-")[0], known[kinds.USUAL])  # a path counts as MySQL
    several = {n: v for n, v in given.items() if len(v) > 1}
    fixed = {n: v[0] for n, v in given.items() if len(v) == 1}
    combinations = [dict(zip(several, v, strict=True)) for v in product(*several.values())]
    if len(combinations) > _MOST_ARMS + 1:
        raise refused(
            f"{len(combinations)} combinations are more than {_MOST_ARMS + 1}, which no budget"
            " settles: ask about fewer variables or values at a time"
        )
    start = bool(set(resolved.static) & set(several))
    base = combinations[0]

    def arm(values: dict[str, str]) -> Arm:
        differs = {n: v for n, v in values.items() if v != base[n]} or values
        expect = dict(values)
        if (log := values.get("binlog_encryption", values.get("encrypt_binlog"))) is not None:
            expect["binlog"] = "encrypted" if log.upper() in ("ON", "1") else "plain"
        name = ", ".join(f"{n}={v}" for n, v in differs.items())
        values = values | (fixed if guest else {})
        if start:
            return Arm(name, settings=values, expect=expect)
        return Arm(name, switch=values, expect=expect)

    if not declared:
        profile = replace(profile, budget_min=profile.budget_min * (len(combinations) - 1))
    # a gigabyte of memory, two of redo log, no cache of the system's
    usual = {"innodb_buffer_pool_size": "1G", kind.REDO: "2G", "innodb_flush_method": "O_DIRECT"}
    common = {k: v for k, v in usual.items() if k not in several} | MANY
    if any("binlog" in n for n in given):
        common |= kind.LOGS
    script = Path(lua).name if lua else request.workload
    names = " and ".join(several)
    many = (1, 4, 16, 64) if profile.name == "standard" else profile.threads
    load = Workload(
        script.removesuffix(".lua"),
        "A script of the reader's own." if lua else "A script of sysbench, as it comes.",
        script=script,
        threads=threads or many,
        sized=resolved.sized,
        digest=resolved.digest,
    )
    apart = start or (rate != 0 and not guest)
    if start:  # switched, a server may write what the other arm has changed
        load = replace(load, metrics=(*load.metrics, "disk_bytes_per_transaction"))
    if rate != 0:
        number, share = offered(rate)
        if share and guest:
            raise refused(
                f"rate {rate}: to find out the capacity of a server that Noisefloor did not start"
                " would load it to the full; a number of transactions a second is needed"
            )
        # a share: in a closed loop, in windows of the least length
        load = replace(at_rate(load, number or RATE_MOST, threads), rate=number)
    study = Study(
        name=f"ab-{'-'.join(several)[:48]}".replace("_", "-").replace(".", "-").rstrip("-"),
        title="; ".join(f"{n}: {' or '.join(v)}" for n, v in several.items()),
        question=f"What does {'changing ' * (len(combinations) > 2)}{names} cost?",
        baseline=arm(base),
        arms=tuple(map(arm, combinations[1:])),
        workloads=(load,),
        design=SIDE_BY_SIDE if apart else "switched",
        profile=profile,
        settings=common | fixed,
        tables=1 if script.startswith("select_random_") else 5,  # they read one table
        keyring=True,
        margin_pct=float(request.margin_pct),
    )
    if rate != 0 and not declared:  # a window is longer than a slice
        minutes = max(profile.budget_min, schedule.quickest_min(study))
        study = replace(study, profile=replace(profile, budget_min=minutes))
    return study
