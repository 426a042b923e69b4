"""sysbench of 0.4 to 1.1, and what prints its report (the tpcc scripts): one run of `parse.sysbench`."""

import re

from noisefloor import parse
from noisefloor.model import METRICS
from noisefloor.parse.base import Result, plain
from noisefloor.parse.forms import FORMS, compiled
from noisefloor.parse.sysbench_text import EVENTS, FAILED, runs
from noisefloor.tools.base import Run

__all__ = ["NAME", "WRAPS", "chore", "of", "recognises", "run", "runs"]

NAME = "sysbench"
WRAPS = False
MUST = ("tool", "test", "statements a transaction", "tables", "table-size", "rate")

_SIGN = re.compile(
    r"\n(?:sysbench v?[0-9]+\.[0-9]+[.: ]|Running the test with following options:"
    r"|SQL statistics:|OLTP test statistics:|General statistics:\n +total time:"
    r"|Throughput:\n +events/s \(eps\):|\[ *[0-9.]+s ?\] (?:thds|threads): )"
)
_BEGUN = ("\nRunning the test with", "\nThreads started!", EVENTS, "thds: ")
# options that say where and how long, not what; threads and duration are looked at by themselves
_PRIVATE = {
    "threads", "num-threads", "time", "max-time", "events", "max-requests", "report-interval",
    "histogram", "percentile", "rand-seed", "test", "rate", "db-driver", "verbosity", "debug",
    *(f"{server}-{what}" for server in ("mysql", "pgsql") for what in
      ("host", "port", "socket", "user", "password", "db")),
}  # fmt: skip


def recognises(text: str) -> bool:
    return _SIGN.search(text.replace("\0", "")) is not None


def chore(text: str | bytes) -> str | None:
    """prepare, cleanup or prewarm."""
    try:
        text = plain(text)
    except ValueError:
        return None
    if any(sign in text for sign in _BEGUN) or FAILED.search(text):
        return None
    chores = FORMS["chore"].items()
    return next((name for name, sign in chores if compiled(sign).search(text)), None)


def run(name: str, piece: str) -> Run:
    return of(name, parse.sysbench(piece))


def of(name: str, d: Result) -> Run:
    """The run of a result of `parse.sysbench`."""
    database = bool(d["transactions"])
    rate, latency = "tps" if database else "events_per_s", d["latency"]
    values = {rate: d[rate], "mean_latency": latency["mean"]}
    for quantile in (m for m in METRICS.values() if m.quantile and m.judged):
        values[quantile.name] = latency["percentile"].get(round(100 * quantile.quantile, 6))
        if d["histogram_counts"].size:
            counted = (d["histogram_s"], d["histogram_counts"])
            values[quantile.name] = parse.quantile(*counted, quantile.quantile)
    more = {"min_latency": latency["min"], "max_latency": latency["max"]}
    more |= {k: d[k] for k in ("qps", "ignored_errors", "reconnects")}
    more |= {f"p{share:g}": value for share, value in latency["percentile"].items()}
    odd = ("ignored_errors", "reconnects")
    notes = [*d["warnings"], *(f"{d[k]} {k.replace('_', ' ')}" for k in odd if d[k])]
    keys = {"tool": NAME, "test": d["test"]}
    if database and d["reads"] is not None:
        each = (round(d[k] / d["transactions"]) for k in ("reads", "writes", "other"))
        keys["statements a transaction"] = "{} read, {} write, {} other".format(*each)
    keys |= {k: v for k, v in d["options"].items() if k not in _PRIVATE}
    keys |= {"sysbench version": d["version"], "rate": d["rate"] or "none"}
    rows = d["intervals"].get(rate)
    values = {k: v for k, v in values.items() if v is not None}
    return Run(
        name,
        values,
        d["threads"],
        {k: v for k, v in keys.items() if v is not None},
        d["duration_s"],
        rows[d["intervals"]["ok"]] if rows is not None else None,
        tuple(notes),
        MUST,
        more={k: v for k, v in more.items() if v is not None and k not in values},
        workload=d["test"],
        access=_access(d),
        version=d["version"],
        host=d["options"].get("mysql-host"),
        options=d["options"],
        intervals=_intervals(d),
        histogram=(d["histogram_s"], d["histogram_counts"]) if d["histogram_counts"].size else None,
    )


def _access(d: Result) -> str:
    """What the text of a run says that it did: RO, RW or WO, or "" where it does not count it."""
    reads, writes = d["reads"], d["writes"]
    if not d["transactions"] or None in (reads, writes):
        return ""
    return "RW" if reads and writes else "WO" if writes else "RO"


def _intervals(d: Result) -> Result:
    """The rows with the queue of a run at a rate, where both are there."""
    rows, queue = d["intervals"], d["queue"]
    if rows and len(queue.get("length", ())) == len(rows["t_s"]):
        return rows | {"queue_length": queue["length"], "concurrency": queue["concurrency"]}
    return rows
