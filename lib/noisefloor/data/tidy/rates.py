"""Windows at a rate: which are saturated, and the percentiles of a block."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from noisefloor.model import BEYOND, METRICS, QUANTILES
from noisefloor.parse import RESOLUTION, histogram

if TYPE_CHECKING:
    from noisefloor.data.tidy.numbers import Run

_LEAST = 0.99  # share of the arrived transactions that a server has to finish
_DISTANT = 4.0  # standard deviations by which the arrivals of a window may fall short


def window(out: dict[str, Any], rate: float, clients: int) -> dict[str, float]:
    """reached_rate (1/s), queue_length (mean number of waiting transactions), clients_busy (share
    of the samples in which all `clients` were busy; NaN without a sample) and saturated (0 or 1) of
    one window at `rate` (1/s). out: what sysbench printed.

    Saturated: less than 99 % of the transactions that arrived were finished; or all through the
    second half over `BEYOND` more waited and ran than ever in the first; or too few arrived."""
    n, seconds, queue = out["transactions"], out["duration_s"], out["queue"]
    waits, served = (np.asarray(queue.get(k, ()), float) for k in ("length", "concurrency"))
    inside = waits + served
    arrived = n + (waits[-1] if waits.size else 0)
    half = inside.size // 2
    room = max((1 - _LEAST) * arrived, 1.0)
    grown = max(room, BEYOND)  # short windows have bursts
    grows = half > 0 and inside[half:].min() > inside[:half].max() + grown
    wanted = rate * seconds
    lacks = not n or n < arrived - room or arrived < wanted - _DISTANT * math.sqrt(wanted)
    return {
        "reached_rate": n / seconds,
        "queue_length": float(waits.mean()) if waits.size else 0.0,
        "clients_busy": float((served >= clients).mean()) if served.size else math.nan,
        "saturated": float(grows or lacks),
    }


def by_block(table: pd.DataFrame, runs: Iterable["Run"]) -> pd.DataFrame:
    """The tidy table with the latency percentiles of each block, pooled over all windows of a
    comparison, as rows of its first window. Of a pair with a saturated window only `saturated` and
    `steal` are left."""
    if not table["metric"].eq("saturated").any():
        return table
    flags = table[table["metric"].eq("saturated") & ~table["warmup"]]
    full = set(flags.loc[flags["value"] > 0, "pair_id"])
    kept = table[~table["pair_id"].isin(full) | table["metric"].isin(["saturated", "steal"])]
    windows = flags[~flags["pair_id"].isin(full)].set_index("run")
    texts = {run.name: run.sysbench for run in runs if run.name in windows.index}
    windows = windows[windows.index.isin(texts)]
    # in turn a block holds pairs of several arms: each is compared with the baseline beside it
    sides = windows.groupby("pair_id")["arm"].agg(lambda arms: " ".join(sorted(arms)))
    key = ["workload", "threads", "block", windows["pair_id"].map(sides).rename("sides"), "arm"]
    percentiles = []
    for _, rows in windows.groupby(key, sort=False):
        known = pooled_quantiles([texts[run] for run in rows.index], QUANTILES.values())
        values = {name: known[q] for name, q in QUANTILES.items() if q in known}
        first = rows.iloc[0].to_dict() | {"run": rows.index[0]}
        percentiles += [
            first | {"metric": m, "value": v, "unit": METRICS[m].unit} for m, v in values.items()
        ]
    if not percentiles:
        return kept.reset_index(drop=True)
    more = pd.DataFrame(percentiles)[table.columns].astype(table.dtypes)
    return pd.concat([kept, more], ignore_index=True)


def pooled_quantiles(texts: list[dict[str, Any]], asked: Iterable[float]) -> dict[float, float]:
    """Quantile -> seconds, over the transactions of all these windows; only the quantiles that at
    least `BEYOND` transactions exceed."""
    buckets, counts = histogram(texts)
    n = counts.sum()
    return {q: within(buckets, counts, q) for q in asked if n * (1 - q) >= BEYOND - 1e-9}


def within(buckets_s: np.ndarray, counts: np.ndarray, q: float) -> float:
    """Quantile `q` in s of a histogram of sysbench's. A bucket reaches half of RESOLUTION to either
    side of its value, on the log scale; its transactions are assumed to lie evenly in it."""
    total = np.cumsum(counts)
    rank = q * total[-1]
    at = min(int(np.searchsorted(total, rank)), len(counts) - 1)
    share = (rank - (total[at] - counts[at])) / counts[at]
    return float(buckets_s[at] * (1 + RESOLUTION) ** (share - 0.5))


def saturated(table: pd.DataFrame, baseline: str) -> dict[str, dict[str, list[int]]]:
    """Workload -> arm -> [windows in which it or the baseline was saturated, all its windows]."""
    flags = table[table["metric"].eq("saturated") & ~table["warmup"]]
    full = flags[flags["value"] > 0].groupby("workload")["pair_id"].agg(set).to_dict()
    counts: dict[str, dict[str, list[int]]] = {}
    for (workload, arm), rows in flags[flags["arm"] != baseline].groupby(["workload", "arm"]):
        pairs = set(rows["pair_id"])
        both = [len(pairs & full.get(workload, set())), len(pairs)]
        counts.setdefault(str(workload), {})[str(arm)] = both
    return counts
