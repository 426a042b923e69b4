"""sysbench 0.4 to 1.1, and scripts that print its report (tpcc): a run from `parse.sysbench`."""

import re

from noisefloor import parse
from noisefloor.model import METRICS
from noisefloor.parse.base import Result, with_line_feeds
from noisefloor.parse.forms import FORMS, compiled
from noisefloor.parse.sysbench_text import EVENTS, FAILED, split_runs  # noqa: F401  # a Tool's
from noisefloor.tools.base import Run

NAME = "sysbench"
WRAPS = False
MUST = ("tool", "test", "statements a transaction", "tables", "table-size", "rate")

_SIGN = re.compile(
    r"\n(?:sysbench v?[0-9]+\.[0-9]+[.: ]|Running the test with following options:"
    r"|SQL statistics:|OLTP test statistics:|General statistics:\n +total time:"
    r"|Throughput:\n +events/s \(eps\):|\[ *[0-9.]+s ?\] (?:thds|threads): )"
)
_BEGUN = ("\nRunning the test with", "\nThreads started!", EVENTS, "thds: ")
# options that say where and how long, not what; threads and duration are compared separately
_PRIVATE = {
    "threads", "num-threads", "time", "max-time", "events", "max-requests", "report-interval",
    "histogram", "percentile", "rand-seed", "test", "rate", "db-driver", "verbosity", "debug",
    *(f"{server}-{what}" for server in ("mysql", "pgsql") for what in
      ("host", "port", "socket", "user", "password", "db")),
}  # fmt: skip


def recognises(text: str) -> bool:
    return _SIGN.search(text.replace("\0", "")) is not None


def chore(text: str | bytes) -> str | None:
    """`prepare`, `cleanup` or `prewarm`, or None."""
    try:
        text = with_line_feeds(text)
    except ValueError:
        return None
    if any(sign in text for sign in _BEGUN) or FAILED.search(text):
        return None
    chores = FORMS["chore"].items()
    return next((name for name, sign in chores if compiled(sign).search(text)), None)


def read_run(name: str, piece: str) -> Run:
    return from_result(name, parse.sysbench(piece))


def from_result(name: str, result: Result) -> Run:
    """The run of a result of `parse.sysbench`."""
    database = bool(result["transactions"])
    rate, latency = "tps" if database else "events_per_s", result["latency"]
    buckets, counts = result["histogram_s"], result["histogram_counts"]
    values = {rate: result[rate], "mean_latency": latency["mean"]}
    for metric in (m for m in METRICS.values() if m.quantile and m.judged):
        values[metric.name] = latency["percentile"].get(round(100 * metric.quantile, 6))
        if counts.size:
            values[metric.name] = parse.quantile(buckets, counts, metric.quantile)
    more = {"min_latency": latency["min"], "max_latency": latency["max"]}
    more |= {k: result[k] for k in ("qps", "ignored_errors", "reconnects")}
    more |= {f"p{share:g}": value for share, value in latency["percentile"].items()}
    odd = ("ignored_errors", "reconnects")
    notes = [*result["warnings"], *(f"{result[k]} {k.replace('_', ' ')}" for k in odd if result[k])]
    keys = {"tool": NAME, "test": result["test"]}
    if database and result["reads"] is not None:
        each = (round(result[k] / result["transactions"]) for k in ("reads", "writes", "other"))
        keys["statements a transaction"] = "{} read, {} write, {} other".format(*each)
    keys |= {k: v for k, v in result["options"].items() if k not in _PRIVATE}
    keys |= {"sysbench version": result["version"], "rate": result["rate"] or "none"}
    rows = result["intervals"].get(rate)
    values = {k: v for k, v in values.items() if v is not None}
    return Run(
        name,
        values,
        result["threads"],
        {k: v for k, v in keys.items() if v is not None},
        result["duration_s"],
        rows[result["intervals"]["ok"]] if rows is not None else None,
        tuple(notes),
        MUST,
        more={k: v for k, v in more.items() if v is not None and k not in values},
        workload=result["test"],
        access=_access(result),
        version=result["version"],
        host=result["options"].get("mysql-host"),
        options=result["options"],
        intervals=_intervals(result),
        histogram=(buckets, counts) if counts.size else None,
    )


def _access(result: Result) -> str:
    """RO, RW or WO, by the statements that a run counts; "" where it does not count them."""
    reads, writes = result["reads"], result["writes"]
    if not result["transactions"] or None in (reads, writes):
        return ""
    return "RW" if reads and writes else "WO" if writes else "RO"


def _intervals(result: Result) -> Result:
    """The rows with the queue of a run at a rate, where both are there."""
    rows, queue = result["intervals"], result["queue"]
    if rows and len(queue.get("length", ())) == len(rows["t_s"]):
        return rows | {"queue_length": queue["length"], "concurrency": queue["concurrency"]}
    return rows
