"""Results of several sysbench clients that ran at once, each on its own host -> one run."""

import numpy as np

from noisefloor.parse.base import ParseError, Result
from noisefloor.parse.rows import quantile

_SUMS = (
    *("threads", "events", "transactions", "queries", "reads", "writes", "other"),
    *("ignored_errors", "reconnects"),
)
_RATES = (
    *("tps", "events_per_s", "qps", "reads_per_s", "writes_per_s", "other_per_s"),
    *("errors_per_s", "reconnects_per_s", "threads"),
)


def together(runs: list[Result], starts: list[float]) -> Result:
    """One result, in the form of `sysbench`, from those of clients that ran at once.

    runs: results of `sysbench`; starts: when each began, in s of one clock. Counts are added,
    histograms merged, the mean latency is that of all events. `tps` is that of the window in which
    all of them ran, `duration_s` long; a client's rows, and its mean beyond the last row, say how
    much of it lies inside. The rows are those that all clients have; a percentile of rows cannot
    be added and is left out. Raises ParseError when there is no such window."""
    begin = max(starts)
    end = min(s + r["duration_s"] for r, s in zip(runs, starts, strict=True))
    if end <= begin:
        raise ParseError(1, "", f"{len(runs)} clients that did not all run at the same time")
    first = runs[0]
    added = {k: None if first[k] is None else sum(r[k] for r in runs) for k in _SUMS}
    inside = sum(_inside(r, begin - s, end - s) for r, s in zip(runs, starts, strict=True))
    values, counts = histogram(runs)
    latency = [r["latency"] for r in runs]
    shares = set.intersection(*(set(each["percentile"]) for each in latency))
    total = sum(each["sum"] for each in latency)
    late = begin - min(starts)
    return first | added | {
        "clients": len(runs),
        "duration_s": end - begin,
        "tps": inside / (end - begin),
        "events_per_s": inside / (end - begin),
        "qps": None if first["qps"] is None else sum(r["qps"] for r in runs),
        "latency": {
            "min": min(each["min"] for each in latency),
            "mean": total / added["events"] if added["events"] else 0.0,
            "max": max(each["max"] for each in latency),
            "sum": total,
            "percentile": {q: quantile(values, counts, q / 100) for q in shares if counts.sum()},
        },
        "histogram_s": values,
        "histogram_counts": counts,
        "intervals": _rows(runs),
        "queue": {},
        "warnings": [f"client {i + 1}: {w}" for i, r in enumerate(runs) for w in r["warnings"]]
        + ([f"the last client began {late:.1f} s after the first"] if late > 0.5 else []),
    }  # fmt: skip


def _inside(run: Result, begin: float, end: float) -> float:
    """Transactions of a run between two times, in s since its own start."""
    rows, n = run["intervals"], run["transactions"] or run["events"]
    at, count = [0.0], [0.0]
    if rows:
        rates = rows.get("tps", rows.get("events_per_s"))
        kept = rows["t_s"] < run["duration_s"]
        at += list(rows["t_s"][kept])
        count += list(np.cumsum(rates * np.diff(rows["t_s"], prepend=0.0))[kept])
    at.append(run["duration_s"])
    count.append(max(n, count[-1]))
    return float(np.interp(end, at, count) - np.interp(begin, at, count))


def histogram(runs: list[Result]) -> tuple[np.ndarray, np.ndarray]:
    """(bucket values in s, events in each) of all runs; sysbench's buckets are always the same."""
    values = np.concatenate([r["histogram_s"] for r in runs])
    counts = np.concatenate([r["histogram_counts"] for r in runs])
    values, turn = np.unique(values, return_inverse=True)
    return values, np.bincount(turn, counts, len(values)).astype(int)


def _rows(runs: list[Result]) -> Result:
    """The rows whose whole second every run has, with rates and threads added."""
    tables = [r["intervals"] for r in runs]
    if not all(tables):
        return {}
    seconds = [np.round(t["t_s"]) for t in tables]
    shared = seconds[0]
    for more in seconds[1:]:
        shared = np.intersect1d(shared, more)
    which = [np.searchsorted(s, shared) for s in seconds]
    sums = {
        c: sum(t[c][w] for t, w in zip(tables, which, strict=True))
        for c in _RATES
        if all(c in t for t in tables)
    }
    ok = np.all([t["ok"][w] for t, w in zip(tables, which, strict=True)], axis=0)
    return {"t_s": shared, **sums, "ok": ok}
